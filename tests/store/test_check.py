from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import histories as h
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import states

from alpineagents.history import wording
from alpineagents.state import State
from alpineagents.store import Problem, SqliteStore, check
from alpineagents.types import Image, Message, StoppedByUntil, TextBlock, ToolOutcomeKind

PNG = Image(b"\x89PNG\r\n\x1a\n" + bytes(9))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def full_state() -> State:
    """A State with every kind of entry that has derived columns."""
    state = State(id="run", messages=[Message.user("Go", PNG)])
    h.run_start(state, "coder", parent="boss", call="c9")
    h.think(state, "I look.", h.READ, h.LIST)
    h.result(state, h.READ, (TextBlock("a chart"), PNG))
    h.result(state, h.LIST, wording.INTERRUPTED, h.INTERRUPTED)
    h.result(state, h.LIST, "late", late=True)
    h.request(state)
    h.fail(state, TimeoutError("no reply"))
    h.think(state, "Done.")
    h.stop(state, StoppedByUntil("answered"))
    return state


def saved(path: Path, *states: State) -> None:
    with SqliteStore(path) as store:
        for state in states or [full_state()]:
            store.save(state)


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def change(path: Path, statement: str, *values: Any) -> None:
    with opened(path) as connection:
        connection.execute(statement, values)


def problems(path: Path) -> list[str]:
    return [str(problem) for problem in check(path)]


# Files without a problem.


def test_a_saved_run_has_no_problem(path: Path) -> None:
    saved(path)
    assert check(path) == []


def test_a_state_without_history_has_no_problem(path: Path) -> None:
    saved(path, State())
    assert check(path) == []


def test_a_file_is_checked_while_a_store_writes_it(path: Path) -> None:
    with SqliteStore(path) as store:
        state = full_state()
        store.save(state)
        state.add_message(Message.user("More"))
        assert check(path) == []


def test_an_empty_file_has_no_problem(path: Path) -> None:
    path.touch()
    assert check(path) == []


def test_a_fork_has_no_problem(path: Path) -> None:
    with SqliteStore(path) as store:
        state = full_state()
        store.save(state)
        fork = state.fork()
        fork.add_message(Message.user("Another way"))
        store.save(fork)
    assert check(path) == []


def test_an_interrupted_run_that_was_saved_as_it_stood_has_no_problem(path: Path) -> None:
    saved(path, h.waiting(), h.pending(h.READ, h.LIST))
    assert check(path) == []


def test_an_info_with_keys_of_its_own_has_no_problem(path: Path) -> None:
    class Labelled(SqliteStore):
        def write(self, state_id: str, entries: Any, info: Any, *, create: bool = False) -> None:
            super().write(state_id, entries, {**info, "label": "red"}, create=create)

    with Labelled(path) as store:
        store.save(full_state())
    assert check(path) == []


@settings(max_examples=20)
@given(st.lists(states(), min_size=1, max_size=5))
def test_no_history_that_was_saved_has_a_problem(tmp_path_factory: pytest.TempPathFactory, lives: list[State]) -> None:
    path = tmp_path_factory.mktemp("saved") / "runs.db"
    saved(path, *lives)
    assert problems(path) == []


def test_checking_writes_nothing(path: Path) -> None:
    saved(path)
    before = path.read_bytes()
    check(path)
    assert path.read_bytes() == before


# Files that cannot be checked.


