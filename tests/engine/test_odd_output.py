"""What models and tools really give, through whole runs into the file and out of it again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import agent, call, started, story

from alpineagents import Message, SqliteStore, State, ToolResultEntry, tool
from alpineagents.store import check
from alpineagents.types import INVALID_ARGS_KEY, Reply, TextBlock, ToolCall, Usage

Act = Callable[..., Any]
LARGE = 50 * 1024**2


@tool
def look(n: int = 0) -> str:
    """Look."""
    return f"seen {n}"


@tool
def fails() -> str:
    """Fail."""
    raise KeyError


def reply(*blocks: Any, **fields: Any) -> Reply:
    return Reply(Message("assistant", blocks), Usage(requests=1), **fields)


CALLS: dict[str, tuple[list[ToolCall], list[str]]] = {
    "no arguments": ([call("look", "a")], ["look done: seen 0"]),
    "broken JSON": (
        [ToolCall("look", {INVALID_ARGS_KEY: '{"n": 1'}, "a")],
        ['look input_error: (input error: arguments are not valid JSON: {"n": 1)'],
    ),
    "two objects glued together": (
        [ToolCall("look", {INVALID_ARGS_KEY: '{"n": 1}{"n": 2}'}, "a")],
        ['look input_error: (input error: arguments are not valid JSON: {"n": 1}{"n": 2})'],
    ),
    "one id twice in a reply": (
        [call("look", "a", n=1), call("look", "a", n=2)],
        ["look done: seen 1", "look done: seen 2"],
    ),
    "no id": ([call("look", "", n=1)], ["look done: seen 1"]),
    "an unknown tool": (
        [call("lok", "a")],
        ["lok input_error: (input error: unknown tool 'lok'. Available tools: look, fails)"],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_run_with_such_calls_is_in_the_file_and_goes_on(name: str, act: Act, tmp_path: Path) -> None:
    calls, results = CALLS[name]
    state = kept(act, tmp_path, [calls, "Done"], "a")
    assert sorted([line for line in story(state) if line.startswith(("look ", "lok "))]) == results


def kept(act: Act, folder: Path, replies: list[Any], id: str, **settings: Any) -> State:
    """The State of a run that was saved, loaded, and gone on with."""
    store = SqliteStore(folder / "runs.db")
    tools = settings.pop("tools", [look, fails])
    state = started(id=id)
    assert act(agent(*replies, tools=tools, store=store, **settings), "run", state) == "Done"
    loaded = store.load(id)
    assert loaded.snapshot() == state.snapshot()
    loaded.add_message(Message.user("Go on"))
    assert act(agent("Done", tools=tools, store=store, **settings), "run", loaded) == "Done"
    assert check(folder / "runs.db") == []
    store.close()
    return state


def test_an_id_used_again_in_a_later_turn_is_another_call(act: Act, tmp_path: Path) -> None:
    state = kept(act, tmp_path, [call("look", "a", n=1), call("look", "a", n=2), "Done"], "s")
    assert [entry.content for entry in state.history if isinstance(entry, ToolResultEntry)] == ["seen 1", "seen 2"]


def test_extra_arguments_are_refused_by_name(act: Act, tmp_path: Path) -> None:
    state = kept(act, tmp_path, [call("look", "a", n=1, m=2), "Done"], "s")
    [result] = [entry for entry in state.history if isinstance(entry, ToolResultEntry)]
    assert result.outcome == "input_error"
    assert "m" in str(result.content)


def test_a_parallel_call_that_raises_an_empty_exception_leaves_the_others_their_results(
    act: Act, tmp_path: Path
) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    state = started(id="s")
    calls = [call("look", "a", n=1), call("fails", "b"), call("look", "c", n=2)]
    with pytest.raises(KeyError) as raised:
        act(agent(calls, tools=[look, fails], store=store), "run", state)
    assert raised.value.__notes__ == ["exception raised in tool fails()"]
    outcomes = {entry.call.id: str(entry.outcome) for entry in state.history if isinstance(entry, ToolResultEntry)}
    assert outcomes == {"a": "done", "b": "aborted", "c": "done"}
    loaded = store.load("s")
    assert loaded.snapshot() == state.snapshot()
    assert act(agent("Done", tools=[look, fails], store=store), "run", loaded) == "Done"


RESULTS: dict[str, Any] = {
    "None": None,
    "an empty text": "",
    "an empty list": [],
    "bytes": b"\x00 text",
    "NaN": float("nan"),
    "lone surrogates": "a\ud800b\udc00",
    "NUL": "a\0b",
    "a text that looks like an escape": "\ue000d800 \\ud800",
}


@pytest.mark.parametrize("name", RESULTS)
def test_what_such_a_tool_returned_comes_back_from_the_file(name: str, act: Act, tmp_path: Path) -> None:
    @tool
    def odd() -> Any:
        """Give something odd."""
        return RESULTS[name]

    kept(act, tmp_path, [call("odd", "a"), "Done"], "s", tools=[odd])


def test_a_result_of_50_mb_is_kept_whole(tmp_path: Path) -> None:
    @tool
    def large() -> str:
        """Give much."""
        return "x" * LARGE

    store = SqliteStore(tmp_path / "runs.db")
    state = started(id="s")

    def loop(agent: Any, state: State) -> None:
        agent.think(state)
        agent.use_tools(state)

    agent(call("large", "a"), tools=[large], store=store, loop=loop).run(state)
    [result] = [entry for entry in store.load("s").history if isinstance(entry, ToolResultEntry)]
    assert len(str(result.content)) == LARGE
    store.close()


def test_empty_replies_and_texts_are_kept_as_they_came(act: Act, tmp_path: Path) -> None:
    call_and_blank = reply(TextBlock(""), call("look", "a"), TextBlock(" "), stop_reason="tool_use")
    state = kept(act, tmp_path, [call_and_blank, reply(TextBlock("Done"), TextBlock(""))], "s")
    assert state.messages[1].content == call_and_blank.message.content


def test_two_hundred_async_runs_at_once_are_all_in_the_file(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")

    async def one(number: int) -> Any:
        calls = [call("look", f"c{number}", n=number), call("look", f"d{number}", n=-number)]
        return await agent(calls, f"Done {number}", tools=[look], store=store).arun(started(id=f"s{number}"))

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*[one(number) for number in range(200)])

    assert asyncio.run(all_of_them()) == [f"Done {number}" for number in range(200)]
    assert check(tmp_path / "runs.db") == []
    assert {str(info.stopped) for info in store.list()} == {"stopped by waiting_for_user"}
    store.close()
