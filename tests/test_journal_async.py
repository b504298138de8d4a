"""The Journal on an event loop: what waits for whom, and what a cancelled task leaves behind."""

from __future__ import annotations

import asyncio
import threading

import pytest
from disk import Disk, add, bound, ended, in_background, on_a_loop, until
from histories import LIST, READ, fail, pending, request, started

from alpineagents.history import rules
from alpineagents.journal import Journal
from alpineagents.state import journal_of
from alpineagents.types import AgentInfo


def test_an_asynchronous_commit_leaves_the_loop_free() -> None:
    async def steps() -> None:
        state = started()
        journal, disk = bound(state)
        request(state)
        disk.gate.clear()
        commit = asyncio.ensure_future(journal.acommit())
        await until(disk.began.is_set)
        assert not commit.done()
        disk.gate.set()
        await commit
        assert disk.rows == list(state.history)

    on_a_loop(steps)


def test_an_asynchronous_commit_that_fails_raises_and_leaves_the_queue() -> None:
    async def steps() -> None:
        state = started()
        journal, disk = bound(state)
        request(state)
        disk.errors = [OSError("full")]
        with pytest.raises(OSError, match="full"):
            await journal.acommit()
        await journal.acommit()
        assert disk.rows == list(state.history)

    on_a_loop(steps)


def test_commits_of_several_tasks_take_turns_and_take_along_what_is_there() -> None:
    async def steps() -> None:
        state = started()
        journal, disk = bound(state)
        disk.gate.clear()
        commits = list[asyncio.Future[None]]()
        for _ in range(10):
            await journal.arecord(rules.asked, "ask", "Why?", 1)
            commits.append(asyncio.ensure_future(journal.acommit()))
            await asyncio.sleep(0)
        await until(disk.began.is_set)
        disk.gate.set()
        await asyncio.gather(*commits)
        assert disk.rows == list(state.history)
        assert len(disk.writes) == 2

    on_a_loop(steps)


def test_a_cancelled_waiter_does_not_stop_the_write() -> None:
    async def steps() -> None:
        state = started()
        journal, disk = bound(state)
        request(state)
        disk.gate.clear()
        commit = asyncio.ensure_future(journal.acommit())
        await until(disk.began.is_set)
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        disk.gate.set()
        await until(lambda: journal.saved == 2)
        await journal.acommit()
        add(state)
        assert disk.writes == [1, 1]

    on_a_loop(steps)


def test_who_is_cancelled_while_waiting_for_a_turn_leaves_it_to_the_others() -> None:
    async def steps() -> None:
        state = started()
        journal, disk = bound(state)
        request(state)
        disk.gate.clear()
        first = asyncio.ensure_future(journal.acommit())
        await until(disk.began.is_set)
        fail(state, TimeoutError())
        second = asyncio.ensure_future(journal.acommit())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        disk.gate.set()
        await first
        await journal.acommit()
        add(state)
        assert disk.rows == list(state.history)

    on_a_loop(steps)


def opener(journal: Journal, disk: Disk) -> threading.Thread:
    """Opens the gate once a command has the record lock."""

    def work() -> None:
        while journal._lock.acquire(blocking=False):
            journal._lock.release()
        disk.gate.set()

    return in_background(work)


def test_a_command_on_the_loop_waits_for_a_write_that_is_under_way() -> None:
    async def steps() -> None:
        state = started()
        journal, disk = bound(state)
        request(state)
        disk.gate.clear()
        commit = asyncio.ensure_future(journal.acommit())
        await until(disk.began.is_set)
        opening = opener(journal, disk)
        add(state)  # blocks this loop until the write is over
        ended(opening)
        await commit
        assert disk.rows == list(state.history)

    on_a_loop(steps)


