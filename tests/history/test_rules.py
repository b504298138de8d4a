"""What may happen next, what it is recorded as, and who is told why not."""

from __future__ import annotations

import asyncio
import concurrent.futures
from datetime import timedelta
from enum import StrEnum
from typing import Any

import pytest
from histories import (
    INTERRUPTED,
    LIST,
    ONE,
    READ,
    ask,
    end_of_run,
    fail,
    kinds,
    pending,
    repair,
    reply,
    request,
    result,
    run_start,
    started,
    stop,
    texts,
    think,
    value,
    waiting,
)

from alpineagents.history import clock, rules
from alpineagents.state import State, journal_of
from alpineagents.types import (
    ErrorEntry,
    Message,
    ModelEvent,
    ModelRequestEntry,
    RawBlock,
    Reply,
    StopEntry,
    StoppedByFinish,
    StoppedByLimit,
    TextBlock,
    ToolCall,
    ToolOutcomeKind,
    ToolResultBlock,
    ToolResultEntry,
    Usage,
)


def refused(state: State, rule: Any, *args: Any, error: type[Exception] = ValueError) -> str:
    """The message of a refusal that recorded nothing."""
    before = value(state)
    with pytest.raises(error) as raised:
        journal_of(state).record(rule, *args)
    assert value(state) is before
    return str(raised.value)


# Requests


def test_a_request_has_the_number_of_the_turn_it_opens() -> None:
    state = waiting()
    assert (state.history[-1].turn, state.turn) == (1, 1)
    reply(state, "hi")
    assert state.history[-1].turn == 1
    request(state)
    assert state.history[-1].turn == 2


@pytest.mark.parametrize(
    ("state", "reason"), [(pending(), "no result yet"), (waiting(), "already waiting"), (State(), "no messages")]
)
def test_a_request_is_refused(state: State, reason: str) -> None:
    assert reason in refused(state, rules.request, "m")


def test_the_checks_of_a_request_have_an_order() -> None:
    finished = pending()
    finished.finish()
    assert "finished" in refused(finished, rules.request, "m")
    empty = State(history=[ModelRequestEntry(content="m", turn=1)])
    assert "think: this State is already waiting" in refused(empty, rules.request, "m")


def test_the_refusal_on_a_finished_state_says_how_to_go_on() -> None:
    state = started()
    state.finish()
    for rule, arguments in ((rules.request, ("m",)), (rules.run_start, (None, None, None))):
        message = refused(state, rule, *arguments)
        assert "a fork of it is finished too" in message
        assert "State(messages=state.messages)" in message


def test_the_refusal_for_pending_calls_lists_them_and_says_what_to_do() -> None:
    message = refused(pending(), rules.request, "m")
    assert 'read(path="a.py"), list()' in message
    assert "agent.use_tools(state)" in message


def test_a_request_after_a_failed_one_has_its_number() -> None:
    state = waiting()
    fail(state, TimeoutError("no reply"))
    request(state)
    assert [entry.turn for entry in state.history] == [0, 1, 1, 1]


# Replies


@pytest.mark.parametrize(
    ("block", "place"),
    [
        (ToolCall("read", {"a": [{1}]}, "c1"), "content.message.content[1].args['a'][0]: set"),
        (ToolCall("read", {"a": float("inf")}, "c1"), "content.message.content[1].args['a']: "),
        (RawBlock("acme", {"t": b""}), "content.message.content[1].data['t']: bytes"),
    ],
)
def test_a_reply_with_a_value_that_is_not_json_is_refused_by_its_place(block: Any, place: str) -> None:
    answer = Reply(Message("assistant", (TextBlock("x"), block)), ONE)
    assert place in refused(waiting(), rules.reply, answer, error=TypeError)


@pytest.mark.parametrize("answer", [None, "hi", Message.assistant("hi")])
def test_a_reply_is_a_reply(answer: Any) -> None:
    assert "must return a Reply" in refused(waiting(), rules.reply, answer, error=TypeError)


def test_the_reply_recorded_is_the_one_that_came() -> None:
    state, answer = waiting(), Reply(Message.assistant("hi"), ONE)
    journal_of(state).record(rules.reply, answer)
    assert state.history[-1].content is answer


def test_nothing_takes_a_reply_back() -> None:
    state = waiting()
    reply(state, "look", READ)
    fail(state, ValueError("reporter"))
    assert (state.turn, state.pending_calls, state.usage) == (1, (READ,), ONE)


def test_a_reply_that_was_cut_off_stays_the_last_message() -> None:
    state = waiting()
    reply(state, " ", reason="max_tokens")
    fail(state, ValueError("cut off"))
    assert state.messages[-1].cut_off
    assert state.answer == " "


# Errors


