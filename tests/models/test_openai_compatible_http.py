"""The OpenAICompatible model against a server: streams, failures, retries, cancellation, and a whole conversation."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from contracts.model import ModelContract
from models.model_server import PATIENCE_S, Answer, Server
from models.openai_server import DONE, call, chunk, refusal, told

from alpineagents import Agent, State, tool
from alpineagents.errors import AuthError, ContextTooLongError, ProviderError, RateLimitError
from alpineagents.models import OpenAICompatible
from alpineagents.types import Message, ModelEvent, Price, Reply, Request, TextBlock, ToolResultBlock, Usage

RECORDINGS = Path(__file__).parent / "recordings"
KEY = "sk-secret-0123456789"
REQUEST = Request("Be brief", (Message.user("Hi"),))
BEGUN = chunk(content="Hel")
HELLO = told(BEGUN, chunk(content="lo"))
SOON = {"retry-after-ms": "1"}  # what a server may say, so that no test waits long

Act = Callable[..., Any]
Serve = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as running:
        yield lambda *answers: running.enter_context(Server(*answers).running())


def model(server: Server, **settings: Any) -> OpenAICompatible:
    given = {"api_key": KEY, "base_url": f"{server.url}/v1", "retries": 0, "timeout": PATIENCE_S}
    return OpenAICompatible("large", **{**given, **settings})


def recorded(name: str) -> Any:
    return json.loads((RECORDINGS / f"{name}.json").read_text("utf-8"))


class TestItKeepsTheContract(ModelContract):
    @pytest.fixture
    def model(self, serve: Serve) -> OpenAICompatible:
        return model(serve(told(BEGUN, chunk(content="lo"), call("look", "{}"))), price=Price(3, 15))


# Streams


def test_the_reply_is_what_the_chunks_say(serve: Serve, act: Act) -> None:
    pieces: list[str] = []
    reply = act(model(serve(HELLO)), "respond", REQUEST, pieces.append)
    assert reply == Reply(Message("assistant", (TextBlock("Hello"),)), Usage(10, 5, requests=1), 15, "stop", "large-1")
    assert pieces == ["Hel", "lo"]


@pytest.mark.parametrize(
    "name", ["openai-agent-turn-1", "groq-tool-call", "deepseek-reasoning", "openrouter-reasoning"]
)
def test_how_a_recording_is_written_changes_nothing(serve: Serve, act: Act, name: str) -> None:
    body = recorded(name)["response"]["body"].encode()
    cuts = [[body], body.splitlines(keepends=True), [body[at : at + 97] for at in range(0, len(body), 97)]]
    served = model(serve(*[Answer(pieces) for pieces in cuts]))
    first, *others = [act(served, "respond", REQUEST) for _ in cuts]
    assert all(other == first for other in others)
    assert first.stop_reason in body.decode()


def test_a_recorded_conversation_is_sent_as_it_was_recorded(serve: Serve, act: Act) -> None:
    turns = [recorded(f"openai-agent-turn-{turn}") for turn in (1, 2, 3)]
    server = serve(*[Answer([turn["response"]["body"].encode()]) for turn in turns])
    served, messages = model(server), [Message.user(turns[0]["request"]["messages"][-1]["content"])]
    for turn in turns[1:]:
        reply = act(served, "respond", Request(None, tuple(messages)))
        results = {
            each["tool_call_id"]: each["content"] for each in turn["request"]["messages"] if each["role"] == "tool"
        }
        blocks = tuple([ToolResultBlock(each.id, results[each.id], name=each.name) for each in reply.tool_calls])
        messages += [reply.message, Message("user", blocks)]
    act(served, "respond", Request(None, tuple(messages)))
    assert told_of(server.posts[2].body["messages"]) == told_of(turns[2]["request"]["messages"])


def told_of(messages: list[Any]) -> list[Any]:
    """What a conversation says, without the keys that each client sets in its own way."""
    calls = [
        [(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]
        for calls in [message.get("tool_calls") or [] for message in messages]
    ]
    return [
        (message["role"], message.get("content"), message.get("tool_call_id"), asked)
        for message, asked in zip(messages, calls, strict=True)
        if message["role"] != "system"
    ]


@pytest.mark.parametrize("content_type", ["", "text/event-stream", "Text/Event-Stream; charset=utf-8"])
def test_a_stream_need_not_say_what_it_is(serve: Serve, act: Act, content_type: str) -> None:
    assert act(model(serve(Answer(HELLO.pieces, content_type=content_type))), "respond", REQUEST).text == "Hello"


def test_an_answer_in_one_piece_is_shown_in_one(serve: Serve, act: Act) -> None:
    body = json.dumps({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}).encode()
    pieces: list[str] = []
    served = model(serve(Answer([body[:9], body[9:]], content_type="application/json; charset=utf-8")))
    reply = act(served, "respond", REQUEST, pieces.append)
    assert (reply.text, pieces, reply.model) == ("Hello", ["Hello"], "large")


@pytest.mark.parametrize("kind", ["text/html", "text/plain", "image/png"])
def test_a_page_instead_of_a_stream_points_to_the_base_url(serve: Serve, act: Act, kind: str) -> None:
    server = serve(Answer([b"<html>"], content_type=kind))
    with pytest.raises(ProviderError, match=f"(?s){re.escape(server.url)}.*{kind}.*base_url"):
        act(model(server), "respond", REQUEST)


@pytest.mark.parametrize("end", ["reset", "close", "silent"])
def test_failures_past_the_end_do_not_matter(serve: Serve, act: Act, end: str) -> None:
    before = time.monotonic()
    assert act(model(serve(Answer(HELLO.pieces, end=end))), "respond", REQUEST).text == "Hello"
    assert time.monotonic() - before < PATIENCE_S / 2


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


# Failures before the reply


def plain(status: int, body: bytes, kind: str = "application/json") -> Answer:
    return Answer([body], status, kind)


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (refusal(401, "Bad key"), AuthError, "401: Bad key"),
        (refusal(403, "Not you"), AuthError, "403: Not you"),
        (refusal(429, "Slow down"), RateLimitError, "429: Slow down"),
        (refusal(413, "Too large"), ContextTooLongError, "413: Too large"),
        (refusal(400, "no", code="context_length_exceeded"), ContextTooLongError, "400: no"),
        (refusal(422, "no", type="exceed_context_size_error"), ContextTooLongError, "422: no"),
        (refusal(400, "Larger than the maximum CONTEXT of 4096"), ContextTooLongError, "4096"),
        (refusal(400, "available context size exceeded"), ContextTooLongError, "available"),
        (refusal(400, "no such role"), ProviderError, "400: no such role"),
        (refusal(500, "context length"), ProviderError, "500: context length"),
        (refusal(404, "no model"), ProviderError, "/v1/chat/completions answered 404 for the model 'large': no model"),
        (plain(402, b'{"error": "in words"}'), ProviderError, "402: in words"),
        (plain(402, b'{"message": "on top"}'), ProviderError, "402: on top"),
        (plain(402, b'{"detail": "in detail"}'), ProviderError, "402: in detail"),
        (plain(422, b'{"detail": [{"loc": ["body"]}]}'), ProviderError, '422: [{"loc": ["body"]}]'),
        (plain(400, b'[{"error": {"message": "in a list", "code": 400}}]'), ProviderError, "400: in a list"),
        (plain(402, b'{"odd": 1}'), ProviderError, '402: {"odd": 1}'),
        (plain(402, b"<html>Pay</html>", "text/html"), ProviderError, "402: <html>Pay</html>"),
        (plain(402, b"\xff\xfe", "text/plain"), ProviderError, "402: \ufffd\ufffd"),
        (plain(402, b""), ProviderError, "402: nothing more"),
    ],
)
def test_a_refusal_says_what_it_is(serve: Serve, act: Act, answer: Answer, kind: type[Exception], message: str) -> None:
    with pytest.raises(ProviderError, match=re.escape(message)) as raised:
        act(model(serve(answer)), "respond", REQUEST)
    assert type(raised.value) is kind
    assert isinstance(raised.value.__cause__, httpx.HTTPStatusError)


@pytest.mark.parametrize(
    "name", ["openai-error-bad-request", "groq-error-tool-use-failed", "openrouter-error-rate-limit"]
)
def test_a_recorded_refusal_is_told_with_the_words_of_the_server(serve: Serve, act: Act, name: str) -> None:
    response = recorded(name)["response"]
    answer = Answer([response["body"].encode()], response["status"], response["content_type"])
    with pytest.raises(ProviderError) as raised:
        act(model(serve(answer)), "respond", REQUEST)
    assert json.loads(response["body"])["error"]["message"] in str(raised.value)
    assert type(raised.value) is (RateLimitError if response["status"] == 429 else ProviderError)


def test_a_long_text_of_a_server_is_shortened(serve: Serve, act: Act) -> None:
    with pytest.raises(ProviderError) as raised:
        act(model(serve(refusal(402, "x" * 5000))), "respond", REQUEST)
    assert 900 < len(str(raised.value)) < 1200


@pytest.mark.parametrize(
    ("answer", "settings", "name"),
    [
        (Answer(end="mute"), {"timeout": 0.05}, "ReadTimeout"),
        (Answer(end="dropped"), {}, "ReadError|RemoteProtocolError"),
        (HELLO, {"base_url": "http://127.0.0.1:9/v1"}, "ConnectError"),
        (HELLO, {"base_url": "http://127.0.0.1:port/v1"}, "InvalidURL"),
        (HELLO, {"base_url": "ftp://127.0.0.1/v1"}, "UnsupportedProtocol"),
    ],
)
def test_without_an_answer_the_failure_names_its_reason(
    serve: Serve, act: Act, answer: Answer, settings: dict[str, Any], name: str
) -> None:
    with pytest.raises(ProviderError, match=name) as raised:
        act(model(serve(answer), **settings), "respond", REQUEST)
    assert type(raised.value) is ProviderError
    assert isinstance(raised.value.__cause__, (httpx.HTTPError, httpx.InvalidURL))


# Retries


@pytest.mark.parametrize("status", [408, 409, 429, 500, 529])
def test_a_failure_that_may_pass_is_tried_again_and_reported(serve: Serve, act: Act, status: int) -> None:
    server = serve(*[refusal(status, "Later", SOON)] * 2, HELLO)
    events: list[ModelEvent] = []
    assert act(model(server, retries=2), "respond", REQUEST, None, events.append).text == "Hello"
    assert [(event.kind, event.data["attempt"], event.data["status"]) for event in events] == [
        ("retry", 1, status),
        ("retry", 2, status),
    ]
    assert len({post.raw for post in server.posts}) == 1


@pytest.mark.parametrize("end", ["mute", "dropped"])
def test_a_request_that_gets_no_answer_is_tried_again(serve: Serve, act: Act, end: str) -> None:
    server, events = serve(Answer(end=end), HELLO), list[ModelEvent]()
    assert act(model(server, retries=1, timeout=0.3), "respond", REQUEST, None, events.append).text == "Hello"
    assert [event.data["status"] for event in events] == [None]


@pytest.mark.parametrize("place", ["type", "code"])
def test_an_empty_account_is_not_tried_again(serve: Serve, act: Act, place: str) -> None:
    server = serve(refusal(429, "No money", SOON, **{place: "insufficient_quota"}))
    with pytest.raises(RateLimitError):
        act(model(server, retries=5), "respond", REQUEST)
    assert len(server.posts) == 1


def test_a_long_wait_is_left_to_the_caller(serve: Serve, act: Act) -> None:
    server = serve(refusal(429, "Tomorrow", {"Retry-After": "86400"}))
    with pytest.raises(RateLimitError):
        act(model(server, retries=5), "respond", REQUEST)
    assert len(server.posts) == 1


@pytest.mark.parametrize(("told_to", "status", "posts"), [("true", 400, 2), ("false", 500, 1)])
def test_the_server_decides_about_a_second_try(serve: Serve, act: Act, told_to: str, status: int, posts: int) -> None:
    server = serve(refusal(status, "x", {**SOON, "x-should-retry": told_to}), refusal(401, "x"))
    with pytest.raises(ProviderError):
        act(model(server, retries=1), "respond", REQUEST)
    assert len(server.posts) == posts


def test_a_url_that_is_none_is_not_tried_again(act: Act) -> None:
    events: list[ModelEvent] = []
    with pytest.raises(ProviderError):
        act(OpenAICompatible("x", base_url="nothing", retries=5), "respond", REQUEST, None, events.append)
    assert events == []


# Failures in the reply


@pytest.mark.parametrize("pieces", [[], [BEGUN], [call("go", "{}")], [b": waiting\n\n"]])
def test_a_stream_that_does_not_finish_is_no_reply(serve: Serve, act: Act, pieces: list[bytes]) -> None:
    server = serve(Answer(pieces))
    with pytest.raises(ProviderError, match="closed early") as raised:
        act(model(server, retries=3), "respond", REQUEST)
    assert (type(raised.value), len(server.posts)) == (ProviderError, 1)


@pytest.mark.parametrize("name", ["groq-tool-use-failed-in-stream", "openrouter-error-in-stream"])
def test_a_failure_in_a_stream_is_not_tried_again(serve: Serve, act: Act, name: str) -> None:
    server = serve(Answer([recorded(name)["response"]["body"].encode()]))
    with pytest.raises(ProviderError):
        act(model(server, retries=3), "respond", REQUEST)
    assert len(server.posts) == 1


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (Answer([BEGUN], end="reset"), "ReadError"),
        (Answer([BEGUN], end="close"), "RemoteProtocolError"),
        (Answer([BEGUN], end="silent"), "ReadTimeout"),
    ],
)
def test_a_reply_that_breaks_off_names_the_reason(serve: Serve, act: Act, answer: Answer, name: str) -> None:
    pieces: list[str] = []
    server = serve(answer)
    timeout = 0.2 if answer.end == "silent" else PATIENCE_S
    with pytest.raises(ProviderError, match=f"broke off: ({name})") as raised:
        act(model(server, retries=2, timeout=timeout), "respond", REQUEST, pieces.append)
    assert type(raised.value) is ProviderError
    assert isinstance(raised.value.__cause__, httpx.HTTPError)
    assert (pieces, len(server.posts)) == (["Hel"], 1)


def test_a_reply_may_take_longer_than_the_timeout(serve: Serve, act: Act) -> None:
    def slowly() -> Iterator[bytes]:
        for piece in (BEGUN, b": waiting\n\n", b": waiting\n\n", chunk("stop", content="lo"), DONE):
            time.sleep(0.12)
            yield piece

    answer = Answer(slowly())
    assert act(model(serve(answer), timeout=0.3), "respond", REQUEST).text == "Hello"


# Keys


def texts(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield f"{error!r} {error}"
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    "answer",
    [
        refusal(401, f"invalid key: {KEY}"),
        Answer([f"no such key {KEY}".encode()], 500, "text/plain"),
        Answer([BEGUN, f'data: {{"error": {{"message": "bad {KEY}"}}}}\n\n'.encode()]),
        Answer([f'{{"error": "bad {KEY}"}}'.encode()], content_type="application/json"),
    ],
    ids=range(4),
)
def test_a_key_that_the_server_repeats_is_in_no_exception(serve: Serve, act: Act, answer: Answer) -> None:
    with pytest.raises(ProviderError) as raised:
        act(model(serve(answer)), "respond", REQUEST)
    assert not [text for text in texts(raised.value) if KEY in text]
    assert "***" in str(raised.value)


def test_a_password_in_the_url_is_not_shown(act: Act) -> None:
    with pytest.raises(ProviderError) as raised:
        act(OpenAICompatible("x", base_url="http://me:hunter2@127.0.0.1:9/v1", retries=0), "respond", REQUEST)
    assert "hunter2" not in str(raised.value)


# Callbacks


@pytest.mark.parametrize(
    "error",
    [httpx.ReadError("mine"), httpx.HTTPError("mine"), TimeoutError("mine"), OSError("mine"), ProviderError("mine")],
    ids=lambda error: type(error).__name__,
)
def test_what_a_callback_raises_is_not_taken_for_a_failure(serve: Serve, act: Act, error: Exception) -> None:
    def refuse(text: str) -> None:
        raise error

    server = serve(HELLO, HELLO)
    with pytest.raises(type(error)) as raised:
        act(model(server, retries=1), "respond", REQUEST, refuse)
    assert raised.value is error
    assert error.__cause__ is None
    assert len(server.posts) == 1


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


def test_ctrl_c_ends_the_wait_for_a_second_try(serve: Serve) -> None:
    server = serve(refusal(503, "Later", {"Retry-After": "60"}))

    def press(event: ModelEvent) -> None:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        model(server, retries=1).respond(REQUEST, None, press)


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


def test_cancelling_ends_the_wait_for_a_second_try(serve: Serve) -> None:
    server = serve(refusal(503, "Later", {"Retry-After": "60"}))

    async def cancelled() -> None:
        waiting = asyncio.Event()
        asking = asyncio.create_task(model(server, retries=1).arespond(REQUEST, None, lambda event: waiting.set()))
        await waiting.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(cancelled())


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
    real = httpx.Client

    def counted(**settings: Any) -> httpx.Client:
        made.append(settings)
        return real(**settings)

    monkeypatch.setattr(httpx, "Client", counted)
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


@tool
def look(at: str) -> str:
    """Look somewhere"""
    return f"nothing at {at}"


def test_an_agent_thinks_calls_and_answers(serve: Serve, act: Act) -> None:
    first = told(chunk(reasoning="hm"), call("look", '{"at": "home"}'), finish="tool_calls")
    server = serve(first, HELLO)
    state = State(messages=[Message.user("Where is it?")])
    assert act(Agent(model=model(server), tools=[look]), "run", state) == "Hello"
    requests = [entry.content for entry in state.history if entry.kind == "model_request"]
    assert requests == ["openai_compatible/large"] * 2
    asked = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "home"}'}}
    assert server.posts[1].body["messages"][1:] == [
        {"role": "assistant", "content": None, "reasoning": "hm", "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "c1", "content": "nothing at home"},
    ]


def test_a_call_that_was_cut_off_does_not_run(serve: Serve, act: Act) -> None:
    server = serve(told(call("look", '{"at": "home"}'), finish="length"), HELLO)
    state = State(messages=[Message.user("Where is it?")])
    act(Agent(model=model(server), tools=[look]), "run", state)
    (result,) = [entry for entry in state.history if entry.kind == "tool_result"]
    assert result.outcome == "input_error"


def test_ids_that_a_server_uses_again_stay_apart(serve: Serve, act: Act) -> None:
    turn = told(call("look", '{"at": "home"}', "call_0"), finish="tool_calls")
    server = serve(turn, turn, HELLO)
    state = State(messages=[Message.user("Where is it?")])
    act(Agent(model=model(server), tools=[look]), "run", state)
    ids = [entry.call.id for entry in state.history if entry.kind == "tool_result"]
    assert ids[0] == "call_0"
    assert len(set(ids)) == 2


def test_retries_are_in_the_history(serve: Serve, act: Act) -> None:
    server = serve(refusal(503, "Later", SOON), HELLO)
    state = State(messages=[Message.user("Go")])
    act(Agent(model=model(server, retries=1)), "run", state)
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
    assert server.posts[0].body["tool_choice"] == "none"
