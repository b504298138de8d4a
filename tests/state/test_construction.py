"""How a State comes to be, and what it refuses."""

from __future__ import annotations

import re
from collections import UserDict
from typing import Any

import pytest
from histories import READ, entries, kinds, pending, started, texts, value

from alpineagents.history.snapshot import StateSnapshot
from alpineagents.state import State
from alpineagents.types import (
    AgentInfo,
    ContextChange,
    ContextChangeEntry,
    ErrorEntry,
    ExtraDataEntry,
    Message,
    MessageEntry,
    ModelReplyEntry,
    ModelRequestEntry,
    RawBlock,
    Reply,
    RunStartEntry,
    StopEntry,
    StoppedByFinish,
    ToolCall,
    ToolOutcomeKind,
    ToolResultEntry,
    Usage,
)
from alpineagents.values.frozen import FrozenDict

STATE: Any = State  # what no type checker lets through
REPLY = ModelReplyEntry(content=Reply(Message.assistant("hi"), Usage()), turn=1)
REQUEST = ModelRequestEntry(content="m", turn=1)


def change(kind: Any, **fields: Any) -> ContextChangeEntry:
    return ContextChangeEntry(content=ContextChange(kind, 0, 0, **fields), turn=0)


def tool_result(id: str) -> ToolResultEntry:
    return ToolResultEntry(content="x", call=ToolCall("read", {}, id), outcome=ToolOutcomeKind.DONE, turn=1)


# Arguments


def test_a_positional_argument_shows_the_form_to_use() -> None:
    with pytest.raises(TypeError, match=r"State\(messages=\[Message\.user\("):
        STATE([Message.user("Go")])


def test_an_unknown_argument_is_named_with_those_there_are() -> None:
    with pytest.raises(TypeError, match="'mesages'") as error:
        STATE(mesages=[])
    assert all(name in str(error.value) for name in ("id", "messages", "extra_data", "history"))


@pytest.mark.parametrize("name", ["turn", "usage", "stopped", "finished", "answer", "pending_calls"])
def test_a_computed_value_cannot_be_given(name: str) -> None:
    with pytest.raises(TypeError, match=f"'{name}'.*derived from history"):
        STATE(**{name: None})


@pytest.mark.parametrize("id", ["a", "Z", "0", "_", "-", "bug-1_X", "x" * 128])
def test_an_id_of_letters_digits_and_dashes_is_kept(id: str) -> None:
    assert State(id=id).id == id


@pytest.mark.parametrize("id", ["", "x" * 129, "a b", "a/b", "a.b", "é", "٣", "bug\n", "\n", "a\x00"])
def test_another_id_is_refused(id: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(id)[:50])):
        State(id=id)


@pytest.mark.parametrize("id", [1, True, b"bug", 1.5, ["bug"]])
def test_an_id_that_is_no_text_is_refused(id: Any) -> None:
    with pytest.raises(TypeError, match="id"):
        State(id=id)


def test_without_an_id_there_is_a_new_random_one_each_time() -> None:
    ids = [State().id, State(id=None).id, State().id]
    assert len(set(ids)) == 3
    assert all(re.fullmatch("[0-9a-f]{32}", id) for id in ids)


def test_an_empty_state_has_the_values_of_an_empty_history() -> None:
    state = State()
    assert (state.history, state.messages, state.pending_calls, state.turn) == ((), (), (), 0)
    assert (state.usage, state.extra_data, state.finished) == (Usage(), {}, False)
    assert (state.answer, state.stopped, state.created_at, state.updated_at) == (None, None, None, None)
    assert (state.parent_id, state.parent_call_id) == (None, None)
    assert state.snapshot() == StateSnapshot()


# Messages


def test_messages_may_come_from_a_generator() -> None:
    assert texts(State(messages=(Message.user(text) for text in "ab"))) == ["a", "b"]


@pytest.mark.parametrize("messages", ["Go", b"Go", Message.user("Go"), None, 3, [Message.user("Go"), "Go"], ["Go"]])
def test_what_is_no_list_of_messages_is_refused(messages: Any) -> None:
    with pytest.raises(TypeError, match="messages"):
        State(messages=messages)


def test_a_wrong_item_is_named_by_its_index() -> None:
    with pytest.raises(TypeError, match=r"messages\[1\].*dict"):
        STATE(messages=[Message.user("Go"), {}])


def test_messages_are_recorded_as_one_import() -> None:
    messages = (Message.user("Go"), Message.assistant("Gone"))
    state = State(messages=messages)
    # 4 for each message, and a third of its characters rounded up
    assert state.history == (ContextChangeEntry(content=ContextChange("import", 0, 5 + 6, messages=messages), turn=0),)


def test_no_messages_record_nothing() -> None:
    assert State(messages=[]).history == ()


