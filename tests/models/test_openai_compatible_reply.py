"""How the chunks of a Chat Completions server become a Reply: made-up ones, and recordings cut in every way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from alpineagents.errors import AuthError, ContextTooLongError, ProviderError, RateLimitError
from alpineagents.models.openai_compatible_reply import Answer
from alpineagents.models.sse import EventReader, ServerEvent
from alpineagents.types import (
    INVALID_ARGS_KEY,
    TRUNCATED_ARGS_MESSAGE,
    Message,
    Price,
    RawBlock,
    Reply,
    Request,
    TextBlock,
    ToolCall,
    Usage,
)

RECORDINGS = Path(__file__).parent / "recordings"
STREAMS = [
    "deepseek-reasoning",
    "groq-tool-call",
    "openai-agent-turn-1",
    "openai-agent-turn-2",
    "openai-agent-turn-3",
    "openrouter-reasoning",
    "snowflake-tool-call",
    "zai-reasoning",
]
ASKED = Request(None, (Message.user("Hi"),))


def recorded(name: str) -> bytes:
    body = json.loads((RECORDINGS / f"{name}.json").read_text("utf-8"))["response"]["body"]
    return body.encode()


def read(*pieces: bytes) -> tuple[Answer, list[str]]:
    answer, reader, texts = Answer("asked"), EventReader(), list[str]()
    for events in (*(reader.feed(piece) for piece in pieces), reader.end()):
        for event in events:
            if not answer.over:
                texts.append(answer.add(event))
    return answer, [text for text in texts if text]


def body(*chunks: Any, done: bool = True) -> bytes:
    lines = [f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}\n\n" for chunk in chunks]
    return ("".join(lines) + ("data: [DONE]\n\n" if done else "")).encode()


def reply(*chunks: Any, price: Price | None = None, request: Request = ASKED, done: bool = True) -> Reply:
    return read(body(*chunks, done=done))[0].reply(request, price)


def delta(finish: str | None = None, **content: Any) -> dict[str, Any]:
    return {"model": "large-1", "choices": [{"index": 0, "delta": content, "finish_reason": finish}]}


def piece(index: int | None = None, id: Any = None, name: Any = None, arguments: Any = None) -> dict[str, Any]:
    """One item of `tool_calls`, with what is given."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    given = {"index": index, "id": id, "function": function or None}
    return {key: value for key, value in given.items() if value is not None}


def calls(*pieces: dict[str, Any], finish: str = "tool_calls", **more: Any) -> tuple[ToolCall, ...]:
    made = reply(*[delta(tool_calls=[each]) for each in pieces], delta(finish), **more)
    return made.tool_calls


# Text, names and reasons


def test_the_reply_is_what_the_chunks_say() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    made = reply(delta(content="Hel"), delta(content="lo"), delta("stop"), {"choices": [], "usage": usage})
    wanted = Message("assistant", (TextBlock("Hello"),))
    assert made == Reply(wanted, Usage(7, 2, requests=1), 9, "stop", "large-1")


def test_text_comes_as_it_arrives() -> None:
    assert read(body(delta(content="Hel"), delta(content=""), delta(content="lo")))[1] == ["Hel", "lo"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}], "ab"),
        ([{"type": "thinking", "text": "a"}, "b", None], ""),
        (None, ""),
        (7, ""),
        ({"text": "a"}, ""),
    ],
)
def test_content_may_be_parts(content: Any, text: str) -> None:
    assert reply(delta("stop", content=content)).text == text


def test_without_text_there_is_no_block() -> None:
    assert reply(delta("stop", content="")).message.content == ()


@pytest.mark.parametrize("choices", [[], None, [None], ["x"], [{}], [{"delta": None}]])
def test_a_chunk_without_a_choice_is_fine(choices: Any) -> None:
    assert reply({"choices": choices}, {}, delta("stop", content="a")).text == "a"


