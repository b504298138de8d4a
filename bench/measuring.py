"""What every benchmark shares: a clock, a small agent, a folder in memory, and the raw rows it is compared with."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alpineagents import Agent, Message, Model, Reply, State, ToolCall, Usage, adefault_loop, default_loop, tool

MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Figure:
    """One measurement: ours, and what stands beside it, in the same unit."""

    ours: float
    beside: float | None
    unit: str


class CallingModel(Model):
    """Asks for one trivial tool a turn, `turns` times, and keeps nothing."""

    name = provider = "bench"
    context_window = 10**9

    def __init__(self, turns: int, calls: int = 1) -> None:
        self.turns = turns
        self.calls = calls
        self.asked = 0

    def respond(self, request: Any, on_text: Any = None, on_event: Any = None) -> Reply:
        """A call, or the answer."""
        self.asked += 1
        usage = Usage(input_tokens=100, output_tokens=20, requests=1)
        if self.asked > self.turns:
            return Reply(Message.assistant("done"), usage, context_tokens=120, stop_reason="end_turn", model="bench")
        calls = tuple([ToolCall("look", {"n": self.asked}, f"c{self.asked}-{i}") for i in range(self.calls)])
        return Reply(Message("assistant", calls), usage, context_tokens=120, stop_reason="tool_use", model="bench")

    async def arespond(self, request: Any, on_text: Any = None, on_event: Any = None) -> Reply:
        """The same at once, since it waits for nothing."""
        return self.respond(request)


@tool
def look(n: int) -> str:
    """Look."""
    return "seen"


@tool
async def alook(n: int) -> str:
    """Look."""
    return "seen"


def agent_for(turns: int, store: Any = None, *, asynchronous: bool = False, calls: int = 1) -> Agent:
    """An agent that takes `turns` turns with one trivial tool each, and tells nobody."""
    loop = (adefault_loop if asynchronous else default_loop).copy(limit=turns + 2)
    seen = alook.copy(name="look") if asynchronous else look
    return Agent(CallingModel(turns, calls), tools=[seen], reporter=None, human=None, store=store, loop=loop)


def seconds(action: Callable[[], Any]) -> float:
    """How long it takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def run_seconds(turns: int, store: Any = None, *, asynchronous: bool = False) -> float:
    """How long a whole run takes."""
    agent = agent_for(turns, store, asynchronous=asynchronous)
    if asynchronous:
        return seconds(lambda: asyncio.run(agent.arun("go")))
    return seconds(lambda: agent.run("go"))


def median(times: int, action: Callable[[], float]) -> float:
    """The median of several measurements."""
    return statistics.median([action() for _ in range(times)])


@contextmanager
def folder(where: Path | None = None) -> Iterator[Path]:
    """A new folder, gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="alpineagents-bench-", dir=where))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def sample_state(turns: int) -> State:
    """A State with a recorded run of that length, in memory."""
    state = State(messages=[Message.user("go")])
    agent_for(turns).run(state)
    return state


class RawTable:
    """The same rows written by hand: one table, JSON text, the same durability."""

    def __init__(self, path: Path, synchronous: str = "FULL") -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute(f"PRAGMA synchronous={synchronous}")
        self.connection.execute("CREATE TABLE entries(id INTEGER PRIMARY KEY, state_id TEXT, seq INTEGER, data TEXT)")

    def commit(self, state_id: str, seq: int, rows: list[str]) -> None:
        """One transaction."""
        execute = self.connection.execute
        execute("BEGIN IMMEDIATE")
        for offset, row in enumerate(rows):
            execute("INSERT INTO entries(state_id, seq, data) VALUES(?, ?, ?)", (state_id, seq + offset, row))
        execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self.connection.close()


def turn_rows() -> list[str]:
    """The three entries of a turn with one call, as JSON text of the size ours have."""
    request = {"kind": "model_request", "turn": 1, "at": "2026-01-01T00:00:00.000000+00:00", "content": "bench/bench"}
    call = {"type": "tool_call", "name": "look", "args": {"n": 1}, "id": "c1-0"}
    reply = {**request, "content": {"message": {"role": "assistant", "content": [call]}, "usage": {"requests": 1}}}
    result = {**request, "content": "seen", "call": call, "outcome": "done"}
    return [json.dumps(entry) for entry in (request, reply, result)]
