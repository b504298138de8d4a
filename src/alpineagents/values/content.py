"""What messages are made of: text, images, tool calls and their results, and a provider's own blocks."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from alpineagents.errors import explain, shown
from alpineagents.values.frozen import freeze

NOTICE_PREFIX = "[notice] "
INVALID_ARGS_KEY = "__invalid_json__"
TRUNCATED_ARGS_MESSAGE = (
    "The output limit (max_tokens) cut these arguments off, so the call was not run. Split the work into smaller calls."
)
CUT_OFF_STOP_REASONS = frozenset({"max_tokens", "model_context_window_exceeded", "length", "max_output_tokens"})
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
KB, MB = 1024, 1024**2


def frozen_tuple(owner: str, value: Iterable[Any]) -> tuple[Any, ...]:
    """The items as a tuple, so that values given as a list and as a tuple compare equal."""
    if isinstance(value, tuple) and type(value) is tuple:
        return value
    try:
        items = iter(value)
    except TypeError:
        raise TypeError(
            explain(f"{owner} takes an iterable, not {type(value).__name__}: {shown(value)}", "give a list or a tuple")
        ) from None
    return tuple(items)  # outside the try: a TypeError of the caller's own generator is not this mistake


def set_field(instance: object, name: str, value: Any) -> None:
    """Set a field of a frozen dataclass while it is being built."""
    object.__setattr__(instance, name, value)


@dataclass(frozen=True)
class TextBlock:
    """One piece of text; the empty one is allowed."""

    text: str


@dataclass(frozen=True, repr=False)
class Image:
    """An image the model sees: part of a user message, or of a tool's result.

    Args:
        data: The bytes of a PNG, JPEG, GIF or WebP file, not encoded.
        media_type: One of `IMAGE_TYPES`; read from the leading bytes when left out, believed when given.
    Raises:
        TypeError: `data` is not bytes.
        ValueError: The bytes are none of the four formats, or the given type is another one.
    """

    data: bytes
    media_type: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.data, bytes):
            set_field(self, "data", _image_bytes(self.data))
        if self.media_type is None:
            set_field(self, "media_type", _media_type_of(self.data, "Image data"))
        elif self.media_type not in IMAGE_TYPES:
            raise ValueError(
                explain(
                    f"Image media_type {shown(self.media_type)} is not one that models take",
                    f"use one of {', '.join(IMAGE_TYPES)}, or leave it out to have it read from the data",
                )
            )

    @classmethod
    def from_path(cls, path: str | os.PathLike[str]) -> Image:
        """The image in a file; its type is read from the bytes, never from the name.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is none of the four formats.
        """
        data = Path(path).read_bytes()
        return cls(data, _media_type_of(data, f"{os.fspath(path)!r}"))

    @classmethod
    def from_base64(cls, data: str, media_type: str | None = None) -> Image:
        """The image in a base64 text.

        Raises:
            ValueError: The text has a character outside the alphabet (line breaks included) or wrong padding.
        """
        try:
            decoded = base64.b64decode(data, validate=True)
            if len(data) != -(-len(decoded) // 3) * 4:  # binascii overlooks padding behind whole groups
                raise binascii.Error("Incorrect padding")
        except ValueError as error:
            raise ValueError(
                explain(
                    f"Image.from_base64 got text that is not valid base64 ({error}): {shown(data)}",
                    "give the base64 text alone, without line breaks and without a prefix such as data:image/png;",
                )
            ) from error
        return cls(decoded, media_type)

    @property
    def base64(self) -> str:
        """The data as base64 text without line breaks."""
        return base64.b64encode(self.data).decode("ascii")

    def __repr__(self) -> str:
        return f"Image({self.media_type}, {size_text(len(self.data))})"


def size_text(size: int) -> str:
    """A number of bytes for people: `512B`, `1.2KB`, `3.4MB`; steps of 1,024, no larger unit."""
    if size < KB:
        return f"{size}B"
    return f"{size / KB:.1f}KB" if size < MB else f"{size / MB:.1f}MB"


def _image_bytes(data: object) -> bytes:
    if isinstance(data, bytearray):
        return bytes(data)
    if isinstance(data, memoryview):
        return data.tobytes()
    raise TypeError(
        explain(
            f"Image takes the bytes of an image file, not {type(data).__name__}: {shown(data)}",
            "use Image.from_path for a file and Image.from_base64 for base64 text",
            'Image.from_path("chart.png")',
        )
    )


def _media_type_of(data: bytes, name: str) -> str:
    # The signatures: PNG (RFC 2083, 3.1), JPEG (ITU T.81, SOI and the next marker), GIF89a, WebP (RFC 9649).
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    raise ValueError(
        explain(
            f"{name} is not PNG, JPEG, GIF or WebP (it begins with {data[:8]!r})",
            "convert the image, or pass media_type= if it is one of these all the same",
            'Image(data, "image/png")',
        )
    )


@dataclass(frozen=True)
class ToolCall:
    """One call the model asked for, and a block of its message.

    `args` is read-only at every level: copy it with `dict(call.args)` to change it. Equal calls have equal name,
    arguments and id; the hash is that of the id alone.

    Raises:
        TypeError: `args` is not a mapping.
    """

    name: str
    args: Mapping[str, Any]
    id: str

    def __post_init__(self) -> None:
        if not isinstance(self.args, dict | Mapping):
            raise TypeError(
                explain(
                    f"ToolCall args must be a mapping, not {type(self.args).__name__}: {shown(self.args)}",
                    "give the arguments by name",
                    'ToolCall("read_file", {"path": "a.txt"}, "call_1")',
                )
            )
        set_field(self, "args", freeze(self.args))

    def __hash__(self) -> int:
        return hash(self.id)


ToolResultContent: TypeAlias = str | tuple[TextBlock | Image, ...]


@dataclass(frozen=True)
class ToolResultBlock:
    """The result of one tool call inside a user message; `content` is exactly what the model gets."""

    call_id: str
    content: ToolResultContent
    name: str = ""
    is_error: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.content, str):
            set_field(self, "content", frozen_tuple("ToolResultBlock.content", self.content))


@dataclass(frozen=True, eq=True)
class RawBlock:
    """A provider's own block, such as thinking: kept as it came and sent back unchanged to the same provider."""

    provider: str
    data: Mapping[str, Any]

    def __post_init__(self) -> None:
        set_field(self, "data", freeze(self.data))

    __hash__ = None  # type: ignore[assignment]  # it holds a dict


