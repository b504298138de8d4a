"""The schema of a function's parameters, and the check that arguments go through.

No postponed evaluation here: most people write types that exist when the function is defined.
"""

import dataclasses
import datetime
import enum
import functools
import inspect
import json
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired

import pydantic
import pytest
from typing_extensions import TypedDict

from alpineagents.errors import ToolInputError
from alpineagents.state import State
from alpineagents.tools.docstring import read_docstring
from alpineagents.tools.schema import Parameters, read_parameters
from alpineagents.values.frozen import freeze


def parameters_of(function: Any) -> Parameters:
    return read_parameters(function, read_docstring(function.__doc__).parameters)


def schema_of(function: Any) -> dict[str, Any]:
    return parameters_of(function).input_schema


def of_one(hint: Any, *default: Any) -> Parameters:
    """The parameters of a function with one parameter `p`."""

    def take(p: Any = None) -> None: ...

    parameter = inspect.Parameter("p", inspect.Parameter.KEYWORD_ONLY, annotation=hint)
    if default:
        parameter = parameter.replace(default=default[0])
    take.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]
    return parameters_of(take)


def property_of(hint: Any, *default: Any) -> dict[str, Any]:
    return of_one(hint, *default).input_schema["properties"]["p"]


def refusal(parameters: Parameters, args: Any) -> str:
    with pytest.raises(ToolInputError) as refused:
        parameters.prepare(args)
    return str(refused.value)


class Tone(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Level(enum.IntEnum):
    ONE = 1
    TWO = 2


@dataclasses.dataclass
class Spot:
    x: int
    y: int = 0


class Place(TypedDict):
    town: str
    code: NotRequired[str]


class Loose(TypedDict, total=False):
    town: str


class Person(pydantic.BaseModel):
    age: int = pydantic.Field(ge=0, description="In years")
    nick: str | None = None


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    spot: Spot


@dataclasses.dataclass
class Node:
    """A step of a tree."""

    children: list["Node"] = dataclasses.field(default_factory=list)
    tone: Tone = Tone.LOW


# The schema of a function.


def test_a_whole_schema() -> None:
    def plan_route(stops: list[Spot], mode: Literal["foot", "bike"] = "foot", budget: float | None = None) -> str:
        """Plan a route

        Args:
            stops: Where to pass, in order
            budget (float): Kilometres at most
            colour: No parameter
        """
        raise NotImplementedError

    assert schema_of(plan_route) == {
        "$defs": {
            "Spot": {
                "additionalProperties": False,
                "properties": {
                    "x": {"title": "X", "type": "integer"},
                    "y": {"default": 0, "title": "Y", "type": "integer"},
                },
                "required": ["x"],
                "title": "Spot",
                "type": "object",
            }
        },
        "additionalProperties": False,
        "properties": {
            "stops": {"description": "Where to pass, in order", "items": {"$ref": "#/$defs/Spot"}, "type": "array"},
            "mode": {"default": "foot", "enum": ["foot", "bike"], "type": "string"},
            "budget": {
                "anyOf": [{"type": "number"}, {"type": "null"}],
                "default": None,
                "description": "Kilometres at most",
            },
        },
        "required": ["stops"],
        "type": "object",
    }


def test_without_visible_parameters_there_are_no_properties() -> None:
    def take(state: State) -> None: ...

    assert schema_of(take) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_properties_and_required_are_in_the_order_of_the_signature() -> None:
    def take(zoo: int, *, b: int = 1, state: State, ant: int) -> None: ...

    schema = schema_of(take)
    assert list(schema["properties"]) == ["zoo", "b", "ant"]
    assert schema["required"] == ["zoo", "ant"]


def test_without_required_parameters_there_is_no_such_key() -> None:
    def take(b: int = 1) -> None: ...

    assert "required" not in schema_of(take)


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Literal["a", "b"], {"enum": ["a", "b"], "type": "string"}),
        (Literal["a"], {"const": "a", "type": "string"}),
        (Literal[1, 2], {"enum": [1, 2], "type": "integer"}),
        (Literal[1, "x", True], {"enum": [1, "x", True]}),
        (Literal[None, "a"], {"enum": [None, "a"]}),
        (list[int], {"items": {"type": "integer"}, "type": "array"}),
        (dict[str, int], {"additionalProperties": {"type": "integer"}, "type": "object"}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Tone, {"$ref": "#/$defs/Tone"}),
        (Spot, {"$ref": "#/$defs/Spot"}),
        (Place, {"$ref": "#/$defs/Place"}),
        (Person, {"$ref": "#/$defs/Person"}),
        (Annotated[int, pydantic.Field(ge=0, title="Grams")], {"type": "integer"}),
    ],
)
def test_the_property_of_a_type(hint: Any, schema: dict[str, Any]) -> None:
    assert property_of(hint) == schema
    assert ("$defs" in of_one(hint).input_schema) == ("$ref" in schema)


