"""A tool of a connected MCP server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from alpineagents.errors import ToolError, ToolInputError
from alpineagents.mcp.link import Connection, Refused
from alpineagents.mcp.results import content_of, error_of
from alpineagents.mcp.server import MCP, full_name
from alpineagents.state import State
from alpineagents.tools.base import HINT_NAMES, Tool

_REMOTE_HINTS = {name: f"{name}_hint" for name in HINT_NAMES}


class MCPTool(Tool):
    """One tool of an MCP server, as long as that is connected. Found in `agent.tool_map`; not to be made by hand.

    Attributes:
        server: The `MCP`. remote_name: The tool's name there.
    """

    describes_itself: ClassVar[bool] = True

    def __init__(self, server: MCP, connection: Connection, listed: Any) -> None:
        super().__init__(
            name=full_name(server, listed.name),
            description=listed.description or "",
            **cast("dict[str, Any]", _hints(getattr(listed, "annotations", None))),
        )
        # As the server has it: what is odd in it is for the model's provider to refuse.
        self.input_schema = {"type": "object", **cast("dict[str, Any]", listed.input_schema or {})}
        self.server = server
        self.remote_name: str = listed.name
        self._connection = connection

    async def run(self, args: dict[str, Any], state: State) -> Any:  # type: ignore[override]  # a Tool may be async
        """Have the server carry it out.

        Raises:
            ToolInputError: A required argument is missing; the server is not asked.
            ToolError: The server answered with an error, with nonsense, or not in time.
            MCPConnectionError: The connection is closed, or broke.
        """
        required = self.input_schema.get("required")
        names = cast("list[object]", required) if isinstance(required, list) else []
        missing = [str(name) for name in names if name not in args]
        if missing:
            raise ToolInputError(f"missing required arguments: {', '.join(missing)}")
        try:
            result = await asyncio.wrap_future(self._connection.call(self.remote_name, args))
        except Refused as error:
            raise ToolError(f"(error from MCP server {self.server.name!r}: {error})") from error.__cause__
        if result.is_error:
            raise ToolError(error_of(result, self.server.name))
        return content_of(result)


def _hints(annotations: Any) -> dict[str, bool]:
    """What the server says of the tool, where that is a bool; of one that only reads the rest follows."""
    given: Mapping[str, Any] = {name: getattr(annotations, remote, None) for name, remote in _REMOTE_HINTS.items()}
    hints = {name: value for name, value in given.items() if type(value) is bool}
    if hints.get("read_only"):
        hints.pop("destructive", None)
        hints.pop("idempotent", None)
    return hints
