"""Models by name: `anthropic/claude-opus-5`, `openai/gpt-5`, `ollama/llama3:8b`, and names that tell by themselves."""

from __future__ import annotations

import inspect
from typing import Any

from alpineagents.errors import explain, shown
from alpineagents.models.anthropic import Anthropic
from alpineagents.models.base import Model
from alpineagents.models.openai_compatible import OpenAICompatible

_OLLAMA = "http://localhost:11434/v1"
_PROVIDERS = "anthropic, openai, ollama"
_OTHER_SERVER = 'OpenAICompatible("llama3:8b", base_url="http://localhost:8000/v1")'


def resolve_model(model: str | Model, **options: Any) -> Model:
    """The Model of this name, made without network or key; one that is a Model already stays as it is.

    Args:
        options: Settings of the adapter that the name leads to. With `base_url=` any name is that of a model there.
    Raises:
        TypeError: `model` is neither, or an option is none that the adapter takes.
        ValueError: No provider follows from the name.

    Example:
        from alpineagents.models import resolve_model

        resolve_model("anthropic/claude-opus-5", thinking=True)
        resolve_model("qwen3", base_url="http://localhost:8000/v1", price=Price(input=0, output=0))
    """
    if isinstance(model, Model):
        return _as_it_is(model, options)
    if not isinstance(model, str):
        raise TypeError(_not_a_model(model))
    adapter, name, base_url = _route(model, options.pop("base_url", None))
    if base_url is not None:
        options["base_url"] = base_url
    _check_options(adapter, options)
    return adapter(name, **options)


def _route(model: str, base_url: Any) -> tuple[type[Anthropic | OpenAICompatible], str, Any]:
    """The adapter, the model's name for it, and where the server is."""
    provider, slash, name = model.partition("/")
    if not model or (slash and not name):
        raise ValueError(explain(f"{model!r} names no model", _name_fix(), 'Agent(model="anthropic/claude-opus-5")'))
    if slash and provider == "ollama":
        return OpenAICompatible, name, _OLLAMA if base_url is None else base_url
    if base_url is not None:
        return OpenAICompatible, model, base_url
    if slash:
        return _adapter_of(model, provider), name, None
    if model.startswith("claude-"):
        return Anthropic, model, None
    if model.startswith("gpt-"):
        return OpenAICompatible, model, None
    raise ValueError(
        explain(
            f"{shown(model)} does not say which provider it is of",
            "put the provider in front of it",
            f'Agent(model="anthropic/{model}")\nAgent(model="openai/{model}")\nAgent(model="ollama/{model}")',
        )
    )


def _adapter_of(model: str, provider: str) -> type[Anthropic | OpenAICompatible]:
    if provider == "anthropic":
        return Anthropic
    if provider == "openai":
        return OpenAICompatible
    raise ValueError(
        explain(
            f"{shown(model)} is of the provider {provider!r}, which is not known; known are {_PROVIDERS}",
            "name the server of any other with OpenAICompatible(..., base_url=...)",
            _OTHER_SERVER,
        )
    )


def _name_fix() -> str:
    return f"write provider/model; providers are {_PROVIDERS}"


def _as_it_is(model: Model, options: dict[str, Any]) -> Model:
    if options:
        raise TypeError(
            explain(
                f"{model!r} is a Model already, and takes no {', '.join(f'{name}=' for name in options)}",
                "set it where the Model is made",
                "OpenAICompatible(name, temperature=0.2)",
            )
        )
    return model


def _not_a_model(model: object) -> str:
    if isinstance(model, type):
        problem = f"model is a Model object or a name, and {model.__name__} is the class"
        return explain(problem, "make an object of it", f"Agent({model.__name__}(...))")
    problem = f"model is a Model object or a name, not {shown(model)}"
    return explain(problem, _name_fix(), 'Agent(model="anthropic/claude-opus-5")')


def _check_options(adapter: type[Model], options: dict[str, Any]) -> None:
    parameters = inspect.signature(adapter).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            raise TypeError(
                explain(f"{adapter.__name__} takes no {name}=", f"it takes {', '.join(f'{one}=' for one in known)}")
            )
