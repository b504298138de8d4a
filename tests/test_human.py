"""Who can be asked, and what counts as an answer."""

from __future__ import annotations

import asyncio
import contextvars
import re
import threading
from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, Literal

import pytest

from alpineagents.human import (
    Human,
    aask_person,
    ask_person,
    can_ask,
    check_human,
    check_returns,
    describe_choices,
    parse_answer,
)
from alpineagents.state import State


class Asked(Human):
    """Answers with the question and the thread it was asked on."""

    def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
        return prompt, threading.current_thread()


class AskedLater(Human):
    async def aask(self, state: State, prompt: str, returns: Any = str) -> Any:
        return prompt, threading.current_thread()


class Duck:
    def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
        return prompt, threading.current_thread()


class DuckLater:
    async def aask(self, state: State, prompt: str, returns: Any = str) -> Any:
        return prompt, threading.current_thread()


class Colour(Enum):
    RED = "red"


def test_a_class_without_ask_and_aask_has_no_objects() -> None:
    class Silent(Human):
        pass

    with pytest.raises(TypeError, match="Silent cannot be asked"):
        Silent()


def test_human_itself_has_no_objects() -> None:
    with pytest.raises(TypeError, match="neither ask nor aask"):
        Human()


def test_an_abstract_class_may_stand_in_between() -> None:
    class Base(Human, ABC):
        def __init__(self, name: str) -> None:
            self.name = name

        @abstractmethod
        def ask(self, state: State, prompt: str, returns: Any = str) -> Any: ...

    class Named(Base):
        def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
            return self.name

    assert Named("Ada").ask(State(), "Who?") == "Ada"


def test_a_class_may_leave_ask_to_its_subclass() -> None:
    class Base(Human):
        pass

    class Answers(Base):
        def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
            return "yes"

    assert Answers().ask(State(), "Go?") == "yes"


def test_ask_of_an_async_human_names_aask_human() -> None:
    with pytest.raises(TypeError, match="aask_human"):
        AskedLater().ask(State(), "Go?")


def test_aask_runs_ask_on_a_worker_thread() -> None:
    prompt, thread = asyncio.run(Asked().aask(State(), "Go?"))
    assert prompt == "Go?"
    assert thread is not threading.current_thread()


def test_the_worker_thread_does_not_keep_the_process_alive() -> None:
    _, thread = asyncio.run(Asked().aask(State(), "Go?"))
    assert thread.daemon


def test_aask_sees_the_context_of_the_caller() -> None:
    place = contextvars.ContextVar("place", default="nowhere")

    class Placed(Human):
        def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
            return place.get()

    async def asking() -> Any:
        place.set("here")
        return await Placed().aask(State(), "Where?")

    assert asyncio.run(asking()) == "here"


def test_a_blocking_question_does_not_stop_the_event_loop() -> None:
    answered = threading.Event()

    class Waiting(Human):
        def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
            return answered.wait(10)

    async def asking() -> Any:
        question = asyncio.create_task(Waiting().aask(State(), "Go?"))
        asyncio.get_running_loop().call_soon(answered.set)
        return await question

    assert asyncio.run(asking()) is True


@pytest.mark.parametrize("human", [Asked(), AskedLater(), Duck(), DuckLater()])
def test_anything_with_ask_or_aask_is_a_human(human: object) -> None:
    check_human(human)


@pytest.mark.parametrize("human", [None, "Ada", object(), print])
def test_anything_else_is_no_human(human: object) -> None:
    with pytest.raises(TypeError, match="cannot be asked"):
        check_human(human)


def test_a_class_is_no_human() -> None:
    with pytest.raises(TypeError, match=r"human=Asked\(\)"):
        check_human(Asked)


@pytest.mark.parametrize(
    ("human", "can"), [(Asked(), True), (AskedLater(), False), (Duck(), True), (DuckLater(), False)]
)
def test_who_can_be_asked_without_an_event_loop(human: object, can: bool) -> None:
    assert can_ask(human) is can


