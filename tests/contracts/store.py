"""What every Store does, however it keeps things; and small Stores of each kind that do it."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import histories
import pytest
from hypothesis import HealthCheck, given, settings
from strategies import entries, states

from alpineagents.history.codec import encode
from alpineagents.history.entries import HistoryEntry, MessageEntry
from alpineagents.history.replay import fold
from alpineagents.history.value import EMPTY
from alpineagents.state import State, journal_of
from alpineagents.store import Record, StateInfo, Store
from alpineagents.store.info import info_of
from alpineagents.values.content import Message

Entries = Sequence[dict[str, Any]]
Way = Callable[..., Any]


class ShelfStore(Store):
    """A Store of one's own, no longer than it has to be."""

    def __init__(self, shelf: Any) -> None:
        self.shelf = shelf

    def write(self, state_id: str, entries: Entries, info: Mapping[str, Any], *, create: bool = False) -> None:
        have = self.shelf.get(state_id)
        if create == (have is not None):
            raise ValueError(state_id) if create else LookupError(state_id)
        old = have[0] if have else []
        if entries and entries[0]["seq"] > len(old):
            raise ValueError(f"{state_id}: entries are missing before {entries[0]['seq']}")
        self.shelf[state_id] = (old + [e for e in entries if e["seq"] >= len(old)], dict(info))

    def read(self, state_id: str) -> Record | None:
        have = self.shelf.get(state_id)
        return have and Record(list(have[0]), dict(have[1]))


class MemoryStore(ShelfStore):
    """Only sync methods, all of them."""

    def __init__(self) -> None:
        super().__init__({})

    def list(self) -> list[StateInfo]:
        infos = [StateInfo.from_info(state_id, info) for state_id, (_, info) in self.shelf.items()]
        oldest = datetime.min.replace(tzinfo=UTC)
        return sorted(infos, key=lambda info: info.updated_at or oldest, reverse=True)

    def delete(self, state_id: str) -> None:
        self.shelf.pop(state_id, None)


class AsyncStore(Store):
    """Only async methods."""

    def __init__(self) -> None:
        self.inner = MemoryStore()

    async def awrite(self, state_id: str, entries: Entries, info: Mapping[str, Any], *, create: bool = False) -> None:
        await asyncio.sleep(0)
        self.inner.write(state_id, entries, info, create=create)

    async def aread(self, state_id: str) -> Record | None:
        return self.inner.read(state_id)

    async def alist(self) -> list[StateInfo]:
        return self.inner.list()

    async def adelete(self, state_id: str) -> None:
        self.inner.delete(state_id)


class BothStore(AsyncStore):
    """Both kinds of methods."""

    def write(self, state_id: str, entries: Entries, info: Mapping[str, Any], *, create: bool = False) -> None:
        self.inner.write(state_id, entries, info, create=create)

    def read(self, state_id: str) -> Record | None:
        return self.inner.read(state_id)

    def list(self) -> list[StateInfo]:
        return self.inner.list()

    def delete(self, state_id: str) -> None:
        self.inner.delete(state_id)


def directly(store: Store, method: str, *args: Any, **details: Any) -> Any:
    return getattr(store, method)(*args, **details)


def awaited(store: Store, method: str, *args: Any, **details: Any) -> Any:
    return asyncio.run(getattr(store, f"a{method}")(*args, **details))


def messages(*texts: str) -> list[dict[str, Any]]:
    """Entries in their JSON form."""
    made = [MessageEntry(kind="user", content=text, turn=0) for text in texts]
    return [encode(entry, seq) for seq, entry in enumerate(made)]


def info(*texts: str) -> dict[str, Any]:
    """The info of a State with these messages."""
    return info_of(fold([MessageEntry(kind="user", content=text, turn=0) for text in texts]))


def watch(store: Store, way: Way, *, fail: list[Exception] | None = None) -> list[tuple[list[int], bool]]:
    """The writes from now on, as `(seqs, create)`; each takes an exception out of `fail` first, and raises it."""
    writes: list[tuple[list[int], bool]] = []
    name = "write" if way is directly else "awrite"
    original = getattr(store, name)

    def note(entries: Entries, create: bool) -> None:
        writes.append(([entry["seq"] for entry in entries], create))
        if fail:
            raise fail.pop(0)

    def write(state_id: str, entries: Entries, info: Any, *, create: bool = False) -> None:
        note(entries, create)
        original(state_id, entries, info, create=create)

    async def awrite(state_id: str, entries: Entries, info: Any, *, create: bool = False) -> None:
        note(entries, create)
        await original(state_id, entries, info, create=create)

    setattr(store, name, write if way is directly else awrite)
    return writes


