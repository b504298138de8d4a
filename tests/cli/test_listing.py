from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from histories import fail, request, run_start, stop, think

from alpineagents import Message, SqliteStore, State
from alpineagents.cli.listing import COLUMNS, cells, cost_text, id_length, in_tree, started_text
from alpineagents.cli.output import table_lines, width
from alpineagents.cli.queries import runs
from alpineagents.history import clock
from alpineagents.types import StoppedByUntil

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class Clock:
    """Stands at noon until it is moved."""

    def __init__(self) -> None:
        self.time = NOON

    def __call__(self) -> datetime:
        return self.time

    def wait(self, **time: float) -> None:
        self.time += timedelta(**time)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stands = Clock()
    monkeypatch.setattr(clock, "now", stands)
    return stands


@pytest.fixture
def save(store: SqliteStore, time: Clock) -> Callable[..., State]:
    """Saves a State with this id, a minute after the last one."""

    def save(id: str, *, name: str | None = None, parent: str | None = None, ends: str | None = "answered") -> State:
        time.wait(minutes=1)
        state = State(id=id, messages=[Message.user(f"Message of {id}")])
        run_start(state, name, parent, "call_1" if parent else None)
        if ends == "failed":
            fail(state, RuntimeError("no"))
        elif ends == "answered":
            think(state, "Done")
            stop(state, StoppedByUntil("waiting_for_user"))
        else:
            request(state)
        store.save(state)
        return state

    return save


def listed(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0
    return json.loads(result.stdout)


def ids(result: Result) -> list[str]:
    return [row["id"] for row in listed(result)]


def test_the_newest_run_comes_first(save: Callable[..., State], path: Path, cli: Callable[..., Result]) -> None:
    for id in ("one", "two", "three"):
        save(id)
    assert ids(cli("list", path, "--json")) == ["three", "two", "one"]


def test_the_table_says_what_a_run_was(save: Callable[..., State], path: Path, cli: Callable[..., Result]) -> None:
    save("one")
    names, line = cli("list", path).stdout.splitlines()
    started = NOON.astimezone() + timedelta(minutes=1)
    assert names.split("  ")[0] == "id"
    assert [part.strip() for part in line.split("  ") if part] == [
        "one",
        "answered",
        "Message of one",
        "1",
        "$0.50",
        f"{started:%Y-%m-%d %H:%M}",
    ]


def test_twenty_runs_are_listed_unless_told_otherwise(
    save: Callable[..., State], path: Path, cli: Callable[..., Result]
) -> None:
    for number in range(22):
        save(f"run-{number}")
    assert len(ids(cli("list", path, "--json"))) == 20
    assert len(ids(cli("list", path, "--json", "-n", 30))) == 22
    assert ids(cli("list", path, "--json", "-n", 1)) == ["run-21"]


def test_an_open_run_is_running_until_it_has_been_silent_for_ten_minutes(
    save: Callable[..., State], path: Path, cli: Callable[..., Result], time: Clock
) -> None:
    save("one", ends=None)
    time.wait(minutes=10)
    assert listed(cli("list", path, "--json"))[0]["status"] == "running"
    time.wait(seconds=1)
    assert listed(cli("list", path, "--json"))[0]["status"] == "stalled"
    assert ids(cli("list", path, "--json", "--status", "stalled")) == ["one"]
    assert ids(cli("list", path, "--json", "--status", "running")) == []


def test_runs_are_chosen_by_status_and_agent(
    save: Callable[..., State], path: Path, cli: Callable[..., Result]
) -> None:
    save("one", name="coder")
    save("two", name="coder", ends="failed")
    save("three", ends="failed")
    assert ids(cli("list", path, "--json", "--status", "failed")) == ["three", "two"]
    assert ids(cli("list", path, "--json", "--agent", "coder")) == ["two", "one"]
    assert ids(cli("list", path, "--json", "--agent", "coder", "--status", "failed")) == ["two"]


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        ("90m", ["two"]),
        ("2h", ["two"]),
        ("3h", ["two", "one"]),
        ("1d", ["two", "one"]),
        ("2026-11-30T12:30+00:00", ["two"]),
        ("2026-11-29", ["two", "one"]),
        ("2026-12-02", []),
    ],
)
def test_runs_are_chosen_by_when_they_started(
    since: str, expected: list[str], save: Callable[..., State], path: Path, cli: Callable[..., Result]
) -> None:
    save("one")
    clock.now.wait(hours=1)
    save("two")
    clock.now.wait(hours=1, minutes=10)
    assert ids(cli("list", path, "--json", "--since", since)) == expected


