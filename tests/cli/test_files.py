from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from histories import started

from alpineagents import SqliteStore, State

COMMANDS = [["list"], ["show", "ID"], ["check"], ["view", "--no-browser", "-p", "0"]]


def on(file: Path, command: list[str]) -> list[str]:
    name, *rest = command
    return [name, str(file), *rest]


def assert_one_line(result: Result, *parts: str) -> None:
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_a_missing_file_is_one_line_and_stays_missing(
    command: list[str], path: Path, cli: Callable[..., Result]
) -> None:
    assert_one_line(cli(*on(path, command)), f"there is no file {path}")
    assert not path.exists()


@pytest.mark.parametrize("command", [*COMMANDS, ["demo"]], ids=lambda words: words[0])
def test_a_directory_is_one_line(command: list[str], tmp_path: Path, cli: Callable[..., Result]) -> None:
    assert_one_line(cli(*on(tmp_path, command)), f"{tmp_path} is a directory")


@pytest.mark.parametrize("command", [*COMMANDS, ["demo"]], ids=lambda words: words[0])
def test_what_is_no_database_is_one_line_and_stays_as_it_was(
    command: list[str], path: Path, cli: Callable[..., Result]
) -> None:
    path.write_bytes(b"name,age\n" * 100)
    assert_one_line(cli(*on(path, command)), f"{path} is not a database of alpineagents")
    assert path.read_bytes() == b"name,age\n" * 100


@pytest.mark.parametrize("command", [*COMMANDS, ["demo"]], ids=lambda words: words[0])
def test_the_database_of_something_else_is_one_line_and_stays_as_it_was(
    command: list[str], path: Path, cli: Callable[..., Result]
) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE recipes(name TEXT)")
    connection.close()
    before = path.read_bytes()
    assert_one_line(cli(*on(path, command)), f"{path} is a database of something else")
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", [*COMMANDS, ["demo"]], ids=lambda words: words[0])
def test_a_newer_file_is_one_line(
    command: list[str], store: SqliteStore, path: Path, cli: Callable[..., Result]
) -> None:
    store.save(State())
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert_one_line(cli(*on(path, command)), f"{path} was written by a newer alpineagents")


@pytest.mark.parametrize("command", COMMANDS[1:2], ids=lambda words: words[0])
def test_an_empty_file_has_no_runs(command: list[str], path: Path, cli: Callable[..., Result]) -> None:
    path.touch()
    assert_one_line(cli(*on(path, command)), "there is no run 'ID'")


@pytest.mark.parametrize("options", [[], ["--messages"], ["--json"]])
def test_a_damaged_row_is_one_line(
    options: list[str], store: SqliteStore, path: Path, cli: Callable[..., Result]
) -> None:
    state = started("Go")
    store.save(state)
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE entries SET data = '{' WHERE seq = 0")
    connection.close()
    assert_one_line(cli("show", path, state.id, *options), state.id, "entry 0 is damaged")


@pytest.mark.parametrize("keep", [40, 6_000])
def test_a_file_that_is_cut_off_is_one_line(
    keep: int, store: SqliteStore, path: Path, cli: Callable[..., Result]
) -> None:
    store.save(started("Go"))
    store.close()
    path.write_bytes(path.read_bytes()[:keep])
    assert_one_line(cli("list", path), str(path), "is damaged")


def test_a_file_whose_tables_are_overwritten_is_one_line(
    store: SqliteStore, path: Path, cli: Callable[..., Result]
) -> None:
    store.save(started("Go"))
    store.close()
    with sqlite3.connect(path) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'states'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    data = bytearray(path.read_bytes())
    data[(page - 1) * size : page * size] = b"\xff" * size
    path.write_bytes(data)
    assert_one_line(cli("list", path), str(path), "is damaged")
