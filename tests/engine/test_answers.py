"""What can be asked for, the JSON in a reply, and the form of an answer in the history."""

from __future__ import annotations

import dataclasses
import datetime
import json
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from alpineagents.engine.answers import AnswerType, Unfit, json_in, recorded_form
from alpineagents.values.frozen import FrozenDict, FrozenList

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@dataclasses.dataclass
class Label:
    city: str
    weight: float = 1.0


class Parcel(pydantic.BaseModel):
    number: int
    sent: datetime.date | None = None


class Size(Enum):
    SMALL = "S"
    LARGE = "L"


class Address(TypedDict):
    street: str


@dataclasses.dataclass
class Route:
    day: datetime.date
    stops: set[str]


# Finding the JSON


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('\n  {"a": 1}\n', '{"a": 1}'),
        ("42", "42"),
        ('"Oslo"', '"Oslo"'),
        ('```json\n{"a": 1}\n```', '{"a": 1}'),
        ("```\n42\n```", "42"),
        ("```42```", "42"),
        ("```json 42```", "42"),
        ('~~~json\n{"a": 1}\n~~~', '{"a": 1}'),
        ("````\n[1]\n````", "[1]"),
        ('```json title="x"\n[1]\n```', "[1]"),
        ("```json\r\n42\r\n```", "42"),
        ("Here it is: ```json\n42\n``` That is all.", "42"),
        ("Here it is:\n\n```json\n42\n```\nThat is all.", "42"),
        ("> ```json\n> [1]\n> ```", "[1]"),
        ("```json\n42", "42"),
        ('The label: {"a": 1}. Done.', '{"a": 1}'),
        ("Weights [1, 2] in kg", "[1, 2]"),
        ('See [the note]: {"a": [1]}', '{"a": [1]}'),
        ('It is {"a": "}"} here', '{"a": "}"}'),
        ('It is {"a": "\\"}{["} here', '{"a": "\\"}{["}'),
        ("first [1] then [2]", "[1]"),
        ('```\n# a comment\n{"a": 2}\n```\n{"b": 1}', '{"a": 2}'),
        ('{"b": 1}\n```\nno JSON\n```', '{"b": 1}'),
        ("[0]\n```\n[1]\n```", "[1]"),
        ("```python\nx = (1,)\n```\n```json\n[2]\n```", "[2]"),
        ('```json\n{"a": 1\n```\n{"b": 1}', '{"b": 1}'),
    ],
)
def test_the_first_json_is_found(text: str, found: str) -> None:
    assert json_in(text) == found


@pytest.mark.parametrize("text", ["dunno", "", "{a: 1}", '{"a": 1', "[1, 2", "```\nnothing\n```", "NaN", "[Infinity]"])
def test_what_is_no_json_is_not_found(text: str) -> None:
    assert json_in(text) is None


FENCED = {"code": "```python\nprint('{')\n```", "more": ["```", "~~~json\n[1]\n~~~"]}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    "around", ["{}", "```json\n{}\n```", "```\n{}\n```", "Sure:\n```json\n{}\n```\nok", "Sure: {} ok"]
)
def test_json_with_fences_in_its_strings_is_read_whole(around: str, indent: int | None) -> None:
    text = json.dumps(FENCED, indent=indent)
    assert json_in(around.replace("{}", text)) == text


@given(VALUES)
def test_any_json_is_found_alone_and_in_a_fence(value: Any) -> None:
    text = json.dumps(value)
    assert json_in(text) == text
    assert json_in(f"```json\n{text}\n```") == text
    assert json_in(f"I say:\n```\n{text}\n```\nand no more") == text


@given(st.dictionaries(st.text(), VALUES) | st.lists(VALUES))
def test_an_object_or_array_is_found_in_prose(value: Any) -> None:
    text = json.dumps(value)
    assert json_in(f"This is it: {text} (I think)") == text


@given(st.text(alphabet='[]{}"\\`~ \n:,1a'))
def test_what_is_found_is_json(text: str) -> None:
    found = json_in(text)
    if found is not None:
        json.loads(found)


