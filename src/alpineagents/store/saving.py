"""How a State gets into a Store and out of it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from alpineagents.errors import explain
from alpineagents.history import rules
from alpineagents.history.codec import decode, encode
from alpineagents.history.codec_checks import time_text
from alpineagents.history.entries import HistoryEntry
from alpineagents.history.replay import fold
from alpineagents.history.value import EMPTY, Value
from alpineagents.journal import Batch, Journal
from alpineagents.state import State, journal_of, state_of
from alpineagents.store.collecting import collector_paused
from alpineagents.store.info import Info, Record, check_version, info_of
from alpineagents.waiting import Wait


class Keeper(Protocol):
    """What saving needs of a Store."""

    write_through: ClassVar[bool]

    def load(self, state_id: str) -> State: ...
    async def aload(self, state_id: str) -> State: ...
    def write(
        self, state_id: str, entries: Sequence[dict[str, Any]], info: Mapping[str, Any], *, create: bool = False
    ) -> None: ...
    async def awrite(
        self, state_id: str, entries: Sequence[dict[str, Any]], info: Mapping[str, Any], *, create: bool = False
    ) -> None: ...


class Entries(list[dict[str, Any]]):
    """The entries of one write. A store whose commit outlives its caller tells it here; others need not care.

    Attributes:
        created_at: When the State's first entry was recorded: another State of this name began at another time.
    """

    def __init__(self, binding: Binding, batch: Batch) -> None:
        value = batch.value
        start = batch.start if binding.created else 0  # the first write has all of them, whatever another store has
        pairs = zip(value.history.tail(start), value.closings.tail(start), strict=True)
        super().__init__([encode(entry, seq, closing) for seq, (entry, closing) in enumerate(pairs, start)])
        self.created_at = binding.created_at(value)
        self._binding = binding
        self._batch = batch
        self._told = False

    @property
    def info(self) -> Info:
        """What is known of the State after them."""
        value = self._batch.value
        updated_at = self[-1]["at"] if self else time_text(value.updated_at) if value.updated_at else None
        return info_of(value, self._binding.forked, (self.created_at, updated_at))

    def __reduce__(self) -> tuple[Any, ...]:
        return (list, (list(self),))  # a copy is only entries: it commits nothing

    def committed(self) -> None:
        """They are saved."""
        if not self._told:  # by the commit itself, if the Store knows of these
            self._binding.created = True
            self._batch.committed()
            self._told = True

    def ended(self) -> None:
        """The write is over, well or not."""
        self._batch.ended()


class Binding:
    """The sink of a State's Journal: one State in one Store.

    Attributes:
        created: Whether the Store has the State.
        forked: What every save says of the State's origin.
    """

    def __init__(self, store: Keeper, state_id: str, *, created: bool = False, forked: tuple[str, int] | None = None):
        self.store = store
        self.state_id = state_id
        self.created = created
        self.forked = forked
        self._created_at: str | None = None

    def created_at(self, value: Value) -> str | None:
        """When the State's first entry was recorded, as text, which never changes."""
        if self._created_at is None and value.created_at is not None:
            self._created_at = time_text(value.created_at)
        return self._created_at

    @property
    def through(self) -> bool:
        """Whether changes are written at once; not before the State is in the Store."""
        return self.created and self.store.write_through

    def write(self, batch: Batch) -> None:
        """Write a batch with the Store's `write`."""
        entries = Entries(self, batch)
        self.store.write(self.state_id, entries, entries.info, create=not self.created)
        entries.committed()

    async def awrite(self, batch: Batch) -> None:
        """Write a batch with the Store's `awrite`."""
        entries = Entries(self, batch)
        await self.store.awrite(self.state_id, entries, entries.info, create=not self.created)
        entries.committed()


async def save(wait: Wait, store: Keeper, state: State) -> None:
    """Write what the store lacks of the State; the first time, this binds them."""
    if not isinstance(state, State):
        raise TypeError(
            explain(f"save takes a State, not {type(state).__name__}", "pass the State itself", "store.save(state)")
        )
    journal = journal_of(state)
    binding = journal.sink
    if not isinstance(binding, Binding) or binding.store is not store:
        check_bound(store, state)
        if not isinstance(binding, Binding) or binding.store != store:
            binding = journal.sink = Binding(store, state.id, forked=_forked(store, journal))
    # Otherwise it may be the one whose first write goes on after its waiter was cancelled.
    try:
        await wait(journal.commit, journal.acommit)
    except Exception:
        if not binding.created:
            journal.sink = None
        raise
    if journal.opener is None:
        journal.opener = store


def _forked(store: Keeper, journal: Journal) -> tuple[str, int] | None:
    """Where a fork came from, if that State is in the same store: otherwise what it inherited counts here."""
    origin = journal.origin.sink if journal.origin is not None else None
    if isinstance(origin, Binding) and origin.created and origin.store == store:
        return journal.forked
    return None


def check_bound(store: Keeper, state: State) -> None:
    """Refuse a store that is not the State's.

    Raises:
        ValueError: The State is kept in another one; the message names both.
    """
    sink = journal_of(state).sink
    if isinstance(sink, Binding) and sink.store is not store and sink.created and sink.store != store:
        raise ValueError(
            explain(
                f"State {state.id!r} is kept in {sink.store!r} and cannot be saved in {store!r}",
                "use the store it is kept in, or save a fork of it",
                "other.save(state.fork())",
            )
        )


def state_from(store: Keeper, state_id: str, record: Record | None) -> State:
    """The State of a record, bound to its store, with an interrupted turn closed."""
    if record is None:
        raise LookupError(
            explain(
                f"no State {state_id!r} in {store!r}",
                "list what is saved, or start a new State",
                "for info in store.list(): print(info.id)",
            )
        )
    check_version(state_id, record.info)
    value = fold_record(state_id, record.entries)
    journal = Journal(value)
    journal.bind(Binding(store, state_id, created=True, forked=_saved_fork(record.info)), len(record.entries))
    journal.loaded_run = value.run
    journal.opener = store
    journal.record(rules.repair)
    return state_of(state_id, journal)


def _saved_fork(info: Mapping[str, Any]) -> tuple[str, int] | None:
    origin, count = info.get("forked_from"), info.get("forked_at")
    return (origin, count) if isinstance(origin, str) and isinstance(count, int) else None


def fold_record(state_id: str, entries: Sequence[Mapping[str, Any]]) -> Value:
    """The value of saved entries.

    Raises:
        ValueError: An entry is missing, cannot be decoded or cannot follow those before it; the message says which.
    """
    try:
        with collector_paused():
            return fold(_decoded(entries), EMPTY)
    except ValueError as error:
        raise ValueError(
            explain(f"State {state_id!r} cannot be loaded: {error}", "restore the file from a backup")
        ) from error


def _decoded(entries: Sequence[Mapping[str, Any]]) -> list[HistoryEntry]:
    decoded: list[HistoryEntry] = []
    for seq, data in enumerate(entries):
        if not isinstance(data, Mapping):
            raise ValueError(f"entry {seq} is {type(data).__name__}, not a mapping")
        found = data.get("seq")
        if type(found) is not int or found != seq:
            raise ValueError(f"entry {seq} has the seq {found!r}: entries are missing or out of order")
        decoded.append(decode(data))  # type: ignore[arg-type]  # decode checks what it is given
    return decoded
