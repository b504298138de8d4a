"""The Model that speaks to the Anthropic Messages API.

One step, `_respond`, holds the whole conversation with the API and is run by both halves of `respond`; what is sent and
how the answer is read are pure functions beside it, and the SDK is behind `Connection`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from alpineagents.errors import ProviderError, explain
from alpineagents.models.anthropic_connection import Connection, Events
from alpineagents.models.anthropic_errors import Json, lower_limit
from alpineagents.models.anthropic_reply import Answer, reply_of
from alpineagents.models.anthropic_request import PROVIDER, body_of
from alpineagents.models.base import Model, OnEvent, OnText
from alpineagents.values.content import Message
from alpineagents.values.exchange import ModelEvent, Reply, Request
from alpineagents.values.usage import Price
from alpineagents.waiting import Wait, awaiting, blocking, complete

DEFAULT_MAX_TOKENS = 64_000
MIN_THINKING_TOKENS = 1024  # https://docs.claude.com/en/docs/build-with-claude/extended-thinking
MAX_CONTINUATIONS = 10

# The output limits this process has learnt, by base URL and model name; DEFAULT_MAX_TOKENS for one that is not known.
_limits: dict[tuple[str | None, str], int] = {}


class Anthropic(Model):
    """A Claude model behind the Anthropic API, or behind a proxy that speaks it.

    Args:
        name: The model, such as `"claude-opus-5"`; a leading `anthropic/` is taken off.
        max_tokens: The output limit of one reply. `None` is 64,000, or less if the model can do less, which is looked
            up once before the first request.
        timeout: Seconds to connect, and of silence in a reply; `None` is 600, with 5 to connect.
        retries: Attempts after the first, as long as no reply has begun.
        thinking: `True` lets the model decide how much it thinks, a number is its budget in tokens (1,024 or more).
        cache: Whether the API caches the conversation; `None` does if `supports` has `"cache"`.
        context_window: Tokens of a request and its reply.
        api_key: `None` leaves it to the environment variable `ANTHROPIC_API_KEY`.
        base_url: Where the API is, without `/v1`.
        supports: Replaces `{"thinking", "cache", "vision"}`.
    Raises:
        ValueError: The settings contradict each other.

    Example:
        Anthropic("claude-sonnet-5", thinking=True, price=Price(input=3, output=15, cache_read=0.3))
    """

    provider = PROVIDER

    def __init__(  # noqa: PLR0913  # the settings of a model, all but its name by keyword
        self,
        name: str,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        timeout: float | None = None,
        retries: int = 2,
        price: Price | None = None,
        thinking: bool | int = False,
        cache: bool | None = None,
        context_window: int = 200_000,
        api_key: str | None = None,
        base_url: str | None = None,
        supports: Iterable[str] | None = None,
    ) -> None:
        self.name = name.removeprefix("anthropic/")
        self.max_tokens = max_tokens
        self.temperature = temperature
        self.timeout = timeout
        self.retries = retries
        self.price = price
        self.thinking = thinking
        self.supports = frozenset(("thinking", "cache", "vision") if supports is None else supports)
        self.cache = "cache" in self.supports if cache is None else cache
        self.base_url = base_url
        self._context_window = context_window
        self._connection = Connection(api_key, base_url)
        self._check()

    @property
    def context_window(self) -> int:
        """How many tokens a request and its reply may have."""
        return self._context_window

    def respond(self, request: Request, on_text: OnText | None = None, on_event: OnEvent | None = None) -> Reply:
        """The reply to one request; one that the API pauses is continued, which is an event."""
        return complete(self._respond(blocking, request, on_text, on_event))

    async def arespond(self, request: Request, on_text: OnText | None = None, on_event: OnEvent | None = None) -> Reply:
        """`respond` without blocking the event loop, on which the callbacks run too."""
        return await self._respond(awaiting, request, on_text, on_event)

    async def _respond(self, wait: Wait, request: Request, on_text: OnText | None, on_event: OnEvent | None) -> Reply:
        answers = [await self._answer(wait, request, on_text)]
        while answers[-1].stop_reason == "pause_turn":
            if len(answers) > MAX_CONTINUATIONS:
                raise ProviderError(f"{self.name} paused its reply more than {MAX_CONTINUATIONS} times")
            if on_event is not None:
                on_event(_continuing(len(answers)))
            answers.append(await self._answer(wait, _continued(request, answers), on_text))
        return reply_of(answers, self.name, self.price)

    async def _answer(self, wait: Wait, request: Request, on_text: OnText | None) -> Answer:
        events = await self._open(wait, request)
        answer = Answer()
        try:
            while (event := await self._next(wait, events, answer)) is not None:
                if (text := answer.add(event)) and on_text is not None:
                    on_text(text)
        finally:
            await wait(events.close, events.aclose)
        if answer.stop_reason is None:
            raise ProviderError(_unfinished(answer, events.content_type))
        return answer

    async def _next(self, wait: Wait, events: Events, answer: Answer) -> object | None:
        """The next event. Past the last one the stream is only read out, so that its connection can be used again."""
        while True:
            try:
                event = await wait(events.next, events.anext)
            except ProviderError:
                if not answer.over:
                    raise
                return None
            if event is None or not answer.over:
                return event

    async def _open(self, wait: Wait, request: Request) -> Events:
        limit = await self._output_limit(wait)
        try:
            return await self._send(wait, request, limit)
        except ProviderError as failure:
            lower = None if self.max_tokens is not None else lower_limit(failure, limit)
            if lower is None:
                raise
        _limits[self.base_url, self.name] = lower
        return await self._send(wait, request, lower)

    async def _send(self, wait: Wait, request: Request, max_tokens: int) -> Events:
        self._check_budget(max_tokens)
        body = body_of(request, self._settings(max_tokens))
        return await wait(
            self._connection.open, self._connection.aopen, body, timeout=self.timeout, retries=self.retries
        )

    async def _output_limit(self, wait: Wait) -> int:
        if self.max_tokens is not None:
            return self.max_tokens
        known = _limits.get((self.base_url, self.name))
        if known is None:
            found = await wait(self._connection.limit, self._connection.alimit, self.name)
            known = min(DEFAULT_MAX_TOKENS, found or DEFAULT_MAX_TOKENS)
            _limits[self.base_url, self.name] = known
        return known

    def _settings(self, max_tokens: int) -> Json:
        settings: Json = {"model": self.name, "max_tokens": max_tokens}
        if self.temperature is not None:
            settings["temperature"] = self.temperature
        if self._thinks:
            budget = self._budget
            settings["thinking"] = (
                {"type": "adaptive"} if budget is None else {"type": "enabled", "budget_tokens": budget}
            )
        if self.cache:
            settings["cache_control"] = {"type": "ephemeral"}
        return settings

    @property
    def _thinks(self) -> bool:
        return self.thinking is not False  # 0 is a budget, and refused as one

    @property
    def _budget(self) -> int | None:
        return None if isinstance(self.thinking, bool) else self.thinking

    def _check(self) -> None:
        for setting, wanted in (("thinking", self._thinks), ("cache", self.cache)):
            if wanted and setting not in self.supports:
                has = ", ".join(sorted(self.supports)) or "nothing"
                raise ValueError(
                    explain(
                        f"{self!r} is given {setting}={getattr(self, setting)!r}, and supports {has}",
                        f"leave {setting}= out, or name the feature in supports=",
                    )
                )
        if self._thinks and self.temperature is not None:
            raise ValueError(
                explain(
                    f"{self!r} is given thinking={self.thinking!r} and temperature={self.temperature!r}; "
                    "the API takes only one of them",
                    "leave one of them out",
                )
            )
        self._check_budget(DEFAULT_MAX_TOKENS if self.max_tokens is None else self.max_tokens)

    def _check_budget(self, max_tokens: int) -> None:
        budget = self._budget
        if budget is not None and not MIN_THINKING_TOKENS <= budget < max_tokens:
            raise ValueError(
                explain(
                    f"thinking={budget!r} is no budget {self!r} can have: it is part of the output, "
                    f"whose limit (max_tokens) is {max_tokens}",
                    f"give {MIN_THINKING_TOKENS} or more and less than {max_tokens}, or thinking=True",
                    f'Anthropic("{self.name}", thinking={MIN_THINKING_TOKENS * 4})',
                )
            )


def _continuing(count: int) -> ModelEvent:
    data: dict[str, Any] = {"continuation": count, "limit": MAX_CONTINUATIONS}
    return ModelEvent("continue", "the provider paused the reply: asking it to go on", data)


def _continued(request: Request, answers: list[Answer]) -> Request:
    blocks = tuple(block for answer in answers for block in answer.blocks)
    return replace(request, messages=(*request.messages, Message("assistant", blocks))) if blocks else request


def _unfinished(answer: Answer, content_type: str) -> str:
    problem = "the reply of Anthropic ended without a stop reason"
    if answer.blocks or "text/event-stream" in content_type:
        return f"{problem}: the connection was closed early"
    return explain(f"{problem}: it is no stream of events but {content_type or 'of no type'}", "check base_url")
