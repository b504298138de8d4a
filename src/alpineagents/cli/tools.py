"""`alpineagents tools`: how each tool fares."""

from __future__ import annotations

from pathlib import Path

import click

from alpineagents.cli import queries
from alpineagents.cli.files import file_argument, reading
from alpineagents.cli.output import Column, format_options, one_line, write_rows, write_table

COLUMNS = [
    Column("tool", gives=True),
    *[Column(name, right=True) for name in ("calls", "failed", *queries.OUTCOMES, "median", "runs")],
]


@click.command("tools", short_help="Tools by outcome.")
@file_argument
@format_options
def tools_command(file: Path, form: str | None) -> None:
    """Count the calls of each tool in FILE by how they ended, those that fail most first.

    Failed are error, input_error, aborted and interrupted; a denied or cancelled call did not run. The median is of
    the time a call took, in seconds.

    \b
    Example:
        alpineagents tools runs.db
    """
    with reading(file) as connection:
        rows = [] if connection is None else queries.tools(connection)
    if form is not None:
        write_rows(rows, form)
    elif rows:
        write_table(COLUMNS, [cells(row) for row in rows])
    else:
        click.echo("no tool calls", err=True)


def cells(row: dict[str, object]) -> list[str]:
    """A row of the table; what is 0 stays blank, so that what is not stands out."""
    median = row["median_s"]
    counts = [str(row[name] or "") for name in queries.OUTCOMES]
    return [
        one_line(str(row["tool"])),
        str(row["calls"]),
        str(row["failed"] or ""),
        *counts,
        f"{median:.3g}" if isinstance(median, float) else "",
        str(row["runs"]),
    ]
