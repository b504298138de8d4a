"""What is wrong with a file that came through a power cut, compared with the run it was cut out of."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from durability.power import LOSSES, Disk, Loss, nothing, put
from durability.recording import Event

from alpineagents import SqliteStore, State
from alpineagents.store import check
from alpineagents.types import Message

Rows = list[tuple[Any, ...]]
_ROWS = "SELECT id, state_id, seq, kind, turn, at, closes, block, data, original FROM entries ORDER BY id"


def rows_of(path: Path) -> Rows:
    """The entries of a file in the order in which they were written."""
    with closing(sqlite3.connect(path)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'entries'").fetchone():
            return []
        return connection.execute(_ROWS).fetchall()


@dataclass
class Tally:
    """How much was looked at."""

    cuts: int = 0
    states: int = 0
    entries: int = 0
    went_on: int = 0

    def __str__(self) -> str:
        return f"{self.cuts} cuts, {self.states} states, {self.entries} entries, {self.went_on} gone on with"


@dataclass(frozen=True, eq=False)
class Cut:
    """A moment of a run at which the power went.

    Attributes:
        content: What the folder held afterwards.
        promised: By State, how many entries must be among it.
    """

    moment: int
    loss: Loss
    content: dict[str, bytes]
    promised: Mapping[str, int]

    def __str__(self) -> str:
        sizes = {name: len(data) for name, data in self.content.items()}
        return f"cut at event {self.moment}, {self.loss.__name__}, {sizes}"


class Recorded:
    """A run, event by event, and the rows it wrote in the end.

    Args:
        base: What the folder held at first, and the inodes of the files in it.
    """

    def __init__(
        self,
        events: Sequence[Event],
        rows: Rows,
        base: tuple[Mapping[str, bytes], Mapping[str, int]] = ({}, {}),
    ) -> None:
        self.events = events
        self.rows = rows
        self.base = base

    def moments(self, kinds: str) -> list[int]:
        """Those right behind an event of these kinds."""
        return [moment for moment, event in enumerate(self.events, 1) if event.kind in kinds]

    def cuts(self, plan: Sequence[tuple[int, Loss]], chance: random.Random) -> Iterator[Cut]:
        """The cuts at these moments, with these losses."""
        disk, promised, done = Disk(*self.base), {}, 0
        for moment, loss in sorted(plan, key=lambda cut: cut[0]):
            for event in self.events[done:moment]:
                disk.do(event)
                if event.kind == "M":
                    fact = json.loads(event.data)
                    promised[fact["state"]] = max(fact["count"], promised.get(fact["state"], 0))
            done = moment
            content = disk.without_power(loss, chance)
            yield Cut(moment, loss, {**content, **_shared_memory(content, chance)}, dict(promised))

    def random_plan(self, count: int, chance: random.Random) -> list[tuple[int, Loss]]:
        return [(chance.randint(0, len(self.events)), chance.choice(LOSSES)) for _ in range(count)]

    def everything(self) -> dict[str, bytes]:
        """What the folder holds at the end, if the record is whole."""
        disk = Disk(*self.base)
        for event in self.events:
            disk.do(event)
        return disk.without_power(nothing, random.Random(0))


def _shared_memory(content: Mapping[str, bytes], chance: random.Random) -> dict[str, bytes]:
    """The -shm, which is never synced: most often gone, or whatever its pages happen to be."""
    if "runs.db" not in content or chance.random() < 0.7:
        return {}
    return {"runs.db-shm": chance.choice((b"", bytes(32_768), chance.randbytes(32_768), chance.randbytes(1_000)))}


def problems(folder: Path, cut: Cut, rows: Rows, tally: Tally, *, go_on: bool = False) -> list[str]:
    """All that is wrong with what a cut left: damaged, lost, invented, or of no use any more."""
    put(cut.content, folder)
    path = folder / "runs.db"
    tally.cuts += 1
    try:
        found = [*_judged(path, cut, rows, tally)]
        if go_on and not found:
            found = [*_gone_on(path, tally)]
    except Exception as error:
        found = [f"{type(error).__name__}: {error}"]
    return [f"{cut}: {problem}" for problem in found]


def _judged(path: Path, cut: Cut, rows: Rows, tally: Tally) -> Iterator[str]:
    checked_first = cut.moment % 2 and path.exists()  # who opens it first brings it in order
    if checked_first:
        yield from map(str, check(path))
    with SqliteStore(path) as store:
        loaded = {info.id: store.load(info.id) for info in store.list()}
    have = rows_of(path) if path.exists() else []
    if have != rows[: len(have)]:
        yield "its entries are not the first ones of the run"
    counts = Counter([row[1] for row in have])
    if counts.keys() != loaded.keys():
        yield f"it lists {sorted(loaded)}, and has entries of {sorted(counts)}"
    for state, count in cut.promised.items():
        if counts[state] < count:
            yield f"State {state} has {counts[state]} entries, and {count} were promised"
    for name, state in loaded.items():
        if state.pending_calls or len(state.history) < counts[name]:
            yield f"State {name} was not loaded whole"
    if not checked_first and path.exists():
        yield from map(str, check(path))
    tally.states += len(loaded)
    tally.entries += len(have)


def _gone_on(path: Path, tally: Tally) -> Iterator[str]:
    with SqliteStore(path) as store:
        for info in store.list():
            store.load(info.id).add_message(Message.user("After the cut"))
        store.save(State(id="after", messages=[Message.user("Go")]))
        if store.load("after").history[0].turn != 0:
            yield "a new State is not as it was saved"
    tally.went_on += 1
    yield from map(str, check(path))
