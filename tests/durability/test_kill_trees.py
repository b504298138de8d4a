"""A tree of subagents that is killed at any instant: every State loads, every link resolves, usage counts once."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from durability.processes import Process

from alpineagents import Agent, SqliteStore, State
from alpineagents.history import wording
from alpineagents.store import check
from alpineagents.testing import FakeModel
from alpineagents.types import Message, Reply, TextBlock, ToolCall, ToolResultEntry, Usage

KILLS, SOAK_KILLS = 30, 300
DEPTH, WIDTH = 4, 5
LONGEST_S = 0.4
TURNS = 200


def reply(content: Any) -> Reply:
    block = TextBlock(content) if isinstance(content, str) else content
    return Reply(Message("assistant", [block]), usage=Usage(input_tokens=1, requests=1))


def asking(level: int, numbers: Any) -> Callable[[Any], Any]:
    """What a model below the top says: one call further down, then an answer."""

    def say(request: Any) -> Reply:
        if len(request.messages) > 1:
            return reply("ok")
        return reply(ToolCall(f"level{level + 1}", {"prompt": "Go"}, f"c{next(numbers)}"))

    return say


def tree(store: SqliteStore) -> Agent:
    """An Agent that asks for many subagents in each turn, each with a line of further ones below."""
    numbers = count()
    made = Agent(FakeModel([lambda request: reply("ok")] * 10_000), name=f"level{DEPTH}", description="Works")
    for level in range(DEPTH - 1, 0, -1):
        model = FakeModel([asking(level, numbers)] * 10_000)
        made = Agent(model, name=f"level{level}", description="Leads", tools=[made])

    def top(request: Any) -> list[Any]:
        return [ToolCall("level1", {"prompt": "Go"}, f"t{next(numbers)}") for _ in range(WIDTH)]

    return Agent(FakeModel([top] * TURNS), tools=[made], store=store, reporter=None, human=None)


def live(path: Path) -> None:
    tree(SqliteStore(path)).run(State(id="top", messages=[Message.user("Go")]))


def alive(path: Path) -> None:
    asyncio.run(tree(SqliteStore(path)).arun(State(id="top", messages=[Message.user("Go")])))


def used_below(state: State) -> int:
    return sum([entry.usage.requests for entry in results(state) if entry.usage is not None])


def results(state: State) -> list[ToolResultEntry]:
    return [entry for entry in state.history if isinstance(entry, ToolResultEntry)]


def assert_every_link_resolves(store: SqliteStore) -> dict[str, State]:
    states = {info.id: store.load(info.id) for info in store.list()}
    for state in states.values():
        if state.parent_id is not None:
            asked = [call.id for call in calls_of(states[state.parent_id])]
            assert state.parent_call_id in asked
        for child_id in counted_by(state):
            assert states[child_id].parent_id == state.id
            assert state.child(child_id).id == child_id
    return states


def calls_of(state: State) -> list[ToolCall]:
    return [block for message in state.messages for block in message.content if isinstance(block, ToolCall)]


def counted_by(state: State) -> list[str]:
    """The subagents of its closed calls."""
    return [id for entry in results(state) for id in entry.child_ids]


def assert_nothing_is_counted_twice(states: dict[str, State]) -> None:
    """A State counts its own requests, and what those whose calls it closed had used by then."""
    for state in states.values():
        own = sum([1 for entry in state.history if entry.kind == "model_reply"])
        assert state.usage.requests == own + used_below(state)
        counted = counted_by(state)
        assert len(counted) == len(set(counted))
        assert used_below(state) == sum([states[id].usage.requests for id in counted])


def assert_orphans_can_be_found(states: dict[str, State]) -> None:
    """A call that was open has no subagents on record; they know it themselves."""
    for state in states.values():
        for entry in results(state):
            if entry.content == wording.RESULT_UNKNOWN:
                assert (entry.child_ids, entry.usage) == ((), None)


def kill_once(folder: Path, work: Callable[[Path], None], number: int, chance: random.Random) -> None:
    path = folder / f"{number}.db"
    process = Process(lambda: work(path))
    time.sleep(chance.random() * LONGEST_S)
    process.kill()
    if not path.exists():
        return
    with SqliteStore(path) as store:
        states = assert_every_link_resolves(store)
        assert_orphans_can_be_found(states)
        assert_nothing_is_counted_twice(states)
        counted = {id for state in states.values() for id in counted_by(state)}
        for state in [state for id, state in states.items() if id not in counted]:
            before = state.usage.requests
            Agent(FakeModel(["Done"]), store=store, reporter=None, human=None).run(state)
            assert state.usage.requests - before in (0, 1)  # 0: it had its answer
        assert_nothing_is_counted_twice(assert_every_link_resolves(store))
    assert check(path) == []


@pytest.mark.filterwarnings("ignore::alpineagents.ResumeWarning")
@pytest.mark.parametrize("work", [live, alive])
def test_a_killed_tree_has_every_link_and_counts_once(tmp_path: Path, work: Callable[[Path], None]) -> None:
    chance = random.Random()
    for number in range(KILLS // 2):
        kill_once(tmp_path, work, number, chance)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::alpineagents.ResumeWarning")
@pytest.mark.parametrize("work", [live, alive])
def test_a_tree_killed_often_has_every_link_and_counts_once(tmp_path: Path, work: Callable[[Path], None]) -> None:
    chance = random.Random()
    for number in range(SOAK_KILLS // 2):
        kill_once(tmp_path, work, number, chance)
