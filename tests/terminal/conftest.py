"""Terminals that write to memory."""

from __future__ import annotations

import pytest
from seen import Seen, child, top


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def below() -> Seen:
    """A Terminal that sees the runs of `top` and, below it, of `child`."""
    seen = Seen()
    seen.terminal.on_run_start(top())
    seen.terminal.on_run_start(child())
    seen.output.seek(0)
    seen.output.truncate()
    return seen
