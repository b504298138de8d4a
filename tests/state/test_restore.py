"""restore: going back, and where one cannot go."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from histories import (
    LIST,
    READ,
    compact_by_model,
    entries,
    parts,
    pending,
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

from alpineagents.history import replay
from alpineagents.history.codec import decode, encode
from alpineagents.history.snapshot import StateSnapshot
from alpineagents.state import State, journal_of
from alpineagents.types import ContextChange, ContextChangeEntry, Message, StoppedByUntil, Usage

VALUES = ("messages", "turn", "extra_data", "finished", "answer", "stopped", "pending_calls")


def values(snapshot: StateSnapshot | State) -> list[Any]:
    return [getattr(snapshot, name) for name in VALUES]


def refused(state: State, snapshot: Any, error: type[Exception] = ValueError) -> str:
    """The message of a refusal that recorded nothing."""
    before = value(state)
    with pytest.raises(error) as raised:
        state.restore(snapshot)
    assert value(state) is before
    return str(raised.value)


def test_restore_takes_the_values_back_and_keeps_history_and_usage() -> None:
    state = State(messages=[Message.user("Count")], extra_data={"n": 1})
    think(state, "one")
    before = state.snapshot()
    with state.edit_extra_data() as data:
        data["n"] = 2
    state.add_message(Message.user("again"))
    think(state, "two")
    state.finish({"last": 2})
    assert (state.turn, state.answer) == (2, {"last": 2})
    state.restore(before)
    assert (state.turn, state.answer, state.finished, state.stopped) == (1, "one", False, None)
    assert (state.extra_data, len(state.messages)) == ({"n": 1}, 2)
    assert (state.usage.requests, len(state.history)) == (2, 10)
    entry = state.history[9]
    assert isinstance(entry, ContextChangeEntry)
    assert (entry.content.kind, entry.content.restored_to, entry.turn) == ("restore", 4, 2)
    assert (state.created_at, state.updated_at) == (before.created_at, entry.at)


def test_it_can_run_again_after_finish_is_taken_back_and_uses_the_turn_again() -> None:
    state = started()
    before = state.snapshot()
    think(state, "one")
    state.finish()
    state.restore(before)
    request(state)
    assert (state.turn, state.history[-1].turn) == (1, 1)


def test_the_parent_is_not_taken_back() -> None:
    state = started()
    before = state.snapshot()
    run_start(state, parent="p", call="c")
    state.restore(before)
    assert (state.parent_id, state.parent_call_id) == ("p", "c")


# Which snapshots


@pytest.mark.parametrize("snapshot", [None, (), started().history, 3, started()])
def test_what_is_no_snapshot_is_refused(snapshot: Any) -> None:
    assert "StateSnapshot" in refused(started(), snapshot, TypeError)


@pytest.mark.parametrize("other", [started("Else"), pending(), State(extra_data={"a": 1})])
def test_a_snapshot_of_another_state_is_refused_with_what_to_do(other: State) -> None:
    assert "State(history=snapshot.history)" in refused(started(), other.snapshot())


def test_a_snapshot_whose_last_entries_differ_is_refused() -> None:
    state = started()
    fork = state.fork()
    state.add_message(Message.user("mine"))
    fork.add_message(Message.user("yours"))
    refused(state, fork.snapshot())


def test_a_snapshot_of_another_long_state_is_refused_wherever_they_differ() -> None:
    states = [started("Go"), started("Else")]
    for number in range(150):
        for one in states:
            one.add_message(Message.user(str(number)))
    refused(states[0], states[1].snapshot())
    twin = State(history=states[0].history)
    states[0].restore(twin.snapshot())


def test_a_snapshot_of_the_future_is_refused() -> None:
    state = started()
    fork = state.fork()
    fork.add_message(Message.user("more"))
    refused(state, fork.snapshot())


def reloaded(state: State) -> State:
    closings = value(state).closings
    saved = [json.dumps(encode(e, seq, closings[seq])) for seq, e in enumerate(state.history)]
    return State(history=[decode(json.loads(text)) for text in saved])


@pytest.mark.parametrize("twin", [reloaded, State.fork, copy.copy])
def test_a_snapshot_from_before_works_on_a_state_with_the_same_history(twin: Callable[[State], State]) -> None:
    state = started()
    before = state.snapshot()
    think(state, "one")
    other = twin(state)
    for one in (other, state):
        one.restore(before)
        assert values(one) == values(before)


def test_a_snapshot_that_was_pickled_or_rebuilt_works() -> None:
    state = started()
    before = state.snapshot()
    think(state, "one")
    for snapshot in (pickle.loads(pickle.dumps(before)), State(history=before.history).snapshot()):
        state.restore(snapshot)
        assert texts(state) == ["Go"]


def test_the_history_of_a_snapshot_counts_and_not_its_other_values() -> None:
    state = started()
    think(state, "one")
    state.restore(StateSnapshot(history=state.history[:1], turn=9, messages=[Message.user("made up")]))
    assert (state.turn, texts(state)) == (0, ["Go"])


def test_the_empty_snapshot_clears_the_context() -> None:
    state = State(messages=[Message.user("Go")], extra_data={"a": 1})
    think(state, "one")
    state.restore(State().snapshot())
    assert values(state) == values(StateSnapshot())
    assert value(state).first_user is None


def test_any_earlier_snapshot_can_be_restored_in_any_order() -> None:
    state, snapshots = started(), list[StateSnapshot]()
    for number in range(5):
        think(state, str(number))
        stop(state, StoppedByUntil(str(number)))
        snapshots.append(state.snapshot())
    for index in (1, 4, 0, 0, 3, 2, 4):
        state.restore(snapshots[index])
        assert values(state) == values(snapshots[index])
        snapshots.append(state.snapshot())
    for index in (6, 2, 11, 5, 8):
        state.restore(snapshots[index])
        assert values(state) == values(snapshots[index])
    assert parts(value(State(history=state.history))) == parts(value(state))


def test_restoring_the_present_changes_no_value_and_is_recorded() -> None:
    state = started()
    think(state, "one")
    before = state.snapshot()
    state.restore(before)
    assert values(state) == values(before)
    assert len(state.history) == len(before.history) + 1


# When


@pytest.mark.parametrize("other", [None, State(extra_data={"a": 1}).snapshot()])
def test_the_snapshot_is_checked_before_the_state(other: Any) -> None:
    state = pending()
    if other is None:
        refused(state, other, TypeError)
    else:
        assert "of another" in refused(state, other)


def test_pending_calls_are_named_before_anything_is_said_of_the_snapshots_own() -> None:
    state = pending()
    message = refused(state, state.snapshot())
    assert 'read(path="a.py"), list()' in message
    assert "agent.use_tools(state)" in message


def test_it_is_refused_while_waiting() -> None:
    state = waiting()
    assert "the model is being waited on" in refused(state, State().snapshot())


def test_it_is_refused_while_a_model_writes_a_summary() -> None:
    state = started()
    journal_of(state).compacting = True
    assert "a model is writing a summary" in refused(state, state.snapshot())
    journal_of(state).compacting = False
    state.restore(state.snapshot())


def test_a_snapshot_taken_while_waiting_is_refused() -> None:
    state = waiting()
    middle = state.snapshot()
    reply(state, "hi")
    assert "taken while the model was being waited on" in refused(state, middle)


def test_a_snapshot_taken_while_calls_were_pending_is_refused_with_what_to_do() -> None:
    state = pending(READ)
    middle = state.snapshot()
    result(state, READ)
    message = refused(state, middle)
    assert "taken while calls were pending" in message
    assert "State(history=snapshot.history)" in message


def test_a_snapshot_built_by_hand_of_the_middle_of_a_turn_is_refused_too() -> None:
    state = pending(READ)
    result(state, READ)
    assert "pending" in refused(state, StateSnapshot(history=state.history[:3]))
    assert "waited on" in refused(state, StateSnapshot(history=state.history[:2]))


def test_a_new_state_of_a_snapshot_of_the_middle_of_a_turn_goes_on_there() -> None:
    state = pending()
    result(state, LIST, "listed")
    middle = state.snapshot()
    result(state, READ)
    again = State(history=middle.history)
    assert again.pending_calls == (READ,)
    result(again, READ)
    assert again.messages == state.messages


# What else goes back


def test_a_compaction_and_cleared_results_are_taken_back() -> None:
    state = started()
    think(state, READ, tokens=50)
    result(state, READ)
    before = state.snapshot()
    state.clear_tool_results(0)
    compact_by_model(state, "s", 0, Usage(requests=1))
    state.restore(before)
    assert state.messages == before.messages
    assert state.usage.requests == 2


def test_many_restores_cost_no_more_than_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    state, steps, step = started(), list[int](), replay.step

    def counted(now: Any, entry: Any) -> Any:
        steps.append(1)
        return step(now, entry)

    monkeypatch.setattr(replay, "step", counted)
    snapshots = [state.snapshot()]
    for number in range(400):
        state.add_message(Message.user(str(number)))
        snapshots.append(state.snapshot())
        state.restore(snapshots[number * 7 % len(snapshots)])
    assert len(steps) < 400 * 4 * 64
    steps.clear()
    State(history=state.history)
    assert len(steps) < 400 * 66


def test_a_restore_given_by_hand_may_go_anywhere() -> None:
    state = waiting()
    entries(state, ContextChangeEntry(content=ContextChange("restore", 0, 0, restored_to=1), turn=1))
    assert (state.turn, value(state).waiting) == (0, False)


class Counting(list[Any]):
    """A buffer that counts its items when they are read."""

    reads = 0

    def __getitem__(self, index: Any) -> Any:
        Counting.reads += len(self) if isinstance(index, slice) else 1
        return super().__getitem__(index)


def test_what_changes_the_context_neither_copies_nor_reads_the_whole_history() -> None:
    state = started()
    think(state, READ)
    result(state, READ)
    for number in range(2000):
        stop(state, StoppedByUntil(str(number)))
    history = value(state).history
    history._buffer = buffer = Counting(history._buffer)
    stop(state, StoppedByUntil("last"))
    before, Counting.reads = state.snapshot(), 0
    state.clear_tool_results(0)
    state.compact("s")
    state.restore(before)
    state.restore(state.snapshot())
    assert value(state).history._buffer is buffer
    assert Counting.reads < 500
