from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import histories
import pytest
from contracts.store import ListingContract, assert_same, info, messages

from alpineagents import Agent, State, tool
from alpineagents.history import rules
from alpineagents.state import journal_of
from alpineagents.store import SqliteStore, Store, check, schema
from alpineagents.store.files import file_at
from alpineagents.testing import FakeModel, tool_call
from alpineagents.types import Image, Message, ModelEvent, StoppedByLimit, TextBlock


class TestSqliteStore(ListingContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with SqliteStore(tmp_path / "runs.db") as store:
            yield store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path) as store:
        yield store


@pytest.fixture
def bound(store: SqliteStore) -> State:
    state = State(id="a", messages=[Message.user("Go")])
    store.save(state)
    return state


def rows(path: Path, query: str = "SELECT kind FROM entries WHERE state_id = 'a' ORDER BY seq") -> list[Any]:
    """What another connection sees."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    found = connection.execute(query).fetchall()
    connection.close()
    return [row[0] if len(row) == 1 else row for row in found]


def agent_of(*replies: Any, **settings: Any) -> Agent:
    return Agent(FakeModel(replies), reporter=None, human=None, **settings)


# The object.


@pytest.mark.parametrize("given", [None, 5, b"runs.db", ["runs.db"]])
def test_what_is_no_path_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="path"):
        SqliteStore(given)


@pytest.mark.parametrize("given", ["", "  ", ":memory:", "a\0b"])
def test_a_path_that_can_be_no_file_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match=r"path|file"):
        SqliteStore(given)


@pytest.mark.parametrize("given", ["off", "FULL", None, True])
def test_synchronous_is_one_of_two_words(path: Path, given: Any) -> None:
    with pytest.raises(ValueError, match='"full" or "normal"'):
        SqliteStore(path, synchronous=given)


def test_stores_of_one_file_are_equal_however_it_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    path.with_name("link.db").symlink_to(path)
    named = [SqliteStore(name) for name in (path, str(path), "runs.db", "./runs.db", "link.db")]
    assert all(store == named[0] for store in named)
    assert len({hash(store) for store in named}) == 1
    assert named[0] != SqliteStore("other.db")
    assert named[0] != "runs.db"


def test_the_name_is_resolved_when_the_store_is_made(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with SqliteStore("runs.db") as store:
        monkeypatch.chdir("/")
        store.save(State())
    assert path.exists()


def test_the_repr_shows_the_path_as_it_was_given() -> None:
    assert repr(SqliteStore("runs.db")) == "SqliteStore('runs.db')"
    assert str(SqliteStore("runs.db").path) == "runs.db"


def test_a_subclass_shows_its_own_name() -> None:
    class Mine(SqliteStore):
        pass

    assert repr(Mine("runs.db")) == "Mine('runs.db')"


def test_a_state_loaded_with_one_store_is_saved_with_another_of_the_same_file(path: Path, bound: State) -> None:
    loaded = SqliteStore(path).load("a")
    histories.think(loaded, "x")
    SqliteStore(str(path)).save(loaded)
    assert rows(path) == ["context_change", "model_request", "model_reply"]


def test_an_agent_given_the_path_twice_has_one_store(path: Path) -> None:
    assert agent_of(store=str(path)).store == agent_of(store=path).store


# Write-through: an entry is in the file when the call that recorded it returns.


def edit(state: State) -> None:
    with state.edit_extra_data() as data:
        data["a"] = 1


COMMANDS: dict[str, tuple[Callable[[State], object], list[str]]] = {
    "add_message": (lambda state: state.add_message(Message.user("x")), ["user"]),
    "a notice": (lambda state: state.add_message(Message.notice("x")), ["notice"]),
    "finish": (lambda state: state.finish(5), ["stop"]),
    "compact": (lambda state: state.compact("so far"), ["context_change"]),
    "restore": (lambda state: state.restore(state.snapshot()), ["context_change"]),
    "edit_extra_data": (edit, ["extra_data"]),
}


@pytest.mark.parametrize(("command", "kinds"), COMMANDS.values(), ids=COMMANDS)
def test_what_a_command_recorded_is_in_the_file_when_it_returns(
    path: Path, bound: State, command: Callable[[State], object], kinds: list[str]
) -> None:
    command(bound)
    assert rows(path) == ["context_change", *kinds]
    assert rows(path, "SELECT entry_count FROM states") == [2]


def test_clearing_results_is_in_the_file_when_it_returns(path: Path, bound: State) -> None:
    histories.think(bound, histories.READ)
    histories.result(bound, histories.READ)
    bound.clear_tool_results(0)
    assert rows(path)[-1] == "context_change"


def test_a_state_that_was_never_saved_is_in_memory_only(store: SqliteStore, path: Path) -> None:
    state = histories.started()
    state.add_message(Message.user("x"))
    state.fork().add_message(Message.user("y"))
    assert not path.exists()


@pytest.mark.parametrize("copied", [State.fork, lambda state: State(history=state.history)])
def test_a_fork_or_copy_of_a_bound_state_is_in_memory_only(
    path: Path, bound: State, copied: Callable[[State], State]
) -> None:
    copied(bound).add_message(Message.user("x"))
    assert rows(path, "SELECT id FROM states") == ["a"]


def test_a_bound_state_is_written_also_by_an_agent_without_a_store(path: Path, bound: State, act: Any) -> None:
    act(agent_of("Hello"), "think", bound)
    assert rows(path) == ["context_change", "model_request", "model_reply"]
    bound.add_message(Message.user("More"))
    act(agent_of("Hello again"), "run", bound)
    assert rows(path)[3:] == ["user", "run_start", "model_request", "model_reply", "stop"]


def test_the_request_is_in_the_file_while_the_model_works(path: Path, bound: State, act: Any) -> None:
    seen: list[list[str]] = []

    def reply(request: object) -> str:
        seen.append(rows(path))
        return "Hello"

    act(agent_of(reply), "think", bound)
    assert seen == [["context_change", "model_request"]]


def test_the_reply_and_earlier_results_are_in_the_file_while_a_tool_runs(path: Path, bound: State, act: Any) -> None:
    seen: list[list[str]] = []

    @tool(parallel=False)
    def look() -> str:
        """Look."""
        seen.append(rows(path)[1:])
        return "x"

    act(agent_of([tool_call("look"), tool_call("look")], "Done", tools=[look]), "run", bound)
    asked = ["run_start", "model_request", "model_reply"]
    assert seen == [asked, [*asked, "tool_result"]]


def test_a_run_that_fails_is_in_the_file_whole(path: Path, bound: State, act: Any) -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise ZeroDivisionError("a mistake")

    with pytest.raises(ZeroDivisionError):
        act(agent_of(tool_call("fail"), tools=[fail]), "run", bound)
    assert rows(path)[1:] == ["run_start", "model_request", "model_reply", "error", "tool_result"]


def test_what_one_change_records_together_is_committed_together(path: Path, bound: State, store: SqliteStore) -> None:
    writer = file_at(store._resolved).writer
    assert writer._connection is not None
    commits: list[str] = []
    writer._connection.set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)
    histories.think(bound, histories.READ, histories.LIST)
    histories.end_of_run(bound, OSError("x"))
    journal_of(bound).commit()
    assert commits == ["COMMIT"]


def test_saving_writes_what_is_queued_and_then_nothing(path: Path, bound: State, store: SqliteStore) -> None:
    histories.think(bound, "x")
    assert len(rows(path)) == 1
    store.save(bound)
    assert len(rows(path)) == 3
    at = rows(path, "SELECT updated_at FROM states")
    store.save(bound)
    assert rows(path, "SELECT updated_at FROM states") == at


def test_the_info_is_of_the_same_moment_as_the_entries(path: Path, bound: State) -> None:
    for number in range(3):
        bound.add_message(Message.user(f"{number}"))
        query = "SELECT entry_count = (SELECT count(*) FROM entries), updated_at = (SELECT max(at) FROM entries)"
        assert rows(path, f"{query} FROM states") == [(1, 1)]


def test_late_results_are_written_too(path: Path, bound: State) -> None:
    histories.think(bound, histories.READ)
    histories.end_of_run(bound, OSError("x"))
    histories.result(bound, histories.READ, "late", late=True)
    journal_of(bound).flush()
    assert rows(path)[-1] == "tool_result"


class Failing(SqliteStore):
    """Fails the writes it is told to, and sees every one."""

    failures = 0

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.seen: list[list[str]] = []

    def write(self, state_id: str, entries: Any, info: Any, *, create: bool = False) -> None:
        self.seen.append([entry["kind"] for entry in entries])
        if self.failures:
            self.failures -= 1
            raise OSError("no room")
        super().write(state_id, entries, info, create=create)


@pytest.fixture
def failing(path: Path) -> Iterator[Failing]:
    with Failing(path) as store:
        store.save(State(id="a", messages=[Message.user("Go")]))
        store.seen.clear()
        yield store


def test_a_subclass_sees_every_batch(failing: Failing, act: Any) -> None:
    state = failing.load("a")
    act(agent_of("Hello"), "think", state)
    state.add_message(Message.user("x"))
    assert failing.seen == [["model_request"], ["model_reply"], ["user"]]


def test_a_subclass_with_only_awrite_sees_the_async_batches(path: Path) -> None:
    seen: list[list[str]] = []

    class Seeing(SqliteStore):
        async def awrite(self, state_id: str, entries: Any, info: Any, *, create: bool = False) -> None:
            seen.append([entry["kind"] for entry in entries])
            await super().awrite(state_id, entries, info, create=create)

    with Seeing(path) as store:
        state = State(id="a", messages=[Message.user("Go")])
        asyncio.run(store.asave(state))
        asyncio.run(agent_of("Hello").athink(state))
        assert seen == [["context_change"], ["model_request"], ["model_reply"]]
        assert_same(store.load("a"), state)


@pytest.mark.parametrize(("command", "kinds"), COMMANDS.values(), ids=COMMANDS)
def test_a_command_that_cannot_be_written_raises_and_changes_nothing(
    failing: Failing, path: Path, command: Callable[[State], object], kinds: list[str]
) -> None:
    state = failing.load("a")
    before = state.snapshot()
    failing.failures = 1
    with pytest.raises(OSError, match="no room"):
        command(state)
    assert state.snapshot() is before
    assert rows(path) == ["context_change"]
    command(state)
    assert rows(path) == ["context_change", *kinds]
    assert_same(failing.load("a"), state)


def test_a_fact_that_cannot_be_written_waits_for_the_next_write(failing: Failing, path: Path) -> None:
    state = failing.load("a")
    histories.think(state, "x")
    failing.failures = 1
    with pytest.raises(OSError, match="no room"):
        journal_of(state).commit()
    assert len(state.history) == 3
    state.add_message(Message.user("y"))
    assert rows(path) == ["context_change", "model_request", "model_reply", "user"]


def test_a_command_behind_facts_that_cannot_be_written_is_not_applied(failing: Failing, path: Path) -> None:
    state = failing.load("a")
    histories.think(state, "x")
    before = state.snapshot()
    failing.failures = 1
    with pytest.raises(OSError, match="no room"):
        state.add_message(Message.user("y"))
    assert state.snapshot() is before
    assert rows(path) == ["context_change"]


# Entries that are there already.


def test_an_entry_that_differs_from_the_one_that_is_there_is_refused(store: SqliteStore) -> None:
    store.write("a", messages("1", "2"), info("1", "2"), create=True)
    before = store.read("a")
    for batch in (messages("1", "other"), messages("1", "other", "3"), messages("1", "other")[1:]):
        with pytest.raises(ValueError, match=r"another writer[\s\S]*store\.load\('a'\)"):
            store.write("a", batch, info("1", "2"))
        assert store.read("a") == before


def test_a_batch_that_the_state_has_gone_past_changes_nothing(store: SqliteStore) -> None:
    batch = messages("1", "2", "3")
    store.write("a", batch, info("1", "2", "3"), create=True)
    before = store.read("a")
    store.write("a", batch[:2], info("1", "2"))
    assert store.read("a") == before


def test_a_gap_inside_a_batch_is_refused(store: SqliteStore) -> None:
    batch = messages("1", "2", "3")
    with pytest.raises(ValueError, match="gap"):
        store.write("a", [batch[0], batch[2]], info(), create=True)
    assert store.read("a") is None


def test_a_first_write_that_does_not_begin_at_the_beginning_is_refused(store: SqliteStore) -> None:
    with pytest.raises(ValueError, match="starts at seq 1"):
        store.write("a", messages("1", "2")[1:], info(), create=True)
    assert store.read("a") is None


# Images.


def test_an_image_is_kept_once_however_often_it_is_sent(store: SqliteStore, path: Path) -> None:
    for state_id in "ab":
        state = State(id=state_id, messages=[Message("user", (histories.PNG, histories.PNG))])
        store.save(state)
        state.add_message(Message("user", (TextBlock("again"), histories.PNG)))
        assert_same(store.load(state_id), state)
    assert rows(path, "SELECT bytes FROM blobs") == [histories.PNG.data]


def test_images_come_back_from_everywhere_an_image_can_be(store: SqliteStore) -> None:
    pictures = [Image(bytes([number]), "image/png") for number in range(4)]
    state = State(messages=[Message("user", (pictures[0],))])
    store.save(state)
    histories.think(state, pictures[1], histories.READ)
    histories.result(state, histories.READ, (TextBlock("see"), pictures[2]))
    state.add_message(Message("user", (pictures[3], TextBlock("look"))))
    store.save(state)
    assert_same(store.load(state.id), state)


# Deleting.


def test_deleting_removes_the_images_nobody_else_has(store: SqliteStore, path: Path) -> None:
    shared, own = Image(b"shared", "image/png"), Image(b"own", "image/png")
    store.save(State(id="a", messages=[Message("user", (shared, own))]))
    store.save(State(id="b", messages=[Message("user", (shared,))]))
    store.delete("a")
    assert rows(path, "SELECT bytes FROM blobs") == [b"shared"]
    store.load("b")
    store.delete("b")
    assert rows(path, "SELECT count(*) FROM blobs") == [0]
    assert rows(path, "SELECT count(*) FROM entries") == [0]


def test_deleting_leaves_the_forks_and_makes_them_states_of_their_own(store: SqliteStore, bound: State) -> None:
    fork = bound.fork()
    store.save(fork)
    store.delete("a")
    record = store.read(fork.id)
    assert record is not None
    assert not {"forked_from", "forked_at"} & record.info.keys()
    assert_same(store.load(fork.id), fork)


def test_a_fork_whose_original_was_deleted_stays_a_state_of_its_own(store: SqliteStore, bound: State) -> None:
    fork = bound.fork()
    store.save(fork)
    store.delete("a")
    fork.add_message(Message.user("more"))
    store.save(State(id="a", messages=[Message.user("another")]))
    fork.add_message(Message.user("and more"))
    record = store.read(fork.id)
    assert record is not None
    assert "forked_from" not in record.info


def test_a_fork_saved_after_its_original_was_deleted_is_a_state_of_its_own(store: SqliteStore, bound: State) -> None:
    fork = bound.fork()
    store.delete("a")
    store.save(fork)
    record = store.read(fork.id)
    assert record is not None
    assert "forked_from" not in record.info


def test_a_state_deleted_while_it_is_in_use_is_not_made_again(store: SqliteStore, bound: State) -> None:
    store.delete("a")
    before = bound.snapshot()
    with pytest.raises(LookupError, match="deleted"):
        bound.add_message(Message.user("x"))
    assert bound.snapshot() is before
    assert store.list() == []


def test_deleting_a_parent_leaves_its_subagents(store: SqliteStore, bound: State) -> None:
    child = histories.started()
    histories.run_start(child, "child", "a", "c1")
    store.save(child)
    store.delete("a")
    assert [found.parent_id for found in store.list()] == ["a"]


# Listing.


def test_a_long_reason_to_stop_is_listed_whole(store: SqliteStore) -> None:
    state = histories.started()
    state.finish({"report": "x" * 10_000})
    store.save(state)
    (found,) = store.list()
    assert found.stopped == state.stopped


def test_a_reason_to_stop_is_listed_until_the_next_run(store: SqliteStore, bound: State) -> None:
    histories.stop(bound, StoppedByLimit(3))
    store.save(bound)
    assert [found.stopped for found in store.list()] == [StoppedByLimit(3)]
    histories.run_start(bound)
    store.save(bound)
    assert [found.stopped for found in store.list()] == [None]


def test_listing_reads_no_entry(store: SqliteStore, bound: State) -> None:
    with file_at(store._resolved).reading() as connection:
        assert connection is not None
        touched: list[str | None] = []

        def note(action: int, first: str | None, second: str | None, *rest: object) -> int:
            if action == sqlite3.SQLITE_READ:
                touched.append(first)
            return sqlite3.SQLITE_OK

        connection.set_authorizer(note)
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
    store.list()
    assert len(statements) == 1
    with file_at(store._resolved).reading() as connection:
        assert connection is not None
        connection.set_authorizer(None)
        connection.set_trace_callback(None)


def test_the_first_message_is_listed_with_a_replacement_for_what_sql_cannot_hold(store: SqliteStore) -> None:
    store.save(State(messages=[Message.user("caf\udce9")]))
    assert store.list()[0].first_message == "caf\ufffd"


# Every row is good for SQL.


def test_no_row_makes_a_query_over_a_table_or_view_fail(store: SqliteStore, path: Path) -> None:
    state = State(messages=[Message.user("\ud800\x00\u2028")], extra_data={"\udfff": [2**70, 1e308, "\x00"]})
    store.save(state)
    deep: Any = "x"
    for _ in range(190):
        deep = [deep]
    histories.think(state, "\udce9", histories.READ, histories.PNG)
    histories.result(state, histories.READ, "{'not': json")
    journal_of(state).record(rules.model_event, ModelEvent("retry\x00", "\ud83c", {"deep": deep}))
    state.finish({"deep": deep, "\ud800": "\ud800"})
    for (name,) in sqlite3.connect(path).execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"):
        rows(path, f'SELECT * FROM "{name}"')
    rows(path, "SELECT json_extract(data, '$.content'), json_each.value FROM entries, json_each(entries.data)")
    assert_same(store.load(state.id), state)
    assert check(path) == []


# Copies.


def test_a_backup_is_a_whole_database_of_its_own(store: SqliteStore, bound: State, path: Path) -> None:
    bound.add_message(Message("user", (histories.PNG,)))
    target = path.with_name("backup.db")
    store.backup(target)
    assert sorted(file.name for file in path.parent.glob("backup*")) == ["backup.db"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with SqliteStore(target) as copy:
        assert_same(copy.load("a"), bound)
        copy.load("a").add_message(Message.user("only in the copy"))
    assert check(target) == []
    assert_same(store.load("a"), bound)


def test_a_backup_never_writes_over_a_file(store: SqliteStore, bound: State, path: Path) -> None:
    target = path.with_name("backup.db")
    target.write_text("precious")
    with pytest.raises(FileExistsError):
        store.backup(target)
    with pytest.raises(FileExistsError):
        store.backup(path)
    assert target.read_text() == "precious"
    assert_same(store.load("a"), bound)


def test_there_is_no_backup_of_nothing(store: SqliteStore, path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.backup(path.with_name("backup.db"))
    assert list(path.parent.iterdir()) == []


def test_a_backup_made_while_others_write_is_of_one_moment(store: SqliteStore, bound: State, path: Path) -> None:
    stop = threading.Event()

    def keep_writing() -> None:
        while not stop.is_set():
            bound.add_message(Message.user("x"))

    thread = threading.Thread(target=keep_writing)
    thread.start()
    targets = [path.with_name(f"backup{number}.db") for number in range(5)]
    for target in targets:
        store.backup(target)
    stop.set()
    thread.join()
    for target in targets:
        assert check(target) == []
        with SqliteStore(target) as copy:
            loaded = copy.load("a").history
        assert loaded == bound.history[: len(loaded)]


# Threads and tasks.


def test_one_state_written_from_many_threads_is_in_the_file_in_the_order_of_its_history(
    store: SqliteStore, bound: State, path: Path
) -> None:
    def work(number: int) -> None:
        for step in range(15):
            if step % 3:
                bound.add_message(Message.user(f"{number} {step}"))
            else:
                edit_key(bound, f"{number} {step}")

    def edit_key(state: State, key: str) -> None:
        with state.edit_extra_data() as data:
            data[key] = True

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(bound.history) == 1 + 6 * 15
    assert_same(store.load("a"), bound)
    assert check(path) == []


def test_async_runs_at_the_same_time_are_all_in_the_file(store: SqliteStore, path: Path) -> None:
    states = [State(messages=[Message.user(f"{number}")]) for number in range(12)]

    async def main() -> None:
        await asyncio.gather(*[agent_of("Hello", store=store).arun(state) for state in states])

    asyncio.run(main())
    for state in states:
        assert_same(store.load(state.id), state)
    assert check(path) == []


def test_a_cancelled_async_run_is_in_the_file_as_it_is_in_the_state(store: SqliteStore, path: Path) -> None:
    async def main(steps: int) -> State:
        state = State(messages=[Message.user("Go")])
        run = asyncio.ensure_future(agent_of("Hello", "Again", store=store).arun(state))
        for _ in range(steps):
            await asyncio.sleep(0)
        run.cancel()
        await asyncio.wait([run])
        return state

    for steps in range(60):
        state = asyncio.run(main(steps))
        store.save(state)
        assert_same(store.load(state.id), state)
        state.add_message(Message.user("next"))
        assert_same(store.load(state.id), state)
    assert check(path) == []


def test_a_save_after_an_async_one_whose_loop_was_stopped_finds_it_done(store: SqliteStore, path: Path) -> None:
    store.save(State())
    state = histories.started()
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")

    async def main() -> None:
        asyncio.ensure_future(store.asave(state))  # noqa: RUF006  # asyncio.run cancels it
        await asyncio.sleep(0.05)

    release = threading.Timer(0.1, holder.execute, ("ROLLBACK",))
    release.start()
    asyncio.run(main())
    store.save(state)
    release.join()
    holder.close()
    assert_same(store.load(state.id), state)
    state.add_message(Message.user("next"))
    assert_same(store.load(state.id), state)


# The file.


def test_the_version_stands_in_the_file_and_in_the_table_of_the_migrations(bound: State, path: Path) -> None:
    assert rows(path, "PRAGMA user_version") == [schema.USER_VERSION]
    assert rows(path, "PRAGMA application_id") == [0x414C5041]
    assert rows(path, "SELECT migration_set FROM _sqlite_migrations") == ["alpineagents"]


def test_the_environment_variable_names_the_file_of_runs_without_a_store(
    path: Path, monkeypatch: pytest.MonkeyPatch, act: Any
) -> None:
    monkeypatch.setenv("ALPINEAGENTS_DB", str(path))
    state = State(id="a", messages=[Message.user("Go")])
    act(agent_of("Hello"), "run", state)
    assert_same(SqliteStore(path).load("a"), state)
    second = State(id="a", messages=[Message.user("Go")])
    with pytest.raises(ValueError, match="ALPINEAGENTS_DB"):
        act(agent_of("Hello"), "run", second)
    SqliteStore(path).close()


def test_a_process_that_ends_without_closing_has_written_all(path: Path) -> None:
    code = (
        "import os, sys; from alpineagents import *; state = State(id='a'); store = SqliteStore(sys.argv[1]);"
        "store.save(state); state.add_message(Message.user('x')); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    with SqliteStore(path) as store:
        assert histories.texts(store.load("a")) == ["x"]
    assert [file.name for file in path.parent.iterdir()] == ["runs.db"]


def test_the_file_is_opened_by_nothing_but_sqlite(bound: State, store: SqliteStore, path: Path) -> None:
    # Closing any other handle to it would drop the locks of this process.
    opened: list[str] = []

    def note(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and noting and isinstance(args[0], str | os.PathLike):
            opened.append(os.fspath(args[0]))

    noting = True
    sys.addaudithook(note)
    try:
        bound.add_message(Message("user", (histories.PNG,)))
        store.load("a")
        store.list()
        store.backup(path.with_name("backup.db"))
        store.close()
        store.list()
    finally:
        noting = False
    assert str(path) not in opened


def test_a_damaged_row_of_a_listing_is_named(store: SqliteStore, path: Path) -> None:
    store.save(State(id="whole"))
    store.save(State(id="bad", messages=[Message.user("x")]))
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE states SET created_at = 'soon' WHERE id = 'bad'")
        connection.commit()
    with pytest.raises(ValueError, match="the row of State 'bad' is damaged"):
        store.list()


def test_entries_missing_at_the_end_are_noticed(store: SqliteStore, path: Path) -> None:
    store.save(State(id="cut", messages=[Message.user("x")], extra_data={"a": 1}))
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM entries WHERE seq = 1")
        connection.commit()
    with pytest.raises(ValueError, match="'cut' is damaged: 1 of its 2 entries"):
        store.load("cut")


def test_data_cannot_pass_for_another_entry(store: SqliteStore, path: Path) -> None:
    store.save(State(id="a", messages=[Message.user("x")]))
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE entries SET data = json_set(data, '$.seq', 77, '$.turn', 9)")
        connection.commit()
    assert [(entry["seq"], entry["turn"]) for entry in store.read("a").entries] == [(0, 0)]  # type: ignore[union-attr]
