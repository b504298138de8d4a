"""The tools of one Agent: its own, and those of its MCP servers while they are connected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from alpineagents.errors import explain
from alpineagents.mcp import MCP, MCPTool
from alpineagents.mcp.server import Pick
from alpineagents.mcp.servers import Servers
from alpineagents.tools.base import Tool
from alpineagents.tools.collect import collect, same_tool, tool_map
from alpineagents.values.exchange import ToolSpec
from alpineagents.waiting import Wait

Adapt: TypeAlias = Callable[[object], list[Tool] | None]


class Toolbox:
    """What the items of `tools=` stand for.

    Args:
        items: The items as given.
        subagents: The tool of an item that is an Agent.
    Raises:
        TypeError: An item is no tool and holds none, or is a tool of a connected MCP server.
        ValueError: Two tools, or two MCP servers, have one name.
    """

    def __init__(self, items: Any, subagents: Adapt) -> None:
        self._subagents = subagents
        collected = collect(items, self._own)
        self._tools = tool_map(collected)
        self.servers = Servers([item for item in items if isinstance(item, MCP | Pick)], self._tools)
        self._specs = tuple([tool.spec for tool in collected])

    def _own(self, item: object) -> list[Tool] | None:
        if isinstance(item, MCP | Pick):
            return []
        if isinstance(item, MCPTool):
            problem = f"{item!r} is a tool of a connection, which ends"
            example = f"tools=[{item.server.name}[{item.remote_name!r}]]"
            raise TypeError(explain(problem, "give the MCP server, or pick the tool from it", example))
        return self._subagents(item)

    @property
    def own(self) -> Mapping[str, Tool]:
        """The tools that are there without a connection."""
        return self._tools

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All tools by the name the model calls: the Agent's own, then those of the servers."""
        remote = self.servers.tools
        return {**self._tools, **remote} if remote else self._tools

    @property
    def view(self) -> Mapping[str, Tool]:
        """The same for a person who looks one up."""
        return Missing(self.tools, self.servers.names if self.servers and not self.servers.tools else ())

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is shown."""
        remote = self.servers.tools
        return (*self._specs, *[tool.spec for tool in remote.values()]) if remote else self._specs

    @property
    def shown(self) -> list[str]:
        """Each tool, and each server, for a person."""
        return [*self._tools, *self.servers.shown]

    def chosen(self, items: Iterable[Any]) -> tuple[ToolSpec, ...]:
        """What the model is shown when only these items are to be.

        Raises:
            TypeError: An item could be no tool.
            ValueError: A tool is not the Agent's.
        """
        remote: dict[str, MCPTool] = {}

        def adapt(item: object) -> list[Tool] | None:
            if not isinstance(item, MCP | Pick | MCPTool):
                return self._subagents(item)
            found = [item] if isinstance(item, MCPTool) else self.servers.of_item(item)
            for tool in found:
                if self.servers.tools.get(tool.name) is not tool:
                    raise ValueError(_foreign(item))
                remote[tool.name] = tool
            if not found:
                raise ValueError(_foreign(item))
            return []

        own = collect(items, adapt)
        for tool in own:
            mine = self._tools.get(tool.name)
            if mine is None or not same_tool(mine, tool):
                raise ValueError(_foreign(tool))
        listed = [tool for tool in self.servers.tools.values() if tool.name in remote]
        return tuple([tool.spec for tool in (*own, *listed)])

    async def connect(self, wait: Wait) -> object:
        """Connect the servers for one user; what it gives is to be given back to `disconnect`.

        Raises:
            MCPConnectionError: A server could not be connected.
            ValueError: A pick that its server does not have, or a name that cannot be used.
        """
        user = object()
        await self.servers.connect(wait, user)
        return user

    async def disconnect(self, wait: Wait, user: object) -> None:
        """End what `connect` began."""
        await self.servers.disconnect(wait, user)


class Missing(Mapping[str, Tool]):
    """A read-only map that says, when a name is missing, which servers are not connected."""

    def __init__(self, tools: Mapping[str, Tool], unconnected: tuple[str, ...]) -> None:
        self._tools = tools
        self._unconnected = unconnected

    def __getitem__(self, name: str) -> Tool:
        if name not in self._tools and self._unconnected:
            problem = f"no tool {name!r}, and these MCP servers are not connected: {', '.join(self._unconnected)}"
            raise KeyError(explain(problem, "connect them first", "with agent:\n    agent.tool_map[...]"))
        return self._tools[name]

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return repr(dict(self._tools))


def _foreign(item: object) -> str:
    return explain(
        f"think: {item!r} is not one of this Agent's tools",
        "show tools that the Agent has",
        "agent.think(state, tools=[agent.tool_map['read_file']])",
    )
