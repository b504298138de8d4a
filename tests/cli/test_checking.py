from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from demo_file import demo_file
from histories import started

from alpineagents import SqliteStore


@pytest.fixture
def damaged(store: SqliteStore, path: Path) -> Path:
    """A file whose one State does not have the turn its row says."""
    store.save(started("Go"))
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE states SET turn = 7, first_message = char(27) || '[2J'")
    connection.close()
    return path


def test_a_file_that_is_right_is_one_line(store: SqliteStore, path: Path, cli: Callable[..., Result]) -> None:
    store.save(started("Go"))
    result = cli("check", path)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "ok: 1 State, 1 entry\n", "")


def test_the_file_of_the_demo_is_right(cli: Callable[..., Result]) -> None:
    assert cli("check", demo_file()).stdout.startswith("ok: 8 States, ")


def test_an_empty_file_is_right(path: Path, cli: Callable[..., Result]) -> None:
    path.touch()
    assert cli("check", path).stdout == "ok: 0 States, 0 entries\n"


def test_each_difference_is_a_line_and_the_exit_status_says_so(damaged: Path, cli: Callable[..., Result]) -> None:
    result = cli("check", damaged)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 2
    assert "turn is 7, should be 0" in result.stdout
    assert "\x1b" not in result.stdout
    assert result.stderr == f"Error: 2 problems in {damaged}\n"


def test_programs_get_the_differences_too(damaged: Path, cli: Callable[..., Result]) -> None:
    result = cli("check", damaged, "--json")
    assert result.exit_code == 1
    first, _ = json.loads(result.stdout)
    assert first["seq"] is None
    assert "first_message" in first["problem"]
