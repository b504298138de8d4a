"""Where a replay leaves its recording: the first message that differs, both sides of it shown as lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TypeAlias

from alpineagents.errors import explain
from alpineagents.values.content import Block, Image, Message, TextBlock, ToolCall, ToolResultBlock
from alpineagents.values.display import format_call, image_text, result_text

MAX_LINES = 20
WIDTH = 160
LEAD = 40  # characters of a long line that are kept before the first one that differs

Pairs: TypeAlias = Iterable[tuple[str | None, str | None]]


class _Difference(Exception):
    """What a `ReplayMismatch` and a `ReplayWarning` tell.

    Attributes:
        index: Where in the messages the first difference is; `None` when there is no recorded answer at all.
        expected: The recorded message there, `None` behind the last one.
        actual: The received message there, `None` behind the last one.
        diff: Both as lines, recorded ones with `-`, received ones with `+`.
    """

    def __init__(
        self,
        message: str,
        index: int | None = None,
        expected: Message | None = None,
        actual: Message | None = None,
        diff: str = "",
    ) -> None:
        super().__init__(message)
        self.index = index
        self.expected = expected
        self.actual = actual
        self.diff = diff


class ReplayMismatch(_Difference, AssertionError):
    """A request left the recorded path, so the test fails; no `ProviderError`, which a wrapper might retry."""


class ReplayWarning(_Difference, UserWarning):
    """The same with `strict=False`: the recorded answer was given all the same."""


def first_difference(expected: Sequence[Message], actual: Sequence[Message]) -> int | None:
    """The index of the first message with another role or content, or that only one side has."""
    for index, (recorded, received) in enumerate(zip(expected, actual, strict=False)):
        if recorded is not received and (recorded.role != received.role or recorded.content != received.content):
            return index
    return None if len(expected) == len(actual) else min(len(expected), len(actual))


def described(
    request: str, expected: Sequence[Message], actual: Sequence[Message]
) -> tuple[str, int, Message | None, Message | None, str]:
    """The arguments of the error or warning about a difference.

    Args:
        request: Which request it was, for the text.
    """
    index = first_difference(expected, actual)
    assert index is not None
    recorded = expected[index] if index < len(expected) else None
    received = actual[index] if index < len(actual) else None
    diff = "\n".join(difference_lines(recorded, received))
    text = explain(
        f"{request} is not as recorded: messages[{index}] {_how(recorded, received)}\n{diff}",
        "find what changed the conversation up to here, or record the run again; "
        "ReplayModel(..., strict=False) only warns and goes on",
    )
    return text, index, recorded, received, diff


def _how(expected: Message | None, actual: Message | None) -> str:
    if expected is None:
        return "is extra"
    if actual is None:
        return "is missing"
    role = f"has the role {actual.role!r} instead of {expected.role!r}"
    if expected.content == actual.content:
        return role
    return "has other content" if expected.role == actual.role else f"{role} and other content"


def difference_lines(expected: Message | None, actual: Message | None) -> list[str]:
    """What differs between a recorded and a received message, at most `MAX_LINES` lines."""
    lines = _signed(_changed(_lines(expected), _lines(actual)))
    if not lines:  # what differs is in no line a person reads, such as the id of a call
        lines = _signed(_differing_blocks(expected, actual))
    if len(lines) > MAX_LINES:
        lines[MAX_LINES - 1 :] = [f"… {len(lines) - MAX_LINES + 1} more lines"]
    return lines


def _lines(message: Message | None) -> list[str]:
    if message is None:
        return []
    return [f"role: {message.role}", *[line for block in message.content for line in _block_text(block).split("\n")]]


def _block_text(block: Block) -> str:
    if isinstance(block, TextBlock):
        return f"text: {block.text}"
    if isinstance(block, ToolCall):
        return f"tool_call {format_call(block)}"
    if isinstance(block, ToolResultBlock):
        return f"tool_result {block.name}{' (error)' if block.is_error else ''}: {result_text(block.content)}"
    if isinstance(block, Image):
        return f"image: {image_text(block)}"
    return f"raw {block.provider}: {json.dumps(block.data, ensure_ascii=False, default=repr)}"


def _changed(old: list[str], new: list[str]) -> Pairs:
    """The lines side by side, without those that are equal and those that both end with."""
    end = _common(old[::-1], new[::-1])
    pairs = zip_longest(old[: len(old) - end], new[: len(new) - end])
    return [(recorded, received) for recorded, received in pairs if recorded != received]


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """How many items or characters both begin with."""
    for index, (recorded, received) in enumerate(zip(old, new, strict=False)):
        if recorded != received:
            return index
    return min(len(old), len(new))


def _differing_blocks(expected: Message | None, actual: Message | None) -> Pairs:
    blocks = zip_longest(expected.content if expected else (), actual.content if actual else ())
    return [(repr(recorded), repr(received)) for recorded, received in blocks if recorded != received]


def _signed(pairs: Pairs) -> list[str]:
    lines: list[str] = []
    for pair in pairs:
        start = _start(*pair)
        lines += [f"{sign} {_cut(line, start)}" for sign, line in zip("-+", pair, strict=True) if line is not None]
    return lines


def _start(old: str | None, new: str | None) -> int:
    if old is None or new is None or max(len(old), len(new)) <= WIDTH:
        return 0
    return max(0, _common(old, new) - LEAD)


def _cut(line: str, start: int) -> str:
    shown = line[start : start + WIDTH]
    return f"{'…' if start else ''}{shown}{'…' if start + WIDTH < len(line) else ''}"
