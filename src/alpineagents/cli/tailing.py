"""`alpineagents tail`: entries as they are committed."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import click

from alpineagents.cli import queries
from alpineagents.cli.files import default_file, reading
from alpineagents.cli.output import json_text
from alpineagents.history.codec import decode
from alpineagents.history.printed import entry_line
from alpineagents.store.rows import entry_data, hashes
from alpineagents.terminal.text import shown

POLL_S = 0.2
FILE_AND_ID = 2
FEW = 5


@click.command("tail", short_help="Follow runs as they go.")
@click.argument("words", nargs=-1, metavar="[FILE] [ID]")
@click.option("-n", "number", type=click.IntRange(min=0), default=10, show_default=True, help="Begin so many back.")
@click.option("--jsonl", is_flag=True, help="For programs: as JSON, one entry a line.")
@click.option("--once", is_flag=True, help="Do not wait for more.")
def tail_command(words: tuple[str, ...], number: int, jsonl: bool, once: bool) -> None:
    """Show the last entries in FILE, of the run ID or of all, and each further one as it is committed, until Ctrl+C.

    \b
    Example:
        alpineagents tail runs.db
        alpineagents tail runs.db night-build
    """
    file, start = file_and_id(words)
    with reading(file) as connection:
        if connection is None:
            raise click.ClickException("there is nothing in the file yet")
        state_id = None if start is None else the_id(connection, start, file)
        last = queries.entry_before(connection, state_id, number)
        try:
            while True:
                for row in queries.entries_after(connection, state_id, last):
                    last = row["id"]
                    click.echo(json_line(connection, row) if jsonl else line_of(connection, row, state_id is None))
                if once:
                    return
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            return


def file_and_id(words: tuple[str, ...]) -> tuple[Path, str | None]:
    """`[FILE] [ID]`: a single word is the file if there is such a file."""
    if len(words) > FILE_AND_ID:
        raise click.UsageError(f"tail takes a file and an id, not {len(words)} words")
    if len(words) == FILE_AND_ID:
        return Path(words[0]), words[1]
    if words and not Path(words[0]).exists() and Path(words[0]).suffix != ".db":
        return default_file(), words[0]
    return (Path(words[0]) if words else default_file()), None


def the_id(connection: sqlite3.Connection, start: str, file: Path) -> str:
    """The id of the run that begins like this."""
    found = queries.ids(connection, start, FEW)
    if len(found) > 1:
        raise click.ClickException(f"several runs begin with {start!r}: {shown(', '.join(found))}")
    if not found:
        raise click.ClickException(f"there is no run {start!r} in {shown(str(file))}: see alpineagents list")
    return found[0]


def json_line(connection: sqlite3.Connection, row: sqlite3.Row) -> str:
    """An entry for a program, with the id of its State."""
    try:
        return json_text({"state_id": row["state_id"], **data_of(connection, row)})
    except ValueError as error:
        return json_text({"state_id": row["state_id"], "seq": row["seq"], "damaged": str(error).partition("\n")[0]})


def line_of(connection: sqlite3.Connection, row: sqlite3.Row, several: bool) -> str:
    """An entry for a person, behind the id of its State if those of several are shown."""
    try:
        line = entry_line(decode(data_of(connection, row)))
    except (TypeError, ValueError) as error:  # somebody wrote into the file by hand
        line = f"[turn {row['turn']}] {row['kind']}: (damaged: {str(error).partition(chr(10))[0]})"
    return shown(f"{row['state_id']}  {line}" if several else line)


def data_of(connection: sqlite3.Connection, row: sqlite3.Row) -> dict[str, Any]:
    """The JSON form of an entry.

    Raises:
        ValueError: The row is damaged.
    """
    state_id, *fields = tuple(row)[1:]
    return entry_data(state_id, fields, queries.blobs(connection, hashes([fields])))
