"""Tools by outcome, and the calls behind each number with equal messages grouped."""

from __future__ import annotations

import re
from collections.abc import Sequence

from datasette_alpineagents import queries
from datasette_alpineagents.frame import Page, Visit
from datasette_alpineagents.queries import FAILED, Row
from datasette_alpineagents.text import one_line, plain, preview
from datasette_alpineagents.tool_queries import CALLS, OUTCOMES, RESULT, TOOLS
from datasette_alpineagents.words import percent, plural

MOST_CALLS = 500
SHOWN_IN_GROUP = 20
# Numbers, hashes and ids, which differ between calls that failed for the same reason.
_VARYING = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8,}\b|\d+", re.IGNORECASE)


async def tools_page(visit: Visit) -> Page:
    """`/DB/-/tools`."""
    rows = await visit.read(lambda connection: queries.rows(connection, TOOLS))
    worst = max([row["failed"] / row["calls"] for row in rows], default=0) or 1
    tools = [
        {
            **row,
            "name": plain(row["tool"]),
            "rate": percent(row["failed"], row["calls"]),
            "bar": 100 * row["failed"] / row["calls"] / worst,
            "cells": [(outcome, row[outcome]) for outcome in OUTCOMES],
        }
        for row in rows
    ]
    context = {"tools": tools, "outcomes": OUTCOMES, "headline": _headline(rows), "failing": FAILED}
    links = [(visit.links.runs(), "Runs")]
    data = {"rows": rows, "next": None}
    return Page("alpineagents/tools.html", "Tools", data, context, [(visit.links.tools(), "tools")], links, TOOLS)


def _headline(rows: Sequence[Row]) -> str:
    """What the table says first."""
    failing = [row for row in rows if row["failed"]]
    if not rows:
        return "No tool has been called"
    if not failing:
        return f"No call failed: {plural(sum([row['calls'] for row in rows]), 'call')} of {plural(len(rows), 'tool')}"
    row = failing[0]
    share = percent(row["failed"], row["calls"])
    return f"{one_line(row['tool'], 60)} fails most: {share} of {plural(row['calls'], 'call')}"


async def calls_page(visit: Visit) -> Page:
    """`/DB/-/tools/calls?tool=…&outcome=…`."""
    tool, outcome = visit.arguments.get("tool") or None, visit.arguments.get("outcome") or None
    parameters = {"tool": tool, "outcome": outcome, "size": MOST_CALLS + 1}
    rows = await visit.read(lambda connection: queries.rows(connection, CALLS, parameters))
    listed = rows[:MOST_CALLS]
    groups = _groups(listed)
    what = f"{plural(len(listed), 'call')}{' and more' if len(rows) > MOST_CALLS else ''}"
    of = f" of {one_line(tool, 60)}" if tool else ""
    context = {
        "groups": groups,
        "headline": f"{what}{of}{f': {outcome}' if outcome else ''}",
        "tool": tool,
        "outcome": outcome,
        "shown": SHOWN_IN_GROUP,
    }
    crumbs = [(visit.links.tools(), "tools"), (visit.links.calls(tool=tool, outcome=outcome), "calls")]
    data = {"rows": listed, "next": None}
    return Page("alpineagents/calls.html", "Calls", data, context, crumbs, [], CALLS, parameters)


def _groups(rows: Sequence[Row]) -> list[Row]:
    """The calls whose messages are equal but for numbers and ids, the largest group first."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        key = (str(row["outcome"]), _VARYING.sub("#", (row["result"] or "")[:500]))
        found.setdefault(key, []).append(row)
    groups = [
        {
            "outcome": outcome if outcome != "None" else "pending",
            "count": len(members),
            "message": one_line(members[0]["result"] or "(no result yet)", 140),
            "preview": preview(members[0]["result"] or "", 8, size=_cut_size(members[0])),
            "calls": [{**row, "shown_args": one_line(row["args"] or "", 160)} for row in members[:SHOWN_IN_GROUP]],
        }
        for (outcome, _), members in found.items()
    ]
    return sorted(groups, key=lambda group: -group["count"])


def _cut_size(row: Row) -> int | None:
    """How long a result is of which only the start was read."""
    return row["size"] if (row["size"] or 0) > RESULT else None
