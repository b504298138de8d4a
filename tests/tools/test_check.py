"""The check of arguments is Pydantic's, also where Pydantic itself is not loaded, and the schema says what it takes.

No postponed evaluation here: most people write types that exist when the function is defined.
"""

import dataclasses
import enum
import math
import subprocess
import sys
import types
from inspect import Parameter
from typing import Annotated, Any, Generic, Literal, Optional, TypeVar, Union

import pydantic
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st

from alpineagents.errors import ToolInputError
from alpineagents.state import State
from alpineagents.tools.check import Check, check_for, default_form
from alpineagents.tools.decorator import tool
from alpineagents.tools.function import FunctionTool
from alpineagents.values.frozen import freeze


def take() -> None: ...


def check_of(**hints: Any) -> Check:
    return check_for(take, [Parameter(name, Parameter.KEYWORD_ONLY, annotation=hint) for name, hint in hints.items()])  # type: ignore[arg-type]


def tool_of(hint: Any) -> FunctionTool:
    def take(p: Any) -> Any:
        return p

    take.__annotations__ = {"p": hint}
    return tool(take)


def definitions(hint: Any) -> Any:
    return tool_of(hint).input_schema["$defs"]


def given_to(hint: Any, value: Any) -> Any:
    return tool_of(hint).run({"p": value}, State())


def refusal(hint: Any, value: Any) -> str:
    with pytest.raises(ToolInputError) as refused:
        given_to(hint, value)
    return str(refused.value)


# Without Pydantic: the same schema, the same values, the same words.

LITERALS = st.lists(st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from("ab")), min_size=1)


def wider(hints: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        hints.map(lambda hint: list[hint]),
        hints.map(lambda hint: dict[str, hint]),
        hints.map(lambda hint: hint | None),
    )


HINTS = st.recursive(
    st.one_of(st.sampled_from([str, int, float, bool]), LITERALS.map(lambda values: Literal[tuple(values)])), wider
)
JSON = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.integers(-2, 2).map(str)),
        st.sampled_from(["1.0", " 1 ", "yes", "off", "nan", "", "a", "\ud800", 10**30, "1" * 5000]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "\ud800"]), inner),
    max_leaves=6,
)


def pydantics_own(hint: Any) -> Any:
    make: Any = typing_extensions.TypedDict
    arguments = make("Arguments", {"p": hint})
    arguments.__pydantic_config__ = {"extra": "forbid"}
    return pydantic.TypeAdapter(arguments)


def outcome(validate: Any, args: Any) -> Any:
    try:
        return repr(validate(args))  # repr, because 1 == True and NaN != NaN
    except pydantic.ValidationError as error:
        return [(problem["loc"], problem["msg"]) for problem in error.errors()]


@given(HINTS)
def test_a_plain_type_has_the_schema_pydantic_gives_it(hint: Any) -> None:
    schema = pydantics_own(hint).json_schema()
    del schema["title"], schema["properties"]["p"]["title"]
    assert check_of(p=hint).schema == schema


@given(HINTS, st.one_of(JSON.map(lambda value: {"p": value}), st.dictionaries(st.sampled_from(["p", "q", "r"]), JSON)))
def test_a_plain_type_is_checked_as_pydantic_checks_it(hint: Any, args: Any) -> None:
    assert outcome(check_of(p=hint).validate, args) == outcome(pydantics_own(hint).validate_python, args)


def test_tools_of_plain_types_do_without_pydantic() -> None:
    code = (
        "import sys\n"
        "from typing import Annotated, Literal, Optional\n"
        "from alpineagents import State, ToolInputError, tool\n"
        "@tool\n"
        "def take(a: int, b: Annotated[str, 'x'], c: list[dict[str, float | None]], d: Literal['x', 1] = 1,\n"
        "         e: Optional[bool] = None, *, state: State): return a\n"
        "assert take.run({'a': '1', 'b': 'x', 'c': [{'k': 1}]}, State()) == 1\n"
        "try: take.run({}, State())\n"
        "except ToolInputError: print('pydantic' in sys.modules, 'pydantic_core' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == (
        "False True\n"
    )


# Named types, exactly.


class Flags(enum.Flag):
    READ = 1
    WRITE = 2


class IntFlags(enum.IntFlag):
    READ = 1
    WRITE = 2


class Word(enum.StrEnum):
    YES = "yes"


