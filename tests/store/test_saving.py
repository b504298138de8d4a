from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import histories
import pytest
from contracts.store import AsyncStore, MemoryStore, Way, awaited, directly, watch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import states

from alpineagents import Agent, State, tool
from alpineagents.history import wording
from alpineagents.history.codec import FORMAT
from alpineagents.history.entries import MessageEntry, ModelEventEntry
from alpineagents.state import journal_of
from alpineagents.store import Record, SqliteStore
from alpineagents.store.saving import Binding
from alpineagents.testing import FakeModel, tool_call
from alpineagents.types import Image, Message, ModelEvent, ToolCall, ToolOutcomeKind, Usage

READ, LIST = histories.READ, histories.LIST


@pytest.fixture(params=[directly, awaited], ids=lambda way: way.__name__)
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


def saved(state: State) -> MemoryStore:
    store = MemoryStore()
    store.save(state)
    return store


def binding(state: State) -> Binding | None:
    sink = journal_of(state).sink
    assert sink is None or isinstance(sink, Binding)
    return sink


# Binding.


def test_a_new_state_is_bound_to_nothing() -> None:
    assert binding(State()) is None


def test_the_first_save_binds(way: Way) -> None:
    store, state = MemoryStore(), histories.started()
    way(store, "save", state)
    with pytest.raises(ValueError, match="kept in"):
        MemoryStore().save(state)


def test_a_load_binds() -> None:
    state = histories.started()
    loaded = saved(state).load(state.id)
    with pytest.raises(ValueError, match="kept in"):
        MemoryStore().save(loaded)


def test_a_store_that_compares_equal_is_the_same_store() -> None:
    class Named(MemoryStore):
        shelves: dict[str, Any] = {}  # noqa: RUF012  # shared by all objects, which is what makes them equal

        def __init__(self) -> None:
            self.shelf = self.shelves

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Named)

        __hash__ = object.__hash__

    state = histories.started()
    Named().save(state)
    histories.request(state)
    Named().save(state)
    assert [entry["kind"] for entry in Named().shelf[state.id][0]] == ["context_change", "model_request"]


@pytest.mark.parametrize("copied", [State.fork, lambda state: State(history=state.history), copy.copy])
def test_forks_and_copies_are_bound_to_nothing(copied: Callable[[State], State]) -> None:
    state = histories.started()
    saved(state)
    assert binding(copied(state)) is None
    saved(copied(state))


def test_restore_keeps_the_binding() -> None:
    state = histories.started()
    before = state.snapshot()
    store = saved(state)
    histories.think(state, "x")
    state.restore(before)
    store.save(state)
    assert store.load(state.id).snapshot() == state.snapshot()


def test_a_failed_first_save_binds_nothing(way: Way) -> None:
    store, state = MemoryStore(), histories.started()
    watch(store, way, fail=[OSError("full")])
    with pytest.raises(OSError, match="full"):
        way(store, "save", state)
    other = saved(state)
    assert other.load(state.id).snapshot() == state.snapshot()


def test_a_run_in_another_store_is_refused_before_anything_is_recorded(act: Any) -> None:
    state = histories.started()
    saved(state)
    before, other = state.snapshot(), MemoryStore()
    with pytest.raises(ValueError, match="kept in"):
        act(Agent(FakeModel([]), store=other, reporter=None, human=None), "run", state)
    assert state.snapshot() is before
    assert other.shelf == {}


# A first save whose waiter was cancelled.


