"""The eleven classes of history entries: the only things ever stored of a State.

Every entry has `kind`, `content`, `turn` (the State's turn when it was recorded, for readers only) and `at` (when it
was recorded, UTC).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast

from alpineagents.errors import explain, shown
from alpineagents.history import clock
from alpineagents.values.content import (
    Image,
    Message,
    TextBlock,
    ToolCall,
    ToolResultContent,
    frozen_tuple,
    only_text,
    set_field,
)
from alpineagents.values.exchange import AgentInfo, Exchange, ModelEvent, Reply
from alpineagents.values.frozen import freeze
from alpineagents.values.outcomes import Stopped, ToolOutcomeKind
from alpineagents.values.usage import Usage

HistoryKind: TypeAlias = Literal[
    "user",
    "notice",
    "model_request",
    "model_reply",
    "model_event",
    "tool_result",
    "ask",
    "human",
    "context_change",
    "run_start",
    "stop",
    "extra_data",
    "error",
]
ContextChangeKind: TypeAlias = Literal["compact", "clear_tool_results", "import", "restore"]


def _stamp() -> datetime:
    return clock.now()


@dataclass(frozen=True)
class ContextChange:
    """What changed in the context.

    Attributes:
        before_tokens, after_tokens: Estimates when it happened; replay never computes them again.
        summary, kept, usage: `compact`: the text, how many of the newest messages stay behind it, what writing it cost.
        cleared: `clear_tool_results`: the ids of the calls whose results were blanked.
        messages: `import`: the messages the State started with.
        restored_to: `restore`: the number of history entries at the point gone back to.
    """

    kind: ContextChangeKind
    before_tokens: int
    after_tokens: int
    summary: str | None = None
    kept: int = 0
    cleared: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    restored_to: int | None = None
    usage: Usage | None = None

    def __post_init__(self) -> None:
        set_field(self, "cleared", frozen_tuple("ContextChange.cleared", self.cleared))
        set_field(self, "messages", frozen_tuple("ContextChange.messages", self.messages))


@dataclass(frozen=True, kw_only=True)
class MessageEntry:
    """A user message or notice given to `add_message`."""

    kind: Literal["user", "notice"]
    content: str | tuple[TextBlock | Image, ...]
    turn: int
    at: datetime = field(default_factory=_stamp, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.content, str):
            blocks = frozen_tuple("MessageEntry.content", self.content)
            text = only_text(blocks)
            set_field(self, "content", blocks if text is None else text)

    @property
    def message(self) -> Message:
        """The user message this entry stands for."""
        return Message("user", (TextBlock(self.content),) if isinstance(self.content, str) else self.content)

    @classmethod
    def from_message(cls, message: Message, *, turn: int) -> MessageEntry:
        """The entry for a user message: a `notice` if its text is one, else `user`.

        Raises:
            ValueError: The message is not a user message, or has other blocks than text and images.
        """
        if message.role != "user":
            raise ValueError(
                explain(
                    f"a message entry holds a user message, not one with role {shown(message.role)}",
                    "give assistant messages to State(messages=[...])",
                    'State(messages=[Message.user("Hello"), Message.assistant("Hi")])',
                )
            )
        for block in message.content:
            if not isinstance(block, TextBlock | Image):
                raise ValueError(
                    explain(
                        f"a message entry holds text and images, not a {type(block).__name__}",
                        "give other blocks to State(messages=[...])",
                    )
                )
        content = cast("tuple[TextBlock | Image, ...]", message.content)
        return cls(kind="notice" if message.is_notice else "user", content=content, turn=turn)


@dataclass(frozen=True, kw_only=True)
class ModelRequestEntry:
    """`think` is about to send a request; `content` is the model asked, `provider/name`."""

    kind: Literal["model_request"] = "model_request"
    content: str
    turn: int
    at: datetime = field(default_factory=_stamp, compare=False)


@dataclass(frozen=True, kw_only=True)
class ModelReplyEntry:
    """The reply to the open `model_request`."""

    kind: Literal["model_reply"] = "model_reply"
    content: Reply
    turn: int
    at: datetime = field(default_factory=_stamp, compare=False)


@dataclass(frozen=True, kw_only=True)
class ModelEventEntry:
    """Something the Model reported during a request."""

    kind: Literal["model_event"] = "model_event"
    content: ModelEvent
    turn: int
    at: datetime = field(default_factory=_stamp, compare=False)

    __hash__ = None  # type: ignore[assignment]  # a ModelEvent holds a dict


@dataclass(frozen=True, kw_only=True)
class ToolResultEntry:
    """The end of one tool call, whichever way it ended; `content` is what the model gets.

    Attributes:
        late: The result came after its call had been closed; the model gets it as a notice.
        error: The exception behind it. Not saved, not compared.
        child_ids: The ids of the subagent States the call started, earliest first.
        usage: What they used that this State has not counted yet; `None` if the call started none.
    Raises:
        TypeError: `child_ids` is one `str`.
        ValueError: `outcome` is a `str` that is no outcome.
    """

    kind: Literal["tool_result"] = "tool_result"
    content: ToolResultContent
    call: ToolCall
    outcome: ToolOutcomeKind
    late: bool = False
    error: BaseException | None = field(default=None, compare=False)
    child_ids: tuple[str, ...] = ()
    usage: Usage | None = None
    turn: int
    at: datetime = field(default_factory=_stamp, compare=False)

    def __post_init__(self) -> None:
        if type(self.outcome) is not ToolOutcomeKind:
            set_field(self, "outcome", ToolOutcomeKind(self.outcome))
        if not isinstance(self.content, str):
            set_field(self, "content", frozen_tuple("ToolResultEntry.content", self.content))
        if type(self.child_ids) is not tuple:
            set_field(self, "child_ids", _ids(self.child_ids))

    @property
    def is_error(self) -> bool:
        """Whether the model got it as an error result."""
        return self.outcome is not ToolOutcomeKind.DONE


def _ids(value: object) -> tuple[str, ...]:
    if isinstance(value, str | bytes):
        raise TypeError(
            explain(
                f"child_ids takes a list of ids, not one {type(value).__name__}: {shown(value)}",
                "put the id into a list",
                f"child_ids=[{shown(value)}]",
            )
        )
    return frozen_tuple("ToolResultEntry.child_ids", cast("list[str]", value))


@dataclass(frozen=True, kw_only=True)
class ExchangeEntry:
    """A question and its answer, which never enter the context. `ask`: the model was asked; `human`: a person."""

    kind: Literal["ask", "human"]
    content: Exchange
    usage: Usage | None = None
    turn: int
    at: datetime = field(default_factory=_stamp, compare=False)


@dataclass(frozen=True, kw_only=True)
class ContextChangeEntry:
    """The context was filled at the start, shrunk, replaced or taken back."""

    kind: Literal["context_change"] = "context_change"
    content: ContextChange
    turn: int
    at: datetime = field(default_factory=_stamp, compare=False)


@dataclass(frozen=True, kw_only=True)
class RunStartEntry:
    """A run started. The parent fields say whose tool call started it, for a subagent's run."""

    kind: Literal["run_start"] = "run_start"
    content: AgentInfo
    parent_id: str | None = None
    parent_call_id: str | None = None
    turn: int
    at: datetime = field(default_factory=_stamp, compare=False)


