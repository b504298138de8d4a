"""Sending a request again: which failures may pass, how long to wait, and what is said about it.

A failed attempt is repeated while retries are left and

- no answer came at all, or one with status 408, 409, 429 or from 500 on; the header `x-should-retry` overrides these;
- it is not `final`: waiting does not fill an empty account;
- the server asks for a wait of at most `LONGEST_WAIT_S`. Whether to wait longer is the caller's decision.

The wait is what the server asks for (`retry-after-ms`, else `retry-after` in seconds or as a date), otherwise 0.5 s,
doubled for each further attempt up to 8 s and shortened by up to a quarter, so that many clients do not come back at
the same moment. `on_event` gets a `ModelEvent` of the kind `retry` before each wait.

    answer = await retrying(wait, send, failure_of, model.retries, on_event)

`send` is a step that gives the answer as soon as its status is known: what happens while a reply is read is not tried
again, because its text has been shown and paid for.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from typing import TypeVar

from alpineagents.models.base import OnEvent
from alpineagents.values.exchange import ModelEvent
from alpineagents.waiting import Wait

T = TypeVar("T")

LONGEST_WAIT_S = 120.0
_FIRST_WAIT_S, _LAST_WAIT_S = 0.5, 8.0
_PASSING = frozenset({408, 409, 429})
_SERVER_ERROR = 500


@dataclass(frozen=True)
class Failure:
    """An attempt that got no reply.

    Attributes:
        text: What went wrong, in one line for a person.
        status: Of the answer; `None` when there was no answer.
        headers: Of the answer, looked up by names in lower case.
        final: Whether trying again is useless, whatever the status.
    """

    text: str
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    final: bool = False


async def retrying(
    wait: Wait,
    send: Callable[[], Awaitable[T]],
    failure_of: Callable[[Exception], Failure | None],
    retries: int,
    on_event: OnEvent | None,
) -> T:
    """What `send` gives, after at most `retries` further attempts.

    Args:
        failure_of: What is known about an exception of `send`; `None` if it is not to be repeated.
    Raises:
        Exception: The last one of `send`; or what `on_event` raised, which ends the request.
    """
    attempt = 1
    while True:
        try:
            return await send()
        except Exception as error:
            failure = failure_of(error)
            seconds = None if failure is None or attempt > retries else wait_s(failure, attempt)
            if failure is None or seconds is None:
                raise
        if on_event is not None:
            on_event(_event(failure, attempt, retries, seconds))
        await wait(_pause, _apause, seconds)
        attempt += 1


def wait_s(failure: Failure, attempt: int) -> float | None:
    """Seconds to wait before the given further attempt (1 is the first); `None` if there must be none."""
    if failure.final or not _may_pass(failure):
        return None
    asked = asked_wait_s(failure.headers)
    if asked is not None and asked > LONGEST_WAIT_S:
        return None
    if asked is not None and asked > 0:
        return asked
    longest = min(_FIRST_WAIT_S * 2 ** min(attempt - 1, 16), _LAST_WAIT_S)
    return longest * random.uniform(0.75, 1)


def asked_wait_s(headers: Mapping[str, str]) -> float | None:
    """The wait a server asks for, in seconds; `None` if it asks for none that can be read."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    return seconds if seconds is not None or text is None else _until(text)


def _may_pass(failure: Failure) -> bool:
    told = failure.headers.get("x-should-retry", "").strip().lower()
    if told in ("true", "false"):
        return told == "true"
    return failure.status is None or failure.status in _PASSING or failure.status >= _SERVER_ERROR


def _number(text: str | None) -> float | None:
    try:
        value = math.nan if text is None else float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _until(date: str) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(date)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - time.time()
    except (ValueError, OverflowError):  # not a date, or one that no clock reaches
        return None


def _event(failure: Failure, attempt: int, retries: int, seconds: float) -> ModelEvent:
    message = f"{failure.text}; trying again in {seconds:.1f} s ({attempt} of {retries})"
    data = {"attempt": attempt, "retries": retries, "wait": seconds, "status": failure.status}
    return ModelEvent("retry", message, data)


def _pause(seconds: float) -> None:
    time.sleep(seconds)


async def _apause(seconds: float) -> None:
    await asyncio.sleep(seconds)