@pytest.mark.parametrize("part", ["[", '{"a":', "[[1],", "`", "~", "```a ", "\n```"])
def test_a_hostile_reply_is_read_in_no_time(part: str) -> None:
    assert json_in(part * 50_000) is None


# Types


@pytest.mark.parametrize(
    ("returns", "text", "answer"),
    [
        (str, "  Oslo\n", "Oslo"),
        (str, '"Oslo"', '"Oslo"'),
        (Label, '{"city": "Oslo"}', Label("Oslo")),
        (Parcel, '{"number": 7, "sent": "2026-01-02"}', Parcel(number=7, sent=datetime.date(2026, 1, 2))),
        (int, "42", 42),
        (bool, "true", True),
        (list[str], '["a", "b"]', ["a", "b"]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Literal["keep", "drop"], '"keep"', "keep"),
        (int | None, "null", None),
        (str | int, '"a"', "a"),
        (Address, '{"street": "Main St"}', {"street": "Main St"}),
        (Size, '"S"', Size.SMALL),
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (list[Label], '[{"city": "Oslo", "weight": 2}]', [Label("Oslo", 2.0)]),
        (datetime.date, '"2026-01-02"', datetime.date(2026, 1, 2)),
        (Any, '{"a": [1]}', {"a": [1]}),
    ],
)
def test_an_answer_is_read_as_its_type(returns: Any, text: str, answer: Any) -> None:
    read = AnswerType(returns).read(text)
    assert read == answer
    assert type(read) is type(answer)


