"""Runs whose writes are recorded, each in a process of its own: `python -m durability.subjects folder name seed level`.

Each says of what leaves the machine how many entries of its State must be on the disk by then: at a request all of
them; where a tool acts, and when a command or a run has returned, all up to the last that is no mere result.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from durability.recording import mark

from alpineagents import Agent, SqliteStore, State, Tool, tool
from alpineagents.testing import FakeModel
from alpineagents.types import Image, Message, ToolCall

RESULTS = ("tool_result", "model_event")
PAGE = 4096


def must_be_there(state: State, what: str, count: int | None = None) -> None:
    """Everything but the last results, or so many entries."""
    kinds = [entry.kind for entry in state.history]
    if count is None:
        count = max([index for index, kind in enumerate(kinds) if kind not in RESULTS], default=-1) + 1
    mark(what=what, state=state.id, count=count)


class Worker:
    """One State that is run, its tools, and a model that leaves it no rest."""

    def __init__(self, store: SqliteStore, state: State, chance: random.Random, size: int = PAGE) -> None:
        self.store, self.state, self.chance, self.size = store, state, chance, size
        self.calls = 0

    def agent(self, turns: int, *, asynchronous: bool = False) -> Agent:
        model = FakeModel([self.reply] * turns + [self.done], context_window=10**9)
        tools = [*self._async_tools()] if asynchronous else [*self._tools()]
        return Agent(model, tools=tools, store=self.store, reporter=None, human=None)

    def run(self, turns: int) -> None:
        self.agent(turns).run(self.state)
        must_be_there(self.state, "the run has returned")

    async def arun(self, turns: int) -> None:
        await self.agent(turns, asynchronous=True).arun(self.state)
        must_be_there(self.state, "the run has returned")

    def say(self) -> None:
        """Commands of the caller."""
        self.state.add_message(Message.user("more " * self.chance.randint(1, 40)))
        must_be_there(self.state, "a message was added")
        with self.state.edit_extra_data() as data:
            data["calls"] = self.calls
        must_be_there(self.state, "data were set")

    def reply(self, request: Any) -> list[Any]:
        must_be_there(self.state, "the model is asked", len(self.state.history))
        names = self.chance.choices(("look", "look", "draw", "send"), k=self.chance.randint(1, 4))
        return ["Working", *[self._call(name) for name in names]]

    def _call(self, name: str) -> ToolCall:
        self.calls += 1
        return ToolCall(name, {"n": self.calls}, f"c{self.calls}")

    def done(self, request: Any) -> str:
        must_be_there(self.state, "the model is asked", len(self.state.history))
        return "Done"

    def _text(self, n: int) -> str:
        return f"{n} " * self.chance.randint(1, self.size)

    def _tools(self) -> list[Tool]:
        @tool
        def look(n: int) -> str:
            """Look.

            Args:
                n: A number.
            """
            must_be_there(self.state, "a tool acts")
            return self._text(n)

        @tool
        def draw(n: int) -> Image:
            """Draw.

            Args:
                n: A number.
            """
            must_be_there(self.state, "a tool acts")
            return Image(random.Random(n % 5).randbytes(self.size), "image/png")  # some are drawn more than once

        @tool(parallel=False)
        def send(n: int) -> str:
            """Send.

            Args:
                n: A number.
            """
            must_be_there(self.state, "a tool acts")
            self.say()
            return self._text(n)

        return [look, draw, send]

    def _async_tools(self) -> list[Tool]:
        look, draw, _ = self._tools()

        @tool
        async def send(n: int) -> str:
            """Send.

            Args:
                n: A number.
            """
            must_be_there(self.state, "a tool acts")
            await asyncio.sleep(0)
            return self._text(n)

        return [look, draw, send]


def started(store: SqliteStore, chance: random.Random, name: str, size: int = PAGE) -> Worker:
    return Worker(store, State(id=name, messages=[Message.user(f"Go, {name}")]), chance, size)


def first(store: SqliteStore, chance: random.Random) -> None:
    """The file is made, and one State saved."""
    worker = started(store, chance, "first")
    store.save(worker.state)
    must_be_there(worker.state, "it was saved")
    worker.say()


def story(store: SqliteStore, chance: random.Random) -> None:
    """States that take turns, a fork, an image or two, a file that is closed in between, and checkpoints."""
    workers = [started(store, chance, name) for name in "abc"]
    for worker in workers[:2]:
        worker.run(2)
        worker.say()
    fork = workers[0].state.fork()
    store.save(fork)
    must_be_there(fork, "the fork was saved")
    checkpoint(store, chance)
    workers.append(Worker(store, fork, chance))
    for worker in chance.sample(workers, 4):
        worker.run(chance.randint(0, 2))
        if chance.random() < 0.3:
            checkpoint(store, chance)
    if chance.random() < 0.7:
        store.close()
    for worker in chance.sample(workers, 3):
        worker.run(chance.randint(0, 1))
        worker.say()


def crowd(store: SqliteStore, chance: random.Random) -> None:
    """Tasks of one event loop, whose commits go together."""
    workers = [started(store, chance, f"w{number}") for number in range(8)]

    async def all_of_them() -> None:
        await asyncio.gather(*[worker.arun(chance.randint(1, 3)) for worker in workers])

    asyncio.run(all_of_them())


def questions(store: SqliteStore, chance: random.Random) -> None:
    """What asks the model without a request in the history, right behind results."""
    worker = started(store, chance, "q")

    def loop(agent: Agent, state: State) -> str:
        agent.think(state)
        agent.use_tools(state)
        agent.ask(state, "Is it done?")
        agent.think(state)
        agent.use_tools(state)
        agent.compact(state)
        return "Done"

    worker.agent(1).copy(model=FakeModel([worker.reply, worker.done] * 2), loop=loop).run(worker.state)


def async_questions(store: SqliteStore, chance: random.Random) -> None:
    """The same in an async run."""
    worker = started(store, chance, "q")

    async def loop(agent: Agent, state: State) -> str:
        await agent.athink(state)
        await agent.ause_tools(state)
        await agent.aask(state, "Is it done?")
        await agent.athink(state)
        await agent.ause_tools(state)
        await agent.acompact(state)
        return "Done"

    model = FakeModel([worker.reply, worker.done] * 2)
    asyncio.run(worker.agent(1, asynchronous=True).copy(model=model, loop=loop).arun(worker.state))


def volume(store: SqliteStore, chance: random.Random) -> None:
    """So much that SQLite makes checkpoints by itself, at a commit."""
    workers = [started(store, chance, name, 64 * PAGE) for name in "xy"]
    for _ in range(3):
        for worker in workers:
            worker.run(3)


def resume(store: SqliteStore, chance: random.Random) -> None:
    """What a process does that finds what a power cut left."""
    for info in store.list():
        state = store.load(info.id)
        worker = Worker(store, state, chance)
        worker.calls = len(state.history)
        worker.run(1)
    first_of_its_own = started(store, chance, f"new{chance.randint(0, 10**9)}")
    first_of_its_own.run(1)


def checkpoint(store: SqliteStore, chance: random.Random) -> None:
    """Somebody else's, while the store is open."""
    connection = sqlite3.connect(store.path)
    connection.execute(f"PRAGMA wal_checkpoint({chance.choice(['PASSIVE', 'FULL', 'RESTART', 'TRUNCATE'])})")
    connection.close()


SUBJECTS: dict[str, Callable[[SqliteStore, random.Random], None]] = {
    subject.__name__: subject for subject in (first, story, crowd, questions, async_questions, volume, resume)
}


def main(folder: str, name: str, seed: str, level: Any) -> None:
    with SqliteStore(Path(folder) / "runs.db", synchronous=level) as store:
        SUBJECTS[name](store, random.Random(f"{name} {seed}"))


if __name__ == "__main__":
    main(*sys.argv[1:])
