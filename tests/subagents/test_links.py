"""A run that starts while a tool call is carried out is a subagent, and both sides say so."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from runs import (
    Heard,
    agent,
    call,
    interrupt,
    is_at_rest,
    is_late,
    next_recorded,
    started,
    story,
    wait_for,
    written,
)
from subagents.family import (
    Act,
    AsyncInside,
    Inside,
    ask,
    below,
    children,
    origins,
    parent,
    ran,
    results,
    runs,
    working,
)

from alpineagents import Human, Message, State, ToolError
from alpineagents.history.replay import replay
from alpineagents.permissions import Allowed, DecideByHuman, DecidePermission
from alpineagents.types import AgentInfo, RunStartEntry, ToolOutcomeKind, ToolResultEntry, Usage

# Which runs are subagents


def test_a_run_inside_a_tool_is_linked_on_both_sides(act: Act) -> None:
    plot = started("Plot 7")
    state = ran(act, parent(runs(act, below("40 m"), plot)))
    assert origins(plot) == [(state.id, "t1")]
    assert results(state)[0].child_ids == (plot.id,)
    assert (plot.parent_id, plot.parent_call_id) == (state.id, "t1")


def test_it_is_one_whichever_agent_it_is(act: Act) -> None:
    plot = started("Plot 7")

    def body(given: Any, state: State) -> Any:
        return (yield made, "run", plot)

    made = agent(call("work", "t1"), "inner", "outer", tools=[working(act, body)])
    state = ran(act, made)
    assert origins(plot) == [(state.id, "t1")]
    assert "work done: inner" in story(state)


def test_a_sync_tool_of_an_async_run_may_run_an_agent() -> None:
    helper = below("40 m")
    state = started()
    asyncio.run(parent(Inside(lambda agent, state: helper.run("Plot 7"))).arun(state))
    assert origins(children(state)[0]) == [(state.id, "t1")]


def test_an_async_tool_of_a_sync_run_may_run_an_agent_both_ways() -> None:
    async def both(agent: Any, state: State) -> None:
        await helper.arun("Plot 7")
        helper.run("Plot 8")

    helper = below("a", "b")
    state = started()
    parent(AsyncInside(both)).run(state)
    assert [child.answer for child in children(state)] == ["a", "b"]


def test_tasks_of_a_tool_belong_to_it() -> None:
    async def both(agent: Any, state: State) -> list[Any]:
        return await asyncio.gather(helper.arun("north"), helper.arun("south"))

    helper = below(lambda request: request.messages[0].text[0], lambda request: request.messages[0].text[0])
    state = started()
    asyncio.run(parent(AsyncInside(both)).arun(state))
    assert results(state)[0].content == '["n", "s"]'
    assert [child.messages[0].text for child in children(state)] == ["north", "south"]
    assert results(state)[0].usage == children(state)[0].usage + children(state)[1].usage


def test_an_event_loop_that_a_tool_starts_belongs_to_it() -> None:
    helper = below("40 m")
    state = started()
    asyncio.run(parent(Inside(lambda agent, state: asyncio.run(helper.arun("Plot 7")))).arun(state))
    assert len(children(state)) == 1


def in_context(work: Callable[[], Any]) -> None:
    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,))
    thread.start()
    thread.join()


def test_a_thread_that_is_given_the_context_belongs_to_the_call() -> None:
    helper = below("40 m")
    state = started()
    parent(Inside(lambda agent, state: in_context(lambda: helper.run("Plot 7")))).run(state)
    assert len(children(state)) == 1


def test_to_thread_belongs_to_the_call() -> None:
    async def aside(agent: Any, state: State) -> Any:
        return await asyncio.to_thread(helper.run, "Plot 7")

    helper = below("40 m")
    state = started()
    asyncio.run(parent(AsyncInside(aside)).arun(state))
    assert len(children(state)) == 1


def test_the_person_a_tool_asks_belongs_to_the_call(act: Act) -> None:
    class Delegating(Human):
        def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
            return helper.run(prompt)

    def body(given: Any, state: State) -> Any:
        return (yield asking, "ask_human", state, "How long is plot 7?")

    helper = below("40 m")
    asking = agent(human=Delegating())
    state = ran(act, parent(working(act, body)))
    assert children(state)[0].answer == "40 m"


def by_hand(work: Callable[[], Any]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def pooled(work: Callable[[], Any]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


@pytest.mark.parametrize("elsewhere", [by_hand, pooled])
def test_a_thread_of_the_tool_itself_does_not_belong_to_the_call(elsewhere: Callable[..., None]) -> None:
    helper, plot = agent("40 m"), started("Plot 7")
    state = started()
    parent(Inside(lambda agent, state: elsewhere(lambda: helper.run(plot)))).run(state)
    assert origins(plot) == [(None, None)]
    assert results(state)[0].child_ids == ()


def test_an_executor_of_the_loop_does_not_belong_to_the_call() -> None:
    async def aside(agent: Any, state: State) -> None:
        await asyncio.get_running_loop().run_in_executor(None, helper.run, plot)

    helper, plot = agent("40 m"), started("Plot 7")
    asyncio.run(parent(AsyncInside(aside)).arun(started()))
    assert origins(plot) == [(None, None)]


class Running(Heard):
    """Runs an Agent on a new State at one event."""

    def __init__(self, event: str, plots: list[State]) -> None:
        super().__init__()
        self.event = event
        self.plots = plots

    def hear(self, name: str, state: State, text: str = "") -> None:
        if name == self.event:
            self.plots.append(started("Plot"))
            in_context(lambda: agent("40 m").run(self.plots[-1]))  # a thread, because an async run forbids it here


EVENTS = ["run_start", "think_start", "text", "think_end", "tool_start", "tool_end", "run_end"]


@pytest.mark.parametrize("event", EVENTS)
def test_what_a_reporter_starts_is_no_subagent_also_that_of_a_subagent(act: Act, event: str) -> None:
    plots: list[State] = []
    helper = below(
        call("inner", "u1"), "40 m", reporter=Running(event, plots), tools=[runs(act, agent(), name="inner")]
    )
    state = ran(act, parent(helper, calls=ask(), reporter=Running(event, plots)))
    assert plots
    assert all(origins(plot) == [(None, None)] for plot in plots)
    assert all(plot.id not in ids for plot in plots for ids in [results(state)[0].child_ids])


@pytest.mark.parametrize("event", ["think_start", "tool_start", "tool_end"])
def test_what_the_reporter_of_another_agent_starts_inside_a_tool_is_no_subagent(act: Act, event: str) -> None:
    def body(given: Any, state: State) -> Any:
        yield other, "think", aside
        yield other, "use_tools", aside

    plots: list[State] = []
    aside = started("Aside")
    other = agent(call("inner", "u1"), tools=[runs(act, agent(), name="inner")], reporter=Running(event, plots))
    ran(act, parent(working(act, body)))
    assert [origins(plot) for plot in plots] == [[(None, None)]]


def test_what_hears_of_a_change_inside_a_tool_starts_no_subagent(act: Act) -> None:
    plots: list[State] = []
    aside = started("Aside")
    act(agent("a", reporter=Running("context_change", plots)), "run", aside)
    ran(act, parent(Inside(lambda given, state: aside.compact("what happened"))))
    assert [origins(plot) for plot in plots] == [[(None, None)]]


class Consulting(DecidePermission):
    """Runs an Agent before it decides."""

    def __init__(self, plots: list[State]) -> None:
        self.plots = plots

    def check(self, state: State, call: Any, tool: Any) -> Any:
        self.plots.append(started("Plot"))
        agent("40 m").run(self.plots[-1])
        return Allowed()


@pytest.mark.parametrize("inside", [False, True])
def test_what_a_check_starts_is_no_subagent_wherever_it_is_asked(act: Act, inside: bool) -> None:
    def body(given: Any, state: State) -> Any:
        yield other, "think", aside
        yield other, "use_tools", aside

    plots: list[State] = []
    aside = started("Aside")
    inner = Inside(lambda agent, state: "ok", "inner")
    if inside:
        other = agent(call("inner", "u1"), tools=[inner], permissions=[Consulting(plots)])
        ran(act, parent(working(act, body)))
    else:
        ran(act, agent(call("inner", "t1"), "Fine", tools=[inner], permissions=[Consulting(plots)]))
    assert [origins(plot) for plot in plots] == [[(None, None)]]


def test_the_person_a_permission_asks_is_outside_the_call(act: Act) -> None:
    class Delegating(Human):
        def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
            in_context(lambda: agent("40 m").run(plot))
            return "yes"

    plot = started("Plot 7")
    ran(act, parent(Inside(lambda agent, state: "ok"), permissions=[DecideByHuman(Delegating())]))
    assert origins(plot) == [(None, None)]


def test_what_the_loop_of_a_subagent_starts_is_no_subagent_but_its_tools_start_some(act: Act) -> None:
    def body(made: Any, state: State) -> Any:
        yield agent("x"), "run", loops
        yield made, "think", state
        yield made, "use_tools", state

    loops, tools = started("From the loop"), started("From a tool")
    helper = below(call("inner", "u1"), loop=written(act, body), tools=[runs(act, below("y"), tools, name="inner")])
    state = ran(act, parent(helper, calls=ask()))
    child = children(state)[0]
    assert origins(loops) == [(None, None)]
    assert origins(tools) == [(child.id, "u1")]
    assert children(child) == [tools]


def test_the_parent_is_the_state_whose_call_is_carried_out(act: Act) -> None:
    def body(made: Any, state: State) -> Any:
        yield other, "use_tools", aside

    plot, aside = started("Plot 7"), started("Aside")
    other = agent(call("work", "u1"), tools=[runs(act, below("40 m"), plot)])
    act(other, "think", aside)
    state = ran(act, agent(loop=written(act, body)))
    assert origins(plot) == [(aside.id, "u1")]
    assert children(aside) == [plot]
    assert results(state) == []


def test_only_runs_are_linked(act: Act) -> None:
    def body(given: Any, state: State) -> Any:
        yield other, "think", aside
        yield other, "use_tools", aside
        yield other, "ask", aside, "How long?"
        yield other, "compact", aside

    aside = started("Aside")
    other = agent(call("inner", "u1"), "40 m", "Summary", tools=[Inside(lambda agent, state: "ok", "inner")])
    state = ran(act, parent(working(act, body)))
    assert (results(state)[0].child_ids, results(state)[0].usage) == ((), None)
    assert aside.parent_id is None
    assert state.usage.requests == 2


@pytest.mark.parametrize("kind", ["new", "prepared", "fork", "ran before"])
def test_any_state_may_be_a_subagents(act: Act, kind: str) -> None:
    plot: Any = started("Plot 7")
    if kind == "fork":
        plot = plot.fork()
    if kind == "ran before":
        act(agent("Before"), "run", plot)
        plot.add_message(Message.user("Again"))
    state = ran(act, parent(runs(act, below("40 m"), "Plot 7" if kind == "new" else plot)))
    child = children(state)[0]
    assert origins(child)[-1] == (state.id, "t1")
    assert kind == "new" or child is plot


def test_the_state_whose_call_it_is_cannot_be_run_inside(act: Act) -> None:
    state = started()
    helper = below("40 m")
    made = agent(call("work", "t1"), tools=[runs(act, helper, state)])
    act(made, "think", state)
    with pytest.raises(ValueError, match="one thing at a time"):
        act(made, "use_tools", state)
    assert origins(state) == []


def test_a_run_that_is_refused_leaves_no_trace(act: Act) -> None:
    def body(given: Any, state: State) -> Any:
        try:
            yield below("40 m"), "run", finished
        except ValueError:
            return "refused"

    finished = started("Plot 7")
    finished.finish()
    before = finished.snapshot()
    state = ran(act, parent(working(act, body)))
    assert finished.snapshot() is before
    assert (results(state)[0].child_ids, results(state)[0].usage) == ((), None)
    with pytest.raises(KeyError):
        state.child(finished.id)


# The links


def test_other_runs_have_no_link(act: Act) -> None:
    state = ran(act, agent("a"))
    assert origins(state) == [(None, None)]
    assert (state.parent_id, state.parent_call_id) == (None, None)
    assert (State().parent_id, State().parent_call_id) == (None, None)


def two_parents(act: Act) -> tuple[State, State, State]:
    plot = started("Plot 7")
    one = ran(act, parent(runs(act, below("a"), plot), calls=call("work", "a1")), started(id="one"))
    plot.add_message(Message.user("Again"))
    two = ran(act, parent(runs(act, below("b"), plot), calls=call("work", "b1")), started(id="two"))
    plot.add_message(Message.user("By hand"))
    act(agent("c"), "run", plot)
    return one, two, plot


def test_the_first_link_stays_and_each_run_has_its_own(act: Act) -> None:
    one, two, plot = two_parents(act)
    assert origins(plot) == [("one", "a1"), ("two", "b1"), (None, None)]
    assert (plot.parent_id, plot.parent_call_id) == ("one", "a1")
    assert [result.usage.requests for result in [*results(one), *results(two)] if result.usage] == [1, 1]
    assert [children(one), children(two)] == [[plot], [plot]]


def test_the_link_is_a_fact_of_the_whole_history(act: Act) -> None:
    plot = started("Plot 7")
    before = plot.snapshot()
    ran(act, parent(runs(act, below("40 m"), plot)))
    link = (plot.parent_id, plot.parent_call_id)
    for state in (plot.fork(), State(history=plot.history)):
        assert (state.parent_id, state.parent_call_id) == link
    plot.restore(before)
    assert (plot.parent_id, plot.parent_call_id) == link


@pytest.mark.parametrize("name", ["parent_id", "parent_call_id"])
def test_the_link_is_read_only(name: str) -> None:
    with pytest.raises(AttributeError, match="read-only"):
        setattr(State(), name, "x")


def test_a_call_lists_its_subagents_in_the_order_they_started_each_once(act: Act) -> None:
    one, two = started("1"), started("2")

    def body(given: Any, state: State) -> Any:
        for plot in (two, one, two):
            yield helper, "run", plot
            plot.add_message(Message.user("Again"))

    helper = below("a", "b", "c")
    state = ran(act, parent(working(act, body)))
    assert results(state)[0].child_ids == (two.id, one.id)
    assert results(state)[0].usage == two.usage + one.usage


@pytest.mark.parametrize("outcome", [ToolOutcomeKind.ERROR, ToolOutcomeKind.ABORTED, ToolOutcomeKind.INTERRUPTED])
def test_they_are_listed_whatever_way_the_call_ends(act: Act, outcome: ToolOutcomeKind) -> None:
    error = {
        ToolOutcomeKind.ERROR: ToolError("no"),
        ToolOutcomeKind.ABORTED: OSError("no"),
        ToolOutcomeKind.INTERRUPTED: KeyboardInterrupt(),
    }[outcome]

    def body(given: Any, state: State) -> Any:
        yield helper, "run", plot
        raise error

    helper, plot, state = below("40 m"), started("Plot 7"), started()
    made = parent(working(act, body))
    if outcome is ToolOutcomeKind.ERROR:
        act(made, "run", state)
    else:
        with pytest.raises(type(error)):
            act(made, "run", state)
    assert results(state)[0].outcome is outcome
    assert results(state)[0].child_ids == (plot.id,)
    assert results(state)[0].usage == plot.usage
    assert is_at_rest(state)


def test_two_calls_of_a_turn_keep_their_subagents_apart(act: Act) -> None:
    calls = [ask("a", "one"), ask("b", "two")]
    state = ran(act, parent(below("x", "y"), calls=calls))
    of = {entry.call.id: state.child(entry.child_ids[0]).messages[0].text for entry in results(state)}
    assert of == {"a": "one", "b": "two"}
    assert [len(entry.child_ids) for entry in results(state)] == [1, 1]


def test_two_calls_of_one_id_keep_them_apart_too(act: Act) -> None:
    state = ran(act, parent(below("x", "y"), calls=[ask("a", "one"), ask("a", "two")]))
    ids = [entry.child_ids for entry in results(state)]
    assert [len(each) for each in ids] == [1, 1]
    assert ids[0] != ids[1]


def test_a_call_that_raised_beside_another_keeps_its_own(act: Act) -> None:
    def body(given: Any, state: State) -> Any:
        yield below("40 m"), "run", plot
        raise OSError("no")

    plot, state = started("Plot 7"), started()
    with pytest.raises(OSError, match="no"):
        act(parent(below("x"), working(act, body), calls=[ask("a"), call("work", "b")]), "run", state)
    of = {entry.call.id: entry.child_ids for entry in results(state)}
    assert of["b"] == (plot.id,)
    assert len(of["a"]) == 1
    assert of["a"] != of["b"]


def test_a_later_call_of_the_same_id_does_not_get_those_of_an_earlier_one(act: Act) -> None:
    again = ask()
    state = ran(act, agent(again, again, "Fine", tools=[below("x", "y")]))
    ids = [entry.child_ids for entry in results(state)]
    assert [len(each) for each in ids] == [1, 1]
    assert ids[0] != ids[1]


def test_not_while_a_tool_of_the_earlier_call_still_runs_either() -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(given: Any, state: State) -> Any:
        if not begun.is_set():
            helper.run(first)
            begun.set()
            wait_for(go)
            return "at last"
        return helper.run(second)

    helper, first, second = below("x", "y"), started("1"), started("2")
    again = call("work", "t1")
    state = started()
    made = parent(Inside(slow), Stopping(begun, go), calls=[again, call("stop", "s1")])
    with pytest.raises(KeyboardInterrupt):
        made.run(state)
    late = next_recorded(state, lambda entry: is_late(entry) and entry.call.id == "t1")
    state.add_message(Message.user("Again"))
    agent(again, "Fine", tools=made.tools).run(state)
    go.set()
    wait_for(late)
    assert [(entry.child_ids, entry.late) for entry in results(state) if entry.call.id == "t1"] == [
        ((first.id,), False),
        ((second.id,), False),
        ((first.id,), True),
    ]


class Stopping(Inside):
    """Presses Ctrl+C once something has begun."""

    def __init__(self, begun: threading.Event, go: threading.Event) -> None:
        super().__init__(lambda agent, state: self.stop(), "stop")
        self.begun = begun
        self.go = go

    def stop(self) -> None:
        wait_for(self.begun)
        interrupt()
        wait_for(self.go)


def test_a_run_that_starts_behind_the_end_of_its_call_is_linked_but_not_counted() -> None:
    async def main() -> None:
        async def later() -> None:
            await over.wait()
            await helper.arun(plot)

        async def begin(agent: Any, state: State) -> None:
            tasks.append(asyncio.create_task(later()))

        over = asyncio.Event()
        await parent(AsyncInside(begin)).arun(state)
        usage, length = state.usage, len(state.history)
        over.set()
        await tasks[0]
        assert state.child(plot.id) is plot
        assert (state.usage, len(state.history)) == (usage, length)

    tasks: list[asyncio.Task[None]] = []
    helper, plot, state = below("40 m"), started("Plot 7"), started()
    asyncio.run(main())
    assert origins(plot) == [(state.id, "t1")]
    assert results(state)[0].child_ids == ()


def test_ids_given_as_a_list_become_a_tuple_and_one_text_is_refused() -> None:
    fields: dict[str, Any] = {"content": "x", "call": call("work", "t1"), "outcome": "done", "turn": 1}
    assert ToolResultEntry(child_ids=["a"], **fields).child_ids == ("a",)
    with pytest.raises(TypeError, match="child_ids"):
        ToolResultEntry(child_ids="abc", **fields)


def test_links_and_usage_are_part_of_an_entrys_equality() -> None:
    fields: dict[str, Any] = {"content": "x", "call": call("work", "t1"), "outcome": "done", "turn": 1}
    plain = ToolResultEntry(**fields)
    assert plain != ToolResultEntry(child_ids=["a"], **fields)
    assert plain != ToolResultEntry(usage=Usage(), **fields)
    start: dict[str, Any] = {"content": AgentInfo(model="m"), "turn": 0}
    assert RunStartEntry(**start) != RunStartEntry(parent_id="a", **start)
    assert RunStartEntry(**start) != RunStartEntry(parent_call_id="a", **start)


def test_the_history_of_both_gives_equal_snapshots_again(act: Act) -> None:
    state = ran(act, parent(below("40 m"), calls=ask()))
    for each in (state, *children(state)):
        assert replay(each.history) == each.snapshot()
