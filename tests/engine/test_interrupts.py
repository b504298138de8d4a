"""Ctrl+C, cancellation and late results: nothing is lost, nothing is told twice, and the State can go on."""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from histories import texts
from runs import (
    SECONDS,
    AsyncStep,
    Heard,
    Shelf,
    Step,
    agent,
    call,
    fake,
    interrupt,
    is_async,
    is_at_rest,
    next_late,
    next_recorded,
    since,
    soon,
    started,
    step,
    story,
    wait_for,
    written,
)

from alpineagents import Agent, Message, Model, ModelEvent, Reply, SqliteStore, State, ToolCall, Usage
from alpineagents.types import ToolResultEntry

Act = Callable[..., Any]
INTERRUPTED = "(interrupted by user)"
INTERRUPT_ERRORS = ("error: KeyboardInterrupt", "error: CancelledError")  # sync, and what asyncio makes of Ctrl+C


class Slow:
    """A sync tool that presses Ctrl+C once enough calls are under way, and ends when the test lets it."""

    def __init__(self, calls: int = 1, value: Callable[[str], Any] = lambda id: f"late {id}") -> None:
        self.calls = calls
        self.value = value
        self.begun: list[str] = []
        self.go = threading.Event()
        self.under_way = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, id: str) -> Any:
        with self._lock:
            self.begun.append(id)
            everybody = len(self.begun) == self.calls
        self.under_way.set()
        if everybody:
            interrupt()
        wait_for(self.go)
        return self.value(id)


def interrupted_run(act: Act, made: Agent, state: State) -> None:
    with pytest.raises(KeyboardInterrupt):
        act(made, "run", state)


# While the model works


class Interrupting(Model):
    name, context_window = "interrupting", 1000

    def respond(self, request: Any, on_text: Any = None, on_event: Any = None) -> Reply:
        interrupt()
        on_text("nobody hears this")  # which wakes the event loop, should it have begun to wait just before the signal
        raise AssertionError


def test_an_interrupt_while_the_model_works_takes_the_request_back(act: Act) -> None:
    heard, state = Heard(), started()
    interrupted_run(act, Agent(Interrupting(), reporter=heard, human=None), state)
    assert story(state)[:3] == ["context_change", "run_start", "model_request"]
    assert story(state)[3] in INTERRUPT_ERRORS
    assert len(state.history) == 4
    assert state.turn == 0
    assert is_at_rest(state)
    assert heard.events[:2] == ["run_start", "think_start"]
    assert heard.events[2:] in (["run_end KeyboardInterrupt"], ["run_end CancelledError"])


def test_after_a_cancel_what_a_models_thread_still_delivers_is_dropped() -> None:
    ended = threading.Event()
    told: list[BaseException] = []

    class Talking(Model):
        name, context_window = "talking", 1000

        def respond(self, request: Any, on_text: Any = None, on_event: Any = None) -> Reply:
            on_text("heard")
            wait_for(cancelled)
            try:
                for report in (lambda: on_text("not heard"), lambda: on_event(ModelEvent("retry", "again"))):
                    try:
                        report()
                    except asyncio.CancelledError as error:
                        told.append(error)
            finally:
                ended.set()
            return Reply(Message.assistant("x"), Usage())

    cancelled = threading.Event()
    heard, state = Heard(), started()

    async def main() -> None:
        run = asyncio.create_task(Agent(Talking(), reporter=heard, human=None).arun(state))
        while "text heard" not in heard.events:
            await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        cancelled.set()
        await soon(ended)

    asyncio.run(main())
    assert len(told) == 2
    assert heard.events == ["run_start", "think_start", "text heard", "run_end CancelledError"]
    assert "model_event" not in story(state)


# While tools run


