"""Steps that are written once and run with or without an event loop, and calls on threads of their own."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from alpineagents.waiting import (
    Ready,
    Wait,
    awaiting,
    blocking,
    complete,
    enter_async_run,
    in_async_run,
    in_thread,
    leave_async_run,
    refuse_blocking,
)


class Odd(BaseException):
    """Not an Exception, like Ctrl+C, but nothing that asyncio treats in its own way."""


class OddStop(StopIteration):
    pass


class Clock:
    """A pair of functions, and which of them was called with what."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def read(self, zone: str, *, exact: bool = False) -> str:
        self.calls.append(("read", zone, exact, threading.current_thread()))
        return f"{zone} o'clock"

    async def aread(self, zone: str, *, exact: bool = False) -> str:
        await asyncio.sleep(0)
        self.calls.append(("aread", zone, exact, threading.current_thread()))
        return f"{zone} o'clock"


async def told(wait: Wait, clock: Clock) -> list[str]:
    return [await wait(clock.read, clock.aread, "UTC"), await wait(clock.read, clock.aread, "CET", exact=True)]


def test_blocking_steps_call_the_first_function_on_this_thread() -> None:
    clock, here = Clock(), threading.current_thread()
    assert complete(told(blocking, clock)) == ["UTC o'clock", "CET o'clock"]
    assert clock.calls == [("read", "UTC", False, here), ("read", "CET", True, here)]


def test_awaiting_steps_await_the_second_function() -> None:
    clock, here = Clock(), threading.current_thread()
    assert asyncio.run(told(awaiting, clock)) == ["UTC o'clock", "CET o'clock"]
    assert clock.calls == [("aread", "UTC", False, here), ("aread", "CET", True, here)]


def test_blocking_answers_before_it_is_awaited() -> None:
    clock = Clock()
    answer = blocking(clock.read, clock.aread, "UTC")
    assert len(clock.calls) == 1
    assert isinstance(answer, Ready)


def test_an_answer_that_is_there_can_be_awaited_again() -> None:
    ready = Ready([1])

    async def twice() -> bool:
        return await ready is await ready

    assert complete(twice())


def test_blocking_steps_need_no_event_loop_and_make_none() -> None:
    def ask() -> str:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        return "none"

    async def step() -> str:
        return await blocking(ask, never)

    assert complete(step()) == "none"


def test_blocking_steps_run_inside_a_running_event_loop_too() -> None:
    async def main() -> list[str]:
        return complete(told(blocking, Clock()))

    assert asyncio.run(main()) == ["UTC o'clock", "CET o'clock"]


async def never() -> Any:
    pytest.fail("the asynchronous half was awaited")


def raises(error: BaseException) -> Callable[[], Any]:
    def function() -> Any:
        raise error

    return function


async def failing(error: BaseException) -> Any:
    return await blocking(raises(error), never)


async def around(step: Coroutine[Any, Any, Any]) -> Any:
    return await step


RAISED = [
    ValueError("a"),
    RuntimeError("b"),
    KeyboardInterrupt(),
    SystemExit(3),
    GeneratorExit(),
    asyncio.CancelledError(),
]


@pytest.mark.parametrize(
    "error",
    [*RAISED, RuntimeError("coroutine raised StopIteration"), StopIteration(5), StopAsyncIteration(), OddStop(5)],
    ids=repr,
)
def test_an_exception_leaves_the_steps_as_the_same_object(error: BaseException) -> None:
    for steps in (failing(error), around(around(failing(error)))):
        with pytest.raises(type(error)) as raised:
            complete(steps)
        assert raised.value is error


@pytest.mark.parametrize("kind", [ValueError, StopIteration])
def test_an_exception_keeps_its_cause_and_its_context(kind: type[Exception]) -> None:
    def ask() -> None:
        try:
            raise OSError("disk")
        except OSError as disk:
            raise kind("no more") from disk

    async def step() -> None:
        await blocking(ask, never)

    with pytest.raises(kind) as raised:
        complete(step())
    assert isinstance(raised.value.__cause__, OSError)
    assert isinstance(raised.value.__context__, OSError)


