"""Processes that are killed again and again while they share a file with others, and go on where they were."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from durability.processes import Log, Process

from alpineagents import Agent, SqliteStore, State, tool
from alpineagents.history import wording
from alpineagents.history.entries import MessageEntry, ToolResultEntry
from alpineagents.store import check
from alpineagents.testing import FakeModel, tool_call
from alpineagents.types import Message, ToolOutcomeKind

PROCESSES, THREADS, STATES = 6, 2, 20
SECONDS, LONGEST_LIFE_S = 60.0, 3.0


def live(path: Path, log: Log, name: str) -> None:
    """Continue one State or another for ever, in several threads, and say what was done once it is done."""
    store = SqliteStore(path)

    def work(thread: int) -> None:
        chance = random.Random()
        for _ in count():
            step(store, log, f"{name}-{thread}-{chance.randrange(STATES)}", chance)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def step(store: SqliteStore, log: Log, name: str, chance: random.Random) -> None:
    try:
        state = store.load(name)
    except LookupError:
        state = State(id=name, messages=[Message.user("Go")])
    numbers = [chance.getrandbits(60) for _ in range(3)]

    @tool
    def work(n: int) -> str:
        """Work.

        Args:
            n: A number.
        """
        log.write("ran", n)
        return f"result {n}"

    calls = [tool_call("work", n=n) for n in numbers]
    agent = Agent(FakeModel([calls, "Done"]), tools=[work], store=store, reporter=None, human=None)
    agent.run(state)
    log.write("done", name, len(state.history))
    text = f"said {chance.getrandbits(60)}"
    log.write("meant", text)
    state.add_message(Message.user(text))
    log.write("said", name, len(state.history), text)


# Two who look on meanwhile.

_COUNTS = """
SELECT states.id, entry_count, count(entries.seq), max(entries.seq) + 1
FROM states LEFT JOIN entries ON state_id = states.id GROUP BY states.id"""


def look(path: Path, log: Log) -> None:
    """Read with nothing but SQLite: no State has a gap, or loses an entry it had."""
    before: dict[str, int] = {}
    for _ in count():
        if not path.exists():
            continue
        with closing(sqlite3.connect(path, timeout=60)) as connection:
            for _ in range(20):
                if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'states'").fetchone():
                    continue
                found = connection.execute(_COUNTS).fetchall()
                now = {name: number for name, number, *_ in found}
                wrong = [row for row in found if not row[1] == row[2] == row[3]]
                lost = [name for name, number in before.items() if now.get(name, 0) < number]
                if wrong or lost:
                    log.write("wrong", wrong, lost)
                log.write("looked", len(found))
                before = now


def look_closely(path: Path, log: Log) -> None:
    """Check it all, with the command."""
    for _ in count():
        if not path.exists():
            continue
        command = [sys.executable, "-m", "alpineagents", "check", str(path)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            log.write("wrong", repr(done.stdout), repr(done.stderr))
        log.write("checked", done.returncode)


def killed_again_and_again(folder: Path) -> tuple[int, list[Log], list[Log]]:
    """How often, what the processes said, and what those said who looked on."""
    path, chance = folder / "runs.db", random.Random()
    logs = [Log(folder / f"{number}.log", synced=True) for number in range(PROCESSES)]
    seen = [Log(folder / f"seen{number}.log") for number in range(2)]
    lives = [partial(live, path, log, f"p{number}") for number, log in enumerate(logs)]
    watchers = [Process(partial(look, path, seen[0])), Process(partial(look_closely, path, seen[1]))]
    running = [Process(work) for work in lives]
    kills, end = 0, time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(chance.random() * LONGEST_LIFE_S / PROCESSES)
        number = chance.randrange(PROCESSES)
        running[number].kill()
        running[number] = Process(lives[number])
        kills += 1
    for process in [*running, *watchers]:
        process.kill()
    return kills, logs, seen


def judged(store: SqliteStore, logs: list[Log]) -> int:
    """How many States there are; all that was said of them is true, and nothing else is in them."""
    meant = {line for log in logs for line in log.lines("meant")}
    ran = {f"result {line}" for log in logs for line in log.lines("ran")}
    lengths: dict[str, int] = defaultdict(int)
    states = {info.id: store.load(info.id) for info in store.list()}
    for line in [line for log in logs for line in log.lines("done") + log.lines("said")]:
        name, length, *text = line.split(maxsplit=2)
        lengths[name] = max(lengths[name], int(length))
        assert not text or states[name].history[int(length) - 1].content == text[0], line
    for name, length in lengths.items():
        assert len(states[name].history) >= length, name
    for state in states.values():
        assert_nothing_is_invented(state, meant, ran)
    return len(states)


def assert_nothing_is_invented(state: State, meant: set[str], ran: set[str]) -> None:
    for entry in state.history:
        if isinstance(entry, MessageEntry):
            assert entry.content in meant
        if isinstance(entry, ToolResultEntry):
            expected = ran if entry.outcome is ToolOutcomeKind.DONE else {wording.RESULT_UNKNOWN}
            assert entry.content in expected


@pytest.mark.soak
def test_what_processes_said_is_true_after_a_minute_of_kills(tmp_path: Path) -> None:
    kills, logs, seen = killed_again_and_again(tmp_path)
    path = tmp_path / "runs.db"
    for log in seen:
        assert log.lines("wrong") == []
    with SqliteStore(path) as store:
        states = judged(store, logs)
    assert check(path) == []
    acknowledged = sum([len(log.lines("done")) + len(log.lines("said")) for log in logs])
    looks, checks = len(seen[0].lines("looked")), len(seen[1].lines("checked"))
    assert min(kills, states, acknowledged, looks) > 100
    assert checks > 1
    print(f"{kills} kills, {states} states, {acknowledged} acknowledged, {looks} looks, {checks} checks")
