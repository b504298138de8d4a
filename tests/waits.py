"""Ctrl+C at every wait of a sync action."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import alpineagents.agent
from alpineagents.waiting import Ready


class Interrupting:
    """`blocking`, with Ctrl+C before or behind the waits of these numbers."""

    def __init__(self, *where: tuple[int, bool]) -> None:
        self.where = set(where)
        self.count = 0

    def __call__(self, sync: Callable[..., Any], asynchronous: Any, /, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        number = self.count
        self.count += 1
        if (number, False) in self.where:
            raise KeyboardInterrupt(f"before {number}")
        value = sync(*args, **kwargs)
        if (number, True) in self.where:
            raise KeyboardInterrupt(f"behind {number}")
        return Ready(value)


def waits_of(monkeypatch: pytest.MonkeyPatch, act_by_hand: Callable[[], object], *where: tuple[int, bool]) -> int:
    """Act with Ctrl+C at these waits; how many there were."""
    interrupting = Interrupting(*where)
    with monkeypatch.context() as patched:
        patched.setattr(alpineagents.agent, "blocking", interrupting)
        try:
            act_by_hand()
        except KeyboardInterrupt:
            assert where
    return interrupting.count
