"""How a run stands at this moment, in one word.

The file keeps what does not depend on the time: a run that has not ended is `open` there. Whether it is still at work
is said when it is read: one that was silent for longer than the stale limit is `stalled`, else it is `running`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from alpineagents.history.codec_checks import time_text

STALE_AFTER = timedelta(minutes=10)

RUNNING, STALLED = "running", "stalled"
STATUSES = (RUNNING, STALLED, "answered", "finished", "limit", "permission", "failed", "interrupted", "idle")

# The same rule in SQL, over a row of `states`; `:stale_before` is what `stale_before` gives.
STATUS_NOW = f"CASE WHEN status = 'open' THEN iif(updated_at < :stale_before, '{STALLED}', '{RUNNING}') ELSE status END"


def stale_before(now: datetime, limit: timedelta = STALE_AFTER) -> str:
    """The time as the file has it, before which an open run must have been written last to count as stalled.

    Args:
        now: An aware time.
        limit: How long a run may be silent; one longer than history makes nothing stalled.
    """
    try:
        return time_text(now - limit)
    except OverflowError:
        return ""


def status_now(status: str | None, updated_at: str | None, before: str) -> str | None:
    """The word for a row of `states`: that of the file, but `running` or `stalled` for `open`.

    Args:
        status, updated_at: The columns of the row; `NULL` stays `None`.
        before: What `stale_before` gives.
    """
    if status != "open":
        return status
    return STALLED if updated_at is not None and updated_at < before else RUNNING
