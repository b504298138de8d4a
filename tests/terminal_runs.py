"""The runs on the page about the terminal, scripted: each is played at a terminal by tests/test_terminal_docs.py."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Iterable
from typing import Any, Literal

from alpineagents import Agent, Message, State, Terminal, ToolError, loop, tool, waiting_for_user
from alpineagents.testing import FakeModel, tool_call
from alpineagents.types import ModelEvent, ToolCall, Usage

NEXT_TO_A_LIMIT = 3


class Scripted(FakeModel):
    """A model with prepared replies that reports events, streams word by word, and costs money."""

    def __init__(self, *replies: Any, events: Iterable[ModelEvent | None] = ()) -> None:
        super().__init__(replies, name="large")
        self.events = list(events)

    def respond(self, request: Any, on_text: Any = None, on_event: Any = None) -> Any:
        event = self.events.pop(0) if self.events else None
        if event is not None:
            on_event(event)
        reply = super().respond(request, None, on_event)
        for word in re.findall(r"\S+\s*", reply.text):
            on_text(word)
        return dataclasses.replace(reply, usage=Usage(1_200, 300, cache_read_tokens=2_800, requests=1, cost=0.009))


def answered() -> None:
    agent = Agent(Scripted("At 4,300 metres water boils at about 86 °C. Pasta takes longer there."))
    agent.run("At what temperature does water boil at 4,300 metres?")


class InOrder(Terminal):
    """Lets the tools below end one after another, so that each run looks the same."""

    def __init__(self, *cities: str) -> None:
        super().__init__()
        self.may_end = {city: threading.Event() for city in cities}
        self.may_end[cities[0]].set()

    def on_tool_end(self, state: State, call: ToolCall, *more: Any) -> None:
        super().on_tool_end(state, call, *more)
        waiting = [event for event in self.may_end.values() if not event.is_set()]
        if waiting:
            waiting[0].set()


def in_parallel() -> None:
    terminal = InOrder("Bern", "Chur", "Sion")

    @tool
    def forecast(city: str) -> str:
        """Tomorrow's weather."""
        terminal.may_end[city].wait(20)
        if city == "Chur":
            raise ToolError("no station in 'Chur'\nThe nearest is 'Landquart'.")
        return f"{city}: sunny, 21 °C, wind from the west"

    model = Scripted(
        [
            "I'll ask for all three at once.",
            *[tool_call("forecast", city=city) for city in terminal.may_end],
        ],
        "Bern and Sion will be sunny. There is no forecast for Chur, only for Landquart.",
    )
    Agent(model, tools=[forecast], reporter=terminal).run("What will the weather be?")


def asked() -> None:
    @tool
    def deploy(version: str, state: State) -> str:
        """Put a version into service."""
        where = agent.ask_human(state, f"Where shall {version} go?", Literal["staging", "production", "nowhere"])
        return f"{version} is in service on {where}"

    model = Scripted(tool_call("deploy", version="2.4.1"), "Version 2.4.1 is in service on staging.")
    agent = Agent(model, tools=[deploy])
    agent.run("Deploy 2.4.1")


def interrupted() -> None:
    released = threading.Event()

    @tool
    def run_tests(path: str) -> str:
        """Run the tests."""
        released.wait(20)
        return "212 passed"

    state = State(messages=[Message.user("Are the tests green?")])
    agent = Agent(
        Scripted(
            ["I'll run all of them.", tool_call("run_tests", path="tests")], "I stopped the tests. Only tests/unit?"
        ),
        tools=[run_tests],
    )
    try:
        agent.run(state)
    except KeyboardInterrupt:
        state.add_message(Message.user("That takes too long"))
    agent.run(state)


def delegated() -> None:
    @tool
    def measure(plot: int) -> str:
        """Measure a plot."""
        return "40 m by 25 m"

    surveyor = Agent(
        Scripted(tool_call("measure", plot=7), "Plot 7 is 40 m long."),
        name="surveyor",
        description="Measures plots and reports the numbers.",
        tools=[measure],
    )
    model = Scripted(tool_call("surveyor", prompt="How long is plot 7?"), "40 m: the fence fits.")
    Agent(model, tools=[surveyor]).run("Does a fence of 40 m fit on plot 7?")


def limited() -> None:
    @tool
    def search(pattern: str) -> str:
        """Search all files."""
        return "src/calc.py: " * 300

    @loop(until=waiting_for_user, limit=NEXT_TO_A_LIMIT)
    def short_loop(agent: Any, state: Any) -> None:
        if state.turn == NEXT_TO_A_LIMIT - 1:
            state.clear_tool_results(keep_last=0)
        agent.think(state)
        agent.use_tools(state)

    model = Scripted(
        *[tool_call("search", pattern=pattern) for pattern in ("divide", "def divide", "ZeroDivisionError")],
        "The bug is in src/calc.py: divide(1, 0) is not refused.",
        events=[
            None,
            ModelEvent("retry", "rate limited, trying again in 2 s (1 of 4)"),
            ModelEvent("fallback", "acme/large is overloaded, asking acme/small"),
        ],
    )
    agent = Agent(model, tools=[search], loop=short_loop)
    state = State(messages=[Message.user("Find the bug")])
    agent.run(state)
    agent.run(state)
