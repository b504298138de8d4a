"""The recorded run, read from the package."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

from alpineagents.history import rules
from alpineagents.history.entries import ToolResultEntry
from alpineagents.state import State, journal_of
from alpineagents.values.content import Message, TextBlock, ToolCall
from alpineagents.values.estimates import context_tokens, message_tokens, text_tokens
from alpineagents.values.exchange import Reply
from alpineagents.values.outcomes import ToolOutcomeKind
from alpineagents.values.usage import Price, Usage

# The recording counted no tokens. They are estimated from the text, at the list price of its model, gpt-4o.
PRICE = Price(input=2.5, output=10.0)


@dataclass(frozen=True)
class Step:
    """One reply of the model, and what came of its call.

    Attributes:
        failed: Whether the tool refused. seconds: How long it took.
    """

    text: str
    call: ToolCall
    result: str
    failed: bool
    seconds: float

    @property
    def said(self) -> tuple[str, ToolCall]:
        """The reply: what the model wrote, and the call it asked for."""
        return self.text, self.call


@dataclass(frozen=True)
class Recording:
    """A whole run: `model` is its `provider/name`, `task` the first message."""

    model: str
    system: str
    task: str
    steps: tuple[Step, ...]

    def state(self) -> State:
        """The run as a State, whose history a `ReplayModel` answers from."""
        state = State(messages=[Message.user(self.task)])
        journal = journal_of(state)
        for step in self.steps:
            journal.record(rules.request, self.model)
            journal.record(rules.reply, self._reply(step, state.messages))
            outcome = ToolOutcomeKind.ERROR if step.failed else ToolOutcomeKind.DONE
            result = ToolResultEntry(content=step.result, call=step.call, outcome=outcome, turn=state.turn)
            journal.record(rules.result, result)
        return state

    def _reply(self, step: Step, messages: tuple[Message, ...]) -> Reply:
        message = Message("assistant", (TextBlock(step.text), step.call))
        spent = Usage(context_tokens(messages, text_tokens(self.system)), message_tokens(message), requests=1)
        usage = Usage(spent.input_tokens, spent.output_tokens, requests=1, cost=PRICE.cost(spent))
        name = self.model.partition("/")[2]
        return Reply(message, usage, spent.input_tokens + spent.output_tokens, "tool_calls", name)


def read_recording() -> Recording:
    """The recording that comes with the package."""
    text = resources.files("alpineagents.demo").joinpath("recording.json").read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    return Recording(data["model"], data["system"], data["task"], tuple([_step(step) for step in data["steps"]]))


def _step(data: dict[str, Any]) -> Step:
    call = ToolCall(data["name"], data["args"], data["call_id"])
    return Step(data["text"], call, data["result"], data["failed"], data["seconds"])
