"""What each entry does to the value, and that nothing else does."""

from __future__ import annotations

import asyncio
import copy
from datetime import UTC, datetime
from typing import Any

import pytest
from histories import (
    DONE,
    INTERRUPTED,
    LIST,
    MODEL,
    ONE,
    PNG,
    READ,
    ask,
    end_of_run,
    entries,
    fail,
    parts,
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

from alpineagents.history.replay import apply, fold, replay, step, value_at
from alpineagents.history.snapshot import StateSnapshot
from alpineagents.history.value import EMPTY
from alpineagents.state import State
from alpineagents.types import (
    AgentInfo,
    ContextChange,
    ContextChangeEntry,
    ErrorEntry,
    ExtraDataEntry,
    Image,
    Message,
    MessageEntry,
    ModelEvent,
    ModelEventEntry,
    ModelReplyEntry,
    ModelRequestEntry,
    Reply,
    RunStartEntry,
    StoppedByFinish,
    StoppedByLimit,
    StoppedByPermission,
    StoppedByUntil,
    TextBlock,
    ToolCall,
    ToolOutcomeKind,
    ToolResultBlock,
    Usage,
)

UNKNOWN: Any = "forget"


def change(kind: Any, **fields: Any) -> ContextChangeEntry:
    return ContextChangeEntry(content=ContextChange(kind, 0, 0, **fields), turn=0)


def user(text: str) -> MessageEntry:
    return MessageEntry(kind="user", content=text, turn=0)


def results(message: Message) -> list[Any]:
    return [block.content for block in message.content if isinstance(block, ToolResultBlock)]


# The function


def test_apply_gives_a_new_snapshot_and_changes_neither_argument() -> None:
    before, entry = pending().snapshot(), user("more")
    copies = copy.deepcopy((before, entry))
    after = apply(before, entry)
    assert after.history == (*before.history, entry)
    assert (before, entry) == copies
    assert apply(before, entry) == after


def test_two_continuations_of_one_snapshot_share_nothing() -> None:
    before = started().snapshot()
    left, right = apply(before, user("left")), apply(before, user("right"))
    assert [message.text for message in left.messages] == ["Go", "left"]
    assert [message.text for message in right.messages] == ["Go", "right"]
    assert [message.text for message in before.messages] == ["Go"]


def test_replay_starts_from_the_empty_history() -> None:
    state = pending()
    assert replay(state.history) == state.snapshot()
    assert replay([]) == StateSnapshot()


def test_what_is_no_entry_is_refused() -> None:
    nothing: Any = Message.user("Go")
    with pytest.raises(TypeError, match="Message"):
        apply(StateSnapshot(), nothing)


def test_a_live_value_is_the_replay_of_its_history_in_every_part() -> None:
    state = pending()
    state.add_message(Message.user("held"))
    result(state, READ, usage=ONE)
    assert parts(fold(state.history)) == parts(value(state))


def test_labels_exceptions_and_estimates_do_not_count() -> None:
    plain = [
        user("Go"),
        ModelRequestEntry(content="m", turn=1),
        ErrorEntry(content="x", turn=1),
        change("restore", restored_to=1),
    ]
    odd = [
        MessageEntry(kind="user", content="Go", turn=7),
        ModelRequestEntry(content="m", turn=-3),
        ErrorEntry(content="x", error=KeyboardInterrupt(), turn=99),
        ContextChangeEntry(content=ContextChange("restore", 5, 6, restored_to=1), turn=2),
    ]
    one, other = fold(plain), fold(odd)
    differing = {"history", "updated_at", "created_at"}
    assert {name for name, part in parts(one).items() if part != parts(other)[name]} <= differing


@pytest.mark.parametrize("entry", [change("restore", restored_to=9), change(UNKNOWN), change("compact")])
def test_a_refused_entry_leaves_no_new_value(entry: ContextChangeEntry) -> None:
    before = started().snapshot()
    with pytest.raises(ValueError):
        apply(before, entry)
    assert before == started().snapshot()


# Every entry


def test_every_entry_is_kept_and_moves_the_time() -> None:
    first, second = datetime(2026, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)
    one = MessageEntry(kind="user", content="a", turn=0, at=first)
    two = ContextChangeEntry(content=ContextChange("restore", 0, 0, restored_to=0), turn=0, at=second)
    snapshot = replay([one, two])
    assert (snapshot.history, snapshot.created_at, snapshot.updated_at) == ((one, two), first, second)


# Messages


def test_a_message_enters_between_turns() -> None:
    state = started()
    state.add_message(Message.user("more"))
    assert texts(state) == ["Go", "more"]


@pytest.mark.parametrize("make", [waiting, pending])
def test_a_message_is_held_while_waiting_and_while_calls_are_pending(make: Any) -> None:
    state = make()
    before = state.messages
    state.add_message(Message.user("more"))
    assert state.messages == before
    assert [message.text for message in value(state).held] == ["more"]


def test_the_first_user_message_is_the_one_kept_in_front_although_it_is_held() -> None:
    state = State(messages=[Message.assistant("Hello")])
    request(state)
    state.add_message(Message.user("Go"))
    assert value(state).first_user == Message.user("Go")


def test_a_notice_is_no_first_user_message() -> None:
    state = State()
    state.add_message(Message.notice("a"))
    state.add_message(Message.user("b"))
    state.add_message(Message.user("c"))
    assert value(state).first_user == Message.user("b")


# Requests and replies


def test_a_request_waits_and_counts_as_a_turn() -> None:
    state = waiting()
    assert value(state).waiting
    assert state.turn == 1


@pytest.mark.parametrize("make", [waiting, pending])
def test_a_request_follows_neither_a_request_nor_pending_calls(make: Any) -> None:
    with pytest.raises(ValueError):
        step(value(make()), ModelRequestEntry(content=MODEL, turn=9))


def test_a_request_takes_the_late_notices_along_in_order() -> None:
    state = started()
    result(state, READ, "one", late=True)
    result(state, LIST, (TextBlock("two"), PNG), late=True)
    before = state.messages
    request(state)
    assert state.messages == (
        *before,
        Message.user('[notice] interrupted read(path="a.py") finished later: one'),
        Message.user("[notice] interrupted list() finished later: two\n(image/png, 8B)"),
    )
    assert value(state).late == ()


def test_a_reply_enters_with_its_own_count_and_reason_only() -> None:
    state = waiting()
    message = Message("user", (TextBlock("hi"),), tokens=1, stop_reason="mine")
    entries(state, ModelReplyEntry(content=Reply(message, ONE, 900, "end_turn"), turn=1))
    assert state.messages[-1] == Message("assistant", (TextBlock("hi"),), tokens=900, stop_reason="end_turn")
    assert state.usage == ONE
    assert not value(state).waiting


def test_a_reply_without_a_request_is_refused() -> None:
    with pytest.raises(ValueError, match="no request"):
        reply(started(), "hi")


def test_a_reply_with_calls_opens_a_turn_and_keeps_what_is_held_and_the_answer() -> None:
    state = started()
    think(state, "first")
    request(state)
    state.add_message(Message.user("more"))
    reply(state, "look", READ, LIST)
    now = value(state)
    assert (now.calls, now.results) == ((READ, LIST), (None, None))
    assert [message.text for message in now.held] == ["more"]
    assert state.answer == "first"


def test_a_reply_without_calls_lets_the_held_messages_in() -> None:
    state = waiting()
    state.add_message(Message.user("more"))
    state.add_message(Message.user("and more"))
    reply(state, "hi")
    assert texts(state) == ["Go", "hi", "more", "and more"]
    assert not len(value(state).held)


# Errors


def test_an_error_takes_a_waiting_request_back() -> None:
    state = waiting()
    state.add_message(Message.user("more"))
    fail(state, TimeoutError())
    assert (state.turn, texts(state), value(state).waiting) == (0, ["Go", "more"], False)
    assert not len(value(state).held)


def test_late_notices_stay_when_their_request_is_taken_back() -> None:
    state = started()
    result(state, LIST, "x", late=True)
    request(state)
    fail(state, TimeoutError())
    assert texts(state) == ["Go", "[notice] interrupted list() finished later: x"]


def test_an_error_of_a_call_takes_no_request_back() -> None:
    state = waiting()
    entries(state, ErrorEntry(content="x", call=READ, turn=1))
    assert value(state).waiting


@pytest.mark.parametrize("make", [started, pending])
def test_an_error_without_a_request_changes_no_visible_value(make: Any) -> None:
    state = make()
    before = state.snapshot()
    entries(state, ErrorEntry(content="x", turn=1))
    names = ("messages", "pending_calls", "turn", "usage", "answer", "finished", "stopped", "extra_data")
    assert [getattr(state, name) for name in names] == [getattr(before, name) for name in names]


# Results


def test_results_enter_together_in_the_order_asked() -> None:
    state = pending()
    before = state.messages
    result(state, LIST, "second")
    assert state.messages == before
    assert state.pending_calls == (READ,)
    state.add_message(Message.user("more"))
    result(state, READ, "first", ToolOutcomeKind.ERROR)
    assert state.messages[len(before) :] == (
        Message(
            "user",
            (ToolResultBlock("c1", "first", "read", is_error=True), ToolResultBlock("c2", "second", "list")),
        ),
        Message.user("more"),
    )
    now = value(state)
    assert (now.calls, now.results, len(now.held)) == ((), (), 0)


def test_a_result_belongs_to_its_call_by_id_alone() -> None:
    state = pending(READ)
    result(state, ToolCall("other", {"x": 1}, "c1"))
    assert state.messages[-1].content == (ToolResultBlock("c1", "ok", "read"),)


def test_of_pending_calls_with_one_id_the_first_gets_the_result() -> None:
    state = pending(READ, ToolCall("list", {}, "c1"))
    result(state, READ, "first")
    assert [call.name for call in state.pending_calls] == ["list"]
    result(state, READ, "second")
    assert results(state.messages[-1]) == ["first", "second"]


@pytest.mark.parametrize("id", ["c9", "c1"])
def test_a_result_without_a_pending_call_is_refused(id: str) -> None:
    state = pending()
    result(state, READ)
    before = value(state)
    with pytest.raises(ValueError, match=id):
        result(state, ToolCall("read", {}, id), usage=ONE)
    assert value(state) is before


def test_a_result_after_its_turn_is_refused() -> None:
    state = pending(READ)
    result(state, READ)
    with pytest.raises(ValueError, match="c1"):
        result(state, READ)


def test_a_late_result_is_a_notice_for_the_next_request_whatever_its_outcome() -> None:
    state = pending(READ)
    result(state, READ, "(interrupted by user)", INTERRUPTED)
    before = state.snapshot()
    result(state, READ, "broken", ToolOutcomeKind.ERROR, late=True)
    assert state.messages == before.messages
    assert value(state).late == ('[notice] interrupted read(path="a.py") finished later: broken',)


@pytest.mark.parametrize("make", [State, waiting, pending])
def test_a_late_result_may_come_at_any_time(make: Any) -> None:
    state = make()
    before = state.snapshot()
    result(state, READ, late=True, usage=ONE)
    assert (state.messages, state.pending_calls) == (before.messages, before.pending_calls)
    assert state.usage == before.usage + ONE


def test_a_result_adds_what_its_subagents_used() -> None:
    state = pending(READ)
    result(state, READ, usage=Usage(output_tokens=5, requests=1, cost=1.0))
    assert state.usage == Usage(10, 7, requests=2, cost=1.5)


# Questions and events


@pytest.mark.parametrize("make", [started, waiting, pending])
def test_a_question_only_costs(make: Any) -> None:
    state = make()
    before = state.snapshot()
    ask(state, "Why?", {"so": 1}, ONE)
    ask(state, "Why?", None)
    assert (state.messages, state.turn, state.pending_calls) == (before.messages, before.turn, before.pending_calls)
    assert state.usage == before.usage + ONE


def test_an_event_does_nothing() -> None:
    state = waiting()
    before = parts(value(state))
    entries(state, ModelEventEntry(content=ModelEvent("retry", "again"), turn=1))
    after = parts(value(state))
    assert {name for name in after if after[name] != before[name]} == {"history", "closings", "updated_at"}


# Runs and stops


def test_a_run_clears_the_reason_to_stop_and_no_finish() -> None:
    state = started()
    state.finish(1)
    entries(state, RunStartEntry(content=AgentInfo(model="m"), turn=0))
    assert (state.stopped, state.finished, state.answer) == (None, True, 1)


def test_a_call_id_without_a_parent_links_nothing() -> None:
    state = started()
    run_start(state, call="c")
    assert value(state).link is None
    run_start(state, parent="p")
    run_start(state, parent="q", call="d")
    assert (state.parent_id, state.parent_call_id) == ("p", None)


def test_a_stop_sets_the_reason_and_none_withdraws_it() -> None:
    state = started()
    stop(state, StoppedByUntil("done"))
    assert state.stopped == StoppedByUntil("done")
    stop(state, None)
    assert state.stopped is None


def test_withdrawing_the_reason_undoes_no_finish() -> None:
    state = started()
    state.finish("done")
    stop(state, None)
    assert (state.stopped, state.finished, state.answer) == (None, True, "done")


def test_the_last_answer_that_is_not_none_counts() -> None:
    state = started()
    think(state, "text")
    state.finish("first")
    state.finish()
    assert state.answer == "first"
    assert state.stopped == StoppedByFinish()
    state.finish(0)
    assert state.answer == 0


# Extra data


def test_extra_data_is_patched() -> None:
    state = State(extra_data={"a": 1, "b": 2, "c": 3})
    entries(state, ExtraDataEntry(content={"d": 4, "a": 5}, removed=("b", "unknown"), turn=0))
    assert list(state.extra_data.items()) == [("a", 5), ("c", 3), ("d", 4)]


def test_a_key_that_is_removed_and_set_is_set() -> None:
    state = State(extra_data={"a": 1, "b": 2})
    entries(state, ExtraDataEntry(content={"a": 3}, removed=("a",), turn=0))
    assert state.extra_data == {"a": 3, "b": 2}


# How the latest run stands


def status(*actions: Any) -> str:
    """How it stands after a run began and these things happened."""
    state = started()
    run_start(state)
    for action, *arguments in actions:
        action(state, *arguments)
    return value(state).status


DENIED = StoppedByPermission(READ, "Deny()")


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([], "open"),
        ([(think, READ)], "open"),
        ([(stop, StoppedByUntil("done"))], "answered"),
        ([(stop, StoppedByLimit(1))], "limit"),
        ([(stop, DENIED)], "permission"),
        ([(State.finish,)], "finished"),
        ([(stop, DENIED), (stop, None)], "open"),
        ([(stop, DENIED), (run_start,)], "open"),
        ([(fail, OSError())], "failed"),
        ([(fail, OSError()), (stop, None)], "failed"),
        ([(fail, KeyboardInterrupt())], "interrupted"),
        ([(fail, asyncio.CancelledError())], "interrupted"),
        ([(request,), (repair,)], "interrupted"),
        ([(think, READ), (repair,)], "interrupted"),
        ([(think, READ), (fail, OSError(), READ), (result, READ), (request,), (repair,)], "interrupted"),
        ([(think, READ, LIST), (fail, OSError(), READ), (result, LIST), (end_of_run, OSError())], "failed"),
        ([(think, READ, LIST), (fail, KeyboardInterrupt(), READ), (result, LIST), (repair,)], "interrupted"),
        ([(think, "Done")], "answered"),
        ([(think, "Done"), (request,)], "open"),
        ([(think, "Done"), (stop, StoppedByLimit(1)), (request,)], "limit"),
        ([(think, "Done"), (fail, OSError())], "failed"),
        ([(stop, StoppedByLimit(1)), (fail, OSError()), (think, "Done")], "open"),
        ([(fail, OSError()), (request,)], "open"),
        ([(fail, OSError()), (ask, "Why?", 1)], "failed"),
        ([(think, READ), (fail, OSError(), READ), (result, READ)], "open"),
        ([(think, READ), (fail, OSError(), READ), (end_of_run, OSError())], "failed"),
        ([(think, READ), (fail, OSError()), (result, READ, "x", DONE)], "open"),
        ([(think, READ), (fail, KeyboardInterrupt()), (end_of_run, KeyboardInterrupt())], "interrupted"),
    ],
)
def test_the_latest_run_stands(actions: Any, expected: str) -> None:
    assert status(*actions) == expected


