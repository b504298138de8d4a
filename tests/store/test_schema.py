from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from strategies import ENTRIES

from alpineagents.history.codec import encode
from alpineagents.history.entries import (
    ContextChange,
    ContextChangeEntry,
    ErrorEntry,
    ExchangeEntry,
    ExtraDataEntry,
    HistoryEntry,
    MessageEntry,
    ModelEventEntry,
    ModelReplyEntry,
    ModelRequestEntry,
    RunStartEntry,
    StopEntry,
    ToolResultEntry,
)
from alpineagents.store.derived import GENERATED, generated
from alpineagents.store.rows import ENTRY_COLUMNS, clean, entry_row
from alpineagents.store.schema import (
    APPLICATION_ID,
    USER_VERSION,
    is_current,
    migrate,
    refuse_foreign,
    state_of_file,
)
from alpineagents.types import (
    AgentInfo,
    Exchange,
    Image,
    Message,
    ModelEvent,
    RawBlock,
    Reply,
    StoppedByFinish,
    StoppedByLimit,
    StoppedByPermission,
    StoppedByUntil,
    TextBlock,
    ToolCall,
    ToolOutcomeKind,
    Usage,
)

AT = datetime(2026, 11, 30, 21, 41, 52, 123456, tzinfo=UTC)
PNG = Image(b"\x89PNG\r\n\x1a\n")
READ = ToolCall("read", {"path": "a.py"}, "c1")
INSERT = f"INSERT INTO entries({', '.join(ENTRY_COLUMNS)}) VALUES({', '.join('?' * len(ENTRY_COLUMNS))})"


def opened(path: str | Path = ":memory:") -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


@pytest.fixture
def made() -> Iterator[sqlite3.Connection]:
    connection = opened()
    migrate(connection)
    connection.execute("INSERT INTO states(id, entry_count) VALUES('run', 0)")
    yield connection
    connection.close()


def insert(connection: sqlite3.Connection, entry: HistoryEntry, seq: int = 0) -> None:
    connection.execute(INSERT, entry_row("run", encode(entry, seq), []))


def damage(connection: sqlite3.Connection, data: str, kind: str = "tool_result", seq: int = 0) -> None:
    row = ("run", seq, kind, 1, AT.isoformat(), None, None, data, None)
    connection.execute(INSERT, row)


def columns(connection: sqlite3.Connection, *names: str) -> tuple[Any, ...]:
    return connection.execute(f"SELECT {', '.join(names)} FROM entries").fetchone()


