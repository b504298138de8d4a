"""What subagents used is counted once, in the call that started them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from runs import call, interrupt, next_late, started, wait_for
from subagents.family import Act, AsyncInside, Inside, ask, below, children, parent, ran, results, runs, working

from alpineagents import Message, State
from alpineagents.history.replay import replay
from alpineagents.state import journal_of
from alpineagents.testing import FakeModel
from alpineagents.types import Price, Reply, TextBlock, Usage


def used(requests: int = 1, cost: float | None = None, **tokens: int) -> Usage:
    return Usage(requests=requests, cost=cost, **tokens)


def said(text: Any, usage: Usage) -> Reply:
    """A reply that used something."""
    content = [TextBlock(text)] if isinstance(text, str) else [text]
    return Reply(Message("assistant", content), usage=usage)


TEN = used(input_tokens=10, output_tokens=3, cache_read_tokens=2, cache_write_tokens=1, cost=0.5)
ONE = used(input_tokens=1, output_tokens=1, cost=0.25)


def test_the_closing_entry_carries_what_they_used_and_the_state_adds_it(act: Act) -> None:
    made = parent(below(said("40 m", TEN)), calls=said(ask(), ONE)).copy(
        model=FakeModel([said(ask(), ONE), said("ok", ONE)])
    )
    state = ran(act, made)
    assert results(state)[0].usage == TEN
    assert state.usage == ONE + TEN + ONE


def test_while_it_runs_nothing_of_it_is_counted() -> None:
    seen: list[Usage] = []

    def body(given: Any, state: State) -> Any:
        below(said("x", TEN)).run("1")
        seen.append(state.usage)

    state = ran_sync(parent(Inside(body)))
    assert [usage.requests for usage in seen] == [1]
    assert state.usage.requests == 3


def ran_sync(made: Any) -> State:
    state = started()
    made.run(state)
    return state


def test_no_subagent_is_none_and_one_that_used_nothing_an_empty_usage(act: Act) -> None:
    quiet = below(loop=lambda agent, state: "ok")
    none = ran(act, parent(Inside(lambda given, state: "ok")))
    nothing = ran(act, parent(Inside(lambda given, state: quiet.run("1"))))
    assert (results(none)[0].usage, results(nothing)[0].usage) == (None, Usage())


def test_what_it_had_used_before_does_not_count(act: Act) -> None:
    child = started("1")
    surveyor = below(said("a", TEN), said("b", ONE))
    act(surveyor.copy(reporter=None), "run", child)
    state = ran(act, parent(runs(act, surveyor, again(child))))
    assert results(state)[0].usage == ONE


def again(child: State) -> State:
    child.add_message(Message.user("Again"))
    return child


def test_each_parent_counts_its_own_part_and_a_run_by_hand_counts_nowhere(act: Act) -> None:
    child = started("1")
    surveyor = below(said("a", TEN), said("b", ONE), said("c", TEN), reporter=None)
    one = ran(act, parent(runs(act, surveyor, child)), started(id="one"))
    two = ran(act, parent(runs(act, surveyor, again(child))), started(id="two"))
    act(surveyor, "run", again(child))
    assert (results(one)[0].usage, results(two)[0].usage) == (TEN, ONE)
    assert (child.parent_id, child.usage) == ("one", TEN + ONE + TEN)


def test_one_that_runs_twice_in_a_call_counts_both(act: Act) -> None:
    child = started("1")
    surveyor = below(said("a", TEN), said("b", ONE))

    def body(agent: Any, state: State) -> Any:
        yield surveyor, "run", child
        return (yield surveyor, "run", again(child))

    state = ran(act, parent(working(act, body)))
    assert results(state)[0].usage == TEN + ONE


def test_those_below_are_part_of_it_level_by_level(act: Act) -> None:
    worker = below(said("x", TEN), name="worker")
    planner = below(said(ask("w1", name="worker"), ONE), said("y", ONE), name="planner", tools=[worker])
    state = ran(act, parent(planner, calls=ask(name="planner")))
    (child,) = children(state)
    assert results(child)[0].usage == TEN
    assert results(state)[0].usage == child.usage == ONE + TEN + ONE
    assert state.usage.requests == 2 + child.usage.requests


def test_costs_of_different_prices_add_up(act: Act) -> None:
    state = ran(
        act, parent(below(said("a", TEN)), below(said("b", ONE), name="other"), calls=[ask(), ask("t2", name="other")])
    )
    assert sum(result.usage.cost for result in results(state) if result.usage and result.usage.cost) == 0.75


def test_an_unknown_price_makes_the_sum_unknown(act: Act) -> None:
    state = ran(act, parent(below(said("a", used(input_tokens=5)), "b"), calls=ask()))
    assert results(state)[0].usage == used(input_tokens=5)
    assert state.usage.cost is None


def test_so_does_one_of_before_it_joined(act: Act) -> None:
    child = started("1")
    surveyor = below(said("a", used(input_tokens=5)), said("b", ONE), reporter=None)
    act(surveyor, "run", child)
    state = ran(act, parent(runs(act, surveyor, again(child))))
    assert results(state)[0].usage == used(input_tokens=1, output_tokens=1)


def test_a_free_model_keeps_the_sum_known(act: Act) -> None:
    free = FakeModel(["a"], price=Price(input=0, output=0))
    state = ran(act, parent(below(model=free), calls=ask()))
    assert results(state)[0].usage is not None
    assert results(state)[0].usage.cost == 0


def test_what_came_after_the_closing_entry_is_in_the_late_one() -> None:
    begun, go = threading.Event(), threading.Event()

    def hold(given: Any, state: State) -> Any:
        begun.set()
        wait_for(go)
        return "ok"

    surveyor = below(said(call("hold", "h1"), TEN), said("x", ONE), tools=[Inside(hold, "hold")])

    def press(given: Any, state: State) -> Any:
        wait_for(begun)
        interrupt()
        wait_for(go)

    state = started()
    with pytest.raises(KeyboardInterrupt):
        parent(surveyor, Inside(press, "press"), calls=[ask(), call("press", "p1")]).run(state)
    late = next_late(state)
    go.set()
    wait_for(late)
    while len([entry for entry in results(state) if entry.late]) < 2:
        wait_for(next_late(state))
    mine = [entry for entry in results(state) if entry.call.id == "t1"]
    assert [(entry.late, entry.usage) for entry in mine] == [(False, TEN), (True, ONE)]
    assert state.usage.requests == 3
    assert replay(state.history).usage == state.usage


def test_those_that_start_behind_the_closing_entry_are_added_to_the_late_one() -> None:
    go, closed = threading.Event(), threading.Event()
    surveyor = below(said("a", TEN), said("b", ONE))

    def body(given: Any, state: State) -> Any:
        surveyor.run(first)
        go.set()
        wait_for(closed)
        surveyor.run(second)
        return "ok"

    def press(given: Any, state: State) -> Any:
        wait_for(go)
        interrupt()
        wait_for(closed)

    first, second, state = started("1", id="first"), started("2", id="second"), started()
    with pytest.raises(KeyboardInterrupt):
        parent(Inside(body), Inside(press, "press"), calls=[call("work", "t1"), call("press", "p1")]).run(state)
    closed.set()
    while not any(entry.late and entry.call.id == "t1" for entry in results(state)):
        threading.Event().wait(0.001)
    mine = [entry for entry in results(state) if entry.call.id == "t1"]
    assert [(entry.child_ids, entry.usage) for entry in mine] == [(("first",), TEN), (("first", "second"), ONE)]


def test_a_fan_out_counts_all_that_it_started() -> None:
    surveyor = below("n", "s")

    async def both(given: Any, state: State) -> Any:
        return await asyncio.gather(surveyor.arun("north"), surveyor.arun("south"))

    state = started()
    asyncio.run(parent(AsyncInside(both)).arun(state))
    (result,) = results(state)
    assert (result.content, len(result.child_ids)) == ('["n", "s"]', 2)
    assert result.usage is not None
    assert result.usage.requests == 2


def test_a_restore_takes_none_of_it_back(act: Act) -> None:
    state = started()
    before = state.snapshot()
    act(parent(below(said("40 m", TEN)), calls=ask()), "run", state)
    total = state.usage
    state.restore(before)
    assert state.usage == total


def test_a_rebuilt_state_has_the_same(act: Act) -> None:
    state = ran(act, parent(below(said("40 m", TEN)), calls=ask()))
    assert State(history=state.history).usage == state.usage
    assert journal_of(state).now.usage == state.usage
