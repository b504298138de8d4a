"""The files open in this process: one writer each, a few reading connections, closed at exit and across a fork.

SQLite keeps in memory which locks this process holds. A forked child would inherit that knowledge, but not the locks,
and write into a WAL that the parent deletes (https://www.sqlite.org/howtocorrupt.html, 2.6). So no connection is open
while the process forks; parent and child open their own when they need one.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakSet

from alpineagents.store.opening import LOCK_WAIT_S, FixedConnection, connect_to_read, explained
from alpineagents.store.writer import Writer

_MOST_IDLE = 8


class _Reader:
    """A reading connection, and the file and the time it belongs to."""

    def __init__(self, connection: sqlite3.Connection, identity: tuple[int, int], era: int) -> None:
        connection.row_factory = sqlite3.Row
        self.connection = connection
        self.identity = identity
        self.era = era


class File:
    """One database file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer = Writer(path)
        self._idle: list[_Reader] = []
        self._at_work: WeakSet[_Reader] = WeakSet()  # weak, because an interrupt may keep one from coming back
        self._era = 0
        self._held = False
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection | None]:
        """A reading connection for this thread alone, or `None` without a file. SQLite's errors come out as ours."""
        reader = self._taken()
        if reader is None:
            yield None
            return
        try:
            yield reader.connection
        except sqlite3.Error as error:
            raise explained(self.path, error) from error
        finally:
            self._give_back(reader)

    def _taken(self) -> _Reader | None:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        identity = (status.st_dev, status.st_ino)
        with self._lock:  # not the Condition, in whose Python code an interrupt could come
            self._changed.wait_for(lambda: not self._held, timeout=LOCK_WAIT_S)
            reader = self._idle_one(identity)
            if reader is None:
                connection = connect_to_read(self.path)
                if connection is None:
                    return None
                reader = _Reader(connection, identity, self._era)
            self._at_work.add(reader)
            return reader

    def _idle_one(self, identity: tuple[int, int]) -> _Reader | None:
        while self._idle:
            reader = self._idle.pop()
            if reader.identity == identity:
                return reader
            reader.connection.close()  # the file was deleted or replaced
        return None

    def _give_back(self, reader: _Reader) -> None:
        with self._lock:
            self._at_work.discard(reader)
            if self._is_lasting(reader):
                self._idle.append(reader)
            else:
                reader.connection.close()
            self._changed.notify_all()

    def _is_lasting(self, reader: _Reader) -> bool:
        if isinstance(reader.connection, FixedConnection) or reader.connection.in_transaction:
            return False
        return reader.era == self._era and not self._held and len(self._idle) < _MOST_IDLE

    def close(self) -> None:
        """Close every connection to it, and those at work when they come back; the next use opens it again."""
        self._close_readers()
        self.writer.close()

    def _close_readers(self) -> None:
        with self._lock:
            self._era += 1
            while self._idle:
                self._idle.pop().connection.close()

    def hold(self) -> None:
        """Close every connection and open none until `release`; what is in use for too long stays."""
        self.writer.hold()
        with self._lock:
            self._held = True
            self._changed.wait_for(lambda: not self._at_work, timeout=LOCK_WAIT_S)
        self._close_readers()

    def release(self) -> None:
        """The end of a `hold`."""
        with self._lock:
            self._held = False
            self._changed.notify_all()
        self.writer.release()


_files: dict[Path, File] = {}
_lock = threading.Lock()


def file_at(path: Path) -> File:
    """The file at a resolved path, the same for all who name it."""
    file = _files.get(path)
    if file is None:
        with _lock:
            file = _files.setdefault(path, File(path))
    return file


def _close_all() -> None:
    for file in list(_files.values()):
        file.close()


def _before_fork() -> None:
    _lock.acquire()
    for file in _files.values():
        file.hold()


def _after_fork_in_parent() -> None:
    for file in _files.values():
        file.release()
    _lock.release()


def _after_fork_in_child() -> None:
    # The parent's files stay untouched, should one of them have been in use for too long.
    global _files, _lock  # a fork replaces the state of the process, and so does this
    _inherited.append(_files)
    _files, _lock = {}, threading.Lock()


_inherited: list[dict[Path, File]] = []

atexit.register(_close_all)
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
