"""The Anthropic SDK as a Model uses it: its clients, one request, the events of one reply.

This is the only file that knows the SDK, and each method here has an async twin with the same steps. Requests go
through the SDK's generic `post` with a body that is ready, and events come back as plain JSON values: its typed methods
would add keys of their own to a block, and drop those that they do not know.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from alpineagents.errors import AuthError, ProviderError
from alpineagents.models.anthropic_errors import as_dict, broken_off, check_key, hide, lacks_key, refused

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic, RequestOptions

_MESSAGES = "/v1/messages"
_TIMEOUT_S = 600.0
_CONNECT_TIMEOUT_S = 5.0
_LOOKUP: RequestOptions = {"max_retries": 0, "timeout": 10.0}


def _sdk() -> Any:
    import anthropic

    return anthropic


class Connection:
    """One Model's way to the API: a client for sync calls, and one for each event loop; made when first needed."""

    def __init__(self, api_key: str | None, base_url: str | None) -> None:
        self._options: dict[str, Any] = {"api_key": api_key or None, "base_url": base_url}
        self._lock = threading.Lock()
        self._client: Anthropic | None = None
        self._clients: dict[asyncio.AbstractEventLoop, _LoopClient] = {}
        self._secrets: set[str] = {api_key} if api_key else set()

    def open(self, body: bytes, timeout: float | None, retries: int) -> Events:
        """Send a request and wait until the reply begins.

        Args:
            timeout: Seconds to connect, and of silence; `None` for 600, with 5 to connect.
            retries: Further attempts of the SDK after the first.
        Raises:
            ProviderError: No attempt was answered, or the answer is a refusal.
        """
        with self.failing_as(refused):
            return Events(self, self._sync_client().post(_MESSAGES, **_streamed(body, timeout, retries, "Stream")))

    async def aopen(self, body: bytes, timeout: float | None, retries: int) -> Events:
        with self.failing_as(refused):
            client = await self._async_client()
            return Events(self, await client.post(_MESSAGES, **_streamed(body, timeout, retries, "AsyncStream")))

    def limit(self, name: str) -> int | None:
        """The most output tokens the model can give; `None` if the API does not say.

        Raises:
            AuthError: There is no key to ask with.
        """
        try:
            return _limit_in(self._sync_client().get(_model_path(name), cast_to=object, options=_LOOKUP))
        except Exception as error:
            return self._unknown(error)

    async def alimit(self, name: str) -> int | None:
        try:
            client = await self._async_client()
            return _limit_in(await client.get(_model_path(name), cast_to=object, options=_LOOKUP))
        except Exception as error:
            return self._unknown(error)

    def _unknown(self, error: Exception) -> None:
        if isinstance(error, AuthError):
            raise error
        if lacks_key(error):
            raise refused(error) from error

    @contextlib.contextmanager
    def failing_as(self, failure_of: Callable[[Exception], ProviderError]) -> Generator[None]:
        """Make a failure of this library of what the SDK or the transport raises inside."""
        try:
            yield
        except AuthError:  # ours: the key was not even tried
            raise
        except Exception as error:
            failure = failure_of(error)
            failure.__cause__ = error
            hide(self._secrets, failure)
            raise failure from error

    def _sync_client(self) -> Anthropic:
        with self._lock:
            if self._client is None:
                client: Anthropic = _sdk().Anthropic(**self._options)
                self._keep_secret(client)
                weakref.finalize(self, client.close)
                self._client = client
        return self._client

    async def _async_client(self) -> AsyncAnthropic:
        loop = asyncio.get_running_loop()
        with self._lock:
            self._clients = {known: held for known, held in self._clients.items() if not known.is_closed()}
            held = self._clients.get(loop)
            if held is None:
                client: AsyncAnthropic = _sdk().AsyncAnthropic(**self._options)
                self._keep_secret(client)
                held = self._clients[loop] = _LoopClient(client)
        await held.start()
        return held.client

    def _keep_secret(self, client: Anthropic | AsyncAnthropic) -> None:
        keys = {key for key in (client.api_key, client.auth_token) if key}
        for key in keys:
            check_key(key)
        self._secrets |= keys


class _LoopClient:
    """A client that is closed with its event loop.

    An event loop closes the async generators that are left on it before it stops. So one that waits, with the client
    in its hands, leaves no connection open behind `asyncio.run`.
    """

    def __init__(self, client: AsyncAnthropic) -> None:
        self.client = client
        self._closing: AsyncGenerator[None, None] | None = None

    async def start(self) -> None:
        if self._closing is None:
            self._closing = _held_open(self.client)
            await anext(self._closing)


async def _held_open(client: AsyncAnthropic) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await client.close()


class Events:
    """The events of one reply, as JSON values, while they arrive."""

    def __init__(self, connection: Connection, stream: Any) -> None:
        self._connection = connection
        self._stream = stream

    @property
    def content_type(self) -> str:
        """What the server says the reply is."""
        return str(self._stream.response.headers.get("content-type", ""))

    def next(self) -> object | None:
        """The next event; `None` after the last one.

        Raises:
            ProviderError: The reply broke off, or the server says that it failed.
        """
        with self._connection.failing_as(broken_off):
            return next(self._stream, None)

    async def anext(self) -> object | None:
        with self._connection.failing_as(broken_off):
            return await anext(self._stream, None)

    def close(self) -> None:
        """Let the connection go; what went wrong with the reply is known by then."""
        with contextlib.suppress(Exception):
            self._stream.close()

    async def aclose(self) -> None:
        with contextlib.suppress(Exception):
            await self._stream.close()


def _streamed(body: bytes, timeout: float | None, retries: int, stream_class: str) -> dict[str, Any]:
    sdk = _sdk()
    seconds = sdk.Timeout(_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S) if timeout is None else sdk.Timeout(timeout)
    options: RequestOptions = {"max_retries": retries, "timeout": seconds}
    kind = getattr(sdk, stream_class)[object]
    return {"content": body, "options": options, "cast_to": object, "stream": True, "stream_cls": kind}


def _model_path(name: str) -> str:
    return f"/v1/models/{quote(name, safe='')}"


def _limit_in(model: object) -> int | None:
    limit = as_dict(model).get("max_tokens")
    return limit if type(limit) is int and limit > 0 else None
