from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

from click.testing import Result
from demo_file import demo_file

from alpineagents.store import SqliteStore

Cli = Callable[..., Result]


def test_each_tool_is_a_row_those_that_fail_most_first(cli: Cli) -> None:
    head, *rows = cli("tools", demo_file()).stdout.splitlines()
    assert head.split()[:4] == ["tool", "calls", "failed", "done"]
    assert [row.split()[0] for row in rows[:2]] == ["bash", "edit"]
    assert rows[0].split()[1:3] == ["11", "2"]


def test_the_numbers_are_those_of_the_view(cli: Cli) -> None:
    rows = {row["tool"]: row for row in json.loads(cli("tools", demo_file(), "--json").stdout)}
    connection = sqlite3.connect(demo_file())
    for tool, outcome, count in connection.execute("SELECT tool, outcome, count(*) FROM tool_calls GROUP BY 1, 2"):
        assert rows[tool][outcome] == count
    for tool, row in rows.items():
        found = connection.execute("SELECT duration_s FROM tool_calls WHERE tool = ? ORDER BY 1", (tool,)).fetchall()
        times = [seconds for (seconds,) in found]
        assert row["calls"] == len(times)
        middle = (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2
        assert abs(row["median_s"] - middle) < 1e-9
    connection.close()


def test_nothing_there_is_said(cli: Cli, path: Path, store: SqliteStore) -> None:
    assert cli("tools", path).exit_code == 1
    path.touch()
    result = cli("tools", path)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no tool calls\n")
