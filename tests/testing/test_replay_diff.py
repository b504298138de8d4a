"""The first message that differs, as lines."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from alpineagents.testing import ReplayMismatch, ReplayWarning
from alpineagents.testing.replay_diff import difference_lines, first_difference
from alpineagents.values.content import Image, Message, RawBlock, TextBlock, ToolCall, ToolResultBlock

CALL = ToolCall("count", {"table": "a"}, "c1")
PNG = Image(b"\x89PNG\r\n\x1a\n" + bytes(5000))


def texts(*words: str) -> list[Message]:
    return [Message.user(word) for word in words]


@pytest.mark.parametrize(
    ("expected", "actual", "index"),
    [
        (texts("a", "b"), texts("a", "b"), None),
        (texts(), texts(), None),
        (texts("a", "b"), texts("a", "c"), 1),
        (texts("a", "b"), texts("a"), 1),
        (texts("a"), texts("a", "b"), 1),
        ([Message.user("a")], [Message.assistant("a")], 0),
        ([Message("assistant", (), 5, "end_turn")], [Message("assistant", ())], None),
    ],
)
def test_the_first_message_with_another_role_or_content_differs(
    expected: list[Message], actual: list[Message], index: int | None
) -> None:
    assert first_difference(expected, actual) == index


def lines_of(old: Any, new: Any) -> list[str]:
    """The difference of two messages with these texts or blocks."""
    messages = [Message.user(m) if isinstance(m, str) else Message("user", m) for m in (old, new)]
    return difference_lines(*messages)


@pytest.mark.parametrize(
    ("block", "line"),
    [
        (TextBlock("Hi"), "text: Hi"),
        (PNG, "image: (image/png, 4.9KB)"),
        (ToolCall("count", {"table": "ä"}, "c1"), 'tool_call count(table="ä")'),
        (ToolResultBlock("c1", "12", "count"), "tool_result count: 12"),
        (ToolResultBlock("c1", "12", "count", True), "tool_result count (error): 12"),
        (RawBlock("acme", {"a": "ä"}), 'raw acme: {"a": "ä"}'),
    ],
)
def test_each_block_has_lines_of_its_own(block: Any, line: str) -> None:
    assert lines_of((TextBlock("same"),), (TextBlock("same"), block)) == [f"+ {line}"]


def test_the_lines_of_a_result_with_an_image_show_no_bytes() -> None:
    old, new = ToolResultBlock("c1", (TextBlock("a"), PNG), "shot"), ToolResultBlock("c1", (PNG,), "shot")
    assert lines_of((old,), (new,)) == [
        "- tool_result shot: a",
        "+ tool_result shot: (image/png, 4.9KB)",
        "- (image/png, 4.9KB)",
    ]


def test_only_the_lines_that_differ_are_shown() -> None:
    old, new = [str(number) for number in range(50)], [str(number) for number in range(50)]
    new[20:22] = ["other", "21", "more"]
    assert lines_of("\n".join(old), "\n".join(new)) == ["- 20", "+ other", "+ more"]


def test_a_diff_has_at_most_twenty_lines() -> None:
    old, new = ("\n".join(f"{word} {number}" for number in range(15)) for word in ("old", "new"))
    lines = lines_of(old, new)
    assert len(lines) == 20
    assert lines[18:] == ["- old 9", "… 11 more lines"]


def test_twenty_lines_are_not_cut() -> None:
    old, new = ("\n".join(f"{word} {number}" for number in range(10)) for word in ("old", "new"))
    assert lines_of(old, new)[19] == "+ new 9"


def test_a_long_line_is_shortened_around_what_differs() -> None:
    old, new = "x" * 5000 + "OLD" + "y" * 5000, "x" * 5000 + "NEW" + "y" * 5000
    lines = lines_of(old, new)
    assert all(len(line) < 200 for line in lines)
    assert "OLD" in lines[0]
    assert "NEW" in lines[1]


def test_lines_that_are_not_long_are_shown_whole() -> None:
    same = "x" * 100
    assert lines_of(f"{same} old", f"{same} new") == [f"- text: {same} old", f"+ text: {same} new"]


def test_a_long_line_of_one_side_is_shortened() -> None:
    line = difference_lines(None, Message.user("z" * 5000))[1]
    assert line.startswith("+ text: zzz")
    assert line.endswith("z…")
    assert len(line) < 200


@pytest.mark.parametrize(
    ("old", "new", "diff"),
    [
        ((CALL,), (ToolCall("count", {"table": "a"}, "c2"),), ("id='c1'", "id='c2'")),
        ((TextBlock("a\ntext: b"),), (TextBlock("a"), TextBlock("b")), (r"'a\ntext: b'", "'a'")),
        ((PNG,), (Image(PNG.data[:-1] + b"x"),), ("image/png, 4.9KB", "image/png, 4.9KB")),
    ],
)
def test_what_no_line_shows_is_told_by_the_blocks_themselves(old: Any, new: Any, diff: tuple[str, str]) -> None:
    lines = lines_of(old, new)
    assert lines[0].startswith("- ")
    assert lines[1].startswith("+ ")
    assert diff[0] in lines[0]
    assert diff[1] in lines[1]


@pytest.mark.parametrize("kind", [ReplayMismatch, ReplayWarning])
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_it_survives_copy_and_pickle(kind: type[Any], duplicate: Callable[[Any], Any]) -> None:
    error = kind("the text", 2, Message.user("a"), Message("assistant", (TextBlock("b"), CALL)), "- a\n+ b")
    twin = duplicate(error)
    assert type(twin) is kind
    assert str(twin) == "the text"
    assert (twin.index, twin.expected, twin.actual, twin.diff) == (2, error.expected, error.actual, "- a\n+ b")
