from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import Result
from histories import started

from alpineagents import Message, SqliteStore, State

COMMANDS = ["demo", "list", "show", "check", "view"]
PYTHON = [sys.executable, "-m", "alpineagents"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example(command: str, cli: Callable[..., Result]) -> None:
    result = cli(command, "--help")
    assert result.exit_code == 0
    assert f"Example:\n      alpineagents {command} " in result.output


def test_the_help_names_every_command(cli: Callable[..., Result]) -> None:
    output = cli("--help").output
    assert all(f"\n  {command} " in output for command in COMMANDS)
    assert "Example:\n      alpineagents demo\n" in output


def test_the_version_is_that_of_the_installed_package(cli: Callable[..., Result]) -> None:
    assert cli("--version").output == f"alpineagents, version {version('alpineagents')}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["frobnicate"],
        ["list", "--what"],
        ["show"],
        ["show", "a", "b", "c"],
        ["list", "a", "b"],
        ["list", "-n", "0"],
        ["show", "x", "--at", "-1"],
        ["show", "x", "--entry", "1", "--at", "2"],
        ["show", "x", "--entry", "1", "--messages"],
        ["view", "-p", "70000"],
    ],
)
def test_wrong_usage_exits_with_2(words: list[str], cli: Callable[..., Result]) -> None:
    result = cli(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: ")
    assert not result.stdout


def test_python_m_is_the_same_command() -> None:
    done = subprocess.run([*PYTHON, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"python -m alpineagents, version {version('alpineagents')}\n"


def test_without_a_file_the_environment_names_it(
    store: SqliteStore, path: Path, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(State(id="one", messages=[Message.user("Go")]))
    monkeypatch.setenv("ALPINEAGENTS_DB", str(path))
    assert "one" in cli("list").output
    assert cli("show", "one").exit_code == 0


@pytest.mark.parametrize("value", [None, ""])
def test_without_an_environment_it_is_runs_db(
    value: str | None, store: SqliteStore, path: Path, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(started("Here"))
    monkeypatch.chdir(path.parent)
    if value is not None:
        monkeypatch.setenv("ALPINEAGENTS_DB", value)
    assert "Here" in cli("list").output


@pytest.mark.parametrize("command", ["list", "demo"])
def test_a_closed_pipe_is_no_traceback(command: str, store: SqliteStore, path: Path) -> None:
    store.save(started("x" * 1_000))
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run([*PYTHON, command, str(path)], stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (1, "")


def test_an_output_without_the_characters_of_a_run_gets_escapes(store: SqliteStore, path: Path) -> None:
    store.save(started("naïve → \N{SNOWMAN}"))
    done = subprocess.run(
        [*PYTHON, "list", str(path)], capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "latin-1"}
    )
    assert b"na\xefve \\u2192 \\u2603" in done.stdout
