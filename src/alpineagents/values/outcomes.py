"""How a tool call ended, and why a run is set to stop."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn, TypeAlias

from alpineagents.errors import explain, shown
from alpineagents.values.content import ToolCall, set_field
from alpineagents.values.frozen import freeze


class ToolOutcomeKind(StrEnum):
    """How a tool call ended. Members equal their value: `kind == "denied"`."""

    DONE = "done"
    """The tool returned."""
    ERROR = "error"
    """The tool reported a failure on purpose."""
    INPUT_ERROR = "input_error"
    """Not started: no such tool, or arguments that cannot be used."""
    ABORTED = "aborted"
    """Closed by an exception."""
    INTERRUPTED = "interrupted"
    """Closed by Ctrl+C or by cancellation."""
    DENIED = "denied"
    """Refused by a permission."""
    CANCELLED = "cancelled"
    """Dropped because a permission stopped the turn over another call."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        known = f"use one of {', '.join(cls)}"
        raise ValueError(explain(f"{shown(value)} is no way a tool call ends", known, "ToolOutcomeKind.DENIED"))


@dataclass(frozen=True)
class ToolOutcome:
    """How a tool call ended, as a Reporter hears it.

    Attributes:
        error: What closed an aborted or interrupted call, or the `ToolError` a permission raised; otherwise `None`.
        decided_by: The `repr` of the permission behind a denied or cancelled call.
    Raises:
        ValueError: `kind` is a `str` that is no outcome.
    """

    kind: ToolOutcomeKind
    error: BaseException | None = None
    decided_by: str | None = None

    def __post_init__(self) -> None:
        set_field(self, "kind", ToolOutcomeKind(self.kind))


@dataclass(frozen=True)
class StoppedByUntil:
    """An `until` function returned true; `name` is the function's."""

    name: str

    def __str__(self) -> str:
        return f"stopped by {self.name}"


@dataclass(frozen=True)
class StoppedByLimit:
    """The loop ran its `limit` of turns."""

    turns: int

    def __str__(self) -> str:
        return f"stopped at limit {self.turns}"


@dataclass(frozen=True)
class StoppedByFinish:
    """`state.finish(answer)` was called; the answer is frozen JSON."""

    answer: Any = None

    def __post_init__(self) -> None:
        set_field(self, "answer", freeze(self.answer))

    def __str__(self) -> str:
        return "stopped by finish"


@dataclass(frozen=True)
class StoppedByPermission:
    """A permission denied `call` with `stop=True`; `permission` is its `repr`."""

    call: ToolCall
    permission: str

    def __str__(self) -> str:
        return f"stopped by permission {self.permission}"


Stopped: TypeAlias = StoppedByUntil | StoppedByLimit | StoppedByFinish | StoppedByPermission
