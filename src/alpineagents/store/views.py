"""The views over the file: what people query by hand, and what the viewer's numbers are made of.

Their names and columns are public. A fork holds a copy of the entries it inherited; while the State it was forked from
is in the file, the views leave those out, so that nothing is counted twice. What two entries make together (a request
and its reply, a call and its result) counts where the later one was written.

No row of any content makes one of them fail: what is no JSON gives NULL.
"""

from __future__ import annotations

from alpineagents.history import wording


def _text(entry: str, path: str) -> str:
    """A value in an entry's JSON: a text as it is, a list or an object as JSON."""
    return f"CASE WHEN json_valid({entry}.data) THEN {entry}.data ->> '{path}' END"


def _json(entry: str, path: str) -> str:
    return f"CASE WHEN json_valid({entry}.data) THEN {entry}.data -> '{path}' END"


def _count(entry: str, path: str) -> str:
    """A number that is left out of the JSON when it is 0; NULL without the entry."""
    return f"CASE WHEN json_valid({entry}.data) THEN coalesce({entry}.data ->> '{path}', 0) END"


def _seconds(start: str, end: str) -> str:
    """Seconds between two `at`, exact to the microsecond: SQLite's own dates stop at the millisecond."""
    return (
        f"round(unixepoch(substr({end}, 1, 19)) - unixepoch(substr({start}, 1, 19))"
        f" + (substr({end}, 21, 6) - substr({start}, 21, 6)) / 1e6, 6)"
    )


def _written_here(state_id: str, seq: str) -> str:
    """The condition that an entry was not inherited by a fork whose original is in the file."""
    return (
        "NOT EXISTS (SELECT 1 FROM states fork"
        f" WHERE fork.id = {state_id} AND fork.forked_from IS NOT NULL AND fork.forked_at > {seq})"
    )


# `late IS NOT 1`, because `= 0` fails on a file with statistics (ANALYZE) in SQLite 3.40: it may look for the result in
# a Bloom filter first, and that takes every virtual column for NULL.
_TOOL_CALLS = f"""
CREATE VIEW tool_calls AS
SELECT
    reply.state_id,
    reply.seq,
    reply.turn,
    call.value ->> '$.id' AS call_id,
    call.value ->> '$.name' AS tool,
    call.value -> '$.args' AS args,
    result.outcome,
    {_text("result", "$.content")} AS result,
    (
        SELECT {_text("late", "$.content")}
        FROM entries late
        WHERE late.kind = 'tool_result' AND late.state_id = reply.state_id
            AND late.closes = reply.seq AND late.block = call.key AND late.late = 1
    ) AS late_result,
    reply.at AS started_at,
    result.at AS ended_at,
    {_seconds("reply.at", "result.at")} AS duration_s,
    {_json("result", "$.child_ids")} AS child_ids,
    call.key AS block,
    result.seq AS result_seq,
    result.is_error
FROM entries reply
JOIN json_each(CASE WHEN json_valid(reply.data) THEN reply.data END, '$.content.message.content') call
LEFT JOIN entries result
    ON result.kind = 'tool_result' AND result.state_id = reply.state_id
    AND result.closes = reply.seq AND result.block = call.key AND result.late IS NOT 1
WHERE reply.kind = 'model_reply'
    AND CASE WHEN call.type = 'object' THEN call.value ->> '$.type' END = 'tool_call'
    AND {_written_here("reply.state_id", "coalesce(result.seq, reply.seq)")}
"""

