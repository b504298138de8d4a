"""Deep and wide trees: every level knows what is below it, in memory and in the file."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from runs import started
from subagents.family import Act, ask, below, children, parent, ran

from alpineagents import Agent, SqliteStore, State
from alpineagents.store import check
from alpineagents.testing import FakeModel
from alpineagents.types import Message, Reply, TextBlock, Usage

DEPTH, WIDTH = 5, 40
SPENT = Usage(input_tokens=100, output_tokens=10, requests=1, cost=0.25)


def spending(*contents: object) -> list[object]:
    """Replies that each used the same."""
    return [
        Reply(Message("assistant", [TextBlock(each) if isinstance(each, str) else each]), usage=SPENT)  # type: ignore[list-item]
        for each in contents
    ]


def tree() -> Agent:
    """An Agent that asks for many subagents at once, each with a line of further ones below."""
    lowest = below(model=FakeModel(spending(*["ok"] * WIDTH)), name="level5")
    for level in range(DEPTH - 1, 0, -1):
        asked = {False: ask("t1", name=f"level{level + 1}"), True: "ok"}

        def reply(request: object, asked: dict[bool, object] = asked) -> object:
            (made,) = spending(asked[len(request.messages) > 1])  # type: ignore[attr-defined]
            return made

        lowest = below(model=FakeModel([reply] * 2 * WIDTH), name=f"level{level}", tools=[lowest])
    calls = [ask(f"t{number}", name="level1") for number in range(WIDTH)]
    return parent(lowest, calls=calls)


def all_below(state: State) -> list[State]:
    return [each for child in children(state) for each in (child, *all_below(child))]


@pytest.mark.timeout(120)
def test_forty_lines_of_five_agree_in_memory_and_file(act: Act, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with SqliteStore(path) as store:
        state = ran(act, tree().copy(store=store), started(id="top"))
        found = all_below(state)
        assert len(found) == len({each.id for each in found}) == DEPTH * WIDTH
        for each in [state, *found]:
            loaded = store.load(each.id)
            assert loaded.snapshot() == each.snapshot()
            assert (loaded.parent_id, loaded.parent_call_id) == (each.parent_id, each.parent_call_id)
    line = 2 * (DEPTH - 1) + 1  # each level asks twice, but the lowest
    assert Counter(each.usage.requests for each in children(state)) == {line: WIDTH}
    assert Counter(each.usage.cost for each in children(state)) == {line * 0.25: WIDTH}
    assert state.usage.requests == 2 + WIDTH * line
    with closing(sqlite3.connect(path)) as connection:
        depths = connection.execute("SELECT depth, count(*) FROM subagent_tree WHERE root_id = 'top' GROUP BY depth")
        assert dict(depths) == {0: 1, **dict.fromkeys(range(1, DEPTH + 1), WIDTH)}
        (spent,) = connection.execute("SELECT count(*) FROM model_calls WHERE input_tokens IS NOT NULL").fetchone()
        assert spent == state.usage.requests
    assert check(path) == []
