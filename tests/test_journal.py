"""How a change gets into the value and into the sink."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from disk import Disk, add, bound, ended, in_background
from histories import LIST, READ, fail, pending, request, result, started, texts, value

from alpineagents.errors import MovedOnError
from alpineagents.history import rules
from alpineagents.history.value import Value
from alpineagents.journal import Batch, Journal
from alpineagents.state import State, journal_of
from alpineagents.types import ErrorEntry

# Facts


def test_a_fact_shows_at_once_and_is_written_by_the_next_commit() -> None:
    state = started()
    journal, disk = bound(state)
    request(state)
    fail(state, TimeoutError())
    assert (state.turn, disk.writes) == (0, [])
    journal.commit()
    assert disk.rows == list(state.history)
    assert (disk.writes, journal.saved) == ([2], 3)


def test_a_commit_with_nothing_new_writes_nothing() -> None:
    journal, disk = bound(started())
    journal.commit()
    asyncio.run(journal.acommit())
    assert disk.writes == []


def test_without_a_sink_a_commit_does_nothing() -> None:
    state = started()
    journal_of(state).commit()
    asyncio.run(journal_of(state).acommit())
    assert journal_of(state).saved == 0


def test_a_state_without_history_is_written_once() -> None:
    journal, disk = bound(State(), created=False)
    journal.commit()
    journal.commit()
    assert (disk.writes, disk.created) == ([0], True)


def test_a_record_is_checked_built_and_applied_under_one_lock() -> None:
    journal = journal_of(started())

    def rule(now: Value) -> Any:
        assert now is journal.now
        taken = list[bool]()
        ended(in_background(lambda: taken.append(journal._lock.acquire(blocking=False))))
        assert taken == [False]
        return ()

    assert journal.record(rule) == ()


def test_a_rule_that_raises_changes_nothing_and_leaves_the_lock_free() -> None:
    state = started()
    before = value(state)
    with pytest.raises(ValueError, match="no pending call"):
        result(state, READ)
    assert value(state) is before
    ended(in_background(lambda: add(state)))
    assert texts(state) == ["Go", "more"]


def test_what_cannot_be_written_stays_queued_in_order() -> None:
    state = started()
    journal, disk = bound(state)
    disk.errors = [OSError("full"), OSError("full")]
    request(state)
    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            journal.commit()
    assert (state.turn, journal.saved) == (1, 1)
    fail(state, TimeoutError())
    journal.commit()
    assert disk.rows == list(state.history)
    assert disk.writes == [2]


def test_only_what_is_not_saved_is_written() -> None:
    state = pending()
    journal = journal_of(state)
    disk = Disk(journal)
    journal.bind(disk, 3)
    result(state, READ)
    journal.commit()
    assert disk.writes == [1]


def test_flush_commits_only_what_is_to_be_written_at_once() -> None:
    for through, writes in ((True, [1, 1]), (False, [])):
        state = started()
        journal, disk = bound(state, through=through)
        request(state)
        journal.flush()
        fail(state, OSError())
        asyncio.run(journal.aflush())
        assert disk.writes == writes


def settle(journal: Journal, asynchronous: bool) -> None:
    if asynchronous:
        asyncio.run(journal.asettle())
    else:
        journal.settle()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_settling_has_the_sink_write_again_when_a_result_was_written_last(asynchronous: bool) -> None:
    state = pending(READ)
    journal, disk = bound(state)
    result(state, READ)
    settle(journal, asynchronous)
    assert (disk.writes, journal.loose) == ([1, 0], False)
    settle(journal, asynchronous)
    assert disk.writes == [1, 0]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_settling_writes_once_when_a_request_was_written_last(asynchronous: bool) -> None:
    state = started()
    journal, disk = bound(state)
    request(state)
    settle(journal, asynchronous)
    assert disk.writes == [1]


def test_a_state_bound_behind_a_result_that_was_written_before_is_settled_too() -> None:
    state = pending(READ)
    result(state, READ)
    journal, disk = bound(state)
    journal.settle()
    assert disk.writes == [0]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_settling_goes_on_while_results_come(asynchronous: bool) -> None:
    class Meanwhile(Disk):
        def commit(self, batch: Batch) -> None:
            super().commit(batch)
            if len(self.writes) == 1:
                result(state, LIST)

    state = pending(READ, LIST)
    journal = journal_of(state)
    disk = Meanwhile(journal)
    journal.bind(disk, len(state.history))
    result(state, READ)
    settle(journal, asynchronous)
    assert (disk.writes, journal.loose) == ([1, 1, 0], False)


# Commands


def test_a_command_is_written_before_it_shows() -> None:
    state = started()
    _, disk = bound(state)
    add(state)
    assert disk.shown == [1]
    assert disk.rows == list(state.history)
    assert texts(state) == ["Go", "more"]


def test_a_command_that_cannot_be_written_changes_nothing() -> None:
    state = started()
    journal, disk = bound(state)
    before = state.snapshot()
    commands: list[Callable[[], object]] = [
        lambda: add(state),
        lambda: state.finish(1),
        lambda: state.compact("s"),
        lambda: state.restore(before),
    ]
    for command in commands:
        disk.errors = [OSError("full")]
        with pytest.raises(OSError, match="full"):
            command()
        assert state.snapshot() is before
    with pytest.raises(OSError, match="full"), state.edit_extra_data() as data:
        disk.errors = [OSError("full")]
        data["a"] = 1
    assert state.snapshot() is before
    assert (disk.writes, journal.saved) == ([], 1)
    add(state)
    assert disk.rows == list(state.history)


def test_a_refused_command_is_not_told_to_anybody() -> None:
    state = started()
    journal, disk = bound(state)
    told = list[Any]()
    journal.on_change = told.append
    disk.errors = [OSError()]
    with pytest.raises(OSError):
        state.compact("s")
    assert told == []


def test_a_command_first_writes_what_is_queued() -> None:
    state = started()
    _, disk = bound(state)
    request(state)
    add(state)
    assert disk.writes == [1, 1]
    assert disk.rows == list(state.history)


def test_a_command_is_not_applied_when_the_queue_cannot_be_written() -> None:
    state = started()
    _, disk = bound(state)
    request(state)
    before = value(state)
    disk.errors = [OSError("full")]
    with pytest.raises(OSError):
        add(state)
    assert value(state) is before
    add(state)
    assert disk.rows == list(state.history)


def test_the_queue_is_saved_although_the_command_behind_it_fails() -> None:
    state = started()
    journal, disk = bound(state)
    request(state)
    disk.full_after = 1
    with pytest.raises(OSError, match="full"):
        add(state)
    assert (len(disk.rows), journal.saved, len(state.history)) == (2, 2, 2)


def test_a_command_that_records_nothing_writes_nothing() -> None:
    state = started()
    _, disk = bound(state)
    request(state)
    state.clear_tool_results(0)
    with state.edit_extra_data():
        pass
    assert disk.writes == []


def test_without_write_through_a_command_waits_for_the_next_commit() -> None:
    state = started()
    journal, disk = bound(state, through=False)
    add(state)
    assert (texts(state), disk.writes) == (["Go", "more"], [])
    journal.commit()
    assert disk.rows == list(state.history)


def test_entries_of_one_change_are_written_together() -> None:
    state = pending()
    journal, disk = bound(state)
    state.finish()
    journal.record(rules.end_of_run, KeyboardInterrupt())
    journal.commit()
    assert disk.writes == [1, 3]


# Interrupts


def test_an_interrupt_between_the_commit_and_its_return_hides_no_command() -> None:
    state = started()
    journal, disk = bound(state)
    disk.afterwards = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        add(state)
    assert disk.rows == list(state.history)
    assert texts(state) == ["Go", "more"]
    add(state)
    journal.commit()
    assert disk.writes == [1, 1]


def test_a_command_holds_from_its_commit_on() -> None:
    state = started()
    _, disk = bound(state)
    add(state)
    assert disk.left == [2]


def test_an_interrupt_between_a_commit_and_its_return_writes_nothing_twice() -> None:
    state = started()
    journal, disk = bound(state)
    request(state)
    disk.afterwards = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        journal.commit()
    journal.commit()
    assert (disk.writes, journal.saved) == ([1], 2)


def test_an_interrupt_before_the_commit_changes_nothing_and_leaves_the_turn_free() -> None:
    state = started()
    _, disk = bound(state)
    before = value(state)
    disk.errors = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        add(state)
    assert value(state) is before
    ended(in_background(lambda: add(state)))
    assert disk.rows == list(state.history)


# Another writer


def test_after_another_writer_moved_on_everything_that_writes_raises_the_same() -> None:
    state = started()
    journal, disk = bound(state)
    request(state)
    moved_on = MovedOnError("load it anew")
    disk.errors = [moved_on]
    later: list[Callable[[], object]] = [
        journal.commit,
        journal.commit,
        lambda: add(state),
        lambda: asyncio.run(journal.acommit()),
        state.finish,
        journal.flush,
    ]
    for action in later:
        with pytest.raises(MovedOnError) as raised:
            action()
        assert raised.value is moved_on
    assert disk.writes == []
    fail(state, TimeoutError())  # a fact is recorded all the same
    assert isinstance(state.history[-1], ErrorEntry)


def test_an_asynchronous_write_can_find_that_another_writer_moved_on() -> None:
    state = started()
    journal, disk = bound(state)
    request(state)
    disk.errors = [MovedOnError("load it anew")]
    with pytest.raises(MovedOnError):
        asyncio.run(journal.acommit())
    with pytest.raises(MovedOnError):
        add(state)


# Threads


def test_writes_take_turns_and_nothing_is_written_twice() -> None:
    state = started()
    journal, disk = bound(state)

    def facts() -> None:
        for _ in range(100):
            journal.record(rules.asked, "ask", "Why?", 1)
            journal.commit()

    def commands() -> None:
        for _ in range(100):
            add(state)

    threads = [in_background(work) for work in (facts, facts, commands, commands)]
    for thread in threads:
        ended(thread)
    journal.commit()
    assert disk.rows == list(state.history)
    assert len(disk.rows) == 401


def test_reading_never_waits_for_a_commit() -> None:
    state = started()
    _, disk = bound(state)
    disk.gate.clear()
    writer = in_background(lambda: add(state))
    assert disk.began.wait(20)
    assert (texts(state), state.turn, len(state.snapshot().history), str(state) != "") == (["Go"], 0, 1, True)
    state.fork()
    disk.gate.set()
    ended(writer)
    assert texts(state) == ["Go", "more"]


def test_a_fact_recorded_during_the_commit_of_a_command_comes_behind_it() -> None:
    state = started()
    _, disk = bound(state)
    disk.gate.clear()
    writer = in_background(lambda: add(state))
    assert disk.began.wait(20)
    fact = in_background(lambda: request(state))
    disk.gate.set()
    ended(writer)
    ended(fact)
    assert [entry.kind for entry in state.history] == ["context_change", "user", "model_request"]


def test_a_fact_is_recorded_while_another_is_being_written() -> None:
    state = started()
    journal, disk = bound(state)
    request(state)
    disk.gate.clear()
    writer = in_background(journal.commit)
    assert disk.began.wait(20)
    fail(state, TimeoutError())
    assert state.turn == 0
    disk.gate.set()
    ended(writer)
    assert (journal.saved, disk.writes) == (2, [1])
    journal.commit()
    assert disk.writes == [1, 1]