@pytest.mark.parametrize(
    ("hint", "entry"),
    [
        (Tone, {"enum": ["low", "high"], "title": "Tone", "type": "string"}),
        (Level, {"enum": [1, 2], "title": "Level", "type": "integer"}),
        (enum.Enum("Mixed", {"A": "a", "B": 1}), {"enum": ["a", 1], "title": "Mixed"}),
        (
            Place,
            {
                "additionalProperties": False,
                "properties": {
                    "town": {"title": "Town", "type": "string"},
                    "code": {"title": "Code", "type": "string"},
                },
                "required": ["town"],
                "title": "Place",
                "type": "object",
            },
        ),
        (
            Loose,
            {
                "additionalProperties": False,
                "properties": {"town": {"title": "Town", "type": "string"}},
                "title": "Loose",
                "type": "object",
            },
        ),
        (
            Person,
            {
                "properties": {
                    "age": {"description": "In years", "minimum": 0, "title": "Age", "type": "integer"},
                    "nick": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Nick"},
                },
                "required": ["age"],
                "title": "Person",
                "type": "object",
            },
        ),
        (
            Node,
            {
                "additionalProperties": False,
                "description": "A step of a tree.",
                "properties": {
                    "children": {"items": {"$ref": "#/$defs/Node"}, "title": "Children", "type": "array"},
                    "tone": {"$ref": "#/$defs/Tone", "default": "low"},
                },
                "title": "Node",
                "type": "object",
            },
        ),
    ],
)
def test_the_definition_of_a_named_type(hint: Any, entry: dict[str, Any]) -> None:
    assert of_one(hint).input_schema["$defs"][hint.__name__] == entry


def test_a_model_keeps_its_own_setting_for_extra_keys() -> None:
    assert of_one(Strict).input_schema["$defs"]["Strict"]["additionalProperties"] is False


def test_a_type_called_like_our_own_keeps_its_name() -> None:
    Arguments = dataclasses.make_dataclass("Arguments", [("x", int)])
    assert property_of(Arguments) == {"$ref": "#/$defs/Arguments"}


def test_one_type_used_twice_is_defined_once() -> None:
    def take(a: Spot, b: list[Spot]) -> None: ...

    assert list(schema_of(take)["$defs"]) == ["Spot"]


@pytest.mark.parametrize(
    ("hint", "default", "shown"),
    [
        (int, 5, 5),
        (Tone, Tone.HIGH, "high"),
        (Spot, Spot(1), {"x": 1, "y": 0}),
        (Person, Person(age=3), {"age": 3, "nick": None}),
        (int | None, None, None),
        (int, None, None),
        (list[int], (1, 2), [1, 2]),
        (list[str], {"b", "a"}, ["a", "b"]),
        (str, datetime.date(2026, 1, 2), "2026-01-02"),
    ],
)
def test_a_default_is_shown_as_json(hint: Any, default: Any, shown: Any) -> None:
    assert property_of(hint, default) == {**property_of(hint), "default": shown}


@pytest.mark.parametrize("default", [object(), math.inf, [math.nan], b"\xff", lambda: 1])
def test_a_default_without_a_json_form_is_not_shown(default: Any) -> None:
    parameters = of_one(float, default)
    assert parameters.input_schema["properties"]["p"] == {"type": "number"}
    assert "required" not in parameters.input_schema