def test_an_interrupt_while_a_tool_runs_closes_its_call(act: Act) -> None:
    slow, heard, state = Slow(), Heard(), started()
    made = agent(step("c1"), tools=[Step(slow)], reporter=heard)
    interrupted_run(act, made, state)
    error, *closed = since(state)
    assert error in INTERRUPT_ERRORS
    assert closed == [f"step interrupted: {INTERRUPTED}"]
    assert heard.events[-3:-1] == ["tool_start c1", f"tool_end c1 interrupted: {INTERRUPTED}"]
    assert heard.errors[0] is heard.errors[1]
    assert is_at_rest(state)
    slow.go.set()


def test_a_late_result_is_recorded_and_the_model_hears_of_it(act: Act) -> None:
    slow, state = Slow(value=lambda id: "lifted"), started()
    made = agent(call("crane", "c1", id="beam"), "all done", tools=[Step(slow, "crane")])
    interrupted_run(act, made, state)
    late = next_late(state)
    slow.go.set()
    wait_for(late)
    state.add_message(Message.user("And now?"))
    assert act(made, "run", state) == "all done"
    lines = since(state, "context_change")
    assert lines[3] in INTERRUPT_ERRORS
    assert [*lines[:3], *lines[4:]] == [
        "run_start",
        "model_request",
        "model_reply",
        f"crane interrupted: {INTERRUPTED}",
        "crane done late: lifted",
        "user",
        "run_start",
        "model_request",
        "model_reply",
        "stop: stopped by waiting_for_user",
    ]
    assert [entry.turn for entry in state.history[3:]] == [1, 1, 1, 1, 1, 1, 2, 2, 2]
    assert [m.text for m in fake(made).requests[1].messages][3:] == [
        "And now?",
        '[notice] interrupted crane(id="beam") finished later: lifted',
    ]
    assert State(history=state.history).snapshot() == state.snapshot()


def test_the_reporter_is_not_told_of_late_results(act: Act) -> None:
    slow, heard, state = Slow(), Heard(), started()
    interrupted_run(act, agent(step("c1"), tools=[Step(slow)], reporter=heard), state)
    before, late = list(heard.events), next_late(state)
    slow.go.set()
    wait_for(late)
    assert heard.events == before


def raises(error: BaseException) -> Callable[[str], Any]:
    def value(id: str) -> Any:
        raise error

    return value


@pytest.mark.parametrize(
    ("error", "outcome", "text"),
    [
        (OSError("cable"), "aborted", "(exception: OSError: cable)"),
        (KeyError(), "aborted", "(exception: KeyError: )"),
        (SystemExit(3), "aborted", "(exception: SystemExit: 3)"),
        (KeyboardInterrupt(), "interrupted", "(exception: KeyboardInterrupt: )"),
        (StopIteration("x"), "aborted", "(exception: StopIteration: x)"),
    ],
)
def test_a_late_exception_is_told_as_one(act: Act, error: BaseException, outcome: str, text: str) -> None:
    slow, state = Slow(value=raises(error)), started()
    made = agent(step("c1"), "on", tools=[Step(slow)])
    interrupted_run(act, made, state)
    late = next_late(state)
    slow.go.set()
    wait_for(late)
    entry = state.history[-1]
    assert isinstance(entry, ToolResultEntry)
    assert (entry.outcome, entry.content, entry.late) == (outcome, text, True)
    assert entry.error is error
    act(made, "run", state)
    assert texts(state)[-2] == f'[notice] interrupted step(id="c1") finished later: {text}'


def test_several_late_results_come_in_their_order(act: Act) -> None:
    turn = {"c1": threading.Event(), "c2": threading.Event()}

    def value(id: str) -> str:
        wait_for(turn[id])
        return id

    slow, state = Slow(2, value), started()
    made = agent([step("c1"), step("c2")], "on", tools=[Step(slow)])
    interrupted_run(act, made, state)
    slow.go.set()
    for id in ("c2", "c1"):
        late = next_late(state)
        turn[id].set()
        wait_for(late)
    act(made, "run", state)
    assert [text for text in texts(state) if text.startswith("[notice]")] == [
        '[notice] interrupted step(id="c2") finished later: c2',
        '[notice] interrupted step(id="c1") finished later: c1',
    ]


