"""`make bench`: measure every figure several times, and write the medians to `bench/RESULTS.md`."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from bench import figures
from bench.figures import QUERIES, Figure
from bench.measuring import MEMORY, folder

REPEATS = 3
ROWS: list[tuple[str, str, str, Callable[[], Figure]]] = [
    *[
        (
            f"turn without a store, {mode}, {turns} turns",
            limit,
            "a bare loop" if a else "a bare loop, its tool on a thread",
            partial(figures.turn, turns, asynchronous=a),
        )
        for mode, a, limit in (("sync", False, "60 µs"), ("async", True, "150 µs"))
        for turns in (20, 1_000, 5_000)
    ],
    *[
        (
            f"durable turn in memory, {mode}, {turns} turns",
            limit,
            "raw sqlite3: 3 commits",
            partial(figures.durable_turn, turns, asynchronous=a),
        )
        for mode, a, limit in (("sync", False, "150 µs"), ("async", True, "250 µs"))
        for turns in (20, 1_000, 5_000)
    ],
    (
        "statements of a durable turn, nothing else",
        "",
        "raw sqlite3: 3 commits",
        partial(figures.statements_alone, 1_000),
    ),
    ('fsyncs a turn at "full"', "2", "2", partial(figures.fsyncs, "full")),
    ('fsyncs a turn at "normal"', "0", "0", partial(figures.fsyncs, "normal")),
    ("file bytes per entry", "1.35x its JSON", "the entry as JSON", figures.bytes_per_entry),
    ("WAL per commit", "20 KB", "raw table", figures.wal_per_commit),
    ("load 1,000 turns", "2.5x", "fetch + json.loads", partial(figures.load, 1_000)),
    ("load 5,000 turns", "150 ms, 2.5x", "fetch + json.loads", partial(figures.load, 5_000)),
    ('100 async agents x 10 turns at "full"', "0.6x", "raw sqlite3 committing each entry", figures.crowd),
    ("longest pause of the event loop meanwhile", "10 ms more", "without a store", figures.stall),
    ("32 parallel calls that sleep 50 ms", "60 ms", "one sleep", figures.parallel_calls),
    ("first commit of a new file", "120 ms", "raw sqlite3", partial(figures.opening, existing=False)),
    ("opening an existing file", "10 ms", "raw sqlite3, new file", partial(figures.opening, existing=True)),
    ("peak memory of 5,000 turns", "60 MB", "of 1 turn", figures.memory),
    ("import alpineagents", "60 ms", "its standard modules", figures.importing),
    ("300 durable turns with a reader polling", "1.1x", "without the reader", figures.polled),
]


def main(wanted: str = "") -> None:
    """Measure what has `wanted` in its name."""
    lines = ["| Aim | Limit | Ours | Beside it | Figure beside | Ratio |", "| --- | --- | --- | --- | --- | --- |"]
    for aim, limit, beside, measure in ROWS:
        if wanted in aim:
            lines.append(_row(aim, limit, beside, measure))
            print(lines[-1], flush=True)
    if wanted in "10,000 runs":
        with folder(MEMORY) as path:
            figures.many_runs(path / "runs.db")
            for (name, sql), limit in zip(QUERIES.items(), ("3 ms", "5 ms", "100 ms"), strict=True):
                lines.append(_row(f"10,000 runs: {name}", limit, "", partial(figures.query, path / "runs.db", sql)))
                print(lines[-1], flush=True)
    if not wanted:
        day = f"{datetime.now(UTC):%Y-%m-%d}"
        head = f"# Figures\n\nMeasured {day} on {figures.processor()}; medians of {REPEATS} runs each."
        note = (
            "Machines are noisy: ratios count, absolute times are for orientation. `make bench` makes this page anew."
        )
        Path(__file__).with_name("RESULTS.md").write_text("\n".join([head, note, "", *lines, ""]))


def _row(aim: str, limit: str, beside: str, measure: Callable[[], Figure]) -> str:
    found = [measure() for _ in range(REPEATS)]
    ours, unit = statistics.median([figure.ours for figure in found]), found[0].unit
    if found[0].beside is None:
        return f"| {aim} | {limit} | {ours:.3g} {unit} | {beside} | | |"
    other = statistics.median([figure.beside or 0.0 for figure in found])
    ratios = [figure.ours / figure.beside for figure in found if figure.beside]
    ratio = f"{statistics.median(ratios):.2f}x" if ratios else ""
    return f"| {aim} | {limit} | {ours:.3g} {unit} | {beside} | {other:.3g} {unit} | {ratio} |"


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
