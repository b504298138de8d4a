"""How a subagent ends, and what the one that asked for it reads of that."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from runs import (
    AsyncStep,
    Heard,
    Shelf,
    Step,
    agent,
    call,
    fake,
    interrupt,
    is_at_rest,
    next_late,
    started,
    story,
    wait_for,
    written,
)
from subagents.family import Act, ask, below, children, parent, ran, results, runs

from alpineagents import Image, Message, State, ToolError, loop, tool, waiting_for_user
from alpineagents.errors import NoHumanError
from alpineagents.permissions import AllowPermission, DecideByHuman, DecidePermission, Denied
from alpineagents.types import (
    ErrorEntry,
    StoppedByFinish,
    StoppedByLimit,
    StoppedByPermission,
    TextBlock,
)

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000000000200"
    "0154a24f5d0000000049454e44ae426082"
)


@tool
def measure(plot: int) -> str:
    """Measure a plot."""
    return f"{plot} m"


def outcome(state: State) -> tuple[str, Any]:
    """How the call to the subagent ended."""
    (result,) = [entry for entry in results(state) if not entry.late]
    return str(result.outcome), result.content


def returning(act: Act, value: Any) -> Callable[..., Any]:
    """A loop that returns a value behind one reply."""

    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        return value

    return written(act, body)


# It comes to its end


def test_an_answer_is_the_result(act: Act) -> None:
    state = ran(act, parent(below("40 m"), calls=ask()))
    assert outcome(state) == ("done", "40 m")
    assert story(state)[-3:] == ["model_request", "model_reply", "stop: stopped by waiting_for_user"]


@pytest.mark.parametrize(
    ("value", "content"),
    [(None, "(done)"), ("", ""), (7, "7"), ({"m": 40}, '{"m": 40}'), (["n", "s"], '["n", "s"]')],
)
def test_what_a_loop_of_its_own_returns_is_the_result(act: Act, value: Any, content: str) -> None:
    state = ran(act, parent(below("ok", loop=returning(act, value)), calls=ask()))
    assert outcome(state) == ("done", content)


def test_finish_in_a_subagent_ends_only_the_subagent(act: Act) -> None:
    @tool
    def submit(length: str, state: State) -> str:
        """Submit."""
        state.finish(length)
        return "ok"

    surveyor = below(call("submit", "s1", length="40 m"), tools=[submit])
    state = ran(act, parent(surveyor, calls=ask()))
    (child,) = children(state)
    assert isinstance(child.stopped, StoppedByFinish)
    assert outcome(state) == ("done", "40 m")
    assert not isinstance(state.stopped, StoppedByFinish)


# It reaches its limit


@pytest.mark.parametrize(("turns", "note"), [(1, "1 turn"), (2, "2 turns")])
def test_a_limit_is_noted_behind_the_answer(act: Act, turns: int, note: str) -> None:
    replies = [["so far", call("measure", f"m{turn}", plot=turn)] for turn in range(turns)]
    surveyor = below(*replies, tools=[measure], loop=limited(act, turns))
    state = ran(act, parent(surveyor, calls=ask()))
    (child,) = children(state)
    assert outcome(state) == ("done", f"(surveyor stopped after {note} before finishing)")
    assert isinstance(child.stopped, StoppedByLimit)


def limited(act: Act, turns: int, value: Any = None) -> Any:
    """A loop with a limit, that returns a value when it is reached."""

    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        yield agent, "use_tools", state

    stopping = loop(until=waiting_for_user, limit=turns)(written(act, body))
    if value is None:
        return stopping

    def around(agent: Any, state: State) -> Any:
        stopping(agent, state)
        return value

    async def aaround(agent: Any, state: State) -> Any:
        await stopping(agent, state)
        return value

    return aaround if asyncio.iscoroutinefunction(written(act, body)) else around


@pytest.mark.parametrize(
    ("value", "content"),
    [("40 m so far", "40 m so far\n"), (7, "7\n"), (["n"], '["n"]\n')],
)
def test_the_note_follows_what_the_loop_returned(act: Act, value: Any, content: str) -> None:
    surveyor = below(call("measure", "m1", plot=1), tools=[measure], loop=limited(act, 1, value))
    state = ran(act, parent(surveyor, calls=ask()))
    assert outcome(state) == ("done", f"{content}(surveyor stopped after 1 turn before finishing)")


def test_behind_images_the_note_is_one_more_text(act: Act) -> None:
    value = ["a map", Image(PIXEL, "image/png")]
    surveyor = below(call("measure", "m1", plot=1), tools=[measure], loop=limited(act, 1, value))
    kind, content = outcome(ran(act, parent(surveyor, calls=ask())))
    text, image, note = content
    assert kind == "done"
    assert (text, note) == (TextBlock("a map"), TextBlock("(surveyor stopped after 1 turn before finishing)"))
    assert isinstance(image, Image)


# A permission stops it


class NotNow(DecidePermission):
    def check(self, state: State, call: Any, tool: Any) -> Any:
        return Denied("not now", stop=True)


def test_a_stop_by_a_permission_is_told_with_its_reason(act: Act) -> None:
    asked = [call("measure", "m1", plot=1), call("measure", "m2", plot=2)]
    surveyor = below(asked, tools=[measure], permissions=[NotNow()])
    state = ran(act, parent(surveyor, calls=ask()))
    (child,) = children(state)
    assert [(entry.outcome, entry.content) for entry in results(child)] == [
        ("denied", "not now"),
        ("cancelled", "(not run: the user stopped this turn)"),
    ]
    assert isinstance(child.stopped, StoppedByPermission)
    assert outcome(state) == ("done", "(surveyor was stopped by the user: not now)")
    assert state.answer == "Fine"


def test_a_value_beside_a_stop_by_a_permission_is_ignored(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        yield agent, "use_tools", state
        return "something else"

    surveyor = below(call("measure", "m1", plot=1), tools=[measure], permissions=[NotNow()], loop=written(act, body))
    assert outcome(ran(act, parent(surveyor, calls=ask()))) == ("done", "(surveyor was stopped by the user: not now)")


# An exception leaves it


class Boom(RuntimeError):
    pass


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Boom("no fuel"), "(surveyor failed: Boom: no fuel)"),
        (Boom(), "(surveyor failed: Boom)"),
        (ToolError("ask me later"), "(surveyor failed: ToolError: ask me later)"),
    ],
)
def test_a_failure_is_the_calls_and_the_parent_goes_on(act: Act, error: Exception, text: str) -> None:
    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        raise error

    heard = Heard()
    surveyor = below(call("measure", "m1", plot=1), tools=[measure], loop=written(act, body), reporter=None)
    state = ran(act, parent(surveyor, calls=ask(), reporter=heard))
    (child,) = children(state)
    (result,) = results(state)
    assert outcome(state) == ("error", text)
    assert isinstance(result.error, ToolError)
    assert result.error.__cause__ is error
    assert [entry for entry in state.history if isinstance(entry, ErrorEntry)] == []
    assert (state.answer, is_at_rest(child)) == ("Fine", True)
    assert [entry.outcome for entry in results(child)] == ["aborted"]
    assert [type(entry).__name__ for entry in child.history][-2:] == ["ErrorEntry", "ToolResultEntry"]


def test_a_reporter_that_raises_at_the_start_is_a_failure_of_the_subagent(act: Act) -> None:
    surveyor = below("40 m", reporter=Heard(run_start=Boom("deaf")))
    state = ran(act, parent(surveyor, calls=ask()))
    assert outcome(state) == ("error", "(surveyor failed: Boom: deaf)")
    assert len(children(state)) == 1


def test_a_store_that_fails_at_its_first_save_is_a_failure_of_the_subagent(act: Act) -> None:
    def failing(number: int, kinds: list[str]) -> None:
        raise OSError("disk full")

    state = ran(act, parent(below("40 m", store=Shelf(failing)), calls=ask()))
    assert outcome(state) == ("error", "(surveyor failed: OSError: disk full)")
    assert len(children(state)) == 1


# Something is wrong with the set-up


class Later(AllowPermission):
    async def acheck(self, state: State, call: Any, tool: Any) -> Any:
        return None


def test_nobody_to_ask_stops_the_run_above_before_the_subagent_starts(act: Act) -> None:
    surveyor = below("40 m", human=None, permissions=[DecideByHuman()])
    state = started()
    with pytest.raises(NoHumanError) as raised:
        act(parent(surveyor, calls=ask()), "run", state)
    (result,) = results(state)
    assert (result.outcome, result.child_ids, result.usage) == ("aborted", (), None)
    assert any("surveyor" in note for note in raised.value.__notes__)


def test_a_permission_that_is_only_async_under_a_sync_run() -> None:
    state = started()
    with pytest.raises(TypeError, match="arun"):
        parent(below("40 m", permissions=[Later()]), calls=ask()).run(state)
    (result,) = results(state)
    assert (result.outcome, result.child_ids) == ("aborted", ())


def test_the_same_exception_that_a_tool_of_ones_own_raises(act: Act) -> None:
    kinds = []
    for made in (
        parent(below(human=None, permissions=[DecideByHuman()]), calls=ask()),
        parent(runs(act, below(human=None, permissions=[DecideByHuman()]), "Plot 7")),
    ):
        with pytest.raises(NoHumanError) as raised:
            ran(act, made)
        kinds.append((type(raised.value), str(raised.value)))
    assert kinds[0] == kinds[1]


# Through a tool of one's own nothing is converted


def test_a_tool_of_ones_own_gives_the_value_without_a_note(act: Act) -> None:
    surveyor = below(call("measure", "m1", plot=1), tools=[measure], loop=limited(act, 1))
    state = ran(act, parent(runs(act, surveyor, "Plot 7")))
    assert outcome(state) == ("done", "(done)")
    assert isinstance(children(state)[0].stopped, StoppedByLimit)


def test_an_exception_that_leaves_a_run_in_a_tool_of_ones_own_stops_the_run_above(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        raise Boom("no fuel")

    state = started()
    with pytest.raises(Boom):
        act(parent(runs(act, below("x", loop=written(act, body)), "Plot 7")), "run", state)
    (result,) = results(state)
    assert (result.outcome, result.child_ids) == ("aborted", (children(state)[0].id,))


# Interrupts


def test_cancelling_the_run_above_cancels_the_subagent() -> None:
    begun = threading.Event()

    async def wait(id: str) -> str:
        begun.set()
        await asyncio.sleep(60)
        return id

    surveyor = below(call("step", "s1", id="s1"), "40 m", tools=[AsyncStep(wait)])
    made, state = parent(surveyor, calls=ask()), started()

    async def main() -> State:
        task = asyncio.create_task(made.arun(state))
        await asyncio.to_thread(wait_for, begun)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (child,) = children(state)
        while not is_at_rest(child):
            await asyncio.sleep(0.001)
        return child

    child = asyncio.run(main())
    assert outcome(state) == ("interrupted", "(interrupted by user)")
    assert outcome(child) == ("interrupted", "(interrupted by user)")
    assert is_at_rest(state)


def test_ctrl_c_ends_a_sync_run_and_the_subagent_goes_on_to_its_end() -> None:
    begun, go = threading.Event(), threading.Event()

    def wait(id: str) -> str:
        begun.set()
        wait_for(go)
        return id

    surveyor = below(call("step", "s1", id="s1"), "40 m", tools=[Step(wait)])
    made, state = parent(surveyor, Pressing(begun), calls=[ask(), call("press", "p1")]), started()
    with pytest.raises(KeyboardInterrupt):
        made.run(state)
    late = next_late(state)
    interrupted = next(entry for entry in results(state) if entry.call.id == "t1")
    assert (interrupted.outcome, interrupted.usage) == ("interrupted", children(state)[0].usage)
    go.set()
    wait_for(late)
    added = next(entry for entry in results(state) if entry.late and entry.call.id == "t1")
    assert (added.outcome, added.content, added.child_ids) == ("done", "40 m", interrupted.child_ids)
    assert interrupted.usage is not None
    assert added.usage is not None
    assert interrupted.usage + added.usage == children(state)[0].usage
    state.add_message(Message.user("Go on"))
    again = agent("Fine")
    again.run(state)
    notice = '[notice] interrupted surveyor(prompt="Plot 7") finished later: 40 m'
    assert notice in [message.text for message in fake(again).requests[-1].messages]


class Pressing(Step):
    """Presses Ctrl+C once something has begun."""

    def __init__(self, begun: threading.Event) -> None:
        super().__init__(lambda id: None, "press")
        self.begun = begun

    def run(self, args: dict[str, Any], state: State) -> Any:
        wait_for(self.begun)
        interrupt()
        return "pressed"


@pytest.mark.parametrize(
    ("error", "kind"), [(KeyboardInterrupt(), "interrupted"), (SystemExit(3), "aborted"), (GeneratorExit(), "aborted")]
)
def test_what_is_no_exception_ends_both_runs(act: Act, error: BaseException, kind: str) -> None:
    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        raise error

    state = started()
    surveyor = below(call("measure", "m1", plot=1), tools=[measure], loop=written(act, body))
    with pytest.raises(type(error)):
        act(parent(surveyor, calls=ask()), "run", state)
    (child,) = children(state)
    assert (results(state)[0].outcome, results(child)[0].outcome) == (kind, kind)
    assert is_at_rest(state)
    assert is_at_rest(child)
    act(agent("Fine"), "run", state)
    act(agent("Fine"), "run", child)
