"""What the model is told about a function: the summary of its docstring and the text of each parameter.

Find the parcel                     <- the description: the first paragraph before the header

Args:                               <- the header
    number (str): As printed        <- an entry: name, an optional bracket, a colon, text
        on the label                <- deeper than the entry, so it goes on with it
Returns:                            <- not deeper than the header and a header itself: the section is over
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

from alpineagents.errors import explain, shown

_ENTRY = re.compile(r"([^\W\d]\w*)\s*(?:\(.*?\)\s*)?:(?!//)\s*(.*)")  # `http://...` is text, not an entry
_SECTION = re.compile(r"[^\W\d_](?:[^\W\d_]| )*:")


class Docstring(NamedTuple):
    """The parts of a docstring the model gets; a parameter without text is not in `parameters`."""

    description: str
    parameters: dict[str, str]


class _Line(NamedTuple):
    text: str
    indent: int
    after_blank: bool  # the first line counts as one that follows a blank line


def read_docstring(docstring: str | None) -> Docstring:
    """The summary, and the parameters described under `Args:`.

    Raises:
        TypeError: Somebody set `__doc__` to what is no text.
    """
    if not isinstance(docstring, str | None):
        raise TypeError(
            explain(
                f"a docstring must be a str, not {type(docstring).__name__}: {shown(docstring)}",
                "set __doc__ to text, or give description=",
                '@tool(description="Finds a parcel")',
            )
        )
    lines = list(_lines(docstring or ""))
    header = next((index for index, line in enumerate(lines) if _is_header(line)), len(lines))
    return Docstring(_summary(lines[:header]), _parameters(lines[header:]))


def _lines(docstring: str) -> Iterator[_Line]:
    """The lines that hold text."""
    after_blank = True
    for line in inspect.cleandoc(docstring).split("\n"):
        text = line.strip()
        if text:
            yield _Line(text, len(line) - len(line.lstrip()), after_blank)
        after_blank = not text


def _is_header(line: _Line) -> bool:
    folded = line.text.casefold()
    return folded == "args:" or (folded == "args" and line.after_blank)


def _summary(lines: list[_Line]) -> str:
    end = next((index for index, line in enumerate(lines) if index and line.after_blank), len(lines))
    return " ".join([line.text for line in lines[:end]])


def _parameters(section: list[_Line]) -> dict[str, str]:
    """The entries of an arguments section, of which the first line is the header."""
    entries: dict[str, list[str]] = {}
    texts: list[str] = []  # of the entry being read; what stands before the first one goes nowhere
    entry_indent: int | None = None
    for line in section[1:]:
        entry = None if entry_indent is not None and line.indent > entry_indent else _ENTRY.fullmatch(line.text)
        if _ends(line, section[0].indent, entry_indent, is_entry=entry is not None):
            break
        if entry is None:
            texts.append(line.text)
            continue
        entry_indent = line.indent if entry_indent is None else entry_indent
        texts = entries[entry[1]] = [entry[2]]
    described = {name: " ".join(filter(None, texts)) for name, texts in entries.items()}
    return {name: text for name, text in described.items() if text}


def _ends(line: _Line, header_indent: int, entry_indent: int | None, *, is_entry: bool) -> bool:
    if line.indent > header_indent:
        return False
    if line.text[0].isupper() and _SECTION.fullmatch(line.text):
        return True
    # Entries may stand at the header's own indent, and blank lines between entries end nothing.
    entries_here = entry_indent is None or entry_indent <= header_indent
    return line.after_blank and not (is_entry and entries_here)
