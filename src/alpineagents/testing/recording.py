"""What a history has to answer requests with: replies, summaries and answers to questions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from alpineagents.history.entries import (
    ContextChange,
    ContextChangeEntry,
    ExchangeEntry,
    HistoryEntry,
    ModelEventEntry,
    ModelReplyEntry,
    ModelRequestEntry,
    RunStartEntry,
)
from alpineagents.history.replay import fold
from alpineagents.history.value import EMPTY
from alpineagents.testing.replay_diff import first_difference
from alpineagents.values.content import Message
from alpineagents.values.exchange import ModelEvent, Reply
from alpineagents.values.log import Log
from alpineagents.values.usage import Usage


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply or summary, and what its request was: all of `messages` but the last `kept`.

    Attributes:
        turn: The State's turn when it was recorded.
        events: What the Model reported before it replied.
    """

    reply: Reply
    turn: int
    messages: Log[Message]  # a Log, because the tuples of all requests together would be quadratic
    kept: int = 0
    events: tuple[ModelEvent, ...] = ()

    @property
    def expected(self) -> tuple[Message, ...]:
        return self.messages.whole()[: max(0, len(self.messages) - self.kept)]


class Queue:
    """The answers of one kind in one recording, given in their order."""

    def __init__(self, kind: str, place: str) -> None:
        self.answers: list[Answer] = []
        self.kind = kind
        self._place = place
        self._used = 0
        self._fitted: tuple[tuple[Message, ...], tuple[Message, ...]] = ((), ())

    @property
    def remaining(self) -> int:
        return len(self.answers) - self._used

    @property
    def next(self) -> Answer:
        return self.answers[self._used]

    def fits(self, messages: tuple[Message, ...]) -> bool:
        """Whether the next answer's request had these messages."""
        expected = self.next.expected
        recorded, received = self._fitted
        # Each request repeats the conversation. The part that fitted last time is mostly the same objects again, which
        # tuples find out much faster than a comparison of contents would.
        known = len(received)
        if expected[:known] != recorded or messages[:known] != received:
            known = 0
        if first_difference(expected[known:], messages[known:]) is not None:
            return False
        self._fitted = (expected, messages)
        return True

    def take(self) -> Answer:
        self._used += 1
        return self.answers[self._used - 1]

    @property
    def request(self) -> str:
        """Which request comes next, in words."""
        which = f"{_ordinal(self._used + 1)} of {len(self.answers)}"
        return f"the request for a {self.kind}, {which}{self._place} (turn {self.next.turn}),"


class Recording:
    """What a history has to answer with.

    Attributes:
        questions: The `ask` entries that are not used yet.
        model: The identity of the first Model that was asked. agent_model: That of the first run.
    """

    def __init__(self, history: Iterable[HistoryEntry], place: str = "") -> None:
        self.replies = Queue("reply", place)
        self.summaries = Queue("summary", place)
        self.questions: list[ExchangeEntry] = []
        self.model: str | None = None
        self.agent_model: str | None = None
        self._sent = Log[Message]()
        self._events: list[ModelEvent] = []
        now = EMPTY
        for entry in history:
            before, now = now.messages, fold((entry,), now)
            self._note(entry, before, now.messages)

    def _note(self, entry: HistoryEntry, before: Log[Message], after: Log[Message]) -> None:
        match entry:
            case ModelRequestEntry(content=model):
                self._sent, self._events = after, []
                self.model = model if self.model is None else self.model
            case ModelEventEntry(content=event):
                self._events.append(event)
            case ModelReplyEntry(content=reply, turn=turn):
                self.replies.answers.append(Answer(reply, turn, self._sent, events=tuple(self._events)))
            case ContextChangeEntry(
                content=ContextChange("compact", summary=str(summary), usage=Usage() as usage) as change
            ):
                self.summaries.answers.append(Answer(said(summary, usage), entry.turn, before, change.kept))
            case ExchangeEntry(kind="ask"):
                self.questions.append(entry)
            case RunStartEntry(content=agent) if self.agent_model is None:
                self.agent_model = agent.model
            case _:
                pass

    @property
    def remaining(self) -> int:
        return self.replies.remaining + self.summaries.remaining + len(self.questions)


def said(text: str, usage: Usage) -> Reply:
    """A reply of one text."""
    return Reply(Message.assistant(text), usage, stop_reason="end_turn")


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(number % 10, 'th')}"
