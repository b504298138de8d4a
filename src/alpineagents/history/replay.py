"""The fold: the only code that knows what an entry does.

`step(value, entry)` gives the next value. It is pure, reads neither an entry's `turn` nor its exception nor recorded
token estimates, and raises `ValueError` for an entry that cannot follow. One small function per kind of entry says what
changes and which earlier entry it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast, get_args

from alpineagents.errors import explain
from alpineagents.history import wording
from alpineagents.history.entries import (
    ContextChange,
    ContextChangeEntry,
    ErrorEntry,
    ExchangeEntry,
    ExtraDataEntry,
    HistoryEntry,
    MessageEntry,
    ModelEventEntry,
    ModelReplyEntry,
    ModelRequestEntry,
    RunStartEntry,
    StopEntry,
    ToolResultEntry,
)
from alpineagents.history.snapshot import StateSnapshot, snapshot_of, value_of
from alpineagents.history.value import EMPTY, Closing, Value
from alpineagents.values.content import Block, Message, TextBlock, ToolCall, ToolResultBlock
from alpineagents.values.frozen import FrozenDict
from alpineagents.values.log import Log
from alpineagents.values.outcomes import (
    Stopped,
    StoppedByFinish,
    StoppedByLimit,
    StoppedByPermission,
    ToolOutcomeKind,
)

Effect: TypeAlias = tuple[Closing | None, dict[str, Any]]


def apply(snapshot: StateSnapshot, entry: HistoryEntry) -> StateSnapshot:
    """The snapshot after one more entry.

    Raises:
        TypeError: `entry` is not a history entry.
        ValueError: The entry cannot follow this snapshot's history.
    """
    return snapshot_of(step(value_of(snapshot), entry))


def replay(entries: Iterable[HistoryEntry]) -> StateSnapshot:
    """The snapshot of a whole history. Errors are those of `fold`."""
    return snapshot_of(fold(entries))


def fold(entries: Iterable[HistoryEntry], start: Value = EMPTY) -> Value:
    """The value after all entries.

    Raises:
        TypeError: An item is not a history entry; the message gives its index.
        ValueError: An entry cannot follow those before it; the message gives its index, kind and the reason.
    """
    now = start
    for index, entry in enumerate(entries, len(start.history)):
        if type(entry) not in _EFFECTS:
            raise TypeError(
                explain(
                    f"history[{index}] is not a history entry but {type(entry).__name__}", "pass state.history whole"
                )
            )
        try:
            now = step(now, entry)
        except ValueError as error:
            raise ValueError(
                explain(
                    f"history[{index}] ({entry.kind}) cannot follow the entries before it: {error}",
                    "pass a recorded history whole and in order",
                    "State(history=other.history)",
                )
            ) from error
    return now


def step(now: Value, entry: HistoryEntry) -> Value:
    """The value after one more entry."""
    effect = _EFFECTS.get(type(entry))
    if effect is None:
        raise TypeError(explain(f"not a history entry: {type(entry).__name__}"))
    closing, changes = effect(now, entry)
    return now.grown(entry, closing, changes)


def _message(now: Value, entry: MessageEntry) -> Effect:
    message = entry.message
    changes: dict[str, Any] = {}
    if now.first_user is None and entry.kind == "user":
        changes["first_user"] = message
    if now.waiting or now.calls:
        changes["held"] = now.held.plus(message)
    else:
        changes["messages"] = now.messages.plus(message)
    return None, changes


def _request(now: Value, entry: ModelRequestEntry) -> Effect:
    if now.waiting:
        raise ValueError("a request is already waiting for its reply")
    _refuse_pending(now, "a request")
    changes: dict[str, Any] = {"waiting": True, "turn": now.turn + 1, "opened": len(now.history)}
    if now.late:
        notices = [Message("user", (TextBlock(text),)) for text in now.late]
        changes["messages"] = now.messages.extended(notices)
        changes["late"] = ()
    return None, changes | _going_on(now)


def _reply(now: Value, entry: ModelReplyEntry) -> Effect:
    if not now.waiting:
        raise ValueError("no request is waiting for a reply")
    reply = entry.content
    content = reply.message.content
    message = Message("assistant", content, tokens=reply.context_tokens, stop_reason=reply.stop_reason)
    messages = now.messages.plus(message)
    changes: dict[str, Any] = {"waiting": False, "usage": now.usage + reply.usage}
    blocks = tuple([index for index, block in enumerate(content) if isinstance(block, ToolCall)])
    if blocks:
        changes["calls"] = tuple([content[index] for index in blocks])
        changes["results"] = (None,) * len(blocks)
        changes["blocks"] = blocks
        changes["opened"] = len(now.history)
    else:
        changes["reply_text"] = reply.text
        changes["opened"] = None
        if now.status == "open" and now.stopped is None:  # if the loop simply returns, nothing else will say so
            changes["status"] = "answered"
        messages, changes["held"] = _released(messages, now.held)
    changes["messages"] = messages
    return Closing(_opened(now)), changes


def _error(now: Value, entry: ErrorEntry) -> Effect:
    changes: dict[str, Any] = {"error_count": now.error_count + 1}
    if now.status != "idle":
        changes["status"] = "interrupted" if _is_interrupt(entry.content) else "failed"
    if not now.waiting or entry.call is not None:
        return None, changes
    changes |= {"waiting": False, "turn": now.turn - 1, "opened": None}
    changes["messages"], changes["held"] = _released(now.messages, now.held)
    return Closing(_opened(now)), changes


def _is_interrupt(text: str) -> bool:
    name = text.partition(":")[0]
    return name in ("KeyboardInterrupt", "CancelledError") or text == wording.STOPPED_WAITING


def _tool_result(now: Value, entry: ToolResultEntry) -> Effect:
    changes: dict[str, Any] = {}
    if entry.usage is not None:
        changes["usage"] = now.usage + entry.usage
    if entry.late:
        changes["late"] = (*now.late, wording.late_result(entry.call, entry.content))
        return _late_closing(now, entry.call), changes
    index = _pending_index(now, entry.call.id)
    call = now.calls[index]
    block = ToolResultBlock(call.id, entry.content, name=call.name, is_error=entry.is_error)
    results = (*now.results[:index], block, *now.results[index + 1 :])
    closing = Closing(_opened(now), now.blocks[index])
    if any([result is None for result in results]):
        changes["results"] = results
    else:
        messages = now.messages.plus(Message("user", cast("tuple[Block, ...]", results)))
        changes["messages"], changes["held"] = _released(messages, now.held)
        changes |= {"calls": (), "results": (), "blocks": (), "opened": None}
    return closing, changes | _after_result(now, entry)


def _after_result(now: Value, entry: ToolResultEntry) -> dict[str, Any]:
    if entry.outcome not in (ToolOutcomeKind.ABORTED, ToolOutcomeKind.INTERRUPTED):
        return _going_on(now)
    if now.status != "open":  # the error that ended the run came right before
        return {}
    died = entry.content == wording.RESULT_UNKNOWN
    return {"status": "interrupted" if died or entry.outcome is ToolOutcomeKind.INTERRUPTED else "failed"}


def _going_on(now: Value) -> dict[str, Any]:
    """A loop that goes on behind an answer, or behind the exception of a step that it caught, has not ended."""
    ended = now.status in ("failed", "interrupted") or (now.status == "answered" and now.stopped is None)
    return {"status": "open"} if ended else {}


def _pending_index(now: Value, call_id: str) -> int:
    for index, call in enumerate(now.calls):
        if call.id == call_id and now.results[index] is None:
            return index
    raise ValueError(f"no pending call has the id {call_id!r}")


def _late_closing(now: Value, call: ToolCall) -> Closing | None:
    # Walks back from the end: a late result is rare, and its call is near.
    for seq in range(len(now.history) - 1, -1, -1):
        entry = now.history[seq]
        if isinstance(entry, ModelReplyEntry):
            for index, block in enumerate(entry.content.message.content):
                if isinstance(block, ToolCall) and block == call:
                    return Closing(seq, index)
    return None


def _exchange(now: Value, entry: ExchangeEntry) -> Effect:
    return None, {} if entry.usage is None else {"usage": now.usage + entry.usage}


def _nothing(now: Value, entry: ModelEventEntry) -> Effect:
    return None, {}


def _context_change(now: Value, entry: ContextChangeEntry) -> Effect:
    effect = _CONTEXT_EFFECTS.get(entry.content.kind)
    if effect is None:
        raise ValueError(f"unknown kind of context change {entry.content.kind!r}")
    return None, effect(now, entry.content)


def messages_after(now: Value, change: ContextChange) -> Log[Message]:
    """The messages that a context change will leave, without recording it: the history grows only by what stays."""
    return _CONTEXT_EFFECTS[change.kind](now, change)["messages"]


def _import(now: Value, change: ContextChange) -> dict[str, Any]:
    if now.waiting:
        raise ValueError("messages cannot be imported while a request waits for its reply")
    _refuse_pending(now, "an import")
    changes: dict[str, Any] = {"messages": now.messages.extended(change.messages)}
    if now.first_user is None:
        changes["first_user"] = next((m for m in change.messages if m.role == "user"), None)
    return changes


def _compact(now: Value, change: ContextChange) -> dict[str, Any]:
    _refuse_pending(now, "a compaction")
    if change.summary is None:
        raise ValueError("a compaction needs a summary")
    if change.kept < 0:
        raise ValueError(f"a compaction cannot keep {change.kept} messages")
    first = [] if now.first_user is None else [now.first_user]
    summary = Message.user(wording.summary_message(change.summary))
    start = max(0, len(now.messages) - change.kept)
    changes: dict[str, Any] = {"messages": Log([*first, summary, *now.messages.tail(start)])}
    if change.usage is not None:
        changes["usage"] = now.usage + change.usage
    return changes


def _clear(now: Value, change: ContextChange) -> dict[str, Any]:
    cleared = frozenset(change.cleared)
    return {"messages": Log([_cleared(message, cleared) for message in now.messages])}


def _cleared(message: Message, cleared: frozenset[str]) -> Message:
    touched = [isinstance(block, ToolResultBlock) and block.call_id in cleared for block in message.content]
    if message.tokens is None and not any(touched):
        return message
    content = [
        ToolResultBlock(block.call_id, wording.CLEARED, block.name, block.is_error)
        if blank and isinstance(block, ToolResultBlock)
        else block
        for block, blank in zip(message.content, touched, strict=True)
    ]
    return Message(message.role, tuple(content), tokens=None, stop_reason=message.stop_reason)


_RESTORED = (
    "messages",
    "turn",
    "extra_data",
    "finished",
    "stopped",
    "calls",
    "results",
    "blocks",
    "opened",
    "waiting",
    "held",
    "late",
    "first_user",
    "reply_text",
    "finish_answer",
    "stop_seq",
)


def _restore(now: Value, change: ContextChange) -> dict[str, Any]:
    length = change.restored_to
    if length is None or not 0 <= length <= len(now.history):
        raise ValueError(f"restored_to must be a number of earlier entries, 0 to {len(now.history)}, not {length!r}")
    then = value_at(now, length)
    parts = {name: getattr(then, name) for name in _RESTORED} | {"restored": True}
    if now.status != "open":
        parts["status"] = "idle" if then.status == "open" else then.status
    return parts


def value_at(now: Value, length: int) -> Value:
    """The value after the first `length` entries of this value's history."""
    if length == len(now.history):
        return now
    base, start = EMPTY, 0
    low, high = 0, len(now.kept)
    while low < high:
        middle = (low + high) // 2
        if now.kept[middle][0] <= length:
            start, base = now.kept[middle]
            low = middle + 1
        else:
            high = middle
    for index in range(start, length):
        base = step(base, now.history[index])
    return base


