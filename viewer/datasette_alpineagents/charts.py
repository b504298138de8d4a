"""Where the bars of a chart stand: x in percent, y in pixels, so that labels keep their size. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from datasette_alpineagents.census import Day
from datasette_alpineagents.words import day_text, money, plural


@dataclass(frozen=True)
class Bar:
    """A column or bar; `x` and `width` are percents, `y` and `height` pixels."""

    x: float
    y: float
    width: float
    height: float
    style: str
    title: str
    href: str | None = None


@dataclass(frozen=True)
class Strip:
    """The last days: runs with those that failed at the foot, and what they cost."""

    runs: list[Bar]
    costs: list[Bar]
    labels: list[tuple[float, str]]
    total: int
    failed: int
    worst: Day | None
    cost: float
    unknown: int
    days: list[Day]


RUNS_HEIGHT, COST_HEIGHT = 44.0, 20.0


def strip(days: Sequence[Day]) -> Strip:
    """The strip above the list of runs."""
    most = max([day.runs for day in days], default=0) or 1
    dearest = max([day.cost for day in days], default=0.0) or 1.0
    runs: list[Bar] = []
    costs: list[Bar] = []
    step = 100 / max(1, len(days))
    for index, day in enumerate(days):
        x, width = index * step, step * 0.66
        height = RUNS_HEIGHT * day.runs / most
        failed = RUNS_HEIGHT * day.failed / most
        title = f"{day_text(day.day)}: {plural(day.runs, 'run')}, {day.failed} failed, {money(day.cost)}"
        if day.runs:
            runs.append(Bar(x, RUNS_HEIGHT - height, width, height, "aa-column", title, day.day))
        if day.failed:
            runs.append(Bar(x, RUNS_HEIGHT - max(2.0, failed), width, max(2.0, failed), "aa-red", title, day.day))
        if day.cost:
            tall = max(1.0, COST_HEIGHT * day.cost / dearest)
            costs.append(Bar(x, COST_HEIGHT - tall, width, tall, "aa-column", title, day.day))
    worst = max(days, key=lambda day: (day.failed, day.runs), default=None)
    return Strip(
        runs,
        costs,
        [
            (index * step + step / 3, day_text(day.day))
            for index, day in enumerate(days)
            if (len(days) - 1 - index) % 7 == 0
        ],
        sum([day.runs for day in days]),
        sum([day.failed for day in days]),
        worst if worst and worst.failed else None,
        sum([day.cost for day in days]),
        sum([day.unknown for day in days]),
        list(days),
    )
