from __future__ import annotations

import asyncio
import shelve
import threading
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import histories
import pytest
from contracts.store import (
    AsyncStore,
    BothStore,
    ListingContract,
    MemoryStore,
    ShelfStore,
    StoreContract,
    Way,
    awaited,
    info,
    messages,
)

from alpineagents import Agent
from alpineagents.store import Record, SqliteStore, Store
from alpineagents.store.base import is_async_only
from alpineagents.testing import FakeModel


class TestMemoryStore(ListingContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


class TestAsyncStore(ListingContract):
    ways: ClassVar[list[Way]] = [awaited]

    @pytest.fixture
    def store(self) -> Store:
        return AsyncStore()


class TestBothStore(ListingContract):
    @pytest.fixture
    def store(self) -> Store:
        return BothStore()


class TestShelfStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return ShelfStore({})


class TestShelfStoreOnAShelf(StoreContract):
    test_states_can_be_written_at_the_same_time = None  # a shelf of the standard library takes one thread at a time

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with shelve.open(str(tmp_path / "shelf")) as shelf:
            yield ShelfStore(shelf)


# What a subclass has to have.


class WithWrite(Store):
    def write(self, *args: Any, **details: Any) -> None: ...


class WithAread(WithWrite):
    async def aread(self, state_id: str) -> Record | None: ...


@pytest.mark.parametrize(("cls", "missing"), [(Store, "write"), (WithWrite, "read")])
def test_a_class_without_a_pair_makes_no_object_and_the_error_names_both_halves(cls: type, missing: str) -> None:
    with pytest.raises(TypeError, match=rf"\b{missing}\b.*\ba{missing}\b"):
        cls()


def test_one_half_of_each_pair_is_enough() -> None:
    assert isinstance(WithAread(), Store)


def test_an_abstract_class_may_stand_in_between() -> None:
    class Between(Store):
        @abstractmethod
        def connect(self) -> None: ...

    class Whole(Between, MemoryStore):
        def connect(self) -> None: ...

    assert isinstance(Whole(), Store)


def test_arguments_go_to_the_constructor_of_the_subclass() -> None:
    assert ShelfStore(shelf={"a": 1}).shelf == {"a": 1}


def test_only_a_store_without_write_is_async_only(tmp_path: Path) -> None:
    stores = [AsyncStore(), BothStore(), MemoryStore(), SqliteStore(tmp_path / "runs.db")]
    assert [is_async_only(store) for store in stores] == [True, False, False, False]


# What is not implemented.


CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("write", ("a", [], {})),
    ("read", ("a",)),
    ("list", ()),
    ("delete", ("a",)),
    ("load", ("a",)),
]


@pytest.mark.parametrize(("method", "args"), CALLS)
def test_the_sync_methods_of_an_async_store_say_that_it_works_only_asynchronously(
    method: str, args: tuple[Any, ...]
) -> None:
    with pytest.raises(TypeError, match=r"only asynchronously[\s\S]*arun"):
        getattr(AsyncStore(), method)(*args)


def test_saving_in_an_async_store_is_refused_also_when_nothing_is_lacking() -> None:
    store, state = AsyncStore(), histories.started()
    with pytest.raises(TypeError, match="only asynchronously"):
        store.save(state)
    asyncio.run(store.asave(state))
    with pytest.raises(TypeError, match="only asynchronously"):
        store.save(state)


def test_a_refused_save_leaves_the_state_free_for_another_store() -> None:
    state, other = histories.started(), MemoryStore()
    with pytest.raises(TypeError):
        AsyncStore().save(state)
    other.save(state)
    assert other.read(state.id) is not None


@pytest.mark.parametrize(("method", "args"), [("list", ()), ("delete", ("a",)), ("alist", ()), ("adelete", ("a",))])
def test_a_store_that_cannot_list_or_delete_says_so_with_its_name(method: str, args: tuple[Any, ...]) -> None:
    store = ShelfStore({})
    with pytest.raises(NotImplementedError, match="ShelfStore"):
        found = getattr(store, method)(*args)
        asyncio.run(found)


@pytest.mark.parametrize(("method", "args"), [("write", ("a", messages("x"), info("x"))), *CALLS[1:4]])
def test_the_async_form_of_a_sync_method_runs_on_another_thread(method: str, args: tuple[Any, ...]) -> None:
    threads: list[threading.Thread] = []

    class Noting(MemoryStore):
        def __getattribute__(self, name: str) -> Any:
            if name == "shelf":
                threads.append(threading.current_thread())
            return super().__getattribute__(name)

    store = Noting()
    store.write("a", [], info(), create=True)
    threads.clear()
    asyncio.run(getattr(store, f"a{method}")(*args))
    assert threads
    assert threading.current_thread() not in threads


# Runs.


@pytest.mark.parametrize("store", [MemoryStore(), BothStore(), ShelfStore({})], ids=lambda store: type(store).__name__)
def test_a_run_works_with_a_store_that_has_sync_methods(store: Any, act: Any) -> None:
    state = histories.started()
    agent = Agent(FakeModel(["Hello"]), store=store, reporter=None, human=None)
    assert act(agent, "run", state) == "Hello"
    assert store.load(state.id).snapshot() == state.snapshot()


def test_an_async_run_works_with_a_store_that_has_only_async_methods() -> None:
    store, state = AsyncStore(), histories.started()
    agent = Agent(FakeModel(["Hello"]), store=store, reporter=None, human=None)
    assert asyncio.run(agent.arun(state)) == "Hello"
    assert asyncio.run(store.aload(state.id)).snapshot() == state.snapshot()


def test_a_sync_run_with_an_async_store_is_refused_before_anything_is_recorded() -> None:
    state = histories.started()
    before = state.snapshot()
    with pytest.raises(TypeError, match="only asynchronously"):
        Agent(FakeModel(["Hello"]), store=AsyncStore(), reporter=None, human=None).run(state)
    assert state.snapshot() is before


def test_save_on_the_event_loop_of_an_async_run_names_asave() -> None:
    store = MemoryStore()

    async def body(agent: Agent, state: Any) -> None:
        store.save(state)

    agent = Agent(FakeModel([]), store=store, loop=body, reporter=None, human=None)
    with pytest.raises(TypeError, match="asave"):
        asyncio.run(agent.arun(histories.started()))
