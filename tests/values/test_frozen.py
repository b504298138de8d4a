"""Read-only JSON containers, and the check of what is JSON."""

from __future__ import annotations

import copy
import dataclasses
import enum
import json
import operator
import pickle
import sys
from collections import ChainMap, OrderedDict, UserDict, namedtuple
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, RootModel
from strategies import scalars

from alpineagents.values.frozen import FrozenDict, FrozenList, answer_form, check_json, freeze, thaw

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
JSON = st.recursive(
    scalars(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4).map(MappingProxyType)
    ),
    max_leaves=8,
)
CONTAINERS = JSON.filter(lambda value: isinstance(value, list | tuple | dict | MappingProxyType))


def plain(value: Any) -> Any:
    """What `thaw` should give, written another way."""
    match value:
        case MappingProxyType() | dict():
            return {key: plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return value


def containers(value: Any) -> list[Any]:
    """Every dict and list in a value, itself included."""
    match value:
        case dict():
            return [value, *[found for item in value.values() for found in containers(item)]]
        case list():
            return [value, *[found for item in value for found in containers(item)]]
    return []


def nested(levels: int, make: Callable[[Any], Any]) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = make(value)
    return value


def with_less_stack(levels: int, function: Callable[[], Any]) -> Any:
    """Call it as code that is deep inside an application does."""
    return function() if levels == 0 else with_less_stack(levels - 1, function)


@given(JSON)
def test_freezing_gives_an_equal_value(value: Any) -> None:
    assert freeze(value) == plain(value)


@given(CONTAINERS)
def test_freezing_reaches_every_depth(value: Any) -> None:
    assert {type(found) for found in containers(freeze(value))} <= {FrozenDict, FrozenList}


@given(CONTAINERS)
def test_freezing_of_a_frozen_value_is_that_object(value: Any) -> None:
    frozen = freeze(value)
    assert freeze(frozen) is frozen


@pytest.mark.parametrize("kind", [dict, OrderedDict, UserDict, ChainMap, MappingProxyType])
def test_freezing_takes_mappings_of_any_class(kind: Callable[[Any], Any]) -> None:
    frozen = freeze(kind({"a": [1]}))
    assert (type(frozen), frozen) == (FrozenDict, {"a": [1]})


def test_freezing_makes_a_list_of_a_named_tuple() -> None:
    frozen = freeze(namedtuple("Point", "x y")(1, [2]))
    assert (type(frozen), frozen) == (FrozenList, [1, [2]])


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 1.5, "text", b"bytes", {1}, frozenset({1}), object(), dict, datetime(2026, 1, 1)],
    ids=repr,
)
def test_freezing_keeps_anything_else_as_the_same_object(value: Any) -> None:
    assert freeze(value) is value
    assert freeze([value])[0] is value


def test_freezing_shares_nothing_with_its_source() -> None:
    source = {"list": [1], "dict": {"a": 1}}
    frozen = freeze(source)
    source["list"].append(2)
    source["dict"]["b"] = 2
    source["new"] = 3
    assert frozen == {"list": [1], "dict": {"a": 1}}


def test_freezing_leaves_its_source_as_it_was() -> None:
    source = {"tuple": (1,), "list": [[1]]}
    freeze(source)
    assert source == {"tuple": (1,), "list": [[1]]}
    assert type(source["list"][0]) is list


def test_freezing_keeps_keys_that_are_no_text() -> None:
    assert freeze({1: "a", (2,): "b"}) == {1: "a", (2,): "b"}


@given(CONTAINERS)
def test_thawing_gives_plain_containers_at_every_depth(value: Any) -> None:
    thawed = thaw(freeze(value))
    assert thawed == plain(value)
    assert {type(found) for found in containers(thawed)} <= {dict, list}


@given(CONTAINERS)
def test_freezing_what_was_thawed_gives_an_equal_value(value: Any) -> None:
    assert freeze(thaw(freeze(value))) == freeze(value)


@given(CONTAINERS)
def test_thawing_gives_new_objects(value: Any) -> None:
    thawed, again = thaw(value), thaw(value)
    assert not {id(found) for found in containers(thawed)} & {id(found) for found in containers(again)}


@given(JSON)
def test_the_check_of_json_gives_a_plain_copy(value: Any) -> None:
    checked = check_json(value, "here")
    assert checked == plain(value)
    assert {type(found) for found in containers(checked)} <= {dict, list}


