"""Whether a file says the same everywhere: every State is replayed, and all that was derived from it is compared.

It only reads, holds one State at a time, and goes on behind what is damaged.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from alpineagents.history.codec import decode, image_blocks
from alpineagents.history.entries import HistoryEntry
from alpineagents.history.replay import step
from alpineagents.history.value import EMPTY, Value
from alpineagents.store.derived import GENERATED, generated
from alpineagents.store.info import info_of
from alpineagents.store.opening import connect_to_read
from alpineagents.store.rows import (
    ENTRY_COLUMNS,
    STATE_COLUMNS,
    clean,
    entry_data,
    loads,
    original_fields,
    state_row,
)

_FIELDS: tuple[str, ...] = ENTRY_COLUMNS[1:]
_SHOWN = 80
_ENTRIES = f"SELECT {', '.join((*_FIELDS, *GENERATED))} FROM entries WHERE state_id = ? ORDER BY seq"
_STATE = f"SELECT {', '.join((*STATE_COLUMNS, 'forked_from', 'forked_at'))} FROM states WHERE id = ?"


@dataclass(frozen=True)
class Problem:
    """One difference or damage.

    Attributes:
        state_id, seq: Where; `None` when it concerns the whole file, or a State as a whole.
        problem: What is wrong there, in one line.
    """

    state_id: str | None
    seq: int | None
    problem: str

    def __str__(self) -> str:
        if self.state_id is None:
            return self.problem
        place = f"State {self.state_id!r}" if self.seq is None else f"State {self.state_id!r}, entry {self.seq}"
        return f"{place}: {self.problem}"


def check(path: str | os.PathLike[str]) -> list[Problem]:
    """All that is wrong in a file; nothing, if the list is empty.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no database of ours, or was written by a newer version.
    """
    file = Path(path).resolve()
    if not file.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    connection = connect_to_read(file)
    if connection is None:
        return []
    try:
        # What is not UTF-8 must not end the check: it comes out as lone surrogates, which are never stored.
        connection.text_factory = _decoded
        return [*_file_problems(connection), *_state_problems(connection)]
    finally:
        connection.close()


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _file_problems(connection: sqlite3.Connection) -> Iterator[Problem]:
    try:
        for (text,) in connection.execute("PRAGMA integrity_check"):
            if text != "ok":
                yield Problem(None, None, f"SQLite says: {text}")
        for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
            yield Problem(None, None, f"row {row} of {table} refers to a row of {parent} that is not there")
        for sha256, data in connection.execute("SELECT sha256, bytes FROM blobs"):
            if hashlib.sha256(data).hexdigest() != sha256:
                yield Problem(None, None, f"the bytes of blob {sha256} are not those it is named after")
    except sqlite3.DatabaseError as error:
        yield Problem(None, None, f"SQLite says: {error}")


def _state_problems(connection: sqlite3.Connection) -> Iterator[Problem]:
    try:
        ids = [state_id for (state_id,) in connection.execute("SELECT id FROM states ORDER BY rowid")]
    except sqlite3.DatabaseError as error:
        yield Problem(None, None, f"SQLite says: {error}")
        return
    for state_id in ids:
        # One transaction, so that the row of the State and its entries are of the same moment.
        connection.execute("BEGIN")
        try:
            yield from _StateCheck(connection, state_id).problems()
        except sqlite3.DatabaseError as error:
            yield Problem(state_id, None, f"SQLite says: {error}")
        finally:
            connection.execute("ROLLBACK")


class _StateCheck:
    """The check of one State. `value` is what its entries give so far; `None` behind one that cannot be replayed."""

    def __init__(self, connection: sqlite3.Connection, state_id: str) -> None:
        self.connection = connection
        self.state_id = state_id
        self.value: Value | None = EMPTY

    def problems(self) -> Iterator[Problem]:
        count = 0
        for row in self.connection.execute(_ENTRIES, (self.state_id,)):
            seq = row[0]
            if seq != count:
                yield Problem(self.state_id, seq, f"the entry before it should be {seq - 1}, and is {count - 1}")
                self.value = None
            count = seq + 1
            for problem in self._entry_problems(row):
                yield Problem(self.state_id, seq, problem)
        if self.value is not None:
            for problem in self._row_problems(self.value):
                yield Problem(self.state_id, None, problem)

    def _entry_problems(self, row: Sequence[Any]) -> Iterator[str]:
        fields = dict(zip((*_FIELDS, *GENERATED), row, strict=True))
        if fields["data"] != clean(fields["data"]):
            self.value = None
            yield "data is not UTF-8"
            return
        images = _images(fields)
        for sha256 in images:
            if not self._stored(sha256):
                yield f"its image {sha256} is not in the file"
        try:
            # The bytes do not matter here: that each blob is what its name says is checked for all of them.
            data = entry_data(self.state_id, row[: len(_FIELDS)], dict.fromkeys(images, b""))
            entry = decode(data)
        except ValueError as error:
            self.value = None
            yield _first_line(error)
            return
        yield from _generated_problems(fields, data)
        yield from _original_problems(fields)
        yield from self._replay(fields, entry)

    def _stored(self, sha256: str) -> bool:
        return self.connection.execute("SELECT 1 FROM blobs WHERE sha256 = ?", (sha256,)).fetchone() is not None

    def _replay(self, fields: Mapping[str, Any], entry: HistoryEntry) -> Iterator[str]:
        if self.value is None:
            return
        try:
            self.value = step(self.value, entry)
        except ValueError as error:
            self.value = None
            yield f"it cannot follow the entries before it: {_first_line(error)}"
            return
        closing = self.value.closings[-1]
        expected = (None, None) if closing is None else (closing.seq, closing.block)
        yield from _differences(("closes", "block"), (fields["closes"], fields["block"]), expected)

    def _row_problems(self, value: Value) -> Iterator[str]:
        row = self.connection.execute(_STATE, (self.state_id,)).fetchone()
        if row is None:
            return
        *columns, forked_from, forked_at = row
        info, count = info_of(value), len(value.history)
        more: Any = info if columns[-1] is None else loads(columns[-1])
        if not isinstance(more, dict):
            yield "more is not a JSON object"
            return
        # An info with keys of its own, from a subclass of the store, keeps them: they follow from nothing.
        keys = cast("dict[str, Any]", more)
        expected = {key: info.get(key, value) for key, value in keys.items()}
        yield from _differences(STATE_COLUMNS, columns, state_row(expected, count))
        if (forked_from is None) != (forked_at is None):
            yield f"forked_from is {forked_from!r}, but forked_at is {forked_at!r}"
        elif forked_at is not None and not 0 <= forked_at <= count:
            yield f"forked_at is {forked_at}, but it has {count} entries"


def _images(fields: Mapping[str, Any]) -> list[str]:
    if '"sha256"' not in fields["data"]:
        return []
    data = loads(fields["data"])
    if not isinstance(data, dict):
        return []
    found = [block.get("sha256") for block in image_blocks({**data, "kind": fields["kind"]})]
    return [sha256 for sha256 in found if isinstance(sha256, str)]


def _generated_problems(fields: Mapping[str, Any], data: dict[str, Any]) -> Iterator[str]:
    found = [_as_sql(fields[name]) for name in GENERATED]
    yield from _differences(GENERATED, found, [_as_sql(value) for value in generated(data)])


def _as_sql(value: Any) -> Any:
    # SQLite's text functions stop at a NUL.
    return clean(value).partition("\0")[0] if isinstance(value, str) else value


def _original_problems(fields: Mapping[str, Any]) -> Iterator[str]:
    if fields["original"] is None:
        return
    shown = clean(json.dumps(original_fields(fields["original"]), ensure_ascii=False))
    if json.loads(shown) != loads(fields["data"]):
        yield "data and original do not say the same"


def _differences(names: Sequence[str], found: Sequence[Any], expected: Sequence[Any]) -> Iterator[str]:
    for name, have, want in zip(names, found, expected, strict=True):
        if have != want:
            yield f"{name} is {_shown(have)}, should be {_shown(want)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _first_line(error: ValueError) -> str:
    return str(error).partition("\n")[0]
