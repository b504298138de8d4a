"""Messages as the chat formats have them: `role`, `content`, `tool_calls`, and what answers a call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from alpineagents.history.entries import HistoryEntry, MessageEntry, ModelReplyEntry
from alpineagents.importing.contents import (
    Mend,
    Part,
    arguments,
    fields,
    part_of,
    parts_of,
    records,
    result_content,
    text_or_none,
)
from alpineagents.importing.items import result_of
from alpineagents.values.content import Block, Image, Message, RawBlock, TextBlock, ToolCall
from alpineagents.values.exchange import Reply
from alpineagents.values.outcomes import ToolOutcomeKind
from alpineagents.values.usage import Usage

ONE_REQUEST = Usage(requests=1)
SYSTEM_ROLES = ("system", "developer")
_TEXTS_OF_REASONING = ("reasoning_content", "reasoning")


@dataclass(frozen=True)
class Known:
    """What a format knows of a message beside the message itself.

    Attributes:
        outcome: How the call ended that a result is of.
    """

    provider: str = "openai"
    usage: Usage = ONE_REQUEST
    model: str | None = None
    stop_reason: str | None = None
    outcome: ToolOutcomeKind = ToolOutcomeKind.DONE


def system_of(messages: Any, mend: Mend) -> tuple[str | None, int]:
    """The system prompt that a list of messages begins with, and how many of them it takes."""
    texts: list[str] = []
    for _, item in records(messages):
        message = fields(item)
        if message.get("role") not in SYSTEM_ROLES:
            break
        texts.append(_only_text(parts_of(message.get("content"), mend)))
    return ("\n\n".join(texts) if texts else None), len(texts)


def entry_of(message: dict[str, Any], mend: Mend, known: Known) -> HistoryEntry | str:
    """The entry that a message becomes, or why there is none."""
    role, content = message.get("role"), message.get("content")
    if role == "user":
        return MessageEntry(kind="user", content=parts_of(content, mend), turn=0)
    if role == "assistant":
        return _reply_of(message, mend, known)
    if role in SYSTEM_ROLES:
        notice = Message.notice(_only_text(parts_of(content, mend)))
        return MessageEntry.from_message(notice, turn=0)
    if role not in ("tool", "function"):
        return f"a message of the unknown role {role!r}"
    id = text_or_none(message.get("tool_call_id")) or _only_id(message.get("tool_call_ids"))
    name = text_or_none(message.get("name")) or text_or_none(message.get("function"))
    if role == "function" and name is not None:
        id = _old_id(name)
    if id is None:
        return "a result that does not say of which call"
    return result_of(id, result_content(content, mend), known.outcome, name=name or "(unknown)")


def _reply_of(message: dict[str, Any], mend: Mend, known: Known) -> ModelReplyEntry:
    blocks = (*_said(message, mend, known.provider), *_calls_of(message, mend))
    reply = Reply(Message("assistant", blocks), known.usage, stop_reason=known.stop_reason, model=known.model)
    return ModelReplyEntry(content=reply, turn=0)


def _said(message: dict[str, Any], mend: Mend, provider: str) -> Iterator[Block]:
    yield from [RawBlock("anthropic", fields(item)) for _, item in records(message.get("thinking_blocks"))]
    for key in _TEXTS_OF_REASONING:
        if isinstance(message.get(key), str) and message[key]:
            yield RawBlock(provider, {key: message[key]})
    content = message.get("content")
    if not isinstance(content, list):
        yield from [part for part in parts_of(content or message.get("refusal"), mend) if not _is_empty(part)]
        return
    for _, item in records(content):
        if isinstance(item, str) or fields(item).get("type") in ("text", "output_text", "image", "image_url"):
            yield part_of(item, mend)
        else:
            yield RawBlock(provider, fields(item))


def _is_empty(part: Part) -> bool:
    return isinstance(part, TextBlock) and not part.text


def _calls_of(message: dict[str, Any], mend: Mend) -> Iterator[ToolCall]:
    for number, item in records(message.get("tool_calls")):
        call = fields(item)
        function = fields(call.get("function")) or call
        name = text_or_none(function.get("name")) or text_or_none(call.get("function"))
        id = text_or_none(call.get("id"))
        if name is None:
            mend(f"call {number} has no name and is left out")
            continue
        if id is None:
            mend(f"call {number}, {name}, has no id and gets one")
        yield ToolCall(name, arguments(function.get("arguments")), id or f"call_{number}")
    old = fields(message.get("function_call"))
    name = text_or_none(old.get("name"))
    if name is not None:
        yield ToolCall(name, arguments(old.get("arguments")), _old_id(name))


def _old_id(name: str) -> str:
    """The id of a call in the form that had none."""
    return f"call_{name}"


def _only_id(ids: Any) -> str | None:
    return next((id for _, id in records(ids) if isinstance(id, str)), None)


def _only_text(parts: tuple[Part, ...]) -> str:
    return "".join(["(image)" if isinstance(part, Image) else part.text for part in parts])