def test_the_check_of_json_shares_no_list_with_the_value() -> None:
    value = {"a": [1]}
    assert check_json(value, "here")["a"] is not value["a"]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({1, 2}, "set"),
        (frozenset(), "frozenset"),
        (b"x", "bytes"),
        (bytearray(b"x"), "bytearray"),
        (datetime(2026, 1, 1), "datetime"),
        (Path("a"), "Path"),
        (enum.Enum("Color", "RED").RED, "Color"),  # type: ignore[attr-defined]
        (float("nan"), "float nan"),
        (float("inf"), "float inf"),
        (float("-inf"), "float -inf"),
        (1j, "complex"),
        (object(), "object"),
        (dict, "type"),
        (range(3), "range"),
        ({}.keys(), "dict_keys"),
    ],
    ids=lambda case: type(case).__name__,
)
def test_the_check_of_json_refuses_what_is_not_json_and_names_its_type_and_place(value: Any, found: str) -> None:
    with pytest.raises(TypeError) as raised:
        check_json({"k": {"deep": [0, value]}}, "state.extra_data")
    first = str(raised.value).splitlines()[0]
    assert first.startswith("state.extra_data['k']['deep'][1]: ")
    assert found in first


def test_the_check_of_json_refuses_dataclass_and_pydantic_objects_inside_a_value() -> None:
    @dataclasses.dataclass
    class Point:
        x: int

    class Model(BaseModel):
        x: int

    for value in (Point(1), Model(x=1), Point, Model):
        with pytest.raises(TypeError, match=r"^here\[0\]: "):
            check_json([value], "here")


@pytest.mark.parametrize("key", [1, None, 1.5, True, (1,), b"k"], ids=repr)
def test_the_check_of_json_refuses_a_key_that_is_no_text_and_names_it_and_its_type(key: Any) -> None:
    with pytest.raises(TypeError) as raised:
        check_json({"a": [{key: 1}]}, "here")
    first = str(raised.value).splitlines()[0]
    assert first.startswith("here['a'][0]: ")
    assert repr(key) in first
    assert type(key).__name__ in first


def test_the_check_of_json_says_to_use_a_list_for_a_set() -> None:
    with pytest.raises(TypeError, match="\nFix: use a list"):
        check_json({"tags": {"a"}}, "state.extra_data")


def test_the_check_of_json_names_the_place_alone_for_the_value_itself() -> None:
    with pytest.raises(TypeError, match=r"^finish\(answer\): set is not JSON: \{1\}\n"):
        check_json({1}, "finish(answer)")


@pytest.mark.parametrize("make", [lambda v: [v], lambda v: {"a": v}, lambda v: (v,)], ids=["list", "dict", "tuple"])
def test_the_check_of_json_allows_200_levels_and_no_more(make: Callable[[Any], Any]) -> None:
    assert check_json(nested(200, make), "here") == plain(nested(200, make))
    with pytest.raises(TypeError, match="deeper than 200 levels"):
        check_json(nested(201, make), "here")


def test_the_check_of_json_allows_ints_of_4300_digits_and_no_more() -> None:
    for largest in (10**4300 - 1, 1 - 10**4300):
        assert check_json(largest, "here") == largest
        with pytest.raises(TypeError, match="int of more than 4,300 digits"):
            check_json([largest + (1 if largest > 0 else -1)], "here")


def test_the_check_of_json_refuses_a_key_that_is_an_int_too_large_to_print() -> None:
    with pytest.raises(TypeError, match="is int, and JSON keys are str"):
        check_json({10**5000: 1}, "here")


def test_the_check_of_json_refuses_an_object_whose_repr_raises() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise OSError

    with pytest.raises(TypeError, match=r"^here: Broken is not JSON: \(its repr raised OSError\)"):
        check_json(Broken(), "here")


def test_the_check_of_json_cuts_the_repr_of_a_large_value() -> None:
    with pytest.raises(TypeError) as raised:
        check_json(b"x" * 100_000, "here")
    assert len(str(raised.value)) < 400


def test_the_check_of_json_of_a_value_that_holds_itself_ends() -> None:
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    with pytest.raises(TypeError):
        check_json(cyclic, "here")