def assert_same(loaded: State, state: State) -> None:
    assert loaded is not state
    assert loaded.id == state.id
    assert loaded.snapshot() == state.snapshot()
    assert [entry.at for entry in loaded.history] == [entry.at for entry in state.history]
    names = ("created_at", "updated_at", "parent_id", "parent_call_id")
    assert [getattr(loaded, name) for name in names] == [getattr(state, name) for name in names]


many = settings(max_examples=12, suppress_health_check=list(HealthCheck))


class StoreContract:
    """Subclass it as `Test...` with the fixture `store`: an empty Store."""

    ways: ClassVar[list[Way]] = [directly, awaited]

    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "way" in metafunc.fixturenames:
            metafunc.parametrize("way", self.ways, ids=lambda way: way.__name__)

    @pytest.fixture
    def made(self, store: Store, way: Way) -> Store:
        """It has one State, `a`, with two entries."""
        way(store, "write", "a", messages("one", "two"), info("one", "two"), create=True)
        return store

    # write and read

    def test_an_unknown_id_reads_as_none(self, store: Store, way: Way) -> None:
        assert way(store, "read", "a") is None

    def test_what_was_written_first_is_read(self, store: Store, way: Way) -> None:
        written, about = messages("one", "two"), info("one", "two")
        way(store, "write", "a", written, about, create=True)
        assert way(store, "read", "a") == Record(written, about)

    def test_a_state_without_entries_is_there(self, store: Store, way: Way) -> None:
        way(store, "write", "a", [], info(), create=True)
        assert way(store, "read", "a") == Record([], info())

    def test_entries_follow_a_first_write_without_any(self, store: Store, way: Way) -> None:
        way(store, "write", "a", [], info(), create=True)
        about, written = info("one"), messages("one")
        way(store, "write", "a", written, about)
        assert way(store, "read", "a") == Record(written, about)

    def test_later_entries_are_added_and_the_info_is_replaced(self, made: Store, way: Way) -> None:
        before, more = way(made, "read", "a"), messages("one", "two", "three")[2:]
        about = {**before.info, "turn": 7, "entry_count": 3}
        way(made, "write", "a", more, about)
        assert way(made, "read", "a") == Record([*before.entries, *more], about)

    def test_a_write_without_entries_replaces_the_info(self, made: Store, way: Way) -> None:
        before = way(made, "read", "a")
        about = {**before.info, "turn": 7}
        way(made, "write", "a", [], about)
        assert way(made, "read", "a") == Record(before.entries, about)

    def test_a_repeated_batch_has_no_effect(self, made: Store, way: Way) -> None:
        before = way(made, "read", "a")
        way(made, "write", "a", before.entries, before.info)
        assert way(made, "read", "a") == before

    def test_only_what_is_new_of_a_batch_is_added(self, made: Store, way: Way) -> None:
        before = way(made, "read", "a")
        batch = [before.entries[1], *messages("one", "two", "three", "four")[2:]]
        way(made, "write", "a", batch, before.info)
        assert way(made, "read", "a").entries == [before.entries[0], *batch]

    def test_creating_an_id_that_exists_is_refused_and_writes_nothing(self, made: Store, way: Way) -> None:
        before = way(made, "read", "a")
        for batch in (before.entries, messages("other", "words", "altogether"), []):
            with pytest.raises(ValueError, match="a"):
                way(made, "write", "a", batch, info(), create=True)
            assert way(made, "read", "a") == before

    def test_going_on_with_an_unknown_id_is_refused_and_writes_nothing(self, store: Store, way: Way) -> None:
        for batch in (messages("one"), messages("one", "two")[1:], []):
            with pytest.raises(LookupError, match="a"):
                way(store, "write", "a", batch, info("one"))
            assert way(store, "read", "a") is None

    def test_entries_behind_a_gap_are_refused_and_nothing_is_written(self, made: Store, way: Way) -> None:
        before = way(made, "read", "a")
        with pytest.raises(ValueError, match="missing"):
            way(made, "write", "a", messages("1", "2", "3", "4")[3:], {**before.info, "turn": 7})
        assert way(made, "read", "a") == before

    def test_what_was_read_is_safe_from_later_writes(self, made: Store, way: Way) -> None:
        record = way(made, "read", "a")
        before = copy.deepcopy(record)
        way(made, "write", "a", messages("one", "two", "three")[2:], {**record.info, "turn": 7})
        assert record == before

    def test_states_do_not_touch_each_other(self, made: Store, way: Way) -> None:
        before = way(made, "read", "a")
        way(made, "write", "b", messages("other"), info("other"), create=True)
        assert way(made, "read", "a") == before
        assert len(way(made, "read", "b").entries) == 1

    def test_an_info_with_other_keys_comes_back_as_it_was(self, made: Store, way: Way) -> None:
        about = {
            "v": 1,
            "own": {"text": "\u2028 é \x00", "list": [1, 1.5, None, True, 2**70]},
            "turn": 2**70,
            "cost": 3,
        }
        way(made, "write", "a", [], about)
        assert way(made, "read", "a").info == about

    @many
    @given(entries())
    def test_every_entry_comes_back_as_it_was(self, store: Store, way: Way, entry: HistoryEntry) -> None:
        state_id = State().id
        written = [encode(entry, 0)]
        way(store, "write", state_id, written, info_of(EMPTY), create=True)
        read = way(store, "read", state_id).entries
        assert repr(read) == repr(written)

    def test_states_can_be_written_at_the_same_time(self, store: Store, way: Way) -> None:
        def write(state_id: str) -> None:
            try:
                way(store, "write", state_id, all_entries[:1], info("0"), create=True)
                for seq in range(1, 10):
                    way(store, "write", state_id, all_entries[seq : seq + 1], info("0"))
            except Exception as error:
                errors.append(error)

        errors: list[Exception] = []
        all_entries = messages(*[str(seq) for seq in range(10)])
        threads = [threading.Thread(target=write, args=(f"s{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert [way(store, "read", f"s{number}").entries for number in range(4)] == [all_entries] * 4

    # save and load

    def test_a_saved_state_is_loaded_as_it_was(self, store: Store, way: Way) -> None:
        state = histories.started()
        histories.run_start(state, "agent", "parent", "c1")
        histories.think(state, "Hello", histories.PNG)
        state.finish()
        way(store, "save", state)
        assert_same(way(store, "load", state.id), state)

    def test_a_state_without_history_is_saved_once(self, store: Store, way: Way) -> None:
        state, writes = State(), watch(store, way)
        way(store, "save", state)
        way(store, "save", state)
        assert writes == [([], True)]
        assert way(store, "load", state.id).snapshot() == state.snapshot()

    def test_the_first_save_has_all_and_the_next_only_what_is_lacking(self, store: Store, way: Way) -> None:
        state, writes = State(messages=[Message.user("one")], extra_data={"a": 1}), watch(store, way)
        way(store, "save", state)
        histories.request(state)
        histories.reply(state, "two")
        way(store, "save", state)
        way(store, "save", state)
        assert writes == [([0, 1], True), ([2, 3], False)]
        assert_same(way(store, "load", state.id), state)

    def test_a_failed_save_costs_nothing_and_the_next_one_sends_all_again(self, store: Store, way: Way) -> None:
        state = histories.started()
        before = state.snapshot()
        writes = watch(store, way, fail=[OSError("full")])
        with pytest.raises(OSError, match="full"):
            way(store, "save", state)
        assert state.snapshot() is before
        histories.request(state)
        way(store, "save", state)
        assert writes == [([0], True), ([0, 1], True)]
        assert way(store, "load", state.id).history[:2] == state.history

    def test_a_failed_later_save_is_sent_again_with_what_came_since(self, store: Store, way: Way) -> None:
        state = histories.started()
        way(store, "save", state)
        writes = watch(store, way, fail=[OSError("full")])
        histories.request(state)
        with pytest.raises(OSError, match="full"):
            way(store, "save", state)
        histories.reply(state, "done")
        way(store, "save", state)
        assert writes == [([1], False), ([1, 2], False)]
        assert_same(way(store, "load", state.id), state)

    def test_saving_a_new_state_under_a_taken_id_is_refused(self, store: Store, way: Way) -> None:
        first, second = State(id="bug", messages=[Message.user("1")]), State(id="bug", messages=[Message.user("2")])
        way(store, "save", first)
        with pytest.raises(ValueError, match="bug"):
            way(store, "save", second)
        assert_same(way(store, "load", "bug"), first)

    def test_a_loaded_state_is_saved_where_it_came_from(self, store: Store, way: Way) -> None:
        state = histories.started()
        way(store, "save", state)
        loaded = way(store, "load", state.id)
        histories.request(loaded)
        histories.reply(loaded, "done")
        way(store, "save", loaded)
        assert_same(way(store, "load", state.id), loaded)

    def test_a_fork_is_a_new_state_that_knows_where_it_came_from(self, store: Store, way: Way) -> None:
        state = histories.started()
        way(store, "save", state)
        fork = state.fork()
        histories.request(fork)
        way(store, "save", fork)
        about = way(store, "read", fork.id).info
        assert (about["forked_from"], about["forked_at"]) == (state.id, 1)
        assert len(way(store, "load", state.id).history) == 1

    def test_a_loaded_fork_still_says_so(self, store: Store, way: Way) -> None:
        state = histories.started()
        way(store, "save", state)
        fork = state.fork()
        way(store, "save", fork)
        loaded = way(store, "load", fork.id)
        histories.request(loaded)
        way(store, "save", loaded)
        about = way(store, "read", fork.id).info
        assert (about["forked_from"], about["forked_at"]) == (state.id, 1)

    @pytest.mark.parametrize("given_id", [None, 5, b"a"])
    def test_an_id_that_is_no_str_cannot_be_loaded(self, store: Store, way: Way, given_id: Any) -> None:
        with pytest.raises(TypeError, match="str"):
            way(store, "load", given_id)

    @pytest.mark.parametrize("given_id", ["", "a b", "é", "a/b", "x" * 129])
    def test_an_id_with_other_characters_cannot_be_loaded(self, store: Store, way: Way, given_id: str) -> None:
        with pytest.raises(ValueError, match="128"):
            way(store, "load", given_id)

    def test_an_unknown_id_cannot_be_loaded(self, store: Store, way: Way) -> None:
        with pytest.raises(LookupError, match="bug-7"):
            way(store, "load", "bug-7")

    def test_what_is_no_state_cannot_be_saved(self, store: Store, way: Way) -> None:
        with pytest.raises(TypeError, match="State"):
            way(store, "save", "bug-7")

    def test_a_state_kept_elsewhere_cannot_be_saved(self, store: Store, way: Way) -> None:
        other, state = MemoryStore(), histories.started()
        other.save(state)
        with pytest.raises(ValueError, match="MemoryStore") as raised:
            way(store, "save", state)
        assert repr(store) in str(raised.value)
        assert way(store, "read", state.id) is None

    def test_loading_writes_nothing(self, store: Store, way: Way) -> None:
        state = histories.pending()
        way(store, "save", state)
        before, writes = way(store, "read", state.id), watch(store, way)
        way(store, "load", state.id)
        assert writes == []
        assert way(store, "read", state.id) == before

    def test_a_turn_left_open_is_closed_the_same_way_by_every_load_until_it_is_saved(
        self, store: Store, way: Way
    ) -> None:
        state = histories.pending()
        way(store, "save", state)
        first, second = way(store, "load", state.id), way(store, "load", state.id)
        assert first.history == second.history
        assert len(first.history) == len(state.history) + 2
        writes = watch(store, way)
        histories.run_start(first, "agent")
        way(store, "save", first)
        assert writes == [([3, 4, 5], False)]
        assert_same(way(store, "load", state.id), first)

    @many
    @given(states())
    def test_every_state_is_loaded_as_it_was(self, store: Store, way: Way, state: State) -> None:
        way(store, "save", state)
        loaded = way(store, "load", state.id)
        count = len(state.history)
        assert loaded.history[:count] == state.history
        assert State(history=loaded.history[:count]).snapshot() == state.snapshot()
        if len(loaded.history) == count:
            assert_same(loaded, state)
        else:
            assert journal_of(state).now.waiting or state.pending_calls
            assert not loaded.pending_calls


class ListingContract(StoreContract):
    """That of a Store which can list and delete."""

    def test_an_empty_store_lists_nothing(self, store: Store, way: Way) -> None:
        assert way(store, "list") == []

    def test_the_latest_is_listed_first_and_those_without_history_last(self, store: Store, way: Way) -> None:
        for number, at in enumerate(["2026-01-02", "2026-01-03", None, "2026-01-01"]):
            time = at and f"{at}T00:00:00.000000+00:00"
            about = {**info(), "created_at": time, "updated_at": time}
            way(store, "write", f"s{number}", [], about, create=True)
        assert [found.id for found in way(store, "list")] == ["s1", "s0", "s3", "s2"]

    def test_a_listing_is_what_from_info_says(self, store: Store, way: Way) -> None:
        state = histories.pending()
        state.finish({"done": True})
        way(store, "save", state)
        about = info_of(journal_of(state).now)
        assert way(store, "list") == [StateInfo.from_info(state.id, about)]

    def test_a_subagent_is_listed_with_its_parent(self, store: Store, way: Way) -> None:
        child = histories.started()
        histories.run_start(child, "child", "parent", "c1")
        way(store, "save", child)
        assert [found.parent_id for found in way(store, "list")] == ["parent"]

    def test_deleting_removes_that_state_only(self, store: Store, way: Way) -> None:
        for state_id in ("a", "b"):
            way(store, "write", state_id, messages("x"), info("x"), create=True)
        way(store, "delete", "a")
        assert way(store, "read", "a") is None
        assert [found.id for found in way(store, "list")] == ["b"]
        assert len(way(store, "read", "b").entries) == 1

    def test_deleting_an_unknown_id_does_nothing(self, store: Store, way: Way) -> None:
        way(store, "delete", "a")
        assert way(store, "list") == []

    def test_a_deleted_id_is_free_again(self, store: Store, way: Way) -> None:
        way(store, "write", "a", messages("x", "y"), info("x", "y"), create=True)
        way(store, "delete", "a")
        way(store, "write", "a", messages("z"), info("z"), create=True)
        assert [entry["content"] for entry in way(store, "read", "a").entries] == ["z"]
