"""A server on 127.0.0.1 that answers as it was told to and notes what it was sent, byte for byte."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE_S = 10


@dataclass
class Answer:
    """What one request gets.

    Attributes:
        pieces: The body, written piece by piece as it is cut here.
        end: `whole`, or after the pieces: `reset` the connection, `close` it in the middle of the body, stay `silent`;
            `mute` sends nothing at all, `dropped` resets the connection without an answer.
    """

    pieces: Iterable[bytes] = ()
    status: int = 200
    content_type: str = "text/event-stream; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)
    end: str = "whole"


@dataclass(frozen=True)
class Sent:
    """What one request was."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    at: float

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


class Server:
    """Answers POSTs from `answers`, in order; looks models up in `limits`.

    Attributes:
        posts, gets: What came, in order. accepted, left: How many connections were made, and ended.
        begun, gone: Set once this is silent, and once the client left meanwhile.
    """

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.lookup = Answer([b'{"max_tokens": 64000}'], content_type="application/json")
        self.posts: list[Sent] = []
        self.gets: list[Sent] = []
        self.begun, self.gone = threading.Event(), threading.Event()
        self._http = _Http(self)
        self.open: set[socket.socket] = set()
        self.accepted = 0
        self.left = threading.Semaphore(0)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    @contextmanager
    def running(self) -> Iterator[Server]:
        thread = threading.Thread(target=lambda: self._http.serve_forever(poll_interval=0.01))
        thread.start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()
            for connection in list(self.open):
                with_shutdown(connection)
            thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, script: Server) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def script(self) -> Server:
        assert isinstance(self.server, _Http)
        return self.server.script

    def setup(self) -> None:
        super().setup()
        self.script.open.add(self.connection)
        self.script.accepted += 1

    def finish(self) -> None:
        super().finish()
        self.script.open.discard(self.connection)
        self.script.left.release()

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:  # the client has gone
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None: ...

    def noted(self) -> Sent:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Sent(self.command, self.path, headers, raw, time.monotonic())

    def do_GET(self) -> None:
        self.script.gets.append(self.noted())
        self.answer(self.script.lookup)

    def do_POST(self) -> None:
        self.script.posts.append(self.noted())
        self.answer(self.script.answers.pop(0))

    def answer(self, answer: Answer) -> None:
        if answer.end == "mute":
            return self.silent()
        if answer.end == "dropped":
            return self.reset()
        self.send_response(answer.status)
        if answer.content_type:
            self.send_header("Content-Type", answer.content_type)
        self.send_header("Transfer-Encoding", "chunked")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        for piece in filter(None, answer.pieces):
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        return getattr(self, answer.end)()

    def whole(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def close(self) -> None:
        self.close_connection = True

    def reset(self) -> None:
        # Closing with a linger time of 0 sends RST: https://man7.org/linux/man-pages/man7/socket.7.html
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())  # at once: `close` would wait for the files made of it
        self.close_connection = True

    def silent(self) -> None:
        self.connection.settimeout(PATIENCE_S)
        self.script.begun.set()
        try:
            left = self.connection.recv(1) == b""
        except OSError as error:
            left = not isinstance(error, TimeoutError)
        if left:
            self.script.gone.set()
        self.close_connection = True


def with_shutdown(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it is closed already
        return
