"""Text, images, tool calls and their results, provider blocks, and messages of them."""

from __future__ import annotations

import array
import base64
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import images, texts

from alpineagents.values.content import (
    CUT_OFF_STOP_REASONS,
    IMAGE_TYPES,
    NOTICE_PREFIX,
    Image,
    Message,
    RawBlock,
    TextBlock,
    ToolCall,
    ToolResultBlock,
)
from alpineagents.values.frozen import FrozenDict, FrozenList

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
JPEG = b"\xff\xd8\xff\xe0" + bytes(10)
WEBP = b"RIFF\x01\x02\x03\x04WEBPVP8 "
PICTURE = Image(PNG)


@given(texts())
def test_a_text_block_holds_any_text(text: str) -> None:
    assert TextBlock(text).text == text


# Images.


@pytest.mark.parametrize("given_as", [bytes, bytearray, memoryview], ids=lambda kind: kind.__name__)
def test_image_data_is_stored_as_bytes(given_as: Callable[[bytes], Any]) -> None:
    image = Image(given_as(PNG))
    assert (type(image.data), image.data, image.media_type) == (bytes, PNG, "image/png")


def test_image_data_of_a_view_with_gaps_or_wide_items_is_its_bytes() -> None:
    assert Image(memoryview(b"aXbXcX")[::2], "image/png").data == b"abc"
    assert Image(memoryview(array.array("i", [1, 2])), "image/png").data == array.array("i", [1, 2]).tobytes()


def test_later_changes_of_a_bytearray_do_not_reach_the_image() -> None:
    data = bytearray(PNG)
    image = Image(data)
    data[0] = 0
    assert image.data == PNG


@pytest.mark.parametrize("data", ["iVBORw0KGgo=", Path("chart.png"), None, [1, 2], 5], ids=repr)
def test_image_data_that_is_no_bytes_is_refused_and_from_path_is_named(data: Any) -> None:
    with pytest.raises(TypeError, match=rf"not {type(data).__name__}: (.|\n)*Fix: use Image\.from_path"):
        Image(data)


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (JPEG, "image/jpeg"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a...", "image/gif"),
        (WEBP, "image/webp"),
        (b"RIFF\xff\x00\n\rWEBP", "image/webp"),
    ],
)
def test_the_type_of_an_image_is_read_from_its_first_bytes(data: bytes, media_type: str) -> None:
    assert Image(data).media_type == media_type


@pytest.mark.parametrize(
    "data",
    [b"", b"\x89PNG\r\n\x1a", b"\xff\xd8", b"GIF88a", b"RIFF1234WAVE", b"RIFF123WEBP", b"<svg>", b" GIF89a", b"BM"],
)
def test_other_image_data_is_refused_and_its_beginning_shown(data: bytes) -> None:
    with pytest.raises(ValueError, match="is not PNG, JPEG, GIF or WebP") as raised:
        Image(data)
    assert repr(data[:8]) in str(raised.value)
    assert "\nFix: " in str(raised.value)


@pytest.mark.parametrize("media_type", IMAGE_TYPES)
def test_a_given_type_is_believed_whatever_the_data(media_type: str) -> None:
    assert (Image(b"", media_type).media_type, Image(PNG, media_type).media_type) == (media_type, media_type)


@pytest.mark.parametrize("media_type", ["image/bmp", "png", "", "IMAGE/PNG", "image/png "])
def test_another_type_is_refused_and_the_allowed_ones_listed(media_type: str) -> None:
    with pytest.raises(ValueError, match="media_type") as raised:
        Image(PNG, media_type)
    assert repr(media_type) in str(raised.value)
    assert all(allowed in str(raised.value) for allowed in IMAGE_TYPES)


@pytest.mark.parametrize("kind", [str, Path], ids=["str", "Path"])
def test_an_image_file_has_the_type_of_its_bytes_not_of_its_name(tmp_path: Path, kind: Callable[[Path], Any]) -> None:
    file = tmp_path / "photo.png"
    file.write_bytes(JPEG)
    assert Image.from_path(kind(file)) == Image(JPEG, "image/jpeg")


def test_a_missing_image_file_raises_the_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Image.from_path(tmp_path / "missing.png")


def test_a_file_that_is_no_image_is_refused_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "chart.svg"
    file.write_bytes(b"<svg>")
    with pytest.raises(ValueError, match=r"chart\.svg' is not PNG, JPEG, GIF or WebP"):
        Image.from_path(file)


@given(st.binary())
def test_base64_text_comes_back_as_the_image(data: bytes) -> None:
    image = Image(data, "image/png")
    assert image.base64 == base64.b64encode(data).decode()
    assert Image.from_base64(image.base64, "image/png") == image


def test_base64_text_has_no_line_breaks() -> None:
    assert "\n" not in Image(PNG * 20).base64


def test_the_type_of_base64_text_is_read_from_its_bytes() -> None:
    assert Image.from_base64(base64.b64encode(WEBP).decode()).media_type == "image/webp"


GOOD = base64.b64encode(PNG).decode()


