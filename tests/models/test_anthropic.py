"""The settings of an Anthropic model, and what each of them sends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from models.anthropic_server import refusal, text, told
from models.model_server import Answer, Server

from alpineagents.errors import AuthError, ProviderError
from alpineagents.models import Anthropic, anthropic
from alpineagents.models.anthropic import DEFAULT_MAX_TOKENS
from alpineagents.types import Message, Price, Request

REQUEST = Request("Be brief", (Message.user("Hi"),))
KEY = "sk-ant-secret-0123456789"
Act = Callable[..., Any]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(anthropic, "_limits", {})  # an earlier server may have had the same port
    with Server(told(text(0, "Hello")), told(text(0, "Hello"))).running() as server:
        yield server


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))


def model(server: Server, **settings: Any) -> Anthropic:
    return Anthropic("claude-test", **{"api_key": KEY, "base_url": server.url, "retries": 0, **settings})


# Settings


@pytest.mark.parametrize("name", ["claude-opus-5", "anthropic/claude-opus-5"])
def test_the_provider_is_taken_off_the_name(name: str) -> None:
    assert (Anthropic(name).name, Anthropic(name).provider) == ("claude-opus-5", "anthropic")


def test_only_one_leading_provider_is_taken_off() -> None:
    assert Anthropic("anthropic/anthropic/x").name == "anthropic/x"


def test_the_settings_have_these_defaults() -> None:
    made = Anthropic("claude-test")
    assert (made.max_tokens, made.temperature, made.timeout, made.retries, made.price) == (None, None, None, 2, None)
    assert (made.context_window, made.supports, made.cache) == (200_000, {"thinking", "cache", "vision"}, True)


def test_the_settings_are_read_back() -> None:
    price = Price(3, 15)
    made = Anthropic(
        "x", max_tokens=9, temperature=0.5, timeout=3, retries=7, price=price, context_window=1000, supports=["vision"]
    )
    assert (made.max_tokens, made.temperature, made.timeout, made.retries, made.price) == (9, 0.5, 3, 7, price)
    assert (made.context_window, made.supports, made.cache) == (1000, frozenset({"vision"}), False)


def test_all_settings_but_the_name_are_given_by_keyword() -> None:
    with pytest.raises(TypeError):
        Anthropic("x", 100)  # type: ignore[misc]


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="top_p"):
        Anthropic("x", top_p=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("cache", "supports", "on"), [(None, ["cache"], True), (None, [], False), (False, None, False)]
)
def test_the_cache_is_on_where_it_is_supported_unless_it_is_turned_off(cache: Any, supports: Any, on: bool) -> None:
    assert Anthropic("x", cache=cache, supports=supports).cache is on


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"thinking": True, "supports": ["vision"]}, r"thinking=True, and supports vision"),
        ({"thinking": 2000, "supports": []}, r"thinking=2000, and supports nothing"),
        ({"cache": True, "supports": ["vision", "thinking"]}, r"cache=True, and supports thinking, vision"),
        ({"thinking": True, "temperature": 1.0}, r"thinking=True and temperature=1.0"),
        ({"thinking": 0}, r"thinking=0 is no budget"),
        ({"thinking": 1023}, r"thinking=1023 is no budget"),
        ({"thinking": 4000, "max_tokens": 4000}, r"max_tokens\) is 4000"),
        ({"thinking": 64_000}, r"max_tokens\) is 64000"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Anthropic("x", **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"thinking": 1024},
        {"thinking": 63_999},
        {"thinking": 100_000, "max_tokens": 128_000},
        {"thinking": False, "temperature": 0.0, "supports": []},
    ],
)
def test_settings_that_go_together_are_accepted(settings: dict[str, Any]) -> None:
    assert Anthropic("x", **settings).thinking == settings["thinking"]


def test_a_key_is_never_shown() -> None:
    made = Anthropic("claude-test", api_key=KEY)
    assert repr(made) == "Anthropic('claude-test')"
    assert not any(KEY in repr(value) for value in vars(made).values())


def test_making_one_loads_no_client() -> None:
    code = "import sys; from alpineagents.models import Anthropic; Anthropic('x', thinking=True); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"anthropic", "httpx", "httpx2", "pydantic"} & set(loaded)


def test_the_request_is_not_marked_for_the_cache_block_by_block() -> None:
    assert Anthropic("x").mark_cache(REQUEST) is REQUEST


# What they send


def sent(server: Server, act: Act, **settings: Any) -> dict[str, Any]:
    act(model(server, **settings), "respond", REQUEST)
    return {key: value for key, value in server.posts[-1].body.items() if key not in ("messages", "stream", "system")}


def test_a_request_is_sent_to_the_messages_of_the_base_url(server: Server, act: Act) -> None:
    act(model(server, base_url=f"{server.url}/proxy"), "respond", REQUEST)
    assert [(sent.method, sent.path) for sent in server.posts] == [("POST", "/proxy/v1/messages")]
    assert server.posts[0].headers["content-type"] == "application/json"


def test_little_is_sent_by_default(server: Server, act: Act) -> None:
    assert sent(server, act, max_tokens=100) == {
        "model": "claude-test",
        "max_tokens": 100,
        "cache_control": {"type": "ephemeral"},
    }


@pytest.mark.parametrize(
    ("settings", "key", "value"),
    [
        ({"temperature": 0.0}, "temperature", 0.0),
        ({"thinking": True}, "thinking", {"type": "adaptive"}),
        ({"thinking": 2048}, "thinking", {"type": "enabled", "budget_tokens": 2048}),
        ({"cache": False}, "cache_control", None),
        ({"supports": []}, "cache_control", None),
    ],
)
def test_a_setting_is_sent(server: Server, act: Act, settings: dict[str, Any], key: str, value: object) -> None:
    assert sent(server, act, max_tokens=10_000, **settings).get(key) == value


def test_the_key_is_sent(server: Server, act: Act) -> None:
    act(model(server), "respond", REQUEST)
    assert any(KEY in value for value in server.posts[0].headers.values())


def test_the_key_comes_from_the_environment(server: Server, act: Act, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-the-environment")
    act(model(server, api_key=None), "respond", REQUEST)
    assert any("sk-ant-of-the-environment" in value for value in server.posts[0].headers.values())


@pytest.mark.parametrize("max_tokens", [None, 100])
@pytest.mark.parametrize("key", [None, ""])
@pytest.mark.usefixtures("no_credentials")
def test_without_a_key_nothing_is_sent(server: Server, act: Act, key: str | None, max_tokens: int | None) -> None:
    with pytest.raises(AuthError, match="ANTHROPIC_API_KEY") as raised:
        act(model(server, api_key=key, max_tokens=max_tokens), "respond", REQUEST)
    assert raised.value.__cause__ is not None
    assert (server.posts, server.gets) == ([], [])


@pytest.mark.usefixtures("no_credentials")
def test_a_key_that_comes_later_is_used(server: Server, act: Act) -> None:
    server.lookup = limit(5000)
    with pytest.raises(AuthError):
        act(model(server, api_key=None), "respond", REQUEST)
    assert sent(server, act)["max_tokens"] == 5000


@pytest.mark.parametrize("key", [f"{KEY}\n", f" {KEY}", f"{KEY}é", "a\x00b"])
def test_a_key_that_no_header_can_hold_is_refused_without_showing_it(server: Server, act: Act, key: str) -> None:
    with pytest.raises(AuthError, match="line break") as raised:
        act(model(server, api_key=key), "respond", REQUEST)
    assert KEY not in str(raised.value)
    assert (raised.value.__cause__, server.posts) == (None, [])


# The output limit


def limit(tokens: object) -> Answer:
    return Answer([json.dumps({"max_tokens": tokens}).encode()], content_type="application/json")


def too_high(sent: int, allowed: int) -> Answer:
    return refusal(400, f"max_tokens: {sent} > {allowed}, which is the maximum", "invalid_request_error")


def test_a_given_limit_is_sent_without_a_lookup(server: Server, act: Act) -> None:
    assert sent(server, act, max_tokens=500_000)["max_tokens"] == 500_000
    assert server.gets == []


@pytest.mark.parametrize(("known", "used"), [(8192, 8192), (64_000, 64_000), (128_000, 64_000)])
def test_the_limit_of_the_model_is_looked_up(server: Server, act: Act, known: int, used: int) -> None:
    server.lookup = limit(known)
    made = model(server)
    act(made, "respond", REQUEST)
    assert server.posts[0].body["max_tokens"] == used
    assert made.max_tokens is None


def test_a_limit_is_looked_up_once_for_all_models_of_a_name(server: Server, act: Act) -> None:
    for _ in range(2):
        act(model(server), "respond", REQUEST)
    assert [sent.path for sent in server.gets] == ["/v1/models/claude-test"]


def test_another_base_url_is_looked_up_again(server: Server, act: Act) -> None:
    for path in ("", "/other"):
        act(model(server, base_url=server.url + path), "respond", REQUEST)
    assert [sent.path for sent in server.gets] == ["/v1/models/claude-test", "/other/v1/models/claude-test"]


def test_a_name_with_a_slash_stays_one_name(server: Server, act: Act) -> None:
    act(Anthropic("eu/claude", api_key=KEY, base_url=server.url), "respond", REQUEST)
    assert server.gets[0].path == "/v1/models/eu%2Fclaude"


@pytest.mark.parametrize(
    "lookup",
    [
        refusal(404, "no such model"),
        refusal(500, "broken"),
        refusal(401, "bad key"),
        Answer([b"<html>"], content_type="text/html"),
        Answer([b"{not json"], content_type="application/json"),
        Answer([b"[1]"], content_type="application/json"),
        Answer([b"{}"], content_type="application/json"),
        Answer(end="reset"),
        *[limit(tokens) for tokens in (0, -1, None, "8192", 8192.5, True)],
    ],
    ids=range(14),
)
def test_a_lookup_that_fails_means_the_default_and_is_not_repeated(server: Server, act: Act, lookup: Answer) -> None:
    server.lookup = lookup
    for _ in range(2):
        act(model(server), "respond", REQUEST)
    assert [sent.body["max_tokens"] for sent in server.posts] == [DEFAULT_MAX_TOKENS, DEFAULT_MAX_TOKENS]
    assert len(server.gets) == 1


def test_a_limit_the_api_names_is_used_and_remembered(server: Server, act: Act) -> None:
    server.lookup = refusal(404, "no such endpoint")
    server.answers.insert(0, too_high(64_000, 8192))
    events: list[Any] = []
    act(model(server), "respond", REQUEST, None, events.append)
    act(model(server), "respond", REQUEST)
    assert [sent.body["max_tokens"] for sent in server.posts] == [64_000, 8192, 8192]
    assert events == []


@pytest.mark.parametrize("allowed", [64_000, 70_000, 0])
def test_a_limit_that_is_not_lower_is_an_ordinary_refusal(server: Server, act: Act, allowed: int) -> None:
    server.answers.insert(0, too_high(64_000, allowed))
    with pytest.raises(ProviderError, match="which is the maximum"):
        act(model(server), "respond", REQUEST)
    assert len(server.posts) == 1


def test_a_limit_for_another_number_is_an_ordinary_refusal(server: Server, act: Act) -> None:
    server.answers.insert(0, too_high(63_000, 8192))
    with pytest.raises(ProviderError):
        act(model(server), "respond", REQUEST)


def test_a_given_limit_is_not_corrected(server: Server, act: Act) -> None:
    server.answers.insert(0, too_high(64_000, 8192))
    with pytest.raises(ProviderError, match="max_tokens: 64000 > 8192"):
        act(model(server, max_tokens=64_000), "respond", REQUEST)


def test_a_budget_over_the_limit_that_was_looked_up_is_refused(server: Server, act: Act) -> None:
    server.lookup = limit(4096)
    with pytest.raises(ValueError, match="is 4096"):
        act(model(server, thinking=4096), "respond", REQUEST)
    assert server.posts == []


def test_a_budget_over_the_limit_that_the_api_named_is_refused(server: Server, act: Act) -> None:
    server.answers.insert(0, too_high(64_000, 4096))
    with pytest.raises(ValueError, match="is 4096"):
        act(model(server, thinking=5000), "respond", REQUEST)
    assert len(server.posts) == 1