def test_a_state_that_never_ran_is_idle() -> None:
    state = started()
    fail(state, OSError())
    stop(state, DENIED)
    stop(state, None)
    assert (value(state).status, value(state).run, value(state).run_seq) == ("idle", None, None)


def test_a_restore_takes_the_standing_back_but_not_into_a_run_that_is_over() -> None:
    state = started()
    idle = state.snapshot()
    run_start(state)
    inside = state.snapshot()
    stop(state, StoppedByUntil("done"))
    answered = state.snapshot()
    run_start(state)
    state.restore(answered)
    assert value(state).status == "open"  # the run that is under way
    state.finish()
    seen = list[str]()
    for snapshot in (answered, inside, answered, idle):
        state.restore(snapshot)
        seen.append(value(state).status)
    assert seen == ["answered", "idle", "answered", "idle"]


def test_the_latest_run_and_the_reason_to_stop_are_found_by_number() -> None:
    state = started()
    run_start(state, "first")
    stop(state, DENIED)
    run_start(state, "second")
    assert (value(state).run_seq, value(state).stop_seq) == (3, None)
    assert value(state).run == AgentInfo(name="second", model=MODEL)
    state.finish()
    assert value(state).stop_seq == 4
    stop(state, None)
    assert value(state).stop_seq is None


