"""The JSON body that is sent to a Chat Completions server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from alpineagents.models.openai_compatible_request import Dialect, body_of, has_odd_ids
from alpineagents.types import (
    INVALID_ARGS_KEY,
    Image,
    Message,
    RawBlock,
    Request,
    TextBlock,
    ToolCall,
    ToolResultBlock,
    ToolSpec,
)

PLAIN = Dialect("max_tokens")
LOOK = ToolSpec("look", "Look around", {"type": "object", "properties": {"at": {"type": "string"}}})
TOOLS = (LOOK, ToolSpec("go", "", {"type": "object"}))
PNG = Image(b"\x89PNG\r\n\x1a\n0000", "image/png")
URL = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgowMDAw"}}
CALL = ToolCall("look", {"at": "a"}, "c1")


def text(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


def sent(request: Request, settings: Any = None, dialect: Dialect = PLAIN) -> Any:
    return json.loads(body_of(request, {"model": "large"} if settings is None else settings, dialect))


def messages(*given: Message, dialect: Dialect = PLAIN) -> Any:
    return sent(Request(None, given), dialect=dialect)["messages"]


def said(*blocks: Any) -> Any:
    (only,) = messages(Message("assistant", blocks))
    return only


def user(*blocks: Any) -> Any:
    return messages(Message("user", blocks))


def result(content: Any, call_id: str = "c1", **more: Any) -> ToolResultBlock:
    return ToolResultBlock(call_id, content, name="look", **more)


def test_a_plain_request_asks_for_a_stream_and_its_counts() -> None:
    assert sent(Request(None, (Message.user("Hi"),))) == {
        "model": "large",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_server_that_knows_no_stream_options_gets_none() -> None:
    assert "stream_options" not in sent(Request(None, ()), dialect=Dialect("max_tokens", counts_asked=False))


@pytest.mark.parametrize("system", ["Be brief", "", " "])
def test_the_system_prompt_is_the_first_message(system: str) -> None:
    assert sent(Request(system, (Message.user("Hi"),)))["messages"][0] == {"role": "system", "content": system}


def test_tools_are_functions() -> None:
    body = sent(Request(None, (), TOOLS))
    assert body["tools"][0]["function"] == {
        "name": "look",
        "description": "Look around",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    }
    assert [tool["type"] for tool in body["tools"]] == ["function", "function"]
    assert "tool_choice" not in body


def test_tools_that_must_not_be_called_are_sent_all_the_same() -> None:
    assert sent(Request(None, (), TOOLS, tool_choice="none"))["tool_choice"] == "none"


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_without_tools_neither_is_sent_even_with_calls(choice: Any) -> None:
    body = sent(Request(None, (Message("assistant", (CALL,)), Message("user", (result("x"),))), tool_choice=choice))
    assert not {"tools", "tool_choice"} & set(body)


# Of the model


def test_texts_of_the_model_are_joined() -> None:
    assert said(TextBlock("a"), TextBlock(""), TextBlock("b")) == {"role": "assistant", "content": "ab"}


def test_calls_without_text_have_no_content() -> None:
    assert said(CALL, ToolCall("go", {}, "c2")) == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "a"}'}},
            {"id": "c2", "type": "function", "function": {"name": "go", "arguments": "{}"}},
        ],
    }


@pytest.mark.parametrize("blocks", [(), (TextBlock(""),), (RawBlock("anthropic", {"type": "x"}),), (PNG,)])
def test_a_reply_of_nothing_has_a_stand_in(blocks: Any) -> None:
    assert said(*blocks) == {"role": "assistant", "content": "(empty reply)"}


def test_arguments_are_sent_as_they_were_recorded() -> None:
    broken = ToolCall("look", {INVALID_ARGS_KEY: "größer"}, "c1")
    assert said(broken)["tool_calls"][0]["function"]["arguments"] == '{"__invalid_json__": "größer"}'


def test_own_raw_blocks_are_merged_in_and_later_ones_win() -> None:
    own = [RawBlock("openai_compatible", {"reasoning": thought}) for thought in ("first", "second")]
    message = said(*own, RawBlock("anthropic", {"type": "thinking"}), TextBlock("a"))
    assert message == {"role": "assistant", "content": "a", "reasoning": "second"}


def test_an_image_of_the_model_is_dropped() -> None:
    assert said(PNG, TextBlock("a")) == {"role": "assistant", "content": "a"}


# Of the person and the tools


def test_results_come_first_as_messages_of_their_own() -> None:
    assert user(TextBlock("And?"), result("x"), result("y", "c2")) == [
        {"role": "tool", "tool_call_id": "c1", "content": "x"},
        {"role": "tool", "tool_call_id": "c2", "content": "y"},
        {"role": "user", "content": "And?"},
    ]


def test_an_error_says_so() -> None:
    assert user(result("no such plot", is_error=True))[0]["content"] == "Error: no such plot"


@pytest.mark.parametrize("content", ["", ()])
def test_a_result_of_nothing_is_sent_as_such(content: Any) -> None:
    assert user(result(content)) == [{"role": "tool", "tool_call_id": "c1", "content": ""}]


def test_texts_of_a_result_are_lines() -> None:
    assert user(result((TextBlock("a"), TextBlock("b"))))[0]["content"] == "a\nb"


@pytest.mark.parametrize(("count", "line"), [(1, "(1 image in"), (2, "(2 images in")])
def test_images_of_a_result_come_in_the_next_message(count: int, line: str) -> None:
    tool, person = user(result((TextBlock("Loaded"), *[PNG] * count)), TextBlock("And?"))
    assert tool["content"] == f"Loaded\n{line} the next user message, inside <tool_result> tags)"
    assert person["content"] == [
        text('<tool_result tool_name="look" tool_call_id="c1">'),
        *[URL] * count,
        text("</tool_result>"),
        text("And?"),
    ]


def test_the_images_of_each_result_are_between_their_own_tags() -> None:
    *_, person = user(result((PNG,)), result("text", "c2"), result((PNG,), "c3"))
    assert [part.get("text", "image") for part in person["content"]] == [
        '<tool_result tool_name="look" tool_call_id="c1">',
        "image",
        "</tool_result>",
        '<tool_result tool_name="look" tool_call_id="c3">',
        "image",
        "</tool_result>",
    ]


def test_text_of_a_person_is_joined_and_nothing_is_sent_when_there_is_none() -> None:
    assert user(TextBlock("a"), TextBlock("b")) == [{"role": "user", "content": "ab"}]
    assert user(TextBlock("")) == user() == []


def test_beside_images_texts_in_a_row_are_one_part() -> None:
    blocks = (TextBlock("a"), TextBlock("b"), PNG, TextBlock(""), TextBlock("c"))
    assert user(*blocks) == [{"role": "user", "content": [text("ab"), URL, text("c")]}]


def test_an_image_alone_has_no_text() -> None:
    assert user(PNG) == [{"role": "user", "content": [URL]}]


def test_messages_of_one_role_in_a_row_are_one() -> None:
    given = (Message.user("a"), Message.user("b"), Message.assistant("c"), Message.assistant("d"))
    assert messages(*given) == [{"role": "user", "content": "ab"}, {"role": "assistant", "content": "cd"}]


# Ids and characters


def test_ids_that_a_server_does_not_take_become_plain_ones() -> None:
    given = (Message("assistant", (CALL, ToolCall("go", {}, "abcDEF123"))), Message("user", (result("x"),)))
    assistant, tool = messages(*given, dialect=Dialect("max_tokens", plain_ids=True))
    first, second = [call["id"] for call in assistant["tool_calls"]]
    assert (len(first), first.isalnum(), second) == (9, True, "abcDEF123")
    assert tool["tool_call_id"] == first


@pytest.mark.parametrize(("call_id", "odd"), [("abcDEF123", False), ("c1", True), ("call_12345", True)])
def test_which_ids_are_odd(call_id: str, odd: bool) -> None:
    assert has_odd_ids(Request(None, (Message("assistant", (ToolCall("go", {}, call_id),)),))) == odd


@pytest.mark.parametrize(("written", "wanted"), [("a\ud83d", "a\ufffd"), ("\ud83d\ude00", "😀")])
def test_a_lone_surrogate_is_sent_as_a_replacement_character(written: str, wanted: str) -> None:
    body = body_of(Request(written, (Message.user(written),)), {}, PLAIN)
    assert json.loads(body.decode())["messages"] == [
        {"role": "system", "content": wanted},
        {"role": "user", "content": wanted},
    ]


def test_the_example_of_one_conversation() -> None:
    assert messages(
        Message.user("Look"),
        Message("assistant", (RawBlock("anthropic", {}), TextBlock("Reading."), ToolCall("shot", {"url": "x"}, "c1"))),
        Message("user", (ToolResultBlock("c1", (TextBlock("Loaded"), PNG), name="shot", is_error=True),)),
        Message.user("And?"),
    ) == [
        {"role": "user", "content": "Look"},
        {
            "role": "assistant",
            "content": "Reading.",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "shot", "arguments": '{"url": "x"}'}}],
        },
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": "Error: Loaded\n(1 image in the next user message, inside <tool_result> tags)",
        },
        {
            "role": "user",
            "content": [
                text('<tool_result tool_name="shot" tool_call_id="c1">'),
                URL,
                text("</tool_result>"),
                text("And?"),
            ],
        },
    ]
