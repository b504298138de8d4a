"""Processes that are killed before or in the middle of one write, sync or removal after the other.

`python -m durability.mortals folder work step` runs under the recorder. It forks for each kill, judges the file after
each, and prints how many there were.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

from durability.processes import Log
from durability.recording import kill_before

from alpineagents import SqliteStore, State
from alpineagents.store import check
from alpineagents.types import Image, Message

Work = Callable[[Path, str, Log], Iterator[None]]


def say(state: State, log: Log, text: str) -> None:
    state.add_message(Message.user(text))
    log.write("said", state.id, len(state.history))


def saved(store: SqliteStore, name: str, log: Log) -> State:
    state = State(id=name, messages=[Message.user("Go")])
    store.save(state)
    log.write("said", name, 1)
    return state


# Each kind of work first comes to where it may be killed.


def creation(path: Path, name: str, log: Log) -> Iterator[None]:
    """A new file."""
    for beside in path.parent.glob(f"{path.name}*"):
        beside.unlink()
    yield
    with SqliteStore(path) as store:
        say(saved(store, name, log), log, "more")


def closing_checkpoint(path: Path, name: str, log: Log) -> Iterator[None]:
    """What a store does when it is closed."""
    with SqliteStore(path) as store:
        state = saved(store, name, log)
        for number in range(5):
            say(state, log, f"{number} " * 2000)
        yield


def own_checkpoint(path: Path, name: str, log: Log) -> Iterator[None]:
    """One that SQLite makes by itself, at the end of a large commit, and the commits after it."""
    with SqliteStore(path) as store:
        state = saved(store, name, log)
        yield
        state.add_message(Message("user", (Image(random.randbytes(4_300_000), "image/png"),)))
        log.write("said", name, 2)
        for number in range(3):
            say(state, log, f"{number} " * 2000)


def other_checkpoint(path: Path, name: str, log: Log) -> Iterator[None]:
    """Somebody else's, which begins the WAL anew, and the commits after it."""
    with SqliteStore(path) as store:
        state = saved(store, name, log)
        for number in range(5):
            say(state, log, f"{number} " * 2000)
        yield
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(RESTART)")
        for number in range(3):
            say(state, log, f"{number} " * 2000)


WORKS: dict[str, Work] = {
    work.__name__: work for work in (creation, closing_checkpoint, own_checkpoint, other_checkpoint)
}


def is_killed(path: Path, work: Work, name: str, log: Log, moment: int) -> bool:
    """Whether the process came to that moment; otherwise it ended well."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            steps = work(path, name, log)
            next(steps)
            kill_before(moment, random.random() < 0.5)
            next(steps, None)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True
    assert os.waitstatus_to_exitcode(status) == 0
    return False


def judge(path: Path, name: str, log: Log) -> None:
    """Nothing that was said is lost, and the file can be gone on with."""
    said = [int(line.split()[1]) for line in log.lines("said") if line.split()[0] == name]
    with SqliteStore(path) as store:
        states = {info.id: store.load(info.id) for info in store.list()}
        have = len(states[name].history) if name in states else 0
        assert max(said, default=0) <= have <= max(said, default=0) + 1, (name, said, have)
        after = states.get(name) or State(id=name, messages=[Message.user("Go")])
        store.save(after)
        after.add_message(Message.user("after"))
    problems = check(path)
    assert problems == [], problems


def main(folder: str, work: str, step: str) -> None:
    path, log = Path(folder) / "runs.db", Log(Path(folder).parent / f"{work}.log")
    kills = 0
    for moment in count(random.randrange(int(step)), int(step)):
        name = f"s{moment}"
        if not is_killed(path, WORKS[work], name, log, moment):
            break
        kills += 1
        judge(path, name, log)
        if kills % 20 == 0:
            path.unlink()
    print(kills)


if __name__ == "__main__":
    main(*sys.argv[1:])