def test_errors_are_counted() -> None:
    state = pending(READ)
    fail(state, OSError(), READ)
    fail(state, OSError())
    assert value(state).error_count == 2


# Which entry answers which


def closings(state: State) -> list[Any]:
    return [None if c is None else (c.seq, c.block) for c in value(state).closings]


def test_replies_errors_and_results_name_what_they_answer() -> None:
    state = started()
    request(state)  # 1
    fail(state, TimeoutError())  # 2
    request(state)  # 3
    reply(state, "look", READ, LIST)  # 4
    result(state, LIST)  # 5
    result(state, READ)  # 6
    assert closings(state) == [None, None, (1, None), None, (3, None), (4, 2), (4, 1)]


def test_between_turns_nothing_is_open() -> None:
    state = pending(READ)
    result(state, READ)
    seen = [(value(state).opened, value(state).blocks)]
    think(state, "done")
    seen.append((value(state).opened, value(state).blocks))
    request(state)
    fail(state, TimeoutError())
    seen.append((value(state).opened, value(state).blocks))
    assert seen == [(None, ())] * 3


def test_late_results_name_the_latest_reply_with_their_call() -> None:
    state = started()
    for call in (READ, LIST, READ):
        think(state, "look", call)
        result(state, call)
    result(state, LIST, late=True)
    result(state, READ, late=True)
    assert closings(state)[-2:] == [(5, 1), (8, 1)]


