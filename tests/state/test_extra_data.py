"""edit_extra_data: one block, one patch."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from histories import entries, kinds, pending, request, started, value, waiting

from alpineagents.state import State, journal_of
from alpineagents.types import ExtraDataEntry, Message


def edit(state: State, **values: Any) -> None:
    with state.edit_extra_data() as data:
        data.update(values)


def patches(state: State) -> list[tuple[dict[str, Any], tuple[str, ...]]]:
    return [(dict(e.content), e.removed) for e in state.history if isinstance(e, ExtraDataEntry)]


def test_the_block_gets_an_editable_copy_at_every_depth() -> None:
    state = State(extra_data={"a": {"b": [{"c": [1]}]}})
    with state.edit_extra_data() as data:
        assert type(data) is type(data["a"]) is type(data["a"]["b"][0]) is dict
        assert type(data["a"]["b"]) is list
        data["a"]["b"][0]["c"].append(2)
        assert state.extra_data == {"a": {"b": [{"c": [1]}]}}
        assert len(state.history) == 1
    assert state.extra_data == {"a": {"b": [{"c": [1, 2]}]}}


def test_the_entry_has_what_is_new_or_different_and_what_is_gone() -> None:
    state = State(extra_data={"d": 1, "c": 2, "b": 3, "a": {"x": 1, "y": 2}})
    with state.edit_extra_data() as data:
        del data["c"], data["d"]
        data["new"] = None
        data["a"]["x"] = 5
    assert len(state.history) == 2
    assert state.history[-1] == ExtraDataEntry(content={"a": {"x": 5, "y": 2}, "new": None}, removed=("d", "c"), turn=0)
    assert list(patches(state)[-1][0]) == ["a", "new"]


def test_a_key_may_only_go() -> None:
    state = State(extra_data={"a": 1, "b": 2})
    with state.edit_extra_data() as data:
        del data["a"]
    assert patches(state)[-1] == ({}, ("a",))
    assert state.extra_data == {"b": 2}


def test_the_entry_has_the_turn_of_its_end() -> None:
    state = started()
    with state.edit_extra_data() as data:
        data["a"] = 1
        request(state)
    assert state.history[-1].turn == 1


@pytest.mark.parametrize(
    ("old", "new"), [(1, 1.0), (1, True), (0, False), (0.0, -0.0), ("1", 1), (None, False), ([1], [True]), ({}, [])]
)
def test_values_differ_when_their_json_differs(old: Any, new: Any) -> None:
    state = State(extra_data={"a": old})
    edit(state, a=new)
    assert repr(state.extra_data["a"]) == repr(new)


@pytest.mark.parametrize(
    ("old", "new"), [({"y": 1, "x": {"q": 1, "p": 2}}, {"x": {"p": 2, "q": 1}, "y": 1}), ([1, 2], (1, 2)), ("é", "é")]
)
def test_values_are_the_same_when_their_json_is(old: Any, new: Any) -> None:
    state = State(extra_data={"a": old})
    before = value(state)
    edit(state, a=new)
    assert value(state) is before


def test_a_new_order_of_keys_is_no_change() -> None:
    state = State(extra_data={"a": 1, "b": 2})
    before = value(state)
    with state.edit_extra_data() as data:
        data["a"] = data.pop("a")
    assert value(state) is before


def test_a_block_that_changes_nothing_records_nothing_and_moves_no_time() -> None:
    state = State(extra_data={"a": [1]})
    before = state.updated_at
    with state.edit_extra_data() as data:
        data["a"].append(2)
        data["a"].pop()
    assert (len(state.history), state.updated_at) == (1, before)


@pytest.mark.parametrize(
    ("key", "bad", "place"),
    [
        ("a", {1}, r"state\.extra_data\['a'\].*set"),
        ("a", {"b": [0, b""]}, r"state\.extra_data\['a'\]\['b'\]\[1\].*bytes"),
        ("a", float("nan"), r"state\.extra_data\['a'\].*nan"),
        (3, 1, r"state\.extra_data.*3.*int"),
    ],
)
def test_what_is_not_json_is_named_at_the_end_and_nothing_is_recorded(key: Any, bad: Any, place: str) -> None:
    state = State(extra_data={"n": 1})
    before = value(state)
    with pytest.raises(TypeError, match=f"(?s){place}"), state.edit_extra_data() as data:
        data["n"] = 2
        data[key] = bad
    assert value(state) is before


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, StopIteration, GeneratorExit, SystemExit])
def test_an_exception_leaves_the_block_and_nothing_is_recorded(error: type[BaseException]) -> None:
    state = started()
    before = value(state)
    with pytest.raises(error), state.edit_extra_data() as data:
        data["a"] = 1
        raise error
    assert value(state) is before
    edit(state, a=2)
    assert state.extra_data == {"a": 2}


def test_the_recorded_values_are_copies() -> None:
    state = started()
    with state.edit_extra_data() as data:
        data["a"] = [1]
        kept = data["a"]
    earlier = state.snapshot()
    kept.append(2)
    edit(state, b=1)
    assert (state.extra_data, earlier.extra_data) == ({"a": [1], "b": 1}, {"a": [1]})


def test_it_works_while_waiting_with_calls_pending_and_after_finish() -> None:
    for state in (waiting(), pending()):
        edit(state, a=1)
        state.finish()
        edit(state, b=2)
        assert state.extra_data == {"a": 1, "b": 2}


def test_the_state_can_be_changed_inside_the_block() -> None:
    state = started()
    with state.edit_extra_data() as data:
        data["a"] = 1
        state.add_message(Message.user("more"))
        state.finish("done")
        state.compact("s")
    assert kinds(state)[1:] == ["user", "stop", "context_change", "extra_data"]


def test_after_a_restore_inside_the_block_only_what_the_block_changed_changes() -> None:
    state = State(extra_data={"a": 1, "b": 1, "c": 1})
    before = state.snapshot()
    edit(state, b=2, c=2)
    with state.edit_extra_data() as data:
        data["a"] = 5
        del data["c"]
        state.restore(before)
    assert state.extra_data == {"a": 5, "b": 1}
    assert patches(state)[-1] == ({"a": 5}, ("c",))


# Blocks inside blocks


def test_nested_edits() -> None:
    state = State(extra_data={"a": 1, "b": 1})
    with state.edit_extra_data() as outer:
        outer["a"] = 2
        with state.edit_extra_data() as inner:
            assert inner == {"a": 1, "b": 1}
            inner.update(a=5, c=1)
            del inner["b"]
        assert state.extra_data == {"a": 5, "c": 1}
    assert patches(state)[1:] == [({"a": 5, "c": 1}, ("b",)), ({"a": 2}, ())]
    assert state.extra_data == {"a": 2, "c": 1}


def test_an_inner_block_that_raises_leaves_the_outer_one_alone() -> None:
    state = started()
    with state.edit_extra_data() as outer:
        outer["a"] = 1
        with pytest.raises(OSError), state.edit_extra_data() as inner:
            inner["b"] = 1
            raise OSError
    assert state.extra_data == {"a": 1}


# Turns


def test_a_thread_waits_for_the_block_of_another() -> None:
    state, entered = started(), list[bool]()
    with state.edit_extra_data():
        other = threading.Thread(target=lambda: entered.append(journal_of(state).edits.acquire(blocking=False)))
        other.start()
        other.join(10)
    assert entered == [False]


def test_no_edit_is_lost_between_threads() -> None:
    state = State(extra_data={"n": 0})

    def count() -> None:
        for _ in range(50):
            with state.edit_extra_data() as data:
                data["n"] += 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert state.extra_data == {"n": 200}


@pytest.mark.parametrize("ending", [None, ValueError(), TypeError()])
def test_the_turn_is_given_back_however_a_block_ends(ending: BaseException | None) -> None:
    state, done = started(), list[bool]()
    try:
        with state.edit_extra_data() as data:
            data["a"] = {1} if isinstance(ending, TypeError) else 1
            if isinstance(ending, ValueError):
                raise ending
    except (TypeError, ValueError):
        pass

    def other() -> None:
        edit(state, b=2)
        done.append(True)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(10)
    assert done == [True]


def test_other_methods_go_on_from_other_threads_during_a_block() -> None:
    state = started()
    before = state.snapshot()

    def others() -> None:
        state.add_message(Message.user("more"))
        state.compact("s")
        state.restore(before)
        state.fork()
        state.finish()
        entries(state)

    with state.edit_extra_data() as data:
        thread = threading.Thread(target=others)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
        data["a"] = 1
    assert kinds(state)[1:] == ["user", "context_change", "context_change", "stop", "extra_data"]


def test_a_reader_never_sees_half_of_a_block() -> None:
    state = State(extra_data={"a": 0, "b": 0})
    stop, torn = threading.Event(), list[Any]()

    def read() -> None:
        while not stop.is_set():
            seen = dict(state.extra_data)
            if seen["a"] != seen["b"] or list(seen) != ["a", "b"]:
                torn.append(seen)

    thread = threading.Thread(target=read)
    thread.start()
    for number in range(300):
        edit(state, a=number, b=number)
    stop.set()
    thread.join(10)
    assert torn == []