class Slow(AsyncStore):
    """Its writes wait until they are let go."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.entered = asyncio.Event()
        self.go = asyncio.Event()
        self.error = error

    async def awrite(self, *args: Any, **details: Any) -> None:
        self.entered.set()
        await self.go.wait()
        if self.error is not None:
            raise self.error
        await super().awrite(*args, **details)


async def cancelled_save(store: Slow, state: State) -> None:
    saving = asyncio.ensure_future(store.asave(state))
    await store.entered.wait()
    saving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await saving


def test_a_save_after_a_cancelled_first_one_waits_for_it_and_finds_nothing_to_do() -> None:
    async def main() -> None:
        store, state = Slow(), histories.started()
        await cancelled_save(store, state)
        again = asyncio.ensure_future(store.asave(state))
        store.go.set()
        await again
        assert store.inner.load(state.id).snapshot() == state.snapshot()
        histories.request(state)
        histories.reply(state, "x")
        await store.asave(state)
        assert store.inner.load(state.id).snapshot() == state.snapshot()

    asyncio.run(main())


def test_a_save_after_a_cancelled_first_one_that_failed_is_a_first_one() -> None:
    async def main() -> None:
        store, state = Slow(OSError("full")), histories.started()
        await cancelled_save(store, state)
        store.go.set()
        store.error = None
        await store.asave(state)
        assert store.inner.load(state.id).snapshot() == state.snapshot()

    asyncio.run(main())


def test_a_save_elsewhere_after_a_cancelled_first_one_still_has_the_whole_history() -> None:
    async def main() -> None:
        store, other, state = Slow(), MemoryStore(), histories.started()
        await cancelled_save(store, state)
        again = asyncio.ensure_future(other.asave(state))
        store.go.set()
        await again
        assert other.load(state.id).snapshot() == state.snapshot()

    asyncio.run(main())


def test_a_write_that_is_committed_before_it_raises_counts_as_saved(tmp_path: Path) -> None:
    class Raising(SqliteStore):
        def write(self, *args: Any, **details: Any) -> None:
            super().write(*args, **details)
            if details["create"]:
                raise OSError("afterwards")

    with Raising(tmp_path / "runs.db") as store:
        state = histories.started()
        with pytest.raises(OSError, match="afterwards"):
            store.save(state)
        state.add_message(Message.user("next"))
        store.save(state)
        assert store.load(state.id).snapshot() == state.snapshot()


# What cannot be JSON.


def test_what_is_not_json_cannot_be_saved_and_the_error_says_where(way: Way) -> None:
    event = ModelEvent("retry", "again", {"list": [1, float("nan")]})
    state = State(history=[ModelEventEntry(content=event, turn=0)])
    store = MemoryStore()
    with pytest.raises(TypeError, match=r"entry 0 \(model_event\).*data.*list.*1"):
        way(store, "save", state)
    assert store.shelf == {}
    assert binding(state) is None


# Forks.


def test_a_fork_of_a_state_that_is_not_saved_says_nothing_of_it() -> None:
    state, store = histories.started(), MemoryStore()
    fork = state.fork()
    store.save(fork)
    assert not {"forked_from", "forked_at"} & store.shelf[fork.id][1].keys()


def test_a_fork_of_a_state_kept_elsewhere_says_nothing_of_it() -> None:
    state = histories.started()
    saved(state)
    fork, store = state.fork(), MemoryStore()
    store.save(fork)
    assert not {"forked_from", "forked_at"} & store.shelf[fork.id][1].keys()


def test_a_fork_says_so_when_the_original_is_saved_first() -> None:
    state = histories.started()
    fork = state.fork()
    histories.request(fork)
    store = saved(state)
    store.save(fork)
    about = store.shelf[fork.id][1]
    assert (about["forked_from"], about["forked_at"]) == (state.id, 1)


def test_a_state_of_a_history_is_no_fork() -> None:
    state = histories.started()
    store = saved(state)
    copied = State(history=state.history)
    store.save(copied)
    assert "forked_from" not in store.shelf[copied.id][1]


def test_where_a_fork_came_from_belongs_to_no_snapshot() -> None:
    state = histories.started()
    assert state.fork().snapshot() == state.snapshot()


# Loading.


def record_of(state: State) -> tuple[MemoryStore, list[dict[str, Any]], dict[str, Any]]:
    store = saved(state)
    entries, about = store.shelf[state.id]
    return store, entries, about


def refused(store: MemoryStore, state: State) -> str:
    with pytest.raises(ValueError, match=state.id) as raised:
        store.load(state.id)
    return str(raised.value)


@pytest.mark.parametrize("about", [None, [], "v", 1])
def test_an_info_that_is_no_mapping_is_refused(about: Any) -> None:
    class Odd(MemoryStore):
        def read(self, state_id: str) -> Record | None:
            return Record([], about)

    with pytest.raises(ValueError, match=r"a-state.*not a mapping"):
        Odd().load("a-state")


@pytest.mark.parametrize("version", [None, True, "1", 1.0])
def test_an_info_without_a_version_is_refused_before_any_entry_is_looked_at(version: Any) -> None:
    state = histories.started()
    store, entries, about = record_of(state)
    entries[0].clear()
    if version is None:
        del about["v"]
    else:
        about["v"] = version
    assert "no version" in refused(store, state)


@pytest.mark.parametrize(("version", "said"), [(FORMAT + 1, "newer"), (0, "older")])
def test_another_version_is_refused_and_called_older_or_newer(version: int, said: str) -> None:
    state = histories.started()
    store, entries, about = record_of(state)
    entries[0].clear()
    about["v"] = version
    assert said in refused(store, state)


@pytest.mark.parametrize("seq", [1, -1, None, "0", 0.0, False])
def test_a_wrong_seq_is_refused(seq: Any) -> None:
    state = histories.started()
    store, entries, _ = record_of(state)
    entries[0]["seq"] = seq
    assert "entry 0" in refused(store, state)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_missing_entry_is_refused(lost: int) -> None:
    state = histories.started()
    histories.think(state, "x")
    store, entries, _ = record_of(state)
    del entries[lost]
    assert f"entry {lost}" in refused(store, state)


@pytest.mark.parametrize("damaged", [None, [], "text", {"seq": 1}, {"seq": 1, "kind": "unheard_of"}])
def test_an_entry_that_cannot_be_decoded_is_refused_with_its_seq(damaged: Any) -> None:
    state = histories.started()
    histories.request(state)
    store, entries, _ = record_of(state)
    entries[1] = damaged
    assert "entry 1" in refused(store, state)


def test_an_entry_that_cannot_follow_is_refused_with_its_seq() -> None:
    state = histories.started()
    histories.think(state, "x")
    store, entries, _ = record_of(state)
    entries[1], entries[2] = {**entries[2], "seq": 1}, {**entries[1], "seq": 2}
    assert "[1]" in refused(store, state)


def test_an_info_that_lags_behind_changes_nothing() -> None:
    state = histories.started()
    histories.think(state, "x")
    store, _, about = record_of(state)
    about.clear()
    about["v"] = FORMAT
    assert store.load(state.id).snapshot() == state.snapshot()


def damage(value: Any, chance: random.Random) -> Any:
    """The same JSON with one thing in it replaced, lost or doubled."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(sorted(value))
        return (
            {**value, key: damage(value[key], chance)}
            if chance.random() < 0.8
            else {k: v for k, v in value.items() if k != key}
        )
    if isinstance(value, list) and value and chance.random() < 0.9:
        index = chance.randrange(len(value))
        return [*value[:index], damage(value[index], chance), *value[index + chance.randrange(2) :]]
    return chance.choice([None, True, 5, -1, 2**80, 1.5, "", "text", [], {}, [5], {"type": "text"}, ["a", {}]])


