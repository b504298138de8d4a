"""Requests, replies, and the records of events, questions and Agents."""

from __future__ import annotations

from typing import Any

import pytest

from alpineagents.values.content import CUT_OFF_STOP_REASONS, Message, TextBlock, ToolCall
from alpineagents.values.exchange import AgentInfo, Exchange, ModelEvent, Reply, Request, ToolSpec
from alpineagents.values.frozen import FrozenDict, FrozenList
from alpineagents.values.usage import Usage

CALL = ToolCall("read", {}, "1")
MESSAGE = Message("assistant", (TextBlock("a"), CALL, TextBlock("b")), stop_reason="max_tokens")


def test_the_schema_of_a_tool_stays_the_dict_it_is() -> None:
    schema = {"type": "object", "required": ["path"]}
    spec = ToolSpec("read", "Reads a file.", schema)
    assert (spec.name, spec.description) == ("read", "Reads a file.")
    assert spec.input_schema is schema


def test_a_request_has_no_tools_and_lets_the_model_choose_by_default() -> None:
    request = Request(None, (Message.user("hi"),))
    assert (request.system, request.messages) == (None, (Message.user("hi"),))
    assert (request.tools, request.tool_choice) == ((), "auto")


def test_a_request_that_forbids_calls_still_carries_the_tools() -> None:
    spec = ToolSpec("read", "", {})
    assert Request("Be brief.", (), (spec,), "none") == Request("Be brief.", (), tools=(spec,), tool_choice="none")
    assert Request("Be brief.", (), (spec,), "none").tools == (spec,)


def test_a_reply_needs_a_message_and_a_usage_only() -> None:
    reply = Reply(MESSAGE, Usage(requests=1))
    assert (reply.message, reply.usage) == (MESSAGE, Usage(requests=1))
    assert (reply.context_tokens, reply.stop_reason, reply.model) == (None, None, None)


def test_the_text_and_calls_of_a_reply_are_those_of_its_message() -> None:
    reply = Reply(MESSAGE, Usage())
    assert (reply.text, reply.tool_calls) == ("ab", (CALL,))


@pytest.mark.parametrize("reason", [*sorted(CUT_OFF_STOP_REASONS), "end_turn", "tool_use", None])
def test_a_reply_is_cut_off_when_its_own_reason_says_so_not_its_messages(reason: str | None) -> None:
    assert Reply(MESSAGE, Usage(), stop_reason=reason).cut_off is (reason in CUT_OFF_STOP_REASONS)


def test_the_data_of_an_event_is_frozen() -> None:
    event = ModelEvent("fallback", "acme/large is busy", {"tried": ["acme/large"]})
    assert event.data == {"tried": ["acme/large"]}
    assert (type(event.data), type(event.data["tried"])) == (FrozenDict, FrozenList)


def test_an_event_without_data_has_an_empty_frozen_dict() -> None:
    one, other = ModelEvent("retry", "again"), ModelEvent("retry", "again")
    assert (type(one.data), one.data) == (FrozenDict, {})
    assert one.data is not other.data


@pytest.mark.parametrize(
    ("answer", "kind"), [({"a": (1,)}, FrozenDict), ([{"a": 1}], FrozenList), ("yes", str), (None, type(None))]
)
def test_the_answer_of_an_exchange_is_frozen(answer: Any, kind: type) -> None:
    exchange = Exchange("Sure?", answer)
    assert (exchange.question, type(exchange.answer)) == ("Sure?", kind)
    assert exchange == Exchange("Sure?", answer)


def test_an_agent_is_known_by_its_model_alone() -> None:
    info = AgentInfo(model="acme/large")
    assert (info.name, info.model, info.system_sha256, info.tools, info.mcp_servers) == (
        None,
        "acme/large",
        None,
        (),
        (),
    )


def test_the_fields_of_an_agent_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        AgentInfo("writer", "acme/large")  # type: ignore[misc]
