"""The replay value: all that follows from a history, the parts people see and those only replay needs.

A `Value` is never changed after it is made. `grown` makes the next one; the sequences inside are `Log`s, so that one
more entry costs the same however many there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from alpineagents.history.entries import HistoryEntry
from alpineagents.values.content import Message, ToolCall, ToolResultBlock
from alpineagents.values.exchange import AgentInfo
from alpineagents.values.frozen import FrozenDict
from alpineagents.values.log import Log
from alpineagents.values.outcomes import Stopped
from alpineagents.values.usage import Usage

# Earlier values are kept this sparsely for `restore`: one per entry would double the time to load a history.
KEEP_EVERY = 64


@dataclass(frozen=True, slots=True)
class Closing:
    """Which entry an entry answers: the `seq` of a request or reply and, for a call, the index of its block there."""

    seq: int
    block: int | None = None


class Value:
    """All that follows from one history.

    Attributes:
        history, messages, turn, usage, extra_data, finished, stopped, created_at, updated_at: As in `StateSnapshot`.
        calls, results: The calls of the open turn in the order asked, and the result block of each, or `None`.
        blocks: For each of `calls`, the index of its block in the reply.
        opened: The `seq` of the open request, or of the reply that opened the turn.
        waiting: Whether a request has neither a reply nor a failure yet.
        held: Messages that wait for the end of the request or turn.
        late: Notice texts of late results that the model has not seen.
        first_user: The message a compaction keeps in front.
        reply_text, finish_answer: What `answer` is made of.
        link: `(parent_id, parent_call_id)` of the first run a tool call started.
        closings: For each entry, which one it answers.
        run: The Agent of the latest run. run_seq: Where that run started.
        status: How the latest run stands: idle, open, answered, finished, limit, permission, failed, interrupted.
        error_count: How many `error` entries there are.
        stop_seq: The `seq` of the entry that set `stopped`.
        restored: Whether the latest entry went back to an earlier point.
        kept: Earlier values with the number of their entries, sparsely; in no comparison.
        faces: The snapshot that shows this value, once asked for: the first, since appending takes no lock.
    """

    __slots__ = ("__dict__", "faces")

    history: Log[HistoryEntry]
    messages: Log[Message]
    turn: int
    usage: Usage
    extra_data: FrozenDict[str, Any]
    finished: bool
    stopped: Stopped | None
    created_at: datetime | None
    updated_at: datetime | None
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResultBlock | None, ...]
    blocks: tuple[int, ...]
    opened: int | None
    waiting: bool
    held: Log[Message]
    late: tuple[str, ...]
    first_user: Message | None
    reply_text: str | None
    finish_answer: Any
    link: tuple[str, str | None] | None
    closings: Log[Closing | None]
    run: AgentInfo | None
    run_seq: int | None
    status: str
    error_count: int
    stop_seq: int | None
    restored: bool
    kept: Log[tuple[int, Value]]
    faces: list[Any]

    def __init__(self, parts: dict[str, Any]) -> None:
        self.__dict__ = parts
        self.faces = []

    @property
    def pending_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the open turn without a result, in the order asked."""
        if not any(self.results):
            return self.calls
        return tuple([call for call, result in zip(self.calls, self.results, strict=True) if result is None])

    @property
    def answer(self) -> Any:
        """The last answer given to `finish`, else the text of the last reply that asked for no tools."""
        return self.reply_text if self.finish_answer is None else self.finish_answer

    def changed(self, **changes: Any) -> Value:
        """The same value with some parts replaced."""
        return Value({**self.__dict__, **changes})

    def grown(self, entry: HistoryEntry, closing: Closing | None, changes: dict[str, Any]) -> Value:
        """The value after one more entry, with the parts it changed."""
        parts = {**self.__dict__, **changes}
        parts["history"] = self.history.plus(entry)
        parts["closings"] = self.closings.plus(closing)
        parts["updated_at"] = entry.at
        if self.created_at is None:
            parts["created_at"] = entry.at
        count = len(self.history)
        if count % KEEP_EVERY == 0 or self.restored:
            parts["kept"] = self.kept.plus((count, self))
            parts["restored"] = changes.get("restored", False)
        return Value(parts)


EMPTY = Value(
    {
        "history": Log[HistoryEntry](),
        "messages": Log[Message](),
        "turn": 0,
        "usage": Usage(),
        "extra_data": FrozenDict[str, Any](),
        "finished": False,
        "stopped": None,
        "created_at": None,
        "updated_at": None,
        "calls": (),
        "results": (),
        "blocks": (),
        "opened": None,
        "waiting": False,
        "held": Log[Message](),
        "late": (),
        "first_user": None,
        "reply_text": None,
        "finish_answer": None,
        "link": None,
        "closings": Log[Closing | None](),
        "run": None,
        "run_seq": None,
        "status": "idle",
        "error_count": 0,
        "stop_seq": None,
        "restored": False,
        "kept": Log[tuple[int, "Value"]](),
    }
)
