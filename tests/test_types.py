"""What all value types have in common: their names, and that they are frozen, compared by value, and can be copied."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import pickle
import typing
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from types import NoneType
from typing import Any, cast

import pytest

import alpineagents
from alpineagents import types
from alpineagents.types import (
    AgentInfo,
    ContextChange,
    ContextChangeEntry,
    ErrorEntry,
    Exchange,
    ExchangeEntry,
    ExtraDataEntry,
    Image,
    Message,
    MessageEntry,
    ModelEvent,
    ModelEventEntry,
    ModelReplyEntry,
    ModelRequestEntry,
    Price,
    RawBlock,
    Reply,
    Request,
    RunStartEntry,
    StopEntry,
    StoppedByFinish,
    StoppedByLimit,
    StoppedByPermission,
    StoppedByUntil,
    TextBlock,
    ToolCall,
    ToolOutcome,
    ToolOutcomeKind,
    ToolResultBlock,
    ToolResultEntry,
    ToolSpec,
    Usage,
)
from alpineagents.values.frozen import FrozenDict, FrozenList

BLOCKS = ["TextBlock", "Image", "ToolCall", "ToolResultBlock", "RawBlock", "Block", "ToolResultContent"]
MESSAGES = ["Message", "ToolSpec", "Request", "Reply", "Usage", "Price"]
ENTRIES = [
    "MessageEntry",
    "ModelRequestEntry",
    "ModelReplyEntry",
    "ModelEventEntry",
    "ToolResultEntry",
    "ExchangeEntry",
    "ContextChangeEntry",
    "RunStartEntry",
    "StopEntry",
    "ExtraDataEntry",
    "ErrorEntry",
]
HISTORY = ["HistoryKind", "HistoryEntry", *ENTRIES]
RECORDS = ["Exchange", "ContextChangeKind", "ContextChange", "AgentInfo", "ModelEvent"]
REASONS = ["StoppedByUntil", "StoppedByLimit", "StoppedByFinish", "StoppedByPermission"]
ENDINGS = ["ToolOutcomeKind", "ToolOutcome", *REASONS, "Stopped"]
CONSTANTS = ["NOTICE_PREFIX", "INVALID_ARGS_KEY", "TRUNCATED_ARGS_MESSAGE", "CUT_OFF_STOP_REASONS", "IMAGE_TYPES"]
FUNCTIONS = ["format_call", "result_text"]
NAMES = [*BLOCKS, *MESSAGES, *HISTORY, *RECORDS, *ENDINGS, *CONSTANTS, *FUNCTIONS]
AT_THE_TOP = [
    *["Image", "ToolCall", "Message", "ToolSpec", "Request", "Reply", "Usage", "Price", "HistoryEntry", *ENTRIES],
    *["ContextChange", "AgentInfo", "ModelEvent", "ToolOutcome", "ToolOutcomeKind", *REASONS, "CUT_OFF_STOP_REASONS"],
]
KINDS = {
    "MessageEntry": ["user", "notice"],
    "ModelRequestEntry": ["model_request"],
    "ModelReplyEntry": ["model_reply"],
    "ModelEventEntry": ["model_event"],
    "ToolResultEntry": ["tool_result"],
    "ExchangeEntry": ["ask", "human"],
    "ContextChangeEntry": ["context_change"],
    "RunStartEntry": ["run_start"],
    "StopEntry": ["stop"],
    "ExtraDataEntry": ["extra_data"],
    "ErrorEntry": ["error"],
}


def test_the_public_names_of_types_are_these() -> None:
    assert sorted(types.__all__) == sorted(NAMES)
    assert all(hasattr(types, name) for name in NAMES)


@pytest.mark.parametrize("name", AT_THE_TOP)
def test_the_types_met_most_are_exported_from_the_package_too(name: str) -> None:
    assert name in alpineagents.__all__
    assert getattr(alpineagents, name) is getattr(types, name)


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(AT_THE_TOP)))
def test_the_other_types_are_reached_through_types_only(name: str) -> None:
    assert name not in alpineagents.__all__
    assert not hasattr(alpineagents, name)


def test_the_unions_have_these_members() -> None:
    assert typing.get_args(types.HistoryEntry) == tuple(getattr(types, name) for name in ENTRIES)
    assert typing.get_args(types.Block) == (TextBlock, Image, ToolCall, ToolResultBlock, RawBlock)
    assert typing.get_args(types.Stopped) == tuple(getattr(types, name) for name in REASONS)
    assert NoneType not in typing.get_args(types.Stopped)
    assert types.ToolResultContent == str | tuple[TextBlock | Image, ...]


def test_the_kinds_of_history_are_these_13() -> None:
    kinds = typing.get_args(types.HistoryKind)
    assert list(kinds) == [kind for name in ENTRIES for kind in KINDS[name]]
    assert len(kinds) == 13


def test_the_kinds_of_context_changes_are_these() -> None:
    assert set(typing.get_args(types.ContextChangeKind)) == {"compact", "clear_tool_results", "import", "restore"}


@pytest.mark.parametrize("name", ENTRIES)
def test_the_kind_of_an_entry_class_is_a_literal(name: str) -> None:
    hint = typing.get_type_hints(getattr(types, name))["kind"]
    assert typing.get_origin(hint) is typing.Literal
    assert list(typing.get_args(hint)) == KINDS[name]


@pytest.mark.parametrize("name", [name for name in NAMES if dataclasses.is_dataclass(getattr(types, name))])
def test_all_hints_of_a_class_resolve(name: str) -> None:
    cls = getattr(types, name)
    assert list(typing.get_type_hints(cls)) == [field.name for field in dataclasses.fields(cls)]
    for member in vars(cls).values():
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if callable(function) and hasattr(function, "__annotations__"):
            typing.get_type_hints(function)


def test_the_constants_have_their_values() -> None:
    assert types.NOTICE_PREFIX == "[notice] "
    assert types.INVALID_ARGS_KEY == "__invalid_json__"
    assert (
        frozenset({"max_tokens", "model_context_window_exceeded", "length", "max_output_tokens"})
        == types.CUT_OFF_STOP_REASONS
    )
    assert type(types.CUT_OFF_STOP_REASONS) is frozenset
    assert types.IMAGE_TYPES == ("image/png", "image/jpeg", "image/gif", "image/webp")


def test_the_message_about_truncated_arguments_says_what_happened_and_what_to_do() -> None:
    assert "max_tokens" in types.TRUNCATED_ARGS_MESSAGE
    assert "arguments" in types.TRUNCATED_ARGS_MESSAGE
    assert "smaller calls" in types.TRUNCATED_ARGS_MESSAGE


# One example of every class with every field set, and for each field another value. A field that is not compared has
# `SAME`: whatever it holds, the values stay equal.

SAME = object()
AT = datetime(2026, 1, 2, tzinfo=UTC)
IMAGE = Image(b"\x89PNG\r\n\x1a\n" + bytes(20))
CALL = ToolCall("book", {"seats": [1, {"row": "a"}]}, "b1")
RAW = RawBlock("anthropic", {"type": "thinking", "parts": [{"n": 1}]})
RESULT = ToolResultBlock("b1", (TextBlock("two"), IMAGE), "book", True)
ANSWERED = Message("assistant", (TextBlock("hi"), CALL, RAW), 40, "tool_use")
SPEC = ToolSpec("book", "Books seats.", {"type": "object"})
USAGE = Usage(1, 2, 3, 4, 5, 0.5)
REPLY = Reply(ANSWERED, USAGE, 40, "tool_use", "acme/large-2026")
EVENT = ModelEvent("retry", "again", {"after": [1, 2]})
ASKED = Exchange("Which?", {"rows": ["a"]})
CHANGE = ContextChange("compact", 90, 10, "short", 1, ("b1",), (Message.user("hi", IMAGE),), 3, USAGE)
INFO = AgentInfo(name="writer", model="acme/large", system_sha256="0f", tools=("book",), mcp_servers=("files",))
ERROR = OSError("disk")
DENIED = ToolOutcomeKind.DENIED
COMMON = {"turn": 9, "at": SAME}

EXAMPLES: list[tuple[Any, dict[str, Any]]] = [
    (TextBlock("hi"), {"text": ""}),
    (IMAGE, {"data": b"", "media_type": "image/gif"}),
    (CALL, {"name": "sell", "args": {"seats": [1, {"row": "b"}]}, "id": "b2"}),
    (RESULT, {"call_id": "b2", "content": "two", "name": "", "is_error": False}),
    (RAW, {"provider": "openai", "data": {}}),
    (ANSWERED, {"role": "user", "content": (), "tokens": 41, "stop_reason": None}),
    (SPEC, {"name": "sell", "description": "", "input_schema": {}}),
    (
        Request("Be brief.", (ANSWERED,), (SPEC,), "none"),
        {"system": None, "messages": (), "tools": (), "tool_choice": "auto"},
    ),
    (REPLY, {"message": Message.user(""), "usage": Usage(), "context_tokens": 0, "stop_reason": "", "model": None}),
    (
        USAGE,
        dict.fromkeys(["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "requests"], 9)
        | {"cost": None},
    ),
    (Price(1, 2, 3, 4), {"input": 0, "output": 0, "cache_read": None, "cache_write": None}),
    (EVENT, {"kind": "fallback", "message": "", "data": {"after": [1, 3]}}),
    (ASKED, {"question": "", "answer": {"rows": ["b"]}}),
    (INFO, {"name": None, "model": "", "system_sha256": None, "tools": (), "mcp_servers": ()}),
    (
        CHANGE,
        {
            "kind": "import",
            "before_tokens": 0,
            "after_tokens": 0,
            "summary": None,
            "kept": 0,
            "cleared": (),
            "messages": (),
            "restored_to": None,
            "usage": None,
        },
    ),
    (ToolOutcome(DENIED, ERROR, "AllowReads()"), {"kind": "done", "error": OSError("disk"), "decided_by": None}),
    (StoppedByUntil("waiting"), {"name": "other"}),
    (StoppedByLimit(30), {"turns": 31}),
    (StoppedByFinish({"files": ["a"]}), {"answer": {"files": ["b"]}}),
    (StoppedByPermission(CALL, "AllowReads()"), {"call": ToolCall("book", {}, "b1"), "permission": ""}),
    (MessageEntry(kind="notice", content=(TextBlock("hi"), IMAGE), turn=1, at=AT), {"kind": "user", "content": ""}),
    (ModelRequestEntry(content="acme/large", turn=1, at=AT), {"kind": "other", "content": ""}),
    (ModelReplyEntry(content=REPLY, turn=1, at=AT), {"kind": "other", "content": replace(REPLY, model=None)}),
    (ModelEventEntry(content=EVENT, turn=1, at=AT), {"kind": "other", "content": replace(EVENT, message="")}),
    (
        ToolResultEntry(
            content=(TextBlock("two"), IMAGE),
            call=CALL,
            outcome=DENIED,
            late=True,
            error=ERROR,
            child_ids=("c1", "c2"),
            usage=USAGE,
            turn=1,
            at=AT,
        ),
        {
            "kind": "other",
            "content": "two",
            "call": ToolCall("book", {}, "b1"),
            "outcome": "done",
            "late": False,
            "error": SAME,
            "child_ids": ("c1",),
            "usage": None,
        },
    ),
    (
        ExchangeEntry(kind="ask", content=ASKED, usage=USAGE, turn=1, at=AT),
        {"kind": "human", "content": 0, "usage": None},
    ),
    (ContextChangeEntry(content=CHANGE, turn=1, at=AT), {"kind": "other", "content": replace(CHANGE, kept=0)}),
    (
        RunStartEntry(content=INFO, parent_id="p1", parent_call_id="b1", turn=1, at=AT),
        {"kind": "other", "content": replace(INFO, name=None), "parent_id": None, "parent_call_id": None},
    ),
    (StopEntry(content=StoppedByLimit(3), turn=1, at=AT), {"kind": "other", "content": None}),
    (
        ExtraDataEntry(content={"seen": [{"a": 1}]}, removed=("old",), turn=1, at=AT),
        {"kind": "other", "content": {"seen": [{"a": 2}]}, "removed": ()},
    ),
    (
        ErrorEntry(content="OSError: disk", error=ERROR, call=CALL, turn=1, at=AT),
        {"kind": "other", "content": "", "error": SAME, "call": None},
    ),
]
EVERY_CLASS = pytest.mark.parametrize(
    "example", [example for example, _ in EXAMPLES], ids=lambda one: type(one).__name__
)
CHANGES = [
    pytest.param(example, name, value, id=f"{type(example).__name__}.{name}")
    for example, others in EXAMPLES
    for name, value in (others | (COMMON if type(example).__name__ in ENTRIES else {})).items()
]


def inside(value: Any) -> Iterator[Any]:
    """A value and everything in it."""
    yield value
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from inside(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, ToolSpec):  # a schema is not frozen
        for field in dataclasses.fields(value):
            yield from inside(getattr(value, field.name))


def test_there_is_an_example_of_every_class_and_another_value_for_every_field() -> None:
    classes = [getattr(types, name) for name in NAMES]
    assert {type(example) for example, _ in EXAMPLES} == {cls for cls in classes if dataclasses.is_dataclass(cls)}
    for example, others in EXAMPLES:
        common = COMMON if type(example).__name__ in ENTRIES else {}
        assert {field.name for field in dataclasses.fields(example)} == {*others, *common}


@EVERY_CLASS
def test_no_attribute_of_a_value_can_be_set_or_deleted(example: Any) -> None:
    for name in [*[field.name for field in dataclasses.fields(example)], "new", "text", "_private"]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(example, name, None)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(example, name)


@pytest.mark.parametrize(("example", "name", "value"), CHANGES)
def test_a_value_is_compared_by_every_field_but_times_and_recorded_errors(example: Any, name: str, value: Any) -> None:
    if value is SAME:
        assert example == replace(example, **{name: None})
    else:
        assert example != replace(example, **{name: value})
        assert replace(example, **{name: value}) == replace(example, **{name: value})


def test_values_of_two_classes_are_never_equal() -> None:
    for one, other in itertools.permutations([example for example, _ in EXAMPLES], 2):
        assert one != other
    assert StoppedByUntil("a") != TextBlock("a")
    fields: Any = {"kind": "stop", "content": None, "turn": 0}
    assert StopEntry(**fields) != ErrorEntry(**fields)


PLAIN = Message("assistant", (TextBlock("hi"), CALL), 40, "tool_use")
HASHABLE: list[Any] = [
    TextBlock("hi"),
    IMAGE,
    CALL,
    RESULT,
    USAGE,
    Price(1, 2),
    INFO,
    ToolOutcome(DENIED, ERROR),
    StoppedByUntil("waiting"),
    StoppedByLimit(3),
    StoppedByPermission(CALL, "AllowReads()"),
    StoppedByFinish("yes"),
    StoppedByFinish(None),
    Exchange("Sure?", True),
    PLAIN,
    Request("Be brief.", (PLAIN,)),
    Reply(PLAIN, USAGE),
    CHANGE,
    MessageEntry(kind="user", content=(TextBlock("hi"), IMAGE), turn=1),
    ModelRequestEntry(content="acme/large", turn=1),
    ModelReplyEntry(content=Reply(PLAIN, USAGE), turn=1),
    ToolResultEntry(content=(IMAGE,), call=CALL, outcome=DENIED, child_ids=("c1",), usage=USAGE, turn=1),
    ExchangeEntry(kind="human", content=Exchange("Sure?", "yes"), turn=1),
    ContextChangeEntry(content=CHANGE, turn=1),
    RunStartEntry(content=INFO, turn=1),
    StopEntry(content=StoppedByFinish(3), turn=1),
    StopEntry(content=None, turn=1),
    ErrorEntry(content="OSError", error=ERROR, call=CALL, turn=1),
]
WITH_DICTS: list[Any] = [
    RAW,
    RawBlock("acme", {}),
    SPEC,
    EVENT,
    ModelEvent("retry", "again"),
    ExtraDataEntry(content={}, turn=1),
    Message("assistant", (RAW,)),
    Request(None, (ANSWERED,)),
    Request(None, (), (SPEC,)),
    REPLY,
    ContextChange("import", 0, 0, messages=(ANSWERED,)),
    Exchange("Which?", ["a"]),
    Exchange("Which?", {}),
    StoppedByFinish([]),
    ModelReplyEntry(content=REPLY, turn=1),
    ModelEventEntry(content=EVENT, turn=1),
    ExchangeEntry(kind="ask", content=ASKED, turn=1),
    StopEntry(content=StoppedByFinish({}), turn=1),
]


@pytest.mark.parametrize("value", HASHABLE, ids=repr)
def test_equal_values_without_dicts_have_one_hash(value: Any) -> None:
    again = copy.copy(value)
    assert again is not value
    assert hash(again) == hash(value)
    assert {value: "found"}[again] == "found"


@pytest.mark.parametrize("value", WITH_DICTS, ids=repr)
def test_values_that_hold_dicts_or_lists_have_no_hash(value: Any) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)


def test_the_hash_of_an_entry_does_not_depend_on_its_time_or_error() -> None:
    entry = ErrorEntry(content="OSError", error=ERROR, turn=1, at=AT)
    assert hash(entry) == hash(ErrorEntry(content="OSError", turn=1))


def test_an_agent_with_lists_is_hashable() -> None:
    names: Any = ["a"]
    assert hash(AgentInfo(model="m", tools=names)) == hash(AgentInfo(model="m", tools=("a",)))


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "replace": replace,
    **{
        f"pickle {n}": lambda value, n=n: pickle.loads(pickle.dumps(value, n))
        for n in range(pickle.HIGHEST_PROTOCOL + 1)
    },
}


@EVERY_CLASS
@pytest.mark.parametrize("how", COPIES)
def test_a_copy_is_equal_and_still_frozen(how: str, example: Any) -> None:
    copied = COPIES[how](example)
    assert copied is not example
    assert type(copied) is type(example)
    for field in dataclasses.fields(example):
        if field.name == "error":  # exceptions are equal only to themselves
            assert repr(copied.error) == repr(example.error)
        else:
            assert getattr(copied, field.name) == getattr(example, field.name)
    assert {type(part) for part in inside(copied) if isinstance(part, dict | list)} <= {FrozenDict, FrozenList, dict}
    assert not [part for part in inside(copied) if type(part) in (dict, list)]
    with pytest.raises(dataclasses.FrozenInstanceError):
        copied.new = 1


@pytest.mark.parametrize("how", [how for how in COPIES if how not in ("copy", "replace")])
def test_an_entry_with_an_exception_that_cannot_be_copied_cannot_either(how: str) -> None:
    class Local(Exception):
        def __reduce__(self) -> Any:
            raise TypeError("not to be copied")

    with pytest.raises(TypeError, match="not to be copied"):
        COPIES[how](ErrorEntry(content="Local", error=Local(), turn=0))


@EVERY_CLASS
def test_the_repr_is_the_dataclass_form_but_for_images(example: Any) -> None:
    if isinstance(example, Image):
        return
    fields = [f"{field.name}={getattr(example, field.name)!r}" for field in dataclasses.fields(example)]
    assert repr(example) == f"{type(example).__name__}({', '.join(fields)})"


@EVERY_CLASS
def test_no_repr_prints_image_bytes(example: Any) -> None:
    assert repr(IMAGE.data)[2:-1] not in repr(example)


# Fields that take any iterable.

TAKES_ITERABLES: dict[str, tuple[Callable[[Any], Any], str, list[Any]]] = {
    "Message.content": (lambda v: Message("user", v), "content", [TextBlock("a"), IMAGE]),
    "ToolResultBlock.content": (lambda v: ToolResultBlock("1", v), "content", [TextBlock("a"), IMAGE]),
    "MessageEntry.content": (
        lambda v: MessageEntry(kind="user", content=v, turn=0),
        "content",
        [TextBlock("a"), IMAGE],
    ),
    "ToolResultEntry.content": (
        lambda v: ToolResultEntry(content=v, call=CALL, outcome=DENIED, turn=0),
        "content",
        [TextBlock("a")],
    ),
    "ToolResultEntry.child_ids": (
        lambda v: ToolResultEntry(content="", call=CALL, outcome=DENIED, child_ids=v, turn=0),
        "child_ids",
        ["c1", "c2"],
    ),
    "ExtraDataEntry.removed": (lambda v: ExtraDataEntry(content={}, removed=v, turn=0), "removed", ["a", "b"]),
    "ContextChange.cleared": (lambda v: ContextChange("compact", 0, 0, cleared=v), "cleared", ["b1"]),
    "ContextChange.messages": (lambda v: ContextChange("import", 0, 0, messages=v), "messages", [Message.user("a")]),
    "AgentInfo.tools": (lambda v: AgentInfo(model="m", tools=v), "tools", ["b", "a"]),
    "AgentInfo.mcp_servers": (lambda v: AgentInfo(model="m", mcp_servers=v), "mcp_servers", ["b", "a"]),
}
Pair = namedtuple("Pair", "one other")


@pytest.mark.parametrize("name", TAKES_ITERABLES)
def test_a_sequence_is_stored_as_a_tuple_whatever_it_was_given_as(name: str) -> None:
    make, field, items = TAKES_ITERABLES[name]
    for given in (tuple(items), list(items), iter(items), dict.fromkeys(items), (item for item in items)):
        value = make(given)
        assert (type(getattr(value, field)), getattr(value, field)) == (tuple, tuple(items))
        assert value == make(tuple(items))
    assert type(getattr(make(Pair("c1", "c2")), field)) is tuple


@pytest.mark.parametrize("name", TAKES_ITERABLES)
@pytest.mark.parametrize("wrong", [None, 3, object()], ids=["None", "int", "object"])
def test_a_sequence_that_is_none_is_refused_by_the_name_of_its_field(name: str, wrong: Any) -> None:
    with pytest.raises(TypeError) as raised:
        TAKES_ITERABLES[name][0](wrong)
    assert f"{name} takes an iterable, not {type(wrong).__name__}: {wrong!r}\nFix: " in str(raised.value)


@pytest.mark.parametrize("content", ["", "a", "ab"])
def test_text_in_place_of_blocks_stays_text(content: str) -> None:
    values = [
        ToolResultBlock("1", content),
        MessageEntry(kind="user", content=content, turn=0),
        ToolResultEntry(content=content, call=CALL, outcome=DENIED, turn=0),
    ]
    assert [value.content for value in values] == [content] * 3


def test_other_types_are_not_checked_when_a_value_is_made() -> None:
    made: list[Any] = [
        TextBlock(cast("Any", 3)),
        Message(cast("Any", "system"), ()),
        Message("user", cast("Any", [3])),
        ToolCall(cast("Any", None), {}, cast("Any", 3)),
        ToolResultBlock(cast("Any", 3), ""),
        RawBlock(cast("Any", 3), cast("Any", None)),
        ToolSpec(cast("Any", 3), cast("Any", 3), cast("Any", [])),
        Request(cast("Any", 3), cast("Any", [])),
        Reply(cast("Any", None), cast("Any", None)),
        Usage(cast("Any", "many")),
        Price(cast("Any", "cheap"), -1),
        ModelEvent(cast("Any", 3), cast("Any", 3), cast("Any", None)),
        Exchange(cast("Any", 3), {1}),
        ContextChange(cast("Any", "shrink"), -1, -1),
        AgentInfo(model=cast("Any", None)),
        StoppedByLimit(cast("Any", "3")),
        StoppedByFinish({1}),
        MessageEntry(kind=cast("Any", "other"), content=(cast("Any", 3),), turn=cast("Any", "1")),
        ModelRequestEntry(kind=cast("Any", "other"), content=cast("Any", None), turn=-1),
        ExtraDataEntry(content={1: {2}}, turn=0),
        ErrorEntry(content=cast("Any", None), turn=0, at=cast("Any", "today")),
    ]
    assert len({type(value) for value in made}) > 18


@pytest.mark.parametrize(
    ("make", "field", "kind"),
    [
        (lambda v: ToolCall("a", v, "1"), "args", FrozenDict),
        (lambda v: RawBlock("acme", v), "data", FrozenDict),
        (lambda v: ModelEvent("a", "b", v), "data", FrozenDict),
        (lambda v: Exchange("a", v), "answer", FrozenDict),
        (StoppedByFinish, "answer", FrozenDict),
        (lambda v: ExtraDataEntry(content=v, turn=0), "content", FrozenDict),
        (lambda v: ToolSpec("a", "b", v), "input_schema", dict),
    ],
)
def test_json_is_frozen_when_the_value_is_made_but_a_schema_is_not(
    make: Callable[[Any], Any], field: str, kind: type
) -> None:
    source = {"a": [1]}
    frozen = getattr(make(source), field)
    assert (frozen, type(frozen)) == (source, kind)
    if kind is FrozenDict:
        source["a"].append(2)
        assert frozen == {"a": [1]}
        assert getattr(make(frozen), field) is frozen
