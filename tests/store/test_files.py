from __future__ import annotations

import asyncio
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import histories
import pytest

from alpineagents import State
from alpineagents.store import SqliteStore, check, files
from alpineagents.store.files import file_at
from alpineagents.types import Message


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "runs.db"
    SqliteStore(tmp_path / "runs.db").close()


@pytest.fixture
def store(path: Path) -> SqliteStore:
    return SqliteStore(path)


def said(store: SqliteStore, state: State) -> list[str]:
    return histories.texts(store.load(state.id))


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


def open_files(path: Path) -> list[str]:
    """What this process has open in the folder, once for each handle."""
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    found = [os.readlink(link) for link in links if os.path.lexists(link)]
    return sorted(Path(name).name for name in found if name.startswith(str(path.parent)))


class Child:
    """A forked process that does steps as it is told, in the same code as its parent."""

    def __init__(self, steps: Callable[[Callable[[], None]], None]) -> None:
        here, there = multiprocessing.Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                here.close()

                def pause() -> None:
                    there.send(None)
                    there.recv()

                steps(pause)
                status = 0
            finally:
                os._exit(status)
        there.close()
        self._pipe = here

    def wait(self) -> None:
        """Until it pauses."""
        assert self._pipe.poll(20)
        self._pipe.recv()

    def go_on(self) -> None:
        self._pipe.send(None)

    def ended(self) -> None:
        self._pipe.close()
        assert os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]) == 0


# A forked child.


def test_a_child_and_its_parent_write_into_one_file_and_both_are_whole(store: SqliteStore, path: Path) -> None:
    parent, child = histories.started("parent"), histories.started("child")
    store.save(parent)
    store.list()

    def write(pause: Callable[[], None]) -> None:
        store.save(child)
        for number in range(20):
            child.add_message(Message.user(f"child {number}"))

    forked = Child(write)
    for number in range(20):
        parent.add_message(Message.user(f"parent {number}"))
    forked.ended()
    assert said(store, parent) == histories.texts(parent)
    assert len(said(store, child)) == 21
    assert check(path) == []


def test_nothing_the_child_wrote_is_lost_when_the_parent_closes_the_file(store: SqliteStore, path: Path) -> None:
    # With a connection open across the fork, the child would think that it holds the parent's locks: the parent deletes
    # the WAL that the child goes on writing into.
    parent, child = histories.started("parent"), histories.started("child")
    store.save(parent)
    store.list()

    def write(pause: Callable[[], None]) -> None:
        store.save(child)
        pause()
        child.add_message(Message.user("after the parent closed"))
        pause()
        child.add_message(Message.user("after the parent wrote again"))

    forked = Child(write)
    forked.wait()
    store.close()
    forked.go_on()
    forked.wait()
    parent.add_message(Message.user("again"))
    forked.go_on()
    forked.ended()
    assert said(store, parent) == ["parent", "again"]
    assert said(store, child) == ["child", "after the parent closed", "after the parent wrote again"]
    assert check(path) == []


def test_nothing_the_parent_wrote_is_lost_when_the_child_closes_the_file(store: SqliteStore, path: Path) -> None:
    parent = histories.started("parent")
    store.save(parent)

    def write(pause: Callable[[], None]) -> None:
        store.save(histories.started("child"))
        pause()
        store.close()

    forked = Child(write)
    forked.wait()
    parent.add_message(Message.user("while the child has it open"))
    forked.go_on()
    forked.ended()
    parent.add_message(Message.user("after the child closed"))
    assert said(store, parent) == histories.texts(parent)
    assert len(store.list()) == 2
    assert check(path) == []


