"""How text and lines share one stream, and what happens when the stream fails."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seen import REPLY, Seen, closed, encoded, top

from alpineagents.history.entries import (
    ContextChange,
)
from alpineagents.state import State
from alpineagents.terminal import Terminal
from alpineagents.terminal.text import shown
from alpineagents.values.exchange import ModelEvent


def test_text_is_written_piece_by_piece(seen: Seen) -> None:
    seen.terminal.on_text(top(), "Hel")
    assert seen.text == "Hel"
    seen.terminal.on_text(top(), "lo\n")
    assert seen.text == "Hello\n"


def test_text_is_flushed_without_a_newline() -> None:
    terminal, raw = encoded("utf-8")
    terminal.on_text(top(), "Hel")
    assert raw.getvalue() == b"Hel"


def test_an_empty_piece_writes_nothing(seen: Seen) -> None:
    seen.terminal.on_text(top(), "Hel")
    seen.terminal.on_text(State(id="other"), "")
    assert seen.text == "Hel"


@pytest.mark.parametrize("text", ["Hello", "Hello\n"])
def test_the_end_of_the_reply_ends_the_line(seen: Seen, text: str) -> None:
    seen.terminal.on_text(top(), text)
    seen.terminal.on_think_end(top(), REPLY)
    assert seen.text == "Hello\n"


def test_a_line_starts_on_a_fresh_line_after_text(seen: Seen) -> None:
    seen.terminal.on_text(top(), "Hel")
    seen.terminal.on_model_event(top(), ModelEvent("retry", "again"))
    seen.terminal.on_text(top(), "Hello")
    assert seen.text == "Hel\n  model: again\nHello"


def test_the_last_line_starts_on_a_fresh_line_after_text(seen: Seen) -> None:
    seen.terminal.on_text(top(), "Hel")
    seen.terminal.on_run_end(top(), None)
    assert seen.text == "Hel\ndone: (1 turn)\n"


def test_texts_of_two_states_never_share_a_line(seen: Seen) -> None:
    seen.terminal.on_text(State(id="a"), "from a")
    seen.terminal.on_text(State(id="b"), "from b")
    seen.terminal.on_text(State(id="a"), "a again")
    assert seen.text == "from a\nfrom b\na again"


def test_the_end_of_one_reply_leaves_the_text_of_another_alone(seen: Seen) -> None:
    seen.terminal.on_text(State(id="a"), "from a")
    seen.terminal.on_think_end(State(id="b"), REPLY)
    seen.terminal.on_text(State(id="a"), ", on")
    assert seen.text == "from a, on"


def test_text_can_be_hidden() -> None:
    seen = Seen(show_text=False)
    seen.terminal.on_think_start(top())
    seen.terminal.on_text(top(), "Hello")
    seen.terminal.on_think_end(top(), REPLY)
    assert seen.text == "[turn 1] thinking\n"


def test_whether_text_is_shown_can_change_between_runs(seen: Seen) -> None:
    seen.terminal.show_text = False
    seen.terminal.on_text(top(), "one")
    seen.terminal.show_text = True
    seen.terminal.on_text(top(), "two")
    assert seen.text == "two"


@given(st.lists(st.text(alphabet="ab\r\n\x1b")))
def test_streamed_text_is_shown_as_if_it_came_in_one_piece(pieces: list[str]) -> None:
    seen = Seen()
    for piece in pieces:
        seen.terminal.on_text(top(), piece)
    seen.terminal.on_think_end(top(), REPLY)
    whole = shown("".join(pieces))
    assert seen.text == (whole if whole.endswith("\n") or not whole else f"{whole}\n")


def test_characters_the_output_cannot_encode_are_shown_as_escapes() -> None:
    terminal, raw = encoded("ascii")
    terminal.on_text(top(), "naïve → 日\n")
    assert raw.getvalue() == b"na\\xefve \\u2192 \\u65e5\n"


def test_a_lone_surrogate_is_shown_as_an_escape() -> None:
    terminal, raw = encoded("utf-8")
    terminal.on_text(top(), "é\ud800\n")
    assert raw.getvalue() == "é\\ud800\n".encode()


@pytest.mark.parametrize("errors", ["strict", "replace", "surrogateescape", "surrogatepass"])
def test_half_a_character_never_becomes_a_byte_of_its_own(errors: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "utf-8", errors, newline="\n")
    Terminal(output=stream).on_text(top(), "\udc9b2J\n")
    assert raw.getvalue() == b"\\udc9b2J\n"


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        ("ascii", b"na\\xefve \\u20ac \\u2192\n"),
        ("latin-1", b"na\xefve \\u20ac \\u2192\n"),
        ("cp1252", b"na\xefve \x80 \\u2192\n"),
    ],
)
def test_characters_the_output_can_encode_are_unchanged(encoding: str, written: bytes) -> None:
    terminal, raw = encoded(encoding)
    terminal.on_text(top(), "naïve € →\n")
    assert raw.getvalue() == written


@pytest.mark.parametrize("encoding", ["utf-16", "shift_jis", "cp037", "iso2022_jp", "utf-7"])
def test_no_encoding_makes_a_run_fail(encoding: str) -> None:
    terminal, raw = encoded(encoding)
    terminal.on_text(top(), "naïve → 日 \ud800 \x1b\n")
    assert raw.getvalue().decode(encoding).endswith(" \\ud800 \\x1b\n")


class Misnamed(io.StringIO):
    """Takes ASCII, and says something else about it."""

    encoding = "no such encoding"

    def write(self, text: str) -> int:
        text.encode("ascii")
        return super().write(text)


@pytest.mark.parametrize("encoding", ["no such encoding", None, "idna"])
def test_an_output_with_an_encoding_nobody_knows_gets_ascii(encoding: str | None) -> None:
    output = Misnamed()
    output.encoding = encoding  # type: ignore[assignment, misc]  # what this test is about
    Terminal(output=output).on_text(top(), "naïve..\n")
    assert output.getvalue() == "na\\xefve..\n"


class Gone(io.StringIO):
    """As a `TextIOWrapper` is when its buffer was taken from it."""

    def write(self, text: str) -> int:
        raise ValueError("underlying buffer has been detached")

    @property
    def closed(self) -> bool:
        raise ValueError("underlying buffer has been detached")


class Broken(io.StringIO):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


@pytest.mark.parametrize("stream", [None, closed(), Broken(BrokenPipeError()), Broken(OSError(5, "hung up")), Gone()])
def test_a_standard_output_that_is_gone_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch, stream: Any) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    terminal = Terminal()
    terminal.on_think_start(top())
    terminal.on_text(top(), "Hel")
    terminal.on_run_end(top(), None)


class Odd:
    """A stream without the usual attributes."""

    def write(self, text: str) -> int:
        raise ValueError("odd")


def test_the_failure_of_a_standard_output_that_is_hardly_a_stream_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Odd())
    with pytest.raises(ValueError, match="odd"):
        Terminal().on_think_start(top())


@pytest.mark.parametrize("error", [OSError(28, "disk full"), ValueError("odd")])
def test_another_failure_of_the_standard_output_is_raised(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(sys, "stdout", Broken(error))
    with pytest.raises(type(error)) as caught:
        Terminal().on_think_start(top())
    assert caught.value is error


def test_what_a_given_output_raises_is_raised() -> None:
    with pytest.raises(BrokenPipeError):
        Terminal(output=Broken(BrokenPipeError())).on_think_start(top())


def test_the_standard_output_is_looked_up_at_each_write(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, stream = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    terminal.on_think_start(top())
    assert stream.getvalue() == "[turn 1] thinking\n"


def test_an_output_that_is_no_stream_is_refused() -> None:
    with pytest.raises(TypeError, match="text stream"):
        Terminal(output="log.txt")  # type: ignore[arg-type]  # the mistake this test is about


def test_an_input_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="function"):
        Terminal(input="yes")  # type: ignore[arg-type]  # the mistake this test is about


class Slow(io.StringIO):
    """Writes character by character, so that two threads inside at once show."""

    def write(self, text: str) -> int:
        for character in text:
            super().write(character)
        return len(text)


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("hasty_threads")
def test_lines_of_several_threads_do_not_mix() -> None:
    output = Slow()
    terminal = Terminal(output=output)

    def work(name: str) -> None:
        state = State(id=name)
        for _ in range(30):
            terminal.on_context_change(state, ContextChange("restore", 2, 1))
            terminal.on_think_start(state)
            terminal.on_text(state, name * 20)
            terminal.on_think_end(state, REPLY)

    names = "abcd"
    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    header = "[turn 0] thinking\n  context restored: 2 → 1 tokens\n"
    rest = output.getvalue().replace(header, "")
    assert sorted(rest.splitlines()) == sorted([name * 20 for name in names] * 30)


class Interrupted(io.StringIO):
    """Ctrl+C comes right after the first write."""

    def __init__(self) -> None:
        super().__init__()
        self.interrupts = [KeyboardInterrupt()]

    def flush(self) -> None:
        if self.interrupts:
            raise self.interrupts.pop()


@pytest.mark.parametrize(
    ("write", "written"),
    [
        (lambda show: show.on_text(top(), "Hel"), "Hel"),
        (lambda show: show.ask(top(), "Go?", bool), "Go? (yes/no) "),
    ],
)
def test_an_interrupt_after_a_write_leaves_a_fresh_line(write: Callable[[Terminal], None], written: str) -> None:
    output = Interrupted()
    terminal = Terminal(output=output)
    with pytest.raises(KeyboardInterrupt):
        write(terminal)
    terminal.on_run_end(top(), None)
    assert output.getvalue() == f"{written}\ndone: (1 turn)\n"
