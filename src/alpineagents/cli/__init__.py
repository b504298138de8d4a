"""The command line: one module per command, imported when that command is used.

Exit status: 0 done; 1 the thing asked for is not so or not there, with one line on stderr; 2 wrong usage.
"""

from __future__ import annotations

import sys
from importlib import import_module
from io import TextIOWrapper

import click

__all__ = ["main"]

_MODULES = {
    "demo": "demo",
    "list": "listing",
    "show": "showing",
    "tail": "tailing",
    "tools": "tools",
    "sql": "asking",
    "view": "viewing",
    "import": "importing",
    "check": "checking",
}


class Commands(click.Group):
    """The commands by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order a newcomer needs them."""
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, if there is one of this name."""
        if cmd_name not in _MODULES:
            return None
        return getattr(import_module(f"alpineagents.cli.{_MODULES[cmd_name]}"), f"{cmd_name}_command")


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="alpineagents")
def main() -> None:
    """Look into the runs of agents that are kept in an SQLite file.

    FILE is left out where $ALPINEAGENTS_DB names it, or where it is runs.db.

    \b
    Example:
        alpineagents demo
        alpineagents list
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # whatever a run holds can be shown on any terminal
