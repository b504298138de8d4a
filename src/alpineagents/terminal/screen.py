"""A text stream that several threads write to, line by line.

- A line starts on a fresh line: it first ends whatever stands unfinished, whoever wrote that.
- What stands unfinished has one owner, a State whose text streams or an open question. Text of another owner starts on
  a fresh line too.
- A line counts as unfinished from before its first write: Ctrl+C in between costs an empty line at most.
- Everything is written through `shown`, so no text can move the cursor or rewrite the screen.
- Every write is flushed. No lock is held while a person thinks.
"""

from __future__ import annotations

import errno
import re
import sys
import threading
from typing import TextIO

from alpineagents.terminal.colours import Line, drawn
from alpineagents.terminal.text import shown

# Half a character. A stream with `errors="surrogateescape"` (that of the C locale) writes some of them as the single
# bytes that older terminals obey: https://peps.python.org/pep-0383/
_HALVES = re.compile("[\ud800-\udfff]")
_GONE = {errno.EIO, errno.EBADF}  # the terminal hung up; the file descriptor was closed under the stream


class Screen:
    """Where a Terminal writes: the stream it was given, or `sys.stdout` as it is at each write.

    A given stream raises what it raises. A standard output that is gone (a closed pipe, a closed file, a program
    without a console) is no reason to end a run: what is written to it is lost.
    """

    def __init__(self, output: TextIO | None = None) -> None:
        self._output = output
        self._lock = threading.RLock()  # a signal handler may write in the middle of a write
        self._owner: object = None
        self._held = ""  # a CR that ended a chunk: harmless or not, which the next character tells

    @property
    def stream(self) -> TextIO | None:
        """The stream in use."""
        return sys.stdout if self._output is None else self._output

    def write_lines(self, *lines: Line) -> None:
        """Write whole lines, together."""
        stream = self.stream
        texts = [drawn(line._replace(text=shown(line.text)), stream) for line in lines]
        with self._lock:
            self._write(self._line_end() + "".join([f"{text}\n" for text in texts]))
            self._leave(None)

    def write_text(self, owner: object, chunk: str) -> None:
        """Go on with the owner's text."""
        if not chunk:
            return
        with self._lock:
            before = "" if self._owner == owner else self._line_end()
            text = (self._held if self._owner == owner else "") + chunk
            held = "\r" if text.endswith("\r") else ""
            self._leave(owner, held)
            self._write(before + shown(text.removesuffix("\r")))
            if text.endswith("\n"):
                self._leave(None)

    def end_text(self, owner: object) -> None:
        """End the line if the owner's text did not."""
        with self._lock:
            if self._owner == owner:
                self._write(self._line_end())
                self._leave(None)

    def open_question(self, owner: object, question: str) -> None:
        """Write a question and stay behind it.

        An empty text only makes the line: who reads the answer writes the question there.
        """
        with self._lock:
            before = self._line_end()
            self._leave(owner)
            self._write(before + shown(question))

    def close_question(self, owner: object, *, enter_shown: bool) -> None:
        """The person is done. Without an Enter that shows, the line ends here, if nothing ended it meanwhile."""
        with self._lock:
            if enter_shown:
                self._leave(None)
            else:
                self.end_text(owner)

    def _line_end(self) -> str:
        return "" if self._owner is None else f"{shown(self._held)}\n"

    def _leave(self, owner: object, held: str = "") -> None:
        self._owner, self._held = owner, held

    def _write(self, text: str) -> None:
        stream = self.stream
        if not text or stream is None:
            return
        try:
            _write_encodable(stream, text)
            stream.flush()
        except (OSError, ValueError) as error:
            if self._output is not None or not _is_gone(stream, error):
                raise


def _write_encodable(stream: TextIO, text: str) -> None:
    """Write, with escapes for the characters the stream's encoding does not have."""
    text = _HALVES.sub(lambda match: f"\\u{ord(match[0]):x}", text)
    try:
        stream.write(text)
    except UnicodeEncodeError:
        stream.write(_in_encoding(text, getattr(stream, "encoding", None)))


def _in_encoding(text: str, encoding: str | None) -> str:
    try:
        encoding = encoding or "ascii"
        return text.encode(encoding, "backslashreplace").decode(encoding)
    except (LookupError, UnicodeError):  # a name of no encoding, or of one that cannot even escape
        return text.encode("ascii", "backslashreplace").decode("ascii")


def _is_gone(stream: TextIO, error: OSError | ValueError) -> bool:
    if isinstance(error, OSError):
        return isinstance(error, BrokenPipeError) or error.errno in _GONE
    try:
        return bool(getattr(stream, "closed", False))
    except ValueError:  # what it wrote to was taken from it
        return True
