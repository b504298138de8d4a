"""ask: what is sent, what is recorded, and what is tried again."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydantic
import pytest
from runs import Heard, Shelf, agent, call, fake, interrupt, soon, started, story, wait_for, written
from waits import waits_of

from alpineagents import Message, ModelEvent, OutputError, Reply, SqliteStore, State, Usage, tool
from alpineagents.state import journal_of
from alpineagents.testing import FakeModel, tool_call
from alpineagents.types import Exchange, RawBlock, ToolResultBlock

Act = Callable[..., Any]


@dataclasses.dataclass
class Label:
    city: str


class Parcel(pydantic.BaseModel):
    number: int


@tool
def weigh(parcel: str) -> str:
    """Weigh a parcel"""
    return "2 kg"


@tool
def seal() -> str:
    """Seal a parcel"""
    return "sealed"


def kinds(state: State) -> list[str]:
    return [entry.kind for entry in state.history]


def exchange(state: State) -> Any:
    """The latest entry, which is an `ask`."""
    entry = state.history[-1]
    assert entry.kind == "ask"
    return entry


def texts(model: FakeModel, request: int = -1) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in model.requests[request].messages]


# What comes of it


def test_the_answer_is_returned_and_recorded_and_nothing_else_changes(act: Act) -> None:
    made, state = agent("done", " Oslo\n"), started()
    act(made, "run", state)
    before, history = state.snapshot(), state.history
    assert act(made, "ask", state, "Which city?") == "Oslo"
    assert state.history[:-1] == history
    assert exchange(state).content == Exchange("Which city?", "Oslo")
    for name in ("messages", "turn", "answer", "pending_calls", "stopped", "finished", "extra_data"):
        assert getattr(state, name) == getattr(before, name)


def test_its_usage_is_recorded_and_counted(act: Act) -> None:
    spent = Usage(10, 2, requests=1, cost=0.5)
    made, state = agent(Reply(Message.assistant("Oslo"), spent)), started()
    act(made, "ask", state, "Which city?")
    assert exchange(state).usage == state.usage == spent


def test_the_usage_of_all_tries_is_summed(act: Act) -> None:
    replies = [Reply(Message.assistant(text), Usage(10, 2, requests=1, cost=0.5)) for text in ("a", "b", "7")]
    made, state = agent(*replies), started()
    assert act(made, "ask", state, "How many?", int) == 7
    assert exchange(state).usage == state.usage == Usage(30, 6, requests=3, cost=1.5)


@pytest.mark.parametrize(
    ("returns", "text", "answer", "kept"),
    [
        (Label, '{"city": "Oslo"}', Label("Oslo"), {"city": "Oslo"}),
        (Parcel, '{"number": 7}', Parcel(number=7), {"number": 7}),
        (list[Label], '[{"city": "Oslo"}]', [Label("Oslo")], [{"city": "Oslo"}]),
        (set[int], "[7]", {7}, [7]),
    ],
)
def test_the_caller_gets_the_object_and_the_history_its_json(
    act: Act, returns: Any, text: str, answer: Any, kept: Any
) -> None:
    made, state = agent(text), started()
    assert act(made, "ask", state, "Which?", returns) == answer
    assert exchange(state).content.answer == kept


def test_tool_calls_in_an_answer_are_ignored(act: Act) -> None:
    made, state = agent(["Oslo", tool_call("seal")], tools=[seal]), started()
    assert act(made, "ask", state, "Which city?") == "Oslo"
    assert state.pending_calls == ()
    assert kinds(state) == ["context_change", "ask"]


def test_a_question_about_a_state_without_messages(act: Act) -> None:
    made, state = agent("Oslo"), State()
    assert act(made, "ask", state, "Which city?") == "Oslo"
    assert texts(fake(made)) == [("user", "Which city?")]


def test_a_question_inside_a_loop(act: Act) -> None:
    def loop(agent: Any, state: State) -> Any:
        yield agent, "think", state
        return (yield agent, "ask", state, "Which city?")

    made = agent("done", "Oslo", loop=written(act, loop))
    assert act(made, "run", "Go") == "Oslo"


# What is sent


def test_the_request_has_everything_and_forbids_calls(act: Act) -> None:
    made, state = agent("Oslo", system="Be brief", tools=[weigh, seal]), started()
    act(made, "ask", state, "Which city?")
    request = fake(made).requests[0]
    assert request.system == "Be brief"
    assert request.messages == (*state.messages, Message.user("Which city?"))
    assert [spec.name for spec in request.tools] == ["weigh", "seal"]
    assert request.tool_choice == "none"


def test_the_cache_is_marked_before_each_try(act: Act) -> None:
    class Marking(FakeModel):
        def mark_cache(self, request: Any) -> Any:
            return dataclasses.replace(request, system=f"marked {len(self.requests)}")

    model = Marking(["x", "7"])
    act(agent().copy(model=model), "ask", started(), "How many?", int)
    assert [request.system for request in model.requests] == ["marked 0", "marked 1"]


def test_an_unfit_answer_is_tried_again_with_the_reason(act: Act) -> None:
    made, state = agent("dunno", '"many"', "7"), started()
    assert act(made, "ask", state, "How many?", int) == 7
    first, second, third = (request.messages for request in fake(made).requests)
    assert second[:-2] == first
    assert third[:-2] == second
    assert [(m.role, m.text) for m in (second[-2], third[-2])] == [("assistant", "dunno"), ("assistant", '"many"')]
    assert (second[-1].role, third[-1].role) == ("user", "user")
    assert "no JSON" in second[-1].text
    assert "valid integer" in third[-1].text
    assert fake(made).requests[2].tool_choice == "none"


@pytest.mark.parametrize("reply", ["", " \n", tool_call("seal"), [], [RawBlock("fake", {}), tool_call("seal")]])
def test_an_empty_answer_is_shown_as_such(act: Act, reply: Any) -> None:
    made = agent(reply, "Oslo", tools=[seal])
    assert act(made, "ask", started(), "Which city?") == "Oslo"
    assert texts(fake(made))[-2] == ("assistant", "(empty reply)")
    assert "empty" in texts(fake(made))[-1][1]


def test_a_failed_answer_is_repeated_without_its_calls(act: Act) -> None:
    made = agent(["dunno", tool_call("seal")], "7", tools=[seal])
    act(made, "ask", started(), "How many?", int)
    assert fake(made).requests[1].messages[-2] == Message.assistant("dunno")


def test_a_question_while_calls_are_pending(act: Act) -> None:
    calls = [call("weigh", "c1", parcel="A"), call("seal", "c2")]
    made, state = agent(calls, "dunno", '{"city": "Oslo"}', tools=[weigh, seal]), started("Ship A")
    act(made, "think", state)
    state.add_message(Message.user("hurry"))
    pending = state.pending_calls
    assert act(made, "ask", state, "Which city?", Label) == Label("Oslo")
    first, second = (request.messages for request in fake(made).requests[1:])
    assert [m.role for m in first] == ["user", "assistant", "user", "user"]
    assert (first[0].text, first[1].tool_calls) == ("Ship A", pending)
    assert first[2].content == (
        ToolResultBlock("c1", "(not run yet)", name="weigh"),
        ToolResultBlock("c2", "(not run yet)", name="seal"),
    )
    assert first[3].text.startswith("Which city?\n\n")
    assert second[:4] == first
    assert second[4] == Message.assistant("dunno")
    assert len(second) == 6
    assert kinds(state) == ["context_change", "model_request", "model_reply", "user", "ask"]
    assert exchange(state).content.answer == {"city": "Oslo"}
    assert exchange(state).usage.requests == 2
    assert state.pending_calls == pending
    assert "hurry" not in [m.text for m in state.messages]


def test_calls_that_have_a_result_are_shown_with_it(act: Act) -> None:
    @tool
    def fail() -> str:
        """Fail"""
        raise OSError("torn")

    made, state = agent([call("seal", "c1"), call("fail", "c2")], "Oslo", tools=[seal, fail]), started()
    act(made, "think", state)
    with pytest.raises(OSError, match="torn"):
        act(made, "use_tools", state)
    act(made, "ask", state, "Which city?")
    assert [block.content for block in fake(made).requests[1].messages[2].content] == ["sealed", "(not run yet)"]


def test_a_question_while_another_thread_thinks(act: Act) -> None:
    asked, answered = threading.Event(), threading.Event()

    def slow(request: Any) -> str:
        asked.set()
        wait_for(answered)
        return "done"

    thinker, asker, state = agent(slow), agent("Oslo"), started()
    thinking = threading.Thread(target=thinker.think, args=(state,))
    thinking.start()
    wait_for(asked)
    try:
        assert act(asker, "ask", state, "Which city?") == "Oslo"
    finally:
        answered.set()
        thinking.join()
    assert texts(fake(asker)) == [("user", "Go"), ("user", "Which city?")]
    assert kinds(state) == ["context_change", "model_request", "ask", "model_reply"]


# Events


def test_each_try_is_reported(act: Act) -> None:
    heard = Heard()
    act(agent("dunno", "7", reporter=heard), "ask", started(), "How many?", int)
    assert heard.events == ["think_start", "text dunno", "think_end", "think_start", "text 7", "think_end"]


class Eventful(FakeModel):
    """Reports an event before each reply."""

    def respond(self, request: Any, on_text: Any = None, on_event: Any = None) -> Reply:
        on_event(ModelEvent("retry", f"try {len(self.requests)}"))
        return super().respond(request, on_text, on_event)


def test_model_events_are_recorded_and_reported(act: Act) -> None:
    heard, state = Heard(), started()
    act(agent(reporter=heard).copy(model=Eventful(["Oslo"])), "ask", state, "Which city?")
    assert kinds(state) == ["context_change", "model_event", "ask"]
    assert heard.events == ["think_start", "model_event try 0", "text Oslo", "think_end"]


def test_a_question_does_not_change_who_hears_of_context_changes(act: Act) -> None:
    first, second, state = Heard(), Heard(), started()
    act(agent("done", reporter=first), "think", state)
    act(agent("Oslo", reporter=second), "ask", state, "Which city?")
    state.compact("a summary")
    assert "context_change compact" in first.events
    assert "context_change compact" not in second.events


# When no answer comes


@pytest.mark.parametrize("retries", [0, 2])
def test_without_a_fitting_answer_the_spent_usage_is_recorded_and_output_error_raised(act: Act, retries: int) -> None:
    made, state = agent(*['{"city": 3}'] * 3), started()
    with pytest.raises(OutputError) as failed:
        act(made, "ask", state, "Which city?", Label, retries=retries)
    assert len(fake(made).requests) == retries + 1
    assert kinds(state) == ["context_change", "ask"]
    assert exchange(state).content == Exchange("Which city?", None)
    assert state.usage.requests == retries + 1
    for part in (f"{retries + 1} answers", "Label", "city: "):
        assert part in str(failed.value)
    assert isinstance(failed.value.__cause__, pydantic.ValidationError)


def test_two_retries_are_the_default(act: Act) -> None:
    made = agent(*"abcd")
    with pytest.raises(OutputError):
        act(made, "ask", started(), "How many?", int)
    assert len(fake(made).requests) == 3


def test_output_error_has_a_cause_also_without_json(act: Act) -> None:
    with pytest.raises(OutputError) as failed:
        act(agent("dunno"), "ask", started(), "How many?", int, retries=0)
    assert isinstance(failed.value.__cause__, ValueError)


def test_a_cut_off_answer_is_no_cut_off_error(act: Act) -> None:
    cut = Reply(Message("assistant", ()), Usage(requests=1), stop_reason="max_tokens")
    with pytest.raises(OutputError):
        act(agent(cut), "ask", started(), "Which city?", retries=0)


@pytest.mark.parametrize("error", [OSError("torn"), KeyboardInterrupt()])
def test_a_model_that_fails_first_leaves_only_its_events(act: Act, error: BaseException) -> None:
    state = started()
    with pytest.raises(type(error)) as raised:
        act(agent().copy(model=Eventful([error])), "ask", state, "Which city?")
    assert raised.value is error
    assert kinds(state) == ["context_change", "model_event"]
    assert state.usage == Usage()


@pytest.mark.parametrize("error", [OSError("torn"), StopIteration("end")])
def test_a_model_that_fails_later_leaves_what_was_spent(act: Act, error: Exception) -> None:
    made, state = agent("dunno", error), started()
    with pytest.raises((type(error), RuntimeError)):
        act(made, "ask", state, "How many?", int)
    assert kinds(state) == ["context_change", "ask"]
    assert exchange(state).content.answer is None
    assert state.usage.requests == 1


def test_a_reporter_that_raises_behind_an_answer_leaves_what_was_spent(act: Act) -> None:
    error, state = OSError("no paper"), started()
    with pytest.raises(OSError, match="no paper") as raised:
        act(agent("Oslo", reporter=Heard(think_end=error)), "ask", state, "Which city?")
    assert raised.value is error
    assert exchange(state).content.answer is None
    assert state.usage.requests == 1


@pytest.mark.parametrize("event", ["think_start", "text"])
def test_a_reporter_that_raises_before_an_answer_leaves_nothing(act: Act, event: str) -> None:
    state = started()
    with pytest.raises(OSError, match="no paper"):
        act(agent("Oslo", reporter=Heard(**{event: OSError("no paper")})), "ask", state, "Which city?")
    assert kinds(state) == ["context_change"]


def test_what_is_no_reply_is_a_type_error(act: Act) -> None:
    class Odd(FakeModel):
        def respond(self, request: Any, on_text: Any = None, on_event: Any = None) -> Any:
            return "Oslo"

    state = started()
    with pytest.raises(TypeError, match="Reply"):
        act(agent().copy(model=Odd([])), "ask", state, "Which city?")
    assert kinds(state) == ["context_change"]


def test_ctrl_c_at_any_wait_loses_no_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*where: tuple[int, bool]) -> int:
        made, state = agent("dunno", "7", "8"), started()
        waits = waits_of(monkeypatch, lambda: made.ask(state, "How many?", int), *where)
        replies = 3 - fake(made).remaining
        interrupted_behind_a_reply = bool(where) and where[0][1] and where[0][0] < 2
        assert state.usage.requests == replies - interrupted_behind_a_reply
        assert kinds(state).count("ask") == (1 if state.usage.requests else 0)
        assert made.ask(state, "How many?", int, retries=1) in (7, 8)
        return waits

    waits = ask()
    assert waits >= 3
    for where in itertools.product(range(waits), [False, True]):
        ask(where)


def test_a_cancelled_question_leaves_what_was_spent() -> None:
    async def main() -> None:
        asking = asyncio.create_task(made.aask(state, "How many?", int))
        await soon(waiting)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    def hang(request: Any) -> str:
        waiting.set()
        wait_for(over)
        return "7"

    waiting, over = threading.Event(), threading.Event()
    made, state = agent("dunno", hang), started()
    try:
        asyncio.run(main())
    finally:
        over.set()
    assert story(state) == ["context_change", "ask"]
    assert state.usage.requests == 1


# What is refused


def test_a_finished_state_is_refused(act: Act) -> None:
    made, state = agent("Oslo"), started()
    state.finish("done")
    with pytest.raises(ValueError, match="finished"):
        act(made, "ask", state, "Which city?")
    assert fake(made).requests == []


@pytest.mark.parametrize("prompt", [None, 3, b"Which?", Message.user("Which?")])
def test_a_prompt_is_a_str(act: Act, prompt: Any) -> None:
    made, state = agent("Oslo"), started()
    with pytest.raises(TypeError, match="ask"):
        act(made, "ask", state, prompt)
    assert (fake(made).requests, len(state.history)) == ([], 1)


@pytest.mark.parametrize("returns", [None, "str", 3, object()])
def test_what_cannot_be_asked_for_is_refused(act: Act, returns: Any) -> None:
    made, state = agent("Oslo"), started()
    with pytest.raises(TypeError, match="returns=list"):
        act(made, "ask", state, "Which city?", returns)
    assert (fake(made).requests, len(state.history)) == ([], 1)


@pytest.mark.parametrize("retries", [-1, 1.0, True, False, None, "2"])
def test_retries_are_a_number(act: Act, retries: Any) -> None:
    made = agent("Oslo")
    with pytest.raises(ValueError, match="retries"):
        act(made, "ask", started(), "Which city?", retries=retries)
    assert fake(made).requests == []


def test_retries_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        agent("Oslo").ask(started(), "Which city?", str, 2)  # type: ignore[misc]


# Saving


def test_a_question_saves_nothing_of_its_own(act: Act) -> None:
    shelf, state = Shelf(), started()
    act(agent("Oslo", store=shelf), "ask", state, "Which city?")
    assert shelf.writes == []


@pytest.mark.parametrize("replies", [["Oslo"], ["a", OSError("torn")]])
def test_where_every_change_is_written_an_answer_is_too(act: Act, tmp_path: Path, replies: list[Any]) -> None:
    store, state = SqliteStore(tmp_path / "runs.db"), started()
    store.save(state)
    with contextlib.suppress(OSError):
        act(agent(*replies), "ask", state, "How many?", str if len(replies) == 1 else int)
    assert store.load(state.id).history == state.history
    assert kinds(state)[-1] == "ask"


def test_an_interrupt_of_the_model_is_raised_as_itself() -> None:
    def press(request: Any) -> str:
        interrupt()
        return "Oslo"

    state = started()
    with pytest.raises(KeyboardInterrupt):
        agent(press).ask(state, "Which city?")
    assert not journal_of(state).now.waiting
