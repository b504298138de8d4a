"""One run that passes every place an exception can come from, and what an exception at each place must leave behind."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runs import for_async, for_sync, soon, wait_for
from strict import refusals

from alpineagents import (
    Agent,
    Human,
    Message,
    Model,
    ModelEvent,
    Reply,
    Reporter,
    SqliteStore,
    State,
    Tool,
    ToolCall,
    Usage,
    loop,
    waiting_for_user,
)
from alpineagents.permissions import Allowed, AllowPermission
from alpineagents.types import Request, TextBlock

CALLS = {"c1": "first", "c2": "middle", "c3": "third", "c4": "asynchronous", "c5": "alone", "c6": "alone_too"}


@dataclass(frozen=True)
class Left:
    """What an exception at a place leaves behind.

    Attributes:
        closed: The digits of the calls it closes, of those the first reply asks for; the others have their results.
        replied: Whether there is such a reply.
        call: The call its `error` entry names. note: What it carries.
        of_the_run: Whether only an `Exception` has those two: an interrupt there is the run's own.
        recorded: Whether it is in the history at all, and the run has failed.
    """

    closed: str = ""
    replied: bool = True
    call: str | None = None
    note: str | None = None
    of_the_run: bool = False
    recorded: bool = True


def raised_in(id: str, closed: str) -> Left:
    return Left(closed, call=id, note=f"exception raised in tool {CALLS[id]}()")


NO_REPLY, ALL = Left(replied=False), Left("123456")
CHECK_NOTE = "exception raised in permission Allowing() checking middle()"

PLACES: dict[str, Left] = {
    "on_run_start": NO_REPLY,
    "the condition before the first turn": NO_REPLY,
    "the body before think": NO_REPLY,
    "saving model_request": NO_REPLY,
    "mark_cache": NO_REPLY,
    "on_think_start": NO_REPLY,
    "the model before its text": NO_REPLY,
    "on_text": NO_REPLY,
    "the model after its text": NO_REPLY,
    "on_model_event": NO_REPLY,
    "the model at its end": NO_REPLY,
    "on_think_end": ALL,
    "saving model_reply": ALL,
    "the body between think and use_tools": ALL,
    "a permission": Left("123456", call="c2", note=CHECK_NOTE, of_the_run=True),
    "on_tool_start of c1": ALL,
    "the sync tool in the middle": raised_in("c2", "256"),
    "the async tool": raised_in("c4", "456"),
    "on_tool_start of c5": Left("56"),
    "the serial tool": raised_in("c5", "56"),
    "the serial async tool": raised_in("c6", "6"),
    "on_tool_end of c6": Left(),
    "saving the last results twice": Left(),
    "the body behind use_tools": Left(),
    "the human": Left(),
    "the model in ask": Left(),
    "on_think_end of ask": Left(),
    "the model in compact": Left(),
    "saving context_change": Left(),
    "on_context_change": Left(),
    "the body at its end": Left(),
    "the condition after a turn": Left(),
    "saving stop": Left(),
    "on_run_end": Left(recorded=False),
}


class Trap:
    """Raises at one place, once.

    Args:
        full: Whether from then on no write succeeds.
    Attributes:
        others_ended: Set when the calls that run beside the one that raises have their results.
    """

    def __init__(self, place: str, error: BaseException, full: bool = False) -> None:
        self.place = place
        self.error = error
        self.will_be_full = full
        self.full = False
        self.others_ended = threading.Event()
        self._left = 2 if "twice" in place else 1

    def at(self, place: str) -> None:
        if place == self.place and self._left:
            self._left -= 1
            self.full = self.will_be_full and not self._left
            raise self.error


class Provider(Model):
    """Asks for every call once, then says that it is done.

    Attributes:
        refused: What a real provider would not have taken.
    """

    name, context_window = "provider", 10**9

    def __init__(self, at: Callable[[str], None]) -> None:
        self.at = at
        self.refused: list[str] = []
        self._ids = iter(CALLS)

    def mark_cache(self, request: Request) -> Request:
        self.at("mark_cache")
        return request

    def respond(self, request: Request, on_text: Any = None, on_event: Any = None) -> Reply:
        self.refused += refusals(request)
        if request.tool_choice == "none":
            self.at("the model in compact" if on_text is None else "the model in ask")
            return Reply(Message.assistant("Fine"), Usage(1, 1, requests=1))
        self.at("the model before its text")
        on_text("Do")
        self.at("the model after its text")
        on_text("ne")
        on_event(ModelEvent("retry", "asking again"))
        self.at("the model at its end")
        calls = [ToolCall(CALLS[id], {}, id) for id in self._ids]
        return Reply(Message("assistant", (TextBlock("Done"), *calls)), Usage(1, 1, requests=1))


class Working(Tool):
    def __init__(self, name: str, trap: Trap, place: str = "", parallel: bool = True) -> None:
        super().__init__(name=name, parallel=parallel)
        self.trap = trap
        self.place = place
        self.last = parallel and place == trap.place

    def run(self, args: dict[str, Any], state: State) -> Any:
        if self.last:
            wait_for(self.trap.others_ended)
        self.trap.at(self.place)
        return f"{self.name} worked"


class AsyncWorking(Working):
    async def run(self, args: dict[str, Any], state: State) -> Any:  # type: ignore[override]
        if self.last:
            await soon(self.trap.others_ended)
        await asyncio.sleep(0)
        self.trap.at(self.place)
        return f"{self.name} worked"


def tools(trap: Trap) -> list[Tool]:
    return [
        Working("first", trap),
        Working("middle", trap, "the sync tool in the middle"),
        Working("third", trap),
        AsyncWorking("asynchronous", trap, "the async tool"),
        Working("alone", trap, "the serial tool", parallel=False),
        AsyncWorking("alone_too", trap, "the serial async tool", parallel=False),
    ]


class Allowing(AllowPermission):
    def __init__(self, at: Callable[[str], None]) -> None:
        self.at = at

    def check(self, state: State, call: ToolCall, tool: Tool) -> Allowed:
        if call.id == "c2":
            self.at("a permission")
        return Allowed()

    def __repr__(self) -> str:
        return "Allowing()"


class Person(Human):
    def __init__(self, at: Callable[[str], None]) -> None:
        self.at = at

    def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
        self.at("the human")
        return True


class Listener(Reporter):
    """Keeps what began and what ended.

    Attributes:
        thinks: How many replies it heard of. errors: What `on_run_end` was given.
    """

    def __init__(self, trap: Trap) -> None:
        self.at = trap.at
        self.trap = trap
        self.runs = 0
        self.thinks = 0
        self.starts: list[str] = []
        self.ends: list[str] = []
        self.errors: list[BaseException | None] = []

    def on_run_start(self, state: State) -> None:
        self.runs += 1
        self.at("on_run_start")

    def on_think_start(self, state: State) -> None:
        self.at("on_think_start")

    def on_text(self, state: State, chunk: str) -> None:
        self.at("on_text")

    def on_model_event(self, state: State, event: Any) -> None:
        self.at("on_model_event")

    def on_think_end(self, state: State, reply: Any) -> None:
        self.thinks += 1
        self.at("on_think_end" if self.thinks == 1 else "on_think_end of ask")

    def on_tool_start(self, state: State, call: ToolCall) -> None:
        self.starts.append(call.id)
        self.at(f"on_tool_start of {call.id}")

    def on_tool_end(self, state: State, call: ToolCall, result: Any, outcome: Any) -> None:
        self.ends.append(call.id)
        if len(self.ends) == 3:
            self.trap.others_ended.set()
        self.at(f"on_tool_end of {call.id}")

    def on_context_change(self, state: State, change: Any) -> None:
        self.at("on_context_change")

    def on_run_end(self, state: State, error: BaseException | None) -> None:
        self.errors.append(error)
        self.at("on_run_end")


class File(SqliteStore):
    """A file whose writes of a kind of entry can fail."""

    def __init__(self, path: Path, trap: Trap) -> None:
        super().__init__(path, synchronous="normal")
        self.trap = trap

    def write(
        self, state_id: str, entries: Sequence[dict[str, Any]], info: Mapping[str, Any], *, create: bool = False
    ) -> None:
        if self.trap.full:
            raise OSError("full")
        kinds = dict.fromkeys([entry["kind"] for entry in entries])
        for place in ["the first save"] if create else [f"saving {kind}" for kind in kinds]:
            self.trap.at(place)
        if entries and entries[-1].get("call", {}).get("id") == "c6":
            self.trap.at("saving the last results twice")
        super().write(state_id, entries, info, create=create)


def step(catching: bool, agent: Any, name: str, state: State, *args: Any) -> Generator[Any, Any, None]:
    """A step of the turn; a loop that is `catching` takes it again if it failed, and if there is still something to do.

    A `think` whose reply is on record has only its calls left, and `use_tools` of none does nothing.
    """
    try:
        yield agent, name, state, *args
    except BaseException:
        if not catching:
            raise
        if not (name == "think" and state.pending_calls):
            yield agent, name, state, *args


def loop_of(at: Callable[[str], None], asynchronous: bool, catching: bool) -> Callable[..., Any]:
    asked = itertools.count()

    def waiting(state: State) -> bool:
        at("the condition before the first turn" if next(asked) == 0 else "the condition after a turn")
        return waiting_for_user(state)

    def turn(agent: Any, state: State) -> Generator[Any, Any, None]:
        at("the body before think")
        yield from step(catching, agent, "think", state)
        if state.pending_calls:
            at("the body between think and use_tools")
            yield from step(catching, agent, "use_tools", state)
            at("the body behind use_tools")
            yield from step(catching, agent, "ask_human", state, "Go on?", bool)
            yield from step(catching, agent, "ask", state, "Fine?")
            yield from step(catching, agent, "compact", state)
            at("the body at its end")

    body = for_async(turn) if asynchronous else for_sync(turn)
    return loop(until=waiting, limit=9)(body)


class Scene:
    """An Agent and a State, ready to run into the trap.

    Args:
        catching: Whether its loop catches what its steps raise, and goes on.
    """

    def __init__(self, trap: Trap, path: Path, asynchronous: bool, catching: bool = False) -> None:
        at = trap.at
        self.asynchronous = asynchronous
        self.state = State(id="s", messages=[Message.user("Go")])
        self.model, self.listener, self.store = Provider(at), Listener(trap), File(path, trap)
        self.agent = Agent(
            self.model,
            tools=tools(trap),
            loop=loop_of(at, asynchronous, catching),
            reporter=self.listener,
            human=Person(at),
            store=self.store,
            permissions=[Allowing(at)],
        )

    def run(self, state: State) -> BaseException | None:
        """What the run raised."""
        if self.asynchronous:
            return asyncio.run(self._arun(state))
        try:
            self.agent.run(state)
        except BaseException as error:
            return error
        return None

    async def _arun(self, state: State) -> BaseException | None:
        try:
            await self.agent.arun(state)
        except BaseException as error:  # caught in here, since an interrupt would end the event loop
            return error
        return None
