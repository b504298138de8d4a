"""Tools by outcome, and the calls behind each number."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from viewer.conftest import Site


def test_the_numbers_are_those_of_the_view(site: Site, examples: Path) -> None:
    rows = {row["tool"]: row for row in site.data("/runs/-/tools.json")["rows"]}
    connection = sqlite3.connect(examples)
    for tool, outcome, count in connection.execute("SELECT tool, outcome, count(*) FROM tool_calls GROUP BY 1, 2"):
        assert rows[tool][outcome or "pending"] == count
    for tool, row in rows.items():
        query = "SELECT duration_s FROM tool_calls WHERE tool = ? AND duration_s IS NOT NULL ORDER BY 1"
        times = [seconds for (seconds,) in connection.execute(query, (tool,))]
        if times:
            assert row["median_s"] == times[(len(times) + 1) // 2 - 1]
            assert row["p95_s"] == times[-(-len(times) * 95 // 100) - 1]
    connection.close()


def test_the_tool_that_fails_most_comes_first_and_is_named(site: Site) -> None:
    rows = site.data("/runs/-/tools.json")["rows"]
    rates = [row["failed"] / row["calls"] for row in rows]
    assert rates == sorted(rates, reverse=True)
    assert f"{rows[0]['tool']} fails most: " in site.page("/runs/-/tools")


def test_any_number_leads_to_its_calls(site: Site) -> None:
    row = site.data("/runs/-/tools.json")["rows"][0]
    found = site.data(f"/runs/-/tools/calls.json?tool={row['tool']}&outcome=failed")["rows"]
    assert len(found) == row["failed"]
    assert {each["tool"] for each in found} == {row["tool"]}
    denied = site.data("/runs/-/tools/calls.json?outcome=denied")["rows"]
    assert {each["outcome"] for each in denied} == {"denied"}
    waiting = site.data("/runs/-/tools/calls.json?outcome=pending")["rows"]
    assert {each["outcome"] for each in waiting} == {None}


def test_messages_that_differ_in_numbers_only_stand_together(site: Site) -> None:
    calls = site.data("/runs/-/tools/calls.json?outcome=failed")["rows"]
    text = site.page("/runs/-/tools/calls?outcome=failed")
    assert 1 <= text.count("<details") - 1 < len(calls)
    assert text.count("<details") >= 1


def test_an_unknown_tool_has_no_calls(site: Site) -> None:
    assert site.data("/runs/-/tools/calls.json?tool=nothing")["rows"] == []
    assert "No such call" in site.page("/runs/-/tools/calls?tool=%3Cscript%3E")
