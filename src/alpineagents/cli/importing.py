"""`alpineagents import`: runs that other tools recorded."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from alpineagents.cli.checking import counted
from alpineagents.cli.files import clear_errors, default_file
from alpineagents.cli.output import for_person, format_options, write_rows
from alpineagents.importing import FileReport, files_in, import_sources
from alpineagents.store import SqliteStore
from alpineagents.terminal.text import shown

SQLITE = b"SQLite format 3\0"
FEW = 20
_SINGULAR = {
    "messages": "message",
    "calls": "call",
    "results": "result",
    "images": "image",
    "other entries": "other entry",
}


@click.command("import", short_help="Import runs of other tools.")
@click.argument("words", nargs=-1, required=True, metavar="[FILE] SOURCE...")
@click.option("--strict", is_flag=True, help="Refuse a source of which something must be mended or left out.")
@click.option("--notes", "all_notes", is_flag=True, help="Say all that was mended or left out, not only the first.")
@format_options
def import_command(words: tuple[str, ...], strict: bool, all_notes: bool, form: str | None) -> None:
    """Import recorded runs into FILE: sessions of Claude Code, trajectories of SWE-agent, logs of Inspect, and chats in
    OpenAI's format, one a line.

    A source is a file, or a folder with files. What it is follows from what is in it. The first word is FILE if it is
    an SQLite file, or no file yet. Importing a source again changes nothing.

    \b
    Example:
        alpineagents import runs.db ~/.claude/projects
        alpineagents import runs.db session.jsonl logs/*.eval --strict
    """
    file, sources = file_and_sources(words)
    with clear_errors(file):
        missing = [source for source in sources if not source.exists()]
        if missing:
            raise click.ClickException(f"there is no {shown(str(missing[0]))}")
        reports = imported(file, list(files_in(sources)), strict)
    if form is not None:
        write_rows([report.data() for report in reports], form)
    else:
        write_report(reports, file, None if all_notes else FEW)
    refused = [report for report in reports if report.error is not None]
    if not reports:
        raise click.ClickException("there is no file in what was named")
    if len(refused) == len(reports):
        raise click.ClickException(f"nothing was imported: {shown(refused[0].error or '')}")


def file_and_sources(words: Sequence[str]) -> tuple[Path, list[Path]]:
    """`[FILE] SOURCE...`: which of the words is the file."""
    first, *others = [Path(word) for word in words]
    if others and (is_sqlite(first) or not first.exists()):
        return first, others
    return default_file(), [first, *others]


def is_sqlite(path: Path) -> bool:
    """Whether there is an SQLite file."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(SQLITE)) == SQLITE


def imported(file: Path, files: Sequence[Path], strict: bool) -> list[FileReport]:
    """Import the files, with a bar for a person who waits."""
    total = sum([path.stat().st_size for path in files])
    bar: Any = nullcontext()
    if for_person():
        bar = click.progressbar(length=total, label="importing", file=sys.stderr)
    with SqliteStore(file, synchronous="normal") as store, bar as progress:
        advanced = None if progress is None else progress.update
        return list(import_sources(store, files, strict=strict, advanced=advanced))


def write_report(reports: Iterable[FileReport], file: Path, most: int | None) -> None:
    """Print what became of each file, and of all."""
    states = 0
    for report in reports:
        states += report.added + report.replaced
        click.echo(shown(f"{report.path}: {outcome(report)}"))
        for note in report.notes[:most]:
            click.echo(shown(f"  {note}"))
        if most is not None and len(report.notes) > most:
            click.echo(f"  and {len(report.notes) - most} more: --notes says them all")
    click.echo(f"{counted(states, 'State')} imported into {shown(str(file))}")


def named(count: int, name: str) -> str:
    """A name of several things, as it is for so many."""
    return _SINGULAR.get(name, name) if count == 1 else name


def outcome(report: FileReport) -> str:
    """What became of one file, in one line."""
    if report.error is not None:
        return f"not imported: {report.error}"
    kept = ", ".join([f"{count} {named(count, name)}" for name, count in report.kept.items() if count])
    parts = [
        (report.added, f"{counted(report.added, 'State')} added"),
        (report.replaced, f"{counted(report.replaced, 'State')} made anew, because the source has grown"),
        (report.already, f"{counted(report.already, 'State')} there already"),
        (len(report.kept_back), f"{counted(len(report.kept_back), 'State')} left as they are: they went on since"),
        (len(kept), kept),
        (report.repaired, f"{report.repaired} repaired"),
        (report.left_out, f"{report.left_out} left out"),
    ]
    said = [text for count, text in parts if count]
    return f"{report.format}: " + ("; ".join(said) or "nothing in it")