def test_a_stop_iteration_without_a_cause_gets_none_and_hides_nothing() -> None:
    error = StopIteration(5)
    with pytest.raises(StopIteration):
        complete(failing(error))
    assert (error.__cause__, error.__context__, error.__suppress_context__) == (None, None, False)


def test_the_traceback_of_a_stop_iteration_leads_to_where_it_was_raised() -> None:
    with pytest.raises(StopIteration) as raised:
        complete(failing(StopIteration()))
    assert raised.traceback[-1].name == "function"


def test_steps_can_catch_what_a_wait_raises() -> None:
    async def step() -> str:
        try:
            await blocking(raises(StopIteration("mine")), never)
        except StopIteration as error:
            return error.value
        return "nothing raised"

    assert complete(step()) == "mine"


class Pause:
    def __await__(self) -> Any:
        yield "pause"


@pytest.mark.parametrize("elsewhere", [lambda: asyncio.sleep(0), Pause], ids=["sleep", "own awaitable"])
def test_steps_that_await_something_else_are_refused_and_closed(elsewhere: Callable[[], Any]) -> None:
    closed: list[str] = []

    async def step() -> None:
        try:
            await elsewhere()
        finally:
            closed.append("closed")

    with pytest.raises(RuntimeError, match=r"awaited something other than wait\("):
        complete(around(step()))
    assert closed == ["closed"]


# Calls on threads of their own.

name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")


def test_a_call_runs_on_a_daemon_thread_of_its_own() -> None:
    async def main() -> list[threading.Thread]:
        return [await in_thread(threading.current_thread), await in_thread(threading.current_thread)]

    one, other = asyncio.run(main())
    assert one is not other
    assert {one, other}.isdisjoint({threading.current_thread(), threading.main_thread()})
    assert (one.daemon, other.daemon) == (True, True)


