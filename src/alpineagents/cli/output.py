"""What commands print: a table for people, JSON and CSV for programs."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import click

from alpineagents.terminal.text import shown

GAP = "  "
NARROWEST = 8

# What JSON leaves as it is and a terminal may act on; the surrogates cannot be encoded at all.
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def format_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--json`, `--jsonl` and `--csv`, which give `form`."""
    for form, text in (("csv", "as CSV"), ("jsonl", "as JSON, one object a line"), ("json", "as one JSON list")):
        option = click.option(f"--{form}", "form", flag_value=form, default=None, help=f"For programs: {text}.")
        command = option(command)
    return command


def write_rows(rows: Sequence[Mapping[str, Any]], form: str) -> None:
    """Print rows for a program."""
    if form == "csv":
        click.echo(_csv_text(rows), nl=False)
        return
    lines = [json_text(row) for row in rows]
    if form == "jsonl":
        click.echo("".join([f"{line}\n" for line in lines]), nl=False)
    else:
        click.echo("[" + ",\n ".join(lines) + "]")


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON that can be shown: what could rewrite the screen is escaped, which does not change what it says."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys([name for row in rows for name in row]))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[_csv_value(row.get(name)) for name in names] for row in rows])
    return shown(file.getvalue()) if for_person() else file.getvalue()


def _csv_value(value: Any) -> Any:
    return json_text(value) if isinstance(value, list | dict) else value


def for_person() -> bool:
    """Whether a person sees the output, rather than a program or a file."""
    return sys.stdout.isatty()


def colored() -> bool:
    """Whether it may have colours (https://no-color.org)."""
    return for_person() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        right: Whether it is aligned to the right. gives: Whether it is cut first when the terminal is too narrow.
        color: The colour of a cell on a terminal.
    """

    name: str
    right: bool = False
    gives: bool = False
    color: Callable[[str], str | None] | None = None


def write_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print an aligned table. On a terminal it fits the width; elsewhere nothing is cut."""
    room = shutil.get_terminal_size().columns if for_person() else None
    for line in table_lines(columns, rows, room, colors=colored()):
        click.echo(line)


def table_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int | None, *, colors: bool = False
) -> list[str]:
    """The lines of a table, the names first.

    Args:
        room: The width to fit in, in terminal cells; `None` cuts nothing.
    """
    names = [column.name for column in columns]
    widths = [max([width(row[index]) for row in (names, *rows)]) for index in range(len(columns))]
    if room is not None:
        over = sum(widths) + len(GAP) * (len(columns) - 1) - room
        widths = [
            max(NARROWEST, needed - over) if column.gives and over > 0 else needed
            for column, needed in zip(columns, widths, strict=True)
        ]
    lines = [_line(columns, names, widths, colors=False)]
    return [*lines, *[_line(columns, row, widths, colors=colors) for row in rows]]


def _line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int], *, colors: bool) -> str:
    parts: list[str] = []
    for column, text, room in zip(columns, cells, widths, strict=True):
        fitted = fit(text, room)
        padding = " " * (room - width(fitted))
        color = column.color(text) if colors and column.color else None
        styled = click.style(fitted, fg=color) if color else fitted
        parts.append(padding + styled if column.right else styled + padding)
    return GAP.join(parts).rstrip()


def width(text: str) -> int:
    """How many cells of a terminal a text takes."""
    return len(text) if text.isascii() else sum([_cells(character) for character in text])


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, room: int) -> str:
    """The text, cut with `…` if it takes more cells than there is room."""
    if width(text) <= room:
        return text
    ends = accumulate([_cells(character) for character in text])
    return text[: sum([end < room for end in ends])] + "…"


def one_line(text: str) -> str:
    """A text from a run on one line, safe to show."""
    return shown(" ".join(text.split()))