Block: TypeAlias = TextBlock | Image | ToolCall | ToolResultBlock | RawBlock


@dataclass(frozen=True)
class Message:
    """One message of the context; notices and tool results are user messages, the system prompt is none.

    Attributes:
        content: The blocks in order.
        tokens: The provider's count for the context up to and including this message; only on replies.
        stop_reason: The provider's own word for why the reply ended; only on replies.
    """

    role: Literal["user", "assistant"]
    content: tuple[Block, ...]
    tokens: int | None = None
    stop_reason: str | None = None

    def __post_init__(self) -> None:
        if type(self.content) is tuple:
            return
        if isinstance(self.content, str):
            raise TypeError(
                explain(
                    f"Message takes blocks, not a str: {shown(self.content)}",
                    "use Message.user or Message.assistant for text",
                    'Message.user("Find the bug")',
                )
            )
        set_field(self, "content", frozen_tuple("Message.content", self.content))

    @classmethod
    def user(cls, text: str, *images: Image) -> Message:
        """A message from the person: the text, then the images. An empty text beside an image is left out.

        Raises:
            TypeError: `text` is not a `str`, or an image is not an `Image`.
        """
        _check_text("Message.user", text)
        for image in images:
            if not isinstance(image, Image):
                raise TypeError(
                    explain(
                        f"Message.user takes Image objects after the text, not {type(image).__name__}: {shown(image)}",
                        "make an Image of the file",
                        'Message.user("What is this?", Image.from_path("photo.png"))',
                    )
                )
        return cls("user", images if images and text == "" else (TextBlock(text), *images))

    @classmethod
    def notice(cls, text: str) -> Message:
        """A message from your code; the model sees it with the prefix `[notice] `.

        Raises:
            TypeError: `text` is not a `str`.
        """
        _check_text("Message.notice", text)
        return cls("user", (TextBlock(text if text.startswith(NOTICE_PREFIX) else NOTICE_PREFIX + text),))

    @classmethod
    def assistant(cls, text: str) -> Message:
        """A message from the model, for `State(messages=[...])`.

        Raises:
            TypeError: `text` is not a `str`.
        """
        _check_text("Message.assistant", text)
        return cls("assistant", (TextBlock(text),))

    @property
    def is_notice(self) -> bool:
        """Whether this is a user message whose first text starts with `NOTICE_PREFIX`."""
        if self.role != "user":
            return False
        first = next((block for block in self.content if isinstance(block, TextBlock)), None)
        return first is not None and first.text.startswith(NOTICE_PREFIX)

    @property
    def text(self) -> str:
        """All text blocks joined with nothing between."""
        return "".join([block.text for block in self.content if isinstance(block, TextBlock)])

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in order."""
        return tuple([block for block in self.content if isinstance(block, ToolCall)])

    @property
    def cut_off(self) -> bool:
        """Whether an output limit ended this message."""
        return self.stop_reason in CUT_OFF_STOP_REASONS


def _check_text(where: str, text: object) -> None:
    if not isinstance(text, str):
        problem = f"{where} takes a str, not {type(text).__name__}: {shown(text)}"
        raise TypeError(explain(problem, "give the text itself", f'{where}("Find the bug")'))


def only_text(content: tuple[Any, ...]) -> str | None:
    """The text when the blocks are exactly one text block."""
    if len(content) == 1 and isinstance(content[0], TextBlock):
        return content[0].text
    return None
