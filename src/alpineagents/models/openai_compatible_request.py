"""What is sent to a Chat Completions server: the JSON body of one request, made of plain values.

https://platform.openai.com/docs/api-reference/chat/create. Nothing here waits or knows a client.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from alpineagents.models.wire import Json, encoded, merged
from alpineagents.values.content import Block, Image, RawBlock, TextBlock, ToolCall, ToolResultBlock
from alpineagents.values.exchange import Request

PROVIDER = "openai_compatible"

_NO_BLOCKS = "(empty reply)"  # many servers refuse an assistant message that holds nothing
_PLAIN_ID = re.compile(r"[A-Za-z0-9]{9}")  # https://docs.mistral.ai takes no other id of a call
_ID_LENGTH = 9


@dataclass(frozen=True)
class Dialect:
    """What differs between servers of the one protocol.

    Attributes:
        limit_name: What the output limit is called.
        counts_asked: Whether the request may ask for token counts (`stream_options`).
        plain_ids: Whether ids of calls must be nine letters or digits.
    """

    limit_name: str
    counts_asked: bool = True
    plain_ids: bool = False


def body_of(request: Request, settings: Json, dialect: Dialect) -> bytes:
    """The body as JSON text in UTF-8; `settings` is what does not depend on the conversation, such as `model`."""
    body: Json = {**settings, "messages": list(_messages(request, dialect)), "stream": True}
    if dialect.counts_asked:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
            }
            for tool in request.tools
        ]
        if request.tool_choice == "none":
            body["tool_choice"] = "none"
    return encoded(body)


def has_odd_ids(request: Request) -> bool:
    """Whether some call has an id that a server of plain ids would not take."""
    blocks = (block for message in request.messages for block in message.content)
    return any(isinstance(block, ToolCall) and not _PLAIN_ID.fullmatch(block.id) for block in blocks)


def _messages(request: Request, dialect: Dialect) -> Iterator[Json]:
    sent_id = _plain_id if dialect.plain_ids else str
    if request.system is not None:
        yield {"role": "system", "content": request.system}
    for role, blocks in merged(request.messages):
        if role == "assistant":
            yield _assistant(blocks, sent_id)
        else:
            yield from _user(blocks, sent_id)


def _plain_id(call_id: str) -> str:
    """The same nine characters for the same id."""
    if _PLAIN_ID.fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_LENGTH]


def _assistant(blocks: list[Block], sent_id: Callable[[str], str]) -> Json:
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    text = _joined(blocks)
    message: Json = {"role": "assistant", "content": text or (None if calls else _NO_BLOCKS)}
    for block in blocks:
        if isinstance(block, RawBlock) and block.provider == PROVIDER:
            message |= block.data
    if calls:
        message["tool_calls"] = [
            {
                "id": sent_id(call.id),
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.args, ensure_ascii=False)},
            }
            for call in calls
        ]
    return message


def _user(blocks: list[Block], sent_id: Callable[[str], str]) -> Iterator[Json]:
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    own = [block for block in blocks if isinstance(block, TextBlock | Image)]
    for result in results:
        yield {"role": "tool", "tool_call_id": sent_id(result.call_id), "content": _result_text(result)}
    shown = [part for result in results for part in _result_images(result, sent_id)]
    if shown or any(isinstance(block, Image) for block in own):
        yield {"role": "user", "content": [*shown, *_parts(own)]}
    elif text := _joined(own):
        yield {"role": "user", "content": text}


def _result_text(result: ToolResultBlock) -> str:
    text = result.content if isinstance(result.content, str) else "\n".join(_result_lines(result.content))
    return f"Error: {text}" if result.is_error else text


def _result_lines(content: tuple[TextBlock | Image, ...]) -> Iterator[str]:
    yield from (block.text for block in content if isinstance(block, TextBlock))
    count = sum(isinstance(block, Image) for block in content)
    if count:
        yield f"({count} image{'s' * (count > 1)} in the next user message, inside <tool_result> tags)"


def _result_images(result: ToolResultBlock, sent_id: Callable[[str], str]) -> Iterator[Json]:
    """The images of a result between two texts that say whose they are: a tool message cannot hold them."""
    images = [] if isinstance(result.content, str) else [block for block in result.content if isinstance(block, Image)]
    if images:
        yield _text(f'<tool_result tool_name="{result.name}" tool_call_id="{sent_id(result.call_id)}">')
        yield from map(_image, images)
        yield _text("</tool_result>")


def _parts(blocks: Iterable[TextBlock | Image]) -> Iterator[Json]:
    pieces: list[str] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            pieces.append(block.text)
            continue
        if text := "".join(pieces):
            yield _text(text)
        pieces.clear()
        yield _image(block)
    if text := "".join(pieces):
        yield _text(text)


def _joined(blocks: Iterable[Block]) -> str:
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _image(image: Image) -> Json:
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.base64}"}}
