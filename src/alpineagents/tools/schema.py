"""From the signature of a function to the schema the model sees and the check its arguments go through.

Everything is read once, while the decorator runs, so that a mistake is reported there and a call only validates.
The work is Pydantic's: the parameters become the fields of one TypedDict, because a TypedDict has no attributes that a
parameter called `copy` or `model_config` could collide with.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import json
import types
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NotRequired

import typing_extensions

from alpineagents.errors import ToolInputError, explain
from alpineagents.tools.annotations import SUPPORTED, TypeCheck, is_state, resolved_hint
from alpineagents.tools.results import json_form
from alpineagents.values.frozen import thaw

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
    _check: _Check
    _defaults: dict[str, Callable[[], Any]]  # in the order of the signature
    _thaws: bool  # a model's validators may edit what they are given

    def prepare(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Every parameter a model sees with its converted value, or with a default that is its own to change.

        Raises:
            ToolInputError: Something does not fit; the message lists every problem.
        """
        try:
            values = self._check.validate(thaw(args) if self._thaws else args)
        except self._check.invalid as error:
            raise ToolInputError(_problems(error)) from error
        for name, default in self._defaults.items():
            if name not in values:
                values[name] = default()
        return values


class _Check(NamedTuple):
    """Pydantic's part: the schema, the validator, and the exception the validator raises."""

    schema: dict[str, Any]
    validate: Callable[[Mapping[str, Any]], dict[str, Any]]
    invalid: type[Exception]
    has_model: bool


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
    check = _check_for(function, visible)
    for parameter in visible:
        _complete(check.schema["properties"][parameter.name], parameter, descriptions.get(parameter.name))
    defaults = {p.name: _maker_of_default(function, p) for p in visible if p.default is not _EMPTY}
    return Parameters(check.schema, is_method, states, check, defaults, check.has_model)


def _place(function: types.FunctionType, parameter: inspect.Parameter) -> str:
    return f"parameter {parameter.name!r} of {function.__qualname__}"


def _with_hint(function: types.FunctionType, parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter with the type its hint stands for, if a model can give it by name."""
    place = _place(function, parameter)
    if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
        raise TypeError(
            explain(
                f"{place} is {parameter.kind.description}, but a model gives each argument by its own name",
                "give each argument a parameter of its own; a decorator below @tool needs functools.wraps",
                f"def {function.__name__}(first: str, second: int = 0): ...",
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


def _check_for(function: types.FunctionType, parameters: list[inspect.Parameter]) -> _Check:
    """The one place that needs Pydantic, which is slow to load."""
    import pydantic
    from pydantic.json_schema import GenerateJsonSchema
    from pydantic_core import PydanticSerializationError

    class Generator(GenerateJsonSchema):
        def encode_default(self, dft: Any) -> Any:
            try:
                return _default_form(dft)
            except (TypeError, ValueError) as error:
                raise PydanticSerializationError(str(error)) from error

    allowed = TypeCheck(pydantic.BaseModel)
    for parameter in parameters:
        allowed.check(parameter.annotation, _place(function, parameter))
    try:
        # It warns of what is no mistake here, such as a field's default that has no JSON form and is left out.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            adapter: pydantic.TypeAdapter[dict[str, Any]] = pydantic.TypeAdapter(_arguments_type(parameters))
            schema = Generator().generate(adapter.core_schema)
    except Exception as error:
        raise TypeError(
            explain(
                f"no JSON Schema can be built for the parameters of {function.__qualname__}: {error}",
                "simplify the types, or write a Tool subclass with a schema of its own",
            )
        ) from error
    del schema["title"]
    return _Check(schema, adapter.validator.validate_python, pydantic.ValidationError, allowed.has_model)


def _arguments_type(parameters: list[inspect.Parameter]) -> Any:
    fields = {p.name: p.annotation if p.default is _EMPTY else NotRequired[p.annotation] for p in parameters}
    make: Any = typing_extensions.TypedDict  # its fields are not known to a type checker
    arguments = make("Arguments", fields)
    # Pydantic hands this on to the dataclasses and TypedDicts inside; models keep their own setting.
    arguments.__pydantic_config__ = {"extra": "forbid"}
    return arguments


def _complete(shown: dict[str, Any], parameter: inspect.Parameter, description: str | None) -> None:
    """Add to a property what only the function knows."""
    shown.pop("title", None)
    if description is not None:
        shown["description"] = description
    if parameter.default is not _EMPTY:
        # Without a JSON form it is not shown; the parameter is optional all the same.
        with contextlib.suppress(TypeError, ValueError):
            shown["default"] = _default_form(parameter.default)


def _default_form(default: object) -> Any:
    form = json_form(default)
    json.dumps(form, allow_nan=False)
    return form


def _maker_of_default(function: types.FunctionType, parameter: inspect.Parameter) -> Callable[[], Any]:
    """What gives the default to one call: a copy if a call could change it, otherwise the object itself."""
    default = parameter.default
    if not _may_change(default):
        return lambda: default
    try:
        copy.deepcopy(default)
    except Exception as error:
        raise TypeError(
            explain(
                f"the default of {_place(function, parameter)} cannot be copied for each call: {error}",
                "use None and make the value inside the function",
                f"def {function.__name__}({parameter.name}: ... | None = None): ...",
            )
        ) from error
    return lambda: copy.deepcopy(default)


def _may_change(value: object) -> bool:
    # A sentinel such as object() has to stay itself, so an object that can be hashed is taken to be fixed.
    if dataclasses.is_dataclass(value) or hasattr(value, "model_dump"):
        return not isinstance(value, type)
    try:
        hash(value)
    except TypeError:
        return True
    return False
