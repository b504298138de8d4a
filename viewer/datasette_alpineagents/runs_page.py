"""The list of runs: which there are, how each stands, and why."""

from __future__ import annotations

import base64
import binascii
import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from datasette_alpineagents import charts, queries
from datasette_alpineagents.census import Census, by_worry, census
from datasette_alpineagents.frame import Page, Visit, seconds_since
from datasette_alpineagents.in_flight import InFlight, in_flight
from datasette_alpineagents.queries import FAILED, Row
from datasette_alpineagents.status import LIVE, OUTCOMES, STATUSES, reason
from datasette_alpineagents.text import one_line, plain
from datasette_alpineagents.words import plural, seconds_between

PAGE_SIZE = 50
TIMES = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
TIME_WORDS = {"1h": "Last hour", "24h": "Last 24 hours", "7d": "Last 7 days", "30d": "Last 30 days"}
MOST_WORDS = 12  # of a line of facets
_FACETS = ("status", "agent", "model")
_KEPT = (*_FACETS, "tool", "outcome", "time", "day", "q", "subagents", "sort", "dir")


async def runs_page(visit: Visit) -> Page:
    """`/DB/-/runs`."""
    chosen = {name: visit.arguments[name] for name in _KEPT if visit.arguments.get(name)}
    sort = chosen.get("sort", "started")
    sort = sort if sort in queries.SORTS else "started"
    descending = chosen.get("dir", "asc" if sort in ("agent", "model", "message") else "desc") != "asc"
    filters = _filters(visit, chosen)
    mark = _unpacked(visit.arguments.get("next"))
    sql = queries.runs_sql(sort, descending=descending, filters=filters, after=mark is not None)
    parameters = {**_PARAMETERS, **filters, "stale_before": visit.stale_before, "size": PAGE_SIZE + 1}
    if mark is not None:
        parameters["after"], parameters["after_row"] = mark
    found = await visit.read(lambda connection: _Found(connection, visit, sql, parameters))
    listed = found.rows[:PAGE_SIZE]
    after = _packed(listed[-1]) if len(found.rows) > PAGE_SIZE else None
    next_url = visit.links.runs(**chosen, next=after) if after else None
    runs = [found.shown(row, visit) for row in listed]
    data = {
        "rows": [{name: value for name, value in run.items() if name not in ("row", "sorted")} for run in runs],
        "next": next_url.replace("/runs?", "/runs.json?") if next_url else None,
        "facets": found.facets(chosen),
        "days": [vars(day) for day in found.census.days(visit.now)],
        "newest_entry_id": found.census.newest,
    }
    context = {
        "runs": runs,
        "chosen": chosen,
        "filtered": any([chosen.get(name) for name in _KEPT if name not in ("sort", "dir")]),
        "facets": _facet_lines(visit, chosen, found.facets(chosen)),
        "strip": charts.strip(found.census.days(visit.now)),
        "heads": _heads(visit, chosen, sort, descending),
        "sort": sort,
        "descending": descending,
        "total": found.census.total(subagents=False),
        "total_all": found.census.total(subagents=True),
        "live": [(status, number) for status, number in found.facets({})["status"] if status in LIVE],
        "tools": found.tools,
        "outcomes": ("failed", *OUTCOMES),
        "times": TIME_WORDS,
        "is_first": mark is None,
        "next_url": next_url,
        "count_text": _count_text(found, chosen, len(listed), mark is None),
        "follow": {"url": visit.links.news(), "after": found.census.newest} if any_live(runs) else None,
        "removes": {name: visit.links.runs(**{k: v for k, v in chosen.items() if k != name}) for name in chosen},
    }
    used = {name: value for name, value in parameters.items() if f":{name}" in sql}
    links = [(visit.links.tools(), "Tools")]
    return Page("alpineagents/runs.html", "Agent runs", data, context, [], links, sql, used)


_PARAMETERS = dict.fromkeys(("status", "agent", "model", "since", "until", "tool", "outcome", "text"))


