from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest
from demo_file import demo_file
from hypothesis import given
from hypothesis import strategies as st

from alpineagents.cli.output import fit, json_text, width


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Our end and the program's end of a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    yield ours, theirs
    os.close(ours)


def on_terminal(terminal: tuple[int, int], *words: str, **environment: str) -> list[str]:
    ours, theirs = terminal
    unset = ("COLUMNS", "NO_COLOR", "ALPINEAGENTS_DB")
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    program = [sys.executable, "-m", "alpineagents", *words]
    with subprocess.Popen(program, stdout=theirs, stderr=theirs, env={**kept, "TERM": "xterm", **environment}):
        os.close(theirs)
        return read_all(ours).decode().replace("\r\n", "\n").splitlines()


def read_all(end: int) -> bytes:
    text = b""
    while True:
        try:
            part = os.read(end, 65_536)
        except OSError:  # how a terminal on Linux says that nobody writes to it any more
            return text
        if not part:
            return text
        text += part


def test_a_table_fits_the_terminal_and_has_colours(terminal: tuple[int, int]) -> None:
    names, *lines = on_terminal(terminal, "list", str(demo_file()))
    assert len(lines) == 6
    assert "\x1b[31mfailed\x1b[0m" in "".join(lines)
    assert max(len(line.replace("\x1b[0m", "")) - 5 for line in lines) <= 80
    assert names.startswith("id ")


def test_no_color_is_honoured(terminal: tuple[int, int]) -> None:
    assert "\x1b" not in "".join(on_terminal(terminal, "list", str(demo_file()), NO_COLOR="1"))


def test_a_pipe_gets_no_colour() -> None:
    words = [sys.executable, "-m", "alpineagents", "list", str(demo_file())]
    assert b"\x1b" not in subprocess.run(words, capture_output=True, check=True).stdout


@given(st.text(), st.integers(1, 20))
def test_a_cut_text_fits(text: str, room: int) -> None:
    assert width(fit(text, room)) <= room
    assert fit(text, room) == text or fit(text, room).endswith("…")


@given(st.recursive(st.text() | st.integers() | st.booleans() | st.none(), lambda inner: st.lists(inner, max_size=3)))
def test_json_for_the_screen_says_the_same(value: object) -> None:
    assert json.loads(json_text(value)) == value
    json_text(value).encode()


def test_json_for_the_screen_has_no_control_characters() -> None:
    assert json_text("\x1b\x9b\u202e\u2066\x7f\ud800é") == '"\\u001b\\u009b\\u202e\\u2066\\u007f\\ud800é"'
