"""think: what is sent, what is recorded, and what a failure leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from histories import texts, waiting
from runs import Heard, Shelf, agent, call, fake, is_async, started, story

from alpineagents import (
    Agent,
    CutOffError,
    Message,
    Model,
    ModelEvent,
    ProviderError,
    RateLimitError,
    Reply,
    Request,
    State,
    Tool,
    Usage,
    tool,
)
from alpineagents.testing import FakeModel
from alpineagents.types import RawBlock, TextBlock

Act = Callable[..., Any]


@tool
def weigh(parcel: str = "A") -> str:
    """Weigh a parcel"""
    return "2 kg"


@tool(parallel=False)
def seal() -> str:
    """Seal it"""
    return "sealed"


class Depot:
    @tool
    def count(self) -> int:
        """Count parcels"""
        return 3


class Crane(Tool):
    def __init__(self) -> None:
        super().__init__(name="crane")

    def run(self, args: dict[str, Any], state: State) -> str:
        return "lifted"


class Scripted(Model):
    """Does what the test says in `respond`."""

    name, provider, context_window = "scripted", "acme", 100_000

    def __init__(self, script: Callable[[Request, Any, Any], Any]) -> None:
        self.script = script

    def respond(self, request: Request, on_text: Any = None, on_event: Any = None) -> Any:
        return self.script(request, on_text, on_event)


def scripted(script: Callable[[Request, Any, Any], Any], **settings: Any) -> Agent:
    return Agent(Scripted(script), **{"reporter": None, "human": None, **settings})


REPLY = Reply(Message.assistant("ok"), Usage(10, 2, requests=1), context_tokens=12)
CUT_OFF = Reply(Message("assistant", ()), Usage(10, 64, requests=1), stop_reason="max_tokens")


# What is sent and recorded


def test_request_and_reply_are_recorded_in_that_order(act: Act) -> None:
    state = started()
    assert act(agent("Hello"), "think", state) is None
    assert story(state) == ["context_change", "model_request", "model_reply"]
    request, reply = state.history[1:]
    assert (request.turn, request.content) == (1, "fake/fake")
    assert reply.turn == 1
    assert texts(state) == ["Go", "Hello"]


def test_the_request_has_the_system_prompt_the_messages_and_the_tools(act: Act) -> None:
    made = agent("Hello", system="Be brief", tools=[weigh, seal])
    act(made, "think", started())
    assert fake(made).requests == [Request("Be brief", (Message.user("Go"),), (weigh.spec, seal.spec), "auto")]


def test_a_model_without_a_provider_is_recorded_by_its_name(act: Act) -> None:
    made = scripted(lambda request, on_text, on_event: REPLY)
    made.model.provider = ""
    state = started()
    act(made, "think", state)
    assert state.history[1].content == "scripted"


def test_while_the_model_works_the_turn_counts_already_and_the_request_is_recorded(act: Act) -> None:
    def look(request: Request) -> str:
        seen.append((state.turn, story(state)[-1]))
        return "ok"

    seen: list[Any] = []
    state = started()
    act(agent(look), "think", state)
    assert seen == [(1, "model_request")]


def test_the_usage_of_a_reply_is_added(act: Act) -> None:
    state = started()
    act(agent(REPLY), "think", state)
    assert state.usage == Usage(10, 2, requests=1)
    assert state.messages[-1].tokens == 12


def test_calls_of_a_reply_become_pending_and_its_text_no_answer(act: Act) -> None:
    state = started()
    one, two = call("weigh", "c1"), call("seal", "c2")
    act(agent(["Working.", one, two]), "think", state)
    assert state.pending_calls == (one, two)
    assert state.answer is None


def test_a_reply_without_calls_is_the_answer(act: Act) -> None:
    state = started()
    act(agent(["Hel", "lo"]), "think", state)
    assert state.answer == "Hello"


def test_an_empty_reply_is_a_reply(act: Act) -> None:
    state = started()
    act(agent([]), "think", state)
    assert state.answer == ""
    assert state.messages[-1].content == ()


def test_messages_that_come_while_the_model_works_are_held_until_its_reply(act: Act) -> None:
    def meanwhile(request: Request) -> str:
        state.add_message(Message.user("hurry"))
        seen.append((story(state)[-1], texts(state)))
        return "ok"

    seen: list[Any] = []
    state = started()
    made = agent(meanwhile)
    act(made, "think", state)
    assert seen == [("user", ["Go"])]
    assert texts(state) == ["Go", "ok", "hurry"]
    assert [m.text for m in fake(made).requests[0].messages] == ["Go"]


def test_messages_held_while_the_model_asks_for_tools_come_behind_the_results(act: Act) -> None:
    def meanwhile(request: Request) -> Any:
        state.add_message(Message.user("hurry"))
        return call("weigh", "c1")

    state = started()
    made = agent(meanwhile, tools=[weigh])
    act(made, "think", state)
    act(made, "use_tools", state)
    assert texts(state) == ["Go", "", "", "hurry"]


def test_the_cache_is_marked_once_before_the_reporter_hears(act: Act) -> None:
    order: list[str] = []

    class Marking(FakeModel):
        def mark_cache(self, request: Request) -> Request:
            order.append("mark")
            return Request("marked", request.messages, request.tools)

    class Order(Heard):
        def on_think_start(self, state: State) -> None:
            order.append("think_start")

    model = Marking(["ok"])
    act(Agent(model, reporter=Order(), human=None), "think", started())
    assert order == ["mark", "think_start"]
    assert model.requests[0].system == "marked"


# Which tools are shown


def names(made: Agent) -> list[str]:
    return [spec.name for spec in fake(made).requests[-1].tools]


def test_all_tools_are_shown_unless_told_otherwise(act: Act) -> None:
    made = agent("a", "b", tools=[weigh, Crane(), Depot()])
    act(made, "think", started())
    assert names(made) == ["weigh", "crane", "count"]
    act(made, "think", started(), None)
    assert names(made) == ["weigh", "crane", "count"]


def test_no_tools_are_shown_for_an_empty_list(act: Act) -> None:
    made = agent("a", tools=[weigh])
    act(made, "think", started(), tools=[])
    assert names(made) == []


def test_chosen_tools_are_shown_in_the_order_given(act: Act) -> None:
    crane, depot = Crane(), Depot()
    made = agent("a", tools=[weigh, crane, depot])
    act(made, "think", started(), tools=(item for item in [depot, made.tool_map["weigh"], crane]))
    assert names(made) == ["count", "weigh", "crane"]


def test_a_bound_method_taken_anew_is_the_same_tool(act: Act) -> None:
    depot = Depot()
    made = agent("a", tools=[depot])
    act(made, "think", started(), tools=[depot.count])
    assert names(made) == ["count"]


def test_choosing_tools_does_not_change_the_agent(act: Act) -> None:
    made = agent("a", "b", tools=[weigh, seal])
    act(made, "think", started(), tools=[seal])
    assert list(made.tool_map) == ["weigh", "seal"]
    act(made, "think", started())
    assert names(made) == ["weigh", "seal"]


@tool(name="weigh")
def another(parcel: str) -> str:
    """Weigh it otherwise"""
    return parcel


@pytest.mark.parametrize(
    "tools", [[another], [Crane()], [Depot()], [Depot().count], [weigh, weigh], [weigh, seal, weigh]]
)
def test_a_tool_that_is_not_the_agents_or_given_twice_is_a_value_error(act: Act, tools: Any) -> None:
    made, state = agent("a", tools=[weigh, seal, Depot()]), started()
    with pytest.raises(ValueError, match=r"tool"):
        act(made, "think", state, tools)
    assert story(state) == ["context_change"]
    assert fake(made).requests == []


@pytest.mark.parametrize("tools", ["weigh", b"weigh", weigh, 3, [3], ["weigh"], [print], [Crane], [Depot.count]])
def test_what_could_be_no_tool_is_a_type_error(act: Act, tools: Any) -> None:
    made, state = agent("a", tools=[weigh]), started()
    with pytest.raises(TypeError):
        act(made, "think", state, tools)
    assert story(state) == ["context_change"]
    assert fake(made).requests == []


def test_a_call_to_a_tool_that_was_hidden_runs(act: Act) -> None:
    made, state = agent(call("weigh", "c1"), tools=[weigh]), started()
    act(made, "think", state, tools=[])
    act(made, "use_tools", state)
    assert story(state)[-1] == "weigh done: 2 kg"


# When think is refused


def finished() -> State:
    state = started()
    state.finish("done")
    return state


def refused() -> list[tuple[State, str]]:
    pending = started()
    agent(call("weigh", "c1", parcel="B")).think(pending)
    return [
        (finished(), "finished"),
        (pending, r'weigh\(parcel="B"\)'),
        (waiting(), "waiting"),
        (State(), "no messages"),
    ]


@pytest.mark.parametrize(("state", "reason"), refused())
def test_think_is_refused_and_records_nothing(act: Act, state: State, reason: str) -> None:
    before, heard = state.snapshot(), Heard()
    made = agent("a", reporter=heard)
    with pytest.raises(ValueError, match=reason):
        act(made, "think", state)
    assert state.snapshot() is before
    assert fake(made).requests == []
    assert heard.events == []


def test_a_second_think_while_one_waits_is_refused_and_the_first_goes_on() -> None:
    def meanwhile(request: Request) -> str:
        with pytest.raises(ValueError, match="waiting"):
            agent("b").think(state)
        return "a"

    state = started()
    agent(meanwhile).think(state)
    assert story(state) == ["context_change", "model_request", "model_reply"]


# Events


def test_the_reporter_hears_of_the_request_the_text_and_the_reply(act: Act) -> None:
    heard = Heard()
    state = started()
    act(agent(["Hel", "lo"], reporter=heard), "think", state)
    assert heard.events == ["think_start", "text Hel", "text lo", "think_end"]
    assert all(seen is state for seen in heard.states)
    assert heard.threads == {threading.current_thread()}


def test_the_reply_is_recorded_before_the_reporter_hears_of_it(act: Act) -> None:
    class Looking(Heard):
        def on_think_start(self, state: State) -> None:
            seen.append((state.turn, story(state)[-1]))

        def on_think_end(self, state: State, reply: Any) -> None:
            seen.append((state.turn, story(state)[-1]))

    seen: list[Any] = []
    act(agent("a", reporter=Looking()), "think", started())
    assert seen == [(1, "model_request"), (1, "model_reply")]


def retrying(request: Request, on_text: Any, on_event: Any) -> Reply:
    on_event(ModelEvent("retry", "again in 2 s", {"attempt": 1}))
    if on_text is not None:
        on_text("ok")
    return REPLY


@pytest.mark.parametrize("listening", [True, False])
def test_model_events_are_recorded_whoever_listens(act: Act, listening: bool) -> None:
    heard = Heard()
    state = started()
    act(scripted(retrying, reporter=heard if listening else None), "think", state)
    assert story(state) == ["context_change", "model_request", "model_event", "model_reply"]
    assert state.history[2].turn == 1
    assert heard.events == (["think_start", "model_event again in 2 s", "text ok", "think_end"] if listening else [])


def test_a_model_event_is_in_the_history_when_the_reporter_hears_of_it(act: Act) -> None:
    class Looking(Heard):
        def on_model_event(self, state: State, event: ModelEvent) -> None:
            seen.append(story(state)[-1])

    seen: list[str] = []
    act(scripted(retrying, reporter=Looking()), "think", started())
    assert seen == ["model_event"]


@pytest.mark.parametrize("event", ["retry", None, {"kind": "retry"}])
def test_a_model_event_of_another_kind_is_a_type_error_in_the_model(act: Act, event: Any) -> None:
    def wrong(request: Request, on_text: Any, on_event: Any) -> Reply:
        with pytest.raises(TypeError, match="ModelEvent"):
            on_event(event)
        return REPLY

    state = started()
    act(scripted(wrong), "think", state)
    assert story(state) == ["context_change", "model_request", "model_reply"]


def test_events_of_a_model_on_a_worker_thread_come_on_the_loops_thread(act: Act) -> None:
    heard = Heard()
    workers: list[threading.Thread] = []

    def on_a_thread(request: Request, on_text: Any, on_event: Any) -> Reply:
        workers.append(threading.current_thread())
        return retrying(request, on_text, on_event)

    act(scripted(on_a_thread, reporter=heard), "think", started())
    assert heard.threads == {threading.current_thread()}
    assert (workers[0] is threading.current_thread()) is not is_async(act)


# A failure before the reply


def test_a_failed_request_is_taken_back(act: Act) -> None:
    def fails(request: Request) -> str:
        state.add_message(Message.user("hurry"))
        raise error

    error = RateLimitError("slow down")
    state = started()
    usage = state.usage
    with pytest.raises(RateLimitError) as raised:
        act(agent(fails), "think", state)
    assert raised.value is error
    assert story(state) == ["context_change", "model_request", "user", "error: RateLimitError: slow down"]
    assert (state.turn, state.usage) == (0, usage)
    assert texts(state) == ["Go", "hurry"]
    assert state.history[-1].turn == 1
    assert state.history[-1].error is error  # type: ignore[union-attr]


def test_a_failed_think_may_be_called_again_and_uses_the_same_turn(act: Act) -> None:
    made, state = agent(ProviderError("down"), "ok"), started()
    with pytest.raises(ProviderError):
        act(made, "think", state)
    act(made, "think", state)
    assert [entry.turn for entry in state.history] == [0, 1, 1, 1, 1]
    assert state.turn == 1


class Weird(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError(), "KeyError"),
        (KeyError("x"), "KeyError: 'x'"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit(), "GeneratorExit"),
        (Weird(), "Weird: (no message: str() raised ValueError)"),
        (StopAsyncIteration("x"), "StopAsyncIteration: x"),
    ],
)
def test_whatever_a_model_raises_takes_the_request_back_and_passes(act: Act, error: BaseException, text: str) -> None:
    state = started()
    with pytest.raises(type(error)) as raised:
        act(agent(error), "think", state)
    assert raised.value is error
    assert story(state) == ["context_change", "model_request", f"error: {text}"]
    assert state.turn == 0


def test_a_stop_iteration_of_a_model_is_one_error_in_the_history(act: Act) -> None:
    # No coroutine can raise a StopIteration; the async half raises a RuntimeError with it as its cause.
    error = StopIteration("no reply left")
    state = started()
    with pytest.raises((StopIteration, RuntimeError)) as raised:
        act(agent(error), "run", state)
    assert error in (raised.value, raised.value.__cause__)
    assert story(state) == ["context_change", "run_start", "model_request", "error: StopIteration: no reply left"]


def test_a_model_that_raises_the_same_object_twice_is_taken_back_twice(act: Act) -> None:
    error = ProviderError("down")
    made, state = agent(error, error), started()
    for _ in range(2):
        with pytest.raises(ProviderError):
            act(made, "think", state)
    assert story(state) == ["context_change", *(["model_request", "error: ProviderError: down"] * 2)]
    assert state.turn == 0


@pytest.mark.parametrize("event", ["think_start", "text", "model_event"])
@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, SystemExit, StopIteration])
def test_a_reporter_that_raises_before_the_reply_takes_the_request_back(
    act: Act, event: str, kind: type[BaseException]
) -> None:
    error = kind("reporter")
    heard = Heard(**{event: error})
    state = started()
    with pytest.raises((kind, RuntimeError)) as raised:
        act(scripted(retrying, reporter=heard), "think", state)
    assert error in (raised.value, raised.value.__cause__)
    assert "model_reply" not in story(state)
    assert story(state)[-1] == f"error: {kind.__name__}: reporter"
    assert story(state).count(story(state)[-1]) == 1
    assert state.turn == 0
    assert heard.events[-1].startswith(event)


def test_marking_the_cache_may_fail(act: Act) -> None:
    class Broken(FakeModel):
        def mark_cache(self, request: Request) -> Request:
            raise OSError("cache")

    heard, state = Heard(), started()
    with pytest.raises(OSError, match="cache"):
        act(Agent(Broken(["a"]), reporter=heard, human=None), "think", state)
    assert story(state)[1:] == ["model_request", "error: OSError: cache"]
    assert heard.events == []


@pytest.mark.parametrize("wrong", [None, "ok", Message.assistant("ok")])
def test_a_model_must_return_a_reply(act: Act, wrong: Any) -> None:
    state = started()
    with pytest.raises(TypeError, match="Reply"):
        act(scripted(lambda request, on_text, on_event: wrong), "think", state)
    assert state.turn == 0
    assert story(state)[-2] == "model_request"


@pytest.mark.parametrize("block", [call("weigh", "c1", grams=float("nan")), RawBlock("acme", {"x": float("inf")})])
def test_a_reply_with_a_value_that_is_not_json_fails_the_request(act: Act, block: Any) -> None:
    state = started()
    reply = Reply(Message("assistant", (TextBlock("a"), block)), Usage())
    with pytest.raises(TypeError, match=r"content\[1\]"):
        act(agent(reply), "think", state)
    assert (state.turn, state.pending_calls) == (0, ())
    assert story(state)[1] == "model_request"
    assert story(state)[2].startswith("error: TypeError")


# A failure after the reply


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_reporter_that_raises_behind_the_reply_leaves_the_reply(act: Act, kind: type[BaseException]) -> None:
    error = kind("reporter")
    state = started()
    one = call("weigh", "c1")
    with pytest.raises(kind) as raised:
        act(agent(one, reporter=Heard(think_end=error)), "think", state)
    assert raised.value is error
    assert story(state)[1:] == ["model_request", "model_reply", f"error: {kind.__name__}: reporter"]
    assert state.pending_calls == (one,)
    assert state.turn == 1
    assert state.usage.requests == 1


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "length", "max_output_tokens"])
@pytest.mark.parametrize("content", [(), (TextBlock(" \n"),), (RawBlock("acme", {"thinking": "hm"}),)])
def test_an_output_limit_that_left_nothing_is_a_cut_off_error(act: Act, reason: str, content: Any) -> None:
    heard, state = Heard(), started()
    reply = Reply(Message("assistant", content), Usage(10, 64, requests=1), stop_reason=reason)
    with pytest.raises(CutOffError) as raised:
        act(agent(reply, reporter=heard), "think", state)
    assert raised.value.reply is reply
    for part in ("fake/fake", reason, "64", "max_tokens"):
        assert part in str(raised.value)
    assert heard.events == ["think_start", "think_end"]
    assert story(state)[-2] == "model_reply"
    assert story(state)[-1].startswith("error: CutOffError: ")
    assert (state.turn, state.usage.output_tokens) == (1, 64)
    assert state.messages[-1].cut_off
    assert state.answer == reply.text


@pytest.mark.parametrize(
    "reply",
    [
        Reply(Message.assistant("partly"), Usage(), stop_reason="max_tokens"),
        Reply(Message("assistant", (call("weigh", "c1"),)), Usage(), stop_reason="max_tokens"),
        Reply(Message("assistant", ()), Usage(), stop_reason="end_turn"),
        Reply(Message("assistant", ()), Usage()),
    ],
)
def test_a_reply_with_something_in_it_or_another_reason_is_no_cut_off(act: Act, reply: Reply) -> None:
    state = started()
    act(agent(reply), "think", state)
    assert story(state)[-1] == "model_reply"


def test_after_a_cut_off_the_state_goes_on_with_a_new_message(act: Act) -> None:
    made, state = agent(CUT_OFF, "short"), started()
    with pytest.raises(CutOffError):
        act(made, "run", state)
    assert state.stopped is None
    act(made, "run", state)  # without a new message it stops at once: the last message is a reply without calls
    assert state.answer == ""
    state.add_message(Message.user("Be brief"))
    assert act(made, "run", state) == "short"


def test_a_cut_off_is_one_error_of_the_run(act: Act) -> None:
    state = started()
    with pytest.raises(CutOffError):
        act(agent(CUT_OFF), "run", state)
    assert len([line for line in story(state) if line.startswith("error")]) == 1


def test_a_think_in_another_store_than_the_states_records_nothing(act: Act) -> None:
    made, other = agent("a", store=Shelf()), Shelf()
    state = started()
    other.save(state)
    before = state.snapshot()
    with pytest.raises(ValueError, match="kept in"):
        act(made, "think", state)
    assert state.snapshot() is before
    assert fake(made).requests == []
