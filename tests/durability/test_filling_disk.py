"""A disk that fills up and has room again at any moment, while runs go on: the State and the file agree in the end."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from durability.mounts import KILOBYTE, Disk, small_disk

from alpineagents import Agent, SqliteStore, State, tool
from alpineagents.store import check
from alpineagents.testing import FakeModel, tool_call
from alpineagents.types import Message, ToolOutcomeKind, ToolResultEntry

SECONDS, STATES, TURNS = 60.0, 4, 3


class Weather:
    """Fills the disk and makes room again, until it is over; then there is room."""

    def __init__(self, disk: Disk, chance: random.Random) -> None:
        self.changes = 0
        self._disk, self._chance = disk, chance
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._change)

    def __enter__(self) -> Weather:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()

    def _change(self) -> None:
        while not self._over.wait(self._chance.random() * 0.02):
            self._disk.fill(leave=self._chance.choice((0, 0, 8, 40, 150)) * KILOBYTE)
            self.changes += 1
            self._over.wait(self._chance.random() * 0.02)
            self._disk.make_room()


class Runner:
    """One State that is run again whenever the disk was full, and how often each of its tools ran."""

    def __init__(self, store: SqliteStore, number: int) -> None:
        self.store, self.number = store, number
        self.state = State(messages=[Message.user(f"Go {number}")])
        self.ran: Counter[int] = Counter()
        self.said: list[str] = []
        self.refused = 0
        self._lock = threading.Lock()
        self._numbers = iter(range(10**9))

    def agent(self) -> Agent:
        @tool
        def work(n: int) -> str:
            """Work.

            Args:
                n: A number.
            """
            return self._do(n)

        @tool(parallel=False)
        def alone(n: int) -> str:
            """Work alone.

            Args:
                n: A number.
            """
            return self._do(n)

        def calls(request: object) -> list[Any]:
            return [tool_call(name, n=next(self._numbers)) for name in ("work", "work", "alone")]

        model = FakeModel([calls] * TURNS + ["Done"], context_window=10**9)
        return Agent(model, tools=[work, alone], store=self.store, reporter=None, human=None)

    def _do(self, n: int) -> str:
        with self._lock:
            self.ran[n] += 1
        return f"{n} " * random.randint(1, 4 * KILOBYTE)

    def run(self, over: Callable[[], bool]) -> None:
        while not over():
            self.try_it(lambda: self.agent().run(self.state))
            self.say()

    async def arun(self, over: Callable[[], bool]) -> None:
        while not over():
            try:
                await self.agent().arun(self.state)
            except OSError:
                self.refused += 1
            self.say()

    def say(self) -> None:
        """A command, which is applied only if it was written."""
        text = f"said {next(self._numbers)}"
        if self.try_it(lambda: self.state.add_message(Message.user(text))):
            self.said.append(text)

    def try_it(self, action: Callable[[], object]) -> bool:
        try:
            action()
        except OSError:
            self.refused += 1
            return False
        return True

    def judge(self) -> None:
        """There is room again."""
        assert self.agent().run(self.state) == "Done"
        saved = self.store.load(self.state.id)
        assert saved.snapshot() == self.state.snapshot()
        assert set(self.ran.values()) <= {1}
        results = [entry for entry in saved.history if isinstance(entry, ToolResultEntry)]
        done = [entry.call.args["n"] for entry in results if entry.outcome is ToolOutcomeKind.DONE]
        assert Counter(done) == self.ran
        said = [entry.content for entry in saved.history if entry.kind == "user"]
        assert [text for text in said if str(text).startswith("said ")] == self.said


def through_the_weather(disk: Disk, chance: random.Random) -> tuple[int, int, int]:
    """How often the disk was filled, how many writes were refused, and how many tools ran."""
    store = SqliteStore(disk.path)
    runners = [Runner(store, number) for number in range(STATES)]
    over_at = time.monotonic() + chance.uniform(0.2, 1.5)

    def over() -> bool:
        return time.monotonic() > over_at or disk.path.stat().st_size > 12_000 * KILOBYTE

    async def together() -> None:
        await asyncio.gather(*[runner.arun(over) for runner in runners[STATES // 2 :]])

    for runner in runners:
        store.save(runner.state)
    with Weather(disk, chance) as weather:
        threads = [threading.Thread(target=runner.run, args=(over,)) for runner in runners[: STATES // 2]]
        threads.append(threading.Thread(target=lambda: asyncio.run(together())))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for runner in runners:
        record = store.read(runner.state.id)
        assert record is not None
        assert store.load(runner.state.id).history[: len(record.entries)] == runner.state.history[: len(record.entries)]
    for runner in runners:
        runner.judge()
    store.close()
    assert check(disk.path) == []
    return weather.changes, sum([runner.refused for runner in runners]), sum([len(runner.ran) for runner in runners])


@pytest.mark.soak
def test_state_and_file_agree_after_a_disk_was_full_again_and_again(tmp_path: Path) -> None:
    end, rounds, totals = time.monotonic() + SECONDS, 0, Counter[str]()
    while time.monotonic() < end:
        seed = random.randint(0, 10**6)
        with small_disk(tmp_path / f"disk{rounds}", "24m") as folder:
            changes, refused, ran = through_the_weather(Disk(folder), random.Random(seed))
        totals.update(changes=changes, refused=refused, ran=ran)
        rounds += 1
    assert min(totals.values()) > 50
    print(f"{rounds} disks, filled {totals['changes']} times, {totals['refused']} refusals, {totals['ran']} tools")
