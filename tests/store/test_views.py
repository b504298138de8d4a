from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import histories as h
import pytest
from filled import INSERT_ENTRY, empty, holding, keep, row, rows
from hypothesis import given
from strategies import loose_histories, states

from alpineagents.history import rules, wording
from alpineagents.history.entries import ContextChangeEntry, ModelReplyEntry, ModelRequestEntry, ToolResultEntry
from alpineagents.history.replay import value_at
from alpineagents.history.value import Value
from alpineagents.state import State, journal_of
from alpineagents.store.views import VIEWS
from alpineagents.types import (
    AgentInfo,
    Image,
    Message,
    Stopped,
    StoppedByFinish,
    StoppedByLimit,
    StoppedByPermission,
    StoppedByUntil,
    TextBlock,
    ToolCall,
    ToolOutcomeKind,
    Usage,
)

PUBLIC = {
    "tool_calls": "state_id seq turn call_id tool args outcome result late_result started_at ended_at duration_s "
    "child_ids",
    "model_calls": "state_id seq turn model started_at latency_s input_tokens output_tokens cache_read_tokens "
    "cache_write_tokens cost stop_reason error",
    "runs": "state_id seq agent model started_at ended_at how_ended turns",
    "subagent_tree": "root_id state_id depth path",
    "errors": "state_id seq turn at error tool call_id args closes",
    "exchanges": "state_id seq turn at kind question answer cost",
}
ANSWERED = StoppedByUntil("answered")


def ran(*results: ToolOutcomeKind) -> State:
    """A State whose run made one call per outcome, in one turn each, and answered."""
    state = h.started()
    h.run_start(state, "coder")
    for outcome in results:
        h.think(state, h.READ)
        h.result(state, h.READ, outcome=outcome)
    h.think(state, "All done.")
    h.stop(state, ANSWERED)
    return state


def repaired(state: State) -> State:
    journal_of(state).record(rules.repair)
    return state


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_begins_with_its_public_columns(view: str) -> None:
    names = [name for (name,) in rows(empty(), f"SELECT name FROM pragma_table_info('{view}') ORDER BY cid")]
    public = PUBLIC[view].split()
    assert names[: len(public)] == public


# tool_calls


def test_a_call_is_one_row_with_its_result() -> None:
    state = h.pending(h.READ)
    h.result(state, h.READ, "3 lines")
    shown = row(
        holding(state), "SELECT state_id, seq, turn, call_id, tool, args, outcome, result, result_seq FROM tool_calls"
    )
    assert shown == (state.id, 2, 1, "c1", "read", '{"path":"a.py"}', "done", "3 lines", 3)


def test_a_pending_call_has_no_outcome() -> None:
    shown = row(
        holding(h.pending(h.READ)),
        "SELECT call_id, outcome, result, late_result, ended_at, duration_s, child_ids, is_error FROM tool_calls",
    )
    assert shown == ("c1", None, None, None, None, None, None, None)


def test_calls_with_one_id_in_one_reply_keep_their_own_results() -> None:
    first, second = ToolCall("read", {"n": 1}, "same"), ToolCall("read", {"n": 2}, "same")
    state = h.pending(first, second)
    h.result(state, first, "one")
    h.result(state, second, "two")
    assert rows(holding(state), "SELECT args, result FROM tool_calls ORDER BY block") == [
        ('{"n":1}', "one"),
        ('{"n":2}', "two"),
    ]


def test_a_call_id_used_again_in_a_later_turn_is_another_call() -> None:
    state = ran(h.DONE, ToolOutcomeKind.ERROR)
    assert rows(holding(state), "SELECT call_id, turn, outcome FROM tool_calls ORDER BY seq") == [
        ("c1", 1, "done"),
        ("c1", 2, "error"),
    ]


def test_a_late_result_stands_beside_the_one_that_closed_the_call() -> None:
    state = h.pending(h.READ)
    h.result(state, h.READ, wording.INTERRUPTED, h.INTERRUPTED)
    h.result(state, h.READ, "3 lines", late=True)
    shown = row(holding(state), "SELECT outcome, result, late_result FROM tool_calls")
    assert shown == ("interrupted", wording.INTERRUPTED, "3 lines")