class Switch(enum.Enum):
    """On or off."""

    ON = True
    OFF = False


class Weight(enum.Enum):
    LIGHT = 0.5
    HEAVY = 2.5


class Alias(enum.Enum):
    LOW = "low"
    SMALL = "low"  # that is the fact
    HIGH = "high"


class OneIsTrue(enum.Enum):
    ONE = 1
    TRUE = True  # an alias, since True == 1
    WORD = "x"


@pytest.mark.parametrize(
    ("hint", "entry"),
    [
        (Flags, {"enum": [1, 2], "title": "Flags", "type": "integer"}),
        (IntFlags, {"enum": [1, 2], "title": "IntFlags", "type": "integer"}),
        (Word, {"enum": ["yes"], "title": "Word", "type": "string"}),
        (Switch, {"enum": [True, False], "title": "Switch", "type": "boolean", "description": "On or off."}),
        (Weight, {"enum": [0.5, 2.5], "title": "Weight", "type": "number"}),
    ],
)
def test_every_kind_of_enum_shows_its_values(hint: Any, entry: dict[str, Any]) -> None:
    assert definitions(hint) == {hint.__name__: entry}


@pytest.mark.parametrize(("hint", "values"), [(Alias, ["low", "high"]), (OneIsTrue, [1, "x"])])
def test_an_alias_of_a_member_is_not_shown_again(hint: Any, values: list[Any]) -> None:
    assert definitions(hint)[hint.__name__]["enum"] == values


@pytest.mark.parametrize(
    ("hint", "value", "member"),
    [
        *((Flags, 1, Flags.READ), (IntFlags, 2, IntFlags.WRITE), (Word, "yes", Word.YES), (Switch, False, Switch.OFF)),
        *((Weight, 2.5, Weight.HEAVY), (Alias, "low", Alias.LOW), (OneIsTrue, True, OneIsTrue.ONE)),
        (Literal[Word.YES, "no"], "yes", "yes"),
    ],
)
def test_every_kind_of_enum_arrives_as_its_member(hint: Any, value: Any, member: Any) -> None:
    assert given_to(hint, value) == member
    assert isinstance(given_to(hint, value), type(member))


@dataclasses.dataclass
class Counted:
    x: int
    double: int = dataclasses.field(init=False)
    fixed: int = dataclasses.field(init=False, default=3)

    def __post_init__(self) -> None:
        self.double = 2 * self.x


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    x: int
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Careful:
    grams: int

    def __post_init__(self) -> None:
        if self.grams < 0:
            raise ValueError("a weight is not negative")


@pydantic.dataclasses.dataclass
class Own:
    x: int

    @pydantic.model_validator(mode="before")
    @classmethod
    def renamed(cls, data: Any) -> Any:
        if isinstance(data, dict) and "ex" in data:
            data["x"] = data.pop("ex")
        return data


def test_a_field_that_is_not_given_to_the_class_is_not_shown() -> None:
    assert definitions(Counted)["Counted"] == {
        "additionalProperties": False,
        "properties": {"x": {"title": "X", "type": "integer"}},
        "required": ["x"],
        "title": "Counted",
        "type": "object",
    }
    assert given_to(Counted, {"x": 2}).double == 4


def test_a_closed_dataclass_is_like_any_other() -> None:
    assert definitions(Closed)["Closed"] == {
        "additionalProperties": False,
        "properties": {
            "x": {"title": "X", "type": "integer"},
            "tags": {"items": {"type": "string"}, "title": "Tags", "type": "array"},
        },
        "required": ["x"],
        "title": "Closed",
        "type": "object",
    }
    assert given_to(Closed, {"x": "1"}) == Closed(x=1)
    assert given_to(Closed, {"x": 1}).tags is not given_to(Closed, {"x": 1}).tags


def test_a_value_error_of_a_dataclass_is_an_input_error() -> None:
    assert refusal(Careful, {"grams": -1}) == "p: Value error, a weight is not negative"


def test_a_pydantic_dataclass_keeps_its_own_setting_and_may_edit_what_it_is_given() -> None:
    assert "additionalProperties" not in definitions(Own)["Own"]
    args = freeze({"p": {"ex": 5}})
    assert tool_of(Own).prepare(args)["p"].x == 5
    assert args == {"p": {"ex": 5}}


def first_popped(values: list[int]) -> list[int]:
    values.pop(0)
    return values


