"""The HTTP clients of one Model: one for sync calls, and one for each event loop; made when first needed."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Generic, Protocol, TypeVar


class _Client(Protocol):
    def close(self) -> object: ...


class _AsyncClient(Protocol):
    def aclose(self) -> Awaitable[object]: ...


C = TypeVar("C", bound=_Client)
A = TypeVar("A", bound=_AsyncClient)


class Clients(Generic[C, A]):
    """Makes each client once, also when several threads ask at the same time, and closes it in the end.

    A forked process makes its own: two processes that write to one connection would read each other's replies.
    """

    def __init__(self, make: Callable[[], C], amake: Callable[[], A]) -> None:
        self._make, self._amake = make, amake
        self._lock = threading.Lock()
        self._sync: tuple[int, C] | None = None
        self._async: dict[asyncio.AbstractEventLoop, _LoopClient[A]] = {}

    def client(self) -> C:
        """The client for sync calls."""
        with self._lock:
            if self._sync is None or self._sync[0] != os.getpid():
                client = self._make()
                weakref.finalize(self, client.close)
                self._sync = os.getpid(), client
            return self._sync[1]

    async def aclient(self) -> A:
        """The client of this event loop, closed with it."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._async = {known: held for known, held in self._async.items() if not known.is_closed()}
            held = self._async.get(loop)
            if held is None:
                held = self._async[loop] = _LoopClient(self._amake())
        await held.start()
        return held.client


class _LoopClient(Generic[A]):
    """A client that is closed with its event loop.

    An event loop closes the async generators that are left on it before it stops. So one that waits, with the client
    in its hands, leaves no connection open behind `asyncio.run`.
    """

    def __init__(self, client: A) -> None:
        self.client = client
        self._closing: AsyncGenerator[None, None] | None = None

    async def start(self) -> None:
        if self._closing is None:
            self._closing = _held_open(self.client)
            await anext(self._closing)


async def _held_open(client: _AsyncClient) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await client.aclose()
