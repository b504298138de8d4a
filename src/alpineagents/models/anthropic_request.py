"""What is sent to the Anthropic Messages API: the JSON body of one request, made of plain values.

https://docs.claude.com/en/api/messages. Nothing here waits or knows a client.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from alpineagents.models.anthropic_errors import Json
from alpineagents.values.content import (
    Block,
    Image,
    Message,
    RawBlock,
    TextBlock,
    ToolCall,
    ToolResultBlock,
)
from alpineagents.values.exchange import Request

PROVIDER = "anthropic"

_NO_TOOLS: Json = {"type": "none"}
_NO_BLOCKS: Json = {
    "type": "text",
    "text": "(empty reply)",
}  # the API refuses empty content in any message but the last


def body_of(request: Request, settings: Json) -> bytes:
    """The body as JSON text in UTF-8; `settings` is what does not depend on the conversation, such as `model`."""
    body = {**settings, "stream": True, "messages": _messages(request.messages), **_tools(request)}
    if request.system is not None:
        body["system"] = request.system
    return _utf8(json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which no UTF-8 can hold
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _messages(messages: tuple[Message, ...]) -> list[Json]:
    return [{"role": role, "content": _content(role, blocks) or [_NO_BLOCKS]} for role, blocks in _merged(messages)]


def _merged(messages: Iterable[Message]) -> list[tuple[str, list[Block]]]:
    """Runs of messages of one role as one, since the API wants the roles to take turns."""
    turns: list[tuple[str, list[Block]]] = []
    for message in messages:
        if not turns or turns[-1][0] != message.role:
            turns.append((message.role, []))
        turns[-1][1].extend(message.content)
    return turns


def _content(role: str, blocks: list[Block]) -> list[Json]:
    if role == "user":  # results first: the API wants them right after the calls they answer
        blocks = sorted(blocks, key=lambda block: not isinstance(block, ToolResultBlock))
    return list(_sent(blocks, images=role == "user"))


def _sent(blocks: Iterable[Block], images: bool) -> Iterator[Json]:
    """The blocks in the form of the API, without those it would refuse."""
    for block in blocks:
        match block:
            case TextBlock(text):
                if text.strip():
                    yield {"type": "text", "text": text}
            case Image():
                if images:
                    source = {"type": "base64", "media_type": block.media_type, "data": block.base64}
                    yield {"type": "image", "source": source}
            case ToolCall(name, args, call_id):
                yield {"type": "tool_use", "id": call_id, "name": name, "input": args}
            case ToolResultBlock():
                yield _result(block)
            case RawBlock(provider, data):
                if provider == PROVIDER:
                    yield dict(data)


def _result(block: ToolResultBlock) -> Json:
    content = block.content if isinstance(block.content, str) else list(_sent(block.content, images=True))
    return {"type": "tool_result", "tool_use_id": block.call_id, "content": content, "is_error": block.is_error}


def _tools(request: Request) -> Json:
    """`tools` and `tool_choice`. The API refuses tool blocks in a request that defines no tools."""
    if request.tools:
        tools = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
            for tool in request.tools
        ]
        return {"tools": tools, "tool_choice": _NO_TOOLS} if request.tool_choice == "none" else {"tools": tools}
    blocks = [block for message in request.messages for block in message.content]
    used = {block.name for block in blocks if isinstance(block, ToolCall | ToolResultBlock) and block.name}
    stand_ins = [{"name": name, "description": "", "input_schema": {"type": "object"}} for name in sorted(used)]
    if stand_ins:
        return {"tools": stand_ins, "tool_choice": _NO_TOOLS}
    return {"tool_choice": _NO_TOOLS} if request.tool_choice == "none" else {}
