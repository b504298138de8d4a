"""A Model that answers from the history of a State, and checks that each request is the recorded one."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from alpineagents.errors import explain, shown
from alpineagents.history.snapshot import StateSnapshot
from alpineagents.models.base import Model, OnEvent, OnText
from alpineagents.state import State
from alpineagents.store.base import Store
from alpineagents.testing.fake_model import stream
from alpineagents.testing.recording import Answer, Queue, Recording, said
from alpineagents.testing.replay_diff import ReplayMismatch, ReplayWarning, described, first_difference
from alpineagents.values.content import Message
from alpineagents.values.exchange import Reply, Request
from alpineagents.values.usage import Usage


class ReplayModel(Model):
    """Answers as the model of a recorded run did, as long as the conversation takes the recorded path.

    A `think` gets the next recorded reply if its messages are the recorded ones, a summary likewise; a question gets
    the answer recorded for the same question. System prompt, tools and settings are in no history and not compared.

    Args:
        source: A State or StateSnapshot, a store that has the State, or several States in a list: then each request
            goes to the first whose next messages it has.
        id: The State's id in the store; with no other source.
        strict: `False` warns with `ReplayWarning` where a request differs, and gives the recorded answer.
    Attributes:
        requests: Every request received.
    Raises:
        TypeError: The source is none of these, or `id` is missing or too much.
        ValueError: The list of States is empty. What `store.load` raises comes through.

    Example:
        model = ReplayModel(recorded)
        agent.copy(model=model, store=None).run(State(messages=recorded.history[0].content.messages))
        assert model.remaining == 0
    """

    def __init__(
        self,
        source: State | StateSnapshot | Store | Sequence[State | StateSnapshot],
        id: str | None = None,
        *,
        strict: bool = True,
        context_window: int = 200_000,
    ) -> None:
        states = _states(source, id)
        count = len(states)
        self._recordings = [
            Recording(state.history, f" in recording {number} of {count}" if count > 1 else "")
            for number, state in enumerate(states, 1)
        ]
        self.provider, self.name = _identity(self._recordings)
        self.requests: list[Request] = []
        self._strict = strict
        self._context_window = context_window
        self._lock = threading.Lock()
        self._asked: list[tuple[tuple[Message, ...], str]] = []

    @property
    def context_window(self) -> int:
        """As given."""
        return self._context_window

    @property
    def remaining(self) -> int:
        """How many recorded replies, answers and summaries are not used yet."""
        return sum([recording.remaining for recording in self._recordings])

    def respond(self, request: Request, on_text: OnText | None = None, on_event: OnEvent | None = None) -> Reply:
        """The recorded reply, or the recorded answer when the request forbids tools.

        Raises:
            ReplayMismatch: The request is not the recorded one, or nothing is recorded for it. No answer is used.
        """
        self.requests.append(request)
        if request.tool_choice == "none":
            reply = self._answer_to(request)
        else:
            answer = self._next([recording.replies for recording in self._recordings], request)
            if on_event is not None:
                for event in answer.events:
                    on_event(event)
            reply = answer.reply
        stream(reply, on_text)
        return reply

    def compact(self, request: Request, instructions: str | None = None, on_event: OnEvent | None = None) -> Reply:
        """The recorded summary; `instructions` are not compared.

        Raises:
            ReplayMismatch: As for `respond`.
        """
        self.requests.append(request)
        answer = self._next([recording.summaries for recording in self._recordings], request)
        return replace(answer.reply, model=self.name)

    def _next(self, queues: list[Queue], request: Request) -> Answer:
        with self._lock:
            unused = [queue for queue in queues if queue.remaining]
            for queue in unused:
                if queue.fits(request.messages):
                    return queue.take()
            if not unused:
                raise ReplayMismatch(self._nothing_left(queues, request))
            queue = unused[0]
            difference = described(f"{self!r}: {queue.request}", queue.next.expected, request.messages)
            if self._strict:
                raise ReplayMismatch(*difference)
            answer = queue.take()
        warnings.warn(ReplayWarning(*difference), stacklevel=3)
        return answer

    def _answer_to(self, request: Request) -> Reply:
        question = _last_text(request)
        with self._lock:
            found = self._recorded_answer(question)
            if found is None:
                text, usage = self._earlier_answer(request), Usage()
            else:
                text, usage = found
                self._asked.append((request.messages, text))
        return replace(said(text, usage), model=self.name)

    def _recorded_answer(self, question: str) -> tuple[str, Usage] | None:
        for recording in self._recordings:
            for index, entry in enumerate(recording.questions):
                asked, answer = entry.content.question, entry.content.answer
                as_text = question == asked
                if as_text or question.startswith(f"{asked}\n\n"):
                    del recording.questions[index]
                    return _answer_text(answer, as_text), entry.usage or Usage()
        return None

    def _earlier_answer(self, request: Request) -> str:
        """The answer that another attempt at the same question got."""
        for messages, text in reversed(self._asked):
            count = len(messages)
            if len(request.messages) > count and first_difference(messages, request.messages[:count]) is None:
                return text
        raise ReplayMismatch(
            explain(
                f"{self!r}: no unused question of the recording is {shown(_last_text(request), 200)}",
                "ask what was asked when it was recorded, or record the run again",
            )
        )

    def _nothing_left(self, queues: list[Queue], request: Request) -> str:
        count = sum([len(queue.answers) for queue in queues])
        return explain(
            f"{self!r}: this is request {count + 1} for a {queues[0].kind}, and the recording has {count}; its last "
            f"message is {shown(_last_text(request), 200)}",
            "find out why the run goes on longer than the recorded one, or record it again",
        )


def _states(source: object, id: str | None) -> list[State | StateSnapshot]:
    load = getattr(source, "load", None)
    if callable(load):
        if id is None:
            raise TypeError(
                explain("ReplayModel needs the id of a State in the store", "give it", 'ReplayModel(store, "bug-1")')
            )
        return [cast("Store", source).load(id)]
    if id is not None:
        raise TypeError(explain(f"ReplayModel takes an id with a store, not with {shown(source)}", "leave id out"))
    if not isinstance(source, list | tuple):
        return [_recorded(source)]
    if not source:
        raise ValueError(explain("ReplayModel got an empty list: there is nothing to replay", "give a recorded State"))
    return [_recorded(item) for item in cast("list[object]", source)]


def _recorded(item: object) -> State | StateSnapshot:
    if isinstance(item, State | StateSnapshot):
        return item
    raise TypeError(
        explain(
            f"ReplayModel replays States, and this is {type(item).__name__}: {shown(item)}",
            "give a State, a StateSnapshot, a list of them, or a store and an id",
            'ReplayModel(store, "bug-1")',
        )
    )


def _identity(recordings: list[Recording]) -> tuple[str, str]:
    names = [recording.model for recording in recordings] + [recording.agent_model for recording in recordings]
    name = next((name for name in names if name is not None), "replay/replay")
    provider, slash, rest = name.partition("/")
    return (provider, rest) if slash else ("", name)


def _answer_text(answer: Any, as_text: bool) -> str:
    if as_text and (answer is None or isinstance(answer, str)):
        return answer or ""
    return json.dumps(answer, ensure_ascii=False)


def _last_text(request: Request) -> str:
    return request.messages[-1].text if request.messages else ""
