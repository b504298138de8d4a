"""`alpineagents view`: the file in Datasette, in the browser."""

from __future__ import annotations

import http.client
import importlib.util
import signal
import socket
import subprocess
import sys
import tempfile
import time
import webbrowser
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn

import click

from alpineagents.cli.files import file_argument, reading
from alpineagents.terminal.text import shown

HOST = "127.0.0.1"
START_S = 30.0
STOP_S = 5.0


@click.command("view", short_help="Look at the runs in the browser.")
@file_argument
@click.option("-p", "--port", type=click.IntRange(0, 65535), default=8001, show_default=True, help="0: any free one.")
@click.option("--no-browser", is_flag=True, help="Only say where it is.")
def view_command(file: Path, port: int, no_browser: bool) -> None:
    """Show FILE in Datasette, on this machine only, until Ctrl+C.

    \b
    Example:
        alpineagents view runs.db -p 8010 --no-browser
    """
    with reading(file):
        pass
    if importlib.util.find_spec("datasette") is None:
        raise click.ClickException(
            "the viewer is Datasette, which is not installed: pip install 'alpineagents[viewer]'"
        )
    try:
        serve(file, free_port(port), no_browser=no_browser)
    except KeyboardInterrupt:
        click.echo()


def serve(file: Path, port: int, *, no_browser: bool) -> None:
    """Start Datasette, say where it is, and wait for Ctrl+C."""
    with tempfile.TemporaryFile() as log, running(command(file, port), log) as server:
        wait_until_it_answers(server, port, log)
        click.echo(f"{shown(str(file))} is at http://{HOST}:{port}/ until Ctrl+C")
        if not no_browser:
            webbrowser.open(f"http://{HOST}:{port}/")
        server.wait()
        raise click.ClickException(f"Datasette ended: {last_line(log)}")


def free_port(port: int) -> int:
    """The port, if nobody has it; a free one for 0."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: one just closed is free
        try:
            probe.bind((HOST, port))
        except OSError as error:
            reason = error.strerror or error
            raise click.ClickException(f"port {port} cannot be used ({reason}): choose another with -p") from error
        return probe.getsockname()[1]


@contextmanager
def running(program: Sequence[str], log: IO[bytes]) -> Generator[subprocess.Popen[bytes]]:
    """A program at work until the block ends, however it ends."""
    before = signal.signal(signal.SIGTERM, leave)
    server = subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield server
    finally:
        stop(server)
        signal.signal(signal.SIGTERM, before)


def command(file: Path, port: int) -> list[str]:
    """Datasette as a command, on this machine only."""
    return [sys.executable, "-m", "datasette", str(file.resolve()), "--host", HOST, "--port", str(port)]


def leave(number: int, frame: FrameType | None) -> NoReturn:
    """End by an exception, so that the server is not left behind."""
    sys.exit(128 + number)


def wait_until_it_answers(server: subprocess.Popen[bytes], port: int, log: IO[bytes]) -> None:
    """Return once the server answers."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise click.ClickException(f"Datasette did not start: {last_line(log)}")
        if answers(port):
            return
        time.sleep(0.05)
    raise click.ClickException(f"Datasette did not answer within {START_S:.0f} seconds: {last_line(log)}")


def answers(port: int) -> bool:
    """Whether something speaks HTTP there."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/-/versions.json")
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def last_line(log: IO[bytes]) -> str:
    """What it said last."""
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").strip().splitlines()
    return shown(lines[-1]) if lines else "it said nothing"


def stop(server: subprocess.Popen[bytes]) -> None:
    """End the server."""
    server.terminate()
    try:
        server.wait(STOP_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
