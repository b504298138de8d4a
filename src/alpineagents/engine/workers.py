"""The calls of one turn at work: on threads, or as tasks of the event loop.

`start` never waits. What has ended is kept, in the order it ended, until it is taken, so that an interrupt between two
lines of the caller loses no result.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from alpineagents.engine.calls import Ending, carried_out, closing
from alpineagents.engine.threads import on_thread
from alpineagents.history import wording
from alpineagents.scope import Calling, enter_call
from alpineagents.tools.base import Tool
from alpineagents.values.content import ToolCall
from alpineagents.values.outcomes import ToolOutcomeKind
from alpineagents.waiting import awaiting, blocking, complete

MOST_AT_ONCE = 32
INTERRUPT_CHECK_S = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Ended:
    """A call that has ended, and how."""

    calling: Calling
    ending: Ending

    @property
    def call(self) -> ToolCall:
        """The call itself."""
        return self.calling.call


class Workers:
    """Carries out the calls of one `use_tools`.

    Args:
        late: Hears of a call that ends after it was abandoned, on the thread or task that ran it.
    """

    def __init__(self, late: Callable[[Ended], None]) -> None:
        self._late = late
        self._arrived: list[Ended] = []
        self._taken = 0
        self._at_work = 0
        self._abandoned = False
        self._lock = threading.Lock()
        self._backlog: deque[Callable[[], None]] = deque()
        self._threads = 0
        self._cancels: deque[Callable[[], object]] = deque()
        self._arrival: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._aarrival: asyncio.Event | None = None
        self._tell: Callable[[], None] = partial(self._arrival.put, None)

    @property
    def busy(self) -> bool:
        """Whether a call that was started has not been taken yet."""
        return self._at_work > self._taken

    @property
    def untaken(self) -> list[Ended]:
        """The calls that ended and are not dealt with, in the order they ended."""
        return self._arrived[self._taken :]

    def start(self, calling: Calling, tool: Tool) -> None:
        """Begin the call on a thread, or as soon as one is free."""
        self._at_work += 1
        context = contextvars.copy_context()
        is_async = tool.is_async
        run_to_end = self._run_until_abandoned if is_async else _run_to_end

        def work() -> None:
            if not self._abandoned:
                steps = carried_out(blocking, calling.call, tool, calling.state, run_to_end)
                self._deliver(Ended(calling, context.run(_completed, calling, steps)), is_async)

        self._on_thread(work)

    def _run_until_abandoned(self, awaitable: Awaitable[Any]) -> Any:
        """Await it in an event loop of its own, on this thread; `abandon` cancels it."""

        async def cancellable() -> Any:
            loop, task = asyncio.get_running_loop(), cast("asyncio.Task[Any]", asyncio.current_task())
            with self._lock:
                if self._abandoned:
                    task.cancel()
                else:
                    self._cancels.append(lambda: loop.call_soon_threadsafe(task.cancel))
            return await awaitable

        return asyncio.run(cancellable())

    async def astart(self, calling: Calling, tool: Tool) -> None:
        """Begin the call: an `async def` tool as a task of this loop, any other on a thread."""
        loop = asyncio.get_running_loop()
        if self._aarrival is None:
            self._aarrival = asyncio.Event()
            self._tell = partial(_tell_loop, loop, self._aarrival)
        if not tool.is_async:
            self.start(calling, tool)
            return
        self._at_work += 1
        task = loop.create_task(self._carry_out(calling, tool))
        task.add_done_callback(partial(self._end_unbegun, calling))
        self._cancels.append(task.cancel)

    async def _carry_out(self, calling: Calling, tool: Tool) -> None:
        try:
            enter_call(calling)
            ending = await carried_out(awaiting, calling.call, tool, calling.state, _run_to_end)
        except BaseException as error:
            ending = _last_resort(error)
        self._deliver(Ended(calling, ending), cancellable=True)

    def _end_unbegun(self, calling: Calling, task: asyncio.Task[None]) -> None:
        """A task that somebody cancelled before its first step has not ended its call."""
        if task.cancelled():
            self._deliver(Ended(calling, closing(asyncio.CancelledError())), cancellable=True)

    def _on_thread(self, work: Callable[[], None]) -> None:
        with self._lock:
            if self._threads >= MOST_AT_ONCE:
                self._backlog.append(work)
                return
            self._threads += 1
        on_thread(lambda: self._serve(work))

    def _serve(self, work: Callable[[], None]) -> None:
        while True:
            work()
            with self._lock:
                if self._abandoned or not self._backlog:
                    self._threads -= 1
                    return
                work = self._backlog.popleft()

    def _deliver(self, ended: Ended, cancellable: bool) -> None:
        with self._lock:
            if not self._abandoned:
                self._arrived.append(ended)
                self._tell()
                return
        if not (cancellable and isinstance(ended.ending.error, asyncio.CancelledError)):
            self._late(ended)  # else it ended because it was cancelled: nothing came of it

    def next(self) -> list[Ended]:
        """Wait until a call has ended; all that have, in the order they did."""
        while len(self._arrived) == self._taken:
            # The system may hand a signal to another thread, and then it does not end this wait.
            with suppress(queue.Empty):
                self._arrival.get(timeout=INTERRUPT_CHECK_S)
        return self.untaken

    async def anext(self) -> list[Ended]:
        """`next` without blocking the event loop."""
        assert self._aarrival is not None
        while len(self._arrived) == self._taken:
            self._aarrival.clear()
            # A signal that comes right before the loop begins to wait does not end that wait either.
            check = asyncio.get_running_loop().call_later(INTERRUPT_CHECK_S, self._aarrival.set)
            try:
                await self._aarrival.wait()
            finally:
                check.cancel()
        return self.untaken

    def take(self) -> None:
        """One more of those that ended is dealt with."""
        self._taken += 1

    def abandon(self) -> None:
        """Wait for no more calls. What ends from now on is late; what ended before is still untaken."""
        with self._lock:
            self._abandoned = True
            self._backlog.clear()
        while self._cancels:
            with suppress(RuntimeError):  # that loop is closed: its call has ended
                self._cancels.popleft()()


def _completed(calling: Calling, steps: Coroutine[Any, Any, Ending]) -> Ending:
    try:
        enter_call(calling)
        return complete(steps)
    except BaseException as error:
        return _last_resort(error)


def _last_resort(error: BaseException) -> Ending:
    """The ending of a call whose exception cannot even be looked at: without one, `next` would wait for ever."""
    return Ending(wording.ABORTED, ToolOutcomeKind.ABORTED, error, raised=True)


def _run_to_end(awaitable: Awaitable[Any]) -> Any:
    """Await it in an event loop of its own, on this thread."""

    async def wait_for_it() -> Any:
        return await awaitable

    return asyncio.run(wait_for_it())


def _tell_loop(loop: asyncio.AbstractEventLoop, arrival: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(arrival.set)
    except RuntimeError:  # the loop is closed: nobody waits any more
        return
