"""use_tools: the order of work, what is recorded and told, and what a failing tool leaves behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from histories import texts
from runs import SECONDS, Heard, Shelf, Step, agent, call, fake, since, started, step, story, wait_for, written

from alpineagents import (
    Agent,
    Message,
    State,
    StoppedByFinish,
    Terminal,
    ToolCall,
    ToolError,
    ToolOutcomeKind,
    loop,
    tool,
)
from alpineagents.testing import FakeModel, tool_call
from alpineagents.types import ErrorEntry, ToolResultBlock, ToolResultEntry

Act = Callable[..., Any]


def asked(*calls: ToolCall, text: str = "Go") -> State:
    """A State whose model asked for these calls."""
    state = started(text)
    agent(list(calls)).think(state)
    return state


def named(id: str) -> str:
    return id


def echo(name: str = "step", *, parallel: bool = True) -> Step:
    return Step(named, name, parallel=parallel)


class InOrder:
    """Lets calls end in an order of ours: each waits for the one before it."""

    def __init__(self, *order: str) -> None:
        self.order = order
        self.told = {id: threading.Event() for id in order}

    def __call__(self, id: str) -> str:
        place = self.order.index(id)
        if place:
            wait_for(self.told[self.order[place - 1]])
        return id

    def reporter(self) -> Heard:
        told = self.told

        class Telling(Heard):
            def on_tool_end(self, state: State, call: ToolCall, result: Any, outcome: Any) -> None:
                super().on_tool_end(state, call, result, outcome)
                told[call.id].set()

        return Telling()


# Nothing to do


def test_without_pending_calls_nothing_happens(act: Act) -> None:
    heard, state = Heard(), started()
    before = state.snapshot()
    assert act(agent(reporter=heard, tools=[echo()]), "use_tools", state) is None
    assert state.snapshot() is before
    assert heard.events == []


def test_a_finished_state_is_refused_with_and_without_calls(act: Act) -> None:
    for state in (started(), asked(step("c1"))):
        state.finish("done")
        before, heard = state.snapshot(), Heard()
        with pytest.raises(ValueError, match="finished"):
            act(agent(reporter=heard, tools=[echo()]), "use_tools", state)
        assert state.snapshot() is before
        assert heard.events == []


# Results


def test_every_pending_call_gets_one_result(act: Act) -> None:
    state = asked(*[step(f"c{n}") for n in range(5)])
    act(agent(tools=[echo()]), "use_tools", state)
    results = [entry.call.id for entry in state.history if isinstance(entry, ToolResultEntry)]
    assert sorted(results) == ["c0", "c1", "c2", "c3", "c4"]
    assert state.pending_calls == ()
    assert all(entry.turn == 1 for entry in state.history[-5:])


def test_entries_come_in_the_order_the_calls_end_and_blocks_in_the_order_asked(act: Act) -> None:
    order = InOrder("c3", "c1", "c2")
    heard = order.reporter()
    state = asked(step("c1"), step("c2"), step("c3"))
    act(agent(tools=[Step(order)], reporter=heard), "use_tools", state)
    assert since(state) == ["step done: c3", "step done: c1", "step done: c2"]
    assert heard.tool_starts == ["c1", "c2", "c3"]
    assert heard.tool_ends == ["c3", "c1", "c2"]
    blocks: Any = state.messages[-1].content
    assert [(block.call_id, block.content, block.name) for block in blocks] == [
        ("c1", "c1", "step"),
        ("c2", "c2", "step"),
        ("c3", "c3", "step"),
    ]


def test_messages_do_not_change_before_the_last_result(act: Act) -> None:
    class Looking(Heard):
        def on_tool_end(self, state: State, call: ToolCall, result: Any, outcome: Any) -> None:
            seen.append((len(state.pending_calls), len(state.messages)))

    seen: list[Any] = []
    state = asked(step("c1"), step("c2"), step("c3"))
    act(agent(tools=[echo(parallel=False)], reporter=Looking()), "use_tools", state)
    assert seen == [(2, 2), (1, 2), (0, 3)]


def test_a_result_is_in_the_history_when_the_reporter_hears_of_it(act: Act) -> None:
    class Looking(Heard):
        def on_tool_end(self, state: State, call: ToolCall, result: Any, outcome: Any) -> None:
            seen.append(story(state)[-1])

    seen: list[str] = []
    state = asked(step("c1"), step("c2"))
    act(agent(tools=[echo(parallel=False)], reporter=Looking()), "use_tools", state)
    assert seen == ["step done: c1", "step done: c2"]


def test_all_events_come_on_the_callers_thread(act: Act) -> None:
    heard = Heard()
    state = asked(*[step(f"c{n}") for n in range(10)])
    act(agent(tools=[echo()], reporter=heard), "use_tools", state)
    assert heard.threads == {threading.current_thread()}
    assert len(heard.events) == 20


def test_without_a_reporter_the_history_is_the_same(act: Act) -> None:
    def history(reporter: Heard | None) -> list[str]:
        state = asked(step("c1"), step("c2", "ghost"), step("c3"))
        act(agent(tools=[echo(parallel=False)], reporter=reporter), "use_tools", state)
        return story(state)

    assert history(None) == history(Heard())


# The order of work


def test_a_mixed_turn(act: Act) -> None:
    order = InOrder("t5", "t1", "t3")
    told = order.reporter()

    @tool
    def weigh(grams: int, id: str) -> str:
        """Weigh"""
        order(id)
        return f"{grams} g"

    @tool(parallel=False)
    def post(parcel: str) -> None:
        """Post"""
        assert len(state.pending_calls) == 1

    state = started()
    calls = [
        call("weigh", "t1", grams=250, id="t1"),
        call("ghost", "t2"),
        call("post", "t3", parcel="A7"),
        call("weigh", "t4", grams="heavy", id="t4"),
        call("weigh", "t5", grams=90, id="t5"),
    ]
    made = agent(calls, tools=[weigh, post], reporter=told)
    order.told["t4"] = threading.Event()
    order.told["t2"] = threading.Event()
    act(made, "think", state)
    act(made, "use_tools", state)
    lines = since(state)
    refused = "weigh input_error: (input error: grams: Input should be a valid integer"
    assert lines[0] == "ghost input_error: (input error: unknown tool 'ghost'. Available tools: weigh, post)"
    assert any(line.startswith(refused) for line in lines)
    assert [line for line in lines[1:] if not line.startswith(refused)] == [
        "weigh done: 90 g",
        "weigh done: 250 g",
        "post done: (done)",
    ]
    blocks: Any = state.messages[-1].content
    assert [block.call_id for block in blocks] == ["t1", "t2", "t3", "t4", "t5"]
    assert [block.is_error for block in blocks] == [False, True, False, True, False]
    assert told.tool_starts == ["t2", "t1", "t4", "t5", "t3"]


def test_serial_tools_run_one_by_one_in_order_behind_the_parallel_ones(act: Act) -> None:
    log: list[str] = []
    barrier = threading.Barrier(2, timeout=SECONDS)

    def meet(id: str) -> None:
        barrier.wait()
        log.append("parallel")

    def alone(id: str) -> None:
        log.append(f"start {id}")
        log.append(f"end {id}")

    state = asked(step("s1", "alone"), step("p1"), step("s2", "alone"), step("p2"))
    act(agent(tools=[Step(meet), Step(alone, "alone", parallel=False)]), "use_tools", state)
    assert log == ["parallel", "parallel", "start s1", "end s1", "start s2", "end s2"]


def test_a_start_is_told_right_before_a_serial_call(act: Act) -> None:
    heard = Heard()
    state = asked(step("c1"), step("c2"))
    act(agent(tools=[echo(parallel=False)], reporter=heard), "use_tools", state)
    assert heard.events == ["tool_start c1", "tool_end c1 done: c1", "tool_start c2", "tool_end c2 done: c2"]


def test_refused_calls_get_their_results_before_any_tool_runs(act: Act) -> None:
    def look(id: str) -> list[str]:
        return [line.split(":")[0] for line in since(state)]

    state = asked(step("c1"), step("c2", "ghost"))
    act(agent(tools=[Step(look)]), "use_tools", state)
    assert since(state)[-1] == 'step done: ["ghost input_error"]'


# Ids that are not unique


def test_two_calls_of_one_id_are_two_calls(act: Act) -> None:
    heard = Heard()
    one, two = ToolCall("step", {"id": "first"}, "same"), ToolCall("step", {"id": "second"}, "same")
    state = asked(one, two)
    act(agent(tools=[echo(parallel=False)], reporter=heard), "use_tools", state)
    assert since(state) == ["step done: first", "step done: second"]
    assert (heard.tool_starts, heard.tool_ends) == (["same", "same"], ["same", "same"])
    blocks: Any = state.messages[-1].content
    assert [block.content for block in blocks] == ["first", "second"]


@pytest.mark.parametrize("parallel", [True, False])
def test_one_call_object_that_stands_twice_in_a_reply_runs_twice(act: Act, parallel: bool) -> None:
    heard, ran = Heard(), []
    one = step("c1")
    state = asked(one, one, one)
    act(agent(tools=[Step(ran.append, parallel=parallel)], reporter=heard), "use_tools", state)
    assert ran == ["c1", "c1", "c1"]
    assert (heard.tool_starts, heard.tool_ends) == (["c1"] * 3, ["c1"] * 3)
    assert state.pending_calls == ()


def test_an_id_may_be_used_again_in_a_later_turn(act: Act) -> None:
    state = started()
    made = agent(step("c1"), step("c1"), "on", tools=[echo()])
    assert act(made, "run", state) == "on"
    assert story(state).count("step done: c1") == 2


def test_an_id_may_be_used_again_with_another_result(act: Act) -> None:
    values = iter(["one", "two"])
    state = started()
    made = agent(step("c1"), step("c1"), "on", tools=[Step(lambda id: next(values))])
    act(made, "run", state)
    results = [block.content for m in state.messages for block in m.content if isinstance(block, ToolResultBlock)]
    assert results == ["one", "two"]


# A tool that changes its State


def test_a_tool_may_finish_the_run_and_the_other_calls_still_run(act: Act) -> None:
    def finish(id: str) -> str:
        state.finish("done")
        assert state.stopped == StoppedByFinish("done")
        return id

    state = started()
    made = agent(
        [step("c1", "finish"), step("c2")], tools=[Step(finish, "finish", parallel=False), echo(parallel=False)]
    )
    assert act(made, "run", state) == "done"
    assert since(state) == ["stop: stopped by finish", "finish done: c1", "step done: c2"]


def test_messages_a_tool_adds_come_right_behind_the_results(act: Act) -> None:
    def add(id: str) -> None:
        state.add_message(Message.user(f"message {id}"))

    state = asked(step("c1"), step("c2"))
    act(agent(tools=[Step(add, parallel=False)]), "use_tools", state)
    assert texts(state)[3:] == ["message c1", "message c2"]
    assert [line for line in since(state) if line == "user"] == ["user", "user"]


def test_edits_of_several_tools_lose_nothing(act: Act) -> None:
    def edit(id: str) -> None:
        with state.edit_extra_data() as data:
            data["seen"] = [*data.get("seen", []), id]

    state = asked(*[step(f"c{n}") for n in range(20)])
    act(agent(tools=[Step(edit)]), "use_tools", state)
    assert sorted(state.extra_data["seen"]) == sorted(f"c{n}" for n in range(20))


@pytest.mark.parametrize("action", ["think", "compact", "clear_tool_results", "restore"])
def test_what_a_state_refuses_while_calls_are_pending_it_refuses_in_a_tool(act: Act, action: str) -> None:
    def refused(id: str) -> str:
        with pytest.raises(ValueError, match="no result yet"):
            {
                "think": lambda: agent("x").think(state),
                "compact": lambda: state.compact("summary"),
                "clear_tool_results": state.clear_tool_results,
                "restore": lambda: state.restore(start),
            }[action]()
        return "refused"

    state = started()
    start = state.snapshot()
    act(agent(step("c1"), "on", tools=[Step(refused)]), "run", state)
    assert "step done: refused" in story(state)


# A tool that raises


class Failing:
    """Raises for some ids, in the order given with `after`."""

    def __init__(self, **errors: BaseException) -> None:
        self.errors = errors

    def __call__(self, id: str) -> str:
        if id in self.errors:
            raise self.errors[id]
        return id


def test_a_tool_that_raises_leaves_its_call_pending_and_the_others_end(act: Act) -> None:
    error = OSError("scale offline")
    barrier = threading.Barrier(3, timeout=SECONDS)

    def fail(id: str) -> str:
        barrier.wait()
        return Failing(c2=error)(id)

    heard = Heard()
    state = asked(step("c1"), step("c2"), step("c3"), step("c4", "alone"))
    with pytest.raises(OSError, match="scale offline") as raised:
        act(agent(tools=[Step(fail), echo("alone", parallel=False)], reporter=heard), "use_tools", state)
    assert raised.value is error
    assert error.__notes__ == ['exception raised in tool step(id="c2")']
    assert sorted(since(state)) == ["error of step: OSError: scale offline", "step done: c1", "step done: c3"]
    assert [pending.id for pending in state.pending_calls] == ["c2", "c4"]
    assert sorted(heard.tool_starts) == sorted(heard.tool_ends) == ["c1", "c2", "c3"]
    assert "tool_end c2 aborted: (aborted: OSError)" in heard.events


def test_the_error_entry_has_the_call_and_the_exception(act: Act) -> None:
    error = KeyError("x")
    one = step("c1")
    state = asked(one)
    with pytest.raises(KeyError):
        act(agent(tools=[Step(Failing(c1=error))]), "use_tools", state)
    entry = state.history[-1]
    assert isinstance(entry, ErrorEntry)
    assert entry.error is error
    assert entry.call is one
    assert entry.turn == 1


def test_the_first_exception_in_time_is_raised(act: Act) -> None:
    order = InOrder("c3", "c1", "c2")
    errors = {"c1": KeyError("c1"), "c2": OSError("c2"), "c3": ValueError("c3")}

    def fail(id: str) -> str:
        return Failing(**errors)(order(id))

    heard = order.reporter()
    state = asked(step("c1"), step("c2"), step("c3"))
    with pytest.raises(ValueError, match="c3") as raised:
        act(agent(tools=[Step(fail)], reporter=heard), "use_tools", state)
    assert raised.value is errors["c3"]
    assert since(state) == [
        "error of step: ValueError: c3",
        "error of step: KeyError: 'c1'",
        "error of step: OSError: c2",
    ]
    assert [hasattr(errors[id], "__notes__") for id in ("c1", "c2", "c3")] == [False, False, True]


def test_when_a_run_ends_all_calls_are_closed_with_its_exception(act: Act) -> None:
    order = InOrder("c2", "c1")
    errors = {"c1": KeyError("c1"), "c2": OSError("c2")}
    heard = order.reporter()
    state = started()
    made = agent(
        [step("c1"), step("c2"), step("c3", "alone")],
        tools=[Step(lambda id: Failing(**errors)(order(id))), echo("alone", parallel=False)],
        reporter=heard,
    )
    with pytest.raises(OSError, match="c2"):
        act(made, "run", state)
    assert since(state) == [
        "error of step: OSError: c2",
        "error of step: KeyError: 'c1'",
        "step aborted: (aborted: OSError)",
        "step aborted: (aborted: OSError)",
        "alone aborted: (aborted: OSError)",
    ]
    assert [entry.call.id for entry in state.history[-3:]] == ["c1", "c2", "c3"]  # type: ignore[union-attr]
    assert all(entry.error is errors["c2"] for entry in state.history[-3:])  # type: ignore[union-attr]
    assert heard.events[-3:] == [
        "tool_end c2 aborted: (aborted: OSError)",
        "tool_end c1 aborted: (aborted: KeyError)",
        "run_end OSError",
    ]


def test_a_serial_tool_that_raises_stops_those_behind_it(act: Act) -> None:
    heard = Heard()
    state = asked(step("c1"), step("c2"), step("c3"))
    with pytest.raises(OSError, match="x"):
        act(agent(tools=[Step(Failing(c2=OSError("x")), parallel=False)], reporter=heard), "use_tools", state)
    assert heard.tool_starts == heard.tool_ends == ["c1", "c2"]
    assert [pending.id for pending in state.pending_calls] == ["c2", "c3"]


def test_calling_it_again_runs_only_what_is_pending(act: Act) -> None:
    ran: list[str] = []
    errors = [ConnectionError("busy")]

    def dial(id: str) -> str:
        ran.append(id)
        if id == "t1" and errors:
            raise errors.pop()
        return id

    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        try:
            yield agent, "use_tools", state
        except ConnectionError as error:
            caught.append(error)
            yield agent, "use_tools", state

    caught: list[BaseException] = []
    state = started()
    calls = [step("t1", "dial"), step("t2", "note"), step("t3", "stamp")]
    tools = [Step(dial, "dial"), Step(dial, "note"), Step(dial, "stamp", parallel=False)]
    never = loop(until=[], limit=1)
    act(agent(calls, tools=tools, loop=never(written(act, body))), "run", state)
    assert sorted(since(state)[:2]) == ["error of dial: ConnectionError: busy", "note done: t2"]
    assert since(state)[2:] == ["dial done: t1", "stamp done: t3", "stop: stopped at limit 1"]
    assert caught[0].__notes__ == ['exception raised in tool dial(id="t1")']
    assert sorted(ran) == ["t1", "t1", "t2", "t3"]


def test_a_tool_fails_beside_others(act: Act, capsys: pytest.CaptureFixture[str]) -> None:
    first = threading.Event()

    @tool
    def weigh(parcel: str) -> str:
        """Weigh"""
        if parcel == "B":
            wait_for(first)
            raise OSError("scale offline")
        return "2 kg"

    @tool(parallel=False)
    def seal(parcel: str) -> str:
        """Seal"""
        raise AssertionError

    class Telling(Terminal):
        def on_tool_end(self, *args: Any) -> None:
            super().on_tool_end(*args)
            first.set()

    calls = [call("weigh", "c1", parcel="A"), call("weigh", "c2", parcel="B"), call("seal", "c3", parcel="A")]
    state = started()
    with pytest.raises(OSError, match="scale offline") as raised:
        act(agent(calls, tools=[weigh, seal], reporter=Telling()), "run", state)
    assert raised.value.__notes__ == ['exception raised in tool weigh(parcel="B")']
    assert since(state) == [
        "weigh done: 2 kg",
        "error of weigh: OSError: scale offline",
        "weigh aborted: (aborted: OSError)",
        "seal aborted: (aborted: OSError)",
    ]
    assert capsys.readouterr().out.splitlines() == [
        "[turn 1] thinking",
        '  tool weigh(parcel="A")',
        '  tool weigh(parcel="B")',
        "  done 4B",
        "  aborted weigh: (aborted: OSError)",
        "done: error OSError: scale offline (1 turn)",
    ]


def test_one_exception_object_of_two_tools_is_one_error(act: Act) -> None:
    error = OSError("shared")
    heard = Heard()
    state = asked(step("c1"), step("c2"))
    with pytest.raises(OSError, match="shared"):
        act(agent(tools=[Step(Failing(c1=error, c2=error))], reporter=heard), "use_tools", state)
    assert since(state) == ["error of step: OSError: shared"]
    assert sorted(heard.tool_ends) == ["c1", "c2"]
    assert len(state.pending_calls) == 2


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), KeyError()])
def test_a_run_that_a_tool_ends_can_go_on(act: Act, error: BaseException) -> None:
    errors = [error]

    def once(id: str) -> str:
        if errors:
            raise errors.pop()
        return id

    made = agent(step("c1"), step("c2"), "on", tools=[Step(once)])
    state = started()
    with pytest.raises(type(error)):
        act(made, "run", state)
    assert act(made, "run", state) == "on"
    assert f"step aborted: (aborted: {type(error).__name__})" in story(state)


# A Reporter that raises


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, SystemExit, StopIteration])
@pytest.mark.parametrize("event", ["tool_start", "tool_end"])
def test_a_reporter_that_raises_ends_the_step_and_hears_of_each_start_one_end(
    act: Act, kind: type[BaseException], event: str
) -> None:
    error = kind("reporter")
    heard = Heard(**{event: error})
    state = asked(*[step(f"c{n}") for n in range(4)])
    with pytest.raises((kind, RuntimeError)) as raised:
        act(agent(tools=[echo()], reporter=heard), "use_tools", state)
    assert error in (raised.value, raised.value.__cause__)
    assert sorted(heard.tool_starts) == sorted(heard.tool_ends)
    assert len(set(heard.tool_ends)) == len(heard.tool_ends)
    assert not any(line.startswith("error") for line in since(state))


def test_a_reporter_that_raises_at_a_start_lets_nothing_else_begin(act: Act) -> None:
    ran: list[str] = []
    heard = Heard(tool_start=RuntimeError("reporter"))
    state = asked(step("c1"), step("c2"))
    with pytest.raises(RuntimeError, match="reporter"):
        act(agent(tools=[Step(ran.append)], reporter=heard), "use_tools", state)
    assert heard.events == ["tool_start c1", "tool_end c1 aborted: (aborted: RuntimeError)"]
    assert ran == []
    assert len(state.pending_calls) == 2


def test_a_result_stays_when_the_reporter_raises_at_its_end(act: Act) -> None:
    heard = Heard(tool_end=RuntimeError("reporter"))
    state = asked(step("c1"), step("c2"))
    with pytest.raises(RuntimeError, match="reporter"):
        act(agent(tools=[echo(parallel=False)], reporter=heard), "use_tools", state)
    assert heard.events == ["tool_start c1", "tool_end c1 done: c1"]
    assert since(state) == ["step done: c1"]
    assert [pending.id for pending in state.pending_calls] == ["c2"]


def test_a_reporter_that_raises_in_a_run_ends_it(act: Act) -> None:
    error = RuntimeError("reporter")
    heard = Heard(tool_end=error)
    state = started()
    with pytest.raises(RuntimeError) as raised:
        act(agent([step("c1"), step("c2")], tools=[echo(parallel=False)], reporter=heard), "run", state)
    assert raised.value is error
    assert since(state) == ["step done: c1", "error: RuntimeError: reporter", "step aborted: (aborted: RuntimeError)"]
    assert heard.events[-1] == "run_end RuntimeError"


# Calls that something else closed


def test_a_call_that_is_closed_meanwhile_gets_no_second_result_and_its_end_is_told(act: Act) -> None:
    def closed_by_another(id: str) -> str:
        agent(tools=[Step(lambda id: "the other was faster")]).use_tools(state)
        return "too late"

    heard = Heard()
    state = asked(step("c1"))
    act(agent(tools=[Step(closed_by_another)], reporter=heard), "use_tools", state)
    assert since(state) == ["step done: the other was faster"]
    assert heard.events == ["tool_start c1", "tool_end c1 done: the other was faster"]


def test_a_call_that_is_closed_meanwhile_and_raises_records_nothing_and_raises(act: Act) -> None:
    def closed_by_another(id: str) -> str:
        agent(tools=[Step(lambda id: "the other was faster")]).use_tools(state)
        raise error

    error = OSError("too late")
    heard = Heard()
    state = asked(step("c1"))
    with pytest.raises(OSError, match="too late") as raised:
        act(agent(tools=[Step(closed_by_another)], reporter=heard), "use_tools", state)
    assert raised.value is error
    assert since(state) == ["step done: the other was faster"]
    assert heard.events == ["tool_start c1", "tool_end c1 done: the other was faster"]


def test_several_agents_may_use_tools_on_one_state_after_another(act: Act) -> None:
    state = asked(step("c1"), step("c2"))
    errors = Failing(c1=OSError("x"))
    with pytest.raises(OSError, match="x"):
        act(agent(tools=[Step(errors)]), "use_tools", state)
    act(agent(tools=[echo()]), "use_tools", state)
    assert story(state)[-1] == "step done: c1"


def test_the_tools_of_the_agent_that_uses_them_count(act: Act) -> None:
    state = asked(step("c1"))
    act(agent(), "use_tools", state)
    assert since(state) == ["step input_error: (input error: unknown tool 'step'. Available tools: (none))"]


def test_a_state_kept_in_another_store_is_refused_before_any_tool_runs(act: Act) -> None:
    ran: list[str] = []
    state = asked(step("c1"))
    Shelf().save(state)
    before = state.snapshot()
    with pytest.raises(ValueError, match="kept in"):
        act(agent(tools=[Step(ran.append)], store=Shelf()), "use_tools", state)
    assert ran == []
    assert state.snapshot() is before


def test_a_hundred_turns_of_many_calls_leave_nothing_open(act: Act) -> None:
    def turns(request: Any) -> Any:
        turn = len(fake(made).requests)
        return [step(f"t{turn}c{n}") for n in range(8)] if turn < 100 else "on"

    heard = Heard()
    made = agent(*[turns] * 100, tools=[echo()], reporter=heard)
    made = made.copy(loop=loop(until=[], limit=100)(written(act, think_and_use)))
    state = started()
    act(made, "run", state)
    assert len([e for e in state.history if isinstance(e, ToolResultEntry)]) == 99 * 8
    assert sorted(heard.tool_starts) == sorted(heard.tool_ends)
    assert State(history=state.history).snapshot() == state.snapshot()


def think_and_use(agent: Any, state: State) -> Any:
    yield agent, "think", state
    yield agent, "use_tools", state


def test_an_error_result_is_no_reason_to_stop(act: Act) -> None:
    def refuse(id: str) -> str:
        raise ToolError("not today")

    state = asked(step("c1"), step("c2"))
    act(agent(tools=[Step(refuse, parallel=False)]), "use_tools", state)
    assert since(state) == ["step error: not today"] * 2
    assert [e.outcome for e in state.history[-2:]] == [ToolOutcomeKind.ERROR] * 2  # type: ignore[union-attr]


def test_one_agent_runs_many_states_at_once() -> None:
    barrier = threading.Barrier(10, timeout=SECONDS)

    def meet(id: str) -> str:
        barrier.wait()
        return id

    class Echo(FakeModel):
        def respond(self, request: Any, on_text: Any = None, on_event: Any = None) -> Any:
            text = request.messages[0].text
            last = request.messages[-1].content[0]
            return FakeModel(["done " + last.content if isinstance(last, ToolResultBlock) else step(text)]).respond(
                request
            )

    made = Agent(Echo([]), tools=[Step(meet)], reporter=None, human=None)

    async def main() -> list[Any]:
        return await asyncio.gather(*[made.arun(f"c{n}") for n in range(10)])

    assert asyncio.run(main()) == [f"done c{n}" for n in range(10)]


def test_the_lock_of_a_state_is_free_while_a_tool_runs(act: Act) -> None:
    def look(id: str) -> str:
        found: list[str] = []
        other = threading.Thread(target=lambda: found.append(str(len(state.pending_calls))))
        adding = threading.Thread(target=state.add_message, args=(Message.user("from outside"),))
        for thread in (other, adding):
            thread.start()
        for thread in (other, adding):
            thread.join(SECONDS)
        return found[0]

    state = asked(step("c1"))
    act(agent(tools=[Step(look)]), "use_tools", state)
    assert since(state) == ["user", "step done: 1"]


class Unreadable(ToolError):
    """What even `str` cannot look at."""

    def __str__(self) -> str:
        raise SystemExit


def test_a_call_whose_exception_cannot_be_looked_at_ends_all_the_same(act: Any) -> None:
    @tool
    def odd() -> None:
        raise Unreadable("x")

    state = State(messages=[Message.user("Go")])
    runner = Agent(FakeModel([tool_call("odd")]), tools=[odd], reporter=None)
    act(runner, "think", state)
    with pytest.raises(SystemExit):
        act(runner, "use_tools", state)
    assert state.history[-1].kind == "error"


def test_an_async_tool_that_is_cancelled_before_its_first_step_ends_its_call() -> None:
    @tool
    async def never() -> str:
        return "ran"

    @tool
    async def canceller() -> str:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            if "_carry_out" in repr(task.get_coro()):
                task.cancel()
        return "cancelled it"

    state = State(messages=[Message.user("Go")])
    runner = Agent(FakeModel([[tool_call("canceller"), tool_call("never")]]), tools=[canceller, never], reporter=None)

    async def turn() -> None:
        await runner.athink(state)
        await runner.ause_tools(state)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(asyncio.wait_for(turn(), 20))
    assert [call.name for call in state.pending_calls] == ["never"]
