"""What to write instead of a type that a tool cannot take."""

from __future__ import annotations

import collections.abc
import datetime
import decimal
import inspect
import pathlib
import types
import uuid
from typing import Any, NewType, TypeVar, Union, get_args, get_origin

import typing_extensions

from alpineagents.errors import explain, shown

SUPPORTED = (
    "str, int, float, bool, Literal[...], an Enum, list[T], dict[str, T], T | None, a dataclass, a TypedDict, "
    "a Pydantic model"
)

_CONVERTED: dict[type, tuple[str, str]] = {  # what a model can give instead, and how the function makes it
    bytes: ("text: str", "data = base64.b64decode(text)"),
    bytearray: ("text: str", "data = bytearray(base64.b64decode(text))"),
    datetime.datetime: ("when: str", "at = datetime.fromisoformat(when)"),
    datetime.date: ("day: str", "at = date.fromisoformat(day)"),
    datetime.time: ("hour: str", "at = time.fromisoformat(hour)"),
    datetime.timedelta: ("seconds: float", "length = timedelta(seconds=seconds)"),
    decimal.Decimal: ("amount: str", "exact = Decimal(amount)"),
    pathlib.PurePath: ("path: str", "file = Path(path)"),
    uuid.UUID: ("key: str", "made = UUID(key)"),
    complex: ("real: float, imaginary: float", "number = complex(real, imaginary)"),
}
_LISTS: tuple[type, ...] = (
    *(tuple, set, frozenset, collections.deque),
    *(collections.abc.Iterable, collections.abc.Iterator, collections.abc.Collection),
    *(collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Set, collections.abc.MutableSet),
)
_DICTS: tuple[type, ...] = (
    *(collections.abc.Mapping, collections.abc.MutableMapping),
    *(collections.defaultdict, collections.OrderedDict, collections.Counter),
)


def unsupported(hint: Any, place: str) -> str:
    """The message about a type, with what to write instead.

    Args:
        place: Where it stands.
    """
    fix, example = _instead(hint)
    return explain(
        f"{place}: the type {hint_text(hint)} is not supported", f"{fix}; supported are {SUPPORTED}", example
    )


def hint_text(hint: Any) -> str:
    """A type as it is written in code."""
    return shown(hint) if isinstance(hint, str) else inspect.formatannotation(hint)


def _instead(hint: Any) -> tuple[str, str]:
    for advice in (_of_list, _of_dict, _of_another_name, _of_special_form, _of_class):
        found = advice(hint)
        if found is not None:
            return found
    return "use a type that JSON can write", "def take(value: str): ..."


def _of_list(hint: Any) -> tuple[str, str] | None:
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin is list:
        return "say what is in the list", "def take(values: list[str]): ..."
    if isinstance(hint, type) and hasattr(hint, "_fields"):
        return "write the named tuple as a dataclass", "@dataclass\nclass Spot:\n    x: int\n    y: int"
    if origin not in _LISTS:
        return None
    items = {hint_text(arg) for arg in args if arg is not ...}
    item = items.pop() if len(items) == 1 else "str"
    return f"write list[{item}]", f"def take(values: list[{item}]): ..."


def _of_dict(hint: Any) -> tuple[str, str] | None:
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin is not dict and origin not in _DICTS:
        return None
    value = hint_text(args[-1]) if args else "str"
    return f"write dict[str, {value}], since in JSON every key is text", f"def take(values: dict[str, {value}]): ..."


def _of_another_name(hint: Any) -> tuple[str, str] | None:
    meant = None
    if isinstance(hint, NewType):
        meant = hint.__supertype__
    elif isinstance(hint, typing_extensions.TypeAliasType):
        meant = hint.__value__
    if meant is None:
        return None
    return f"write the type that {hint.__name__} stands for", f"def take(value: {hint_text(meant)}): ..."


def _of_special_form(hint: Any) -> tuple[str, str] | None:
    if hint is Any or hint is object:
        return "say what a model may give", "def take(value: str | None = None): ..."
    if hint is types.NoneType:
        return "leave the parameter out, or say what else it can be", "def take(value: str | None = None): ..."
    if get_origin(hint) in (Union, types.UnionType):
        return (
            "write one type, or a parameter for each",
            "def take(number: int | None = None, name: str | None = None): ...",
        )
    if isinstance(hint, TypeVar):
        return "write one type: a model cannot choose what T is", "def take(value: str): ..."
    return None


def _of_class(hint: Any) -> tuple[str, str] | None:
    origin = get_origin(hint)
    if isinstance(origin, type) and hasattr(origin, "__parameters__"):
        name = origin.__name__
        return f"make a class of its own of {hint_text(hint)}", f"class My{name}({hint_text(hint)}): ..."
    if not isinstance(hint, type):
        return None
    for cls in hint.__mro__:
        if cls in _CONVERTED:
            parameters, line = _CONVERTED[cls]
            return "take what JSON can write, and convert it in the function", f"def take({parameters}):\n    {line}"
    if issubclass(hint, str | int | float):
        base = next(cls.__name__ for cls in hint.__mro__ if cls in (str, int, float))
        return f"write {base}", f"def take(value: {base}): ..."
    return "make it a dataclass, if a model is to fill it in", f"@dataclass\nclass {hint.__name__}:\n    name: str"
