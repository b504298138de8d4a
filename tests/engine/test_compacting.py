"""compact: the summary a model writes, what stays behind it, and what a failure leaves."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import Heard, Shelf, agent, call, fake, soon, started, wait_for, written
from waits import waits_of

from alpineagents import (
    ContextChange,
    Message,
    Model,
    ModelEvent,
    OutputError,
    Reply,
    SqliteStore,
    State,
    StoppedByFinish,
    Usage,
    tool,
)
from alpineagents.history import rules
from alpineagents.state import journal_of
from alpineagents.testing import FakeModel, tool_call

Act = Callable[..., Any]


@tool
def seal() -> str:
    """Seal a parcel"""
    return "sealed"


def kinds(state: State) -> list[str]:
    return [entry.kind for entry in state.history]


def change(state: State) -> ContextChange:
    """What the latest entry says, which is a compaction."""
    entry = state.history[-1]
    assert entry.kind == "context_change"
    return entry.content


def texts(state: State) -> list[str]:
    return [message.text for message in state.messages]


def told(text: str = "Audit repo", reply: str = "Done: 3 issues.", tokens: int | None = 900) -> State:
    """A State with one turn."""
    state = started(text)
    model = FakeModel([Reply(Message.assistant(reply), Usage(requests=1, cost=0.0), tokens)])
    agent().copy(model=model).think(state)
    return state


def meanwhile(act_on_it: Callable[[], object], summary: str = "3 issues found") -> Callable[[Any], str]:
    """A reply that is written while something happens on another thread."""

    def reply(request: Any) -> str:
        other = threading.Thread(target=act_on_it)
        other.start()
        other.join(20)
        assert not other.is_alive()
        return summary

    return reply


# The change


def test_the_messages_become_the_first_one_and_the_summary(act: Act) -> None:
    state = told()
    state.add_message(Message.user("Go on"))
    turn, answer = state.turn, state.answer
    made = agent(Reply(Message.assistant("  3 issues\n"), Usage(9, 1, requests=1, cost=0.5)))
    assert act(made, "compact", state) is None
    assert texts(state) == ["Audit repo", "[notice] Summary so far:\n3 issues"]
    assert kinds(state)[-2:] == ["user", "context_change"]
    made_of = change(state)
    assert (made_of.kind, made_of.summary, made_of.kept) == ("compact", "3 issues", 0)
    assert made_of.usage == Usage(9, 1, requests=1, cost=0.5)
    assert state.usage == Usage(9, 1, requests=2, cost=0.5)
    assert (state.turn, state.answer) == (turn, answer)


def test_the_change_is_that_of_a_compaction_by_hand(act: Act) -> None:
    by_model, by_hand = told(), told()
    act(agent("3 issues"), "compact", by_model)
    by_hand.compact("3 issues")
    assert by_model.messages == by_hand.messages


def test_a_message_that_comes_meanwhile_stays_behind_the_summary(act: Act) -> None:
    state = told()
    act(agent(meanwhile(lambda: state.add_message(Message.user("fix the first")))), "compact", state)
    assert (change(state).kept, change(state).before_tokens, change(state).after_tokens) == (1, 909, 34)
    assert texts(state) == ["Audit repo", "[notice] Summary so far:\n3 issues found", "fix the first"]


def test_several_messages_stay_in_order(act: Act) -> None:
    def speak() -> None:
        for text in ("one", "two", "three"):
            state.add_message(Message.user(text))

    state = told()
    act(agent(meanwhile(speak)), "compact", state)
    assert texts(state)[2:] == ["one", "two", "three"]
    assert change(state).kept == 3


def test_clearing_results_meanwhile_keeps_no_message_more(act: Act) -> None:
    made, state = agent(tool_call("seal"), tools=[seal]), started()
    act(made, "think", state)
    act(made, "use_tools", state)
    act(agent(meanwhile(lambda: state.clear_tool_results(0))), "compact", state)
    assert change(state).kept == 0


def test_a_compaction_by_hand_meanwhile_starts_the_count_anew(act: Act) -> None:
    def by_hand() -> None:
        state.add_message(Message.user("before"))
        state.compact("by hand")
        state.add_message(Message.user("behind"))

    state = told()
    act(agent(meanwhile(by_hand, "by the model")), "compact", state)
    assert texts(state) == ["Audit repo", "[notice] Summary so far:\nby the model", "behind"]
    assert change(state).kept == 1
    assert [e.content.kept for e in state.history if e.kind == "context_change"][1:] == [0, 1]


def thinking(state: State, then: Callable[[], Any]) -> None:
    """Do something while another thread's think waits for its model."""
    asked, answered = threading.Event(), threading.Event()

    def slow(request: Any) -> str:
        asked.set()
        wait_for(answered)
        return "thought"

    thread = threading.Thread(target=agent(slow).think, args=(state,))
    thread.start()
    wait_for(asked)
    try:
        then()
    finally:
        answered.set()
        thread.join()


