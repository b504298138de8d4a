"""Files to import: finding them, and reading them a line at a time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, cast

HEAD_LINES = 50
HEAD_BYTES = 4_096
_decoder = json.JSONDecoder(parse_constant=str)  # made once: `json.loads` would make one for every line
_BOM = b"\xef\xbb\xbf"
_TELL_EVERY = 262_144


@dataclass(frozen=True, slots=True)
class Line:
    """One line of JSON.

    Attributes:
        data: The object on it; `None` if there is none, and then `problem` says what is wrong.
        mended: Whether some of its bytes were no UTF-8.
    """

    number: int
    size: int
    data: dict[str, Any] | None
    problem: str | None = None
    mended: bool = False
    raw: bytes = b""

    @property
    def place(self) -> str:
        """Where it stands, for a person."""
        return f"line {self.number}"


class Source:
    """One file.

    Args:
        advanced: Hears how many more bytes have been read.
    """

    def __init__(self, path: Path, advanced: Callable[[int], None] | None = None) -> None:
        self.path = path
        self._advanced = advanced or _nothing

    @property
    def name(self) -> str:
        """Its name without the folder."""
        return self.path.name

    @property
    def stem(self) -> str:
        """Its name without the folder and without anything behind a dot."""
        return self.path.name.partition(".")[0] or self.path.name

    @cached_property
    def size(self) -> int:
        """How many bytes it has."""
        return self.path.stat().st_size

    @cached_property
    def modified(self) -> datetime:
        """When it was written last: where the source names no times, it was recorded then at the latest."""
        return datetime.fromtimestamp(self.path.stat().st_mtime, UTC)

    @cached_property
    def sha256(self) -> str:
        """The hash of all its bytes."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @cached_property
    def head(self) -> bytes:
        """Its first bytes."""
        with self.path.open("rb") as file:
            return file.read(HEAD_BYTES)

    @cached_property
    def first_records(self) -> list[dict[str, Any]]:
        """The JSON objects that its first lines are, without what is none, and without parts of a larger object."""
        found: list[dict[str, Any]] = []
        with self.path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                data = line_of(number, raw).data if raw.removeprefix(_BOM).startswith(b"{") else None
                if data is not None:
                    found.append(data)
                if number == HEAD_LINES:
                    break
        return found

    @cached_property
    def document(self) -> dict[str, Any] | None:
        """The whole file as one JSON object, or `None` if it is none."""
        if self.head.removeprefix(_BOM).lstrip()[:1] != b"{" or len(self.first_records) > 1:
            return None
        try:
            return parsed(self.path.read_bytes().decode("utf-8-sig", "replace"))
        except ValueError:
            return None

    def lines(self) -> Iterator[Line]:
        """Its lines, one at a time, without the blank ones."""
        told = 0
        with self.path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                told += len(raw)
                if told >= _TELL_EVERY:
                    self._advanced(told)
                    told = 0
                if raw.strip():
                    yield line_of(number, raw)
        self._advanced(told)

    def done(self) -> None:
        """Say that the whole file has been read, for a format that does not read it by lines."""
        self._advanced(self.size)


def _nothing(count: int) -> None:
    return


def line_of(number: int, raw: bytes) -> Line:
    """A line as JSON."""
    mended = False
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        text, mended = raw.decode("utf-8", "replace"), True
    size = len(raw)
    try:
        value: Any = parsed(text, whole=False)
    except ValueError as error:
        cut = "" if raw.endswith(b"\n") else ", and cut off"
        return Line(number, size, None, f"not JSON{cut} ({error})")
    if not isinstance(value, dict):
        return Line(number, size, None, f"not an object but {_kind(value)}")
    return Line(number, size, cast("dict[str, Any]", value), None, mended, raw)


def parsed(text: str, *, whole: bool = True) -> Any:
    """JSON as Python's, with what is no JSON number as a text.

    Args:
        whole: Whether only an object will do.
    Raises:
        ValueError: It is no JSON, or nested too deep to be read.
    """
    try:
        value: Any = _decoder.decode(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if whole and not isinstance(value, dict):
        raise ValueError("not an object")
    return cast("Any", value)


def _kind(value: object) -> str:
    names: dict[type, str] = {str: "a text", list: "a list", bool: "a truth value", int: "a number", float: "a number"}
    return names.get(type(value), "null")


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    """The files to look at: each path, and of a folder all files in it and below, in the order of their names.

    What a dot hides in a folder is passed over, and so are links to folders.
    """
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted([name for name in folders if not name.startswith(".")])
            yield from [Path(folder) / name for name in sorted(names) if not name.startswith(".")]