def any_live(runs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether any of these may still change by itself."""
    return any([run["status"] in LIVE for run in runs])


def _filters(visit: Visit, chosen: Mapping[str, str]) -> dict[str, Any]:
    filters: dict[str, Any] = {name: chosen.get(name) for name in (*_FACETS, "tool", "outcome")}
    if filters["status"] not in STATUSES:
        filters["status"] = None
    if filters["outcome"] not in ("failed", *OUTCOMES):
        filters["outcome"] = None
    if span := TIMES.get(chosen.get("time", "")):
        filters["since"] = (visit.now - span).isoformat(timespec="microseconds")
    if (day := chosen.get("day", "")) and len(day) == len("2026-11-22"):
        filters["since"], filters["until"] = day, f"{day}T~"
    if text := chosen.get("q", "").strip():
        filters["text"] = queries.like(text)
    filters["subagents"] = chosen.get("subagents") == "1"
    return filters


class _Found:
    """What the page reads, in one look at the file."""

    def __init__(self, connection: sqlite3.Connection, visit: Visit, sql: str, parameters: Mapping[str, Any]) -> None:
        self.rows = queries.rows(connection, sql, parameters)
        ids = [row["id"] for row in self.rows]
        self.census: Census = census(connection, str(visit.database.path), visit.now, visit.stale_before)
        self.calls = _calls_by_run(queries.tree_counts(connection, ids))
        self.below = queries.subagent_counts(connection, ids)
        self.tools = sorted([str(row["tool"]) for row in queries.rows(connection, queries.TOOL_NAMES)])
        self.errors = {
            row["id"]: queries.last_error(connection, row["id"])
            for row in self.rows
            if row["status"] in ("failed", "interrupted")
        }
        self.waiting: dict[str, list[InFlight]] = {
            row["id"]: in_flight(connection, row["id"]) for row in self.rows if row["status"] in LIVE
        }

    def facets(self, chosen: Mapping[str, str]) -> dict[str, list[tuple[str, int]]]:
        """The words of each facet with their counts."""
        subagents = chosen.get("subagents") == "1"
        picked = {name: chosen.get(name) for name in _FACETS}
        counts = {name: self.census.counts(name, picked, subagents=subagents) for name in _FACETS}
        return {
            name: by_worry(count) if name == "status" else sorted(count.items(), key=lambda item: (-item[1], item[0]))
            for name, count in counts.items()
        }

    def shown(self, row: Row, visit: Visit) -> Row:
        """A run with all its columns."""
        silent = seconds_since(row["updated_at"], visit.now)
        took = seconds_between(row["created_at"], row["updated_at"])
        if row["status"] == "running" and took is not None:
            took += silent
        calls = self.calls.get(row["id"], {})
        waiting = self.waiting.get(row["id"], [])
        return {
            **row,
            "url": visit.links.run(row["id"]),
            "message": one_line(row["first_message"] or "", 150),
            "reason": reason(row, self.errors.get(row["id"]), waiting, silent),
            "reason_seq": (self.errors.get(row["id"]) or {}).get("seq"),
            "calls": sum(calls.values()) + len([item for item in waiting if item.call]),
            "failed_calls": sum([number for outcome, number in calls.items() if outcome in FAILED]),
            "denied_calls": calls.get("denied", 0),
            "subagents": self.below.get(row["id"], 0),
            "took_s": took,
            "agent": row["agent"] and plain(row["agent"]),
            "model": row["model"] and plain(row["model"]),
        }


def _calls_by_run(counts: Sequence[Row]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in counts:
        outcomes = found.setdefault(row["root"], {})
        outcomes[row["outcome"]] = outcomes.get(row["outcome"], 0) + row["calls"]
    return found


def _facet_lines(visit: Visit, chosen: Mapping[str, str], facets: Mapping[str, list[tuple[str, int]]]) -> list[Row]:
    lines: list[Row] = []
    for name in _FACETS:
        others = {key: value for key, value in chosen.items() if key != name}
        words = [
            {
                "word": plain(word),
                "count": number,
                "url": visit.links.runs(**others, **{name: word}),
                "on": chosen.get(name) == word,
            }
            for word, number in facets[name]
            if word
        ]
        if name != "status" and len(words) + bool(chosen.get(name)) < 2:  # noqa: PLR2004  # a single word is no choice
            continue
        everything = {
            "word": "all",
            "count": sum([number for _, number in facets[name]]),
            "url": visit.links.runs(**others),
        }
        lines.append(
            {
                "name": name,
                "all": {**everything, "on": not chosen.get(name)},
                "words": words[:MOST_WORDS],
                "more": len(words) - MOST_WORDS,
            }
        )
    return lines


_HEADS = (
    ("status", "Status", (("status", "Status"),)),
    ("message", "First message, and how it ended", (("message", "First message, and how it ended"),)),
    ("agent", "Agent, model", (("agent", "Agent"), ("model", "model"))),
    ("turns", "Turns", (("turns", "Turns"),)),
    ("calls", "Calls", (("calls", "Calls"),)),
    ("failed", "Failed", (("failed", "Failed"),)),
    ("subagents", "Subagents", (("subagents", "Subagents"),)),
    ("cost", "Cost, tokens", (("cost", "Cost"), ("tokens", "tokens"))),
    ("took", "Took", (("took", "Took"),)),
    ("started", "Started, last", (("started", "Started"), ("last", "last"))),
)


def _heads(visit: Visit, chosen: Mapping[str, str], sort: str, descending: bool) -> list[Row]:
    others = {key: value for key, value in chosen.items() if key not in ("sort", "dir")}
    heads: list[Row] = []
    for name, _, parts in _HEADS:
        links: list[Row] = []
        for key, word in parts:
            flipped = ("asc" if descending else "desc") if key == sort else None
            links.append(
                {
                    "word": word,
                    "on": key == sort,
                    "down": descending,
                    "url": visit.links.runs(**others, sort=key, dir=flipped),
                }
            )
        heads.append({"name": name, "links": links, "sorted": any([link["on"] for link in links])})
    return heads


def _count_text(found: _Found, chosen: Mapping[str, str], listed: int, is_first: bool) -> str:
    asked = [name for name in _KEPT if chosen.get(name) and name not in ("sort", "dir", "subagents")]
    if not asked and is_first:
        total = found.census.total(subagents=chosen.get("subagents") == "1")
        return f"1–{listed} of {total:,}" if listed < total else plural(total, "run")
    return f"{plural(listed, 'run')}{' and more' if len(found.rows) > PAGE_SIZE else ''}"


def _packed(row: Row) -> str:
    return base64.urlsafe_b64encode(json.dumps([row["sorted"], row["row"]]).encode()).decode("ascii").rstrip("=")


def _unpacked(text: str | None) -> tuple[Any, int] | None:
    if not text:
        return None
    try:
        value, row = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, TypeError, binascii.Error):
        return None
    fits = isinstance(row, int) and (value is None or isinstance(value, str | int | float))
    return (value, row) if fits else None
