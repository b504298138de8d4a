"""The check that the arguments of a call go through, and the schema that tells a model of it; both made once.

The work is Pydantic's: the parameters become the fields of one TypedDict, because a TypedDict has no attributes that a
parameter called `copy` or `model_config` could collide with. Loading Pydantic takes long, so for plain types (text,
numbers, lists and the like) its core alone is told what Pydantic would tell it; a test compares the two.
"""

from __future__ import annotations

import inspect
import json
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, NotRequired, Union, get_args, get_origin

import typing_extensions

from alpineagents.errors import explain
from alpineagents.tools.annotations import TypeCheck
from alpineagents.tools.results import json_form
from alpineagents.values.frozen import thaw

_EMPTY = inspect.Parameter.empty
_JSON_TYPES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    types.NoneType: "null",
}
_SCALARS: dict[Any, str] = {str: "str", int: "int", float: "float", bool: "bool"}  # and what the core calls them


class Check(NamedTuple):
    """What a call may give.

    Attributes:
        schema: The JSON Schema of the parameters.
        validate: Converts the arguments and leaves them as they are; what was omitted is left out.
        invalid: What `validate` raises.
    """

    schema: dict[str, Any]
    validate: Callable[[Mapping[str, Any]], dict[str, Any]]
    invalid: type[Exception]


class _Plain(NamedTuple):
    core: dict[str, Any]
    schema: dict[str, Any]


def check_for(function: types.FunctionType, parameters: list[inspect.Parameter]) -> Check:
    """The check for parameters whose hints are types.

    Raises:
        TypeError: A type is not supported; the message names the parameter.
    """
    plain = {parameter.name: _plain(parameter.annotation) for parameter in parameters}
    if all(plain.values()):
        return _plain_check(parameters, {name: form for name, form in plain.items() if form})
    return _pydantic_check(function, parameters)


def _plain(hint: Any) -> _Plain | None:
    """The two forms of a type, or `None` if only Pydantic can tell."""
    if isinstance(hint, type) and hint in _SCALARS:
        return _Plain({"type": _SCALARS[hint]}, {"type": _JSON_TYPES[hint]})
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _plain_literal(args)
    if origin in (Union, types.UnionType):
        rest = [arg for arg in args if arg is not types.NoneType]
        inner = _plain(rest[0]) if len(rest) == 1 else None
        return inner and _Plain({"type": "nullable", "schema": inner.core}, {"anyOf": [inner.schema, {"type": "null"}]})
    return _plain_container(origin, args)


def _plain_literal(values: tuple[Any, ...]) -> _Plain | None:
    kinds: set[type] = {type(value) for value in values}
    if not kinds <= {str, int, bool, types.NoneType}:  # an Enum member, perhaps
        return None
    schema: dict[str, Any] = {"const": values[0]} if len(values) == 1 else {"enum": list(values)}
    if len(kinds) == 1:
        schema["type"] = _JSON_TYPES[kinds.pop()]
    return _Plain({"type": "literal", "expected": list(values)}, schema)


def _plain_container(origin: Any, args: tuple[Any, ...]) -> _Plain | None:
    if origin is list and len(args) == 1:
        item = _plain(args[0])
        return item and _Plain({"type": "list", "items_schema": item.core}, {"items": item.schema, "type": "array"})
    if origin is dict and args[:1] == (str,):
        value = _plain(args[1])
        return value and _Plain(
            {"type": "dict", "keys_schema": {"type": "str"}, "values_schema": value.core},
            {"additionalProperties": value.schema, "type": "object"},
        )
    return None


def _plain_check(parameters: list[inspect.Parameter], forms: dict[str, _Plain]) -> Check:
    import pydantic_core

    required = [parameter.name for parameter in parameters if parameter.default is _EMPTY]
    fields = {
        name: {"type": "typed-dict-field", "schema": form.core, "required": name in required}
        for name, form in forms.items()
    }
    core: Any = {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid"}
    schema: dict[str, Any] = {
        "additionalProperties": False,
        "properties": {name: form.schema for name, form in forms.items()},
        "type": "object",
    }
    if required:
        schema["required"] = required
    return Check(schema, pydantic_core.SchemaValidator(core).validate_python, pydantic_core.ValidationError)


def _pydantic_check(function: types.FunctionType, parameters: list[inspect.Parameter]) -> Check:
    import pydantic

    allowed = TypeCheck(pydantic.BaseModel)
    for parameter in parameters:
        allowed.check(parameter.annotation, place_of(function, parameter))
    try:
        # It warns of what is no mistake here, such as a field's default that has no JSON form and is left out.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            adapter: pydantic.TypeAdapter[dict[str, Any]] = pydantic.TypeAdapter(_arguments_type(parameters))
            schema = _schema_generator().generate(adapter.core_schema)
    except Exception as error:
        raise TypeError(
            explain(
                f"no JSON Schema can be built for the parameters of {function.__qualname__}: {error}",
                "simplify the types, or write a Tool subclass with a schema of its own",
            )
        ) from error
    del schema["title"]
    for shown in schema["properties"].values():
        shown.pop("title", None)

    def validate(args: Mapping[str, Any]) -> dict[str, Any]:
        return adapter.validator.validate_python(thaw(args))  # somebody's validators may edit what they are given

    return Check(schema, validate, pydantic.ValidationError)


def default_form(default: object) -> Any:
    """A default as strict JSON.

    Raises:
        TypeError, ValueError: It has no such form.
    """
    if isinstance(default, Iterator):
        raise TypeError("to read it would use it up")
    form = json_form(default)
    json.dumps(form, allow_nan=False)
    return form


def place_of(function: types.FunctionType, parameter: inspect.Parameter) -> str:
    """A parameter, as errors name it."""
    return f"parameter {parameter.name!r} of {function.__qualname__}"


def _arguments_type(parameters: list[inspect.Parameter]) -> Any:
    fields = {p.name: p.annotation if p.default is _EMPTY else NotRequired[p.annotation] for p in parameters}
    make: Any = typing_extensions.TypedDict  # its fields are not known to a type checker
    arguments = make("Arguments", fields)
    # Pydantic hands this on to the dataclasses and TypedDicts inside; models keep their own setting.
    arguments.__pydantic_config__ = {"extra": "forbid"}
    return arguments


def _schema_generator() -> Any:
    """Pydantic's, with our form of defaults and without what a call could not give."""
    from pydantic.json_schema import GenerateJsonSchema
    from pydantic_core import PydanticSerializationError

    class Generator(GenerateJsonSchema):
        def encode_default(self, dft: Any) -> Any:
            try:
                return default_form(dft)
            except (TypeError, ValueError) as error:
                raise PydanticSerializationError(str(error)) from error

        def enum_schema(self, schema: Any) -> dict[str, Any]:
            # An alias is its member once more, and providers refuse a value that stands twice.
            members = {id(member): member for member in schema["members"]}
            once: Any = {**schema, "members": list(members.values())}
            return super().enum_schema(once)

        def dataclass_args_schema(self, schema: Any) -> dict[str, Any]:
            given: Any = {**schema, "fields": [field for field in schema["fields"] if field.get("init", True)]}
            return super().dataclass_args_schema(given)

    return Generator()
