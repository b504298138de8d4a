"""From the signature of a function to the schema the model sees, and to the values of one call.

Everything is read once, while the decorator runs, so that a mistake is reported there and a call only validates.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from alpineagents.errors import ToolInputError, error_text, explain
from alpineagents.tools.annotations import is_state, resolved_hint
from alpineagents.tools.check import Check, check_for, default_form, place_of
from alpineagents.tools.unsupported import SUPPORTED

_FIXED_REASONS = {"missing": "required argument is missing", "extra_forbidden": "unknown argument"}
_EMPTY = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a call may give to a function, and what the library fills in.

    Attributes:
        input_schema: The JSON Schema of the parameters a model sees.
        is_method: Whether the function takes an object as `self`.
        states: The names of the parameters that receive the State.
    """

    input_schema: dict[str, Any]
    is_method: bool
    states: tuple[str, ...]
    _check: Check
    _count: int
    _fixed: dict[str, Any]  # defaults that no call can change
    _copied: dict[str, Any]  # the others: each call gets its own

    def prepare(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Every parameter a model sees with its converted value, or with a default that is its own to change.

        Raises:
            ToolInputError: Something does not fit; the message lists every problem.
        """
        check = self._check
        try:
            values = check.validate(args)
        except check.invalid as error:
            raise ToolInputError(_problems(error)) from error
        if len(values) == self._count:
            return values
        values = self._fixed | values
        for name, default in self._copied.items():
            if name not in values:
                values[name] = copy.deepcopy(default)
        return values


def _problems(invalid: Any) -> str:
    """All that is wrong, as Pydantic orders it: the parameters as they stand, then unknown arguments as they came."""
    items: list[str] = []
    for problem in invalid.errors(include_url=False, include_context=False, include_input=False):
        path = [str(step) for step in problem["loc"]]
        reason = _FIXED_REASONS.get(problem["type"]) if len(path) == 1 else None
        items.append(f"{'.'.join(path) or 'arguments'}: {reason or problem['msg']}")
    return "; ".join(items)


def read_parameters(function: types.FunctionType, descriptions: Mapping[str, str]) -> Parameters:
    """What the signature says.

    Args:
        descriptions: What the docstring says, by parameter.
    Raises:
        TypeError: A model could not give one of the parameters, or its type is not supported.
    """
    parameters = list(inspect.signature(function).parameters.values())
    is_method = bool(parameters) and parameters[0].name == "self" and parameters[0].annotation is _EMPTY
    hinted = [_with_hint(function, parameter) for parameter in parameters[is_method:]]
    states = tuple([parameter.name for parameter in hinted if is_state(parameter.annotation)])
    visible = [parameter for parameter in hinted if parameter.name not in states]
    check = check_for(function, visible)
    for parameter in visible:
        _complete(check.schema["properties"][parameter.name], parameter, descriptions.get(parameter.name))
    optional = [parameter for parameter in visible if parameter.default is not _EMPTY]
    copied = {p.name: _copyable_default(function, p) for p in optional if _may_change(p.default)}
    fixed = {p.name: p.default for p in optional if p.name not in copied}
    return Parameters(check.schema, is_method, states, check, len(visible), fixed, copied)


def _with_hint(function: types.FunctionType, parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter with the type its hint stands for, if a model can give it by name."""
    place = place_of(function, parameter)
    if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
        raise TypeError(
            explain(
                f"{place} is {parameter.kind.description}, but a model gives each argument by its own name",
                "give each argument a parameter of its own; a decorator below @tool needs functools.wraps",
                f"def {function.__name__}(first: str, second: int = 0): ...",
            )
        )
    if parameter.annotation is _EMPTY and parameter.name == "cls":
        raise TypeError(
            explain(
                f"{place} has no type hint; if it is a classmethod, it cannot be a tool",
                "write a method with self; the class is type(self)",
                f"@tool\ndef {function.__name__}(self, number: str) -> str: ...",
            )
        )
    if parameter.annotation is _EMPTY:
        raise TypeError(
            explain(
                f"{place} has no type hint, so a model cannot know what to give",
                f"add a hint ({SUPPORTED}); to receive the State of the run, write `state: State`",
                f"def {function.__name__}({parameter.name}: str): ...",
            )
        )
    return parameter.replace(annotation=resolved_hint(function, parameter.annotation, place))


def _complete(shown: dict[str, Any], parameter: inspect.Parameter, description: str | None) -> None:
    """Add to a property what only the function knows."""
    if description is not None:
        shown["description"] = description
    if parameter.default is not _EMPTY:
        # Without a JSON form it is not shown; the parameter is optional all the same.
        with contextlib.suppress(TypeError, ValueError):
            shown["default"] = default_form(parameter.default)


def _copyable_default(function: types.FunctionType, parameter: inspect.Parameter) -> Any:
    try:
        copy.deepcopy(parameter.default)
        return parameter.default
    except Exception as error:
        raise TypeError(
            explain(
                f"the default of {place_of(function, parameter)} cannot be copied for each call: {error_text(error)}",
                "use None and make the value inside the function",
                f"def {function.__name__}({parameter.name}: ... | None = None): ...",
            )
        ) from error


def _may_change(value: object) -> bool:
    # A sentinel such as object() has to stay itself, so an object that can be hashed is taken to be fixed.
    if dataclasses.is_dataclass(value) or hasattr(value, "model_dump"):
        return not isinstance(value, type)
    try:
        hash(value)
    except TypeError:
        return True
    return False
