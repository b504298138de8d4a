"""Which failures are tried again, after how long, and what is said about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from alpineagents.models.retrying import Failure, asked_wait_s, retrying, wait_s
from alpineagents.types import ModelEvent
from alpineagents.waiting import Wait, awaiting, blocking, complete

Act = Callable[..., Any]


class Failed(Exception):
    pass


class Server:
    """Fails as often as it is told to, then answers."""

    def __init__(self, *failures: Failure | None) -> None:
        self.failures = list(failures)
        self.asked = 0
        self.events: list[ModelEvent] = []

    async def _send(self) -> str:
        self.asked += 1
        if self.failures:
            raise Failed(self.failures[0])
        return "ok"

    def _failure_of(self, error: Exception) -> Failure | None:
        return self.failures.pop(0)

    async def _ask(self, wait: Wait, retries: int) -> str:
        return await retrying(wait, self._send, self._failure_of, retries, self.events.append)

    def ask(self, retries: int = 2) -> str:
        return complete(self._ask(blocking, retries))

    async def aask(self, retries: int = 2) -> str:
        return await self._ask(awaiting, retries)


SOON = {"retry-after-ms": "1"}


def test_an_answer_needs_no_second_try(act: Act) -> None:
    server = Server()
    assert (act(server, "ask"), server.asked, server.events) == ("ok", 1, [])


def test_each_wait_is_an_event(act: Act) -> None:
    server = Server(Failure("busy", 503, SOON), Failure("no answer", None, SOON))
    assert act(server, "ask") == "ok"
    first, second = server.events
    assert first.kind == second.kind == "retry"
    assert first.message == "busy; trying again in 0.0 s (1 of 2)"
    assert dict(first.data) == {"attempt": 1, "retries": 2, "wait": 0.001, "status": 503}
    assert dict(second.data) == {"attempt": 2, "retries": 2, "wait": 0.001, "status": None}


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_retries_are_further_attempts(act: Act, retries: int) -> None:
    server = Server(*[Failure("busy", 503, SOON)] * 9)
    with pytest.raises(Failed):
        act(server, "ask", retries)
    assert (server.asked, len(server.events)) == (retries + 1, retries)


def test_what_is_not_known_as_a_failure_comes_out_at_once(act: Act) -> None:
    server = Server(None)
    with pytest.raises(Failed):
        act(server, "ask")
    assert server.asked == 1


def test_what_hears_of_a_retry_may_end_it(act: Act) -> None:
    server = Server(Failure("busy", 503, SOON))
    error = TimeoutError("enough")

    class Ending(list[ModelEvent]):
        def append(self, event: ModelEvent) -> None:
            raise error

    server.events = Ending()
    with pytest.raises(TimeoutError) as raised:
        act(server, "ask")
    assert raised.value is error
    assert server.asked == 1


@pytest.mark.parametrize(
    ("status", "tried"),
    [(None, True), *[(code, True) for code in (408, 409, 429, 500, 502, 503, 529)]]
    + [(code, False) for code in (400, 401, 403, 404, 413, 422)],
)
def test_these_statuses_are_tried_again(status: int | None, tried: bool) -> None:
    assert (wait_s(Failure("x", status), 1) is not None) == tried


TOLD = [("true", 400, True), ("false", 503, False), ("maybe", 503, True)]


@pytest.mark.parametrize(("told", "status", "tried"), TOLD)
def test_the_server_may_say_whether_to_try_again(told: str, status: int, tried: bool) -> None:
    assert (wait_s(Failure("x", status, {"x-should-retry": told}), 1) is not None) == tried


def test_what_is_final_is_not_tried_again() -> None:
    assert wait_s(Failure("x", 429, final=True), 1) is None


def test_the_waits_double_up_to_a_limit_and_are_shortened_by_chance() -> None:
    for attempt, longest in [(1, 0.5), (2, 1), (3, 2), (4, 4), (5, 8), (6, 8), (5000, 8)]:
        waits = [wait_s(Failure("x", 500), attempt) or 0 for _ in range(200)]
        assert all(0.75 * longest <= seconds <= longest for seconds in waits)
        assert len(set(waits)) > 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "2"}, 2),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Fri, 99 Foo 2026 99:99:99 GMT"}, None),
        ({}, None),
    ],
)
def test_the_server_says_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert asked_wait_s(headers) == seconds


def test_it_may_say_so_with_a_date() -> None:
    until = datetime.now(UTC) + timedelta(seconds=30)
    for text in (format_datetime(until, usegmt=True), format_datetime(until)):
        seconds = asked_wait_s({"retry-after": text})
        assert seconds is not None
        assert 28 < seconds <= 30


@pytest.mark.parametrize("asked", ["0", "-5", "Fri, 31 Dec 1999 23:59:59 GMT"])
def test_a_wait_that_is_over_is_the_ordinary_one(asked: str) -> None:
    seconds = wait_s(Failure("x", 429, {"retry-after": asked}), 1)
    assert seconds is not None
    assert 0.375 <= seconds <= 0.5


def test_a_long_wait_is_for_the_caller_to_decide() -> None:
    assert wait_s(Failure("x", 429, {"retry-after": "120"}), 1) == 120
    assert wait_s(Failure("x", 429, {"retry-after": "120.1"}), 1) is None


def test_the_wait_is_really_waited(act: Act) -> None:
    server = Server(Failure("busy", 503, {"retry-after-ms": "60"}))
    before = time.monotonic()
    act(server, "ask")
    assert time.monotonic() - before >= 0.06
