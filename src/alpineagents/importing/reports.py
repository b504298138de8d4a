"""What became of one file: what was kept, what was mended, what was left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

MOST_NOTES = 1_000
MOST_IDS = 1_000


@dataclass(frozen=True)
class Note:
    """One thing that was mended or left out, and where."""

    place: str
    kind: Literal["repaired", "left out"]
    text: str

    @property
    def order(self) -> int:
        """The number of the line, so that notes can be put in the order of a file; 0 for what is no line."""
        word, _, number = self.place.partition(",")[0].partition(" ")
        return int(number) if word == "line" and number.isdecimal() else 0

    def __str__(self) -> str:
        return f"{self.place} {self.kind}: {self.text}"


@dataclass
class FileReport:
    """What became of one source.

    Attributes:
        format: What it was; `None` for no format that is known.
        added, replaced: How many States were made, and made anew because the source had grown.
        already: How many were there as they are.
        kept_back: Ids of States that were left alone although the source says something else.
        ids: The States of this source, the first 1,000.
        kept: How many messages, calls, results, images and other entries the added and replaced States have.
        repaired, left_out: How many things were mended or left out. `notes` says which, of the first 1,000.
        passed_over: How many lines belong to no conversation, by what they are.
        error: Why nothing of it was imported, if so.
    """

    path: Path
    format: str | None = None
    added: int = 0
    replaced: int = 0
    already: int = 0
    kept_back: list[str] = field(default_factory=list[str])
    ids: list[str] = field(default_factory=list[str])
    kept: Counter[str] = field(default_factory=Counter[str])
    repaired: int = 0
    left_out: int = 0
    notes: list[Note] = field(default_factory=list[Note])
    passed_over: Counter[str] = field(default_factory=Counter[str])
    error: str | None = None

    def note(self, place: str, kind: Literal["repaired", "left out"], text: str) -> None:
        """Write one thing down."""
        if kind == "repaired":
            self.repaired += 1
        else:
            self.left_out += 1
        if len(self.notes) < MOST_NOTES:
            self.notes.append(Note(place, kind, text))

    @property
    def clean(self) -> bool:
        """Whether everything in the source was kept as it is."""
        return not (self.repaired or self.left_out or self.kept_back or self.error)

    def data(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "file": str(self.path),
            "format": self.format,
            "added": self.added,
            "replaced": self.replaced,
            "already": self.already,
            "kept_back": self.kept_back,
            "ids": self.ids,
            "kept": dict(self.kept),
            "repaired": self.repaired,
            "left_out": self.left_out,
            "notes": [{"place": note.place, "kind": note.kind, "text": note.text} for note in self.notes],
            "passed_over": dict(self.passed_over),
            "error": self.error,
        }