def test_result_blocks_are_shown_as_json() -> None:
    state = h.pending(h.READ)
    h.result(state, h.READ, (TextBlock("a chart"), Image(b"\x89PNG\r\n\x1a\n")))
    text, image = json.loads(row(holding(state), "SELECT result FROM tool_calls")[0])
    assert text == {"type": "text", "text": "a chart"}
    assert image.keys() == {"type", "media_type", "sha256"}


def test_the_subagents_of_a_call_are_named() -> None:
    state = h.pending(h.READ)
    entry = ToolResultEntry(content="ok", call=h.READ, outcome=h.DONE, child_ids=("a", "b"), turn=1)
    h.entries(state, entry)
    assert row(holding(state), "SELECT child_ids FROM tool_calls") == ('["a","b"]',)


@pytest.mark.parametrize(
    ("start", "end", "seconds"),
    [
        ("2026-11-30T21:41:52.000001+00:00", "2026-11-30T21:41:52.000042+00:00", 0.000041),
        ("2026-11-30T23:59:59.999900+00:00", "2026-12-01T00:00:00.000000+00:00", 0.0001),
        ("2026-11-30T21:41:52.900000+00:00", "2026-11-30T21:42:53.100000+00:00", 60.2),
        ("2026-02-28T00:00:00.000000+00:00", "2026-03-01T00:00:00.000000+00:00", 86400.0),
        ("2026-11-30T21:41:52.500000+00:00", "2026-11-30T21:41:52.000000+00:00", -0.5),
    ],
)
def test_durations_are_exact_to_the_microsecond(start: str, end: str, seconds: float) -> None:
    state = h.pending(h.READ)
    h.result(state, h.READ)
    connection = holding(state)
    connection.execute("UPDATE entries SET at = ? WHERE kind IN ('model_request', 'model_reply')", (start,))
    connection.execute("UPDATE entries SET at = ? WHERE kind = 'tool_result'", (end,))
    assert row(connection, "SELECT duration_s, started_at, ended_at FROM tool_calls") == (seconds, start, end)
    connection.execute("UPDATE entries SET at = ? WHERE kind = 'model_reply'", (end,))
    assert row(connection, "SELECT latency_s, typeof(latency_s) FROM model_calls") == (seconds, "real")


def expected_calls(now: Value) -> list[tuple[Any, ...]]:
    results = {(c.seq, c.block): e for c, e in zip(now.closings, now.history, strict=True) if c and is_first(e)}
    found: list[tuple[Any, ...]] = []
    for seq, entry in enumerate(now.history):
        if isinstance(entry, ModelReplyEntry):
            for block, call in enumerate(entry.content.message.content):
                if isinstance(call, ToolCall):
                    result = results.get((seq, block))
                    found.append((seq, block, call.id, call.name, result and result.outcome.value))
    return found


def is_first(entry: Any) -> bool:
    return isinstance(entry, ToolResultEntry) and not entry.late


@given(states())
def test_every_call_of_every_history_is_one_row(state: State) -> None:
    shown = rows(holding(state), "SELECT seq, block, call_id, tool, outcome FROM tool_calls ORDER BY seq, block")
    assert shown == expected_calls(journal_of(state).now)


# model_calls


def test_a_request_is_one_row_with_its_reply() -> None:
    state = h.started()
    h.think(state, "Hi.", usage=Usage(10, 2, 3, 4, 1, 0.5), tokens=19, reason="end_turn")
    shown = row(
        holding(state),
        "SELECT seq, turn, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost,"
        " stop_reason, error, reply_seq, reply_model, context_tokens FROM model_calls",
    )
    assert shown == (1, 1, "acme/large", 10, 2, 3, 4, 0.5, "end_turn", None, 2, "large-1", 19)


