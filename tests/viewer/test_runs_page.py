"""The list of runs: which there are, how each stands, filters, order and pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from datasette_alpineagents.queries import SORTS
from runs import agent, started
from viewer.conftest import Site

from alpineagents import SqliteStore


def rows(site: Site, query: str = "") -> list[dict[str, Any]]:
    """All rows, over all pages."""
    found: list[dict[str, Any]] = []
    address: str | None = f"/runs/-/runs.json{query}"
    while address:
        data = site.data(address)
        found += data["rows"]
        address = data["next"]
    return found


def test_each_run_is_a_row_with_its_status_and_why(site: Site) -> None:
    by_id = {row["id"]: row for row in rows(site)}
    assert by_id["fix-timedelta-7c2e"]["status"] == "answered"
    assert by_id["fix-timedelta-7c2e"]["subagents"] == 3
    assert by_id["triage-b91f"]["status"] == "stalled"
    assert "In flight: bash, fetch of e15. May or may not have run." in by_id["triage-b91f"]["reason"]
    assert by_id["msgpack-9e13"]["status"] == "failed"
    assert by_id["msgpack-9e13"]["reason"].startswith("Turn 2: TimeoutError: no reply")
    assert by_id["bump-httpx-5b0c"]["status"] == "running"
    assert by_id["bump-httpx-5b0c"]["reason"].startswith('In bash(command="pytest -x -q") for ')
    assert by_id["release-322"]["status"] == "permission"


def test_subagents_are_rows_when_asked_for(site: Site) -> None:
    runs, all_ = rows(site), rows(site, "?subagents=1")
    below = {row["id"] for row in all_} - {row["id"] for row in runs}
    assert below == {"coder-7c2e", "reviewer-0d11", "tester-51aa"}


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("sort", SORTS)
def test_pages_of_any_order_hold_every_run_once(site: Site, sort: str, direction: str) -> None:
    found = [row["id"] for row in rows(site, f"?sort={sort}&dir={direction}")]
    assert len(found) == len(set(found)) == len(rows(site))


def test_it_is_newest_first_unless_asked_otherwise(site: Site) -> None:
    started_at = [row["created_at"] for row in rows(site)]
    assert started_at == sorted(started_at, reverse=True)
    costs = [row["cost"] for row in rows(site, "?sort=cost&dir=asc") if row["cost"] is not None]
    assert costs == sorted(costs)


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        ("status=failed", lambda row: row["status"] == "failed"),
        ("status=stalled", lambda row: row["status"] == "stalled"),
        ("agent=triage", lambda row: row["agent"] == "triage"),
        ("model=local/qwen3-32b", lambda row: row["model"] == "local/qwen3-32b"),
        ("q=msgpack", lambda row: "msgpack" in row["first_message"]),
        ("q=%25", lambda row: False),
        ("time=1h", lambda row: row["id"] in ("bump-httpx-5b0c", "triage-b91f")),
        ("outcome=denied", lambda row: row["denied_calls"] > 0),
        ("status=nonsense", lambda row: True),
    ],
)
def test_filters_leave_what_fits(site: Site, query: str, fits: Callable[[Any], bool]) -> None:
    found = {row["id"] for row in rows(site, f"?{query}")}
    expected = {row["id"] for row in rows(site) if fits(row)}
    if query.startswith("outcome"):
        assert found <= {row["id"] for row in rows(site)}
        assert found
    else:
        assert found == expected


def test_counts_beside_the_filters_are_those_of_the_rows(site: Site) -> None:
    facets = site.data("/runs/-/runs.json")["facets"]
    for name in ("status", "agent", "model"):
        counted = dict(facets[name])
        for row in rows(site):
            counted[row[name] or ""] -= 1
        assert set(counted.values()) == {0}


def test_the_strip_has_thirty_days_and_counts_runs(site: Site) -> None:
    days = site.data("/runs/-/runs.json")["days"]
    assert len(days) == 30
    assert sum(day["runs"] for day in days) <= len(rows(site))
    assert sum(day["failed"] for day in days) > 0


def test_the_query_behind_it_gives_the_same_rows(site: Site) -> None:
    link = re.search(r'href="(/runs(?:/-/query)?\?sql=[^"]*)"', site.page("/runs/-/runs"))
    assert link is not None
    path, _, query = link[1].replace("&amp;", "&").partition("?")
    found = site.data(f"{path}.json?{query}&_shape=objects")["rows"]
    assert [row["id"] for row in found[:50]] == [row["id"] for row in site.data("/runs/-/runs.json")["rows"]]


@pytest.mark.parametrize("mark", ["x", "!!", "bnVsbA", "W10", "WzEsICJhIl0"])
def test_a_wrong_place_to_go_on_from_begins_at_the_start(site: Site, mark: str) -> None:
    first, other = site.data("/runs/-/runs.json")["rows"], site.data(f"/runs/-/runs.json?next={mark}")["rows"]
    assert [row["id"] for row in other] == [row["id"] for row in first]


def test_an_empty_file_shows_how_to_begin(serve: Callable[..., Site], tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "runs.db") as store:
        agent("Hello", store=store).run(started("Hi", id="a"))
        store.delete("a")
    empty = serve(tmp_path / "runs.db")
    text = empty.page("/runs/-/runs")
    assert "No runs yet" in text
    assert "alpineagents demo" in text
    assert empty.data("/runs/-/runs.json")["rows"] == []


def test_news_tell_of_new_entries(site: Site) -> None:
    newest = site.data("/runs/-/runs/news.json")["newest"]
    assert newest == site.data("/runs/-/runs.json")["newest_entry_id"]