def test_what_had_ended_before_the_interrupt_is_recorded_as_usual(act: Act) -> None:
    def value(id: str) -> str:
        return id

    def quick_or_slow(id: str) -> Any:
        return value(id) if id == "c1" else slow(id)

    slow, heard, state = Slow(), Heard(), started()
    made = agent([step("c1"), step("c2", "alone"), step("c3", "alone")], reporter=heard)
    made = made.copy(tools=[Step(quick_or_slow), Step(quick_or_slow, "alone", parallel=False)])
    interrupted_run(act, made, state)
    lines = since(state)
    assert lines[0] == "step done: c1"
    assert lines[2:] == [f"alone interrupted: {INTERRUPTED}"] * 2
    assert heard.tool_starts == heard.tool_ends == ["c1", "c2"]  # c3 never started
    slow.go.set()


def test_calls_that_wait_for_a_thread_never_begin(act: Act) -> None:
    slow, heard, state = Slow(32), Heard(), started()
    made = agent([step(f"c{n}") for n in range(40)], tools=[Step(slow)], reporter=heard)
    interrupted_run(act, made, state)
    assert len(state.history) == 5 + 40
    assert Counter(heard.tool_starts) == Counter(heard.tool_ends) == Counter(f"c{n}" for n in range(40))
    recorded = [next_recorded(state, lambda e, id=f"c{n}": e.call.id == id) for n in range(32)]
    slow.go.set()
    for late in recorded:
        wait_for(late)
    assert sorted(slow.begun) == sorted(f"c{n}" for n in range(32))


@pytest.mark.parametrize("count", [1, 5])
def test_async_tools_are_cancelled_and_record_nothing_more(act: Act, count: int) -> None:
    cancelled: list[str] = []
    all_of_them = threading.Event()

    async def wait(id: str) -> None:
        if next(begun) == count:
            interrupt()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(id)
            if len(cancelled) == count:
                all_of_them.set()
            raise

    begun = itertools.count(1)  # atomic, because each of these tools has a thread of its own in a sync run
    heard, state = Heard(), started()
    made = agent([step(f"c{n}") for n in range(count)], "on", tools=[AsyncStep(wait)], reporter=heard)
    interrupted_run(act, made, state)
    wait_for(all_of_them)
    assert sorted(cancelled) == [f"c{n}" for n in range(count)]
    assert since(state)[1:] == [f"step interrupted: {INTERRUPTED}"] * count
    assert act(made, "run", state) == "on"
    assert not any(" late" in line for line in story(state))


def next_with(state: State, text: str) -> threading.Event:
    return next_recorded(state, lambda entry: isinstance(entry, ToolResultEntry) and text in str(entry.content))


def test_the_result_of_an_async_tool_that_swallows_its_cancellation_counts(act: Act) -> None:
    async def stubborn(id: str) -> str:
        interrupt()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "cleaned up"
        raise AssertionError

    state = started()
    recorded = next_with(state, "cleaned up")
    interrupted_run(act, agent(step("c1"), tools=[AsyncStep(stubborn)]), state)
    wait_for(recorded)
    # It may end before the run has closed its call.
    assert {"step done late: cleaned up", "step done: cleaned up"} & set(since(state))


def test_an_exception_of_an_async_tool_while_it_is_cancelled_counts(act: Act) -> None:
    async def clumsy(id: str) -> str:
        interrupt()
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("cannot clean up")

    state = started()
    recorded = next_with(state, "cannot clean up")
    interrupted_run(act, agent(step("c1"), tools=[AsyncStep(clumsy)]), state)
    wait_for(recorded)
    text = "(exception: OSError: cannot clean up)"
    assert {f"step aborted late: {text}", f"step aborted: {text}"} & set(since(state))


# Calls that are still pending when their tools end