@pytest.mark.parametrize("since", ["", "yesterday", "7", "d", "7y", "-7d", "999999w", "2026-13-01", "0001-01-01"])
def test_what_is_no_time_is_wrong_usage_or_long_ago(since: str, path: Path, cli: Callable[..., Result]) -> None:
    path.touch()
    result = cli("list", path, f"--since={since}")
    assert result.exit_code == 2 or "no runs" in result.stderr


def test_subagents_are_left_out_unless_asked_for(
    save: Callable[..., State], path: Path, cli: Callable[..., Result]
) -> None:
    save("parent")
    save("child", parent="parent")
    assert ids(cli("list", path, "--json")) == ["parent"]
    assert ids(cli("list", path, "--json", "--all")) == ["parent", "child"]


def test_all_shows_subagents_indented_below_the_run_that_started_them(
    save: Callable[..., State], path: Path, cli: Callable[..., Result]
) -> None:
    save("one")
    save("two")
    save("first", parent="one")
    save("second", parent="one")
    save("below", parent="first")
    lines = cli("list", path, "--all").stdout.splitlines()[1:]
    assert [line.partition("  answered")[0].rstrip() for line in lines] == [
        "two",
        "one",
        "  first",
        "    below",
        "  second",
    ]


def test_a_subagent_whose_parent_is_gone_is_a_run(
    save: Callable[..., State], path: Path, cli: Callable[..., Result]
) -> None:
    save("orphan", parent="nowhere")
    assert ids(cli("list", path, "--json")) == ["orphan"]


def test_the_limit_counts_runs_and_not_their_subagents(
    save: Callable[..., State], path: Path, cli: Callable[..., Result]
) -> None:
    save("one")
    save("two")
    save("child", parent="two")
    assert ids(cli("list", path, "--json", "--all", "-n", 1)) == ["two", "child"]


def test_states_that_name_each_other_as_parent_do_not_hang(
    save: Callable[..., State], path: Path, cli: Callable[..., Result]
) -> None:
    save("one", parent="two")
    save("two", parent="one")
    save("three")
    assert ids(cli("list", path, "--json", "--all")) == ["three"]


def test_the_listing_reads_no_entry(save: Callable[..., State], path: Path) -> None:
    save("one")
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    read: set[str] = set()

    def authorize(action: int, table: str | None, *rest: str | None) -> int:
        if action == sqlite3.SQLITE_READ and table:
            read.add(table)
        return sqlite3.SQLITE_OK

    connection.set_authorizer(authorize)
    assert len(runs(connection, number=5, stale_before="", subagents=True)) == 1
    connection.close()
    assert "entries" not in read


def test_programs_get_the_columns_of_the_file(
    save: Callable[..., State], path: Path, cli: Callable[..., Result]
) -> None:
    save("one", name="coder")
    (row,) = listed(cli("list", path, "--json"))
    assert row["first_message"] == "Message of one"
    assert row["agent"] == "coder"
    assert row["cost"] == 0.5
    assert row["created_at"] == "2026-11-30T12:01:00.000000+00:00"


def test_json_lines_and_csv_say_the_same_as_json(
    save: Callable[..., State], path: Path, cli: Callable[..., Result]
) -> None:
    save("one")
    save("two", ends="failed")
    rows = listed(cli("list", path, "--json"))
    assert [json.loads(line) for line in cli("list", path, "--jsonl").stdout.splitlines()] == rows
    table = list(csv.DictReader(io.StringIO(cli("list", path, "--csv").stdout)))
    assert table == [{key: "" if value is None else str(value) for key, value in row.items()} for row in rows]