@pytest.mark.parametrize("error", [TimeoutError("no reply"), KeyboardInterrupt(), asyncio.CancelledError()])
def test_a_failed_request_is_taken_back(error: BaseException) -> None:
    state = waiting()
    state.add_message(Message.user("more"))
    fail(state, error)
    assert (state.turn, texts(state)) == (0, ["Go", "more"])
    assert kinds(state)[1:] == ["model_request", "user", "error"]
    think(state, "hi")
    assert state.answer == "hi"


def test_an_error_keeps_its_text_its_object_and_its_call() -> None:
    state, error = pending(), TimeoutError("no reply")
    fail(state, error, READ)
    entry = state.history[-1]
    assert entry == ErrorEntry(content="TimeoutError: no reply", call=READ, turn=1)
    assert isinstance(entry, ErrorEntry)
    assert entry.error is error


def test_one_exception_is_recorded_once_until_the_next_request_or_run() -> None:
    state, error = pending(READ), ValueError("x")
    fail(state, error, READ)
    fail(state, error)
    assert kinds(state).count("error") == 1
    fail(state, ValueError("x"))
    assert kinds(state).count("error") == 2
    run_start(state)
    fail(state, error)
    assert kinds(state).count("error") == 3
    result(state, READ)
    think(state, "hi")
    fail(state, error)
    assert kinds(state).count("error") == 4


def test_one_exception_is_recorded_once_whatever_comes_between() -> None:
    state, error = pending(READ), ValueError("x")
    fail(state, error, READ)
    state.add_message(Message.user("more"))
    fail(state, error)
    assert kinds(state).count("error") == 1


def test_an_exception_on_record_takes_the_request_back_that_waits() -> None:
    state, error = waiting(), ValueError("x")
    fail(state, error, READ)
    fail(state, error)
    assert (state.turn, kinds(state).count("error")) == (0, 2)


def test_one_exception_takes_every_request_back() -> None:
    state, error = waiting(), ValueError("x")
    fail(state, error)
    request(state)
    fail(state, error)
    assert (state.turn, kinds(state).count("error")) == (0, 2)


def test_an_error_of_a_call_on_record_is_not_recorded_again_while_waiting() -> None:
    state, error = waiting(), ValueError("x")
    fail(state, error, READ)
    fail(state, error, READ)
    assert kinds(state).count("error") == 1


# Results


def test_between_the_results_of_a_turn_the_messages_stay() -> None:
    calls = [ToolCall("read", {}, str(number)) for number in range(4)]
    state = pending(*calls)
    before = state.messages
    for call in (calls[2], calls[0], calls[3]):
        result(state, call)
        state.add_message(Message.user("more"))
        assert state.messages == before
    result(state, calls[1])
    assert texts(state)[len(before) + 1 :] == ["more"] * 3


def test_a_result_is_stamped_when_it_is_recorded_whenever_it_was_made() -> None:
    state = pending()
    made = ToolResultEntry(content="ok", call=READ, outcome=ToolOutcomeKind.DONE, turn=0)
    state.add_message(Message.user("more"))
    journal_of(state).record(rules.result, made)
    times = [entry.at for entry in state.history]
    assert times == sorted(times)
    assert state.history[-1].turn == 1


def test_times_follow_the_history_for_every_kind_of_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    start, ticks = clock.now(), iter(range(10_000))
    monkeypatch.setattr(clock, "now", lambda: start + timedelta(seconds=next(ticks)))
    state = State(messages=[Message.user("Go")], extra_data={"a": 1})
    run_start(state)
    think(state, READ)
    fail(state, ValueError())
    ask(state, "Why?", 1)
    end_of_run(state, KeyboardInterrupt())
    state.finish()
    state.clear_tool_results(0)
    state.compact("s")
    state.restore(State().snapshot())
    times = [entry.at for entry in state.history]
    assert times == sorted(set(times))


# The end of a run


@pytest.mark.parametrize(
    ("error", "text", "outcome"),
    [
        (KeyboardInterrupt(), "(interrupted by user)", ToolOutcomeKind.INTERRUPTED),
        (asyncio.CancelledError(), "(interrupted by user)", ToolOutcomeKind.INTERRUPTED),
        (type("Stop", (KeyboardInterrupt,), {})(), "(interrupted by user)", ToolOutcomeKind.INTERRUPTED),
        (TimeoutError("x"), "(aborted: TimeoutError)", ToolOutcomeKind.ABORTED),
        (SystemExit(), "(aborted: SystemExit)", ToolOutcomeKind.ABORTED),
        (concurrent.futures.CancelledError(), "(aborted: CancelledError)", ToolOutcomeKind.ABORTED),
    ],
)
def test_an_exception_closes_every_pending_call(error: BaseException, text: str, outcome: ToolOutcomeKind) -> None:
    state = pending(READ, LIST, ToolCall("wait", {}, "c3"))
    result(state, LIST)
    end_of_run(state, error)
    closed = [entry for entry in state.history[-2:] if isinstance(entry, ToolResultEntry)]
    assert [(entry.call.id, entry.content, entry.outcome) for entry in closed] == [
        ("c1", text, outcome),
        ("c3", text, outcome),
    ]
    assert all(entry.error is error for entry in closed)
    assert state.pending_calls == ()
    assert kinds(state)[-1] == "tool_result"


