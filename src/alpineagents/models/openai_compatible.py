"""The Model that speaks to any server of OpenAI's Chat Completions.

One step, `_respond`, holds the whole conversation with the server and is run by both halves of `respond`; what is sent
and how the answer is read are pure functions beside it, and httpx is behind `Connection`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from alpineagents.errors import ProviderError, explain
from alpineagents.models.base import Model, OnEvent, OnText
from alpineagents.models.openai_compatible_connection import Connection, Stream
from alpineagents.models.openai_compatible_errors import complaint, failure_of
from alpineagents.models.openai_compatible_reply import Answer
from alpineagents.models.openai_compatible_request import PROVIDER, Dialect, body_of, has_odd_ids
from alpineagents.models.retrying import retrying
from alpineagents.models.sse import EventReader, ServerEvent
from alpineagents.models.wire import Json
from alpineagents.values.exchange import Reply, Request
from alpineagents.values.usage import Price
from alpineagents.waiting import Wait, awaiting, blocking, complete

_OLD_LIMIT, _NEW_LIMIT = "max_tokens", "max_completion_tokens"
_WANTS_NEW_LIMIT = re.compile(r"o\d")  # o1, o3-mini; the name is matched from its start
_ODD_ID = re.compile(r"tool call id was|tool_calls\[\d+\]\.(call_)?id\b|\[\d+\]\.tool_call_id\b", re.IGNORECASE)


class OpenAICompatible(Model):
    """A model behind a server that speaks Chat Completions: OpenAI, Ollama, vLLM, llama.cpp, OpenRouter and many more.

    Args:
        name: The model, sent as it is.
        base_url: Where the server is, with its `/v1`. `None` leaves it to the environment variable `OPENAI_BASE_URL`,
            and without that to OpenAI.
        api_key: `None` leaves it to `OPENAI_API_KEY`; a server that wants no key gets a placeholder.
        max_tokens: The output limit of one reply; `None` leaves it to the server.
        timeout: Seconds to connect, and of silence in a reply; `None` is 600, with 5 to connect.
        retries: Attempts after the first, as long as no reply has begun; each is an event.
        context_window: Tokens of a request and its reply; no server tells, so a smaller one must be given.
        supports: What is declared of the model, such as `{"vision"}`; nothing by default.

    Example:
        OpenAICompatible("llama3:8b", base_url="http://localhost:11434/v1", price=Price(input=0, output=0))
    """

    provider = PROVIDER

    def __init__(  # noqa: PLR0913  # the settings of a model, all but its name by keyword
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        timeout: float | None = None,
        retries: int = 2,
        price: Price | None = None,
        context_window: int = 128_000,
        supports: Iterable[str] | None = None,
    ) -> None:
        self.name = name
        self.base_url = base_url
        self.api_key = api_key
        self.max_tokens = max_tokens
        self.temperature = temperature
        self.timeout = timeout
        self.retries = retries
        self.price = price
        self.supports = frozenset(() if supports is None else supports)
        self._context_window = context_window
        self._connection = Connection(name, api_key, base_url)
        self._dialect = Dialect(_NEW_LIMIT if _WANTS_NEW_LIMIT.match(name) else _OLD_LIMIT)

    @property
    def context_window(self) -> int:
        """How many tokens a request and its reply may have."""
        return self._context_window

    def respond(self, request: Request, on_text: OnText | None = None, on_event: OnEvent | None = None) -> Reply:
        """The reply to one request; an attempt that failed before a reply began is repeated, which is an event."""
        return complete(self._respond(blocking, request, on_text, on_event))

    async def arespond(self, request: Request, on_text: OnText | None = None, on_event: OnEvent | None = None) -> Reply:
        """`respond` without blocking the event loop, on which the callbacks run too."""
        return await self._respond(awaiting, request, on_text, on_event)

    async def _respond(self, wait: Wait, request: Request, on_text: OnText | None, on_event: OnEvent | None) -> Reply:
        async def send() -> Stream:
            return await self._open(wait, request)

        stream = await retrying(wait, send, failure_of, self.retries, on_event)
        try:
            answer = await self._read(wait, stream, on_text)
        finally:
            await wait(stream.close, stream.aclose)
        return answer.reply(request, self.price)

    async def _open(self, wait: Wait, request: Request) -> Stream:
        """One attempt; a server that does not know a parameter is asked again without it."""
        dialect = self._dialect
        while True:
            body = body_of(request, self._settings(dialect), dialect)
            try:
                return await wait(self._connection.open, self._connection.aopen, body, timeout=self.timeout)
            except ProviderError as failure:
                other = self._other_dialect(dialect, complaint(failure), request)
                if other == dialect:
                    raise
            dialect = self._dialect = other

    async def _read(self, wait: Wait, stream: Stream, on_text: OnText | None) -> Answer:
        answer, reader = Answer(self.name), EventReader()
        if stream.content_type == "application/json":
            await self._read_whole(wait, stream, answer, on_text)
            return answer
        if stream.content_type not in ("text/event-stream", ""):
            raise ProviderError(_no_reply(stream))
        while not answer.over:
            piece = await wait(stream.next, stream.anext)
            for event in reader.end() if piece is None else reader.feed(piece):
                if answer.over:
                    break
                if (text := _text_in(stream, answer, event)) and on_text is not None:
                    on_text(text)
            if piece is None:
                return answer
        await wait(stream.read_out, stream.aread_out)
        return answer

    async def _read_whole(self, wait: Wait, stream: Stream, answer: Answer, on_text: OnText | None) -> None:
        pieces: list[bytes] = []
        while (piece := await wait(stream.next, stream.anext)) is not None:
            pieces.append(piece)
        if (text := _text_in(stream, answer, b"".join(pieces))) and on_text is not None:
            on_text(text)

    def _settings(self, dialect: Dialect) -> Json:
        settings: Json = {"model": self.name}
        if self.max_tokens is not None:
            settings[dialect.limit_name] = self.max_tokens
        if self.temperature is not None:
            settings["temperature"] = self.temperature
        return settings

    def _other_dialect(self, dialect: Dialect, complaint: str, request: Request) -> Dialect:
        """What a complaint of the server makes of the dialect; the same if there is nothing to learn from it."""
        if self.max_tokens is not None and _NEW_LIMIT in complaint:
            dialect = replace(dialect, limit_name=_NEW_LIMIT)
        if "stream_options" in complaint:
            dialect = replace(dialect, counts_asked=False)
        if _ODD_ID.search(complaint) and has_odd_ids(request):
            dialect = replace(dialect, plain_ids=True)
        return dialect


def _text_in(stream: Stream, answer: Answer, said: ServerEvent | bytes) -> str:
    try:
        return answer.add_whole(said) if isinstance(said, bytes) else answer.add(said)
    except ProviderError as failure:
        stream.hide_key(failure)
        raise


def _no_reply(stream: Stream) -> str:
    problem = f"{stream.url} answered with {stream.content_type}, which is no reply of a model"
    return explain(problem, "check base_url: it usually ends with /v1")
