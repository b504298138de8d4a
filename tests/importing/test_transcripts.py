"""Whole recordings of other tools: what is in the source is in the States, counted in another way than the importer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from alpineagents import SqliteStore, State
from alpineagents.importing import FileReport, files_in, import_sources
from alpineagents.store import check
from alpineagents.types import (
    Image,
    MessageEntry,
    ModelReplyEntry,
    TextBlock,
    ToolOutcomeKind,
    ToolResultEntry,
)

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
SOURCES = [FIXTURES / "runs" / "swe-agent-marshmallow.traj", *sorted((FIXTURES / "transcripts").iterdir())]


def messages_of(source: Path) -> Iterator[dict[str, Any]]:
    """Every message that has a role and a content, wherever the format keeps them."""
    if source.suffix == ".jsonl":
        for line in source.read_text("utf-8").splitlines():
            record = json.loads(line)
            message = record.get("message") if isinstance(record, dict) else None
            if isinstance(message, dict) and "content" in message:
                yield message
        return
    document = json.loads(source.read_text("utf-8"))
    for sample in document.get("samples", [document]):
        yield from sample.get("messages") or sample.get("history")


def in_source(source: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for message in messages_of(source):
        content, role = message["content"], message["role"]
        blocks = content if isinstance(content, list) else [{"type": "text"}] if content else []
        kinds = Counter([block["type"] if isinstance(block, dict) else "text" for block in blocks])
        found["calls"] += len(message.get("tool_calls") or []) + kinds["tool_use"]
        found["results"] += (role == "tool") + kinds["tool_result"]
        found["images"] += kinds["image"]
        found["replies"] += role == "assistant"
        found["said"] += role == "user" and not kinds["tool_result"]
        found["system"] += role == "system"
    return +found


def in_states(states: list[State]) -> Counter[str]:
    found: Counter[str] = Counter()
    for state in states:
        for entry in state.history:
            if isinstance(entry, MessageEntry):
                found["said"] += 1
                found["images"] += sum(isinstance(block, Image) for block in entry.message.content)
            elif isinstance(entry, ModelReplyEntry):
                found["replies"] += 1
                found["calls"] += len(entry.content.tool_calls)
            elif isinstance(entry, ToolResultEntry):
                found["results"] += entry.outcome is not ToolOutcomeKind.INTERRUPTED
        found["system"] += "system" in state.extra_data["imported"]
    return +found


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_everything_in_the_source_is_in_the_states(
    source: Path, store: SqliteStore, take: Callable[..., FileReport]
) -> None:
    report = take(source)
    states = [store.load(id) for id in report.ids]
    assert in_states(states) == in_source(source)
    assert report.kept["calls"] == in_source(source)["calls"]
    assert report.kept["results"] == in_source(source)["results"]
    assert report.kept["messages"] == in_source(source)["replies"] + in_source(source)["said"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_a_state_that_was_imported_can_be_continued(
    source: Path, store: SqliteStore, take: Callable[..., FileReport]
) -> None:
    for id in take(source).ids:
        state = store.load(id)
        assert state.pending_calls == ()
        assert "open" not in [row["status"] for row in rows(store) if row["id"] == id]


def rows(store: SqliteStore) -> list[dict[str, Any]]:
    record = [(info.id, store.read(info.id)) for info in store.list()]
    return [{"id": id, **found.info} for id, found in record if found is not None]


def test_importing_a_folder_twice_changes_nothing(store: SqliteStore) -> None:
    first = list(import_sources(store, files_in([FIXTURES])))
    store.close()
    before = store.path.read_bytes()
    second = list(import_sources(store, files_in([FIXTURES])))
    store.close()
    assert store.path.read_bytes() == before
    assert sum(report.added for report in first) == sum(report.already for report in second) == 11
    assert sum(report.added + report.replaced for report in second) == 0
    assert check(store.path) == []


def test_the_damaged_lines_of_a_session_are_reported_and_the_rest_is_kept(take: Callable[..., FileReport]) -> None:
    report = take(FIXTURES / "transcripts" / "claude-code-edge-cases.jsonl")
    assert [str(note) for note in report.notes] == [
        "line 9 repaired: MultiEdit (tool_edge_002) has no result, closed as interrupted",
        "line 10 left out: its message has no content",
        "line 11 left out: its message is no object but str",
        "line 13 left out: not an object but a text",
        "line 14 left out: a line of the unknown kind None",
        "line 15 left out: not an object but a number",
        "line 16 left out: not an object but a list",
        "line 17 repaired: TodoWrite (toolu_todowrite_002) has no result, closed as interrupted",
        "line 18 repaired: its time 11:03:01 is before that of what stands before it",
        "line 18 repaired: a bare text among the blocks, kept as a text block",
    ]
    assert report.ids == ["edge_cases", "todowrite_session"]


def test_what_a_tool_printed_comes_through_to_the_byte(store: SqliteStore, take: Callable[..., FileReport]) -> None:
    source = FIXTURES / "runs" / "swe-agent-marshmallow.traj"
    (id,) = take(source).ids
    expected = [m["content"] for m in json.loads(source.read_text("utf-8"))["history"] if m["role"] == "tool"]
    found = [entry.content for entry in store.load(id).history if isinstance(entry, ToolResultEntry)]
    assert found == expected
    assert any("\r\n" in text for text in expected)


def test_an_image_of_a_log_is_the_bytes_it_was(store: SqliteStore, take: Callable[..., FileReport]) -> None:
    (id,) = take(FIXTURES / "transcripts" / "inspect-images.json").ids
    text, image = store.load(id).messages[0].content
    assert text == TextBlock("What is this a picture of?")
    assert isinstance(image, Image)
    assert image.media_type == "image/png"
    assert image.data.endswith(b"IEND\xaeB`\x82")
