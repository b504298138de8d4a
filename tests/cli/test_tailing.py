from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from demo_file import demo_file
from runs import agent, started

from alpineagents import Image, Message, State
from alpineagents.store import SqliteStore
from alpineagents.types import TextBlock

Cli = Callable[..., Result]


def test_the_last_entries_of_all_runs_are_shown(cli: Cli) -> None:
    lines = cli("tail", demo_file(), "--once", "-n", "3").stdout.splitlines()
    assert len(lines) == 3
    assert lines[-1].startswith("team-")
    assert lines[-1].endswith("  [turn 2] stop: stopped by waiting_for_user")


def test_of_one_run_the_id_is_left_out(cli: Cli) -> None:
    assert (
        cli("tail", demo_file(), "team", "--once", "-n", "1").stdout == "[turn 2] stop: stopped by waiting_for_user\n"
    )


def test_for_programs_it_is_the_entry_with_its_state(cli: Cli) -> None:
    entry = json.loads(cli("tail", demo_file(), "team", "--once", "-n", "1", "--jsonl").stdout)
    assert (entry["kind"], entry["content"]) == ("stop", {"type": "until", "name": "waiting_for_user"})
    assert entry["state_id"].startswith("team-")


def test_fewer_entries_than_asked_for_are_all(cli: Cli, path: Path, store: SqliteStore) -> None:
    store.save(started("Go", id="a"))
    assert cli("tail", path, "--once", "-n", "50").stdout == "a  [turn 0] context_change import: 1 messages\n"
    assert cli("tail", path, "--once", "-n", "0").stdout == ""


def test_images_and_damaged_rows_are_shown(cli: Cli, path: Path, store: SqliteStore) -> None:
    state = State(id="a")
    state.add_message(Message("user", (TextBlock("See"), Image(b"\x89PNG\r\n\x1a\n0000", "image/png"))))
    state.add_message(Message.user("more"))
    store.save(state)
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE entries SET data = 'no json' WHERE seq = 1")
    connection.close()
    whole, damaged = cli("tail", path, "--once").stdout.splitlines()
    assert whole == "a  [turn 0] user: See (image/png)"
    assert damaged.startswith("a  [turn 0] user: (damaged: ")
    assert "damaged" in json.loads(cli("tail", path, "--once", "--jsonl", "-n", "1").stdout)


@pytest.mark.parametrize(
    ("words", "problem"),
    [(("nobody",), "there is no run 'nobody'"), (("t",), "several runs begin"), (("b", "c"), "takes a file and an id")],
)
def test_what_is_not_there_is_said(cli: Cli, words: tuple[str, ...], problem: str) -> None:
    result = cli("tail", demo_file(), *words)
    assert result.exit_code in (1, 2)
    assert problem in result.stderr


def test_a_run_is_followed_as_it_goes(path: Path) -> None:
    store = SqliteStore(path)
    store.save(started("first", id="a"))
    command = [sys.executable, "-m", "alpineagents", "tail", str(path)]
    follower = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1)
    assert follower.stdout is not None
    assert follower.stdout.readline() == "a  [turn 0] context_change import: 1 messages\n"
    agent("Hello", store=store).run(started("second", id="b"))
    lines = [follower.stdout.readline() for _ in range(5)]
    assert [line.split()[3].rstrip(":") for line in lines] == [
        "context_change",
        "run_start",
        "model_request",
        "model_reply",
        "stop",
    ]
    os.kill(follower.pid, signal.SIGINT)
    assert follower.wait(10) == 0
    follower.stdout.close()