def test_a_held_message_is_not_counted_and_enters_later(act: Act) -> None:
    state = started("Audit repo")
    speak = meanwhile(lambda: state.add_message(Message.user("held")))
    thinking(state, lambda: act(agent(speak), "compact", state))
    assert [e.content.kept for e in state.history if e.kind == "context_change"] == [0, 0]
    assert texts(state) == ["Audit repo", "[notice] Summary so far:\n3 issues found", "thought", "held"]


def test_a_turn_that_another_thread_takes_meanwhile_is_not_lost(act: Act) -> None:
    state = told()
    state.add_message(Message.user("Go on"))
    act(agent(meanwhile(lambda: agent("went on").think(state))), "compact", state)
    assert texts(state)[2:] == ["went on"]


def test_a_finished_state_can_be_compacted(act: Act) -> None:
    state = told()
    state.finish("half")
    act(agent("3 issues"), "compact", state)
    assert (state.stopped, state.answer) == (StoppedByFinish("half"), "half")
    assert len(state.messages) == 2


def test_a_state_without_messages_can_be_compacted(act: Act) -> None:
    state = State()
    act(agent("nothing yet"), "compact", state)
    assert texts(state) == ["[notice] Summary so far:\nnothing yet"]


def test_the_history_replays(act: Act) -> None:
    state = told()
    act(agent(meanwhile(lambda: state.add_message(Message.user("more")))), "compact", state)
    assert State(history=state.history).snapshot() == state.snapshot()


# The request


def test_the_model_is_shown_everything_and_may_call_nothing(act: Act) -> None:
    made, state = agent("s", system="Be brief", tools=[seal]), told()
    messages = state.messages
    act(made, "compact", state)
    request = fake(made).requests[0]
    assert (request.system, request.tool_choice) == ("Be brief", "none")
    assert [spec.name for spec in request.tools] == ["seal"]
    assert request.messages[:-1] == messages
    assert request.messages[-1].role == "user"


@pytest.mark.parametrize("instructions", ["Keep the names\nof all files", "", None])
def test_instructions_are_in_the_request_word_for_word(act: Act, instructions: str | None) -> None:
    made = agent("s")
    act(made, "compact", told(), instructions)
    assert (instructions or "") in fake(made).requests[0].messages[-1].text


class Summarizing(Model):
    """Has a way of its own to make a summary."""

    name, context_window = "summarizing", 1000

    def __init__(self) -> None:
        self.got: list[Any] = []

    def respond(self, *args: Any) -> Reply:
        raise AssertionError

    def mark_cache(self, request: Any) -> Any:
        self.got.append(("marked", request))
        return request

    def compact(self, *args: Any) -> Reply:
        self.got.append((threading.current_thread(), *args))
        args[2](ModelEvent("note", "summarizing"))
        return Reply(Message.assistant("own summary"), Usage(requests=1))


def test_the_models_own_compact_is_used(act: Act) -> None:
    model, state, heard = Summarizing(), told(), Heard()
    act(agent(reporter=heard).copy(model=model), "compact", state, "Keep names")
    (marked, request), (_, given, instructions, _) = model.got
    assert (marked, given is request, instructions) == ("marked", True, "Keep names")
    assert (request.messages, request.tool_choice) == (State(history=state.history[:-2]).messages, "none")
    assert change(state).summary == "own summary"


def test_a_compact_without_a_twin_runs_on_a_worker_thread_in_async_code() -> None:
    model = Summarizing()
    asyncio.run(agent().copy(model=model).acompact(told()))
    assert model.got[1][0] is not threading.current_thread()


def test_an_acompact_of_its_own_is_awaited() -> None:
    class Async(Summarizing):
        async def acompact(self, *args: Any) -> Reply:
            await asyncio.sleep(0)
            return Reply(Message.assistant("awaited"), Usage(requests=1))

    state = told()
    asyncio.run(agent().copy(model=Async()).acompact(state))
    assert change(state).summary == "awaited"


# Events


