"""Many processes at one file, at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import histories
import pytest
from durability.processes import Gate, Log, Process

from alpineagents import Agent, SqliteStore, State
from alpineagents.state import journal_of
from alpineagents.store import check
from alpineagents.store.opening import connect_to_read
from alpineagents.testing import FakeModel
from alpineagents.types import Message

PROCESSES, STATES, STEPS = 4, 5, 8
OPENERS = 160


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "runs.db"
    SqliteStore(tmp_path / "runs.db").close()


def test_processes_and_threads_write_their_states_into_one_file(path: Path) -> None:
    states = [[State(messages=[Message.user("Go")]) for _ in range(STATES)] for _ in range(PROCESSES)]
    gate = Gate()

    def work(mine: list[State]) -> None:
        gate.wait()
        store = SqliteStore(path)
        errors: list[BaseException] = []

        def step(state: State) -> None:
            try:
                agent = Agent(FakeModel(["Yes"] * STEPS), store=store, reporter=None, human=None)
                for number in range(STEPS):
                    state.add_message(Message.user(f"{state.id} {number}"))
                    agent.run(state)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=step, args=(state,)) for state in mine]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.close()
        if errors:
            raise errors[0]

    processes = [Process(partial(work, mine)) for mine in states]
    gate.open()
    for process in processes:
        process.ended()
    store = SqliteStore(path)
    assert len(store.list()) == PROCESSES * STATES
    for state in [state for mine in states for state in mine]:
        loaded = store.load(state.id)
        said = [text for text in histories.texts(loaded) if text.startswith(state.id)]
        assert said == [f"{state.id} {number}" for number in range(STEPS)]
        assert (loaded.turn, loaded.answer) == (STEPS, "Yes")
    store.close()
    assert check(path) == []


def test_a_new_file_can_be_opened_by_very_many_processes_at_once(path: Path) -> None:
    gate = Gate()

    def work(number: int) -> None:
        gate.wait()
        store = SqliteStore(path)
        if number % 4 == 0:
            store.list()
        store.save(State(id=f"s{number}", messages=[Message.user(f"{number}")]))
        if number % 2:
            store.close()

    processes = [Process(partial(work, number)) for number in range(OPENERS)]
    gate.open()
    for process in processes:
        process.ended()
    store = SqliteStore(path)
    assert {info.first_message for info in store.list()} == {str(number) for number in range(OPENERS)}
    connection = connect_to_read(path)
    assert connection is not None
    assert connection.execute("SELECT count(*) FROM _sqlite_migrations").fetchone() == (1,)
    connection.close()
    store.close()
    assert check(path) == []


# Two processes at one State.


@pytest.fixture
def pair(path: Path, tmp_path: Path) -> tuple[SqliteStore, State]:
    """A State as this process loaded it, and which another one continued afterwards."""
    store = SqliteStore(path)
    state = State(id="shared", messages=[Message.user("Go")])
    store.save(state)
    loaded = store.load("shared")

    def go_on() -> None:
        SqliteStore(path).load("shared").add_message(Message.user("theirs"))

    Process(go_on).ended()
    return store, loaded


def test_a_command_on_a_state_that_moved_on_is_refused_each_time_and_changes_nothing(
    pair: tuple[SqliteStore, State],
) -> None:
    store, state = pair
    before = state.snapshot()
    for _ in range(2):
        with pytest.raises(ValueError, match=r"another writer[\s\S]*load"):
            state.add_message(Message.user("ours"))
        assert state.snapshot() is before
    assert histories.texts(store.load("shared")) == ["Go", "theirs"]


def test_a_fact_of_a_state_that_moved_on_stays_in_the_state_and_is_refused_each_time(
    pair: tuple[SqliteStore, State],
) -> None:
    store, state = pair
    histories.think(state, "ours")
    for _ in range(2):
        with pytest.raises(ValueError, match="another writer"):
            store.save(state)
        with pytest.raises(ValueError, match="another writer"):
            journal_of(state).commit()
    assert histories.texts(state) == ["Go", "ours"]
    assert histories.texts(store.load("shared")) == ["Go", "theirs"]


def test_a_state_that_moved_on_can_be_saved_as_a_fork(pair: tuple[SqliteStore, State]) -> None:
    store, state = pair
    histories.think(state, "ours")
    fork = state.fork()
    store.save(fork)
    assert histories.texts(store.load(fork.id)) == ["Go", "ours"]


def test_of_two_processes_that_run_one_state_one_goes_on_and_the_other_is_told(path: Path, tmp_path: Path) -> None:
    store = SqliteStore(path)
    store.save(State(id="shared", messages=[Message.user("Go")]))
    log, gate = Log(tmp_path / "log"), Gate()

    def work(name: str) -> None:
        own = SqliteStore(path)
        state = own.load("shared")
        log.write("loaded", name)
        gate.wait()
        for number in range(30):
            try:
                state.add_message(Message.user(f"{name}{number}"))
            except ValueError as error:
                log.write("refused", name, str(error).splitlines()[0])
                return
            log.write("said", f"{name}{number}")

    processes = [Process(partial(work, name)) for name in "ab"]
    while len(log.lines("loaded")) < 2:
        pass
    gate.open()
    for process in processes:
        process.ended()
    (refused,) = log.lines("refused")
    assert "another writer" in refused
    said = histories.texts(store.load("shared"))[1:]
    assert said == log.lines("said")
    assert len({text[0] for text in said}) == 1
    assert len(said) == 30
    store.close()
    log.close()
    assert check(path) == []


def test_a_state_that_was_made_anew_under_the_same_name_is_not_continued(path: Path) -> None:
    store = SqliteStore(path)
    old = State(id="same", messages=[Message.user("old")])
    store.save(old)
    store.delete("same")
    store.save(State(id="same", messages=[Message.user("new")]))
    with pytest.raises(ValueError, match="another writer"):
        old.add_message(Message.user("more of the old"))
    assert histories.texts(store.load("same")) == ["new"]
    assert histories.texts(old) == ["old"]
