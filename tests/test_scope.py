"""What applies inside a run: its settings, who hears, and where a sync call would stop the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from runs import SECONDS, Heard, Nobody, Shelf, agent, call, fake, is_async, started, story, written

from alpineagents import Agent, Message, State, Tool, loop
from alpineagents.permissions import AllowByDefault, AllowByName, DenyByName
from alpineagents.permissions import Rule as Asked
from alpineagents.scope import Run, Settings, bounded, combined, enter_run, in_force, leave_run
from alpineagents.testing import FakeModel

Act = Callable[..., Any]


class Step(Tool):
    def __init__(self, step: Callable[[], Any]) -> None:
        super().__init__(name="step")
        self.step = step

    def run(self, args: dict[str, Any], state: State) -> Any:
        return self.step()


class AsyncStep(Step):
    async def run(self, args: dict[str, Any], state: State) -> Any:  # type: ignore[override]
        return self.step()


ACTIONS = ["run", "think", "use_tools"]


# A sync call in an async run


@pytest.mark.parametrize("action", ACTIONS)
def test_a_sync_action_on_the_loop_of_an_async_run_is_refused_and_names_its_twin(action: str) -> None:
    async def body(made: Any, state: State) -> None:
        with pytest.raises(TypeError, match=f"agent.a{action}") as refused:
            getattr(other, action)(aside)
        assert "event loop" in str(refused.value)

    other, aside = agent("b"), started("Aside")
    before = aside.snapshot()
    asyncio.run(agent(loop=body).arun("Go"))
    assert aside.snapshot() is before


@pytest.mark.parametrize("action", ACTIONS)
def test_it_is_refused_in_a_task_the_run_started(action: str) -> None:
    async def body(made: Any, state: State) -> None:
        async def task() -> None:
            with pytest.raises(TypeError, match=f"a{action}"):
                getattr(agent("b"), action)(started())

        await asyncio.create_task(task())

    asyncio.run(agent(loop=body).arun("Go"))


@pytest.mark.parametrize("where", ["reporter", "async tool", "condition"])
def test_it_is_refused_wherever_the_run_calls_on_the_loops_thread(where: str) -> None:
    class Asking(Heard):
        def on_think_start(self, state: State) -> None:
            helper.run("Help")

    def condition(state: State) -> bool:
        return helper.run("Help")

    helper = agent("help")
    made = {
        "reporter": agent("a", reporter=Asking()),
        "async tool": agent(call("step", "c1"), tools=[AsyncStep(lambda: helper.run("Help"))]),
        "condition": agent(loop=loop(until=condition, limit=1)(nothing)),
    }[where]
    with pytest.raises(TypeError, match="arun"):
        asyncio.run(made.arun("Go"))
    assert fake(helper).requests == []


async def nothing(agent: Any, state: State) -> None:
    """Does nothing"""


def test_it_is_refused_in_an_async_loop_outside_a_run() -> None:
    async def body(made: Any, state: State) -> None:
        agent("b").think(state)

    with pytest.raises(TypeError, match="athink"):
        asyncio.run(loop(until=[], limit=1)(body)(None, started()))


def test_a_sync_loop_of_an_async_run_is_refused_at_its_first_action() -> None:
    async def body(made: Any, state: State) -> None:
        loop(until=[], limit=1)(lambda agent, state: agent.think(state))(made, state)

    with pytest.raises(TypeError, match="athink"):
        asyncio.run(agent("a", loop=body).arun("Go"))


@pytest.mark.parametrize("action", ACTIONS)
def test_it_is_allowed_where_an_event_loop_runs_but_no_async_run_does(action: str) -> None:
    async def cell() -> None:
        getattr(agent("a"), action)(started())

    asyncio.run(cell())


def test_it_is_allowed_behind_an_async_run() -> None:
    async def cell() -> Any:
        made = agent("a", "b")
        await made.arun("First")
        return made.run("Second")

    assert asyncio.run(cell()) == "b"


def test_it_is_allowed_beside_an_async_run_of_another_task() -> None:
    async def main() -> Any:
        began, go = asyncio.Event(), asyncio.Event()

        async def wait(made: Any, state: State) -> None:
            began.set()
            await go.wait()

        run = asyncio.create_task(agent(loop=wait).arun("Go"))
        await began.wait()
        answer = agent("beside").run("Beside")
        go.set()
        await run
        return answer

    assert asyncio.run(main()) == "beside"


def test_it_is_allowed_on_another_thread() -> None:
    helper, state = agent("help"), started()
    made = agent(call("step", "c1"), "on", tools=[Step(lambda: helper.run("Help"))])
    assert asyncio.run(made.arun(state)) == "on"
    assert "step done: help" in story(state)


def test_it_is_allowed_on_another_event_loop_than_the_runs() -> None:
    async def inner() -> Any:
        return helper.run("Help")

    helper, state = agent("help"), started()
    made = agent(call("step", "c1"), "on", tools=[Step(lambda: asyncio.run(inner()))])
    asyncio.run(made.arun(state))
    assert "step done: help" in story(state)


# Settings in force


def test_steps_of_the_agent_in_its_run_use_the_settings_of_the_run(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        yield agent, "think", state.fork()

    heard = Heard()
    act(agent("a", "b", reporter=heard, loop=written(act, body)), "run", "Go")
    assert heard.events.count("think_start") == 2


def test_another_agent_in_a_run_uses_its_own_settings(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        yield other, "think", state

    mine, theirs = Heard(), Heard()
    other = agent("b", reporter=theirs)
    act(agent(reporter=mine, loop=written(act, body)), "run", "Go")
    assert mine.events == ["run_start", "run_end"]
    assert theirs.events == ["think_start", "text b", "think_end"]


def test_a_copy_is_another_agent(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        yield agent.copy(reporter=theirs), "think", state

    mine, theirs = Heard(), Heard()
    act(agent("a", reporter=mine, loop=written(act, body)), "run", "Go")
    assert theirs.events == ["think_start", "text a", "think_end"]


def test_runs_inside_runs_give_back_what_applied_before(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        yield inner, "run", "Help"
        yield agent, "think", state

    outer_heard, inner_heard = Heard(), Heard()
    inner = agent("help", reporter=inner_heard)
    act(agent("a", reporter=outer_heard, loop=written(act, body)), "run", "Go")
    assert outer_heard.events == ["run_start", "think_start", "text a", "think_end", "run_end"]
    assert inner_heard.events == ["run_start", "think_start", "text help", "think_end", "run_end"]


def test_after_a_run_nothing_of_it_applies(act: Act) -> None:
    made = agent(OSError("x"))
    with pytest.raises(OSError, match="x"):
        act(made, "run", "Go")
    assert in_force(made) is None


def test_the_settings_of_a_run_are_those_of_its_agent_alone() -> None:
    one, other = object(), object()
    run = Settings(Heard(), Nobody(), Shelf())
    token = enter_run(Run(one, run))
    try:
        assert in_force(one) is run
        assert in_force(other) is None
    finally:
        leave_run(token)
    assert in_force(one) is None


def seen_on_another_thread(look: Callable[[], None]) -> None:
    thread = threading.Thread(target=look)
    thread.start()
    thread.join(SECONDS)


def test_what_applies_follows_into_tools_and_not_into_threads_of_the_user(act: Act) -> None:
    def look(name: str) -> Any:
        return lambda: seen.update({name: in_force(made) is None})

    def body(agent: Any, state: State) -> Any:
        look("loop")()
        seen_on_another_thread(look("thread"))
        yield agent, "think", state
        yield agent, "use_tools", state

    seen: dict[str, bool] = {}
    made = agent(call("step", "c1"), tools=[Step(look("tool"))], loop=written(act, body))
    act(made, "run", "Go")
    assert seen == {"loop": False, "thread": True, "tool": False}


# Who hears of context changes


def compacted(state: State) -> None:
    state.compact("what happened")


def test_the_agent_that_last_ran_a_state_hears_of_its_changes(act: Act) -> None:
    heard, state = Heard(), started()
    act(agent("a", reporter=heard), "run", state)
    compacted(state)
    assert heard.events[-1] == "context_change compact"
    assert heard.states[-1] is state


def test_a_state_no_agent_has_used_tells_nobody() -> None:
    state = started()
    compacted(state)
    assert story(state) == ["context_change", "context_change"]


@pytest.mark.parametrize("action", ["think", "use_tools"])
def test_the_last_agent_that_thought_or_used_tools_hears(act: Act, action: str) -> None:
    first, last, state = Heard(), Heard(), started()
    step = [Step(lambda: "ok")]
    act(agent(call("step", "c1"), reporter=first, tools=step), "think", state)
    if action == "think":
        act(agent(tools=step), "use_tools", state)
    act(agent("b", reporter=last, tools=step), action, state)
    compacted(state)
    assert last.events[-1] == "context_change compact"
    assert "context_change compact" not in first.events


def test_an_action_that_is_refused_changes_nobody(act: Act) -> None:
    first, refused, state = Heard(), Heard(), started()
    act(agent(call("step", "c1"), reporter=first), "think", state)
    other = agent("b", reporter=refused)
    with pytest.raises(ValueError, match="no result"):
        act(other, "think", state)
    act(agent(reporter=first), "use_tools", state)
    act(other, "use_tools", state)  # nothing is pending
    state.clear_tool_results(0)
    assert first.events[-1] == "context_change clear_tool_results"
    assert refused.events == []


def test_an_agent_without_a_reporter_tells_nobody(act: Act) -> None:
    first, state = Heard(), started()
    act(agent("a", reporter=first), "think", state)
    act(agent("b"), "think", state)
    before = list(first.events)
    compacted(state)
    assert first.events == before


def test_a_reporter_that_raises_at_a_change_leaves_the_change(act: Act) -> None:
    error = OSError("reporter")
    state = started()
    act(agent("a", reporter=Heard(context_change=error)), "think", state)
    with pytest.raises(OSError, match="reporter") as raised:
        compacted(state)
    assert raised.value is error
    assert story(state)[-1] == "context_change"
    assert state.messages[-1].text.startswith("[notice] Summary so far")


def test_nothing_is_told_when_nothing_changed(act: Act) -> None:
    heard, state = Heard(), started()
    act(agent("a", reporter=heard), "think", state)
    before = list(heard.events)
    state.clear_tool_results()
    assert heard.events == before


def test_a_request_that_is_taken_back_is_no_context_change(act: Act) -> None:
    heard = Heard()
    with pytest.raises(OSError, match="x"):
        act(agent(OSError("x"), reporter=heard), "think", started())
    assert heard.events == ["think_start"]


def test_a_change_is_told_outside_the_lock(act: Act) -> None:
    class Reading(Heard):
        def on_context_change(self, state: State, change: Any) -> None:
            seen_on_another_thread(lambda: state.add_message(Message.user("from outside")))

    state = started()
    act(agent("a", reporter=Reading()), "think", state)
    compacted(state)
    assert state.messages[-1].text == "from outside"


def test_a_fork_has_nobody_yet(act: Act) -> None:
    heard, state = Heard(), started()
    act(agent("a", reporter=heard), "think", state)
    before = list(heard.events)
    compacted(state.fork())
    assert heard.events == before


def test_the_sync_half_of_these_tests_may_call_sync_actions(act: Act) -> None:
    def body(made: Any, state: State) -> Any:
        if not asynchronous:
            agent("b").think(state)
        yield made, "think", state

    asynchronous = is_async(act)
    act(Agent(FakeModel(["a"]), reporter=None, human=None, loop=written(act, body)), "run", "Go")


# Permissions of what runs inside a run

BURN, SHRED = Asked(DenyByName(["burn"]), None), Asked(DenyByName(["shred"]), None)
ALL, FILE = Asked(AllowByDefault(), None), Asked(AllowByName(["file"]), None)


@pytest.mark.parametrize(
    ("above", "own", "together"),
    [
        (None, None, None),
        (None, (FILE,), (FILE,)),
        ((ALL, BURN), None, (ALL, BURN)),
        ((ALL, BURN), (SHRED, FILE), (BURN, SHRED, FILE)),
        ((BURN, SHRED, FILE), (), (BURN, SHRED)),
    ],
)
def test_a_subagent_takes_over_all_permissions_or_the_denials(above: Any, own: Any, together: Any) -> None:
    assert combined(above, own) == together


@pytest.mark.parametrize(
    ("above", "own", "together"),
    [
        (None, None, None),
        ((ALL,), None, None),
        ((ALL,), (FILE,), (FILE,)),
        ((ALL, BURN), (FILE,), (BURN, FILE)),
        ((BURN, FILE), (), (BURN,)),
    ],
)
def test_another_agent_inside_a_subagent_is_bound_by_the_denials_above(above: Any, own: Any, together: Any) -> None:
    assert bounded(above, own) == together


def test_another_agent_without_permissions_may_do_what_nothing_above_denies() -> None:
    rules = bounded((FILE, BURN), None)
    assert rules is not None
    assert [repr(rule.permission) for rule in rules] == ["DenyByName(['burn'])", "AllowByDefault()"]
