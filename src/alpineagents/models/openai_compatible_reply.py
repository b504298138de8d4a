"""What comes back from a Chat Completions server: the chunks of a stream, or one body, folded into a Reply.

    {"model", "choices": [{"delta": {"content", "tool_calls", "reasoning_content"}, "finish_reason"}], "usage"}
    [DONE]

https://platform.openai.com/docs/api-reference/chat-streaming. Of that nothing is certain but the `choices`: any key may
be missing, null, repeated or in another chunk. Nothing here waits or knows a client.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from alpineagents.errors import ProviderError, explain, shown
from alpineagents.models.openai_compatible_calls import Calls
from alpineagents.models.openai_compatible_errors import failed_inside, is_failure, read_body
from alpineagents.models.openai_compatible_request import PROVIDER
from alpineagents.models.sse import ServerEvent
from alpineagents.models.wire import Json, as_dict, as_text, cut_short
from alpineagents.values.content import Block, Message, RawBlock, TextBlock, ToolCall
from alpineagents.values.exchange import Reply, Request
from alpineagents.values.usage import Price, Usage

_DONE = "[DONE]"
_REASONING = ("reasoning_content", "reasoning")  # servers differ; both never count


class Answer:
    """One answer, as far as it has come.

    Args:
        name: The model's name, for a server that reports none.
    Attributes:
        over: Whether the server said that nothing more will come.
    """

    def __init__(self, name: str) -> None:
        self.over = False
        self._name = name
        self._model = ""
        self._stop_reason = ""
        self._text: list[str] = []
        self._calls = Calls()
        self._reasoning_key = ""
        self._reasoning: list[str] = []
        self._details: list[object] = []
        self._usage: Json | None = None
        self._groq_usage: Json | None = None

    def add(self, event: ServerEvent) -> str:
        """Take in one event of a stream.

        Returns:
            The text in it that belongs to the reply.
        Raises:
            ProviderError: It tells of a failure, or makes no sense.
        """
        if event.data.strip() == _DONE:
            self.over = True
            return ""
        said = read_body(event.data)
        if event.name == "error":
            raise failed_inside(said, self._name)
        return self._add(self._object(said), "delta")

    def add_whole(self, body: bytes) -> str:
        """Take in the answer of a server that does not stream. Returns and raises what `add` does."""
        said = self._object(read_body(body))
        text = self._add(said, "message")
        if not isinstance(said.get("choices"), list):
            raise ProviderError(f"the server of {self._name} answered with JSON that is no reply: {shown(said)}")
        self.over = True
        return text

    def reply(self, request: Request, price: Price | None) -> Reply:
        """The reply to this request.

        Raises:
            ProviderError: The answer ended before it was whole.
        """
        if not self.over and not self._stop_reason:
            problem = f"the reply of the server of {self._name} is not whole: the connection was closed early"
            raise ProviderError(problem)
        taken = {call.id for message in request.messages for call in message.content if isinstance(call, ToolCall)}
        blocks: list[Block] = [*self._thoughts(), *self._texts(), *self._calls.finished(taken)]
        blocks = cut_short(blocks, self._stop_reason)
        usage, context_tokens = self._counted(price)
        message = Message("assistant", tuple(blocks))
        return Reply(message, usage, context_tokens, self._stop_reason or None, self._model or self._name)

    def _object(self, said: object) -> Json:
        if not isinstance(said, dict):
            problem = f"the reply of the server of {self._name} holds something that is no JSON object: {shown(said)}"
            raise ProviderError(explain(problem, "check base_url"))
        told = cast("Json", said)
        if is_failure(told):
            raise failed_inside(told, self._name)
        return told

    def _add(self, chunk: Json, part: str) -> str:
        self._model = self._model or as_text(chunk.get("model"))
        self._count(chunk)
        choices = chunk.get("choices")
        choice = as_dict(cast("list[object]", choices)[0]) if isinstance(choices, list) and choices else {}
        self._stop_reason = as_text(choice.get("finish_reason")) or self._stop_reason
        delta = as_dict(choice.get(part))
        self._think(delta)
        self._call(delta.get("tool_calls"), whole=part == "message")
        text = _text_of(delta.get("content"))
        if text:
            self._text.append(text)
        return text

    def _count(self, chunk: Json) -> None:
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = cast("Json", usage)
        if isinstance(usage := as_dict(chunk.get("x_groq")).get("usage"), dict):
            self._groq_usage = cast("Json", usage)

    def _think(self, delta: Json) -> None:
        for key in _REASONING:
            if (piece := as_text(delta.get(key))) and self._reasoning_key in ("", key):
                self._reasoning_key = key
                self._reasoning.append(piece)
        if isinstance(details := delta.get("reasoning_details"), list):
            self._details += cast("list[object]", details)

    def _call(self, calls: object, whole: bool) -> None:
        if not isinstance(calls, list):
            return
        for number, call in enumerate(cast("list[object]", calls)):
            self._calls.add({**as_dict(call), "index": number} if whole else call)

    def _thoughts(self) -> list[Block]:
        data: Json = {self._reasoning_key: "".join(self._reasoning)} if self._reasoning else {}
        if self._details:
            data["reasoning_details"] = self._details
        return [RawBlock(PROVIDER, data)] if data else []

    def _texts(self) -> list[Block]:
        return [TextBlock("".join(self._text))] if self._text else []

    def _counted(self, price: Price | None) -> tuple[Usage, int | None]:
        counts = self._groq_usage if self._usage is None else self._usage
        if counts is None:
            free = price is not None and not any((price.input, price.output, price.cache_read, price.cache_write))
            return Usage(requests=1, cost=0.0 if free else None), None
        usage = _usage_of(counts)
        if price is not None:
            usage = replace(usage, cost=price.cost(usage))
        return usage, _number(counts, "prompt_tokens") + usage.output_tokens


def _usage_of(counts: Json) -> Usage:
    details = as_dict(counts.get("prompt_tokens_details"))
    read, written = _number(details, "cached_tokens"), _number(details, "cache_write_tokens")
    fresh = max(0, _number(counts, "prompt_tokens") - read - written)
    return Usage(fresh, _number(counts, "completion_tokens"), read, written, requests=1)


def _number(counts: Json, name: str) -> int:
    number = counts.get(name)
    return number if type(number) is int else 0


def _text_of(content: object) -> str:
    if isinstance(content, list):
        parts = [as_dict(part) for part in cast("list[object]", content)]
        return "".join(as_text(part.get("text")) for part in parts if part.get("type") == "text")
    return as_text(content)
