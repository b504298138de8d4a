"""What the Anthropic API is sent for a Request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from alpineagents.models.anthropic_request import body_of
from alpineagents.types import (
    INVALID_ARGS_KEY,
    Block,
    Image,
    Message,
    RawBlock,
    Request,
    TextBlock,
    ToolCall,
    ToolResultBlock,
    ToolSpec,
)

PNG = Image(b"\x89PNG\r\n\x1a\nxyz")
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG.base64}}
LOOK = ToolSpec("look", "Look around", {"type": "object", "properties": {"at": {"type": "string"}}})
EMPTY = {"type": "text", "text": "(empty reply)"}
NONE = {"type": "none"}


def sent(*messages: Message, tools: tuple[ToolSpec, ...] = (), choice: Any = "auto", system: str | None = None) -> Any:
    return json.loads(body_of(Request(system, messages, tools, choice), {}))


def user(*blocks: Block) -> Message:
    return Message("user", blocks)


def assistant(*blocks: Block) -> Message:
    return Message("assistant", blocks)


def content(*messages: Message) -> list[Any]:
    return [message["content"] for message in sent(*messages)["messages"]]


def text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def test_a_plain_request_has_messages_and_asks_for_a_stream() -> None:
    assert sent(Message.user("Hi")) == {"stream": True, "messages": [{"role": "user", "content": [text("Hi")]}]}


def test_the_settings_are_part_of_the_body() -> None:
    body = json.loads(body_of(Request(None, (Message.user("Hi"),)), {"model": "m", "max_tokens": 7}))
    assert (body["model"], body["max_tokens"]) == ("m", 7)


@pytest.mark.parametrize("system", ["Be brief", ""])
def test_the_system_prompt_is_sent_as_it_is(system: str) -> None:
    assert sent(Message.user("Hi"), system=system)["system"] == system


def test_without_a_system_prompt_there_is_none() -> None:
    assert "system" not in sent(Message.user("Hi"))


def test_messages_of_one_role_in_a_row_are_one() -> None:
    messages = sent(Message.user("a"), Message.notice("b"), Message.assistant("c"), Message.assistant("d"))["messages"]
    assert messages == [
        {"role": "user", "content": [text("a"), text("[notice] b")]},
        {"role": "assistant", "content": [text("c"), text("d")]},
    ]


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_blank_text_is_dropped(blank: str) -> None:
    assert content(user(TextBlock("a"), TextBlock(blank))) == [[text("a")]]


@pytest.mark.parametrize(
    "blocks", [(), (TextBlock(" \n"),), (RawBlock("openai_compatible", {"reasoning": "x"}),), (PNG,)]
)
def test_a_message_without_anything_to_send_has_a_stand_in(blocks: tuple[Block, ...]) -> None:
    assert content(Message.user("a"), assistant(*blocks), Message.user("b"))[1] == [EMPTY]


def test_an_image_of_the_person_is_sent() -> None:
    assert content(Message.user("What is this?", PNG)) == [[text("What is this?"), IMAGE]]


def test_images_alone_need_no_text() -> None:
    assert content(Message.user("", PNG)) == [[IMAGE]]


def test_an_image_of_the_model_is_dropped() -> None:
    assert content(Message.user("a"), assistant(TextBlock("b"), PNG))[1] == [text("b")]


def test_a_call_is_sent_as_it_was_asked() -> None:
    asked = ToolCall("look", {"at": [1, {"deep": None}]}, "c1")
    assert content(Message.user("a"), assistant(asked))[1] == [
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": [1, {"deep": None}]}}
    ]


def test_arguments_that_never_were_valid_are_sent_as_they_were_recorded() -> None:
    asked = ToolCall("look", {INVALID_ARGS_KEY: '{"at": '}, "c1")
    assert content(Message.user("a"), assistant(asked))[1][0]["input"] == {INVALID_ARGS_KEY: '{"at": '}


@pytest.mark.parametrize("is_error", [True, False])
def test_a_result_of_text_is_sent_as_text(is_error: bool) -> None:
    assert content(user(ToolResultBlock("c1", "seen", "look", is_error))) == [
        [{"type": "tool_result", "tool_use_id": "c1", "content": "seen", "is_error": is_error}]
    ]


def test_a_result_of_blocks_is_sent_as_blocks_without_blank_text() -> None:
    result = ToolResultBlock("c1", (TextBlock("a"), PNG, TextBlock(" "), TextBlock("b")))
    assert content(user(result))[0][0]["content"] == [text("a"), IMAGE, text("b")]


def test_results_come_first_and_the_order_stays_in_both_groups() -> None:
    first, second = ToolResultBlock("c1", "1"), ToolResultBlock("c2", "2")
    (blocks,) = content(user(TextBlock("a"), first), user(PNG, second, TextBlock("b")))
    assert [block.get("tool_use_id") or block["type"] for block in blocks] == ["c1", "c2", "text", "image", "text"]


def test_own_raw_blocks_go_back_as_they_came_and_others_do_not() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln+/=", "more": None}
    own, other = RawBlock("anthropic", thinking), RawBlock("openai_compatible", {"reasoning": "x"})
    assert json.dumps(content(Message.user("a"), assistant(own, other))[1]) == json.dumps([thinking])


def test_tools_are_sent_in_order() -> None:
    other = ToolSpec("act", "Act", {"type": "object"})
    body = sent(Message.user("a"), tools=(LOOK, other))
    assert [tool["name"] for tool in body["tools"]] == ["look", "act"]
    assert body["tools"][0] == {"name": "look", "description": "Look around", "input_schema": LOOK.input_schema}
    assert "tool_choice" not in body


def test_tools_that_must_not_be_called_are_sent_all_the_same() -> None:
    body = sent(Message.user("a"), tools=(LOOK,), choice="none")
    assert (len(body["tools"]), body["tool_choice"]) == (1, NONE)


@pytest.mark.parametrize(("choice", "keys"), [("auto", set()), ("none", {"tool_choice"})])
def test_without_tools_and_calls_there_are_no_tools(choice: str, keys: set[str]) -> None:
    assert sent(Message.user("a"), choice=choice).keys() - {"stream", "messages"} == keys


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_tools_that_are_gone_have_stand_ins(choice: str) -> None:
    talk = (
        assistant(ToolCall("look", {}, "c1")),
        user(ToolResultBlock("c1", "1", "look"), ToolResultBlock("c2", "2", "act")),
    )
    body = sent(Message.user("a"), *talk, choice=choice)
    assert body["tools"] == [
        {"name": "act", "description": "", "input_schema": {"type": "object"}},
        {"name": "look", "description": "", "input_schema": {"type": "object"}},
    ]
    assert body["tool_choice"] == NONE


@pytest.mark.parametrize(
    ("written", "wanted"),
    [("a\ud83d", "a\ufffd"), ("\ude00b", "\ufffdb"), ("\ud83d\ude00", "\U0001f600"), ("\ud83d é", "\ufffd é")],
)
def test_a_lone_surrogate_is_sent_as_a_replacement_character(written: str, wanted: str) -> None:
    asked = ToolCall("look", {written: [written]}, "c1")
    result = ToolResultBlock("c1", written)
    body = sent(Message.user(written), assistant(asked), user(result), system=written)
    (said,), (call,), (seen,) = (message["content"] for message in body["messages"])
    assert (body["system"], said["text"], call["input"], seen["content"]) == (
        wanted,
        wanted,
        {wanted: [wanted]},
        wanted,
    )


def test_text_is_sent_in_utf_8() -> None:
    assert "é \u2028 \U0001f600".encode() in body_of(Request(None, (Message.user("é \u2028 \U0001f600"),)), {})


def test_the_example_of_one_conversation() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    asked = ToolCall("shot", {"url": "x"}, "c1")
    reply = assistant(RawBlock("anthropic", thinking), TextBlock("Reading."), asked)
    result = user(ToolResultBlock("c1", (TextBlock("Loaded"), PNG), "shot", True))
    assert sent(Message.user("Look"), reply, result, Message.user("And?"))["messages"] == [
        {"role": "user", "content": [text("Look")]},
        {
            "role": "assistant",
            "content": [
                thinking,
                text("Reading."),
                {"type": "tool_use", "id": "c1", "name": "shot", "input": {"url": "x"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [text("Loaded"), IMAGE], "is_error": True},
                text("And?"),
            ],
        },
    ]
