"""Read-only JSON containers, and the check of what is JSON here.

A recorded value never changes, so every dict and list inside history is a `FrozenDict` or `FrozenList`. What makes a
new value of one (`|`, `+`, `*`, a slice, `copy()`) gives a plain dict or list, as for every subclass of the two.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, NoReturn, TypeVar, cast

from alpineagents.errors import explain, shown

MAX_DEPTH = 200
MAX_INT_DIGITS = 4300
# Any int below this many bits has fewer digits than the limit, so the exact test is needed only above it.
_SAFE_INT_BITS = 14_200

K = TypeVar("K")
V = TypeVar("V")


def _refuse(container: dict[Any, Any] | list[Any], operation: str) -> NoReturn:
    kind = "dict" if isinstance(container, dict) else "list"
    raise TypeError(
        explain(
            f"a {type(container).__name__} is read-only: {operation} is refused",
            "change a plain copy, or state.extra_data with edit_extra_data()",
            f"editable = {kind}(value)                      # the top level\n"
            "editable = json.loads(json.dumps(value))    # every level\n"
            "with state.edit_extra_data() as data: ...   # what state.extra_data holds",
        )
    )


class FrozenDict(dict[K, V]):
    """A dict that cannot change, frozen at every depth."""

    __slots__ = ()

    def __init__(self, /, *args: Any, **kwargs: Any) -> None:
        source: dict[Any, Any] = dict(*args, **kwargs)
        super().__init__({key: freeze(value) for key, value in source.items()})

    @classmethod
    def fromkeys(cls, iterable: Iterable[Any], value: Any = None, /) -> FrozenDict[Any, Any]:
        return cls(dict.fromkeys(iterable, value))

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        _refuse(self, f"setting {shown(key)}")

    def __delitem__(self, key: Any) -> NoReturn:
        _refuse(self, f"deleting {shown(key)}")

    def update(self, /, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(self, "update")

    def pop(self, *args: Any) -> NoReturn:
        _refuse(self, "pop")

    def popitem(self) -> NoReturn:
        _refuse(self, "popitem")

    def clear(self) -> NoReturn:
        _refuse(self, "clear")

    def setdefault(self, *args: Any) -> NoReturn:
        _refuse(self, "setdefault")

    def __ior__(self, other: Any) -> NoReturn:  # type: ignore[override,misc]  # refused, whatever the operand
        _refuse(self, "|=")

    def __copy__(self) -> FrozenDict[K, V]:
        return _frozen_dict(dict(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenDict[K, V]:
        copies: dict[Any, Any] = {}
        for key, value in self.items():
            copies[key] = value if type(value) in _AS_IT_IS else copy.deepcopy(value, memo)
        return _frozen_dict(copies)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (FrozenDict, (thaw(self),))


class FrozenList(list[V]):
    """A list that cannot change, frozen at every depth."""

    __slots__ = ()

    def __init__(self, iterable: Iterable[Any] = (), /) -> None:
        super().__init__([freeze(item) for item in iterable])

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        _refuse(self, f"setting {_index_text(index)}")

    def __delitem__(self, index: Any) -> NoReturn:
        _refuse(self, f"deleting {_index_text(index)}")

    def append(self, item: Any) -> NoReturn:
        _refuse(self, "append")

    def extend(self, items: Any) -> NoReturn:
        _refuse(self, "extend")

    def insert(self, index: Any, item: Any) -> NoReturn:
        _refuse(self, "insert")

    def remove(self, item: Any) -> NoReturn:
        _refuse(self, "remove")

    def pop(self, *args: Any) -> NoReturn:
        _refuse(self, "pop")

    def clear(self) -> NoReturn:
        _refuse(self, "clear")

    def sort(self, **options: Any) -> NoReturn:
        _refuse(self, "sort")

    def reverse(self) -> NoReturn:
        _refuse(self, "reverse")

    def __iadd__(self, other: Any) -> NoReturn:  # type: ignore[override,misc]  # refused, whatever the operand
        _refuse(self, "+=")

    def __imul__(self, count: Any) -> NoReturn:  # type: ignore[override,misc]  # refused, whatever the operand
        _refuse(self, "*=")

    def __copy__(self) -> FrozenList[V]:
        return _frozen_list(list(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenList[V]:
        copies: list[Any] = []
        for item in self:
            copies.append(item if type(item) in _AS_IT_IS else copy.deepcopy(item, memo))
        return _frozen_list(copies)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (FrozenList, (thaw(self),))


def _index_text(index: Any) -> str:
    return "a slice" if isinstance(index, slice) else f"item {shown(index)}"


# Looked up once: `dict[Any, Any]` builds an alias object each time.
_fill_dict = dict[Any, Any].__init__
_fill_list = list[Any].__init__


def _frozen_dict(frozen: dict[Any, Any], kind: type[FrozenDict[Any, Any]] = FrozenDict) -> FrozenDict[Any, Any]:
    made = kind.__new__(kind)
    _fill_dict(made, frozen)
    return made


def _frozen_list(frozen: list[Any], kind: type[FrozenList[Any]] = FrozenList) -> FrozenList[Any]:
    made = kind.__new__(kind)
    _fill_list(made, frozen)
    return made


# The common values, so that they pass without the slow questions below.
_ATOMS: frozenset[type] = frozenset({str, bool, NoneType})
_AS_IT_IS: frozenset[type] = frozenset({str, int, float, bool, NoneType})


def freeze(value: Any) -> Any:
    """The value with every mapping and sequence in it read-only; anything else is the same object."""
    if type(value) in _AS_IT_IS or isinstance(value, FrozenDict | FrozenList):
        return cast("Any", value)
    if isinstance(value, dict | Mapping):
        return _frozen_dict({key: freeze(item) for key, item in cast("Mapping[Any, Any]", value).items()})
    if isinstance(value, list | tuple):
        return _frozen_list([freeze(item) for item in cast("list[Any]", value)])
    return value


def thaw(value: Any) -> Any:
    """An editable deep copy: plain dicts and lists at every depth."""
    if type(value) in _AS_IT_IS:
        return value
    if isinstance(value, dict | Mapping):  # dict first, because asking for a Mapping takes long
        return {key: thaw(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [thaw(item) for item in cast("list[Any]", value)]
    return value


class _NotJson(Exception):
    """What is wrong, and where; each level adds its own step on the way out, so a good value pays nothing for paths."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem)
        self.problem, self.fix = problem, fix
        self.path: list[Any] = []


