"""One run: how it stands, what it answered, its subagents, where the time went, and its entries turn by turn."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any

from alpineagents.values.display import format_call
from datasette_alpineagents import queries
from datasette_alpineagents.frame import Missing, Page, Visit, seconds_since
from datasette_alpineagents.in_flight import InFlight, in_flight
from datasette_alpineagents.queries import FAILED, Row
from datasette_alpineagents.render import Renderer, turns, worth_a_look
from datasette_alpineagents.rows import shown
from datasette_alpineagents.status import LIVE, headline
from datasette_alpineagents.text import cut_text, one_line, passages, plain
from datasette_alpineagents.waterfall import waterfall
from datasette_alpineagents.words import seconds_between

PAGE_SIZE = 400
MOST_STATES = 200
MOST_WORTH = 8
ANSWER, ASKED = 900, 320


async def run_page(visit: Visit) -> Page:
    """`/DB/-/runs/ID`."""
    state_id = visit.path["id"]
    found = await visit.read(lambda connection: _Found(connection, visit, state_id))
    renderer = Renderer(found.state["created_at"], found.times, {row["id"]: row for row in found.tree})
    entries = [renderer.entry(shown(state_id, row)) for row in found.entries]
    grouped = turns(entries, found.state["turn"])
    data = {
        "state": {name: value for name, value in found.state.items() if name != "more"},
        "tree": found.tree,
        "rows": [_plain_row(row) for row in found.entries],
        "next": _json_url(visit, state_id, found.last + 1) if found.last < found.newest else None,
    }
    links = [(visit.links.at(state_id, len(found.skeleton)), "Step through"), (visit.links.tools(), "Tools")]
    context = _context(visit, found, entries, grouped)
    return Page("alpineagents/run.html", _title(found.state), data, context, _crumbs(visit, found), links)


class _Found:
    """What the page reads, in one look at the file."""

    def __init__(self, connection: sqlite3.Connection, visit: Visit, state_id: str) -> None:
        parameters: Row = {"id": state_id, "stale_before": visit.stale_before}
        state = queries.first(connection, queries.STATE, parameters)
        if state is None:
            raise Missing(f"there is no run {state_id} in {visit.name}")
        self.state = state
        self.tree = queries.rows(connection, queries.TREE, {**parameters, "most": MOST_STATES})
        self.forks = queries.rows(connection, queries.FORKS, parameters)
        self.skeleton = queries.rows(connection, queries.SKELETON, parameters)
        by_id = {row["id"]: row["seq"] for row in self.skeleton}
        results = queries.rows(connection, queries.OUTCOMES, parameters)
        self.outcomes = {by_id[row["id"]]: row for row in results if row["id"] in by_id}
        self.times = {row["seq"]: row["at"] for row in self.skeleton}
        self.newest = self.skeleton[-1]["seq"] if self.skeleton else -1
        self.first = self._first(visit)
        self.last = min(self.newest, self.first + PAGE_SIZE - 1)
        window = {"id": state_id, "first": self.first, "last": self.last}
        self.entries = queries.rows(connection, queries.ENTRIES, window)
        self.error = queries.last_error(connection, state_id)
        self.waiting: list[InFlight] = in_flight(connection, state_id) if state["status_now"] in LIVE else []
        self.asked = self._asked()

    def _first(self, visit: Visit) -> int:
        entry = visit.number("entry")
        first = visit.number("first", 0) or 0
        if entry is not None:
            first = entry // PAGE_SIZE * PAGE_SIZE
        return max(0, min(first, self.newest))

    def _asked(self) -> int | None:
        return next((row["seq"] for row in self.skeleton if row["kind"] in ("user", "context_change")), None)


def _context(visit: Visit, found: _Found, entries: list[Row], grouped: list[Row]) -> Row:
    state = found.state
    silent = seconds_since(state["updated_at"], visit.now)
    took = seconds_between(state["created_at"], state["updated_at"])
    if state["status_now"] == "running" and took is not None:
        took += silent
    outcomes = Counter([row["outcome"] for row in found.outcomes.values() if not row["late"]])
    answer, answer_cut = cut_text(state["answer"] or "", ANSWER)
    message, message_cut = cut_text(state["first_message"] or "", ASKED)
    known = [row["cost"] for row in found.tree if row["cost"] is not None]
    worth = worth_a_look(entries)
    return {
        "state": state,
        "status": state["status_now"],
        "headline": headline(state, found.error, found.waiting, silent),
        "agent": plain(state["agent"] or ""),
        "model": plain(state["model"] or ""),
        "took_s": took,
        "calls": sum(outcomes.values()) + len([item for item in found.waiting if item.call]),
        "failed": sum([number for outcome, number in outcomes.items() if outcome in FAILED]),
        "denied": outcomes["denied"],
        "answer": passages(answer),
        "answer_cut": answer_cut,
        "asked": passages(message),
        "asked_cut": message_cut,
        "asked_seq": found.asked,
        "tree": _tree(visit, found.tree, state["id"]),
        "tree_cost": max(known) if len(found.tree) > 1 and known else None,
        "forks": found.forks,
        "waiting": [_waiting(item, visit) for item in found.waiting] if state["status_now"] in LIVE else [],
        "worth": worth[:MOST_WORTH],
        "worth_more": max(0, len(worth) - MOST_WORTH),
        "waterfall": waterfall(found.skeleton, found.outcomes),
        "turns": grouped,
        "count": len(found.skeleton),
        "pages": _pages(visit, found),
        "follow": {"url": visit.links.news(state["id"]), "after": found.newest}
        if state["status_now"] in LIVE
        else None,
        "snippet": f'state = SqliteStore("{visit.name}.db").load("{state["id"]}")',
        "inherited": state["forked_at"] if state["forked_from"] else None,
    }


def _title(state: Row) -> str:
    return one_line(f"{state['agent'] or 'run'}: {state['first_message'] or state['id']}", 80)


def _crumbs(visit: Visit, found: _Found) -> list[tuple[str, str]]:
    """The way down from the first of all parents."""
    by_id = {row["id"]: row for row in found.tree}
    way: list[Row] = []
    row = by_id.get(found.state["id"])
    while row is not None and row not in way:
        way.insert(0, row)
        row = by_id.get(row["parent_id"] or "")
    return [
        (visit.links.run(row["id"]), plain(row["agent"] or row["id"]) if row["depth"] else plain(row["id"]))
        for row in way
    ]


def _tree(visit: Visit, rows: list[Row], current: str) -> list[Row]:
    """The States in the order of the tree, each below the one that started it."""
    below: dict[Any, list[Row]] = {}
    ids = {row["id"] for row in rows}
    for row in rows:
        below.setdefault(row["parent_id"] if row["parent_id"] in ids else None, []).append(row)
    waiting, ordered = list(reversed(below.get(None, []))), list[Row]()
    while waiting:
        row = waiting.pop()
        ordered.append(
            {
                **row,
                "url": visit.links.run(row["id"]),
                "current": row["id"] == current,
                "name": plain(row["agent"] or row["id"]),
            }
        )
        waiting += list(reversed(below.pop(row["id"], [])))
    return ordered


def _waiting(item: InFlight, visit: Visit) -> Row:
    what = one_line(format_call(item.call), 160) if item.call else f"a request to {one_line(item.model or 'the model')}"
    return {
        "seq": item.seq,
        "what": what,
        "age_s": seconds_since(item.since, visit.now),
        "is_call": item.call is not None,
    }


def _pages(visit: Visit, found: _Found) -> Row | None:
    if found.newest < PAGE_SIZE:
        return None
    url = visit.links.run
    state_id = found.state["id"]
    return {
        "first": found.first,
        "last": found.last,
        "before": url(state_id, first=max(0, found.first - PAGE_SIZE)) if found.first > 0 else None,
        "after": url(state_id, first=found.last + 1) if found.last < found.newest else None,
    }


def _json_url(visit: Visit, state_id: str, first: int) -> str:
    path, _, query = visit.links.run(state_id, first=first).partition("?")
    return f"{path}.json?{query}"


def _plain_row(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in ("id", "original", "start")}