def test_no_runs_is_said_beside_an_empty_output(path: Path, cli: Callable[..., Result]) -> None:
    path.touch()
    result = cli("list", path)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no runs\n")
    assert cli("list", path, "--json").stdout == "[]\n"
    assert cli("list", path, "--jsonl").stdout == ""


def test_what_a_run_says_cannot_break_the_table(store: SqliteStore, path: Path, cli: Callable[..., Result]) -> None:
    store.save(State(messages=[Message.user("a\nb\t\x1b[31mred\u202e \r x")]))
    assert "a b \\x1b[31mred\\u202e x  " in cli("list", path).stdout
    assert "\x1b" not in cli("list", path, "--json").stdout


def rows_of(*messages: str) -> list[tuple[dict[str, Any], int]]:
    return [
        (
            {
                "id": f"{number:x}" * 32,
                "status": "answered",
                "first_message": message,
                "turn": 1,
                "cost": None,
                "created_at": None,
            },
            0,
        )
        for number, message in enumerate(messages)
    ]


@pytest.mark.parametrize("room", [60, 80, 100, 200])
def test_on_a_terminal_the_first_message_gives_way(room: int) -> None:
    table = cells(rows_of("x" * 500, "漢字" * 100, "e\u0301" * 300), short=True)
    for line in table_lines(COLUMNS, table, room):
        assert width(line) <= room


def test_elsewhere_only_a_long_message_is_cut_and_columns_are_aligned() -> None:
    names, *lines = table_lines(COLUMNS, cells(rows_of("x" * 500, "short"), short=False), None)
    assert "x" * 99 + "…" in lines[0]
    assert lines[0].index("  -") == lines[1].index("  -") - 0
    assert names.index("status") == lines[0].index("answered") == lines[1].index("answered")


def test_colours_do_not_count_as_width() -> None:
    plain = table_lines(COLUMNS, cells(rows_of("a"), short=True), 80)
    colored = table_lines(COLUMNS, cells(rows_of("a"), short=True), 80, colors=True)
    assert "\x1b[32manswered\x1b[0m" in colored[1]
    assert colored[1].replace("\x1b[32m", "").replace("\x1b[0m", "") == plain[1]


@pytest.mark.parametrize(
    ("ids", "length"),
    [
        (["a"], 1),
        (["a" * 32, "b" * 32], 12),
        (["a" * 31 + "b", "a" * 32], 32),
        (["a" * 14 + "b" * 18, "a" * 32], 15),
        (["night-build-1", "night-build-2"], 13),
    ],
)
def test_ids_are_cut_where_they_are_still_told_apart(ids: list[str], length: int) -> None:
    assert id_length(ids) == length


@pytest.mark.parametrize(
    ("cost", "text"), [(None, "-"), (0.0, "$0.00"), (0.0042, "$0.0042"), (0.5, "$0.50"), (12.345, "$12.35")]
)
def test_an_unknown_cost_is_not_zero(cost: float | None, text: str) -> None:
    assert cost_text(cost) == text


def test_a_run_of_today_shows_its_time_and_an_older_one_its_date(time: Clock) -> None:
    today, before = NOON.astimezone(), (NOON - timedelta(days=3)).astimezone()
    assert started_text(today.isoformat(), short=True) == f"{today:%H:%M}"
    assert started_text(before.isoformat(), short=True) == f"{before:%Y-%m-%d}"
    assert started_text("never", short=True) == "never"


def test_a_tree_of_rows_keeps_the_order_of_runs() -> None:
    rows = [{"id": id, "parent_id": parent} for id, parent in [("d", "a"), ("c", "a"), ("b", None), ("a", None)]]
    assert [(row["id"], depth) for row, depth in in_tree(rows)] == [("b", 0), ("a", 0), ("c", 1), ("d", 1)]
