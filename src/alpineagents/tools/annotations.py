"""Which type hints a parameter may have, and what type stands behind one that is written as a string."""

from __future__ import annotations

import dataclasses
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Annotated, Any, Literal, NoReturn, Union, cast, get_args, get_origin

import typing_extensions

from alpineagents.errors import error_text, explain, shown
from alpineagents.state import State
from alpineagents.tools.unsupported import hint_text, unsupported


def resolved_hint(function: Callable[..., Any], hint: Any, place: str) -> Any:
    """The type behind a hint of a function, without `Annotated` metadata.

    Args:
        place: What has the hint, for the error.
    Raises:
        TypeError: The hint names something that is unknown where the function was defined.
    """
    namespace: dict[str, Any] = getattr(inspect.unwrap(function), "__globals__", {})
    # `if TYPE_CHECKING: from alpineagents import State` leaves the module without the name.
    own = {} if "State" in namespace else {"State": State}
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    try:
        return typing.get_type_hints(holder, namespace, own)["hint"]
    except Exception as error:  # besides NameError whatever evaluating a string can raise
        raise TypeError(_unresolved(f"{place} has the hint {hint_text(hint)}", error)) from error


def is_state(hint: Any) -> bool:
    """Whether a parameter with this hint receives the State."""
    return isinstance(hint, type) and issubclass(hint, State)


class TypeCheck:
    """Refuses every type a tool cannot take, at any depth."""

    def __init__(self, base_model: type[Any]) -> None:
        self._base_model = base_model
        self._seen: set[type] = set()  # a type may contain itself

    def check(self, hint: Any, place: str) -> None:
        """Check one type.

        Args:
            place: Where it stands, for the error.
        Raises:
            TypeError: It is not supported.
        """
        origin, args = get_origin(hint), get_args(hint)
        if origin is Literal:
            self._check_literal(args, place)
        elif (inner := _inner_type(origin, args)) is not None:
            self.check(inner, place)
        elif isinstance(hint, type) and origin is None:
            self._check_class(hint, place)
        else:
            _refuse(hint, place)

    def _check_literal(self, values: tuple[Any, ...], place: str) -> None:
        for value in values:
            # Only a value that JSON can write is ever equal to what a model sends.
            if value is not None and not isinstance(value, str | int):
                _refuse(Literal[value], place)  # pyright: ignore[reportArgumentType]

    def _check_class(self, cls: type[Any], place: str) -> None:
        if cls in (str, int, float, bool) or cls in self._seen:
            return
        self._seen.add(cls)
        if issubclass(cls, Enum):
            _check_enum(cls, place)
        elif typing_extensions.is_typeddict(cls):
            _check_typed_dict(cls, place)
            self._check_fields(cls, _hints_of(cls, place).items(), place)
        elif dataclasses.is_dataclass(cls) and not issubclass(cls, State):
            self._check_fields(cls, _dataclass_fields(cls, place), place)
        elif issubclass(cls, self._base_model) and cls is not self._base_model:
            self._check_fields(cls, _model_fields(cls, place), place)
        else:
            _refuse(cls, place)

    def _check_fields(self, cls: type, fields: Iterable[tuple[str, Any]], place: str) -> None:
        for name, hint in fields:
            self.check(hint, f"field {name!r} of {cls.__name__} ({place})")


def _inner_type(origin: Any, args: tuple[Any, ...]) -> Any:
    """T of `list[T]`, `dict[str, T]`, `T | None` and `Annotated[T, ...]`."""
    if origin is Annotated or (origin is list and len(args) == 1):
        return args[0]
    if origin is dict and args[:1] == (str,):
        return args[1]
    if origin in (Union, types.UnionType):
        real = [arg for arg in args if arg is not types.NoneType]
        return real[0] if len(real) == 1 else None
    return None


def _refuse(hint: Any, place: str) -> NoReturn:
    if not is_state(hint):
        raise TypeError(unsupported(hint, place))
    raise TypeError(
        explain(
            f"{place}: a State cannot stand inside another type",
            "write `state: State` to receive the State of the run",
            "def take(name: str, state: State): ...",
        )
    )


def _check_enum(cls: type[Enum], place: str) -> None:
    values = [member.value for member in cls]
    if values and all([_is_json(value) for value in values]):
        return
    raise TypeError(
        explain(
            f"{place}: the values of {hint_text(cls)} cannot be written as JSON: {shown(values)}"
            if values
            else f"{place}: {hint_text(cls)} has no members, so a model has nothing to choose from",
            "give each member a str, int, float or bool as its value",
            f'class {"Tone" if cls is Enum else cls.__name__}(Enum):\n    LOW = "low"',
        )
    )


def _is_json(value: object) -> bool:
    """Whether JSON can write the value so that reading it gives an equal one: no tuples, no NaN."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return all([_is_json(item) for item in cast("list[object]", value)])
    if isinstance(value, dict):
        entries = cast("dict[object, object]", value)
        return all([isinstance(key, str) and _is_json(item) for key, item in entries.items()])
    return value is None or isinstance(value, str | int)


def _check_typed_dict(cls: type, place: str) -> None:
    # Pydantic needs what typing.TypedDict records only since Python 3.12.
    if sys.version_info < (3, 12) and typing.is_typeddict(cls):
        raise TypeError(
            explain(
                f"{place}: {hint_text(cls)} is a typing.TypedDict, which cannot be checked on Python 3.11",
                "import TypedDict from typing_extensions",
                "from typing_extensions import TypedDict",
            )
        )


def _hints_of(cls: type, place: str) -> dict[str, Any]:
    try:  # the names a class body sees, and the class itself, which may be local to a function
        return typing_extensions.get_type_hints(cls, localns={**vars(cls), cls.__name__: cls})
    except Exception as error:
        raise TypeError(_unresolved(f"a field of {hint_text(cls)} ({place}) has a hint", error)) from error


def _dataclass_fields(cls: type[Any], place: str) -> list[tuple[str, Any]]:
    hints = _hints_of(cls, place)
    fields = [(field.name, hints[field.name]) for field in dataclasses.fields(cls)]
    for name, hint in hints.items():
        if isinstance(hint, dataclasses.InitVar):
            fields.append((name, cast("Any", hint).type))
    return fields


def _model_fields(cls: Any, place: str) -> list[tuple[str, Any]]:
    try:
        cls.model_rebuild()  # nothing to do unless the model was defined before a type it names
    except Exception as error:
        raise TypeError(_unresolved(f"a field of {hint_text(cls)} ({place}) has a hint", error)) from error
    return [(name, field.annotation) for name, field in cls.model_fields.items()]


def _unresolved(what: str, error: Exception) -> str:
    name = getattr(error, "name", None)
    reason = f"the name {name!r} is unknown" if isinstance(error, NameError) else error_text(error)
    return explain(
        f"{what} that cannot be resolved: {reason}",
        "import or define the type at the top of the module, before the function: not inside a function, "
        "nor under `if TYPE_CHECKING`",
        f"from my_types import {name}\n\n@tool\ndef take(value: {name}): ..." if name else None,
    )