@settings(max_examples=150)
@given(states(15), st.randoms(use_true_random=False))
def test_a_damaged_record_is_refused_with_a_value_error_or_read(state: State, chance: random.Random) -> None:
    store, entries, about = record_of(state)
    store.shelf[state.id] = (damage(entries, chance), damage(about, chance))
    if not isinstance(store.shelf[state.id][0], list) or not isinstance(store.shelf[state.id][1], dict):
        return  # what a Store itself could not give back
    try:
        loaded = store.load(state.id)
    except ValueError as error:
        assert state.id in str(error)
    else:
        assert isinstance(loaded, State)


# Repair.


def test_a_request_that_waited_is_taken_back() -> None:
    state = histories.waiting()
    state.add_message(Message.user("hurry"))
    loaded = saved(state).load(state.id)
    (added,) = loaded.history[3:]
    assert (added.kind, added.content, added.turn) == ("error", wording.STOPPED_WAITING, 1)
    assert getattr(added, "call", 0) is None
    assert getattr(added, "error", 0) is None
    assert loaded.turn == 0
    assert histories.texts(loaded) == ["Go", "hurry"]


def test_a_request_that_waited_is_asked_again() -> None:
    state = histories.waiting()
    store = saved(state)
    model = FakeModel(["Hello"])
    loaded = store.load(state.id)
    assert Agent(model, store=store, reporter=None, human=None).run(loaded) == "Hello"
    assert [message.text for message in model.requests[0].messages] == ["Go"]
    assert store.load(state.id).snapshot() == loaded.snapshot()


