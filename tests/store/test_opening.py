from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import histories
import pytest
from durability.mounts import read_only, small_disk
from durability.processes import Process

from alpineagents import State
from alpineagents.store import SqliteStore, check, opening, schema
from alpineagents.store.opening import FixedConnection, connect_to_read, connect_to_write
from alpineagents.types import Image, Message

Use = Callable[[SqliteStore], object]

READS: dict[str, Use] = {
    "list": lambda store: store.list(),
    "read": lambda store: store.read("a"),
    "load": lambda store: store.load("a"),
}
WRITES: dict[str, Use] = {
    "save": lambda store: store.save(histories.started()),
    "delete": lambda store: store.delete("a"),
}
USES = READS | WRITES


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "runs.db"
    SqliteStore(tmp_path / "runs.db").close()


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@contextmanager
def untouched(path: Path) -> Generator[None]:
    """Inside the block nothing in the folder changes, and nothing comes or goes."""
    before, mode, at = contents(path.parent), path.stat().st_mode, path.stat().st_mtime_ns
    yield
    assert contents(path.parent) == before
    assert (path.stat().st_mode, path.stat().st_mtime_ns) == (mode, at)


def ours(path: Path) -> State:
    """A file of ours with one State."""
    with SqliteStore(path) as store:
        state = State(id="a", messages=[Message.user("hello")])
        store.save(state)
    return state


def foreign(path: Path, *statements: str, application_id: int = 0, mode: str = "delete") -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode={mode}")
    connection.execute(f"PRAGMA application_id={application_id}")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def no_database(path: Path) -> None:
    path.write_bytes(b"Dear diary,\n" * 100)


def foreign_without_tables(path: Path) -> None:
    foreign(path, application_id=7)


def foreign_in_rollback_mode(path: Path) -> None:
    foreign(path, "CREATE TABLE notes(x)")


def foreign_in_wal_mode(path: Path) -> None:
    foreign(path, "CREATE TABLE notes(x)", mode="wal")


def foreign_with_a_user_version(path: Path) -> None:
    foreign(path, "CREATE TABLE states(id)", f"PRAGMA user_version={schema.USER_VERSION}")