def test_a_call_gets_its_arguments_whatever_their_names() -> None:
    def call(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    answer = asyncio.run(in_thread(call, 1, function=2, loop=3))
    assert answer == ((1,), {"function": 2, "loop": 3})


def test_the_event_loop_goes_on_meanwhile() -> None:
    async def main() -> bool:
        turn_of_the_loop = threading.Event()
        asyncio.get_running_loop().call_soon(turn_of_the_loop.set)
        return await in_thread(turn_of_the_loop.wait, 60)

    assert asyncio.run(main())


def test_a_call_sees_the_context_of_its_caller() -> None:
    async def main() -> str:
        name.set("caller")
        return await in_thread(name.get)

    assert asyncio.run(main()) == "caller"


def test_what_a_call_sets_stays_in_its_copy_of_the_context() -> None:
    async def main() -> str:
        await in_thread(name.set, "callee")
        return name.get()

    assert asyncio.run(main()) == "nobody"


@pytest.mark.parametrize("error", [ValueError("a"), Odd("b"), asyncio.CancelledError("c"), TimeoutError()], ids=repr)
def test_what_a_call_raises_reaches_the_caller_as_the_same_object(error: BaseException) -> None:
    async def main() -> BaseException | None:
        try:
            await in_thread(raises(error))
        except BaseException as raised:
            return raised
        return None

    assert asyncio.run(main()) is error


@pytest.mark.parametrize("error", [StopIteration(5), OddStop(5)], ids=repr)
def test_a_stop_iteration_comes_as_the_cause_of_a_runtime_error(error: StopIteration) -> None:
    with pytest.raises(RuntimeError, match="StopIteration") as raised:
        asyncio.run(in_thread(raises(error)))
    assert raised.value.__cause__ is error


class Work:
    """A call that lasts until it is told to end, by returning or raising."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.started, self.may_end = threading.Event(), threading.Event()
        self.thread = threading.current_thread()
        self.ended = False

    def run(self) -> None:
        self.thread = threading.current_thread()
        self.started.set()
        assert self.may_end.wait(60)
        self.ended = True
        if self.error is not None:
            raise self.error

    def end(self) -> None:
        self.may_end.set()
        self.thread.join(60)


async def cancelled(work: Work) -> None:
    waiting = asyncio.ensure_future(in_thread(work.run))
    await in_thread(work.started.wait, 60)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


ENDINGS = [None, ValueError("late"), StopIteration("late"), Odd("late")]


@pytest.mark.parametrize("error", ENDINGS, ids=repr)
def test_a_call_goes_on_when_its_waiter_is_cancelled_and_its_outcome_is_dropped(error: BaseException | None) -> None:
    reported: list[dict[str, Any]] = []

    async def main() -> Work:
        asyncio.get_running_loop().set_exception_handler(lambda _, problem: reported.append(problem))
        work = Work(error)
        await cancelled(work)
        assert not work.ended
        work.end()
        await asyncio.sleep(0)  # the outcome arrives
        return work

    assert asyncio.run(main()).ended
    assert reported == []


@pytest.mark.parametrize("error", ENDINGS, ids=repr)
def test_a_call_may_end_after_its_event_loop_is_closed(error: BaseException | None) -> None:
    work = Work(error)
    asyncio.run(cancelled(work))
    work.end()  # what a thread does not catch would fail this test
    assert work.ended


def test_a_call_that_is_under_way_keeps_no_process_alive() -> None:
    program = (
        "import asyncio, threading\n"
        "from alpineagents.waiting import in_thread\n"
        "async def main():\n"
        "    started = threading.Event()\n"
        "    asyncio.ensure_future(in_thread(lambda: (started.set(), threading.Event().wait())))\n"
        "    await in_thread(started.wait)\n"
        "asyncio.run(main())\n"
        "print('done')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "done\n"


# Sync calls that would stop the event loop of an async run.


def test_code_is_in_an_async_run_between_entering_and_leaving_it() -> None:
    async def main() -> list[bool]:
        seen = [in_async_run()]
        token = enter_async_run()
        seen.append(in_async_run())
        leave_async_run(token)
        return [*seen, in_async_run()]

    assert asyncio.run(main()) == [False, True, False]
    assert not in_async_run()


def test_a_task_of_an_async_run_is_in_it_too() -> None:
    async def inner() -> bool:
        return in_async_run()

    async def main() -> tuple[bool, bool]:
        before = asyncio.ensure_future(inner())
        token = enter_async_run()
        after = asyncio.ensure_future(inner())
        leave_async_run(token)
        return await before, await after

    assert asyncio.run(main()) == (False, True)


def test_a_run_inside_a_run_leaves_only_itself() -> None:
    async def main() -> bool:
        enter_async_run()
        leave_async_run(enter_async_run())
        return in_async_run()

    assert asyncio.run(main())


def test_another_thread_of_an_async_run_may_block() -> None:
    async def main() -> bool:
        enter_async_run()
        return await in_thread(in_async_run)

    assert asyncio.run(main()) is False


def test_an_event_loop_on_another_thread_of_an_async_run_is_another_matter() -> None:
    async def inner() -> bool:
        return in_async_run()

    async def main() -> bool:
        enter_async_run()
        return await in_thread(lambda: asyncio.run(inner()))

    assert asyncio.run(main()) is False


def test_a_blocking_call_on_the_event_loop_of_an_async_run_is_refused_and_its_twin_named() -> None:
    async def main() -> None:
        enter_async_run()
        refuse_blocking("agent.run", "agent.arun", " in an async tool")

    with pytest.raises(TypeError) as raised:
        asyncio.run(main())
    assert str(raised.value) == (
        "agent.run was called on the event loop of an async run, which would stand still meanwhile\n"
        "Fix: await agent.arun in an async tool\n"
        "Example:\n    await agent.arun(...)"
    )


def test_a_blocking_call_elsewhere_is_not_refused() -> None:
    async def outside_of_runs() -> None:
        refuse_blocking("agent.run", "agent.arun")

    async def on_a_thread() -> None:
        enter_async_run()
        await in_thread(refuse_blocking, "agent.run", "agent.arun")

    refuse_blocking("agent.run", "agent.arun")
    asyncio.run(outside_of_runs())
    asyncio.run(on_a_thread())
