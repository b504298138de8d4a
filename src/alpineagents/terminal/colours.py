"""What a line means, as its colour: only for a terminal that shows colours, so that any other output is bare text."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Any, NamedTuple


class Look(StrEnum):
    """How a line looks, as its SGR parameters (ECMA-48, 8.3.117)."""

    PLAIN = ""
    BOLD = "1"
    FAINT = "2"
    GOOD = "32"
    BAD = "31"
    WARNING = "33"
    TOOL = "36"


class Line(NamedTuple):
    """A line, or several, and what it looks like.

    Attributes:
        echoed: Whether the person pressed Ctrl+C right before, which the terminal itself shows as `^C`.
    """

    text: str
    look: Look = Look.PLAIN
    echoed: bool = False


def drawn(line: Line, stream: Any) -> str:
    """The line for a stream: bare, or for a terminal in its look and over the `^C`."""
    if not _is_terminal(stream):
        return line.text
    start = "\r" if line.echoed else ""
    return start + (_coloured(line.text, line.look) if _wants_colours() else line.text)


def _coloured(text: str, look: Look) -> str:
    """The text in its look, which ends with each line: whoever writes next finds the terminal as it was."""
    if look is Look.PLAIN:
        return text
    return "\n".join([f"\x1b[{look}m{part}\x1b[0m" if part else part for part in text.split("\n")])


def _wants_colours() -> bool:
    """Whether the terminal says it can do more than text, and its person did not object (https://no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") not in ("", "dumb")


def _is_terminal(stream: Any) -> bool:
    try:
        return os.isatty(stream.fileno())
    except (AttributeError, OSError, ValueError, TypeError):  # a stream without a file behind it, or a closed one
        return False
