"""Programs at a terminal of their own, and what a person sees there."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterable, Mapping

SECONDS = 20.0
TAKE_THE_TERMINAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"  # so that a typed ^C is a SIGINT


def played(
    code: str,
    typed: Iterable[tuple[str, str]] = (),
    *,
    columns: int = 80,
    environment: Mapping[str, str] | None = None,
) -> str:
    """All that a program writes to a terminal, while somebody types there.

    Args:
        typed: What is typed, each as soon as the text before it has been written.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE_THE_TERMINAL + code],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "", "PYTHONIOENCODING": "utf-8", **(environment or {})},
        cwd=os.path.dirname(__file__),
    )
    os.close(theirs)
    try:
        return _written(ours, list(typed)).decode()
    finally:
        process.kill()
        process.wait(SECONDS)
        os.close(ours)


def _written(end: int, typed: list[tuple[str, str]]) -> bytes:
    text, seen = b"", 0
    while new := _read(end, text):
        text += new
        while typed and typed[0][0].encode() in text[seen:]:
            cue, keys = typed.pop(0)
            seen = text.index(cue.encode(), seen) + len(cue.encode())
            os.write(end, keys.encode())
    assert not typed, f"{typed} was not typed, since this is all that came: {text!r}"
    return text


def _read(end: int, before: bytes) -> bytes:
    """What comes next; nothing when the program has ended."""
    assert select.select([end], [], [], SECONDS)[0], f"nothing came after {before!r}"
    try:
        return os.read(end, 4096)
    except OSError:  # how Linux says that nobody has the other end any more
        return b""


def visible(written: str) -> str:
    """What stays on a terminal: a carriage return lets the next characters cover those at the start of the line."""
    return "\n".join([_covered(line) for line in written.replace("\r\n", "\n").split("\n")])


def _covered(line: str) -> str:
    shown = ""
    for layer in line.split("\r"):
        shown = layer + shown[len(layer) :]
    return shown
