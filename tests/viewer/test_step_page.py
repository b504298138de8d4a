"""Time travel: the State after its first N entries is what the library's own fold says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from datasette_alpineagents import folds
from runs import agent, call, started
from viewer.conftest import EXAMPLE, Site, main_of

from alpineagents import SqliteStore, State, tool
from alpineagents.history.replay import value_at
from alpineagents.state import journal_of
from alpineagents.types import Message, result_text

IDS = [EXAMPLE, "coder-7c2e", "tester-51aa", "triage-b91f", "release-322", "msgpack-9e13"]


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    folds._cache.clear()


def simple(message: Message) -> list[Any]:
    """Role and texts of a message, as far as the JSON has them."""
    return [message.role, *[text_of(block) for block in message.content]]


def text_of(block: Any) -> Any:
    if hasattr(block, "call_id"):
        return result_text(block.content)
    return getattr(block, "text", getattr(block, "name", None))


def shown(data: dict[str, Any]) -> list[Any]:
    return [[message["role"], *[said(block) for block in message["content"]]] for message in data["messages"]]


def said(block: dict[str, Any]) -> Any:
    return next((block[name] for name in ("text", "content", "name") if name in block), None)


@pytest.mark.parametrize("id", IDS)
def test_at_every_length_it_is_what_the_fold_says(site: Site, examples: Path, id: str) -> None:
    now = journal_of(SqliteStore(examples).load(id)).now
    entries = site.data(f"/runs/-/runs/{id}.json")["state"]["entry_count"]
    for length in range(entries + 1):
        then, data = value_at(now, length), site.data(f"/runs/-/runs/{id}/at/{length}.json")
        assert shown(data) == [simple(message) for message in then.messages.whole()]
        assert [one["id"] for one in data["pending_calls"]] == [one.id for one in then.pending_calls]
        assert (data["turn"], data["finished"], data["usage"]["requests"]) == (
            then.turn,
            then.finished,
            then.usage.requests,
        )
        assert json.dumps(data["extra_data"], sort_keys=True) == json.dumps(dict(then.extra_data), sort_keys=True)


def test_the_order_in_which_steps_are_asked_for_changes_nothing(site: Site) -> None:
    lengths = [42, 0, 36, 35, 36, 7, 41, 42, 8]
    first = {length: site.data(f"/runs/-/runs/coder-7c2e/at/{length}.json") for length in lengths}
    folds._cache.clear()
    for length in sorted(lengths):
        assert site.data(f"/runs/-/runs/coder-7c2e/at/{length}.json") == first[length]
    assert len(folds._cache) <= folds.KEPT


def test_each_message_names_the_entry_it_came_from(site: Site) -> None:
    text = site.page("/runs/-/runs/coder-7c2e/at/35")
    origins = re.findall(r'class="aa-from"><a href="[^"]*#e(\d+)"', text)
    assert [int(seq) for seq in origins[:4]] == [0, 4, 5, 7]


def test_cleared_results_name_what_they_were_and_who_cleared_them(site: Site) -> None:
    text = site.page("/runs/-/runs/coder-7c2e/at/36")
    assert "aa-edge-cleared" in text
    assert re.search(r"cleared by <a[^>]*>e35</a>", text)
    assert "messages altered" in text
    assert re.search(r'class="aa-big">-[\d,]+<', text)


def test_two_points_of_a_run_can_be_compared(site: Site) -> None:
    text = site.page("/runs/-/runs/coder-7c2e/at/42?since=0")
    assert "What changed since 0" in text
    same = site.page("/runs/-/runs/coder-7c2e/at/42?since=42")
    assert "0 messages added, 0 removed" in same


@pytest.mark.parametrize("length", ["43", "99999", "-1", "x"])
def test_a_length_that_the_run_does_not_have(site: Site, length: str) -> None:
    assert site.get(f"/runs/-/runs/coder-7c2e/at/{length}").status_code == 404


def test_steps_lead_on(site: Site) -> None:
    text = site.page("/runs/-/runs/coder-7c2e/at/10")
    for other in (0, 9, 11, 42):
        assert f'href="/runs/-/runs/coder-7c2e/at/{other}"' in text
    assert re.search(r'href="/runs/-/runs/coder-7c2e/at/12"[^>]*>tool<', text)


def test_summaries_and_restores_are_told(serve: Callable[..., Site], tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "runs.db") as store:
        state = State(id="a", messages=[Message.user("one"), Message.assistant("two"), Message.user("three")])
        store.save(state)
        before = state.snapshot()
        state.compact("short")
        compacted = len(state.history)
        state.restore(before)
        store.save(state)
    told = serve(tmp_path / "runs.db")
    assert "aa-edge-summary" in told.page(f"/runs/-/runs/a/at/{compacted}")
    text = main_of(told.page(f"/runs/-/runs/a/at/{compacted + 1}"))
    assert "short" not in re.sub(r"<aside.*?</aside>", "", text, flags=re.DOTALL)


def test_notices_of_late_results_come_with_the_request(site: Site, examples: Path) -> None:
    data = site.data("/runs/-/runs/coder-7c2e.json")
    request = next(row for row in data["rows"] if row["kind"] == "model_request")
    assert f'/at/{request["seq"] + 1}"' in site.page("/runs/-/runs/coder-7c2e")


def test_a_run_that_grows_is_folded_on(serve: Callable[..., Site], tmp_path: Path) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "ok"

    path = tmp_path / "runs.db"
    with SqliteStore(path) as store:
        state = started(id="a")
        made = agent(call("look", "l1"), "Done", "More", tools=[look], store=store)
        made.run(state)
        growing = serve(path)
        before = len(state.history)
        assert growing.data(f"/runs/-/runs/a/at/{before}.json")["answer"] == "Done"
        state.add_message(Message.user("And?"))
        made.run(state)
        assert growing.data(f"/runs/-/runs/a/at/{len(state.history)}.json")["answer"] == "More"
