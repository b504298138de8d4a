"""A snapshot is a frozen value."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import Any

import pytest
from histories import LIST, READ, fail, parts, pending, result, started, think, waiting

from alpineagents.history.replay import replay
from alpineagents.history.snapshot import StateSnapshot, snapshot_of, value_of
from alpineagents.state import State
from alpineagents.types import Message, MessageEntry, StoppedByLimit, Usage
from alpineagents.values.frozen import FrozenDict

SNAPSHOT: Any = StateSnapshot  # what no type checker lets through
NAMES = [
    *("history", "messages", "pending_calls", "turn", "usage", "extra_data", "finished", "answer", "stopped"),
    *("created_at", "updated_at"),
]
TIME = datetime(2026, 1, 1, tzinfo=UTC)
OTHER: dict[str, Any] = {
    "history": [MessageEntry(kind="user", content="Go", turn=0)],
    "messages": [Message.user("Go")],
    "pending_calls": [READ],
    "turn": 3,
    "usage": Usage(1),
    "extra_data": {"a": [1]},
    "finished": True,
    "answer": {"a": [1]},
    "stopped": StoppedByLimit(1),
}


def middle() -> State:
    """A State with something in every part, in the middle of a turn."""
    state = State(messages=[Message.user("Go")], extra_data={"a": {"b": [1]}})
    think(state, READ)
    result(state, READ)
    fail(state, ValueError("late"))
    think(state, "looking", READ, LIST)
    result(state, LIST, "gone", late=True)
    result(state, READ)
    state.add_message(Message.user("held"))
    return state


def test_it_has_exactly_the_documented_names() -> None:
    assert [name for name in dir(StateSnapshot()) if not name.startswith("_")] == sorted(NAMES)


def test_without_arguments_it_is_the_value_of_an_empty_state() -> None:
    assert StateSnapshot() == State().snapshot()
    assert [getattr(StateSnapshot(), name) for name in NAMES] == [getattr(State(), name) for name in NAMES]


@pytest.mark.parametrize("name", OTHER)
def test_it_shows_what_it_is_given(name: str) -> None:
    given = OTHER[name]
    shown = getattr(SNAPSHOT(**{name: given}), name)
    assert shown == (tuple(given) if isinstance(given, list) else given)


def test_it_shows_the_times_it_is_given() -> None:
    snapshot = StateSnapshot(created_at=TIME, updated_at=TIME)
    assert (snapshot.created_at, snapshot.updated_at) == (TIME, TIME)


def test_arguments_are_keywords_that_it_knows() -> None:
    with pytest.raises(TypeError):
        SNAPSHOT(())
    with pytest.raises(TypeError):
        SNAPSHOT(id="a")


@pytest.mark.parametrize("name", [*NAMES, "_value", "_history", "new", "__class__"])
def test_no_attribute_can_be_set_or_deleted(name: str) -> None:
    snapshot = middle().snapshot()
    with pytest.raises(FrozenInstanceError):
        setattr(snapshot, name, 1)
    with pytest.raises(FrozenInstanceError):
        delattr(snapshot, name)


def test_sequences_are_tuples_and_data_is_frozen_at_every_depth() -> None:
    for snapshot in (middle().snapshot(), SNAPSHOT(**OTHER)):
        assert all(type(getattr(snapshot, name)) is tuple for name in ("history", "messages", "pending_calls"))
    data = middle().snapshot().extra_data
    assert type(data) is type(data["a"]) is FrozenDict
    with pytest.raises(TypeError, match="read-only"):
        data["a"]["b"].append(2)


def test_what_it_is_built_of_does_not_reach_it_later() -> None:
    source: dict[str, Any] = {
        "history": [*OTHER["history"]],
        "messages": [Message.user("Go")],
        "extra_data": {"a": [1]},
    }
    snapshot = StateSnapshot(**source)
    source["history"].clear()
    source["messages"].clear()
    source["extra_data"]["a"].append(2)
    assert (len(snapshot.history), len(snapshot.messages), snapshot.extra_data) == (1, 1, {"a": [1]})


def test_equal_histories_give_equal_snapshots_whenever_they_were_recorded() -> None:
    first, second = started().snapshot(), started().snapshot()
    assert first.created_at != second.created_at
    assert first == second


@pytest.mark.parametrize("name", OTHER)
def test_each_value_counts_when_snapshots_are_compared(name: str) -> None:
    assert SNAPSHOT(**{name: OTHER[name]}) == SNAPSHOT(**{name: OTHER[name]})
    assert SNAPSHOT(**{name: OTHER[name]}) != StateSnapshot()


def test_times_do_not_count_when_snapshots_are_compared() -> None:
    assert StateSnapshot(created_at=TIME, updated_at=TIME) == StateSnapshot()


@pytest.mark.parametrize("other", [None, (), {}, "<StateSnapshot>", State()])
def test_it_is_unequal_to_anything_else(other: object) -> None:
    assert StateSnapshot() != other


def test_it_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(StateSnapshot())


def test_repr_counts_what_there_is() -> None:
    assert repr(pending().snapshot()) == "<StateSnapshot turn=1 history=3 messages=2 pending=2>"
    assert repr(StateSnapshot(finished=True)) == "<StateSnapshot turn=0 history=0 messages=0 pending=0 finished>"


@pytest.mark.parametrize("make", [State, started, waiting, pending, middle])
def test_a_copy_is_equal_in_every_part(make: Any) -> None:
    snapshot = make().snapshot()
    pickles = [pickle.loads(pickle.dumps(snapshot, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for twin in [*pickles, copy.deepcopy(snapshot), copy.copy(snapshot)]:
        assert twin == snapshot
        assert repr(twin) == repr(snapshot)
        assert (twin.created_at, twin.updated_at) == (snapshot.created_at, snapshot.updated_at)
        assert parts(value_of(twin)) == parts(value_of(snapshot))


def test_a_copy_is_still_frozen() -> None:
    twin = pickle.loads(pickle.dumps(middle().snapshot()))
    with pytest.raises(TypeError, match="read-only"):
        twin.extra_data["a"]["b"].append(2)
    with pytest.raises(FrozenInstanceError):
        twin.turn = 0


def test_a_copy_of_a_snapshot_can_be_restored() -> None:
    state = started()
    before = pickle.loads(pickle.dumps(state.snapshot()))
    state.add_message(Message.user("more"))
    state.restore(before)
    assert len(state.messages) == 1


def test_the_cache_of_earlier_values_is_in_no_comparison_and_in_no_pickle() -> None:
    state = started()
    for number in range(300):
        state.add_message(Message.user(str(number)))
    snapshot = state.snapshot()
    rebuilt = snapshot_of(value_of(snapshot).changed(kept=value_of(StateSnapshot()).kept))
    assert rebuilt == snapshot
    assert not len(value_of(pickle.loads(pickle.dumps(snapshot))).kept)
    assert replay(snapshot.history) == snapshot


def test_a_snapshot_reads_the_same_tuples_each_time() -> None:
    snapshot = middle().snapshot()
    assert snapshot.history is snapshot.history
    assert snapshot.messages is snapshot.messages
    assert snapshot.pending_calls is snapshot.pending_calls
