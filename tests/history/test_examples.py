"""Whole conversations, entry by entry."""

from __future__ import annotations

from histories import (
    ONE,
    change_of,
    end_of_run,
    fail,
    reply,
    request,
    result,
    run_start,
    started,
    texts,
    think,
    value,
)

from alpineagents.history import rules
from alpineagents.state import journal_of
from alpineagents.types import (
    ErrorEntry,
    Message,
    MessageEntry,
    ToolCall,
    ToolResultBlock,
)


def test_a_failed_request_then_a_good_one() -> None:
    state = started("Plan a trip")
    assert change_of(state).after_tokens == 8
    request(state)
    state.add_message(Message.user("by train"))
    fail(state, TimeoutError("no reply"))
    assert state.history[-1] == ErrorEntry(content="TimeoutError: no reply", turn=1)
    assert (state.turn, texts(state)) == (0, ["Plan a trip", "by train"])
    think(state, "By train, then.")
    assert state.history[-2].turn == 1
    assert (state.stopped, state.answer) == (None, "By train, then.")


def test_an_interrupt_then_a_late_result() -> None:
    make = ToolCall("make", {"target": "all"}, "m1")
    state = started()
    run_start(state)
    think(state, make)
    interrupt = KeyboardInterrupt()
    fail(state, interrupt)
    assert (state.pending_calls, state.turn) == ((make,), 1)
    end_of_run(state, interrupt)
    closed = state.messages
    assert closed[-1].content == (ToolResultBlock("m1", "(interrupted by user)", "make", is_error=True),)
    result(state, make, "exit 0", late=True)
    assert state.messages == closed
    run_start(state)
    request(state)
    notice = Message.user('[notice] interrupted make(target="all") finished later: exit 0')
    assert (state.messages, state.turn) == ((*closed, notice), 2)
    fail(state, RuntimeError("down"))
    assert (state.messages, state.turn) == ((*closed, notice), 1)


def test_two_calls_with_a_message_at_each_stage() -> None:
    oslo, rome = (ToolCall("get_temp", {"city": city}, id) for city, id in (("Oslo", "t1"), ("Rome", "t2")))
    state = started("Compare Oslo and Rome")
    run_start(state, name="weather")
    request(state)
    state.add_message(Message.user("in Celsius please"))
    reply(state, "Checking.", oslo, rome)
    state.add_message(Message.notice("station 7 is offline"))
    assert isinstance(state.history[-1], MessageEntry)
    result(state, rome, "19")
    assert (len(state.messages), len(value(state).held), state.pending_calls) == (2, 2, (oslo,))
    result(state, oslo, "-3")
    assert state.messages[2:] == (
        Message("user", (ToolResultBlock("t1", "-3", "get_temp"), ToolResultBlock("t2", "19", "get_temp"))),
        Message.user("in Celsius please"),
        Message.notice("station 7 is offline"),
    )
    think(state, "Rome is warmer.")
    assert (state.answer, state.turn, len(state.history)) == ("Rome is warmer.", 2, 10)
    assert [entry.turn for entry in state.history] == [0, 0, 1, 1, 1, 1, 1, 1, 2, 2]


def test_a_compaction_with_a_message_arriving_meanwhile() -> None:
    state = started("Audit repo")
    think(state, "Done: 3 issues.", tokens=900)
    state.add_message(Message.user("fix the first"))
    journal_of(state).record(rules.compact, "3 issues found", 1, ONE)
    change = change_of(state)
    assert (change.kept, change.before_tokens, change.after_tokens) == (1, 909, 34)
    assert texts(state) == ["Audit repo", "[notice] Summary so far:\n3 issues found", "fix the first"]
    assert (change.usage, state.usage) == (ONE, ONE + ONE)