def test_a_file_that_is_not_there_is_an_error_and_is_not_made(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        check(path)
    assert not path.exists()


def test_a_database_of_something_else_is_refused(path: Path) -> None:
    change(path, "CREATE TABLE notes(text)")
    with pytest.raises(ValueError, match="something else"):
        check(path)


def test_what_is_no_database_is_refused(path: Path) -> None:
    path.write_text("not a database, but long enough to have a header of its own" * 20)
    with pytest.raises(ValueError, match="not a database"):
        check(path)


# Derived columns that say something else than the entries.

WRONG_COLUMNS = [
    ("status", "'failed'", "status is 'failed', should be 'answered'"),
    ("agent", "'writer'", "agent is 'writer', should be 'coder'"),
    ("model", "NULL", "model is None, should be 'acme/large'"),
    ("parent_id", "'x'", "parent_id is 'x', should be 'boss'"),
    ("parent_call_id", "NULL", "parent_call_id is None, should be 'c9'"),
    ("first_message", "'Stop'", "first_message is 'Stop', should be 'Go'"),
    ("stopped", "'stopped by limit'", "stopped is 'stopped by limit', should be 'stopped by answered'"),
    ("stop", "NULL", 'stop is None, should be \'{"type":"until","name":"answered"}\''),
    ("stop_seq", "3", "stop_seq is 3, should be 11"),
    ("finished", "1", "finished is 1, should be False"),
    ("answer", "NULL", "answer is None, should be 'Done.'"),
    ("turn", "7", "turn is 7, should be 2"),
    ("entry_count", "3", "entry_count is 3, should be 12"),
    ("input_tokens", "1", "input_tokens is 1, should be 20"),
    ("output_tokens", "1", "output_tokens is 1, should be 4"),
    ("cache_read_tokens", "1", "cache_read_tokens is 1, should be 0"),
    ("cache_write_tokens", "1", "cache_write_tokens is 1, should be 0"),
    ("requests", "1", "requests is 1, should be 2"),
    ("cost", "0.25", "cost is 0.25, should be 1.0"),
    ("error_count", "0", "error_count is 0, should be 1"),
]


@pytest.mark.parametrize(("column", "value", "problem"), WRONG_COLUMNS)
def test_a_wrong_column_of_a_state_is_found(path: Path, column: str, value: str, problem: str) -> None:
    saved(path)
    change(path, f"UPDATE states SET {column} = {value}")
    assert problems(path) == [f"State 'run': {problem}"]


@pytest.mark.parametrize("column", ["created_at", "updated_at"])
def test_a_wrong_time_of_a_state_is_found(path: Path, column: str) -> None:
    saved(path)
    change(path, f"UPDATE states SET {column} = '2026-01-01T00:00:00.000000+00:00'")
    (problem,) = problems(path)
    assert problem.startswith(f"State 'run': {column} is '2026-01-01T00:00:00.000000+00:00', should be ")


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("forked_at = 3", "forked_from is None, but forked_at is 3"),
        ("forked_from = 'run', forked_at = 13", "forked_at is 13, but it has 12 entries"),
    ],
)
def test_a_fork_that_cannot_be_is_found(path: Path, statement: str, problem: str) -> None:
    saved(path)
    change(path, f"UPDATE states SET {statement}")
    assert problems(path) == [f"State 'run': {problem}"]


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("SET closes = 4 WHERE seq = 3", "entry 3: closes is 4, should be 2"),
        ("SET closes = NULL WHERE seq = 8", "entry 8: closes is None, should be 7"),
        ("SET block = 2 WHERE seq = 4", "entry 4: block is 2, should be 1"),
        ("SET closes = 1 WHERE seq = 0", "entry 0: closes is 1, should be None"),
    ],
)
def test_a_wrong_link_of_an_entry_is_found(path: Path, statement: str, problem: str) -> None:
    saved(path)
    change(path, f"UPDATE entries {statement}")
    assert problems(path) == [f"State 'run', {problem}"]


def test_a_generated_column_with_another_meaning_is_found(path: Path) -> None:
    saved(path)
    with opened(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'stopped by finish', 'x') WHERE name = 'entries'"
        )
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'stopped by '' ||', 'stop '' ||') WHERE name = 'entries'"
        )
    (problem,) = problems(path)
    assert problem == "State 'run', entry 11: text is 'stop answered', should be 'stopped by answered'"


# Damage.


def test_a_row_that_is_no_json_is_found_and_the_rest_is_checked(path: Path) -> None:
    other = h.pending(h.READ)
    saved(path, full_state(), other)
    change(path, "UPDATE entries SET data = '{' WHERE state_id = 'run' AND seq = 4")
    change(path, "UPDATE states SET turn = 9 WHERE id = ?", other.id)
    assert [(p.state_id, p.seq) for p in check(path)] == [("run", 4), (other.id, None)]


