"""Every exception and warning of the package, and the one maker of messages.

    Exception
    +-- AlpineAgentsError          the outside world failed
    |   +-- ProviderError          a model request finally failed
    |   |   +-- RateLimitError     the provider limits the rate
    |   |   +-- AuthError          the key is missing or refused
    |   |   +-- ContextTooLongError
    |   +-- OutputError            the model gave no usable answer
    |   +-- CutOffError            the output limit left nothing to go on with
    |   +-- NoHumanError           nobody is there to be asked
    |   +-- MCPConnectionError     a tool server could not be reached
    +-- ToolError, ToolInputError  raised by a tool on purpose, read by the model
    +-- MovedOnError               (ValueError) another writer continued this State
    +-- ResumeWarning              (UserWarning) another Agent goes on with a saved State
    +-- PermissionWarning          (UserWarning) no permission decided about a call

Misuse is a plain `TypeError`, `ValueError` or `LookupError`, with a message made by `explain`.
"""

from __future__ import annotations

from typing import Any


def explain(problem: str, fix: str | None = None, example: str | None = None) -> str:
    """The text of an error a person can cause: what is wrong, how to fix it, an example."""
    parts = [problem]
    if fix is not None:
        parts.append(f"Fix: {fix}")
    if example is not None:
        parts.append("Example:\n" + "\n".join(f"    {line}" for line in example.splitlines()))
    return "\n".join(parts)


def shown(value: object, length: int = 100) -> str:
    """`repr(value)` for a message: cut when it is long, and no exception of its own."""
    try:
        text = repr(value)
    except Exception as broken:
        text = f"(its repr raised {type(broken).__name__})"
    return text if len(text) <= length else text[: length - 1] + "…"


def error_text(error: BaseException) -> str:
    """An exception as one text: `TimeoutError: no reply`, or only the class name without a message."""
    message = message_of(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def message_of(error: BaseException) -> str:
    """`str(error)`; a broken `__str__` of somebody's exception must not hide the exception itself."""
    try:
        return str(error)
    except Exception as broken:
        return f"(no message: str() raised {type(broken).__name__})"


class AlpineAgentsError(Exception):
    """Base of what the library raises because of the outside world."""


class ProviderError(AlpineAgentsError):
    """A model request finally failed; `__cause__` is the original exception, if there was one."""


class RateLimitError(ProviderError):
    """The provider limits the rate of requests, also after the retries."""


class AuthError(ProviderError):
    """The provider's key is missing or was refused."""


class ContextTooLongError(ProviderError):
    """The request is larger than the model's context window."""


class OutputError(AlpineAgentsError):
    """The model's text did not fit what was asked for; `__cause__` is the last validation error."""


class CutOffError(AlpineAgentsError):
    """An output limit ended the reply before it said anything or asked for a tool.

    Attributes:
        reply: The `Reply`, which is recorded as it came.
    """

    def __init__(self, message: str, reply: Any) -> None:
        super().__init__(message, reply)
        self.reply = reply

    def __str__(self) -> str:
        return str(self.args[0])


class NoHumanError(AlpineAgentsError):
    """A person was to be asked and there is none."""


class MCPConnectionError(AlpineAgentsError):
    """An MCP server could not be reached, or was lost."""


class ToolError(Exception):
    """Raised by a tool: the model gets the message as an error result and the run goes on.

    Raises:
        TypeError: The message is not a `str`.
        ValueError: The message is empty or blank; providers refuse empty results.
    """

    def __init__(self, message: str) -> None:
        if not isinstance(message, str):
            raise TypeError(
                explain(
                    f"ToolError takes its message as a str, not {type(message).__name__}: {shown(message)}",
                    "say in words what went wrong",
                    'raise ToolError("no such file: a.txt")',
                )
            )
        if not message.strip():
            raise ValueError(
                explain(
                    f"ToolError needs a message the model can read, not {shown(message)}",
                    "say what went wrong and what the model could do instead",
                    'raise ToolError("no such file: a.txt")',
                )
            )
        super().__init__(message)


class ToolInputError(Exception):
    """Raised by a tool whose arguments do not fit: the model gets `(input error: ...)` and the run goes on."""


class MovedOnError(ValueError):
    """Another writer continued this State, so what this State object holds unsaved can never be saved."""


class ResumeWarning(UserWarning):
    """A loaded State is run by an Agent that differs from the one that ran it last.

    Attributes:
        changes: `{field: (saved, current)}` for each difference.
    """

    def __init__(self, message: str, changes: dict[str, tuple[Any, Any]]) -> None:
        super().__init__(message, changes)
        self.changes = changes

    def __str__(self) -> str:
        return str(self.args[0])


class PermissionWarning(UserWarning):
    """No permission decided about a call, so it was denied."""
