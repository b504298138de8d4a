"""An MCP server to talk to: `python demo_server.py` over stdio, `python demo_server.py http PORT` over HTTP."""

from __future__ import annotations

import base64
import os
import sys
import time
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n0000").decode()
TOUCH = "ALPINE_TOUCH"  # the file that `slow` touches when its call was cancelled

server = MCPServer("demo")


def text(said: str) -> TextContent:
    return TextContent(type="text", text=said)


def image(data: str = PNG, mime_type: str = "image/png") -> ImageContent:
    return ImageContent(type="image", data=data, mime_type=mime_type)


BLOCKS: dict[str, list[Any]] = {
    "nothing": [],
    "blank": [text(" \n")],
    "texts": [text("a"), text(""), text("b")],
    "image": [text("a"), text("b"), image(), text(""), text("c")],
    "tiff": [image(mime_type="image/tiff")],
    "broken": [image(data="!!")],
    "audio": [AudioContent(type="audio", data=PNG, mime_type="audio/wav")],
    "resource": [
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="file:///a", text="inside")),
        EmbeddedResource(type="resource", resource=BlobResourceContents(uri="file:///b", blob=PNG)),
        EmbeddedResource(type="resource", resource=BlobResourceContents(uri="file:///c", blob=PNG, mime_type="x/y")),
    ],
    "link": [ResourceLink(type="resource_link", name="a", uri="file:///a")],
}


@server.tool(name="stock.level", annotations=ToolAnnotations(read_only_hint=True, destructive_hint=True))
def stock_level(sku: str) -> int:
    """Pieces on the shelf"""
    return {"bolt": 40}[sku]


@server.tool(annotations=ToolAnnotations(destructive_hint=False, idempotent_hint=True, open_world_hint=False))
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def show(what: str, is_error: bool = False, structured: bool = False) -> CallToolResult:
    """Give back blocks."""
    content = {"größe": 7} if structured else None
    return CallToolResult(content=BLOCKS[what], structured_content=content, is_error=is_error)


@server.tool()
def environment(name: str) -> str:
    """A variable of this process, and where it runs."""
    return f"{os.environ.get(name)} {os.getcwd()}"


@server.tool()
def die() -> str:
    """End the process."""
    os._exit(3)


@server.tool()
async def slow(ctx: Context) -> str:
    """Take long."""
    try:
        await anyio.sleep(30)
    finally:
        if TOUCH in os.environ:
            open(os.environ[TOUCH], "w").close()
    return "at last"


@server.tool()
def header(name: str, ctx: Context) -> str:
    """A header of the request."""
    request: Any = ctx.request_context.request
    return str(request.headers.get(name))


if __name__ == "__main__":
    if os.environ.get("ALPINE_SLOW_START"):
        time.sleep(float(os.environ["ALPINE_SLOW_START"]))
    if sys.argv[1:2] == ["http"]:
        server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run()
