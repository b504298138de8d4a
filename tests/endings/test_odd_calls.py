"""Calls that no schema would let pass, and replies that cannot be saved, through whole runs into the file and on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import Heard, agent, call, started, wait_for

from alpineagents import Message, SqliteStore, State, ToolResultEntry, tool
from alpineagents.store import check
from alpineagents.types import ToolCall

Act = Callable[..., Any]


@tool
def echo(text: str = "") -> str:
    """Give the text back."""
    return text


ODD_CALLS: dict[str, list[ToolCall]] = {
    "lone surrogates in an argument": [call("echo", "a", text="a\ud800b")],
    "NUL in an argument": [call("echo", "a", text="a\0b")],
    "an argument with an odd name": [ToolCall("echo", {"\ud800": 1}, "a")],
    "an integer beyond 64 bits": [call("echo", "a", text=10**400)],
    "an id of another provider": [ToolCall("echo", {}, "functions.echo:0|x y")],
    "lone surrogates and NUL in an id": [ToolCall("echo", {}, "\ud800\0")],
    "an id of 100,000 characters": [ToolCall("echo", {}, "a" * 100_000)],
    "a tool without a name": [ToolCall("", {}, "a")],
    "a tool that is no text": [ToolCall("\ud800", {}, "a")],
    "one id for a tool and an unknown one": [call("nope", "a"), call("echo", "a", text="x")],
    "one id three times": [call("echo", "a", text="x"), call("echo", "a", text="x"), call("echo", "a", text=1)],
}
UNSAVABLE: dict[str, Any] = {"a set": {1}, "NaN": float("nan"), "infinity": float("inf"), "bytes": b"x"}


def goes_on(act: Act, path: Path, replies: list[Any], **settings: Any) -> State:
    """The State of a run that answered, and that went on from the file."""
    store, state = SqliteStore(path, synchronous="normal"), started(id="s")
    made = agent(*replies, "Done", "Done again", store=store, **settings)
    assert act(made, "run", state) == "Done"
    loaded = store.load("s")
    assert loaded.snapshot() == state.snapshot()
    loaded.add_message(Message.user("Go on"))
    assert act(made, "run", loaded) == "Done again"
    assert store.load("s").snapshot() == loaded.snapshot()
    store.close()
    assert check(path) == []
    return state


def results(state: State) -> list[ToolResultEntry]:
    return [entry for entry in state.history if isinstance(entry, ToolResultEntry)]


@pytest.mark.parametrize("name", ODD_CALLS)
def test_a_run_with_such_a_call_gives_it_a_result_and_goes_on(name: str, act: Act, tmp_path: Path) -> None:
    state = goes_on(act, tmp_path / "runs.db", [ODD_CALLS[name]], tools=[echo])
    assert [entry.call.id for entry in results(state)] == [asked.id for asked in ODD_CALLS[name]]


@pytest.mark.parametrize("name", UNSAVABLE)
def test_a_reply_that_cannot_be_saved_is_taken_back_and_the_next_one_counts(
    name: str, act: Act, tmp_path: Path
) -> None:
    store, state = SqliteStore(tmp_path / "runs.db", synchronous="normal"), started(id="s")
    made = agent(ToolCall("echo", {"text": UNSAVABLE[name]}, "a"), "Done", tools=[echo], store=store)
    with pytest.raises(TypeError, match=r"args\['text'\].*is not JSON"):
        act(made, "run", state)
    assert (state.turn, len(state.messages), state.pending_calls) == (0, 1, ())
    loaded = store.load("s")
    assert loaded.snapshot() == state.snapshot()
    assert act(made, "run", loaded) == "Done"
    store.close()


def test_results_in_the_order_they_end_are_sent_in_the_order_of_their_calls(act: Act, tmp_path: Path) -> None:
    ended = [threading.Event() for _ in range(4)]
    ended[3].set()

    @tool
    def wait(number: int) -> str:
        """Wait for the next one to end."""
        wait_for(ended[number + 1])
        return str(number)

    class Telling(Heard):
        def on_tool_end(self, state: State, call: ToolCall, result: Any, outcome: Any) -> None:
            ended[call.args["number"]].set()

    calls = [call("wait", f"c{number}", number=number) for number in range(3)]
    state = goes_on(act, tmp_path / "runs.db", [calls], tools=[wait], reporter=Telling())
    assert [entry.content for entry in results(state)] == ["2", "1", "0"]
    assert [block.content for block in state.messages[2].content] == ["0", "1", "2"]  # type: ignore[union-attr]
