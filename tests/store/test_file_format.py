"""The page about the file says what is so: its examples are real rows, its definitions those of the file."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from filled import empty, keep, rows

from alpineagents.history import wording
from alpineagents.history.codec import decode, encode
from alpineagents.history.entries import ENTRY_CLASSES
from alpineagents.history.replay import fold
from alpineagents.state import State
from alpineagents.store.derived import GENERATED
from alpineagents.store.describe import DESCRIPTIONS
from alpineagents.store.rows import entry_data, entry_row
from alpineagents.types import IMAGE_TYPES, Image, ToolOutcomeKind

PAGE = (Path(__file__).parents[2] / "docs" / "file-format.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = sorted([json.loads(text) for language, text in BLOCKS if language == "json"], key=lambda row: row["seq"])
STATEMENTS = [text for language, text in BLOCKS if language == "sql"]
QUERIES = [text for text in STATEMENTS if text.startswith("SELECT")]
DEFINITIONS = [text for text in STATEMENTS if text.startswith("CREATE")]
PIXEL = Image(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da63fccf5083ff1f"
        "00058302ff9f0ff9b50000000049454e44ae426082"
    )
)


def form(row: dict[str, Any]) -> dict[str, Any]:
    """The JSON form of an example row."""
    return entry_data("run", columns(row), Anything(PIXEL.data))


def columns(row: dict[str, Any]) -> tuple[Any, ...]:
    data = json.dumps(row["data"], ensure_ascii=False, separators=(",", ":"))
    return (row["seq"], row["kind"], row["turn"], row["at"], row.get("closes"), row.get("block"), data, None)


class Anything(dict[str, bytes]):
    """The same bytes under every hash."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def get(self, key: str, default: Any = None) -> Any:
        return self.data


def whole_run() -> State:
    return State(id="run", history=[decode(form(row)) for row in EXAMPLES])


def with_the_run() -> sqlite3.Connection:
    connection = empty()
    keep(connection, whole_run())
    return connection


def test_the_examples_are_one_whole_run() -> None:
    assert [row["seq"] for row in EXAMPLES] == list(range(len(EXAMPLES)))
    now = fold([decode(form(row)) for row in EXAMPLES])
    links = [(None, None) if closing is None else (closing.seq, closing.block) for closing in now.closings]
    assert [(row.get("closes"), row.get("block")) for row in EXAMPLES] == links


@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: f"{row['seq']}-{row['kind']}")
def test_an_example_is_the_row_that_the_library_writes(row: dict[str, Any]) -> None:
    entry = decode(form(row))
    written = entry_row("run", encode(entry, row["seq"]), [])
    state_id, seq, kind, turn, at, _, _, data, original = written
    assert (state_id, seq, kind, turn, at, original) == (
        "run",
        *[row[key] for key in ("seq", "kind", "turn", "at")],
        None,
    )
    assert data == columns(row)[6]


def test_every_kind_has_an_example() -> None:
    assert {row["kind"] for row in EXAMPLES} == set(ENTRY_CLASSES)


@pytest.mark.parametrize("kind", ENTRY_CLASSES)
def test_every_key_of_an_example_is_explained_beside_it(kind: str) -> None:
    section = section_of(kind)
    for row in EXAMPLES:
        if row["kind"] == kind:
            for key in keys(row["data"], kind):
                assert f"`{key}`" in section, f"{kind}: {key}"


def section_of(kind: str) -> str:
    sections = re.split(r"^### ", PAGE, flags=re.MULTILINE)
    return next(text for text in sections if kind in text.partition("\n")[0].split(", "))


def keys(data: dict[str, Any], kind: str) -> list[str]:
    content = data["content"]
    deep = isinstance(content, dict) and kind not in ("extra_data", "stop")
    inner = [f"content.{key}" for key in content] if deep else ["content"]
    return [*inner, *[key for key in data if key != "content"]]


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_every_column_has_its_sentence_on_the_page(name: str) -> None:
    described = DESCRIPTIONS[name]
    found = [column for (column,) in rows(empty(), f"SELECT name FROM pragma_table_xinfo('{name}') ORDER BY cid")]
    assert sorted(found) == sorted(described.columns)
    assert f"### {name}\n\n{described.sentence}" in PAGE
    lines = [f"| `{column}` | {sentence} |" for column, sentence in described.columns.items()]
    assert "\n".join(lines) in PAGE


def test_every_table_and_view_is_described() -> None:
    made = rows(
        empty(), "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE '\\_%' ESCAPE '\\'"
    )
    assert {name for (name,) in made} == set(DESCRIPTIONS)


def test_the_generated_columns_are_said_to_begin_where_they_do() -> None:
    names = list(DESCRIPTIONS["entries"].columns)
    assert names[names.index("tool") :] == list(GENERATED)


def test_the_definitions_are_those_of_the_file() -> None:
    made = rows(empty(), "SELECT sql FROM sqlite_master WHERE tbl_name IN ('states', 'entries', 'blobs') AND sql <> ''")
    assert "".join(DEFINITIONS).replace(";\n", "\n").strip().split("\nCREATE ") == [
        sql if number == 0 else sql.removeprefix("CREATE ") for number, (sql,) in enumerate(sorted_as_on_the_page(made))
    ]


def sorted_as_on_the_page(made: list[tuple[str]]) -> list[tuple[str]]:
    return sorted(made, key=lambda row: PAGE.index(row[0]))


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.split("\n")[0])
def test_a_query_of_the_page_works(query: str) -> None:
    with_the_run().execute(query).fetchall()


def test_nearly_every_query_of_the_page_finds_something_in_the_example() -> None:
    connection = with_the_run()
    silent = [query for query in QUERIES if not connection.execute(query).fetchall()]
    assert [query.split("\n")[0] for query in silent] == [
        "SELECT states.id, states.updated_at, tool_calls.tool, tool_calls.args"  # the example is not open
    ]


def test_the_words_of_the_page_are_those_of_the_library() -> None:
    for word in [*ToolOutcomeKind, *IMAGE_TYPES, wording.STOPPED_WAITING]:
        assert f"`{word}`" in PAGE
    for status in ("idle", "open", "answered", "finished", "limit", "permission", "failed", "interrupted"):
        assert f"| `{status}` |" in PAGE
