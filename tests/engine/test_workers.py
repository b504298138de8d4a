"""Where the calls of a turn run: threads, tasks, contexts, and how many at once."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from runs import SECONDS, Heard, agent, call, fake, is_async, since, started, story

from alpineagents import State, Tool, tool
from alpineagents.engine.threads import on_thread
from alpineagents.engine.workers import MOST_AT_ONCE

Act = Callable[..., Any]


class Step(Tool):
    """A tool that calls a function of the test with the number of its call."""

    def __init__(self, step: Callable[[int], Any], *, parallel: bool = True) -> None:
        super().__init__(name="step", parallel=parallel)
        self.step = step

    def run(self, args: dict[str, Any], state: State) -> Any:
        return self.step(args.get("number", 0))


class AsyncStep(Step):
    async def run(self, args: dict[str, Any], state: State) -> Any:  # type: ignore[override]
        value = self.step(args.get("number", 0))
        return await value if asyncio.iscoroutine(value) else value


def use(act: Act, made: Tool, count: int = 1, **settings: Any) -> State:
    """A State on which this many calls to the tool have run."""
    state = started()
    calls = [call("step", f"c{number}", number=number) for number in range(count)]
    used = agent(calls, tools=[made], **settings)
    act(used, "think", state)
    act(used, "use_tools", state)
    return state


KINDS = [Step, AsyncStep]


# Threads and tasks


def test_a_tool_runs_on_a_daemon_thread_of_its_own(act: Act) -> None:
    threads: list[threading.Thread] = []
    use(act, Step(lambda number: threads.append(threading.current_thread())))
    assert threads[0] is not threading.current_thread()
    assert threads[0].daemon


def test_an_async_tool_runs_on_the_loops_thread_in_an_async_run_and_on_a_worker_in_a_sync_one(act: Act) -> None:
    threads: list[threading.Thread] = []
    use(act, AsyncStep(lambda number: threads.append(threading.current_thread())))
    assert (threads[0] is threading.current_thread()) is is_async(act)


@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_one_reply_run_at_the_same_time(act: Act, kind: type[Step]) -> None:
    if kind is AsyncStep and is_async(act):
        met: list[int] = []

        async def meet(number: int) -> int:
            met.append(number)
            while len(met) < 5:
                await asyncio.sleep(0)
            return number

        state = use(act, AsyncStep(meet), 5)
    else:
        barrier = threading.Barrier(5, timeout=SECONDS)
        state = use(act, kind(lambda number: barrier.wait() * 0 + number), 5)
    assert sorted(since(state)) == [f"step done: {number}" for number in range(5)]


def test_a_thread_does_nothing_else_while_a_tool_runs(act: Act) -> None:
    threads: set[int] = set()
    barrier = threading.Barrier(8, timeout=SECONDS)

    def meet(number: int) -> None:
        threads.add(threading.get_ident())
        barrier.wait()

    use(act, Step(meet), 8)
    assert len(threads) == 8


def test_32_calls_run_at_once_and_the_others_wait_for_a_free_thread(act: Act) -> None:
    lock, barrier = threading.Lock(), threading.Barrier(MOST_AT_ONCE, timeout=SECONDS)
    at_work = [0, 0]

    def work(number: int) -> int:
        with lock:
            at_work[0] += 1
            at_work[1] = max(at_work)
        if number < MOST_AT_ONCE:
            barrier.wait()
        with lock:
            at_work[0] -= 1
        return number

    heard = Heard()
    state = use(act, Step(work), 100, reporter=heard)
    assert MOST_AT_ONCE == 32
    assert at_work == [0, 32]
    assert state.pending_calls == ()
    starts = [index for index, event in enumerate(heard.events) if event.startswith("tool_start")]
    assert starts == list(range(starts[0], starts[0] + 100))  # all of them before any end


def test_a_hundred_async_tools_run_at_once_on_an_event_loop() -> None:
    async def meet(number: int) -> int:
        met.append(number)
        while len(met) < 100:
            await asyncio.sleep(0)
        return number

    met: list[int] = []
    state = started()
    made = agent([call("step", f"c{number}", number=number) for number in range(100)], "on", tools=[AsyncStep(meet)])
    assert asyncio.run(made.arun(state)) == "on"


def test_the_event_loop_goes_on_while_a_tool_blocks() -> None:
    ticked = threading.Event()

    def block(number: int) -> bool:
        return ticked.wait(SECONDS)

    async def main() -> str:
        run = asyncio.create_task(agent(call("step", "c1"), "on", tools=[Step(block)]).arun("Go"))
        await asyncio.sleep(0)
        ticked.set()
        return await run

    assert asyncio.run(main()) == "on"


def test_a_sync_run_starts_no_event_loop_on_its_own_thread() -> None:
    def step(request: Any) -> str:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return "on"

    agent(step).run("Go")


def test_an_async_tool_of_a_sync_run_has_a_loop_that_ends_with_it() -> None:
    left: list[Any] = []

    async def leave_something(number: int) -> None:
        async def forever() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                left.append("cancelled")
                raise

        left.append(asyncio.get_running_loop())
        left.append(asyncio.create_task(forever()))
        await asyncio.sleep(0)

    use_sync = agent(call("step", "c1"), "on", tools=[AsyncStep(leave_something)])
    use_sync.run("Go")
    loop, task, told = left
    assert loop.is_closed()
    assert task.cancelled()
    assert told == "cancelled"


def test_idle_threads_are_used_again() -> None:
    before = threading.active_count()
    for _ in range(50):
        use(lambda target, method, *args: getattr(target, method)(*args), Step(lambda number: None))
    assert threading.active_count() <= before + 2


def test_work_that_is_handed_over_is_done() -> None:
    done = threading.Event()
    on_thread(done.set)
    assert done.wait(SECONDS)


def test_tools_run_in_a_forked_child(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import os
            from alpineagents import Agent, tool
            from alpineagents.testing import FakeModel, tool_call

            @tool
            def look() -> str:
                "Look around"
                return "a house"

            def run():
                return Agent(FakeModel([tool_call("look"), "seen"]), tools=[look], reporter=None, human=None).run("Go")

            assert run() == "seen"
            child = os.fork()
            if child == 0:
                os._exit(7 if run() == "seen" else 1)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            """
        )
    )
    made = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=SECONDS)
    assert made.stdout == "7\n"


