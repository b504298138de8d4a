"""The lines a `Terminal` shows, as text. Nothing here writes."""

from __future__ import annotations

from asyncio import CancelledError
from dataclasses import dataclass

from alpineagents.errors import message_of
from alpineagents.history.entries import ContextChange, ContextChangeKind
from alpineagents.history.snapshot import StateSnapshot
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
_REFUSALS = {ToolOutcomeKind.DENIED: "denied", ToolOutcomeKind.CANCELLED: "cancelled"}


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
        return f"{self.name} " if self.name else ""

    def started(self) -> str:
        """The first line of a subagent's run."""
        return f"{self.indent}{self._label}started"

    def thinking(self, turn: int) -> str:
        """The header of a turn."""
        return f"{self.indent}[{self._label}turn {turn}] thinking"

    def tool_started(self, call: ToolCall) -> str:
        """A tool begins."""
        return f"{self.indent}  tool {on_one_line(format_call(call))}"

    def tool_ended(self, call: ToolCall, result: ToolResultContent, outcome: ToolOutcome) -> str:
        """A call is over: what became of it, which the outcome says and never the text."""
        return f"{self.indent}  {_ending(call, result, outcome.kind)}"

    def model_event(self, event: ModelEvent) -> str:
        """The Model reported something."""
        return f"{self.indent}  model: {event.message}"

    def context_change(self, change: ContextChange) -> str:
        """The context became smaller or another one."""
        sizes = f"{token_count(change.before_tokens)} → {token_count(change.after_tokens)} tokens"
        note = " (cache rebuilds)" if change.kind == "compact" else ""
        return f"{self.indent}  {self._label}{_CHANGES[change.kind]}: {sizes}{note}"

    def ended(self, snapshot: StateSnapshot, error: BaseException | None) -> str:
        """The last line of a run."""
        return f"{self.indent}{self._label}done: {_run_ending(snapshot, error)}"


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
    return "\\n".join(text.splitlines()) if len(text.splitlines()) > 1 else text


def first_line(text: str) -> str:
    """The first line with something on it, cut to a length that fits beside a tool's name."""
    line = shown(next(iter(text.strip().splitlines()), "")).rstrip()
    return line if len(line) <= FIRST_LINE_LENGTH else line[: FIRST_LINE_LENGTH - 1] + "…"


def token_count(tokens: int) -> str:
    """`999`, `1k`, `121k`."""
    return str(tokens) if tokens < THOUSAND else f"{tokens / THOUSAND:.0f}k"


def _run_ending(snapshot: StateSnapshot, error: BaseException | None) -> str:
    turns = _counted(snapshot.turn, "turn")
    if isinstance(error, KeyboardInterrupt | CancelledError):
        return f"interrupted by user ({turns})"
    if error is not None:
        return f"error {type(error).__name__}: {message_of(error)} ({turns})"
    if isinstance(snapshot.stopped, StoppedByLimit):
        return f"reached limit({snapshot.stopped.turns}), the task may be unfinished ({turns})"
    reason = "" if snapshot.stopped is None else f"{snapshot.stopped} "
    return f"{reason}({', '.join([turns, *_spending(snapshot.usage)])})"


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
