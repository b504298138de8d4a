"""The one connection that a server has: opened for the first who needs it, closed when nobody does any more.

A task on the loop of all connections holds it from opening to closing, since the client must be left by the task that
entered it. Everything here runs on that loop, but for what `join`, `leave` and `call` do at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import tempfile
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, cast

from alpineagents.errors import MCPConnectionError, error_text, explain
from alpineagents.mcp.background import connections_loop, soon

if TYPE_CHECKING:
    from alpineagents.mcp.server import MCP

_CLOSING_S = 5.0
_HTTP_TIMEOUT_S, _HTTP_READ_TIMEOUT_S = 30.0, 300.0  # those of the client of the package mcp
_REASON_S = 1.0  # how long after a break its reason may take to come
_SECRET_LENGTH = 8  # a shorter value is no secret, and may be a word of the message
_SAID_LENGTH = 1000


class Connection:
    """An open connection.

    Attributes:
        tools: What the server lists, in its order.
    """

    def __init__(self, server: MCP, client: Any, tools: list[Any], over: asyncio.Event) -> None:
        self.tools = tools
        self._server = server
        self._client = client
        self._over = over
        self._broken: BaseException | None = None
        self._ended = False

    def call(self, tool_name: str, args: dict[str, Any]) -> Future[Any]:
        """Ask the server to carry out a call; cancelling the future cancels that.

        Raises (in the future):
            MCPConnectionError: The connection is closed, or breaks.
            Refused: The server has no good answer, or none in time.
        """
        return asyncio.run_coroutine_threadsafe(self._call(tool_name, args), connections_loop())

    async def _call(self, tool_name: str, args: dict[str, Any]) -> Any:
        if self._ended:
            raise MCPConnectionError(self._not_connected()) from self._broken
        try:
            return await self._client.call_tool(tool_name, args)
        except Exception as error:
            if not self._ended and not _is_break(error):
                raise Refused(single(error)) from error
            await self._find_reason(error)
            problem = f"the connection to MCP server {self._server.name!r} broke: {error_text(self._broken or error)}"
            raise MCPConnectionError(problem) from self._broken

    async def _find_reason(self, error: BaseException) -> None:
        """Give the task that holds the connection, which knows what broke, the time to say so."""
        self._over.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REASON_S):
                while not self._ended:
                    await asyncio.sleep(0.01)
        self.end(error)

    def end(self, why: BaseException | None) -> None:
        """Note that it is closed. The first reason counts."""
        self._ended = True
        self._broken = self._broken or (None if why is None else single(why))

    def _not_connected(self) -> str:
        why = "" if self._broken is None else f": {error_text(self._broken)}"
        return explain(
            f"MCP server {self._server.name!r} is not connected{why}",
            "a broken connection stays broken until the run or the with block ends; the next one opens it again",
        )


class Refused(Exception):
    """A call that got no result, on a connection that stays."""

    def __init__(self, why: BaseException) -> None:
        super().__init__(error_text(why))


class Link:
    """The connection of one server, and who needs it.

    Args:
        words: The command of the server, split.
    """

    def __init__(self, server: MCP, words: list[str] | None) -> None:
        self._server = server
        self._words = words
        self._users: set[object] = set()
        self._holder: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[Connection] | None = None
        self._over = asyncio.Event()

    def join(self, user: object) -> Future[Connection]:
        """Need the connection from now on; the future has it, or an `MCPConnectionError`.

        Whoever joined must leave, also when that failed or was not waited for.
        """
        answer: Future[Connection] = Future()
        soon(self._join, user, answer)
        return answer

    def leave(self, user: object) -> Future[None]:
        """Need it no more; the future is done when the server has ended, or has had its time to."""
        answer: Future[None] = Future()
        soon(self._leave, user, answer)
        return answer

    def _join(self, user: object, answer: Future[Connection]) -> None:
        self._users.add(user)
        if self._opened is None:
            loop = asyncio.get_running_loop()
            self._opened, self._over = loop.create_future(), asyncio.Event()
            self._opened.add_done_callback(_seen)
            self._holder = loop.create_task(self._hold(self._opened, self._over))
        self._opened.add_done_callback(lambda opened: _copy(opened, answer))

    def _leave(self, user: object, answer: Future[None]) -> None:
        self._users.discard(user)
        holder, opened = self._holder, self._opened
        if self._users or holder is None or opened is None:
            _settle(answer)
            return
        self._holder = self._opened = None
        self._over.set()
        if not opened.done():
            holder.cancel()
        ending = asyncio.get_running_loop().create_task(_ended(holder))
        ending.add_done_callback(lambda _: _settle(answer))

    async def _hold(self, opened: asyncio.Future[Connection], over: asyncio.Event) -> None:
        connection: Connection | None = None
        with _said() as said:
            try:
                async with asyncio.timeout(self._server.timeout) as limit, self._client(said) as client:
                    tools = await _listed(client)
                    limit.reschedule(None)
                    connection = Connection(self._server, client, tools, over)
                    opened.set_result(connection)
                    await over.wait()
            except BaseException as error:  # a group of them, or a cancellation by the client's own tasks
                if not opened.done():
                    self._fail(opened, error, said)
                elif connection is not None:
                    connection.end(error)
            finally:
                if connection is not None:
                    connection.end(None)

    def _fail(self, opened: asyncio.Future[Connection], error: BaseException, said: Any) -> None:
        failure = MCPConnectionError(self._hidden(_why(self._server, single(error), _end_of(said))))
        failure.__cause__ = None if isinstance(error, asyncio.CancelledError) else single(error)
        opened.set_exception(failure)

    def _hidden(self, text: str) -> str:
        secrets = [*(self._server.env or {}).values(), *(self._server.headers or {}).values()]
        for secret in sorted([each for each in secrets if len(each) >= _SECRET_LENGTH], key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    @contextlib.asynccontextmanager
    async def _client(self, said: Any) -> AsyncGenerator[Any]:
        mcp = _package()
        async with contextlib.AsyncExitStack() as stack:
            target = await self._target(mcp, said, stack)
            yield await stack.enter_async_context(mcp.Client(target, read_timeout_seconds=self._server.timeout))

    async def _target(self, mcp: Any, said: Any, stack: contextlib.AsyncExitStack) -> Any:
        server = self._server
        if self._words is not None:
            from mcp.client.stdio import stdio_client

            program, *args = self._words
            started = mcp.StdioServerParameters(command=program, args=args, env=server.env, cwd=server.cwd)
            return stdio_client(started, errlog=said)
        if server.url is not None and server.headers:
            import httpx2
            from mcp.client.streamable_http import streamable_http_client

            timeout = httpx2.Timeout(_HTTP_TIMEOUT_S, read=_HTTP_READ_TIMEOUT_S)
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=server.headers, timeout=timeout))
            return streamable_http_client(server.url, http_client=http)
        return server.url or server.server


def single(error: BaseException) -> BaseException:
    """The first exception that is no group of others."""
    found: Any = error
    while isinstance(found, BaseExceptionGroup):
        found = cast("Any", found).exceptions[0]
    return found


def _package() -> Any:
    try:
        import mcp
    except ImportError as error:
        raise MCPConnectionError(
            explain("MCP servers need the package mcp", "install it", 'pip install "alpineagents[mcp]"')
        ) from error
    return mcp


async def _listed(client: Any) -> list[Any]:
    tools: list[Any] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            return tools


def _is_break(error: BaseException) -> bool:
    """Whether a call failed because its connection is gone, rather than by what the server said."""
    import mcp

    if isinstance(error, mcp.MCPError):
        from mcp.types import CONNECTION_CLOSED

        return error.code == CONNECTION_CLOSED and error.message == "Connection closed"  # a server may use the code too
    names = {kind.__name__ for kind in type(single(error)).__mro__}
    return bool(names & {"OSError", "TransportError", "ClosedResourceError", "BrokenResourceError", "EndOfStream"})


@contextlib.contextmanager
def _said() -> Any:
    """Where a program writes its errors: it must not write between the lines of a run, and may say why it ended."""
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        yield file


def _end_of(said: Any) -> str:
    with contextlib.suppress(OSError, ValueError):
        said.seek(0, io.SEEK_END)
        said.seek(max(0, said.tell() - _SAID_LENGTH))
        return said.read().strip()
    return ""


def _why(server: MCP, error: BaseException, said: str) -> str:
    if isinstance(error, MCPConnectionError):
        return str(error)
    reason = error_text(error)
    if isinstance(error, TimeoutError):
        reason = f"it took longer than {server.timeout} s"
    elif isinstance(error, asyncio.CancelledError):
        reason = "it was given up"
    problem = f"MCP server {server.name!r} could not be connected: {reason}"
    return explain(f"{problem}\nIt said:\n{said}" if said else problem, "check how it is started, or its URL")


def _seen(opened: asyncio.Future[Connection]) -> None:
    if not opened.cancelled():
        opened.exception()  # so that no event loop complains that nobody asked


def _copy(opened: asyncio.Future[Connection], answer: Future[Connection]) -> None:
    if not answer.set_running_or_notify_cancel():
        return
    error = opened.exception()
    if error is None:
        answer.set_result(opened.result())
    else:
        answer.set_exception(error)


def _settle(answer: Future[None]) -> None:
    if answer.set_running_or_notify_cancel():
        answer.set_result(None)


async def _ended(holder: asyncio.Task[None]) -> None:
    await asyncio.wait([holder], timeout=_CLOSING_S)
