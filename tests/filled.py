"""A database in memory with States in it, written as the store writes them."""

from __future__ import annotations

import functools
import sqlite3
from typing import Any

from alpineagents.history.codec import encode
from alpineagents.history.value import Value
from alpineagents.state import State, journal_of
from alpineagents.store.info import info_of
from alpineagents.store.rows import ENTRY_COLUMNS, STATE_COLUMNS, Blob, entry_row, state_row
from alpineagents.store.schema import migrate

_STATE_NAMES = ("id", "forked_from", "forked_at", *STATE_COLUMNS)
INSERT_STATE = f"INSERT INTO states({', '.join(_STATE_NAMES)}) VALUES({', '.join('?' * len(_STATE_NAMES))})"
INSERT_ENTRY = f"INSERT INTO entries({', '.join(ENTRY_COLUMNS)}) VALUES({', '.join('?' * len(ENTRY_COLUMNS))})"


@functools.cache
def _made() -> bytes:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    return connection.serialize()


def empty() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(_made())
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def holding(*states: State) -> sqlite3.Connection:
    connection = empty()
    for state in states:
        keep(connection, state)
    return connection


def keep(connection: sqlite3.Connection, state: State, *, forked_from: State | None = None, at: int = 0) -> None:
    """Write a whole State, or one that was forked from another at its first `at` entries."""
    now: Value = journal_of(state).now
    forked = (None, None) if forked_from is None else (forked_from.id, at)
    info = info_of(now, None if forked_from is None else (forked_from.id, at))
    connection.execute(INSERT_STATE, (state.id, *forked, *state_row(info, len(now.history))))
    blobs: list[Blob] = []
    for seq, entry in enumerate(now.history):
        connection.execute(INSERT_ENTRY, entry_row(state.id, encode(entry, seq, now.closings[seq]), blobs))
    for blob in blobs:
        connection.execute("INSERT OR IGNORE INTO blobs VALUES(?, ?, ?)", (blob.sha256, blob.media_type, blob.data))


def rows(connection: sqlite3.Connection, query: str, *values: Any) -> list[tuple[Any, ...]]:
    return connection.execute(query, values).fetchall()


def row(connection: sqlite3.Connection, query: str, *values: Any) -> tuple[Any, ...]:
    (only,) = rows(connection, query, *values)
    return only
