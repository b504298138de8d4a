"""The counts of all runs: by status, agent, model and day. One pass over the States, kept until the file changes."""

from __future__ import annotations

import sqlite3
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from alpineagents.store.status import RUNNING, STALLED
from datasette_alpineagents import queries
from datasette_alpineagents.queries import Row
from datasette_alpineagents.status import STATUSES

DAYS = 30
_KEPT = 8


@dataclass(frozen=True)
class Day:
    """One day of the strip; `unknown` counts runs whose cost is not known."""

    day: str
    runs: int
    failed: int
    cost: float
    unknown: int


@dataclass(frozen=True)
class Census:
    """All States, counted. The rows are those of `queries.CUBE`; unfinished ones stand under their word of now."""

    rows: list[Row]
    inherited: list[Row]
    newest: int

    def counts(self, of: str, chosen: Mapping[str, Any], *, subagents: bool) -> Counter[str]:
        """How many States have each value of a column, among those the other choices leave."""
        found: Counter[str] = Counter()
        for row in self._left(subagents):
            if all([row[name] == value for name, value in chosen.items() if name != of and value]):
                found[row[of]] += row["runs"]
        return found

    def total(self, *, subagents: bool) -> int:
        """How many there are."""
        return sum([row["runs"] for row in self._left(subagents)])

    def days(self, now: datetime) -> list[Day]:
        """The last thirty days, the oldest first, with runs only: what a run cost has its subagents in it."""
        names = [(now - timedelta(days=DAYS - 1 - number)).date().isoformat() for number in range(DAYS)]
        by_day: dict[str, list[Row]] = {name: [] for name in names}
        for row in self._left(subagents=False):
            by_day.get(row["day"], []).append(row)
        return [_day(name, found, self.inherited) for name, found in by_day.items()]

    def _left(self, subagents: bool) -> Iterable[Row]:
        return [row for row in self.rows if subagents or row["is_run"]]


def _day(name: str, found: list[Row], inherited: list[Row]) -> Day:
    cost = sum([row["cost"] for row in found]) - sum([row["cost"] for row in inherited if row["day"] == name])
    failed = sum([row["runs"] for row in found if row["status"] == "failed"])
    return Day(
        name, sum([row["runs"] for row in found]), failed, max(0.0, cost), sum([row["unknown"] for row in found])
    )


_censuses: OrderedDict[tuple[str, str], tuple[tuple[Any, ...], list[Row], list[Row]]] = OrderedDict()


def census(connection: sqlite3.Connection, path: str, now: datetime, stale_before: str) -> Census:
    """The counts of now. Only unfinished runs are looked at anew when nothing was written since the last time."""
    since = (now - timedelta(days=DAYS - 1)).date().isoformat()
    version = queries.first(connection, queries.VERSION) or {}
    key, mark = (path, since), (version.get("newest"), version.get("states"))
    kept = _censuses.get(key)
    if kept is None or kept[0] != mark:
        kept = (
            mark,
            queries.rows(connection, queries.CUBE, {"since": since}),
            queries.rows(connection, queries.INHERITED),
        )
        _censuses[key] = kept
        while len(_censuses) > _KEPT:
            _censuses.popitem(last=False)
    _, cube, inherited = kept
    unfinished = queries.rows(connection, queries.OPEN)
    counted = [_named(row) for row in cube if row["status"] != "open"]
    counted += [_named(_open_row(row, since, stale_before)) for row in unfinished]
    return Census(counted, inherited, version.get("newest") or 0)


def _open_row(row: Row, since: str, stale_before: str) -> Row:
    updated, created = row["updated_at"] or "", row["created_at"] or ""
    day = created[:10] if created >= since else None
    return {
        **row,
        "day": day,
        "status": STALLED if updated < stale_before else RUNNING,
        "runs": 1,
        "cost": 0.0,
        "unknown": 0,
    }


def _named(row: Row) -> Row:
    return {**row, "status": row["status"] or "", "agent": row["agent"] or "", "model": row["model"] or ""}


def by_worry(counts: Counter[str]) -> list[tuple[str, int]]:
    """The statuses that occur, the worrying ones first."""
    known = [(status, counts[status]) for status in STATUSES if counts[status]]
    return known + [(status, number) for status, number in counts.items() if status not in STATUSES]
