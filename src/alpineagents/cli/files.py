"""The file a command works on, and what can be wrong with it, said in one line."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from alpineagents.scope import DATABASE_VARIABLE
from alpineagents.store.opening import connect_to_read, explained
from alpineagents.terminal.text import shown


def file_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `[FILE]`."""
    kind = click.Path(path_type=Path)
    return click.argument("file", type=kind, default=default_file, metavar="[FILE]")(command)


def default_file() -> Path:
    """The file where none is given."""
    return Path(os.environ.get(DATABASE_VARIABLE) or "runs.db")


@contextmanager
def clear_errors(path: Path) -> Generator[None]:
    """Inside the block, what is wrong with the file becomes one line on stderr and exit status 1."""
    try:
        yield
    except BrokenPipeError:  # the reader of our output has gone, which Click knows how to take
        raise
    except sqlite3.Error as error:
        raise click.ClickException(one_line(explained(path, error))) from error
    except (OSError, RuntimeError, ValueError) as error:  # pathlib says RuntimeError for a loop of links
        raise click.ClickException(one_line(error)) from error


def one_line(error: Exception) -> str:
    """The first line of what an exception says, with the file it is about."""
    if not isinstance(error, OSError) or error.strerror is None:
        return shown(str(error).partition("\n")[0])
    problem, file = error.strerror.partition("\n")[0], str(error.filename or "")
    return shown(problem if file in problem else f"{file}: {problem}")


@contextmanager
def reading(path: Path) -> Generator[sqlite3.Connection | None]:
    """A connection that cannot write, or `None` when there is nothing in the file yet."""
    with clear_errors(path):
        there = path.exists()
    if not there:
        raise click.ClickException(f"there is no file {shown(str(path))}: name one, or make one with alpineagents demo")
    with clear_errors(path):
        connection = connect_to_read(path.resolve())
        if connection is None:
            yield None
            return
        connection.row_factory = sqlite3.Row
        try:
            yield connection
        finally:
            connection.close()
