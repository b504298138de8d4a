"""A Terminal and what it wrote, and States for it to show."""

from __future__ import annotations

import io
from typing import Any

from alpineagents.history.entries import (
    HistoryEntry,
    ModelReplyEntry,
    ModelRequestEntry,
    RunStartEntry,
)
from alpineagents.state import State
from alpineagents.terminal import Terminal
from alpineagents.values.content import Image, Message, ToolCall, ToolResultContent
from alpineagents.values.exchange import AgentInfo, Reply
from alpineagents.values.outcomes import (
    StoppedByUntil,
    ToolOutcome,
    ToolOutcomeKind,
)
from alpineagents.values.usage import Usage

PNG = Image(b"\x89PNG\r\n\x1a\n" + bytes(1016))


REPLY = Reply(Message.assistant("ok"), Usage())


DONE = ToolOutcome(ToolOutcomeKind.DONE)


WAITING = StoppedByUntil("waiting_for_user")


WEIGH = ToolCall("weigh", {"parcel": "A"}, "c1")


SEAL = ToolCall("seal", {}, "c2")


def run_start(name: str | None = None, parent: str | None = None) -> RunStartEntry:
    return RunStartEntry(content=AgentInfo(name=name, model="m"), parent_id=parent, turn=0)


def turns(count: int, usage: Usage | None = None) -> list[HistoryEntry]:
    """`count` turns; the last one spends `usage`."""
    entries: list[HistoryEntry] = []
    for turn in range(1, count + 1):
        spent = usage if usage is not None and turn == count else Usage()
        entries.append(ModelRequestEntry(content="m", turn=turn))
        entries.append(ModelReplyEntry(content=Reply(Message.assistant("ok"), spent), turn=turn))
    return entries


def top(turn: int = 1, *more: HistoryEntry, usage: Usage | None = None) -> State:
    return State(id="top", history=[run_start("planner"), *turns(turn, usage), *more])


def child(turn: int = 1, *more: HistoryEntry, name: str | None = "clerk", id: str = "child") -> State:
    return State(id=id, history=[run_start(name, "top"), *turns(turn), *more])


class Seen:
    """A Terminal and all it wrote."""

    def __init__(self, **options: Any) -> None:
        self.output = io.StringIO()
        self.terminal = Terminal(output=self.output, **options)

    @property
    def text(self) -> str:
        return self.output.getvalue()

    def end_of_call(self, kind: ToolOutcomeKind, result: ToolResultContent) -> str:
        self.terminal.on_tool_end(top(), WEIGH, result, ToolOutcome(kind))
        return self.text

    def end_of_run(self, state: State, error: BaseException | None = None) -> str:
        self.terminal.on_run_end(state, error)
        return self.text


def encoded(encoding: str) -> tuple[Terminal, io.BytesIO]:
    raw = io.BytesIO()
    return Terminal(output=io.TextIOWrapper(raw, encoding, newline="\n")), raw


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True
