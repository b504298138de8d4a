"""add_message, finish, compact and clear_tool_results: what they record and what they refuse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pydantic
import pytest
from histories import (
    LIST,
    PNG,
    READ,
    entries,
    fail,
    kinds,
    pending,
    reply,
    request,
    result,
    started,
    texts,
    think,
    value,
    waiting,
)

from alpineagents.state import State, journal_of
from alpineagents.types import (
    ContextChange,
    ContextChangeEntry,
    Image,
    Message,
    MessageEntry,
    RawBlock,
    StopEntry,
    StoppedByFinish,
    TextBlock,
    ToolCall,
    ToolOutcomeKind,
    ToolResultBlock,
    ToolResultEntry,
)

CLEARED = "(cleared: kept in history)"


def refused(state: State, method: str, *args: Any, error: type[Exception] = ValueError) -> str:
    """The message of a refusal that recorded nothing."""
    before = value(state)
    with pytest.raises(error) as raised:
        getattr(state, method)(*args)
    assert value(state) is before
    return str(raised.value)


def finished() -> State:
    state = started()
    state.finish()
    return state


# add_message


def test_a_message_is_recorded_at_once_with_the_turn() -> None:
    state = waiting()
    state.add_message(Message.user("more"))
    assert state.history[-1] == MessageEntry(kind="user", content="more", turn=1)


@pytest.mark.parametrize("make", [State, started, waiting, pending, finished])
def test_a_message_may_come_at_any_time(make: Any) -> None:
    state = make()
    state.add_message(Message.user("more"))
    assert kinds(state)[-1] == "user"


@pytest.mark.parametrize("message", ["Go", None, {"role": "user"}, TextBlock("Go"), [Message.user("Go")]])
def test_what_is_no_message_is_refused_with_how_to_make_one(message: Any) -> None:
    assert "Message.user" in refused(started(), "add_message", message, error=TypeError)


def test_an_assistant_message_is_refused_with_its_place() -> None:
    message = refused(started(), "add_message", Message.assistant("hi"))
    assert message.startswith("add_message takes user messages and notices")
    assert "State(messages=[...])" in message


@pytest.mark.parametrize("role", ["system", "tool", ""])
def test_another_role_is_refused(role: Any) -> None:
    assert repr(role) in refused(started(), "add_message", Message(role, (TextBlock("x"),)))


@pytest.mark.parametrize(
    "message",
    [
        Message.user(""),
        Message.user(" \n\t\u2003"),
        Message.notice(""),
        Message.notice(" "),
        Message("user", ()),
        Message("user", (TextBlock(""), TextBlock(" "))),
        Message("user", (TextBlock("[notice] "), TextBlock(" "))),
    ],
)
def test_a_blank_message_is_refused(message: Message) -> None:
    assert "blank" in refused(started(), "add_message", message)


@pytest.mark.parametrize("text", ["[notice] [notice] ", "[notice]", "[notice] x", "."])
def test_only_one_notice_prefix_is_not_counted_as_text(text: str) -> None:
    state = started()
    state.add_message(Message.user(text))
    assert state.messages[-1].text == text


@pytest.mark.parametrize("block", [READ, ToolResultBlock("c1", "x"), RawBlock("acme", {})])
def test_a_block_that_is_neither_text_nor_image_is_refused(block: Any) -> None:
    assert type(block).__name__ in refused(started(), "add_message", Message("user", (TextBlock("x"), block)))


def test_an_image_needs_no_text() -> None:
    state = started()
    state.add_message(Message.user("", PNG))
    assert state.messages[-1].content == (PNG,)


def test_a_message_may_have_several_texts() -> None:
    state = started()
    state.add_message(Message("user", (TextBlock(" "), TextBlock("a"))))
    assert texts(state) == ["Go", " a"]


def test_the_text_says_what_kind_a_message_is() -> None:
    state = started()
    for text in ("[notice] x", "see [notice] x", "[notice]x"):
        state.add_message(Message.user(text))
    assert kinds(state)[1:] == ["notice", "user", "user"]


def test_counts_and_reasons_are_dropped_and_blocks_keep_their_order() -> None:
    state = started()
    content = (TextBlock("a"), PNG, TextBlock("b"), Image(b"GIF89a"))
    state.add_message(Message("user", content, tokens=5, stop_reason="mine"))
    assert state.messages[-1] == Message("user", content)


def test_what_was_held_while_waiting_comes_out_before_what_was_held_while_calls_were_pending() -> None:
    state = waiting()
    state.add_message(Message.user("one"))
    state.add_message(Message.notice("two"))
    reply(state, READ, LIST)
    state.add_message(Message.user("three"))
    result(state, LIST)
    state.add_message(Message.user("four"))
    result(state, READ)
    assert texts(state)[3:] == ["one", "[notice] two", "three", "four"]


# finish


def test_finish_shows_at_once() -> None:
    state = waiting()
    state.finish({"a": (1, 2)})
    assert (state.finished, state.answer, state.stopped) == (True, {"a": [1, 2]}, StoppedByFinish({"a": [1, 2]}))
    assert state.history[-1] == StopEntry(content=StoppedByFinish({"a": [1, 2]}), turn=1)


@dataclass
class Point:
    x: int
    where: list[str]


class Model(pydantic.BaseModel):
    x: int
    where: list[str]


@pytest.mark.parametrize("answer", [Point(1, ["a"]), Model(x=1, where=["a"])])
def test_a_dataclass_or_pydantic_answer_becomes_a_frozen_dict(answer: Any) -> None:
    state = started()
    state.finish(answer)
    answer.where.append("b")
    assert state.answer == {"x": 1, "where": ["a"]}
    with pytest.raises(TypeError, match="read-only"):
        state.answer["where"].append("b")


@pytest.mark.parametrize("answer", [{1}, [Point(1, [])], {"a": Model(x=1, where=[])}, object(), float("nan"), Point])
def test_an_answer_without_a_json_form_is_refused(answer: Any) -> None:
    refused(started(), "finish", answer, error=TypeError)


def test_the_latest_answer_that_is_not_none_is_the_answer() -> None:
    state = started()
    think(state, "text")
    answers = list[Any]()
    for answer in (None, "a", None, 0):
        state.finish(answer)
        answers.append(state.answer)
    assert answers == ["text", "a", "a", 0]
    assert kinds(state).count("stop") == 4


def test_finish_leaves_pending_calls_pending_and_they_still_get_their_results() -> None:
    state = pending()
    state.finish("done")
    assert state.pending_calls == (READ, LIST)
    result(state, READ)
    result(state, LIST)
    assert (state.pending_calls, state.finished) == ((), True)


def test_what_still_works_on_a_finished_state() -> None:
    state = started()
    think(state, READ)
    result(state, READ)
    before = state.snapshot()
    state.finish()
    state.add_message(Message.user("more"))
    state.finish(1)
    state.clear_tool_results(0)
    state.compact("s")
    with state.edit_extra_data() as data:
        data["a"] = 1
    assert state.fork().finished
    state.restore(before)
    assert not state.finished


# compact


def test_compact_records_the_summary_as_it_is_given() -> None:
    state = pending(READ)
    result(state, READ)
    state.compact(" counted\n")
    assert texts(state) == ["Go", "[notice] Summary so far:\n counted\n"]
    # before: the task, the call and its result; after: the task and 34 characters
    change = ContextChange("compact", 5 + 11 + 5, 5 + 4 + 12, summary=" counted\n")
    assert state.history[-1] == ContextChangeEntry(content=change, turn=1)


@pytest.mark.parametrize("summary", [None, 3, b"s", ["s"]])
def test_a_summary_is_a_text(summary: Any) -> None:
    assert "str" in refused(started(), "compact", summary, error=TypeError)


@pytest.mark.parametrize("summary", ["", " ", "\n\t"])
def test_a_summary_is_not_blank(summary: str) -> None:
    assert "needs a summary" in refused(started(), "compact", summary)


def test_the_summary_is_checked_before_the_calls() -> None:
    assert "needs a summary" in refused(pending(), "compact", "")
    refused(pending(), "compact", None, error=TypeError)
    assert "no result yet" in refused(pending(), "compact", "s")


def test_a_second_compaction_replaces_the_first_summary() -> None:
    state = started()
    state.compact("one")
    state.add_message(Message.user("more"))
    state.compact("two")
    assert texts(state) == ["Go", "[notice] Summary so far:\ntwo"]


def test_an_empty_state_can_be_compacted() -> None:
    state = State()
    state.compact("s")
    assert texts(state) == ["[notice] Summary so far:\ns"]


def test_a_reply_follows_the_summary_that_was_made_while_waiting() -> None:
    state = waiting()
    state.compact("s")
    reply(state, "hi")
    assert texts(state) == ["Go", "[notice] Summary so far:\ns", "hi"]
    assert (state.turn, state.answer) == (1, "hi")


def test_compact_changes_neither_turn_usage_answer_nor_earlier_entries() -> None:
    state = started()
    think(state, "one")
    before = state.snapshot()
    state.compact("s")
    assert (state.turn, state.usage, state.answer) == (before.turn, before.usage, before.answer)
    assert state.history[:-1] == before.history


# clear_tool_results


def ran(*ids: str) -> State:
    """A State with one turn per call."""
    state = started()
    for id in ids:
        call = ToolCall("read", {}, id)
        think(state, call, tokens=50, reason="tool_use")
        result(state, call, f"result {id}")
    return state


def contents(state: State) -> list[Any]:
    blocks = [block for message in state.messages for block in message.content]
    return [block.content for block in blocks if isinstance(block, ToolResultBlock)]


def cleared(state: State) -> tuple[str, ...]:
    entry = state.history[-1]
    assert isinstance(entry, ContextChangeEntry)
    return entry.content.cleared


def test_all_results_but_the_last_are_blanked() -> None:
    state = ran("a", "b", "c")
    state.clear_tool_results(keep_last=1)
    assert contents(state) == [CLEARED, CLEARED, "result c"]
    assert cleared(state) == ("a", "b")
    assert state.history[-1].turn == 3


def test_five_results_are_kept_by_default() -> None:
    state = ran(*"abcdefg")
    state.clear_tool_results()
    assert cleared(state) == ("a", "b")


def test_results_of_one_message_are_counted_one_by_one() -> None:
    state = pending()
    result(state, READ, "one")
    result(state, LIST, "two")
    state.clear_tool_results(1)
    assert contents(state) == [CLEARED, "two"]


def test_blank_results_count_as_kept_and_are_not_named_again() -> None:
    state = ran("a", "b", "c", "d")
    state.clear_tool_results(2)
    state.clear_tool_results(1)
    assert cleared(state) == ("c",)
    assert contents(state) == [CLEARED, CLEARED, CLEARED, "result d"]


@pytest.mark.parametrize("keep_last", [3, 4])
def test_where_nothing_new_would_be_blanked_nothing_is_recorded(keep_last: int) -> None:
    state = ran("a", "b", "c")
    before, told = value(state), list[Any]()
    journal_of(state).on_change = told.append
    state.clear_tool_results(keep_last)
    assert value(state) is before
    state.clear_tool_results(2)
    state.clear_tool_results(2)
    assert len(told) == 1


def test_results_with_a_repeated_id_are_all_blanked_and_named_once() -> None:
    state = ran("a", "a", "b", "a")
    state.clear_tool_results(2)
    assert contents(state) == [CLEARED, CLEARED, "result b", CLEARED]
    assert cleared(state) == ("a",)


def test_images_go_with_their_result_and_everything_else_stays() -> None:
    state = State(messages=[Message.user("Look", PNG)])
    think(state, "reading", READ)
    full = (TextBlock("a"), PNG)
    result(state, READ, full, ToolOutcomeKind.ERROR)
    before = state.messages
    state.clear_tool_results(0)
    assert state.messages[:2] == before[:2]
    assert state.messages[2].content == (ToolResultBlock("c1", CLEARED, "read", is_error=True),)
    assert [entry.content for entry in state.history if isinstance(entry, ToolResultEntry)] == [full]


def test_no_message_has_a_count_afterwards_and_reasons_stay() -> None:
    state = ran("a", "b")
    state.clear_tool_results(1)
    assert {message.tokens for message in state.messages} == {None}
    assert [message.stop_reason for message in state.messages] == [None, "tool_use", None, "tool_use", None]


@pytest.mark.parametrize("keep_last", [True, 1.5, "5", None, -1])
def test_keep_last_is_a_number_and_checked_before_the_calls(keep_last: Any) -> None:
    assert repr(keep_last) in refused(pending(), "clear_tool_results", keep_last)


def test_clearing_is_refused_while_calls_are_pending() -> None:
    assert "no result yet" in refused(pending(), "clear_tool_results", 0)


def test_results_may_be_cleared_while_waiting() -> None:
    state = ran("a")
    request(state)
    state.clear_tool_results(0)
    assert contents(state) == [CLEARED]


# Refusals while calls are pending


@pytest.mark.parametrize(("method", "args"), [("compact", ("s",)), ("clear_tool_results", (0,))])
def test_a_refusal_lists_the_calls_and_says_what_to_do(method: str, args: Any) -> None:
    message = refused(pending(), method, *args)
    assert message.startswith(f"{method}:")
    assert 'read(path="a.py"), list()' in message
    assert "agent.use_tools(state)" in message


# What the Reporter's side hears


def test_changes_of_the_context_are_told_when_they_are_recorded() -> None:
    state = ran("a")
    before, told = state.snapshot(), list[tuple[ContextChange, int]]()
    journal_of(state).on_change = lambda change: told.append((change, len(state.history)))
    state.clear_tool_results(0)
    state.compact("s")
    state.restore(before)
    state.add_message(Message.user("more"))
    state.finish()
    assert [change.kind for change, _ in told] == ["clear_tool_results", "compact", "restore"]
    assert [state.history[length - 1].content for _, length in told] == [change for change, _ in told]


def test_what_hears_of_a_change_may_change_the_state() -> None:
    state = started()
    journal_of(state).on_change = lambda change: state.add_message(Message.user(change.kind))
    state.compact("s")
    assert texts(state)[-1] == "compact"


def test_an_exception_of_what_hears_reaches_the_caller_and_the_change_stays() -> None:
    def broken(change: ContextChange) -> None:
        raise OSError("reporter")

    state = started()
    journal_of(state).on_change = broken
    with pytest.raises(OSError, match="reporter"):
        state.compact("s")
    assert kinds(state)[-1] == "context_change"
    assert len(state.messages) == 2


def test_a_failed_request_lets_held_messages_in_at_once() -> None:
    state = waiting()
    state.add_message(Message.user("more"))
    fail(state, OSError())
    assert texts(state) == ["Go", "more"]


def test_entries_of_one_record_come_all_or_none() -> None:
    state = started()
    before = value(state)
    message = MessageEntry(kind="user", content="x", turn=0)
    with pytest.raises(ValueError, match="no pending call"):
        entries(state, message, ToolResultEntry(content="x", call=READ, outcome=ToolOutcomeKind.DONE, turn=0), message)
    assert value(state) is before