def test_a_child_forked_in_the_middle_of_a_commit_can_write(store: SqliteStore, path: Path) -> None:
    stop = threading.Event()
    state = histories.started()
    store.save(state)

    def keep_writing() -> None:
        while not stop.is_set():
            state.add_message(Message.user("x"))

    def keep_reading() -> None:
        while not stop.is_set():
            store.list()

    threads = [threading.Thread(target=keep_writing), threading.Thread(target=keep_reading)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            Child(lambda pause: store.save(histories.started("child"))).ended()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(store.list()) == 11
    assert store.load(state.id).snapshot() == state.snapshot()
    assert check(path) == []


def test_a_child_forked_while_another_thread_opens_a_file_can_open_one(path: Path) -> None:
    stop = threading.Event()

    def keep_opening() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            with SqliteStore(path.with_name(f"{number % 3}.db")) as other:
                other.save(State())

    thread = threading.Thread(target=keep_opening)
    thread.start()
    try:
        for _ in range(15):
            Child(lambda pause: SqliteStore(path).save(histories.started("child"))).ended()
    finally:
        stop.set()
        thread.join()
    assert len(SqliteStore(path).list()) == 15


def test_a_child_that_only_ends_changes_nothing(store: SqliteStore, path: Path) -> None:
    state = histories.started()
    store.save(state)
    pid = os.fork()
    if pid == 0:
        files._close_all()  # what the end of a process does
        os._exit(0)
    os.waitpid(pid, 0)
    state.add_message(Message.user("next"))
    assert said(store, state) == ["Go", "next"]


def test_a_child_writes_asynchronously_with_a_helper_of_its_own(store: SqliteStore) -> None:
    state = histories.started()
    asyncio.run(store.asave(state))
    Child(lambda pause: asyncio.run(store.asave(histories.started("child")))).ended()
    assert len(store.list()) == 2


def test_a_read_that_goes_on_while_the_process_forks_is_waited_for(store: SqliteStore) -> None:
    state = histories.started()
    store.save(state)
    reading, let_go = threading.Event(), threading.Event()

    def read() -> None:
        with file_at(store._resolved).reading() as connection:
            assert connection is not None
            reading.set()
            let_go.wait()
            assert connection.execute("SELECT count(*) FROM states").fetchone()[0] == 1

    thread = threading.Thread(target=read)
    thread.start()
    reading.wait()
    threading.Timer(0.05, let_go.set).start()
    Child(lambda pause: store.save(histories.started("child"))).ended()
    assert let_go.is_set()
    thread.join()


# Readers.


def test_readers_at_the_same_time_have_connections_of_their_own(store: SqliteStore) -> None:
    store.save(State())
    file = file_at(store._resolved)
    with file.reading() as one, file.reading() as two:
        assert one is not two
        assert one is not None
        assert two is not None
        assert [c.execute("SELECT count(*) FROM states").fetchone()[0] for c in (one, two)] == [1, 1]


def test_a_connection_is_used_again(store: SqliteStore) -> None:
    store.save(State())
    file = file_at(store._resolved)
    with file.reading() as one:
        pass
    with file.reading() as two:
        assert one is two


def test_a_reader_does_not_wait_for_a_writer(store: SqliteStore, path: Path) -> None:
    state = histories.started()
    store.save(state)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    assert len(store.list()) == 1
    assert store.load(state.id).snapshot() == state.snapshot()
    holder.close()


def test_reading_on_many_threads_and_tasks_leaves_few_files_open(store: SqliteStore, path: Path) -> None:
    state = histories.started()
    store.save(state)

    async def read_often() -> None:
        for _ in range(30):
            await store.aload(state.id)
            await store.alist()

    asyncio.run(read_often())
    for _ in range(5):
        threads = [threading.Thread(target=store.load, args=(state.id,)) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    # SQLite keeps the descriptors of closed connections while others have a lock, and uses them again: so at most as
    # many are open as were in use at one moment.
    assert open_files(path).count("runs.db") <= 1 + files._MOST_IDLE + 10


def test_a_reader_never_sees_half_a_batch(store: SqliteStore) -> None:
    state = histories.started()
    store.save(state)
    stop = threading.Event()
    seen: list[tuple[int, int]] = []

    def read() -> None:
        while not stop.is_set():
            record = store.read(state.id)
            assert record is not None
            seen.append((len(record.entries), record.info["entry_count"]))

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(50):
        histories.think(state, "x")
        state.add_message(Message.user("y"))
    stop.set()
    thread.join()
    assert seen
    assert all(entries == count for entries, count in seen)
    assert {(entries - 1) % 3 for entries, _ in seen} <= {0, 2}  # request and reply come together


def test_a_read_that_fails_leaves_the_connection_usable(store: SqliteStore) -> None:
    store.save(State())
    file = file_at(store._resolved)
    with pytest.raises(sqlite3.OperationalError, match="no such table"), file.reading() as connection:
        assert connection is not None
        connection.execute("SELECT * FROM nowhere")
    assert len(store.list()) == 1


# Closing.


def test_closing_leaves_the_one_file(store: SqliteStore, path: Path) -> None:
    store.save(histories.started())
    store.list()
    assert names(path) == ["runs.db", "runs.db-shm", "runs.db-wal"]
    store.close()
    assert names(path) == ["runs.db"]
    assert open_files(path) == []


def test_a_with_block_closes_the_store(path: Path) -> None:
    with SqliteStore(path) as store:
        store.save(histories.started())
    assert names(path) == ["runs.db"]


def test_a_closed_store_opens_again_when_it_is_used(store: SqliteStore) -> None:
    state = histories.started()
    store.save(state)
    for number in range(3):
        store.close()
        state.add_message(Message.user(f"{number}"))
        assert store.load(state.id).snapshot() == state.snapshot()
    store.close()
    store.close()


def test_closing_a_store_that_was_never_used_makes_nothing(store: SqliteStore, path: Path) -> None:
    store.close()
    assert names(path) == []


def test_closing_in_the_middle_of_a_read_never_makes_a_state_unknown(store: SqliteStore, path: Path) -> None:
    state = histories.started()
    store.save(state)
    stop = threading.Event()
    errors: list[Exception] = []

    def read() -> None:
        try:
            while not stop.is_set():
                store.load(state.id)
                assert len(store.list()) == 1
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(60):
        store.close()
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    store.close()
    assert open_files(path) == []


def test_a_read_that_goes_on_while_the_store_is_closed_is_closed_at_its_end(store: SqliteStore, path: Path) -> None:
    store.save(State())
    with file_at(store._resolved).reading() as connection:
        store.close()
        assert connection is not None
        assert connection.execute("SELECT count(*) FROM states").fetchone()[0] == 1
    assert open_files(path) == []


def test_a_reader_of_another_process_does_not_keep_the_store_from_closing(store: SqliteStore, path: Path) -> None:
    store.save(State())
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM states").fetchall()
    store.save(State())
    store.close()
    assert len(reader.execute("SELECT * FROM states").fetchall()) == 1
    reader.close()
    assert len(store.list()) == 2


def test_the_end_of_the_process_closes_the_file(path: Path) -> None:
    code = "import sys; from alpineagents import *; SqliteStore(sys.argv[1]).save(State())"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert names(path) == ["runs.db"]


def test_a_closed_file_alone_is_the_whole_record(store: SqliteStore, path: Path) -> None:
    state = histories.started()
    store.save(state)
    state.add_message(Message.user("more"))
    store.close()
    copied = path.with_name("copy.db")
    copied.write_bytes(path.read_bytes())
    with SqliteStore(copied) as copy:
        assert copy.load(state.id).snapshot() == state.snapshot()


# A file that is deleted or replaced.


@contextmanager
def put_away(path: Path) -> Generator[Path]:
    """Another file of ours stands there afterwards, with one State called `other`."""
    other = path.with_name("other.db")
    with SqliteStore(other) as store:
        store.save(State(id="other", messages=[Message.user("other")]))
    yield other


def delete(path: Path) -> None:
    for file in path.parent.glob("runs.db*"):
        file.unlink()


def test_a_state_whose_file_was_deleted_is_unknown(store: SqliteStore, path: Path) -> None:
    state = histories.started()
    store.save(state)
    store.list()
    before = state.snapshot()
    delete(path)
    assert store.list() == []
    with pytest.raises(LookupError, match="not in the file any more"):
        state.add_message(Message.user("lost"))
    assert state.snapshot() is before
    new = histories.started()
    store.save(new)
    assert store.load(new.id).snapshot() == new.snapshot()
    assert [info.id for info in store.list()] == [new.id]
    assert check(path) == []


def test_a_deleted_file_is_made_anew_also_beside_its_old_wal(store: SqliteStore, path: Path) -> None:
    store.save(histories.started())
    path.unlink()
    new = histories.started()
    store.save(new)
    assert [info.id for info in store.list()] == [new.id]
    store.close()
    assert [info.id for info in store.list()] == [new.id]
    assert check(path) == []


def test_a_file_put_in_the_place_of_another_is_the_one_that_is_read_and_written(store: SqliteStore, path: Path) -> None:
    state = histories.started()
    store.save(state)
    store.list()
    with put_away(path) as other:
        delete(path)
        other.rename(path)
    assert [info.id for info in store.list()] == ["other"]
    loaded = store.load("other")
    loaded.add_message(Message.user("more"))
    with pytest.raises(LookupError):
        state.add_message(Message.user("lost"))
    assert said(store, loaded) == ["other", "more"]
    assert check(path) == []


def test_a_file_put_in_place_of_an_open_one_is_not_mixed_with_its_wal(store: SqliteStore, path: Path) -> None:
    state = histories.started()
    store.save(state)
    store.close()
    state.add_message(Message.user("in the WAL"))
    with put_away(path) as other:
        whole = other.read_bytes()
        os.replace(other, path)
    for _ in range(2):
        with pytest.raises(ValueError, match="replaced while it was open"):
            store.save(State())
    assert path.read_bytes() == whole


def test_a_replaced_file_keeps_what_others_have_in_its_wal(store: SqliteStore, path: Path) -> None:
    store.save(histories.started())
    with put_away(path) as other:
        delete(path)
        other.rename(path)

    def write() -> None:
        SqliteStore(path).load("other").add_message(Message.user("in the WAL"))
        os._exit(0)  # without closing

    pid = os.fork()
    if pid == 0:
        try:
            write()
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert histories.texts(store.load("other")) == ["other", "in the WAL"]
    store.save(histories.started())
    assert histories.texts(store.load("other")) == ["other", "in the WAL"]


def test_a_file_that_was_moved_and_is_no_database_any_more_is_refused(store: SqliteStore, path: Path) -> None:
    state = histories.started()
    store.save(state)
    delete(path)
    path.write_text("Dear diary, " * 100)
    with pytest.raises(ValueError, match="not a database"):
        store.list()
    with pytest.raises(ValueError, match="not a database"):
        state.add_message(Message.user("lost"))
    assert path.read_text() == "Dear diary, " * 100
    assert names(path) == ["runs.db"]


# The same file by two names.


def test_two_stores_of_one_file_share_one_writer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    path.with_name("link.db").symlink_to(path)
    given: list[Any] = [path, str(path), "runs.db", "./runs.db", Path("link.db")]
    assert len({file_at(SqliteStore(name)._resolved) for name in given}) == 1
