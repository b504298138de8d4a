"""Agents that run inside tool calls, and what their runs leave on both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runs import Body, agent, call, is_async, started, written

from alpineagents import Agent, State, Tool
from alpineagents.testing import FakeModel
from alpineagents.types import RunStartEntry, ToolResultEntry

Act = Callable[..., Any]


def below(*replies: Any, **settings: Any) -> Agent:
    """An Agent that may be a tool, and takes over what it is not given."""
    given = {"model": FakeModel(replies), "name": "surveyor", "description": "Measures plots", **settings}
    return Agent(**given)


def ask(id: str = "t1", prompt: str = "Plot 7", name: str = "surveyor") -> Any:
    """A call to such an Agent."""
    return call(name, id, prompt=prompt)


class Inside(Tool):
    """A tool that does what a function says, in sync code."""

    def __init__(self, body: Callable[..., Any], name: str = "work") -> None:
        super().__init__(name=name)
        self.body = body

    def run(self, args: dict[str, Any], state: State) -> Any:
        return self.body(None, state)


class AsyncInside(Inside):
    """The same in async code."""

    async def run(self, args: dict[str, Any], state: State) -> Any:  # type: ignore[override]
        return await self.body(None, state)


def working(act: Act, body: Body, name: str = "work") -> Tool:
    """A tool written once for both halves of `act`, like a loop: `yield helper, "run", "Plot 7"`."""
    return (AsyncInside if is_async(act) else Inside)(written(act, body), name)


def runs(act: Act, helper: Agent, *inputs: Any, name: str = "work") -> Tool:
    """A tool that runs an Agent on each input, and returns the last answer."""

    def body(agent: Any, state: State) -> Any:
        answer = None
        for given in inputs:
            answer = yield helper, "run", given
        return answer

    return working(act, body, name)


def parent(*tools: Any, calls: Any = None, **settings: Any) -> Agent:
    """An Agent whose model asks for one call, and is content with what comes."""
    first = call("work", "t1") if calls is None else calls
    return agent(first, "Fine", tools=tools, **settings)


def ran(act: Act, made: Agent, state: State | None = None) -> State:
    """The State, after a run."""
    state = state or started()
    act(made, "run", state)
    return state


def results(state: State) -> list[ToolResultEntry]:
    return [entry for entry in state.history if isinstance(entry, ToolResultEntry)]


def origins(state: State) -> list[tuple[str | None, str | None]]:
    """The parents of the State's runs."""
    starts = [entry for entry in state.history if isinstance(entry, RunStartEntry)]
    return [(start.parent_id, start.parent_call_id) for start in starts]


def children(state: State) -> list[State]:
    """Its subagents in the order they started."""
    ids = [id for result in results(state) if not result.late for id in result.child_ids]
    return [state.child(id) for id in ids]