def test_an_unknown_cost_is_null_and_no_cost_is_zero() -> None:
    state = h.started()
    h.think(state, "Hi.", usage=Usage(requests=1))
    h.think(state, "Hi.", usage=Usage(requests=1, cost=0.0))
    assert rows(holding(state), "SELECT input_tokens, cost FROM model_calls ORDER BY seq") == [(0, None), (0, 0.0)]


def test_a_failed_request_shows_its_error_and_no_tokens() -> None:
    state = h.waiting()
    h.fail(state, TimeoutError("no reply"))
    shown = row(holding(state), "SELECT error, input_tokens, cost, reply_seq, latency_s >= 0 FROM model_calls")
    assert shown == ("TimeoutError: no reply", None, None, 2, 1)


def test_a_request_without_an_end_waits() -> None:
    shown = row(holding(h.waiting()), "SELECT model, ended_at, latency_s, error, input_tokens FROM model_calls")
    assert shown == ("acme/large", None, None, None, None)


def test_an_error_of_a_tool_closes_no_request() -> None:
    state = h.pending(h.READ)
    h.fail(state, OSError("gone"), h.READ)
    assert row(holding(state), "SELECT error FROM model_calls") == (None,)


@given(states())
def test_every_request_of_every_history_is_one_row(state: State) -> None:
    now = journal_of(state).now
    closers = {closing.seq: seq for seq, closing in enumerate(now.closings) if closing}
    requests = [seq for seq, entry in enumerate(now.history) if isinstance(entry, ModelRequestEntry)]
    shown = rows(holding(state), "SELECT seq, reply_seq FROM model_calls ORDER BY seq")
    assert shown == [(seq, closers.get(seq)) for seq in requests]


# runs


def test_a_run_is_one_row() -> None:
    state = ran(h.DONE)
    shown = row(holding(state), "SELECT seq, agent, model, how_ended, turns FROM runs")
    assert shown == (1, "coder", "acme/large", "answered", 2)


def test_a_run_lasts_from_its_start_to_what_ended_it() -> None:
    state = ran(h.DONE)
    state.add_message(Message.user("And now?"))
    start, end = state.history[1].at, state.history[-2].at
    shown = row(holding(state), "SELECT started_at, ended_at FROM runs")
    assert shown == (start.isoformat(timespec="microseconds"), end.isoformat(timespec="microseconds"))


@pytest.mark.parametrize(
    ("stopped", "word"),
    [
        (ANSWERED, "answered"),
        (StoppedByFinish({"ok": True}), "finished"),
        (StoppedByLimit(3), "limit"),
        (StoppedByPermission(h.READ, "Deny()"), "permission"),
    ],
)
def test_a_reason_to_stop_says_how_a_run_ended(stopped: Stopped, word: str) -> None:
    state = h.started()
    h.run_start(state)
    h.think(state, "Hi.")
    h.stop(state, stopped)
    assert row(holding(state), "SELECT how_ended FROM runs") == (word,)


@pytest.mark.parametrize(
    ("error", "word"), [(OSError("gone"), "failed"), (KeyboardInterrupt(), "interrupted"), (KeyError(), "failed")]
)
def test_an_exception_says_how_a_run_ended(error: BaseException, word: str) -> None:
    state = h.started()
    h.run_start(state)
    h.think(state, h.READ)
    h.stop(state, ANSWERED)
    h.fail(state, error)
    h.end_of_run(state, error)
    assert [e.kind for e in state.history][-3:] == ["error", "tool_result", "stop"]
    assert row(holding(state), "SELECT how_ended FROM runs") == (word,)


def test_a_run_goes_on_after_an_error_that_its_loop_caught() -> None:
    state = h.started()
    h.run_start(state)
    h.request(state)
    h.fail(state, TimeoutError())
    h.think(state, h.READ)
    assert row(holding(state), "SELECT how_ended, ended_at, turns FROM runs") == (None, None, 1)


