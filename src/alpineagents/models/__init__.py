"""What answers: the contract of every Model."""

from __future__ import annotations

from alpineagents.models.base import Model

__all__ = ["Model"]
