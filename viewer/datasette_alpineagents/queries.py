"""All SQL of the pages about runs: the list, and one run. Only SELECTs, and every value is a parameter."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from alpineagents.store.status import STATUS_NOW

Row = dict[str, Any]
FAILED = ("error", "input_error", "aborted", "interrupted")
_FAILED = ", ".join([f"'{outcome}'" for outcome in FAILED])
LARGE = 32_768  # characters of JSON above which only the start of an entry is read for a page
START = 6_000

IS_RUN = "NOT EXISTS (SELECT 1 FROM states parent WHERE parent.id = run.parent_id)"
_TOKENS = "run.input_tokens + run.output_tokens + run.cache_read_tokens + run.cache_write_tokens"
_TOOK = "unixepoch(substr(run.updated_at, 1, 19)) - unixepoch(substr(run.created_at, 1, 19))"
_CALLS = "SELECT count(*) FROM entries result WHERE result.kind = 'tool_result' AND result.state_id = run.id"

# What each column of the list is sorted by. None is NULL, so that the pages of a sorted list join.
SORTS = {
    "started": "run.created_at",
    "last": "run.updated_at",
    "status": f"coalesce({STATUS_NOW}, '')",
    "message": "coalesce(run.first_message, '')",
    "agent": "coalesce(run.agent, '')",
    "model": "coalesce(run.model, '')",
    "turns": "coalesce(run.turn, -1)",
    "cost": "coalesce(run.cost, -1.0)",
    "tokens": f"coalesce({_TOKENS}, -1)",
    "took": f"coalesce({_TOOK}, -1)",
    "calls": f"({_CALLS} AND result.late IS NOT 1)",
    "failed": f"({_CALLS} AND result.late IS NOT 1 AND result.outcome IN ({_FAILED}))",
    "subagents": "(SELECT count(*) FROM states child WHERE child.parent_id = run.id)",
}
TEXTS = frozenset({"started", "last", "status", "message", "agent", "model"})  # those sorted as text


def rows(connection: sqlite3.Connection, sql: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
    """All rows of a query, as dicts."""
    cursor = connection.execute(sql, parameters or {})
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def first(connection: sqlite3.Connection, sql: str, parameters: Mapping[str, Any] | None = None) -> Row | None:
    """The first row of a query."""
    found = rows(connection, sql, parameters)
    return found[0] if found else None


def runs_sql(sort: str, *, descending: bool, filters: Mapping[str, Any], after: bool) -> str:
    """The query of the list of runs. Its parameters are named like the filters."""
    expression, word = SORTS[sort], "DESC" if descending else "ASC"
    conditions = [_FILTERS[name] for name in _FILTERS if filters.get(name) not in (None, "")]
    if not filters.get("subagents"):
        conditions.insert(0, IS_RUN)
    if after:
        sign = "<" if descending else ">"
        conditions.append(f"({expression}, run.rowid) {sign} (:after, :after_row)")
    where = "\n    AND ".join(conditions) or "1"
    return f"""SELECT run.rowid AS row, {expression} AS sorted, run.id, run.parent_id, run.forked_from, run.forked_at,
    {STATUS_NOW} AS status, run.stopped, substr(run.first_message, 1, 400) AS first_message,
    substr(run.answer, 1, 400) AS answer, run.agent, run.model, run.turn, run.entry_count, run.cost, run.requests,
    {_TOKENS} AS tokens, run.error_count, run.created_at, run.updated_at
FROM states run
WHERE {where}
ORDER BY {expression} {word}, run.rowid {word}
LIMIT :size"""


_TEXT_LIKE = "LIKE :text ESCAPE '\\'"
_USED = "EXISTS (SELECT 1 FROM entries result WHERE result.kind = 'tool_result' AND result.state_id = run.id"
_FILTERS = {
    "status": f"{SORTS['status']} = :status",
    "agent": "coalesce(run.agent, '') = :agent",
    "model": "coalesce(run.model, '') = :model",
    "since": "run.created_at >= :since",
    "until": "run.created_at < :until",
    "tool": f"{_USED} AND result.late IS NOT 1 AND result.tool = :tool)",
    "outcome": f"{_USED} AND result.late IS NOT 1 AND (:tool IS NULL OR result.tool = :tool)"
    f" AND (result.outcome = :outcome OR :outcome = 'failed' AND result.outcome IN ({_FAILED})))",
    "text": f"(run.first_message {_TEXT_LIKE} OR run.answer {_TEXT_LIKE} OR run.id {_TEXT_LIKE})",
}


def like(text: str) -> str:
    """The pattern of a text that may stand anywhere."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


# One pass over all States: what the strip of days and the counts beside the filters are made of.
CUBE = f"""SELECT CASE WHEN run.created_at >= :since THEN substr(run.created_at, 1, 10) END AS day,
    run.status, run.agent, run.model, {IS_RUN} AS is_run, count(*) AS runs, total(run.cost) AS cost,
    sum(run.cost IS NULL AND run.requests > 0) AS unknown
FROM states run
GROUP BY 1, 2, 3, 4, 5"""
OPEN = f"""SELECT run.id, run.agent, run.model, run.created_at, run.updated_at, {IS_RUN} AS is_run
FROM states run WHERE run.status = 'open'"""
VERSION = "SELECT (SELECT max(id) FROM entries) AS newest, (SELECT count(*) FROM states) AS states"