# Contexts


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@pytest.fixture
def variable() -> Iterator[contextvars.ContextVar[str]]:
    token = VARIABLE.set("caller")
    yield VARIABLE
    VARIABLE.reset(token)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_sees_the_callers_context_and_changes_only_its_copy(
    act: Act, kind: type[Step], variable: contextvars.ContextVar[str]
) -> None:
    seen: list[str] = []

    def step(number: int) -> None:
        seen.append(variable.get())
        variable.set(f"tool {number}")

    use(act, kind(step), 3)
    assert seen == ["caller"] * 3
    assert variable.get() == "caller"


# Tools that use agents, loops and threads of their own


def test_a_tool_may_start_an_event_loop_of_its_own(act: Act) -> None:
    async def inner() -> str:
        await asyncio.sleep(0)
        return "inner"

    assert since(use(act, Step(lambda number: asyncio.run(inner())))) == ["step done: inner"]


def test_a_tool_may_start_threads_of_its_own(act: Act) -> None:
    def step(number: int) -> list[int]:
        found: list[int] = []
        threads = [threading.Thread(target=found.append, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(found)

    assert since(use(act, Step(step))) == ["step done: [0, 1, 2]"]


def test_a_sync_tool_may_run_another_agent(act: Act) -> None:
    helper, inner = agent("from the helper"), started("Help")
    state = use(act, Step(lambda number: helper.run(inner)))
    assert since(state) == ["step done: from the helper"]
    assert story(inner)[-1] == "stop: stopped by waiting_for_user"


def test_a_sync_tool_may_run_another_agents_async_half_in_a_loop_of_its_own(act: Act) -> None:
    helper = agent("from the helper")
    assert since(use(act, Step(lambda number: asyncio.run(helper.arun("Help"))))) == ["step done: from the helper"]


def test_an_async_tool_may_run_another_agents_async_half(act: Act) -> None:
    helper = agent("from the helper")
    assert since(use(act, AsyncStep(lambda number: helper.arun("Help")))) == ["step done: from the helper"]


def test_an_async_tool_may_call_a_sync_action_in_a_sync_run_only(act: Act) -> None:
    helper, state = agent("from the helper"), started()
    made = agent(call("step", "c1"), "on", tools=[AsyncStep(lambda number: helper.run("Help"))])
    if is_async(act):
        with pytest.raises(TypeError, match="arun"):
            act(made, "run", state)
        assert fake(helper).requests == []
    else:
        act(made, "run", state)
        assert "step done: from the helper" in story(state)


def test_a_tool_cannot_run_its_own_state(act: Act) -> None:
    state = started()
    made = agent(call("step", "c1"), tools=[Step(lambda number: made.run(state))])
    with pytest.raises(ValueError, match="run already"):
        act(made, "run", state)
    assert story(state).count("run_start") == 1


def test_a_tool_gets_the_very_state_of_its_call(act: Act) -> None:
    states: list[State] = []

    @tool
    def step(number: int, state: State) -> None:
        """Keep the State"""
        states.append(state)

    @tool
    async def astep(state: State) -> None:
        """Keep the State"""
        states.append(state)

    state = started()
    made = agent([call("step", "c1", number=1), call("astep", "c2")], "on", tools=[step, astep])
    act(made, "run", state)
    assert len(states) == 2
    assert all(seen is state for seen in states)
