"""The JSON form of what several kinds of entries are made of: calls, blocks, messages, usage, reasons to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from alpineagents.history.codec_checks import (
    MISSING,
    JsonDict,
    Misfit,
    flag,
    frozen_object,
    frozen_value,
    inside,
    items,
    json_object,
    json_value,
    number,
    optional,
    record,
    text,
    unexpected,
    whole,
)
from alpineagents.values.content import (
    Block,
    Image,
    Message,
    RawBlock,
    TextBlock,
    ToolCall,
    ToolResultBlock,
    ToolResultContent,
    only_text,
)
from alpineagents.values.outcomes import (
    Stopped,
    StoppedByFinish,
    StoppedByLimit,
    StoppedByPermission,
    StoppedByUntil,
)
from alpineagents.values.usage import Usage


def call_data(call: Any) -> JsonDict:
    """A tool call as JSON."""
    if not isinstance(call, ToolCall):
        raise unexpected(call, "a ToolCall")
    return {"name": text(call.name, "name"), "args": json_value(call.args, "args"), "id": text(call.id, "id")}


def call_of(value: Any) -> ToolCall:
    """The tool call of its JSON."""
    data = record(value)
    args = frozen_object(data.get("args", MISSING), "args")
    return ToolCall(text(data.get("name", MISSING), "name"), args, text(data.get("id", MISSING), "id"))


def _text_block_data(block: TextBlock) -> JsonDict:
    return {"type": "text", "text": text(block.text, "text")}


def _text_block_of(data: JsonDict) -> TextBlock:
    return TextBlock(text(data.get("text", MISSING), "text"))


def _image_data(image: Image) -> JsonDict:
    return {"type": "image", "media_type": image.media_type, "data": image.base64}


def _image_of(data: JsonDict) -> Image:
    base64, media_type = text(data.get("data", MISSING), "data"), text(data.get("media_type", MISSING), "media_type")
    try:
        return Image.from_base64(base64, media_type)
    except ValueError as error:
        raise Misfit(f" is no image: {error}") from None


def _call_block_data(call: ToolCall) -> JsonDict:
    return {"type": "tool_call", **call_data(call)}


def _result_block_data(block: ToolResultBlock) -> JsonDict:
    data: JsonDict = {"type": "tool_result", "call_id": text(block.call_id, "call_id")}
    data["content"] = inside("content", shown_data, block.content)
    if block.name != "":
        data["name"] = text(block.name, "name")
    if block.is_error is not False:
        data["is_error"] = flag(block.is_error, "is_error")
    return data


def _result_block_of(data: JsonDict) -> ToolResultBlock:
    return ToolResultBlock(
        text(data.get("call_id", MISSING), "call_id"),
        inside("content", shown_of, data.get("content", MISSING)),
        text(data.get("name", ""), "name"),
        flag(data.get("is_error", False), "is_error"),
    )


def _raw_block_data(block: RawBlock) -> JsonDict:
    return {"type": "raw", "provider": text(block.provider, "provider"), "data": json_object(block.data, "data")}


def _raw_block_of(data: JsonDict) -> RawBlock:
    return RawBlock(text(data.get("provider", MISSING), "provider"), frozen_object(data.get("data", MISSING), "data"))


_Writers: TypeAlias = Mapping[type[Any], Callable[[Any], JsonDict]]
_Readers: TypeAlias = Mapping[str, Callable[[JsonDict], Any]]
_SHOWN_WRITERS: _Writers = {TextBlock: _text_block_data, Image: _image_data}
_SHOWN_READERS: _Readers = {"text": _text_block_of, "image": _image_of}
_WRITERS: _Writers = {
    **_SHOWN_WRITERS,
    ToolCall: _call_block_data,
    ToolResultBlock: _result_block_data,
    RawBlock: _raw_block_data,
}
_READERS: _Readers = {**_SHOWN_READERS, "tool_call": call_of, "tool_result": _result_block_of, "raw": _raw_block_of}


def _blocks_data(blocks: tuple[object, ...], writers: _Writers) -> list[JsonDict]:
    data: list[JsonDict] = []
    for index, block in enumerate(blocks):
        write = writers.get(type(block)) or next((w for c, w in writers.items() if isinstance(block, c)), None)
        if write is None:
            raise unexpected(block, f"one of {', '.join([c.__name__ for c in writers])}", index)
        data.append(inside(index, write, block))
    return data


def _blocks_of(values: list[Any], readers: _Readers) -> tuple[Any, ...]:
    blocks: list[Any] = []
    for index, value in enumerate(values):
        data = inside(index, record, value)
        kind = data.get("type", MISSING)
        read = readers.get(kind) if isinstance(kind, str) else None
        if read is None:
            raise unexpected(kind, f"one of {', '.join(readers)}", "type", index)
        blocks.append(inside(index, read, data))
    return tuple(blocks)


def shown_data(content: ToolResultContent) -> str | list[JsonDict]:
    """A result or message of text and images as JSON: a text stays a text."""
    return str.__str__(content) if isinstance(content, str) else _blocks_data(content, _SHOWN_WRITERS)


def shown_of(value: Any) -> ToolResultContent:
    """The text, or the text and images, of its JSON."""
    return value if isinstance(value, str) else _blocks_of(items(value), _SHOWN_READERS)


def message_data(message: Any) -> JsonDict:
    """A message as JSON: one text block is its text."""
    if not isinstance(message, Message):
        raise unexpected(message, "a Message")
    data: JsonDict = {"role": text(message.role, "role"), "content": inside("content", _content_data, message.content)}
    if message.tokens is not None:
        data["tokens"] = whole(message.tokens, "tokens")
    if message.stop_reason is not None:
        data["stop_reason"] = text(message.stop_reason, "stop_reason")
    return data


def _content_data(content: tuple[Block, ...]) -> str | list[JsonDict]:
    only = only_text(content)
    return _blocks_data(content, _WRITERS) if only is None else text(only, "text")


def message_of(value: Any) -> Message:
    """The message of its JSON."""
    data = record(value)
    role: Any = text(data.get("role", MISSING), "role")
    content = inside("content", _content_of, data.get("content", MISSING))
    return Message(role, content, optional(data, "tokens", whole), optional(data, "stop_reason", text))


def _content_of(value: Any) -> tuple[Block, ...]:
    return (TextBlock(value),) if isinstance(value, str) else _blocks_of(items(value), _READERS)


_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "requests")


def usage_data(usage: Any) -> JsonDict:
    """Token counts and dollars as JSON: what is 0 tokens or of unknown cost is left out."""
    if not isinstance(usage, Usage):
        raise unexpected(usage, "a Usage")
    data: JsonDict = {}
    for name in _COUNTS:
        count = getattr(usage, name)
        if count != 0 or type(count) is not int:
            data[name] = whole(count, name)
    if usage.cost is not None:
        data["cost"] = number(usage.cost, "cost")
    return data


def usage_of(value: Any) -> Usage:
    """The usage of its JSON."""
    data = record(value)
    counts = [whole(data.get(name, 0), name) for name in _COUNTS]
    return Usage(*counts, cost=optional(data, "cost", number))


def optional_usage(data: JsonDict) -> Usage | None:
    """The usage of an entry or record that may have none."""
    usage = data.get("usage")
    return None if usage is None else inside("usage", usage_of, usage)


def _until_data(stopped: StoppedByUntil) -> JsonDict:
    return {"type": "until", "name": text(stopped.name, "name")}


def _limit_data(stopped: StoppedByLimit) -> JsonDict:
    return {"type": "limit", "turns": whole(stopped.turns, "turns")}


def _finish_data(stopped: StoppedByFinish) -> JsonDict:
    answer = stopped.answer
    return {"type": "finish"} if answer is None else {"type": "finish", "answer": json_value(answer, "answer")}


def _permission_data(stopped: StoppedByPermission) -> JsonDict:
    call = inside("call", call_data, stopped.call)
    return {"type": "permission", "call": call, "permission": text(stopped.permission, "permission")}


_STOP_WRITERS: _Writers = {
    StoppedByUntil: _until_data,
    StoppedByLimit: _limit_data,
    StoppedByFinish: _finish_data,
    StoppedByPermission: _permission_data,
}
_STOP_READERS: Mapping[str, Callable[[JsonDict], Stopped]] = {
    "until": lambda data: StoppedByUntil(text(data.get("name", MISSING), "name")),
    "limit": lambda data: StoppedByLimit(whole(data.get("turns", MISSING), "turns")),
    "finish": lambda data: StoppedByFinish(frozen_value(data.get("answer"), "answer")),
    "permission": lambda data: StoppedByPermission(
        inside("call", call_of, data.get("call", MISSING)), text(data.get("permission", MISSING), "permission")
    ),
}


def stopped_data(stopped: object) -> JsonDict | None:
    """A reason to stop as JSON."""
    if stopped is None:
        return None
    write = _STOP_WRITERS.get(type(stopped))
    if write is None:
        raise unexpected(stopped, "a reason to stop")
    return write(stopped)


def stopped_of(value: Any) -> Stopped | None:
    """The reason to stop of its JSON."""
    if value is None:
        return None
    data = record(value)
    kind = data.get("type", MISSING)
    read = _STOP_READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise unexpected(kind, f"one of {', '.join(_STOP_READERS)}", "type")
    return read(data)
