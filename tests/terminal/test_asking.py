"""Questions: what is shown, what is typed, and what goes on meanwhile."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from seen import REPLY, SEAL, Seen, Tty, child, closed, run_start, top

from alpineagents.state import State
from alpineagents.terminal import Terminal


class Typed:
    """An `input` that remembers what it was asked."""

    def __init__(self, *answers: str) -> None:
        self.questions: list[str] = []
        self.answers = list(answers)

    def __call__(self, question: str) -> str:
        self.questions.append(question)
        return self.answers.pop(0)


@pytest.mark.parametrize(
    ("returns", "typed", "question", "answer"),
    [
        (str, " Ada ", "Go? ", "Ada"),
        (bool, "y", "Go? (yes/no) ", True),
        (Literal[1, 2], "2", "Go? (1/2) ", 2),
    ],
)
def test_a_question_shows_its_choices(returns: Any, typed: str, question: str, answer: Any) -> None:
    person = Typed(typed)
    assert Seen(input=person).terminal.ask(top(), "Go?", returns) == answer
    assert person.questions == [question]


def test_an_unsupported_answer_type_is_refused_before_the_question() -> None:
    person = Typed("1")
    with pytest.raises(TypeError, match="int"):
        Seen(input=person).terminal.ask(top(), "How many?", int)
    assert not person.questions


def test_an_input_function_shows_the_question_itself() -> None:
    seen = Seen(input=Typed("yes"))
    seen.terminal.ask(top(), "Go?", bool)
    assert seen.text == "\n"


def test_a_misfit_gets_a_hint_and_the_question_again() -> None:
    person = Typed("maybe", "perhaps", "yes")
    seen = Seen(input=person)
    assert seen.terminal.ask(top(), "Go?", bool) is True
    assert person.questions == ["Go? (yes/no) "] * 3
    assert seen.text.split("\n") == ["", "Answer 'yes' or 'no'", "", "Answer 'yes' or 'no'", "", ""]


def standard_input(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_without_an_input_function_question_and_hint_go_to_the_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seen: Seen
) -> None:
    standard_input(monkeypatch, "maybe\nyes\n")
    assert seen.terminal.ask(top(), "Go?", bool) is True
    assert seen.text == "Go? (yes/no) \nAnswer 'yes' or 'no'\nGo? (yes/no) \n"
    assert capsys.readouterr().out == ""


def test_a_question_ends_the_text_before_it(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    standard_input(monkeypatch, "Ada\n")
    seen.terminal.on_text(top(), "Hel")
    seen.terminal.ask(top(), "Who?")
    assert seen.text == "Hel\nWho? \n"


def test_a_subagents_question_and_hint_are_indented(monkeypatch: pytest.MonkeyPatch, below: Seen) -> None:
    standard_input(monkeypatch, "\nAda\n")
    below.terminal.ask(child(), "Who?")
    hint = "Empty answers are not accepted. Please type something"
    assert below.text == f"    Who? \n    {hint}\n    Who? \n"


def test_a_terminal_that_only_asks_indents_a_subagents_question_too() -> None:
    person = Typed("Ada", "Ada")
    terminal = Seen(input=person).terminal
    terminal.ask(child(), "Who?")
    terminal.ask(child(1, run_start("clerk")), "Who?")
    assert person.questions == ["    Who? ", "Who? "]


@pytest.mark.parametrize("own_input", [True, False])
def test_a_question_has_no_control_characters(monkeypatch: pytest.MonkeyPatch, own_input: bool) -> None:
    standard_input(monkeypatch, "yes\n")
    person = Typed("yes")
    seen = Seen(input=person if own_input else None)
    seen.terminal.ask(top(), "Run \x1b[2J?", bool)
    assert "".join([*person.questions, seen.text]).rstrip("\n") == r"Run \x1b[2J? (yes/no) "


@pytest.mark.parametrize("error", [EOFError, KeyboardInterrupt])
def test_what_ends_a_question_passes_and_leaves_a_fresh_line(
    monkeypatch: pytest.MonkeyPatch, seen: Seen, error: type[BaseException]
) -> None:
    def end() -> str:
        raise error

    monkeypatch.setattr("builtins.input", end)
    with pytest.raises(error):
        seen.terminal.ask(top(), "Go?", bool)
    seen.terminal.on_run_end(top(), None)
    assert seen.text == "Go? (yes/no) \ndone: (1 turn)\n"


def test_the_end_of_standard_input_is_an_eof_error(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    standard_input(monkeypatch, "")
    with pytest.raises(EOFError):
        seen.terminal.ask(top(), "Go?", bool)


def test_the_enter_a_person_typed_ends_the_text_that_stood_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(question: str) -> str:
        terminal.on_text(top(), "Hel")
        return "yes"

    monkeypatch.setattr(sys, "stdin", Tty())
    output = Tty()
    terminal = Terminal(output=output, input=answer)
    terminal.ask(State(), "Go?", bool)
    terminal.on_tool_start(top(), SEAL)
    assert output.getvalue() == "\nHel  tool seal()\n"  # what the terminal itself echoed is not in here


class Tee:
    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None: ...


@pytest.mark.parametrize("stdin", [None, closed(), Tee()])
def test_an_input_function_needs_no_standard_input(monkeypatch: pytest.MonkeyPatch, stdin: Any) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    assert Terminal(output=Tty(), input=Typed("yes")).ask(top(), "Go?", bool) is True


def test_an_output_needs_only_write_and_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Tty("yes\n"))
    output: Any = Tee()
    assert Terminal(output=output).ask(top(), "Go?", bool) is True
    assert output.text == "Go? (yes/no) \n"


def test_who_answers_may_ask_the_same_terminal() -> None:
    def ask_back(question: str) -> str:
        return "yes" if question.startswith("Sure") else str(terminal.ask(top(), "Sure?", bool))

    terminal = Seen(input=ask_back).terminal
    assert terminal.ask(top(), "Go?", bool) is True


class OpenQuestion:
    """An `input` whose person thinks until `answer` is called."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.answered = threading.Event()

    def __call__(self, question: str = "") -> str:
        self.asked.set()
        assert self.answered.wait(20)
        return "yes"


