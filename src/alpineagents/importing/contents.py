"""What several formats share: texts, images, arguments, times and counts as other tools write them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

from alpineagents.importing.sources import parsed
from alpineagents.values.content import INVALID_ARGS_KEY, Image, TextBlock, ToolResultContent
from alpineagents.values.frozen import check_json

Part: TypeAlias = TextBlock | Image
Mend: TypeAlias = Callable[[str], None]  # hears what is kept otherwise than it stands in the source

_DATA_URL = re.compile(r"data:[^;,]*(?:;[^;,]*)*?;base64,", re.IGNORECASE)
_LARGEST_COUNT = 2**53
_SECONDS = 10_000_000_000  # a larger number of seconds since 1970 is one of milliseconds
_TEXT_TYPES = ("text", "input_text", "output_text")


def json_text(value: Any) -> str:
    """A value as JSON, for what has no other form here."""
    return json.dumps(value, ensure_ascii=False, default=str)


def parts_of(content: Any, mend: Mend) -> tuple[Part, ...]:
    """The texts and images of a message or of a result; anything else in it as JSON text."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextBlock(content),)
    if not isinstance(content, list):
        mend(f"content that is {type(content).__name__}, kept as text")
        return (TextBlock(json_text(content)),)
    return tuple([part_of(part, mend) for part in cast("list[Any]", content)])


def part_of(part: Any, mend: Mend) -> Part:
    """One block of a message of a person, or of a result."""
    if isinstance(part, str):
        mend("a bare text among the blocks, kept as a text block")
        return TextBlock(part)
    block = fields(part)
    kind = block.get("type")
    if kind in _TEXT_TYPES and isinstance(block.get("text"), str):
        return TextBlock(block["text"])
    if kind in ("image", "image_url", "input_image"):
        image = image_of(block)
        if image is not None:
            return image
        mend("an image that is not in the source or cannot be read, kept as text")
        return TextBlock(json_text(part))
    mend(f"a block of the unknown type {kind!r}, kept as JSON text")
    return TextBlock(json_text(part))


def image_of(part: dict[str, Any]) -> Image | None:
    """The image of a block: its bytes in base64, or a `data:` URL."""
    source: Any = part.get("source") or part.get("image_url") or part.get("image") or part.get("url")
    if isinstance(source, dict):
        source = cast("dict[str, Any]", source)
        if isinstance(source.get("data"), str):
            return decoded_image(source["data"], source.get("media_type"))
        source = source.get("url")
    if not isinstance(source, str):
        return None
    prefix = _DATA_URL.match(source)
    if prefix is None:
        return None
    return decoded_image(source[prefix.end() :], prefix[0].removeprefix("data:").partition(";")[0] or None)


def decoded_image(data: str, media_type: Any) -> Image | None:
    """The image in a base64 text, or `None` if there is none that models take."""
    try:
        decoded = base64.b64decode(data, validate=False)
    except (binascii.Error, ValueError):
        return None
    for given in (None, media_type):  # the bytes know better than a name beside them
        try:
            return Image(decoded, given) if decoded else None
        except ValueError:
            continue
    return None


def result_content(content: Any, mend: Mend) -> ToolResultContent:
    """What a tool gave back: a text as it is, else its texts and images."""
    if isinstance(content, str):
        return content
    return parts_of(content, mend) or ""


def arguments(value: Any) -> dict[str, Any]:
    """The arguments of a call: an object, or JSON of one; anything else is kept as the text it is."""
    if value is None or value == "":
        return {}
    found: Any = value
    if isinstance(value, str):
        try:
            found = parsed(value)
        except ValueError:
            return {INVALID_ARGS_KEY: value}
    try:
        return check_json(found, "") if isinstance(found, dict) else {INVALID_ARGS_KEY: json_text(found)}
    except TypeError:
        return {INVALID_ARGS_KEY: value if isinstance(value, str) else json_text(value)}


def time_of(value: Any) -> datetime | None:
    """A time as text, or as a number since 1970, in UTC; one without a zone is taken for UTC."""
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if value > _SECONDS else value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def count_of(value: Any) -> int:
    """A number of tokens; 0 for what is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST_COUNT:
        return 0
    return value


def text_or_none(value: Any) -> str | None:
    """The text, if it is one and not empty."""
    return value if isinstance(value, str) and value else None


def id_text(*parts: object) -> str:
    """A State id made of what the source calls things; a hash tells apart what other characters would not."""
    text = "-".join([str(part) for part in parts if part not in (None, "")])
    plain = re.sub("[^A-Za-z0-9_-]+", "-", text).strip("-")[:100]
    return plain if plain == text else f"{plain}-{short_hash(text)}".lstrip("-")


def hash_of(text: str | None) -> str | None:
    """The SHA-256 of a text."""
    return None if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def short_hash(text: str) -> str:
    """Eight hex digits of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def records(value: Any) -> Iterator[tuple[int, Any]]:
    """The items of a list with their numbers; nothing for what is no list."""
    return enumerate(cast("list[Any]", value) if isinstance(value, list) else [])


def fields(value: Any) -> dict[str, Any]:
    """The fields of an object; none for what is no object."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def text_of(value: Any) -> str:
    """A value as text: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json_text(value)
