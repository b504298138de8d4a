"""Which model a name leads to."""

from __future__ import annotations

from typing import Any

import pytest

from alpineagents import Agent, Anthropic, OpenAICompatible
from alpineagents.models import resolve_model
from alpineagents.testing import FakeModel
from alpineagents.types import Price

HERE = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("name", "options", "kind", "sent", "base_url"),
    [
        ("anthropic/claude-opus-5", {}, Anthropic, "claude-opus-5", None),
        ("anthropic/a/b", {}, Anthropic, "a/b", None),
        ("claude-opus-5", {}, Anthropic, "claude-opus-5", None),
        ("openai/gpt-5", {}, OpenAICompatible, "gpt-5", None),
        ("gpt-5", {}, OpenAICompatible, "gpt-5", None),
        ("ollama/llama3:8b", {}, OpenAICompatible, "llama3:8b", "http://localhost:11434/v1"),
        ("ollama/llama3:8b", {"base_url": HERE}, OpenAICompatible, "llama3:8b", HERE),
        ("ollama/llama3:8b", {"base_url": None}, OpenAICompatible, "llama3:8b", "http://localhost:11434/v1"),
        ("acme/large", {"base_url": HERE}, OpenAICompatible, "acme/large", HERE),
        ("anthropic/claude", {"base_url": HERE}, OpenAICompatible, "anthropic/claude", HERE),
        ("claude-opus-5", {"base_url": HERE}, OpenAICompatible, "claude-opus-5", HERE),
        ("large", {"base_url": HERE}, OpenAICompatible, "large", HERE),
        ("gpt-5", {"base_url": None}, OpenAICompatible, "gpt-5", None),
        (" large ", {"base_url": HERE}, OpenAICompatible, " large ", HERE),
    ],
)
def test_a_name_leads_to_a_model(name: str, options: dict[str, Any], kind: type, sent: str, base_url: Any) -> None:
    made = resolve_model(name, **options)
    assert type(made) is kind
    assert made.name == sent
    assert getattr(made, "base_url", None) == base_url


@pytest.mark.parametrize("options", [{}, {"base_url": HERE}])
@pytest.mark.parametrize("name", ["", "anthropic/", "ollama/", "acme/", "/"])
def test_a_name_that_names_no_model_is_refused(name: str, options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="names no model"):
        resolve_model(name, **options)


@pytest.mark.parametrize("name", ["acme/large", "Anthropic/claude", " openai/gpt-5", "/x"])
def test_an_unknown_provider_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match=r"anthropic, openai, ollama[\s\S]*base_url="):
        resolve_model(name)


@pytest.mark.parametrize("name", ["large", "Claude-opus", "gpt", "o3-mini"])
def test_a_name_without_a_provider_shows_how_to_give_one(name: str) -> None:
    with pytest.raises(ValueError, match=f'anthropic/{name}"[\\s\\S]*openai/{name}"[\\s\\S]*ollama/{name}"'):
        resolve_model(name)


def test_a_model_stays_as_it_is() -> None:
    model = FakeModel(["Hi"])
    assert resolve_model(model) is model


@pytest.mark.parametrize("options", [{"temperature": 1}, {"base_url": None}])
def test_options_are_for_names(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(options))):
        resolve_model(FakeModel(["Hi"]), **options)


@pytest.mark.parametrize("wrong", [None, 7, b"gpt-5", FakeModel, ["gpt-5"]])
def test_anything_else_is_no_model(wrong: Any) -> None:
    with pytest.raises(TypeError, match="model is a Model object or a name"):
        resolve_model(wrong)


def test_options_are_those_of_the_adapter() -> None:
    made = resolve_model("anthropic/claude-opus-5", thinking=True, price=Price(3, 15))
    assert made.price == Price(3, 15)
    with pytest.raises(TypeError, match=r"OpenAICompatible takes no thinking=[\s\S]*temperature="):
        resolve_model("gpt-5", thinking=True)
    with pytest.raises(TypeError, match="Anthropic takes no name="):
        resolve_model("claude-opus-5", **{"name": "x"})


def test_the_checks_of_the_adapter_come_through() -> None:
    with pytest.raises(ValueError, match="thinking"):
        resolve_model("claude-opus-5", supports=[], thinking=True)


def test_an_agent_takes_a_name() -> None:
    made = Agent("anthropic/claude-opus-5")
    assert isinstance(made.model, Anthropic)
    assert isinstance(made.copy(model="gpt-5").model, OpenAICompatible)
    assert repr(made) == "Agent(model='anthropic/claude-opus-5', tools=[])"
    with pytest.raises(ValueError, match="does not say which provider"):
        Agent("large")