@dataclasses.dataclass
class Trimmed:
    values: Annotated[list[int], pydantic.BeforeValidator(first_popped)]


def test_a_validator_of_a_field_may_edit_what_it_is_given() -> None:
    args = freeze({"p": {"values": [1, 2]}})
    assert tool_of(Trimmed).prepare(args)["p"] == Trimmed([2])
    assert args == {"p": {"values": [1, 2]}}


class Partial(typing_extensions.TypedDict, total=False):
    town: typing_extensions.Required[str]
    code: str


class Address(Partial):
    street: str
    floor: typing_extensions.NotRequired[Annotated[int, pydantic.Field(ge=0)]]


def test_required_and_not_required_keys_are_told_apart() -> None:
    assert definitions(Address)["Address"] == {
        "additionalProperties": False,
        "properties": {
            "town": {"title": "Town", "type": "string"},
            "code": {"title": "Code", "type": "string"},
            "street": {"title": "Street", "type": "string"},
            "floor": {"title": "Floor", "type": "integer", "minimum": 0},
        },
        "required": ["town", "street"],
        "title": "Address",
        "type": "object",
    }
    assert given_to(Address, {"town": "Ulm", "street": "A"}) == {"town": "Ulm", "street": "A"}
    assert refusal(Address, {"street": "A", "floor": -1}) == (
        "p.town: Field required; p.floor: Input should be greater than or equal to 0"
    )


@dataclasses.dataclass
class Branch:
    leaves: "list[Leaf]"


@dataclasses.dataclass
class Leaf:
    branch: "Branch | None" = None


class Comment(pydantic.BaseModel):
    text: str
    replies: "list[Comment]" = []


def test_types_that_name_each_other_are_defined_once_each() -> None:
    assert definitions(Branch) == {
        "Branch": {
            "additionalProperties": False,
            "properties": {"leaves": {"items": {"$ref": "#/$defs/Leaf"}, "title": "Leaves", "type": "array"}},
            "required": ["leaves"],
            "title": "Branch",
            "type": "object",
        },
        "Leaf": {
            "additionalProperties": False,
            "properties": {"branch": {"anyOf": [{"$ref": "#/$defs/Branch"}, {"type": "null"}], "default": None}},
            "title": "Leaf",
            "type": "object",
        },
    }
    assert given_to(Branch, {"leaves": [{"branch": {"leaves": []}}]}) == Branch([Leaf(Branch([]))])


def test_a_recursive_model_has_a_reference_to_itself() -> None:
    assert definitions(Comment) == {
        "Comment": {
            "properties": {
                "text": {"title": "Text", "type": "string"},
                "replies": {"default": [], "items": {"$ref": "#/$defs/Comment"}, "title": "Replies", "type": "array"},
            },
            "required": ["text"],
            "title": "Comment",
            "type": "object",
        }
    }
    assert given_to(Comment, {"text": "a", "replies": [{"text": "b"}]}).replies[0].text == "b"


def test_an_argument_nested_as_deeply_as_json_may_be_is_checked() -> None:
    value: dict[str, Any] = {"text": "a"}
    for _ in range(95):
        value = {"text": "a", "replies": [value]}
    assert given_to(Comment, value).text == "a"


T = TypeVar("T")


class Page(pydantic.BaseModel, Generic[T]):
    items: list[T]


class Numbers(pydantic.RootModel[list[int]]):
    pass


class Renamed(pydantic.BaseModel):
    x: int = pydantic.Field(alias="ex", gt=0, description="More than nothing")


@pytest.mark.parametrize(
    ("hint", "name", "entry", "value"),
    [
        (
            Page[int],
            "Page_int_",
            {
                "properties": {"items": {"items": {"type": "integer"}, "title": "Items", "type": "array"}},
                "required": ["items"],
                "title": "Page[int]",
                "type": "object",
            },
            {"items": [1]},
        ),
        (Numbers, "Numbers", {"items": {"type": "integer"}, "title": "Numbers", "type": "array"}, [1]),
        (
            Renamed,
            "Renamed",
            {
                "properties": {
                    "ex": {
                        "description": "More than nothing",
                        "exclusiveMinimum": 0,
                        "title": "Ex",
                        "type": "integer",
                    }
                },
                "required": ["ex"],
                "title": "Renamed",
                "type": "object",
            },
            {"ex": 1},
        ),
    ],
)
def test_every_kind_of_model_works(hint: Any, name: str, entry: dict[str, Any], value: Any) -> None:
    assert definitions(hint) == {name: entry}
    assert given_to(hint, value).model_dump(by_alias=True) == value