def test_a_fields_default_without_a_json_form_is_left_out_quietly() -> None:
    @dataclasses.dataclass
    class Limits:
        most: float = math.inf
        least: int | None = object()  # type: ignore[assignment]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fields = of_one(Limits).input_schema["$defs"]["Limits"]["properties"]
    assert fields["most"] == {"title": "Most", "type": "number"}
    assert "default" not in fields["least"]


def test_a_description_stands_beside_a_reference() -> None:
    def take(spot: Spot = Spot(1)) -> None:  # noqa: B008 - people write it
        """Args:
        spot: Where
        """

    assert schema_of(take)["properties"]["spot"] == {
        "$ref": "#/$defs/Spot",
        "default": {"x": 1, "y": 0},
        "description": "Where",
    }


def test_the_schema_is_the_same_in_every_process() -> None:
    code = (
        "import enum, json\n"
        "from alpineagents.tools.schema import read_parameters\n"
        "class Tone(enum.Enum):\n    A = 'a'\n    B = 'b'\n"
        "def f(x: Tone, y: list[str] = {'q', 'r', 's', 't'}): ...\n"
        "print(json.dumps(read_parameters(f, {'x': 'one', 'y': 'two'}).input_schema))"
    )
    made = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(made) == 1
    assert '"default": ["q", "r", "s", "t"]' in made.pop()


def test_importing_the_tools_does_not_import_pydantic() -> None:
    code = "import sys, alpineagents.tools.decorator, alpineagents.tools.collect; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pydantic", "pydantic_core"} & set(loaded)


# Which parameters a function may have.


def test_a_missing_hint_names_the_parameter_and_the_way_to_the_state() -> None:
    def take(a: int, weight) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(TypeError, match=r"parameter 'weight' of .*no type hint(?s:.*)state: State"):
        parameters_of(take)


def take_args(*args: int) -> None: ...
def take_kwargs(**kwargs: int) -> None: ...
def take_positional(a: int, /) -> None: ...


@pytest.mark.parametrize("function", [take_args, take_kwargs, take_positional])
def test_a_parameter_no_model_can_name_is_a_type_error(function: Callable[..., None]) -> None:
    with pytest.raises(TypeError, match="a model gives each argument by its own name"):
        parameters_of(function)


def test_self_without_a_hint_makes_a_method() -> None:
    def weigh(self, grams: int) -> None: ...  # type: ignore[no-untyped-def]

    parameters = parameters_of(weigh)
    assert parameters.is_method
    assert list(parameters.input_schema["properties"]) == ["grams"]


def test_self_elsewhere_or_with_a_hint_is_a_parameter() -> None:
    def first(self: int) -> None: ...
    def second(grams: int, self: int) -> None: ...

    assert not parameters_of(first).is_method
    assert list(parameters_of(second).input_schema["properties"]) == ["grams", "self"]


class MyState(State):
    pass


def test_state_parameters_are_hidden_wherever_they_stand() -> None:
    def take(a: State, n: int, conversation: MyState, b: Annotated[State, "x"] = None) -> None: ...  # type: ignore[assignment]

    parameters = parameters_of(take)
    assert parameters.states == ("a", "conversation", "b")
    assert list(parameters.input_schema["properties"]) == ["n"]


def test_a_wrapped_function_has_the_parameters_of_the_original() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @logged
    def take(spot: Spot, n: "int" = 2) -> None:
        """Args:
        n: How many
        """

    assert schema_of(take)["properties"] == {
        "spot": {"$ref": "#/$defs/Spot"},
        "n": {"type": "integer", "default": 2, "description": "How many"},
    }


def test_names_of_the_validation_library_are_names_like_any_other() -> None:
    def take(  # noqa: PLR0917 - one for each name
        model_config: int, model_dump: str, json: str, schema: str, copy: str, validate: str, _x: int, __y__: int = 1
    ) -> None: ...

    args = {"model_config": 1, "_x": 2} | dict.fromkeys(("model_dump", "json", "schema", "copy", "validate"), "a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parameters = parameters_of(take)
    assert list(parameters.input_schema["properties"]) == list(inspect.signature(take).parameters)
    assert parameters.prepare(args) == args | {"__y__": 1}


def test_parameters_may_have_names_outside_ascii() -> None:
    def take(größe: int) -> None: ...  # noqa: PLC2401 - that is the fact

    assert parameters_of(take).prepare({"größe": "1"}) == {"größe": 1}


def test_a_default_that_cannot_be_copied_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"the default of parameter 'p' .*cannot be copied"):
        of_one(list[int], [json.JSONDecoder().decode, sys.stdout])