def test_the_check_of_json_takes_members_of_text_and_int_enums() -> None:
    class Color(enum.StrEnum):
        RED = "red"

    class Size(enum.IntEnum):
        BIG = 3

    class Degrees(float):
        pass

    checked = check_json({Color.RED: [Color.RED, Size.BIG, Degrees(1.5)]}, "here")
    assert checked == {"red": ["red", 3, 1.5]}
    assert json.dumps(checked) == '{"red": ["red", 3, 1.5]}'


def test_the_check_of_json_writes_the_key_of_an_enum_as_plain_text_in_the_place() -> None:
    class Color(enum.StrEnum):
        RED = "red"

    with pytest.raises(TypeError, match=r"^here\['red'\]: "):
        check_json({Color.RED: b""}, "here")


def test_the_check_of_json_leaves_room_on_the_stack() -> None:
    deep = nested(200, lambda value: {"a": value})
    assert with_less_stack(300, lambda: thaw(freeze(check_json(deep, "here")))) == deep


def test_the_answer_form_of_json_is_that_value_frozen() -> None:
    answer = answer_form({"a": (1, [2])}, "finish(answer)")
    assert (type(answer), type(answer["a"]), answer) == (FrozenDict, FrozenList, {"a": [1, [2]]})


def test_the_answer_form_of_a_pydantic_object_is_its_json_dump() -> None:
    class Found(BaseModel):
        at: datetime
        where: tuple[Path, ...]

    answer = answer_form(Found(at=datetime(2026, 1, 1), where=(Path("a.py"),)), "answer")
    assert answer == {"at": "2026-01-01T00:00:00", "where": ["a.py"]}


def test_the_answer_form_of_a_pydantic_root_model_is_its_list() -> None:
    assert answer_form(RootModel[list[int]]([1, 2]), "answer") == [1, 2]


def test_the_answer_form_of_a_dataclass_is_a_dict_with_nested_dataclasses_converted() -> None:
    @dataclasses.dataclass
    class Line:
        number: int

    @dataclasses.dataclass
    class File:
        lines: list[Line]

    assert answer_form(File([Line(1), Line(2)]), "answer") == {"lines": [{"number": 1}, {"number": 2}]}


def test_the_answer_form_of_a_dataclass_that_holds_frozen_containers_is_a_dict() -> None:
    @dataclasses.dataclass
    class Holder:
        args: Any

    assert answer_form(Holder(freeze({"a": [{"b": 1}]})), "answer") == {"args": {"a": [{"b": 1}]}}


def test_the_answer_form_converts_only_the_outermost_object() -> None:
    class Model(BaseModel):
        x: int

    @dataclasses.dataclass
    class Point:
        x: int

    for value in ([Model(x=1)], {"a": Point(1)}, [Point(1)]):
        with pytest.raises(TypeError, match=r"^answer\["):
            answer_form(value, "answer")


def test_the_answer_form_refuses_a_class_in_place_of_an_object() -> None:
    class Model(BaseModel):
        x: int

    @dataclasses.dataclass
    class Point:
        x: int

    for value in (Model, Point):
        with pytest.raises(TypeError, match=r"^answer: .* is not JSON"):
            answer_form(value, "answer")


def test_the_answer_form_takes_a_dict_with_the_key_model_dump() -> None:
    assert answer_form({"model_dump": 1}, "answer") == {"model_dump": 1}


def test_the_answer_form_checks_what_a_dataclass_holds_and_names_the_place() -> None:
    @dataclasses.dataclass
    class Tags:
        names: set[str]

    with pytest.raises(TypeError, match=r"^answer\['names'\]: set is not JSON"):
        answer_form(Tags({"a"}), "answer")


@given(CONTAINERS)
def test_equality_is_that_of_the_plain_value_both_ways(value: Any) -> None:
    frozen = freeze(value)
    assert frozen == plain(value)
    assert plain(value) == frozen


@given(CONTAINERS)
def test_repr_and_str_are_those_of_the_plain_value(value: Any) -> None:
    assert (repr(freeze(value)), str(freeze(value))) == (repr(plain(value)), str(plain(value)))


@given(CONTAINERS)
def test_json_text_is_that_of_the_plain_value_with_any_options(value: Any) -> None:
    for options in ({}, {"indent": 2}, {"sort_keys": True}, {"ensure_ascii": False, "separators": (",", ":")}):
        assert json.dumps([{"in": freeze(value)}], **options) == json.dumps([{"in": plain(value)}], **options)


