"""Questions whose run is over, and the wait for a line that they leave to the next question."""

from __future__ import annotations

import io
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from screens import played, visible
from seen import Seen, closed, top

from alpineagents.state import State
from alpineagents.terminal import Terminal
from alpineagents.terminal.questions import Questions

SECONDS = 20


class Keyboard:
    """An `input` whose lines are typed by the test; an exception is raised."""

    def __init__(self) -> None:
        self.waits = threading.Semaphore(0)  # one for each thread that began to wait for a line
        self.typed: queue.Queue[str | BaseException] = queue.Queue()

    def __call__(self, question: str = "") -> str:
        self.waits.release()
        line = self.typed.get(timeout=SECONDS)
        if isinstance(line, BaseException):
            raise line
        return line


class Asked:
    """A question on a thread of its own."""

    def __init__(self, terminal: Terminal, state: State, prompt: str) -> None:
        self.answer: Any = None
        self._terminal, self._state, self._prompt = terminal, state, prompt
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        try:
            self.answer = self._terminal.ask(self._state, self._prompt, bool)
        except EOFError as error:
            self.answer = str(error)

    def wait(self, seconds: float = SECONDS) -> Any:
        self._thread.join(seconds)
        return None if self._thread.is_alive() else self.answer


GIVEN_UP = "the run ended before the question was answered"


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Keyboard:
    keyboard = Keyboard()
    monkeypatch.setattr("builtins.input", keyboard)
    return keyboard


@pytest.fixture
def first(seen: Seen, keyboard: Keyboard) -> Iterator[Asked]:
    """The question `One?`, open."""
    asked = Asked(seen.terminal, top(), "One?")
    assert keyboard.waits.acquire(timeout=SECONDS)
    yield asked
    assert asked.wait() is not None


class Watched(io.StringIO):
    """An output that a thread can wait at."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Condition()

    def write(self, text: str) -> int:
        with self.changed:
            self.changed.notify_all()
            return super().write(text)


@pytest.fixture
def seen() -> Seen:
    seen = Seen()
    seen.output = Watched()
    seen.terminal = Terminal(output=seen.output)
    return seen


class Answering(Watched):
    """Does something once a text has been written."""

    def __init__(self, before: io.StringIO, cue: str, act: Callable[[], object]) -> None:
        super().__init__()
        super().write(before.getvalue())
        self._cue, self._act = cue, act

    def write(self, text: str) -> int:
        written = super().write(text)
        if self._cue in text:
            self._act()
        return written


def interrupt() -> None:
    raise KeyboardInterrupt


def until_shown(seen: Seen, text: str) -> None:
    assert isinstance(seen.output, Watched)
    with seen.output.changed:
        assert seen.output.changed.wait_for(lambda: text in seen.text, SECONDS), seen.text


def test_what_is_typed_answers_the_question_on_the_screen_and_not_that_of_a_run_that_is_over(
    seen: Seen, keyboard: Keyboard, first: Asked
) -> None:
    seen.terminal.on_run_end(top(), KeyboardInterrupt())
    second = Asked(seen.terminal, State(), "Two?")
    until_shown(seen, "Two? (yes/no) ")
    keyboard.typed.put("yes")
    assert (first.wait(), second.wait()) == (GIVEN_UP, True)
    assert seen.text == "One? (yes/no) \ndone: interrupted by user (1 turn)\nTwo? (yes/no) \n"


def test_a_question_that_was_taken_over_goes_on_by_itself(seen: Seen, keyboard: Keyboard, first: Asked) -> None:
    seen.terminal.on_run_end(top(), KeyboardInterrupt())
    second = Asked(seen.terminal, State(), "Two?")
    until_shown(seen, "Two? (yes/no) ")
    for line in ("perhaps", "no"):
        keyboard.typed.put(line)
    assert second.wait() is False
    assert seen.text.endswith("Two? (yes/no) \nAnswer 'yes' or 'no'\nTwo? (yes/no) \n")


def test_a_wait_can_be_taken_over_again_and_again(seen: Seen, keyboard: Keyboard, first: Asked) -> None:
    seen.terminal.on_run_end(top(), KeyboardInterrupt())
    second = Asked(seen.terminal, State(id="second"), "Two?")
    until_shown(seen, "Two? ")
    seen.terminal.on_run_end(State(id="second"), KeyboardInterrupt())
    third = Asked(seen.terminal, State(id="third"), "Three?")
    until_shown(seen, "Three? ")
    keyboard.typed.put("yes")
    assert [asked.wait() for asked in (first, second, third)] == [GIVEN_UP, GIVEN_UP, True]


def test_the_end_of_the_input_reaches_the_question_that_took_over(seen: Seen, keyboard: Keyboard, first: Asked) -> None:
    seen.terminal.on_run_end(top(), KeyboardInterrupt())
    second = Asked(seen.terminal, State(), "Two?")
    until_shown(seen, "Two? ")
    keyboard.typed.put(EOFError("the end"))
    assert (first.wait(), second.wait()) == ("the end", "standard input has ended")


def test_a_question_that_was_given_up_still_gets_its_answer_when_no_other_comes(
    seen: Seen, keyboard: Keyboard, first: Asked
) -> None:
    seen.terminal.on_run_end(top(), KeyboardInterrupt())
    keyboard.typed.put("yes")
    assert first.wait() is True


def test_a_question_that_was_given_up_is_not_repeated(seen: Seen, keyboard: Keyboard, first: Asked) -> None:
    seen.terminal.on_run_end(top(), KeyboardInterrupt())
    keyboard.typed.put("perhaps")
    assert first.wait() == GIVEN_UP
    assert seen.text.count("One?") == 1


def test_a_line_that_comes_right_when_the_next_question_is_shown_answers_it(
    seen: Seen, keyboard: Keyboard, first: Asked
) -> None:
    """Before that question's own thread has begun to wait for it."""
    seen.terminal.on_run_end(top(), KeyboardInterrupt())
    seen.output = Answering(seen.output, "Two?", lambda: (keyboard.typed.put("yes"), first.wait()))  # type: ignore[assignment]
    seen.terminal._screen._output = seen.output
    assert Asked(seen.terminal, State(), "Two?").wait() is True


