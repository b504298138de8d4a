"""Agents to run in tests, loops written once for both halves of `act`, and what a run leaves behind."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from alpineagents import Agent, Human, Message, Reporter, State, Store, Tool, ToolCall
from alpineagents.history.rules import Entries
from alpineagents.state import journal_of
from alpineagents.store import Record
from alpineagents.testing import FakeModel
from alpineagents.types import (
    ErrorEntry,
    ModelReplyEntry,
    StopEntry,
    ToolResultContent,
    ToolResultEntry,
    result_text,
)

SECONDS = 20  # how long a test waits for another thread before it fails
Body = Callable[[Any, Any], Generator[Any, Any, Any]]


def agent(*replies: Any, **settings: Any) -> Agent:
    """An Agent whose model gives these replies, and who tells and asks nobody."""
    return Agent(**{"model": FakeModel(replies), "reporter": None, "human": None, **settings})


def fake(of: Agent) -> FakeModel:
    """The model of such an Agent."""
    assert isinstance(of.model, FakeModel)
    return of.model


def started(text: str = "Go", **arguments: Any) -> State:
    return State(messages=[Message.user(text)], **arguments)


def call(name: str, id: str, /, **args: Any) -> ToolCall:
    """A call with an id of our own, so that two runs record the same."""
    return ToolCall(name, args, id)


class Step(Tool):
    """A tool that calls a function of the test with the id of its call."""

    def __init__(self, step: Callable[[str], Any], name: str = "step", *, parallel: bool = True) -> None:
        super().__init__(name=name, parallel=parallel)
        self.step = step

    def run(self, args: dict[str, Any], state: State) -> Any:
        return self.step(args["id"])


class AsyncStep(Step):
    """The same as an `async def` tool; the function is one too."""

    async def run(self, args: dict[str, Any], state: State) -> Any:  # type: ignore[override]
        return await self.step(args["id"])


def step(id: str, name: str = "step") -> ToolCall:
    """A call to such a tool."""
    return call(name, id, id=id)


def story(state: State) -> list[str]:
    """The history, one short line for each entry."""
    return [_line(entry) for entry in state.history]


def _line(entry: Any) -> str:
    match entry:
        case ToolResultEntry():
            late = " late" if entry.late else ""
            return f"{entry.call.name} {entry.outcome}{late}: {result_text(entry.content)}"
        case ErrorEntry(call=ToolCall(name=name)):
            return f"error of {name}: {entry.content}"
        case ErrorEntry():
            return f"error: {entry.content}"
        case StopEntry():
            return f"stop: {entry.content}"
        case ModelReplyEntry():
            return "model_reply"
        case _:
            return entry.kind


def since(state: State, kind: str = "model_reply") -> list[str]:
    """The lines of the story behind its last entry of this kind."""
    lines = story(state)
    last = max(index for index, entry in enumerate(state.history) if entry.kind == kind)
    return lines[last + 1 :]


def is_at_rest(state: State) -> bool:
    """Whether nothing is open: no request, no call, no run."""
    journal = journal_of(state)
    return not (journal.now.waiting or state.pending_calls or journal.running)


def next_late(state: State) -> threading.Event:
    """Set when the next late result has been recorded."""
    return next_recorded(state, is_late)


def is_late(entry: Any) -> bool:
    return isinstance(entry, ToolResultEntry) and entry.late


def next_recorded(state: State, wanted: Callable[[Any], bool]) -> threading.Event:
    """Set when such a fact has been recorded."""
    journal, found = journal_of(state), threading.Event()
    record = journal.record

    def watched(rule: Callable[..., Entries], *args: Any) -> Entries:
        entries = record(rule, *args)
        if any(wanted(entry) for entry in entries):
            found.set()
        return entries

    journal.record = watched  # type: ignore[method-assign]  # only this one object
    return found


def wait_for(event: threading.Event) -> None:
    assert event.wait(SECONDS), "nothing happened on the other thread"


async def soon(event: threading.Event) -> None:
    """Wait for another thread without blocking the event loop."""
    await asyncio.to_thread(wait_for, event)


def interrupt() -> None:
    """Press Ctrl+C."""
    os.kill(os.getpid(), signal.SIGINT)


class Heard(Reporter):
    """Keeps all it hears, as text, with the threads it heard it on; raises what a test tells it to.

    Attributes:
        raises: Event names and what their hooks raise, each time. states: What was acted on.
    """

    def __init__(self, **raises: BaseException) -> None:
        self.events: list[str] = []
        self.threads: set[threading.Thread] = set()
        self.states: list[State] = []
        self.errors: list[BaseException | None] = []
        self.raises = raises

    def hear(self, name: str, state: State, text: str = "") -> None:
        self.events.append(f"{name} {text}" if text else name)
        self.states.append(state)
        self.threads.add(threading.current_thread())
        if name in self.raises:
            raise self.raises[name]

    def on_run_start(self, state: State) -> None:
        self.hear("run_start", state)

    def on_think_start(self, state: State) -> None:
        self.hear("think_start", state)

    def on_text(self, state: State, chunk: str) -> None:
        self.hear("text", state, chunk)

    def on_model_event(self, state: State, event: Any) -> None:
        self.hear("model_event", state, event.message)

    def on_think_end(self, state: State, reply: Any) -> None:
        self.hear("think_end", state)

    def on_tool_start(self, state: State, call: ToolCall) -> None:
        self.hear("tool_start", state, call.id)

    def on_tool_end(self, state: State, call: ToolCall, result: ToolResultContent, outcome: Any) -> None:
        self.errors.append(outcome.error)
        self.hear("tool_end", state, f"{call.id} {outcome.kind}: {result_text(result)}")

    def on_context_change(self, state: State, change: Any) -> None:
        self.hear("context_change", state, change.kind)

    def on_run_end(self, state: State, error: BaseException | None) -> None:
        self.errors.append(error)
        self.hear("run_end", state, "" if error is None else type(error).__name__)

    @property
    def tool_starts(self) -> list[str]:
        return [event.split()[1] for event in self.events if event.startswith("tool_start ")]

    @property
    def tool_ends(self) -> list[str]:
        return [event.split()[1] for event in self.events if event.startswith("tool_end ")]


class Shelf(Store):
    """A store of dicts, without write-through.

    Attributes:
        shelf: Entries and info by id. writes: The kinds of each write, and whether it was the first.
        failing: Asked before each write with its number, from 0, and its kinds; raise there to make it fail.
    """

    def __init__(self, failing: Callable[[int, list[str]], None] | None = None) -> None:
        self.shelf: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {}
        self.writes: list[tuple[bool, list[str]]] = []
        self.attempts = 0
        self.failing = failing

    def write(
        self, state_id: str, entries: Sequence[dict[str, Any]], info: Mapping[str, Any], *, create: bool = False
    ) -> None:
        kinds = [entry["kind"] for entry in entries]
        self.attempts += 1
        if self.failing is not None:
            self.failing(self.attempts - 1, kinds)
        have = self.shelf.get(state_id)
        if create == (have is not None):
            raise ValueError(state_id) if create else LookupError(state_id)
        old = have[0] if have else []
        assert not entries or entries[0]["seq"] == len(old)
        self.shelf[state_id] = ([*old, *entries], dict(info))
        self.writes.append((create, kinds))

    def read(self, state_id: str) -> Record | None:
        have = self.shelf.get(state_id)
        return have and Record(list(have[0]), dict(have[1]))

    @property
    def kinds(self) -> list[list[str]]:
        return [kinds for _, kinds in self.writes]


class Nobody(Human):
    """Is never asked."""

    def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
        raise AssertionError(prompt)


class _Half:
    def is_async(self) -> bool:
        return False

    async def ais_async(self) -> bool:
        return True


def is_async(act: Callable[..., Any]) -> bool:
    """Which half `act` runs."""
    return act(_Half(), "is_async")


def written(act: Callable[..., Any], body: Body) -> Callable[..., Any]:
    """A loop or loop body for the half that `act` runs, written once: a generator that yields what to do.

    `yield agent, "think", state` is `agent.think(state)`, and gives its value or raises what it raised.
    """
    return for_async(body) if is_async(act) else for_sync(body)


def for_sync(body: Body) -> Callable[..., Any]:
    @functools.wraps(body)
    def run(agent: Any, state: State) -> Any:
        steps = body(agent, state)
        proceed: Callable[[], Any] = functools.partial(next, steps)
        while True:
            try:
                target, method, *args = proceed()
            except StopIteration as end:
                return end.value
            except RuntimeError as error:
                if isinstance(error.__cause__, StopIteration):  # wrapped by the generator, which a loop need not be
                    raise error.__cause__ from error.__cause__.__cause__
                raise
            try:
                proceed = functools.partial(steps.send, getattr(target, method)(*args))
            except BaseException as error:
                proceed = functools.partial(steps.throw, error)

    return run


def for_async(body: Body) -> Callable[..., Any]:
    @functools.wraps(body)
    async def run(agent: Any, state: State) -> Any:
        steps = body(agent, state)
        proceed: Callable[[], Any] = functools.partial(next, steps)
        while True:
            try:
                target, method, *args = proceed()
            except StopIteration as end:
                return end.value
            try:
                proceed = functools.partial(steps.send, await getattr(target, f"a{method}")(*args))
            except BaseException as error:
                proceed = functools.partial(steps.throw, error)

    return run
