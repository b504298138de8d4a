"""The Reporter does nothing, anything with its events can be one, and what one does never harms a run for good."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import pytest
from runs import Heard, Step, agent, is_at_rest, started, step, story, written

from alpineagents import Agent, Message, State, loop, waiting_for_user
from alpineagents.reporter import EVENTS, Reporter, check_reporter
from alpineagents.testing import FakeModel
from alpineagents.types import ModelEvent

Act = Callable[..., Any]


def test_the_events_are_these_nine() -> None:
    assert set(EVENTS) == {
        "on_run_start",
        "on_think_start",
        "on_text",
        "on_model_event",
        "on_think_end",
        "on_tool_start",
        "on_tool_end",
        "on_context_change",
        "on_run_end",
    }


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_does_nothing_by_default(event: str) -> None:
    hear = getattr(Reporter(), event)
    assert hear(*[None for _ in inspect.signature(hear).parameters]) is None


def test_a_subclass_overrides_only_what_it_needs() -> None:
    class Loud(Reporter):
        def on_text(self, state: Any, chunk: str) -> None: ...

    check_reporter(Loud())


def test_a_reporter_need_not_be_a_subclass() -> None:
    class Duck:
        def __getattr__(self, name: str) -> Any:
            if name in EVENTS:
                return print
            raise AttributeError(name)

    check_reporter(Duck())


def test_missing_events_are_named() -> None:
    class Partial:
        on_text = print

    with pytest.raises(TypeError, match="on_run_end") as caught:
        check_reporter(Partial())
    assert "on_text" not in str(caught.value).splitlines()[0]


def test_an_event_that_cannot_be_called_is_missing() -> None:
    class Muted(Reporter):
        on_text = None  # type: ignore[assignment]  # the mistake this test is about

    with pytest.raises(TypeError, match="no method on_text"):
        check_reporter(Muted())


def test_a_class_is_no_reporter() -> None:
    with pytest.raises(TypeError, match=r"reporter=Reporter\(\)"):
        check_reporter(Reporter)


class Eventful(FakeModel):
    """Reports an event before each reply."""

    def respond(self, request: Any, on_text: Any = None, on_event: Any = None) -> Any:
        on_event(ModelEvent("retry", "again"))
        return super().respond(request, on_text, on_event)


def thin_turns(of: Agent, state: State) -> Generator[Any, Any, None]:
    """A loop body that clears tool results before its second turn."""
    if state.turn == 1 and not state.pending_calls:
        state.clear_tool_results(keep_last=0)
    yield of, "think", state
    yield of, "use_tools", state


def eventful(act: Act, reporter: Reporter | None) -> Agent:
    """An Agent whose run has every event there is."""
    replies = [["Let me see", step("one"), step("two")], "Done", "Done", "Done"]
    shown = Step(lambda id: f"the result of {id}", parallel=False)
    turns = loop(until=waiting_for_user, limit=5)(written(act, thin_turns))
    return agent(model=Eventful(replies), tools=[shown], reporter=reporter, loop=turns)


def test_a_run_tells_each_event_where_it_belongs(act: Act) -> None:
    heard = Heard()
    act(eventful(act, heard), "run", started())
    assert heard.events == [
        "run_start",
        "think_start",
        "model_event again",
        "text Let me see",
        "think_end",
        "tool_start one",
        "tool_end one done: the result of one",
        "tool_start two",
        "tool_end two done: the result of two",
        "context_change clear_tool_results",
        "think_start",
        "model_event again",
        "text Done",
        "think_end",
        "run_end",
    ]


class Unusual(BaseException):
    pass


ERRORS = [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, Unusual]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("event", EVENTS)
def test_what_a_reporter_raises_comes_out_and_the_state_can_be_run_again(
    act: Act, event: str, error: type[BaseException]
) -> None:
    raised, state = error("as the test says"), started()
    heard = Heard(**{event.removeprefix("on_"): raised})
    with pytest.raises(error) as caught:
        act(eventful(act, heard), "run", state)
    assert caught.value is raised
    assert is_at_rest(state)
    assert heard.events[0] == "run_start"
    assert [event for event in heard.events if event.startswith("run_end")] == heard.events[-1:]
    assert heard.tool_starts == heard.tool_ends
    state.add_message(Message.user("Again"))
    act(eventful(act, None), "run", state)
    assert state.stopped is not None


@pytest.mark.parametrize("event", EVENTS)
def test_a_run_that_a_reporter_failed_says_so_in_the_history(act: Act, event: str) -> None:
    state = started()
    with pytest.raises(ValueError, match="odd"):
        act(eventful(act, Heard(**{event.removeprefix("on_"): ValueError("odd")})), "run", state)
    errors = [entry for entry in story(state) if entry.startswith("error")]
    assert errors == ([] if event == "on_run_end" else ["error: ValueError: odd"])


def test_one_reporter_hears_many_runs_at_once_each_in_its_order() -> None:
    heard = Heard()
    states = [started(id=f"s{number}") for number in range(8)]

    def work(state: State) -> None:
        agent(["Let me see", step("one")], "Done", tools=[Step(lambda id: id)], reporter=heard).run(state)

    threads = [threading.Thread(target=work, args=(state,)) for state in states]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = Heard()
    agent(["Let me see", step("one")], "Done", tools=[Step(lambda id: id)], reporter=alone).run(started())
    assert len(heard.events) == len(alone.events) * len(states)
    assert Counter(heard.events) == Counter(alone.events * len(states))


def test_a_run_in_a_thread_is_heard_of_on_that_thread() -> None:
    heard = Heard()
    thread = threading.Thread(target=agent("Done", reporter=heard).run, args=("Go",))
    thread.start()
    thread.join()
    assert heard.threads == {thread}
