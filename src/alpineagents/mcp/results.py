"""What a server's result becomes: text, or text and images."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any

from alpineagents.values.content import Image

_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_DONE = "(done)"


def content_of(result: Any) -> Any:
    """What a tool returns for a result: a text, or a list of texts and images."""
    pieces = [_piece(block) for block in result.content or ()]
    if any(isinstance(piece, Image) for piece in pieces):
        return _neighbours_joined(pieces)
    text = _joined(pieces)
    return text if text.strip() else _structured(result) or _DONE


def error_of(result: Any, server: str) -> str:
    """The text of a result that is marked as an error."""
    pieces = [_piece(block) for block in result.content or ()]
    text = _joined([f"({piece.media_type} image)" if isinstance(piece, Image) else piece for piece in pieces])
    if text.strip():
        return text
    return _structured(result) or f"(MCP server {server!r} reported an error without a message)"


def _piece(block: Any) -> str | Image:
    """One content block, of which any attribute may be missing or of a wrong kind."""
    kind = getattr(block, "type", type(block).__name__)
    media_type = getattr(block, "mime_type", None)
    if kind == "text":
        return str(block.text)
    if kind == "image":
        return _image(block, media_type)
    if kind == "audio":
        return f"(audio {media_type} not shown: this audio type is not supported)"
    if kind == "resource":
        resource = block.resource
        text = getattr(resource, "text", None)
        return text if isinstance(text, str) else f"(resource {resource.uri}: {getattr(resource, 'mime_type', None)})"
    if kind == "resource_link":
        return f"(resource link: {block.uri})"
    return f"({kind} content)"


def _image(block: Any, media_type: Any) -> str | Image:
    if media_type in _TYPES:
        try:
            return Image(base64.b64decode(block.data, validate=True), media_type)
        except (binascii.Error, ValueError, TypeError):  # no base64; no bytes of such an image
            pass
    return f"(image {media_type} not shown: this image type is not supported)"


def _joined(pieces: Iterable[Any]) -> str:
    return "\n".join([piece for piece in pieces if piece])


def _neighbours_joined(pieces: list[str | Image]) -> list[str | Image]:
    content: list[str | Image] = []
    for piece in pieces:
        if isinstance(piece, str) and content and isinstance(before := content[-1], str):
            content[-1] = _joined([before, piece])
        elif piece:
            content.append(piece)
    return content


def _structured(result: Any) -> str:
    structured = getattr(result, "structured_content", None)
    return "" if structured is None else json.dumps(structured, ensure_ascii=False)