@pytest.mark.parametrize(
    "text",
    [
        GOOD[:76] + "\n" + GOOD[76:],
        GOOD + "\n",
        " " + GOOD,
        "data:image/png;base64," + GOOD,
        "QUJ-",
        "QUJ_",
        "é===",
        "QQ",
        "QQ=",
        "QQ===",
        "QUJD=",
        "QUJD==",
        "QUJD===",
        "QUJD====",
        "QQ==QQ==",
        "=QQ=",
        "Q",
        "A===",
    ],
)
def test_base64_text_with_another_character_or_bad_padding_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"(?s)not valid base64.*\nFix: "):
        Image.from_base64(text, "image/png")


def test_the_base64_text_cannot_be_set() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        PICTURE.base64 = "QQ=="  # type: ignore[misc]


def test_the_repr_of_an_image_is_its_type_and_size() -> None:
    assert (repr(PICTURE), repr(Image(bytes(2048), "image/gif"))) == (
        "Image(image/png, 108B)",
        "Image(image/gif, 2.0KB)",
    )


def test_images_are_equal_by_data_and_type() -> None:
    assert Image(PNG) == Image(bytearray(PNG), "image/png")
    assert Image(PNG) != Image(PNG, "image/gif")
    assert Image(PNG) != Image(PNG + b"x")


# Tool calls and results.


def test_the_arguments_of_a_call_are_frozen() -> None:
    args = {"keys": ("a", "b"), "deep": {"x": [1]}}
    call = ToolCall("lookup", args, "q1")
    args["deep"]["x"].append(2)  # type: ignore[index, union-attr, call-overload]
    assert call.args == {"keys": ["a", "b"], "deep": {"x": [1]}}
    assert (type(call.args), type(call.args["keys"]), type(call.args["deep"])) == (FrozenDict, FrozenList, FrozenDict)


@pytest.mark.parametrize("args", [None, [], [("a", 1)], "{}", 3, ()], ids=repr)
def test_arguments_that_are_no_mapping_are_refused(args: Any) -> None:
    with pytest.raises(TypeError, match="must be a mapping, not ") as raised:
        ToolCall("lookup", args, "q1")
    assert repr(args) in str(raised.value)
    assert "Fix: " in str(raised.value)
    assert "Example:" in str(raised.value)


def test_the_hash_of_a_call_is_that_of_its_id() -> None:
    assert hash(ToolCall("a", {"x": {1: [2]}}, "q1")) == hash(ToolCall("b", {}, "q1")) == hash("q1")


def test_calls_of_one_id_with_different_arguments_are_unequal() -> None:
    assert ToolCall("a", {"x": 1}, "q1") != ToolCall("a", {"x": 2}, "q1")
    assert len({ToolCall("a", {"x": 1}, "q1"), ToolCall("a", {"x": 2}, "q1"), ToolCall("a", {"x": 1}, "q1")}) == 2


def test_a_result_block_needs_an_id_and_content_only() -> None:
    block = ToolResultBlock("q1", "(done)")
    assert (block.call_id, block.content, block.name, block.is_error) == ("q1", "(done)", "", False)


def test_a_result_block_keeps_text_and_one_text_block_apart() -> None:
    assert ToolResultBlock("q1", "a").content == "a"
    assert ToolResultBlock("q1", [TextBlock("a")]).content == (TextBlock("a"),)  # type: ignore[arg-type]


def test_the_data_of_a_raw_block_is_frozen_and_otherwise_as_it_came() -> None:
    data = {"type": "thinking", "signature": "s==", "parts": [{"n": 1.0}, None]}
    block = RawBlock("anthropic", data)
    assert block.data == data
    assert list(block.data) == list(data)
    assert (type(block.data), type(block.data["parts"])) == (FrozenDict, FrozenList)


# Messages.


def test_blocks_given_as_a_text_are_refused_and_the_makers_named() -> None:
    with pytest.raises(TypeError, match=r"not a str: 'Find it'\nFix: use Message\.user or Message\.assistant"):
        Message("user", "Find it")  # type: ignore[arg-type]


def test_a_list_of_blocks_becomes_a_tuple() -> None:
    blocks: Any = [TextBlock("a"), PICTURE]
    message = Message("user", blocks)
    blocks.clear()
    assert message.content == (TextBlock("a"), PICTURE)


def test_a_type_error_in_the_callers_own_generator_is_not_mistaken_for_a_wrong_argument() -> None:
    def blocks() -> Iterator[TextBlock]:
        yield TextBlock("a" + 1)  # type: ignore[operator]

    with pytest.raises(TypeError, match="can only concatenate str"):
        Message("user", blocks())  # type: ignore[arg-type]


def test_tokens_and_stop_reason_are_compared() -> None:
    plain = Message("assistant", (TextBlock("a"),))
    assert plain == Message.assistant("a")
    assert plain != dataclasses.replace(plain, tokens=3)
    assert plain != dataclasses.replace(plain, stop_reason="end_turn")


