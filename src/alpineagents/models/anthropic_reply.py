"""What comes back from the Anthropic Messages API: the events of a stream, folded into a Reply.

    message_start   the model and the first token counts
    content_block_start, content_block_delta*, content_block_stop   per block, told apart by `index`
    message_delta   the stop reason and the final counts, which replace the earlier ones
    message_stop    the end; `ping` and types that are not known here may come at any time

https://docs.claude.com/en/docs/build-with-claude/streaming. The events are the JSON values of the wire, not the SDK's
classes, so that a block goes into history exactly as the server wrote it. Nothing here waits or knows a client.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn, cast

from alpineagents.errors import ProviderError, shown
from alpineagents.models.anthropic_errors import Json, as_dict, as_text, server_text
from alpineagents.models.anthropic_request import PROVIDER
from alpineagents.values.content import (
    CUT_OFF_STOP_REASONS,
    INVALID_ARGS_KEY,
    TRUNCATED_ARGS_MESSAGE,
    Block,
    Message,
    RawBlock,
    TextBlock,
    ToolCall,
)
from alpineagents.values.exchange import Reply
from alpineagents.values.frozen import frozen_json
from alpineagents.values.usage import Price, Usage

_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}


class Answer:
    """One answer of the API, as far as its events have come.

    Attributes:
        stop_reason: `None` until the API said why it stopped; an answer without it is not whole.
        over: Whether the last event was there; what comes after it does not count.
    """

    def __init__(self) -> None:
        self.model: str | None = None
        self.stop_reason: str | None = None
        self.over = False
        self._counts: dict[str, int] = {}
        self._blocks: list[_Growing] = []
        self._at: dict[int, _Growing] = {}

    def add(self, event: object) -> str:
        """Take in one event.

        Returns:
            The text in it that belongs to the reply; empty for most events.
        Raises:
            ProviderError: It tells of a failure, or makes no sense.
        """
        if not isinstance(event, dict):
            raise ProviderError(f"the reply of Anthropic holds something that is no event: {shown(event)}")
        told = cast("Json", event)
        step = _STEPS.get(str(told.get("type")))
        return step(self, told) if step else ""

    @property
    def blocks(self) -> list[Block]:
        """The blocks in the order in which they began."""
        return [block.finished() for block in self._blocks]

    @property
    def usage(self) -> Usage:
        """The tokens of this one request."""
        return Usage(requests=1, **self._counts)

    @property
    def context_tokens(self) -> int | None:
        """All tokens of the context, the answer included; `None` when the API gave no counts."""
        return sum(self._counts.values()) if self._counts else None

    def message_start(self, event: Json) -> str:
        message = as_dict(event.get("message"))
        self.model = as_text(message.get("model")) or self.model
        self._count(message)
        return ""

    def content_block_start(self, event: Json) -> str:
        block = _Growing(as_dict(event.get("content_block")))
        self._blocks.append(block)
        self._at[_index(event)] = block
        return block.start_text

    def content_block_delta(self, event: Json) -> str:
        block = self._at.get(_index(event))
        if block is None:
            raise ProviderError(f"the reply of Anthropic goes on with a block that never began: {shown(event)}")
        return block.add(as_dict(event.get("delta")))

    def message_delta(self, event: Json) -> str:
        self.stop_reason = as_text(as_dict(event.get("delta")).get("stop_reason")) or self.stop_reason
        self._count(event)
        return ""

    def message_stop(self, event: Json) -> str:
        self.over = True
        return ""

    def error(self, event: Json) -> NoReturn:
        # Usually the SDK has raised already; it looks at the name of the event, not at the type inside.
        raise ProviderError(f"Anthropic failed while it replied: {server_text(event)}")

    def _count(self, holder: Json) -> None:
        usage = as_dict(holder.get("usage"))
        for name, ours in _COUNTS.items():
            if isinstance(number := usage.get(name), int):
                self._counts[ours] = number


_STEPS: dict[str, Callable[[Answer, Json], str]] = {
    "message_start": Answer.message_start,
    "content_block_start": Answer.content_block_start,
    "content_block_delta": Answer.content_block_delta,
    "message_delta": Answer.message_delta,
    "message_stop": Answer.message_stop,
    "error": Answer.error,
}


class _Growing:
    """One block while its pieces come."""

    def __init__(self, start: Json) -> None:
        self._data = dict(start)
        self._type = start.get("type")
        self._input: list[str] = []
        self._texts: dict[str, list[str]] = {}

    @property
    def start_text(self) -> str:
        return as_text(self._data.get("text")) if self._type == "text" else ""

    def add(self, delta: Json) -> str:
        match delta.get("type"):
            case "input_json_delta":
                self._input.append(as_text(delta.get("partial_json")))
            case "citations_delta":
                self._data["citations"] = [*(self._data.get("citations") or ()), delta.get("citation")]
            case "signature_delta":  # the whole of it, whatever the block began with
                self._texts.setdefault("signature", []).append(as_text(delta.get("signature")))
            case _:
                return self._add_fields(delta)
        return ""

    def _add_fields(self, delta: Json) -> str:
        """Text goes behind what is there; this covers text and thinking, and what other deltas may look like."""
        for key, value in delta.items():
            if key == "type":
                continue
            if isinstance(value, str):
                self._texts.setdefault(key, [as_text(self._data.get(key))]).append(value)
            elif value is not None:
                self._data[key] = value
        return as_text(delta.get("text")) if self._type == "text" else ""

    def finished(self) -> Block:
        data = {**self._data, **{key: "".join(pieces) for key, pieces in self._texts.items()}}
        streamed = "".join(self._input)
        if self._type == "text":
            return TextBlock(as_text(data.get("text")))
        if self._type == "tool_use":
            return ToolCall(as_text(data.get("name")), _args(streamed, data.get("input")), as_text(data.get("id")))
        if streamed.strip():
            data["input"] = _json_or(streamed, streamed)
        return RawBlock(PROVIDER, data)


def _args(streamed: str, start: object) -> Json:
    """The arguments of a call: what was streamed, else what the block began with; kept as text unless whole."""
    if not streamed.strip():
        if not start:
            return {}
        streamed = json.dumps(start, ensure_ascii=False)
    args = _json_or(streamed, None)
    return cast("Json", args) if isinstance(args, dict) else {INVALID_ARGS_KEY: streamed}


def _json_or(text: str, otherwise: object) -> object:
    """The frozen value of a JSON text, or `otherwise` when it is none that history can keep."""
    try:
        return frozen_json(json.loads(text), "input")
    except (ValueError, TypeError, RecursionError):  # not JSON; NaN, too deep, too many digits; far too deep
        return otherwise


def _index(event: Json) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else -1


def reply_of(answers: Sequence[Answer], name: str, price: Price | None) -> Reply:
    """One Reply of one answer and those that continued it.

    Args:
        name: The model's name, for an API that reports none.
    """
    last = answers[-1]
    blocks = [block for answer in answers for block in answer.blocks]
    if last.stop_reason in CUT_OFF_STOP_REASONS and blocks and isinstance(blocks[-1], ToolCall):
        blocks[-1] = replace(blocks[-1], args={INVALID_ARGS_KEY: TRUNCATED_ARGS_MESSAGE})
    usage = sum((answer.usage for answer in answers), Usage())
    if price is not None:
        usage = replace(usage, cost=price.cost(usage))
    return Reply(Message("assistant", tuple(blocks)), usage, last.context_tokens, last.stop_reason, last.model or name)