@pytest.mark.parametrize("human", [Asked(), Duck()])
def test_anybody_with_ask_is_asked_on_this_thread(human: object) -> None:
    assert ask_person(human, State(), "Go?", str) == ("Go?", threading.current_thread())


@pytest.mark.parametrize("human", [AskedLater(), DuckLater()])
def test_asking_somebody_with_only_aask_names_aask_human(human: object) -> None:
    with pytest.raises(TypeError, match="aask_human"):
        ask_person(human, State(), "Go?", str)


@pytest.mark.parametrize("human", [AskedLater(), DuckLater()])
def test_anybody_with_aask_is_asked_on_the_event_loop(human: object) -> None:
    assert asyncio.run(aask_person(human, State(), "Go?", str)) == ("Go?", threading.current_thread())


@pytest.mark.parametrize("human", [Asked(), Duck()])
def test_anybody_with_only_ask_is_asked_on_a_worker_thread_by_async_code(human: object) -> None:
    prompt, thread = asyncio.run(aask_person(human, State(), "Go?", str))
    assert prompt == "Go?"
    assert thread is not threading.current_thread()


@pytest.mark.parametrize("returns", [str, bool, Literal["a"], Literal[1, None], Literal[Colour.RED]])
def test_these_can_be_asked_for(returns: Any) -> None:
    check_returns(returns)


UNSUPPORTED = [int, None, "str", Literal, Literal[()], list[str], str | None, Literal["a"] | None]


@pytest.mark.parametrize("returns", UNSUPPORTED)
@pytest.mark.parametrize("use", [check_returns, describe_choices, lambda returns: parse_answer("a", returns)])
def test_nothing_else_can_be_asked_for(use: Any, returns: Any) -> None:
    with pytest.raises(TypeError, match="Literal"):
        use(returns)


@pytest.mark.parametrize(
    ("returns", "choices"),
    [(str, None), (bool, "yes/no"), (Literal["keep", "drop"], "keep/drop"), (Literal[1, None], "1/None")],
)
def test_choices_are_described(returns: Any, choices: str | None) -> None:
    assert describe_choices(returns) == choices


@pytest.mark.parametrize(
    ("answer", "returns", "value"),
    [
        ("  two words \n", str, "two words"),
        (7, str, "7"),
        (True, bool, True),
        (False, bool, False),
        *[(text, bool, True) for text in ("y", "yes", "true", "1", " YES\n", "True")],
        *[(text, bool, False) for text in ("n", "no", "false", "0", "\tNo", "FALSE")],
        (1, bool, True),
        ("b", Literal["a", "b"], "b"),
        (" b ", Literal["a", "b"], "b"),
        (" b ", Literal["b", " b "], " b "),
        ("2", Literal[1, 2], 2),
        (2, Literal[1, 2], 2),
        (True, Literal[1, 2], 1),
        ("2", Literal[2, "2"], "2"),
        ("None", Literal["x", None], None),
        ("Colour.RED", Literal[Colour.RED], Colour.RED),
    ],
)
def test_an_answer_becomes_a_value(answer: Any, returns: Any, value: Any) -> None:
    parsed = parse_answer(answer, returns)
    assert parsed == value
    assert type(parsed) is type(value)


EMPTY, YES_OR_NO = "Empty answers are not accepted. Please type something", "Answer 'yes' or 'no'"


@pytest.mark.parametrize(
    ("answer", "returns", "hint"),
    [
        ("", str, EMPTY),
        (" \t\n", str, EMPTY),
        ("", bool, YES_OR_NO),
        ("maybe", bool, YES_OR_NO),
        (2, bool, YES_OR_NO),
        ("c", Literal["a", "b"], "Answer with one of: a, b"),
        ("A", Literal["a", "b"], "Answer with one of: a, b"),
        ("", Literal[1, None], "Answer with one of: 1, None"),
    ],
)
def test_an_answer_that_does_not_fit_gets_a_hint(answer: Any, returns: Any, hint: str) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(hint)}$"):
        parse_answer(answer, returns)