def test_calls_without_a_result_are_closed_as_unknown_in_request_order() -> None:
    calls = [ToolCall("book", {"seat": seat}, seat) for seat in ("1A", "9F", "7C")]
    state = histories.pending(*calls)
    histories.result(state, calls[1], "booked")
    state.add_message(Message.user("aisle please"))
    loaded = saved(state).load(state.id)
    added = loaded.history[5:]
    assert [(entry.kind, entry.call, entry.turn) for entry in added] == [
        ("tool_result", calls[0], 1),
        ("tool_result", calls[2], 1),
    ]
    for entry in added:
        assert (entry.content, entry.outcome) == (wording.RESULT_UNKNOWN, ToolOutcomeKind.ABORTED)
        assert (entry.error, entry.child_ids, entry.usage) == (None, (), None)
    user, asked, results, held = loaded.messages
    assert (user.text, asked.role, held.text) == ("Go", "assistant", "aisle please")
    assert [block.call_id for block in results.content] == ["1A", "9F", "7C"]
    assert (loaded.pending_calls, loaded.stopped) == ((), None)


def test_the_repair_is_as_late_as_the_loading() -> None:
    state = histories.pending()
    loaded = saved(state).load(state.id)
    assert loaded.updated_at is not None
    assert loaded.updated_at > state.history[-1].at
    assert loaded.created_at == state.created_at


def test_loading_runs_no_tool_and_the_next_run_sends_the_results() -> None:
    ran: list[str] = []

    @tool
    def read(path: str) -> str:
        """Read.

        Args:
            path: A path.
        """
        ran.append(path)
        return path

    state = histories.pending(READ)
    store = saved(state)
    model = FakeModel(["Hello"])
    Agent(model, tools=[read], store=store, reporter=None, human=None).run(store.load(state.id))
    assert ran == []
    assert wording.RESULT_UNKNOWN in str(model.requests[0].messages[-1].content)


@pytest.mark.parametrize("between", [histories.started, State])
def test_a_state_saved_between_turns_gets_no_repair(between: Callable[[], State]) -> None:
    state = between()
    assert saved(state).load(state.id).history == state.history


def test_a_finished_state_loads_finished() -> None:
    state = histories.started()
    state.finish({"answer": 42})
    loaded = saved(state).load(state.id)
    assert (loaded.finished, loaded.answer, loaded.stopped) == (True, {"answer": 42}, state.stopped)


def test_exceptions_are_not_saved_but_their_texts_are() -> None:
    state = histories.started()
    histories.fail(state, OSError("broken"))
    (_, loaded) = saved(state).load(state.id).history
    assert (loaded.content, getattr(loaded, "error", 0)) == ("OSError: broken", None)


def test_a_request_after_loading_is_what_the_original_would_have_sent() -> None:
    def talk(state: State) -> list[Any]:
        model = FakeModel(["x"])
        Agent(model, reporter=None, human=None).think(state)
        return [request.messages for request in model.requests]

    state = histories.pending(READ)
    histories.result(state, READ, (Image(b"x", "image/png"),))
    histories.result(state, READ, "late", late=True)
    state.compact("so far")
    state.add_message(Message.notice("go on"))
    loaded = saved(state).load(state.id)
    assert talk(loaded) == talk(State(history=state.history))


# What one run writes.


def test_one_run_in_a_plain_store_writes_at_its_save_points(act: Any) -> None:
    @tool
    def fast() -> str:
        """Answer."""
        return "fast"

    @tool(parallel=False)
    def slow() -> str:
        """Answer."""
        return "slow"

    store, state = MemoryStore(), histories.started()
    model = FakeModel([[tool_call("fast"), tool_call("slow"), tool_call("unknown")], "Done"])
    agent = Agent(model, tools=[fast, slow], store=store, reporter=None, human=None)
    written: list[tuple[list[str], bool]] = []
    original = store.write

    def write(state_id: str, entries: Any, info: Any, *, create: bool = False) -> None:
        written.append(([entry["kind"] for entry in entries], create))
        original(state_id, entries, info, create=create)

    store.write = write
    act(agent, "run", state)
    assert written == [
        (["context_change", "run_start"], True),
        (["model_request"], False),
        (["model_reply"], False),
        (["tool_result", "tool_result"], False),
        (["tool_result"], False),
        (["model_request"], False),
        (["model_reply"], False),
        (["stop"], False),
    ]


def test_usage_of_a_size_no_column_has_does_not_keep_a_state_from_being_saved(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "runs.db") as store:
        state = histories.started()
        store.save(state)
        histories.think(state, "x", usage=Usage(input_tokens=2**70, requests=1))
        store.save(state)
        assert store.load(state.id).usage == state.usage
        assert store.list()[0].turn == 1


def test_a_history_with_entries_of_another_time_zone_is_saved() -> None:
    state = State(history=[MessageEntry(kind="user", content="x", turn=0)])
    assert saved(state).load(state.id).history == state.history
