"""Tools made of functions, from what the model asks to what it hears."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from alpineagents import Image, SqliteStore, State, tool
from alpineagents.types import ToolResultBlock, ToolResultEntry
from tests.runs import agent, call, fake, started

Act = Callable[..., Any]
CHART = Image(b"\x89PNG\r\n\x1a\n and more")


@dataclasses.dataclass
class Stop:
    name: str
    minutes: int = 5


def results(state: State) -> list[tuple[str, Any]]:
    return [(str(entry.outcome), entry.content) for entry in state.history if isinstance(entry, ToolResultEntry)]


def hear(act: Act, made: Any, *calls: dict[str, Any]) -> list[tuple[str, Any]]:
    """How calls of one reply with these arguments end."""
    state = started()
    asked = [call(made.name, f"c{index}", **args) for index, args in enumerate(calls)]
    act(agent(asked, "on", tools=[made]), "run", state)
    assert state.answer == "on"
    return results(state)


def test_an_image_reaches_history_messages_request_and_store_unchanged(act: Act, tmp_path: Path) -> None:
    @tool
    def draw() -> list[Any]:
        return ["as asked", CHART]

    with SqliteStore(tmp_path / "runs.db") as store:
        made = agent(call("draw", "c1"), "on", tools=[draw], store=store)
        state = started(id="drawing")
        act(made, "run", state)
        (_, content), *_ = results(state)
        assert content[1] == CHART
        block = state.messages[2].content[0]
        assert isinstance(block, ToolResultBlock)
        assert block.content == content
        assert fake(made).requests[1].messages[2] == state.messages[2]
        loaded = store.load("drawing")
        assert results(loaded) == [("done", content)]
        loaded.clear_tool_results(keep_last=0)
        assert loaded.messages[2].content[0].content == "(cleared: kept in history)"  # type: ignore[union-attr]
        assert results(loaded) == [("done", content)]


def test_arguments_arrive_converted_and_every_problem_is_told(act: Act) -> None:
    @tool
    def plan(stops: list[Stop], fast: bool = False, *, state: State) -> Any:
        return [stops, fast, state.turn]

    good, bad = {"stops": [{"name": "Ulm", "minutes": "7"}], "fast": "yes"}, {"stops": 5, "state": 1}
    assert hear(act, plan, good) == [("done", '[[{"name": "Ulm", "minutes": 7}], true, 1]')]
    assert hear(act, plan, {"stops": []}) == [("done", "[[], false, 1]")]
    assert hear(act, plan, bad) == [
        ("input_error", "(input error: stops: Input should be a valid list; state: unknown argument)")
    ]


def test_a_second_run_of_a_call_sees_the_arguments_as_they_were(act: Act) -> None:
    seen: list[list[str]] = []

    @tool
    def note(lines: list[str], more: dict[str, list[int]]) -> str:
        seen.append(list(lines))
        lines.append("edited")
        more["k"].append(1)
        if len(seen) == 1:
            raise ConnectionError("busy")
        return str(more)

    made = agent(call("note", "c1", lines=["a"], more={"k": []}), tools=[note])
    state = started()
    act(made, "think", state)
    with pytest.raises(ConnectionError):
        act(made, "use_tools", state)
    act(made, "use_tools", state)
    assert seen == [["a"], ["a"]]
    assert results(state) == [("done", "{'k': [1]}")]


def test_a_mutable_default_is_new_for_every_call(act: Act) -> None:
    @tool
    def collect(items: list[int] = []) -> int:  # noqa: B006 - people write it
        items.append(1)
        return len(items)

    assert hear(act, collect, {}, {}, {"items": [1, 2]}).count(("done", "1")) == 2


def test_a_generator_is_a_list_and_its_exceptions_are_the_tools(act: Act) -> None:
    def busy(error: ConnectionError) -> str:
        return f"try later: {error}"

    @tool(exception_handler=busy)
    def count(n: int) -> Iterator[int]:
        yield from range(n)
        if n > 2:
            raise ConnectionError("busy")

    assert sorted(hear(act, count, {"n": 2}, {"n": 3})) == [("done", "[0, 1]"), ("error", "try later: busy")]


@pytest.mark.parametrize("text", ["", " ", "a\0b", "a\ud800", "\udfff\ud800", "\U0001f600"])
def test_any_text_comes_back_as_it_went(act: Act, text: str, tmp_path: Path) -> None:
    @tool
    def echo(text: str) -> str:
        return text

    with SqliteStore(tmp_path / "runs.db") as store:
        state = started(id="echo")
        act(agent(call("echo", "c1", text=text), "on", tools=[echo], store=store), "run", state)
        assert results(state) == results(store.load("echo")) == [("done", text)]
