"""StateSnapshot: one moment of a State, as a frozen value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import FrozenInstanceError
from datetime import datetime
from typing import Any, NoReturn

from alpineagents.history.entries import HistoryEntry
from alpineagents.history.value import EMPTY, Value
from alpineagents.values.content import Message, ToolCall
from alpineagents.values.frozen import FrozenDict, freeze
from alpineagents.values.log import Log
from alpineagents.values.outcomes import Stopped
from alpineagents.values.usage import Usage

_COMPARED = (
    "history",
    "messages",
    "pending_calls",
    "turn",
    "usage",
    "extra_data",
    "finished",
    "answer",
    "stopped",
)


class StateSnapshot:
    """The value of a State at one moment: the same fields as its properties, and nothing that changes them.

    Two snapshots are equal when their histories are. All arguments are keywords with the value of an empty State.
    """

    __slots__ = ("_history", "_messages", "_pending", "_value")

    _value: Value
    _history: tuple[HistoryEntry, ...] | None
    _messages: tuple[Message, ...] | None
    _pending: tuple[ToolCall, ...] | None

    def __init__(  # noqa: PLR0913  # one keyword per attribute
        self,
        *,
        history: Iterable[HistoryEntry] = (),
        messages: Iterable[Message] = (),
        pending_calls: Iterable[ToolCall] = (),
        turn: int = 0,
        usage: Usage | None = None,
        extra_data: Mapping[str, Any] | None = None,
        finished: bool = False,
        answer: Any = None,
        stopped: Stopped | None = None,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> None:
        calls = tuple(pending_calls)
        entries = Log(history)
        value = EMPTY.changed(
            history=entries,
            closings=Log([None] * len(entries)),
            messages=Log(messages),
            calls=calls,
            results=(None,) * len(calls),
            blocks=tuple(range(len(calls))),
            opened=0 if calls else None,
            turn=turn,
            usage=usage or Usage(),
            extra_data=freeze(extra_data or {}),
            finished=finished,
            finish_answer=freeze(answer),
            stopped=stopped,
            created_at=created_at,
            updated_at=updated_at,
        )
        value.faces.append(_fill(self, value))

    @property
    def history(self) -> tuple[HistoryEntry, ...]:
        """Every entry, oldest first."""
        if self._history is None:
            object.__setattr__(self, "_history", self._value.history.whole())
        return self._history  # type: ignore[return-value]  # it was just made

    @property
    def messages(self) -> tuple[Message, ...]:
        """The context of the next request."""
        if self._messages is None:
            object.__setattr__(self, "_messages", self._value.messages.whole())
        return self._messages  # type: ignore[return-value]  # it was just made

    @property
    def pending_calls(self) -> tuple[ToolCall, ...]:
        """Calls the model asked for that have no result yet, in the order asked."""
        if self._pending is None:
            object.__setattr__(self, "_pending", self._value.pending_calls)
        return self._pending  # type: ignore[return-value]  # it was just made

    @property
    def turn(self) -> int:
        """Completed replies, plus one while a request waits."""
        return self._value.turn

    @property
    def usage(self) -> Usage:
        """Everything spent so far."""
        return self._value.usage

    @property
    def extra_data(self) -> FrozenDict[str, Any]:
        """The caller's own notes."""
        return self._value.extra_data

    @property
    def finished(self) -> bool:
        """Whether `finish` was called and not undone."""
        return self._value.finished

    @property
    def answer(self) -> Any:
        """The last answer given to `finish`, else the text of the last reply that asked for no tools, else `None`."""
        return self._value.answer

    @property
    def stopped(self) -> Stopped | None:
        """Why the current or last run is set to stop."""
        return self._value.stopped

    @property
    def created_at(self) -> datetime | None:
        """When the first entry was recorded, UTC."""
        return self._value.created_at

    @property
    def updated_at(self) -> datetime | None:
        """When the latest entry was recorded, UTC."""
        return self._value.updated_at

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}: a StateSnapshot is a frozen value")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}: a StateSnapshot is a frozen value")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateSnapshot):
            return NotImplemented
        return self is other or all(getattr(self, name) == getattr(other, name) for name in _COMPARED)

    __hash__ = None  # type: ignore[assignment]  # it holds dicts

    def __repr__(self) -> str:
        value = self._value
        counts = f"history={len(value.history)} messages={len(value.messages)} pending={len(value.pending_calls)}"
        return f"<StateSnapshot turn={value.turn} {counts}{' finished' if value.finished else ''}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # The kept earlier values are a cache of a live State: a copy replays instead.
        parts = {**self._value.__dict__, "kept": EMPTY.kept}
        return (_rebuilt, (parts,))


def snapshot_of(value: Value) -> StateSnapshot:
    """The one snapshot that shows this value."""
    if not value.faces:
        value.faces.append(_fill(StateSnapshot.__new__(StateSnapshot), value))
    return value.faces[0]


def value_of(snapshot: StateSnapshot) -> Value:
    """What a snapshot shows: the one door from it to the replay value."""
    return snapshot._value  # noqa: SLF001  # the door itself


def _fill(snapshot: StateSnapshot, value: Value) -> StateSnapshot:
    object.__setattr__(snapshot, "_value", value)
    object.__setattr__(snapshot, "_history", None)
    object.__setattr__(snapshot, "_messages", None)
    object.__setattr__(snapshot, "_pending", None)
    return snapshot


def _rebuilt(parts: dict[str, Any]) -> StateSnapshot:
    return snapshot_of(Value(dict(parts)))
