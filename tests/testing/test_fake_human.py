"""The person whose answers are prepared."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import pytest

from alpineagents.human import Human
from alpineagents.testing import FakeHuman


def test_it_is_a_human() -> None:
    assert isinstance(FakeHuman([]), Human)


@pytest.mark.parametrize(
    ("answers", "returns", "value"),
    [
        (["  Oslo "], str, "Oslo"),
        (["", " ", "quit"], str, "quit"),
        (["YES"], bool, True),
        (["0"], bool, False),
        ([True], bool, True),
        (["maybe", "yes"], bool, True),
        (["keep"], Literal["keep", "drop"], "keep"),
        (["2"], Literal[1, 2], 2),
        (["Keep", "drop"], Literal["keep", "drop"], "drop"),
    ],
)
def test_the_next_answer_that_fits_is_given(
    answers: list[Any], returns: Any, value: Any, act: Callable[..., Any]
) -> None:
    answer = act(FakeHuman(answers), "ask", None, "Which?", returns)
    assert answer == value
    assert type(answer) is type(value)


def test_answers_that_do_not_fit_are_used_up() -> None:
    human = FakeHuman(["maybe", "yes", "no"])
    human.ask(None, "Go on?", bool)
    assert human.remaining == 1


def test_a_question_is_noted_once() -> None:
    human = FakeHuman(["maybe", "yes", "Oslo"])
    human.ask(None, "Go on?", bool)
    human.ask(None, "Where?")
    assert human.questions == ["Go on?", "Where?"]


def test_the_answers_may_come_from_any_iterable_and_are_read_at_construction() -> None:
    answers = iter(["a", "b"])
    human = FakeHuman(answers)
    assert list(answers) == []
    assert human.remaining == 2


@pytest.mark.parametrize("answers", ["yes", 3])
def test_what_is_no_list_of_answers_is_refused(answers: Any) -> None:
    with pytest.raises(TypeError, match="FakeHuman takes"):
        FakeHuman(answers)


@pytest.mark.parametrize("answers", [[], ["maybe", "perhaps"]])
def test_without_a_fitting_answer_the_error_shows_the_question(answers: list[str]) -> None:
    human = FakeHuman(answers)
    with pytest.raises(RuntimeError, match=r"Delete it\?"):
        human.ask(None, "Delete it?", bool)
    assert human.questions == ["Delete it?"]
    assert human.remaining == 0


def test_a_kind_of_answer_nobody_can_give_uses_nothing() -> None:
    human = FakeHuman(["3"])
    with pytest.raises(TypeError):
        human.ask(None, "How many?", int)
    assert human.remaining == 1


def test_concurrent_questions_get_distinct_answers() -> None:
    human = FakeHuman([part for number in range(100) for part in ("", str(number))])
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: human.ask(None, str(number)), range(100)))
    assert sorted(answers, key=int) == [str(number) for number in range(100)]
    assert len(human.questions) == 100


def test_a_question_has_its_turn_until_it_is_answered() -> None:
    held: list[bool] = []

    class Watching:
        def __str__(self) -> str:
            held.append(human._turn.locked())
            return "yes"

    human = FakeHuman([Watching()])
    human.ask(None, "Go on?")
    assert held
    assert all(held)
    assert not human._turn.locked()