def test_a_question_that_is_interrupted_leaves_the_wait_it_took_over_to_the_next(
    seen: Seen, keyboard: Keyboard, first: Asked
) -> None:
    seen.terminal.on_run_end(top(), KeyboardInterrupt())
    seen.output = Answering(seen.output, "Two?", interrupt)  # type: ignore[assignment]
    seen.terminal._screen._output = seen.output
    with pytest.raises(KeyboardInterrupt):
        seen.terminal.ask(State(), "Two?", bool)
    third = Asked(seen.terminal, State(), "Three?")
    until_shown(seen, "Three?")
    keyboard.typed.put("yes")
    assert (first.wait(), third.wait()) == (GIVEN_UP, True)


@pytest.mark.parametrize(("state", "error"), [(top(), None), (State(id="other"), KeyboardInterrupt())])
def test_a_question_is_not_given_up_when_nothing_ended_its_run(
    seen: Seen, keyboard: Keyboard, first: Asked, state: State, error: BaseException | None
) -> None:
    seen.terminal.on_run_end(state, error)
    second = Asked(seen.terminal, State(), "Two?")
    assert second.wait(0.05) is None
    assert "Two?" not in seen.text
    keyboard.typed.put("yes")
    keyboard.typed.put("no")
    assert (first.wait(), second.wait()) == (True, False)


def test_an_input_function_shows_the_next_question_and_a_line_for_the_one_before_is_lost() -> None:
    boards = {"One? (yes/no) ": Keyboard(), "Two? (yes/no) ": Keyboard()}
    seen = Seen(input=lambda question: boards[question](question))
    one, two = boards.values()
    first = Asked(seen.terminal, top(), "One?")
    assert one.waits.acquire(timeout=SECONDS)
    seen.terminal.on_run_end(top(), KeyboardInterrupt())
    second = Asked(seen.terminal, State(), "Two?")
    assert two.waits.acquire(timeout=SECONDS)
    one.typed.put("yes")
    two.typed.put("no")
    assert (first.wait(), second.wait()) == (GIVEN_UP, False)


def test_an_interrupt_while_a_question_waits_in_line_leaves_the_line_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    questions = Questions()

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(questions, "_next", interrupted)
        with pytest.raises(KeyboardInterrupt), questions.asked("a"):
            raise AssertionError("never asked")
    with questions.asked("b") as question:
        assert question.outer is None


AGAIN = """
from alpineagents import Agent, Message, State, tool
from alpineagents.testing import FakeModel, tool_call

@tool
def send(parcel: str, state: State) -> str:
    'Send a parcel.'
    return f"{parcel}: {agent.ask_human(state, f'Send {parcel}?', bool)}"

calls = [tool_call("send", parcel="A"), tool_call("send", parcel="B")]
agent = Agent(FakeModel([*calls, "Done."]), tools=[send])
state = State(messages=[Message.user("Send both")])
try:
    agent.run(state)
except KeyboardInterrupt:
    agent.run(state)
print([entry.content for entry in state.history if entry.kind == "tool_result" and not entry.late])
"""


def test_after_ctrl_c_at_a_question_of_a_tool_the_next_question_is_shown_and_answered() -> None:
    written = played(AGAIN, [("Send A? (yes/no) ", "\x03"), ("Send B? (yes/no) ", "yes\n")], environment={"TERM": ""})
    assert visible(written) == (
        "[turn 1] thinking\n"
        '  tool send(parcel="A")\n'
        "Send A? (yes/no) ^C\n"
        "  aborted send: (interrupted by user)\n"
        "done: interrupted by user (1 turn)\n"
        "[turn 2] thinking\n"
        '  tool send(parcel="B")\n'
        "Send B? (yes/no) yes\n"
        "  done 7B\n"
        "[turn 3] thinking\n"
        "Done.\n"
        "done: stopped by waiting_for_user (3 turns)\n"
        "['(interrupted by user)', 'B: True']\n"
    )


@pytest.mark.parametrize("missing", ["stdout", "stderr"])
def test_a_program_without_a_console_can_be_answered(monkeypatch: pytest.MonkeyPatch, seen: Seen, missing: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("perhaps\nyes"))
    monkeypatch.setattr(sys, missing, None)
    assert seen.terminal.ask(top(), "Go?", bool) is True
    with pytest.raises(EOFError):
        seen.terminal.ask(top(), "Go?", bool)


def test_without_a_standard_input_there_is_nothing_to_read(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(EOFError):
        seen.terminal.ask(top(), "Go?", bool)


def test_a_closed_standard_input_is_no_answer_that_does_not_fit(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    monkeypatch.setattr(sys, "stdin", closed())
    with pytest.raises(ValueError, match="closed file"):
        seen.terminal.ask(top(), "Go?", bool)
    assert seen.text == "Go? (yes/no) \n"