def test_a_loop_that_catches_the_interrupt_finds_the_calls_pending_and_may_use_tools_again(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        try:
            yield agent, "use_tools", state
        except (KeyboardInterrupt, asyncio.CancelledError):
            assert [call.id for call in state.pending_calls] == ["c1"]
            yield agent, "use_tools", state

    def slow_then_quick(id: str) -> Any:
        return "quick" if slow.begun else slow(id)

    slow, heard, state = Slow(), Heard(), started()
    made = agent(step("c1"), tools=[Step(slow_then_quick)], reporter=heard, loop=written(act, body))
    if is_async(act):
        asyncio.run(cancelled_when_begun(made, state, slow))
    else:
        made.run(state)
    assert since(state) == ["step done: quick"]
    assert heard.tool_ends == ["c1", "c1"]
    late = next_late(state)
    slow.go.set()
    wait_for(late)
    assert since(state) == ["step done: quick", "step done late: late c1"]


async def cancelled_when_begun(made: Agent, state: State, slow: Slow) -> None:
    slow.calls = -1  # nobody presses Ctrl+C: the task is cancelled instead
    run = asyncio.create_task(made.arun(state))
    while not slow.begun:
        await asyncio.sleep(0)
    run.cancel()
    await run


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (lambda id: "lifted", "step done: lifted"),
        (raises(OSError("cable")), "step aborted: (exception: OSError: cable)"),
    ],
)
def test_a_call_that_is_still_pending_gets_a_late_end_as_its_result(
    act: Act, value: Callable[[str], Any], line: str
) -> None:
    slow, state = Slow(value=value), started()
    made = agent(step("c1"), "on", tools=[Step(slow)])
    act(made, "think", state)
    with pytest.raises(KeyboardInterrupt):
        act(made, "use_tools", state)
    assert since(state) == []
    assert len(state.pending_calls) == 1
    recorded = next_recorded(state, lambda entry: True)
    slow.go.set()
    wait_for(recorded)
    assert since(state) == [line]
    assert state.pending_calls == ()
    assert len(state.messages) == 3
    act(made, "think", state)
    assert not any(text.startswith("[notice]") for text in texts(state))


def test_a_later_call_that_uses_the_id_again_is_not_closed_by_a_late_result(act: Act) -> None:
    slow, state = Slow(), started()
    made = agent(step("c1"), step("c1"), "on", tools=[Step(slow)])
    interrupted_run(act, made, state)
    act(made, "think", state)
    assert [call.id for call in state.pending_calls] == ["c1"]
    late = next_late(state)
    slow.go.set()
    wait_for(late)
    assert [call.id for call in state.pending_calls] == ["c1"]
    assert story(state)[-1] == "step done late: late c1"


def test_a_tool_that_ends_while_the_interrupt_is_handled_is_recorded_and_told_once(act: Act) -> None:
    class Letting(Heard):
        """Lets the second call end, and waits for it, when it hears of the end of the first."""

        def on_tool_end(self, state: State, call: ToolCall, result: Any, outcome: Any) -> None:
            super().on_tool_end(state, call, result, outcome)
            if call.id == "c1":
                slow.go.set()
                wait_for(recorded)

    def first_or_slow(id: str) -> Any:
        return wait_for(never) if id == "c1" else slow(id)

    never = threading.Event()
    slow, heard, state = Slow(), Letting(), started()
    made = agent([step("c1"), step("c2")], tools=[Step(first_or_slow)], reporter=heard)
    recorded = next_recorded(state, lambda e: isinstance(e, ToolResultEntry) and e.call.id == "c2")
    interrupted_run(act, made, state)
    never.set()
    lines = since(state)
    assert lines[0] == "step done: late c2"
    assert lines[2:] == [f"step interrupted: {INTERRUPTED}"]
    assert heard.tool_starts == heard.tool_ends == ["c1", "c2"]
    assert "tool_end c2 done: late c2" in heard.events


