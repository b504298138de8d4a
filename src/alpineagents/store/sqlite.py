"""SqliteStore: States in one SQLite file, every entry its own committed row the moment it is recorded."""

from __future__ import annotations

import errno
import functools
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from alpineagents.errors import explain
from alpineagents.journal import LOOSE_KINDS
from alpineagents.store.base import Infos, Record, StateInfo, Store
from alpineagents.store.collecting import collector_paused
from alpineagents.store.files import File, file_at
from alpineagents.store.opening import explained
from alpineagents.store.rows import entry_data, hashes, info_of_row
from alpineagents.store.saving import Entries
from alpineagents.store.statements import LISTING, READ_STATE, delete_state, write_state
from alpineagents.store.writer import Job
from alpineagents.waiting import in_thread


class SqliteStore(Store):
    """States in one SQLite file that `datasette` and SQL can read at any time.

    Any number of threads, States and Agents may use it at once, and several processes too. The file and its folder are
    made at the first write, readable by their owner only.

    Args:
        path: The file.
        synchronous: What a power cut may cost; a killed process loses nothing either way. `"full"`: nothing whose
            consequence has left this machine, at two fsyncs a turn. `"normal"`: perhaps the last moments, never the
            file.
    Raises:
        TypeError: `path` is no path.
        ValueError: It is empty or `":memory:"`, or `synchronous` is neither of the two.

    Example:
        with SqliteStore("runs.db") as store:
            for info in store.list():
                print(info.id, info.stopped)
    """

    write_through: ClassVar[bool] = True

    def __init__(self, path: str | os.PathLike[str], *, synchronous: Literal["full", "normal"] = "full") -> None:
        if synchronous not in ("full", "normal"):
            raise ValueError(explain(f'synchronous is "full" or "normal", not {synchronous!r}'))
        self._path = _checked(path)
        self._resolved = self._path.resolve()
        self._synced = synchronous == "full"

    @property
    def path(self) -> Path:
        """The file, as it was given."""
        return self._path

    @property
    def _file(self) -> File:
        return file_at(self._resolved)

    def write(
        self, state_id: str, entries: Sequence[dict[str, Any]], info: Mapping[str, Any], *, create: bool = False
    ) -> None:
        """Commit entries and info in one transaction. As `Store.write`, and besides:

        Raises:
            ValueError: Another writer has continued this State, or the file is not ours, newer or damaged.
            TimeoutError: Another process held the file's lock for 30 seconds.
            OSError: The disk is full or failed, the file is read-only, or is a directory.
        """
        self._file.writer.perform(self._job(state_id, entries, info, create))

    async def awrite(
        self, state_id: str, entries: Sequence[dict[str, Any]], info: Mapping[str, Any], *, create: bool = False
    ) -> None:
        """`write` on the helper thread that commits for all waiting tasks."""
        if type(self).awrite is SqliteStore.awrite and type(self).write is not SqliteStore.write:
            await in_thread(self._write_here, state_id, entries, info, create)
            return
        await self._file.writer.aperform(self._job(state_id, entries, info, create))

    def _write_here(
        self, state_id: str, entries: Sequence[dict[str, Any]], info: Mapping[str, Any], create: bool
    ) -> None:
        """The `write` of a subclass, which may fail before it reaches ours; a command may be waiting for its end."""
        try:
            self.write(state_id, entries, info, create=create)
        finally:
            if isinstance(entries, Entries):
                entries.ended()

    def _job(self, state_id: str, entries: Sequence[dict[str, Any]], info: Mapping[str, Any], create: bool) -> Job:
        run = write_state(state_id, entries, info, create)
        kinds = {entry["kind"] for entry in entries}
        synced = self._synced and not (kinds and kinds <= LOOSE_KINDS)
        if not isinstance(entries, Entries):
            return Job(run, synced=synced)
        return Job(run, synced=synced, done=entries.committed, over=entries.ended)

    def read(self, state_id: str) -> Record | None:
        """All entries of a State and its info, or `None` for an unknown id.

        Raises:
            ValueError: A row is damaged, or the file is not ours or newer.
        """
        with collector_paused(), self._file.reading() as connection:
            if connection is None:
                return None
            # One transaction, so that the info belongs to these entries.
            connection.execute("BEGIN")
            try:
                return _record(connection, state_id)
            finally:
                if connection.in_transaction:  # some errors have ended it already
                    connection.execute("ROLLBACK")

    def list(self) -> Infos:
        """Every saved State, the latest first; subagents too. One query that reads no entry."""
        with self._file.reading() as connection:
            if connection is None:
                return []
            rows = connection.execute(f"{LISTING} ORDER BY updated_at IS NULL, updated_at DESC, rowid DESC").fetchall()
        return [_listed(row) for row in rows]

    def delete(self, state_id: str, *, children: bool = False) -> None:
        """Remove a State and the images nobody else has, in one transaction. Its forks stay, as States of their own.

        Args:
            children: Whether its subagents go with it, and theirs.
        """
        if self._resolved.exists():
            self._file.writer.perform(Job(delete_state(state_id, children), synced=True))

    async def adelete(self, state_id: str, *, children: bool = False) -> None:
        """`delete` without blocking the event loop."""
        await in_thread(functools.partial(self.delete, state_id, children=children))

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the file as it is at this moment, while others write.

        Args:
            path: A file that does not exist yet; it is readable by its owner only.
        Raises:
            FileExistsError: It exists.
            FileNotFoundError: There is nothing to copy yet.
        """
        target = _checked(path).resolve()
        with self._file.reading() as connection:
            if connection is None:
                raise FileNotFoundError(errno.ENOENT, "there is nothing to copy yet", str(self._path))
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            try:
                _copy(connection, target)
            except BaseException:
                target.unlink()  # a part of a backup is none
                raise

    def close(self) -> None:
        """Commit what is queued and close the file, so that it alone is the whole record. It opens again when used."""
        self._file.close()

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SqliteStore):
            return NotImplemented
        return self._resolved == other._resolved

    def __hash__(self) -> int:
        return hash(self._resolved)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._path)!r})"


def _checked(path: object) -> Path:
    example = 'SqliteStore("runs.db")'
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            explain(f"SqliteStore takes a path, not {type(path).__name__}: {path!r}", "name a file", example)
        )
    text = os.fspath(path)  # type: ignore[reportUnknownVariableType]  # checked in the next line
    if not isinstance(text, str):
        raise TypeError(explain(f"SqliteStore takes a str path, not bytes: {text!r}", "decode it", example))
    if not text.strip():
        raise ValueError(explain(f"SqliteStore needs the path of a file, not {text!r}", "name a file", example))
    if text == ":memory:" or "\0" in text:
        raise ValueError(
            explain(
                f"SqliteStore keeps a file, and {text!r} is none", "leave store= out to keep a State in memory", example
            )
        )
    return Path(text)


def _copy(connection: sqlite3.Connection, target: Path) -> None:
    copy = sqlite3.connect(target)
    try:
        connection.backup(copy)
    except sqlite3.Error as error:
        raise explained(target, error) from error
    finally:
        copy.close()


def _listed(row: Any) -> StateInfo:
    try:
        return StateInfo.from_info(row["id"], info_of_row(row))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        problem = f"the row of State {row['id']!r} is damaged: {error}"
        raise ValueError(explain(problem, "see what alpineagents check says, or use a backup")) from error


def _record(connection: sqlite3.Connection, state_id: str) -> Record | None:
    row = connection.execute(f"{LISTING} WHERE id = ?", (state_id,)).fetchone()
    if row is None:
        return None
    cursor = connection.execute(READ_STATE, (state_id,))
    cursor.row_factory = None
    rows = cursor.fetchall()
    if len(rows) != row["entry_count"]:
        problem = f"State {state_id!r} is damaged: {len(rows)} of its {row['entry_count']} entries are in the file"
        raise ValueError(explain(problem, "use a backup"))
    bytes_of: dict[str, bytes] = {}
    for sha256 in hashes(rows):
        found = connection.execute("SELECT bytes FROM blobs WHERE sha256 = ?", (sha256,)).fetchone()
        if found is not None:
            bytes_of[sha256] = found["bytes"]
    return Record([entry_data(state_id, entry, bytes_of) for entry in rows], info_of_row(row))