def test_an_answer_is_validated_as_json_not_as_python() -> None:
    class Strict(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(strict=True)
        day: datetime.date

    assert AnswerType(Strict).read('{"day": "2026-01-02"}').day == datetime.date(2026, 1, 2)


@pytest.mark.parametrize(
    "returns",
    [None, "str", b"x", 3, 2.5, True, object(), [str], print, lambda: 1, Label("Oslo"), type("Plain", (), {}), "Label"],
)
def test_what_has_no_schema_is_a_type_error(returns: Any) -> None:
    with pytest.raises(TypeError, match="cannot return"):
        AnswerType(returns)


def test_a_str_is_asked_for_with_the_prompt_alone() -> None:
    assert AnswerType(str).question("Which city?") == "Which city?"


def test_another_type_is_asked_for_with_its_schema_behind_the_prompt() -> None:
    question = AnswerType(Label).question("Which city?")
    prompt, words, schema = question.split("\n", 2)[0], question.split("\n")[2], question.split("\n", 3)[3]
    assert prompt == "Which city?"
    assert question.startswith("Which city?\n\n")
    assert "one JSON value" in words
    assert json.loads(schema) == pydantic.TypeAdapter(Label).json_schema()


def test_the_schema_keeps_its_letters() -> None:
    assert "Größe" in AnswerType(Literal["Größe", "Maß"]).question("Which?")


def test_a_default_without_a_json_form_is_left_out_without_a_warning() -> None:
    class Odd(pydantic.BaseModel):
        mark: Any = object()

    assert AnswerType(Odd).question("Which?")


# Answers that do not fit


@pytest.mark.parametrize("returns", [str, int, Label])
@pytest.mark.parametrize("text", ["", "  \n"])
def test_a_blank_reply_does_not_fit(returns: Any, text: str) -> None:
    with pytest.raises(Unfit, match="empty"):
        AnswerType(returns).read(text)


def test_a_reply_without_json_does_not_fit() -> None:
    with pytest.raises(Unfit, match="no JSON"):
        AnswerType(Label).read("dunno")


def test_every_place_and_problem_is_named_on_one_line_without_links() -> None:
    with pytest.raises(Unfit) as unfit:
        AnswerType(list[Label]).read('[{"city": 3, "weight": "heavy"}, {}]')
    reason = str(unfit.value)
    for part in ("0.city: ", "valid string", "0.weight: ", "valid number", "1.city: ", "required"):
        assert part in reason
    assert "http" not in reason
    assert "\n" not in reason
    assert isinstance(unfit.value.__cause__, pydantic.ValidationError)


def test_a_problem_with_the_whole_value_has_a_place_too() -> None:
    with pytest.raises(Unfit, match=r"answer: .*valid integer"):
        AnswerType(int).read('"many"')


def test_the_reason_stays_short() -> None:
    choices = Literal[tuple(f"choice {number}" for number in range(1000))]  # type: ignore[valid-type]
    with pytest.raises(Unfit) as unfit:
        AnswerType(list[choices]).read(json.dumps(["none"] * 1000))
    assert len(str(unfit.value)) < 8000
    assert str(unfit.value).endswith("and 980 more")


def test_text_that_is_not_unicode_does_not_fit() -> None:
    with pytest.raises(Unfit):
        AnswerType(list[str]).read('["\ud800"]')


def test_what_a_validator_raises_besides_value_errors_passes() -> None:
    class Picky(pydantic.BaseModel):
        number: int

        @pydantic.field_validator("number")
        @classmethod
        def check(cls, number: int) -> int:
            raise KeyError(number)

    with pytest.raises(KeyError):
        AnswerType(Picky).read('{"number": 7}')


# In the history


@pytest.mark.parametrize(
    ("answer", "returns", "form"),
    [
        ("Oslo", str, "Oslo"),
        (None, int | None, None),
        (Label("Oslo", 2), Label, {"city": "Oslo", "weight": 2}),
        (Parcel(number=7), Parcel, {"number": 7, "sent": None}),
        ([Label("Oslo")], list[Label], [{"city": "Oslo", "weight": 1.0}]),
        (datetime.date(2026, 1, 2), datetime.date, "2026-01-02"),
        ({"a"}, set[str], ["a"]),
        (Route(datetime.date(2026, 1, 2), {"a"}), Route, {"day": "2026-01-02", "stops": ["a"]}),
        ((1, "a"), tuple[int, str], [1, "a"]),
        ({1: "a"}, dict[int, str], {"1": "a"}),
        (Decimal("1.50"), Decimal, "1.50"),
        (Size.SMALL, Size, "S"),
    ],
)
def test_an_answer_is_kept_as_json_that_gives_it_again(answer: Any, returns: Any, form: Any) -> None:
    kept = recorded_form(answer, returns)
    assert kept == form
    assert AnswerType(returns).read(json.dumps(kept)) == answer or returns is str


def test_a_choice_that_is_no_json_is_kept_as_its_type_writes_it() -> None:
    assert recorded_form(Size.SMALL, Literal[Size.SMALL]) == "S"


def test_an_answer_is_kept_frozen() -> None:
    assert type(recorded_form(Label("Oslo"), Label)) is FrozenDict
    assert type(recorded_form([datetime.date(2026, 1, 2)], list[datetime.date])) is FrozenList


class Broken:
    def __repr__(self) -> str:
        raise OSError("torn")


class Dumping:
    def model_dump(self, mode: str) -> Any:
        raise ZeroDivisionError

    def __repr__(self) -> str:
        return "Dumping" + "!" * 200


@pytest.mark.parametrize(
    ("answer", "returns", "form"),
    [
        (1j, str, "1j"),
        (Dumping(), str, "Dumping" + "!" * 200),
        (Broken(), str, "(its repr raised OSError)"),
        (float("nan"), float, "nan"),
        (object, Any, "<class 'object'>"),
    ],
)
def test_what_has_no_json_form_is_kept_as_its_repr(answer: Any, returns: Any, form: str) -> None:
    assert recorded_form(answer, returns) == form


@pytest.mark.parametrize(("returns", "shown"), [(str, "str"), (Label, "Label"), (list[str], "list[str]")])
def test_a_type_shows_its_name(returns: Any, shown: str) -> None:
    assert repr(AnswerType(returns)) == shown
