"""What a real terminal gets besides the words, and that nobody else gets any of it."""

from __future__ import annotations

import asyncio
import os
import pty
import re
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import pytest
from seen import DONE, SEAL, Seen, Tty, top

from alpineagents.history.entries import ContextChange, StopEntry
from alpineagents.terminal import Terminal
from alpineagents.values.exchange import ModelEvent
from alpineagents.values.outcomes import StoppedByLimit, ToolOutcome, ToolOutcomeKind

COLOUR = re.compile(r"\x1b\[\d*m")
BOLD, FAINT, BAD, GOOD, WARNING, TOOL = "1", "2", "31", "32", "33", "36"
Event = Callable[[Terminal], None]


class AtTerminal:
    """A Terminal that writes to a real one."""

    def __init__(self, ours: int, stream: TextIO) -> None:
        self.terminal = Terminal(output=stream)
        self._ours = ours
        self._stream = stream

    def written(self, event: Event) -> str:
        event(self.terminal)
        self._stream.write("\0")
        self._stream.flush()
        text = b""
        while not text.endswith(b"\0"):
            text += os.read(self._ours, 4096)
        return text[:-1].decode().replace("\r\n", "\n")


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[AtTerminal]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    ours, theirs = pty.openpty()
    with open(theirs, "w", encoding="utf-8") as stream:
        yield AtTerminal(ours, stream)
    os.close(ours)


def ended(kind: ToolOutcomeKind) -> Event:
    return lambda show: show.on_tool_end(top(), SEAL, "no", ToolOutcome(kind))


def stopped(show: Terminal) -> None:
    show.on_run_end(top(1, StopEntry(content=StoppedByLimit(1), turn=1)), None)


def compacted(show: Terminal) -> None:
    show.on_context_change(state := top(), ContextChange("compact", 2, 1))
    show.on_run_end(state, ValueError("no"))


EVENTS: list[tuple[Event, str]] = [
    (lambda show: show.on_think_start(top()), f"\x1b[{BOLD}m[turn 1] thinking\x1b[0m\n"),
    (lambda show: show.on_tool_start(top(), SEAL), f"\x1b[{TOOL}m  tool seal()\x1b[0m\n"),
    (lambda show: show.on_tool_end(top(), SEAL, "no", DONE), f"\x1b[{FAINT}m  done 2B\x1b[0m\n"),
    (ended(ToolOutcomeKind.ERROR), f"\x1b[{BAD}m  error seal: no\x1b[0m\n"),
    (ended(ToolOutcomeKind.INPUT_ERROR), f"\x1b[{BAD}m  no\x1b[0m\n"),
    (ended(ToolOutcomeKind.ABORTED), f"\x1b[{BAD}m  aborted seal: no\x1b[0m\n"),
    (ended(ToolOutcomeKind.DENIED), f"\x1b[{WARNING}m  denied seal: no\x1b[0m\n"),
    (ended(ToolOutcomeKind.CANCELLED), f"\x1b[{WARNING}m  cancelled seal: no\x1b[0m\n"),
    (
        lambda show: show.on_model_event(top(), ModelEvent("retry", "again")),
        f"\x1b[{WARNING}m  model: again\x1b[0m\n",
    ),
    (lambda show: show.on_run_end(top(), None), f"\x1b[{GOOD}mdone: (1 turn)\x1b[0m\n"),
    (stopped, f"\x1b[{WARNING}mdone: reached limit(1), the task may be unfinished (1 turn)\x1b[0m\n"),
    (
        compacted,
        f"\x1b[{FAINT}m  context compacted: 2 → 1 tokens (cache rebuilds)\x1b[0m\n"
        f"\x1b[{BAD}mdone: error ValueError: no (1 turn)\x1b[0m\n",
    ),
]
INTERRUPTED: list[tuple[Event, str]] = [
    (ended(ToolOutcomeKind.INTERRUPTED), f"\r\x1b[{WARNING}m  aborted seal: no\x1b[0m\n"),
    *[
        (
            lambda show, error=error: show.on_run_end(top(), error),  # type: ignore[misc]  # a default is no argument
            f"\r\x1b[{WARNING}mdone: interrupted by user (1 turn)\x1b[0m\n",
        )
        for error in (KeyboardInterrupt(), asyncio.CancelledError())
    ],
]


@pytest.mark.parametrize(("event", "written"), EVENTS)
def test_a_line_has_the_colour_of_what_it_means(at_terminal: AtTerminal, event: Event, written: str) -> None:
    assert at_terminal.written(event) == written


@pytest.mark.parametrize(("event", "written"), INTERRUPTED)
def test_a_line_behind_ctrl_c_covers_what_the_terminal_shows_of_it(
    at_terminal: AtTerminal, event: Event, written: str
) -> None:
    assert at_terminal.written(event) == written


def test_what_the_model_says_has_no_colour(at_terminal: AtTerminal) -> None:
    assert at_terminal.written(lambda show: show.on_text(top(), "Hello")) == "Hello"


def test_each_line_of_several_has_its_colour(at_terminal: AtTerminal) -> None:
    said = at_terminal.written(lambda show: show.on_run_end(top(), ValueError("one\n\ntwo")))
    assert said == f"\x1b[{BAD}mdone: error ValueError: one\x1b[0m\n\n\x1b[{BAD}mtwo (1 turn)\x1b[0m\n"


def test_a_colour_does_not_let_in_those_of_others(at_terminal: AtTerminal) -> None:
    said = at_terminal.written(lambda show: show.on_model_event(top(), ModelEvent("retry", "\x1b[0m\x1b[32mfine")))
    assert COLOUR.sub("", said) == "  model: \\x1b[0m\\x1b[32mfine\n"
    assert len(COLOUR.findall(said)) == 2


def bare(text: str) -> str:
    return COLOUR.sub("", text).lstrip("\r")


@pytest.fixture(params=[("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", ""), ("TERM", None)], ids=str)
def without_colours(request: pytest.FixtureRequest, at_terminal: AtTerminal, monkeypatch: pytest.MonkeyPatch) -> Any:
    name, value = request.param
    monkeypatch.delenv(name, raising=False)
    if value is not None:
        monkeypatch.setenv(name, value)
    return at_terminal


@pytest.mark.parametrize(("event", "written"), [*EVENTS, INTERRUPTED[0]])
def test_a_terminal_without_colours_gets_the_words(without_colours: AtTerminal, event: Event, written: str) -> None:
    assert without_colours.written(event).lstrip("\r") == bare(written)


@pytest.mark.parametrize(("event", "written"), [*EVENTS, *INTERRUPTED])
def test_an_output_that_is_no_terminal_gets_nothing_but_the_words(
    monkeypatch: pytest.MonkeyPatch, event: Event, written: str
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    seen = Seen()
    event(seen.terminal)
    assert seen.text == bare(written)


class WithoutFile:
    """A stream as on a system that knows no file descriptors."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True


def test_a_stream_without_a_file_gets_nothing_but_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    plain, tty = WithoutFile(), Tty()
    for output in (plain, tty):
        Terminal(output=output).on_think_start(top())  # type: ignore[arg-type]  # it has what is used
    assert plain.text == tty.getvalue() == "[turn 1] thinking\n"


def test_a_pipe_gets_nothing_but_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = os.pipe()
    with open(ours, "rb") as end:
        with open(theirs, "w", encoding="utf-8") as stream:
            Terminal(output=stream).on_think_start(top())
        assert end.read() == b"[turn 1] thinking\n"
