"""The statements that write and read States. What one of them must check, it checks inside its transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

from alpineagents.errors import MovedOnError, explain
from alpineagents.store.rows import ENTRY_COLUMNS, STATE_COLUMNS, Blob, entry_row, hashes, state_row

_FIELDS = ENTRY_COLUMNS[1:]
_INSERT_ENTRY = f"INSERT INTO entries({', '.join(ENTRY_COLUMNS)}) VALUES({', '.join('?' * len(ENTRY_COLUMNS))})"
_INSERT_STATE = (
    f"INSERT INTO states({', '.join(STATE_COLUMNS)}, id, forked_from, forked_at)"
    f" VALUES({', '.join('?' * (len(STATE_COLUMNS) + 3))})"
)
# A column with an index is set only when it changes: setting it writes the pages of its index, whatever the value.
_INDEXED = ("created_at", "status", "parent_id")
_OTHERS = tuple([name for name in STATE_COLUMNS if name not in _INDEXED])
_PICK_INDEXED = itemgetter(*[STATE_COLUMNS.index(name) for name in _INDEXED])
_PICK_OTHERS = itemgetter(*[STATE_COLUMNS.index(name) for name in _OTHERS])
_UPDATE_STATE = f"UPDATE states SET {', '.join([f'{name} = ?' for name in _OTHERS])} WHERE id = ?"
_UPDATE_INDEXED = f"UPDATE states SET {', '.join([f'{name} = ?' for name in _INDEXED])} WHERE id = ?"
# Who deleted a State and made another of the same name did not continue it, however many entries the new one has.
_SAME_STATE = "(created_at = ?) IS NOT 0"
_ADVANCE_STATE = f"{_UPDATE_STATE} AND entry_count = ? AND {_SAME_STATE}"
# Most writes change none of the indexed columns. RETURNING would tell too, and takes as long as the whole UPDATE.
_ADVANCE_SAME_STATUS = f"{_ADVANCE_STATE} {' '.join([f'AND {name} IS ?' for name in _INDEXED])}"
_COUNT_AND_SAME = f"SELECT entry_count, {_SAME_STATE} FROM states WHERE id = ?"
_TOUCH_STATE = "UPDATE states SET entry_count = entry_count + ? WHERE id = ?"
_INSERT_BLOB = "INSERT OR IGNORE INTO blobs(sha256, media_type, bytes) VALUES(?, ?, ?)"
READ_STATE = f"SELECT {', '.join(_FIELDS)} FROM entries WHERE state_id = ? ORDER BY seq"
_READ_ENTRY = f"SELECT {', '.join(_FIELDS)} FROM entries WHERE state_id = ? AND seq = ?"
# A stop reason too long for its column is read from the entry that gave it.
LISTING = f"""
SELECT id, forked_from, forked_at, {", ".join([name for name in STATE_COLUMNS if name != "stop"])},
    CASE WHEN stop IS NULL AND stop_seq IS NOT NULL
        THEN (SELECT iif(json_valid(data), data -> '$.content', NULL) FROM entries
            WHERE state_id = states.id AND seq = states.stop_seq)
        ELSE stop END AS stop
