"""Subagents in a store: each is a State of its own, saved while it runs."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from histories import run_start
from runs import Heard, Shelf, agent, call, started
from subagents.family import Act, ask, below, children, parent, ran, results, runs

from alpineagents import SqliteStore, State, tool
from alpineagents.store import check


def kinds(shelf: Shelf, state_id: str) -> list[str]:
    return [entry["kind"] for entry in shelf.shelf[state_id][0]]


def test_its_first_save_is_before_its_reporter_hears_of_it(act: Act) -> None:
    shelf, seen = Shelf(), list[list[str]]()

    class Looking(Heard):
        def on_run_start(self, state: State) -> None:
            seen.append(kinds(shelf, state.id))

    ran(act, parent(below("40 m", reporter=Looking()), calls=ask(), store=shelf))
    assert seen == [["context_change", "run_start"]]


def test_when_its_tool_runs_the_replies_that_asked_for_it_are_saved(act: Act) -> None:
    shelf, seen = Shelf(), list[list[str]]()

    @tool
    def look(state: State) -> str:
        """Look at the store."""
        assert state.parent_id is not None
        seen.extend([kinds(shelf, state.parent_id)[-1:], kinds(shelf, state.id)[-1:]])
        return "ok"

    ran(act, parent(below(call("look", "l1"), "40 m", tools=[look]), calls=ask(), store=shelf))
    assert seen == [["model_reply"], ["model_reply"]]


def test_a_listing_tells_them_from_what_a_person_started(act: Act, tmp_path: Path) -> None:
    seen: list[Any] = []
    store = SqliteStore(tmp_path / "runs.db")

    class Looking(Heard):
        def on_run_start(self, state: State) -> None:
            seen.extend([info.parent_id for info in store.list() if info.id == state.id])

    state = ran(act, parent(below("40 m", reporter=Looking()), calls=ask(), store=store))
    (child,) = children(state)
    assert seen == [state.id]
    assert {info.id: info.parent_id for info in store.list()} == {state.id: None, child.id: state.id}


def test_a_save_that_fails_in_it_fails_its_run(act: Act) -> None:
    def failing(number: int, kinds: list[str]) -> None:
        if "model_reply" in kinds:
            raise OSError("disk full")

    own = Shelf(failing)
    state = ran(act, parent(below(call("look", "l1"), tools=[], store=own), calls=ask()))
    assert results(state)[0].content == "(surveyor failed: OSError: disk full)"
    with pytest.raises(OSError, match="disk full"):
        ran(act, parent(runs(act, below(call("look", "l1"), store=Shelf(failing)), "Plot 7")))


def test_both_come_back_equal(act: Act, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    state = ran(act, parent(below("40 m"), calls=ask(), store=store))
    (child,) = children(state)
    for one in (state, child):
        assert store.load(one.id).snapshot() == State(history=one.history, id=one.id).snapshot() == one.snapshot()


def test_the_tree_is_in_sql(act: Act, tmp_path: Path) -> None:
    worker = below("x", name="worker")
    planner = below(ask("w1", name="worker"), "y", name="planner", tools=[worker])
    with SqliteStore(tmp_path / "runs.db") as store:
        state = ran(act, parent(planner, calls=ask(name="planner"), store=store))
    (child,) = children(state)
    (grandchild,) = children(child)
    connection = sqlite3.connect(tmp_path / "runs.db")
    rows = connection.execute("SELECT root_id, state_id, depth, path FROM subagent_tree ORDER BY depth").fetchall()
    connection.close()
    assert rows == [
        (state.id, state.id, 0, state.id),
        (state.id, child.id, 1, f"{state.id}/{child.id}"),
        (state.id, grandchild.id, 2, f"{state.id}/{child.id}/{grandchild.id}"),
    ]


def test_deleting_a_run_can_take_all_below_it_along(act: Act, tmp_path: Path) -> None:
    worker = below("x", name="worker")
    planner = below(ask("w1", name="worker"), "y", name="planner", tools=[worker])
    with SqliteStore(tmp_path / "runs.db") as store:
        state = ran(act, parent(planner, calls=ask(name="planner"), store=store))
        other = ran(act, agent("Hi", store=store), started(id="other"))
        act(store, "delete", state.id, children=True)
        assert [info.id for info in store.list()] == [other.id]
    assert check(tmp_path / "runs.db") == []


def test_deleting_a_run_leaves_its_subagents_unless_asked(act: Act, tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "runs.db") as store:
        state = ran(act, parent(below("40 m"), calls=ask(), store=store))
        act(store, "delete", state.id)
        assert [info.id for info in store.list()] == [children(state)[0].id]


def test_parents_in_a_circle_are_deleted_together(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "runs.db") as store:
        for id, parent_id in (("a", "b"), ("b", "a"), ("c", "a")):
            made = State(id=id)
            run_start(made, parent=parent_id, call="c1")
            store.save(made)
        store.delete("b", children=True)
        assert store.list() == []