def test_a_frozen_list_is_no_tuple() -> None:
    assert FrozenList([1]) != (1,)


def test_a_frozen_dict_reads_as_a_dict() -> None:
    frozen = FrozenDict({"b": 1, "a": [2]})
    assert isinstance(frozen, dict)
    assert (frozen["b"], frozen.get("a"), frozen.get("c", 9), "a" in frozen, len(frozen)) == (1, [2], 9, True, 2)
    assert (list(frozen), list(reversed(frozen)), sorted(frozen)) == (["b", "a"], ["a", "b"], ["a", "b"])
    assert (list(frozen.items()), list(frozen.values())) == ([("b", 1), ("a", [2])], [1, [2]])


def test_a_frozen_dict_unpacks() -> None:
    frozen = FrozenDict({"a": 1, "b": 2})
    assert {**frozen} == dict(frozen) == dict(**frozen) == {"a": 1, "b": 2}


def test_a_frozen_list_reads_as_a_list() -> None:
    frozen = FrozenList([3, 1, 2, 1])
    assert isinstance(frozen, list)
    assert (frozen[0], frozen[-1], 2 in frozen, len(frozen)) == (3, 1, True, 4)
    assert (frozen.index(1), frozen.count(1), sorted(frozen)) == (1, 2, [1, 1, 2, 3])
    assert (list(frozen), [*frozen], list(reversed(frozen))) == ([3, 1, 2, 1], [3, 1, 2, 1], [1, 2, 1, 3])


def test_match_patterns_see_a_dict_and_a_list() -> None:
    match freeze({"a": [1, {"b": 2}]}):
        case {"a": [1, {"b": found}]}:
            assert found == 2
        case _:
            pytest.fail("no pattern matched")


@pytest.mark.parametrize("value", [FrozenDict(a=1), FrozenList([1]), FrozenDict(), FrozenList()], ids=repr)
def test_neither_has_a_hash(value: Any) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)


@pytest.mark.parametrize("value", [FrozenDict(a=1), FrozenList([1])], ids=repr)
def test_neither_takes_an_attribute(value: Any) -> None:
    with pytest.raises(AttributeError):
        value.note = 1


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (FrozenDict({"a": [1]}), {"a": [1]}),
        (FrozenDict([("a", [1])]), {"a": [1]}),
        (FrozenDict(a=[1]), {"a": [1]}),
        (FrozenDict({"a": [1]}, b={"c": 2}), {"a": [1], "b": {"c": 2}}),
        (FrozenDict(MappingProxyType({"a": [1]})), {"a": [1]}),
        (FrozenDict(self=[1]), {"self": [1]}),
        (FrozenDict(), {}),
        (FrozenDict.fromkeys("ab", [1]), {"a": [1], "b": [1]}),
        (FrozenDict.fromkeys("a"), {"a": None}),
        (FrozenList([{"a": 1}, [2]]), [{"a": 1}, [2]]),
        (FrozenList({"a": i} for i in (1, 2)), [{"a": 1}, {"a": 2}]),
        (FrozenList(), []),
    ],
    ids=repr,
)
def test_a_container_is_frozen_at_every_depth_however_it_is_made(made: Any, expected: Any) -> None:
    assert made == expected
    assert {type(found) for found in containers(made)} <= {FrozenDict, FrozenList}
    assert type(made) is (FrozenDict if isinstance(expected, dict) else FrozenList)