FROM states"""

Run = Callable[[sqlite3.Connection, bool], None]


def write_state(state_id: str, entries: Sequence[Mapping[str, Any]], info: Mapping[str, Any], create: bool) -> Run:
    """The statements of one write, whose rows are made here, before any lock is taken."""
    blobs: list[Blob] = []
    rows = [entry_row(state_id, entry, blobs) for entry in entries]
    start: int | None = rows[0][1] if rows else None
    for before, row in pairwise(rows):
        if row[1] != before[1] + 1:
            raise ValueError(explain(f"the entries of State {state_id!r} have a gap behind seq {before[1]}"))
    count: int | None = rows[-1][1] + 1 if rows else None
    images = [(blob.sha256, blob.media_type, blob.data) for blob in blobs]
    forked = (info.get("forked_from"), info.get("forked_at"))
    created_at = getattr(entries, "created_at", None)  # what a Journal writes knows whose State it is

    def run(connection: sqlite3.Connection, again: bool) -> None:
        new = rows
        if create and not (again and _stored_count(connection, state_id) is not None):
            _insert_state(connection, state_id, state_row(info, count or 0), forked, start)
        elif count is None and created_at is not None:
            _touch(connection, state_id)
        elif count is None or not _advance(connection, state_id, state_row(info, count), (start, created_at)):
            new = _missing(connection, state_id, rows, created_at)
            if new is not None:
                _update(connection, state_id, info, count)
        if images:
            connection.executemany(_INSERT_BLOB, images)
        for row in new or ():
            connection.execute(_INSERT_ENTRY, row)

    return run


def _touch(connection: sqlite3.Connection, state_id: str) -> None:
    """Change what leaves everything as it is: a commit that changes no page would not wait for the disk."""
    for change in (1, -1):
        connection.execute(_TOUCH_STATE, (change, state_id))


def _insert_state(
    connection: sqlite3.Connection,
    state_id: str,
    row: tuple[Any, ...],
    forked: tuple[Any, Any],
    start: int | None,
) -> None:
    if start:
        raise ValueError(explain(f"the first write of State {state_id!r} starts at seq {start}, not 0"))
    if _stored_count(connection, state_id) is not None:
        raise ValueError(
            explain(
                f"a State {state_id!r} is saved already",
                "load it to go on with it, or give the new State another id",
                f"state = store.load({state_id!r})",
            )
        )
    origin, length = forked
    if origin is not None and _stored_count(connection, origin) is None:
        origin, length = None, None  # it is not in this file, so what the fork inherited counts here
    connection.execute(_INSERT_STATE, (*row, state_id, origin, length))


def _stored_count(connection: sqlite3.Connection, state_id: str) -> int | None:
    found = connection.execute("SELECT entry_count FROM states WHERE id = ?", (state_id,)).fetchone()
    return None if found is None else found[0]


def _advance(
    connection: sqlite3.Connection, state_id: str, row: tuple[Any, ...], where: tuple[int | None, str | None]
) -> bool:
    """Whether the State stood right before these entries, as it does when nobody else writes it."""
    indexed, others = _PICK_INDEXED(row), _PICK_OTHERS(row)
    if connection.execute(_ADVANCE_SAME_STATUS, (*others, state_id, *where, *indexed)).rowcount:
        return True
    if not connection.execute(_ADVANCE_STATE, (*others, state_id, *where)).rowcount:
        return False
    connection.execute(_UPDATE_INDEXED, (*indexed, state_id))
    return True


def _missing(
    connection: sqlite3.Connection, state_id: str, rows: list[tuple[Any, ...]], created_at: str | None
) -> list[tuple[Any, ...]] | None:
    """The entries that are not there yet, or `None` if all are and more came after them."""
    found = connection.execute(_COUNT_AND_SAME, (created_at, state_id)).fetchone()
    if found is None:
        raise LookupError(
            explain(
                f"State {state_id!r} is not in the file any more: it was deleted",
                "save a fork of it to keep what you have",
            )
        )
    count, same = found
    if not same:
        raise _moved_on(state_id)
    if rows and rows[0][1] > count:
        raise ValueError(
            explain(f"State {state_id!r} has {count} entries, and these start at seq {rows[0][1]}: some are missing")
        )
    for row in rows:
        if row[1] < count and connection.execute(_READ_ENTRY, (state_id, row[1])).fetchone() != row[1:]:
            raise _moved_on(state_id)
    if rows and rows[-1][1] + 1 < count:
        return None
    return [row for row in rows if row[1] >= count]


def _update(connection: sqlite3.Connection, state_id: str, info: Mapping[str, Any], count: int | None) -> None:
    total = _stored_count(connection, state_id) if count is None else count
    row = state_row(info, total or 0)
    connection.execute(_UPDATE_STATE, (*_PICK_OTHERS(row), state_id))
    connection.execute(_UPDATE_INDEXED, (*_PICK_INDEXED(row), state_id))


def _moved_on(state_id: str) -> MovedOnError:
    return MovedOnError(
        explain(
            f"State {state_id!r} has moved on in the file: another writer may be running it",
            "load it anew and go on from there; one process at a time may run a State",
            f"state = store.load({state_id!r})",
        )
    )


_TREE = """
WITH RECURSIVE tree(id) AS (
    SELECT ?
    UNION
    SELECT child.id FROM states child JOIN tree ON child.parent_id = tree.id
)
SELECT id FROM tree
"""


def delete_state(state_id: str, children: bool) -> Run:
    """The statements that remove one State, and the images nobody else has.

    Args:
        children: Whether all subagents below it go with it.
    """

    def run(connection: sqlite3.Connection, again: bool) -> None:
        ids = [id for (id,) in connection.execute(_TREE, (state_id,))] if children else [state_id]
        images = dict.fromkeys([image for id in ids for image in hashes(connection.execute(READ_STATE, (id,)))])
        for id in ids:
            connection.execute("UPDATE states SET forked_from = NULL, forked_at = NULL WHERE forked_from = ?", (id,))
            connection.execute("DELETE FROM entries WHERE state_id = ?", (id,))
            connection.execute("DELETE FROM states WHERE id = ?", (id,))
        for sha256 in images:
            connection.execute(
                "DELETE FROM blobs WHERE sha256 = ? AND NOT EXISTS (SELECT 1 FROM entries WHERE instr(data, ?))",
                (sha256, sha256),
            )

    return run