def test_messages_enter_as_they_are_given() -> None:
    messages = (
        Message("assistant", (RawBlock("acme", {"a": [1]}), READ), tokens=7, stop_reason="tool_use"),
        Message.user("Go"),
    )
    assert State(messages=messages).messages == messages


def test_an_imported_reply_is_no_reply_of_this_state() -> None:
    state = State(messages=[Message.user("Go"), Message("assistant", (READ,)), Message.assistant("done")])
    assert (state.answer, state.turn, state.usage, state.pending_calls) == (None, 0, Usage(), ())


@pytest.mark.parametrize(
    ("block", "place"),
    [
        (ToolCall("read", {"a": [1, {2}]}, "c1"), r"messages\[1\]\.content\[0\]\.args\['a'\]\[1\].*list"),
        (ToolCall("read", {"a": float("nan")}, "c1"), r"messages\[1\]\.content\[0\]\.args\['a'\]"),
        (RawBlock("acme", {"t": b""}), r"messages\[1\]\.content\[0\]\.data\['t'\].*bytes"),
    ],
)
def test_a_value_in_a_message_that_is_not_json_is_named_by_its_place(block: Any, place: str) -> None:
    with pytest.raises(TypeError, match=f"(?s){place}"):
        State(messages=[Message.user("Go"), Message("assistant", (block,))])


# Extra data


def test_extra_data_is_recorded_behind_the_messages_with_all_its_keys() -> None:
    state = State(messages=[Message.user("Go")], extra_data={"b": 1, "a": [2]})
    assert kinds(state) == ["context_change", "extra_data"]
    assert state.history[1] == ExtraDataEntry(content={"b": 1, "a": [2]}, removed=(), turn=0)
    assert list(state.extra_data) == ["b", "a"]


@pytest.mark.parametrize("extra_data", [{}, None])
def test_no_extra_data_records_nothing(extra_data: Any) -> None:
    assert State(extra_data=extra_data).history == ()


@pytest.mark.parametrize("extra_data", [[("a", 1)], "a", 3, [], ""])
def test_extra_data_that_is_no_mapping_is_refused(extra_data: Any) -> None:
    with pytest.raises(TypeError, match="extra_data is a mapping"):
        State(extra_data=extra_data)


def test_extra_data_may_be_any_mapping() -> None:
    assert State(extra_data=UserDict({"a": (1, 2)})).extra_data == {"a": [1, 2]}


def test_extra_data_that_is_not_json_is_named_by_its_place() -> None:
    with pytest.raises(TypeError, match=r"extra_data\['a'\]\['b'\]\[0\].*set"):
        State(extra_data={"a": {"b": [{1}]}})


def test_extra_data_is_a_frozen_copy() -> None:
    source = {"a": [1]}
    state = State(extra_data=source)
    source["a"].append(2)
    assert state.extra_data == {"a": [1]}
    assert isinstance(state.extra_data, FrozenDict)
    with pytest.raises(TypeError, match="read-only"):
        state.extra_data["a"].append(2)


# History


@pytest.mark.parametrize(
    "arguments", [{"messages": [Message.user("Go")]}, {"extra_data": {}}, {"extra_data": {"a": 1}}]
)
def test_history_excludes_messages_and_extra_data(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="history"):
        State(history=[], **arguments)


def test_history_goes_with_an_id_and_with_no_messages() -> None:
    assert State(id="copy", history=started().history, messages=[]).id == "copy"


def test_a_rebuilt_state_keeps_the_entries_and_their_times_and_has_an_id_of_its_own() -> None:
    state = pending()
    rebuilt = State(history=iter(state.history))
    assert all(mine is theirs for mine, theirs in zip(rebuilt.history, state.history, strict=True))
    assert rebuilt.created_at == state.created_at
    assert rebuilt.updated_at == state.updated_at
    assert rebuilt.id != state.id


def test_an_empty_history_is_an_empty_state() -> None:
    assert State(history=[]).snapshot() == StateSnapshot()


def test_a_history_may_end_in_the_middle_of_a_turn() -> None:
    state = pending()
    entries(state, tool_result("c2"))
    rebuilt = State(history=state.history)
    assert [call.id for call in rebuilt.pending_calls] == ["c1"]
    entries(rebuilt, tool_result("c1"))
    assert [block.call_id for block in rebuilt.messages[-1].content] == ["c1", "c2"]  # type: ignore[union-attr]


def test_a_history_may_end_while_waiting() -> None:
    rebuilt = State(history=[*started().history, REQUEST])
    assert value(rebuilt).waiting
    rebuilt.add_message(Message.user("more"))
    assert texts(rebuilt) == ["Go"]
    with pytest.raises(ValueError, match="waited on"):
        rebuilt.fork()
    with pytest.raises(ValueError, match="waited on"):
        rebuilt.restore(State().snapshot())


