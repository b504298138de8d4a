"""The figures: each function measures once and gives ours and what stands beside it."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from alpineagents import SqliteStore, State, tool
from alpineagents.history.codec import encode
from alpineagents.state import journal_of
from alpineagents.store.info import info_of
from alpineagents.store.opening import connect_to_write
from alpineagents.store.statements import write_state
from bench.measuring import (
    MEMORY,
    CallingModel,
    Figure,
    RawTable,
    agent_for,
    folder,
    median,
    run_seconds,
    sample_state,
    seconds,
    turn_rows,
)

RUNS_10K = 10_000


def bare_loop(turns: int) -> float:
    """What the turns cost without any agent: the model, the tool, a list of messages."""
    model, messages = CallingModel(turns), [{"role": "user", "content": "go"}]

    def loop() -> None:
        while True:
            reply = model.respond(tuple(messages))
            messages.append({"role": "assistant", "content": reply.message.content})
            if not reply.tool_calls:
                return
            for call in reply.tool_calls:
                messages.append({"role": "user", "content": (call.id, f"seen {call.args['n']}")})

    return seconds(loop)


def threaded_loop(turns: int) -> float:
    """The same, with the tool on a thread that waits for work, as a sync run has it: a tool must not hold Ctrl+C up."""
    asked: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    seen: queue.SimpleQueue[str] = queue.SimpleQueue()

    def work() -> None:
        while (n := asked.get()) is not None:
            seen.put(f"seen {n}")

    threading.Thread(target=work, daemon=True).start()
    model, messages = CallingModel(turns), [{"role": "user", "content": "go"}]

    def loop() -> None:
        while True:
            reply = model.respond(tuple(messages))
            messages.append({"role": "assistant", "content": reply.message.content})
            if not reply.tool_calls:
                return
            for call in reply.tool_calls:
                asked.put(call.args["n"])
                messages.append({"role": "user", "content": (call.id, seen.get())})

    spent = seconds(loop)
    asked.put(None)
    return spent


def turn(turns: int, *, asynchronous: bool = False) -> Figure:
    """Microseconds of a turn without a store."""
    run_seconds(50, asynchronous=asynchronous)
    ours = median(3, lambda: run_seconds(turns, asynchronous=asynchronous))
    beside = median(3, lambda: (bare_loop if asynchronous else threaded_loop)(turns))
    return Figure(ours / turns * 1e6, beside / turns * 1e6, "µs")


def durable_turn(turns: int, *, asynchronous: bool = False) -> Figure:
    """Microseconds of a turn written to a file in memory, beside three commits by hand."""

    def ours() -> float:
        with folder(MEMORY) as path, SqliteStore(path / "runs.db") as store:
            run_seconds(20, store, asynchronous=asynchronous)
            return run_seconds(turns, store, asynchronous=asynchronous)

    return Figure(median(3, ours) / turns * 1e6, median(3, lambda: _raw_commits(turns)) / turns * 1e6, "µs")


def _raw_commits(turns: int) -> float:
    with folder(MEMORY) as path:
        raw, rows = RawTable(path / "raw.db"), turn_rows()

        def write() -> None:
            for index in range(turns):
                for offset, row in enumerate(rows):
                    raw.commit("a", index * 3 + offset, [row])

        spent = seconds(write)
        raw.close()
        return spent


def statements_alone(turns: int) -> Figure:
    """Microseconds SQLite takes for the statements of a turn, nothing else counted, beside three commits by hand."""
    state = sample_state(turns)
    value = journal_of(state).now
    entries = [encode(entry, seq) for seq, entry in enumerate(value.history)]

    def ours() -> float:
        with folder(MEMORY) as path, SqliteStore(path / "runs.db") as store:
            store.write(state.id, entries[:1], info_of(value), create=True)
            jobs = [write_state(state.id, [entry], info_of(value), False) for entry in entries[1:]]
            connection = connect_to_write(path / "runs.db")

            def write() -> None:
                for job in jobs:
                    connection.execute("BEGIN IMMEDIATE")
                    job(connection, False)
                    connection.execute("COMMIT")

            spent = seconds(write)
            connection.close()
            return spent

    return Figure(median(3, ours) / turns * 1e6, median(3, lambda: _raw_commits(turns)) / turns * 1e6, "µs")


def fsyncs(synchronous: str) -> Figure:
    """fsyncs a turn, counted by strace over 200 turns; beside it three raw commits with the same setting."""
    script = (
        "import sys; from bench.measuring import *; from alpineagents import SqliteStore\n"
        f"store = SqliteStore(sys.argv[1], synchronous={synchronous!r})\n"
        "run_seconds(int(sys.argv[2]), store)"
    )
    few, many = _syncs(script, 50), _syncs(script, 250)
    return Figure((many - few) / 200, 2.0 if synchronous == "full" else 0.0, "fsyncs")


def _syncs(script: str, turns: int) -> int:
    with folder() as path:
        trace = path / "trace"
        calls = "trace=fsync,fdatasync,sync_file_range,msync"
        command = ["strace", "-f", "-qq", "-e", calls, "-o", str(trace), sys.executable, "-c", script]
        subprocess.run([*command, str(path / "runs.db"), str(turns)], check=True)
        return sum(["sync" in line for line in trace.read_text().splitlines()])


def bytes_per_entry() -> Figure:
    """Bytes of the file for an entry, beside its JSON with every field in it."""
    state = sample_state(2_000)
    with folder(MEMORY) as path:
        with SqliteStore(path / "runs.db") as store:
            store.save(state)
            record = store.read(state.id)
        size = (path / "runs.db").stat().st_size
    assert record is not None
    whole = sum([len(json.dumps({"state_id": state.id, **entry})) for entry in record.entries])
    return Figure(size / len(record.entries), whole / len(record.entries), "bytes")


def wal_per_commit() -> Figure:
    """Kilobytes of WAL for a commit, beside the raw table."""
    with folder(MEMORY) as path:
        store = SqliteStore(path / "runs.db")
        run_seconds(50, store)
        before = (path / "runs.db-wal").stat().st_size
        run_seconds(40, store)
        ours = ((path / "runs.db-wal").stat().st_size - before) / (40 * 3) / 1024
        store.close()
        raw, rows = RawTable(path / "raw.db"), turn_rows()
        start = (path / "raw.db-wal").stat().st_size
        for index in range(40):
            for offset, row in enumerate(rows):
                raw.commit("a", index * 3 + offset, [row])
        beside = ((path / "raw.db-wal").stat().st_size - start) / (40 * 3) / 1024
        raw.close()
    return Figure(ours, beside, "KB")


def load(turns: int) -> Figure:
    """Milliseconds to load a run in a fresh process and read messages and usage, beside fetch and `json.loads`."""
    with folder(MEMORY) as path:
        file = path / "runs.db"
        state = State(id="long")
        agent_for(turns, file).run(_started(state))
        SqliteStore(file).close()
        ours = (
            "import sys, time; from alpineagents import SqliteStore; from alpineagents.store import sqlite\n"
            "import pydantic_core\n"
            "t = time.perf_counter(); s = SqliteStore(sys.argv[1]).load('long'); s.messages; s.usage\n"
            "print(time.perf_counter() - t)"
        )
        beside = (
            "import sys, time, json, sqlite3\n"
            "t = time.perf_counter(); c = sqlite3.connect(sys.argv[1])\n"
            "found = c.execute('SELECT data FROM entries WHERE state_id = ? ORDER BY seq', ('long',))\n"
            "rows = [json.loads(data) for (data,) in found]\n"
            "print(time.perf_counter() - t)"
        )
        return Figure(
            median(3, lambda: _seconds_of(ours, file)) * 1e3, median(3, lambda: _seconds_of(beside, file)) * 1e3, "ms"
        )


def _started(state: State) -> State:
    from alpineagents import Message

    state.add_message(Message.user("go"))
    return state


def _seconds_of(script: str, *arguments: object) -> float:
    command = [sys.executable, "-c", script, *[str(argument) for argument in arguments]]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def many_runs(path: Path) -> None:
    """A file with 10,000 runs of about 20 entries, every tenth failing; copied by SQL from one real run of each."""
    store = SqliteStore(path)
    agent_for(6, store).run("good")

    @tool(name="look")
    def broken(n: int) -> str:
        from alpineagents import ToolError

        raise ToolError("not there")

    agent_for(6, store).copy(tools=[broken], model=CallingModel(6)).run("bad")
    store.close()
    connection = sqlite3.connect(path)
    columns = [row[1] for row in connection.execute("PRAGMA table_info(states)") if row[1] != "id"]
    names = ", ".join(columns)
    good, bad = [row[0] for row in connection.execute("SELECT id FROM states ORDER BY created_at")]
    fields = "seq, kind, turn, at, closes, block, data, original"
    for number in range(RUNS_10K):
        source, name = (bad if number % 10 == 0 else good), f"r{number}"
        connection.execute(
            f"INSERT INTO states(id, {names}) SELECT ?, {names} FROM states WHERE id = ?", (name, source)
        )
        connection.execute(
            f"INSERT INTO entries(state_id, {fields}) SELECT ?, {fields} FROM entries WHERE state_id = ? ORDER BY seq",
            (name, source),
        )
    connection.execute("UPDATE states SET created_at = created_at || rowid")
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


QUERIES = {
    "newest 20 with status": (
        "SELECT id, status, first_message, turn, cost FROM states ORDER BY created_at DESC LIMIT 20"
    ),
    "failures by tool from entries": (
        "SELECT tool, outcome, count(*) FROM entries WHERE is_error = 1 AND kind = 'tool_result' GROUP BY tool, outcome"
    ),
    "failures by tool from tool_calls": (
        "SELECT tool, outcome, count(*) FROM tool_calls WHERE is_error = 1 GROUP BY tool, outcome"
    ),
}


def query(path: Path, sql: str) -> Figure:
    """Milliseconds of a query over 10,000 runs."""
    connection = sqlite3.connect(path)
    connection.execute(sql).fetchall()
    spent = median(5, lambda: seconds(lambda: connection.execute(sql).fetchall()))
    connection.close()
    return Figure(spent * 1e3, None, "ms")


def crowd() -> Figure:
    """Seconds of 100 async agents with 10 turns each at "full", beside raw sqlite3 committing each entry."""

    def ours() -> float:
        with folder() as path, SqliteStore(path / "runs.db") as store:
            run_seconds(2, store, asynchronous=True)

            async def all_of_them() -> None:
                await asyncio.gather(*[agent_for(10, store, asynchronous=True).arun("go") for _ in range(100)])

            return seconds(lambda: asyncio.run(all_of_them()))

    def beside() -> float:
        with folder() as path:
            raw, rows = RawTable(path / "raw.db"), turn_rows()

            def write() -> None:
                for agent in range(100):
                    for index in range(10):
                        for offset, row in enumerate(rows):
                            raw.commit(str(agent), index * 3 + offset, [row])

            spent = seconds(write)
            raw.close()
            return spent

    return Figure(median(3, ours), median(3, beside), "s")


def stall() -> Figure:
    """The longest pause of the event loop in milliseconds while 100 agents write, beside the same without a store."""

    def longest(store: Any) -> float:
        async def watch() -> float:
            worst = 0.0
            crowd = asyncio.gather(*[agent_for(10, store, asynchronous=True).arun("go") for _ in range(100)])
            while not crowd.done():
                before = time.perf_counter()
                await asyncio.sleep(0)
                worst = max(worst, time.perf_counter() - before)
            await crowd
            return worst

        return asyncio.run(watch())

    with folder() as path, SqliteStore(path / "runs.db") as store:
        run_seconds(2, store, asynchronous=True)
        ours = longest(store)
    return Figure(ours * 1e3, longest(None) * 1e3, "ms")


def parallel_calls() -> Figure:
    """Milliseconds of 32 calls of one turn that sleep 50 ms each."""

    @tool(name="look")
    def sleepy(n: int) -> str:
        time.sleep(0.05)
        return "seen"

    agent = agent_for(1).copy(tools=[sleepy], model=CallingModel(1, calls=32))
    agent.run("warm up")
    return Figure(seconds(lambda: agent.copy(model=CallingModel(1, calls=32)).run("go")) * 1e3, 50.0, "ms")


def opening(existing: bool) -> Figure:
    """Milliseconds of the first commit of a new file, or of opening an existing one and reading its list."""
    script = (
        "import sys, time; from alpineagents import SqliteStore, State, Message\n"
        "t = time.perf_counter(); store = SqliteStore(sys.argv[1])\n"
        "store.list() if sys.argv[2] == 'old' else store.save(State(messages=[Message.user('go')]))\n"
        "print(time.perf_counter() - t)"
    )
    raw = (
        "import sys, time, sqlite3\n"
        "t = time.perf_counter(); c = sqlite3.connect(sys.argv[1]); c.execute('PRAGMA journal_mode=WAL')\n"
        "c.execute('CREATE TABLE IF NOT EXISTS e(d)'); c.execute('INSERT INTO e VALUES(1)'); c.commit()\n"
        "print(time.perf_counter() - t)"
    )
    with folder() as path:
        _seconds_of(script, path / "old.db", "new")
        name = "old.db" if existing else "new.db"
        return Figure(
            _seconds_of(script, path / name, "old" if existing else "new") * 1e3,
            _seconds_of(raw, path / "r.db") * 1e3,
            "ms",
        )


def memory() -> Figure:
    """Peak megabytes of a process that runs 5,000 turns with a model that keeps nothing, beside one turn."""
    script = (
        "import sys; from bench.measuring import *; run_seconds(int(sys.argv[1]))\n"
        "[peak] = [line for line in open('/proc/self/status') if line.startswith('VmHWM')]\n"
        "print(int(peak.split()[1]) / 1024)"  # ru_maxrss would count that of the process it was forked from
    )
    return Figure(_seconds_of(script, 5_000), _seconds_of(script, 1), "MB")


def importing() -> Figure:
    """Milliseconds of `import alpineagents`, beside importing the standard modules it needs."""
    ours = "import time; t = time.perf_counter(); import alpineagents; print(time.perf_counter() - t)"
    needed = (
        "import sys, alpineagents\n"
        "ours = [m for m in sys.modules if m.partition('.')[0] in sys.stdlib_module_names and m[0] != '_']\n"
        "print(' '.join(ours))"
    )
    modules = subprocess.run([sys.executable, "-c", needed], check=True, capture_output=True, text=True).stdout.split()
    beside = f"import time; t = time.perf_counter(); import {', '.join(modules)}; print(time.perf_counter() - t)"
    return Figure(median(5, lambda: _seconds_of(ours)) * 1e3, median(5, lambda: _seconds_of(beside)) * 1e3, "ms")


def polled() -> Figure:
    """Seconds of a durable run while a reader asks what is new every 5 ms, beside the same run without it."""
    poll = (
        "import sys, time, sqlite3\n"
        "c = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True); last = 0\n"
        "while True:\n"
        "    rows = c.execute('SELECT id, text FROM entries WHERE id > ? ORDER BY id LIMIT 100', (last,)).fetchall()\n"
        "    last = rows[-1][0] if rows else last\n"
        "    time.sleep(0.005)"
    )
    with folder() as path, SqliteStore(path / "runs.db") as store:
        run_seconds(50, store)
        without = median(3, lambda: run_seconds(300, store))
        reader = subprocess.Popen([sys.executable, "-c", poll, str(path / "runs.db")])
        try:
            time.sleep(0.3)
            ours = median(3, lambda: run_seconds(300, store))
        finally:
            reader.kill()
            reader.wait()
    return Figure(ours, without, "s")


def processor() -> str:
    """The machine, for orientation."""
    return f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}"
