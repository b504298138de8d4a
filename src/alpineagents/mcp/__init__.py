"""Tools of MCP servers, programs that offer tools to any agent: https://modelcontextprotocol.io."""

from __future__ import annotations

from alpineagents.mcp.server import MCP
from alpineagents.mcp.tool import MCPTool

__all__ = ["MCP", "MCPTool"]
