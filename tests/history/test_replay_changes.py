"""What each kind of context change does to the value."""

from __future__ import annotations

from typing import Any

import pytest
from histories import (
    LIST,
    ONE,
    PNG,
    READ,
    compact_by_model,
    entries,
    pending,
    reply,
    result,
    run_start,
    started,
    texts,
    think,
    value,
    waiting,
)

from alpineagents.state import State
from alpineagents.types import (
    ContextChange,
    ContextChangeEntry,
    Message,
    TextBlock,
    ToolOutcomeKind,
    ToolResultBlock,
    Usage,
)

CLEARED = "(cleared: kept in history)"


def change(kind: Any, **fields: Any) -> ContextChangeEntry:
    return ContextChangeEntry(content=ContextChange(kind, 0, 0, **fields), turn=0)


def results(message: Message) -> list[Any]:
    return [block.content for block in message.content if isinstance(block, ToolResultBlock)]


# Imports


def test_an_import_goes_behind_what_is_there() -> None:
    state = started()
    message = Message("assistant", (TextBlock("old"), READ), tokens=5, stop_reason="end_turn")
    entries(state, change("import", messages=[message]))
    assert state.messages == (Message.user("Go"), message)
    assert (state.answer, state.pending_calls) == (None, ())


@pytest.mark.parametrize("make", [waiting, pending])
def test_an_import_is_refused_inside_a_turn(make: Any) -> None:
    with pytest.raises(ValueError):
        entries(make(), change("import", messages=[Message.user("x")]))


def test_an_import_brings_the_message_kept_in_front_also_a_notice() -> None:
    state = State(messages=[Message.assistant("a"), Message.notice("b"), Message.user("c")])
    assert value(state).first_user == Message.notice("b")
    entries(state, change("import", messages=[Message.user("d")]))
    assert value(state).first_user == Message.notice("b")


def test_an_import_of_replies_brings_none() -> None:
    state = State(messages=[Message.assistant("a")])
    assert value(state).first_user is None


# Compactions


def conversation() -> State:
    state = started()
    think(state, "one", tokens=100)
    state.add_message(Message.user("more"))
    think(state, "two", tokens=200)
    return state


@pytest.mark.parametrize(
    ("kept", "rest"), [(0, []), (1, ["two"]), (2, ["more", "two"]), (9, ["Go", "one", "more", "two"])]
)
def test_a_compaction_keeps_the_first_message_the_summary_and_the_newest(kept: int, rest: list[str]) -> None:
    state = conversation()
    compact_by_model(state, "counted", kept, ONE)
    assert texts(state) == ["Go", "[notice] Summary so far:\ncounted", *rest]
    assert state.messages[1].role == "user"


def test_a_compaction_without_a_first_user_message_starts_with_the_summary() -> None:
    state = State(messages=[Message.assistant("a")])
    state.compact("counted")
    assert texts(state) == ["[notice] Summary so far:\ncounted"]


def test_a_compaction_adds_its_usage_and_keeps_the_other_values() -> None:
    state = conversation()
    result(state, READ, late=True)
    before = value(state)
    compact_by_model(state, "counted", 0, ONE)
    now = value(state)
    assert now.usage == before.usage + ONE
    names = ("turn", "answer", "first_user", "late", "held", "finished", "waiting")
    assert [getattr(now, name) for name in names] == [getattr(before, name) for name in names]


def test_usage_on_another_kind_of_change_is_not_counted() -> None:
    state = started()
    entries(state, change("restore", restored_to=1, usage=ONE), change("import", usage=ONE))
    assert state.usage == Usage()


def test_a_compaction_may_come_while_waiting_and_after_finish() -> None:
    state = waiting()
    state.finish()
    state.add_message(Message.user("more"))
    state.compact("counted")
    reply(state, "hi")
    assert texts(state) == ["Go", "[notice] Summary so far:\ncounted", "hi", "more"]


@pytest.mark.parametrize("fields", [{}, {"summary": "s", "kept": -1}])
def test_a_compaction_needs_a_summary_and_no_negative_number(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        entries(started(), change("compact", **fields))


def test_a_compaction_is_refused_while_calls_are_pending() -> None:
    with pytest.raises(ValueError, match="pending"):
        entries(pending(), change("compact", summary="s"))


# Cleared results


def test_cleared_results_are_blanked_by_id_and_every_message_loses_its_count() -> None:
    state = started()
    think(state, READ, LIST, tokens=50, reason="tool_use")
    result(state, READ, (TextBlock("long"), PNG), ToolOutcomeKind.ERROR)
    result(state, LIST, "kept")
    entries(state, change("clear_tool_results", cleared=["c1", "unknown"]))
    call, answer = state.messages[1:]
    assert (call.tokens, call.stop_reason) == (None, "tool_use")
    assert answer.content == (
        ToolResultBlock("c1", CLEARED, "read", is_error=True),
        ToolResultBlock("c2", "kept", "list"),
    )


def test_clearing_leaves_open_results_and_held_messages_alone() -> None:
    state = pending()
    result(state, READ, "kept")
    state.add_message(Message.user("held"))
    entries(state, change("clear_tool_results", cleared=["c1"]))
    result(state, LIST)
    assert results(state.messages[2]) == ["kept", "ok"]
    assert state.messages[3] == Message.user("held")


# Restores


def test_a_restore_takes_back_every_value_but_history_usage_times_and_link() -> None:
    state = State(messages=[Message.user("Go")], extra_data={"n": 1})
    run_start(state)
    think(state, "one")
    target, earlier = len(state.history), value(state)
    run_start(state, parent="p", call="c")
    with state.edit_extra_data() as data:
        data["n"] = 2
    result(state, READ, "late", late=True)
    think(state, READ)
    result(state, READ)
    state.finish({"last": 2})
    later = value(state)
    entries(state, change("restore", restored_to=target))
    now = value(state)
    back = ("messages", "turn", "extra_data", "finished", "stopped", "calls", "results", "waiting", "held", "late")
    back += ("first_user", "reply_text", "finish_answer")
    assert [getattr(now, name) for name in back] == [getattr(earlier, name) for name in back]
    assert (now.usage, now.created_at, now.link) == (later.usage, later.created_at, ("p", "c"))
    assert len(now.history) == len(later.history) + 1


def test_a_restore_into_the_middle_of_a_turn_brings_its_results_and_held_messages_back() -> None:
    state = pending()
    result(state, LIST, "second")
    state.add_message(Message.user("held"))
    target = len(state.history)
    result(state, READ, "first")
    entries(state, change("restore", restored_to=target))
    result(state, READ, "again")
    assert results(state.messages[2]) == ["again", "second"]
    assert state.messages[3] == Message.user("held")


@pytest.mark.parametrize("point", [None, -1, 4])
def test_a_restore_to_no_earlier_point_is_refused(point: int | None) -> None:
    with pytest.raises(ValueError, match="restored_to"):
        entries(pending(), change("restore", restored_to=point))


def test_a_restore_to_the_present_changes_no_value() -> None:
    state = pending()
    before = state.snapshot()
    entries(state, change("restore", restored_to=3))
    assert (state.messages, state.pending_calls, state.turn) == (before.messages, before.pending_calls, 1)
