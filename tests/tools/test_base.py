"""A tool written by hand, and hints."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from alpineagents.state import State
from alpineagents.tools.base import Hints, Tool, defines_run, is_initialised, is_tool_name
from alpineagents.values.exchange import ToolSpec
from alpineagents.values.frozen import FrozenDict, freeze


class Scale(Tool):
    def run(self, args: dict[str, Any], state: State) -> Any:
        return args


class AsyncScale(Tool):
    async def run(self, args: dict[str, Any], state: State) -> Any:
        return args


def hints_of(tool: Tool | Hints) -> tuple[bool, bool, bool, bool]:
    return tool.read_only, tool.destructive, tool.idempotent, tool.open_world


@pytest.mark.parametrize("name", ["a", "A-z_0", "-", "x" * 64])
def test_a_valid_name_is_kept(name: str) -> None:
    assert is_tool_name(name)
    assert Scale(name=name).name == name


@pytest.mark.parametrize("name", ["", "a b", "a.b", "größe", "x" * 65, "a\n", "<lambda>", "\uff11", None, 5, b"a"])
def test_an_invalid_name_is_a_type_error_that_states_the_rule(name: Any) -> None:
    assert not is_tool_name(name)
    with pytest.raises(TypeError, match=r"1-64 characters of letters .* digits, '_' and '-'"):
        Scale(name=name)


def test_name_is_required_and_nothing_goes_by_position() -> None:
    with pytest.raises(TypeError, match="name"):
        Scale()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Scale("scale")  # type: ignore[misc]


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="desciption"):
        Scale(name="scale", desciption="x")  # type: ignore[call-arg]


def test_what_is_left_out() -> None:
    tool = Scale(name="scale")
    assert (tool.description, tool.parallel) == ("", True)
    assert tool.input_schema == {"type": "object", "properties": {}}


def test_each_tool_has_a_schema_of_its_own() -> None:
    assert Scale(name="a").input_schema is not Scale(name="a").input_schema


def test_a_given_schema_is_shown_as_it_is() -> None:
    schema = {"type": "object", "properties": {"g": {"type": "integer", "x-unit": "g"}}, "$comment": ["a"]}
    assert Scale(name="scale", input_schema=schema).input_schema == schema


def test_a_schema_becomes_a_plain_dict_of_its_own() -> None:
    schema = {"type": "object", "properties": {"g": {}}}
    tool = Scale(name="scale", input_schema=freeze(schema))
    assert type(tool.input_schema) is dict
    assert type(tool.input_schema["properties"]) is dict
    kept = Scale(name="scale", input_schema=schema)
    schema["properties"]["h"] = {}  # type: ignore[index]
    assert kept.input_schema == {"type": "object", "properties": {"g": {}}}


@pytest.mark.parametrize("schema", [{}, {"type": "array"}, {"properties": {}}, [], "object", True])
def test_a_schema_that_is_no_object_is_a_type_error(schema: Any) -> None:
    with pytest.raises(TypeError, match='"type": "object"'):
        Scale(name="scale", input_schema=schema)


def test_a_schema_that_is_not_json_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"input_schema of tool 'scale'\['required'\]: set"):
        Scale(name="scale", input_schema={"type": "object", "required": {"g"}})


@pytest.mark.parametrize("description", [None, 5, b"text", ["a"]])
def test_a_description_that_is_no_text_is_a_type_error(description: Any) -> None:
    with pytest.raises(TypeError, match="description must be a str"):
        Scale(name="scale", description=description)


@pytest.mark.parametrize("parallel", [1, 0, None, "yes"])
def test_parallel_is_exactly_a_bool(parallel: Any) -> None:
    with pytest.raises(TypeError, match="parallel must be True or False"):
        Scale(name="scale", parallel=parallel)


def test_the_spec_is_what_the_model_is_shown() -> None:
    tool = Scale(name="scale", description="Weighs", parallel=False, read_only=True)
    assert tool.spec == ToolSpec("scale", "Weighs", {"type": "object", "properties": {}})


def test_is_async_follows_run_and_is_read_only() -> None:
    assert not Scale(name="scale").is_async
    assert AsyncScale(name="scale").is_async
    with pytest.raises(AttributeError):
        Scale(name="scale").is_async = True  # type: ignore[misc]


def test_repr_shows_class_and_name() -> None:
    assert repr(Scale(name="scale")) == "Scale('scale')"


def test_there_is_no_copy() -> None:
    assert not hasattr(Scale(name="scale"), "copy")


def test_a_class_that_skips_the_constructor_is_found() -> None:
    class Forgetful(Scale):
        name = "forgetful"  # type: ignore[assignment]

        def __init__(self) -> None:
            pass

    assert not is_initialised(Forgetful())
    assert is_initialised(Scale(name="scale"))


def test_a_class_without_run_is_found() -> None:
    assert not defines_run(Tool(name="idle"))
    assert defines_run(Scale(name="scale"))
    with pytest.raises(NotImplementedError, match="Tool does not define run"):
        Tool(name="idle").run({}, State())


HINTS = [
    ({}, (False, True, False, True)),
    ({"read_only": True}, (True, False, True, True)),
    ({"read_only": True, "destructive": False, "idempotent": True}, (True, False, True, True)),
    ({"read_only": True, "open_world": False}, (True, False, True, False)),
    ({"read_only": False, "destructive": False}, (False, False, False, True)),
    ({"idempotent": True}, (False, True, True, True)),
    ({"destructive": True, "idempotent": False, "open_world": True}, (False, True, False, True)),
    ({"read_only": None, "destructive": None, "idempotent": None, "open_world": None}, (False, True, False, True)),
]


@pytest.mark.parametrize(("given", "filled"), HINTS)
def test_missing_hints_are_filled_in(given: dict[str, Any], filled: tuple[bool, ...]) -> None:
    assert hints_of(Hints(**given)) == filled
    assert hints_of(Scale(name="scale", **given)) == filled
    assert hints_of(Scale(name="scale", **given).hints_for({})) == filled


@pytest.mark.parametrize("hint", ["read_only", "destructive", "idempotent", "open_world"])
@pytest.mark.parametrize("value", [1, 0, "yes", [True]])
def test_a_hint_that_is_no_bool_is_a_type_error_that_names_it(hint: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"{hint} must be True or False"):
        Hints(**{hint: value})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=f"tool 'scale': {hint} must be True or False"):
        Scale(name="scale", **{hint: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("hint", "value"), [("destructive", True), ("idempotent", False)])
def test_hints_that_contradict_each_other_are_a_value_error_that_names_both(hint: str, value: bool) -> None:
    with pytest.raises(ValueError, match=f"read_only=True contradicts {hint}={value}"):
        Hints(read_only=True, **{hint: value})
    with pytest.raises(ValueError, match=f"tool 'scale': read_only=True contradicts {hint}={value}"):
        Scale(name="scale", read_only=True, **{hint: value})  # type: ignore[arg-type]


def test_hints_are_a_frozen_value() -> None:
    hints = Hints(read_only=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        hints.read_only = False  # type: ignore[misc]
    with pytest.raises(TypeError, match="positional"):
        Hints(True)  # type: ignore[misc]
    assert hints == Hints(read_only=True, destructive=False)
    assert hash(hints) == hash(Hints(read_only=True, idempotent=True))
    assert hints != Hints()


def test_hints_can_be_pickled_and_copied() -> None:
    hints = Hints(open_world=False)
    assert pickle.loads(pickle.dumps(hints)) == copy.deepcopy(hints) == hints


def test_hints_have_the_repr_of_a_dataclass() -> None:
    assert repr(Hints()) == "Hints(read_only=False, destructive=True, idempotent=False, open_world=True)"


@dataclass(frozen=True)
class Costly(Hints):
    cents: int = 0


def test_a_subclass_of_hints_may_add_fields() -> None:
    hints = Costly(read_only=True, cents=5)
    assert hints_of(hints) == (True, False, True, True)
    assert hints.cents == 5
    with pytest.raises(TypeError, match="Costly: destructive must be"):
        Costly(destructive=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Costly: read_only=True contradicts"):
        Costly(read_only=True, destructive=True)


def test_a_subclass_may_answer_for_one_call_and_fall_back() -> None:
    class Shell(Scale):
        def hints_for(self, args: Mapping[str, Any]) -> Hints:
            return Hints(read_only=True) if args["command"] == "ls" else super().hints_for(args)

    tool = Shell(name="shell", open_world=False)
    assert tool.hints_for(FrozenDict(command="ls")) == Hints(read_only=True)
    assert tool.hints_for(FrozenDict(command="rm")) == Hints(open_world=False)
    assert not tool.read_only
