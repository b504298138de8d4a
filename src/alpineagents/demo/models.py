"""The models of the demo: they say prepared things word by word, as a model behind a network does."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Any

from alpineagents.demo.recording import PRICE
from alpineagents.models.base import OnEvent, OnText
from alpineagents.state import State
from alpineagents.testing import FakeModel, ReplayModel
from alpineagents.values.exchange import Reply, Request

THINKING_S = 0.05
WORD_S = 0.002


class LiveReplayModel(ReplayModel):
    """A `ReplayModel` that takes its time: a pace of 1 is one a person can follow, 0 takes none."""

    def __init__(self, recorded: State, pace: float) -> None:
        super().__init__(recorded)
        self._pace = pace

    def respond(self, request: Request, on_text: OnText | None = None, on_event: OnEvent | None = None) -> Reply:
        """The recorded reply."""
        time.sleep(THINKING_S * self._pace)
        return super().respond(request, _word_by_word(on_text, self._pace), on_event)


class LiveFakeModel(FakeModel):
    """A `FakeModel` that takes its time."""

    def __init__(self, replies: Iterable[Any], pace: float) -> None:
        super().__init__(replies, price=PRICE)
        self._pace = pace

    def respond(self, request: Request, on_text: OnText | None = None, on_event: OnEvent | None = None) -> Reply:
        """The next prepared reply."""
        time.sleep(THINKING_S * self._pace)
        return super().respond(request, _word_by_word(on_text, self._pace), on_event)


def _word_by_word(on_text: OnText | None, pace: float) -> OnText | None:
    if on_text is None or not pace:
        return on_text

    def say(text: str) -> None:
        for word in re.findall(r"\s*\S+|\s+$", text):
            on_text(word)
            time.sleep(WORD_S * pace)

    return say
