"""What a tool returned, as the model gets it: text, or text and images."""

from __future__ import annotations

import dataclasses
import datetime
import json
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence, Set, ValuesView
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from types import NoneType
from typing import Any, cast
from uuid import UUID

from alpineagents.errors import explain
from alpineagents.history.wording import DONE
from alpineagents.values.content import Image, TextBlock, ToolResultContent

_TEXT_FORMS: list[tuple[type | tuple[type, ...], Callable[[Any], str]]] = [
    ((datetime.date, datetime.time), lambda value: value.isoformat()),  # a datetime is a date too
    ((Decimal, UUID, PurePath), str),
    ((bytes, bytearray, memoryview), lambda value: bytes(value).decode()),
]

# The common values and the encoder of the module, so that they pass without the slow questions below.
_AS_IT_IS: frozenset[type] = frozenset({str, int, float, bool, NoneType})
_encode = json.JSONEncoder(ensure_ascii=False).encode


def result_content(value: object) -> ToolResultContent:
    """What the model receives for a returned value.

    Raises:
        TypeError: The value has no JSON form.
    """
    if type(value) is str:
        return value
    if value is None:
        return DONE
    if isinstance(value, str):
        return str.__str__(value)  # the plain text, also of a StrEnum member
    if isinstance(value, Image):
        return (value,)
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        if any([isinstance(item, Image) for item in items]):
            return tuple([block for item in items for block in _blocks(item)])
    return json_text(cast("object", value))


def _blocks(item: object) -> tuple[TextBlock | Image, ...]:
    """One item of a list that holds an image: none for None and the empty text, which say nothing."""
    if isinstance(item, Image):
        return (item,)
    if isinstance(item, str):
        return (TextBlock(str.__str__(item)),) if item else ()
    return () if item is None else (TextBlock(json_text(item)),)


def json_text(value: object) -> str:
    """The value as JSON text, non-ASCII characters as they are.

    Raises:
        TypeError: The value has no JSON form.
    """
    form = json_form(value)
    try:
        return _encode(form)
    except (ValueError, RecursionError) as error:  # Python refuses to write integers of thousands of digits
        raise TypeError(_no_form(value, str(error))) from error


def json_form(value: object) -> Any:
    """The value in plain dicts, lists, strings, numbers, booleans and None.

    Raises:
        TypeError: Something in it has no JSON form.
    """
    try:
        return _form(value)
    except RecursionError:
        problem = f"a {type(value).__name__} that contains itself, or is nested too deeply, has no JSON form"
    raise TypeError(explain(problem, "return plain data without cycles"))


def _form(value: Any) -> Any:
    kind = cast("type[object]", type(value))
    if kind in _AS_IT_IS:
        return value
    if kind is dict:
        entries: dict[object, Any] = value
        return {
            key if type(key) is str else _key(key): item if type(item) in _AS_IT_IS else _form(item)
            for key, item in entries.items()
        }
    if kind is list or kind is tuple:
        items: Sequence[object] = value
        return [item if type(item) in _AS_IT_IS else _form(item) for item in items]
    return _other_form(value)


def _other_form(value: Any) -> Any:
    """The form of what is not simply JSON already."""
    if isinstance(value, Enum):
        return _form(value.value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, numbers.Real):
        return _number_form(value)
    for kinds, text_of in _TEXT_FORMS:
        if isinstance(value, kinds):
            return _text_form(value, text_of)
    return _container_form(value)


def _number_form(value: numbers.Real) -> int | float:
    try:
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    except OverflowError as error:
        raise TypeError(_no_form(value, str(error))) from error


def _text_form(value: Any, text_of: Callable[[Any], str]) -> str:
    try:
        return text_of(value)
    except UnicodeDecodeError as error:
        raise TypeError(
            explain(
                f"{type(value).__name__} that are not UTF-8 text have no JSON form: {error}",
                "return text, or an Image when they are one",
                'return Image.from_path("chart.png")',
            )
        ) from error


def _container_form(value: Any) -> Any:
    if isinstance(value, Image):
        raise TypeError(_misplaced_image())
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value)
        return {_key(key): _form(item) for key, item in entries.items()}
    if isinstance(value, set | frozenset):
        return _in_order([_form(item) for item in cast("Set[object]", value)])
    if isinstance(value, Sequence | Set | ValuesView | Iterator):
        return [_form(item) for item in cast("Iterator[object]", value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _form(getattr(value, field.name)) for field in dataclasses.fields(value)}
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return _model_form(value, dump)
    raise TypeError(_no_form(value))


def _key(key: object) -> str:
    """A key of a mapping as JSON writes it: 1 is "1", None is "null", a date is its ISO text."""
    form = _form(key)
    return form if isinstance(form, str) else json.dumps(form, ensure_ascii=False)


def _in_order(items: list[Any]) -> list[Any]:
    """The items of a set in an order that is the same in every process."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=json.dumps)


def _model_form(value: object, dump: Callable[..., Any]) -> Any:
    try:
        return dump(mode="json")
    except ValueError as error:  # pydantic_core's PydanticSerializationError is one
        raise TypeError(_no_form(value, str(error))) from error


def _no_form(value: object, reason: str = "") -> str:
    return explain(
        f"a {type(value).__name__} has no JSON form" + (f": {reason}" if reason else ""),
        "return text, numbers, dicts, lists, dataclasses, Pydantic models, or text and images in one list",
        'return {"rows": len(rows), "first": rows[0]}',
    )


def _misplaced_image() -> str:
    return explain(
        "an Image has no JSON form, so it cannot be sent inside a dict or a nested list",
        "return the image itself, or a list of text and images",
        'return ["the chart", Image.from_path("chart.png")]',
    )
