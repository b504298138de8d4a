"""Being asked: the `Human` a run puts its questions to, and how a typed answer becomes a value.

A question asks for text (`str`), for yes or no (`bool`), or for one of a few choices (`Literal[...]`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Self, cast, get_args, get_origin

from alpineagents.errors import explain
from alpineagents.state import State
from alpineagents.waiting import in_thread

__all__ = ["Human", "check_returns", "describe_choices", "parse_answer"]

_TRUTHS = {"y": True, "yes": True, "true": True, "1": True, "n": False, "no": False, "false": False, "0": False}


class Human:
    """The person a run can ask. Implement `ask`, `aask` or both.

    An implementation repeats the question until the answer fits (`parse_answer` says whether it does), holds a second
    question back while one is open, and leaves the State alone.

    Raises:
        TypeError: The class implements neither.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if cls.ask is Human.ask and cls.aask is Human.aask:
            raise TypeError(
                explain(
                    f"{cls.__name__} cannot be asked: it implements neither ask nor aask",
                    "write one of the two methods",
                    f"class {cls.__name__}(Human):\n"
                    "    def ask(self, state, prompt, returns=str):\n"
                    "        return parse_answer(input(prompt), returns)",
                )
            )
        return super().__new__(cls)

    def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
        """The person's answer, as `returns`.

        Args:
            returns: `str`, `bool` or `Literal[...]`.
        Raises:
            TypeError: This person can only be asked in async code.
        """
        raise TypeError(_only_async(self))

    async def aask(self, state: State, prompt: str, returns: Any = str) -> Any:
        """Like `ask`, which by default it calls on a worker thread, so a question does not stop the event loop."""
        return await in_thread(self.ask, state, prompt, returns)


def check_human(human: object) -> None:
    """`TypeError` unless this is an object that can be asked; it need not be a `Human`."""
    if isinstance(human, type):
        raise TypeError(
            explain(f"human takes an object, not the class {human.__name__}", "create one", f"human={human.__name__}()")
        )
    if not callable(getattr(human, "ask", None)) and not callable(getattr(human, "aask", None)):
        raise TypeError(
            explain(
                f"{human!r} cannot be asked: it has neither a method ask nor aask",
                "make it a subclass of Human, or use the one for the terminal",
                "human=Terminal()",
            )
        )


def can_ask(human: object) -> bool:
    """Whether this person can be asked without an event loop."""
    if isinstance(human, Human):
        return type(human).ask is not Human.ask
    return callable(getattr(human, "ask", None))


def ask_person(human: object, state: State, prompt: str, returns: Any) -> Any:
    """Ask anybody whom `check_human` accepts."""
    if not can_ask(human):
        raise TypeError(_only_async(human))
    return cast(Human, human).ask(state, prompt, returns)


async def aask_person(human: object, state: State, prompt: str, returns: Any) -> Any:
    """Ask anybody whom `check_human` accepts; who only has `ask` is asked on a worker thread."""
    aask: Callable[..., Awaitable[Any]] | None = getattr(human, "aask", None)
    if callable(aask):
        return await aask(state, prompt, returns)
    return await in_thread(ask_person, human, state, prompt, returns)


def _only_async(human: object) -> str:
    return explain(
        f"{type(human).__name__} can only be asked in async code: it implements aask, but not ask",
        "ask with aask_human in an async run, or give the class a method ask",
        'await agent.aask_human(state, "Go on?", bool)',
    )


def check_returns(returns: Any) -> None:
    """`TypeError` unless a person can be asked for this: `str`, `bool` or `Literal[...]` with choices."""
    if returns is str or returns is bool or (get_origin(returns) is Literal and get_args(returns)):
        return
    raise TypeError(
        explain(
            f"a person can be asked for str, bool or one of the choices of a Literal, not for {returns!r}",
            "ask for one of these and convert the answer yourself",
            'returns=Literal["keep", "drop"]',
        )
    )


def describe_choices(returns: Any) -> str | None:
    """What may be answered, for the person: `yes/no`, `keep/drop`, or `None` for any text."""
    check_returns(returns)
    if returns is str:
        return None
    return "yes/no" if returns is bool else "/".join([str(choice) for choice in get_args(returns)])


def parse_answer(answer: Any, returns: Any) -> Any:
    """The answer as `returns`.

    Raises:
        ValueError: It does not fit; the text is a hint to show to the person.
        TypeError: Nobody can be asked for `returns`.
    """
    check_returns(returns)
    if returns is str:
        return _text(answer)
    if returns is bool:
        return _truth(answer)
    return _choice(answer, get_args(returns))


def _text(answer: Any) -> str:
    text = str(answer).strip()
    if not text:
        raise ValueError("Empty answers are not accepted. Please type something")
    return text


def _truth(answer: Any) -> bool:
    truth = answer if isinstance(answer, bool) else _TRUTHS.get(str(answer).strip().lower())
    if truth is None:
        raise ValueError("Answer 'yes' or 'no'")
    return truth


def _choice(answer: Any, choices: tuple[Any, ...]) -> Any:
    text = str(answer).strip()
    fitting = [choice for choice in choices if choice == answer] or [c for c in choices if str(c) == text]
    if not fitting:
        raise ValueError(f"Answer with one of: {', '.join([str(choice) for choice in choices])}")
    return fitting[0]