DICT_CHANGES: dict[str, Callable[[Any], Any]] = {
    "setting 'a'": lambda d: d.__setitem__("a", 2),
    "setting 'new'": lambda d: exec("d['new'] = 1", {"d": d}),
    "deleting 'a'": lambda d: exec("del d['a']", {"d": d}),
    "deleting 'missing'": lambda d: exec("del d['missing']", {"d": d}),
    "update": lambda d: d.update({"a": 2}),
    "update ": lambda d: d.update(b=2),
    "update  ": lambda d: d.update(self=2),
    "update   ": lambda d: d.update(),
    "pop": lambda d: d.pop("a"),
    "pop ": lambda d: d.pop("missing", None),
    "popitem": lambda d: d.popitem(),
    "clear": lambda d: d.clear(),
    "setdefault": lambda d: d.setdefault("a", 2),
    "setdefault ": lambda d: d.setdefault("new"),
    "|=": lambda d: exec("d |= {'b': 2}", {"d": d}),
    "|= ": lambda d: exec("d |= []", {"d": d}),
}
LIST_CHANGES: dict[str, Callable[[Any], Any]] = {
    "setting item 0": lambda x: exec("x[0] = 9", {"x": x}),
    "setting item 99": lambda x: exec("x[99] = 9", {"x": x}),
    "setting a slice": lambda x: exec("x[:] = [9]", {"x": x}),
    "setting a slice ": lambda x: exec("x[::2] = [9, 9]", {"x": x}),
    "deleting item 0": lambda x: exec("del x[0]", {"x": x}),
    "deleting a slice": lambda x: exec("del x[0:2]", {"x": x}),
    "deleting a slice ": lambda x: exec("del x[5:]", {"x": x}),
    "append": lambda x: x.append(9),
    "extend": lambda x: x.extend([9]),
    "extend ": lambda x: x.extend([]),
    "insert": lambda x: x.insert(0, 9),
    "remove": lambda x: x.remove(1),
    "remove ": lambda x: x.remove("missing"),
    "pop": lambda x: x.pop(),
    "pop ": lambda x: x.pop(0),
    "clear": lambda x: x.clear(),
    "sort": lambda x: x.sort(),
    "sort ": lambda x: x.sort(key=str, reverse=True),
    "reverse": lambda x: x.reverse(),
    "+=": lambda x: exec("x += [9]", {"x": x}),
    "+= ": lambda x: exec("x += ()", {"x": x}),
    "*=": lambda x: exec("x *= 2", {"x": x}),
    "*= ": lambda x: exec("x *= 1", {"x": x}),
}


@pytest.mark.parametrize("operation", DICT_CHANGES)
def test_every_change_of_a_dict_raises_and_changes_nothing(operation: str) -> None:
    frozen = FrozenDict({"a": 1})
    with pytest.raises(TypeError) as raised:
        DICT_CHANGES[operation](frozen)
    assert frozen == {"a": 1}
    assert str(raised.value).startswith(f"a FrozenDict is read-only: {operation.strip()} is refused\n")


@pytest.mark.parametrize("operation", LIST_CHANGES)
def test_every_change_of_a_list_raises_and_changes_nothing(operation: str) -> None:
    frozen = FrozenList([1, 3, 2])
    with pytest.raises(TypeError) as raised:
        LIST_CHANGES[operation](frozen)
    assert frozen == [1, 3, 2]
    assert str(raised.value).startswith(f"a FrozenList is read-only: {operation.strip()} is refused\n")


@pytest.mark.parametrize(("frozen", "kind"), [(FrozenDict(), "dict"), (FrozenList(), "list")])
def test_a_refusal_says_how_to_copy_one_level_and_every_level(frozen: Any, kind: str) -> None:
    with pytest.raises(TypeError) as raised:
        frozen.clear()
    message = str(raised.value)
    assert f"{kind}(value)" in message
    assert "json.loads(json.dumps(value))" in message
    assert "edit_extra_data()" in message


def test_the_advice_of_a_refusal_works() -> None:
    value = freeze({"a": {"b": 1}})
    top, every = dict(value), json.loads(json.dumps(value))
    top["new"] = every["a"]["new"] = 1
    assert (top, every, value) == ({"a": {"b": 1}, "new": 1}, {"a": {"b": 1, "new": 1}}, {"a": {"b": 1}})


def test_a_refusal_of_a_huge_key_is_short() -> None:
    with pytest.raises(TypeError) as raised:
        FrozenDict()["x" * 100_000] = 1
    assert len(str(raised.value)) < 600


def test_a_refusal_leaves_the_name_bound_to_the_container() -> None:
    d = kept_d = FrozenDict({"a": 1})
    x = kept_x = FrozenList([1])
    with pytest.raises(TypeError):
        d |= {"b": 2}
    with pytest.raises(TypeError):
        x += [2]
    with pytest.raises(TypeError):
        x *= 2
    assert d is kept_d
    assert x is kept_x


def test_a_refusal_reaches_every_depth() -> None:
    frozen = freeze({"a": [{"b": []}]})
    with pytest.raises(TypeError):
        frozen["a"].append(1)
    with pytest.raises(TypeError):
        frozen["a"][0]["b"].append(1)


D, X = FrozenDict({"a": [1]}), FrozenList([[1], 2])