# What forks inherited of what they cost, while the original is in the file.
INHERITED = """SELECT fork.id, substr(fork.created_at, 1, 10) AS day,
    total(CASE WHEN json_valid(entry.data)
        THEN coalesce(entry.data ->> '$.content.usage.cost', entry.data ->> '$.usage.cost') END) AS cost
FROM states fork JOIN entries entry ON entry.state_id = fork.id AND entry.seq < fork.forked_at
WHERE fork.forked_from IS NOT NULL AND entry.kind <> 'user'
GROUP BY fork.id"""

TOOL_NAMES = "SELECT DISTINCT tool FROM entries WHERE kind = 'tool_result' AND tool IS NOT NULL LIMIT 200"


def tree_counts(connection: sqlite3.Connection, ids: Sequence[str]) -> list[Row]:
    """Of each of these States and all below it: how many calls ended how, and whether below."""
    sql = """
    WITH RECURSIVE tree(root, id) AS (
        SELECT id, id FROM states WHERE id IN (SELECT value FROM json_each(:ids))
        UNION
        SELECT tree.root, child.id FROM tree JOIN states child ON child.parent_id = tree.id
    )
    SELECT tree.root, tree.id = tree.root AS own, result.outcome, count(*) AS calls
    FROM tree JOIN entries result ON result.kind = 'tool_result' AND result.state_id = tree.id AND result.late IS NOT 1
    GROUP BY 1, 2, 3"""
    return rows(connection, sql, {"ids": json.dumps(list(ids))})


def subagent_counts(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    """How many States are below each of these."""
    sql = """
    WITH RECURSIVE tree(root, id) AS (
        SELECT id, id FROM states WHERE id IN (SELECT value FROM json_each(:ids))
        UNION
        SELECT tree.root, child.id FROM tree JOIN states child ON child.parent_id = tree.id
    )
    SELECT root, count(*) - 1 AS below FROM tree GROUP BY root"""
    return {row["root"]: row["below"] for row in rows(connection, sql, {"ids": json.dumps(list(ids))})}


def last_error(connection: sqlite3.Connection, state_id: str) -> Row | None:
    """The latest error of a State."""
    sql = """SELECT seq, turn, tool, substr(text, 1, 300) AS text FROM entries
    WHERE kind = 'error' AND state_id = :id ORDER BY seq DESC LIMIT 1"""
    return first(connection, sql, {"id": state_id})


STATE = f"""SELECT run.*, {SORTS["status"]} AS status_now, {_TOKENS} AS tokens FROM states run WHERE run.id = :id"""

# The way up to the first of all parents, and from there every State below it.
TREE = f"""
WITH RECURSIVE up(id, parent_id, depth) AS (
    SELECT id, parent_id, 0 FROM states WHERE id = :id
    UNION
    SELECT parent.id, parent.parent_id, up.depth + 1 FROM up JOIN states parent ON parent.id = up.parent_id
    WHERE up.depth < 50
),
tree(id, depth) AS (
    SELECT id, 0 FROM (SELECT id FROM up ORDER BY depth DESC LIMIT 1)
    UNION
    SELECT child.id, tree.depth + 1 FROM tree JOIN states child ON child.parent_id = tree.id WHERE tree.depth < 50
)
SELECT run.id, run.parent_id, run.parent_call_id, min(tree.depth) AS depth, run.agent, run.model,
    {SORTS["status"]} AS status, run.stopped, run.turn, run.cost, run.requests, {_TOKENS} AS tokens,
    run.input_tokens, run.output_tokens,
    run.cache_read_tokens, run.cache_write_tokens, run.created_at, run.updated_at,
    substr(run.answer, 1, 300) AS answer, substr(run.first_message, 1, 200) AS first_message
FROM tree JOIN states run ON run.id = tree.id
GROUP BY run.id ORDER BY run.created_at, run.rowid LIMIT :most"""

FORKS = (
    "SELECT id, forked_at, agent, model, created_at FROM states WHERE forked_from = :id ORDER BY created_at LIMIT 20"
)

# The bones of a run: when each entry was written and what it answers, without what it holds.
SKELETON = "SELECT id, seq, kind, turn, at, closes, block FROM entries WHERE state_id = :id ORDER BY seq"
OUTCOMES = "SELECT id, tool, outcome, late FROM entries WHERE kind = 'tool_result' AND state_id = :id"

ENTRIES = f"""SELECT id, seq, kind, turn, at, closes, block, length(data) AS length,
    iif(length(data) <= {LARGE}, data, NULL) AS data,
    iif(length(data) <= {LARGE}, original, NULL) AS original, substr(data, 1, {START}) AS start
FROM entries WHERE state_id = :id AND seq >= :first AND seq <= :last ORDER BY seq"""

BLOB = "SELECT media_type, bytes FROM blobs WHERE sha256 = :sha256"

NEWS = "SELECT max(seq) AS last_seq, count(*) AS entries FROM entries WHERE state_id = :id AND seq >= :after"
NEWEST = "SELECT max(id) AS newest FROM entries"

LAST_REQUEST = (
    "SELECT seq, at, turn, model FROM entries WHERE kind = 'model_request' AND state_id = :id ORDER BY seq DESC LIMIT 1"
)
REPLY_TO = """SELECT seq, at, turn, length(data) AS length, iif(length(data) <= 262144, data, NULL) AS data FROM entries
WHERE kind = 'model_reply' AND state_id = :id AND closes = :request LIMIT 1"""
ENDED_BY_ERROR = """SELECT 1 AS ended FROM entries
WHERE kind = 'error' AND state_id = :id AND seq > :request AND closes = :request LIMIT 1"""
RESULTS_TO = """SELECT block, outcome, seq FROM entries
WHERE kind = 'tool_result' AND state_id = :id AND closes = :reply AND late IS NOT 1"""