@dataclass(frozen=True, kw_only=True)
class StopEntry:
    """The run is set to stop, and why; `None` withdraws an earlier reason."""

    kind: Literal["stop"] = "stop"
    content: Stopped | None
    turn: int
    at: datetime = field(default_factory=_stamp, compare=False)


@dataclass(frozen=True, kw_only=True)
class ExtraDataEntry:
    """`extra_data` changed: the top-level keys that were set, with their values, and those that were deleted."""

    kind: Literal["extra_data"] = "extra_data"
    content: Mapping[str, Any]
    removed: tuple[str, ...] = ()
    turn: int
    at: datetime = field(default_factory=_stamp, compare=False)

    def __post_init__(self) -> None:
        set_field(self, "content", freeze(self.content))
        set_field(self, "removed", frozen_tuple("ExtraDataEntry.removed", self.removed))

    __hash__ = None  # type: ignore[assignment]  # it holds a dict


@dataclass(frozen=True, kw_only=True)
class ErrorEntry:
    """An exception was raised while thinking, using tools or running; `content` is its type and message.

    Attributes:
        error: The exception. Not saved, not compared.
        call: The tool call concerned, if a tool or a permission about it raised.
    """

    kind: Literal["error"] = "error"
    content: str
    error: BaseException | None = field(default=None, compare=False)
    call: ToolCall | None = None
    turn: int
    at: datetime = field(default_factory=_stamp, compare=False)


HistoryEntry: TypeAlias = (
    MessageEntry
    | ModelRequestEntry
    | ModelReplyEntry
    | ModelEventEntry
    | ToolResultEntry
    | ExchangeEntry
    | ContextChangeEntry
    | RunStartEntry
    | StopEntry
    | ExtraDataEntry
    | ErrorEntry
)
ENTRY_CLASSES: dict[str, type[HistoryEntry]] = {
    "user": MessageEntry,
    "notice": MessageEntry,
    "model_request": ModelRequestEntry,
    "model_reply": ModelReplyEntry,
    "model_event": ModelEventEntry,
    "tool_result": ToolResultEntry,
    "ask": ExchangeEntry,
    "human": ExchangeEntry,
    "context_change": ContextChangeEntry,
    "run_start": RunStartEntry,
    "stop": StopEntry,
    "extra_data": ExtraDataEntry,
    "error": ErrorEntry,
}