@pytest.mark.parametrize(
    ("message", "content"),
    [
        (Message.user("hi"), (TextBlock("hi"),)),
        (Message.user("hi", PICTURE, PICTURE), (TextBlock("hi"), PICTURE, PICTURE)),
        (Message.user("", PICTURE), (PICTURE,)),
        (Message.user(" ", PICTURE), (TextBlock(" "), PICTURE)),
        (Message.user(""), (TextBlock(""),)),
    ],
    ids=repr,
)
def test_a_user_message_is_the_text_then_the_images(message: Message, content: tuple[Any, ...]) -> None:
    assert message == Message("user", content)
    assert (message.tokens, message.stop_reason) == (None, None)


@given(st.text(min_size=1), st.lists(images(), max_size=3))
def test_a_user_message_keeps_its_text_and_images(text: str, pictures: list[Image]) -> None:
    assert Message.user(text, *pictures).content == (TextBlock(text), *pictures)


@pytest.mark.parametrize("image", [PNG, "chart.png", [PICTURE], None, Image], ids=lambda value: type(value).__name__)
def test_only_images_may_follow_the_text_of_a_user_message(image: Any) -> None:
    with pytest.raises(TypeError, match=f"Image objects after the text, not {type(image).__name__}"):
        Message.user("What is this?", PICTURE, image)


@pytest.mark.parametrize("make", [Message.user, Message.notice, Message.assistant], ids=lambda make: make.__name__)
@pytest.mark.parametrize("text", [None, b"hi", 3, ["hi"], TextBlock("hi")], ids=repr)
def test_a_message_is_made_of_a_str(make: Callable[[Any], Message], text: Any) -> None:
    with pytest.raises(TypeError) as raised:
        make(text)
    assert str(raised.value).startswith(
        f"Message.{make.__name__} takes a str, not {type(text).__name__}: {text!r}\nFix: "
    )


def test_a_notice_takes_no_images() -> None:
    with pytest.raises(TypeError):
        Message.notice("a", PICTURE)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("disk full", "[notice] disk full"),
        ("[notice] a", "[notice] a"),
        ("[notice]a", "[notice] [notice]a"),
        ("", "[notice] "),
        (" [notice] a", "[notice]  [notice] a"),
        ("[Notice] a", "[notice] [Notice] a"),
    ],
)
def test_a_notice_has_the_prefix_once(text: str, expected: str) -> None:
    assert Message.notice(text) == Message("user", (TextBlock(expected),))


@given(texts())
def test_a_notice_is_a_notice_and_making_it_one_again_changes_nothing(text: str) -> None:
    notice = Message.notice(text)
    assert notice.is_notice
    assert Message.notice(notice.text) == notice


def test_an_assistant_message_is_one_text_block() -> None:
    assert Message.assistant("") == Message("assistant", (TextBlock(""),))


@pytest.mark.parametrize(
    ("message", "is_notice"),
    [
        (Message.user("[notice] hi"), True),
        (Message.user("[notice]hi"), False),
        (Message.user("hi"), False),
        (Message.assistant("[notice] hi"), False),
        (Message("user", (PICTURE, TextBlock("[notice] hi"))), True),
        (Message("user", (TextBlock("hi"), TextBlock("[notice] hi"))), False),
        (Message("user", (TextBlock(""), TextBlock("[notice] hi"))), False),
        (Message("user", (ToolResultBlock("q1", "[notice] hi"),)), False),
        (Message("user", (ToolResultBlock("q1", "a"), TextBlock(NOTICE_PREFIX))), True),
        (Message("user", (PICTURE,)), False),
        (Message("user", ()), False),
    ],
    ids=repr,
)
def test_a_notice_is_known_by_the_first_text_of_a_user_message(message: Message, is_notice: bool) -> None:
    assert message.is_notice is is_notice


CALLS = (ToolCall("a", {}, "1"), ToolCall("b", {}, "2"))
MIXED = Message(
    "assistant", (TextBlock("x"), RawBlock("acme", {"text": "-"}), CALLS[0], TextBlock(""), TextBlock("y"), CALLS[1])
)


def test_the_text_of_a_message_is_its_text_blocks_joined() -> None:
    assert (MIXED.text, Message("user", (PICTURE, ToolResultBlock("q1", "no"))).text) == ("xy", "")


def test_the_tool_calls_of_a_message_are_in_order() -> None:
    assert (MIXED.tool_calls, Message.user("a").tool_calls) == (CALLS, ())


@pytest.mark.parametrize("reason", [*sorted(CUT_OFF_STOP_REASONS), "end_turn", "tool_use", "MAX_TOKENS", "", None])
def test_a_message_is_cut_off_when_its_own_reason_says_so(reason: str | None) -> None:
    assert Message("assistant", (), stop_reason=reason).cut_off is (reason in CUT_OFF_STOP_REASONS)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda big: Message("user", big),
        lambda big: Message.user(big.encode()),
        lambda big: Message.user("a", big),
        lambda big: ToolCall("a", big, "1"),
        Image,
        lambda big: Image(PNG, big),
        lambda big: Image.from_base64(big + "!"),
    ],
)
def test_a_message_of_misuse_stays_short_whatever_was_given(mistake: Callable[[str], Any]) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        mistake("x" * 1_000_000)
    assert len(str(raised.value)) < 600
