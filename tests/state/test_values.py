"""What a State shows, and that reading is all one can do to it."""

from __future__ import annotations

import copy
import inspect
import pickle
import threading
from typing import Any

import pytest
from histories import READ, ask, kinds, pending, reply, request, result, run_start, started, texts, think, value

from alpineagents.history.snapshot import StateSnapshot
from alpineagents.state import State, journal_of
from alpineagents.types import Message, StoppedByFinish, Usage

PROPERTIES = [name for name, member in inspect.getmembers(State) if isinstance(member, property)]
METHODS = ["add_message", "finish", "compact", "clear_tool_results", "edit_extra_data", "restore", "fork", "snapshot"]


def test_every_value_is_a_property() -> None:
    assert set(PROPERTIES) == {
        *("id", "history", "messages", "pending_calls", "turn", "usage", "extra_data", "finished", "answer", "stopped"),
        *("created_at", "updated_at", "parent_id", "parent_call_id"),
    }


# Values


def test_turn_counts_replies_and_the_request_that_waits() -> None:
    state = started()
    turns = [state.turn]
    for action in (request, reply, request, reply):
        action(state)
        turns.append(state.turn)
    assert turns == [0, 1, 1, 2, 2]


def test_answer_is_the_text_of_the_latest_reply_that_asked_for_no_tools() -> None:
    state = started()
    think(state, "first")
    think(state, "looking", READ)
    assert state.answer == "first"
    result(state, READ)
    think(state, "second")
    assert state.answer == "second"


def test_an_empty_reply_is_an_empty_answer() -> None:
    state = started()
    think(state)
    assert state.answer == ""


@pytest.mark.parametrize("answer", ["", 0, False, [], {}])
def test_a_false_answer_is_an_answer(answer: Any) -> None:
    state = started()
    think(state, "text")
    state.finish(answer)
    assert repr(state.answer) == repr(answer)  # 0 == False


def test_usage_adds_up_requests_questions_summaries_and_subagents() -> None:
    state = started()
    think(state, READ)
    result(state, READ, usage=Usage(requests=2, cost=1.0))
    ask(state, "Why?", "so", Usage(requests=1, cost=0.25))
    assert state.usage == Usage(10, 2, requests=4, cost=1.75)


def test_pending_calls_are_in_the_order_asked() -> None:
    state = pending()
    assert [call.id for call in state.pending_calls] == ["c1", "c2"]


def test_times_are_those_of_the_first_and_of_the_latest_entry() -> None:
    state = pending()
    assert state.created_at == state.history[0].at
    assert state.updated_at == state.history[-1].at


def test_the_parent_is_that_of_the_first_run_that_has_one() -> None:
    state = started()
    run_start(state)
    assert (state.parent_id, state.parent_call_id) == (None, None)
    run_start(state, parent="p", call="c")
    run_start(state, parent="q", call="d")
    assert (state.parent_id, state.parent_call_id) == ("p", "c")


# Reading changes nothing


@pytest.mark.parametrize("name", PROPERTIES)
def test_reading_a_property_records_nothing_and_takes_no_lock(name: str) -> None:
    state = pending()
    before, read = value(state), list[Any]()
    with journal_of(state)._lock, journal_of(state).edits:
        reader = threading.Thread(target=lambda: read.append(getattr(state, name)))
        reader.start()
        reader.join(10)
    assert len(read) == 1
    assert value(state) is before


