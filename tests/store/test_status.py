from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from alpineagents.history.codec_checks import time_text
from alpineagents.store.status import STALE_AFTER, STATUS_NOW, STATUSES, stale_before, status_now

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("silent", "expected"),
    [
        (timedelta(0), "running"),
        (STALE_AFTER, "running"),
        (STALE_AFTER + timedelta(microseconds=1), "stalled"),
        (timedelta(days=400), "stalled"),
    ],
)
def test_an_open_run_is_stalled_once_it_was_silent_for_longer_than_the_limit(silent: timedelta, expected: str) -> None:
    assert status_now("open", time_text(NOON - silent), stale_before(NOON)) == expected


def test_the_limit_may_be_another_one() -> None:
    before = stale_before(NOON, timedelta(hours=1))
    assert status_now("open", time_text(NOON - timedelta(minutes=50)), before) == "running"
    assert status_now("open", time_text(NOON - timedelta(minutes=70)), before) == "stalled"


def test_a_limit_beyond_all_time_makes_nothing_stalled() -> None:
    assert status_now("open", time_text(datetime(1, 1, 1, tzinfo=UTC)), stale_before(NOON, timedelta.max)) == "running"


@pytest.mark.parametrize("status", [*STATUSES[2:], None, "a word of tomorrow"])
def test_what_has_ended_stands_as_the_file_says(status: str | None) -> None:
    assert status_now(status, time_text(NOON - timedelta(days=1)), stale_before(NOON)) == status


@pytest.mark.parametrize("status", ["open", "failed", None])
@pytest.mark.parametrize("updated_at", [None, time_text(NOON), time_text(NOON - timedelta(days=1))])
def test_the_rule_in_sql_is_the_same(status: str | None, updated_at: str | None) -> None:
    connection = sqlite3.connect(":memory:")
    before = stale_before(NOON)
    (found,) = connection.execute(
        f"SELECT {STATUS_NOW} FROM (SELECT :status AS status, :updated_at AS updated_at)",
        {"status": status, "updated_at": updated_at, "stale_before": before},
    ).fetchone()
    connection.close()
    assert found == status_now(status, updated_at, before)