def test_only_the_first_choice_counts() -> None:
    other = {"index": 1, "delta": {"content": "b"}, "finish_reason": "length"}
    made = reply({"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}, other]})
    assert (made.text, made.stop_reason) == ("a", "stop")


def test_the_last_reason_that_says_something_counts() -> None:
    assert reply(delta("length"), delta("stop"), delta(None), delta("")).stop_reason == "stop"


def test_the_end_may_be_said_without_a_reason() -> None:
    made = reply(delta(content="a"))
    assert (made.text, made.stop_reason) == ("a", None)


@pytest.mark.parametrize(("names", "model"), [(["", None, "a", "b"], "a"), ([None, ""], "asked"), ([7], "asked")])
def test_the_first_name_of_a_model_counts(names: list[Any], model: str) -> None:
    assert reply(*[{"model": name, "choices": []} for name in names], {"choices": []}).model == model


def test_what_follows_the_end_is_not_read() -> None:
    answer, _ = read(body(delta("stop", content="a")) + body("no json", done=False))
    assert answer.reply(ASKED, None).text == "a"


@pytest.mark.parametrize("chunks", [(), (delta(content="a"),), (delta(tool_calls=[piece(0, "c", "go", "{}")]),)])
def test_a_stream_that_does_not_finish_is_no_reply(chunks: Any) -> None:
    with pytest.raises(ProviderError, match="closed early") as raised:
        reply(*chunks, done=False)
    assert type(raised.value) is ProviderError


def test_a_reason_is_an_end_too() -> None:
    assert reply(delta("stop", content="a"), done=False).text == "a"


@pytest.mark.parametrize("chunk", ["no json at all", "[1, 2]", '"text"', "7"])
def test_what_is_no_object_is_shown(chunk: str) -> None:
    with pytest.raises(ProviderError, match="no JSON object") as raised:
        reply(delta(content="a"), chunk)
    assert chunk.strip('"')[:5] in str(raised.value)


# Tool calls


def test_the_pieces_of_a_call_are_put_together() -> None:
    pieces = [piece(0, "c1", "lo", ""), piece(0, name="ok", arguments='{"at"'), piece(0, arguments=': "a"}')]
    assert calls(*pieces) == (ToolCall("look", {"at": "a"}, "c1"),)


def test_a_name_that_is_repeated_with_its_id_adds_nothing() -> None:
    pieces = [piece(0, "c1", "look", "{"), piece(0, "c1", "look", "}"), piece(0, "c1", "look")]
    assert calls(*pieces) == (ToolCall("look", {}, "c1"),)


def test_calls_side_by_side_are_told_apart_by_their_index() -> None:
    pieces = [piece(0, "a", "look", "{"), piece(1, "b", "go", "{"), piece(0, arguments="}"), piece(1, arguments="}")]
    assert calls(*pieces) == (ToolCall("look", {}, "a"), ToolCall("go", {}, "b"))


def test_another_id_at_the_same_index_is_another_call() -> None:
    pieces = [piece(0, "a", "look", '{"at": "1"}'), piece(0, "b", "look", '{"at": '), piece(0, arguments='"2"}')]
    assert calls(*pieces) == (ToolCall("look", {"at": "1"}, "a"), ToolCall("look", {"at": "2"}, "b"))


def test_without_an_index_an_id_or_a_name_begins_a_call() -> None:
    pieces = [
        piece(id="a", name="look", arguments="{"),
        piece(arguments="}"),
        piece(id="b", name="go", arguments="{}"),
        piece(id="a", arguments=" "),
        piece(name="stop", arguments="{}"),
    ]
    made = calls(*pieces)
    assert [(call.name, dict(call.args)) for call in made] == [("look", {}), ("go", {}), ("stop", {})]
    assert [call.id for call in made[:2]] == ["a", "b"]


def test_they_are_in_the_order_of_their_index_and_others_behind_those_before_them() -> None:
    pieces = [piece(2, "c", "third"), piece(0, "a", "first"), piece(0, "x", "shared"), piece(id="y", name="none")]
    assert [call.id for call in calls(*pieces)] == ["a", "c", "x", "y"]


@pytest.mark.parametrize("written", [None, "", "  \n", "{}", {}])
def test_no_arguments_are_an_empty_object(written: Any) -> None:
    assert calls(piece(0, "c", "go", written)) == (ToolCall("go", {}, "c"),)


def test_arguments_that_are_a_value_already_are_taken() -> None:
    assert calls(piece(0, "c", "go", {"a": [1, None]})) == (ToolCall("go", {"a": [1, None]}, "c"),)


@pytest.mark.parametrize(
    "written", ['{"a": ', "null", "[]", '"x"', "7", '{"a": NaN}', '{"a": 1}{"b": 2}', '{"a": Infinity}', "not json"]
)
def test_arguments_that_are_no_whole_object_are_kept_as_text(written: str) -> None:
    assert calls(piece(0, "c", "go", written)) == (ToolCall("go", {INVALID_ARGS_KEY: written}, "c"),)


@pytest.mark.parametrize("reason", ["length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"])
def test_the_last_call_of_a_reply_that_was_cut_off_never_looks_whole(reason: str) -> None:
    first, last = calls(piece(0, "a", "go", "{}"), piece(1, "b", "go", "{}"), finish=reason)
    assert first == ToolCall("go", {}, "a")
    assert last == ToolCall("go", {INVALID_ARGS_KEY: TRUNCATED_ARGS_MESSAGE}, "b")


def test_a_call_without_an_id_gets_one() -> None:
    made = calls(piece(0, None, "go", "{}"), piece(1, "", "go", "{}"))
    assert all(call.id.startswith("call_") and len(call.id) == 17 for call in made)
    assert len({call.id for call in made}) == 2


def test_so_does_one_whose_id_is_taken() -> None:
    before = Request(None, (Message("assistant", (ToolCall("go", {}, "call_0"),)),))
    whole = [{"id": id, "function": {"name": "go", "arguments": "{}"}} for id in ("call_0", "x", "x")]
    message = {"choices": [{"message": {"tool_calls": whole}, "finish_reason": "tool_calls"}]}
    answer = Answer("asked")
    answer.add_whole(json.dumps(message).encode())
    first, second, third = answer.reply(before, None).tool_calls
    assert (first.id != "call_0", second.id, third.id != "x") == (True, "x", True)


@pytest.mark.parametrize(
    "odd", [None, "x", [None], ["x"], [{}], [{"function": None}], [{"index": 0, "id": "", "function": {}}]]
)
def test_calls_of_a_wrong_kind_are_none(odd: Any) -> None:
    assert reply(delta("stop", content="a", tool_calls=odd)).tool_calls == ()


# Reasoning


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_reasoning_is_kept_under_its_key_before_the_rest(key: str) -> None:
    chunks = (
        delta(**{key: "two "}),
        delta(**{key: "files"}),
        delta(content="a"),
        delta("stop", tool_calls=[piece(0, "c", "go")]),
    )
    made, texts = reply(*chunks), read(body(*chunks))[1]
    assert made.message.content == (
        RawBlock("openai_compatible", {key: "two files"}),
        TextBlock("a"),
        ToolCall("go", {}, "c"),
    )
    assert texts == ["a"]


def test_of_two_keys_the_first_one_seen_counts() -> None:
    made = reply(delta(reasoning="a"), delta(reasoning_content="b", reasoning="c"), delta("stop"))
    assert made.message.content == (RawBlock("openai_compatible", {"reasoning": "ac"}),)
    both = reply(delta(reasoning="a", reasoning_content="b"), delta("stop"))
    assert both.message.content == (RawBlock("openai_compatible", {"reasoning_content": "b"}),)


def test_details_are_kept_in_order_and_unchanged() -> None:
    details: list[Any] = [{"type": "reasoning.encrypted", "data": "x", "n": None}, {"type": "reasoning.summary"}]
    made = reply(delta(reasoning="a", reasoning_details=details[:1]), delta("stop", reasoning_details=details[1:]))
    assert made.message.content == (RawBlock("openai_compatible", {"reasoning": "a", "reasoning_details": details}),)
    alone = reply(delta("stop", reasoning_details=details))
    assert alone.message.content == (RawBlock("openai_compatible", {"reasoning_details": details}),)


@pytest.mark.parametrize("nothing", [None, "", 7, []])
def test_no_reasoning_is_no_block(nothing: Any) -> None:
    assert reply(delta("stop", reasoning=nothing, reasoning_content=nothing)).message.content == ()


# Usage


def usage_of(*counts: Any, price: Price | None = None) -> tuple[Usage, int | None]:
    made = reply(delta("stop"), *[{"choices": [], **given} for given in counts], price=price)
    return made.usage, made.context_tokens


def test_cached_tokens_are_counted_apart() -> None:
    details = {"cached_tokens": 60, "cache_write_tokens": 10}
    counts = {"usage": {"prompt_tokens": 90, "completion_tokens": 10, "prompt_tokens_details": details}}
    assert usage_of(counts) == (Usage(20, 10, 60, 10, 1), 100)


def test_more_cached_than_sent_is_none_fresh() -> None:
    counts = {"usage": {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}}
    assert usage_of(counts) == (Usage(0, 0, 9, 0, 1), 5)


def test_the_last_counts_are_the_total() -> None:
    running = [{"usage": {"prompt_tokens": 5, "completion_tokens": n}} for n in (1, 2)]
    assert usage_of(*running, {"usage": None}) == (Usage(5, 2, requests=1), 7)


def test_groq_may_have_them_elsewhere() -> None:
    elsewhere = {"x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 1}}}
    assert usage_of(elsewhere) == (Usage(3, 1, requests=1), 4)
    assert usage_of(elsewhere, {"usage": {"prompt_tokens": 9}}) == (Usage(9, 0, requests=1), 9)


def test_numbers_that_are_none_are_0() -> None:
    counts = {"usage": {"prompt_tokens": None, "completion_tokens": "7", "prompt_tokens_details": None}}
    assert usage_of(counts) == (Usage(requests=1), 0)


def test_a_price_gives_the_cost() -> None:
    price = Price(input=1, output=2)
    usage, _ = usage_of({"usage": {"prompt_tokens": 500_000, "completion_tokens": 250_000}}, price=price)
    assert usage.cost == 1.0


@pytest.mark.parametrize(
    ("price", "cost"),
    [(None, None), (Price(1, 2), None), (Price(0, 0), 0.0), (Price(0, 0, cache_read=1), None)],
)
def test_without_counts_only_what_is_free_has_a_cost(price: Price | None, cost: float | None) -> None:
    assert usage_of(price=price) == (Usage(requests=1, cost=cost), None)


# Failures inside an answer


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        ({"error": {"message": "no", "code": 401}}, AuthError),
        ({"error": {"message": "no", "code": "403"}}, AuthError),
        ({"error": {"message": "no", "code": 429}}, RateLimitError),
        ({"error": {"message": "no", "status": 413}}, ContextTooLongError),
        ({"error": {"message": "no", "code": 502}}, ProviderError),
        ({"error": {"message": "no", "code": "context_length_exceeded"}}, ContextTooLongError),
        ({"error": {"message": "no", "type": "exceed_context_size_error"}}, ContextTooLongError),
        ({"error": {"message": "no: the Maximum Context is 4096"}}, ContextTooLongError),
        ({"error": "no"}, ProviderError),
        ({"object": "error", "message": "no", "code": 429}, RateLimitError),
        ({"object": "error", "message": "no: prompt is too long"}, ContextTooLongError),
    ],
)
def test_a_failure_inside_is_told_like_one_outside(failure: Any, kind: type[Exception]) -> None:
    with pytest.raises(ProviderError, match="no") as raised:
        reply(delta(content="a"), failure)
    assert type(raised.value) is kind


def test_an_event_named_error_is_a_failure() -> None:
    answer = Answer("asked")
    with pytest.raises(ProviderError, match="overloaded"):
        answer.add(ServerEvent("error", "overloaded"))
    with pytest.raises(RateLimitError, match="later"):
        answer.add(ServerEvent("error", '{"message": "later", "code": 429}'))


def test_no_error_is_none() -> None:
    assert reply({"error": None, **delta("stop", content="a")}).text == "a"


# An answer that is no stream


def whole(body: Any) -> Reply:
    answer = Answer("asked")
    answer.add_whole(json.dumps(body).encode())
    return answer.reply(ASKED, None)


def test_an_answer_in_one_piece_is_read_like_one_delta() -> None:
    message = {"role": "assistant", "content": "a", "reasoning": "r", "tool_calls": [piece(None, "c", "go", "{}")]}
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    made = whole({"model": "m", "choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": usage})
    content = (RawBlock("openai_compatible", {"reasoning": "r"}), TextBlock("a"), ToolCall("go", {}, "c"))
    assert made == Reply(Message("assistant", content), Usage(3, 1, requests=1), 4, "tool_calls", "m")


def test_it_needs_no_reason_to_be_whole() -> None:
    assert whole({"choices": [{"message": {"content": "a"}}]}).text == "a"


@pytest.mark.parametrize("body", [{}, {"models": []}, [], "x", None])
def test_json_that_is_no_reply_is_refused(body: Any) -> None:
    with pytest.raises(ProviderError, match="asked"):
        whole(body)


# Recordings


def told(name: str) -> dict[str, Any]:
    """What the chunks of a recording hold, put together in the plainest way."""
    chunks = [json.loads(line[6:]) for line in recorded(name).decode().splitlines() if line.startswith("data: {")]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    return {
        "text": "".join([delta.get("content") or "" for delta in deltas]),
        "calls": [call["id"] for delta in deltas for call in delta.get("tool_calls") or [] if call.get("id")],
        "arguments": "".join(
            [call["function"].get("arguments", "") for delta in deltas for call in delta.get("tool_calls") or []]
        ),
        "usage": [chunk["usage"] for chunk in chunks if chunk.get("usage")][-1],
    }


@pytest.mark.parametrize("name", STREAMS)
def test_a_recorded_reply_is_what_was_recorded(name: str) -> None:
    made, expected = read(recorded(name))[0].reply(ASKED, None), told(name)
    assert made.text == expected["text"]
    assert [call.id for call in made.tool_calls] == expected["calls"]
    written = "".join([json.dumps(dict(call.args)) for call in made.tool_calls])
    assert "".join(written.split()) == "".join(expected["arguments"].split())
    assert made.usage.output_tokens == expected["usage"]["completion_tokens"]
    assert made.stop_reason or name == "snowflake-tool-call"


@pytest.mark.parametrize("name", ["deepseek-reasoning", "zai-reasoning", "openrouter-reasoning"])
def test_recorded_reasoning_is_in_the_first_block(name: str) -> None:
    first = read(recorded(name))[0].reply(ASKED, None).message.content[0]
    assert isinstance(first, RawBlock)
    assert set(first.data) <= {"reasoning", "reasoning_content", "reasoning_details"}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_how_a_recording_is_cut_changes_nothing(name: str, end: str) -> None:
    whole = recorded(name).replace(b"\n", end.encode())
    expected = read(recorded(name))[0].reply(ASKED, None)
    for size in (1, 7, 1000):
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert read(*pieces)[0].reply(ASKED, None) == expected


@pytest.mark.parametrize("name", ["snowflake-tool-call", "openai-agent-turn-1"])
def test_where_a_recording_is_cut_in_two_changes_nothing(name: str) -> None:
    whole = recorded(name)
    expected = read(whole)[0].reply(ASKED, None)
    for at in range(len(whole)):
        assert read(whole[:at], whole[at:])[0].reply(ASKED, None) == expected


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("groq-tool-use-failed-in-stream", "Tool call validation failed"),
        ("openrouter-error-in-stream", "Token limit|error|Error"),
    ],
)
def test_a_recorded_failure_in_a_stream_is_a_failure(name: str, words: str) -> None:
    with pytest.raises(ProviderError, match=words):
        read(recorded(name))