def test_model_events_and_then_the_change_are_reported(act: Act) -> None:
    heard, state = Heard(), told()
    act(agent(reporter=heard).copy(model=Summarizing()), "compact", state)
    assert heard.events == ["model_event summarizing", "context_change compact"]
    assert kinds(state)[-2:] == ["model_event", "context_change"]


def test_no_text_and_no_thinking_is_reported(act: Act) -> None:
    heard = Heard()
    act(agent("3 issues", reporter=heard), "compact", told())
    assert heard.events == ["context_change compact"]


def test_who_compacts_a_state_hears_of_its_changes(act: Act) -> None:
    first, second, state = Heard(), Heard(), started()
    act(agent("done", reporter=first), "think", state)
    act(agent("s", reporter=second), "compact", state)
    state.compact("by hand")
    assert "context_change compact" not in first.events
    assert second.events == ["context_change compact"] * 2


# What is refused


def test_pending_calls_are_refused(act: Act) -> None:
    made, state = agent(call("seal", "c1"), "s", tools=[seal]), started()
    act(made, "think", state)
    length = len(state.history)
    with pytest.raises(ValueError, match="compact: 1 tool calls"):
        act(made, "compact", state)
    assert (len(state.history), len(fake(made).requests)) == (length, 1)


@pytest.mark.parametrize("instructions", [3, ["keep"], b"keep", True])
def test_instructions_are_a_str(act: Act, instructions: Any) -> None:
    made, state = agent("s"), started()
    with pytest.raises(TypeError, match="instructions"):
        act(made, "compact", state, instructions)
    assert (fake(made).requests, len(state.history)) == ([], 1)


def test_a_second_compaction_meanwhile_is_refused_and_disturbs_nothing(act: Act) -> None:
    def second() -> None:
        with pytest.raises(ValueError, match="already") as refused:
            agent("other").compact(state)
        errors.append(refused.value)
        with pytest.raises(ValueError, match="summary"):
            state.restore(before)

    errors: list[BaseException] = []
    state = told()
    before = state.snapshot()
    act(agent(meanwhile(second)), "compact", state)
    assert len(errors) == 1
    assert change(state).summary == "3 issues found"
    act(agent("once more"), "compact", state)
    state.restore(before)


def test_a_compaction_may_follow_in_the_hook_that_hears_of_one(act: Act) -> None:
    class Again(Heard):
        def on_context_change(self, state: State, change: Any) -> None:
            assert not journal_of(state).compacting
            super().on_context_change(state, change)

    act(agent("s", reporter=Again()), "compact", told())


def test_calls_that_another_thread_opens_meanwhile_fail_the_compaction(act: Act) -> None:
    state = told()
    state.add_message(Message.user("Go on"))
    with pytest.raises(ValueError, match="tool calls"):
        act(agent(meanwhile(lambda: agent(call("seal", "c1"), tools=[seal]).think(state))), "compact", state)
    assert not journal_of(state).compacting
    assert len(state.pending_calls) == 1


def test_a_state_kept_elsewhere_is_refused(act: Act, tmp_path: Path) -> None:
    state, made = told(), agent("s", store=tmp_path / "other.db")
    SqliteStore(tmp_path / "runs.db").save(state)
    with pytest.raises(ValueError, match=r"other\.db"):
        act(made, "compact", state)
    assert fake(made).requests == []
    assert not journal_of(state).compacting


# Failures


@pytest.mark.parametrize("reply", ["", " \n", tool_call("seal"), []])
def test_an_empty_summary_is_an_output_error_that_changes_nothing(act: Act, reply: Any) -> None:
    state = told()
    before = state.snapshot()
    with pytest.raises(OutputError, match="empty summary"):
        act(agent(reply, tools=[seal]), "compact", state)
    assert state.snapshot() == before
    act(agent("better"), "compact", state)


@pytest.mark.parametrize("error", [OSError("torn"), KeyboardInterrupt()])
def test_a_model_that_fails_leaves_only_what_came_meanwhile(act: Act, error: BaseException) -> None:
    def fail(request: Any) -> str:
        state.add_message(Message.user("meanwhile"))
        raise error

    state = told()
    before = kinds(state)
    with pytest.raises(type(error)) as raised:
        act(agent(fail), "compact", state)
    assert raised.value is error
    assert kinds(state) == [*before, "user"]
    assert texts(state)[-1] == "meanwhile"
    act(agent("better"), "compact", state)
    assert change(state).kept == 0


def test_a_reporter_that_raises_leaves_the_compaction(act: Act) -> None:
    error, state, shelf = OSError("no paper"), told(), Shelf()
    with pytest.raises(OSError, match="no paper") as raised:
        act(agent("s", reporter=Heard(context_change=error), store=shelf), "compact", state)
    assert raised.value is error
    assert change(state).summary == "s"
    assert kinds(state)[-1] == "context_change"
    assert shelf.load(state.id).history == state.history