# The failure is looked for only when there is no reply, and only up to the first: a search behind every request would
# make the view quadratic in the errors of a State.
_MODEL_CALLS = f"""
CREATE VIEW model_calls AS
SELECT
    request.state_id,
    request.seq,
    request.turn,
    request.model,
    request.at AS started_at,
    {_seconds("request.at", "coalesce(reply.at, failure.at)")} AS latency_s,
    {_count("reply", "$.content.usage.input_tokens")} AS input_tokens,
    {_count("reply", "$.content.usage.output_tokens")} AS output_tokens,
    {_count("reply", "$.content.usage.cache_read_tokens")} AS cache_read_tokens,
    {_count("reply", "$.content.usage.cache_write_tokens")} AS cache_write_tokens,
    {_text("reply", "$.content.usage.cost")} AS cost,
    {_text("reply", "$.content.stop_reason")} AS stop_reason,
    {_text("failure", "$.content")} AS error,
    coalesce(reply.at, failure.at) AS ended_at,
    coalesce(reply.seq, failure.seq) AS reply_seq,
    reply.model AS reply_model,
    {_text("reply", "$.content.context_tokens")} AS context_tokens
FROM entries request
LEFT JOIN entries reply
    ON reply.kind = 'model_reply' AND reply.state_id = request.state_id AND reply.closes = request.seq
LEFT JOIN entries failure ON failure.id = CASE WHEN reply.id IS NULL THEN (
    SELECT error.id FROM entries error
    WHERE error.kind = 'error' AND error.state_id = request.state_id
        AND error.seq > request.seq AND error.closes = request.seq
    ORDER BY error.seq LIMIT 1
) END
WHERE request.kind = 'model_request'
    AND {_written_here("request.state_id", "coalesce(reply.seq, failure.seq, request.seq)")}
"""

# How a run ended follows from its last reason to stop or error, `mark`, unless something `after` it says that the loop
# went on: a withdrawn reason, or work after an error. Without one, the `last` work says it: a call that an exception
# closed, or the repair of a run whose process had died; an `answer` behind which the loop simply returned. The fold
# says the same in `status`.
_RUNS = f"""
CREATE VIEW runs AS
SELECT
    start.state_id,
    start.seq,
    {_text("start", "$.content.name")} AS agent,
    start.model,
    start.at AS started_at,
    CASE
        WHEN mark.id IS NOT NULL AND after.id IS NULL THEN mark.at
        WHEN last.outcome IN ('aborted', 'interrupted') THEN last.at
        ELSE answer.at
    END AS ended_at,
    CASE
        WHEN mark.kind = 'stop' AND after.id IS NULL THEN
            CASE {_text("mark", "$.content.type")}
                WHEN 'until' THEN 'answered' WHEN 'finish' THEN 'finished'
                WHEN 'limit' THEN 'limit' WHEN 'permission' THEN 'permission'
            END
        WHEN mark.kind = 'error' AND after.id IS NULL THEN iif(
            mark.text IN ('KeyboardInterrupt', 'CancelledError', '(process stopped while waiting for the model)')
                OR mark.text GLOB 'KeyboardInterrupt:*' OR mark.text GLOB 'CancelledError:*',
            'interrupted', 'failed'
        )
        WHEN last.outcome = 'interrupted' OR last.outcome = 'aborted' AND last.text = '{wording.RESULT_UNKNOWN}'
            THEN 'interrupted'
        WHEN last.outcome = 'aborted' THEN 'failed'
        WHEN answer.id IS NOT NULL THEN 'answered'
    END AS how_ended,
    (
        SELECT count(*) FROM entries reply
        WHERE reply.kind = 'model_reply' AND reply.state_id = start.state_id
            AND reply.closes > start.seq AND reply.closes < coalesce(next.seq, 9223372036854775807)
    ) AS turns
FROM entries start
LEFT JOIN entries next ON next.id = (
    SELECT entry.id FROM entries entry
    WHERE entry.kind = 'run_start' AND entry.state_id = start.state_id AND entry.seq > start.seq
    ORDER BY entry.seq LIMIT 1
)
LEFT JOIN entries mark ON mark.id = (
    SELECT entry.id FROM entries entry
    WHERE entry.kind IN ('stop', 'error') AND entry.state_id = start.state_id
        AND entry.seq > start.seq AND entry.seq < coalesce(next.seq, 9223372036854775807)
        AND (entry.kind = 'error' OR {_text("entry", "$.content.type")} IS NOT NULL)
    ORDER BY entry.seq DESC LIMIT 1
)
LEFT JOIN entries after ON after.id = (
    SELECT entry.id FROM entries entry
    WHERE entry.state_id = start.state_id
        AND entry.seq > mark.seq AND entry.seq < coalesce(next.seq, 9223372036854775807)
        AND CASE mark.kind
            WHEN 'stop' THEN entry.kind = 'stop'
            ELSE entry.kind = 'model_request' OR entry.kind = 'tool_result'
                AND entry.late = 0 AND entry.outcome NOT IN ('aborted', 'interrupted')
        END
    ORDER BY entry.seq LIMIT 1
)
LEFT JOIN entries last ON last.id = CASE WHEN mark.id IS NULL OR after.id IS NOT NULL THEN (
    SELECT entry.id FROM entries entry
    WHERE entry.state_id = start.state_id
        AND entry.seq > start.seq AND entry.seq < coalesce(next.seq, 9223372036854775807)
        AND (entry.kind = 'model_request' OR entry.kind = 'tool_result' AND entry.late = 0)
    ORDER BY entry.seq DESC LIMIT 1
) END
LEFT JOIN entries answer
    ON last.kind = 'model_request' AND answer.seq > coalesce(after.seq, 0)
    AND answer.kind = 'model_reply' AND answer.state_id = start.state_id AND answer.closes = last.seq
    AND NOT EXISTS (
        SELECT 1
        FROM json_each(CASE WHEN json_valid(answer.data) THEN answer.data END, '$.content.message.content') call
        WHERE CASE WHEN call.type = 'object' THEN call.value ->> '$.type' END = 'tool_call'
    )
    AND (
        SELECT {_text("entry", "$.content.type")} FROM entries entry
        WHERE entry.kind = 'stop' AND entry.state_id = start.state_id
            AND entry.seq > start.seq AND entry.seq < answer.seq
        ORDER BY entry.seq DESC LIMIT 1
    ) IS NULL
WHERE start.kind = 'run_start' AND {_written_here("start.state_id", "start.seq")}
"""

