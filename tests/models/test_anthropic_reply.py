"""How the events of the Anthropic API become a Reply: made-up ones, and recordings cut in every way."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from models.anthropic_server import block, call, start, stop, text

from alpineagents.errors import ProviderError
from alpineagents.models.anthropic_reply import Answer, reply_of
from alpineagents.types import (
    INVALID_ARGS_KEY,
    TRUNCATED_ARGS_MESSAGE,
    Price,
    RawBlock,
    Reply,
    TextBlock,
    ToolCall,
    Usage,
)

RECORDINGS = Path(__file__).parent / "recordings"
STREAMS = [
    "anthropic-thinking",
    "anthropic-redacted-thinking",
    "anthropic-server-tool-fetch",
    "anthropic-tool-search-1",
    "anthropic-tool-search-2",
]


def recorded(name: str) -> str:
    body = json.loads((RECORDINGS / f"{name}.json").read_text("utf-8"))["response"]["body"]
    assert isinstance(body, str)
    return body


def answered(events: Iterable[Any]) -> tuple[Answer, list[str]]:
    answer, pieces = Answer(), list[str]()
    for event in events:
        if answer.over:
            break
        pieces.append(answer.add(event))
    return answer, [piece for piece in pieces if piece]


def reply(*events: Any, price: Price | None = None) -> Reply:
    return reply_of([answered(events)[0]], "asked", price)


def said(*parts: list[dict[str, Any]], stop_reason: str | None = "end_turn") -> Reply:
    return reply(start(), *(event for part in parts for event in part), *stop(stop_reason))


# Made-up streams


def test_blocks_stay_in_the_order_they_began() -> None:
    blocks = said(text(0, "a", "b"), call(1, '{"x": 1}'), text(2, "c")).message.content
    assert blocks == (TextBlock("ab"), ToolCall("look", {"x": 1}, "toolu_1"), TextBlock("c"))


def test_blocks_that_come_mixed_are_told_apart_by_their_index() -> None:
    (begin, first, end), (begin2, second, end2) = text(0, "a"), text(1, "b")
    assert said([begin, begin2, second, first, end2, end]).message.content == (TextBlock("a"), TextBlock("b"))


def test_text_that_a_block_begins_with_is_shown_too() -> None:
    begun = block(0, {"type": "text", "text": "a"}, {"type": "text_delta", "text": "b"})
    answer, pieces = answered([start(), *begun, *stop()])
    assert (pieces, answer.blocks) == (["a", "b"], [TextBlock("ab")])


def test_citations_of_a_text_are_not_kept() -> None:
    cited = {"type": "citations_delta", "citation": {"cited_text": "x"}}
    blocks = said(block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "a"}, cited)).message.content
    assert blocks == (TextBlock("a"),)


def test_only_text_is_shown() -> None:
    thinking = block(0, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "hm"})
    strange = block(1, {"type": "poem"}, {"type": "text_delta", "text": "rose"})
    _, pieces = answered([start(), *thinking, *strange, *call(2, '{"x": 1}'), *text(3, "yes", ""), *stop()])
    assert pieces == ["yes"]


def test_thinking_is_kept_as_it_was_on_the_wire() -> None:
    begun = {"type": "thinking", "thinking": "", "signature": "", "estimate": None}
    deltas = [
        {"type": "thinking_delta", "thinking": "I th"},
        {"type": "thinking_delta", "thinking": "ink"},
        {"type": "signature_delta", "signature": "c2ln+/="},
    ]
    (kept,) = said(block(0, begun, *deltas)).message.content
    assert isinstance(kept, RawBlock)
    wanted = '{"type": "thinking", "thinking": "I think", "signature": "c2ln+/=", "estimate": null}'
    assert (kept.provider, json.dumps(kept.data)) == ("anthropic", wanted)


def test_a_signature_takes_the_place_of_what_the_block_began_with() -> None:
    begun = {"type": "thinking", "thinking": "", "signature": "old"}
    deltas = [{"type": "signature_delta", "signature": piece} for piece in ("ne", "w")]
    (kept,) = said(block(0, begun, *deltas)).message.content
    assert kept == RawBlock("anthropic", {"type": "thinking", "thinking": "", "signature": "new"})


def test_an_unknown_block_is_kept_with_every_null() -> None:
    strange = {"type": "poem", "lines": [{"text": None}], "meter": None}
    assert said(block(0, strange)).message.content == (RawBlock("anthropic", strange),)


def test_unknown_deltas_add_to_the_fields_they_name() -> None:
    deltas = [
        {"type": "poem_delta", "content": "a", "meter": 3, "rhyme": None},
        {"type": "poem_delta", "content": "b"},
    ]
    (kept,) = said(block(0, {"type": "poem", "content": None, "rhyme": "x"}, *deltas)).message.content
    assert kept == RawBlock("anthropic", {"type": "poem", "content": "ab", "rhyme": "x", "meter": 3})


@pytest.mark.parametrize("kind", ["server_tool_use", "mcp_tool_use", "never_seen_use"])
def test_the_pieces_of_any_input_are_joined(kind: str) -> None:
    (kept,) = said(call(0, "", '{"query": ', '"x"}', kind=kind)).message.content
    assert kept == RawBlock("anthropic", {"type": kind, "id": "toolu_0", "name": "look", "input": {"query": "x"}})


def test_an_input_of_a_server_tool_that_is_no_json_is_kept_as_text() -> None:
    (kept,) = said(call(0, '{"query": ', kind="server_tool_use")).message.content
    assert isinstance(kept, RawBlock)
    assert kept.data["input"] == '{"query": '


def test_an_input_that_came_at_once_is_kept() -> None:
    server, own = said(call(0, kind="server_tool_use", start={"a": 1}), call(1, start={"b": 2})).message.content
    assert isinstance(server, RawBlock)
    assert (server.data["input"], own) == ({"a": 1}, ToolCall("look", {"b": 2}, "toolu_1"))


def test_unknown_events_are_ignored() -> None:
    assert said([{"type": "weather", "rain": True}, *text(0, "a")], [{"no": "type"}]).text == "a"


@pytest.mark.parametrize("pieces", [(), ("",), (" ", "\n")])
def test_a_call_without_input_has_no_arguments(pieces: tuple[str, ...]) -> None:
    assert said(call(0, *pieces), stop_reason="tool_use").tool_calls[0].args == {}


@pytest.mark.parametrize(
    "written",
    [
        '{"a": 1',
        "[1]",
        '"a"',
        "null",
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": ' * 201 + "1" + "}" * 201,
        '{"a": ' * 20_000 + "1" + "}" * 20_000,
        '{"a": 1' + "0" * 4300 + "}",
        "{'a': 1}",
    ],
    ids=lambda written: written[:12],
)
def test_arguments_that_are_no_json_object_are_kept_as_text(written: str) -> None:
    half = len(written) // 2
    calls = said(call(0, written[:half], written[half:]), stop_reason="tool_use").tool_calls
    assert calls[0].args == {INVALID_ARGS_KEY: written}


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_a_call_that_was_cut_off_never_looks_whole(reason: str) -> None:
    first, last = said(call(0, '{"a": 1}'), call(1, '{"b": 2}'), stop_reason=reason).tool_calls
    assert (first.args, last.args) == ({"a": 1}, {INVALID_ARGS_KEY: TRUNCATED_ARGS_MESSAGE})


def test_a_call_before_the_place_of_the_cut_is_whole() -> None:
    assert said(call(0, '{"a": 1}'), text(1, "And"), stop_reason="max_tokens").tool_calls[0].args == {"a": 1}


def test_a_call_that_was_not_cut_off_is_whole() -> None:
    assert said(call(0, '{"a": 1}'), stop_reason="tool_use").tool_calls[0].args == {"a": 1}


def test_the_counts_at_the_end_replace_those_at_the_start() -> None:
    begun = start(input_tokens=900, cache_read_input_tokens=7, cache_creation_input_tokens=None)
    usage = reply(begun, *text(0, "a"), *stop(input_tokens=7000, output_tokens=50, cache_read_input_tokens=None)).usage
    assert usage == Usage(7000, 50, 7, 0, 1, None)


def test_the_context_is_all_input_and_the_output() -> None:
    begun = start(input_tokens=1, cache_read_input_tokens=20, cache_creation_input_tokens=300)
    assert reply(begun, *stop(output_tokens=4000)).context_tokens == 4321


def test_without_counts_the_context_is_unknown() -> None:
    events = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}]
    assert (reply(*events).context_tokens, reply(*events).usage) == (None, Usage(requests=1))


def test_a_price_gives_the_cost() -> None:
    priced = reply(start(input_tokens=1_000_000), *stop(output_tokens=100_000), price=Price(3, 15))
    assert priced.usage.cost == pytest.approx(4.5)


def test_a_price_of_nothing_costs_nothing() -> None:
    assert reply(start(), *stop(), price=Price(0, 0)).usage.cost == 0.0


@pytest.mark.parametrize("reported", [None, ""])
def test_the_asked_model_stands_in_for_one_that_is_not_reported(reported: str | None) -> None:
    assert reply(start(model=reported), *stop()).model == "asked"


def test_the_last_stop_reason_is_kept_as_it_was_written() -> None:
    assert said(stop_reason="some_future_reason").stop_reason == "some_future_reason"


def test_an_answer_knows_when_it_is_over() -> None:
    answer = Answer()
    assert [answer.add(event) or answer.over for event in [start(), *stop()]] == [False, False, True]


def test_an_answer_without_a_stop_reason_has_none() -> None:
    assert answered([start(), *text(0, "a"), *stop(None)])[0].stop_reason is None


@pytest.mark.parametrize("event", [5, None, "text", [1]])
def test_what_is_no_event_is_refused(event: object) -> None:
    with pytest.raises(ProviderError, match="no event"):
        Answer().add(event)


def test_a_piece_of_a_block_that_never_began_is_refused() -> None:
    with pytest.raises(ProviderError, match="never began"):
        answered([start(), text(0, "a")[1]])


def test_an_error_under_another_name_is_a_failure() -> None:
    with pytest.raises(ProviderError, match="overloaded_error: Overloaded"):
        Answer().add({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})


@pytest.mark.parametrize("wrong", [None, 3, "x", [], {"usage": 1, "text": 2, "model": 3, "stop_reason": 4}])
@pytest.mark.parametrize("holder", ["message", "content_block", "delta"])
def test_values_of_a_wrong_kind_count_as_missing(holder: str, wrong: object) -> None:
    kinds = {"message": "message_start", "content_block": "content_block_start", "delta": "message_delta"}
    answer = Answer()
    answer.add({"type": kinds[holder], "index": 0, holder: wrong})
    assert (answer.model, answer.stop_reason, answer.usage) == (None, None, Usage(requests=1))


def test_continued_answers_are_one_reply() -> None:
    first, _ = answered([start(input_tokens=100), *text(0, "a"), *stop("pause_turn", output_tokens=10)])
    last, _ = answered([start(input_tokens=120), *text(0, "b"), *stop("end_turn", output_tokens=3)])
    joined = reply_of([first, last], "asked", None)
    assert joined.message.content == (TextBlock("a"), TextBlock("b"))
    assert (joined.usage, joined.context_tokens, joined.stop_reason) == (Usage(220, 13, requests=2), 123, "end_turn")


# Recordings


def decoded(pieces: Iterable[bytes]) -> Iterator[object]:
    """The events as the SDK decodes them from pieces of a body."""
    client = CLIENT
    return iter(anthropic.Stream(cast_to=object, response=httpx2.Response(200, content=iter(pieces)), client=client))


CLIENT = anthropic.Anthropic(api_key="not-needed")


def from_pieces(pieces: Iterable[bytes]) -> Reply:
    return reply_of([answered(decoded(pieces))[0]], "asked", None)


def wire(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in re.findall(r"^data: (.*)$", recorded(name), re.MULTILINE)]


def wire_blocks(name: str) -> list[dict[str, Any]]:
    return [event["content_block"] for event in wire(name) if event["type"] == "content_block_start"]


def deltas(name: str, kind: str) -> list[str]:
    found = [event["delta"] for event in wire(name) if event["type"] == "content_block_delta"]
    return [next(value for key, value in delta.items() if key != "type") for delta in found if delta["type"] == kind]


@pytest.mark.parametrize("name", STREAMS)
def test_a_recorded_reply_has_the_recorded_text(name: str) -> None:
    assert from_pieces([recorded(name).encode()]).text == "".join(deltas(name, "text_delta")) != ""


@pytest.mark.parametrize("name", STREAMS)
def test_a_recorded_reply_has_the_recorded_thinking(name: str) -> None:
    blocks = from_pieces([recorded(name).encode()]).message.content
    thought = [block.data for block in blocks if isinstance(block, RawBlock) and block.data["type"] == "thinking"]
    assert "".join(data["thinking"] for data in thought) == "".join(deltas(name, "thinking_delta"))
    assert [data["signature"] for data in thought] == deltas(name, "signature_delta")


@pytest.mark.parametrize("name", STREAMS)
def test_blocks_that_came_at_once_are_as_they_were_on_the_wire(name: str) -> None:
    streamed = {"text", "thinking", "tool_use", "server_tool_use"}
    blocks = from_pieces([recorded(name).encode()]).message.content
    kept = [b.data for b in blocks if isinstance(b, RawBlock) and b.data["type"] not in streamed]
    assert json.dumps(kept) == json.dumps([block for block in wire_blocks(name) if block["type"] not in streamed])


EXPECTED = {
    "anthropic-thinking": (["thinking", "text"], Usage(43, 282, requests=1), "end_turn", "claude-sonnet-4-20250514"),
    "anthropic-redacted-thinking": (
        ["redacted_thinking", "redacted_thinking", "text"],
        Usage(92, 189, requests=1),
        "end_turn",
        "claude-sonnet-4-5-20250929",
    ),
    "anthropic-server-tool-fetch": (
        ["thinking", "server_tool_use", "web_fetch_tool_result", "text"],
        Usage(7244, 153, requests=1),
        "end_turn",
        "claude-sonnet-4-20250514",
    ),
    "anthropic-tool-search-1": (
        ["text", "server_tool_use", "tool_search_tool_result", "text", "call"],
        Usage(1591, 175, requests=1),
        "tool_use",
        "claude-sonnet-4-6",
    ),
    "anthropic-tool-search-2": (["text"], Usage(1007, 59, requests=1), "end_turn", "claude-sonnet-4-6"),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_recorded_reply_is_what_was_recorded(name: str) -> None:
    whole = from_pieces([recorded(name).encode()])
    names = {TextBlock: "text", ToolCall: "call"}
    kinds = [
        block.data["type"] if isinstance(block, RawBlock) else names[type(block)] for block in whole.message.content
    ]
    assert (kinds, whole.usage, whole.stop_reason, whole.model) == EXPECTED[name]
    assert whole.context_tokens == whole.usage.input_tokens + whole.usage.output_tokens


def test_a_recorded_call_has_its_arguments() -> None:
    args = {"from_currency": "USD", "to_currency": "EUR"}
    (only,) = from_pieces([recorded("anthropic-tool-search-1").encode()]).tool_calls
    assert only == ToolCall("get_exchange_rate", args, "toolu_01EFn5wTNBYA8Reni8rbmnHT")


def test_a_recorded_server_tool_keeps_its_streamed_input() -> None:
    server = from_pieces([recorded("anthropic-tool-search-1").encode()]).message.content[1]
    assert isinstance(server, RawBlock)
    assert server.data["input"] == {"query": "USD EUR exchange rate currency conversion"}


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("name", STREAMS)
def test_how_a_recording_is_cut_changes_nothing(name: str, ending: str) -> None:
    body = recorded(name).replace("\n", ending).encode()
    whole = from_pieces([recorded(name).encode()])
    assert from_pieces([body]) == whole
    assert from_pieces(body.splitlines(keepends=True)) == whole
    assert from_pieces(bytes([byte]) for byte in body) == whole


@pytest.mark.parametrize("ending", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize(("name", "step"), [("anthropic-tool-search-2", 1), *((name, 61) for name in STREAMS)])
def test_where_a_recording_is_cut_in_two_changes_nothing(name: str, step: int, ending: str) -> None:
    body = recorded(name).replace("\n", ending).encode()
    whole = from_pieces([body])
    for offset in range(1, len(body), step):
        assert from_pieces([body[:offset], body[offset:]]) == whole, offset


@pytest.mark.parametrize("name", STREAMS)
def test_a_recording_without_its_end_is_no_answer(name: str) -> None:
    body = recorded(name)
    short = body[: body.index("event: message_delta")].encode()
    assert answered(decoded([short]))[0].stop_reason is None
