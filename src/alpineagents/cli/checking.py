"""`alpineagents check`: whether a file says the same everywhere."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from alpineagents.cli import queries
from alpineagents.cli.files import clear_errors, file_argument, reading
from alpineagents.cli.output import format_options, write_rows
from alpineagents.store import Problem, check
from alpineagents.terminal.text import shown


@click.command("check", short_help="Replay every run and compare.")
@file_argument
@format_options
def check_command(file: Path, form: str | None) -> None:
    """Replay every run in FILE and compare with all that was derived from it.

    Each difference is one line, and then the exit status is 1.

    \b
    Example:
        alpineagents check runs.db
    """
    with reading(file) as connection:
        states, entries = (0, 0) if connection is None else queries.counts(connection)
    with clear_errors(file):
        problems = check(file)
    if form is not None:
        write_rows([asdict(problem) for problem in problems], form)
    else:
        write_report(problems, states, entries)
    if problems:
        found = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise click.ClickException(f"{found} in {shown(str(file))}")


def write_report(problems: list[Problem], states: int, entries: int) -> None:
    """Print what is wrong, or how much is right."""
    for problem in problems:
        click.echo(shown(str(problem)))
    if not problems:
        click.echo(f"ok: {counted(states, 'State')}, {counted(entries, 'entry', 'entries')}")


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 State`, `2 States`."""
    return f"{number} {one if number == 1 else many or one + 's'}"
