"""All SQL of the command line."""

from __future__ import annotations

import sqlite3
from typing import Any

from alpineagents.store.status import STATUS_NOW

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
