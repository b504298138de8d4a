"""fork: the same history, and nothing shared."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from histories import LIST, READ, pending, reply, result, started, texts, think, value, waiting

from alpineagents.journal import Batch
from alpineagents.state import State, journal_of
from alpineagents.types import AgentInfo, Message


def test_a_fork_has_an_equal_snapshot_and_a_new_random_id() -> None:
    state = pending()
    fork = state.fork()
    assert fork.snapshot() == state.snapshot()
    assert fork.history == state.history
    assert fork.id != state.id
    assert re.fullmatch("[0-9a-f]{32}", fork.id)


def test_what_happens_to_one_does_not_reach_the_other() -> None:
    state = State(messages=[Message.user("Go")], extra_data={"a": [1]})
    fork = state.fork()
    for one, name in ((state, "mine"), (fork, "yours"), (state, "mine too"), (fork, "yours too")):
        one.add_message(Message.user(name))
        with one.edit_extra_data() as data:
            data["a"].append(name)
    state.finish()
    assert texts(state) == ["Go", "mine", "mine too"]
    assert texts(fork) == ["Go", "yours", "yours too"]
    assert (state.extra_data, fork.extra_data) == ({"a": [1, "mine", "mine too"]}, {"a": [1, "yours", "yours too"]})
    assert (state.finished, fork.finished) == (True, False)


def test_a_fork_of_a_finished_state_is_finished_and_its_messages_start_a_new_one() -> None:
    state = started()
    state.finish("done")
    assert (state.fork().finished, state.fork().answer) == (True, "done")
    assert not State(messages=state.messages).finished


def test_a_fork_is_refused_while_waiting_with_when_to_fork() -> None:
    state = waiting()
    before = value(state)
    with pytest.raises(ValueError, match=r"before think or after it returns.*Reporter\.on_think_end"):
        state.fork()
    assert value(state) is before


def test_each_needs_its_own_results() -> None:
    state = pending()
    result(state, LIST)
    fork = state.fork()
    result(state, READ, "mine")
    assert fork.pending_calls == (READ,)
    result(fork, READ, "yours")
    think(fork, "done")
    assert (len(state.messages), len(fork.messages)) == (3, 4)


class Nowhere:
    created = through = True

    def write(self, batch: Batch) -> None:
        batch.committed()

    async def awrite(self, batch: Batch) -> None:
        batch.committed()


def test_a_fork_is_bound_to_nothing_and_neither_runs_nor_compacts() -> None:
    state = started()
    journal = journal_of(state)
    journal.bind(Nowhere(), 1)
    journal.running = journal.compacting = True
    journal.loaded_run = AgentInfo(model="m")
    journal.on_change = print
    copied = journal_of(state.fork())
    assert (copied.sink, copied.saved, copied.on_change, copied.loaded_run) == (None, 0, None, None)
    assert not copied.running
    assert not copied.compacting


def test_a_fork_remembers_where_it_came_from() -> None:
    state = pending()
    journal = journal_of(state.fork())
    assert journal.forked == (state.id, 3)
    assert journal.origin is journal_of(state)
    rebuilt = journal_of(State(history=state.history))
    assert (rebuilt.forked, rebuilt.origin) == (None, None)


def test_forks_that_record_at_once_do_not_mix() -> None:
    state = started()
    for number in range(100):
        state.add_message(Message.user(str(number)))
    base, together = texts(state), threading.Barrier(4)
    states = [state, *[state.fork() for _ in range(3)]]

    def work(one: State, name: str) -> None:
        together.wait()
        for number in range(200):
            one.add_message(Message.user(f"{name}{number}"))

    threads = [threading.Thread(target=work, args=(one, name)) for one, name in zip(states, "abcd", strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for one, name in zip(states, "abcd", strict=True):
        assert texts(one) == [*base, *[f"{name}{number}" for number in range(200)]]


def test_a_fork_of_a_fork_and_of_an_earlier_point_goes_its_own_way() -> None:
    state = started()
    before = state.snapshot()
    first = state.fork()
    first.add_message(Message.user("a"))
    second = first.fork()
    second.restore(before)
    second.add_message(Message.user("b"))
    first.add_message(Message.user("c"))
    assert [texts(one) for one in (state, first, second)] == [["Go"], ["Go", "a", "c"], ["Go", "b"]]


def test_a_fork_after_the_reply_works() -> None:
    state = waiting()
    reply(state, "hi")
    fork: Any = state.fork()
    assert fork.answer == "hi"
