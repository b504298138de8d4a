"""What an unfinished run is waiting for: its model, or calls that have no result yet."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from alpineagents.values.content import ToolCall
from datasette_alpineagents import queries
from datasette_alpineagents.rows import decoded_calls


@dataclass(frozen=True)
class InFlight:
    """One thing that was asked for and has not come.

    Attributes:
        seq: The entry that asked. since: When. call: The call; `None` for a request to a model.
    """

    seq: int
    turn: int
    since: str
    call: ToolCall | None = None
    model: str | None = None


def in_flight(connection: sqlite3.Connection, state_id: str, most: int = 50) -> list[InFlight]:
    """Everything that a State waits for, in the order asked."""
    request = queries.first(connection, queries.LAST_REQUEST, {"id": state_id})
    if request is None:
        return []
    reply = queries.first(connection, queries.REPLY_TO, {"id": state_id, "request": request["seq"]})
    if reply is None:
        asked = {"id": state_id, "request": request["seq"]}
        if queries.first(connection, queries.ENDED_BY_ERROR, asked) is not None:
            return []
        return [InFlight(request["seq"], request["turn"], request["at"], model=request["model"])]
    results = queries.rows(connection, queries.RESULTS_TO, {"id": state_id, "reply": reply["seq"]})
    closed = {row["block"] for row in results}
    calls = decoded_calls(reply["seq"], reply["data"])
    found = [InFlight(reply["seq"], reply["turn"], reply["at"], call) for block, call in calls if block not in closed]
    return found[:most]
