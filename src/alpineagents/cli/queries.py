"""All SQL of the command line."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from alpineagents.store.rows import ENTRY_COLUMNS
from alpineagents.store.status import STATUS_NOW

OUTCOMES = ("done", "error", "input_error", "denied", "cancelled", "aborted", "interrupted")
_FAILED = ("error", "input_error", "aborted", "interrupted")

# A run is a State that no other one in the file started.
_RUNS = f"""
WITH RECURSIVE chosen(id) AS (
    SELECT id FROM states run
    WHERE NOT EXISTS (SELECT 1 FROM states parent WHERE parent.id = run.parent_id)
        AND (:status IS NULL OR {STATUS_NOW} = :status)
        AND (:agent IS NULL OR agent = :agent)
        AND (:since IS NULL OR created_at >= :since)
    ORDER BY created_at DESC, rowid DESC
    LIMIT :number
),
tree(id) AS (
    SELECT id FROM chosen
    UNION
    SELECT child.id FROM states child JOIN tree ON :subagents AND child.parent_id = tree.id
)
SELECT id, parent_id, {STATUS_NOW} AS status, first_message, agent, model, turn, input_tokens, output_tokens,
    cache_read_tokens, cache_write_tokens, cost, error_count, created_at, updated_at
FROM states WHERE id IN (SELECT id FROM tree)
ORDER BY created_at DESC, rowid DESC
"""


def runs(  # noqa: PLR0913  # the filters of the listing
    connection: sqlite3.Connection,
    *,
    number: int,
    stale_before: str,
    status: str | None = None,
    agent: str | None = None,
    since: str | None = None,
    subagents: bool = False,
) -> list[dict[str, Any]]:
    """The newest runs, from the `states` table alone.

    Args:
        number: The most runs; their subagents do not count.
        stale_before, since: Times as text, as the file has them. An open run last written before the first is stalled.
        subagents: Whether the States that the runs started come too.
    """
    parameters = {
        "number": number,
        "stale_before": stale_before,
        "status": status,
        "agent": agent,
        "since": since,
        "subagents": subagents,
    }
    return [dict(row) for row in connection.execute(_RUNS, parameters)]


def ids(connection: sqlite3.Connection, start: str, number: int) -> list[str]:
    """The id itself if there is such a State, else the first ids that start like this."""
    if connection.execute("SELECT 1 FROM states WHERE id = ?", (start,)).fetchone():
        return [start]
    rows = connection.execute(
        "SELECT id FROM states WHERE id >= :start AND substr(id, 1, length(:start)) = :start ORDER BY id LIMIT :number",
        {"start": start, "number": number},
    )
    return [row["id"] for row in rows]


def counts(connection: sqlite3.Connection) -> tuple[int, int]:
    """How many States and entries there are."""
    row = connection.execute("SELECT (SELECT count(*) FROM states), (SELECT count(*) FROM entries)").fetchone()
    return row[0], row[1]


# The median of n values in order is the one at (n + 1) / 2, or the mean of the two around it.
_TOOLS = f"""
WITH calls AS (
    SELECT tool, outcome, duration_s, state_id,
        row_number() OVER (PARTITION BY tool, duration_s IS NULL ORDER BY duration_s) AS place,
        count(duration_s) OVER (PARTITION BY tool) AS timed
    FROM tool_calls
)
SELECT tool, count(*) AS calls, count(*) FILTER (WHERE outcome IN {_FAILED}) AS failed,
    {", ".join([f"count(*) FILTER (WHERE outcome = '{outcome}') AS {outcome}" for outcome in OUTCOMES])},
    avg(duration_s) FILTER (WHERE place IN ((timed + 1) / 2, (timed + 2) / 2)) AS median_s,
    count(DISTINCT state_id) AS runs
FROM calls
GROUP BY tool
ORDER BY failed DESC, calls DESC, tool
"""


def tools(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """A row for each tool: how many calls ended in which way, and how long one takes."""
    return [dict(row) for row in connection.execute(_TOOLS)]


def entry_before(connection: sqlite3.Connection, state_id: str | None, number: int) -> int:
    """The id in the file behind which so many entries stand, of one State or of all; 0 if there are not as many."""
    where = "" if state_id is None else "WHERE state_id = :state_id"
    row = connection.execute(
        f"SELECT id FROM entries {where} ORDER BY id DESC LIMIT 1 OFFSET :number",
        {"state_id": state_id, "number": number},
    ).fetchone()
    return 0 if row is None else row["id"]


def entries_after(connection: sqlite3.Connection, state_id: str | None, last: int) -> Iterator[sqlite3.Row]:
    """The entries behind that one, in the order they were committed."""
    where = "" if state_id is None else "AND state_id = :state_id"
    yield from connection.execute(
        f"SELECT id, {', '.join(ENTRY_COLUMNS)} FROM entries WHERE id > :last {where} ORDER BY id",
        {"state_id": state_id, "last": last},
    ).fetchall()


def blobs(connection: sqlite3.Connection, hashes: Iterable[str]) -> dict[str, bytes]:
    """The bytes of images, as far as they are in the file."""
    query = "SELECT bytes FROM blobs WHERE sha256 = ?"
    found = [(sha256, connection.execute(query, (sha256,)).fetchone()) for sha256 in hashes]
    return {sha256: row["bytes"] for sha256, row in found if row is not None}
