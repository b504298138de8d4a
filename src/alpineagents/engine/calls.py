"""One tool call carried out: how it ended, as the model will hear it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from alpineagents.engine.actor import as_raised
from alpineagents.errors import ToolError, ToolInputError, message_of
from alpineagents.history import wording
from alpineagents.history.rules import is_interrupt
from alpineagents.state import State
from alpineagents.tools.base import Tool
from alpineagents.tools.results import result_content
from alpineagents.values.content import ToolCall, ToolResultContent
from alpineagents.values.frozen import thaw
from alpineagents.values.outcomes import ToolOutcomeKind
from alpineagents.waiting import Wait


@dataclass(frozen=True, slots=True)
class Ending:
    """How a call ended.

    Attributes:
        error: The `ToolError` behind an error result, or the exception the tool raised.
        raised: Whether that exception is to stop the run.
    """

    content: ToolResultContent
    outcome: ToolOutcomeKind
    error: BaseException | None = None
    raised: bool = False


async def carried_out(
    wait: Wait, call: ToolCall, tool: Tool, state: State, run_to_end: Callable[[Awaitable[Any]], Any]
) -> Ending:
    """Run the tool with its own copy of the arguments; never raises.

    Args:
        run_to_end: Awaits what an asynchronous tool gives, on a thread that has no event loop.
    """
    try:
        value = tool.run(thaw(call.args), state)
        if inspect.isawaitable(value):
            value = await wait(run_to_end, _itself, value)
        return Ending(result_content(value), ToolOutcomeKind.DONE)
    except ToolInputError as error:
        return Ending(wording.input_error(message_of(error)), ToolOutcomeKind.INPUT_ERROR)
    except ToolError as error:
        return Ending(message_of(error), ToolOutcomeKind.ERROR, error)
    except BaseException as error:
        return closing(error)


def closing(error: BaseException) -> Ending:
    """The ending of a call that an exception closes."""
    error = as_raised(error)
    if is_interrupt(error):
        return Ending(wording.INTERRUPTED, ToolOutcomeKind.INTERRUPTED, error, raised=True)
    return Ending(wording.aborted(error), ToolOutcomeKind.ABORTED, error, raised=True)


async def _itself(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
