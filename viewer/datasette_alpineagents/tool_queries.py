"""The SQL of the pages about tools."""

from __future__ import annotations

from datasette_alpineagents.queries import FAILED

RESULT = 2_000  # characters of a result that are read for a page
OUTCOMES = ("error", "input_error", "aborted", "interrupted", "denied", "cancelled", "done")
_FAILED = ", ".join([f"'{outcome}'" for outcome in FAILED])

# The value at a share p of n values in order is the one at ceil(p * n).
TOOLS = f"""WITH calls AS (
    SELECT tool, outcome, duration_s, state_id, started_at,
        row_number() OVER (PARTITION BY tool, duration_s IS NULL ORDER BY duration_s) AS place,
        count(duration_s) OVER (PARTITION BY tool) AS timed
    FROM tool_calls
)
SELECT tool, count(*) AS calls, count(*) FILTER (WHERE outcome IN ({_FAILED})) AS failed,
    {", ".join([f"count(*) FILTER (WHERE outcome = '{outcome}') AS {outcome}" for outcome in OUTCOMES])},
    count(*) FILTER (WHERE outcome IS NULL) AS pending,
    max(duration_s) FILTER (WHERE duration_s IS NOT NULL AND place = (timed + 1) / 2) AS median_s,
    max(duration_s) FILTER (WHERE duration_s IS NOT NULL AND place = (timed * 95 + 99) / 100) AS p95_s,
    count(DISTINCT state_id) AS runs, max(started_at) AS last_used
FROM calls GROUP BY tool
ORDER BY 1.0 * count(*) FILTER (WHERE outcome IN ({_FAILED})) / count(*) DESC, calls DESC, tool LIMIT 500"""

CALLS = f"""SELECT state_id, seq, turn, call_id, tool, substr(args, 1, 400) AS args, outcome,
    substr(result, 1, {RESULT}) AS result, length(result) AS size, started_at, duration_s, result_seq
FROM tool_calls
WHERE (:tool IS NULL OR tool = :tool)
    AND (:outcome IS NULL OR outcome = :outcome OR :outcome = 'failed' AND outcome IN ({_FAILED})
        OR :outcome = 'pending' AND outcome IS NULL)
ORDER BY started_at DESC, state_id, seq LIMIT :size"""
