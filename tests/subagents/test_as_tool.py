"""An Agent in `tools=` is a tool: what it is called, what it takes, and how its run begins."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from runs import Step, agent, call, fake, started
from subagents.family import Act, ask, below, children, parent, ran, results

from alpineagents import Agent, Message, State, adefault_loop, default_loop, tool
from alpineagents.permissions import AllowByDefault, AllowByReadOnly
from alpineagents.testing import FakeModel
from alpineagents.types import AgentInfo, RunStartEntry


@tool
def measure(plot: int) -> str:
    """Measure a plot."""
    return f"{plot} m"


@pytest.mark.parametrize("empty", [None, ""])
@pytest.mark.parametrize("missing", ["name", "description"])
def test_it_needs_a_name_and_a_description(missing: str, empty: str | None) -> None:
    with pytest.raises(ValueError, match=missing):
        agent(tools=[below(**{missing: empty})])


def test_both_that_are_missing_are_named() -> None:
    with pytest.raises(ValueError, match="lacks its name and description"):
        agent(tools=[Agent(FakeModel([]))])


def test_a_name_that_can_be_no_tools_is_refused() -> None:
    with pytest.raises(TypeError, match="chief surveyor"):
        agent(tools=[below(name="chief surveyor")])


def test_its_name_is_one_of_the_names_of_the_tools() -> None:
    with pytest.raises(ValueError, match=r"Agent\(name='measure'\)[\s\S]*name="):
        agent(tools=[measure, below(name="measure")])


def test_it_is_a_parallel_tool_in_its_place_of_which_nothing_good_is_known() -> None:
    made = agent(tools=[measure, below(), Step(str)])
    assert list(made.tool_map) == ["measure", "surveyor", "step"]
    surveyor = made.tool_map["surveyor"]
    assert (surveyor.name, surveyor.description, surveyor.parallel) == ("surveyor", "Measures plots", True)
    assert repr(surveyor) == "Agent(name='surveyor')"
    hints = surveyor.hints_for({"prompt": "Plot 7"})
    assert (hints.read_only, hints.destructive, hints.idempotent, hints.open_world) == (False, True, False, True)


def test_it_takes_a_prompt_and_says_that_this_is_all_it_will_see() -> None:
    schema = dict(agent(tools=[below()]).tool_map["surveyor"].input_schema)
    text = schema["properties"]["prompt"]["description"]
    assert schema == {
        "type": "object",
        "properties": {"prompt": {"type": "string", "description": text}},
        "required": ["prompt"],
    }
    assert "sees only this prompt" in text


def test_the_agent_shows_it_as_given_and_so_do_copies() -> None:
    surveyor = below()
    made = agent(tools=[surveyor, measure])
    assert list(made.tools) == list(made.copy(system="Be brief").tools) == [surveyor, measure]


def test_the_agents_own_record_lists_it_with_the_others(act: Act) -> None:
    state = ran(act, agent("Hello", tools=[measure, below()]))
    (start,) = [entry for entry in state.history if isinstance(entry, RunStartEntry)]
    assert start.content.tools == ("measure", "surveyor")


def test_one_request_can_show_just_it(act: Act) -> None:
    surveyor = below()
    made = agent("a", "b", tools=[measure, surveyor])
    for shown in (surveyor, made.tool_map["surveyor"]):
        state = started()
        act(made, "think", state, tools=[shown])
    assert [[spec.name for spec in asked.tools] for asked in fake(made).requests] == [["surveyor"], ["surveyor"]]


def test_an_agent_that_is_not_among_the_tools_cannot_be_shown(act: Act) -> None:
    with pytest.raises(ValueError, match="surveyor"):
        act(agent("a", tools=[below()]), "think", started(), tools=[below()])


PROMPT = "  Plot 7:\n\thow long?\u2028 "


def test_it_begins_a_state_of_its_own_with_the_prompt_as_given(act: Act) -> None:
    surveyor = below("40 m", system="You measure", tools=[measure])
    state = ran(act, parent(surveyor, calls=ask(prompt=PROMPT), system="You plan"))
    (child,) = children(state)
    (asked,) = fake(surveyor).requests
    assert (asked.system, asked.messages) == ("You measure", (Message.user(PROMPT),))
    start = next(entry for entry in child.history if isinstance(entry, RunStartEntry))
    assert isinstance(start.content, AgentInfo)
    assert (start.content.name, start.content.tools) == ("surveyor", ("measure",))


def test_each_call_of_each_turn_and_run_begins_another(act: Act) -> None:
    made = agent(ask("t1"), [ask("t2"), ask("t3")], "Fine", ask("t4"), "Fine", tools=[below("a", "b", "c", "d")])
    state = ran(act, made)
    state.add_message(Message.user("Again"))
    act(made, "run", state)
    assert len({child.id for child in children(state)}) == 4


BAD_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({}, "prompt: must be a non-empty string"),
    ({"prompt": ""}, "prompt: must be a non-empty string"),
    ({"prompt": " \n"}, "prompt: must be a non-empty string"),
    ({"prompt": 7}, "prompt: must be a non-empty string"),
    ({"prompt": None}, "prompt: must be a non-empty string"),
    ({"prompt": ["Plot 7"]}, "prompt: must be a non-empty string"),
    ({"prompt": "Plot 7", "b": 1, "a": 2}, "unexpected argument: a, b"),
    ({"task": "Plot 7"}, "unexpected argument: task"),
]


@pytest.mark.parametrize(("args", "problem"), BAD_ARGUMENTS)
def test_wrong_arguments_start_nothing(act: Act, args: dict[str, Any], problem: str) -> None:
    surveyor = below()
    state = ran(act, parent(surveyor, calls=call("surveyor", "t1", **args)))
    (result,) = results(state)
    assert (result.outcome, result.content) == ("input_error", f"(input error: {problem})")
    assert (result.child_ids, result.usage, fake(surveyor).requests) == ((), None, [])


def test_several_calls_of_a_reply_run_at_the_same_time(act: Act) -> None:
    barrier = threading.Barrier(2, timeout=20)

    @tool
    def meet() -> str:
        """Return when both are here."""
        barrier.wait()
        return "met"

    surveyor = below(call("meet", "m1"), call("meet", "m2"), "a", "b", tools=[meet])
    state = ran(act, parent(surveyor, calls=[ask("t1", "north"), ask("t2", "south")]))
    assert [result.outcome for result in results(state)] == ["done", "done"]
    assert {child.messages[0].text for child in children(state)} == {"north", "south"}


def where(kind: str, seen: list[Any]) -> Agent:
    """A subagent of a kind of loop that notes the thread it runs on and whether an event loop runs there."""

    def note(agent: Any, state: State) -> Any:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        seen.append((threading.current_thread(), running))

    class Noting(FakeModel):
        def respond(self, *given: Any) -> Any:
            note(None, State())
            return super().respond(*given)

        async def arespond(self, *given: Any) -> Any:
            note(None, State())
            return super().respond(*given)

    async def own_async(agent: Any, state: State) -> str:
        note(agent, state)
        return "ok"

    def own(agent: Any, state: State) -> str:
        note(agent, state)
        return "ok"

    loops = {"default": default_loop, "adefault": adefault_loop, "sync": own, "async": own_async}
    return Agent(Noting(["ok"]), name="surveyor", description="Measures", loop=loops[kind])


@pytest.mark.parametrize(
    ("kind", "under_async"),
    [("default", "this loop"), ("adefault", "this loop"), ("async", "this loop"), ("sync", "a thread")],
)
def test_under_an_async_run_async_loops_run_on_the_same_event_loop(kind: str, under_async: str) -> None:
    seen: list[Any] = []

    async def main() -> asyncio.AbstractEventLoop:
        await parent(where(kind, seen), calls=ask()).arun(started())
        return asyncio.get_running_loop()

    loop = asyncio.run(main())
    ((thread, running),) = seen
    on_loop = thread is threading.main_thread() and running is loop
    assert on_loop == (under_async == "this loop")
    assert on_loop or running is None


@pytest.mark.parametrize(
    ("kind", "has_loop"), [("default", False), ("adefault", True), ("async", True), ("sync", False)]
)
def test_under_a_sync_run_it_runs_on_the_thread_of_the_call(kind: str, has_loop: bool) -> None:
    seen: list[Any] = []
    parent(where(kind, seen), calls=ask()).run(started())
    ((thread, running),) = seen
    assert thread is not threading.main_thread()
    assert (running is not None) == has_loop


def test_whether_the_default_loop_is_async_depends_on_the_run() -> None:
    surveyor = agent(tools=[below()]).tool_map["surveyor"]
    assert not surveyor.is_async


def test_the_call_is_checked_under_its_name_by_the_one_that_calls(act: Act) -> None:
    surveyor = below("40 m")
    state = ran(act, parent(surveyor, calls=ask(), permissions=[AllowByDefault()]))
    assert results(state)[0].outcome == "done"
    with pytest.warns(match="surveyor"):
        state = ran(act, parent(below(), calls=ask(), permissions=[AllowByReadOnly()]))
    assert results(state)[0].outcome == "denied"
