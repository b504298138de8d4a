"""The lines a `Terminal` shows, as text. Nothing here writes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from alpineagents.errors import message_of
from alpineagents.history.entries import ContextChange, ContextChangeKind
from alpineagents.history.rules import is_interrupt
from alpineagents.history.snapshot import StateSnapshot
from alpineagents.terminal.colours import Line, Look
from alpineagents.values.content import Image, ToolCall, ToolResultContent, size_text
from alpineagents.values.display import format_call, result_size, result_text, shown
from alpineagents.values.exchange import ModelEvent
from alpineagents.values.outcomes import StoppedByLimit, ToolOutcome, ToolOutcomeKind
from alpineagents.values.usage import Usage

FIRST_LINE_LENGTH = 100
THOUSAND = 1000

_CHANGES: dict[ContextChangeKind, str] = {
    "compact": "context compacted",
    "clear_tool_results": "tool results cleared",
    "restore": "context restored",
    "import": "context imported",
}
_LOOKS = {
    ToolOutcomeKind.DONE: Look.FAINT,
    ToolOutcomeKind.DENIED: Look.WARNING,
    ToolOutcomeKind.CANCELLED: Look.WARNING,
    ToolOutcomeKind.INTERRUPTED: Look.WARNING,
}
_REFUSALS = {ToolOutcomeKind.DENIED: "denied", ToolOutcomeKind.CANCELLED: "cancelled"}
_LINE_BREAKS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")  # as `str.splitlines` has them


@dataclass(frozen=True)
class RunLines:
    """The lines of one run. A run below another (`depth` counts how many) is indented and carries its Agent's name."""

    depth: int = 0
    name: str = ""

    @property
    def indent(self) -> str:
        """What each line of the run begins with."""
        return "    " * self.depth

    @property
    def _label(self) -> str:
        return f"{on_one_line(self.name)} " if self.name else ""

    def started(self) -> Line:
        """The first line of a subagent's run."""
        return Line(f"{self.indent}{self._label}started", Look.BOLD)

    def thinking(self, turn: int) -> Line:
        """The header of a turn."""
        return Line(f"{self.indent}[{self._label}turn {turn}] thinking", Look.BOLD)

    def tool_started(self, call: ToolCall) -> Line:
        """A tool begins."""
        return Line(f"{self.indent}  tool {on_one_line(format_call(call))}", Look.TOOL)

    def tool_ended(self, call: ToolCall, result: ToolResultContent, outcome: ToolOutcome) -> Line:
        """A call is over: what became of it, which the outcome says and never the text."""
        text = f"{self.indent}  {_ending(call, result, outcome.kind)}"
        return Line(text, _LOOKS.get(outcome.kind, Look.BAD), echoed=outcome.kind is ToolOutcomeKind.INTERRUPTED)

    def model_event(self, event: ModelEvent) -> Line:
        """The Model reported something."""
        return Line(f"{self.indent}  model: {event.message}", Look.WARNING)

    def context_change(self, change: ContextChange) -> Line:
        """The context became smaller or another one."""
        sizes = f"{token_count(change.before_tokens)} → {token_count(change.after_tokens)} tokens"
        note = " (cache rebuilds)" if change.kind == "compact" else ""
        return Line(f"{self.indent}  {self._label}{_CHANGES[change.kind]}: {sizes}{note}", Look.FAINT)

    def ended(self, snapshot: StateSnapshot, error: BaseException | None) -> Line:
        """The last line of a run."""
        ending = _run_ending(snapshot, error)
        return ending._replace(text=f"{self.indent}{self._label}done: {ending.text}")


def _ending(call: ToolCall, result: ToolResultContent, kind: ToolOutcomeKind) -> str:
    if kind is ToolOutcomeKind.DONE:
        return f"done {_size(result)}"
    text = result_text(result)
    if kind is ToolOutcomeKind.ERROR:
        return f"error {on_one_line(call.name)}: {first_line(text)}"
    if kind is ToolOutcomeKind.INPUT_ERROR:
        return text
    return f"{_REFUSALS.get(kind, 'aborted')} {on_one_line(call.name)}: {text}"


def _size(result: ToolResultContent) -> str:
    size = size_text(result_size(result))
    images = 0 if isinstance(result, str) else sum(isinstance(block, Image) for block in result)
    return f"{size} ({_counted(images, 'image')})" if images else size


def on_one_line(text: str) -> str:
    """A name or a call as one line: a line break in it, which only a hostile one has, would forge the next line."""
    return _LINE_BREAKS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def first_line(text: str) -> str:
    """The first line with something on it, cut to a length that fits beside a tool's name."""
    line = shown(next(iter(text.strip().splitlines()), "")).rstrip()
    return line if len(line) <= FIRST_LINE_LENGTH else line[: FIRST_LINE_LENGTH - 1] + "…"


def token_count(tokens: int) -> str:
    """`999`, `1k`, `121k`."""
    return str(tokens) if tokens < THOUSAND else f"{tokens / THOUSAND:.0f}k"


def _run_ending(snapshot: StateSnapshot, error: BaseException | None) -> Line:
    turns = _counted(snapshot.turn, "turn")
    if error is not None and is_interrupt(error):
        return Line(f"interrupted by user ({turns})", Look.WARNING, echoed=True)
    if error is not None:
        return Line(f"error {type(error).__name__}: {message_of(error)} ({turns})", Look.BAD)
    if isinstance(snapshot.stopped, StoppedByLimit):
        limit = snapshot.stopped.turns
        return Line(f"reached limit({limit}), the task may be unfinished ({turns})", Look.WARNING)
    reason = "" if snapshot.stopped is None else f"{snapshot.stopped} "
    return Line(f"{reason}({', '.join([turns, *_spending(snapshot.usage)])})", Look.GOOD)


def _spending(usage: Usage) -> list[str]:
    spending: list[str] = []
    if usage.cost is not None:
        spending.append(f"~${usage.cost:.2f}")
    rate = f"{usage.cache_hit_rate or 0:.0%}"
    if rate != "0%":
        spending.append(f"cache hit {rate}")
    return spending


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