def test_a_command_on_the_loop_is_not_blocked_by_a_task_that_waits_for_its_turn() -> None:
    async def steps() -> None:
        state = started()
        journal, disk = bound(state)
        request(state)
        disk.gate.clear()
        commits = [asyncio.ensure_future(journal.acommit())]
        await until(disk.began.is_set)
        fail(state, TimeoutError())
        threads = threading.active_count()
        commits += [asyncio.ensure_future(journal.acommit()) for _ in range(3)]
        await until(lambda: threading.active_count() == threads + 3)  # each waits on a thread
        opening = opener(journal, disk)
        add(state)
        ended(opening)
        await asyncio.gather(*commits)
        assert disk.rows == list(state.history)

    on_a_loop(steps)


@pytest.mark.parametrize("rounds", range(5))
def test_a_command_on_the_loop_is_not_blocked_by_a_commit_that_is_beginning(rounds: int) -> None:
    async def steps() -> None:
        state = started()
        journal, disk = bound(state)
        request(state)
        commit = asyncio.ensure_future(journal.acommit())
        for _ in range(rounds):  # at whatever step the other task is
            await asyncio.sleep(0)
        add(state)
        await commit
        assert disk.rows == list(state.history)

    on_a_loop(steps)


def test_a_command_does_not_block_the_loop_of_a_task_that_records() -> None:
    async def steps() -> None:
        state = started()
        journal, disk = bound(state)
        disk.gate.clear()
        writer = in_background(lambda: add(state))
        await until(disk.began.is_set)
        recording = asyncio.ensure_future(journal.arecord(rules.request, "m"))
        await asyncio.sleep(0)
        assert not recording.done()
        disk.gate.set()
        (entry,) = await recording
        ended(writer)
        assert state.history[-1] is entry
        assert [entry.kind for entry in state.history] == ["context_change", "user", "model_request"]

    on_a_loop(steps)


def test_a_free_lock_records_at_once() -> None:
    async def steps() -> None:
        state = started()
        threads = threading.active_count()
        await journal_of(state).arecord(rules.request, "m")
        assert threading.active_count() == threads
        assert state.turn == 1
        with pytest.raises(ValueError, match="already waiting"):
            await journal_of(state).arecord(rules.request, "m")

    on_a_loop(steps)


@pytest.mark.parametrize("cancels", [1, 2])
def test_a_fact_of_a_cancelled_task_is_recorded_before_what_the_task_does_next(cancels: int) -> None:
    async def steps() -> None:
        state = pending(READ, LIST)
        journal, disk = bound(state)
        disk.gate.clear()
        writer = in_background(lambda: add(state))
        await until(disk.began.is_set)
        order = list[str]()

        async def task() -> None:
            try:
                await journal.arecord(rules.failure, OSError())
            except asyncio.CancelledError:
                order.extend(entry.kind for entry in state.history[3:])
                raise

        recording = asyncio.ensure_future(task())
        await asyncio.sleep(0)
        for _ in range(cancels):
            recording.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert order == []
        disk.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await recording
        ended(writer)
        assert order == ["user", "error"]

    on_a_loop(steps)


# Runs


def test_a_run_that_is_cancelled_before_it_could_begin_does_not_count_as_running() -> None:
    async def steps() -> None:
        state = started()
        journal, disk = bound(state)
        disk.gate.clear()
        writer = in_background(lambda: add(state))
        await until(disk.began.is_set)
        start = asyncio.ensure_future(journal.astart_run(rules.run_start, AgentInfo(model="m"), None, None))
        await asyncio.sleep(0)
        start.cancel()
        await asyncio.sleep(0)
        disk.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await start
        ended(writer)
        assert not journal.running

    on_a_loop(steps)


def test_a_run_that_is_refused_leaves_the_one_under_way_running() -> None:
    async def steps() -> None:
        journal = journal_of(started())
        await journal.astart_run(rules.run_start, AgentInfo(model="m"), None, None)
        with pytest.raises(ValueError, match="being run already"):
            await journal.astart_run(rules.run_start, AgentInfo(model="m"), None, None)
        assert journal.running

    on_a_loop(steps)
