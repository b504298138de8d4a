"""A person at a terminal: sees what runs do, and is asked.

What it shows is worded in `text`; how threads share the screen is in `screen`.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO
from weakref import WeakKeyDictionary

from alpineagents.errors import explain
from alpineagents.history.entries import ContextChange, RunStartEntry
from alpineagents.human import Human, describe_choices, parse_answer
from alpineagents.reporter import Reporter
from alpineagents.state import State
from alpineagents.terminal.colours import Line
from alpineagents.terminal.questions import Question, Questions, given_up
from alpineagents.terminal.screen import Screen
from alpineagents.terminal.text import RunLines, shown
from alpineagents.values.content import ToolCall, ToolResultContent
from alpineagents.values.exchange import ModelEvent, Reply
from alpineagents.values.outcomes import ToolOutcome


class Terminal(Reporter, Human):
    """Shows runs line by line, and asks the person who sees them. One may serve many runs in many threads.

    Control characters in what a model or a tool said are shown as escapes, and so are characters the output cannot
    encode. Questions of several threads wait for each other; the lines of runs never wait for an answer, and the
    question of a run that failed makes way for the next. Only a real terminal gets colours, unless `NO_COLOR` is set.

    Args:
        output: Where everything is written. `None` is `sys.stdout` as it is at each write; if that was closed, what is
            written is lost and the run goes on.
        input: Shows a question and returns the typed line, like the built-in `input`. `None` writes the question to
            `output` and reads a line from standard input.
        show_text: Whether the text of top-level runs is shown while it arrives. May be changed between runs.
    Raises:
        TypeError: `output` cannot be written to, or `input` cannot be called.
    """

    def __init__(
        self, *, output: TextIO | None = None, input: Callable[[str], str] | None = None, show_text: bool = True
    ) -> None:
        _check_streams(output, input)
        self.show_text = show_text
        self._screen = Screen(output)
        self._input = input
        self._questions = Questions()
        self._lock = threading.RLock()
        self._runs: dict[str, RunLines] = {}  # by State id, while they run
        self._changes: WeakKeyDictionary[State, list[ContextChange]] = WeakKeyDictionary()  # not shown yet

    def on_run_start(self, state: State) -> None:
        """Line of a subagent: `clerk started`."""
        start = _latest_run_start(state)
        with self._lock:
            run = self._runs[state.id] = RunLines() if start is None else self._lines_below(start)
        if run.depth:
            self._screen.write_lines(run.started())

    def on_think_start(self, state: State) -> None:
        """Line: `[turn 3] thinking`, and below it what happened to the context since the last one."""
        run = self._lines_of(state)
        self._screen.write_lines(run.thinking(state.turn), *self._context_lines(state, run))

    def on_text(self, state: State, chunk: str) -> None:
        """The text itself, unless it is a subagent's."""
        if self.show_text and not self._lines_of(state).depth:
            self._screen.write_text(state.id, chunk)

    def on_model_event(self, state: State, event: ModelEvent) -> None:
        """Line: `model: retrying in 2s`."""
        self._screen.write_lines(self._lines_of(state).model_event(event))

    def on_think_end(self, state: State, reply: Reply) -> None:
        """Ends the line of the text."""
        self._screen.end_text(state.id)

    def on_tool_start(self, state: State, call: ToolCall) -> None:
        """Line: `tool read_file(path="main.py")`."""
        self._screen.write_lines(self._lines_of(state).tool_started(call))

    def on_tool_end(self, state: State, call: ToolCall, result: ToolResultContent, outcome: ToolOutcome) -> None:
        """Line: `done 1.2KB`, or how else the call ended."""
        self._screen.write_lines(self._lines_of(state).tool_ended(call, result, outcome))

    def on_context_change(self, state: State, change: ContextChange) -> None:
        """Kept for the next header: the change belongs to the turn it makes room for."""
        with self._lock:
            self._changes.setdefault(state, []).append(change)

    def on_run_end(self, state: State, error: BaseException | None) -> None:
        """Line: `done: stopped by waiting_for_user (2 turns)`."""
        run = self._lines_of(state)
        if error is not None:
            self._questions.give_up(state.id)
        with self._lock:
            self._runs.pop(state.id, None)
        self._screen.write_lines(*self._context_lines(state, run), run.ended(state.snapshot(), error))

    def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
        """The person's answer; the question is repeated until it fits.

        Raises:
            TypeError: `returns` is not `str`, `bool` or `Literal[...]`.
            EOFError: There is nothing to read.
        """
        choices = describe_choices(returns)
        indent = self._question_indent(state)
        question = shown(f"{indent}{prompt} " if choices is None else f"{indent}{prompt} ({choices}) ")
        with self._questions.asked(state.id) as asked:
            while True:
                answer = self._answer(asked, question)
                try:
                    return parse_answer(answer, returns)
                except ValueError as misfit:
                    if asked.given_up:
                        raise given_up() from misfit
                    self._screen.write_lines(Line(f"{indent}{misfit}"))

    def _answer(self, asked: Question, question: str) -> str:
        line, enter_shown = object(), False
        try:
            self._screen.open_question(line, question if self._input is None else "")
            answer = self._questions.read_line(asked) if self._input is None else self._input(question)
            if asked.replaced:
                raise given_up()
            enter_shown = _is_terminal(sys.stdin) and _is_terminal(self._screen.stream)
            return answer
        finally:
            if not asked.replaced:
                self._screen.close_question(line, enter_shown=enter_shown)

    def _context_lines(self, state: State, run: RunLines) -> list[Line]:
        with self._lock:
            changes = self._changes.pop(state, [])
        return [run.context_change(change) for change in changes]

    def _lines_below(self, start: RunStartEntry) -> RunLines:
        """The lines of the run that starts with this entry, one level below the run that started it."""
        if start.parent_id is None:
            return RunLines()
        above = self._runs.get(start.parent_id, RunLines())
        return RunLines(above.depth + 1, start.content.name or "")

    def _lines_of(self, state: State) -> RunLines:
        """The lines of a State's run. Without a run of its own, a fork of a running subagent looks like that one."""
        with self._lock:
            run = self._runs.get(state.id)
            if run is not None or state.parent_id is None:
                return run or RunLines()
            start = _latest_run_start(state)
            return RunLines() if start is None or start.parent_id not in self._runs else self._lines_below(start)

    def _question_indent(self, state: State) -> str:
        """A Terminal that only asks heard of no run: it knows from the history that a State is a subagent's."""
        run = self._lines_of(state)
        if run.depth or state.parent_id is None:
            return run.indent
        start = _latest_run_start(state)
        return "" if start is None else self._lines_below(start).indent


@functools.cache
def _shared() -> Terminal:
    return Terminal()


_making = threading.Lock()


def default_terminal() -> Terminal:
    """The one Terminal of Agents that were given no `reporter` or `human`."""
    with _making:
        return _shared()


def _latest_run_start(state: State) -> RunStartEntry | None:
    return next((entry for entry in reversed(state.history) if isinstance(entry, RunStartEntry)), None)


def _is_terminal(stream: TextIO | None) -> bool:
    isatty = getattr(stream, "isatty", None)  # a program may have put anything with a `write` there
    try:
        return isatty is not None and isatty()
    except ValueError:  # it was closed
        return False


def _check_streams(output: object, input: object) -> None:
    if output is not None and not callable(getattr(output, "write", None)):
        raise TypeError(
            explain(
                f"Terminal writes to a text stream, not to {output!r}",
                "give an open one",
                "Terminal(output=sys.stderr)",
            )
        )
    if input is not None and not callable(input):
        raise TypeError(
            explain(
                f"Terminal(input=) takes a function, not {input!r}",
                "give one that shows the question and returns the answer",
                "Terminal(input=lambda question: 'yes')",
            )
        )