def with_an_open_wal(path: Path, *statements: str) -> None:
    """The statements stand in the -wal alone, as if a process had been killed; there is no -shm."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA wal_autocheckpoint=0")
    for statement in statements:
        connection.execute(statement)
    copied = [(name, (path.with_name(name)).read_bytes()) for name in (path.name, f"{path.name}-wal")]
    connection.close()
    for name, data in copied:
        path.with_name(name).write_bytes(data)


def foreign_with_an_open_wal(path: Path) -> None:
    foreign_in_wal_mode(path)
    with_an_open_wal(path, "INSERT INTO notes VALUES(1)")


def newer(path: Path) -> None:
    ours(path)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version={schema.USER_VERSION + 1}")
    connection.close()


def newer_with_an_open_wal(path: Path) -> None:
    newer(path)
    with_an_open_wal(path, "DELETE FROM states")


WRONG = {
    no_database: "not a database of alpineagents",
    foreign_without_tables: "something else",
    foreign_in_rollback_mode: "something else",
    foreign_in_wal_mode: "something else",
    foreign_with_a_user_version: "something else",
    foreign_with_an_open_wal: "something else",
    newer: "newer",
    newer_with_an_open_wal: "newer",
}


# Files that are not ours.


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(("make", "said"), WRONG.items(), ids=[make.__name__ for make in WRONG])
def test_a_file_that_is_not_ours_or_newer_is_refused_and_stays_as_it_was(
    path: Path, make: Callable[[Path], None], said: str, use: Use
) -> None:
    make(path)
    store = SqliteStore(path)
    with untouched(path):
        with pytest.raises(ValueError, match=said) as raised:
            use(store)
        assert str(path) in str(raised.value)
        store.close()


@pytest.mark.parametrize("size", [2, 15, 16, 99, 100, 511, 512, 4096, 5000])
def test_a_text_of_any_size_is_no_database(path: Path, size: int) -> None:
    path.write_bytes(b"x" * size)
    with untouched(path):
        for use in USES.values():
            with pytest.raises(ValueError, match="not a database"):
                use(SqliteStore(path))


def test_a_file_whose_writer_was_killed_in_a_checkpoint_is_read(path: Path) -> None:
    whole = path.with_name("whole.db")
    with SqliteStore(whole) as store:
        store.save(State(id="a", messages=[Message.user("x" * 50_000)]))
        wal = whole.with_name("whole.db-wal").read_bytes()
    path.write_bytes(whole.read_bytes()[:4096])  # the first page says that there are more
    path.with_name(f"{path.name}-wal").write_bytes(wal)
    assert SqliteStore(path).load("a").messages[0].text == "x" * 50_000


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_what_is_no_regular_file_is_refused_before_it_is_opened(path: Path, use: Use) -> None:
    os.mkfifo(path)
    before = path.stat().st_mode
    with pytest.raises(ValueError, match="not a regular file"):
        use(SqliteStore(path))
    assert path.stat().st_mode == before


def test_a_newer_form_that_has_not_left_the_wal_is_refused(path: Path) -> None:
    ours(path)
    with_an_open_wal(path, f"PRAGMA user_version={schema.USER_VERSION + 1}")
    before = path.read_bytes()
    for use in USES.values():
        with pytest.raises(ValueError, match="newer"):
            use(SqliteStore(path))
    assert path.read_bytes() == before


def test_a_file_that_became_somebody_elses_while_it_was_being_opened_is_left_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign(path)
    holds_ours = opening._holds_ours

    def look(path: Path) -> bool:
        found = holds_ours(path)
        foreign(path, "CREATE TABLE notes(x)")
        return found

    monkeypatch.setattr(opening, "_holds_ours", look)
    with pytest.raises(ValueError, match="something else"):
        connect_to_write(path)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("notes",)]
    connection.close()


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_directory_is_refused(tmp_path: Path, use: Use) -> None:
    with pytest.raises(IsADirectoryError, match="directory, not a database file"):
        use(SqliteStore(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("use", WRITES.values(), ids=WRITES)
def test_a_file_in_a_file_is_refused(tmp_path: Path, use: Use) -> None:
    (tmp_path / "file").write_text("x")
    if use is WRITES["delete"]:
        use(SqliteStore(tmp_path / "file" / "runs.db"))
        return
    with pytest.raises(OSError, match="file"):
        use(SqliteStore(tmp_path / "file" / "runs.db"))


# New files.


def make_no_tables(path: Path) -> None:
    foreign(path, mode="wal")


@pytest.mark.parametrize("make", [Path.touch, foreign, make_no_tables])
def test_an_empty_file_and_a_database_without_tables_are_new(path: Path, make: Callable[[Path], object]) -> None:
    make(path)
    with SqliteStore(path) as store:
        assert store.list() == []
        assert store.read("a") is None
        state = histories.started()
        store.save(state)
        assert store.load(state.id).snapshot() == state.snapshot()
    assert check(path) == []


def test_reading_an_empty_file_makes_nothing(path: Path) -> None:
    path.touch()
    with untouched(path):
        assert SqliteStore(path).list() == []


def test_reading_what_does_not_exist_makes_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "folder" / "runs.db")
    assert store.list() == []
    assert store.read("a") is None
    store.delete("a")
    with pytest.raises(LookupError):
        store.load("a")
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_the_folders_are_made_with_the_file(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "one" / "two" / "runs.db") as store:
        store.save(histories.started())
    assert (tmp_path / "one" / "two" / "runs.db").is_file()


def test_reading_a_closed_file_leaves_nothing_beside_it(path: Path) -> None:
    state = ours(path)
    before = contents(path.parent)
    with SqliteStore(path) as store:
        assert store.load("a").snapshot() == state.snapshot()
        assert len(store.list()) == 1
    assert contents(path.parent) == before


def test_a_look_at_a_file_leaves_nothing_beside_it(path: Path) -> None:
    ours(path)
    with untouched(path):
        assert check(path) == []


def test_a_reading_connection_writes_nothing(path: Path) -> None:
    ours(path)
    connection = connect_to_read(path)
    assert connection is not None
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM states")
    connection.close()


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_every_file_is_readable_and_writable_by_its_owner_only(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        store = SqliteStore(path)
        store.save(histories.started())
        store.list()
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"runs.db": 0o600, "runs.db-wal": 0o600, "runs.db-shm": 0o600}


def test_an_empty_file_that_everybody_may_read_becomes_the_owners(path: Path) -> None:
    path.touch(0o644)
    path.chmod(0o644)
    SqliteStore(path).save(histories.started())
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


def test_the_mode_of_a_file_of_ours_is_the_owners_business(path: Path) -> None:
    ours(path)
    path.chmod(0o640)
    with SqliteStore(path) as store:
        store.save(histories.started())
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_new_file_is_in_wal_mode_with_foreign_keys_on(path: Path) -> None:
    connection = connect_to_write(path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
    assert connection.execute("PRAGMA busy_timeout").fetchone() == (30_000,)
    connection.close()


@pytest.mark.parametrize(
    "name", ["a b.db", "a?b=c&d.db", "a#b.db", "100%.db", "%41.db", "é\u2028.db", "caf\udce9.db", "-x"]
)
def test_the_name_may_have_any_characters(tmp_path: Path, name: str) -> None:
    with SqliteStore(tmp_path / name) as store:
        store.save(histories.started())
        assert len(store.list()) == 1
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_opening_a_file_that_is_up_to_date_does_not_load_sqlite_utils(path: Path) -> None:
    ours(path)
    code = (
        "import sys; from alpineagents import SqliteStore, State; s = SqliteStore(sys.argv[1]); s.save(State());"
        "s.list(); print('sqlite_utils' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


# What cannot be written.


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "2m") as folder:
        yield folder / "runs.db"
        SqliteStore(folder / "runs.db").close()


def test_a_file_on_a_read_only_disk_can_be_read(disk: Path) -> None:
    state = ours(disk)
    with read_only(disk.parent):
        store = SqliteStore(disk)
        for _ in range(2):
            assert store.load("a").snapshot() == state.snapshot()
            assert [info.id for info in store.list()] == ["a"]
        assert check(disk) == []


def test_a_file_on_a_read_only_disk_that_has_an_empty_wal_can_be_read(disk: Path) -> None:
    state = ours(disk)
    disk.with_name("runs.db-wal").touch()
    with read_only(disk.parent):
        assert SqliteStore(disk).load("a").snapshot() == state.snapshot()


def test_a_file_on_a_read_only_disk_that_has_an_empty_wal_and_a_shm_can_be_read(disk: Path) -> None:
    state = ours(disk)
    connection = sqlite3.connect(f"{disk.as_uri()}?mode=ro", uri=True)  # which leaves both behind
    connection.execute("SELECT * FROM states").fetchall()
    connection.close()
    assert sorted(file.name for file in disk.parent.iterdir()) == ["runs.db", "runs.db-shm", "runs.db-wal"]
    with read_only(disk.parent):
        assert SqliteStore(disk).load("a").snapshot() == state.snapshot()


def test_a_wal_on_a_read_only_disk_is_not_passed_over(disk: Path) -> None:
    ours(disk)
    with_an_open_wal(disk, "UPDATE states SET turn = 7")
    with read_only(disk.parent), pytest.raises(OSError, match="cannot be opened"):
        SqliteStore(disk).list()
    assert SqliteStore(disk).list()[0].turn == 7


def test_a_wal_and_its_shm_on_a_read_only_disk_are_read(disk: Path) -> None:
    store = SqliteStore(disk)
    state = State(id="a", messages=[Message.user("hello")])
    store.save(state)
    pid = os.fork()  # it does not close the file, as if it had been killed
    if pid == 0:
        store.save(histories.started())
        os._exit(0)
    os.waitpid(pid, 0)
    assert disk.with_name("runs.db-wal").stat().st_size > 0
    with read_only(disk.parent):
        assert len(SqliteStore(disk).list()) == 2


def test_what_is_read_from_a_read_only_disk_is_looked_at_anew_each_time(disk: Path) -> None:
    ours(disk)
    store = SqliteStore(disk)
    with read_only(disk.parent):
        assert len(store.list()) == 1
        connection = connect_to_read(disk)
        assert isinstance(connection, FixedConnection)
        connection.close()
    with SqliteStore(disk) as other:
        other.save(histories.started())
    with read_only(disk.parent):
        assert len(store.list()) == 2


@pytest.mark.parametrize("use", WRITES.values(), ids=WRITES)
def test_a_file_on_a_read_only_disk_cannot_be_written_until_the_disk_can(disk: Path, use: Use) -> None:
    ours(disk)
    store = SqliteStore(disk)
    with read_only(disk.parent):
        for _ in range(2):
            with pytest.raises(PermissionError, match=r"read-only|cannot be opened"):
                use(store)
    use(store)
    assert check(disk) == []


def test_a_disk_that_became_read_only_under_an_open_store_is_only_a_failed_write(disk: Path) -> None:
    store, state = SqliteStore(disk), histories.started()
    store.save(state)
    before = state.snapshot()
    store.close()
    with read_only(disk.parent):
        with pytest.raises(PermissionError, match=r"read-only|cannot be opened"):
            state.add_message(Message.user("lost"))
        assert state.snapshot() is before
        assert store.load(state.id).snapshot() == before
    state.add_message(Message.user("kept"))
    assert store.load(state.id).snapshot() == state.snapshot()


def test_a_new_file_on_a_read_only_disk_cannot_be_made(disk: Path) -> None:
    with read_only(disk.parent), pytest.raises(OSError, match=r"[Rr]ead-only"):
        SqliteStore(disk.parent / "folder" / "runs.db").save(histories.started())


def as_nobody(code: Callable[[], None]) -> None:
    """Run it in a child that gave up being root, which may write everywhere."""
    if os.geteuid() != 0:
        code()
        return
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            code()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A file that everybody may read and nobody may write, in such a folder."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    path = tmp_path / "runs.db"
    ours(path)
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    return path


def test_somebody_who_may_only_read_the_file_and_its_folder_reads_it(shared: Path) -> None:
    def look() -> None:
        assert SqliteStore(shared).load("a").id == "a"

    as_nobody(look)
    assert [file.name for file in shared.parent.iterdir()] == ["runs.db"]


def test_somebody_who_may_only_read_the_file_cannot_write_it(shared: Path) -> None:
    def write() -> None:
        with pytest.raises(PermissionError):
            SqliteStore(shared).save(histories.started())

    as_nobody(write)


def test_somebody_who_may_not_read_the_file_is_told_so(shared: Path) -> None:
    shared.chmod(0o000)

    def look() -> None:
        with pytest.raises(OSError, match=r"runs\.db|cannot be opened"):
            SqliteStore(shared).list()

    as_nobody(look)


# Damage.


def test_a_damaged_page_is_a_clear_error(path: Path) -> None:
    ours(path)
    data = bytearray(path.read_bytes())
    for page in range(1, len(data) // 4096):
        data[page * 4096 : (page + 1) * 4096] = b"\xa5" * 4096
    path.write_bytes(data)
    for use in USES.values():
        with pytest.raises(ValueError, match="damaged"):
            use(SqliteStore(path))


def test_a_file_cut_off_is_a_clear_error(path: Path) -> None:
    ours(path)
    path.write_bytes(path.read_bytes()[: 4096 * 2])
    for use in USES.values():
        with pytest.raises(ValueError, match="damaged"):
            use(SqliteStore(path))


def edited(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "data", ["'{'", "'[]'", "'{}'", "CAST(x'ff' AS TEXT)", "CAST(x'7b22ff' AS TEXT)", "'{\"content\":5}'"]
)
def test_a_damaged_row_is_a_clear_error_of_that_state_alone(path: Path, data: str) -> None:
    ours(path)
    with SqliteStore(path) as store:
        store.save(State(id="b", messages=[Message.user("hello")]))
    edited(path, f"UPDATE entries SET data = {data} WHERE state_id = 'a'")
    store = SqliteStore(path)
    with pytest.raises(ValueError, match=r"damaged|cannot be loaded"):
        store.load("a")
    assert store.load("b").id == "b"
    assert [info.id for info in store.list()] == ["b", "a"]
    assert check(path) != []


@pytest.mark.parametrize("damage", ["DELETE FROM entries", "UPDATE entries SET seq = 7", "DELETE FROM blobs"])
def test_missing_rows_are_a_clear_error(path: Path, damage: str) -> None:
    ours(path)
    with SqliteStore(path) as store:
        store.delete("a")
        store.save(State(id="a", messages=[Message("user", (histories.PNG,)), Message.user("more")]))
        store.load("a").add_message(Message.user("and more"))
    edited(path, f"{damage} WHERE 1" if "blobs" in damage else f"{damage} WHERE seq = 0")
    with pytest.raises(ValueError, match="a"):
        SqliteStore(path).load("a")


def test_a_damaged_reason_to_stop_does_not_break_the_listing(path: Path) -> None:
    with SqliteStore(path) as store:
        state = State(id="a")
        state.finish("x" * 5_000)
        store.save(state)
    edited(path, "UPDATE entries SET data = '{'")
    assert [info.id for info in SqliteStore(path).list()] == ["a"]


@pytest.mark.parametrize("name", ["first_message", "updated_at", "more"])
def test_a_listing_of_a_text_that_is_not_utf_8_is_a_clear_error(path: Path, name: str) -> None:
    ours(path)
    edited(path, f"UPDATE states SET {name} = CAST(x'ff' AS TEXT)")
    with pytest.raises(ValueError, match="damaged"):
        SqliteStore(path).list()


# Locks.


def test_a_lock_that_another_process_holds_too_long_is_a_clear_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours(path)
    monkeypatch.setattr(opening, "LOCK_WAIT_S", 0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with SqliteStore(path) as store:
        with pytest.raises(TimeoutError, match="another process"):
            store.save(histories.started())
        assert len(store.list()) == 1  # readers do not wait
        holder.execute("ROLLBACK")
        store.save(histories.started())
        assert len(store.list()) == 2
    holder.close()


def test_a_new_file_that_another_process_is_making_is_waited_for(path: Path) -> None:
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    waiting = threading.Timer(0.1, holder.execute, ("ROLLBACK",))
    waiting.start()
    with SqliteStore(path) as store:
        store.save(histories.started())
        assert len(store.list()) == 1
    waiting.join()
    holder.close()


def test_opening_the_file_once_more_keeps_the_locks_of_the_connections_that_are_open(path: Path) -> None:
    # Closing any other handle to the file would drop them.
    store = SqliteStore(path)
    store.save(histories.started())

    def locks() -> Any:
        inodes = [str(file.stat().st_ino) for file in path.parent.iterdir()]
        with open("/proc/locks") as lines:
            return sorted(line.split()[1:] for line in lines if line.split()[5].split(":")[-1] in inodes)

    if not os.path.exists("/proc/locks"):
        pytest.skip("this system does not show the locks of a process")
    store.list()
    before = locks()
    assert before
    for _ in range(3):
        assert check(path) == []
    assert locks() == before


def test_a_file_looked_at_while_it_is_made_grows_and_is_closed_is_never_taken_for_anything_else(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.db" for number in range(12)]

    def look() -> None:
        for path in paths:
            while not path.with_suffix(".done").exists():
                SqliteStore(path).list()
                SqliteStore(path).close()

    watchers = [Process(look), Process(look)]
    for path in paths:
        for _ in range(3):
            with SqliteStore(path, synchronous="normal") as store:
                store.save(State(messages=[Message("user", (Image(os.urandom(50_000), "image/png"),))]))
        path.with_suffix(".done").touch()
    for watcher in watchers:
        watcher.ended()


def test_the_unfinished_change_of_another_application_is_left_for_it_to_undo(tmp_path: Path) -> None:
    folder, copy = tmp_path / "theirs", tmp_path / "cut"
    folder.mkdir()
    connection = sqlite3.connect(folder / "runs.db", isolation_level=None)
    connection.execute("CREATE TABLE theirs(x)")
    connection.execute("PRAGMA cache_size=1")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO theirs VALUES(?)", [("x" * 1_000,)] * 200)
    shutil.copytree(folder, copy)
    connection.close()
    before = {file.name: file.read_bytes() for file in copy.iterdir()}
    assert len(before["runs.db-journal"]) > 512
    with pytest.raises(ValueError, match="database of"):
        SqliteStore(copy / "runs.db").save(State())
    assert {file.name: file.read_bytes() for file in copy.iterdir()} == before
