"""Entries as JSON and back: what a Store writes and reads.

An entry is `seq`, `kind`, `turn`, `at`, `closes` and `block` (which entry it answers, if it answers one), `content`,
and the other fields of its class under their own names: plain dicts, lists and scalars. A field at its default is left
out. Decoding ignores `closes` and `block`, which the fold computes.

The form is `FORMAT`. A change that an older reader would misread gets the next number; `READS` are those read here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from alpineagents.errors import explain
from alpineagents.history.codec_checks import (
    MISSING,
    JsonDict,
    Misfit,
    flag,
    frozen_object,
    inside,
    json_object,
    optional,
    record,
    text,
    text_tuple,
    texts,
    time_of,
    time_text,
    unexpected,
    whole,
)
from alpineagents.history.codec_contents import (
    agent_data,
    agent_of,
    change_data,
    change_of,
    event_data,
    event_of,
    exchange_data,
    exchange_of,
    reply_data,
    reply_of,
)
from alpineagents.history.codec_parts import (
    call_data,
    call_of,
    optional_usage,
    shown_data,
    shown_of,
    stopped_data,
    stopped_of,
    usage_data,
)
from alpineagents.history.entries import (
    ENTRY_CLASSES,
    ContextChangeEntry,
    ErrorEntry,
    ExchangeEntry,
    ExtraDataEntry,
    HistoryEntry,
    MessageEntry,
    ModelEventEntry,
    ModelReplyEntry,
    ModelRequestEntry,
    RunStartEntry,
    StopEntry,
    ToolResultEntry,
)
from alpineagents.history.value import Closing
from alpineagents.values.outcomes import Stopped, ToolOutcomeKind

FORMAT = 1
READS = (1,)

_DAMAGED = "what was saved has been damaged or changed by something else: use a backup"
_OUTCOMES = {kind.value: kind for kind in ToolOutcomeKind}


def encode(entry: HistoryEntry, seq: int, closing: Closing | None = None) -> JsonDict:
    """An entry as plain JSON.

    Args:
        seq: Its index in the history.
        closing: Which entry it answers, as the fold says.
    Raises:
        TypeError: A value is not JSON, or not of the type its field has; the message gives its place.
    """
    cls = type(entry)
    content_data = _CONTENT_WRITERS.get(cls)
    if content_data is None:
        raise TypeError(explain(f"entry {seq} is not a history entry but {cls.__name__}"))
    try:
        kind = text(entry.kind, "kind")
        if ENTRY_CLASSES.get(kind) is not cls:
            raise unexpected(kind, f"a kind of {cls.__name__}", "kind")
        data: JsonDict = {"seq": seq, "kind": kind, "turn": whole(entry.turn, "turn")}
        data["at"] = inside("at", time_text, entry.at)
        if closing is not None:
            data["closes"] = closing.seq
            if closing.block is not None:
                data["block"] = closing.block
        data["content"] = inside("content", content_data, entry.content)
        if cls in _FIELD_WRITERS:
            _FIELD_WRITERS[cls](data, entry)
        return data
    except Misfit as misfit:
        raise TypeError(f"entry {seq} ({entry.kind}): {misfit}") from None


def decode(data: Mapping[str, Any]) -> HistoryEntry:
    """The entry of its JSON.

    Raises:
        ValueError: A kind, block or reason to stop is unknown, a key is missing, or a value has a wrong type; the
            message has the `seq` and the place.
    """
    try:
        fields = record(data)
        kind: Any = fields.get("kind", MISSING)
        cls: Any = ENTRY_CLASSES.get(kind) if isinstance(kind, str) else None
        if cls is None:
            raise unexpected(kind, "a kind of entry", "kind")
        content = inside("content", _CONTENT_READERS[cls], fields.get("content", MISSING))
        turn, at = whole(fields.get("turn", MISSING), "turn"), inside("at", time_of, fields.get("at", MISSING))
        if cls in _FIELD_READERS:
            return cls(kind=kind, content=content, turn=turn, at=at, **_FIELD_READERS[cls](fields))
        return cls(kind=kind, content=content, turn=turn, at=at)
    except Misfit as misfit:
        raise ValueError(explain(f"{_entry_name(data)}: {misfit}", _DAMAGED)) from None


def _entry_name(data: object) -> str:
    fields = cast("JsonDict", data) if isinstance(data, dict) else {}
    seq, kind = fields.get("seq"), fields.get("kind")
    name = f"entry {seq}" if isinstance(seq, int) else "an entry"
    return f"{name} ({kind})" if isinstance(kind, str) else name


def encode_stopped(stopped: Stopped | None) -> JsonDict | None:
    """A reason to stop as plain JSON.

    Raises:
        TypeError: A value in it is not JSON, or it is no reason to stop.
    """
    try:
        return inside("stopped", stopped_data, stopped)
    except Misfit as misfit:
        raise TypeError(str(misfit)) from None


def decode_stopped(data: Mapping[str, Any] | None) -> Stopped | None:
    """The reason to stop of its JSON.

    Raises:
        ValueError: It is unknown, a key is missing, or a value has a wrong type.
    """
    try:
        return inside("stopped", stopped_of, data)
    except Misfit as misfit:
        raise ValueError(explain(str(misfit), _DAMAGED)) from None


def image_blocks(data: Mapping[str, Any]) -> Iterator[JsonDict]:
    """The images in an entry's JSON, known by where they stand: somebody's own values may look like one and are none.

    Damaged JSON is no error here, it just has fewer images; `decode` says what is wrong with it.
    """
    kind, content = data.get("kind"), data.get("content")
    if kind in ("user", "notice", "tool_result"):
        yield from _images(content)
    elif isinstance(content, dict):
        fields = cast("JsonDict", content)
        messages = fields.get("messages") if kind == "context_change" else [fields.get("message")]
        if kind in ("model_reply", "context_change") and isinstance(messages, list):
            for message in cast("list[Any]", messages):
                yield from _images(cast("JsonDict", message).get("content") if isinstance(message, dict) else None)


def _images(blocks: Any) -> Iterator[JsonDict]:
    for block in cast("list[Any]", blocks) if isinstance(blocks, list) else ():
        fields = cast("JsonDict", block) if isinstance(block, dict) else {}
        if fields.get("type") == "image":
            yield fields
        elif fields.get("type") == "tool_result":
            yield from _images(fields.get("content"))


def _write_tool_result(data: JsonDict, entry: ToolResultEntry) -> None:
    data["call"] = inside("call", call_data, entry.call)
    data["outcome"] = entry.outcome.value
    if entry.late is not False:
        data["late"] = flag(entry.late, "late")
    if entry.child_ids:
        data["child_ids"] = texts(entry.child_ids, "child_ids")
    if entry.usage is not None:
        data["usage"] = inside("usage", usage_data, entry.usage)


def _tool_result_fields(data: JsonDict) -> JsonDict:
    return {
        "call": inside("call", call_of, data.get("call", MISSING)),
        "outcome": inside("outcome", _outcome, data.get("outcome", MISSING)),
        "late": flag(data.get("late", False), "late"),
        "child_ids": text_tuple(data, "child_ids"),
        "usage": optional_usage(data),
    }


def _outcome(value: Any) -> ToolOutcomeKind:
    outcome = _OUTCOMES.get(value) if isinstance(value, str) else None
    if outcome is None:
        raise unexpected(value, f"one of {', '.join(_OUTCOMES)}")
    return outcome


def _write_exchange(data: JsonDict, entry: ExchangeEntry) -> None:
    if entry.usage is not None:
        data["usage"] = inside("usage", usage_data, entry.usage)


def _exchange_fields(data: JsonDict) -> JsonDict:
    return {"usage": optional_usage(data)}


def _write_run_start(data: JsonDict, entry: RunStartEntry) -> None:
    if entry.parent_id is not None:
        data["parent_id"] = text(entry.parent_id, "parent_id")
    if entry.parent_call_id is not None:
        data["parent_call_id"] = text(entry.parent_call_id, "parent_call_id")


def _run_start_fields(data: JsonDict) -> JsonDict:
    return {
        "parent_id": optional(data, "parent_id", text),
        "parent_call_id": optional(data, "parent_call_id", text),
    }


def _write_extra_data(data: JsonDict, entry: ExtraDataEntry) -> None:
    if entry.removed:
        data["removed"] = texts(entry.removed, "removed")


def _extra_data_fields(data: JsonDict) -> JsonDict:
    return {"removed": text_tuple(data, "removed")}


def _write_error(data: JsonDict, entry: ErrorEntry) -> None:
    if entry.call is not None:
        data["call"] = inside("call", call_data, entry.call)


def _error_fields(data: JsonDict) -> JsonDict:
    call = data.get("call")
    return {"call": None if call is None else inside("call", call_of, call)}


_CONTENT_WRITERS: dict[type[Any], Callable[[Any], Any]] = {
    MessageEntry: shown_data,
    ModelRequestEntry: text,
    ModelReplyEntry: reply_data,
    ModelEventEntry: event_data,
    ToolResultEntry: shown_data,
    ExchangeEntry: exchange_data,
    ContextChangeEntry: change_data,
    RunStartEntry: agent_data,
    StopEntry: stopped_data,
    ExtraDataEntry: json_object,
    ErrorEntry: text,
}
_CONTENT_READERS: dict[type[Any], Callable[[Any], Any]] = {
    MessageEntry: shown_of,
    ModelRequestEntry: text,
    ModelReplyEntry: reply_of,
    ModelEventEntry: event_of,
    ToolResultEntry: shown_of,
    ExchangeEntry: exchange_of,
    ContextChangeEntry: change_of,
    RunStartEntry: agent_of,
    StopEntry: stopped_of,
    ExtraDataEntry: frozen_object,
    ErrorEntry: text,
}
_FIELD_WRITERS: dict[type[Any], Callable[[JsonDict, Any], None]] = {
    ToolResultEntry: _write_tool_result,
    ExchangeEntry: _write_exchange,
    RunStartEntry: _write_run_start,
    ExtraDataEntry: _write_extra_data,
    ErrorEntry: _write_error,
}
_FIELD_READERS: dict[type[Any], Callable[[JsonDict], JsonDict]] = {
    ToolResultEntry: _tool_result_fields,
    ExchangeEntry: _exchange_fields,
    RunStartEntry: _run_start_fields,
    ExtraDataEntry: _extra_data_fields,
    ErrorEntry: _error_fields,
}
