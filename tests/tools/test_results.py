"""What a model receives for each kind of returned value."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import math
import pathlib
import types
import uuid
from collections.abc import Iterator
from typing import NamedTuple

import pydantic
import pytest

from alpineagents.tools.results import json_form, json_text, result_content
from alpineagents.values.content import Image, TextBlock

PIXEL = Image(b"\x89PNG\r\n\x1a\n")
TEXT_IMAGE = Image(b"GIF89a text")  # its data happens to be UTF-8


class Tone(enum.Enum):
    LOW = "low"


class Size(enum.IntEnum):
    BIG = 3


class Word(enum.StrEnum):
    YES = "yes"


class Mixed(str, enum.Enum):  # noqa: UP042 - people write it
    NO = "no"


@dataclasses.dataclass
class Spot:
    x: int
    tone: Tone = Tone.LOW


class Person(pydantic.BaseModel):
    born: datetime.date
    spot: Spot | None = None


class Pair(tuple[int, int]):
    __slots__ = ()


def counted() -> Iterator[int]:
    yield from (1, 2)


def test_nothing_is_done() -> None:
    assert result_content(None) == "(done)"


@pytest.mark.parametrize("text", ["", "hello", "(done)", "Łódź\n", "\udcff"])
def test_text_is_itself(text: str) -> None:
    assert result_content(text) == text


@pytest.mark.parametrize(("member", "text"), [(Word.YES, "yes"), (Mixed.NO, "no")])
def test_a_text_of_another_class_becomes_plain(member: str, text: str) -> None:
    content = result_content(member)
    assert content == text
    assert type(content) is str


def test_an_image_is_one_block() -> None:
    assert result_content(PIXEL) == (PIXEL,)


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_with_an_image_is_blocks_in_order(kind: type) -> None:
    items = kind(["chart", None, "", PIXEL, {"n": 1}, 2.5, Word.YES, [1], Spot(1)])
    assert result_content(items) == (
        TextBlock("chart"),
        PIXEL,
        TextBlock('{"n": 1}'),
        TextBlock("2.5"),
        TextBlock("yes"),
        TextBlock("[1]"),
        TextBlock('{"x": 1, "tone": "low"}'),
    )


@pytest.mark.parametrize("empty", [None, ""])
def test_an_image_beside_nothing_is_alone(empty: object) -> None:
    assert result_content([empty, PIXEL, empty]) == (PIXEL,)


def test_a_list_without_an_image_is_json() -> None:
    assert result_content(["a", "b"]) == '["a", "b"]'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"id": 7, "name": "Łódź"}, '{"id": 7, "name": "Łódź"}'),
        ([1, 2], "[1, 2]"),
        ((1, 2), "[1, 2]"),
        (Pair((1, 2)), "[1, 2]"),
        (True, "true"),
        (15, "15"),
        (10**30, "1" + "0" * 30),
        (1.5, "1.5"),
        ({3, 1, 20}, "[1, 3, 20]"),
        (frozenset(["b", "a"]), '["a", "b"]'),
        ({1, "a"}, '["a", 1]'),
        (Tone.LOW, '"low"'),
        (Size.BIG, "3"),
        (Spot(1), '{"x": 1, "tone": "low"}'),
        (datetime.datetime(2026, 1, 2, 3, 4, 5), '"2026-01-02T03:04:05"'),
        (datetime.date(2026, 1, 2), '"2026-01-02"'),
        (datetime.time(3, 4), '"03:04:00"'),
        (decimal.Decimal("1.50"), '"1.50"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (pathlib.PurePosixPath("a/b"), '"a/b"'),
        (b"text", '"text"'),
        (bytearray("ł", "utf-8"), '"ł"'),
        (memoryview(b"text"), '"text"'),
        (counted(), "[1, 2]"),
        (map(str, [1]), '["1"]'),
        (range(3), "[0, 1, 2]"),
        (collections.deque([1]), "[1]"),
        ({"b": 1, "a": 2}.keys(), '["b", "a"]'),
        ({"a": 1}.values(), "[1]"),
        (types.MappingProxyType({"a": 1}), '{"a": 1}'),
        (fractions.Fraction(1, 4), "0.25"),
        (Person(born=datetime.date(2000, 1, 1)), '{"born": "2000-01-01", "spot": null}'),
    ],
)
def test_the_json_text_of_a_value(value: object, text: str) -> None:
    assert result_content(value) == text


class Text(str):
    """Its own idea of itself is not what it holds."""

    __slots__ = ()

    def __str__(self) -> str:
        return "other"

    __repr__ = __str__


class Number(int):
    def __repr__(self) -> str:
        return "other"

    __str__ = __repr__


class Point(NamedTuple):
    x: int
    y: str


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Text("a"), "a"),
        ([Text("a")], '["a"]'),
        ({Text("a"): Text("b")}, '{"a": "b"}'),
        (Number(5), "5"),
        ([Number(5)], "[5]"),
        (Point(1, "a"), '[1, "a"]'),
        (collections.Counter("aab"), '{"a": 2, "b": 1}'),
        (collections.OrderedDict(b=1, a=2), '{"b": 1, "a": 2}'),
        (collections.ChainMap({"a": 1}), '{"a": 1}'),
        ({"a": 1}.items(), '[["a", 1]]'),
        ([], "[]"),
        ({}, "{}"),
        (set(), "[]"),
        (b"", '""'),
        (iter(()), "[]"),
        (math.nan, "NaN"),
        ([math.inf, -math.inf], "[Infinity, -Infinity]"),
        (decimal.Decimal("NaN"), '"NaN"'),
        ({"a\0b": "\udcff"}, '{"a\\u0000b": "\udcff"}'),
    ],
)
def test_the_json_text_of_an_odd_value(value: object, text: str) -> None:
    assert result_content(value) == text


def test_a_huge_value_is_whole() -> None:
    assert result_content("x" * 50_000_000) == "x" * 50_000_000
    assert result_content(list(range(100_000))) == str(list(range(100_000)))


class BrokenRepr:
    def __repr__(self) -> str:
        raise ValueError("no repr")


@pytest.mark.parametrize("value", [BrokenRepr(), [BrokenRepr()], {"a": {"b": BrokenRepr()}}, {BrokenRepr(): 1}])
def test_a_value_whose_repr_raises_has_no_json_form_either(value: object) -> None:
    with pytest.raises(TypeError, match="a BrokenRepr has no JSON form"):
        result_content(value)


@pytest.mark.parametrize(
    "value", [10**5000, [10**5000], fractions.Fraction(10**400), OSError("gone"), [OSError()]], ids=range(5)
)
def test_a_number_too_long_and_an_exception_have_no_json_form(value: object) -> None:
    with pytest.raises(TypeError, match="no JSON form"):
        result_content(value)


def nested(levels: int) -> object:
    value: object = []
    for _ in range(levels):
        value = [value]
    return value


def test_a_deep_value_is_text_or_a_type_error_and_nothing_else() -> None:
    assert result_content(nested(300)) == "[" * 301 + "]" * 301
    for levels in (1_000, 100_000):
        with pytest.raises(TypeError, match="nested too deeply"):
            result_content(nested(levels))


def test_a_coroutine_in_a_list_has_no_json_form() -> None:
    async def late() -> None: ...

    coroutine = late()
    with pytest.raises(TypeError, match="a coroutine has no JSON form"):
        result_content([coroutine])
    coroutine.close()


def test_forms_nest_in_any_mix() -> None:
    value = {"people": (Person(born=datetime.date(2000, 1, 1), spot=Spot(2)),), "at": [{"when": counted()}]}
    assert json_form(value) == {
        "people": [{"born": "2000-01-01", "spot": {"x": 2, "tone": "low"}}],
        "at": [{"when": [1, 2]}],
    }


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (1, "1"),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (Tone.LOW, "low"),
        (Word.YES, "yes"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        ((1, "a"), '[1, "a"]'),
    ],
)
def test_a_key_becomes_text(key: object, text: str) -> None:
    assert json_form({key: 0}) == {text: 0}


def test_a_plain_value_is_a_copy() -> None:
    value = {"a": [1]}
    form = json_form(value)
    form["a"].append(2)
    assert value == {"a": [1]}


def test_a_lone_surrogate_stays() -> None:
    assert json_text(["\udcff"]) == '["\udcff"]'


class Strange:
    pass


class StrangeModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    inner: Strange


@pytest.mark.parametrize(
    "value",
    [
        object(),
        Strange(),
        Strange,
        Spot,
        1j,
        b"\xff",
        [b"\xff"],
        {"a": object()},
        StrangeModel(inner=Strange()),
        counted,
    ],
)
def test_a_value_without_a_json_form_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match="JSON"):
        result_content(value)


def test_a_value_that_contains_itself_is_a_type_error() -> None:
    loop: list[object] = []
    loop.append({"again": loop})
    with pytest.raises(TypeError, match=r"contains itself.*JSON"):
        result_content(loop)


@pytest.mark.parametrize("value", [{"chart": TEXT_IMAGE}, [["chart", PIXEL]], [PIXEL, [PIXEL]], {PIXEL}, iter([PIXEL])])
def test_an_image_in_a_wrong_place_says_where_it_belongs(value: object) -> None:
    with pytest.raises(TypeError, match=r"(?s)JSON.*return the image itself, or a list of text and images"):
        result_content(value)


def test_an_exception_of_a_generator_comes_out() -> None:
    def broken() -> Iterator[int]:
        raise OSError("gone")
        yield 1

    with pytest.raises(OSError, match="gone"):
        result_content(broken())