def check_json(value: Any, place: str) -> Any:
    """A plain deep copy of a JSON value.

    Args:
        place: The value's name in code, such as `state.extra_data`; errors add subscripts to it.
    Raises:
        TypeError: Something in it is not JSON here: another type, a key that is no `str`, NaN or an infinity, more than
            200 levels, an int of more than 4,300 digits. The message gives its place.
    """
    return _checked_at(place, value, frozen=False)


def frozen_json(value: Any, place: str) -> Any:
    """`check_json` and `freeze` in one: a read-only deep copy. Errors are those of `check_json`."""
    return _checked_at(place, value, frozen=True)


def _checked_at(place: str, value: Any, frozen: bool) -> Any:
    try:
        return _checked(value, 0, frozen)
    except _NotJson as refused:
        where = place + "".join(f"[{shown(step)}]" for step in reversed(refused.path))
        problem, fix = refused.problem, refused.fix
    raise TypeError(explain(f"{where}: {problem}", fix))


def _checked(value: Any, depth: int, frozen: bool) -> Any:
    if type(value) in _ATOMS:
        return value
    if isinstance(value, str):
        return str.__str__(value)  # an Enum member or other subclass would not come back from the file as itself
    if isinstance(value, int):
        return _checked_int(int.__index__(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _NotJson(f"the {type(value).__name__} {value!r} is not JSON", "use None or a finite number")
        return float.__float__(value)
    if isinstance(value, dict | Mapping):
        plain = _checked_mapping(cast("Mapping[Any, Any]", value), depth, frozen)
        return _frozen_dict(plain) if frozen else plain
    if isinstance(value, list | tuple):
        items = _checked_items(cast("list[Any]", value), depth, frozen)
        return _frozen_list(items) if frozen else items
    raise _NotJson(f"{type(value).__name__} is not JSON: {shown(value)}", _fix_for(value))


def _checked_mapping(value: Mapping[Any, Any], depth: int, frozen: bool) -> dict[str, Any]:
    _check_depth(depth)
    plain: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise _NotJson(f"the key {shown(key)} is {type(key).__name__}, and JSON keys are str", "use str keys")
        name = str.__str__(key)
        try:
            plain[name] = _checked(item, depth + 1, frozen)
        except _NotJson as refused:
            refused.path.append(name)
            raise
    return plain


def _checked_items(value: list[Any], depth: int, frozen: bool) -> list[Any]:
    _check_depth(depth)
    plain: list[Any] = []
    for index, item in enumerate(value):
        try:
            plain.append(_checked(item, depth + 1, frozen))
        except _NotJson as refused:
            refused.path.append(index)
            raise
    return plain


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise _NotJson(f"a value nested deeper than {MAX_DEPTH} levels is not JSON here", "nest less")


def _checked_int(value: int) -> int:
    if value.bit_length() > _SAFE_INT_BITS and abs(value) >= 10**MAX_INT_DIGITS:
        raise _NotJson(f"an int of more than {MAX_INT_DIGITS:,} digits is not JSON here", "store it as text")
    return value


def _fix_for(value: Any) -> str:
    if isinstance(value, set | frozenset):
        return "use a list"
    return "use None, bool, int, float, str, and dicts and lists of them"


def answer_form(value: Any, place: str) -> Any:
    """An answer as history keeps it: a Pydantic model or dataclass as a dict, then frozen JSON.

    Raises:
        TypeError: The value has no JSON form; only the outermost object is converted.
    """
    dump = None if isinstance(value, type) else getattr(value, "model_dump", None)
    if callable(dump):
        value = dump(mode="json")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    return frozen_json(value, place)
