"""A recorded run with questions and compactions, run again by a ReplayModel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from runs import agent, started, written

from alpineagents import Message, OutputError, State
from alpineagents.testing import FakeHuman, ReplayModel

Act = Callable[..., Any]


@dataclasses.dataclass
class Label:
    city: str


def busy(agent: Any, state: State) -> Any:
    """A loop with everything that asks a model."""
    yield agent, "think", state
    label = yield agent, "ask", state, "Where to?", Label
    yield agent, "compact", state, "Keep the city"
    state.add_message(Message.user(f"Send it to {label.city}"))
    yield agent, "think", state
    kept = yield agent, "ask", state, "Is it sent?"
    try:
        yield agent, "ask", state, "How many?", int
    except OutputError:
        kept += ", nobody knows how many"
    return kept


def recorded(act: Act) -> State:
    state = started()
    made = agent(
        "Ready", "dunno", '{"city": "Oslo"}', "It goes to Oslo", "Sent", "Yes", "?", "?", "?", loop=written(act, busy)
    )
    act(made, "run", state)
    return state


def test_questions_and_summaries_are_given_again(act: Act) -> None:
    source = recorded(act)
    model = ReplayModel(source)
    state = started()
    made = agent(loop=written(act, busy), human=FakeHuman([])).copy(model=model)
    assert act(made, "run", state) == "Yes, nobody knows how many"
    assert model.remaining == 0
    assert [entry.kind for entry in state.history] == [entry.kind for entry in source.history]
    assert state.messages == source.messages


def test_a_question_that_was_never_asked_is_a_mismatch(act: Act) -> None:
    made = agent().copy(model=ReplayModel(recorded(act)))
    with pytest.raises(AssertionError):
        act(made, "ask", started(), "Who pays?")
