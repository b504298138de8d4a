"""`alpineagents sql`: a query over the tables and views."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import click

from alpineagents.cli.files import default_file, reading
from alpineagents.cli.output import Column, for_person, format_options, one_line, write_rows, write_table
from alpineagents.values.display import short

FILE_AND_QUERY = 2
LONGEST = 60


@click.command("sql", short_help="Ask with a query.")
@click.argument("words", nargs=-1, required=True, metavar="[FILE] QUERY")
@format_options
def sql_command(words: tuple[str, ...], form: str | None) -> None:
    """Run QUERY over FILE. Nothing in the file can be changed by it.

    Besides the tables states and entries there are the views tool_calls, model_calls, runs, subagent_tree, errors and
    exchanges.

    \b
    Example:
        alpineagents sql runs.db "SELECT tool, outcome, count(*) AS calls FROM tool_calls GROUP BY tool, outcome"
    """
    if len(words) > FILE_AND_QUERY:
        raise click.UsageError(f"sql takes a file and a query, not {len(words)} words: put the query in quotes")
    file = Path(words[0]) if len(words) == FILE_AND_QUERY else default_file()
    with reading(file) as connection:
        if connection is None:
            raise click.ClickException("there are no tables in the file yet")
        rows = asked(connection, words[-1])
    if form is not None:
        write_rows(rows, form)
    elif rows:
        columns = [Column(one_line(name), gives=True) for name in rows[0]]
        write_table(columns, [[cell(value) for value in row.values()] for row in rows])
    else:
        click.echo("no rows", err=True)


def asked(connection: sqlite3.Connection, query: str) -> list[dict[str, Any]]:
    """The rows of a query."""
    connection.set_authorizer(_without_other_files)
    try:
        cursor = connection.execute(query)
        return [{name: readable(row[name]) for name in row.keys()} for row in cursor]  # noqa: SIM118  # a Row is no dict
    except sqlite3.Error as error:
        message = str(error)
        if "readonly" in message or "attempt to write" in message or "not authorized" in message:
            message = "the query would change the file, and this command only reads"
        raise click.ClickException(one_line(message)) from error
    except (sqlite3.Warning, ValueError) as error:  # several statements, or a NUL in one
        raise click.ClickException(one_line(str(error))) from error


def _without_other_files(action: int, *about: object) -> int:
    """A connection that only reads could still attach, and so make, another file; VACUUM INTO does so, too."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK


def readable(value: Any) -> Any:
    """A value as JSON can hold it."""
    return f"x'{value.hex()}'" if isinstance(value, bytes) else value


def cell(value: Any) -> str:
    """A value in a table; on a terminal not all of a long text."""
    text = "" if value is None else one_line(str(value))
    return short(text, LONGEST) if for_person() else text
