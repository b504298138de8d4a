"""The JSON form of entries: its exact keys, what it refuses to write, what it refuses to read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from strategies import MAX_INT, images, reasons_to_stop, zoned_times

from alpineagents.history.codec import FORMAT, READS, decode, decode_stopped, encode, encode_stopped, image_blocks
from alpineagents.history.entries import (
    ENTRY_CLASSES,
    ContextChange,
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
from alpineagents.values.content import (
    INVALID_ARGS_KEY,
    Image,
    Message,
    RawBlock,
    TextBlock,
    ToolCall,
    ToolResultBlock,
)
from alpineagents.values.exchange import AgentInfo, Exchange, ModelEvent, Reply
from alpineagents.values.frozen import FrozenDict, FrozenList
from alpineagents.values.outcomes import (
    Stopped,
    StoppedByFinish,
    StoppedByLimit,
    StoppedByPermission,
    StoppedByUntil,
    ToolOutcomeKind,
)
from alpineagents.values.usage import Usage

AT = datetime(2026, 11, 30, 21, 41, 52, 7, UTC)
HEAD = {"seq": 3, "turn": 2, "at": "2026-11-30T21:41:52.000007+00:00"}
CALL = ToolCall("read", {"path": "a.txt", "lines": (1, 2)}, "call_1")
CALL_DATA = {"name": "read", "args": {"path": "a.txt", "lines": [1, 2]}, "id": "call_1"}
PICTURE = Image(b"abc", "image/png")
PICTURE_DATA = {"type": "image", "media_type": "image/png", "data": "YWJj"}
FULL_USAGE = Usage(1, 2, 3, 4, 5, 0.5)
FULL_USAGE_DATA = {
    "input_tokens": 1,
    "output_tokens": 2,
    "cache_read_tokens": 3,
    "cache_write_tokens": 4,
    "requests": 5,
    "cost": 0.5,
}
ALL_BLOCKS = (
    TextBlock("hello"),
    PICTURE,
    CALL,
    ToolResultBlock("call_0", "text"),
    ToolResultBlock("call_1", (TextBlock("see"), PICTURE), "read", True),
    RawBlock("acme", {"thinking": "…"}),
)
ALL_BLOCKS_DATA = [
    {"type": "text", "text": "hello"},
    PICTURE_DATA,
    {"type": "tool_call", **CALL_DATA},
    {"type": "tool_result", "call_id": "call_0", "content": "text"},
    {
        "type": "tool_result",
        "call_id": "call_1",
        "content": [{"type": "text", "text": "see"}, PICTURE_DATA],
        "name": "read",
        "is_error": True,
    },
    {"type": "raw", "provider": "acme", "data": {"thinking": "…"}},
]


def stamped(cls: type[Any], **fields: Any) -> Any:
    return cls(turn=2, at=AT, **fields)


FORMS: dict[str, tuple[HistoryEntry, dict[str, Any]]] = {
    "a message": (stamped(MessageEntry, kind="user", content="go"), {"kind": "user", "content": "go"}),
    "a message with an image": (
        stamped(MessageEntry, kind="notice", content=(TextBlock("look"), PICTURE)),
        {"kind": "notice", "content": [{"type": "text", "text": "look"}, PICTURE_DATA]},
    ),
    "a request": (stamped(ModelRequestEntry, content="acme/large"), {"kind": "model_request", "content": "acme/large"}),
    "a short reply": (
        stamped(ModelReplyEntry, content=Reply(Message.assistant("yes"), Usage())),
        {"kind": "model_reply", "content": {"message": {"role": "assistant", "content": "yes"}, "usage": {}}},
    ),
    "a full reply": (
        stamped(
            ModelReplyEntry,
            content=Reply(Message("assistant", ALL_BLOCKS, 9, "stop"), FULL_USAGE, 10, "tool_use", "large-1"),
        ),
        {
            "kind": "model_reply",
            "content": {
                "message": {"role": "assistant", "content": ALL_BLOCKS_DATA, "tokens": 9, "stop_reason": "stop"},
                "usage": FULL_USAGE_DATA,
                "context_tokens": 10,
                "stop_reason": "tool_use",
                "model": "large-1",
            },
        },
    ),
    "a short event": (
        stamped(ModelEventEntry, content=ModelEvent("retry", "again")),
        {"kind": "model_event", "content": {"kind": "retry", "message": "again"}},
    ),
    "a full event": (
        stamped(ModelEventEntry, content=ModelEvent("retry", "again", {"wait_s": 2.0})),
        {"kind": "model_event", "content": {"kind": "retry", "message": "again", "data": {"wait_s": 2.0}}},
    ),
    "a short tool result": (
        stamped(ToolResultEntry, content="ok", call=CALL, outcome="done"),
        {"kind": "tool_result", "content": "ok", "call": CALL_DATA, "outcome": "done"},
    ),
    "a full tool result": (
        stamped(
            ToolResultEntry,
            content=(TextBlock("ok"),),
            call=CALL,
            outcome="input_error",
            late=True,
            child_ids=("b", "a"),
            usage=Usage(cost=0.0),
        ),
        {
            "kind": "tool_result",
            "content": [{"type": "text", "text": "ok"}],
            "call": CALL_DATA,
            "outcome": "input_error",
            "late": True,
            "child_ids": ["b", "a"],
            "usage": {"cost": 0.0},
        },
    ),
    "a question to the model": (
        stamped(ExchangeEntry, kind="ask", content=Exchange("why?", {"a": (1,)}), usage=FULL_USAGE),
        {"kind": "ask", "content": {"question": "why?", "answer": {"a": [1]}}, "usage": FULL_USAGE_DATA},
    ),
    "a question to a person": (
        stamped(ExchangeEntry, kind="human", content=Exchange("why?", None)),
        {"kind": "human", "content": {"question": "why?", "answer": None}},
    ),
    "an import": (
        stamped(
            ContextChangeEntry,
            content=ContextChange("import", 0, 4, messages=(Message("user", ()), Message.user("hi"))),
        ),
        {
            "kind": "context_change",
            "content": {
                "kind": "import",
                "before_tokens": 0,
                "after_tokens": 4,
                "messages": [{"role": "user", "content": []}, {"role": "user", "content": "hi"}],
            },
        },
    ),
    "a compaction": (
        stamped(ContextChangeEntry, content=ContextChange("compact", 90, 4, summary="so far", kept=2, usage=Usage())),
        {
            "kind": "context_change",
            "content": {
                "kind": "compact",
                "before_tokens": 90,
                "after_tokens": 4,
                "summary": "so far",
                "kept": 2,
                "usage": {},
            },
        },
    ),
    "a clearing": (
        stamped(ContextChangeEntry, content=ContextChange("clear_tool_results", 90, 4, cleared=("b", "a"))),
        {
            "kind": "context_change",
            "content": {"kind": "clear_tool_results", "before_tokens": 90, "after_tokens": 4, "cleared": ["b", "a"]},
        },
    ),
    "a restore": (
        stamped(ContextChangeEntry, content=ContextChange("restore", 90, 4, restored_to=0)),
        {
            "kind": "context_change",
            "content": {"kind": "restore", "before_tokens": 90, "after_tokens": 4, "restored_to": 0},
        },
    ),
    "a short run start": (
        stamped(RunStartEntry, content=AgentInfo(model="acme/large")),
        {"kind": "run_start", "content": {"model": "acme/large"}},
    ),
    "a full run start": (
        stamped(
            RunStartEntry,
            content=AgentInfo(name="fixer", model="m", system_sha256="ab", tools=("x", "y"), mcp_servers=("z",)),
            parent_id="parent",
            parent_call_id="call_1",
        ),
        {
            "kind": "run_start",
            "content": {
                "name": "fixer",
                "model": "m",
                "system_sha256": "ab",
                "tools": ["x", "y"],
                "mcp_servers": ["z"],
            },
            "parent_id": "parent",
            "parent_call_id": "call_1",
        },
    ),
    "no stop": (stamped(StopEntry, content=None), {"kind": "stop", "content": None}),
    "a stop by until": (
        stamped(StopEntry, content=StoppedByUntil("done")),
        {"kind": "stop", "content": {"type": "until", "name": "done"}},
    ),
    "a stop by limit": (
        stamped(StopEntry, content=StoppedByLimit(5)),
        {"kind": "stop", "content": {"type": "limit", "turns": 5}},
    ),
    "a finish": (stamped(StopEntry, content=StoppedByFinish()), {"kind": "stop", "content": {"type": "finish"}}),
    "a finish with an answer": (
        stamped(StopEntry, content=StoppedByFinish({"a": (False,)})),
        {"kind": "stop", "content": {"type": "finish", "answer": {"a": [False]}}},
    ),
    "a stop by a permission": (
        stamped(StopEntry, content=StoppedByPermission(CALL, "Ask()")),
        {"kind": "stop", "content": {"type": "permission", "call": CALL_DATA, "permission": "Ask()"}},
    ),
    "extra data": (
        stamped(ExtraDataEntry, content={"b": 1, "a": None}, removed=("z", "y")),
        {"kind": "extra_data", "content": {"b": 1, "a": None}, "removed": ["z", "y"]},
    ),
    "no extra data": (stamped(ExtraDataEntry, content={}), {"kind": "extra_data", "content": {}}),
    "an error": (
        stamped(ErrorEntry, content="OSError: full", error=OSError("full")),
        {"kind": "error", "content": "OSError: full"},
    ),
    "an error of a call": (
        stamped(ErrorEntry, content="OSError: full", call=CALL),
        {"kind": "error", "content": "OSError: full", "call": CALL_DATA},
    ),
}
every_form = pytest.mark.parametrize(("entry", "fields"), FORMS.values(), ids=list(FORMS))


def test_there_is_a_form_of_every_kind() -> None:
    assert {entry.kind for entry, _ in FORMS.values()} == set(ENTRY_CLASSES)


def test_what_is_written_is_read() -> None:
    assert FORMAT in READS


@every_form
def test_an_entry_has_exactly_these_keys(entry: HistoryEntry, fields: dict[str, Any]) -> None:
    assert encode(entry, 3) == {**HEAD, **fields}


@every_form
def test_the_keys_give_the_entry(entry: HistoryEntry, fields: dict[str, Any]) -> None:
    back = decode({**HEAD, **fields})
    assert (type(back), back, back.at) == (type(entry), entry, entry.at)


def test_a_closing_is_written_and_not_read() -> None:
    entry, fields = FORMS["a short tool result"]
    data = encode(entry, 3, Closing(1, 0))
    assert data == {**HEAD, **fields, "closes": 1, "block": 0}
    assert decode({**data, "closes": "anything", "block": None}) == entry


def test_a_closing_without_a_block_has_none() -> None:
    assert "block" not in encode(FORMS["a short reply"][0], 3, Closing(1))


def test_unknown_keys_are_ignored() -> None:
    entry, fields = FORMS["a full reply"]
    assert decode({**HEAD, **fields, "later": {"than": "this version"}}) == entry


# Times


@given(zoned_times())
def test_a_time_of_any_zone_comes_back_as_the_same_moment_in_utc(at: datetime) -> None:
    back = decode(encode(MessageEntry(kind="user", content="go", turn=0, at=at), 0))
    assert back.at == at
    assert back.at.tzinfo is UTC


def test_a_whole_second_has_microseconds_so_that_texts_sort() -> None:
    entry = MessageEntry(kind="user", content="go", turn=0, at=datetime(2026, 1, 2, tzinfo=UTC))
    assert encode(entry, 0)["at"] == "2026-01-02T00:00:00.000000+00:00"


def test_a_time_read_with_another_offset_is_utc() -> None:
    back = decode({**HEAD, "kind": "user", "content": "go", "at": "2026-11-30T22:41:52.000007+01:00"})
    assert (back.at, back.at.tzinfo) == (AT, UTC)


@pytest.mark.parametrize(
    ("at", "problem"),
    [
        ("yesterday", "at is no ISO 8601 time"),
        ("2026-11-30T21:41:52", "at has no time zone"),
        ("0001-01-01T00:00:00+05:00", "at is outside the years 1 to 9999"),
        (1764538912, "at is int, not a time"),
        (None, "at is NoneType, not a time"),
    ],
)
def test_what_is_no_moment_is_refused(at: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        decode({**HEAD, "kind": "user", "content": "go", "at": at})


# Values that are easy to mix up


@pytest.mark.parametrize(
    "value",
    [
        [1, 1.0, True, False, 0, 0.0, -0.0, None],
        {"b": 1, "a": 2, "": 3},
        2**64 + 1,
        MAX_INT,
        5e-324,
        "\u2028\u2029\x00\x1b\ud800",
        {"k\udce9\x00": "caf\udce9"},
        [[], {}, "", [[[]]]],
        {"type": "image", "media_type": "image/png", "data": "not base64"},
    ],
)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    entry = stamped(ExchangeEntry, kind="ask", content=Exchange("q", value))
    back = decode(json.loads(json.dumps(encode(entry, 0))))
    assert repr(back) == repr(entry)


def test_the_deepest_value_comes_back() -> None:
    value: Any = "core"
    for _ in range(199):
        value = [value]
    entry = stamped(ExtraDataEntry, content={"k": value})
    assert decode(json.loads(json.dumps(encode(entry, 0)))) == entry


def test_values_are_read_only_again() -> None:
    _, fields = FORMS["a full reply"]
    (call,) = decode({**HEAD, **fields}).content.tool_calls
    assert (type(call.args), type(call.args["lines"])) == (FrozenDict, FrozenList)


def test_a_decoded_entry_shares_nothing_with_its_json() -> None:
    data = encode(FORMS["extra data"][0], 0)
    entry = decode(data)
    data["content"]["b"] = 2
    assert entry == FORMS["extra data"][0]


@pytest.mark.parametrize("content", ["text", '["text"]', "", ("text",), (), ("a", "b")])
def test_a_tool_result_stays_a_text_or_blocks(content: Any) -> None:
    blocks = content if isinstance(content, str) else tuple(map(TextBlock, content))
    entry = stamped(ToolResultEntry, content=blocks, call=CALL, outcome="done")
    assert repr(decode(encode(entry, 0))) == repr(entry)


@pytest.mark.parametrize("outcome", list(ToolOutcomeKind))
def test_every_outcome_comes_back(outcome: ToolOutcomeKind) -> None:
    entry = stamped(ToolResultEntry, content="", call=CALL, outcome=outcome)
    assert decode(encode(entry, 0)).outcome is outcome
    assert type(encode(entry, 0)["outcome"]) is str


@pytest.mark.parametrize("cost", [None, 0.0, 0, 1, 0.1 + 0.2, 1e-9])
def test_a_cost_comes_back_exactly(cost: float | None) -> None:
    entry = stamped(ExchangeEntry, kind="ask", content=Exchange("q", 1), usage=Usage(cost=cost))
    assert repr(decode(json.loads(json.dumps(encode(entry, 0))))) == repr(entry)


def test_no_usage_is_kept_apart_from_an_empty_one() -> None:
    none = stamped(ExchangeEntry, kind="ask", content=Exchange("q", 1))
    assert decode(encode(none, 0)).usage is None
    assert decode(encode(replace(none, usage=Usage()), 0)).usage == Usage()


@pytest.mark.parametrize("text", ["", "x"])
def test_an_empty_text_is_kept_apart_from_none(text: str) -> None:
    reply = Reply(Message("assistant", (), 0, text), Usage(), 0, text, text)
    assert repr(decode(encode(stamped(ModelReplyEntry, content=reply), 0)).content) == repr(reply)


def test_arguments_nobody_could_read_come_back() -> None:
    call = ToolCall("read", {INVALID_ARGS_KEY: '{"path": "a'}, "call_1")
    entry = stamped(ErrorEntry, content="", call=call)
    assert decode(encode(entry, 0)).call == call


@given(images())
def test_an_image_keeps_its_bytes_and_its_type(image: Image) -> None:
    entry = stamped(MessageEntry, kind="user", content=(image, image))
    assert decode(json.loads(json.dumps(encode(entry, 0)))).content == (image, image)


def test_the_exception_of_an_entry_is_not_saved() -> None:
    entry = stamped(ToolResultEntry, content="(aborted: OSError)", call=CALL, outcome="aborted", error=OSError())
    back = decode(encode(entry, 0))
    assert (back, back.error, back.is_error) == (entry, None, True)


def test_a_role_of_an_imported_message_is_kept_whatever_it_is() -> None:
    message: Any = Message("system", (TextBlock("be brief"),))
    entry = stamped(ContextChangeEntry, content=ContextChange("import", 0, 1, messages=(message,)))
    assert decode(encode(entry, 0)) == entry


class Word(str):
    __slots__ = ()


class Number(int):
    pass


@pytest.mark.parametrize(
    "entry",
    [
        MessageEntry(kind="user", content=Word("go"), turn=Number(2), at=AT),
        ModelRequestEntry(content=Word("acme/large"), turn=Number(2), at=AT),
    ],
    ids=lambda entry: entry.kind,
)
def test_subclasses_of_text_and_number_are_written_as_plain_ones(entry: HistoryEntry) -> None:
    data = encode(entry, 0)
    assert (type(data["content"]), type(data["turn"])) == (str, int)
    assert decode(data) == entry


# What cannot be written


class Odd:
    def __repr__(self) -> str:
        return "an odd thing"


def reply_with(*blocks: Any, usage: Any = FULL_USAGE, **fields: Any) -> Any:
    return stamped(ModelReplyEntry, content=Reply(Message("assistant", blocks), usage, **fields))


def change_with(**fields: Any) -> Any:
    return stamped(ContextChangeEntry, content=ContextChange(**{"kind": "import", **tokens(), **fields}))


def tokens() -> dict[str, int]:
    return {"before_tokens": 0, "after_tokens": 0}


def result_with(**fields: Any) -> Any:
    return stamped(ToolResultEntry, **{"content": "", "call": CALL, "outcome": "done", **fields})


UNWRITABLE: dict[str, Any] = {
    "(user): turn is float": MessageEntry(kind="user", content="go", turn=1.0, at=AT),
    "(user): turn is bool": MessageEntry(kind="user", content="go", turn=True, at=AT),
    "(user): turn: ": MessageEntry(kind="user", content="", turn=10**4300, at=AT),
    "(user): at has no time zone": MessageEntry(kind="user", content="", turn=1, at=datetime(2026, 1, 1)),
    "(user): at is str": MessageEntry(kind="user", content="", turn=1, at="now"),
    "(user): at is outside": MessageEntry(
        kind="user", content="", turn=1, at=datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    ),
    "(chat): kind is str 'chat'": stamped(MessageEntry, kind="chat", content=""),
    "(stop): kind is str 'stop'": stamped(MessageEntry, kind="stop", content=""),
    "(None): kind is NoneType": stamped(MessageEntry, kind=None, content=""),
    "(user): content[1] is RawBlock": stamped(MessageEntry, kind="user", content=(PICTURE, RawBlock("acme", {}))),
    "(user): content[0].text is bytes": stamped(MessageEntry, kind="user", content=(TextBlock(b"go"), PICTURE)),
    "(model_request): content is NoneType": stamped(ModelRequestEntry, content=None),
    "(model_reply): content is str": stamped(ModelReplyEntry, content="yes"),
    "content.message is str": stamped(ModelReplyEntry, content=Reply("yes", Usage())),
    "content.message.content[0] is Odd": reply_with(Odd()),
    "content.message.content[1].args['a'][0]: ": reply_with(PICTURE, ToolCall("read", {"a": [{1}]}, "call_1")),
    "content.message.content[0].args['a']: ": reply_with(ToolCall("read", {"a": float("nan")}, "")),
    "content.message.content[0].args: ": reply_with(ToolCall("read", {1: 2}, "")),
    "content.message.content[0].name is int": reply_with(ToolCall(7, {}, "")),
    "content.message.content[0].data['k']: ": reply_with(RawBlock("acme", {"k": float("inf")})),
    "content.message.content[0].data is str": reply_with(RawBlock("acme", "text")),
    "content.message.content[0].content[0] is ToolCall": reply_with(ToolResultBlock("", (CALL,))),
    "content.message.content[0].is_error is int": reply_with(ToolResultBlock("", "", is_error=1)),
    "content.message.content[0].text is bytes": reply_with(TextBlock(b"x"), TextBlock("y")),
    "content.usage is NoneType": reply_with(usage=None),
    "content.usage.input_tokens is float": reply_with(usage=Usage(1.5)),
    "content.usage.requests is bool": reply_with(usage=Usage(requests=False)),
    "content.usage.cost: ": reply_with(usage=Usage(cost=float("nan"))),
    "content.usage.cost is bool": reply_with(usage=Usage(cost=True)),
    "content.context_tokens is str": reply_with(context_tokens="9"),
    "content.model is int": reply_with(model=4),
    "content.data['deep']: ": stamped(ModelEventEntry, content=ModelEvent("retry", "", {"deep": Odd()})),
    "content.data is FrozenList": stamped(ModelEventEntry, content=ModelEvent("retry", "", [1])),
    "(model_event): content is str": stamped(ModelEventEntry, content="retry"),
    "(tool_result): call is str": result_with(call="read"),
    "(tool_result): late is int": result_with(late=1),
    "(tool_result): child_ids[1] is int": result_with(child_ids=("a", 2)),
    "(tool_result): usage is dict": result_with(usage={}),
    "(tool_result): content[0] is str": result_with(content=["text"]),
    "content.answer['x']: ": stamped(ExchangeEntry, kind="ask", content=Exchange("q", {"x": AT})),
    "(ask): content is str": stamped(ExchangeEntry, kind="ask", content="q"),
    "(human): content.question is NoneType": stamped(ExchangeEntry, kind="human", content=Exchange(None, 1)),
    "(context_change): content is str": stamped(ContextChangeEntry, content="compact"),
    "content.kind is str 'shrink'": change_with(kind="shrink"),
    "content.kept is bool": change_with(kept=False),
    "content.before_tokens is float": change_with(before_tokens=0.0),
    "content.cleared[0] is int": change_with(cleared=(1,)),
    "content.messages[1] is str": change_with(messages=(Message("user", ()), "hi")),
    "content.messages[0].content[0].text is NoneType": change_with(messages=(Message("user", (TextBlock(None),)),)),
    "content.messages[0].tokens is str": change_with(messages=(Message("user", (), "9"),)),
    "content.restored_to is float": change_with(restored_to=1.0),
    "content.usage is int": change_with(usage=1),
    "(run_start): content is NoneType": stamped(RunStartEntry, content=None),
    "content.tools[0] is int": stamped(RunStartEntry, content=AgentInfo(model="m", tools=(1,))),
    "(run_start): parent_id is int": stamped(RunStartEntry, content=AgentInfo(model="m"), parent_id=1),
    "(stop): content is str": stamped(StopEntry, content="finish"),
    "content.answer: ": stamped(StopEntry, content=StoppedByFinish(Odd())),
    "content.turns is float": stamped(StopEntry, content=StoppedByLimit(5.0)),
    "content.call.args['a']: ": stamped(StopEntry, content=StoppedByPermission(ToolCall("read", {"a": Odd()}, ""), "")),
    "(extra_data): content['k']['l'][0]: ": stamped(ExtraDataEntry, content={"k": {"l": (b"",)}}),
    "(extra_data): content is int": stamped(ExtraDataEntry, content=5),
    "(extra_data): removed[0] is NoneType": stamped(ExtraDataEntry, content={}, removed=[None]),
    "(error): content is OSError": stamped(ErrorEntry, content=OSError()),
    "(error): call is str": stamped(ErrorEntry, content="", call="read"),
}


@pytest.mark.parametrize(("place", "entry"), UNWRITABLE.items(), ids=list(UNWRITABLE))
def test_what_json_cannot_hold_is_refused_with_its_place(place: str, entry: HistoryEntry) -> None:
    with pytest.raises(TypeError) as refused:
        encode(entry, 7)
    assert str(refused.value).startswith("entry 7 (")
    assert place in str(refused.value)


def test_a_value_nested_too_deep_is_refused() -> None:
    value: Any = "core"
    for _ in range(200):
        value = [value]
    with pytest.raises(TypeError, match="deeper than 200 levels"):
        encode(stamped(ExtraDataEntry, content={"k": value}), 7)


def test_what_is_no_entry_is_refused() -> None:
    with pytest.raises(TypeError, match="entry 7 is not a history entry but dict"):
        encode({"kind": "user"}, 7)


# What cannot be read

GONE = object()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything that has a type of its own: not what is inside somebody's own values."""
    if path:
        yield path
    if path and path[-1] in ("args", "data", "answer"):
        return
    for step in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[step], (*path, step))


