"""Many threads, one State; and what a long history costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from histories import pending, request, result, started, texts, think, value

from alpineagents.history import rules
from alpineagents.history.snapshot import StateSnapshot
from alpineagents.state import State, journal_of
from alpineagents.types import AgentInfo, Message, ToolCall


def together(*works: Callable[[], object]) -> None:
    """Run these at once, each on a thread, and wait for all."""
    barrier, errors = threading.Barrier(len(works)), list[BaseException]()

    def start(work: Callable[[], object]) -> None:
        try:
            barrier.wait(10)
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=start, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []


def test_messages_of_several_threads_are_all_there_and_in_their_threads_order() -> None:
    state = started()

    def add(name: str) -> None:
        for number in range(200):
            state.add_message(Message.user(f"{name}{number}"))

    together(*[lambda name=name: add(name) for name in "abcd"])
    added = texts(state)[1:]
    assert len(added) == 800
    for name in "abcd":
        assert [text for text in added if text[0] == name] == [f"{name}{number}" for number in range(200)]


def test_results_come_from_any_thread_in_any_order() -> None:
    calls = [ToolCall("read", {}, str(number)) for number in range(40)]
    state = pending(*calls)
    together(*[lambda own=calls[start::4]: [result(state, call, call.id) for call in own] for start in (3, 1, 2, 0)])
    blocks: Any = state.messages[-1].content
    assert [block.content for block in blocks] == [call.id for call in calls]


def test_times_follow_the_history_whatever_thread_recorded() -> None:
    calls = [ToolCall("read", {}, str(number)) for number in range(100)]
    state = pending(*calls)
    together(
        lambda: [result(state, call) for call in calls[:50]],
        lambda: [result(state, call) for call in calls[50:]],
        lambda: [state.add_message(Message.user("more")) for _ in range(50)],
        lambda: [state.finish(number) for number in range(50)],
    )
    times = [entry.at for entry in state.history]
    assert times == sorted(times)
    assert len(times) == 3 + 200


def test_of_two_requests_at_once_one_is_refused() -> None:
    for _ in range(50):
        state, refusals = started(), list[str]()

        def ask(state: State = state, refusals: Any = refusals) -> None:
            try:
                request(state)
            except ValueError as error:
                refusals.append(str(error))

        together(ask, ask)
        assert len(refusals) == 1
        assert state.turn == 1


def test_of_two_runs_at_once_one_is_refused_and_records_nothing() -> None:
    state, refusals = started(), list[str]()

    def run() -> None:
        try:
            journal_of(state).start_run(rules.run_start, AgentInfo(model="m"), None, None)
        except ValueError as error:
            refusals.append(str(error))

    together(run, run)
    assert len(refusals) == 1
    assert "being run already" in refusals[0]
    assert [entry.kind for entry in state.history] == ["context_change", "run_start"]
    journal_of(state).running = False
    run()
    assert len(refusals) == 1


def test_a_run_that_is_refused_does_not_count_as_running() -> None:
    state = started()
    state.finish()
    for _ in range(2):
        try:
            journal_of(state).start_run(rules.run_start, AgentInfo(model="m"), None, None)
        except ValueError as error:
            assert "finished" in str(error)
    assert not journal_of(state).running


def test_every_moment_a_reader_sees_is_a_whole_one() -> None:
    state, done, torn = started(), threading.Event(), list[StateSnapshot]()

    def write() -> None:
        for number in range(300):
            think(state, str(number))
        done.set()

    def read() -> None:
        while not done.is_set():
            seen = state.snapshot()
            replies = sum(entry.kind == "model_reply" for entry in seen.history)
            requests = sum(entry.kind == "model_request" for entry in seen.history)
            if (seen.usage.requests, seen.turn, len(seen.messages)) != (replies, requests, replies + 1):
                torn.append(seen)

    together(write, read, read)
    assert torn == []
    assert State(history=state.history).snapshot() == state.snapshot()


def test_a_history_kept_earlier_is_a_beginning_of_the_later_one() -> None:
    state, kept = started(), list[StateSnapshot]()
    for number in range(200):
        state.add_message(Message.user(str(number)))
        kept.append(state.snapshot())
    for snapshot in kept[::20]:
        assert state.history[: len(snapshot.history)] == snapshot.history
        assert State(history=snapshot.history).snapshot() == snapshot


def test_a_hundred_thousand_messages_take_twice_the_time_of_fifty_thousand() -> None:
    state, message = State(), Message.user("more")

    def half() -> float:
        start = time.perf_counter()
        for _ in range(50_000):
            state.add_message(message)
        return time.perf_counter() - start

    first, second = half(), half()
    assert second < first * 3
    assert len(value(state).messages) == 100_000
