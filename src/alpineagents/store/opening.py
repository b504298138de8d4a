"""Opening the file: what it is, before anything writes; making a new one; the settings of a connection."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from pathlib import Path

from alpineagents.errors import explain
from alpineagents.store import schema

LOCK_WAIT_S = 30.0
_opening = threading.Lock()


def _renew() -> None:
    global _opening  # noqa: PLW0603  # in a forked child nobody would ever release the one that was inherited
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_renew)


def connect_to_write(path: Path) -> sqlite3.Connection:
    """A connection that may write; the file and its folder are made if they are not there.

    Raises:
        ValueError: The file is no database of ours, or was written by a newer version. It stays as it was.
        OSError: It is a directory, or cannot be made or written.
        TimeoutError: Another process holds its lock.
    """
    # One at a time in this process: closing a file descriptor of ours while SQLite has the file open elsewhere in it
    # would drop SQLite's locks (https://www.sqlite.org/howtocorrupt.html, 2.2).
    with _opening:
        try:
            return _opened(path)
        except sqlite3.Error as error:
            raise explained(path, error) from error


def _opened(path: Path) -> sqlite3.Connection:
    _refuse_special(path)
    if not _made(path):
        _holds_ours(path)
    connection = _connect(path, "rw")
    try:
        _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _made(path: Path) -> bool:
    """Whether this call made the file: owner-only from the first moment, so that nobody can read it in between."""
    if path.exists():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return False
    return True


def _holds_ours(path: Path) -> bool:
    """Whether there is anything of ours in the file, looked at before anything may write to it.

    Raises:
        ValueError: It is another application's, or was written by a newer version.
    """
    if _was_being_made(path):
        return False
    # Somebody who has a -shm may be writing: an ordinary look then leaves nothing that is not there already.
    if not _beside(path, "-shm").exists():
        found = _seen_as_it_lies(path)
        if found is not None and not _has_wal(path):
            return found
    try:
        return _seen(path, "ro")
    except sqlite3.OperationalError as error:
        if _has_wal(path) or error.sqlite_errorcode & 0xFF not in _UNREADABLE:
            raise
    return _seen(path, "ro&immutable=1")


def _seen_as_it_lies(path: Path) -> bool | None:
    """What a look without locks shows, or `None` where only an ordinary one can tell.

    An ordinary look would leave a -wal and a -shm beside somebody else's WAL file, and this one leaves nothing. But it
    knows nothing of a WAL, and sees a file that is being written, or whose writer was killed, torn.
    """
    try:
        return _seen(path, "ro&immutable=1")
    except sqlite3.Error as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_NOTADB:
            raise
    return None


_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")


def _was_being_made(path: Path) -> bool:
    """Whether the making of the file was cut off in its first pages. It may hold anything, and SQLite makes it empty.

    The journal says so: its number of pages before the transaction is 0. What it is, is told by its first bytes
    (https://www.sqlite.org/fileformat2.html, "The Rollback Journal").
    """
    try:
        with _beside(path, "-journal").open("rb") as journal:
            head = journal.read(20)
    except OSError:
        return False
    return head.startswith(_JOURNAL_MAGIC) and head[16:] == bytes(4)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}{suffix}")


def _seen(path: Path, mode: str) -> bool:
    connection = _connect(path, mode)
    try:
        return schema.refuse_foreign(connection, str(path))
    finally:
        connection.close()


def _has_wal(path: Path) -> bool:
    try:
        return _beside(path, "-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    if not schema.refuse_foreign(connection, str(path)):
        path.chmod(0o600)  # before there is a -wal, which gets the same mode
    _wait_for(lambda: connection.execute("PRAGMA journal_mode=WAL").fetchone())
    connection.execute("PRAGMA foreign_keys=ON")
    if schema.is_current(connection):
        return
    _wait_for(lambda: connection.execute("BEGIN IMMEDIATE"))
    try:
        # Another process may have made tables while this one waited for the lock: those of ours, or its own.
        schema.refuse_foreign(connection, str(path))
        if not schema.is_current(connection):
            schema.migrate(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _wait_for(action: object) -> None:
    # Switching to WAL does not always use SQLite's own wait for a lock: https://www.sqlite.org/wal.html, "Sometimes
    # Queries Return SQLITE_BUSY In WAL Mode".
    assert callable(action)
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            action()
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


class FixedConnection(sqlite3.Connection):
    """A look at a file as it is, without locks: what changes it meanwhile goes unnoticed, so it is not used twice."""


def connect_to_read(path: Path) -> sqlite3.Connection | None:
    """A connection that writes nothing, or `None` when there is no file, or nothing in it yet.

    Raises: As `connect_to_write`.
    """
    _refuse_special(path)
    if not path.exists():
        return None
    try:
        return _reading(path) if _holds_ours(path) else None
    except sqlite3.Error as error:
        raise explained(path, error) from error


def _reading(path: Path) -> sqlite3.Connection:
    # "rw", because a connection that may not write would leave the -wal and the -shm it makes behind.
    connection = _connect(path, "rw")
    try:
        connection.execute("PRAGMA query_only=ON")
        schema.refuse_foreign(connection, str(path))
        return connection
    except sqlite3.OperationalError as error:
        connection.close()
        # A WAL file without its -wal in a folder that may not be written: it can be read as it is.
        if error.sqlite_errorcode & 0xFF not in _UNREADABLE or _has_wal(path):
            raise
    except BaseException:
        connection.close()
        raise
    return _connect(path, "ro&immutable=1", FixedConnection)


def _connect(path: Path, mode: str, factory: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=LOCK_WAIT_S,
        check_same_thread=False,
        factory=factory,
    )


_UNREADABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_CORRUPT = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
_NO_UTF_8 = "Could not decode to UTF-8"  # an error of Python's sqlite3, without a code of its own


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF in _LOCKED


def _refuse_special(path: Path) -> None:
    """Refuse what is there and no file, before anything opens it: a pipe would hang, a device would be changed."""
    if path.is_dir():
        example = f'Agent(store="{path}/runs.db")'
        problem = explain(f"{path} is a directory, not a database file", "name a file in it", example)
        raise IsADirectoryError(errno.EISDIR, problem)
    if path.exists() and not path.is_file():
        raise ValueError(explain(f"{path} is not a regular file", "name a file; to keep nothing, give no store"))


def explained(path: Path, error: sqlite3.Error) -> Exception:
    """An SQLite error in our words, as the built-in exception that fits."""
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if primary in _CORRUPT or str(error).startswith(_NO_UTF_8):
        problem = f"{path} is not a database of alpineagents, or is damaged: {error}"
        return ValueError(explain(problem, "use another file or a backup"))
    if primary in _LOCKED:
        problem = f"{path} is locked: another process has been writing to it for over {LOCK_WAIT_S:.0f} s"
        return TimeoutError(
            explain(problem, "look for a long transaction or backup that holds it (fuser -v shows who)")
        )
    if primary not in _FAILURES:
        return error
    number, problem, fix = _FAILURES[primary]
    # OSError picks its subclass by the number: EACCES makes a PermissionError.
    return OSError(number, explain(f"{path}: {problem} ({error})", fix))


_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_FAILURES = {
    sqlite3.SQLITE_FULL: (errno.ENOSPC, "the disk is full, and nothing of this write was kept", "make room"),
    sqlite3.SQLITE_READONLY: (
        errno.EACCES,
        "the file or its folder is read-only",
        "make both writable, or use another file",
    ),
    sqlite3.SQLITE_CANTOPEN: (errno.EACCES, "the file cannot be opened", "check its folder and its permissions"),
    sqlite3.SQLITE_IOERR: (errno.EIO, "the disk failed, and nothing of this write was kept", "check the disk"),
}
