"""Importing: each source is told by its format, and its conversations become States."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alpineagents.importing.formats import FORMATS, Format
from alpineagents.importing.items import Begun, Ended, Found, PassedOver, Remark
from alpineagents.importing.recording import Recording
from alpineagents.importing.reports import MOST_IDS, FileReport
from alpineagents.importing.sources import Source
from alpineagents.store import SqliteStore
from alpineagents.store.files import file_at
from alpineagents.values.usage import Usage

MOST_BUSY = 32
_USAGE = (
    "SELECT input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, requests, cost FROM states WHERE id = ?"
)
_SAVED = """
SELECT entry_count, more, (
    SELECT CASE WHEN json_valid(data) THEN json_array(seq, json(data -> '$.content.imported')) END FROM entries
    WHERE state_id = states.id AND kind = 'extra_data' ORDER BY seq DESC LIMIT 1
) AS imported
FROM states WHERE id = ?
"""


def import_sources(
    store: SqliteStore,
    paths: Iterable[Path],
    *,
    strict: bool = False,
    advanced: Callable[[int], None] | None = None,
) -> Iterator[FileReport]:
    """Import files, and report of each as it is done.

    Args:
        paths: Files; `files_in` finds those of folders.
        strict: Whether a source in which anything must be mended or left out is refused as a whole.
        advanced: Hears how many more bytes have been read.
    """
    known: list[tuple[int, Path, Format]] = []
    for path in paths:
        source = Source(path)
        try:
            format = next((format for format in FORMATS if format.recognizes(source)), None)
        except OSError as error:
            yield FileReport(path, error=error.strerror or str(error))
            continue
        if format is None:
            yield FileReport(path, error=f"no known format; looked for {looked_for()}")
            continue
        known.append((format.rank(source), path, format))  # not the source, which remembers what it read
    desk = Desk(store)
    for _, path, format in sorted(known, key=lambda item: item[0]):
        yield _imported(desk, Source(path, advanced), format, strict)


def looked_for() -> str:
    """What the known formats look like, in one line."""
    return ", ".join([format.title for format in FORMATS])


def _imported(desk: Desk, source: Source, format: Format, strict: bool) -> FileReport:
    try:
        if strict:
            trial = _Import(Desk(desk.store, writing=False), Source(source.path), format).done()
            if not trial.clean:
                trial.error = "refused by --strict: not all of it can be kept as it is"
                trial.added = trial.replaced = 0
                trial.ids = []
                return trial
        return _Import(desk, source, format).done()
    except OSError as error:
        return FileReport(source.path, format.name, error=error.strerror or str(error))
    except ValueError as error:
        return FileReport(source.path, format.name, error=str(error).partition("\n")[0])


@dataclass
class Desk:
    """The file that is written to. `writing` is false for a trial."""

    store: SqliteStore
    writing: bool = True

    def saved(self, state_id: str) -> Saved | None:
        """What is in the file under this id."""
        with file_at(self.store.path.resolve()).reading() as connection:
            row = None if connection is None else connection.execute(_SAVED, (state_id,)).fetchone()
        if row is None:
            return None
        more: dict[str, Any] = json.loads(row["more"]) if row["more"] else {}
        seq, imported = json.loads(row["imported"]) if row["imported"] else (None, None)
        untouched = seq is not None and seq == row["entry_count"] - 1
        return Saved(imported or {}, untouched, more.get("importing"))

    def usage_of(self, state_id: str) -> Usage | None:
        """What a State used, if it is in the file."""
        with file_at(self.store.path.resolve()).reading() as connection:
            row = None if connection is None else connection.execute(_USAGE, (state_id,)).fetchone()
        return None if row is None else Usage(*[value or 0 for value in tuple(row)[:-1]], cost=row["cost"])

    def write(self, state_id: str, entries: Sequence[dict[str, Any]], info: Mapping[str, Any], create: bool) -> None:
        """Commit entries of a State."""
        if self.writing:
            self.store.write(state_id, entries, info, create=create)

    def delete(self, state_id: str) -> None:
        """Remove a State that is about to be made anew."""
        if self.writing:
            self.store.delete(state_id)


@dataclass(frozen=True)
class Saved:
    """What a file has under the id of a conversation.

    Attributes:
        imported: Where it is from, if it was imported.
        untouched: Whether nothing was recorded since then.
        begun: The hash of the source of an import that was cut off.
    """

    imported: Mapping[str, Any]
    untouched: bool
    begun: str | None


class _Import:
    """The import of one source."""

    def __init__(self, desk: Desk, source: Source, format: Format) -> None:
        self._desk = desk
        self._source = source
        self._format = format
        self._report = FileReport(source.path, format.name)
        self._open: dict[str, Recording | None] = {}
        self._busy: OrderedDict[str, Recording] = OrderedDict()  # those told of last

    def done(self) -> FileReport:
        """Do it, and say what became of it."""
        for item in self._format.items(self._source):
            match item:
                case Found():
                    self._add(item)
                case Begun(key):
                    self._open[key] = self._begun(item)
                case Ended(key):
                    self._end(key, item.imported)
                case Remark():
                    self._report.note(item.place, item.kind, item.text)
                case PassedOver():
                    self._report.passed_over[item.what] += 1
        for key in list(self._open):
            self._end(key, {})
        self._report.notes.sort(key=lambda note: note.order)
        return self._report

    def _add(self, found: Found) -> None:
        recording = self._open[found.key]
        if recording is None:
            return
        recording.add(found)
        self._busy[found.key] = recording
        self._busy.move_to_end(found.key)
        if len(self._busy) > MOST_BUSY:
            self._busy.popitem(last=False)[1].rest()

    def _begun(self, begun: Begun) -> Recording | None:
        report = self._report
        if len(report.ids) < MOST_IDS:
            report.ids.append(begun.id)
        saved = self._desk.saved(begun.id)
        if saved is None:
            report.added += 1
        elif saved.begun is not None or self._has_grown(begun, saved):
            report.replaced += 1
            self._desk.delete(begun.id)
        else:
            if saved.imported.get("sha256") == begun.sha256:
                report.already += 1
            else:
                report.kept_back.append(begun.id)
            return None
        return Recording(begun, report, self._desk.write, self._desk.usage_of, self._source.modified)

    def _has_grown(self, begun: Begun, saved: Saved) -> bool:
        """Whether an earlier import has only the beginning of this, and nobody went on with it since."""
        same_source = saved.imported.get("source") == self._source.name
        return begun.grows and same_source and saved.untouched and saved.imported.get("bytes", 0) < begun.size

    def _end(self, key: str, imported: Mapping[str, Any]) -> None:
        recording = self._open.pop(key)
        self._busy.pop(key, None)
        if recording is None:
            return
        begun = recording.begun
        known = {
            "format": self._format.name,
            "source": self._source.name,
            "sha256": begun.sha256,
            "bytes": begun.size,
        }
        recording.finish({**known, **begun.imported, **imported})
