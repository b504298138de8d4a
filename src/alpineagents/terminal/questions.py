"""Questions at one terminal, one at a time, and the lines that answer them.

Waiting for a line cannot be called off: the thread that waits goes on until somebody presses Enter. So when a run ends
while its question is open, the question is given up, and the next one takes over the wait. What is typed then answers
the question that is on the screen, never one that has scrolled away with its run.
"""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TextIO


class _Wait:
    """A thread's wait for a line."""

    def __init__(self) -> None:
        self.over = False
        self.line: str | None = None  # `None` at the end of the input


class Question:
    """A question that is asked.

    Attributes:
        wait: The wait of another thread, left over from a question that was given up.
        given_up: Whether nobody is interested in the answer any more.
        replaced: Whether another question has come in its place.
    """

    def __init__(self, state_id: str, outer: Question | None, wait: _Wait | None) -> None:
        self.state_id = state_id
        self.thread = threading.get_ident()
        self.outer = outer  # who answers that one asks this one
        self.wait = wait
        self.given_up = False
        self.replaced = False


class Questions:
    """The questions of one terminal, each asked when the one before is answered or given up."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open: Question | None = None
        self._wait: _Wait | None = None  # the one going on

    @contextmanager
    def asked(self, state_id: str) -> Generator[Question]:
        """Wait in line, and ask."""
        question: Question | None = None
        try:
            with self._changed:
                self._changed.wait_for(self._is_my_turn)
                question = self._open = self._next(state_id)
            yield question
        finally:
            with self._changed:
                if question is not None and self._open is question:
                    self._open = question.outer
                self._changed.notify_all()

    def give_up(self, state_id: str) -> None:
        """The run of this State is over."""
        with self._changed:
            if self._open is not None and self._open.state_id == state_id:
                self._open.given_up = True
                self._changed.notify_all()

    def read_line(self, question: Question) -> str:
        """The line that answers the question, unless it was replaced meanwhile.

        Raises:
            EOFError: There is none.
        """
        wait, question.wait = question.wait, None
        if wait is None:
            return self._read(question)
        with self._changed:
            self._changed.wait_for(lambda: wait.over)
        if wait.line is None:
            raise EOFError("standard input has ended")
        return wait.line

    def _is_my_turn(self) -> bool:
        return self._open is None or self._open.given_up or self._open.thread == threading.get_ident()

    def _next(self, state_id: str) -> Question:
        before = self._open
        if before is not None and before.given_up:
            before.replaced, before = True, None
        return Question(state_id, before, self._wait)

    def _read(self, question: Question) -> str:
        wait = _Wait()
        try:
            with self._changed:
                if question.replaced:
                    raise given_up()
                self._wait = wait
            wait.line = _read_line()
            return wait.line
        finally:
            with self._changed:
                wait.over = True
                if self._wait is wait:
                    self._wait = None
                self._changed.notify_all()


def given_up() -> EOFError:
    """What ends a question without an answer."""
    return EOFError("the run ended before the question was answered")


def _read_line() -> str:
    # The reference matters: a question can be abandoned on its thread, and Python aborts at exit when it frees a
    # standard input that a thread still reads (`_enter_buffered_busy` in CPython's Modules/_io/bufferedio.c).
    stdin = sys.stdin
    try:
        return _reader(stdin)()
    finally:
        del stdin


def _reader(stdin: TextIO | None) -> Callable[[], str]:
    if stdin is None:
        raise EOFError("there is no standard input to read an answer from")
    if sys.stdout is None or sys.stderr is None:  # a program without a console, with which `input` refuses to read
        return lambda: _line_of(stdin)
    return builtins.input


def _line_of(stdin: TextIO) -> str:
    line = stdin.readline()
    if not line:
        raise EOFError("standard input has ended")
    return line.removesuffix("\n")