def plan(connection: sqlite3.Connection, query: str) -> str:
    return "\n".join([row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}")])


# What a file is.


def test_a_made_file_says_whose_it_is_and_in_which_form(made: sqlite3.Connection) -> None:
    assert made.execute("PRAGMA application_id").fetchone() == (0x414C5041,)
    assert made.execute("PRAGMA user_version").fetchone() == (1,)
    assert state_of_file(made) == "current"


def test_the_migrations_have_a_table_of_their_own(made: sqlite3.Connection) -> None:
    applied = made.execute("SELECT migration_set, name FROM _sqlite_migrations").fetchall()
    assert applied == [("alpineagents", "m001")]


def test_migrating_again_changes_nothing(made: sqlite3.Connection) -> None:
    before = made.execute("SELECT * FROM sqlite_master").fetchall()
    migrate(made)
    assert made.execute("SELECT * FROM sqlite_master").fetchall() == before


def test_migrating_belongs_to_the_open_transaction() -> None:
    connection = opened()
    connection.execute("BEGIN IMMEDIATE")
    migrate(connection)
    connection.execute("ROLLBACK")
    assert state_of_file(connection) == "new"


def test_a_migration_that_fails_leaves_nothing(tmp_path: Path) -> None:
    connection = opened(tmp_path / "runs.db")

    def refuse_blobs(action: int, name: str | None, *_: object) -> int:
        return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_CREATE_TABLE and name == "blobs" else sqlite3.SQLITE_OK

    connection.set_authorizer(refuse_blobs)
    with pytest.raises(sqlite3.DatabaseError):
        migrate(connection)
    connection.set_authorizer(None)
    assert state_of_file(connection) == "new"


def test_an_empty_file_is_new(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.touch()
    assert state_of_file(opened(path)) == "new"


def test_a_database_without_any_table_is_new(tmp_path: Path) -> None:
    connection = opened(tmp_path / "runs.db")
    connection.executescript("CREATE TABLE t(x); DROP TABLE t;")
    assert connection.execute("PRAGMA page_count").fetchone() > (0,)
    assert state_of_file(connection) == "new"


def test_a_database_with_other_tables_is_foreign() -> None:
    connection = opened()
    connection.execute("CREATE TABLE states(id)")
    assert state_of_file(connection) == "foreign"


def test_a_database_marked_by_another_application_is_foreign_even_without_tables() -> None:
    connection = opened()
    connection.execute("PRAGMA application_id = 17")
    assert state_of_file(connection) == "foreign"


@pytest.mark.parametrize(("version", "state"), [(0, "older"), (USER_VERSION + 1, "newer")])
def test_the_version_tells_older_and_newer_files(made: sqlite3.Connection, version: int, state: str) -> None:
    made.execute(f"PRAGMA user_version = {version}")
    assert state_of_file(made) == state
    assert not is_current(made)


def test_a_foreign_file_is_refused_and_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    connection = opened(path)
    connection.execute("CREATE TABLE notes(text)")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"something else, not of alpineagents\nFix: "):
        refuse_foreign(connection, str(path))
    assert path.read_bytes() == before


def test_a_newer_file_is_refused_with_both_versions(made: sqlite3.Connection) -> None:
    made.execute("PRAGMA user_version = 7")
    with pytest.raises(ValueError, match="its form is 7, this one knows 1"):
        refuse_foreign(made, "runs.db")


def test_nothing_is_refused_that_is_ours_or_new(made: sqlite3.Connection) -> None:
    assert refuse_foreign(made, "runs.db") is True
    assert refuse_foreign(opened(), "runs.db") is False


def test_a_file_that_is_up_to_date_is_recognised_without_sqlite_utils(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    migrate(opened(path))
    code = (
        "import sqlite3, sys; from alpineagents.store.schema import is_current\n"
        f"print(is_current(sqlite3.connect({str(path)!r})), 'sqlite_utils' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["True", "False"]


# The tables.


def test_all_tables_are_strict(made: sqlite3.Connection) -> None:
    tables = made.execute("SELECT name, strict FROM pragma_table_list WHERE name IN ('states', 'entries', 'blobs')")
    assert sorted(tables) == [("blobs", 1), ("entries", 1), ("states", 1)]


def test_a_generated_column_takes_no_room_in_the_row(made: sqlite3.Connection) -> None:
    virtual = made.execute("SELECT name FROM pragma_table_xinfo('entries') WHERE hidden = 2").fetchall()
    assert {name for (name,) in virtual} == set(GENERATED)


def test_a_place_in_a_history_is_taken_once(made: sqlite3.Connection) -> None:
    insert(made, MessageEntry(kind="user", content="Go", turn=0, at=AT))
    with pytest.raises(sqlite3.IntegrityError, match=r"UNIQUE.*state_id.*seq"):
        insert(made, MessageEntry(kind="user", content="Go", turn=0, at=AT))


def test_the_entries_of_a_state_go_with_it(made: sqlite3.Connection) -> None:
    insert(made, MessageEntry(kind="user", content="Go", turn=0, at=AT))
    made.execute("DELETE FROM states")
    assert made.execute("SELECT count(*) FROM entries").fetchone() == (0,)


def test_the_forks_of_a_deleted_state_stay(made: sqlite3.Connection) -> None:
    made.execute("INSERT INTO states(id, entry_count, forked_from, forked_at) VALUES('fork', 0, 'run', 0)")
    made.execute("DELETE FROM states WHERE id = 'run'")
    assert made.execute("SELECT id, forked_from FROM states").fetchall() == [("fork", None)]


# What the generated columns show.


def result(content: Any, outcome: str = "done", late: bool = False) -> ToolResultEntry:
    return ToolResultEntry(content=content, call=READ, outcome=ToolOutcomeKind(outcome), late=late, turn=1, at=AT)


def reply(*blocks: Any) -> ModelReplyEntry:
    return ModelReplyEntry(content=Reply(Message("assistant", blocks), Usage(), model="large-1"), turn=1, at=AT)


def change(kind: Any, **fields: Any) -> ContextChangeEntry:
    return ContextChangeEntry(content=ContextChange(kind, 1, 1, **fields), turn=1, at=AT)


TEXTS: list[tuple[HistoryEntry, str | None]] = [
    (MessageEntry(kind="user", content="Find the bug", turn=0, at=AT), "Find the bug"),
    (MessageEntry(kind="user", content=(PNG, TextBlock("What is this?")), turn=0, at=AT), "What is this?"),
    (MessageEntry(kind="user", content=(PNG,), turn=0, at=AT), "(image)"),
    (ModelRequestEntry(content="acme/large", turn=1, at=AT), "acme/large"),
    (reply(TextBlock("Fixed.")), "Fixed."),
    (reply(RawBlock("acme", {"text": "thinking"}), TextBlock("I look."), READ), "I look."),
    (reply(RawBlock("acme", {}), READ), "read"),
    (reply(), None),
    (ModelEventEntry(content=ModelEvent("retry", "again in 2 s"), turn=1, at=AT), "again in 2 s"),
    (result("3 lines"), "3 lines"),
    (result((TextBlock("a chart"), PNG)), "a chart"),
    (ExchangeEntry(kind="ask", content=Exchange("Which?", "This"), turn=1, at=AT), "Which?"),
    (ExchangeEntry(kind="human", content=Exchange("May I?", True), turn=1, at=AT), "May I?"),
    (change("compact", summary="It was long."), "It was long."),
    (change("restore", restored_to=3), "restore"),
    (RunStartEntry(content=AgentInfo(name="coder", model="acme/large"), turn=0, at=AT), "coder"),
    (RunStartEntry(content=AgentInfo(model="acme/large"), turn=0, at=AT), "acme/large"),
    (StopEntry(content=StoppedByUntil("answered"), turn=1, at=AT), "stopped by answered"),
    (StopEntry(content=StoppedByLimit(3), turn=1, at=AT), "stopped at limit 3"),
    (StopEntry(content=StoppedByFinish({"ok": True}), turn=1, at=AT), "stopped by finish"),
    (StopEntry(content=StoppedByPermission(READ, "Deny()"), turn=1, at=AT), "stopped by permission Deny()"),
    (StopEntry(content=None, turn=1, at=AT), "(cleared)"),
    (ExtraDataEntry(content={"n": 1, "t": "é"}, turn=1, at=AT), '{"n":1,"t":"é"}'),
    (ErrorEntry(content="OSError: gone", turn=1, at=AT), "OSError: gone"),
]


@pytest.mark.parametrize(("entry", "text"), TEXTS)
def test_text_is_what_a_person_would_read_first(
    made: sqlite3.Connection, entry: HistoryEntry, text: str | None
) -> None:
    insert(made, entry)
    assert columns(made, "text") == (text,)


def test_text_has_at_most_500_characters(made: sqlite3.Connection) -> None:
    insert(made, MessageEntry(kind="user", content="\U0001f3d4" * 501, turn=0, at=AT))
    assert columns(made, "text") == ("\U0001f3d4" * 500,)


@pytest.mark.parametrize("outcome", list(ToolOutcomeKind))
def test_a_result_shows_its_call_and_how_it_ended(made: sqlite3.Connection, outcome: str) -> None:
    insert(made, result("x", outcome))
    shown = columns(made, "tool", "call_id", "outcome", "is_error", "late")
    assert shown == ("read", "c1", outcome, int(outcome != "done"), 0)


def test_a_late_result_is_marked(made: sqlite3.Connection) -> None:
    insert(made, result("x", late=True))
    assert columns(made, "late") == (1,)


def test_an_error_is_an_error_and_shows_the_call_concerned(made: sqlite3.Connection) -> None:
    insert(made, ErrorEntry(content="KeyError: 'x'", call=READ, turn=1, at=AT))
    assert columns(made, "is_error", "tool", "call_id", "outcome") == (1, "read", "c1", None)


@pytest.mark.parametrize(
    ("entry", "model"),
    [
        (ModelRequestEntry(content="acme/large", turn=1, at=AT), "acme/large"),
        (reply(TextBlock("x")), "large-1"),
        (RunStartEntry(content=AgentInfo(model="acme/large"), turn=0, at=AT), "acme/large"),
        (MessageEntry(kind="user", content="x", turn=0, at=AT), None),
    ],
)
def test_model_is_there_where_a_model_is_named(
    made: sqlite3.Connection, entry: HistoryEntry, model: str | None
) -> None:
    insert(made, entry)
    assert columns(made, "model", "is_error") == (model, None)


def as_sql(value: Any) -> Any:
    return clean(value).partition("\0")[0] if isinstance(value, str) else value


@pytest.mark.parametrize("cls", ENTRIES)
def test_python_says_of_every_entry_what_sqlite_shows(cls: type[Any]) -> None:
    connection = opened()
    migrate(connection)
    connection.execute("INSERT INTO states(id, entry_count) VALUES('run', 0)")

    @given(ENTRIES[cls])
    def compare(entry: Any) -> None:
        connection.execute("DELETE FROM entries")
        insert(connection, entry)
        shown = [as_sql(value) for value in columns(connection, *GENERATED)]
        assert shown == [as_sql(value) for value in generated(encode(entry, 0))]

    compare()


@pytest.mark.parametrize("kind", ["user", "model_request", "model_reply", "tool_result", "run_start", "stop", "error"])
@pytest.mark.parametrize("data", ["", "{", "nonsense", "null", "[]", '"text"', "{}", '{"content": 7, "call": []}'])
def test_a_damaged_row_breaks_no_query(made: sqlite3.Connection, kind: str, data: str) -> None:
    damage(made, data, kind)
    insert(made, result("fine"), seq=1)
    rows = made.execute("SELECT seq, text FROM entries WHERE tool IS 'read' OR model = 'x' ORDER BY seq").fetchall()
    assert rows == [(1, "fine")]
    assert made.execute("SELECT count(*) FROM entries WHERE text IS NOT 'other'").fetchone() == (2,)


# What queries cost.

PLANS = [
    ("SELECT id, status FROM states ORDER BY created_at DESC LIMIT 20", "SCAN states USING INDEX states_created_at"),
    ("SELECT id FROM states WHERE status = 'open'", "states_open"),
    ("SELECT id FROM states WHERE parent_id = 'x'", "states_parent_id"),
    ("SELECT id FROM states WHERE forked_from = 'x'", "states_forked_from"),
    ("SELECT tool, count(*) FROM entries WHERE is_error = 1 GROUP BY tool", "entries_failures"),
    (
        "SELECT tool, outcome, count(*) FROM entries WHERE kind = 'tool_result' GROUP BY tool, outcome",
        "entries_results",
    ),
    ("SELECT * FROM entries WHERE kind = 'error'", "entries_errors"),
    ("SELECT * FROM entries WHERE kind = 'run_start'", "entries_run_starts"),
    ("SELECT * FROM entries WHERE kind IN ('ask', 'human')", "entries_exchanges"),
    ("SELECT * FROM entries WHERE state_id = 'x' ORDER BY seq", "sqlite_autoindex_entries_1 (state_id=?)"),
    ("SELECT max(id) FROM entries", "SEARCH entries"),
]


@pytest.mark.parametrize(("query", "index"), PLANS)
def test_a_usual_query_has_its_index(made: sqlite3.Connection, query: str, index: str) -> None:
    told = plan(made, query)
    assert index in told
    assert "ORDER BY" not in told


def test_failures_by_tool_are_counted_in_the_index_alone(made: sqlite3.Connection) -> None:
    query = "SELECT tool, outcome, late, count(*) FROM entries WHERE is_error = 1 GROUP BY tool, outcome, late"
    insert(made, result("x", "error"))
    root = made.execute("SELECT rootpage FROM sqlite_master WHERE name = 'entries'").fetchone()[0]
    # Each step of the program that reads a column of the table itself would have to be one of its cursor.
    program = made.execute(f"EXPLAIN {query}").fetchall()
    cursor = next(step[2] for step in program if step[1] == "OpenRead" and step[3] == root)
    assert not [step for step in program if step[1] == "Column" and step[2] == cursor]


def test_one_result_writes_four_pages(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    connection = opened(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    migrate(connection)
    for run in range(200):
        connection.execute(
            "INSERT INTO states(id, entry_count, status, first_message, created_at) VALUES(?, 0, 'open', ?, ?)",
            (f"run-{run}", "x" * 200, AT.isoformat()),
        )
    sizes: list[int] = []
    for number in range(600):
        before = os.path.getsize(f"{path}-wal")
        data = encode(result("x" * 300), number // 200)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(INSERT, entry_row(f"run-{number % 200}", {**data, "closes": number, "block": 0}, []))
        connection.execute("UPDATE states SET entry_count = ?, turn = 1 WHERE id = ?", (number, f"run-{number % 200}"))
        connection.execute("COMMIT")
        sizes.append(os.path.getsize(f"{path}-wal") - before)
    # A page that is full is split now and then; the ordinary commit has the row, two indexes and the row of its State.
    assert sorted(sizes)[len(sizes) // 2] == 4 * (4096 + 24)


def test_the_application_id_reads_alpa() -> None:
    assert APPLICATION_ID.to_bytes(4, "big") == b"ALPA"


def test_data_can_be_queried_with_the_json_functions(made: sqlite3.Connection) -> None:
    insert(made, result("3 lines"))
    assert json.loads(columns(made, "data ->> '$.call.args'")[0]) == {"path": "a.py"}
