from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from demo_file import demo_file

Cli = Callable[..., Result]


def test_a_query_is_a_table(cli: Cli) -> None:
    query = "SELECT tool, count(*) AS calls FROM tool_calls WHERE tool = 'submit' GROUP BY tool"
    assert cli("sql", demo_file(), query).stdout == "tool    calls\nsubmit  1\n"


def test_for_programs_it_keeps_its_types(cli: Cli) -> None:
    query = "SELECT 1 AS one, NULL AS none, 'a' AS text, x'00ff' AS bytes, 0.5 AS half"
    row = {"one": 1, "none": None, "text": "a", "bytes": "x'00ff'", "half": 0.5}
    assert json.loads(cli("sql", demo_file(), query, "--json").stdout) == [row]
    assert json.loads(cli("sql", demo_file(), query, "--jsonl").stdout) == row
    assert cli("sql", demo_file(), query, "--csv").stdout == "one,none,text,bytes,half\n1,,a,x'00ff',0.5\n"


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM states",
        "UPDATE entries SET turn = 0",
        "DROP TABLE entries",
        "CREATE TABLE cats (name)",
        "PRAGMA user_version = 7",
        "VACUUM",
        "ATTACH DATABASE 'other.db' AS other; CREATE TABLE other.cats (name)",
    ],
)
def test_nothing_can_be_changed(cli: Cli, query: str) -> None:
    before = demo_file().read_bytes()
    result = cli("sql", demo_file(), query)
    assert demo_file().read_bytes() == before
    assert result.exit_code == 1 or query.startswith("PRAGMA")


def test_no_other_file_can_be_made(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cli("sql", demo_file(), "ATTACH DATABASE 'other.db' AS other")
    cli("sql", demo_file(), "VACUUM INTO 'other.db'")
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM cats", "no such table: cats"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELECT '\0'", ""),
        ("SELECT load_extension('x')", ""),
    ],
)
def test_a_wrong_query_is_one_line(cli: Cli, query: str, problem: str) -> None:
    result = cli("sql", demo_file(), query)
    assert result.exit_code == 1
    assert problem in result.stderr
    assert result.stderr.count("\n") == 1


def test_no_rows_are_said(cli: Cli) -> None:
    result = cli("sql", demo_file(), "SELECT 1 WHERE 0")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no rows\n")


def test_what_a_run_holds_cannot_move_the_cursor(cli: Cli) -> None:
    said = cli("sql", demo_file(), "SELECT char(27) || '[2J' || char(10) || 'b' AS a").stdout
    assert said == "a\n\\x1b[2J b\n"
