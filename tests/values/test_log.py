"""The immutable sequence that grows in constant time: it behaves like a list, whatever grew beside it."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule

from alpineagents.values.log import Log

ITEMS = st.integers(0, 2) | st.none()  # few, and small ints are the same object everywhere: branches often agree


class Branches(RuleBasedStateMachine):
    """Logs grown from each other in any order, each beside the list it should equal."""

    logs: Bundle[tuple[Log[Any], list[Any]]] = Bundle("logs")

    def __init__(self) -> None:
        super().__init__()
        self.all: list[tuple[Log[Any], list[Any]]] = []

    def kept(self, log: Log[Any], items: list[Any]) -> tuple[Log[Any], list[Any]]:
        self.all.append((log, items))
        return log, items

    @rule(target=logs, items=st.lists(ITEMS, max_size=3))
    def make(self, items: list[Any]) -> Any:
        return self.kept(Log(items), items)

    @rule(target=logs, grown=logs, item=ITEMS)
    def plus(self, grown: tuple[Log[Any], list[Any]], item: Any) -> Any:
        return self.kept(grown[0].plus(item), [*grown[1], item])

    @rule(target=logs, grown=logs, items=st.lists(ITEMS, max_size=4))
    def extended(self, grown: tuple[Log[Any], list[Any]], items: list[Any]) -> Any:
        return self.kept(grown[0].extended(items), [*grown[1], *items])

    @rule(target=logs, grown=logs)
    def copied(self, grown: tuple[Log[Any], list[Any]]) -> Any:
        return self.kept(pickle.loads(pickle.dumps(grown[0])), grown[1])

    def teardown(self) -> None:
        for log, items in self.all:
            assert list(log) == items
            assert log.whole() == tuple(items)
            assert len(log) == len(items)
            assert [log.tail(start) for start in range(len(items) + 2)] == [items[n:] for n in range(len(items) + 2)]
            assert [log[index] for index in range(-len(items), len(items))] == [*items, *items]


TestBranches = Branches.TestCase
TestBranches.settings = settings(max_examples=60, stateful_step_count=20)


def test_growing_leaves_a_log_as_it_was() -> None:
    log = Log([1, 2])
    log.plus(3)
    assert list(log) == [1, 2]


def test_a_log_shares_nothing_with_the_list_it_was_made_of() -> None:
    items = [1]
    log = Log(items)
    items.append(2)
    assert list(log) == [1]


def test_growing_the_newest_log_copies_nothing() -> None:
    log = Log([1])
    newest = log.plus(2).plus(3)
    assert newest._buffer is log._buffer


def test_growing_an_older_log_again_copies_its_part_once() -> None:
    old = Log([1])
    old.plus(2)
    branch = old.plus(3)
    assert branch._buffer is not old._buffer
    assert branch.plus(4)._buffer is branch._buffer


def test_an_empty_log_keeps_no_items_of_the_logs_grown_from_it() -> None:
    empty: Log[int] = Log()
    empty.plus(1)
    assert empty._buffer == []


@pytest.mark.parametrize("index", [2, 3, -3, 99])
def test_an_index_outside_a_log_is_an_error_also_when_a_longer_one_shares_its_buffer(index: int) -> None:
    log = Log([1, 2])
    log.plus(3).plus(4)
    with pytest.raises(IndexError):
        log[index]


def test_a_log_can_be_iterated_while_it_is_grown() -> None:
    log = Log([1, 2])
    seen: list[int] = []
    for item in log:
        log = log.plus(item)
        seen.append(item)
    assert (seen, list(log)) == ([1, 2], [1, 2, 1, 2])


def test_logs_are_compared_by_their_items() -> None:
    short = Log([1])
    long = short.plus(2)
    assert short == Log([1])
    assert long == Log([1, 2])
    assert short != long
    assert short != [1]


def test_a_log_has_no_hash() -> None:
    with pytest.raises(TypeError):
        hash(Log([1]))


def test_the_repr_of_a_log_is_that_of_its_items() -> None:
    log = Log([1])
    log.plus(2)
    assert repr(log) == "Log([1])"


@given(st.lists(st.lists(st.integers(), max_size=2), max_size=5))
def test_a_copy_of_a_log_holds_its_own_items_only(items: list[Any]) -> None:
    log = Log(items)
    log.plus("beyond")
    for copied in (copy.copy(log), copy.deepcopy(log), pickle.loads(pickle.dumps(log, 0))):
        assert copied == log
        assert copied._buffer == items


class Overtaken(list[Any]):
    """A buffer that another thread appends to right before we do."""

    def append(self, item: Any) -> None:
        super().append("theirs")
        super().append(item)


def test_an_append_of_another_thread_at_the_same_moment_is_noticed() -> None:
    log = Log([1])
    log._buffer = Overtaken(log._buffer)
    ours = log.plus("ours")
    assert (list(ours), list(ours.plus(2)), list(log.plus("theirs").plus(3))) == (
        [1, "ours"],
        [1, "ours", 2],
        [1, "theirs", 3],
    )


@pytest.fixture
def quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("quick_switches")
def test_threads_that_grow_one_log_do_not_see_each_other() -> None:
    log, together = Log(range(10)), threading.Barrier(4)

    def grown(name: int) -> list[list[Any]]:
        together.wait()
        branches = [log]
        for step in range(300):
            branches.append(branches[-1].plus((name, step)))
        return [list(branch) for branch in branches]

    with ThreadPoolExecutor(4) as pool:
        for name, branches in enumerate(pool.map(grown, range(4))):
            items = [*range(10), *[(name, step) for step in range(300)]]
            assert branches == [items[: 10 + length] for length in range(301)]
    assert list(log) == list(range(10))
