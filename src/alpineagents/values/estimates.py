"""How many tokens a context takes, estimated from its characters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from alpineagents.values.content import Block, Image, Message, RawBlock, TextBlock, ToolCall, ToolResultBlock
from alpineagents.values.exchange import ToolSpec
from alpineagents.values.log import Log

MESSAGE_TOKENS = 4
IMAGE_TOKENS = 1600


def text_tokens(text: str) -> int:
    """A third of the characters, rounded up."""
    return (len(text) + 2) // 3


def message_tokens(message: Message) -> int:
    """The estimate for one message."""
    return MESSAGE_TOKENS + sum([_block_tokens(block) for block in message.content])


def _block_tokens(block: Block) -> int:
    if isinstance(block, TextBlock):
        return text_tokens(block.text)
    if isinstance(block, Image):
        return IMAGE_TOKENS
    if isinstance(block, ToolCall):
        return text_tokens(block.name + _json(block.args))
    if isinstance(block, ToolResultBlock):
        return _result_tokens(block)
    if isinstance(block, RawBlock):
        return text_tokens(_json(block.data))
    return text_tokens(str(block))


def _result_tokens(block: ToolResultBlock) -> int:
    if isinstance(block.content, str):
        return text_tokens(block.content)
    images = sum([isinstance(part, Image) for part in block.content])
    return (
        text_tokens("".join([part.text for part in block.content if isinstance(part, TextBlock)]))
        + images * IMAGE_TOKENS
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def context_tokens(messages: Log[Message] | Sequence[Message], overhead: int = 0) -> int:
    """The estimate for a whole context.

    A provider's own count, where a message has one, stands for everything up to that message, the overhead included.
    For a `Log` of messages that has grown since it was last asked about, only the new ones are looked at.
    """
    memo = messages.memo if isinstance(messages, Log) else {}
    known, before, is_counted = memo.get("tokens", _NOTHING)
    if known > len(messages):
        known, before, is_counted = _NOTHING
    total = 0
    for index in range(len(messages) - 1, known - 1, -1):
        tokens = messages[index].tokens
        if tokens is not None:
            before, is_counted = tokens, True
            break
        total += message_tokens(messages[index])
    total += before
    memo["tokens"] = (len(messages), total, is_counted)
    return total if is_counted else overhead + total


_NOTHING = (0, 0, False)  # how many messages were looked at, their tokens, whether a provider's count is among these


def request_overhead(system: str | None, tools: Iterable[ToolSpec]) -> int:
    """The estimate for what goes beside the messages: system prompt and tool definitions."""
    return text_tokens(system or "") + sum(
        [text_tokens(tool.name + tool.description + _json(tool.input_schema)) for tool in tools]
    )