def test_an_entry_of_an_unknown_kind_is_found(path: Path) -> None:
    saved(path)
    change(path, "UPDATE entries SET kind = 'dream' WHERE seq = 6")
    (problem,) = check(path)
    assert (problem.state_id, problem.seq) == ("run", 6)
    assert "dream" in problem.problem


def test_every_damaged_entry_of_a_state_is_found(path: Path) -> None:
    saved(path)
    change(path, "UPDATE entries SET data = '[]' WHERE seq IN (2, 5)")
    assert [problem.seq for problem in check(path)] == [2, 5]


def test_a_missing_entry_is_found(path: Path) -> None:
    saved(path)
    change(path, "DELETE FROM entries WHERE seq = 6")
    assert problems(path) == ["State 'run', entry 7: the entry before it should be 6, and is 5"]


def test_an_entry_that_cannot_follow_is_found(path: Path) -> None:
    saved(path)
    change(path, "UPDATE entries SET kind = 'model_request', data = '{\"content\":\"m\"}' WHERE seq = 3")
    (problem,) = check(path)
    assert problem.seq == 3
    assert problem.problem.startswith("it cannot follow the entries before it: ")


def test_entries_missing_at_the_end_are_found(path: Path) -> None:
    saved(path)
    change(path, "DELETE FROM entries WHERE seq > 9")
    assert "State 'run': entry_count is 12, should be 10" in problems(path)


def test_a_missing_image_is_found_where_it_is_used(path: Path) -> None:
    saved(path)
    change(path, "DELETE FROM blobs")
    found = check(path)
    assert [problem.seq for problem in found] == [0, 4]
    assert all("is not in the file" in problem.problem for problem in found)


def test_other_bytes_under_the_name_of_an_image_are_found(path: Path) -> None:
    saved(path)
    change(path, "UPDATE blobs SET bytes = x'00'")
    (problem,) = check(path)
    assert problem.state_id is None
    assert "are not those it is named after" in problem.problem


def test_data_that_is_not_utf_8_is_found(path: Path) -> None:
    saved(path)
    change(path, "UPDATE entries SET data = CAST(x'7B22636F6E74656E74223A22FF227D' AS TEXT) WHERE seq = 2")
    assert check(path) == [Problem("run", 2, "data is not UTF-8")]


def test_data_that_does_not_say_what_its_original_says_is_found(path: Path) -> None:
    saved(path, State(id="odd", messages=[Message.user("caf\udce9")]))
    change(path, "UPDATE entries SET data = replace(data, 'caf', 'bar')")
    (problem,) = check(path)
    assert (problem.seq, problem.problem) == (0, "data and original do not say the same")


def test_an_entry_without_its_state_is_found(path: Path) -> None:
    saved(path)
    change(path, "DELETE FROM states")  # foreign keys are off, so the entries stay
    assert "row 1 of entries refers to a row of states that is not there" in problems(path)


def test_a_damaged_page_is_found(path: Path) -> None:
    saved(path)
    with opened(path) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'entries'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(100))
    assert any("SQLite says: " in problem for problem in problems(path))


def test_an_index_that_lacks_a_row_is_found(path: Path) -> None:
    saved(path)
    with opened(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'is_error = 1', 'is_error = 0') WHERE name LIKE '%failures'"
        )
    assert any(problem.startswith("SQLite says: ") for problem in problems(path))


def test_a_problem_reads_as_a_line() -> None:
    assert str(Problem(None, None, "bad")) == "bad"
    assert str(Problem("run", None, "bad")) == "State 'run': bad"
    assert str(Problem("run", 3, "bad")) == "State 'run', entry 3: bad"


def test_the_outcome_of_a_call_counts_in_its_columns(path: Path) -> None:
    state = h.pending(h.READ)
    h.result(state, h.READ, "no", ToolOutcomeKind.DENIED)
    saved(path, state)
    assert check(path) == []