def test_what_reads_return_cannot_change_the_state() -> None:
    state = State(messages=[Message.user("Go")], extra_data={"a": {"b": [1]}})
    think(state, READ)
    state.finish({"rows": [1]})
    for frozen in (state.pending_calls[0].args, state.extra_data, state.extra_data["a"], state.answer):
        with pytest.raises(TypeError, match="read-only"):
            frozen["new"] = 1
    for frozen in (state.extra_data["a"]["b"], state.answer["rows"]):
        with pytest.raises(TypeError, match="read-only"):
            frozen.append(2)
    for values in (state.history, state.messages, state.pending_calls, state.messages[0].content):
        assert type(values) is tuple
    for item in (state.history[0], state.messages[0], state.usage, state.stopped, state.pending_calls[0]):
        with pytest.raises(AttributeError):
            item.new = 1  # type: ignore[union-attr]


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_can_neither_be_assigned_nor_deleted(name: str) -> None:
    state = started()
    before = getattr(state, name)
    with pytest.raises(AttributeError, match=rf"state\.{name} is read-only\nFix: "):
        setattr(state, name, before)
    with pytest.raises(AttributeError, match=rf"state\.{name} is read-only"):
        delattr(state, name)
    assert getattr(state, name) == before


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("messages", "add_message, compact or restore"),
        ("extra_data", "edit_extra_data"),
        ("finished", "finish"),
        ("answer", "finish"),
        ("pending_calls", "use_tools"),
        ("turn", "think"),
        ("usage", "think"),
        ("id", "construction"),
    ],
)
def test_the_refusal_says_what_changes_a_value(name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=hint):
        setattr(started(), name, None)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_cannot_be_overwritten(name: str) -> None:
    state = started()
    with pytest.raises(AttributeError, match="methods of State cannot be overwritten"):
        setattr(state, name, print)
    with pytest.raises(AttributeError, match="methods of State cannot be overwritten"):
        delattr(state, name)


def test_another_name_is_refused_with_a_place_for_own_values() -> None:
    state: Any = started()
    with pytest.raises(AttributeError, match=r"(?s)'note'.*extra_data"):
        state.note = 1
    with pytest.raises(AttributeError, match="'note'"):
        del state.note
    assert not hasattr(state, "note")


def test_a_private_name_may_be_assigned() -> None:
    state: Any = started()
    state._note = 1
    assert state._note == 1
    del state._note
    assert not hasattr(state, "_note")


def test_an_unknown_attribute_is_missing() -> None:
    state: Any = started()
    with pytest.raises(AttributeError, match="nothing"):
        _ = state.nothing
    assert not hasattr(state, "nothing")
    assert getattr(state, "nothing", 3) == 3


# Copies


def test_a_state_cannot_be_pickled() -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(started(), protocol)


def test_a_state_cannot_be_deep_copied() -> None:
    with pytest.raises(TypeError, match="cannot be deep-copied"):
        copy.deepcopy(started())


def test_its_history_can_be_pickled_and_copied() -> None:
    history = pending().history
    assert pickle.loads(pickle.dumps(history)) == history
    assert copy.deepcopy(history) == history


def test_a_shallow_copy_has_the_same_history() -> None:
    state = pending()
    twin = copy.copy(state)
    assert twin.history == state.history
    twin.add_message(Message.user("more"))
    assert kinds(state)[-1] == "model_reply"


# Snapshots of it


def test_a_snapshot_is_the_same_object_until_something_is_recorded() -> None:
    state = started()
    before = state.snapshot()
    assert state.snapshot() is before
    state.add_message(Message.user("more"))
    assert state.snapshot() is not before
    assert texts(state) == ["Go", "more"]
    assert [message.text for message in before.messages] == ["Go"]


def test_threads_that_ask_at_once_get_the_same_snapshot() -> None:
    for _ in range(50):
        state = started()
        together, seen = threading.Barrier(4), list[StateSnapshot]()

        def look(state: State = state, together: threading.Barrier = together, seen: Any = seen) -> None:
            together.wait()
            seen.append(state.snapshot())

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(snapshot) for snapshot in [*seen, state.snapshot()]}) == 1


# Text


def test_repr_counts_what_there_is() -> None:
    state = State(id="trip-4", history=pending().history)
    assert repr(state) == "<State id='trip-4' turn=1 history=3 messages=2 pending=2>"


def test_repr_says_that_it_is_finished() -> None:
    state = State(id="trip-4")
    state.finish()
    assert repr(state) == "<State id='trip-4' turn=0 history=1 messages=0 pending=0 finished>"
    assert state.stopped == StoppedByFinish()


def test_str_of_an_empty_state_is_empty() -> None:
    assert str(State()) == ""


def test_str_has_a_line_for_each_entry() -> None:
    state = started()
    state.add_message(Message.user("more"))
    assert str(state) == "[turn 0] context_change import: 1 messages\n[turn 0] user: more"
