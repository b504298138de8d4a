"""httpx as the model uses it: its clients, one request, the pieces of one reply.

This is the only file that knows httpx, and each method here has an async twin with the same steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import socket
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from alpineagents.errors import AuthError, ProviderError
from alpineagents.models.clients import Clients
from alpineagents.models.openai_compatible_errors import NO_KEY, broken_off, refused, unreachable
from alpineagents.models.wire import check_key, hide

if TYPE_CHECKING:
    from httpx import AsyncClient, Client, Request, Response

_OPENAI = "https://api.openai.com/v1"
_ANY_KEY = "not-needed"  # local servers expect some key
_TIMEOUT_S = 600.0
_CONNECT_TIMEOUT_S = 5.0
_PATIENCE_S = 0.1
_REDIRECTS = (307, 308)  # the ones that repeat the request as it is
_MAX_REDIRECTS = 10


def _httpx() -> Any:
    import httpx

    return httpx


class Connection:
    """One Model's way to its server. The environment is asked for what was not given, at each request."""

    def __init__(self, name: str, api_key: str | None, base_url: str | None) -> None:
        self._name = name
        self._api_key = api_key
        self._base_url = base_url
        self._clients: Clients[Client, AsyncClient] = Clients(
            lambda: _httpx().Client(**_client_options()), lambda: _httpx().AsyncClient(**_client_options())
        )

    def open(self, body: bytes, timeout: float | None) -> Stream:
        """Send a request and wait until the reply begins.

        Args:
            timeout: Seconds to connect, to send, and of silence; `None` for 600, with 5 to connect.
        Raises:
            ProviderError: There was no answer, or the answer is a refusal.
        """
        call = self._call(timeout)
        with call.failing_as(unreachable):
            client = self._clients.client()
            response = client.send(call.request(client, body), stream=True)
            while (request := call.redirected(response)) is not None:
                response.close()
                response = client.send(request, stream=True)
            if not response.is_success:
                response.read()
        return call.stream(response)

    async def aopen(self, body: bytes, timeout: float | None) -> Stream:
        call = self._call(timeout)
        with call.failing_as(unreachable):
            client = await self._clients.aclient()
            response = await client.send(call.request(client, body), stream=True)
            while (request := call.redirected(response)) is not None:
                await response.aclose()
                response = await client.send(request, stream=True)
            if not response.is_success:
                await response.aread()
        return call.stream(response)

    def _call(self, timeout: float | None) -> _Call:
        base = self._base_url or os.environ.get("OPENAI_BASE_URL")
        key = self._api_key or os.environ.get("OPENAI_API_KEY") or (_ANY_KEY if base else None)
        if key is None:
            raise AuthError(NO_KEY)
        check_key(key, f"the server of {self._name}", f"OpenAICompatible({self._name!r}, api_key=key.strip())")
        return _Call(self._name, f"{(base or _OPENAI).rstrip('/')}/chat/completions", key, timeout)


class _Call:
    """One request: where it goes, with which key."""

    def __init__(self, name: str, url: str, key: str, timeout: float | None) -> None:
        self._name = name
        self._url = url
        self._key = key
        self._timeout = timeout
        self._redirects = 0

    @property
    def shown_url(self) -> str:
        """The URL for a message: without a name and password in it."""
        scheme, mark, rest = self._url.partition("://")
        host, slash, path = rest.partition("/")
        return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"

    def request(self, client: Client | AsyncClient, body: bytes) -> Request:
        headers = {
            "Authorization": f"Bearer {self._key}",
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
        }
        seconds: Any = self._timeout
        if seconds is None:
            seconds = _httpx().Timeout(_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S)
        return client.build_request("POST", self._url, content=body, headers=headers, timeout=seconds)

    def redirected(self, response: Response) -> Request | None:
        """The request to the place where this answer points to, if it is to be followed."""
        if response.status_code not in _REDIRECTS or self._redirects == _MAX_REDIRECTS:
            return None
        self._redirects += 1
        return response.next_request

    def stream(self, response: Response) -> Stream:
        """The reply that has begun.

        Raises:
            ProviderError: The answer is a refusal.
        """
        if response.is_success:
            return Stream(self, response)
        failure = refused(response, self.shown_url, self._name)
        try:
            response.raise_for_status()
        except _httpx().HTTPStatusError as error:
            failure.__cause__ = error
        self.hide_key(failure)
        raise failure

    @contextlib.contextmanager
    def failing_as(self, failure: Callable[[Exception, str], ProviderError]) -> Generator[None]:
        """Make a failure of this library of what httpx or the transport raises inside."""
        try:
            yield
        except Exception as error:
            raised = failure(error, self.shown_url)
            raised.__cause__ = error
            self.hide_key(raised)
            raise raised from error

    def hide_key(self, failure: ProviderError) -> None:
        """Take the key out of a failure, whoever put it there."""
        hide((self._key,), failure)


class Stream:
    """One reply as it arrives."""

    def __init__(self, call: _Call, response: Response) -> None:
        self._call = call
        self._response = response
        self._pieces: Any = None

    @property
    def content_type(self) -> str:
        """What the server says the reply is, in lower case and without parameters."""
        return self._response.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def url(self) -> str:
        """Where it comes from, for a message."""
        return self._call.shown_url

    def next(self) -> bytes | None:
        """The next piece; `None` after the last one.

        Raises:
            ProviderError: The reply broke off.
        """
        with self._call.failing_as(broken_off):
            if self._pieces is None:
                self._pieces = self._response.iter_bytes()
            return next(self._pieces, None)

    async def anext(self) -> bytes | None:
        with self._call.failing_as(broken_off):
            if self._pieces is None:
                self._pieces = self._response.aiter_bytes()
            return await anext(self._pieces, None)

    def read_out(self) -> None:
        """Read past what ended the reply, so that the connection can be used again; it is given up if that takes long.

        Nothing in httpx ends a read early, so the socket is shut down under it.
        """
        patience = threading.Timer(_PATIENCE_S, self._shut_down)
        patience.daemon = True
        patience.start()
        try:
            with contextlib.suppress(ProviderError):
                while self.next() is not None:
                    pass
        finally:
            patience.cancel()

    async def aread_out(self) -> None:
        with contextlib.suppress(ProviderError, TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                while await self.anext() is not None:
                    pass

    def _shut_down(self) -> None:
        with contextlib.suppress(Exception):
            self._response.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let the connection go; what went wrong with the reply is known by then."""
        with contextlib.suppress(Exception):
            self._response.close()

    async def aclose(self) -> None:
        with contextlib.suppress(Exception):
            await self._response.aclose()

    def hide_key(self, failure: ProviderError) -> None:
        """Take the key out of a failure that the reply tells of."""
        self._call.hide_key(failure)


@functools.cache
def _certificates() -> Any:
    return _httpx().create_ssl_context()  # takes 40 ms, and may serve any number of clients


def _client_options() -> dict[str, Any]:
    from importlib import metadata

    # Redirects are followed here, where only those are that keep the body; as many connections as there are requests.
    limits = _httpx().Limits(max_connections=None, max_keepalive_connections=20)
    headers = {"User-Agent": f"alpineagents/{metadata.version('alpineagents')}"}
    return {"follow_redirects": False, "limits": limits, "headers": headers, "verify": _certificates()}
