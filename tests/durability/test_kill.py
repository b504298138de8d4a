"""A process that is killed at any instant has lost nothing whose call had returned, and can be gone on with."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from durability.processes import Log, Process

from alpineagents import Agent, SqliteStore, State, Tool, tool
from alpineagents.history import wording
from alpineagents.history.entries import MessageEntry, ToolResultEntry
from alpineagents.store import check
from alpineagents.testing import FakeModel
from alpineagents.types import Message, ToolCall, ToolOutcomeKind

KILLS, SOAK_KILLS = 60, 500
LONGEST_S = 0.25
PER_FILE = 6


def replies(numbers: Any) -> Callable[[object], list[Any]]:
    """Three calls at once, of a parallel tool twice and of one that runs alone."""

    def reply(request: object) -> list[Any]:
        names = ("work", "work", "alone")
        return ["Working", *[ToolCall(name, {"n": n}, f"c{n}") for name, n in zip(names, numbers, strict=False)]]

    return reply


def tools_of(state: State, log: Log, chance: random.Random) -> list[Tool]:
    def do(n: int) -> str:
        log.write("ran", n)
        log.write("meant", f"from tool {n}")
        state.add_message(Message.user(f"from tool {n}"))
        log.write("said", f"from tool {n}")
        time.sleep(chance.random() * 0.004)
        log.write("ended", n)
        return f"result {n}"

    @tool
    def work(n: int) -> str:
        """Work.

        Args:
            n: A number.
        """
        return do(n)

    @tool(parallel=False)
    def alone(n: int) -> str:
        """Work alone.

        Args:
            n: A number.
        """
        return do(n)

    return [work, alone]


def async_tools_of(state: State, log: Log, chance: random.Random) -> list[Tool]:
    work, alone = tools_of(state, log, chance)

    @tool
    async def awork(n: int) -> str:
        """Work.

        Args:
            n: A number.
        """
        log.write("ran", n)
        await asyncio.sleep(chance.random() * 0.004)
        log.write("ended", n)
        return f"result {n}"

    return [awork.copy(name="work") if chance.random() < 0.5 else work, alone]


def live(path: Path, state: State, log: Log, seed: int) -> None:
    """A run without an end, which says of each call that it returned, and how many entries there were."""
    chance = random.Random(seed)
    store = SqliteStore(path)
    model = FakeModel([replies(count(1))] * 10_000)

    def forever(agent: Agent, state: State) -> None:
        for turn in count():
            say(state, log, f"before turn {turn}")
            agent.think(state)
            log.write("entries", len(state.history))
            agent.use_tools(state)
            log.write("entries", len(state.history))
            with state.edit_extra_data() as data:
                data["turn"] = turn
            log.write("entries", len(state.history))

    if chance.random() < 0.5:
        store.save(state)
        log.write("entries", len(state.history))
    Agent(model, tools=tools_of(state, log, chance), loop=forever, store=store, reporter=None, human=None).run(state)


def alive(path: Path, state: State, log: Log, seed: int) -> None:
    """The same in an async run, with another run beside it in the same loop and file."""
    chance = random.Random(seed)
    store = SqliteStore(path)

    async def forever(agent: Agent, state: State) -> None:
        for turn in count():
            say(state, log, f"before turn {turn}")
            await agent.athink(state)
            log.write("entries", len(state.history))
            await agent.ause_tools(state)
            log.write("entries", len(state.history))

    async def beside(agent: Agent, state: State) -> None:
        while True:
            await agent.athink(state)
            await agent.ause_tools(state)

    def agent(state: State, log: Log, loop: Any) -> Agent:
        model = FakeModel([replies(count(1))] * 10_000)
        tools = async_tools_of(state, log, chance)
        return Agent(model, tools=tools, loop=loop, store=store, reporter=None, human=None)

    async def both() -> None:
        nobody = Log(Path("/dev/null"))
        other = State(messages=[Message.user("Go")])
        await asyncio.gather(agent(state, log, forever).arun(state), agent(other, nobody, beside).arun(other))

    asyncio.run(both())


def say(state: State, log: Log, text: str) -> None:
    log.write("meant", text)
    state.add_message(Message.user(text))
    log.write("said", text)


def assert_nothing_is_lost_or_invented(state: State, saved: int, log: Log) -> None:
    """`saved` entries of the loaded State were in the file."""
    assert saved >= max([int(number) for number in log.lines("entries")], default=0)
    entries = state.history[:saved]
    messages = [str(entry.content) for entry in entries if isinstance(entry, MessageEntry)]
    assert set(log.lines("said")) <= set(messages) <= set(log.lines("meant"))
    results = [entry for entry in entries if isinstance(entry, ToolResultEntry)]
    ended = set(log.lines("ended"))
    for entry in results:
        n = entry.call.args["n"]
        assert (entry.outcome, entry.content) == (ToolOutcomeKind.DONE, f"result {n}")
        assert str(n) in ended
    assert set(Counter([entry.call.id for entry in results]).values()) <= {1}
    assert set(Counter(log.lines("ran")).values()) <= {1}


def assert_it_can_be_gone_on_with(store: SqliteStore, state: State, saved: int, log: Log) -> None:
    assert state.pending_calls == ()
    for entry in state.history[saved:]:
        assert entry.content in (wording.RESULT_UNKNOWN, wording.STOPPED_WAITING)
    again = store.load(state.id)
    assert again.history[:saved] == state.history[:saved]
    tools = tools_of(state, log, random.Random(0))
    agent = Agent(FakeModel(["Done"]), tools=tools, store=store, reporter=None, human=None)
    assert agent.run(state) == "Done"
    assert store.load(state.id).snapshot() == state.snapshot()
    assert store.list()[0].id == state.id


def kill_once(folder: Path, work: Callable[..., None], number: int, chance: random.Random) -> None:
    path = folder / f"{number // PER_FILE}.db"
    log = Log(folder / f"{number}.log")
    state = State(messages=[Message.user("Go")])
    process = Process(lambda: work(path, state, log, number))
    time.sleep(chance.random() * LONGEST_S)
    process.kill()
    with SqliteStore(path) as store:
        record = store.read(state.id)
        if record is None:
            assert not log.lines("entries")
            assert not log.lines("said")
        else:
            loaded = store.load(state.id)
            assert_nothing_is_lost_or_invented(loaded, len(record.entries), log)
            assert_it_can_be_gone_on_with(store, loaded, len(record.entries), log)
        for info in store.list():
            store.load(info.id)
    log.close()
    assert check(path) == [] if path.exists() else record is None


@pytest.mark.parametrize("work", [live, alive])
def test_a_killed_process_has_lost_nothing_whose_call_had_returned(tmp_path: Path, work: Callable[..., None]) -> None:
    chance = random.Random()
    for number in range(KILLS // 2):
        kill_once(tmp_path, work, number, chance)


@pytest.mark.soak
@pytest.mark.parametrize("work", [live, alive])
def test_a_process_killed_often_has_lost_nothing(tmp_path: Path, work: Callable[..., None]) -> None:
    chance = random.Random()
    for number in range(SOAK_KILLS // 2):
        kill_once(tmp_path, work, number, chance)
