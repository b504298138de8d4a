"""A sink in memory, and the threads and loops that write to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from alpineagents.history.entries import HistoryEntry
from alpineagents.journal import Batch, Journal
from alpineagents.state import State, journal_of
from alpineagents.types import Message


class Disk:
    """A sink in memory. Asynchronous writes are made by threads of its own, which tell the batch.

    Attributes:
        rows: What is saved. writes: The numbers of entries of each write.
        errors: What the next commits raise. afterwards: What `write` raises when its commit has worked.
        gate: Closed while commits must wait. began: Set when a commit begins.
        shown, left: How many entries the State showed when a commit began, and when it had been told.
        full_after: The number of writes there is room for.
    """

    def __init__(self, journal: Journal, *, through: bool = True, created: bool = True) -> None:
        self.journal = journal
        self.through = through
        self.created = created
        self.rows: list[HistoryEntry] = list(journal.now.history) if created else []
        self.writes: list[int] = []
        self.errors: list[BaseException] = []
        self.afterwards: list[BaseException] = []
        self.gate = threading.Event()
        self.gate.set()
        self.began = threading.Event()
        self.shown: list[int] = []
        self.left: list[int] = []
        self.full_after: int | None = None
        self._busy = threading.Lock()

    def commit(self, batch: Batch) -> None:
        assert self._busy.acquire(blocking=False), "two writes at once"
        try:
            self.shown.append(len(self.journal.now.history))
            self.began.set()
            assert self.gate.wait(20)
            if self.errors:
                raise self.errors.pop(0)
            if self.full_after == len(self.writes):
                raise OSError("full")
            assert batch.start == len(self.rows), "a gap, or entries written twice"
            new = batch.value.history.tail(batch.start)
            self.rows += new
            self.writes.append(len(new))
            self.created = True
        finally:
            self._busy.release()
        batch.committed()
        self.left.append(len(self.journal.now.history))

    def write(self, batch: Batch) -> None:
        self.commit(batch)
        if self.afterwards:
            raise self.afterwards.pop(0)

    async def awrite(self, batch: Batch) -> None:
        loop = asyncio.get_running_loop()
        told: asyncio.Future[None] = loop.create_future()

        def settle(error: BaseException | None) -> None:
            if told.done():
                return
            if error is None:
                told.set_result(None)
            else:
                told.set_exception(error)

        def work() -> None:
            problem = None
            try:
                self.commit(batch)
            except BaseException as error:
                problem = error
            batch.ended()
            loop.call_soon_threadsafe(settle, problem)

        threading.Thread(target=work, daemon=True).start()
        await told


def bound(state: State, **options: Any) -> tuple[Journal, Disk]:
    """The Journal of a State that is saved already, and its sink."""
    journal = journal_of(state)
    disk = Disk(journal, **options)
    journal.bind(disk, len(disk.rows))
    return journal, disk


def add(state: State, text: str = "more") -> None:
    state.add_message(Message.user(text))


def ended(thread: threading.Thread) -> None:
    thread.join(20)
    assert not thread.is_alive(), "it hangs"


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def on_a_loop(steps: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run on an event loop, and fail instead of hanging when the loop is blocked for good."""
    errors = list[BaseException]()

    def work() -> None:
        try:
            asyncio.run(steps())
        except BaseException as error:
            errors.append(error)

    ended(in_background(work))
    if errors:
        raise errors[0]


async def until(claim: Callable[[], bool]) -> None:
    """Let the loop run until it is so; the test's timeout ends a claim that never comes true."""
    while not claim():
        await asyncio.sleep(0)
