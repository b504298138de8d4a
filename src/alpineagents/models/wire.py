"""What the adapters share about JSON, keys and texts, whatever the provider: nothing here waits or knows a client."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias, cast

from alpineagents.errors import AuthError, explain, message_of
from alpineagents.values.content import (
    CUT_OFF_STOP_REASONS,
    INVALID_ARGS_KEY,
    TRUNCATED_ARGS_MESSAGE,
    Block,
    Message,
    ToolCall,
)
from alpineagents.values.frozen import frozen_json

Json: TypeAlias = dict[str, Any]

_TEXT_LENGTH = 1000
_SECRET_LENGTH = 8  # a shorter "key" is a placeholder, and may be a word of the message


def as_dict(value: object) -> Json:
    """A JSON value where an object should be; anything else counts as an empty one."""
    return cast("Json", value) if isinstance(value, dict) else {}


def as_text(value: object) -> str:
    """A JSON value where a string should be; anything else counts as an empty one."""
    return value if isinstance(value, str) else ""


def encoded(body: Json) -> bytes:
    """A body as JSON text in UTF-8; a lone surrogate, which no UTF-8 can hold, becomes U+FFFD."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def merged(messages: Iterable[Message]) -> list[tuple[str, list[Block]]]:
    """Runs of messages of one role as one, since providers want the roles to take turns."""
    turns: list[tuple[str, list[Block]]] = []
    for message in messages:
        if not turns or turns[-1][0] != message.role:
            turns.append((message.role, []))
        turns[-1][1].extend(message.content)
    return turns


def args_of(text: str) -> Json:
    """The arguments of a call from their JSON text, which may be blank; kept as text unless they are a whole object."""
    if not text.strip():
        return {}
    args = json_or(text, None)
    return cast("Json", args) if isinstance(args, dict) else {INVALID_ARGS_KEY: text}


def json_or(text: str, otherwise: object) -> object:
    """The frozen value of a JSON text, or `otherwise` when it is none that history can keep."""
    try:
        return frozen_json(json.loads(text), "input")
    except (ValueError, TypeError, RecursionError):  # not JSON; NaN, too deep, too many digits; far too deep
        return otherwise


def cut_short(blocks: list[Block], stop_reason: str | None) -> list[Block]:
    """The blocks of a reply; when an output limit ended it in a call, that call says so instead of its arguments."""
    if stop_reason in CUT_OFF_STOP_REASONS and blocks and isinstance(last := blocks[-1], ToolCall):
        return [*blocks[:-1], replace(last, args={INVALID_ARGS_KEY: TRUNCATED_ARGS_MESSAGE})]
    return blocks


def short(text: str) -> str:
    """A server's text for a message: without the space around it, and cut when it is long."""
    text = text.strip()
    return text if len(text) <= _TEXT_LENGTH else text[: _TEXT_LENGTH - 1] + "…"


def check_key(key: str, api: str, example: str) -> None:
    """Refuse a key that cannot be sent, before an exception of the transport shows it.

    Args:
        api, example: What the key is for, and how to give it; both for the message.
    Raises:
        AuthError: It holds a line break or another character that no HTTP header may have.
    """
    if not key.isascii() or not key.isprintable() or key != key.strip():
        raise AuthError(
            explain(
                f"the key for {api} holds a space, a line break or another character that no key has",
                "give the key alone; what is read from a file often ends with a line break",
                example,
            )
        )


def hide(secrets: Iterable[str], failure: BaseException) -> None:
    """Take the key out of an exception and those behind it: a server may repeat what it was sent."""
    long_ones = [secret for secret in secrets if len(secret) >= _SECRET_LENGTH]
    for error in _chain(failure):
        if any(secret in message_of(error) for secret in long_ones):
            error.args = tuple(_hidden(long_ones, part) for part in error.args)
            if isinstance(said := getattr(error, "message", None), str):
                setattr(error, "message", _hidden(long_ones, said))  # noqa: B010  # an SDK may say its text twice


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
