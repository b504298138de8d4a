"""One MCP server as settings, and picks of its tools. Nothing here connects."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from alpineagents.errors import explain, shown
from alpineagents.mcp.link import Link

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*(?:_[A-Za-z0-9-]+)*")
_EXAMPLE = 'MCP("npx docs-server", name="docs")\nMCP(url="https://example.com/mcp", name="docs")'


class MCP:
    """A Model Context Protocol server whose tools an Agent may use; the extra `alpineagents[mcp]` brings the client.

    In `tools=[...]` the server stands for all its tools, `server.search` and `server["search-code"]` for one of them.
    The model sees a tool as `name__tool`. Servers are connected while a run needs them, and inside `with agent:`.

    Args:
        command: A program to start, with its arguments; split as a shell would, but no shell is run.
        name: What its tools are called by: letters, digits and `-`, with single `_` in between.
        url: Where a server listens (Streamable HTTP).
        server: An in-process server or transport, as `mcp.Client` takes it; for tests.
        env: Variables for the program, beside the few that are safe for any. It does not get this process's own.
        headers: Sent with every request to `url`.
        cwd: Where the program is started.
        timeout: Seconds to connect and list the tools, and for each call; `None`: no limit.
    Raises:
        TypeError: Not exactly one of `command`, `url` and `server`, or a setting without the one it belongs to.
        ValueError: A name that is none, or a command that cannot be split.

    Example:
        github = MCP("npx -y @modelcontextprotocol/server-github", name="github", env={"GITHUB_TOKEN": "..."})
        agent = Agent(model, tools=[github.search_code, github["get-issue"]])
    """

    def __init__(  # noqa: PLR0913  # the settings of a server, all but the command by keyword
        self,
        command: str | None = None,
        *,
        name: str | None = None,
        url: str | None = None,
        server: Any = None,
        env: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
    ) -> None:
        _check_target({"command": command, "url": url, "server": server})
        _check_belongs("env", env, "command", command)
        _check_belongs("cwd", cwd, "command", command)
        _check_belongs("headers", headers, "url", url)
        self.name = _checked_name(name)
        self.command = command or None
        self.url = url or None
        self.server = server
        self.env = None if env is None else dict(env)
        self.headers = None if headers is None else dict(headers)
        self.cwd = cwd
        self.timeout = timeout
        self._link = Link(self, _split(command) if command else None)

    def __getitem__(self, tool_name: str) -> Pick:
        """One tool of this server, by its name there."""
        if not isinstance(tool_name, str):
            raise TypeError(
                explain(
                    f"a tool is picked by its name, not by {shown(tool_name)}", "give a str", 'server["search-code"]'
                )
            )
        return Pick(self, tool_name)

    def __getattr__(self, name: str) -> Pick:
        if name.startswith("_"):
            raise AttributeError(f"MCP has no attribute {name!r}; a tool of that name is server[{name!r}]")
        return Pick(self, name)

    def __repr__(self) -> str:
        target = repr(self.command) if self.command else f"url={self.url!r}" if self.url else f"server={self.server!r}"
        return f"MCP({target}, name={self.name!r})"


class Pick:
    """One tool of a server, which may not be connected yet.

    Attributes:
        server: The `MCP`. tool_name: The tool's name on the server. name: The name the model sees.
    """

    def __init__(self, server: MCP, tool_name: str) -> None:
        self.server = server
        self.tool_name = tool_name
        self.name = full_name(server, tool_name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pick) and self.server is other.server and self.tool_name == other.tool_name

    def __hash__(self) -> int:
        return hash((id(self.server), self.tool_name))

    def __repr__(self) -> str:
        return f"{self.server.name}.{self.tool_name}"


def full_name(server: MCP, tool_name: str) -> str:
    """The name the model sees: of the tool's own, characters that no tool name may have become `_`."""
    return f"{server.name}__{re.sub('[^A-Za-z0-9_-]', '_', tool_name)}"


def link_of(server: MCP) -> Link:
    """The server's one connection, made when it is needed."""
    return server._link  # noqa: SLF001  # that of the class above


def _check_target(targets: Mapping[str, object]) -> None:
    given = [name for name, value in targets.items() if value is not None and value != ""]
    if len(given) != 1:
        told = f"was given {' and '.join(given)}" if given else "was given none of them"
        problem = f"MCP takes one of command, url and server, and {told}"
        raise TypeError(explain(problem, "say in one way where the server is", _EXAMPLE))


def _check_belongs(name: str, value: object, owner: str, owning: object) -> None:
    if value is not None and not owning:
        problem = f"MCP: {name}= is for {'a program' if owner == 'command' else 'a URL'}, and there is no {owner}="
        raise TypeError(explain(problem, f"leave {name}= out", _EXAMPLE))


def _checked_name(name: object) -> str:
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    problem = "MCP needs a name" if name is None else f"MCP: name={name!r} cannot be the first part of tool names"
    raise ValueError(explain(problem, "use letters, digits and -, with single _ in between", _EXAMPLE))


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(explain(f"MCP: the command cannot be split: {error}", "close the quotes", _EXAMPLE)) from error
    if not words:
        raise ValueError(explain("MCP: the command is blank", "name a program", _EXAMPLE))
    return words
