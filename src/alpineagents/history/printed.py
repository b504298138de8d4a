"""A history as text: one line per entry, as `print(state)` shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from alpineagents.history.entries import (
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
from alpineagents.history.value import Value
from alpineagents.values.content import Image, size_text
from alpineagents.values.display import format_call, result_size, result_text, short, shown
from alpineagents.values.outcomes import ToolOutcomeKind

_NAMED_OUTCOMES = (ToolOutcomeKind.DENIED, ToolOutcomeKind.CANCELLED)


def printed(now: Value) -> str:
    """All lines of a history, and how it ended if it did."""
    lines = [entry_line(entry) for entry in now.history]
    turns = "1 turn" if now.turn == 1 else f"{now.turn} turns"
    if now.stopped is not None:
        lines.append(f"done: {now.stopped} ({turns})")
    elif now.finished:
        lines.append(f"done: stopped by finish ({turns})")
    return "\n".join(lines)


def entry_line(entry: HistoryEntry) -> str:
    """One entry as one line: `[turn 1] model_request: acme/large`."""
    text = f"[turn {entry.turn}] {entry.kind}{_REST[type(entry)](entry)}"
    return shown(" ".join(text.splitlines()))  # a model chooses the names of the calls it makes


def _message(entry: MessageEntry) -> str:
    blocks = () if isinstance(entry.content, str) else entry.content
    if not any([isinstance(block, Image) for block in blocks]):
        return f": {short(entry.message.text)}"
    parts = [f"({block.media_type})" if isinstance(block, Image) else block.text for block in blocks]
    return f": {short(' '.join(parts))}"


def _reply(entry: ModelReplyEntry) -> str:
    reply = entry.content
    parts = [short(reply.text), *[short(format_call(call)) for call in reply.tool_calls]]
    return f": {'; '.join([part for part in parts if part]) or '(empty reply)'}"


def _tool_result(entry: ToolResultEntry) -> str:
    late = " (late)" if entry.late else ""
    if entry.outcome is ToolOutcomeKind.DONE:
        return f" {entry.call.name}: {size_text(result_size(entry.content))}{late}"
    word = entry.outcome if entry.outcome in _NAMED_OUTCOMES else "error"
    return f" {entry.call.name}{late} ({word}): {short(result_text(entry.content))}"


def _context_change(entry: ContextChangeEntry) -> str:
    change = entry.content
    if change.kind == "import":
        return f" import: {len(change.messages)} messages"
    if change.kind == "restore":
        return f" restore: back to {change.restored_to} history entries"
    return f" {change.kind}: {change.before_tokens} → {change.after_tokens} tokens"


def _extra_data(entry: ExtraDataEntry) -> str:
    parts = [f"set {', '.join(entry.content)}"] if entry.content else []
    if entry.removed:
        parts.append(f"removed {', '.join(entry.removed)}")
    return f": {'; '.join(parts)}"


def _run_start(entry: RunStartEntry) -> str:
    return f": {entry.content.model}" + (f" ({entry.content.name})" if entry.content.name else "")


def _error(entry: ErrorEntry) -> str:
    return f"{' ' + entry.call.name if entry.call else ''}: {short(entry.content)}"


_REST: dict[type[Any], Callable[[Any], str]] = {
    MessageEntry: _message,
    ModelRequestEntry: lambda entry: f": {short(entry.content)}",
    ModelReplyEntry: _reply,
    ModelEventEntry: lambda entry: f": {short(f'{entry.content.kind}: {entry.content.message}')}",
    ToolResultEntry: _tool_result,
    ExchangeEntry: lambda entry: f": {short(entry.content.question, 40)} → {short(entry.content.answer, 40)}",
    ContextChangeEntry: _context_change,
    RunStartEntry: _run_start,
    StopEntry: lambda entry: f": {'(cleared)' if entry.content is None else entry.content}",
    ExtraDataEntry: _extra_data,
    ErrorEntry: _error,
}
