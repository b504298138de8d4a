"""The checks both directions of the codec share, so that nothing is written that could not be read again.

A check that fails raises `Misfit`; each level adds its own step to the path on the way out, so that a good value pays
nothing for paths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, TypeVar, cast

from alpineagents.values.display import short
from alpineagents.values.frozen import check_json, frozen_json

JsonDict: TypeAlias = dict[str, Any]
T = TypeVar("T")

MISSING: Final[Any] = object()
_SURELY_JSON = 2**63  # smaller integers need no counting of digits


class Misfit(Exception):
    """A value that has no place where it stands: what is wrong, and the path to it, innermost step first."""

    def __init__(self, problem: str, *path: str | int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = list(path)

    def __str__(self) -> str:
        steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(self.path)]
        return "".join(steps).removeprefix(".") + self.problem


def unexpected(value: object, wanted: str, *path: str | int) -> Misfit:
    """The Misfit of a value that is missing, or is something other than wanted."""
    if value is MISSING:
        return Misfit(" is missing", *path)
    shown = f" {short(repr(value))}" if isinstance(value, str | float) else ""
    return Misfit(f" is {type(value).__name__}{shown}, not {wanted}", *path)


def inside(step: str | int, convert: Callable[[Any], T], value: Any) -> T:
    """The converted value; a Misfit in it gets this step."""
    try:
        return convert(value)
    except Misfit as misfit:
        misfit.path.append(step)
        raise


def text(value: Any, *path: str | int) -> str:
    """The value, if it is a `str`."""
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    raise unexpected(value, "a str", *path)


def whole(value: Any, step: str | int) -> int:
    """The value, if it is an `int` and no `bool`."""
    if type(value) is int and -_SURELY_JSON <= value < _SURELY_JSON:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return json_value(value, step)
    raise unexpected(value, "an int", step)


def number(value: Any, step: str | int) -> float:
    """The value, if it is a finite number and no `bool`."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        return json_value(value, step)
    raise unexpected(value, "a number", step)


def flag(value: Any, step: str | int) -> bool:
    """The value, if it is a `bool`."""
    if value is True or value is False:
        return value
    raise unexpected(value, "a bool", step)


def texts(values: Any, step: str | int) -> list[str]:
    """The values, if each is a `str`."""
    try:
        return [text(value, index) for index, value in enumerate(values)]
    except Misfit as misfit:
        misfit.path.append(step)
        raise


def json_value(value: Any, *path: str | int) -> Any:
    """A plain deep copy of somebody's JSON value."""
    if value is MISSING:
        raise unexpected(value, "JSON", *path)
    try:
        return check_json(value, "")
    except TypeError as error:
        raise Misfit(str(error), *path) from None


def frozen_value(value: Any, *path: str | int) -> Any:
    """A read-only deep copy of somebody's JSON value."""
    if value is MISSING:
        raise unexpected(value, "JSON", *path)
    try:
        return frozen_json(value, "")
    except TypeError as error:
        raise Misfit(str(error), *path) from None


def frozen_object(value: Any, *path: str | int) -> Any:
    """A read-only deep copy of somebody's JSON object."""
    if isinstance(value, dict | Mapping):
        return frozen_value(value, *path)
    raise unexpected(value, "a dict", *path)


def json_object(value: Any, *path: str | int) -> JsonDict:
    """A plain deep copy of somebody's JSON object."""
    if isinstance(value, dict | Mapping):
        return json_value(value, *path)
    raise unexpected(value, "a dict", *path)


def record(value: Any) -> JsonDict:
    """The value, if it is a JSON object."""
    if isinstance(value, dict):
        return cast("JsonDict", value)
    raise unexpected(value, "a dict")


def items(value: Any) -> list[Any]:
    """The value, if it is a JSON list."""
    if isinstance(value, list):
        return cast("list[Any]", value)
    raise unexpected(value, "a list")


def optional(data: JsonDict, key: str, check: Callable[[Any, str], T]) -> T | None:
    """A field that may be left out."""
    value = data.get(key)
    return None if value is None else check(value, key)


def text_tuple(data: JsonDict, key: str) -> tuple[str, ...]:
    """A list of texts that is left out when empty."""
    if key not in data:
        return ()
    return tuple(texts(inside(key, items, data[key]), key))


def time_text(at: Any) -> str:
    """A time as text that sorts as times do: UTC, always with microseconds."""
    if not isinstance(at, datetime):
        raise unexpected(at, "a datetime")
    if at.tzinfo is UTC:
        return at.isoformat(timespec="microseconds")
    return _utc(at).isoformat(timespec="microseconds")


def time_of(value: Any) -> datetime:
    """The time a text names."""
    if not isinstance(value, str):
        raise unexpected(value, "a time")
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise Misfit(f" is no ISO 8601 time: {short(repr(value))}") from None
    return at if at.tzinfo is UTC else _utc(at)


def _utc(at: datetime) -> datetime:
    if at.utcoffset() is None:
        raise Misfit(f" has no time zone: {at}")
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise Misfit(f" is outside the years 1 to 9999 in UTC: {at}") from None