# Parents in a circle can only be made by hand; the smallest id of one is its root, so that nothing in the file is lost.
_SUBAGENT_TREE = """
CREATE VIEW subagent_tree AS
WITH RECURSIVE tree(root_id, state_id, depth, path) AS (
    SELECT id, id, 0, id FROM states root
    WHERE NOT EXISTS (SELECT 1 FROM states parent WHERE parent.id = root.parent_id)
    UNION ALL
    SELECT tree.root_id, child.id, tree.depth + 1, tree.path || '/' || child.id
    FROM tree JOIN states child ON child.parent_id = tree.state_id
), lost(state_id, parent_id) AS (
    SELECT id, parent_id FROM states WHERE parent_id IS NOT NULL AND id NOT IN (SELECT state_id FROM tree)
), above(state_id, id) AS (
    SELECT state_id, parent_id FROM lost
    UNION
    SELECT above.state_id, lost.parent_id FROM above JOIN lost ON lost.state_id = above.id
), circle(root_id, state_id, depth, path) AS (
    SELECT state_id, state_id, 0, state_id FROM above GROUP BY state_id HAVING min(id) = state_id
    UNION ALL
    SELECT circle.root_id, child.id, circle.depth + 1, circle.path || '/' || child.id
    FROM circle JOIN states child ON child.parent_id = circle.state_id AND child.id <> circle.root_id
)
SELECT root_id, state_id, depth, path FROM tree
UNION ALL
SELECT root_id, state_id, depth, path FROM circle
"""

_ERRORS = f"""
CREATE VIEW errors AS
SELECT
    entry.state_id,
    entry.seq,
    entry.turn,
    entry.at,
    {_text("entry", "$.content")} AS error,
    entry.tool,
    entry.call_id,
    {_json("entry", "$.call.args")} AS args,
    entry.closes
FROM entries entry
WHERE entry.kind = 'error' AND {_written_here("entry.state_id", "entry.seq")}
"""

_EXCHANGES = f"""
CREATE VIEW exchanges AS
SELECT
    entry.state_id,
    entry.seq,
    entry.turn,
    entry.at,
    entry.kind,
    {_text("entry", "$.content.question")} AS question,
    {_text("entry", "$.content.answer")} AS answer,
    {_text("entry", "$.usage.cost")} AS cost
FROM entries entry
WHERE entry.kind IN ('ask', 'human') AND {_written_here("entry.state_id", "entry.seq")}
"""

VIEWS = {
    "tool_calls": _TOOL_CALLS,
    "model_calls": _MODEL_CALLS,
    "runs": _RUNS,
    "subagent_tree": _SUBAGENT_TREE,
    "errors": _ERRORS,
    "exchanges": _EXCHANGES,
}
