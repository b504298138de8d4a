"""How a run waits for the outside world.

A step of the engine is written once, as an `async def` that waits only through the `wait` it is given:

    reply = await wait(model.respond, model.arespond, request)

`blocking` calls the first function at once, so the step never suspends and `complete` runs it without an event loop.
`awaiting` calls the second one and awaits it.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from alpineagents.errors import explain

P = ParamSpec("P")
T = TypeVar("T")


class Wait(Protocol):
    """`blocking` or `awaiting`, chosen once, by the public method."""

    def __call__(
        self, sync: Callable[P, T], asynchronous: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]: ...


class Ready(Generic[T]):
    """An answer that is already there."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, Any, T]:
        return self.value
        yield


def blocking(
    sync: Callable[P, T], asynchronous: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
) -> Awaitable[T]:
    """Answer at once, on this thread."""
    return Ready(sync(*args, **kwargs))


def awaiting(
    sync: Callable[P, T], asynchronous: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
) -> Awaitable[T]:
    """Answer when the event loop has it."""
    return asynchronous(*args, **kwargs)


def complete(steps: Coroutine[Any, Any, T]) -> T:
    """Run steps that wait with `blocking`."""
    try:
        steps.send(None)
    except StopIteration as done:
        return done.value
    except RuntimeError as error:
        if str(error) != "coroutine raised StopIteration" or error.__cause__ is None:
            raise
        raised = error.__cause__
    else:
        steps.close()
        raised = RuntimeError("a step awaited something other than wait(...)")
    # PEP 479 made a RuntimeError of a StopIteration from user code. The caller gets what was raised; it is raised out
    # here, so that its own cause and context stay what they were.
    raise raised


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Await a call made on a daemon thread of its own, in a copy of this context.

    A daemon thread, unlike the executor's, never keeps the process alive. When the waiting task is cancelled the call
    goes on, and what it returns or raises is dropped.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(value)  # type: ignore[arg-type]  # the value is a T when there is no error
        elif isinstance(error, StopIteration):  # a Future refuses to hold one
            answer.set_exception(_carried(error))
        else:
            answer.set_exception(error)

    def work() -> None:
        value, error = None, None
        try:
            value = context.run(function, *args, **kwargs)
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    threading.Thread(target=work, name="alpineagents-call", daemon=True).start()
    return await answer


def _carried(error: StopIteration) -> RuntimeError:
    carrier = RuntimeError("a call on a worker thread raised StopIteration")
    carrier.__cause__ = error
    return carrier


# The event loop whose thread an async run keeps busy: a sync call there would make the loop stand still.
_async_run: contextvars.ContextVar[asyncio.AbstractEventLoop | None] = contextvars.ContextVar("async_run", default=None)


def enter_async_run() -> contextvars.Token[asyncio.AbstractEventLoop | None]:
    """Say that an async run is in progress in this task and those it starts."""
    return _async_run.set(asyncio.get_running_loop())


def leave_async_run(token: contextvars.Token[asyncio.AbstractEventLoop | None]) -> None:
    """Take back `enter_async_run`."""
    _async_run.reset(token)


def in_async_run() -> bool:
    """Whether this code runs on the event loop thread of an async run."""
    loop = _async_run.get()
    if loop is None:
        return False
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:  # another thread: nothing stands still
        return False


def refuse_blocking(action: str, twin: str, more: str = "") -> None:
    """Refuse a sync call that would stop the event loop of an async run.

    Raises:
        TypeError: This is such a call; the message names the async one.
    """
    if in_async_run():
        raise TypeError(
            explain(
                f"{action} was called on the event loop of an async run, which would stand still meanwhile",
                f"await {twin}{more}",
                f"await {twin}(...)",
            )
        )
