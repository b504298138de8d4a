from __future__ import annotations

import asyncio
import gc
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import histories
import pytest
from contracts.store import info, messages
from durability.interrupts import interrupts

from alpineagents import State
from alpineagents.history import rules
from alpineagents.history.value import EMPTY
from alpineagents.state import journal_of
from alpineagents.store import SqliteStore, check, opening
from alpineagents.store.files import file_at
from alpineagents.store.info import info_of
from alpineagents.store.statements import write_state
from alpineagents.store.writer import Job, Writer
from alpineagents.types import Image, Message, ModelEvent

JOURNALED = ("store/writer.py", "store/sqlite.py", "store/statements.py", "store/saving.py", "journal.py", "state.py")

# An interrupt in the middle of a migration leaves a context manager of sqlite-utils to the garbage collector, which
# ends it when its connection is closed already.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What a test leaves to the garbage collector is collected in that test."""
    yield
    gc.collect()


@pytest.fixture
def path() -> Iterator[Path]:
    """In memory, if that can be had: what is tried here a thousand times need not wait for a disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder) / "runs.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path) as store:
        yield store


@pytest.fixture
def writer(store: SqliteStore) -> Writer:
    """With its connection open, and with three States `s0` to `s2` without entries."""
    for number in range(3):
        store.write(f"s{number}", [], info(), create=True)
    return file_at(store._resolved).writer


def until(claim: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not claim():
        assert time.monotonic() < deadline
        time.sleep(0)


def count(store: SqliteStore, state_id: str) -> int:
    record = store.read(state_id)
    assert record is not None
    return len(record.entries)


class Trace:
    """What the writing connection executes from now on."""

    def __init__(self, writer: Writer) -> None:
        assert writer._connection is not None
        self.statements: list[str] = []
        writer._connection.set_trace_callback(self.statements.append)

    def times(self, statement: str) -> int:
        return sum(text.startswith(statement) for text in self.statements)

    def levels(self) -> list[str]:
        """The level of each commit."""
        found: list[str] = []
        level = "unknown"
        for text in self.statements:
            if text.startswith("PRAGMA synchronous="):
                level = text.partition("=")[2]
            if text == "COMMIT":
                found.append(level)
        return found


def together(writer: Writer, works: list[Callable[[], object]]) -> list[BaseException | None]:
    """Do these on threads, with all their jobs queued before the first is committed; what each raised."""
    raised: list[BaseException | None] = [None] * len(works)

    def work(number: int) -> None:
        try:
            works[number]()
        except BaseException as error:
            raised[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(works))]
    with writer._lock:
        for thread in threads:
            thread.start()
        until(lambda: len(writer._queue) == len(works))
    for thread in threads:
        thread.join()
    return raised


def write(store: SqliteStore, state_id: str, *texts: str) -> Callable[[], None]:
    return lambda: store.write(state_id, messages(*texts), info(*texts), create=True)


# Group commit.


def test_jobs_of_many_threads_share_one_transaction(store: SqliteStore, writer: Writer) -> None:
    trace = Trace(writer)
    raised = together(writer, [write(store, f"new{number}", "x") for number in range(8)])
    assert raised == [None] * 8
    assert (trace.times("BEGIN"), trace.times("COMMIT")) == (1, 1)
    assert len(store.list()) == 11


def test_jobs_of_many_tasks_share_one_transaction(store: SqliteStore, writer: Writer) -> None:
    trace = Trace(writer)

    async def main() -> None:
        writes = [store.awrite(f"new{number}", messages("x"), info("x"), create=True) for number in range(8)]
        tasks = [asyncio.ensure_future(coroutine) for coroutine in writes]
        with writer._lock:
            await asyncio.sleep(0)
            assert len(writer._queue) == 8
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert (trace.times("BEGIN"), trace.times("COMMIT")) == (1, 1)
    assert len(store.list()) == 11


def test_busy_threads_commit_less_often_than_they_write(store: SqliteStore, writer: Writer) -> None:
    trace = Trace(writer)
    states = [State(messages=[Message.user("x")]) for _ in range(8)]

    def work(state: State) -> None:
        store.save(state)
        for number in range(20):
            state.add_message(Message.user(f"{number}"))

    threads = [threading.Thread(target=work, args=(state,)) for state in states]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trace.times("COMMIT") < 8 * 21
    for state in states:
        assert store.load(state.id).snapshot() == state.snapshot()


def test_a_job_alone_needs_no_savepoint(store: SqliteStore, writer: Writer) -> None:
    trace = Trace(writer)
    write(store, "new", "x")()
    assert trace.times("SAVEPOINT") == 0


def test_a_transaction_begins_immediate(store: SqliteStore, writer: Writer) -> None:
    trace = Trace(writer)
    write(store, "new", "x")()
    assert trace.times("BEGIN IMMEDIATE") == 1


def test_a_bad_job_fails_alone(store: SqliteStore, writer: Writer) -> None:
    trace = Trace(writer)
    bad: list[Callable[[], object]] = [
        write(store, "s0", "taken"),
        lambda: store.write("unknown", messages("x"), info("x")),
        lambda: store.write("s1", messages("x", "y")[1:], info("x", "y")),
    ]
    raised = together(writer, [write(store, "new0", "x"), *bad, write(store, "new1", "x")])
    assert [type(error).__name__ for error in raised] == [
        "NoneType",
        "ValueError",
        "LookupError",
        "ValueError",
        "NoneType",
    ]
    assert trace.times("COMMIT") == 1
    assert [count(store, name) for name in ("new0", "s0", "s1", "new1")] == [1, 0, 0, 1]
    assert store.read("unknown") is None


def test_a_job_that_changed_rows_before_it_failed_leaves_nothing_behind(store: SqliteStore, writer: Writer) -> None:
    def run(connection: sqlite3.Connection, again: bool) -> None:
        write_state("half", messages("x"), info("x"), True)(connection, again)
        raise ValueError("half way")

    job = Job(run, synced=True)
    raised = together(writer, [write(store, "new", "x"), lambda: writer.perform(job)])
    assert str(raised[1]) == "half way"
    with pytest.raises(ValueError, match="half way"):
        writer.perform(Job(run, synced=True))
    assert store.read("half") is None
    assert count(store, "new") == 1


# A transaction that SQLite gives up.


@pytest.fixture
def full(writer: Writer) -> Callable[[bool], None]:
    """Lets the file grow by a few pages only, or as much as it likes."""

    def limit(on: bool) -> None:
        connection = writer._connection
        assert connection is not None
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages + 8 if on else 1_000_000}")

    return limit


def test_after_a_void_transaction_each_job_has_one_of_its_own(
    store: SqliteStore, writer: Writer, full: Callable[[bool], None]
) -> None:
    full(True)
    large = Image(bytes(200_000), "image/png")
    state = State(id="large", messages=[Message("user", (large,))])
    trace = Trace(writer)
    raised = together(writer, [write(store, "new0", "x"), lambda: store.save(state), write(store, "new1", "x")])
    assert [type(error).__name__ for error in raised] == ["NoneType", "OSError", "NoneType"]
    assert "full" in str(raised[1])
    assert trace.times("BEGIN") == 4
    assert [count(store, name) for name in ("new0", "new1")] == [1, 1]
    assert store.read("large") is None
    full(False)
    store.save(state)
    assert store.load("large").snapshot() == state.snapshot()


def test_every_job_of_a_full_disk_gets_an_error_of_its_own(
    store: SqliteStore, writer: Writer, full: Callable[[bool], None]
) -> None:
    full(True)
    large = [Message("user", (Image(bytes([number]) * 200_000, "image/png"),)) for number in range(3)]
    states = [State(messages=[message]) for message in large]
    raised = together(writer, [partial(store.save, state) for state in states])
    assert [type(error) for error in raised] == [OSError] * 3
    assert len({id(error) for error in raised}) == 3
    full(False)
    for state in states:
        store.save(state)
        assert store.load(state.id).snapshot() == state.snapshot()


def test_a_lock_that_is_not_given_is_waited_for_once_by_all_jobs(
    store: SqliteStore, writer: Writer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.close()
    monkeypatch.setattr(opening, "LOCK_WAIT_S", 0.3)
    store.write("s0", [], info())
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    start = time.monotonic()
    raised = together(writer, [write(store, f"new{number}", "x") for number in range(8)])
    assert time.monotonic() - start < 8 * 0.3
    assert [type(error) for error in raised] == [TimeoutError] * 8
    assert len({id(error) for error in raised}) == 8
    holder.execute("ROLLBACK")
    write(store, "new0", "x")()
    holder.close()


def test_a_file_that_cannot_be_opened_is_an_error_for_all_jobs(path: Path) -> None:
    path.write_text("Dear diary, " * 100)
    store = SqliteStore(path)
    raised = together(file_at(store._resolved).writer, [write(store, f"new{n}", "x") for n in range(3)])
    assert [type(error) for error in raised] == [ValueError] * 3
    assert all(error.__cause__ is not None for error in raised if error is not None)


# What is synced.


@pytest.mark.parametrize(
    ("act", "level"),
    [
        (lambda state: histories.result(state, histories.READ), "NORMAL"),
        (lambda state: journal_of(state).record(rules.model_event, ModelEvent("retry", "x")), "NORMAL"),
        (lambda state: state.add_message(Message.user("x")), "FULL"),
        (lambda state: state.finish(), "FULL"),
        (lambda state: histories.ask(state, "q", "a"), "FULL"),
        (lambda state: histories.fail(state, OSError("x")), "FULL"),
        (histories.run_start, "FULL"),
        (lambda state: (histories.result(state, histories.READ), histories.ask(state, "q", "a")), "FULL"),
    ],
)
def test_results_and_model_events_are_not_synced_and_all_else_is(
    store: SqliteStore, writer: Writer, act: Callable[[State], object], level: str
) -> None:
    state = histories.pending()
    store.save(state)
    trace = Trace(writer)
    writer._level = None
    act(state)
    journal_of(state).commit()
    assert trace.levels() == [level]


def test_requests_and_replies_are_synced(store: SqliteStore, writer: Writer) -> None:
    state = histories.started()
    store.save(state)
    trace = Trace(writer)
    writer._level = None
    for act in (histories.request, lambda state: histories.reply(state, "x")):
        act(state)
        journal_of(state).commit()
    assert trace.levels() == ["FULL", "FULL"]


def test_nothing_is_synced_with_normal(path: Path) -> None:
    with SqliteStore(path, synchronous="normal") as store:
        store.save(State())
        writer = file_at(store._resolved).writer
        trace = Trace(writer)
        writer._level = None
        store.save(histories.started())
        assert trace.levels() == ["NORMAL"]


def test_a_group_is_synced_if_one_of_its_jobs_is(store: SqliteStore, writer: Writer) -> None:
    states = [histories.pending(), histories.pending()]
    for state in states:
        store.save(state)
    histories.result(states[0], histories.READ)
    trace = Trace(writer)
    writer._level = None
    together(writer, [journal_of(states[0]).commit, lambda: states[1].add_message(Message.user("x"))])
    assert trace.levels() == ["FULL"]


def test_the_level_is_set_outside_of_the_transaction_and_only_when_it_changes(
    store: SqliteStore, writer: Writer
) -> None:
    state = histories.pending(histories.READ, histories.LIST)
    store.save(state)
    trace = Trace(writer)
    for call in (histories.READ, histories.LIST):
        histories.result(state, call)
        journal_of(state).commit()
    state.add_message(Message.user("x"))
    shown = [text for text in trace.statements if text.startswith(("PRAGMA", "BEGIN", "COMMIT"))]
    unsynced = ["PRAGMA synchronous=NORMAL", "BEGIN IMMEDIATE", "COMMIT", "BEGIN IMMEDIATE", "COMMIT"]
    assert shown == [*unsynced, "PRAGMA synchronous=FULL", "BEGIN IMMEDIATE", "COMMIT"]


def test_a_level_that_an_interrupt_left_unknown_is_set_again(store: SqliteStore, writer: Writer) -> None:
    state = histories.pending()
    store.save(state)
    for interrupt in interrupts("store/writer.py"):
        writer._level = "FULL"
        assert writer._connection is not None
        writer._connection.execute("PRAGMA synchronous=FULL")
        journal_of(state).record(rules.model_event, ModelEvent("retry", "x"))
        interrupt.during(journal_of(state).commit)
        state.add_message(Message.user("x"))
        assert writer._connection.execute("PRAGMA synchronous").fetchone() == (2,), interrupt.places


# Async.


def test_the_job_of_a_cancelled_task_is_done_all_the_same(store: SqliteStore, writer: Writer) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(store.awrite("new", messages("x"), info("x"), create=True))
        with writer._lock:
            for _ in range(3):
                await asyncio.sleep(0)
                task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert count(store, "new") == 1

    asyncio.run(main())


def test_the_end_of_a_loop_waits_for_what_its_tasks_have_queued(store: SqliteStore, writer: Writer) -> None:
    async def main() -> None:
        asyncio.ensure_future(store.awrite("new", messages("x"), info("x"), create=True))  # noqa: RUF006
        await asyncio.sleep(0)

    asyncio.run(main())
    assert count(store, "new") == 1


def test_a_task_hears_of_the_error_of_its_job(store: SqliteStore, writer: Writer) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="saved already"):
            await store.awrite("s0", messages("x"), info("x"), create=True)

    asyncio.run(main())


def test_a_loop_that_is_closed_before_its_job_is_done_keeps_nobody_from_going_on(
    store: SqliteStore, writer: Writer
) -> None:
    loop = asyncio.new_event_loop()
    with writer._lock:
        coroutine = store.awrite("new", messages("x"), info("x"), create=True)
        task = loop.create_task(coroutine)
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    write(store, "other", "x")()
    assert count(store, "new") == 1
    coroutine.close()
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it will never end, which is the point


def test_a_sync_caller_commits_what_tasks_have_queued_and_the_other_way_round(
    store: SqliteStore, writer: Writer
) -> None:
    trace = Trace(writer)

    async def main() -> None:
        with writer._lock:
            thread = threading.Thread(target=write(store, "sync", "x"))
            thread.start()
            task = asyncio.ensure_future(store.awrite("async", messages("x"), info("x"), create=True))
            await asyncio.sleep(0)
            until(lambda: len(writer._queue) == 2)
        await task
        thread.join()

    asyncio.run(main())
    assert trace.times("COMMIT") == 1
    assert [count(store, name) for name in ("sync", "async")] == [1, 1]


def test_a_helper_that_could_not_be_started_is_started_by_the_next(
    store: SqliteStore, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="thread"):
            asyncio.run(store.awrite("new", messages("x"), info("x"), create=True))
    asyncio.run(store.awrite("new", messages("x"), info("x"), create=True))
    assert count(store, "new") == 1


def test_a_mistake_in_the_helper_leaves_nobody_waiting(
    store: SqliteStore, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(jobs: list[Job]) -> None:
        raise ZeroDivisionError("a mistake")

    with monkeypatch.context() as patched:
        patched.setattr(writer, "_commit", fail)
        with pytest.raises(ZeroDivisionError):
            asyncio.run(store.awrite("new", messages("x"), info("x"), create=True))
        with pytest.raises(ZeroDivisionError):
            write(store, "other", "x")()
    write(store, "last", "x")()
    assert [store.read(name) for name in ("new", "other")] == [None, None]
    assert count(store, "last") == 1


# Interrupts: at every moment of a write, what was asked for happened wholly or not at all, and the next write goes on.


THEN = [(), (3,), (8,), (25, 25)]


def assert_saved(store: SqliteStore, state: State, where: object) -> None:
    loaded = store.load(state.id)
    assert loaded.snapshot() == state.snapshot(), where


@pytest.mark.parametrize("then", THEN)
def test_an_interrupted_command_happened_in_the_state_and_in_the_file_or_in_neither(
    path: Path, then: tuple[int, ...]
) -> None:
    with SqliteStore(path, synchronous="normal") as store:
        for interrupt in interrupts(*JOURNALED, then=then):
            state = histories.started()
            store.save(state)
            error = interrupt.during(partial(state.add_message, Message.user("interrupted")))
            assert isinstance(error, KeyboardInterrupt if interrupt.places else type(None)), interrupt.places
            assert_saved(store, state, interrupt.places)
            state.add_message(Message.user("next"))
            assert histories.texts(state)[-1] == "next"
            assert len(state.history) <= 3
            assert_saved(store, state, interrupt.places)
    assert check(path) == []


@pytest.mark.parametrize("then", THEN)
def test_facts_whose_commit_is_interrupted_are_saved_by_the_next_once(path: Path, then: tuple[int, ...]) -> None:
    with SqliteStore(path, synchronous="normal") as store:
        for interrupt in interrupts(*JOURNALED, then=then):
            state = histories.started()
            store.save(state)
            histories.think(state, "x")
            interrupt.during(journal_of(state).commit)
            histories.think(state, "y")
            store.save(state)
            assert_saved(store, state, interrupt.places)
    assert check(path) == []


@pytest.mark.parametrize("then", THEN)
def test_an_interrupted_first_save_can_be_made_again(path: Path, then: tuple[int, ...]) -> None:
    with SqliteStore(path, synchronous="normal") as store:
        for interrupt in interrupts(*JOURNALED, then=then):
            state = histories.started()
            interrupt.during(partial(store.save, state))
            histories.think(state, "x")
            store.save(state)
            assert_saved(store, state, interrupt.places)
    assert check(path) == []


def test_an_interrupted_first_save_of_a_state_without_history_can_be_made_again(path: Path) -> None:
    with SqliteStore(path, synchronous="normal") as store:
        for interrupt in interrupts(*JOURNALED):
            state = State()
            interrupt.during(partial(store.save, state))
            store.save(state)
            state.add_message(Message.user("x"))
            assert_saved(store, state, interrupt.places)


def test_an_interrupted_first_save_never_takes_over_a_state_of_the_same_name(path: Path) -> None:
    with SqliteStore(path, synchronous="normal") as store:
        first = State(id="taken", messages=[Message.user("first")])
        store.save(first)
        for interrupt in interrupts(*JOURNALED):
            for second in (State(id="taken", messages=[Message.user("second")]), State(id="taken")):
                error = interrupt.during(partial(store.save, second))
                assert isinstance(error, KeyboardInterrupt | ValueError), interrupt.places
                assert_saved(store, first, interrupt.places)
                with pytest.raises(ValueError, match="taken"):
                    store.save(second)
                assert store.list()[0].first_message == "first"


def test_an_interrupted_delete_can_be_made_again(path: Path) -> None:
    with SqliteStore(path, synchronous="normal") as store:
        kept = histories.started()
        store.save(kept)
        for interrupt in interrupts("store/writer.py", "store/sqlite.py", "store/statements.py"):
            state = histories.started()
            store.save(state)
            interrupt.during(partial(store.delete, state.id))
            assert store.read(state.id) is None or len(store.load(state.id).history) == 1
            store.delete(state.id)
            assert [info.id for info in store.list()] == [kept.id]
    assert check(path) == []


def test_an_interrupted_close_loses_nothing(path: Path) -> None:
    store = SqliteStore(path, synchronous="normal")
    state = histories.started()
    for interrupt in interrupts("store/writer.py", "store/files.py"):
        store.save(state)
        state.add_message(Message.user("x"))
        store.list()
        interrupt.during(store.close)
        gc.collect()  # the exception was in a cycle with a connection
        assert_saved(store, state, interrupt.places)
        store.close()
        assert [file.name for file in path.parent.iterdir()] == ["runs.db"], interrupt.places


@pytest.mark.filterwarnings("ignore:Exception ignored in")  # a generator of sqlite-utils that Python never entered
def test_an_interrupted_first_opening_can_be_made_again(path: Path) -> None:
    for number, interrupt in enumerate(interrupts("store/writer.py", "store/opening.py", "store/schema.py")):
        path = path.with_name(f"{number}.db")
        state = histories.started()
        with SqliteStore(path, synchronous="normal") as store:
            interrupt.during(partial(store.save, state))
            store.save(state)
            assert_saved(store, state, interrupt.places)
        assert check(path) == []


def test_an_interrupted_read_can_be_made_again(path: Path) -> None:
    with SqliteStore(path, synchronous="normal") as store:
        state = histories.started()
        store.save(state)
        for interrupt in interrupts("store/files.py", "store/sqlite.py", "store/opening.py"):
            store._file._close_readers()
            interrupt.during(lambda: store.load(state.id))
            assert_saved(store, state, interrupt.places)


@pytest.mark.parametrize("then", THEN)
def test_an_interrupt_forgets_none_of_the_jobs_committed_for_others(path: Path, then: tuple[int, ...]) -> None:
    with SqliteStore(path, synchronous="normal") as store:
        store.save(State())
        writer = file_at(store._resolved).writer
        for round_number, interrupt in enumerate(interrupts("store/writer.py", then=then)):
            told: list[int] = []
            done: list[int] = []
            names = [f"r{round_number}-{number}" for number in range(3)]
            for number, name in enumerate(names):
                run = write_state(name, [], info_of(EMPTY), True)
                job = Job(run, synced=False, done=partial(done.append, number))
                job.tell = partial(told.append, number)
                writer._queue.append(job)
            state = histories.started()
            interrupt.during(partial(store.save, state))
            store.save(state)
            assert (set(told), set(done)) == ({0, 1, 2}, {0, 1, 2}), interrupt.places
            assert [count(store, name) for name in names] == [0, 0, 0]
            assert_saved(store, state, interrupt.places)
    assert check(path) == []


def test_an_outcome_that_somebody_was_told_stays() -> None:
    told: list[BaseException | None] = []

    def tell() -> None:
        told.append(job.error)
        if len(told) == 1:
            raise KeyboardInterrupt

    job = Job(lambda connection, again: None, synced=False)
    job.tell = tell
    with pytest.raises(KeyboardInterrupt):
        job.end(OSError("full"))
    assert not job.ended
    job.end()
    assert job.ended
    assert [str(error) for error in told] == ["full", "full"]


def test_a_stack_that_is_nearly_used_up_loses_nothing(path: Path) -> None:
    with SqliteStore(path, synchronous="normal") as store:
        state = histories.started()
        store.save(state)

        def dive(depth: int) -> None:
            if depth:
                dive(depth - 1)
            else:
                state.add_message(Message.user("deep"))

        failed = 0
        for depth in range(850, 1000, 3):
            before = state.snapshot()
            try:
                dive(depth)
            except RecursionError:
                failed += 1
                assert state.snapshot() == before
            assert_saved(store, state, depth)
        assert failed
        state.add_message(Message.user("next"))
        assert_saved(store, state, "at the end")
    assert check(path) == []
