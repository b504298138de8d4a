"""`@tool`: a Python function becomes a tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack, overload

from alpineagents.tools.function import FunctionTool
from alpineagents.tools.options import ToolOptions, check_options

_NO_FUNCTION: Any = object()


@overload
def tool(fn: Callable[..., Any], /, **options: Unpack[ToolOptions]) -> FunctionTool: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    fn: Callable[..., Any] = _NO_FUNCTION, /, **options: Unpack[ToolOptions]
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function or method, as `@tool` or `@tool(...)`.

    The model sees the name, the docstring's first paragraph, and each parameter with its type, its default and its text
    under `Args:`. Arguments are checked and converted before the function is called.

    Args:
        name: The name the model calls, 1-64 characters of ASCII letters, digits, `_` and `-`; else the function's own.
        description: What the model reads instead of the docstring's first paragraph.
        parallel: `False` runs a call only after the others of its reply, one at a time.
        exception_handler: A function of one exception that returns the message for the model; its type hint says which
            exceptions it takes. Any other exception stops the run.
        hints_for: A function of the arguments that gives the `Hints` of one call, or `None` for those of the tool.
        read_only, destructive, idempotent, open_world: What a call may do at worst, as in `Hints`.
    Raises:
        TypeError: The function or an option cannot be used.
        ValueError: Hints that contradict each other.
    """
    check_options(options)

    def decorate(function: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(function, **options)

    return decorate if fn is _NO_FUNCTION else decorate(fn)