def test_a_late_result_may_close_a_call_that_is_being_run_again(act: Act) -> None:
    def slow_then_slower(id: str) -> Any:
        if not slow.begun:
            return slow(id)
        slow.go.set()
        wait_for(recorded)
        return "too late"

    slow, heard, state = Slow(), Heard(), started()
    made = agent(step("c1"), tools=[Step(slow_then_slower)], reporter=heard)
    act(made, "think", state)
    with pytest.raises(KeyboardInterrupt):
        act(made, "use_tools", state)
    recorded = next_recorded(state, lambda entry: True)
    act(made, "use_tools", state)
    assert since(state) == ["step done: late c1"]
    assert heard.events[-2:] == ["tool_start c1", "tool_end c1 done: late c1"]


def test_a_late_result_that_cannot_be_saved_waits_for_the_next_save(act: Act, tmp_path: Path) -> None:
    class Full(SqliteStore):
        full = False

        def write(self, *args: Any, **arguments: Any) -> None:
            if self.full:
                refused.set()
                raise OSError("full")
            super().write(*args, **arguments)

    refused = threading.Event()
    slow, store, state = Slow(), Full(tmp_path / "runs.db"), started()
    interrupted_run(act, agent(step("c1"), tools=[Step(slow)], store=store), state)
    store.full = True
    slow.go.set()
    wait_for(refused)
    store.full = False
    state.add_message(Message.user("And now?"))
    assert store.load(state.id).history == state.history
    assert since(state)[-2:] == ["step done late: late c1", "user"]
    store.close()


# Interrupts of interrupts


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_the_reporter_while_one_is_handled_leaves_no_start_without_an_end(
    act: Act, kind: type[BaseException]
) -> None:
    slow, heard, state = Slow(20), Heard(tool_end=kind("second")), started()
    made = agent([step(f"c{n}") for n in range(20)], "on", tools=[Step(slow)], reporter=heard)
    with pytest.raises(kind):
        act(made, "run", state)
    slow.go.set()
    assert Counter(heard.tool_starts) == Counter(heard.tool_ends) == Counter(f"c{n}" for n in range(20))
    assert heard.events.count(f"run_end {kind.__name__}") == 1
    assert is_at_rest(state)
    assert act(made.copy(reporter=None), "run", state) == "on"


def an_interrupt(act: Act) -> BaseException:
    """What an interrupt is to a store: asyncio cancels what waits for it."""
    return asyncio.CancelledError("second") if is_async(act) else KeyboardInterrupt("second")


def test_an_interrupt_in_the_save_of_an_ended_run_comes_out_with_the_first_one_behind_it(act: Act) -> None:
    def failing(attempt: int, kinds: list[str]) -> None:
        if "error" in kinds:
            store.failing = None
            raise second

    second = an_interrupt(act)

    store, heard, state = Shelf(failing), Heard(), started()

    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        raise error

    error = OSError("first")
    made = agent("a", "on", store=store, reporter=heard, loop=written(act, body))
    with pytest.raises(type(second)) as raised:
        act(made, "run", state)
    assert error in contexts(raised.value)
    assert heard.events[-1] == f"run_end {type(second).__name__}"
    assert heard.errors == [raised.value]
    assert since(state) == ["error: OSError: first"]
    assert is_at_rest(state)


