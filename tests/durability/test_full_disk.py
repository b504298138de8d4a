"""A full disk costs the writes that did not fit, and nothing else: no tool runs twice, and what was saved stays."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import histories
import pytest
from durability.mounts import KILOBYTE, Disk, small_disk

from alpineagents import Agent, SqliteStore, State, tool
from alpineagents.state import journal_of
from alpineagents.store import check
from alpineagents.testing import FakeModel, tool_call
from alpineagents.types import Image, Message, ToolResultEntry


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk", "2m") as folder:
        disk = Disk(folder)
        yield disk
        SqliteStore(disk.path).close()


def in_the_file(store: SqliteStore, state: State) -> int:
    record = store.read(state.id)
    assert record is not None
    return len(record.entries)


def assert_saved(store: SqliteStore, state: State) -> None:
    assert store.load(state.id).snapshot() == state.snapshot()


def test_a_command_on_a_full_disk_is_refused_and_changes_nothing(disk: Disk) -> None:
    store, state = SqliteStore(disk.path), histories.started()
    store.save(state)
    before = state.snapshot()
    disk.fill()
    for _ in range(3):
        with pytest.raises(OSError, match=r"disk is full|failed"):
            state.add_message(Message.user("x" * 100 * KILOBYTE))
        assert state.snapshot() is before
    assert in_the_file(store, state) == 1
    disk.make_room()
    state.add_message(Message.user("x"))
    assert_saved(store, state)
    store.close()
    assert check(disk.path) == []


def test_a_new_file_on_a_full_disk_can_be_made_when_there_is_room(disk: Disk) -> None:
    disk.fill()
    store, state = SqliteStore(disk.path), histories.started()
    for _ in range(2):
        with pytest.raises(OSError, match=r"full|cannot|failed"):
            store.save(state)
    assert store.list() == []
    disk.make_room()
    store.save(state)
    assert_saved(store, state)
    store.close()
    assert check(disk.path) == []


def test_a_backup_that_does_not_fit_leaves_no_file(disk: Disk, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "other.db")
    store.save(State(messages=[Message("user", (Image(bytes(300 * KILOBYTE), "image/png"),))]))
    disk.fill(leave=100 * KILOBYTE)
    target = disk.path.with_name("backup.db")
    with pytest.raises(OSError, match="full") as raised:
        store.backup(target)
    assert str(target) in str(raised.value)
    assert not target.exists()
    disk.make_room()
    store.backup(target)
    assert check(target) == []
    store.close()


class Turns:
    """An Agent whose model asks for six tools at once, and a count of how often each ran."""

    def __init__(self, store: SqliteStore, during: Callable[[int], object]) -> None:
        self.ran: Counter[int] = Counter()
        calls = [tool_call("fetch", n=n) for n in range(6)]
        together = threading.Barrier(6)

        @tool
        def fetch(n: int) -> str:
            """Fetch.

            Args:
                n: A number.
            """
            self.ran[n] += 1
            together.wait(20)
            during(n)
            return f"{n}" * 60 * KILOBYTE

        @tool
        async def afetch(n: int) -> str:
            """Fetch.

            Args:
                n: A number.
            """
            self.ran[n] += 1
            await asyncio.sleep(0)
            during(n)
            return f"{n}" * 60 * KILOBYTE

        self._store = store
        self._model = FakeModel([calls, "Done"], context_window=10**7)  # nothing is to be compacted
        self._tools = {"run": [fetch], "arun": [afetch.copy(name="fetch")]}

    def agent(self, method: str) -> Agent:
        return Agent(self._model, tools=self._tools[method], store=self._store, reporter=None, human=None)


def results(state: State) -> Counter[Any]:
    return Counter([entry.call.args["n"] for entry in state.history if isinstance(entry, ToolResultEntry)])


@pytest.mark.parametrize("method", ["run", "arun"])
@pytest.mark.parametrize("leave", [0, 100 * KILOBYTE, 200 * KILOBYTE])
def test_a_disk_that_is_full_in_the_middle_of_a_parallel_turn_costs_only_the_save(
    disk: Disk, method: str, leave: int
) -> None:
    store, state, seen = SqliteStore(disk.path), histories.started(), []
    lock = threading.Lock()

    def during(n: int) -> None:
        with lock:
            if not seen:
                disk.fill(leave)
            seen.append(n)

    turns = Turns(store, during)

    def run() -> Any:
        agent = turns.agent(method)
        return agent.run(state) if method == "run" else asyncio.run(agent.arun(state))

    with pytest.raises(OSError, match=r"disk is full|failed"):
        run()
    saved = in_the_file(store, state)
    assert turns.ran == results(state) == Counter(range(6))
    assert store.load(state.id).history[:saved] == state.history[:saved]
    disk.make_room()
    assert run() == "Done"
    assert turns.ran == results(state) == Counter(range(6))
    assert_saved(store, state)
    store.close()
    assert check(disk.path) == []


@pytest.mark.parametrize("method", ["run", "arun"])
def test_a_disk_with_room_again_before_the_end_of_the_turn_costs_nothing(disk: Disk, method: str) -> None:
    store, state, seen = SqliteStore(disk.path), histories.started(), []
    lock = threading.Lock()

    def during(n: int) -> None:
        with lock:
            seen.append(n)
            if len(seen) == 1:
                disk.fill()
            if len(seen) == 6:
                disk.make_room()

    turns = Turns(store, during)
    agent = turns.agent(method)
    answer = agent.run(state) if method == "run" else asyncio.run(agent.arun(state))
    assert answer == "Done"
    assert turns.ran == results(state) == Counter(range(6))
    assert_saved(store, state)
    store.close()
    assert check(disk.path) == []


def test_a_disk_that_is_full_in_the_middle_of_a_group_commit_keeps_what_was_reported(disk: Disk) -> None:
    store = SqliteStore(disk.path)
    states = [State(messages=[Message.user(f"{number}")]) for number in range(6)]
    for state in states:
        store.save(state)
    disk.fill(leave=100 * KILOBYTE)
    refused: list[State] = []
    kept: Counter[str] = Counter()

    def work(state: State) -> None:
        for number in range(8):
            try:
                state.add_message(Message.user(f"{number}" * 10 * KILOBYTE))
                kept[state.id] += 1
            except OSError:
                refused.append(state)
                histories.think(state, "a fact")

    threads = [threading.Thread(target=work, args=(state,)) for state in states]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused
    for state in states:
        loaded = store.load(state.id)
        said = [text for text in histories.texts(loaded) if len(text) == 10 * KILOBYTE]
        assert len(said) == kept[state.id]
    disk.make_room()
    for state in states:
        journal_of(state).commit()
        assert_saved(store, state)
        assert sum(len(text) == 10 * KILOBYTE for text in histories.texts(state)) == kept[state.id]
    store.close()
    assert check(disk.path) == []
