"""Calls, results and texts as a person reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import scalars, shown, texts

from alpineagents.values.content import Image, TextBlock, ToolCall, ToolResultContent, size_text
from alpineagents.values.display import format_call, image_text, result_size, result_text, short

LONE = "caf\udce9"
JPEG = Image(b"\xff\xd8\xff" + bytes(2045))


class Point:
    def __repr__(self) -> str:
        return "Point(1, 2)"


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (ToolCall("now", {}, "1"), "now()"),
        (ToolCall("read", {"path": "main.py"}, "1"), 'read(path="main.py")'),
        (ToolCall("grep", {"q": "naïve\n", "limit": None}, "1"), r'grep(q="naïve\n", limit=null)'),
        (ToolCall("f", {"b": True, "a": 1.5}, "1"), "f(b=true, a=1.5)"),
        (ToolCall("f", {"x": {"a": [1, "é"]}}, "1"), 'f(x={"a": [1, "é"]})'),
        (ToolCall("f", {"x": "a\r\t\x00\"'\\"}, "1"), r"""f(x="a\r\t\u0000\"'\\")"""),
        (ToolCall("f", {"x": Point()}, "1"), "f(x=Point(1, 2))"),
        (ToolCall("f", {"x": [Point()]}, "1"), "f(x=[Point(1, 2)])"),
        (ToolCall("f", {"x": {(1,): 2}}, "1"), "f(x={(1,): 2})"),
        (ToolCall("f", {"x": b"a"}, "1"), "f(x=b'a')"),
        (ToolCall("f", {"x": float("nan")}, "1"), "f(x=NaN)"),
        (ToolCall("f", {"odd key\n": 1}, "1"), "f(odd key\n=1)"),
        (ToolCall("odd name", {}, "1"), "odd name()"),
        (ToolCall("f", {"x": LONE}, "1"), f'f(x="{LONE}")'),
    ],
)
def test_a_call_is_a_line_of_code(call: ToolCall, line: str) -> None:
    assert format_call(call) == line


@given(st.dictionaries(texts(8), scalars() | st.lists(scalars(), max_size=2), max_size=3))
def test_every_argument_of_a_call_is_written_as_json_in_order(args: dict[str, Any]) -> None:
    pairs = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in args.items()]
    assert format_call(ToolCall("f", args, "1")) == f"f({', '.join(pairs)})"


@given(texts())
def test_a_line_break_in_a_value_does_not_break_the_line(text: str) -> None:
    line = format_call(ToolCall("f", {"x": text}, "1"))
    assert "\n" not in line
    assert "\r" not in line


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("as it is\n", "as it is\n"),
        ("", ""),
        ((), ""),
        ((TextBlock("two hits"), JPEG), "two hits\n(image/jpeg, 2.0KB)"),
        ((TextBlock("a"), TextBlock(""), TextBlock("b")), "a\n\nb"),
        ((JPEG,), "(image/jpeg, 2.0KB)"),
    ],
)
def test_a_result_as_one_text_has_a_line_per_block(content: ToolResultContent, text: str) -> None:
    assert result_text(content) == text


def test_an_image_in_a_text_is_its_type_and_size() -> None:
    assert image_text(Image(b"", "image/png")) == "(image/png, 0B)"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0B"),
        (1, "1B"),
        (1023, "1023B"),
        (1024, "1.0KB"),
        (1300, "1.3KB"),
        (1048575, "1024.0KB"),
        (1048576, "1.0MB"),
        (5 * 1024**3, "5120.0MB"),
    ],
)
def test_sizes_have_three_units(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("content", "size"),
    [
        ("", 0),
        ("abc", 3),
        ("é€😀", 2 + 3 + 4),
        ((), 0),
        ((TextBlock("é"), JPEG, TextBlock("ab")), 2 + 2048 + 2),
        (LONE, 6),
        ((TextBlock(LONE),), 6),
    ],
    ids=repr,
)
def test_the_size_of_a_result_is_its_text_as_utf_8_and_its_images(content: ToolResultContent, size: int) -> None:
    assert result_size(content) == size


@given(st.text())
def test_the_size_of_a_text_is_that_of_its_file(text: str) -> None:
    assert result_size(text) == len(text.encode())


@given(texts(), shown())
def test_no_text_makes_a_display_helper_raise(text: str, content: ToolResultContent) -> None:
    format_call(ToolCall(text, {text: text}, "1"))
    short(text)
    assert isinstance(result_text(content), str)
    assert result_size(content) >= 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        (" a\n\n b\tc ", "a b c"),
        ("", ""),
        (None, "None"),
        ({"a": 1}, "{'a': 1}"),
    ],
    ids=repr,
)
def test_a_short_text_is_one_line_of_at_most_60_characters(value: object, text: str) -> None:
    assert short(value) == text


@given(st.text(), st.integers(1, 80))
def test_a_short_text_is_never_longer_than_asked(text: str, length: int) -> None:
    assert len(short(text, length)) <= length
    assert len(short(text, length).splitlines()) <= 1
