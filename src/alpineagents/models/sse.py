"""Server-sent events, read from bytes as they arrive.

https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream, with one difference that real
servers ask for: a last event counts without a blank line behind it.

- Lines end with LF, CR LF or CR, and with nothing else that Unicode calls a line break.
- How the bytes are cut changes nothing: lines, line ends and characters are put together again.
- A byte order mark at the start, comments, `id` and `retry` mean nothing; an event without data is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class ServerEvent:
    """One event; `name` is empty when the server gave it none."""

    name: str
    data: str


class EventReader:
    """Turns the pieces of a stream into its events."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []  # the pieces of a line whose end has not come
        self._after_cr = False  # a LF that comes next belongs to the line end before it
        self._first = True
        self._name = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        """The events that end in this piece."""
        if self._after_cr and piece:
            self._after_cr = False
            piece = piece.removeprefix(b"\n")
        if not piece:
            return
        self._after_cr = piece.endswith(b"\r")
        lines = piece.splitlines()  # of bytes: at LF, CR LF and CR only
        rest = b"" if piece.endswith((b"\n", b"\r")) else lines.pop()
        for line in lines:
            if self._begun:
                line = b"".join((*self._begun, line))  # noqa: PLW2901  # the whole line, of which this is the end
                self._begun.clear()
            yield from self._line(line)
        if rest:
            self._begun.append(rest)

    def end(self) -> Iterator[ServerEvent]:
        """The event that was not ended when the stream was."""
        if self._begun:
            yield from self._line(b"".join(self._begun))
        yield from self._line(b"")

    def _line(self, line: bytes) -> Iterator[ServerEvent]:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if line:
            self._field(line.decode("utf-8", "replace"))
            return
        event = ServerEvent(self._name, "\n".join(self._data))
        self._name, self._data = "", []
        if event.data.strip():
            yield event

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")  # the name of a comment is empty
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