@pytest.mark.parametrize(
    ("derived", "expected"),
    [
        (D | {"b": 2}, {"a": [1], "b": 2}),
        ({"b": 2} | D, {"b": 2, "a": [1]}),
        (D | FrozenDict(b=2), {"a": [1], "b": 2}),
        (D | {}, {"a": [1]}),
        (D.copy(), {"a": [1]}),
        (dict(D), {"a": [1]}),
        (X[:1], [[1]]),
        (X[::-1], [2, [1]]),
        (X[:], [[1], 2]),
        (operator.add(X, [3]), [[1], 2, 3]),
        (operator.add([3], X), [3, [1], 2]),
        (operator.add(X, FrozenList([3])), [[1], 2, 3]),
        (X * 2, [[1], 2, [1], 2]),
        (2 * X, [[1], 2, [1], 2]),
        (X * 1, [[1], 2]),
        (X.copy(), [[1], 2]),
        (list(X), [[1], 2]),
    ],
    ids=repr,
)
def test_derived_values_are_plain_at_the_top_and_frozen_inside(derived: Any, expected: Any) -> None:
    assert derived == expected
    assert type(derived) is type(expected)
    assert {type(found) for found in containers(derived)[1:]} == {FrozenList}


def test_derived_values_are_new_and_editable() -> None:
    for made in (D | {}, D.copy(), {} | D):
        made["b"] = 1
    for items in (X[:], operator.add(X, []), operator.add([], X), X * 1, 1 * X, X.copy()):
        items.append(1)
    assert (D, X) == ({"a": [1]}, [[1], 2])


def test_derived_values_of_two_kinds_do_not_mix() -> None:
    for join, left, right in ((operator.or_, D, [("b", 1)]), (operator.add, X, (1,)), (operator.add, (1,), X)):
        with pytest.raises(TypeError):
            join(left, right)


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {n}": lambda value, n=n: pickle.loads(pickle.dumps(value, n)) for n in PROTOCOLS},
}


@given(CONTAINERS)
def test_copies_are_equal_and_frozen_at_every_depth(value: Any) -> None:
    frozen = freeze(value)
    for copied in [copy_of(frozen) for copy_of in COPIES.values()]:
        assert copied == frozen
        assert type(copied) is type(frozen)
        assert {type(found) for found in containers(copied)} <= {FrozenDict, FrozenList}


@given(CONTAINERS)
def test_a_deep_copy_shares_no_container(value: Any) -> None:
    frozen = freeze(value)
    shared = {id(found) for found in containers(frozen)} & {id(found) for found in containers(copy.deepcopy(frozen))}
    assert not shared


def test_a_deep_copy_copies_other_objects_too() -> None:
    frozen = freeze({"tags": {1}, "list": [{2}]})
    copied = copy.deepcopy(frozen)
    assert copied == frozen
    assert copied["tags"] is not frozen["tags"]
    assert copied["list"][0] is not frozen["list"][0]


def test_a_deep_copy_keeps_one_object_in_two_places_one_object() -> None:
    inner = FrozenList([1])
    copied = copy.deepcopy({"a": inner, "b": FrozenDict(c=inner), "d": FrozenList([inner])})
    assert copied["a"] is copied["b"]["c"] is copied["d"][0]


@pytest.mark.parametrize("frozen", [FrozenDict({"a": [1]}), FrozenList([[1]])], ids=repr)
def test_a_shallow_copy_shares_what_is_inside(frozen: Any) -> None:
    key = "a" if isinstance(frozen, dict) else 0
    assert copy.copy(frozen)[key] is frozen[key]


@pytest.mark.parametrize("how", [how for how in COPIES if how != "copy"])
def test_a_plain_dict_of_frozen_values_copies_too(how: str) -> None:
    value = {"a": FrozenDict({"b": [1]})}
    copied = COPIES[how](value)
    assert copied == value
    assert type(copied) is dict
    assert (type(copied["a"]), type(copied["a"]["b"])) == (FrozenDict, FrozenList)


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("make", [lambda v: [v], lambda v: {"a": v}], ids=["list", "dict"])
def test_copies_of_200_levels_leave_room_on_the_stack(how: str, make: Callable[[Any], Any]) -> None:
    assert sys.getrecursionlimit() == 1000
    frozen = freeze(nested(200, make))
    assert with_less_stack(300, lambda: COPIES[how](frozen)) == frozen