def test_what_is_no_reply_is_a_type_error(act: Act) -> None:
    class Odd(FakeModel):
        def respond(self, request: Any, on_text: Any = None, on_event: Any = None) -> Any:
            return "summary"

    state = told()
    with pytest.raises(TypeError, match="Reply"):
        act(agent().copy(model=Odd([])), "compact", state)
    assert not journal_of(state).compacting


def test_a_compaction_in_a_run_that_fails_is_recorded_by_the_run_alone(act: Act) -> None:
    def loop(agent: Any, state: State) -> Any:
        yield agent, "compact", state

    made, state = agent(OSError("torn"), loop=written(act, loop)), told()
    with pytest.raises(OSError, match="torn"):
        act(made, "run", state)
    assert kinds(state)[-2:] == ["run_start", "error"]


def test_ctrl_c_at_any_wait_leaves_a_state_that_can_be_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    def compact(*where: tuple[int, bool]) -> int:
        shelf, state = Shelf(), told()
        made = agent("a", "b", store=shelf)
        waits = waits_of(monkeypatch, lambda: made.compact(state), *where)
        assert not journal_of(state).compacting
        made.compact(state)
        assert shelf.load(state.id).history == state.history
        return waits

    waits = compact()
    assert waits >= 4
    for where in itertools.product(range(waits), [False, True]):
        compact(*[where])


def test_a_cancelled_compaction_is_over() -> None:
    async def main() -> None:
        compacting = asyncio.create_task(agent(hang).acompact(state))
        await soon(waiting)
        compacting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await compacting
        await agent("better").acompact(state)

    def hang(request: Any) -> str:
        waiting.set()
        wait_for(over)
        return "late"

    waiting, over, state = threading.Event(), threading.Event(), told()
    try:
        asyncio.run(main())
    finally:
        over.set()
    assert change(state).summary == "better"


def test_a_compaction_cancelled_while_it_waits_for_the_lock_is_over() -> None:
    async def main() -> None:
        compacting = asyncio.create_task(agent("s").acompact(state))
        await asyncio.sleep(0)
        compacting.cancel()
        holding.set()
        with pytest.raises(asyncio.CancelledError):
            await compacting

    def hold(now: Any) -> Any:
        held.set()
        wait_for(holding)
        return ()

    state, held, holding = told(), threading.Event(), threading.Event()
    holder = threading.Thread(target=journal_of(state).record, args=(hold,))
    holder.start()
    wait_for(held)
    asyncio.run(main())
    holder.join()
    assert not journal_of(state).compacting


# Saving


def test_it_saves_at_its_end(act: Act) -> None:
    shelf, state = Shelf(), told()
    act(agent("s", store=shelf), "compact", state)
    assert shelf.writes == [(True, kinds(state))]


def test_it_saves_after_a_failure(act: Act) -> None:
    shelf, state = Shelf(), told()
    with pytest.raises(OSError, match="torn"):
        act(agent(OSError("torn"), store=shelf), "compact", state)
    assert shelf.load(state.id).history == state.history


def test_a_save_that_fails_at_its_end_leaves_the_compaction(act: Act) -> None:
    def full(number: int, kinds: list[str]) -> None:
        if number == 0:
            raise OSError("disk full")

    shelf, state = Shelf(full), told()
    with pytest.raises(OSError, match="disk full"):
        act(agent("s", store=shelf), "compact", state)
    assert change(state).summary == "s"
    shelf.save(state)
    assert shelf.load(state.id).history == state.history


def test_a_save_that_fails_too_is_a_note(act: Act) -> None:
    def full(number: int, kinds: list[str]) -> None:
        raise OSError("disk full")

    with pytest.raises(ValueError, match="torn") as raised:
        act(agent(ValueError("torn"), store=Shelf(full)), "compact", told())
    assert "disk full" in raised.value.__notes__[0]


def test_what_is_not_written_yet_is_written_before_the_model_is_asked(act: Act, tmp_path: Path) -> None:
    def look(request: Any) -> str:
        assert store.load(state.id).history == state.history
        return "s"

    store, state = SqliteStore(tmp_path / "runs.db"), told()
    store.save(state)
    for action in ("compact", "ask"):
        journal_of(state).record(rules.model_event, ModelEvent("note", "not written yet"))
        act(agent(look), action, state, "Which city?")
