"""A person says yes and the process is killed: what ran had its approval in the file, and never runs a second time."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from durability.processes import Log, Process

from alpineagents import Agent, Human, SqliteStore, State, tool
from alpineagents.permissions import AllowByName, DecideByHuman
from alpineagents.store import check
from alpineagents.testing import FakeHuman, FakeModel
from alpineagents.types import ExchangeEntry, Message, ToolCall, ToolResultEntry

KILLS, SOAK_KILLS = 24, 300
LONGEST_S = 0.25


def shredding(log: Log) -> Any:
    @tool(parallel=False)
    def shred(box: int) -> str:
        """Shred.

        Args:
            box: Its number.
        """
        log.write("ran", box)
        time.sleep(0.001)
        return f"shredded {box}"

    return shred


class Yes(Human):
    """Says yes, and writes down to what."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def ask(self, state: State, prompt: str, returns: Any = str) -> str:
        self.log.write("asked", prompt)
        return "yes"


def approved(path: Path, log: Log) -> None:
    """A run in which every call needs a yes."""
    boxes = count()

    def reply(request: Any) -> list[ToolCall]:
        return [ToolCall("shred", {"box": box}, f"c{box}") for box in (next(boxes), next(boxes))]

    agent = Agent(
        FakeModel([reply] * 10_000),
        tools=[shredding(log)],
        permissions=[DecideByHuman()],
        human=Yes(log),
        store=SqliteStore(path),
        reporter=None,
    )
    agent.run(State(id="top", messages=[Message.user("Go")]))


def below(path: Path, log: Log) -> None:
    """The same in a subagent, whose person and permissions are those of the run above."""
    boxes = count()

    def reply(request: Any) -> list[ToolCall]:
        return [ToolCall("shred", {"box": box}, f"c{box}") for box in (next(boxes), next(boxes))]

    inner = Agent(FakeModel([reply] * 10_000), name="clerk", description="Shreds", tools=[shredding(log)])
    agent = Agent(
        FakeModel([ToolCall("clerk", {"prompt": "Go"}, "t1")]),
        tools=[inner],
        permissions=[AllowByName(["clerk"]), DecideByHuman()],
        human=Yes(log),
        store=SqliteStore(path),
        reporter=None,
    )
    agent.run(State(id="top", messages=[Message.user("Go")]))


def kill_once(folder: Path, work: Callable[[Path, Log], None], number: int, chance: random.Random) -> None:
    path, log = folder / f"{number}.db", Log(folder / f"{number}.log")
    process = Process(lambda: work(path, log))
    time.sleep(chance.random() * LONGEST_S)
    process.kill()
    ran = Counter(log.lines("ran"))
    with SqliteStore(path) as store:
        entries = [entry for info in store.list() for entry in store.load(info.id).history]
        said_yes = {entry.content.question for entry in entries if isinstance(entry, ExchangeEntry)}
        assert {f"Run shred(box={box})?" for box in ran} <= said_yes
        resume(store, log)
    assert set(Counter(log.lines("ran")).values()) <= {1}
    assert check(path) == [] if path.exists() else not ran


def resume(store: SqliteStore, log: Log) -> None:
    """Go on with every State: what was approved and open is closed, and not tried again."""
    for info in store.list():
        state = store.load(info.id)
        assert state.pending_calls == ()
        Agent(
            FakeModel(["Done"]),
            tools=[shredding(log)],
            permissions=[DecideByHuman()],
            human=FakeHuman([]),
            store=store,
            reporter=None,
        ).run(state)
        closed = Counter([entry.call.id for entry in state.history if isinstance(entry, ToolResultEntry)])
        assert set(closed.values()) <= {1}


@pytest.mark.filterwarnings("ignore::alpineagents.ResumeWarning")
@pytest.mark.parametrize("work", [approved, below])
def test_what_ran_was_approved_in_the_file_and_runs_once(tmp_path: Path, work: Callable[[Path, Log], None]) -> None:
    chance = random.Random()
    for number in range(KILLS // 2):
        kill_once(tmp_path, work, number, chance)


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::alpineagents.ResumeWarning")
@pytest.mark.parametrize("work", [approved, below])
def test_kill_after_kill_it_is_so(tmp_path: Path, work: Callable[[Path, Log], None]) -> None:
    chance = random.Random()
    for number in range(SOAK_KILLS // 2):
        kill_once(tmp_path, work, number, chance)
