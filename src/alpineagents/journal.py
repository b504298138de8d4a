"""The Journal: the one mutable thing in the package.

It holds the current value of a State and changes it in one way only: a rule looks at the value under the record lock
and makes entries, which are applied there. Reading takes no lock.

Two kinds of change. A *fact* has already happened outside (a reply, a tool result): it is applied at once and written
at the next `commit`; what could not be written stays queued, in order. A *command* is what the caller asks for: on a
State that writes through, it is written first, behind what is queued, and applied only if that worked.

Entries go to the `sink`, one write at a time. The position "saved up to" is moved by the commit itself, so that an
interrupt between the commit and its waiter loses nothing and writes nothing twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from alpineagents.children import Family
from alpineagents.errors import MovedOnError, explain
from alpineagents.history.entries import ContextChange
from alpineagents.history.replay import step
from alpineagents.history.rules import Entries
from alpineagents.history.value import Value
from alpineagents.values.exchange import AgentInfo
from alpineagents.waiting import Ready, in_thread

# Nothing outside follows from these alone: the reply or request after them is synced, and with it all that came before.
# A question or a summary asked for right behind them is recorded only afterwards, so `settle` comes before it.
LOOSE_KINDS = frozenset({"tool_result", "model_event"})


class Batch:
    """What one write carries: a value, how many of its first entries are saved already, and its two events."""

    __slots__ = ("_endings", "_moved", "start", "value")

    def __init__(
        self, value: Value, start: int, moved: Callable[[Value, int], None], ended: Callable[[], None] | None = None
    ) -> None:
        self.value = value
        self.start = start
        self._moved = moved
        self._endings = [] if ended is None else [ended]

    def committed(self) -> None:
        """The entries are saved. Called by the commit itself, on whatever thread makes it."""
        self._moved(self.value, self.start)

    def ended(self) -> None:
        """The write is over, well or not, and the next may begin. Only the first call counts."""
        try:
            ended = self._endings.pop()  # atomic, so that two threads never end one write twice
        except IndexError:
            return
        ended()


class Sink(Protocol):
    """Where a Journal's entries go once its State is bound to a store."""

    @property
    def created(self) -> bool:
        """Whether the State is there at all."""
        ...

    @property
    def through(self) -> bool:
        """Whether every change is written before the call that made it returns."""
        ...

    def write(self, batch: Batch) -> None:
        """Commit the batch and tell it."""
        ...

    async def awrite(self, batch: Batch) -> None:
        """The same without blocking the event loop.

        A sink that writes through hands the batch over before it first suspends, and tells it `committed` and `ended`
        on a thread of its own: a command may be blocking the loop meanwhile.
        """
        ...


class Opener(Protocol):
    """Where subagents are opened from that are not in memory: a Store."""

    def load(self, state_id: str) -> Any: ...
    async def aload(self, state_id: str) -> Any: ...


