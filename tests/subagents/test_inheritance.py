"""What a subagent takes over from the run above, and what it does not."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from contracts.store import AsyncStore
from runs import Heard, Nobody, Shelf, agent, call, started, written
from subagents.family import Act, Inside, ask, below, children, parent, ran, results, runs

from alpineagents import Human, State, Terminal, tool
from alpineagents.errors import NoHumanError
from alpineagents.permissions import DecideByHuman
from alpineagents.testing import FakeHuman
from alpineagents.types import ExchangeEntry


@tool
def measure(plot: int) -> str:
    """Measure a plot."""
    return f"{plot} m"


def kinds(heard: Heard) -> list[str]:
    return [event.split()[0] for event in heard.events]


# Reporter, human and store


def test_its_events_go_to_the_reporter_of_the_run_above_with_its_own_state(act: Act) -> None:
    heard = Heard()
    state = ran(act, parent(below(call("measure", "m1", plot=1), "40 m", tools=[measure]), calls=ask(), reporter=heard))
    (child,) = children(state)
    mine = [event for event, of in zip(kinds(heard), heard.states, strict=True) if of is child]
    assert mine == [
        "run_start",
        *["think_start", "think_end", "tool_start", "tool_end"],
        *["think_start", "text", "think_end"],
        "run_end",
    ]
    assert [event for event, of in zip(kinds(heard), heard.states, strict=True) if of is state].count("run_start") == 1


def test_one_of_its_own_hears_of_it_alone(act: Act) -> None:
    above, own = Heard(), Heard()
    state = ran(act, parent(below("40 m", reporter=own), calls=ask(), reporter=above))
    (child,) = children(state)
    assert {id(of) for of in above.states} == {id(state)}
    assert {id(of) for of in own.states} == {id(child)}


def test_none_counts_as_one_of_its_own(act: Act) -> None:
    heard = Heard()
    ran(act, parent(below("40 m", reporter=None), calls=ask(), reporter=heard))
    assert kinds(heard).count("run_start") == 1


def test_each_level_hands_down_its_own(act: Act) -> None:
    above, middle = Heard(), Heard()
    worker = below("x", name="worker")
    planner = below(ask("w1", name="worker"), "y", name="planner", tools=[worker], reporter=middle)
    ran(act, parent(planner, calls=ask(name="planner"), reporter=above))
    assert (kinds(above).count("run_start"), kinds(middle).count("run_start")) == (1, 2)


def asking(act: Act) -> Any:
    """A loop that asks the person."""

    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        return (yield agent, "ask_human", state, "Which plot?")

    return written(act, body)


def test_it_asks_the_person_of_the_run_above_and_records_that_itself(act: Act) -> None:
    state = ran(act, parent(below("ok", loop=asking(act)), calls=ask(), human=FakeHuman(["Plot 9"])))
    (child,) = children(state)
    assert results(state)[0].content == "Plot 9"
    assert [entry.content.answer for entry in child.history if isinstance(entry, ExchangeEntry)] == ["Plot 9"]
    assert [entry for entry in state.history if isinstance(entry, ExchangeEntry)] == []


def test_a_person_of_its_own_is_asked_instead(act: Act) -> None:
    surveyor = below("ok", loop=asking(act), human=FakeHuman(["Plot 3"]))
    assert results(ran(act, parent(surveyor, calls=ask(), human=Nobody())))[0].content == "Plot 3"


def test_nobody_anywhere_is_said_with_where_to_put_somebody(act: Act) -> None:
    state = ran(act, parent(below("ok", loop=asking(act)), calls=ask(), human=None))
    text = results(state)[0].content
    assert "was given no human" in text
    assert "run that started it has human=None" in text
    assert "one of the two Agents" in text


def test_its_own_none_is_said_as_such(act: Act) -> None:
    state = ran(act, parent(below("ok", loop=asking(act), human=None), calls=ask(), human=Nobody()))
    text = results(state)[0].content
    assert "the Agent has human=None" in text
    assert "was given no human" not in text


def test_a_permission_of_a_subagent_says_it_too(act: Act) -> None:
    with pytest.raises(NoHumanError, match="was given no human"):
        ran(act, parent(below("ok", permissions=[DecideByHuman()]), calls=ask(), human=None))


def test_it_is_saved_where_the_run_above_is(act: Act) -> None:
    shelf = Shelf()
    state = ran(act, parent(below("40 m"), calls=ask(), store=shelf))
    assert set(shelf.shelf) == {state.id, children(state)[0].id}


def test_one_with_a_store_of_its_own_is_saved_only_there(act: Act) -> None:
    shelf, own = Shelf(), Shelf()
    state = ran(act, parent(below("40 m", store=own), calls=ask(), store=shelf))
    assert (set(shelf.shelf), set(own.shelf)) == ({state.id}, {children(state)[0].id})


def test_without_a_store_in_the_line_nothing_is_saved(act: Act) -> None:
    surveyor = below("40 m")
    assert ran(act, parent(surveyor, calls=ask())).answer == "Fine"
    assert surveyor.store is None


# Which actions they are in force for


def acting(act: Act, other: Any, state: State | None = None) -> Any:
    """A loop that has an Agent think about a State of its own."""

    def body(agent: Any, _: State) -> Any:
        yield (agent if other is None else other), "think", started("Aside") if state is None else state
        return "ok"

    return written(act, body)


def test_they_hold_for_every_state_that_its_own_agent_acts_on(act: Act) -> None:
    heard, shelf, aside = Heard(), Shelf(), started("Aside", id="aside")
    surveyor = below("x", loop=acting(act, None, aside))
    ran(act, parent(surveyor, calls=ask(), reporter=heard, store=shelf))
    assert any(of is aside for of in heard.states)
    assert "aside" in shelf.shelf


def test_another_agent_at_work_in_its_run_uses_its_own(act: Act) -> None:
    heard, shelf, aside = Heard(), Shelf(), started("Aside", id="aside")
    surveyor = below(loop=acting(act, agent("x"), aside))
    ran(act, parent(surveyor, calls=ask(), reporter=heard, store=shelf))
    assert not any(of is aside for of in heard.states)
    assert "aside" not in shelf.shelf


def test_nothing_of_it_outlives_the_run(act: Act) -> None:
    heard, shelf, own = Heard(), Shelf(), Heard()
    surveyor = below("x", "y", reporter=own)
    ran(act, parent(surveyor, calls=ask(), reporter=heard, store=shelf))
    state = ran(act, surveyor)
    assert state.id not in shelf.shelf
    assert not any(of is state for of in heard.states)


def test_its_settings_show_its_own_even_inside_the_run(act: Act) -> None:
    seen: list[Any] = []

    def body(agent: Any, state: State) -> Any:
        seen.append((agent.reporter, agent.human, agent.store, agent.permissions))
        yield agent, "think", state

    surveyor = below("x", loop=written(act, body))
    ran(act, parent(surveyor, calls=ask(), reporter=Heard(), human=Nobody(), store=Shelf()))
    ((reporter, human, store, permissions),) = seen
    assert isinstance(reporter, Terminal)
    assert isinstance(human, Terminal)
    assert (store, permissions) == (None, ())


def test_a_run_that_is_no_subagent_inherits_nothing(act: Act) -> None:
    heard, shelf = Heard(), Shelf()
    surveyor = below("x", reporter=None)

    def elsewhere(given: Any, state: State) -> Any:
        thread = threading.Thread(target=surveyor.run, args=(started("1", id="1"),))
        thread.start()
        thread.join()
        return "ok"

    ran(act, parent(Inside(elsewhere), reporter=heard, store=shelf))
    assert "1" not in shelf.shelf


def test_a_store_that_works_only_asynchronously_is_inherited_by_arun_only() -> None:
    store, state, again = AsyncStore(), started(), started()
    asyncio.run(parent(below("40 m"), calls=ask(), store=store).arun(state))
    assert set(store.inner.shelf) == {state.id, children(state)[0].id}
    surveyor = below("40 m", loop=lambda agent, state: "ok")
    with pytest.raises(TypeError, match="only asynchronously"):
        asyncio.run(parent(surveyor, calls=ask(), store=store).arun(again))
    (result,) = results(again)
    assert (result.outcome, result.child_ids) == ("aborted", ())


def test_the_person_of_another_tool_of_ones_own_is_inherited(act: Act) -> None:
    class Person(Human):
        def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
            return "Plot 5"

    state = ran(act, parent(runs(act, below("ok", loop=asking(act)), "Plot 7"), human=Person()))
    assert results(state)[0].content == "Plot 5"