# Unnamed types, exactly.


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (Literal[None], {"const": None, "type": "null"}),
        (Literal[True], {"const": True, "type": "boolean"}),
        (Literal[1, True], {"enum": [1, True]}),
        (Literal[-5, 0], {"enum": [-5, 0], "type": "integer"}),
        (Literal["a"] | None, {"anyOf": [{"const": "a", "type": "string"}, {"type": "null"}]}),
        (Literal["a", "b", "a"], {"enum": ["a", "b"], "type": "string"}),
        (Union[None, Optional[int]], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP007,UP045
        (
            dict[str, list[dict[str, int | None]]],
            {
                "additionalProperties": {
                    "items": {
                        "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                        "type": "object",
                    },
                    "type": "array",
                },
                "type": "object",
            },
        ),
        (
            Annotated[list[Annotated[int, pydantic.Field(ge=0)]], pydantic.Field(description="Not read")],
            {"items": {"type": "integer"}, "type": "array"},
        ),
        (pydantic.conint(gt=0), {"type": "integer"}),
        (typing_extensions.Required[int], {"type": "integer"}),
    ],
)
def test_the_property_of_an_odd_type(hint: Any, schema: dict[str, Any]) -> None:
    assert tool_of(hint).input_schema == {
        "type": "object",
        "properties": {"p": schema},
        "required": ["p"],
        "additionalProperties": False,
    }


def test_one_and_true_are_two_literals() -> None:
    assert given_to(Literal[1, True], True) is True
    assert given_to(Literal[1, True], 1) is not True


def test_a_default_that_can_be_read_once_is_not_read_for_the_schema() -> None:
    def take(p: list[int] = iter([1, 2])) -> list[int]:  # type: ignore[assignment]  # noqa: B008 - people write it
        return list(p)

    made = tool(take)
    assert made.input_schema["properties"]["p"] == {"type": "array", "items": {"type": "integer"}}
    assert made.run({}, State()) == [1, 2]


@pytest.mark.parametrize("default", [float("nan"), [float("inf")], [10**5000], object(), iter(())])
def test_a_default_is_strict_json(default: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        default_form(default)


# What models send.


@pytest.mark.parametrize("text", ["", "\0", "a\ud800", "\udfff", "x" * 50_000_000], ids=range(5))
def test_any_text_reaches_the_function_as_it_came(text: str) -> None:
    assert given_to(str, text) == text
    assert given_to(dict[str, str], {text: text}) == {text: text}


def test_an_unknown_argument_whose_name_is_no_unicode_is_refused() -> None:
    with pytest.raises(ToolInputError, match="valid string"):
        tool_of(int).run({"p": 1, "\ud800": 1}, State())


@pytest.mark.parametrize(
    ("hint", "value", "reason"),
    [
        (int, "1" * 5000, "exceeded maximum size"),
        (int, math.nan, "finite"),
        (int, math.inf, "finite"),
        (bool, 2, "bool"),
    ],
    ids=range(4),
)
def test_a_number_that_is_none_is_refused(hint: Any, value: Any, reason: str) -> None:
    assert reason in refusal(hint, value)


@pytest.mark.parametrize(("value", "text"), [("nan", "nan"), ("-Infinity", "-inf"), (float("nan"), "nan")])
def test_numbers_that_are_not_finite_are_floats(value: Any, text: str) -> None:
    assert str(given_to(float, value)) == text


@pytest.mark.parametrize("args", [None, "", " ", "{}", [], 5, True])
def test_arguments_that_are_no_object_are_an_input_error(args: Any) -> None:
    with pytest.raises(ToolInputError, match=r"^arguments: Input should be a valid dictionary"):
        tool_of(int).run(args, State())


def test_a_thousand_problems_are_listed() -> None:
    assert refusal(list[int], ["x"] * 1000).count("; ") == 999


def test_the_arguments_may_be_any_mapping() -> None:
    assert tool_of(int).prepare(types.MappingProxyType({"p": "1"})) == {"p": 1}
    assert tool_of(Comment).prepare(types.MappingProxyType({"p": {"text": "a"}}))["p"].text == "a"
