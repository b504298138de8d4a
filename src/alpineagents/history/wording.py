"""Every sentence the framework itself puts into a conversation or a record."""

from __future__ import annotations

from alpineagents.errors import error_text
from alpineagents.values.content import NOTICE_PREFIX, ToolCall, ToolResultContent
from alpineagents.values.display import format_call, result_text

DONE = "(done)"
INTERRUPTED = "(interrupted by user)"
CLEARED = "(cleared: kept in history)"
NOT_RUN_YET = "(not run yet)"
NOBODY_ALLOWED = "No permission allowed this call."
TURN_STOPPED = "(not run: the user stopped this turn)"
ABORTED = "(aborted: BaseException)"
STOPPED_WAITING = "(process stopped while waiting for the model)"
RESULT_UNKNOWN = (
    "(unknown: the run stopped before this result was saved, so the tool may or may not have run. "
    "Check whether it took effect before relying on it or running it again)"
)


def aborted(error: BaseException) -> str:
    """The result of a call that an exception closed."""
    return f"(aborted: {type(error).__name__})"


def input_error(problem: str) -> str:
    """The result of a call whose tool or arguments cannot be used."""
    return f"(input error: {problem})"


def summary_message(summary: str) -> str:
    """What stands in the context instead of the messages a compaction removed."""
    return f"{NOTICE_PREFIX}Summary so far:\n{summary}"


def late_result(call: ToolCall, content: ToolResultContent) -> str:
    """What the model is told about a tool that finished after its call was closed."""
    return f"{NOTICE_PREFIX}interrupted {format_call(call)} finished later: {result_text(content)}"


def subagent_limit(name: str, turns: int) -> str:
    """The note behind what a subagent returned that reached its limit."""
    return f"({name} stopped after {turns} {'turn' if turns == 1 else 'turns'} before finishing)"


def subagent_stopped(name: str, reason: str | None) -> str:
    """The result of a subagent that a permission stopped."""
    return f"({name} was stopped by the user{'' if reason is None else f': {reason}'})"


def subagent_failed(name: str, error: BaseException) -> str:
    """The result of a subagent that an exception ended."""
    return f"({name} failed: {error_text(error)})"
