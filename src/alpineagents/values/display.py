"""Calls, results and texts as a person reads them. Nothing here raises because of the text it is given."""

from __future__ import annotations

import json
import re
from typing import Any

from alpineagents.values.content import Image, ToolCall, ToolResultContent, size_text

# What moves the cursor, rings, recolours or reorders. A newline, a tab and the CR of a CRLF are plain text; so are the
# invisible marks that Arabic, Hebrew and emoji need. The last two groups are the bidi embeddings, overrides and
# isolates of https://www.unicode.org/reports/tr9/, which can make a line read as what it is not.
_UNSAFE = re.compile("\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def format_call(call: ToolCall) -> str:
    """A tool call as one line of code, such as `read_file(path="main.py")`."""
    return f"{call.name}({', '.join([f'{key}={_value_text(value)}' for key, value in call.args.items()])})"


def _value_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(value)


def result_text(content: ToolResultContent) -> str:
    """A tool result as one string: one line per block, an image as its type and size."""
    if isinstance(content, str):
        return content
    return "\n".join([image_text(block) if isinstance(block, Image) else block.text for block in content])


def image_text(image: Image) -> str:
    """An image in a line of text: `(image/png, 34.2KB)`."""
    return f"({image.media_type}, {size_text(len(image.data))})"


def result_size(content: ToolResultContent) -> int:
    """The bytes of a tool result: its text as UTF-8, plus its images. A lone surrogate counts as three."""
    if isinstance(content, str):
        return _utf8_length(content)
    return sum([len(b.data) if isinstance(b, Image) else _utf8_length(b.text) for b in content])


def _utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def short(value: object, length: int = 60) -> str:
    """The text on one line, at most `length` characters, with `…` where it was cut."""
    text = " ".join(str(value).split())
    return text if len(text) <= length else text[: length - 1] + "…"


def shown(text: str) -> str:
    """Text from outside, safe to show: characters that could rewrite the screen become escapes such as `\\x1b`."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
