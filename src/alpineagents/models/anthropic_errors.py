"""What a failure of the Anthropic API is called here, and what it says.

The exceptions of the SDK are told apart by what they carry (`status_code`, `body`), so nothing is imported for it. None
of the texts, nor the exceptions behind them, says the key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, cast

from alpineagents.errors import (
    AuthError,
    ContextTooLongError,
    ProviderError,
    RateLimitError,
    error_text,
    explain,
    message_of,
)

Json: TypeAlias = dict[str, Any]

_BAD_REQUEST, _NOT_FOUND = 400, 404
_BY_STATUS: dict[int, type[ProviderError]] = {
    401: AuthError,
    403: AuthError,
    413: ContextTooLongError,
    429: RateLimitError,
}
_TOO_LONG = (
    "prompt is too long",
    "context length",
    "maximum context",
    "too many tokens",
    "exceeds the model",
    "exceeds context",
)
_FIXES: dict[type[ProviderError], str] = {
    AuthError: "check the key in ANTHROPIC_API_KEY or in Anthropic(..., api_key=...)",
    ContextTooLongError: "send less: agent.compact(state), or state.clear_tool_results()",
}
_UNKNOWN_MODEL = "check the name of the model, and base_url if there is one"
_NO_KEY = explain(
    "there is no key for the Anthropic API",
    "set the environment variable ANTHROPIC_API_KEY, or give the key to the model",
    'Anthropic("claude-opus-5", api_key=os.environ["MY_KEY"])',
)
_LOWER_LIMIT = re.compile(r"max_tokens: (\d{1,9}) > (\d{1,9})")
_TEXT_LENGTH = 1000
_SECRET_LENGTH = 8  # a shorter "key" is a placeholder, and may be a word of the message


def refused(error: Exception) -> ProviderError:
    """The failure of a request that was not answered."""
    status = status_of(error)
    if status is not None:
        return _by_status(error, status)
    if lacks_key(error):
        return AuthError(_NO_KEY)
    reason = f" ({error_text(error.__cause__)})" if error.__cause__ else ""
    return ProviderError(f"the request to Anthropic failed: {_short(error_text(error))}{reason}")


def broken_off(error: Exception) -> ProviderError:
    """The failure of a reply that had begun; nothing is sent again for it."""
    if status_of(error) is not None:  # the SDK makes one of an `error` event, with the status of the answer
        return ProviderError(f"Anthropic failed while it replied: {server_text(answer_body(error))}")
    return ProviderError(f"the reply of Anthropic broke off: {_short(error_text(error))}")


def _by_status(error: Exception, status: int) -> ProviderError:
    body = answer_body(error)
    kind = _BY_STATUS.get(status, ProviderError)
    if status == _BAD_REQUEST and any(sign in f"{body} {error}".lower() for sign in _TOO_LONG):
        kind = ContextTooLongError
    problem = f"Anthropic answered {status}: {server_text(body)}"
    fix = _UNKNOWN_MODEL if status == _NOT_FOUND else _FIXES.get(kind)
    return kind(explain(problem, fix) if fix else problem)


def status_of(error: BaseException | None) -> int | None:
    """The HTTP status an exception of the SDK tells of."""
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def answer_body(error: BaseException | None) -> object:
    """The body of the answer an exception of the SDK tells of: JSON, or text that is none."""
    return getattr(error, "body", None)


def lacks_key(error: Exception) -> bool:
    """Whether the SDK found no credentials: a class of its own, or a plain TypeError, by version and place."""
    if isinstance(error, TypeError):
        return "authentication" in message_of(error)
    return any(kind.__name__ == "CredentialsError" for kind in type(error).__mro__)


def lower_limit(failure: ProviderError, sent: int) -> int | None:
    """The output limit that the API named when it refused a higher one; `None` if this is another failure."""
    if status_of(failure.__cause__) != _BAD_REQUEST:
        return None
    found = _LOWER_LIMIT.search(str(failure.__cause__))
    if found is None or int(found[1]) != sent:
        return None
    limit = int(found[2])
    return limit if 0 < limit < sent else None


def server_text(body: object) -> str:
    """What the server itself says in the body of an error: the type of the error, its message, the request."""
    whole = as_dict(body)
    error = as_dict(whole.get("error")) or whole
    said = [as_text(error.get("type")), as_text(error.get("message"))]
    text = ": ".join(part for part in said if part) if said[1] else _raw(body)
    request = as_text(whole.get("request_id"))
    return _short(text) + (f" (request {request})" if request else "")


def _raw(body: object) -> str:
    if body is None or body == "":
        return "nothing more"
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=repr)


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _TEXT_LENGTH else text[: _TEXT_LENGTH - 1] + "…"


def as_dict(value: object) -> Json:
    """A JSON value where an object should be; anything else counts as an empty one."""
    return cast("Json", value) if isinstance(value, dict) else {}


def as_text(value: object) -> str:
    """A JSON value where a string should be; anything else counts as an empty one."""
    return value if isinstance(value, str) else ""


def check_key(key: str) -> None:
    """Refuse a key that cannot be sent, before an exception of the transport shows it.

    Raises:
        AuthError: It holds a line break or another character that no HTTP header may have.
    """
    if not key.isascii() or not key.isprintable() or key != key.strip():
        raise AuthError(
            explain(
                "the key for the Anthropic API holds a space, a line break or another character that no key has",
                "give the key alone; what is read from a file often ends with a line break",
                'Anthropic("claude-opus-5", api_key=Path("key.txt").read_text().strip())',
            )
        )


def hide(secrets: Iterable[str], failure: BaseException) -> None:
    """Take the key out of an exception and those behind it: a server may repeat what it was sent."""
    long_ones = [secret for secret in secrets if len(secret) >= _SECRET_LENGTH]
    for error in _chain(failure):
        if any(secret in message_of(error) for secret in long_ones):
            error.args = tuple(_hidden(long_ones, part) for part in error.args)
            if isinstance(said := getattr(error, "message", None), str):
                setattr(error, "message", _hidden(long_ones, said))  # noqa: B010  # the SDK says its text twice


def _hidden(secrets: Iterable[str], value: Any) -> Any:
    for secret in secrets:
        value = value.replace(secret, "***") if isinstance(value, str) else value
    return value


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
