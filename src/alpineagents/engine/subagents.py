"""An Agent as a tool: each call is a run of its own, on a new State that begins with the prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from alpineagents.engine.actor import as_raised
from alpineagents.errors import ToolError, ToolInputError, explain
from alpineagents.history import wording
from alpineagents.history.entries import ToolResultEntry
from alpineagents.history.value import Value
from alpineagents.state import State, journal_of
from alpineagents.tools.base import Tool, check_tool_name
from alpineagents.tools.results import result_content
from alpineagents.values.content import Message, TextBlock, ToolResultContent
from alpineagents.values.display import result_text
from alpineagents.values.outcomes import StoppedByLimit, StoppedByPermission, ToolOutcomeKind
from alpineagents.waiting import Wait, awaiting, blocking, complete, in_async_run

_PROMPT = (
    "The task, with everything it takes to do it. The subagent sees only this prompt, nothing of this conversation"
)
_EXAMPLE = 'Agent(model, name="surveyor", description="Measures plots and reports the numbers")'


@dataclass(frozen=True, slots=True)
class Runner:
    """How an Agent is run: its two halves, and which of them its loop has."""

    run: Callable[[State], Any]
    arun: Callable[[State], Awaitable[Any]]
    sync: bool
    asynchronous: bool


class AgentTool(Tool):
    """The tool that an Agent in `tools=` becomes.

    Raises:
        ValueError: The Agent has no name or no description.
        TypeError: Its name can be no tool's.
    """

    def __init__(self, name: str | None, description: str | None, runner: Runner) -> None:
        missing = [setting for setting, given in (("name", name), ("description", description)) if not given]
        if not name or not description:
            raise ValueError(
                explain(
                    f"an Agent in tools= needs a name and a description, and Agent(name={name!r}) lacks its "
                    f"{' and '.join(missing)}",
                    "say what the model calls it and what it is good for",
                    _EXAMPLE,
                )
            )
        schema = {
            "type": "object",
            "properties": {"prompt": {"type": "string", "description": _PROMPT}},
            "required": ["prompt"],
        }
        super().__init__(name=check_tool_name(name), description=description, input_schema=schema)
        self._runner = runner

    @property
    def is_async(self) -> bool:
        """Whether a call is a task of the event loop rather than a thread; the default loop can be both."""
        return self._runner.asynchronous and (not self._runner.sync or in_async_run())

    def run(self, args: dict[str, Any], state: State) -> Any:
        """Run the Agent on a new State."""
        child = State(messages=[Message.user(_prompt(args))])
        if self.is_async:
            return self._outcome(awaiting, child)
        return complete(self._outcome(blocking, child))

    async def _outcome(self, wait: Wait, child: State) -> Any:
        try:
            value = await wait(self._runner.run, self._runner.arun, child)
        except Exception as error:
            if journal_of(child).now.run is None:  # it never started, because something is wrong with the set-up
                raise
            raised = as_raised(error)
            raise ToolError(wording.subagent_failed(self.name, raised)) from raised
        now = journal_of(child).now
        if isinstance(now.stopped, StoppedByPermission):
            return wording.subagent_stopped(self.name, _reason(now, now.stopped))
        if isinstance(now.stopped, StoppedByLimit):
            return _with_note(value, wording.subagent_limit(self.name, now.stopped.turns))
        return value

    def __repr__(self) -> str:
        return f"Agent(name={self.name!r})"


def _prompt(args: dict[str, Any]) -> str:
    unexpected = sorted([name for name in args if name != "prompt"])
    if unexpected:
        raise ToolInputError(f"unexpected argument: {', '.join(unexpected)}")
    prompt = args.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ToolInputError("prompt: must be a non-empty string")
    return prompt


def _reason(now: Value, stopped: StoppedByPermission) -> str | None:
    """Why the call was denied, as the subagent's model heard it."""
    for index in range(len(now.history) - 1, -1, -1):
        entry = now.history[index]
        if not isinstance(entry, ToolResultEntry) or entry.outcome is not ToolOutcomeKind.DENIED:
            continue
        if entry.call == stopped.call:
            return result_text(entry.content)
    return None


def _with_note(value: object, note: str) -> Any:
    """What a run returned, with a note at the end."""
    if value is None or value == "":
        return note
    content: ToolResultContent = result_content(value)
    if isinstance(content, str):
        return f"{content}\n{note}"
    # As the values that they were made of, which become the same blocks again.
    return [*[block.text if isinstance(block, TextBlock) else block for block in content], note]
