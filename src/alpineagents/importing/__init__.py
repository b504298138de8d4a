"""Runs that other tools recorded, as ordinary States.

A format is one file in `formats/`: what its sources look like, and one function that tells, entry by entry, what is in
one. What no history may hold is mended or left out in one place for all of them (`recording.py`), and said in a report.
"""

from __future__ import annotations

from alpineagents.importing.importer import import_sources
from alpineagents.importing.reports import FileReport, Note
from alpineagents.importing.sources import files_in

__all__ = ["FileReport", "Note", "files_in", "import_sources"]