@pytest.mark.parametrize("content", [[], [h.READ]], ids=["request", "call"])
def test_a_run_whose_process_died_was_interrupted(content: list[Any]) -> None:
    state = h.started()
    h.run_start(state)
    h.request(state)
    if content:
        h.reply(state, *content)
    assert row(holding(state), "SELECT how_ended FROM runs") == (None,)
    assert row(holding(repaired(state)), "SELECT how_ended FROM runs") == ("interrupted",)


def test_a_call_that_another_ones_exception_closed_ends_a_run_as_failed() -> None:
    state = h.started()
    h.run_start(state)
    h.think(state, h.READ, h.LIST)
    h.fail(state, error := OSError("gone"), h.READ)
    h.result(state, h.LIST, "a.py")
    h.end_of_run(state, error)
    assert state.history[-1].outcome == "aborted"
    assert row(holding(state), "SELECT how_ended FROM runs") == ("failed",)


def test_a_run_whose_loop_returns_behind_an_answer_has_answered() -> None:
    state = h.started()
    h.run_start(state)
    h.think(state, "Done")
    answered_at = state.history[-1].at.isoformat(timespec="microseconds")
    assert row(holding(state), "SELECT how_ended, ended_at FROM runs") == ("answered", answered_at)
    h.request(state)
    assert row(holding(state), "SELECT how_ended, ended_at FROM runs") == (None, None)


def test_a_withdrawn_reason_does_not_end_a_run() -> None:
    state = h.started()
    h.run_start(state)
    h.stop(state, ANSWERED)
    h.stop(state, None)
    assert row(holding(state), "SELECT how_ended FROM runs") == (None,)


def test_each_run_of_a_state_has_its_own_end_and_turns() -> None:
    state = ran()
    state.add_message(Message.user("More"))
    h.run_start(state, "coder")
    h.request(state)
    h.fail(state, OSError("gone"))
    assert rows(holding(state), "SELECT how_ended, turns FROM runs ORDER BY seq") == [("answered", 1), ("failed", 0)]


def expected_ends(now: Value) -> list[str | None]:
    """The status before the next run, for each run in which nothing was restored."""
    starts = [seq for seq, entry in enumerate(now.history) if entry.kind == "run_start"]
    ends = [*starts[1:], len(now.history)][: len(starts)]
    return [end_of(now, start, end) for start, end in zip(starts, ends, strict=True)]


def end_of(now: Value, start: int, end: int) -> str | None:
    inside = [now.history[seq] for seq in range(start, end)]
    if any(isinstance(entry, ContextChangeEntry) and entry.content.kind == "restore" for entry in inside):
        return "restored"
    status = value_at(now, end).status
    return None if status == "open" else status


@given(states(60))
def test_the_runs_of_every_history_ended_as_the_fold_says(state: State) -> None:
    expected = expected_ends(journal_of(state).now)
    shown = [word for (word,) in rows(holding(state), "SELECT how_ended FROM runs ORDER BY seq")]
    assert len(shown) == len(expected)
    assert [word for word, said in zip(shown, expected, strict=True) if said != "restored"] == [
        said for said in expected if said != "restored"
    ]


# subagent_tree


def subagent(parent: str, state_id: str) -> State:
    state = State(id=state_id)
    h.run_start(state, parent=parent, call="c1")
    return state


def test_the_tree_has_every_state_under_its_root() -> None:
    connection = holding(State(id="a"), subagent("a", "b"), subagent("b", "c"), subagent("a", "d"), State(id="e"))
    assert rows(connection, "SELECT root_id, state_id, depth, path FROM subagent_tree ORDER BY path") == [
        ("a", "a", 0, "a"),
        ("a", "b", 1, "a/b"),
        ("a", "c", 2, "a/b/c"),
        ("a", "d", 1, "a/d"),
        ("e", "e", 0, "e"),
    ]


def test_a_subagent_whose_parent_is_not_in_the_file_is_a_root() -> None:
    assert rows(holding(subagent("gone", "b")), "SELECT root_id, depth FROM subagent_tree") == [("b", 0)]


