"""What a format tells of a source: conversations, what happened in them, and what it could not use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from alpineagents.history.entries import HistoryEntry, ToolResultEntry
from alpineagents.values.content import ToolCall, ToolResultContent
from alpineagents.values.exchange import AgentInfo
from alpineagents.values.outcomes import ToolOutcomeKind


@dataclass(frozen=True)
class Begun:
    """A conversation begins.

    Attributes:
        key: Its name among those of this source.
        id: The id its State gets.
        agent: What is known of who ran it.
        imported: What the source says of it, for `extra_data`.
        parent_id, parent_call_id: The State and the call that started it, for a subagent.
        sha256, size: Of the bytes that it is made of: by these the same source is known when it comes again.
        grows: Whether the same conversation may come again with more behind it.
    """

    key: str
    id: str
    agent: AgentInfo
    sha256: str
    size: int
    imported: Mapping[str, Any] = field(default_factory=dict[str, Any])
    parent_id: str | None = None
    parent_call_id: str | None = None
    grows: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """One entry of a conversation, as far as the source tells it.

    Requests, starts of runs and turns need not be told: they follow. Of the call of a result only the id counts, and
    its name where the call is not in the source.

    Attributes:
        place: Where in the source it stands, for a person.
        at: When it was; `None` where the source does not say.
        asked_at: For a reply, when the model was asked, if that is known.
        size: How many bytes of the source it took.
    """

    key: str
    place: str
    entry: HistoryEntry
    at: datetime | None = None
    asked_at: datetime | None = None
    size: int = 0


@dataclass(frozen=True)
class Ended:
    """Nothing more of a conversation will come. `imported` is what the source said of it meanwhile."""

    key: str
    imported: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Remark:
    """Something about the source that a person should know."""

    place: str
    kind: Literal["repaired", "left out"]
    text: str


@dataclass(frozen=True)
class PassedOver:
    """A part of the source that belongs to no conversation, such as the tool's own bookkeeping."""

    what: str


Item: TypeAlias = Begun | Found | Ended | Remark | PassedOver


def result_of(
    call_id: str,
    content: ToolResultContent,
    outcome: ToolOutcomeKind,
    *,
    name: str = "(unknown)",
    child_ids: tuple[str, ...] = (),
) -> ToolResultEntry:
    """The result of the call with this id. `name` is used only if the call itself is not in the source."""
    return ToolResultEntry(
        content=content, call=ToolCall(name, {}, call_id), outcome=outcome, child_ids=child_ids, turn=0
    )
