"""A person whose answers are prepared."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Any

from alpineagents.errors import explain, shown
from alpineagents.human import Human, check_returns, parse_answer
from alpineagents.state import State
from alpineagents.values.content import frozen_tuple


class FakeHuman(Human):
    """Answers questions from a list; an answer that does not fit is used up, as if it had been typed by mistake.

    Attributes:
        questions: Every question asked so far.
    Raises:
        TypeError: `answers` is no iterable, or one `str`.

    Example:
        human = FakeHuman(["maybe", "yes"])
        assert human.ask(None, "Delete it?", bool) is True
    """

    def __init__(self, answers: Iterable[Any]) -> None:
        if isinstance(answers, str):
            raise TypeError(
                explain(
                    f"FakeHuman takes a list of answers, not one str: {shown(answers)}",
                    "put it into a list",
                    f"FakeHuman([{shown(answers)}])",
                )
            )
        self.questions: list[str] = []
        self._answers = deque(frozen_tuple("FakeHuman", answers))
        self._turn = threading.Lock()

    @property
    def remaining(self) -> int:
        """How many answers are not used yet."""
        return len(self._answers)

    def ask(self, state: State | None, prompt: str, returns: Any = str) -> Any:
        """The next answer that fits.

        Args:
            state: Not looked at.
        Raises:
            TypeError: Nobody can be asked for `returns`.
            RuntimeError: No answer is left.
        """
        check_returns(returns)
        with self._turn:
            self.questions.append(prompt)
            while self._answers:
                try:
                    return parse_answer(self._answers.popleft(), returns)
                except ValueError:  # it does not fit
                    continue
        raise RuntimeError(
            explain(f"FakeHuman has no answer left that fits the question {prompt!r}", "prepare one more answer")
        )
