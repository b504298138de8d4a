"""run: how it begins, what it records, and how it ends, whichever way."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import hashlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from histories import waiting
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import (
    SECONDS,
    Heard,
    Shelf,
    agent,
    call,
    fake,
    for_async,
    for_sync,
    is_async,
    is_at_rest,
    since,
    started,
    story,
    wait_for,
    written,
)

from alpineagents import (
    Agent,
    Message,
    Model,
    ModelEvent,
    RateLimitError,
    Reply,
    RunStartEntry,
    State,
    StoppedByFinish,
    Tool,
    ToolError,
    ToolInputError,
    Usage,
    adefault_loop,
    default_loop,
    loop,
    tool,
    waiting_for_user,
)
from alpineagents.state import journal_of
from alpineagents.testing import FakeModel
from alpineagents.types import AgentInfo

Act = Callable[..., Any]


@tool
def look() -> str:
    """Look around"""
    return "a house"


@tool
def find() -> str:
    """Find it"""
    return "found"


def thinking(agent: Any, state: State) -> Any:
    yield agent, "think", state


def plain(agent: Any, state: State) -> str:
    return "plain"


async def aplain(agent: Any, state: State) -> str:
    return "plain"


class Called:
    def __call__(self, agent: Any, state: State) -> str:
        return "plain"


class AsyncCalled:
    async def __call__(self, agent: Any, state: State) -> str:
        return "plain"


# The beginning


def test_a_prompt_starts_a_state_with_that_one_message(act: Act) -> None:
    def keep(agent: Any, state: State) -> Any:
        states.append(state)
        yield agent, "think", state

    states: list[State] = []
    made = agent("a", "b", loop=written(act, keep))
    act(made, "run", "Find the bug")
    act(made, "run", "Find the bug")
    assert [m.text for m in fake(made).requests[0].messages] == ["Find the bug"]
    assert states[0].id != states[1].id
    assert story(states[0]) == ["context_change", "run_start", "model_request", "model_reply"]


@pytest.mark.parametrize("prompt", ["", " ", "\n\t"])
def test_a_blank_prompt_is_a_value_error(act: Act, prompt: str) -> None:
    heard, made = Heard(), agent("a")
    with pytest.raises(ValueError, match="prompt is empty"):
        act(made.copy(reporter=heard), "run", prompt)
    assert heard.events == []
    assert fake(made).requests == []


def test_a_state_is_used_as_it_is(act: Act) -> None:
    state = started("Go")
    act(agent("a"), "run", state)
    assert state.answer == "a"


def test_an_empty_state_is_accepted_and_its_first_think_raises(act: Act) -> None:
    state = State()
    with pytest.raises(ValueError, match="no messages"):
        act(agent("a"), "run", state)
    assert story(state)[0] == "run_start"
    assert is_at_rest(state)


def test_a_finished_state_is_refused_and_the_way_on_is_shown(act: Act) -> None:
    state, heard = started(), Heard()
    state.finish("done")
    before = state.snapshot()
    with pytest.raises(ValueError, match="finished") as refused:
        act(agent("a", reporter=heard, store=Shelf()), "run", state)
    for part in ("fork", "messages", "restore"):
        assert part in str(refused.value)
    assert state.snapshot() is before
    assert heard.events == []


def test_run_start_says_what_the_agent_was(act: Act) -> None:
    state = started()
    made = agent("a", name="clerk", system="Sei kürz\udcff", tools=[look, find])
    act(made, "run", state)
    digest = hashlib.sha256("Sei kürz\udcff".encode("utf-8", "surrogatepass")).hexdigest()
    info = AgentInfo(name="clerk", model="fake/fake", system_sha256=digest, tools=("find", "look"))
    entry = state.history[1]
    assert entry == RunStartEntry(content=info, turn=0)
    assert "kürz" not in repr(entry)


def test_run_start_of_a_bare_agent(act: Act) -> None:
    class Bare(FakeModel):
        provider = ""

    state = started()
    act(Agent(Bare(["a"]), reporter=None, human=None), "run", state)
    assert state.history[1].content == AgentInfo(model="fake")


def test_run_start_clears_the_stop_of_the_run_before(act: Act) -> None:
    def look_at(agent: Any, state: State) -> Any:
        seen.append(state.stopped)
        yield agent, "think", state

    seen: list[Any] = []
    state = started()
    act(agent("a"), "run", state)
    assert state.stopped is not None
    act(agent("b", loop=written(act, look_at)), "run", state)
    assert seen == [None]
    assert [e.turn for e in state.history if e.kind == "run_start"] == [0, 1]


# The kind of the loop


async_loops: list[Any] = [
    aplain,
    functools.partial(aplain),
    AsyncCalled(),
    AsyncCalled().__call__,
    adefault_loop,
    loop(until=waiting_for_user, limit=1)(aplain),
]
sync_loops: list[Any] = [
    plain,
    functools.partial(plain),
    Called(),
    Called().__call__,
    default_loop.copy(),
    loop(until=waiting_for_user, limit=1)(plain),
]


@pytest.mark.parametrize("made_async", async_loops)
def test_a_sync_run_refuses_an_async_loop(made_async: Any) -> None:
    state = started()
    before = state.snapshot()
    with pytest.raises(TypeError, match="arun"):
        agent("a", loop=made_async).run(state)
    assert state.snapshot() is before


@pytest.mark.parametrize("made_sync", sync_loops)
def test_an_async_run_refuses_a_sync_loop(made_sync: Any) -> None:
    state = started()
    before = state.snapshot()
    with pytest.raises(TypeError, match="async def") as refused:
        asyncio.run(agent("a", loop=made_sync).arun(state))
    assert "adefault_loop" in str(refused.value)
    assert state.snapshot() is before


@pytest.mark.parametrize("made_async", async_loops[:4])
def test_every_kind_of_async_loop_runs(made_async: Any) -> None:
    assert asyncio.run(agent(loop=made_async).arun("Go")) == "plain"


@pytest.mark.parametrize("made_sync", sync_loops[:4])
def test_every_kind_of_sync_loop_runs(made_sync: Any) -> None:
    assert agent(loop=made_sync).run("Go") == "plain"


def test_the_default_loop_itself_runs_as_its_twin_in_an_async_run() -> None:
    assert asyncio.run(agent("a", loop=default_loop).arun("Go")) == "a"


def test_what_a_loop_returns_comes_back_untouched(act: Act) -> None:
    def returning(agent: Any, state: State) -> Any:
        return value
        yield

    value = object()
    assert act(agent(loop=written(act, returning)), "run", "Go") is value


# The order of events


def test_events_and_entries_of_a_run(act: Act) -> None:
    heard, state = Heard(), started()
    made = agent(["Looking.", call("look", "c1")], "seen", tools=[look], reporter=heard)
    assert act(made, "run", state) == "seen"
    assert heard.events == [
        "run_start",
        "think_start",
        "text Looking.",
        "think_end",
        "tool_start c1",
        "tool_end c1 done: a house",
        "think_start",
        "text seen",
        "think_end",
        "run_end",
    ]
    assert all(seen is state for seen in heard.states)
    assert heard.threads == {threading.current_thread()}
    assert heard.errors == [None, None]
    assert story(state) == [
        "context_change",
        "run_start",
        "model_request",
        "model_reply",
        "look done: a house",
        "model_request",
        "model_reply",
        "stop: stopped by waiting_for_user",
    ]


def test_the_run_is_marked_and_recorded_when_the_reporter_hears_of_its_start_and_end(act: Act) -> None:
    class Looking(Heard):
        def on_run_start(self, state: State) -> None:
            seen.append((story(state)[-1], journal_of(state).running))

        def on_run_end(self, state: State, error: BaseException | None) -> None:
            seen.append((story(state)[-1], journal_of(state).running))

    seen: list[Any] = []
    act(agent("a", reporter=Looking()), "run", "Go")
    assert seen == [("run_start", True), ("stop: stopped by waiting_for_user", True)]


# One run at a time


def refusals(act: Act, state: State, other: Agent) -> list[str]:
    """What the other Agent hears when it tries to run the State, in both halves."""
    texts = []
    for attempt in (lambda: other.run(state), lambda: asyncio.run(other.arun(state))):
        found: list[BaseException] = []

        def tries(attempt: Callable[[], Any] = attempt, found: list[BaseException] = found) -> None:
            try:
                attempt()
            except ValueError as error:
                found.append(error)

        thread = threading.Thread(target=tries)
        thread.start()
        thread.join(SECONDS)
        texts.append(str(found[0]))
    return texts


def test_a_state_that_is_being_run_is_refused_to_every_other_run(act: Act) -> None:
    def meanwhile(request: Any) -> str:
        before = state.snapshot()
        for text in refusals(act, state, agent("x", reporter=heard)):
            assert "being run" in text
            assert "fork" not in text
        assert state.snapshot() is before
        return "a"

    heard, state = Heard(), started()
    assert act(agent(meanwhile), "run", state) == "a"
    assert heard.events == []
    assert story(state).count("run_start") == 1


@pytest.mark.parametrize("error", [OSError("x"), KeyboardInterrupt(), SystemExit(3)])
def test_the_mark_is_removed_when_a_run_fails(act: Act, error: BaseException) -> None:
    made, state = agent(error, "a"), started()
    with pytest.raises(type(error)):
        act(made, "run", state)
    assert act(made, "run", state) == "a"


def test_the_mark_is_removed_when_the_first_save_fails(act: Act) -> None:
    def full(attempt: int, kinds: list[str]) -> None:
        store.failing = None
        raise OSError("full")

    store, heard, state = Shelf(full), Heard(), started()
    made = agent("a", store=store, reporter=heard)
    with pytest.raises(OSError, match="full"):
        act(made, "run", state)
    assert story(state) == ["context_change", "run_start"]
    assert heard.events == []
    assert fake(made).requests == []
    assert act(made, "run", state) == "a"
    assert story(state)[:3] == ["context_change", "run_start", "run_start"]


def test_a_run_may_start_from_the_same_state_again_and_again(act: Act) -> None:
    state = started()
    made = agent("a", "b")
    act(made, "run", state)
    state.add_message(Message.user("And now?"))
    act(made, "run", state)
    act(made, "run", state)
    assert story(state) == [
        "context_change",
        *["run_start", "model_request", "model_reply", "stop: stopped by waiting_for_user"],
        "user",
        *["run_start", "model_request", "model_reply", "stop: stopped by waiting_for_user"],
        *["run_start", "stop: stopped by waiting_for_user"],
    ]


def test_a_run_that_stopped_at_its_limit_gets_it_again(act: Act) -> None:
    made = agent("a", "b", "c", "d", loop=loop(until=[], limit=2)(written(act, thinking)))
    state = started()
    act(made, "run", state)
    act(made, "run", state)
    assert state.turn == 4


def test_a_run_does_not_run_calls_that_were_pending(act: Act) -> None:
    state = started()
    made = agent(call("look", "c1"), "on", tools=[look])
    act(made, "think", state)
    with pytest.raises(ValueError, match="no result yet"):
        act(made, "run", state)
    assert since(state)[-1] == "look aborted: (aborted: ValueError)"
    assert act(made, "run", state) == "on"


# The end


def test_the_life_of_a_failing_run(act: Act) -> None:
    def half(agent: Any, state: State) -> Any:
        yield agent, "think", state
        state.finish("half")
        raise error

    error = KeyError("x")
    heard, store, state = Heard(), Shelf(), started()
    made = agent(call("look", "c1"), tools=[look], loop=written(act, half), reporter=heard, store=store)
    with pytest.raises(KeyError) as raised:
        act(made, "run", state)
    assert raised.value is error
    assert story(state) == [
        "context_change",
        "run_start",
        "model_request",
        "model_reply",
        "stop: stopped by finish",
        "error: KeyError: 'x'",
        "look aborted: (aborted: KeyError)",
        "stop: None",
    ]
    assert (state.finished, state.answer, state.stopped) == (True, "half", None)
    assert heard.events[-1] == "run_end KeyError"
    assert heard.errors[-1] is error
    assert store.kinds[-1] == ["stop", "error", "tool_result", "stop"]
    with pytest.raises(ValueError, match="finished"):
        act(made, "run", state)


def test_everything_is_recorded_and_saved_when_the_reporter_hears_of_the_end(act: Act) -> None:
    class Looking(Heard):
        def on_run_end(self, state: State, error: BaseException | None) -> None:
            seen.append((state.pending_calls, state.stopped, len(store.shelf[state.id][0]) == len(state.history)))

    def fail(agent: Any, state: State) -> Any:
        yield agent, "think", state
        raise OSError("x")

    seen: list[Any] = []
    store = Shelf()
    with pytest.raises(OSError, match="x"):
        act(agent(call("look", "c1"), loop=written(act, fail), reporter=Looking(), store=store), "run", "Go")
    act(agent("a", reporter=Looking(), store=store, loop=written(act, thinking)), "run", "Go")
    assert seen == [((), None, True), ((), None, True)]


def test_a_condition_that_raises_ends_the_run(act: Act) -> None:
    def broken(state: State) -> bool:
        raise ZeroDivisionError

    heard, state = Heard(), started()
    made = agent("a", loop=loop(until=broken, limit=3)(written(act, thinking)), reporter=heard)
    with pytest.raises(ZeroDivisionError):
        act(made, "run", state)
    assert story(state)[1:] == ["run_start", "error: ZeroDivisionError"]
    assert heard.events == ["run_start", "run_end ZeroDivisionError"]


def test_what_think_recorded_the_run_does_not_record_again(act: Act) -> None:
    state = started()
    with pytest.raises(RateLimitError):
        act(agent(RateLimitError("slow down")), "run", state)
    assert story(state)[1:] == ["run_start", "model_request", "error: RateLimitError: slow down"]


def test_an_equal_exception_that_is_another_object_is_recorded(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        try:
            yield agent, "think", state
        except RateLimitError:
            raise RateLimitError("slow down") from None

    state = started()
    with pytest.raises(RateLimitError):
        act(agent(RateLimitError("slow down"), loop=written(act, body)), "run", state)
    assert story(state)[3:] == ["error: RateLimitError: slow down"] * 2


def test_an_exception_the_loop_caught_is_recorded_once_and_the_run_goes_on(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        try:
            yield agent, "think", state
        except RateLimitError:
            yield agent, "think", state

    state = started()
    act(agent(RateLimitError("slow down"), "a", loop=written(act, body)), "run", state)
    assert story(state)[2:] == ["model_request", "error: RateLimitError: slow down", "model_request", "model_reply"]


def test_the_same_exception_in_two_runs_is_recorded_in_each(act: Act) -> None:
    def fail(agent: Any, state: State) -> Any:
        raise error
        yield

    error = OSError("x")
    made, state = agent(loop=written(act, fail)), started()
    for _ in range(2):
        with pytest.raises(OSError, match="x"):
            act(made, "run", state)
    assert story(state)[1:] == ["run_start", "error: OSError: x"] * 2


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    """Refuses every attribute, notes and a traceback set by Python code included."""

    code: int


class Weird(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    "error", [Frozen(3), Weird(), StopAsyncIteration(), GeneratorExit(), BaseExceptionGroup("g", [KeyboardInterrupt()])]
)
def test_unusual_exceptions_of_a_loop_come_out_as_they_are(act: Act, error: BaseException) -> None:
    def fail(agent: Any, state: State) -> Any:
        raise error

    async def afail(agent: Any, state: State) -> Any:
        raise error

    heard, state = Heard(), started()
    made = agent(loop=afail if is_async(act) else fail, reporter=heard)
    with pytest.raises(type(error)) as raised:
        act(made, "run", state)
    assert raised.value is error
    assert heard.errors == [error]
    assert len(state.history) == 3


def test_a_stop_iteration_of_a_loop_is_recorded_as_what_it_is(act: Act) -> None:
    def fail(agent: Any, state: State) -> Any:
        raise error

    async def afail(agent: Any, state: State) -> Any:
        raise error

    error = StopIteration("x")
    state = started()
    with pytest.raises((StopIteration, RuntimeError)) as raised:
        act(agent(loop=afail if is_async(act) else fail), "run", state)
    assert error in (raised.value, raised.value.__cause__)
    assert story(state)[1:] == ["run_start", "error: StopIteration: x"]


def test_a_run_start_hook_that_raises_fails_the_run(act: Act) -> None:
    error = OSError("reporter")
    heard, state = Heard(run_start=error), started()
    made = agent("a", reporter=heard)
    with pytest.raises(OSError, match="reporter") as raised:
        act(made, "run", state)
    assert raised.value is error
    assert heard.events == ["run_start", "run_end OSError"]
    assert story(state)[1:] == ["run_start", "error: OSError: reporter"]
    assert fake(made).requests == []
    assert is_at_rest(state)


@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt, SystemExit])
def test_what_a_run_end_hook_raises_is_what_the_run_raises_and_nothing_more_is_recorded(
    act: Act, kind: type[BaseException]
) -> None:
    error = kind("reporter")
    state = started()
    with pytest.raises(kind) as raised:
        act(agent("a", reporter=Heard(run_end=error)), "run", state)
    assert raised.value is error
    assert story(state)[-1] == "stop: stopped by waiting_for_user"
    assert is_at_rest(state)
    act(agent("b"), "run", state)


def test_what_a_run_end_hook_raises_stands_in_for_an_earlier_exception(act: Act) -> None:
    error, earlier = OSError("reporter"), KeyError("x")
    state = started()
    with pytest.raises(OSError, match="reporter") as raised:
        act(agent(earlier, reporter=Heard(run_end=error)), "run", state)
    assert raised.value.__context__ is earlier
    assert story(state)[-1] == "error: KeyError: 'x'"
    assert is_at_rest(state)


def test_without_a_reporter_answers_exceptions_and_history_are_the_same(act: Act) -> None:
    def history(reporter: Heard | None) -> list[Any]:
        state = started()
        with pytest.raises(OSError, match="x"):
            act(agent(call("look", "c1"), OSError("x"), tools=[look], reporter=reporter), "run", state)
        return [*state.history]

    assert history(None) == history(Heard())


def test_the_provider_is_down_and_the_disk_is_full(act: Act) -> None:
    def full(attempt: int, kinds: list[str]) -> None:
        if "error" in kinds:
            raise OSError(f"no space {attempt}")

    error = RateLimitError("slow down")
    store, state = Shelf(full), started()
    with pytest.raises(RateLimitError) as raised:
        act(agent(error, store=store), "run", state)
    assert raised.value is error
    assert error.__notes__ == ["saving the state also failed: OSError: no space 2"]
    assert story(state)[1:] == ["run_start", "model_request", "error: RateLimitError: slow down"]
    store.failing = None
    store.save(state)
    assert store.load(state.id).history == state.history


def test_a_save_that_fails_with_the_same_text_makes_no_note(act: Act) -> None:
    def full(attempt: int, kinds: list[str]) -> None:
        if attempt:
            raise OSError("no space")

    state = started()
    with pytest.raises(OSError, match="no space") as raised:
        act(agent("a", store=Shelf(full)), "run", state)
    assert not hasattr(raised.value, "__notes__")


def test_a_waiting_request_of_somebody_else_is_taken_back_when_the_run_fails(act: Act) -> None:
    state = waiting()
    with pytest.raises(ValueError, match="waiting"):
        act(agent("a"), "run", state)
    assert is_at_rest(state)
    assert act(agent("a"), "run", state) == "a"


# Sync and async are one


class Step(Tool):
    def __init__(self, name: str, step: Callable[[], Any], *, parallel: bool = False) -> None:
        super().__init__(name=name, parallel=parallel)
        self.step = step

    def run(self, args: dict[str, Any], state: State) -> Any:
        return self.step()


class AsyncStep(Step):
    async def run(self, args: dict[str, Any], state: State) -> Any:  # type: ignore[override]
        await asyncio.sleep(0)
        return self.step()


def raises(error: BaseException) -> Callable[[], Any]:
    def step() -> Any:
        raise error

    return step


class Eventful(Model):
    """Reports an event before each reply."""

    name, provider, context_window = "eventful", "fake", 100_000

    def __init__(self, replies: list[Any]) -> None:
        self.inner = FakeModel(replies)

    def respond(self, request: Any, on_text: Any = None, on_event: Any = None) -> Reply:
        on_event(ModelEvent("attempt", f"request {len(self.inner.requests)}"))
        return self.inner.respond(request, on_text, on_event)


def tools() -> list[Tool]:
    """Serial ones, so that two runs record in the same order."""
    return [
        Step("ok", lambda: {"fine": True}),
        AsyncStep("soon", lambda: "soon"),
        Step("refuse", raises(ToolError("not today"))),
        AsyncStep("wrong", raises(ToolInputError("bad number"))),
        Step("fail", raises(OSError("scale offline"))),
        AsyncStep("afail", raises(KeyError("x"))),
        Step("exit", raises(SystemExit(3))),
        Step("stop", raises(StopIteration("empty"))),
        Step("interrupt", raises(KeyboardInterrupt())),
        Step("alone", lambda: "alone", parallel=True),
    ]


NAMES = ["ok", "soon", "refuse", "wrong", "alone", "ghost", "fail", "afail", "exit", "stop", "interrupt"]


@st.composite
def conversations(draw: st.DrawFn) -> list[Any]:
    """Replies of a model: texts, calls, empty and cut-off replies, failures."""
    ids = (f"c{number}" for number in range(100))
    calls = st.builds(lambda name: call(name, next(ids)), st.sampled_from(NAMES))
    some_calls = st.lists(calls, min_size=1, max_size=4).filter(lambda c: [x.name for x in c].count("alone") <= 1)
    reply = st.one_of(
        some_calls,
        some_calls,
        st.sampled_from(["text", "", ("a", "b")]),
        st.just(Reply(Message("assistant", ()), Usage(1, 1, requests=1), stop_reason="max_tokens")),
        st.sampled_from([RateLimitError("slow down"), OSError("x"), StopIteration("y"), "no reply"]),
    )
    return draw(st.lists(reply, min_size=1, max_size=5))


def one_run(replies: list[Any], *, asynchronous: bool, catches: bool) -> tuple[Any, ...]:
    """All that a run in one half leaves: history, events, writes and how it ended."""

    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        try:
            yield agent, "use_tools", state
        except (OSError, KeyError):
            if not catches:
                raise
            yield agent, "use_tools", state

    heard, store, state = Heard(), Shelf(), started()
    repeated = loop(until=waiting_for_user, limit=4)((for_async if asynchronous else for_sync)(body))
    made = Agent(Eventful(replies), tools=tools(), reporter=heard, human=None, store=store, loop=repeated)
    ending: tuple[str, str] | None = None
    try:
        asyncio.run(made.arun(state)) if asynchronous else made.run(state)
    except BaseException as error:
        raised = error.__cause__ if isinstance(error.__cause__, StopIteration) else error
        ending = (type(raised).__name__, str(raised))
    assert is_at_rest(state)
    assert store.load(state.id).history == state.history
    return list(state.history), story(state), heard.events[:-1], store.writes, ending


@settings(max_examples=60)
@given(conversations(), st.booleans())
def test_sync_and_async_runs_record_tell_save_and_raise_the_same(replies: list[Any], catches: bool) -> None:
    assert one_run(replies, asynchronous=False, catches=catches) == one_run(replies, asynchronous=True, catches=catches)


def test_a_loop_may_run_other_agents_on_other_states(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        answer = yield helper, "run", "Help"
        yield agent, "think", state
        return answer

    helper = agent("help")
    assert act(agent("a", loop=written(act, body)), "run", "Go") == "help"


def test_finish_is_the_answer_whatever_the_last_reply_says(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        state.finish({"score": 3})

    state = started()
    made = agent("text", loop=loop(until=[], limit=3)(written(act, body)))
    assert act(made, "run", state) == {"score": 3}
    assert state.stopped == StoppedByFinish({"score": 3})


def test_an_agent_runs_in_many_threads_at_once() -> None:
    made = agent(*[call("look", f"c{n}") for n in range(16)], *["done"] * 16, tools=[look])
    answers: list[Any] = []
    begin = threading.Barrier(16, timeout=SECONDS)

    def work() -> None:
        state = started()
        begin.wait()
        answers.append(made.copy(loop=two_turns).run(state))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert len(answers) == 16


@loop(until=[], limit=2)
def two_turns(agent: Any, state: State) -> None:
    agent.think(state)
    agent.use_tools(state)


def test_a_run_can_be_watched_from_another_thread(act: Act) -> None:
    seen = threading.Event()

    def wait_to_be_seen(request: Any) -> str:
        wait_for(seen)
        return "a"

    def watch() -> None:
        while state.turn == 0:
            pass
        seen.set()

    state = started()
    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    assert act(agent(wait_to_be_seen), "run", state) == "a"
