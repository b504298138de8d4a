"""The one clock that stamps history entries; replace `now` to freeze time in a test."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The current time as an aware UTC datetime."""
    return datetime.now(UTC)
