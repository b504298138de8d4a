"""The MCP servers of one Agent: which of their tools it uses, and for how long they are connected for it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future

from alpineagents.errors import explain
from alpineagents.mcp.background import awaited, result_of
from alpineagents.mcp.link import Connection
from alpineagents.mcp.server import MCP, Pick, full_name, link_of
from alpineagents.mcp.tool import MCPTool
from alpineagents.tools.base import Tool
from alpineagents.waiting import Wait

_LONGEST_NAME = 64


class Servers:
    """What an Agent uses of which servers.

    Args:
        items: The servers and picks of `tools=`, in order.
        own: The Agent's other tools.
    Raises:
        ValueError: Two servers have one name.
    """

    def __init__(self, items: Iterable[MCP | Pick], own: Mapping[str, Tool]) -> None:
        self._own = own
        self._picks: dict[MCP, set[str] | None] = {}
        for item in items:
            self._add(item)
        self._lock = threading.Lock()
        self._users: set[object] = set()
        self._kept = False
        self._tools: dict[str, MCPTool] = {}

    def _add(self, item: MCP | Pick) -> None:
        server = item if isinstance(item, MCP) else item.server
        for other in self._picks:
            if other is not server and other.name == server.name:
                problem = f"two MCP servers have the name {server.name!r}: {other!r} and {server!r}"
                raise ValueError(explain(problem, "give one of them another name="))
        picked = self._picks.setdefault(server, set())
        if isinstance(item, MCP):
            self._picks[server] = None
        elif picked is not None:
            picked.add(item.tool_name)

    def __bool__(self) -> bool:
        return bool(self._picks)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the servers, sorted."""
        return tuple(sorted([server.name for server in self._picks]))

    @property
    def shown(self) -> list[str]:
        """Each server, for a person."""
        return [repr(server) for server in self._picks]

    @property
    def tools(self) -> dict[str, MCPTool]:
        """The tools by the name the model sees; none while they are not connected."""
        return self._tools

    def of_item(self, item: MCP | Pick) -> list[MCPTool]:
        """The connected tools that an item stands for; none if it is not of this Agent."""
        if isinstance(item, Pick):
            return [tool for tool in self._tools.values() if Pick(tool.server, tool.remote_name) == item]
        return [tool for tool in self._tools.values() if tool.server is item]

    async def connect(self, wait: Wait, user: object) -> None:
        """Connect all servers at the same time, for a user who will leave by `disconnect`.

        Raises:
            MCPConnectionError: One of them could not be connected. The others are not left connected either.
            ValueError: A pick that does not exist, or a name that cannot be used.
        """
        joined = [(server, link_of(server).join(user)) for server in self._picks]
        try:
            connections = {server: await wait(result_of, awaited, answer) for server, answer in joined}
            tools = self._checked(connections)
        except Exception:
            await self.disconnect(wait, user)
            raise
        except BaseException:
            self._leave(user)
            raise
        with self._lock:
            if not self._users:
                self._tools = tools
            self._users.add(user)

    async def connect_once(self, wait: Wait) -> None:
        """Connect for the rest of the process, unless a run or a `with` block is doing so already."""
        if not self._users:
            await self.connect(wait, self)

    async def disconnect(self, wait: Wait, user: object) -> None:
        """Need them no more, and wait until they have ended; how that goes is nobody's concern."""
        for answer in self._leave(user):
            await wait(result_of, awaited, answer)

    def _leave(self, user: object) -> list[Future[None]]:
        with self._lock:
            self._users.discard(user)
            if not self._users:
                self._tools = {}
        return [link_of(server).leave(user) for server in self._picks]

    def _checked(self, connections: Mapping[MCP, Connection]) -> dict[str, MCPTool]:
        found: dict[str, MCPTool] = {}
        for server, connection in connections.items():
            listed = {tool.name: tool for tool in connection.tools}
            used = self._used(server, listed)
            for name, tool in listed.items():
                if name in used:
                    _check_length(full_name(server, name))
                    made = MCPTool(server, connection, tool)
                    self._check_collision(made, found)
                    found[made.name] = made
        return found

    def _used(self, server: MCP, listed: Collection[str]) -> Collection[str]:
        picked = self._picks[server]
        if picked is None:
            return listed
        missing = sorted(picked.difference(listed))
        if missing:
            problem = f"MCP server {server.name!r} has no tool {', '.join(map(repr, missing))}"
            raise ValueError(explain(problem, f"it has: {', '.join(sorted(listed)) or 'none'}"))
        return picked

    def _check_collision(self, made: MCPTool, found: Mapping[str, MCPTool]) -> None:
        other = self._own.get(made.name) or found.get(made.name)
        if other is not None:
            shown = f"{other.remote_name!r}" if isinstance(other, MCPTool) else repr(other)
            problem = f"two tools have the name {made.name!r}: {shown} and {made.remote_name!r} of {made.server!r}"
            raise ValueError(explain(problem, "pick one of them, or give one another name"))


def _check_length(name: str) -> None:
    if len(name) > _LONGEST_NAME:
        problem = f"the tool name {name!r} has {len(name)} characters, and {_LONGEST_NAME} is the most there may be"
        raise ValueError(explain(problem, "give the MCP server a shorter name="))
