from __future__ import annotations

import http.client
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import Result
from demo_file import demo_file
from histories import started

from alpineagents import SqliteStore
from alpineagents.cli import viewing


@contextmanager
def viewed(*words: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command at work, and the line it says when the server answers."""
    program = [sys.executable, "-m", "alpineagents", "view", *words]
    process = subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    with process:
        assert process.stdout is not None
        yield process, process.stdout.readline()
        process.kill()


def port_of(line: str) -> int:
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
    assert found is not None, line
    return int(found[1])


def answer(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_file_is_served_until_the_command_ends(number: signal.Signals) -> None:
    with viewed(str(demo_file()), "-p", "0", "--no-browser") as (process, line):
        port = port_of(line)
        assert answer(port, "/runs/states.json") == 200
        process.send_signal(number)
        process.wait(20)
        assert process.returncode == (0 if number is signal.SIGINT else 128 + number)
        with pytest.raises(ConnectionRefusedError):
            answer(port, "/")


def test_the_browser_is_opened_once_the_server_answers(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    os.mkfifo(opened)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    with viewed(str(demo_file()), "-p", "0", BROWSER=f"{browser} %s") as (process, line):
        assert opened.read_text() == f"http://127.0.0.1:{port_of(line)}/\n"
        process.send_signal(signal.SIGINT)
        process.wait(20)


def test_a_port_that_is_taken_is_one_line(store: SqliteStore, path: Path, cli: Callable[..., Result]) -> None:
    store.save(started("Go"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = cli("view", path, "-p", port, "--no-browser")
    assert result.exit_code == 1
    assert result.stderr == f"Error: port {port} cannot be used (Address already in use): choose another with -p\n"


def test_without_datasette_the_command_says_how_to_install_it(
    store: SqliteStore, path: Path, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(started("Go"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = cli("view", path)
    assert result.exit_code == 1
    assert result.stderr.endswith("pip install 'alpineagents[viewer]'\n")


def test_a_server_that_does_not_start_is_one_line(
    store: SqliteStore, path: Path, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(started("Go"))
    monkeypatch.setattr(
        viewing, "command", lambda file, port: [sys.executable, "-c", "raise SystemExit('no such luck')"]
    )
    result = cli("view", path, "-p", "0", "--no-browser")
    assert (result.exit_code, result.stderr) == (1, "Error: Datasette did not start: no such luck\n")


SOON_GONE = """
import http.server, sys
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)
server.handle_request()
sys.exit("it fell over")
"""


def test_a_server_that_ends_by_itself_is_one_line(
    store: SqliteStore, path: Path, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(started("Go"))
    monkeypatch.setattr(viewing, "command", lambda file, port: [sys.executable, "-c", SOON_GONE, str(port)])
    result = cli("view", path, "-p", "0", "--no-browser")
    assert (result.exit_code, result.stderr) == (1, "Error: Datasette ended: it fell over\n")


def test_ctrl_c_before_the_server_answers_ends_both(
    store: SqliteStore, path: Path, cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(started("Go"))
    begun: list[subprocess.Popen[bytes]] = []

    def interrupt(server: subprocess.Popen[bytes], *rest: object) -> None:
        begun.append(server)
        raise KeyboardInterrupt

    monkeypatch.setattr(viewing, "wait_until_it_answers", interrupt)
    result = cli("view", path, "-p", "0", "--no-browser")
    assert (result.exit_code, result.stderr) == (0, "")
    assert begun[0].returncode is not None
