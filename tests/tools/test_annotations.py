"""Which types a tool takes, and which names a hint may use.

No postponed evaluation here: most people write types that exist when the function is defined.
"""

import dataclasses
import datetime
import enum
import sys
import typing
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Annotated, Any, Dict, List, Literal, NewType, Optional, Union  # noqa: UP035 - people write them

import pydantic
import pytest
import typing_extensions
from typing_extensions import TypedDict

from alpineagents.state import State
from alpineagents.tools.annotations import resolved_hint
from alpineagents.tools.function import FunctionTool


class Tone(enum.Enum):
    LOW = "low"


class MyState(State):
    pass


@dataclasses.dataclass
class Spot:
    x: int


class Place(TypedDict):
    spot: typing_extensions.ReadOnly[Spot]
    code: typing_extensions.NotRequired[str]


class Person(pydantic.BaseModel):
    age: Annotated[int, pydantic.Field(ge=0)]
    tags: list[Annotated[str, pydantic.Field(max_length=3)]] = []


def tool_of(hint: Any) -> FunctionTool:
    def take(value: Any) -> None: ...

    take.__annotations__["value"] = hint
    return FunctionTool(take)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Runs code as a module of its own, with postponed evaluation of hints."""

    def run(code: str) -> ModuleType:
        made = ModuleType("sample_of_annotations")
        monkeypatch.setitem(sys.modules, made.__name__, made)
        exec(compile("from __future__ import annotations\n" + code, "sample", "exec", dont_inherit=True), vars(made))
        return made

    return run


@pytest.mark.parametrize(
    "hint",
    [
        str,
        int,
        float,
        bool,
        Literal["a", 1, True, None],
        Tone,
        list[int],
        List[int],  # noqa: UP006
        dict[str, list[Spot]],
        Dict[str, int],  # noqa: UP006
        int | None,
        Optional[Tone],  # noqa: UP045
        Union[None, list[int]],  # noqa: UP007
        list[int | None],
        Spot,
        Place,
        Person,
        Annotated[int, "metres"],
        list[Annotated[int, "metres"]],
    ],
)
def test_a_supported_type_is_accepted(hint: Any) -> None:
    assert "value" in tool_of(hint).input_schema["properties"]


@pytest.mark.parametrize(
    "hint",
    [
        list,
        dict,
        List,  # noqa: UP006
        Dict,  # noqa: UP006
        dict[int, str],
        dict[Tone, str],
        tuple,
        tuple[int, int],
        set[str],
        frozenset[str],
        bytes,
        Any,
        object,
        None,
        type(None),
        int | str,
        int | str | None,
        Literal["a"] | Literal["b"],
        complex,
        datetime.datetime,
        NewType("Metres", int),
        Callable[[], int],
        typing.Sequence[int],
        typing.TypeVar("T"),
        type[int],
        Literal[b"a"],
        Literal[Tone.LOW],
        list[tuple[int]],
        list[list],
        5,
        "5",
    ],
)
def test_any_other_type_is_a_type_error_that_lists_the_supported_ones(hint: Any) -> None:
    with pytest.raises(TypeError, match=r"parameter 'value' of"):
        tool_of(hint)


def test_the_message_lists_the_supported_types() -> None:
    with pytest.raises(TypeError) as refused:
        tool_of(bytes)
    for name in ("str", "int", "float", "bool", "Literal", "Enum", "list[T]", "dict[str, T]", "T | None"):
        assert name in str(refused.value)
    for name in ("dataclass", "TypedDict", "Pydantic model"):
        assert name in str(refused.value)


@dataclasses.dataclass
class EventData:
    at: datetime.datetime


class EventDict(TypedDict, total=False):
    at: datetime.datetime


class EventModel(pydantic.BaseModel):
    at: Annotated[datetime.datetime, "when"]


@dataclasses.dataclass
class EventInit:
    at: dataclasses.InitVar[datetime.datetime]


@pytest.mark.parametrize("event", [EventData, EventDict, EventModel, EventInit])
def test_an_unsupported_field_makes_the_type_unsupported(event: Any) -> None:
    message = rf"field 'at' of {event.__name__} .*'value'.*: the type datetime.datetime is not supported"
    for hint in (event, list[event], event | None):
        with pytest.raises(TypeError, match=message):
            tool_of(hint)


@dataclasses.dataclass
class DataState(State):
    n: int = 0


@pytest.mark.parametrize("hint", [State | None, list[State], MyState | None, dict[str, MyState], list[DataState]])
def test_a_state_inside_another_type_says_how_to_receive_it(hint: Any) -> None:
    with pytest.raises(TypeError, match=r"(?s)State cannot stand inside.*state: State"):
        tool_of(hint)


@pytest.mark.parametrize("value", [object(), (1, 2), b"a", float("nan"), datetime.date(2026, 1, 1), {1: 2}, [b"a"]])
def test_an_enum_whose_values_are_not_json_is_a_type_error(value: object) -> None:
    odd = enum.Enum("Odd", {"A": "a", "B": value})
    with pytest.raises(TypeError, match=r"values of .*Odd cannot be written as JSON"):
        tool_of(odd)


def test_an_enum_without_members_is_a_type_error() -> None:
    for empty in (enum.Enum("Empty", {}), enum.Enum):
        with pytest.raises(TypeError, match=r"parameter 'value' .*(Empty|Enum) has no members"):
            tool_of(empty)


def test_an_enum_of_mixed_json_values_is_accepted() -> None:
    mixed = enum.Enum("Mixed", {"A": "a", "B": 1, "C": 1.5, "D": None, "E": [1], "F": {"a": 1}})
    assert tool_of(mixed).prepare({"value": [1]})["value"] is mixed["E"]


class Standard(typing.TypedDict):
    town: str


@dataclasses.dataclass
class Wrapped:
    places: list[Standard]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="typing.TypedDict records enough since Python 3.12")
@pytest.mark.parametrize("hint", [Standard, list[Standard], Wrapped])
def test_a_standard_typed_dict_needs_a_newer_python(hint: Any) -> None:
    with pytest.raises(TypeError, match="import TypedDict from typing_extensions"):
        tool_of(hint)


def test_string_hints_work(module: Callable[[str], ModuleType]) -> None:
    made = module("def take(value: 'int', other: list[Later]): ...\nfrom dataclasses import dataclass\nLater = str")
    assert FunctionTool(made.take).input_schema["properties"] == {
        "value": {"type": "integer"},
        "other": {"items": {"type": "string"}, "type": "array"},
    }


def test_a_state_known_only_to_type_checkers_is_the_librarys(module: Callable[[str], ModuleType]) -> None:
    code = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from alpineagents import State\n"
    made = module(code + "def take(value: int, state: State): return state")
    state = State()
    assert FunctionTool(made.take).run({"value": 1}, state) is state


def test_a_modules_own_state_is_its_own(module: Callable[[str], ModuleType]) -> None:
    made = module("import enum\nclass State(enum.Enum):\n    OHIO = 'ohio'\ndef take(state: State): return state")
    assert FunctionTool(made.take).run({"state": "ohio"}, State()) is made.State.OHIO


@pytest.mark.parametrize("hint", ["Missing", "list[Missing]", "Missing | None"])
def test_an_unknown_name_is_a_type_error_that_names_it(module: Callable[[str], ModuleType], hint: str) -> None:
    with pytest.raises(TypeError, match=r"parameter 'value' of take .*'Missing' is unknown"):
        FunctionTool(module(f"def take(value: {hint}): ...").take)


@pytest.mark.parametrize(
    "code",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from decimal import Decimal as Local",
        "def scope():\n    class Local: ...",
    ],
)
def test_a_name_that_only_a_type_checker_or_a_function_knows_says_where_to_define_it(
    module: Callable[[str], ModuleType], code: str
) -> None:
    with pytest.raises(TypeError, match=r"(?s)'Local' is unknown.*not inside a function, nor under `if TYPE_CHECKING`"):
        FunctionTool(module(f"{code}\ndef take(value: Local): ...").take)


def test_a_name_that_the_module_gives_to_a_type_is_that_type(module: Callable[[str], ModuleType]) -> None:
    made = module("Grams = int\nParcels = list[Grams]\ndef take(value: Parcels | None): ...")
    assert FunctionTool(made.take).input_schema["properties"]["value"] == {
        "anyOf": [{"items": {"type": "integer"}, "type": "array"}, {"type": "null"}]
    }


@pytest.mark.parametrize("hint", ["typing.Missing", "'list[int'", "1 + ''"])
def test_a_hint_that_cannot_be_evaluated_is_a_type_error(module: Callable[[str], ModuleType], hint: str) -> None:
    with pytest.raises(TypeError, match=r"parameter 'value' of take .*cannot be resolved"):
        FunctionTool(module(f"import typing\ndef take(value: {hint}): ...").take)


def test_the_hint_of_the_returned_value_is_nobodys_business(module: Callable[[str], ModuleType]) -> None:
    assert FunctionTool(module("def take(value: int) -> Missing: return value").take).run({"value": 1}, State()) == 1


@pytest.mark.parametrize(
    "code",
    [
        "@dataclass\nclass Node:\n    next: Missing",
        "class Node(TypedDict):\n    next: Missing",
        "class Node(BaseModel):\n    next: Missing",
    ],
)
def test_an_unknown_name_in_a_field_is_a_type_error_that_names_it(
    module: Callable[[str], ModuleType], code: str
) -> None:
    imports = (
        "from dataclasses import dataclass\nfrom typing_extensions import TypedDict\nfrom pydantic import BaseModel\n"
    )
    with pytest.raises(TypeError, match=r"field of .*Node .*'Missing' is unknown"):
        FunctionTool(module(f"{imports}{code}\ndef take(value: Node): ...").take)


def test_a_model_may_name_a_type_that_was_defined_after_it(module: Callable[[str], ModuleType]) -> None:
    made = module(
        "from pydantic import BaseModel\nclass Tree(BaseModel):\n    leaf: Leaf\nclass Leaf(BaseModel):\n    n: int"
    )
    exec("def take(tree: Tree): return tree.leaf.n", vars(made))
    assert FunctionTool(made.take).run({"tree": {"leaf": {"n": 2}}}, State()) == 2


def test_types_nested_in_a_class_body_are_found(module: Callable[[str], ModuleType]) -> None:
    code = (
        "from dataclasses import dataclass\n"
        "@dataclass\nclass Route:\n"
        "    @dataclass\n    class Leg:\n        n: int\n"
        "    legs: list[Leg]\n"
        "def take(route: Route): return route.legs[0].n"
    )
    assert FunctionTool(module(code).take).run({"route": {"legs": [{"n": 3}]}}, State()) == 3


def test_recursive_types_defined_inside_a_function_work() -> None:
    @dataclasses.dataclass
    class Node:
        children: list["Node"]

    class Tree(TypedDict, total=False):
        left: "Tree"

    class Person(pydantic.BaseModel):
        friends: list["Person"] = []

    for hint, value in ((Node, {"children": [{"children": []}]}), (Tree, {"left": {}}), (Person, {"friends": [{}]})):
        tool = tool_of(hint)
        assert tool.input_schema["properties"]["value"] == {"$ref": f"#/$defs/{hint.__name__}"}
        assert tool.prepare({"value": value})["value"]


def test_a_hint_is_resolved_without_its_metadata() -> None:
    def take() -> None: ...

    assert isinstance(take, FunctionType)
    assert resolved_hint(take, Annotated[list[Annotated[int, 1]], 2], "value") == list[int]