@pytest.mark.parametrize("item", ["user", None, {}, Message.user("Go"), ContextChange("import", 0, 0)])
def test_an_item_that_is_no_entry_is_named_by_its_index(item: Any) -> None:
    with pytest.raises(TypeError, match=rf"history\[1\].*{type(item).__name__}"):
        State(history=[*started().history, item])


@pytest.mark.parametrize("history", [3, "user", b"user", StateSnapshot(), State()])
def test_a_history_that_is_no_list_is_refused(history: Any) -> None:
    with pytest.raises(TypeError, match="history"):
        State(history=history)


PENDING = pending().history
WAITING = (*started().history, REQUEST)
CLOSED = (*PENDING, tool_result("c1"), tool_result("c2"))


@pytest.mark.parametrize(
    ("before", "invalid", "reason"),
    [
        (WAITING, REQUEST, "already waiting"),
        (PENDING, REQUEST, "pending"),
        (started().history, REPLY, "no request is waiting"),
        ((*WAITING, REPLY), REPLY, "no request is waiting"),
        (PENDING, tool_result("c9"), "'c9'"),
        ((*PENDING, tool_result("c1")), tool_result("c1"), "'c1'"),
        (CLOSED, tool_result("c1"), "'c1'"),
        (WAITING, change("import", messages=[Message.user("x")]), "waits"),
        (PENDING, change("import", messages=[Message.user("x")]), "pending"),
        (PENDING, change("compact", summary="s"), "pending"),
        (started().history, change("compact"), "summary"),
        (started().history, change("compact", summary="s", kept=-1), "-1"),
        (started().history, change("restore"), "None"),
        (started().history, change("restore", restored_to=-1), "-1"),
        (started().history, change("restore", restored_to=2), "2"),
        (started().history, change("forget"), "'forget'"),
    ],
)
def test_an_entry_that_cannot_follow_is_named_with_the_reason(before: Any, invalid: Any, reason: str) -> None:
    place = rf"history\[{len(before)}\] \({invalid.kind}\)"
    with pytest.raises(ValueError, match=f"(?s){place}.*{reason}.*whole"):
        State(history=[*before, invalid])


def test_what_no_live_state_records_is_accepted_all_the_same() -> None:
    finish = StopEntry(content=StoppedByFinish(1), turn=0)
    late = ToolResultEntry(content="x", call=READ, outcome=ToolOutcomeKind.DONE, late=True, turn=0)
    message = MessageEntry(kind="user", content="x", turn=0)
    run_start = RunStartEntry(content=AgentInfo(model="m"), turn=0)
    histories: list[list[Any]] = [
        [REQUEST],
        [finish, REQUEST],
        [finish, run_start],
        [ErrorEntry(content="x", turn=0)],
        [ErrorEntry(content="x", call=READ, turn=0), REQUEST, ErrorEntry(content="x", turn=0)],
        [late],
        [message, change("import", messages=[Message.user("y")])],
        [REQUEST, change("restore", restored_to=0)],
        [REQUEST, REPLY, change("restore", restored_to=1)],
        [*PENDING, tool_result("c1"), tool_result("c2"), change("restore", restored_to=len(PENDING))],
    ]
    for history in histories:
        assert len(State(history=history).history) == len(history)


def test_a_restored_point_that_was_waiting_waits_again() -> None:
    state = State(history=[*WAITING, REPLY, change("restore", restored_to=len(WAITING))])
    entries(state, REPLY)
    assert texts(state) == ["Go", "hi"]


def test_a_restored_point_with_pending_calls_has_them_pending_again() -> None:
    state = State(history=[*CLOSED, change("restore", restored_to=len(PENDING))])
    assert [call.id for call in state.pending_calls] == ["c1", "c2"]


# Subclasses


class Ticket(State):
    """A State with a method of its own."""

    def first_words(self) -> str:
        return self.messages[0].text


class Named(State):
    """A State with arguments of its own."""

    def __init__(self, name: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._name = name


def test_a_subclass_is_a_state() -> None:
    ticket = Ticket(id="t-1", messages=[Message.user("Go")])
    assert ticket.first_words() == "Go"
    with pytest.raises(TypeError, match="derived from history"):
        Ticket(turn=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="read-only"):
        ticket.turn = 3  # type: ignore[misc]


def test_a_subclass_may_have_arguments_of_its_own() -> None:
    named = Named("bob", id="n-1")
    assert (named.id, named.history) == ("n-1", ())


def test_states_with_equal_histories_are_different_states_with_equal_snapshots() -> None:
    state = started()
    twin = State(history=state.history)
    assert state != twin
    assert len({state, twin}) == 2
    assert state.snapshot() == twin.snapshot()
