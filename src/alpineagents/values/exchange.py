"""What goes to a model and comes back: one request, one reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from alpineagents.values.content import CUT_OFF_STOP_REASONS, Message, ToolCall, frozen_tuple, set_field
from alpineagents.values.frozen import FrozenDict, freeze
from alpineagents.values.usage import Usage


@dataclass(frozen=True)
class ToolSpec:
    """One tool as shown to the model; `input_schema` is a JSON Schema object."""

    name: str
    description: str
    input_schema: dict[str, Any]

    __hash__ = None  # type: ignore[assignment]  # it holds a dict


@dataclass(frozen=True)
class Request:
    """What the Agent sends to a Model. `tool_choice="none"` still carries the tools but forbids calls."""

    system: str | None
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: Literal["auto", "none"] = "auto"


@dataclass(frozen=True)
class Reply:
    """One reply of a Model.

    Attributes:
        message: The assistant message, blocks in the provider's order.
        usage: What this answer spent.
        context_tokens: Tokens of the whole context, this reply included; `None` if unknown.
        stop_reason: The provider's own word, such as `end_turn`, `tool_use` or `max_tokens`.
        model: The model that answered, as the provider names it.
    """

    message: Message
    usage: Usage
    context_tokens: int | None = None
    stop_reason: str | None = None
    model: str | None = None

    @property
    def text(self) -> str:
        """The text of the message."""
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the message."""
        return self.message.tool_calls

    @property
    def cut_off(self) -> bool:
        """Whether an output limit ended the reply."""
        return self.stop_reason in CUT_OFF_STOP_REASONS


@dataclass(frozen=True)
class ModelEvent:
    """Something a Model went through during a request, such as a retry. `message` is one line for a person."""

    kind: str
    message: str
    data: Mapping[str, Any] = field(default_factory=FrozenDict[str, Any])

    def __post_init__(self) -> None:
        set_field(self, "data", freeze(self.data))

    __hash__ = None  # type: ignore[assignment]  # it holds a dict


@dataclass(frozen=True)
class Exchange:
    """A question and its answer; `answer` is frozen JSON, `None` when no valid answer came."""

    question: str
    answer: Any

    def __post_init__(self) -> None:
        set_field(self, "answer", freeze(self.answer))


@dataclass(frozen=True, kw_only=True)
class AgentInfo:
    """What an Agent was when it started a run. The system prompt itself is not kept, only its SHA-256."""

    name: str | None = None
    model: str
    system_sha256: str | None = None
    tools: tuple[str, ...] = ()
    mcp_servers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        set_field(self, "tools", frozen_tuple("AgentInfo.tools", self.tools))
        set_field(self, "mcp_servers", frozen_tuple("AgentInfo.mcp_servers", self.mcp_servers))