def test_a_model_that_has_no_schema_is_a_type_error() -> None:
    class Secret(pydantic.BaseModel):
        @classmethod
        def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
            raise NotImplementedError("not for models")

    with pytest.raises(TypeError, match=r"no JSON Schema can be built for the parameters of .*take: not for models"):
        of_one(Secret)


# What a call may give.

ACCEPTED = [
    (str, "", ""),
    (str, "a", "a"),
    (int, 1.0, 1),
    (int, "1", 1),
    (int, " 1 ", 1),
    (int, "1.0", 1),
    (int, True, 1),
    (int, 10**40, 10**40),
    (float, 1, 1.0),
    (float, "1.5", 1.5),
    (float, True, 1.0),
    *[(bool, given, True) for given in (True, 1, "true", "yes", "on", "1")],
    *[(bool, given, False) for given in (False, 0, "false", "no", "off", "0")],
    (Literal["a", 1], 1, 1),
    (Literal["1"], "1", "1"),
    (Tone, "low", Tone.LOW),
    (Level, "1", Level.ONE),
    (Level, 2, Level.TWO),
    (list[int], ["1", 2], [1, 2]),
    (list[int], [], []),
    (dict[str, int], {"a": "1"}, {"a": 1}),
    (int | None, None, None),
    (int | None, "1", 1),
    (Spot, {"x": "1"}, Spot(1)),
    (Place, {"town": "Ulm"}, {"town": "Ulm"}),
    (Person, {"age": "3", "other": 1}, Person(age=3)),
    (list[Node], [{"children": [{}]}], [Node([Node()])]),
]


@pytest.mark.parametrize(("hint", "given", "value"), ACCEPTED)
def test_an_argument_is_converted(hint: Any, given: Any, value: Any) -> None:
    prepared = of_one(hint).prepare(freeze({"p": given}))["p"]
    assert prepared == value
    assert type(prepared) is type(value)


REFUSED = [
    *[(str, given) for given in (1, True, None, [])],
    *[(int, given) for given in (1.5, "x", "", None)],
    *[(float, given) for given in ("x", None)],
    *[(bool, given) for given in (2, "maybe", None)],
    *[(Literal[1, "a"], given) for given in ("1", "b", None)],
    *[(Tone, given) for given in ("LOW", "loud", None)],
    (Level, "ONE"),
    *[(list[int], given) for given in ("12", {"a": 1}, None)],
    (dict[str, int], [1]),
    (int | None, "x"),
    *[(Spot, given) for given in ([1], {"x": 1, "z": 1}, {"y": 1}, None)],
    *[(Place, given) for given in ({"town": "Ulm", "z": 1}, {"code": "a"})],
    *[(Person, given) for given in ({"age": -1}, {}, {"age": "old"})],
    (Strict, {"spot": {"x": 1}, "z": 1}),
]


@pytest.mark.parametrize(("hint", "given"), REFUSED)
def test_an_argument_that_does_not_fit_is_refused(hint: Any, given: Any) -> None:
    assert refusal(of_one(hint), {"p": given}).startswith("p")


def test_extra_keys_of_nested_types_are_refused() -> None:
    @dataclasses.dataclass
    class Outer:
        place: Place
        spots: dict[str, Spot]

    parameters = of_one(Outer)
    assert refusal(parameters, {"p": {"place": {"town": "Ulm", "z": 1}, "spots": {}}}).startswith("p.place.z: ")
    assert refusal(parameters, {"p": {"place": {"town": "U"}, "spots": {"a": {"x": 1, "z": 1}}}}).startswith(
        "p.spots.a.z: "
    )


def take_three(grams: int, stops: list[Spot], colour: str = "red", *, state: State) -> None: ...


