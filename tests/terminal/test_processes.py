"""Real terminals, pipes and processes."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

ASK = """
from alpineagents.state import State
from alpineagents.terminal import Terminal
terminal = Terminal()
try:
    print(terminal.ask(State(), "Go?", bool), flush=True)
except BaseException as error:
    print(type(error).__name__, flush=True)
"""


PIPE = subprocess.PIPE


@contextmanager
def started(code: str, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", code], **streams)
    try:
        yield process
    finally:
        process.kill()
        process.wait(20)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def terminal_pair() -> Iterator[tuple[int, int]]:
    """Our end and the program's end of a terminal."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def read_until(end: int, expected: bytes, *, nudge: Callable[[], object] = lambda: None) -> bytes:
    """All that comes, up to and with what is expected; while nothing comes, `nudge` is called now and then."""
    text = b""
    while expected not in text:
        while not select.select([end], [], [], 0.5)[0]:
            nudge()
        text += os.read(end, 1)
    return text


def test_at_a_terminal_the_typed_enter_ends_the_line(terminal_pair: tuple[int, int]) -> None:
    ours, theirs = terminal_pair
    with started(ASK, stdin=theirs, stdout=theirs):
        seen = read_until(ours, b"Go? (yes/no) ")
        os.write(ours, b"maybe\n")
        seen += read_until(ours, b"Go? (yes/no) ")
        os.write(ours, b"yes\n")
        seen += read_until(ours, b"True\r\n")
    assert seen == b"Go? (yes/no) maybe\r\nAnswer 'yes' or 'no'\r\nGo? (yes/no) yes\r\nTrue\r\n"


def test_with_answers_from_a_pipe_the_line_is_ended() -> None:
    with started(ASK, stdin=PIPE, stdout=PIPE) as process:
        seen, _ = process.communicate(b"yes\n", timeout=20)
    assert seen == b"Go? (yes/no) \nTrue\n"


def test_with_output_to_a_pipe_the_line_is_ended(terminal_pair: tuple[int, int]) -> None:
    ours, theirs = terminal_pair
    os.write(ours, b"yes\n")
    with started(ASK, stdin=theirs, stdout=PIPE) as process:
        seen, _ = process.communicate(timeout=20)
    assert seen == b"Go? (yes/no) \nTrue\n"


def test_with_answers_from_a_pipe_at_a_terminal_the_line_is_ended(terminal_pair: tuple[int, int]) -> None:
    ours, theirs = terminal_pair
    tty.setraw(theirs)
    with started(ASK, stdin=PIPE, stdout=theirs) as process:
        process.stdin.write(b"yes\n")  # type: ignore[union-attr]  # it is a pipe
        process.stdin.flush()  # type: ignore[union-attr]
        seen = read_until(ours, b"True\n")
    assert seen == b"Go? (yes/no) \nTrue\n"


@pytest.mark.parametrize("end", ["interrupt", "end of input"])
def test_a_question_ended_at_a_terminal_leaves_a_fresh_line(terminal_pair: tuple[int, int], end: str) -> None:
    ours, theirs = terminal_pair
    with started(ASK, stdin=theirs, stdout=theirs) as process:
        seen = read_until(ours, b"Go? (yes/no) ")
        if end == "interrupt":
            # Python's input() may miss a signal that comes right before it begins to read.
            process.send_signal(signal.SIGINT)
            seen += read_until(ours, error := b"KeyboardInterrupt", nudge=lambda: process.send_signal(signal.SIGINT))
        else:
            os.write(ours, b"\x04")
            seen += read_until(ours, error := b"EOFError")
    assert seen.replace(b"^D\x08\x08", b"") == b"Go? (yes/no) \r\n" + error


INTERRUPTED = """
import asyncio
from alpineagents.state import State
from alpineagents.terminal import Terminal
try:
    asyncio.run(Terminal().aask(State(), "Go?", bool))
except KeyboardInterrupt:
    print("bye", flush=True)
"""


def test_a_process_can_end_while_a_question_is_abandoned_on_a_pipe() -> None:
    with started(INTERRUPTED, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        seen = read_until(process.stdout.fileno(), b"Go? (yes/no) ")  # type: ignore[union-attr]  # it is a pipe
        process.send_signal(signal.SIGINT)
        seen += process.stdout.read()  # type: ignore[union-attr]
        assert (process.wait(20), seen, process.stderr.read()) == (0, b"Go? (yes/no) bye\n", b"")  # type: ignore[union-attr]


def test_a_process_can_end_while_a_question_is_abandoned_at_a_terminal(terminal_pair: tuple[int, int]) -> None:
    ours, theirs = terminal_pair
    with started(INTERRUPTED, stdin=theirs, stdout=theirs, stderr=PIPE) as process:
        read_until(ours, b"Go? (yes/no) ")
        process.send_signal(signal.SIGINT)
        assert (process.wait(20), process.stderr.read()) == (0, b"")  # type: ignore[union-attr]  # it is a pipe


HEARD_BY_NOBODY = """
import os, sys
from alpineagents.state import State
from alpineagents.terminal import Terminal
os.read(0, 1)  # until nobody reads what we write
for turn in range(1000):
    Terminal().on_think_start(State())
print("still here", file=sys.stderr)
os._exit(0)  # Python itself complains about such a pipe when it exits
"""


def test_a_run_goes_on_when_nobody_reads_the_pipe_any_more() -> None:
    with started(HEARD_BY_NOBODY, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        process.stdout.close()  # type: ignore[union-attr]  # it is a pipe
        process.stdin.write(b".")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        assert process.stderr.read() == b"still here\n"  # type: ignore[union-attr]
        assert process.wait(20) == 0
