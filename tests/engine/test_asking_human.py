"""ask_human: who is asked, what is recorded, and what is refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from runs import Heard, Nobody, Shelf, agent, call, is_async, started, written

from alpineagents import Human, Message, NoHumanError, SqliteStore, State, Usage, tool
from alpineagents.testing import FakeHuman
from alpineagents.types import Exchange

Act = Callable[..., Any]


class Size(Enum):
    SMALL = "S"


@tool
def seal() -> str:
    """Seal a parcel"""
    return "sealed"


def kinds(state: State) -> list[str]:
    return [entry.kind for entry in state.history]


@pytest.mark.parametrize(
    ("typed", "returns", "answer"),
    [(" Oslo ", str, "Oslo"), ("yes", bool, True), ("keep", Literal["keep", "drop"], "keep"), ("2", Literal[1, 2], 2)],
)
def test_the_answer_is_returned_and_recorded_and_nothing_else_changes(
    act: Act, typed: str, returns: Any, answer: Any
) -> None:
    state, human = started(), FakeHuman([typed])
    act(agent("done"), "run", state)
    before = state.snapshot()
    assert act(agent(human=human), "ask_human", state, "Which?", returns) == answer
    assert human.questions == ["Which?"]
    entry = state.history[-1]
    assert entry.kind == "human"
    assert entry.content == Exchange("Which?", answer)
    assert entry.usage is None
    assert len(state.history) == len(before.history) + 1
    for name in ("messages", "turn", "answer", "pending_calls", "stopped", "usage"):
        assert getattr(state, name) == getattr(before, name)


def test_without_returns_text_is_asked_for(act: Act) -> None:
    assert act(agent(human=FakeHuman(["7"])), "ask_human", started(), "How many?") == "7"


def test_a_finished_state_and_one_with_pending_calls_can_be_asked_about(act: Act) -> None:
    made, state = agent(call("seal", "c1"), tools=[seal], human=FakeHuman(["a", "b"])), started()
    act(made, "think", state)
    assert act(made, "ask_human", state, "Which?") == "a"
    state.finish()
    assert act(made, "ask_human", state, "Which?") == "b"
    assert kinds(state)[-3:] == ["human", "stop", "human"]


def test_a_choice_without_a_json_form_is_kept_as_its_type_writes_it(act: Act) -> None:
    state = started()
    assert act(agent(human=FakeHuman([Size.SMALL])), "ask_human", state, "Size?", Literal[Size.SMALL]) is Size.SMALL
    assert state.history[-1].content == Exchange("Size?", "S")


def test_nothing_is_reported_or_saved(act: Act) -> None:
    heard, shelf = Heard(), Shelf()
    act(agent(human=FakeHuman(["a"]), reporter=heard, store=shelf), "ask_human", started(), "Which?")
    assert (heard.events, shelf.writes) == ([], [])


def test_where_every_change_is_written_an_answer_is_too(act: Act, tmp_path: Path) -> None:
    store, state = SqliteStore(tmp_path / "runs.db"), started()
    store.save(state)
    act(agent(human=FakeHuman(["a"])), "ask_human", state, "Which?")
    assert kinds(store.load(state.id))[-1] == "human"


def test_the_human_of_the_run_is_asked(act: Act) -> None:
    def loop(agent: Any, state: State) -> Any:
        return (yield agent, "ask_human", state, "Which?")

    made = agent(human=FakeHuman(["a"]), loop=written(act, loop))
    assert act(made, "run", "Go") == "a"


def test_a_question_does_not_change_who_hears_of_context_changes(act: Act) -> None:
    first, second, state = Heard(), Heard(), started()
    act(agent("done", reporter=first), "think", state)
    act(agent(reporter=second, human=FakeHuman(["a"])), "ask_human", state, "Which?")
    state.compact("a summary")
    assert first.events[-1] == "context_change compact"
    assert second.events == []


def test_others_may_change_the_state_while_a_person_thinks(act: Act) -> None:
    class Slow(Human):
        def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
            other = threading.Thread(target=state.add_message, args=(Message.user("hurry"),))
            other.start()
            other.join(20)
            assert not other.is_alive()
            return "a"

    state = started()
    act(agent(human=Slow()), "ask_human", state, "Which?")
    assert kinds(state) == ["context_change", "user", "human"]


class Later(Human):
    """Can only be asked in async code."""

    async def aask(self, state: State, prompt: str, returns: Any = str) -> Any:
        await asyncio.sleep(0)
        return "later"


class Both(Later):
    def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
        return "now"


def test_each_half_asks_its_own_half_of_a_human(act: Act) -> None:
    assert act(agent(human=Both()), "ask_human", started(), "Which?") == ("later" if is_async(act) else "now")


def test_a_human_without_ask_is_refused_in_sync_code() -> None:
    state = started()
    with pytest.raises(TypeError, match="aask_human"):
        agent(human=Later()).ask_human(state, "Which?")
    assert len(state.history) == 1
    assert asyncio.run(agent(human=Later()).aask_human(state, "Which?")) == "later"


def test_a_human_without_aask_is_asked_on_a_worker_thread_in_async_code() -> None:
    class Here(Human):
        def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
            return threading.current_thread().name

    assert asyncio.run(agent(human=Here()).aask_human(started(), "Which?")) != threading.current_thread().name


def test_without_a_human_nobody_is_asked(act: Act) -> None:
    state = started()
    with pytest.raises(NoHumanError) as refused:
        act(agent(human=None), "ask_human", state, "Delete it?", object())
    for part in ("Delete it?", "human=None", "human=", "FakeHuman"):
        assert part in str(refused.value)
    assert len(state.history) == 1


@pytest.mark.parametrize("returns", [int, None, list[str], "bool", bool | None])
def test_other_types_are_refused_before_anybody_is_asked(act: Act, returns: Any) -> None:
    state = started()
    with pytest.raises(TypeError, match="Literal"):
        act(agent(human=Nobody()), "ask_human", state, "Which?", returns)
    assert len(state.history) == 1


@pytest.mark.parametrize("prompt", [None, 3, b"Which?"])
def test_a_prompt_is_a_str(act: Act, prompt: Any) -> None:
    with pytest.raises(TypeError, match="prompt"):
        act(agent(human=Nobody()), "ask_human", started(), prompt)


@pytest.mark.parametrize("error", [EOFError(), KeyboardInterrupt(), OSError("torn")])
def test_what_the_human_raises_passes_and_records_nothing(act: Act, error: BaseException) -> None:
    class Gone(Human):
        def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
            raise error

    state = started()
    with pytest.raises(type(error)) as raised:
        act(agent(human=Gone()), "ask_human", state, "Which?")
    assert raised.value is error
    assert len(state.history) == 1
    assert state.usage == Usage()
