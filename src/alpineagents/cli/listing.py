"""`alpineagents list`: which runs there are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from alpineagents.cli import queries
from alpineagents.cli.files import file_argument, reading
from alpineagents.cli.output import Column, for_person, format_options, one_line, write_rows, write_table
from alpineagents.history import clock
from alpineagents.history.codec_checks import time_text
from alpineagents.store.status import STATUSES, stale_before
from alpineagents.values.display import short as short_text

UNKNOWN = "-"
SHORT_ID = 12
MESSAGE_LENGTH = 100
MOST_RUNS = click.IntRange(1, 1_000_000)
SMALL_COST = 0.01

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"(\d{1,6})([mhdw])")
_COLORS = {
    "running": "blue",
    "stalled": "yellow",
    "answered": "green",
    "finished": "green",
    "limit": "yellow",
    "permission": "yellow",
    "failed": "red",
    "interrupted": "magenta",
}
COLUMNS = [
    Column("id"),
    Column("status", color=_COLORS.get),
    Column("first message", gives=True),
    Column("turns", right=True),
    Column("cost", right=True),
    Column("started"),
]


def moment(ctx: click.Context, param: click.Parameter, text: str | None) -> datetime | None:
    """A time as a person writes it: `7d` ago, `3h` ago, or an ISO date or time, local unless it says otherwise."""
    if text is None:
        return None
    try:
        if age := _AGE.fullmatch(text):
            return clock.now() - timedelta(**{_UNITS[age[2]]: int(age[1])})
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        problem = f"{text!r} is no time: try 7d, 3h, 2026-11-30 or 2026-11-30T18:00"
        raise click.BadParameter(problem, ctx, param) from error


@click.command("list", short_help="List runs, the newest first.")
@file_argument
@click.option("--all", "subagents", is_flag=True, help="With subagents, as a tree below the run that started them.")
@click.option("--status", type=click.Choice(STATUSES), help="Only runs that stand like this.")
@click.option("--agent", help="Only runs of the Agent with this name.")
@click.option("--since", metavar="WHEN", callback=moment, help="Only runs started since: 7d, 3h, 2026-11-30.")
@click.option("-n", "number", type=MOST_RUNS, default=20, show_default=True, help="At most so many runs.")
@format_options
def list_command(  # noqa: PLR0913  # the options of the command
    file: Path,
    *,
    subagents: bool,
    status: str | None,
    agent: str | None,
    since: datetime | None,
    number: int,
    form: str | None,
) -> None:
    """List the runs in FILE, the newest first.

    An unfinished run is running, or stalled when nothing was recorded for ten minutes.

    \b
    Example:
        alpineagents list runs.db --status failed --since 7d
    """
    with reading(file) as connection:
        found = (
            queries.runs(
                connection,
                number=number,
                stale_before=stale_before(clock.now()),
                status=status,
                agent=agent,
                since=time_text(since) if since else None,
                subagents=subagents,
            )
            if connection is not None
            else []
        )
    rows = list(in_tree(found))
    if form is not None:
        write_rows([row for row, _ in rows], form)
    elif rows:
        write_table(COLUMNS, cells(rows, short=for_person()))
    else:
        click.echo("no runs", err=True)


def in_tree(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], int]]:
    """Each run, newest first, with its subagents behind it in the order they started, and how deep each stands."""
    known = {row["id"] for row in rows}
    below: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        below.setdefault(row["parent_id"] if row["parent_id"] in known else None, []).append(row)
    waiting = [(row, 0) for row in reversed(below.get(None, []))]
    while waiting:
        row, depth = waiting.pop()
        yield row, depth
        waiting += [(child, depth + 1) for child in below.pop(row["id"], [])]


def cells(rows: Sequence[tuple[dict[str, Any], int]], *, short: bool) -> list[list[str]]:
    """The rows of the table; `short` for a terminal, where there is little room."""
    length = id_length([row["id"] for row, _ in rows]) if short else None
    return [
        [
            "  " * depth + one_line(row["id"][:length]),
            one_line(row["status"] or UNKNOWN),
            short_text(one_line(row["first_message"] or UNKNOWN), MESSAGE_LENGTH),
            UNKNOWN if row["turn"] is None else str(row["turn"]),
            cost_text(row["cost"]),
            started_text(row["created_at"], short=short),
        ]
        for row, depth in rows
    ]


def id_length(ids: Sequence[str]) -> int:
    """How many characters tell these ids apart. `show` takes the start of an id for the whole."""
    lengths = range(SHORT_ID, max([len(id) for id in ids]))
    return next((length for length in lengths if len({id[:length] for id in ids}) == len(ids)), lengths.stop)


def cost_text(cost: float | None) -> str:
    """Dollars."""
    if cost is None:
        return UNKNOWN
    return f"${cost:.4f}" if 0 < cost < SMALL_COST else f"${cost:.2f}"


def started_text(at: str | None, *, short: bool) -> str:
    """A time of the file as local time; `short` is the time of a moment today, else the date."""
    if at is None:
        return UNKNOWN
    try:
        time = datetime.fromisoformat(at).astimezone()
    except (ValueError, OverflowError):
        return one_line(at)
    if not short:
        return f"{time:%Y-%m-%d %H:%M}"
    return f"{time:%H:%M}" if time.date() == clock.now().astimezone().date() else f"{time:%Y-%m-%d}"
