"""Opening subagents from the State that asked for them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from contracts.store import AsyncStore
from runs import Shelf, agent, call, started, wait_for
from subagents.family import Act, Inside, ask, below, children, parent, ran, results

from alpineagents import Message, SqliteStore, State


def opened(act: Act, state: State, child_id: Any) -> State:
    return act(state, "child", child_id)


def test_it_is_the_very_state_that_ran(act: Act) -> None:
    seen: list[State] = []

    def body(given: Any, state: State) -> Any:
        child = started("1")
        seen.append(child)
        return below("x").run(child)

    state = ran(act, parent(Inside(body)))
    (child,) = seen
    assert opened(act, state, child.id) is child
    assert opened(act, state, child.id) is child


def test_also_while_it_still_runs() -> None:
    begun, go = threading.Event(), threading.Event()
    state = started(id="above")
    seen: list[bool] = []

    def body(given: Any, inner: State) -> Any:
        begun.set()
        wait_for(go)
        return "ok"

    child = started("1", id="child")
    surveyor = below(call("hold", "h1"), "x", tools=[Inside(body, "hold")])
    made = parent(Inside(lambda given, inner: surveyor.run(child)))
    thread = threading.Thread(target=made.run, args=(state,))
    thread.start()
    wait_for(begun)
    seen.append(state.child("child") is child)
    go.set()
    thread.join()
    assert seen == [True]


def loaded(act: Act, tmp_path: Path) -> tuple[State, str]:
    """A State that came from a file, and the id of its subagent."""
    with SqliteStore(tmp_path / "runs.db") as store:
        state = ran(act, parent(below("40 m"), calls=ask(), store=store))
        (child,) = children(state)
    return SqliteStore(tmp_path / "runs.db").load(state.id), child.id


def test_one_that_came_from_a_store_loads_them_from_there_anew_each_time(act: Act, tmp_path: Path) -> None:
    state, child_id = loaded(act, tmp_path)
    first, second = opened(act, state, child_id), opened(act, state, child_id)
    assert (first.id, first.answer, first.parent_id) == (child_id, "40 m", state.id)
    assert first is not second


@pytest.mark.parametrize("wrong", ["nobody", "", None, 7])
def test_an_id_that_no_call_started_is_no_key(act: Act, tmp_path: Path, wrong: Any) -> None:
    state, _ = loaded(act, tmp_path)
    with pytest.raises(KeyError, match="started"):
        opened(act, state, wrong)
    with pytest.raises(KeyError):
        opened(act, State(), wrong)


def test_a_grandchild_is_opened_from_the_child(act: Act, tmp_path: Path) -> None:
    worker = below("x", name="worker")
    planner = below(ask("w1", name="worker"), "y", name="planner", tools=[worker])
    store = SqliteStore(tmp_path / "runs.db")
    state = ran(act, parent(planner, calls=ask(name="planner"), store=store))
    (child,) = children(state)
    (grandchild,) = children(child)
    for one in (state, store.load(state.id)):
        with pytest.raises(KeyError):
            opened(act, one, grandchild.id)
        assert opened(act, opened(act, one, child.id), grandchild.id).answer == "x"


def test_without_memory_or_store_a_person_is_told_what_to_do(act: Act) -> None:
    state = ran(act, parent(below("40 m"), calls=ask()))
    bare = State(history=state.history)
    with pytest.raises(ValueError, match=r"Agent\([\s\S]*store="):
        opened(act, bare, children(state)[0].id)
    with pytest.raises(KeyError):
        opened(act, bare, "nobody")


def test_one_that_its_agent_kept_elsewhere_is_not_in_the_store(act: Act) -> None:
    shelf = Shelf()
    state = ran(act, parent(below("40 m", store=Shelf()), calls=ask(), store=shelf))
    with pytest.raises(LookupError) as raised:
        opened(act, shelf.load(state.id), children(state)[0].id)
    assert not isinstance(raised.value, KeyError)


def test_a_store_that_works_only_asynchronously_needs_achild() -> None:
    store, state = AsyncStore(), started()

    async def main() -> None:
        await parent(below("40 m"), calls=ask(), store=store).arun(state)
        (child,) = children(state)
        again = await store.aload(state.id)
        with pytest.raises(TypeError, match="achild"):
            again.child(child.id)
        assert (await again.achild(child.id)).answer == "40 m"

    asyncio.run(main())


def test_the_first_save_by_hand_says_where_to_open_them_from_too(act: Act) -> None:
    own, first, second = Shelf(), Shelf(), Shelf()
    state = ran(act, parent(below("40 m", store=own), calls=ask()))
    bare = State(history=state.history, id="copy")
    first.save(bare)
    child_id = children(state)[0].id
    with pytest.raises(LookupError):
        opened(act, bare, child_id)
    first.shelf[child_id] = own.shelf[child_id]
    assert opened(act, bare, child_id).answer == "40 m"
    assert second.shelf == {}


# Forks and restores


def test_a_fork_opens_those_in_memory_and_those_in_the_store(act: Act, tmp_path: Path) -> None:
    state = ran(act, parent(below("40 m"), calls=ask(), store=Shelf()))
    (child,) = children(state)
    assert opened(act, state.fork(), child.id) is child
    stored, child_id = loaded(act, tmp_path)
    assert opened(act, stored.fork(), child_id).answer == "40 m"


def test_a_saved_fork_still_opens_them_from_the_store_of_its_original(act: Act, tmp_path: Path) -> None:
    state, child_id = loaded(act, tmp_path)
    fork = state.fork()
    Shelf().save(fork)
    assert opened(act, fork, child_id).answer == "40 m"


def test_one_that_a_fork_starts_later_is_only_its_own(act: Act) -> None:
    state = ran(act, parent(below("40 m"), calls=ask()))
    fork = state.fork()
    fork.add_message(Message.user("Again"))
    act(agent(ask("t9"), "Fine", tools=[below("41 m")]), "run", fork)
    added = results(fork)[-1].child_ids[0]
    assert fork.child(added).answer == "41 m"
    with pytest.raises(KeyError):
        opened(act, state, added)


def test_a_call_that_was_open_at_the_fork_starts_from_nothing_on_the_copy(act: Act) -> None:
    forks: list[State] = []

    def body(given: Any, state: State) -> Any:
        below("x").run("1")
        forks.append(state.fork())
        return "ok"

    state = ran(act, parent(Inside(body)))
    (fork,) = forks
    made = agent("Fine", tools=[Inside(lambda given, state: "quick")])
    act(made, "use_tools", fork)
    assert (results(fork)[-1].child_ids, results(fork)[-1].usage) == ((), None)
    assert len(results(state)[-1].child_ids) == 1


def test_a_restore_keeps_them(act: Act) -> None:
    state = started()
    before = state.snapshot()
    act(parent(below("40 m"), calls=ask()), "run", state)
    (child,) = children(state)
    state.restore(before)
    assert opened(act, state, child.id) is child


def test_a_subagent_can_be_loaded_alone_and_goes_on_with_its_first_parent(act: Act, tmp_path: Path) -> None:
    state, child_id = loaded(act, tmp_path)
    with SqliteStore(tmp_path / "runs.db") as store:
        child = store.load(child_id)
        child.add_message(Message.user("And plot 8?"))
        act(agent("41 m", store=store, name="surveyor"), "run", child)
        assert (child.answer, child.parent_id, store.load(child_id).parent_id) == ("41 m", state.id, state.id)
