"""The Anthropic model against a server: streams, failures, retries, cancellation, and a whole conversation."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from contracts.model import ModelContract
from models.anthropic_server import block, call, refusal, start, stream, text, told
from models.model_server import PATIENCE_S, Answer, Server

from alpineagents import Agent, State, tool
from alpineagents.errors import AuthError, ContextTooLongError, ProviderError, RateLimitError
from alpineagents.models import Anthropic
from alpineagents.types import Message, ModelEvent, Price, RawBlock, Reply, Request, TextBlock, ToolCall, Usage

RECORDINGS = Path(__file__).parent / "recordings"
STREAMS = sorted(path.stem for path in RECORDINGS.glob("anthropic-*.json") if "error" not in path.stem)
KEY = "sk-ant-secret-0123456789"
REQUEST = Request("Be brief", (Message.user("Hi"),))
HELLO = told(text(0, "Hel", "lo"))
BEGUN = stream(start(), *text(0, "Hel")[:2])
NOT_NOW = {"retry_after_ms": "1"}  # what a server may say, so that no test waits long

Act = Callable[..., Any]
Serve = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as running:
        yield lambda *answers: running.enter_context(Server(*answers).running())


def model(server: Server, **settings: Any) -> Anthropic:
    given = {"api_key": KEY, "base_url": server.url, "retries": 0, "max_tokens": 1000, "timeout": PATIENCE_S}
    return Anthropic("claude-test", **{**given, **settings})


def recorded(name: str) -> Any:
    return json.loads((RECORDINGS / f"{name}.json").read_text("utf-8"))


class TestItKeepsTheContract(ModelContract):
    @pytest.fixture
    def model(self, serve: Serve) -> Anthropic:
        return model(serve(told(text(0, "Hel", "lo"), call(1, "{}"))), price=Price(3, 15))


# Streams


def test_the_reply_is_what_the_events_say(serve: Serve, act: Act) -> None:
    pieces: list[str] = []
    reply = act(model(serve(HELLO)), "respond", REQUEST, pieces.append)
    wanted = Message("assistant", (TextBlock("Hello"),))
    assert reply == Reply(wanted, Usage(10, 5, requests=1), 15, "end_turn", "claude-opus-5-20260101")
    assert pieces == ["Hel", "lo"]


@pytest.mark.parametrize("name", STREAMS)
def test_how_a_recording_is_written_changes_nothing(serve: Serve, act: Act, name: str) -> None:
    body = recorded(name)["response"]["body"].encode()
    crlf = body.replace(b"\n", b"\r\n")
    cuts = [
        [body],
        body.splitlines(keepends=True),
        crlf.splitlines(keepends=True),
        [crlf[at : at + 97] for at in range(0, len(crlf), 97)],
    ]
    served = model(serve(*[Answer(pieces) for pieces in cuts]))
    first, *others = [act(served, "respond", REQUEST) for _ in cuts]
    assert all(other == first for other in others)
    assert first.stop_reason in body.decode()
    assert first.text


def test_every_recorded_block_goes_back_as_it_came(serve: Serve, act: Act) -> None:
    first, second = recorded("anthropic-tool-search-1"), recorded("anthropic-tool-search-2")
    server = serve(Answer([first["response"]["body"].encode()]), HELLO)
    served = model(server)
    question = Message.user("What is the current USD to EUR exchange rate?")
    reply = act(served, "respond", Request(None, (question,)))
    act(served, "respond", Request(None, (question, reply.message, Message.user("Thanks"))))
    assert server.posts[1].body["messages"][:2] == second["request"]["messages"][:2]


@pytest.mark.parametrize("name", ["anthropic-thinking", "anthropic-redacted-thinking", "anthropic-server-tool-fetch"])
def test_opaque_text_goes_back_byte_for_byte(serve: Serve, act: Act, name: str) -> None:
    body = recorded(name)["response"]["body"]
    opaque = re.findall(r'"(?:signature|data|encrypted_content)":"([^"]{40,})"', body)
    server = serve(Answer([body.encode()]), HELLO)
    served = model(server)
    reply = act(served, "respond", REQUEST)
    act(served, "respond", Request(None, (*REQUEST.messages, reply.message, Message.user("Thanks"))))
    assert opaque
    assert all(f'"{secret}"'.encode() in server.posts[1].raw for secret in opaque)


def test_a_stream_need_not_say_what_it_is(serve: Serve, act: Act) -> None:
    assert act(model(serve(Answer(HELLO.pieces, content_type=""))), "respond", REQUEST).text == "Hello"


def test_failures_past_the_last_event_do_not_matter(serve: Serve, act: Act) -> None:
    failing = stream({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    for end in ("reset", "close", "whole"):
        answer = Answer([*HELLO.pieces, failing] if end == "whole" else HELLO.pieces, end=end)
        assert act(model(serve(answer)), "respond", REQUEST).text == "Hello"


def test_one_connection_serves_one_request_after_another(serve: Serve) -> None:
    server = serve(HELLO, HELLO)
    served = model(server)
    assert [served.respond(REQUEST).text for _ in range(2)] == ["Hello", "Hello"]
    assert server.accepted == 1


def test_one_connection_serves_an_event_loop(serve: Serve) -> None:
    server = serve(HELLO, HELLO)
    served = model(server)

    async def twice() -> list[str]:
        return [(await served.arespond(REQUEST)).text for _ in range(2)]

    assert asyncio.run(twice()) == ["Hello", "Hello"]
    assert server.accepted == 1


# Continuing


def paused(*parts: list[dict[str, Any]]) -> Answer:
    return told(*parts, stop_reason="pause_turn")


def test_a_paused_reply_is_continued(serve: Serve, act: Act) -> None:
    search = call(0, '{"query": "x"}', kind="server_tool_use", name="web_search")
    server = serve(paused(search), paused(text(0, "One ")), told(text(0, "two")))
    events: list[ModelEvent] = []
    pieces: list[str] = []
    reply = act(model(server, price=Price(1, 1)), "respond", REQUEST, pieces.append, events.append)
    searched = {"type": "server_tool_use", "id": "toolu_0", "name": "web_search", "input": {"query": "x"}}
    assert reply.message.content == (RawBlock("anthropic", searched), TextBlock("One "), TextBlock("two"))
    assert (reply.usage, reply.context_tokens, reply.stop_reason) == (Usage(30, 15, 0, 0, 3, 45e-6), 15, "end_turn")
    assert [event.kind for event in events] == ["continue", "continue"]
    assert pieces == ["One ", "two"]
    assert [sent.body["messages"][1:] for sent in server.posts] == [
        [],
        [{"role": "assistant", "content": [searched]}],
        [{"role": "assistant", "content": [searched, {"type": "text", "text": "One "}]}],
    ]


def test_a_paused_reply_is_continued_after_what_the_model_had_said(serve: Serve, act: Act) -> None:
    server = serve(paused(text(0, "b")), told())
    act(model(server), "respond", Request(None, (Message.user("Hi"), Message.assistant("a"))))
    said = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert server.posts[1].body["messages"][1:] == [{"role": "assistant", "content": said}]


def test_a_pause_with_nothing_said_sends_the_same_request(serve: Serve, act: Act) -> None:
    server = serve(paused(), told())
    act(model(server), "respond", REQUEST)
    assert server.posts[0].raw == server.posts[1].raw


def test_a_reply_is_continued_ten_times(serve: Serve, act: Act) -> None:
    server = serve(*[paused(text(0, "a"))] * 10, told())
    assert act(model(server), "respond", REQUEST).usage.requests == 11


def test_a_reply_is_not_continued_for_ever(serve: Serve, act: Act) -> None:
    server = serve(*[paused(text(0, "a"))] * 12)
    with pytest.raises(ProviderError, match="more than 10 times"):
        act(model(server), "respond", REQUEST)
    assert len(server.posts) == 11


def test_what_a_report_of_a_continuation_raises_comes_out(serve: Serve, act: Act) -> None:
    error = RuntimeError("no paper left")

    def refuse(event: ModelEvent) -> None:
        raise error

    server = serve(paused(text(0, "a")), told())
    with pytest.raises(RuntimeError) as raised:
        act(model(server), "respond", REQUEST, None, refuse)
    assert (raised.value, len(server.posts)) == (error, 1)


# Failures before the reply


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (refusal(429, "Slow down", "rate_limit_error"), RateLimitError, "429: rate_limit_error: Slow down"),
        (refusal(401, "Bad key", "authentication_error"), AuthError, "401: authentication_error: Bad key"),
        (refusal(403, "Not you"), AuthError, "403"),
        (refusal(413, "Too large"), ContextTooLongError, "413"),
        (refusal(400, "Prompt is TOO LONG: 250000 tokens > 200000 maximum"), ContextTooLongError, "250000"),
        (refusal(400, "input length and `max_tokens` exceed context limit"), ProviderError, "exceed context limit"),
        (refusal(400, "this exceeds the model's limit"), ContextTooLongError, "exceeds the model"),
        (refusal(422, "prompt is too long"), ProviderError, "422"),
        (refusal(402, "No credit"), ProviderError, "402: some_error: No credit"),
        (refusal(404, "model: claude-test", "not_found_error"), ProviderError, "check the name of the model"),
        (refusal(500, "Oops"), ProviderError, "500"),
        (refusal(529, "Overloaded", "overloaded_error"), ProviderError, "529: overloaded_error: Overloaded"),
        (Answer([b"<html>Bad Gateway</html>"], 502, "text/html"), ProviderError, "502: <html>Bad Gateway"),
        (Answer([b"\xff\xfe"], 500, "text/plain"), ProviderError, "500"),
        (Answer([b""], 503, "text/plain"), ProviderError, "503: nothing more"),
        (Answer([b'["list"]'], 500, "application/json"), ProviderError, 'list'),
        (Answer([b'{"error": "in words"}'], 500, "application/json"), ProviderError, "in words"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_it_is(serve: Serve, act: Act, answer: Answer, kind: type[Exception], message: str) -> None:
    with pytest.raises(ProviderError, match=re.escape(message)) as raised:
        act(model(serve(answer)), "respond", REQUEST)
    assert type(raised.value) is kind
    assert isinstance(raised.value.__cause__, anthropic.APIStatusError)


@pytest.mark.parametrize("name", ["anthropic-error-bad-request", "anthropic-error-unknown-model"])
def test_a_recorded_refusal_is_told_with_the_words_of_the_server(serve: Serve, act: Act, name: str) -> None:
    response = recorded(name)["response"]
    answer = Answer([response["body"].encode()], response["status"], response["content_type"])
    told = json.loads(response["body"])
    with pytest.raises(ProviderError) as raised:
        act(model(serve(answer)), "respond", REQUEST)
    assert type(raised.value) is ProviderError
    for part in (str(response["status"]), told["error"]["type"], told["error"]["message"], told["request_id"]):
        assert part in str(raised.value)


def test_a_long_text_of_a_server_is_shortened(serve: Serve, act: Act) -> None:
    with pytest.raises(ProviderError) as raised:
        act(model(serve(refusal(500, "x" * 5000))), "respond", REQUEST)
    assert len(str(raised.value)) < 1100


@pytest.mark.parametrize(
    ("answer", "settings", "name"),
    [
        (Answer(end="mute"), {"timeout": 0.05}, "ReadTimeout"),
        (Answer(end="dropped"), {}, "ReadError"),
        (HELLO, {"base_url": "http://127.0.0.1:9"}, "ConnectError"),
    ],
)
def test_without_an_answer_the_failure_names_its_reason(
    serve: Serve, act: Act, answer: Answer, settings: dict[str, Any], name: str
) -> None:
    with pytest.raises(ProviderError, match=name) as raised:
        act(model(serve(answer), **settings), "respond", REQUEST)
    assert type(raised.value) is ProviderError
    assert isinstance(raised.value.__cause__, anthropic.APIConnectionError)


def test_a_base_url_that_is_none_is_a_failure_of_the_provider(serve: Serve, act: Act) -> None:
    with pytest.raises(ProviderError, match="InvalidURL"):
        act(model(serve(), base_url="http://127.0.0.1:port"), "respond", REQUEST)


def test_a_type_error_of_the_client_is_a_failure_of_the_provider(
    serve: Serve, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    def confused(*args: Any, **kwargs: Any) -> None:
        raise TypeError("post() got an unexpected keyword argument")

    monkeypatch.setattr(anthropic.Anthropic, "post", confused)
    monkeypatch.setattr(anthropic.AsyncAnthropic, "post", confused)
    with pytest.raises(ProviderError, match="TypeError: post"):
        act(model(serve()), "respond", REQUEST)


# Retries


@pytest.mark.parametrize("status", [408, 409, 429, 500, 529])
def test_a_failure_that_may_pass_is_tried_again(serve: Serve, act: Act, status: int) -> None:
    server = serve(*[refusal(status, "Later", **NOT_NOW)] * 2, HELLO)
    events: list[ModelEvent] = []
    assert act(model(server, retries=2), "respond", REQUEST, None, events.append).text == "Hello"
    assert (len(server.posts), events) == (3, [])


@pytest.mark.parametrize("end", ["mute", "dropped"])
def test_a_request_that_gets_no_answer_is_tried_again(serve: Serve, act: Act, end: str) -> None:
    server = serve(Answer(end=end), HELLO)
    assert act(model(server, retries=1, timeout=0.2), "respond", REQUEST).text == "Hello"


@pytest.mark.parametrize("status", [400, 401, 404, 413])
def test_a_failure_that_will_not_pass_is_not_tried_again(serve: Serve, act: Act, status: int) -> None:
    server = serve(refusal(status, "No"))
    with pytest.raises(ProviderError):
        act(model(server, retries=5), "respond", REQUEST)
    assert len(server.posts) == 1


@pytest.mark.parametrize("retries", [0, 1])
def test_retries_are_further_attempts(serve: Serve, act: Act, retries: int) -> None:
    server = serve(*[refusal(529, "Overloaded", **NOT_NOW)] * 3)
    with pytest.raises(ProviderError):
        act(model(server, retries=retries), "respond", REQUEST)
    assert len(server.posts) == 1 + retries


def test_the_server_says_how_long_to_wait(serve: Serve, act: Act) -> None:
    server = serve(refusal(429, "Slow down", retry_after="0.6"), HELLO)
    act(model(server, retries=1), "respond", REQUEST)
    first, second = server.posts
    assert second.at - first.at >= 0.6  # without the header it is half a second at most


# Failures in the reply


@pytest.mark.parametrize(
    "answer",
    [
        Answer([BEGUN]),
        Answer([]),
        told(text(0, "a"), call(1, '{"a": 1}'), stop_reason=None),
        Answer([stream(start(), *text(0, "a"))]),
        Answer([stream({"type": "ping"})]),
    ],
    ids=["begun", "empty", "no reason", "no end", "ping"],
)
def test_a_stream_without_a_stop_reason_is_no_reply(serve: Serve, act: Act, answer: Answer) -> None:
    with pytest.raises(ProviderError, match="without a stop reason: the connection was closed early") as raised:
        act(model(serve(answer)), "respond", REQUEST)
    assert type(raised.value) is ProviderError


@pytest.mark.parametrize("name", ["anthropic-tool-search-1", "anthropic-thinking"])
def test_a_recording_that_ends_early_is_no_reply(serve: Serve, act: Act, name: str) -> None:
    body = recorded(name)["response"]["body"].encode()
    end = body.index(b'"stop_reason":"')
    offsets = [1, end // 3, end // 2, end - 1]
    served = model(serve(*[Answer([body[:offset]]) for offset in offsets]))
    for _ in offsets:
        with pytest.raises(ProviderError):
            act(served, "respond", REQUEST)


def test_a_page_instead_of_a_stream_points_to_the_base_url(serve: Serve, act: Act) -> None:
    page = Answer([b"<html><body>Welcome</body></html>\n\n"], content_type="text/html")
    with pytest.raises(ProviderError, match=r"(?s)text/html.*check base_url"):
        act(model(serve(page)), "respond", REQUEST)


@pytest.mark.parametrize(
    ("kind", "message"), [("overloaded_error", "Overloaded"), ("rate_limit_error", "x"), ("authentication_error", "y")]
)
def test_an_error_in_the_stream_is_a_failure_that_names_its_type(
    serve: Serve, act: Act, kind: str, message: str
) -> None:
    failing = stream({"type": "error", "error": {"type": kind, "message": message}})
    pieces: list[str] = []
    server = serve(Answer([BEGUN, failing]))
    with pytest.raises(ProviderError, match=f"while it replied: {kind}: {message}") as raised:
        act(model(server, retries=2), "respond", REQUEST, pieces.append)
    assert type(raised.value) is ProviderError
    assert isinstance(raised.value.__cause__, anthropic.APIStatusError)
    assert (pieces, len(server.posts)) == (["Hel"], 1)


def test_an_error_in_the_stream_may_be_plain_text(serve: Serve, act: Act) -> None:
    with pytest.raises(ProviderError, match="out of order"):
        act(model(serve(Answer([BEGUN, b"event: error\ndata: out of order\n\n"]))), "respond", REQUEST)


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (Answer([BEGUN], end="reset"), "ReadError"),
        (Answer([BEGUN], end="close"), "RemoteProtocolError"),
        (Answer([BEGUN], end="silent"), "ReadTimeout"),
        (Answer([BEGUN, b"event: message_delta\ndata: {broken\n\n"]), "JSONDecodeError"),
        (Answer([BEGUN, b"event: message_delta\ndata: \xff\n\n"]), "UnicodeDecodeError"),
    ],
)
def test_a_reply_that_breaks_off_names_the_reason(serve: Serve, act: Act, answer: Answer, name: str) -> None:
    pieces: list[str] = []
    server = serve(answer)
    timeout = 0.2 if answer.end == "silent" else PATIENCE_S
    with pytest.raises(ProviderError, match=f"broke off: ({name})") as raised:
        act(model(server, retries=2, timeout=timeout), "respond", REQUEST, pieces.append)
    assert type(raised.value) is ProviderError
    assert raised.value.__cause__ is not None
    assert (pieces, len(server.posts)) == (["Hel"], 1)


# Keys


def texts(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield f"{error!r} {error} {getattr(error, 'message', '')}"
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    "answer",
    [
        refusal(401, f"invalid x-api-key: {KEY}"),
        Answer([f"no such key {KEY}".encode()], 500, "text/plain"),
        Answer([BEGUN, stream({"type": "error", "error": {"type": "x", "message": f"bad {KEY}"}})]),
    ],
)
def test_a_key_that_the_server_repeats_is_in_no_exception(serve: Serve, act: Act, answer: Answer) -> None:
    with pytest.raises(ProviderError) as raised:
        act(model(serve(answer)), "respond", REQUEST)
    assert not [text for text in texts(raised.value) if KEY in text]
    assert "***" in str(raised.value)


# Callbacks


@pytest.mark.parametrize(
    "error",
    [
        anthropic.APIError("mine", httpx2.Request("POST", "http://127.0.0.1"), body=None),
        httpx2.ReadError("mine"),
        TypeError("authentication"),
        ProviderError("mine"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_a_callback_raises_is_not_taken_for_a_failure(serve: Serve, act: Act, error: Exception) -> None:
    def refuse(text: str) -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        act(model(serve(HELLO)), "respond", REQUEST, refuse)
    assert raised.value is error
    assert error.__cause__ is None


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_a_callback_that_raises_closes_the_connection(serve: Serve, act: Act, kind: type[BaseException]) -> None:
    def refuse(text: str) -> None:
        raise kind

    server = serve(Answer([BEGUN], end="silent"))
    with pytest.raises(kind):
        act(model(server), "respond", REQUEST, refuse)
    assert server.gone.wait(PATIENCE_S)


def test_ctrl_c_ends_a_reply_that_stands_still(serve: Serve) -> None:
    server = serve(Answer([BEGUN], end="silent"))

    def press() -> None:
        server.begun.wait(PATIENCE_S)
        os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press)
    with pytest.raises(KeyboardInterrupt):
        model(server).respond(REQUEST, lambda piece: pressing.start())
    pressing.join()
    assert server.gone.wait(PATIENCE_S)


def test_the_callbacks_run_on_the_thread_of_the_caller(serve: Serve, act: Act) -> None:
    threads: list[threading.Thread] = []
    act(model(serve(HELLO)), "respond", REQUEST, lambda piece: threads.append(threading.current_thread()))
    assert set(threads) == {threading.current_thread()}


# Cancelling and clients


@pytest.mark.parametrize("answer", [Answer([BEGUN], end="silent"), Answer(end="mute")], ids=["in the reply", "before"])
def test_cancelling_closes_the_connection(serve: Serve, answer: Answer) -> None:
    server = serve(answer)

    async def cancelled() -> None:
        asking = asyncio.create_task(model(server).arespond(REQUEST))
        assert await asyncio.to_thread(server.begun.wait, PATIENCE_S)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await asyncio.to_thread(server.gone.wait, PATIENCE_S)

    asyncio.run(cancelled())


def test_a_cancelled_lookup_is_not_remembered(serve: Serve) -> None:
    server = serve(HELLO)
    server.lookup = Answer(end="mute")
    served = model(server, max_tokens=None)

    async def cancelled() -> None:
        asking = asyncio.create_task(served.arespond(REQUEST))
        assert await asyncio.to_thread(server.begun.wait, PATIENCE_S)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(cancelled())
    server.lookup = Answer([b'{"max_tokens": 5000}'], content_type="application/json")
    served.respond(REQUEST)
    assert server.posts[0].body["max_tokens"] == 5000


def test_one_model_serves_one_event_loop_after_another(serve: Serve) -> None:
    served = model(serve(HELLO, HELLO, HELLO))
    assert [asyncio.run(served.arespond(REQUEST)).text for _ in range(3)] == ["Hello"] * 3


def test_requests_of_one_event_loop_run_at_the_same_time(serve: Serve) -> None:
    server = serve(*[HELLO] * 5)
    served = model(server)

    async def together() -> list[Reply]:
        return await asyncio.gather(*[served.arespond(REQUEST) for _ in range(5)])

    assert [reply.text for reply in asyncio.run(together())] == ["Hello"] * 5


def test_first_requests_of_many_threads_make_one_client(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    real = anthropic.Anthropic

    def counted(**settings: Any) -> anthropic.Anthropic:
        made.append(settings)
        return real(**settings)

    monkeypatch.setattr(anthropic, "Anthropic", counted)
    served = model(serve(*[HELLO] * 8))
    together = threading.Barrier(8)
    replies: list[str] = []

    def ask() -> None:
        together.wait(PATIENCE_S)
        replies.append(served.respond(REQUEST).text)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (replies, len(made)) == (["Hello"] * 8, 1)


def test_a_model_that_is_gone_leaves_no_connection_open(serve: Serve) -> None:
    server = serve(HELLO)
    served = model(server)
    served.respond(REQUEST)
    del served
    assert server.left.acquire(timeout=PATIENCE_S)


def test_an_event_loop_that_ended_leaves_no_connection_open(serve: Serve) -> None:
    server = serve(HELLO)
    served = model(server)
    asyncio.run(served.arespond(REQUEST))
    assert server.left.acquire(timeout=PATIENCE_S)


# An Agent


def thinking(index: int) -> list[dict[str, Any]]:
    deltas = [{"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "c2ln+/="}]
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas)


@tool
def look(at: str) -> str:
    """Look somewhere"""
    return f"nothing at {at}"


def test_an_agent_thinks_calls_and_answers(serve: Serve, act: Act) -> None:
    server = serve(told(thinking(0), call(1, '{"at": "home"}'), stop_reason="tool_use"), HELLO)
    state = State(messages=[Message.user("Where is it?")])
    answer = act(Agent(model=model(server, thinking=True), tools=[look]), "run", state)
    assert answer == "Hello"
    assert [entry.content for entry in state.history if entry.kind == "model_request"] == ["anthropic/claude-test"] * 2
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln+/="}
    assert server.posts[1].body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [thought, {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "home"}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "nothing at home", "is_error": False}
            ],
        },
    ]


def test_a_call_that_was_cut_off_does_not_run(serve: Serve, act: Act) -> None:
    server = serve(told(call(0, '{"at": "home"}'), stop_reason="max_tokens"), HELLO)
    state = State(messages=[Message.user("Where is it?")])
    act(Agent(model=model(server), tools=[look]), "run", state)
    (result,) = [entry for entry in state.history if entry.kind == "tool_result"]
    assert result.outcome == "input_error"


def test_a_continuation_is_in_the_history(serve: Serve, act: Act) -> None:
    state = State(messages=[Message.user("Go")])
    act(Agent(model=model(serve(paused(text(0, "a")), HELLO))), "run", state)
    kinds = [entry.kind for entry in state.history]
    assert kinds[kinds.index("model_request") :] == ["model_request", "model_event", "model_reply", "stop"]


def test_no_key_is_in_the_history(serve: Serve, act: Act) -> None:
    state = State(messages=[Message.user("Go")])
    with pytest.raises(AuthError):
        act(Agent(model=model(serve(refusal(401, f"bad key {KEY}")))), "run", state)
    assert state.history[-1].kind == "error"
    assert KEY not in repr(state.history)


def test_a_summary_is_asked_for_without_calls(serve: Serve, act: Act) -> None:
    server = serve(HELLO)
    state = State(messages=[Message.user("Go"), Message.assistant("a"), Message.user("b")])
    act(Agent(model=model(server), tools=[look]), "compact", state)
    assert server.posts[0].body["tool_choice"] == {"type": "none"}
    assert [tool["name"] for tool in server.posts[0].body["tools"]] == ["look"]


def test_a_reply_in_arguments_of_surrogates_goes_back(serve: Serve, act: Act) -> None:
    server = serve(told(call(0, '{"at": "\\ud83d"}'), stop_reason="tool_use"), HELLO)
    state = State(messages=[Message.user("Go")])
    act(Agent(model=model(server), tools=[look]), "run", state)
    assert state.history[-1].kind == "stop"
    assert server.posts[1].body["messages"][1]["content"][0]["input"] == {"at": "\ufffd"}
    (asked,) = [call for message in state.messages for call in message.tool_calls]
    assert asked == ToolCall("look", {"at": "\ud83d"}, "toolu_0")
