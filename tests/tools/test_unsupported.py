"""What a person is told to write instead of a type that no tool takes.

No postponed evaluation here: most people write types that exist when the function is defined.
"""

import collections
import dataclasses
import datetime
import decimal
import enum
import pathlib
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, NewType, ParamSpec, TypeVar

import pydantic
import pytest
import typing_extensions

from alpineagents.tools.decorator import tool
from alpineagents.tools.unsupported import SUPPORTED, unsupported

T = TypeVar("T")
Metres = NewType("Metres", int)
Names = typing_extensions.TypeAliasType("Names", list[str])


class Spot(NamedTuple):
    x: int


@dataclasses.dataclass
class Page(Generic[T]):
    items: list[T]


class Client:
    pass


class Name(str):
    __slots__ = ()


class Unprintable(type):
    def __repr__(cls) -> str:
        raise ValueError("no repr")


class Strange(metaclass=Unprintable):
    pass


@pytest.mark.parametrize(
    ("hint", "instead"),
    [
        (bytes, "def take(text: str):\n        data = base64.b64decode(text)"),
        (bytearray, "base64"),
        (datetime.datetime, "def take(when: str):\n        at = datetime.fromisoformat(when)"),
        (datetime.date, "date.fromisoformat(day)"),
        (datetime.time, "time.fromisoformat(hour)"),
        (datetime.timedelta, "def take(seconds: float):"),
        (decimal.Decimal, "Decimal(amount)"),
        (pathlib.Path, "def take(path: str):\n        file = Path(path)"),
        (pathlib.PurePosixPath, "Path(path)"),
        (uuid.UUID, "UUID(key)"),
        (complex, "real: float, imaginary: float"),
        (list, "values: list[str]"),
        (tuple[int, ...], "values: list[int]"),
        (tuple[int, int], "values: list[int]"),
        (tuple[int, str], "values: list[str]"),
        (tuple, "values: list[str]"),
        (set[int], "values: list[int]"),
        (frozenset[str], "values: list[str]"),
        (Sequence[int], "values: list[int]"),
        (typing.Iterable[int], "values: list[int]"),
        (Iterable, "values: list[str]"),
        (collections.deque[int], "values: list[int]"),
        (dict, "values: dict[str, str]"),
        (dict[int, float], "values: dict[str, float]"),
        (Mapping[str, int], "values: dict[str, int]"),
        (collections.defaultdict[str, list[int]], "values: dict[str, list[int]]"),
        (Spot, "named tuple as a dataclass"),
        (Metres, "the type that Metres stands for"),
        (Metres, "value: int"),
        (Names, "value: list[str]"),
        (Any, "say what a model may give"),
        (object, "say what a model may give"),
        (None, "leave the parameter out"),
        (int | str, "one type, or a parameter for each"),
        (int | str | None, "one type, or a parameter for each"),
        (T, "write one type"),
        (Page[int], "(tests.tools.test_unsupported.Page[int]): ..."),
        (Client, "make it a dataclass"),
        (pydantic.SecretStr, "make it a dataclass"),
        (Name, "def take(value: str)"),
        (Strange, "make it a dataclass"),
        (Callable[[], int], "value: str"),
        (ParamSpec("P"), "value: str"),
        (typing.Final[int], "value: str"),
        ([int], "value: str"),
        (..., "value: str"),
    ],
)
def test_the_message_says_what_to_write_instead(hint: Any, instead: str) -> None:
    def take(parcel: Any) -> None: ...

    take.__annotations__["parcel"] = hint
    with pytest.raises(TypeError) as refused:
        tool(take)
    message = str(refused.value)
    assert message.startswith(
        "parameter 'parcel' of test_the_message_says_what_to_write_instead.<locals>.take: the type "
    )
    assert instead in message
    assert SUPPORTED in message
    assert "\nExample:\n" in message


def test_what_is_said_of_a_type_inside_another_is_about_that_type() -> None:
    def take(parcels: dict[str, list[datetime.date]]) -> None: ...

    with pytest.raises(TypeError, match=r"(?s)'parcels' .* the type datetime.date is not supported.*fromisoformat"):
        tool(take)


def test_a_long_hint_is_cut() -> None:
    assert len(unsupported("x" * 10_000, "parameter 'p'")) < 1000


def test_an_enum_of_dates_says_what_values_may_be() -> None:
    class Day(enum.Enum):
        FIRST = datetime.date(2026, 1, 1)

    def take(day: Day) -> None: ...

    with pytest.raises(TypeError, match=r"(?s)'day' .*Day cannot be written as JSON.*str, int, float or bool"):
        tool(take)


def test_the_base_of_all_models_is_no_model() -> None:
    def take(model: pydantic.BaseModel) -> None: ...

    with pytest.raises(TypeError, match=r"'model' .* BaseModel|pydantic.main.BaseModel is not supported"):
        tool(take)