def test_parents_in_a_circle_and_all_below_them_are_in_the_tree_once() -> None:
    connection = holding(subagent("c", "a"), subagent("a", "b"), subagent("b", "c"), subagent("c", "d"), State(id="e"))
    assert rows(connection, "SELECT root_id, state_id, depth, path FROM subagent_tree ORDER BY path") == [
        ("a", "a", 0, "a"),
        ("a", "b", 1, "a/b"),
        ("a", "c", 2, "a/b/c"),
        ("a", "d", 3, "a/b/c/d"),
        ("e", "e", 0, "e"),
    ]


def test_a_subagent_that_is_its_own_parent_is_a_root() -> None:
    assert rows(holding(subagent("a", "a")), "SELECT root_id, depth FROM subagent_tree") == [("a", 0)]


# errors, exchanges


def test_errors_show_the_call_they_are_about() -> None:
    state = h.pending(h.READ)
    h.fail(state, OSError("gone"), h.READ)
    shown = row(holding(state), "SELECT seq, turn, error, tool, call_id, args, closes FROM errors")
    assert shown == (3, 1, "OSError: gone", "read", "c1", '{"path":"a.py"}', None)


def test_an_error_that_ended_a_request_says_which() -> None:
    state = h.waiting()
    h.fail(state, TimeoutError())
    assert row(holding(state), "SELECT error, closes FROM errors") == ("TimeoutError", 1)


def test_exchanges_show_question_and_answer() -> None:
    state = h.started()
    h.ask(state, "Which?", {"file": "a.py"}, Usage(requests=1, cost=0.25))
    h.ask(state, "Why?", "because")
    assert rows(holding(state), "SELECT kind, question, answer, cost FROM exchanges ORDER BY seq") == [
        ("ask", "Which?", '{"file":"a.py"}', 0.25),
        ("ask", "Why?", "because", None),
    ]


# Forks.


def forked(original: State) -> State:
    """A fork that did the same once more."""
    fork = original.fork()
    h.run_start(fork)
    h.think(fork, h.READ)
    h.result(fork, h.READ)
    h.ask(fork, "Which?", "This")
    h.fail(fork, OSError("gone"))
    return fork


COUNTED = ["tool_calls", "model_calls", "runs", "errors", "exchanges"]


@pytest.mark.parametrize("view", COUNTED)
def test_what_a_fork_inherited_is_counted_once(view: str) -> None:
    original = forked(h.started())
    fork = forked(original)
    connection = holding(original)
    keep(connection, fork, forked_from=original, at=len(original.history))
    counts = dict(rows(connection, f"SELECT state_id, count(*) FROM {view} GROUP BY state_id"))
    assert counts == {original.id: 1, fork.id: 1}


@pytest.mark.parametrize("view", COUNTED)
def test_a_fork_counts_in_full_once_its_original_is_deleted(view: str) -> None:
    original = forked(h.started())
    fork = forked(original)
    connection = holding(original)
    keep(connection, fork, forked_from=original, at=len(original.history))
    connection.execute("DELETE FROM states WHERE id = ?", (original.id,))
    assert rows(connection, f"SELECT state_id, count(*) FROM {view} GROUP BY state_id") == [(fork.id, 2)]


def test_a_call_pending_at_the_fork_counts_in_the_fork_once_closed_there() -> None:
    original = h.pending(h.READ)
    fork = original.fork()
    connection = holding(original)
    keep(connection, fork, forked_from=original, at=len(original.history))
    assert rows(connection, "SELECT state_id FROM tool_calls") == [(original.id,)]
    h.result(fork, h.READ)
    connection.execute("DELETE FROM states WHERE id = ?", (fork.id,))
    keep(connection, fork, forked_from=original, at=len(original.history))
    found = dict(rows(connection, "SELECT state_id, outcome FROM tool_calls"))
    assert found == {original.id: None, fork.id: "done"}


