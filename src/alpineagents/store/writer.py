"""The one writer of a file in this process, and group commit.

Jobs queue up. Whoever finds the writer idle commits everything that is queued in one transaction and tells the others:
a synchronous caller on its own thread, asynchronous ones through a helper thread. Nothing is reported before COMMIT has
returned. Each job of a group has a savepoint, so a bad one fails alone.

An interrupt (Ctrl+C arrives between any two steps of Python code) never leaves a job half done: the group is kept until
all of it has ended, so the attempt is made again, and a job that may have been committed already knows how to tell. Its
caller hears of the interrupt when the outcome is known, which the wait for a lock bounds.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from copy import copy
from pathlib import Path

from alpineagents.errors import explain
from alpineagents.store.opening import LOCK_WAIT_S, connect_to_write, explained

# How often a commit is tried that fails for want of memory or stack, before any statement of it.
_TRIES = 3
# A reader of another process keeps the WAL from being emptied; the file is as whole with it.
_CLOSING_WAIT_MS = 1_000
# After these the connection is made anew, since what was wrong with the file may have been put right.
_LASTING = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
)


class Job:
    """Some statements that belong together.

    Attributes:
        run: Executes them. Its second argument says that an earlier attempt may have been committed.
        synced: Whether the commit must reach the disk before it returns.
        done: Called once they are committed, before anybody is told. over: Called when they ended, well or not.
        again: Whether an earlier attempt may have been committed.
        settled: Whether the outcome is known. error: What went wrong. ended: Whether all who wait have been told.
    """

    __slots__ = ("again", "done", "ended", "error", "over", "run", "settled", "synced", "tell")

    def __init__(
        self,
        run: Callable[[sqlite3.Connection, bool], None],
        *,
        synced: bool,
        done: Callable[[], None] | None = None,
        over: Callable[[], None] | None = None,
    ) -> None:
        self.run = run
        self.synced = synced
        self.done = done
        self.over = over
        self.tell: Callable[[], None] | None = None
        self.again = False
        self.settled = False
        self.ended = False
        self.error: BaseException | None = None

    def end(self, error: BaseException | None = None) -> None:
        """Make the outcome known. Calling it again, after an interrupt, does no harm: the first outcome stays."""
        if not self.settled:
            self.error = error
            self.settled = True
        if self.error is None and self.done is not None:
            self.done()
        if self.over is not None:
            self.over()
        if self.tell is not None:
            self.tell()
        self.ended = True  # last, because who waits on this thread looks at nothing else


class Writer:
    """One writing connection, a queue, and a lock for whoever commits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._queue: deque[Job] = deque()
        self._group: list[Job] = []
        self._lock = threading.Lock()
        self._held = False
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._wal: tuple[int, int] | None = None
        self._level: str | None = None
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()  # an Event takes ten times as long
        self._helper: threading.Thread | None = None
        self._starting = threading.Lock()

    def perform(self, job: Job) -> None:
        """Commit the job, with all that is queued, on this thread or on the one that is at it."""
        interrupt: BaseException | None = None
        tries = 0
        while not job.ended:
            try:
                # Again after an interrupt, which may have come before or behind it: twice does no harm.
                self._queue.append(job)
                with self._lock:
                    if not job.ended:
                        self._commit_queued()
            except Exception as error:
                tries += 1
                if tries == _TRIES:
                    self._withdraw(job, error)
            except BaseException as error:
                interrupt = interrupt or error
        if interrupt is not None:
            raise interrupt
        if job.error is not None:
            raise job.error

    def _withdraw(self, job: Job, error: Exception) -> None:
        """End the job, so that nobody commits it behind the back of who gave it."""
        with self._lock:
            if self._connection is not None:
                _roll_back(self._connection)
            job.end(error)

    async def aperform(self, job: Job) -> None:
        """`perform` on the helper thread. A task cancelled meanwhile waits for the outcome all the same, so that
        the end of a loop, which cancels every task, leaves nothing half known."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[None] = loop.create_future()
        over = False

        def settle() -> None:
            nonlocal over
            over = True
            if not told.done():
                told.set_result(None)

        def tell() -> None:
            try:
                loop.call_soon_threadsafe(settle)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

        job.tell = tell
        self._start_helper()
        self._queue.append(job)
        self._wake.put(None)
        cancelled: asyncio.CancelledError | None = None
        while not over:
            try:
                await told
            except asyncio.CancelledError as error:
                cancelled, told = error, loop.create_future()
        if cancelled is not None:
            raise cancelled
        if job.error is not None:
            raise job.error

    def _start_helper(self) -> None:
        if self._helper is None:
            with self._starting:
                if self._helper is None:
                    helper = threading.Thread(target=self._help, name="alpineagents-writer", daemon=True)
                    helper.start()
                    self._helper = helper

    def _help(self) -> None:
        while True:
            self._wake.get()
            with self._lock:
                try:
                    self._commit_queued()
                except Exception as error:  # nobody may wait for ever because of a mistake in here
                    for job in self._group:
                        job.end(error)
                    self._group.clear()

    def close(self) -> None:
        """Commit what is queued, write everything into the one file, and close the connection."""
        with self._lock:
            self._commit_queued()
            if self._connection is None:
                return
            try:
                self._connection.execute(f"PRAGMA busy_timeout={_CLOSING_WAIT_MS}")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error:
                pass  # what is committed stays beside the file, in its WAL
            finally:
                self._disconnect()

    def hold(self) -> None:
        """Close the connection, and let nobody make one until `release`; unless somebody uses it for too long."""
        self._held = self._lock.acquire(timeout=2 * LOCK_WAIT_S)
        if self._held:
            self._disconnect()

    def release(self) -> None:
        """The end of a `hold`."""
        if self._held:
            self._held = False
            self._lock.release()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _commit_queued(self) -> None:
        group = self._group
        while self._queue:
            job = self._queue[0]
            group.append(job)
            self._queue.popleft()  # an interrupt before this line leaves the job in both, which does no harm
        for job in group:
            if job.settled and not job.ended:
                job.end()
        jobs = [job for job in dict.fromkeys(group) if not job.ended]
        if jobs:
            self._commit(jobs)
        group.clear()

    def _commit(self, jobs: list[Job]) -> None:
        connection = self._begun(jobs)
        if connection is None:
            return
        if len(jobs) == 1:
            self._commit_alone(connection, jobs[0])
        elif not self._commit_together(connection, jobs):
            for job in jobs:
                self._commit([job])
        if self._wal is None:
            self._wal = self._wal_now()

    def _wal_now(self) -> tuple[int, int] | None:
        return _identity(self.path.with_name(f"{self.path.name}-wal"))

    def _begun(self, jobs: list[Job]) -> sqlite3.Connection | None:
        """The connection, in a new transaction. Without one, all jobs have ended: waiting once for a lock is enough."""
        try:
            connection = self._connected()
            self._begin(connection, any([job.synced for job in jobs]))
        except Exception as error:
            clear = self._explained(error)
            for job in jobs:
                job.end(_copied(clear))
            return None
        return connection

    def _commit_together(self, connection: sqlite3.Connection, jobs: list[Job]) -> bool:
        """Whether one transaction took all jobs; if not, nothing of it remains and each is to be tried alone."""
        failed: dict[Job, BaseException] = {}
        try:
            for job in jobs:
                error = self._run_in_savepoint(connection, job)
                if not connection.in_transaction:
                    # SQLite rolls the whole transaction back by itself when the disk is full, fails, or memory ran out.
                    return False
                if error is not None:
                    failed[job] = error
            for job in jobs:
                job.again = job not in failed
            connection.execute("COMMIT")
        except (sqlite3.Error, MemoryError):  # SQLite's want of memory is Python's error
            _roll_back(connection)
            return False
        except BaseException:
            _roll_back(connection)
            raise
        for job in jobs:
            job.end(failed.get(job))
        return True

    def _run_in_savepoint(self, connection: sqlite3.Connection, job: Job) -> BaseException | None:
        connection.execute("SAVEPOINT job")
        try:
            job.run(connection, job.again)
        except Exception as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK TO job")
                connection.execute("RELEASE job")
            return self._explained(error)
        connection.execute("RELEASE job")
        return None

    def _commit_alone(self, connection: sqlite3.Connection, job: Job) -> None:
        try:
            job.run(connection, job.again)
            job.again = True
            connection.execute("COMMIT")
        except Exception as error:
            _roll_back(connection)
            job.end(self._explained(error))
        except BaseException:
            _roll_back(connection)
            raise
        else:
            job.end()

    def _explained(self, error: Exception) -> Exception:
        if not isinstance(error, sqlite3.Error):
            return error
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _LASTING:
            self._identity = None
        clear = explained(self.path, error)
        clear.__cause__ = error if clear is not error else None
        return clear

    def _begin(self, connection: sqlite3.Connection, synced: bool) -> None:
        _roll_back(connection)  # what an interrupt left open
        level = "FULL" if synced else "NORMAL"
        if level != self._level:
            self._level = None  # unknown, if an interrupt comes now
            connection.execute(f"PRAGMA synchronous={level}")
            self._level = level
        # IMMEDIATE, because a deferred transaction that read first fails at once, without waiting, when it then writes.
        connection.execute("BEGIN IMMEDIATE")

    def _connected(self) -> sqlite3.Connection:
        """The connection, made anew when the file was deleted or replaced under it."""
        if self._connection is not None:
            if self._identity is not None and self._identity == _identity(self.path):
                return self._connection
            self._disconnect()
        now = _identity(self.path)
        if (
            now is not None
            and self._identity not in (None, now)
            and self._wal is not None
            and self._wal == self._wal_now()
        ):
            raise _replaced(self.path)
        self._level, self._identity, self._wal = None, None, None
        self._connection = connect_to_write(self.path)
        self._identity = _identity(self.path)
        return self._connection


def _replaced(path: Path) -> ValueError:
    # SQLite would take the commits of the old file for those of the new one.
    problem = f"{path} was replaced while it was open, and {path.name}-wal beside it belongs to the old file"
    return ValueError(explain(problem, "put the old file back, or move the -wal and -shm away"))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # Path.stat takes twice as long, and this is asked before every commit
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _copied(error: Exception) -> Exception:
    """The same error for one more thread: raising an object writes into it."""
    copied = copy(error)
    copied.__cause__ = error.__cause__
    return copied


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
