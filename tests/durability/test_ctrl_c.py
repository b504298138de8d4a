"""Ctrl+C and cancellation at any moment of a run: while the model streams, tools run, a person is asked, the file is
written. Afterwards nothing is open, memory and file agree, a provider would take the messages, and the run goes on."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from durability.processes import Process
from strict import refusals

from alpineagents import (
    Agent,
    Human,
    Message,
    Model,
    ModelEvent,
    Reply,
    Reporter,
    SqliteStore,
    State,
    Tool,
    Usage,
    tool,
)
from alpineagents.state import journal_of
from alpineagents.types import Request, TextBlock, ToolCall, ToolResultEntry

MOMENTS, SOAK_MOMENTS = 60, 500
PER_STATE = 10
LONGEST_S = 0.02
SECONDS = 20


class Slow(Model):
    """Streams, reports an event, and asks for three tools; to a question it says yes."""

    name = "slow"
    context_window = 10**9

    def __init__(self) -> None:
        self._ids = count()

    def respond(self, request: Request, on_text: Any = None, on_event: Any = None) -> Reply:
        assert refusals(request) == []
        for piece in ("y", "es"):
            time.sleep(0.001)
            if on_text is not None:
                on_text(piece)
        if on_event is not None:
            on_event(ModelEvent("retry", "asking again"))
        calls = [ToolCall(name, {}, f"c{next(self._ids)}") for name in ("work", "work", "alone")]
        blocks = (TextBlock("yes"), *(calls if request.tool_choice == "auto" else []))
        return Reply(Message("assistant", blocks), Usage(1, 1, requests=1))


class Patient(Human):
    def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
        time.sleep(0.002)
        return returns is bool or "yes"


class Pairs(Reporter):
    """Counts what begins and ends."""

    def __init__(self) -> None:
        self.open: Counter[str] = Counter()

    def on_run_start(self, state: State) -> None:
        self.open["run"] += 1

    def on_run_end(self, state: State, error: BaseException | None) -> None:
        self.open["run"] -= 1

    def on_tool_start(self, state: State, call: ToolCall) -> None:
        self.open[call.id] += 1

    def on_tool_end(self, state: State, call: ToolCall, content: Any, outcome: Any) -> None:
        self.open[call.id] -= 1


class AtWork:
    """How many tools are running, so that a test can wait for the late ones."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._count == 0, SECONDS)


def tools_of(at_work: AtWork) -> list[Tool]:
    @tool
    def work() -> str:
        """Work."""
        with at_work:
            time.sleep(0.002)
            return "worked"

    @tool(parallel=False)
    async def alone() -> str:
        """Work alone."""
        await asyncio.sleep(0.001)
        return "worked"

    return [work, alone]


def loop(agent: Agent, state: State) -> None:
    while True:
        agent.think(state)
        agent.use_tools(state)
        agent.ask_human(state, "Go on?", bool)
        agent.ask(state, "Done?")
        state.add_message(Message.notice("another turn"))


async def aloop(agent: Agent, state: State) -> None:
    while True:
        await agent.athink(state)
        await agent.ause_tools(state)
        await agent.aask_human(state, "Go on?", bool)
        await agent.aask(state, "Done?")
        state.add_message(Message.notice("another turn"))


def ctrl_c(agent: Agent, state: State, after: float) -> None:
    """Run it until Ctrl+C ends it; in an async run asyncio makes a cancellation of it."""
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        agent.run(state)


def ctrl_c_in_asyncio(agent: Agent, state: State, after: float) -> None:
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))

    async def main() -> None:
        timer.start()
        await agent.arun(state)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


def cancelled(agent: Agent, state: State, after: float) -> None:
    async def main() -> None:
        task = asyncio.create_task(agent.arun(state))
        asyncio.get_running_loop().call_later(after, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


End = Callable[[Agent, State, float], None]
ENDS: dict[str, tuple[Any, End]] = {
    "Ctrl+C": (loop, ctrl_c),
    "Ctrl+C in asyncio": (aloop, ctrl_c_in_asyncio),
    "cancellation": (aloop, cancelled),
}


def states() -> Iterator[State]:
    while True:
        state = State(messages=[Message.user("Go")])
        yield from [state] * PER_STATE


def press_again(lost: sys.UnraisableHookArgs) -> None:
    """Python drops an interrupt that comes in the callback of a weak reference; a person presses Ctrl+C once more."""
    assert lost.exc_type is KeyboardInterrupt, lost
    signal.setitimer(signal.ITIMER_REAL, 0.001)  # not from here: it would be dropped once more


def live(path: Path, how: str, moments: int, seed: int) -> None:
    for number in (signal.SIGINT, signal.SIGALRM):
        signal.signal(number, signal.default_int_handler)
    sys.unraisablehook = press_again
    chance, at_work, reporter = random.Random(seed), AtWork(), Pairs()
    body, end = ENDS[how]
    with SqliteStore(path) as store:
        made = Agent(
            Slow(), tools=tools_of(at_work), loop=body, reporter=reporter, human=Patient(), store=store, name="slow"
        )
        for _, state in zip(range(moments), states(), strict=False):
            end(made, state, chance.random() * LONGEST_S)
            at_work.wait()
            judge(store, state, reporter)


def judge(store: SqliteStore, state: State, reporter: Pairs) -> None:
    journal = journal_of(state)
    assert not (journal.now.waiting or state.pending_calls or journal.running or journal.compacting)
    assert set(reporter.open.values()) <= {0}, reporter.open
    results = [entry for entry in state.history if isinstance(entry, ToolResultEntry)]
    on_time = Counter([entry.call.id for entry in results if not entry.late])
    asked = Counter([call.id for message in state.messages for call in message.tool_calls])
    assert on_time == asked
    assert set(Counter([entry.call.id for entry in results if entry.late]).values()) <= {1}
    assert not state.messages or refusals(Request(None, state.messages)) == []
    store.save(state)
    assert store.load(state.id).snapshot() == state.snapshot()


@pytest.mark.parametrize("how", ENDS)
def test_a_run_that_is_interrupted_at_any_moment_leaves_nothing_open(how: str, tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    Process(lambda: live(tmp_path / "runs.db", how, MOMENTS // len(ENDS), seed)).ended()


@pytest.mark.soak
@pytest.mark.parametrize("how", ENDS)
def test_interrupted_many_times(how: str, tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    Process(lambda: live(tmp_path / "runs.db", how, SOAK_MOMENTS, seed)).ended()
