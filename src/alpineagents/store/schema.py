"""The tables of the file, and what a file is before anything writes to it.

A migration is a named function of plain SQL. A file that is up to date is recognised by two numbers in its header, so
that only making or upgrading one loads sqlite-utils.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Literal, TypeAlias

from alpineagents.errors import explain
from alpineagents.store.views import VIEWS

if TYPE_CHECKING:
    from sqlite_utils import Database

APPLICATION_ID = 0x414C5041
USER_VERSION = 1

FileState: TypeAlias = Literal["new", "current", "older", "newer", "foreign"]

_STATES = """
CREATE TABLE states (
    id TEXT NOT NULL PRIMARY KEY,
    v INTEGER,
    parent_id TEXT,
    parent_call_id TEXT,
    forked_from TEXT REFERENCES states(id) ON DELETE SET NULL,
    forked_at INTEGER,
    agent TEXT,
    model TEXT,
    first_message TEXT,
    status TEXT,
    stopped TEXT,
    stop TEXT,
    stop_seq INTEGER,
    finished INTEGER,
    answer TEXT,
    turn INTEGER,
    entry_count INTEGER NOT NULL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cache_read_tokens INTEGER,
    cache_write_tokens INTEGER,
    requests INTEGER,
    cost REAL,
    error_count INTEGER,
    created_at TEXT,
    updated_at TEXT,
    more TEXT
) STRICT
"""

# A virtual column of a damaged row is NULL: one bad row must not make every query over the table fail. Each looks at
# `kind` first, since SQLite computes all of them for every row that is written.
_ENTRIES = """
CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    state_id TEXT NOT NULL REFERENCES states(id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    turn INTEGER NOT NULL,
    at TEXT NOT NULL,
    closes INTEGER,
    block INTEGER,
    data TEXT NOT NULL,
    original TEXT,
    tool TEXT GENERATED ALWAYS AS (
        CASE WHEN kind IN ('tool_result', 'error') AND json_valid(data) THEN data ->> '$.call.name' END
    ) VIRTUAL,
    call_id TEXT GENERATED ALWAYS AS (
        CASE WHEN kind IN ('tool_result', 'error') AND json_valid(data) THEN data ->> '$.call.id' END
    ) VIRTUAL,
    outcome TEXT GENERATED ALWAYS AS (
        CASE WHEN kind = 'tool_result' AND json_valid(data) THEN data ->> '$.outcome' END
    ) VIRTUAL,
    late INTEGER GENERATED ALWAYS AS (
        CASE WHEN kind = 'tool_result' AND json_valid(data) THEN coalesce(data ->> '$.late', 0) END
    ) VIRTUAL,
    is_error INTEGER GENERATED ALWAYS AS (
        CASE kind WHEN 'tool_result' THEN outcome <> 'done' WHEN 'error' THEN 1 END
    ) VIRTUAL,
    model TEXT GENERATED ALWAYS AS (
        CASE WHEN kind IN ('model_request', 'model_reply', 'run_start') AND json_valid(data)
            THEN iif(kind = 'model_request', data ->> '$.content', data ->> '$.content.model')
        END
    ) VIRTUAL,
    text TEXT GENERATED ALWAYS AS (
        CASE WHEN json_valid(data) THEN substr(CASE kind
            WHEN 'model_request' THEN data ->> '$.content'
            WHEN 'model_reply' THEN iif(
                json_type(data, '$.content.message.content') = 'text',
                data ->> '$.content.message.content',
                coalesce(
                    data ->> '$.content.message.content[0].text',
                    data ->> '$.content.message.content[1].text',
                    data ->> '$.content.message.content[2].text',
                    data ->> '$.content.message.content[0].name',
                    data ->> '$.content.message.content[1].name',
                    data ->> '$.content.message.content[2].name'
                )
            )
            WHEN 'ask' THEN data ->> '$.content.question'
            WHEN 'human' THEN data ->> '$.content.question'
            WHEN 'model_event' THEN data ->> '$.content.message'
            WHEN 'context_change' THEN coalesce(data ->> '$.content.summary', data ->> '$.content.kind')
            WHEN 'run_start' THEN coalesce(data ->> '$.content.name', data ->> '$.content.model')
            WHEN 'stop' THEN CASE data ->> '$.content.type'
                WHEN 'until' THEN 'stopped by ' || (data ->> '$.content.name')
                WHEN 'limit' THEN 'stopped at limit ' || (data -> '$.content.turns')
                WHEN 'finish' THEN 'stopped by finish'
                WHEN 'permission' THEN 'stopped by permission ' || (data ->> '$.content.permission')
                ELSE '(cleared)'
            END
            ELSE iif(
                json_type(data, '$.content') = 'array',
                coalesce(data ->> '$.content[0].text', data ->> '$.content[1].text', '(image)'),
                data ->> '$.content'
            )
        END, 1, 500) END
    ) VIRTUAL,
    UNIQUE (state_id, seq)
) STRICT
"""

_BLOBS = """
CREATE TABLE blobs (
    sha256 TEXT NOT NULL PRIMARY KEY,
    media_type TEXT NOT NULL,
    bytes BLOB NOT NULL
) STRICT
"""

# Every commit writes each page it touches to the WAL: for an ordinary entry its row, the UNIQUE index, one index of its
# kind and the row of its State. So an index is partial, and none is over what changes with every commit.
_INDEXES = (
    "CREATE INDEX states_created_at ON states(created_at)",
    "CREATE INDEX states_open ON states(id) WHERE status = 'open'",
    "CREATE INDEX states_parent_id ON states(parent_id) WHERE parent_id IS NOT NULL",
    "CREATE INDEX states_forked_from ON states(forked_from) WHERE forked_from IS NOT NULL",
    "CREATE INDEX entries_results ON entries(state_id, closes, block, late, tool, outcome) WHERE kind = 'tool_result'",
    "CREATE INDEX entries_failures ON entries(tool, outcome, late, state_id, seq) WHERE is_error = 1",
    "CREATE INDEX entries_replies ON entries(state_id, closes) WHERE kind = 'model_reply'",
    "CREATE INDEX entries_requests ON entries(state_id, seq) WHERE kind = 'model_request'",
    "CREATE INDEX entries_run_starts ON entries(state_id, seq) WHERE kind = 'run_start'",
    "CREATE INDEX entries_ends ON entries(state_id, seq) WHERE kind IN ('stop', 'error')",
    "CREATE INDEX entries_errors ON entries(state_id, seq, closes) WHERE kind = 'error'",
    "CREATE INDEX entries_exchanges ON entries(state_id, seq) WHERE kind IN ('ask', 'human')",
)

_HEADER = (f"PRAGMA application_id = {APPLICATION_ID}", "PRAGMA user_version = 1")


def m001(database: Database) -> None:
    """The first form: three tables, their indexes and the views."""
    for statement in (_STATES, _ENTRIES, _BLOBS, *_INDEXES, *VIEWS.values(), *_HEADER):
        database.conn.execute(statement)


_MIGRATIONS = (m001,)


def state_of_file(connection: sqlite3.Connection) -> FileState:
    """What the file is, by two numbers in its header and whether there is anything in it. It only reads.

    All in one look: between two, another process might make the tables, and the file would seem to be somebody else's.
    """
    if connection.in_transaction:
        return _look(connection)
    connection.execute("BEGIN")
    try:
        return _look(connection)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _look(connection: sqlite3.Connection) -> FileState:
    application = _number(connection, "application_id")
    version = _number(connection, "user_version")
    if application == APPLICATION_ID:
        return "current" if version == USER_VERSION else "newer" if version > USER_VERSION else "older"
    if application == 0 and connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
        return "new"
    return "foreign"


def _number(connection: sqlite3.Connection, pragma: Literal["application_id", "user_version"]) -> int:
    return connection.execute(f"PRAGMA {pragma}").fetchone()[0]


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether the tables are there, in the form this version writes."""
    return state_of_file(connection) == "current"


def refuse_foreign(connection: sqlite3.Connection, path: str) -> bool:
    """Whether there is anything of ours in the file.

    Raises:
        ValueError: It is another application's, or was written by a newer version.
    """
    state = state_of_file(connection)
    if state == "foreign":
        problem = f"{path} is a database of something else, not of alpineagents"
        raise ValueError(explain(problem, "use a file of its own for runs", 'Agent(store="runs.db")'))
    if state == "newer":
        version = _number(connection, "user_version")
        problem = f"{path} was written by a newer alpineagents: its form is {version}, this one knows {USER_VERSION}"
        raise ValueError(explain(problem, "update alpineagents", "pip install --upgrade alpineagents"))
    return state != "new"


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to the current form, all or nothing; inside an open transaction it becomes part of that."""
    from sqlite_utils import Database
    from sqlite_utils.migrations import Migrations

    migrations = Migrations("alpineagents")
    for migration in _MIGRATIONS:
        migrations(name=migration.__name__)(migration)
    database = Database(connection, recursive_triggers=False, execute_plugins=False)
    with database.atomic():
        migrations.apply(database)
