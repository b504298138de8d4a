"""What answers: the contract of every Model, and the Models for real providers."""

from __future__ import annotations

from alpineagents.models.anthropic import Anthropic
from alpineagents.models.base import Model
from alpineagents.models.openai_compatible import OpenAICompatible
from alpineagents.models.resolve import resolve_model

__all__ = ["Anthropic", "Model", "OpenAICompatible", "resolve_model"]