def test_every_problem_is_listed_in_order() -> None:
    text = refusal(parameters_of(take_three), {"z": 1, "colour": 5, "stops": [{"x": 1}, {"x": "far"}], "a": 2})
    assert text == (
        "grams: required argument is missing; "
        "stops.1.x: Input should be a valid integer, unable to parse string as an integer; "
        "colour: Input should be a valid string; "
        "z: unknown argument; a: unknown argument"
    )


def test_a_missing_field_is_no_missing_argument() -> None:
    assert refusal(of_one(Spot), {"p": {}}) == "p.x: Field required"
    assert refusal(of_one(Spot), {}) == "p: required argument is missing"


@pytest.mark.parametrize("name", ["state", "self", "kwargs", "Arguments", "__pydantic_config__", "__invalid_json__"])
def test_only_visible_parameters_are_arguments(name: str) -> None:
    args = {"grams": 1, "stops": [], name: 1}
    assert refusal(parameters_of(take_three), args) == f"{name}: unknown argument"


def test_arguments_that_are_no_object_are_refused() -> None:
    assert refusal(parameters_of(take_three), [1]).startswith("arguments: ")
    assert refusal(parameters_of(take_three), {"grams": 1, "stops": [], 5: 1}).startswith("5: ")


def test_the_validators_exception_is_the_cause() -> None:
    with pytest.raises(ToolInputError) as refused:
        of_one(int).prepare({})
    assert isinstance(refused.value.__cause__, pydantic.ValidationError)


def test_a_given_value_wins_over_the_default() -> None:
    assert of_one(int, 5).prepare({"p": "6"}) == {"p": 6}


def test_an_omitted_parameter_gets_its_default_unchecked() -> None:
    sentinel = object()
    assert of_one(int, sentinel).prepare({})["p"] is sentinel
    assert of_one(int, "five").prepare({}) == {"p": "five"}
    assert of_one(int, None).prepare({}) == {"p": None}


class Box:  # noqa: PLW1641 - that is the fact
    """Equal to its like, therefore without a hash."""

    def __init__(self) -> None:
        self.items: list[int] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and self.items == other.items


@dataclasses.dataclass(eq=False)
class Crate:
    items: list[int] = dataclasses.field(default_factory=list)


@pytest.mark.parametrize(
    "default", [[1], {"a": [1]}, {1}, ([1],), Spot(1), Person(age=3), Box(), Crate(), bytearray(b"a")]
)
def test_a_mutable_default_is_copied_for_every_call(default: Any) -> None:
    parameters = of_one(str, default)
    first, second = parameters.prepare({})["p"], parameters.prepare({})["p"]
    assert first is not second
    assert default is not first
    assert type(first) is type(default)


def test_changing_a_prepared_default_reaches_nobody() -> None:
    default: dict[str, list[int]] = {"a": []}
    parameters = of_one(dict[str, list[int]], default)
    parameters.prepare({})["p"]["a"].append(1)
    assert default == {"a": []}
    assert parameters.prepare({})["p"] == {"a": []}


@pytest.mark.parametrize("default", [Tone.LOW, Spot, math.inf, "a", (1, 2), len])
def test_a_fixed_default_stays_the_same_object(default: Any) -> None:
    assert of_one(str, default).prepare({})["p"] is default


def test_prepared_values_share_nothing_with_the_arguments() -> None:
    def take(a: list[list[int]], b: dict[str, list[int]]) -> None: ...

    args = {"a": [[1]], "b": {"k": [1]}}
    prepared = parameters_of(take).prepare(args)
    prepared["a"][0].append(2)
    prepared["b"]["k"].append(2)
    assert args == {"a": [[1]], "b": {"k": [1]}}


def test_a_model_may_edit_and_keep_what_it_is_given() -> None:
    class Open(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="allow")
        n: int

        @pydantic.model_validator(mode="before")
        @classmethod
        def counted(cls, data: dict[str, Any]) -> dict[str, Any]:
            data["n"] = data.pop("number")
            return data

    args = freeze({"p": {"number": 1, "more": {"a": [1]}}})
    opened: Any = of_one(list[Open]).prepare(freeze({"p": [args["p"]]}))["p"][0]
    opened.more["a"].append(2)
    assert (opened.n, args) == (1, {"p": {"number": 1, "more": {"a": [1]}}})
