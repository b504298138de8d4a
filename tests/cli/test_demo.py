from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from alpineagents.cli import demo


@pytest.fixture
def shown(path: Path, cli: Callable[..., Result]) -> str:
    """What the demo says; its file is at `path`."""
    result = cli("demo", path)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_the_last_lines_say_where_the_file_is_and_what_to_do_with_it(shown: str, path: Path) -> None:
    where, look, ask = shown.splitlines()[-3:]
    assert where == f"The whole record is in   {path}"
    assert look.endswith(f"alpineagents view {path}")
    assert ask.endswith(f'sqlite-utils {path} "{demo.QUERY}" --table')


def test_the_query_it_suggests_has_an_answer(shown: str, path: Path) -> None:
    query = re.findall(r'"(SELECT .*)"', shown)[-1]
    connection = sqlite3.connect(path)
    rows = connection.execute(query).fetchall()
    connection.close()
    assert ("edit", "error", 1) in rows
    assert ("bash", "interrupted", 1) in rows
    assert ("bash", "aborted", 1) in rows


def test_the_live_output_is_that_of_the_terminal(shown: str) -> None:
    assert "\n[turn 1] thinking\nLet's first start by reproducing" in shown
    assert '\n  tool create(filename="reproduce.py")\n  done 112B\n' in shown
    assert "\n  error edit: Your proposed edit has introduced new syntax error(s)." in shown
    assert "\ndone: interrupted by user (3 turns)\n" in shown
    assert "\ndone: error TimeoutError: no output for 30 s" in shown


def test_recorded_output_does_not_flood_the_screen(shown: str) -> None:
    assert len(shown.splitlines()) < 150
    assert max(map(len, shown.splitlines())) < 700


def test_a_program_that_the_shell_does_not_find_is_named_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sqlite-utils").touch()
    monkeypatch.setattr("sys.argv", [str(tmp_path / "alpineagents")])
    monkeypatch.setenv("PATH", "/nowhere")
    assert demo.program("sqlite-utils") == str(tmp_path / "sqlite-utils")
    assert demo.program("something") == "something"


def test_a_file_name_is_quoted_for_the_shell(tmp_path: Path, cli: Callable[..., Result]) -> None:
    output = cli("demo", tmp_path / "my runs.db").stdout
    assert f"view '{tmp_path}/my runs.db'\n" in output
