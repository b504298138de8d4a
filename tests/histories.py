"""Histories as an Agent would make them, without one: each function records what one action records."""

from __future__ import annotations

from typing import Any

from alpineagents.history import rules
from alpineagents.history.entries import ContextChange, ContextChangeEntry, HistoryEntry, ToolResultEntry
from alpineagents.history.value import Value
from alpineagents.state import State, journal_of
from alpineagents.types import (
    AgentInfo,
    Block,
    Image,
    Message,
    Reply,
    Stopped,
    TextBlock,
    ToolCall,
    ToolOutcomeKind,
    ToolResultContent,
    Usage,
)

MODEL = "acme/large"
ONE = Usage(input_tokens=10, output_tokens=2, requests=1, cost=0.5)
PNG = Image(b"\x89PNG\r\n\x1a\n")
READ = ToolCall("read", {"path": "a.py"}, "c1")
LIST = ToolCall("list", {}, "c2")
DONE, INTERRUPTED = ToolOutcomeKind.DONE, ToolOutcomeKind.INTERRUPTED


def started(text: str = "Go") -> State:
    """A State with one user message."""
    return State(messages=[Message.user(text)])


def entries(state: State, *made: HistoryEntry) -> None:
    """Record entries as they are."""
    journal_of(state).record(lambda now: made)


def request(state: State) -> None:
    journal_of(state).record(rules.request, MODEL)


def reply(state: State, *content: str | Block, usage: Usage = ONE, tokens: int | None = None, reason: str = "") -> None:
    """The model answers with these texts and blocks."""
    blocks = [TextBlock(block) if isinstance(block, str) else block for block in content]
    journal_of(state).record(
        rules.reply, Reply(Message("assistant", tuple(blocks)), usage, tokens, reason or None, "large-1")
    )


def think(state: State, *content: str | Block, **details: Any) -> None:
    request(state)
    reply(state, *content, **details)


def result(
    state: State,
    call: ToolCall,
    content: ToolResultContent = "ok",
    outcome: ToolOutcomeKind = DONE,
    *,
    late: bool = False,
    usage: Usage | None = None,
) -> None:
    entry = ToolResultEntry(content=content, call=call, outcome=outcome, late=late, usage=usage, turn=state.turn)
    journal_of(state).record(rules.result, entry)


def fail(state: State, error: BaseException, call: ToolCall | None = None) -> None:
    journal_of(state).record(rules.failure, error, call)


def end_of_run(state: State, error: BaseException) -> None:
    journal_of(state).record(rules.end_of_run, error)


def repair(state: State) -> None:
    """What loading does to a turn that the end of a process left open."""
    journal_of(state).record(rules.repair)


def run_start(state: State, name: str | None = None, parent: str | None = None, call: str | None = None) -> None:
    journal_of(state).record(rules.run_start, AgentInfo(name=name, model=MODEL), parent, call)


def stop(state: State, stopped: Stopped | None) -> None:
    journal_of(state).record(rules.stop, stopped)


def ask(state: State, question: str, answer: Any, usage: Usage | None = None) -> None:
    journal_of(state).record(rules.asked, "ask", question, answer, usage)


def compact_by_model(state: State, summary: str, kept: int, usage: Usage) -> None:
    journal_of(state).record(rules.compact, summary, kept, usage)


def waiting() -> State:
    """A State whose request waits for its reply."""
    state = started()
    request(state)
    return state


def pending(*calls: ToolCall) -> State:
    """A State whose model asked for these calls, or for `READ` and `LIST`."""
    state = started()
    think(state, *(calls or (READ, LIST)))
    return state


def kinds(state: State) -> list[str]:
    return [entry.kind for entry in state.history]


def texts(state: State) -> list[str]:
    return [message.text for message in state.messages]


def value(state: State) -> Value:
    return journal_of(state).now


def parts(now: Value) -> dict[str, Any]:
    """All parts of a value but the cache of earlier ones."""
    return {name: part for name, part in now.__dict__.items() if name != "kept"}


def change_of(state: State) -> ContextChange:
    """The context change that was recorded last."""
    entry = state.history[-1]
    assert isinstance(entry, ContextChangeEntry)
    return entry.content
