"""Ctrl+C and cancellation at every wait of a run: whatever it cuts off, the State can run again."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from runs import AsyncStep, Heard, Shelf, Step, agent, fake, is_at_rest, started, step, story, wait_for

import alpineagents.agent
import alpineagents.loops
from alpineagents import Agent, Message, Model, Reply, SqliteStore, State
from alpineagents.state import journal_of
from alpineagents.testing import FakeModel
from alpineagents.types import ToolResultEntry
from alpineagents.waiting import Ready


class Failing:
    """`blocking`, with Ctrl+C before or behind the waits of these numbers."""

    def __init__(self, *where: tuple[int, bool]) -> None:
        self.where = set(where)
        self.count = 0

    def __call__(self, sync: Callable[..., Any], asynchronous: Any, /, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        number = self.count
        self.count += 1
        if (number, False) in self.where:
            raise KeyboardInterrupt(f"before {number}")
        value = sync(*args, **kwargs)
        if (number, True) in self.where:
            raise KeyboardInterrupt(f"behind {number}")
        return Ready(value)


def every_kind_of_call(id: str) -> str:
    if id.startswith("bad"):
        raise OSError(id)
    return id


async def aevery_kind_of_call(id: str) -> str:
    await asyncio.sleep(0)
    return every_kind_of_call(id)


def busy_agent(heard: Heard, store: Any, *more: Any) -> Agent:
    """An Agent whose first run has two turns with tools, and behind it replies that end a run."""
    tools = [
        Step(every_kind_of_call),
        Step(every_kind_of_call, "alone", parallel=False),
        AsyncStep(aevery_kind_of_call, "soon"),
    ]
    replies = [
        [step("c1"), step("c2", "ghost"), step("c3", "alone"), step("c4", "soon")],
        [step("c5", "alone"), step("c6", "soon")],
        "answer",
        *more,
    ]
    return agent(*replies, tools=tools, reporter=heard, store=store)


def check_laws(state: State, heard: Heard) -> None:
    """What holds when a run has ended, whatever interrupted it."""
    assert is_at_rest(state)
    assert Counter(heard.tool_starts) == Counter(heard.tool_ends)
    ends = Counter(entry.call.id for entry in state.history if isinstance(entry, ToolResultEntry) and not entry.late)
    asked = Counter(
        block.id for entry in state.history if entry.kind == "model_reply" for block in entry.content.tool_calls
    )
    assert ends == asked
    starts, run_ends = heard.events.count("run_start"), len([e for e in heard.events if e.startswith("run_end")])
    assert run_ends == starts
    assert State(history=state.history).snapshot() == state.snapshot()


def run_interrupted_at(monkeypatch: pytest.MonkeyPatch, *where: tuple[int, bool]) -> int:
    """Run with Ctrl+C at these waits, then run to the end; the number of waits so far."""
    heard, store, state, failing = Heard(), Shelf(), started(), Failing(*where)
    made = busy_agent(heard, store, *["answer"] * 3)
    with monkeypatch.context() as patched:
        patched.setattr(alpineagents.agent, "blocking", failing)
        patched.setattr(alpineagents.loops, "blocking", failing)
        try:
            made.run(state)
        except KeyboardInterrupt:
            check_laws(state, heard)
            assert state.stopped is None
        else:  # how many waits there are depends on which results come together
            assert not where or failing.count <= min(where)[0]
    state.add_message(Message.user("Go on"))
    made.run(state)
    check_laws(state, heard)
    assert store.load(state.id).history == state.history
    return failing.count


def test_ctrl_c_before_or_behind_any_wait_leaves_a_state_that_can_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = run_interrupted_at(monkeypatch)
    assert waits > 40
    for where in itertools.product(range(waits), [False, True]):
        run_interrupted_at(monkeypatch, where)


def test_two_ctrl_c_at_any_waits_leave_a_state_that_can_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = run_interrupted_at(monkeypatch)
    for first in range(0, waits, 2):
        for second in range(first + 1, first + 6):
            run_interrupted_at(monkeypatch, (first, True), (second, False))


def waits_of(monkeypatch: pytest.MonkeyPatch, act_by_hand: Callable[[], None], *where: tuple[int, bool]) -> int:
    """Act with Ctrl+C at these waits; how many there were."""
    failing = Failing(*where)
    with monkeypatch.context() as patched:
        patched.setattr(alpineagents.agent, "blocking", failing)
        try:
            act_by_hand()
        except KeyboardInterrupt:
            assert where
    return failing.count


def test_ctrl_c_at_any_wait_of_a_think_by_hand_leaves_no_request_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def think(*where: tuple[int, bool]) -> int:
        store, state = Shelf(), started()
        made = agent("a", "b", store=store)
        waits = waits_of(monkeypatch, lambda: made.think(state), *where)
        assert is_at_rest(state)
        state.add_message(Message.user("And now?"))
        made.think(state)
        assert store.load(state.id).history == state.history
        return waits

    for where in itertools.product(range(think()), [False, True]):
        think(where)


def test_ctrl_c_at_any_wait_of_use_tools_by_hand_leaves_calls_that_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def use(*where: tuple[int, bool]) -> int:
        heard, store, state = Heard(), Shelf(), started()
        made = busy_agent(heard, store)
        made.think(state)
        waits = waits_of(monkeypatch, lambda: made.use_tools(state), *where)
        assert Counter(heard.tool_starts) == Counter(heard.tool_ends)
        made.use_tools(state)
        assert state.pending_calls == ()
        store.save(state)
        assert store.load(state.id).history == state.history
        return waits

    for where in itertools.product(range(use()), [False, True]):
        use(where)


def test_a_cancelled_think_takes_back_a_request_that_waited_for_the_lock() -> None:
    async def main() -> None:
        think = asyncio.create_task(agent("a").athink(state))
        await asyncio.sleep(0)
        think.cancel()
        holding.set()
        with pytest.raises(asyncio.CancelledError):
            await think

    def hold() -> None:
        with journal_of(state)._lock:
            held.set()
            wait_for(holding)

    state, held, holding = started(), threading.Event(), threading.Event()
    holder = threading.Thread(target=hold)
    holder.start()
    wait_for(held)
    asyncio.run(main())
    holder.join()
    assert story(state)[1:] == ["model_request", "error: CancelledError"]
    assert is_at_rest(state)


class Stepping:
    """Awaits a coroutine and asks for the cancellation of its task at the suspensions of these numbers."""

    def __init__(self, steps: Any, *where: int) -> None:
        self.steps = steps
        self.where = where
        self.count = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self.steps.__await__()
        send: Callable[[], Any] = lambda: next(inner)  # noqa: E731  # what to do next, like the others below
        while True:
            try:
                waits_for = send()
            except StopIteration as done:
                return done.value
            if self.count in self.where:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            self.count += 1
            try:
                value = yield waits_for
                send = lambda value=value: inner.send(value)  # noqa: E731
            except BaseException as error:
                send = lambda error=error: inner.throw(error)  # noqa: E731


def run_cancelled_at(store: Any, *where: int) -> tuple[int, bool]:
    """Run with the task cancelled at these suspensions, then to the end; how many there were, and whether it worked."""
    heard, state = Heard(), started()
    made = busy_agent(heard, store, *["answer"] * 3)
    made = made.copy(model=Thinking(fake(made)))

    async def main() -> tuple[int, bool]:
        stepping = Stepping(made.arun(state), *where)
        cancelled = False
        try:
            await stepping
        except asyncio.CancelledError:
            cancelled = True
            task = asyncio.current_task()
            assert task is not None
            while task.uncancel():
                pass
            check_laws(state, heard)
            assert state.stopped is None
        state.add_message(Message.user("Go on"))
        await made.arun(state)
        check_laws(state, heard)
        return stepping.count, cancelled

    result = asyncio.run(main())
    assert store.load(state.id).history == state.history
    return result


class Thinking(Model):
    """A Model that suspends on the event loop, and again on a worker thread."""

    name, provider, context_window = "thinking", "fake", 200_000

    def __init__(self, inner: FakeModel) -> None:
        self.inner = inner

    def respond(self, request: Any, on_text: Any = None, on_event: Any = None) -> Reply:
        return self.inner.respond(request, on_text, on_event)

    async def arespond(self, request: Any, on_text: Any = None, on_event: Any = None) -> Reply:
        await asyncio.sleep(0)
        return await super().arespond(request, on_text, on_event)


@pytest.mark.parametrize("kind", ["plain", "sqlite"])
def test_a_cancellation_at_any_await_leaves_a_state_that_can_run_again(kind: str, tmp_path: Path) -> None:
    def store() -> Any:
        return Shelf() if kind == "plain" else SqliteStore(tmp_path / "runs.db", synchronous="normal")

    awaits, cancelled = run_cancelled_at(store())
    assert awaits > 15
    assert not cancelled
    for where in range(awaits):
        run_cancelled_at(store(), where)


def test_two_cancellations_leave_a_state_that_can_run_again() -> None:
    awaits, _ = run_cancelled_at(Shelf())
    for first in range(awaits):
        for second in range(first + 1, first + 4):
            run_cancelled_at(Shelf(), first, second)


def test_loops_of_the_package_are_patched_where_these_tests_patch_them() -> None:
    assert alpineagents.agent.blocking is alpineagents.loops.blocking