def _run_start(now: Value, entry: RunStartEntry) -> Effect:
    changes: dict[str, Any] = {"stopped": None, "stop_seq": None, "status": "open", "run": entry.content}
    changes["run_seq"] = len(now.history)
    if now.link is None and entry.parent_id is not None:
        changes["link"] = (entry.parent_id, entry.parent_call_id)
    return None, changes


def _stop(now: Value, entry: StopEntry) -> Effect:
    stopped = entry.content
    changes: dict[str, Any] = {"stopped": stopped, "stop_seq": None if stopped is None else len(now.history)}
    if isinstance(stopped, StoppedByFinish):
        changes["finished"] = True
        if stopped.answer is not None:
            changes["finish_answer"] = stopped.answer
    if stopped is not None:
        changes["status"] = _stop_status(stopped)
    elif now.status not in ("failed", "interrupted"):
        changes["status"] = "idle" if now.run is None else "open"
    return None, changes


def _stop_status(stopped: Stopped) -> str:
    if isinstance(stopped, StoppedByFinish):
        return "finished"
    if isinstance(stopped, StoppedByLimit):
        return "limit"
    return "permission" if isinstance(stopped, StoppedByPermission) else "answered"


def _extra_data(now: Value, entry: ExtraDataEntry) -> Effect:
    data = {key: value for key, value in now.extra_data.items() if key not in entry.removed}
    return None, {"extra_data": FrozenDict[str, Any]({**data, **entry.content})}


def _released(messages: Log[Message], held: Log[Message]) -> tuple[Log[Message], Log[Message]]:
    return (messages.extended(held), Log()) if len(held) else (messages, held)


def _opened(now: Value) -> int:
    assert now.opened is not None
    return now.opened


def _refuse_pending(now: Value, what: str) -> None:
    if now.calls:
        raise ValueError(f"{what} cannot follow while calls are pending: {len(now.pending_calls)} without a result")


_CONTEXT_EFFECTS: dict[str, Callable[[Value, ContextChange], dict[str, Any]]] = {
    "import": _import,
    "compact": _compact,
    "clear_tool_results": _clear,
    "restore": _restore,
}
_EFFECTS: dict[type[Any], Callable[[Value, Any], Effect]] = {
    MessageEntry: _message,
    ModelRequestEntry: _request,
    ModelReplyEntry: _reply,
    ModelEventEntry: _nothing,
    ToolResultEntry: _tool_result,
    ExchangeEntry: _exchange,
    ContextChangeEntry: _context_change,
    RunStartEntry: _run_start,
    StopEntry: _stop,
    ExtraDataEntry: _extra_data,
    ErrorEntry: _error,
}
assert set(_EFFECTS) == set(get_args(HistoryEntry))
