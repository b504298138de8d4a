"""One tool call: what becomes of what a tool returns or raises."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from runs import Heard, agent, call, is_async, since, started

from alpineagents import Image, State, Tool, ToolError, ToolInputError, ToolOutcomeKind, ToolResultEntry, tool
from alpineagents.errors import explain
from alpineagents.types import INVALID_ARGS_KEY, TRUNCATED_ARGS_MESSAGE, TextBlock

Act = Callable[..., Any]
PNG = Image(b"\x89PNG\r\n\x1a\n")


class Doing(Tool):
    """A tool that does what the test says."""

    def __init__(self, do: Callable[[dict[str, Any]], Any]) -> None:
        super().__init__(name="do")
        self.do = do

    def run(self, args: dict[str, Any], state: State) -> Any:
        return self.do(args)


class AsyncDoing(Doing):
    async def run(self, args: dict[str, Any], state: State) -> Any:  # type: ignore[override]
        return self.do(args)


KINDS = [Doing, AsyncDoing]


def result(act: Act, made: Tool, **args: Any) -> ToolResultEntry:
    """The result of one call to the tool in a run that goes on behind it."""
    state = started()
    act(agent(call("do", "c1", **args), "on", tools=[made]), "run", state)
    assert state.answer == "on"
    return next(entry for entry in state.history if isinstance(entry, ToolResultEntry))


def raising(error: BaseException) -> Callable[[Any], Any]:
    def do(args: Any) -> Any:
        raise error

    return do


# What a tool returns


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("value", "content"),
    [
        (None, "(done)"),
        ("2 kg", "2 kg"),
        ("", ""),
        ({"id": 7}, '{"id": 7}'),
        (PNG, (PNG,)),
        (["chart", PNG], (TextBlock("chart"), PNG)),
        ("(aborted: nothing to do)", "(aborted: nothing to do)"),
    ],
)
def test_what_a_tool_returns_is_the_result(act: Act, kind: type[Doing], value: Any, content: Any) -> None:
    entry = result(act, kind(lambda args: value))
    assert entry.content == content
    assert entry.outcome is ToolOutcomeKind.DONE
    assert entry.error is None
    assert not entry.is_error


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_the_reporter_and_the_history_get_the_same_result(act: Act, kind: type[Doing]) -> None:
    class Keeping(Heard):
        def on_tool_end(self, state: State, call: Any, result: Any, outcome: Any) -> None:
            ends.append((result, outcome.kind, outcome.error))

    ends: list[Any] = []
    made = agent(call("do", "c1"), "on", tools=[kind(lambda args: [PNG, "x"])], reporter=Keeping())
    state = started()
    act(made, "run", state)
    content = (PNG, TextBlock("x"))
    assert ends == [(content, ToolOutcomeKind.DONE, None)]
    assert state.messages[2].content[0].content == content  # type: ignore[union-attr]


def test_a_def_that_returns_an_awaitable_is_awaited_where_the_call_runs(act: Act) -> None:
    async def later() -> str:
        await asyncio.sleep(0)
        return "later"

    assert result(act, Doing(lambda args: later())).content == "later"


@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_gets_its_own_copy_of_the_arguments(act: Act, kind: type[Doing]) -> None:
    def spoil(args: dict[str, Any]) -> str:
        assert type(args) is dict
        assert type(args["items"]) is list
        args["items"].append("x")
        args["more"] = 1
        return "spoiled"

    entry = result(act, kind(spoil), items=["a"])
    assert entry.call.args == {"items": ["a"]}


# What a tool raises for the model


@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_error_is_an_error_result_and_the_run_goes_on(act: Act, kind: type[Doing]) -> None:
    error = ToolError("no such parcel")
    entry = result(act, kind(raising(error)))
    assert (entry.content, entry.outcome, entry.is_error) == ("no such parcel", ToolOutcomeKind.ERROR, True)
    assert entry.error is error


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["bad number", ""])
def test_a_tool_input_error_is_an_input_error(act: Act, kind: type[Doing], text: str) -> None:
    entry = result(act, kind(raising(ToolInputError(text))))
    assert (entry.content, entry.outcome) == (f"(input error: {text})", ToolOutcomeKind.INPUT_ERROR)
    assert entry.error is None


class Mute(ToolError):
    def __str__(self) -> str:
        raise ValueError("no text")


class NoText(ToolInputError):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]  # noqa: PLE0307  # as in a person's mistake


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [Mute("x"), NoText("x")])
def test_an_error_for_the_model_without_a_text_does_not_hang_the_run(
    act: Act, kind: type[Doing], error: Exception
) -> None:
    assert "(no message: str() raised" in str(result(act, kind(raising(error))).content)


def test_the_outcome_of_an_error_result_has_no_error_for_the_reporter(act: Act) -> None:
    heard = Heard()
    made = agent(call("do", "c1"), "on", tools=[Doing(raising(ToolError("no")))], reporter=heard)
    act(made, "run", "Go")
    assert heard.errors == [None, None]
    assert "tool_end c1 error: no" in heard.events


def test_arguments_that_do_not_fit_are_an_input_error(act: Act) -> None:
    @tool
    def do(grams: int) -> str:
        """Weigh"""
        raise AssertionError

    entry = result(act, do, colour="red")
    assert entry.content == "(input error: grams: required argument is missing; colour: unknown argument)"
    assert entry.outcome is ToolOutcomeKind.INPUT_ERROR


def test_a_handler_turns_an_exception_into_an_error_result(act: Act) -> None:
    def explained(error: TimeoutError) -> str:
        return f"too slow: {error}"

    @tool(exception_handler=explained)
    def do() -> str:
        """Wait"""
        raise error

    error = TimeoutError("5 s")
    entry = result(act, do)
    assert (entry.content, entry.outcome) == ("too slow: 5 s", ToolOutcomeKind.ERROR)
    assert isinstance(entry.error, ToolError)
    assert entry.error.__cause__ is error


# What a tool raises to stop the run


class Weird(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Unequal(Exception):
    def __eq__(self, other: object) -> bool:
        raise AssertionError

    def __bool__(self) -> bool:
        raise AssertionError

    __hash__ = None  # type: ignore[assignment]


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int


ABORTING: list[tuple[BaseException, str]] = [
    (OSError("scale offline"), "OSError: scale offline"),
    (KeyError(), "KeyError"),
    (KeyError("x"), "KeyError: 'x'"),
    (SystemExit(3), "SystemExit: 3"),
    (GeneratorExit(), "GeneratorExit"),
    (StopAsyncIteration(), "StopAsyncIteration"),
    (Weird(), "Weird: (no message: str() raised ValueError)"),
    (Unequal("x"), "Unequal: x"),
    (Frozen(3), "Frozen: 3"),
    (BaseExceptionGroup("two", [KeyError("x"), OSError("y")]), "ExceptionGroup: two (2 sub-exceptions)"),
    (AssertionError(explain("a", "b")), "AssertionError: a\nFix: b"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("error", "text"), ABORTING)
def test_any_other_exception_stops_the_run_and_closes_the_call(
    act: Act, kind: type[Doing], error: BaseException, text: str
) -> None:
    heard, state = Heard(), started()
    made = agent(call("do", "c1"), tools=[kind(raising(error))], reporter=heard)
    with pytest.raises(type(error)) as raised:
        act(made, "run", state)
    name = type(error).__name__
    assert raised.value is error
    assert since(state) == [f"error of do: {text}", f"do aborted: (aborted: {name})"]
    assert heard.events[-2:] == [f"tool_end c1 aborted: (aborted: {name})", f"run_end {name}"]
    assert heard.errors[0] is error
    assert state.history[-1].error is error  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), KeyboardInterrupt("x"), asyncio.CancelledError()])
def test_an_interrupt_that_a_tool_raises_closes_its_call_as_interrupted(
    act: Act, kind: type[Doing], error: BaseException
) -> None:
    heard, state = Heard(), started()
    with pytest.raises(type(error)) as raised:
        act(agent(call("do", "c1"), tools=[kind(raising(error))], reporter=heard), "run", state)
    assert raised.value is error or is_async(act)  # asyncio makes a CancelledError of its own
    first, second = since(state)
    assert first.startswith(f"error of do: {type(error).__name__}")
    assert second == "do interrupted: (interrupted by user)"
    assert heard.events[-2] == "tool_end c1 interrupted: (interrupted by user)"


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_iteration_of_a_tool_is_recorded_as_what_it_is(act: Act, kind: type[Doing]) -> None:
    # No coroutine can raise one: Python wraps it in a RuntimeError, in an async tool and in the async half.
    error = StopIteration("empty")
    state = started()
    with pytest.raises((StopIteration, RuntimeError)) as raised:
        act(agent(call("do", "c1"), tools=[kind(raising(error))]), "run", state)
    assert error in (raised.value, raised.value.__cause__)
    assert since(state) == ["error of do: StopIteration: empty", "do aborted: (aborted: StopIteration)"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_python_makes_of_a_stop_iteration_in_a_tools_own_generator_stays_as_it_is(
    act: Act, kind: type[Doing]
) -> None:
    def numbers() -> Iterator[int]:
        yield next(iter(()))

    state = started()
    with pytest.raises(RuntimeError, match="generator raised StopIteration"):
        act(agent(call("do", "c1"), tools=[kind(lambda args: list(numbers()))]), "run", state)
    assert since(state)[-1] == "do aborted: (aborted: RuntimeError)"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [object(), b"\xff", {"image": PNG}])
def test_a_result_without_a_json_form_is_an_exception_of_the_tool(act: Act, kind: type[Doing], value: Any) -> None:
    state = started()
    with pytest.raises(TypeError, match="JSON"):
        act(agent(call("do", "c1"), tools=[kind(lambda args: value)]), "run", state)
    assert since(state)[-1] == "do aborted: (aborted: TypeError)"


def test_the_exception_has_a_note_with_the_call(act: Act) -> None:
    error = OSError("scale offline")
    with pytest.raises(OSError, match="scale offline"):
        act(agent(call("do", "c1", parcel="B"), tools=[Doing(raising(error))]), "run", "Go")
    assert error.__notes__ == ['exception raised in tool do(parcel="B")']


def test_an_awaitable_may_be_of_any_kind(act: Act) -> None:
    class Later:
        def __await__(self) -> Any:
            yield from asyncio.sleep(0).__await__()
            return "later"

    assert isinstance(Later(), Awaitable)
    assert result(act, Doing(lambda args: Later())).content == "later"


# Calls that cannot run


def test_an_unknown_tool_is_an_input_error_that_lists_the_tools(act: Act) -> None:
    state = started()
    heard = Heard()
    made = agent(call("it's", "c1"), "on", tools=[Doing(print)], reporter=heard)
    act(made, "run", state)
    text = """(input error: unknown tool "it's". Available tools: do)"""
    assert f"it's input_error: {text}" in since(state, "context_change")
    assert heard.events[3:5] == ["tool_start c1", f"tool_end c1 input_error: {text}"]


def test_without_tools_every_tool_is_unknown(act: Act) -> None:
    state = started()
    act(agent(call("do", "c1"), "on"), "run", state)
    assert "do input_error: (input error: unknown tool 'do'. Available tools: (none))" in since(state, "context_change")


def test_the_tools_are_listed_in_the_order_of_the_map(act: Act) -> None:
    @tool
    def zoom() -> None:
        """Zoom in"""

    state = started()
    act(agent(call("ghost", "c1"), "on", tools=[zoom, Doing(print)]), "run", state)
    assert any(line.endswith("Available tools: zoom, do)") for line in since(state, "context_change"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ('{"grams": ', '(input error: arguments are not valid JSON: {"grams": )'),
        ("", "(input error: arguments are not valid JSON: )"),
        (TRUNCATED_ARGS_MESSAGE, f"(input error: {TRUNCATED_ARGS_MESSAGE})"),
    ],
)
def test_arguments_that_could_not_be_read_are_an_input_error(act: Act, kind: type[Doing], raw: str, text: str) -> None:
    entry = result(act, kind(raising(AssertionError())), **{INVALID_ARGS_KEY: raw})
    assert (entry.content, entry.outcome, entry.error) == (text, ToolOutcomeKind.INPUT_ERROR, None)
    assert entry.is_error


def test_an_unknown_name_is_reported_before_unreadable_arguments(act: Act) -> None:
    state = started()
    act(agent(call("ghost", "c1", **{INVALID_ARGS_KEY: "{"}), "on"), "run", state)
    assert any("unknown tool 'ghost'" in line for line in since(state, "run_start"))


def test_an_argument_of_that_name_beside_others_is_an_argument(act: Act) -> None:
    entry = result(act, Doing(sorted), **{INVALID_ARGS_KEY: "x", "more": 1})
    assert entry.outcome is ToolOutcomeKind.DONE