def test_an_exception_withdraws_the_reason_to_stop_behind_the_results() -> None:
    state = pending(READ)
    state.finish("done")
    end_of_run(state, KeyboardInterrupt())
    assert kinds(state)[-2:] == ["tool_result", "stop"]
    assert (state.stopped, state.finished, state.answer) == (None, True, "done")


def test_an_exception_records_nothing_where_nothing_is_open() -> None:
    state = started()
    end_of_run(state, KeyboardInterrupt())
    assert kinds(state) == ["context_change"]


def test_the_call_that_is_still_open_gets_its_own_result_although_an_older_one_had_the_id() -> None:
    old = ToolCall("make", {}, "c1")
    state = pending(old)
    result(state, old, "(interrupted by user)", INTERRUPTED)
    think(state, ToolCall("make", {}, "c1"))
    result(state, old, "late", late=True)
    assert len(state.pending_calls) == 1
    result(state, state.pending_calls[0], "own")
    request(state)
    last, notice = state.messages[-2:]
    assert last.content == (ToolResultBlock("c1", "own", "make"),)
    assert notice.text == "[notice] interrupted make() finished later: late"


def test_a_late_result_records_no_notice() -> None:
    state = started()
    result(state, READ, late=True)
    request(state)
    assert kinds(state)[1:] == ["tool_result", "model_request"]


def test_a_late_notice_outlives_a_compaction_and_not_a_restore_to_before_it() -> None:
    state = started()
    before = state.snapshot()
    result(state, READ, late=True)
    state.compact("s")
    assert len(value(state).late) == 1
    state.restore(before)
    assert value(state).late == ()


# Runs, stops, events, questions


def test_a_run_of_a_finished_state_is_refused_by_name() -> None:
    state = started()
    state.finish()
    assert refused(state, rules.run_start, None, None, None).startswith("run:")


def test_a_reason_that_stands_already_is_not_recorded_again() -> None:
    state = started()
    for reason in (None, StoppedByLimit(3), StoppedByLimit(3), StoppedByLimit(4), None, None):
        stop(state, reason)
    assert [entry.content for entry in state.history[1:]] == [StoppedByLimit(3), StoppedByLimit(4), None]


@pytest.mark.parametrize("event", [None, "retry", {"kind": "retry"}, ModelEvent("retry", "x", {"a": {1}})])
def test_what_is_no_event_or_holds_no_json_is_refused(event: Any) -> None:
    assert "event" in refused(waiting(), rules.model_event, event, error=TypeError).lower()


def test_an_event_has_the_turn_of_its_request() -> None:
    state = waiting()
    journal_of(state).record(rules.model_event, ModelEvent("retry", "x"))
    assert state.history[-1].turn == 1


def test_a_question_is_answered_while_calls_are_pending() -> None:
    state = pending()
    ask(state, "Why?", "so", ONE)
    assert state.pending_calls == (READ, LIST)


# Repair


def test_a_request_that_the_end_of_a_process_left_is_taken_back() -> None:
    state = waiting()
    repair(state)
    assert state.history[-1] == ErrorEntry(content="(process stopped while waiting for the model)", turn=1)
    assert not value(state).waiting


def test_calls_that_the_end_of_a_process_left_get_a_result_that_says_so() -> None:
    state = pending()
    result(state, LIST)
    repair(state)
    entry = state.history[-1]
    assert isinstance(entry, ToolResultEntry)
    assert (entry.call, entry.outcome, entry.error) == (READ, ToolOutcomeKind.ABORTED, None)
    assert str(entry.content).startswith("(unknown: the run stopped before this result was saved")


def test_between_turns_there_is_nothing_to_repair() -> None:
    state = started()
    repair(state)
    assert kinds(state) == ["context_change"]


# Values in JSON form


class Colour(StrEnum):
    RED = "red"


def test_recorded_values_are_plain_json() -> None:
    state = State(extra_data={"colour": Colour.RED})
    state.finish({"colour": Colour.RED})
    for recorded in (state.extra_data["colour"], state.answer["colour"]):
        assert type(recorded) is str


def test_finish_is_recorded_with_the_turn_it_came_in() -> None:
    state = waiting()
    state.finish(Usage(1))
    assert state.history[-1] == StopEntry(content=StoppedByFinish(state.answer), turn=1)
    assert state.answer["input_tokens"] == 1