# Rows that are damaged.


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("data", ["", "{", "null", "[]", '{"content":7}', '{"content":{"message":{"content":[7]}}}'])
def test_no_damaged_row_breaks_a_view(view: str, data: str) -> None:
    state = forked(h.started())
    connection = holding(state)
    before = rows(connection, f"SELECT * FROM {view}")
    start = len(state.history)
    kinds = ["model_request", "model_reply", "tool_result", "error", "stop", "ask", "context_change", "unheard_of"]
    for number, kind in enumerate([*kinds, "run_start"]):
        at = datetime.now(UTC).isoformat(timespec="microseconds")
        values = (state.id, start + number, kind, 9, at, start + number - 1, 0, data, None)
        connection.execute(INSERT_ENTRY, values)
    after = rows(connection, f"SELECT * FROM {view}")
    assert len(after) >= len(before)


@given(loose_histories())
def test_no_history_breaks_a_view(history: list[Any]) -> None:
    connection = holding(State(history=history))
    for view in VIEWS:
        rows(connection, f"SELECT * FROM {view}")


# What queries cost.

FAILED = "('error', 'input_error', 'aborted', 'interrupted')"
PLANS = [
    ("SELECT tool, count(*) FROM tool_calls WHERE is_error = 1 GROUP BY tool", "SCAN result USING INDEX entries_fail"),
    (
        f"SELECT tool, count(*) FROM tool_calls WHERE is_error = 1 AND outcome IN {FAILED} GROUP BY tool",
        "SCAN result USING INDEX entries_failures",
    ),
    ("SELECT * FROM tool_calls WHERE outcome = 'denied'", "SCAN result USING INDEX entries_results"),
    ("SELECT * FROM tool_calls WHERE state_id = 'x'", "SEARCH reply USING INDEX entries_replies (state_id=?)"),
    ("SELECT * FROM tool_calls", "SEARCH result USING INDEX entries_results (state_id=? AND closes=? AND block=?"),
    ("SELECT * FROM model_calls", "SEARCH reply USING INDEX entries_replies (state_id=? AND closes=?)"),
    ("SELECT * FROM model_calls WHERE state_id = 'x'", "entries_requests (state_id=?)"),
    ("SELECT * FROM runs", "SCAN start USING INDEX entries_run_starts"),
    ("SELECT * FROM runs", "SEARCH entry USING INDEX entries_ends (state_id=? AND seq>? AND seq<?)"),
    ("SELECT * FROM subagent_tree", "SEARCH child USING INDEX states_parent_id (parent_id=?)"),
    ("SELECT * FROM errors", "SCAN entry USING INDEX entries_errors"),
    ("SELECT * FROM exchanges", "SCAN entry USING INDEX entries_exchanges"),
]


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize(("query", "index"), PLANS)
def test_a_view_finds_its_rows_by_index(query: str, index: str, analyzed: bool) -> None:
    calm, failing = [h.DONE] * 9, [ToolOutcomeKind.ERROR]
    connection = holding(forked(h.started()), *[ran(*calm) for _ in range(9)], ran(*failing))
    if analyzed:
        connection.execute("ANALYZE")
    told = "\n".join([step[3] for step in rows(connection, f"EXPLAIN QUERY PLAN {query}")])
    assert index in told
    assert "SCAN entries" not in told


def test_an_agent_without_a_name_is_null() -> None:
    state = State(messages=[Message.user("Go")])
    journal_of(state).record(rules.run_start, AgentInfo(model="m"), None, None)
    assert row(holding(state), "SELECT agent, model FROM runs") == (None, "m")


def test_statistics_do_not_change_what_the_calls_are() -> None:
    # With statistics SQLite 3.38 to 3.40 may look up a join in a Bloom filter, which takes a virtual column for NULL.
    connection = holding(*[ran(h.DONE, ToolOutcomeKind.ERROR) for _ in range(100)])
    query = "SELECT outcome, count(*) FROM tool_calls GROUP BY outcome ORDER BY outcome"
    before = rows(connection, query)
    connection.execute("ANALYZE")
    assert before == rows(connection, query) == [("done", 100), ("error", 100)]
