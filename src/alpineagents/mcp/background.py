"""The event loop that all connections of the process live on, on a thread of its own.

Sync and async code, several threads and several event loops can so use one connection. The thread starts when it is
first needed, and keeps no program alive.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_PATIENCE_S = 0.2

_lock = threading.Lock()
_started: tuple[int, asyncio.AbstractEventLoop] | None = None


def connections_loop() -> asyncio.AbstractEventLoop:
    """The loop; a forked process, which has no threads of its parent, makes its own."""
    global _started  # noqa: PLW0603  # one for the process
    with _lock:
        if _started is None or _started[0] != os.getpid():
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="alpineagents-mcp", daemon=True).start()
            _started = os.getpid(), loop
        return _started[1]


def soon(function: Callable[..., object], *args: Any) -> None:
    """Call a function on the loop, in the order in which this is called, and outside of whatever is going on here."""
    connections_loop().call_soon_threadsafe(function, *args, context=contextvars.Context())


def awaited(answer: Future[T]) -> Awaitable[T]:
    """`result_of` for code on an event loop."""
    return asyncio.wrap_future(answer)


def result_of(answer: Future[T]) -> T:
    """Wait for an answer of the loop, a little at a time, because no wait of another kind hears Ctrl+C everywhere."""
    while True:
        try:
            return answer.result(timeout=_PATIENCE_S)
        except TimeoutError:
            if answer.done():
                return answer.result()