@contextmanager
def thinking(terminal: Terminal, person: OpenQuestion) -> Iterator[None]:
    """A question is open on another thread meanwhile, and answered at the end."""
    thread = threading.Thread(target=terminal.ask, args=(State(), "Go?", bool))
    thread.start()
    assert person.asked.wait(20)
    yield
    person.answered.set()
    thread.join(20)
    assert not thread.is_alive()


def test_an_open_question_holds_up_no_run(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    person = OpenQuestion()
    monkeypatch.setattr("builtins.input", person)
    with thinking(seen.terminal, person):
        seen.terminal.on_tool_start(top(), SEAL)
        seen.terminal.on_run_end(top(), None)
    assert seen.text == "Go? (yes/no) \n  tool seal()\ndone: (1 turn)\n"


def test_text_does_not_continue_the_line_of_a_question(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    person = OpenQuestion()
    monkeypatch.setattr("builtins.input", person)
    with thinking(seen.terminal, person):
        seen.terminal.on_text(top(), "Hel")
    seen.terminal.on_text(top(), "lo")
    assert seen.text == "Go? (yes/no) \nHello"


def test_the_end_of_a_reply_leaves_the_line_of_a_question_alone(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    person = OpenQuestion()
    monkeypatch.setattr("builtins.input", person)
    with thinking(seen.terminal, person):
        seen.terminal.on_think_end(top(), REPLY)
        assert seen.text == "Go? (yes/no) "


def test_a_second_question_waits_for_the_answer_to_the_first(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    person = OpenQuestion()
    monkeypatch.setattr("builtins.input", person)
    second = threading.Thread(target=seen.terminal.ask, args=(State(), "Sure?", bool))
    with thinking(seen.terminal, person):
        second.start()
        second.join(0.05)
        assert seen.text == "Go? (yes/no) "
    second.join(20)
    assert seen.text == "Go? (yes/no) \nSure? (yes/no) \n"


def test_an_async_question_does_not_stop_the_event_loop() -> None:
    person = OpenQuestion()
    terminal = Seen(input=person).terminal

    async def asking() -> Any:
        question = asyncio.create_task(terminal.aask(State(), "Go?", bool))
        asyncio.get_running_loop().call_soon(person.answered.set)
        return await question

    assert asyncio.run(asking()) is True
