"""`alpineagents demo`: what the library does, without a key."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import click

from alpineagents.cli.files import clear_errors, file_argument
from alpineagents.cli.output import colored, for_person
from alpineagents.demo import play
from alpineagents.store.opening import connect_to_write
from alpineagents.terminal.text import shown

QUERY = "SELECT tool, outcome, count(*) AS calls FROM tool_calls GROUP BY tool, outcome"


@click.command("demo", short_help="Run a recorded agent and look at what is left.")
@file_argument
def demo_command(file: Path) -> None:
    """Run a recorded coding agent through the library, and leave its runs in FILE.

    It needs no key and no network. What is in FILE already stays.

    \b
    Example:
        alpineagents demo runs.db
    """
    with clear_errors(file):
        connect_to_write(file.resolve()).close()  # what is wrong with the file is said before anything runs
        play(file, say, pace=1.0 if for_person() else 0.0)
    name = shlex.quote(shown(str(file)))
    say(f"\nThe whole record is in   {name}")
    click.echo(f"Look at it               {program('alpineagents')} view {name}")
    click.echo(f'Ask it                   {program("sqlite-utils")} {name} "{QUERY}" --table')


def say(line: str) -> None:
    """A line between the runs."""
    click.echo(click.style(shown(line), bold=True) if colored() else shown(line))


def program(name: str) -> str:
    """A command as it can be typed here: with its folder, if that is not where the shell looks."""
    beside = Path(sys.argv[0]).with_name(name)
    if shutil.which(name) is not None or not beside.is_file():
        return name
    return shlex.quote(str(beside))