def at_place(data: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        data = data[step]
    return data


def changed(data: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The JSON with another value in one place, or without that place."""
    data = deepcopy(data)
    parent = at_place(data, path[:-1])
    if value is GONE:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return data


OF_WRONG_TYPE: dict[type, list[Any]] = {
    bool: [1, "true", None, []],
    int: [1.0, True, "1", [1], {}],
    float: ["1", True, [1.0], {}, float("nan")],
    str: [5, True, ["x"], {"x": 1}, b"x"],
    dict: [[], [{}], "x", 5, True],
    list: [{}, 5, None, ("x",), b"x"],
    type(None): [5, "x", []],
}
DECODABLE = {name: encode(entry, 3) for name, (entry, _) in FORMS.items()}
PLACES = [
    pytest.param(data, path, id=f"{name}: {'.'.join(map(str, path))}")
    for name, data in DECODABLE.items()
    for path in places(data)
    if path[0] != "seq" and (name != "extra data" or path[0] != "content" or len(path) == 1)
]
TYPED = [place for place in PLACES if place.values[1][-1] != "answer"]  # an answer is any JSON
KEYS = [place for place in PLACES if isinstance(place.values[1][-1], str)]


@pytest.mark.parametrize(("data", "path"), TYPED)
def test_a_value_of_a_wrong_type_is_refused(data: dict[str, Any], path: tuple[Any, ...]) -> None:
    for wrong in OF_WRONG_TYPE[type(at_place(data, path))]:
        with pytest.raises(ValueError, match=r"^entry 3\b"):
            decode(changed(data, path, wrong))


@pytest.mark.parametrize(("data", "path"), KEYS)
def test_a_missing_key_is_refused_unless_it_stands_for_a_default(data: dict[str, Any], path: tuple[Any, ...]) -> None:
    less = changed(data, path, GONE)
    try:
        entry = decode(less)
    except ValueError as refused:
        assert str(refused).startswith("entry 3")
        assert "is missing" in str(refused)
    else:
        assert encode(entry, 3) == less


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a message", ("kind",)),
        ("a message", ("turn",)),
        ("a message", ("at",)),
        *[(name, ("content",)) for name in FORMS],
        ("a full reply", ("content", "usage")),
        ("a full reply", ("content", "message", "role")),
        ("a full reply", ("content", "message", "content", 1, "data")),
        ("a full reply", ("content", "message", "content", 2, "args")),
        ("a full reply", ("content", "message", "content", 3, "type")),
        ("a full event", ("content", "message")),
        ("a short tool result", ("call",)),
        ("a short tool result", ("outcome",)),
        ("a question to a person", ("content", "answer")),
        ("a restore", ("content", "after_tokens")),
        ("a full run start", ("content", "model")),
        ("a stop by limit", ("content", "turns")),
        ("a stop by a permission", ("content", "call", "id")),
    ],
)
def test_the_place_of_a_missing_key_is_named(name: str, path: tuple[Any, ...]) -> None:
    where = "".join([f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]).removeprefix(".")
    with pytest.raises(ValueError) as refused:
        decode(changed(DECODABLE[name], path, GONE))
    assert f": {where} is missing" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "path", "word", "problem"),
    [
        ("a message", ("kind",), "chat", "kind is str 'chat', not a kind of entry"),
        ("a full reply", ("content", "message", "content", 5, "type"), "thinking", "content[5].type is str 'thinking'"),
        (
            "a message with an image",
            ("content", 0, "type"),
            "raw",
            "content[0].type is str 'raw', not one of text, image",
        ),
        ("a stop by limit", ("content", "type"), "budget", "content.type is str 'budget', not one of until"),
        ("a short tool result", ("outcome",), "lost", "outcome is str 'lost', not one of done"),
        ("a restore", ("content", "kind"), "shrink", "content.kind is str 'shrink', not one of compact"),
        ("a message with an image", ("content", 1, "media_type"), "image/bmp", "content[1] is no image"),
        ("a message with an image", ("content", 1, "data"), "YWJ\n", "content[1] is no image"),
        ("a message with an image", ("content", 1, "data"), "YWJ", "content[1] is no image"),
    ],
)
def test_an_unknown_word_is_refused(name: str, path: tuple[Any, ...], word: str, problem: str) -> None:
    with pytest.raises(ValueError) as refused:
        decode(changed(DECODABLE[name], path, word))
    assert problem in str(refused.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1}, AT, {1: 2}])
def test_what_is_not_json_is_refused_in_somebodys_values(value: Any) -> None:
    with pytest.raises(ValueError, match=r"entry 3 \(extra_data\): content\['k'\]\[0\]: "):
        decode({**HEAD, "kind": "extra_data", "content": {"k": [value]}})


@pytest.mark.parametrize("data", [None, [], "text", 5, {}, {"seq": "3"}, {"kind": ["user"]}, MappingProxyType({})])
def test_what_is_no_entry_at_all_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r"^an entry\b"):
        decode(data)


# Reasons to stop


@given(reasons_to_stop())
def test_a_reason_to_stop_comes_back(stopped: Stopped) -> None:
    assert repr(decode_stopped(json.loads(json.dumps(encode_stopped(stopped))))) == repr(stopped)


def test_no_reason_to_stop_is_null() -> None:
    assert encode_stopped(None) is None
    assert decode_stopped(None) is None


def test_a_reason_that_is_not_json_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^stopped\.answer: "):
        encode_stopped(StoppedByFinish({1}))


@pytest.mark.parametrize("data", [{}, {"type": "budget"}, {"type": ["until"]}, {"type": "until"}, [], "finish", 0])
def test_a_damaged_reason_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r"^stopped\b"):
        decode_stopped(data)


# Images


def test_images_are_found_in_every_place_they_can_stand() -> None:
    pictures = [Image(bytes([number]), "image/png") for number in range(4)]
    message = Message("user", (pictures[0], ToolResultBlock("", (TextBlock(""), pictures[1])), TextBlock("")))
    entries: list[Any] = [
        stamped(MessageEntry, kind="user", content=(TextBlock(""), pictures[2])),
        stamped(MessageEntry, kind="notice", content=(TextBlock(""), pictures[2])),
        result_with(content=(pictures[3], pictures[2])),
        stamped(ModelReplyEntry, content=Reply(message, Usage())),
        change_with(messages=(message, message)),
    ]
    found = [[block["data"] for block in image_blocks(encode(entry, 0))] for entry in entries]
    expected = [[2], [2], [3, 2], [0, 1], [0, 1, 0, 1]]
    assert found == [[pictures[number].base64 for number in numbers] for numbers in expected]


def test_the_images_found_are_those_of_the_json_itself() -> None:
    data = encode(stamped(MessageEntry, kind="user", content=(TextBlock(""), PICTURE)), 0)
    for block in image_blocks(data):
        block["sha256"] = block.pop("data")
    assert data["content"][1] == {"type": "image", "media_type": "image/png", "sha256": "YWJj"}
    assert [*image_blocks(data)] == [data["content"][1]]


@pytest.mark.parametrize(
    "entry",
    [
        reply_with(ToolCall("draw", {"content": [PICTURE_DATA], **PICTURE_DATA}, ""), RawBlock("acme", PICTURE_DATA)),
        stamped(ExchangeEntry, kind="ask", content=Exchange("q", PICTURE_DATA)),
        stamped(ExtraDataEntry, content={"message": {"content": [PICTURE_DATA]}, "messages": [PICTURE_DATA]}),
        stamped(ExtraDataEntry, content=PICTURE_DATA),
        stamped(StopEntry, content=StoppedByFinish([PICTURE_DATA])),
        stamped(ModelEventEntry, content=ModelEvent("image", "", PICTURE_DATA)),
        result_with(content=json.dumps([PICTURE_DATA]), call=ToolCall("draw", PICTURE_DATA, "")),
        stamped(ErrorEntry, content="", call=ToolCall("draw", {"content": [PICTURE_DATA]}, "")),
    ],
    ids=lambda entry: entry.kind,
)
def test_a_value_that_looks_like_an_image_is_none(entry: HistoryEntry) -> None:
    assert not list(image_blocks(encode(entry, 0)))


@pytest.mark.parametrize(("data", "path"), PLACES)
def test_damaged_json_has_fewer_images_and_no_error(data: dict[str, Any], path: tuple[Any, ...]) -> None:
    whole = len(list(image_blocks(data)))
    for wrong in [GONE, None, 5, "x", [], {}, [5]]:
        assert len(list(image_blocks(changed(data, path, wrong)))) <= whole
