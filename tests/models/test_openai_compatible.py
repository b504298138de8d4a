"""The settings of an OpenAICompatible model, what each of them sends, and what it learns of its server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

import pytest
from models.model_server import Answer, Server
from models.openai_server import chunk, refusal, told

from alpineagents.errors import AuthError, ProviderError
from alpineagents.models import OpenAICompatible
from alpineagents.types import Message, Price, Request, ToolCall

REQUEST = Request("Be brief", (Message.user("Hi"),))
CALLED = Request(None, (Message("assistant", (ToolCall("go", {}, "c1"),)),))
KEY = "sk-secret-0123456789"
HELLO = told(chunk(content="Hello"))
Act = Callable[..., Any]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(*[HELLO] * 4).running() as server:
        yield server


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def model(server: Server, name: str = "large", **settings: Any) -> OpenAICompatible:
    return OpenAICompatible(name, **{"base_url": f"{server.url}/v1", "retries": 0, **settings})


def sent(server: Server, act: Act, name: str = "large", **settings: Any) -> Any:
    act(model(server, name, **settings), "respond", REQUEST)
    return server.posts[-1].body


# Settings


def test_the_settings_have_these_defaults() -> None:
    made = OpenAICompatible("large")
    assert (made.name, made.provider, made.max_tokens, made.temperature) == ("large", "openai_compatible", None, None)
    assert (made.timeout, made.retries, made.price, made.context_window) == (None, 2, None, 128_000)
    assert (made.base_url, made.api_key, made.supports) == (None, None, frozenset())


def test_the_settings_are_read_back() -> None:
    settings = {"base_url": "http://x", "api_key": "k", "max_tokens": 5, "temperature": 0.5, "timeout": 3.0}
    made = OpenAICompatible("large", **settings, retries=0, price=Price(1, 2), context_window=9, supports=["vision"])
    assert {name: getattr(made, name) for name in settings} == settings
    assert (made.retries, made.price, made.context_window, made.supports) == (0, Price(1, 2), 9, frozenset({"vision"}))


def test_all_settings_but_the_name_are_given_by_keyword() -> None:
    with pytest.raises(TypeError):
        OpenAICompatible("large", "http://x")  # type: ignore[misc]


@pytest.mark.parametrize("setting", ["thinking", "cache"])
def test_a_setting_of_another_adapter_is_refused(setting: str) -> None:
    with pytest.raises(TypeError, match=setting):
        OpenAICompatible("large", **{setting: True})


def test_a_key_is_never_shown() -> None:
    assert repr(OpenAICompatible("large", api_key=KEY)) == "OpenAICompatible('large')"


def test_making_one_loads_no_client() -> None:
    code = "import sys, alpineagents; alpineagents.OpenAICompatible('x'); print('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# Where it goes, with which key


@pytest.mark.parametrize("end", ["", "/"])
def test_a_request_is_sent_to_the_chat_completions_of_the_base_url(server: Server, act: Act, end: str) -> None:
    act(model(server, base_url=f"{server.url}/v1{end}"), "respond", REQUEST)
    (post,) = server.posts
    assert post.path == "/v1/chat/completions"
    assert post.headers["content-type"] == "application/json"
    assert post.headers["accept"] == "text/event-stream"
    assert post.headers["user-agent"] == f"alpineagents/{metadata.version('alpineagents')}"


def test_the_environment_names_the_server_and_the_key(server: Server, act: Act, environment: Any) -> None:
    environment.setenv("OPENAI_BASE_URL", f"{server.url}/v2")
    environment.setenv("OPENAI_API_KEY", KEY)
    made = OpenAICompatible("large")
    act(made, "respond", REQUEST)
    assert (server.posts[0].path, server.posts[0].headers["authorization"]) == ("/v2/chat/completions", f"Bearer {KEY}")
    assert (made.base_url, made.api_key) == (None, None)


def test_what_is_given_comes_before_the_environment(server: Server, act: Act, environment: Any) -> None:
    environment.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    environment.setenv("OPENAI_API_KEY", "sk-other")
    act(model(server, api_key=KEY), "respond", REQUEST)
    assert server.posts[0].headers["authorization"] == f"Bearer {KEY}"


def test_the_environment_is_read_at_the_request(server: Server, act: Act, environment: Any) -> None:
    made = model(server)
    environment.setenv("OPENAI_API_KEY", KEY)
    act(made, "respond", REQUEST)
    assert server.posts[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("empty", [None, ""])
def test_a_server_of_ones_own_gets_a_placeholder_for_a_key(
    server: Server, act: Act, empty: Any, environment: Any
) -> None:
    environment.setenv("OPENAI_API_KEY", "")
    act(model(server, api_key=empty), "respond", REQUEST)
    assert server.posts[0].headers["authorization"] == "Bearer not-needed"


@pytest.mark.parametrize("empty", [None, ""])
def test_without_a_key_and_a_server_nothing_is_sent(act: Act, empty: Any) -> None:
    with pytest.raises(AuthError, match="OPENAI_API_KEY"):
        act(OpenAICompatible("gpt-5", api_key=empty), "respond", REQUEST)


@pytest.mark.parametrize("key", [f"{KEY}\n", f" {KEY}", f"{KEY}ä", f"a\r\nX: {KEY}"])
def test_a_key_that_no_header_can_hold_is_refused_without_showing_it(server: Server, act: Act, key: str) -> None:
    with pytest.raises(AuthError) as raised:
        act(model(server, api_key=key), "respond", REQUEST)
    assert KEY not in str(raised.value)
    assert server.posts == []


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_that_keeps_the_body_is_followed(server: Server, act: Act, status: int) -> None:
    server.answers.insert(0, Answer([], status, headers={"Location": f"{server.url}/other"}))
    assert act(model(server), "respond", REQUEST).text == "Hello"
    assert [post.path for post in server.posts] == ["/v1/chat/completions", "/other"]
    assert server.posts[0].raw == server.posts[1].raw


@pytest.mark.parametrize("status", [301, 302, 303])
def test_any_other_redirect_names_its_target(server: Server, act: Act, status: int) -> None:
    server.answers.insert(0, Answer([], status, headers={"Location": "https://example.com/login"}))
    with pytest.raises(ProviderError, match="go to https"):
        act(model(server), "respond", REQUEST)
    assert len(server.posts) == 1


def test_redirects_in_a_circle_end(server: Server, act: Act) -> None:
    server.answers[:] = [Answer([], 307, headers={"Location": f"{server.url}/v1"})] * 30
    with pytest.raises(ProviderError, match="307"):
        act(model(server), "respond", REQUEST)
    assert len(server.posts) == 11


# What is sent


def test_little_is_sent_by_default(server: Server, act: Act) -> None:
    assert set(sent(server, act)) == {"model", "messages", "stream", "stream_options"}


@pytest.mark.parametrize(
    ("settings", "key", "value"),
    [
        ({"temperature": 0.0}, "temperature", 0.0),
        ({"max_tokens": 50}, "max_tokens", 50),
        ({"name": "gpt-5", "max_tokens": 50}, "max_tokens", 50),
        ({"name": "o3-mini", "max_tokens": 50}, "max_completion_tokens", 50),
        ({"name": "o1", "max_tokens": 50}, "max_completion_tokens", 50),
        ({"name": "olmo", "max_tokens": 50}, "max_tokens", 50),
        ({"name": "openai/gpt-5"}, "model", "openai/gpt-5"),
    ],
)
def test_a_setting_is_sent(server: Server, act: Act, settings: dict[str, Any], key: str, value: object) -> None:
    body = sent(server, act, **settings)
    assert body[key] == value
    assert not {"max_tokens", "max_completion_tokens"} - {key} & set(body) or key in ("temperature", "model")


# What it learns


OLD = refusal(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", param="max_tokens")


@pytest.mark.parametrize("status", [400, 422])
def test_another_name_of_the_limit_is_learnt(server: Server, act: Act, status: int) -> None:
    server.answers.insert(0, Answer(OLD.pieces, status, "application/json"))
    made, events = model(server, max_tokens=50), list[Any]()
    for _ in range(2):
        act(made, "respond", REQUEST, None, events.append)
    keys = [{"max_tokens", "max_completion_tokens"} & set(post.body) for post in server.posts]
    assert keys == [{"max_tokens"}, {"max_completion_tokens"}, {"max_completion_tokens"}]
    assert events == []


@pytest.mark.parametrize(
    "refused",
    [
        refusal(400, "stream_options is not supported"),
        refusal(422, "Extra inputs are not permitted", param="stream_options"),
        Answer([b'{"detail": [{"loc": ["body", "stream_options"]}]}'], 422, "application/json"),
    ],
)
def test_a_server_without_stream_options_is_asked_without(server: Server, act: Act, refused: Answer) -> None:
    server.answers.insert(0, refused)
    made = model(server)
    for _ in range(2):
        act(made, "respond", REQUEST)
    assert ["stream_options" in post.body for post in server.posts] == [True, False, False]


def test_ids_of_calls_that_a_server_does_not_take_are_made_plain(server: Server, act: Act) -> None:
    server.answers.insert(0, refusal(400, "Tool call id was c1 but must be a-z, A-Z, 0-9, with a length of 9."))
    act(model(server), "respond", CALLED)
    ids = [post.body["messages"][0]["tool_calls"][0]["id"] for post in server.posts]
    assert (ids[0], len(ids[1])) == ("c1", 9)


def test_each_is_learnt_at_most_once(server: Server, act: Act) -> None:
    server.answers[:] = [OLD, refusal(400, "stream_options: no"), OLD, HELLO]
    with pytest.raises(ProviderError, match="max_completion_tokens"):
        act(model(server, max_tokens=50), "respond", REQUEST)
    assert len(server.posts) == 3


@pytest.mark.parametrize(
    "refused",
    [OLD, refusal(400, "no such thing"), refusal(404, "stream_options"), refusal(401, "stream_options")],
    ids=range(4),
)
def test_any_other_refusal_is_final(server: Server, act: Act, refused: Answer) -> None:
    server.answers.insert(0, refused)
    with pytest.raises(ProviderError):
        act(model(server, retries=3), "respond", REQUEST)
    assert len(server.posts) == 1


def test_what_one_model_learnt_another_does_not_know(server: Server, act: Act) -> None:
    server.answers[:] = [refusal(400, "stream_options: no"), HELLO, HELLO]
    act(model(server), "respond", REQUEST)
    act(model(server), "respond", REQUEST)
    assert ["stream_options" in post.body for post in server.posts] == [True, False, True]