class Journal:
    """A lock, the current value, and the sink of one State.

    Attributes:
        now: The current value; reading it is one atomic look.
        sink: Where entries go, or `None` for a State in memory.
        saved: How many entries the sink has. loose: Whether the last of them may not have reached the disk.
        on_change: Hears of context changes, outside the lock.
        human: Whom the Agent asks that worked on it last. linked: Whether any did.
        running: Whether a run is under way. compacting: Whether a model is writing a summary.
        loaded_run: The Agent of the last saved run, until the first run after loading compares it.
        origin: The Journal of the State this one was forked from. forked: That State's id, and how many entries came.
        children: The States of its subagents that ran in this process, by id. opener: Where the others are opened from.
        families: Which of its open calls started which.
        edits: The turns of `edit_extra_data`.
    """

    def __init__(self, now: Value) -> None:
        self.now = now
        self.sink: Sink | None = None
        self.saved = 0
        self.loose = False
        self.on_change: Callable[[ContextChange], None] | None = None
        self.human: Any = None
        self.linked = False
        self.running = False
        self.compacting = False
        self.loaded_run: AgentInfo | None = None
        self.origin: Journal | None = None
        self.forked: tuple[str, int] | None = None
        self.children: dict[str, Any] = {}
        self.opener: Opener | None = None
        self.families: list[Family] = []
        self.edits = threading.RLock()
        self._broken: MovedOnError | None = None
        self._lock = threading.RLock()
        self._write_turn = threading.Lock()

    @property
    def through(self) -> bool:
        """Whether this State's sink writes every change at once."""
        return self.sink is not None and self.sink.through

    def bind(self, sink: Sink, saved: int = 0) -> None:
        """Give this State its sink, for good."""
        self.loose = _is_loose(self.now, saved)  # whoever wrote it may have been killed before it was synced
        self.saved = saved  # before the sink, because from the next line on another thread may write
        self.sink = sink

    def record(self, rule: Callable[..., Entries], *args: Any) -> Entries:
        """Apply the facts a rule makes of the current value, and give them back."""
        with self._lock:
            entries = rule(self.now, *args)
            now = self.now
            for entry in entries:
                now = step(now, entry)
            self.now = now
            return entries

    def arecord(self, rule: Callable[..., Entries], *args: Any) -> Awaitable[Entries]:
        """`record` that never blocks the event loop: if the lock is taken, a worker thread waits for it."""
        return self._without_blocking(self.record, rule, *args)

    async def astart_run(self, rule: Callable[..., Entries], *args: Any) -> Entries:
        """`start_run` that never blocks the event loop."""
        started: list[Entries] = []
        try:
            return await self._without_blocking(lambda: started.append(self.start_run(rule, *args)) or started[0])
        except asyncio.CancelledError:
            if started:
                self.running = False  # it began on another thread, and nobody is left to end it
            raise

    def _without_blocking(self, record: Callable[..., Entries], *args: Any) -> Awaitable[Entries]:
        if self._lock.acquire(blocking=False):
            try:
                return Ready(record(*args))
            finally:
                self._lock.release()
        return self._on_another_thread(record, *args)

    async def _on_another_thread(self, record: Callable[..., Entries], *args: Any) -> Entries:
        recording = asyncio.ensure_future(in_thread(record, *args))
        try:
            return await asyncio.shield(recording)
        except asyncio.CancelledError:
            # A fact is recorded all the same, and before anything that the cancelled task records next.
            while not recording.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([recording])
            raise

    def start_run(self, rule: Callable[..., Entries], *args: Any) -> Entries:
        """Mark the State as being run and record it, as one change."""
        with self._lock:
            if self.running:
                raise ValueError(
                    explain("this State is being run already", "wait for that run to end, or run another State")
                )
            entries = self.record(rule, *args)
            self.running = True
            return entries

    def command(self, rule: Callable[..., Entries], *args: Any) -> Entries:
        """Write what a rule makes of the current value, then apply it; when this raises, nothing changed."""
        with self._lock:
            self._refuse_broken()
            entries = rule(self.now, *args)
            after = self.now
            for entry in entries:
                after = step(after, entry)
            if entries and self.through:
                self.commit()
                self._write(after)
            self.now = after
            return entries

    def commit(self) -> None:
        """Wait until everything recorded so far is in the sink."""
        if self._lacks_nothing(self.now):
            return
        self._refuse_broken()
        self._write(None)

    def settle(self) -> None:
        """`commit`, and wait until all that is committed has reached the disk, where the sink can see to that."""
        self.commit()
        while self.loose and self.through:  # again, if another result came meanwhile
            self._write(None, again=True)

    async def asettle(self) -> None:
        """`settle` without blocking the event loop."""
        await self.acommit()
        while self.loose and self.through:
            if not await self._awritten(again=True):
                await in_thread(self._let_pass)

    def _write(self, after: Value | None, again: bool = False) -> None:
        # `with`, because no interrupt can come between its taking the turn and its giving it back.
        with self._write_turn:
            now = self.now if after is None else after
            if self.sink is None or (self._lacks_nothing(now) and not again):
                return
            try:
                self.sink.write(Batch(now, self.saved, self._moved))
            except MovedOnError as error:
                self._broken = error
                raise

    async def acommit(self) -> None:
        """`commit` without blocking the event loop. A write that is under way goes on when its waiter is cancelled."""
        now = self.now
        while not self._lacks_nothing(now):
            self._refuse_broken()
            if await self._awritten():
                return
            await in_thread(self._let_pass)

    async def _awritten(self, again: bool = False) -> bool:
        return await asyncio.shield(asyncio.ensure_future(self._awrite(again)))

    async def _awrite(self, again: bool) -> bool:
        """Write what is there; false if another write is under way.

        A command on the loop's thread may be waiting for the turn, and then nothing moves on this loop. So the turn is
        taken in the very step that hands the batch to the sink: nobody ever has it and needs the loop to go on.
        """
        if not self._write_turn.acquire(blocking=False):
            return False
        batch = Batch(self.now, self.saved, self._moved, self._write_turn.release)
        try:
            if self.sink is not None and (again or not self._lacks_nothing(batch.value)):
                await self.sink.awrite(batch)
        except MovedOnError as error:
            self._broken = error
            raise
        finally:
            batch.ended()
        return True

    def _let_pass(self) -> None:
        """Wait until the write that is under way is over."""
        with self._write_turn:
            return

    def _lacks_nothing(self, now: Value) -> bool:
        return self.sink is None or (self.saved >= len(now.history) and self.sink.created)

    def flush(self) -> None:
        """`commit` on a State that writes through; nothing on another."""
        if self.through:
            self.commit()

    async def aflush(self) -> None:
        """`flush` without blocking the event loop."""
        if self.through:
            await self.acommit()

    def _moved(self, value: Value, start: int) -> None:
        self.loose = start < len(value.history) and _is_loose(value, len(value.history))
        self.saved = max(self.saved, len(value.history))
        # What a command asked for holds from its commit on, whatever interrupts the way back to the caller.
        if len(value.history) > len(self.now.history):
            self.now = value

    def _refuse_broken(self) -> None:
        if self._broken is not None:
            raise self._broken


def _is_loose(value: Value, saved: int) -> bool:
    return saved > 0 and value.history[saved - 1].kind in LOOSE_KINDS