def test_a_late_result_names_the_call_it_ran_for() -> None:
    state = pending()
    result(state, READ, "(interrupted by user)", INTERRUPTED)
    result(state, LIST)
    think(state, "done")
    result(state, READ, late=True)
    result(state, ToolCall("unknown", {}, "c1"), late=True)
    assert closings(state)[-2:] == [(2, 0), None]


# Cost


class Counting(list[Any]):
    """A buffer that counts how often it is copied or read through."""

    copies = 0

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            Counting.copies += 1
        return super().__getitem__(index)

    def __iter__(self) -> Any:
        Counting.copies += 1
        return super().__iter__()


def test_recording_copies_neither_the_history_nor_the_messages() -> None:
    state = started()
    state.add_message(Message.user("more"))
    now = value(state)
    for log in (now.history, now.messages, now.closings, now.kept):
        log._buffer = Counting(log._buffer)
    Counting.copies = 0
    for number in range(200):
        state.add_message(Message.user(str(number)))
        ask(state, "Why?", number)
        think(state, READ)
        state.add_message(Message.notice("held"))
        result(state, READ)
        fail(state, ValueError())
        stop(state, StoppedByLimit(number))
        with state.edit_extra_data() as data:
            data["number"] = number
    after = value(state)
    assert type(after.history._buffer) is type(after.messages._buffer) is Counting
    assert Counting.copies == 0


def test_an_earlier_point_is_reached_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    state = started()
    for number in range(1000):
        state.add_message(Message.user(str(number)))
        if number % 7 == 0:
            state.restore(state.snapshot())
    now, steps = value(state), list[int]()

    def counted(value: Any, entry: Any) -> Any:
        steps.append(1)
        return step(value, entry)

    monkeypatch.setattr("alpineagents.history.replay.step", counted)
    for length in range(0, len(now.history), 37):
        steps.clear()
        assert len(value_at(now, length).history) == length
        assert len(steps) < 64


def test_a_value_without_its_cache_still_finds_every_earlier_point() -> None:
    state = started()
    for number in range(100):
        state.add_message(Message.user(str(number)))
    bare = value(state).changed(kept=EMPTY.kept)
    assert parts(value_at(bare, 70)) == parts(value_at(value(state), 70))


def test_an_image_in_a_late_result_is_named_by_type_and_size() -> None:
    state = started()
    result(state, LIST, (Image(b"GIF89a"),), late=True)
    request(state)
    assert texts(state)[-1] == "[notice] interrupted list() finished later: (image/gif, 6B)"
