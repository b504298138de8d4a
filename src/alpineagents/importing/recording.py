"""One conversation on its way into the file.

What a format tells of it becomes a history that the fold accepts: requests and starts of runs are put in, a call that
never got a result is closed as interrupted, a result whose call is not there or was closed is kept as a late one, and a
time that runs backwards is moved up to the one before. All of it is said in the report.

Memory stays bounded however long the conversation is: entries are written in batches, and the value they are folded
into forgets all but the last of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from alpineagents.history import wording
from alpineagents.history.codec import encode
from alpineagents.history.entries import (
    ContextChangeEntry,
    ExtraDataEntry,
    HistoryEntry,
    MessageEntry,
    ModelReplyEntry,
    ModelRequestEntry,
    RunStartEntry,
    StopEntry,
    ToolResultEntry,
)
from alpineagents.history.replay import step
from alpineagents.history.value import EMPTY, Value
from alpineagents.importing.items import Begun, Found, result_of
from alpineagents.importing.recent import Recent
from alpineagents.importing.reports import FileReport
from alpineagents.store.info import Info, info_of
from alpineagents.values.content import Image, ToolCall
from alpineagents.values.log import Log
from alpineagents.values.outcomes import StoppedByUntil, ToolOutcomeKind
from alpineagents.values.usage import Usage

REMEMBERED = 16
MOST_ENTRIES = 256
MOST_BYTES = 1_000_000
MOST_CLOSED = 1_000
MOST_STEPS_BACK = 5_000_000

Write = Callable[[str, Sequence[dict[str, Any]], Mapping[str, Any], bool], None]


class Recording:
    """A conversation that is being written.

    Args:
        write: Commits entries of a State: its id, the entries, the info, and whether they are the first.
        usage_of: What a State that is in the file used, subagents included; `None` for one that is not there.
        now: The time of what comes before anything with a time.
    """

    def __init__(
        self,
        begun: Begun,
        report: FileReport,
        write: Write,
        usage_of: Callable[[str], Usage | None],
        now: datetime,
    ) -> None:
        self.begun = begun
        self._report = report
        self._write = write
        self._usage_of = usage_of
        self._at = now
        self._timed = False
        self._value = _remembering(EMPTY, 0)
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0
        self._created = False
        self._places: dict[str, str] = {}
        self._closed: OrderedDict[str, tuple[ToolCall, int]] = OrderedDict()
        self._steps_back = 0
        self._forgotten = 0  # how many of its first entries the value knows nothing of any more

    def add(self, found: Found) -> None:
        """Take one entry."""
        entry = found.entry
        if isinstance(entry, ModelReplyEntry):
            self._reply(found, entry)
        elif isinstance(entry, ToolResultEntry):
            self._result(found, entry)
        elif isinstance(entry, MessageEntry):
            self._message(found, entry)
        elif isinstance(entry, ContextChangeEntry):
            if self._record(found, entry, before=self._closing()):
                self._count("context changes")
        elif self._record(found, entry):
            self._count("other entries")
        self._bytes += found.size
        if len(self._rows) >= MOST_ENTRIES or self._bytes >= MOST_BYTES:
            self._flush()

    def finish(self, imported: Mapping[str, Any]) -> None:
        """Write what is left, and behind it where all of it is from."""
        end = Found(self.begun.key, "its end", ExtraDataEntry(content={"imported": imported}, turn=0))
        start = self._run_start() if self.begun.parent_id is not None else []
        self._record(end, before=[*start, *self._closing()])
        if self._value.status == "open":
            self._record(end, StopEntry(content=StoppedByUntil("end_of_source"), turn=0))
        if not self._record(end, end.entry):
            slim = {key: imported[key] for key in ("format", "source", "sha256", "bytes")}
            self._record(end, ExtraDataEntry(content={"imported": slim}, turn=0))
        self._flush(last=True)

    def _message(self, found: Found, entry: MessageEntry) -> None:
        content = entry.content
        text = content if isinstance(content, str) else "".join([getattr(block, "text", "") for block in content])
        if not text.strip() and (isinstance(content, str) or not any([isinstance(b, Image) for b in content])):
            self._report.note(found.place, "left out", "a message that says nothing")
        elif self._record(found, entry):
            self._count("messages")
            self._count_images(content)

    def _reply(self, found: Found, entry: ModelReplyEntry) -> None:
        reply = entry.content
        provider, _, name = self.begun.agent.model.partition("/")
        model = f"{provider}/{reply.model or name}"
        request = ModelRequestEntry(content=model, turn=0)
        start = self._run_start(model if name == "unknown" else None)
        if self._record(found, entry, before=[*start, *self._closing(), request]):
            self._count("messages")
            self._count("calls", len(reply.tool_calls))
            for call in reply.tool_calls:
                self._places[call.id] = found.place

    def _run_start(self, model: str | None = None) -> list[HistoryEntry]:
        if self._value.run is not None:
            return []
        begun = self.begun
        agent = begun.agent if model is None else replace(begun.agent, model=model)
        return [RunStartEntry(content=agent, parent_id=begun.parent_id, parent_call_id=begun.parent_call_id, turn=0)]

    def _closing(self) -> list[HistoryEntry]:
        """Results for the calls that never got one."""
        return [result_of(call.id, wording.INTERRUPTED, ToolOutcomeKind.INTERRUPTED) for call in self._pending()]

    def _pending(self) -> tuple[ToolCall, ...]:
        return self._value.pending_calls

    def _result(self, found: Found, entry: ToolResultEntry) -> None:
        id = entry.call.id
        if entry.child_ids:
            entry = self._with_children(entry)
        pending = next((call for call in self._pending() if call.id == id), None)
        if pending is None:
            self._late_result(found, entry)
            return
        if self._record(found, replace(entry, call=pending)):
            self._count("results")
            self._count_images(entry.content)

    def _with_children(self, entry: ToolResultEntry) -> ToolResultEntry:
        """With the subagents that are in the file, and what they used."""
        used = {child: usage for child in entry.child_ids if (usage := self._usage_of(child)) is not None}
        total = sum(used.values(), Usage())
        return replace(entry, child_ids=tuple(used), usage=total if used else None)

    def _late_result(self, found: Found, entry: ToolResultEntry) -> None:
        # The fold looks for its call backwards through the history, in every reader.
        self._steps_back += len(self._value.history)
        if self._steps_back > MOST_STEPS_BACK:
            self._report.note(found.place, "left out", f"a result without its call ({entry.call.id})")
            return
        call, seq = self._closed.pop(entry.call.id, (None, 0))
        if call is not None and seq < self._forgotten:
            self._report.note(found.place, "left out", f"a result that came long after its call ({call.id})")
            return
        why = "a result without its call" if call is None else "a result that came after its call had been closed"
        if self._record(found, replace(entry, call=call or entry.call, late=True)):
            self._report.note(found.place, "repaired", f"{why} ({entry.call.id}), kept as a late one")
            self._count("results")
            self._count_images(entry.content)

    def _record(self, found: Found, *entries: HistoryEntry, before: Sequence[HistoryEntry] = ()) -> bool:
        """Apply entries, and those that must come before them: all or none."""
        value, rows = self._value, list[dict[str, Any]]()
        at, asked_at = self._times(found)
        closed, asked_in = self._pending() if before else (), value.opened or 0
        try:
            for number, entry in enumerate([*before, *entries]):
                turn = value.turn + isinstance(entry, ModelRequestEntry)
                stamped = self._stamped(entry, value, turn, asked_at if number < len(before) else at)
                value = step(value, stamped)
                rows.append(encode(stamped, len(value.history) - 1, value.closings[-1]))
        except (TypeError, ValueError, RecursionError) as error:
            self._report.note(found.place, "left out", f"it fits no history: {str(error).partition(chr(10))[0]}")
            return False
        self._value = value
        self._rows += rows
        self._at = at
        for call in closed:
            self._was_closed(call, asked_in)
        return True

    def _stamped(self, entry: HistoryEntry, value: Value, turn: int, at: datetime) -> HistoryEntry:
        if isinstance(entry, ToolResultEntry) and not entry.late:
            call = next((call for call in value.pending_calls if call.id == entry.call.id), entry.call)
            return replace(entry, call=call, turn=turn, at=at)
        return replace(entry, turn=turn, at=at)

    def _was_closed(self, call: ToolCall, seq: int) -> None:
        place = self._places.pop(call.id, "its reply")
        self._report.note(place, "repaired", f"{call.name} ({call.id}) has no result, closed as interrupted")
        self._closed[call.id] = (call, seq)
        if len(self._closed) > MOST_CLOSED:
            self._closed.popitem(last=False)

    def _times(self, found: Found) -> tuple[datetime, datetime]:
        """The time of an entry, never before that of the one before, and that of what is put in front of it."""
        at = found.at
        if at is None:
            return self._at, self._at
        if not self._timed:
            self._timed = True
            asked_at = found.asked_at or at
            return at, min(asked_at, at)
        if at < self._at:
            self._report.note(
                found.place, "repaired", f"its time {at:%H:%M:%S} is before that of what stands before it"
            )
            return self._at, self._at
        return at, min(max(found.asked_at or self._at, self._at), at)

    def rest(self) -> None:
        """Take as little memory as can be, because others are told of now."""
        if self._rows:
            self._flush(resting=True)

    def _flush(self, *, last: bool = False, resting: bool = False) -> None:
        info: Info | dict[str, Any] = info_of(self._value)
        if not last:
            # What is only a part says so in its row, so that an import that was cut off is known as one.
            info = {**info, "importing": self.begun.sha256}
        self._write(self.begun.id, self._rows, info, not self._created)
        self._created = True
        self._rows, self._bytes = [], 0
        kept = REMEMBERED if self._pending() or not resting else 0
        self._value = _remembering(self._value, kept)
        self._forgotten = len(self._value.history) - kept
        self._places = {call.id: self._places.get(call.id, "its reply") for call in self._pending()}

    def _count(self, what: str, number: int = 1) -> None:
        if number:
            self._report.kept[what] += number

    def _count_images(self, content: Any) -> None:
        if not isinstance(content, str):
            self._count("images", sum([isinstance(block, Image) for block in content]))


def _remembering(value: Value, kept: int) -> Value:
    """The same value, as far as the entries that may still come depend on it."""
    history: Any = Recent.of(value.history, kept)
    closings: Any = Recent.of(value.closings, kept)
    return value.changed(history=history, closings=closings, messages=Log(), kept=Log())