def contexts(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    behind = error.__context__
    while behind is not None:
        found.append(behind)
        behind = behind.__context__
    return found


def test_an_interrupt_in_the_save_behind_a_failed_tool_comes_out_with_the_tools_exception_behind_it(act: Act) -> None:
    def failing(attempt: int, kinds: list[str]) -> None:
        raise second if attempt == 3 else OSError("full")  # the batch is not saved, and then the end of the step

    error, second = KeyError("tool"), an_interrupt(act)
    store, state = Shelf(), started()
    made = agent(step("c1"), tools=[Step(raises(error))], store=store)
    act(made, "think", state)
    store.attempts, store.failing = 2, failing
    with pytest.raises(type(second)) as raised:
        act(made, "use_tools", state)
    assert error in contexts(raised.value)


def test_an_interrupt_in_the_save_of_a_batch_abandons_what_runs(act: Act) -> None:
    def failing(attempt: int, kinds: list[str]) -> None:
        if kinds == ["tool_result"]:
            wait_for(slow.under_way)
            store.failing = None
            raise second

    def quick_or_slow(id: str) -> Any:
        return "quick" if id == "c1" else slow(id)

    second = an_interrupt(act)
    store, heard, state, slow = Shelf(failing), Heard(), started(), Slow(calls=-1)
    made = agent([step("c1"), step("c2")], tools=[Step(quick_or_slow)], store=store, reporter=heard)
    with pytest.raises(type(second)):
        act(made, "run", state)
    lines = since(state)
    assert lines[0] == "step done: quick"
    assert lines[1].startswith(f"error: {type(second).__name__}")
    assert lines[2:] == [f"step interrupted: {INTERRUPTED}"]
    assert heard.tool_ends == ["c1", "c2"]
    late = next_late(state)
    slow.go.set()
    wait_for(late)


def test_a_timeout_around_a_run_is_a_cancellation() -> None:
    async def main() -> None:
        async with asyncio.timeout(None) as timeout:

            async def wait(id: str) -> None:
                timeout.reschedule(asyncio.get_running_loop().time())
                await asyncio.Event().wait()

            await agent(step("c1"), tools=[AsyncStep(wait)]).arun(state)

    state = started()
    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert since(state) == ["error: CancelledError", f"step interrupted: {INTERRUPTED}"]


def test_cancelling_one_run_does_not_disturb_another() -> None:
    async def main() -> str:
        go = asyncio.Event()

        async def wait(id: str) -> str:
            await go.wait()
            return id

        made = agent(step("c1"), step("c1"), "on", tools=[AsyncStep(wait)])
        one, other = asyncio.create_task(made.arun("One")), asyncio.create_task(made.arun("Other"))
        while len(fake(made).requests) < 2:
            await asyncio.sleep(0)
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
        go.set()
        return await other

    assert asyncio.run(main()) == "on"


# Processes


def script(code: str, tmp_path: Path) -> list[str]:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(code))
    return [sys.executable, str(path)]


PREAMBLE = """
import asyncio, sys, threading, time
from alpineagents import Agent, State, Message, tool, ToolResultEntry
from alpineagents.testing import FakeModel, tool_call

@tool
def sleep() -> str:
    "Sleep for ever"
    print("ready", flush=True)
    threading.Event().wait()

state = State(messages=[Message.user("Go")])
agent = Agent(FakeModel([tool_call("sleep")]), tools=[sleep], reporter=None, human=None)

def show():
    print(*[getattr(entry, "outcome", None) or entry.content for entry in state.history[-2:]], flush=True)
"""


@pytest.mark.parametrize(
    ("run", "error"), [("agent.run(state)", "KeyboardInterrupt"), ("asyncio.run(agent.arun(state))", "CancelledError")]
)
def test_ctrl_c_ends_a_process_whose_tool_still_runs(run: str, error: str, tmp_path: Path) -> None:
    code = PREAMBLE + f"try:\n    {run}\nexcept KeyboardInterrupt:\n    show()\n    sys.exit(7)\n"
    with subprocess.Popen(script(code, tmp_path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=SECONDS)
    assert out == f"{error} interrupted\n"
    assert process.returncode == 7


def test_a_handler_that_raises_system_exit_ends_a_run_cleanly(tmp_path: Path) -> None:
    code = (
        PREAMBLE
        + "import signal\nsignal.signal(signal.SIGTERM, lambda *args: sys.exit(9))\n"
        + "try:\n    agent.run(state)\nfinally:\n    show()\n"
    )
    with subprocess.Popen(script(code, tmp_path), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=SECONDS)
    assert out == "SystemExit: 9 aborted\n"
    assert process.returncode == 9
