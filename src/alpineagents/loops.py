"""Loops: functions of an Agent and a State, and `@loop`, which repeats a function of one turn until it should stop."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from alpineagents.blocks import acompact_if_full, compact_if_full
from alpineagents.errors import explain
from alpineagents.history import rules
from alpineagents.history.rules import Entries
from alpineagents.history.value import Value
from alpineagents.state import State, journal_of
from alpineagents.values.outcomes import (
    Stopped,
    StoppedByFinish,
    StoppedByLimit,
    StoppedByPermission,
    StoppedByUntil,
)
from alpineagents.waiting import Wait, awaiting, blocking, complete, enter_async_run, leave_async_run

Condition: TypeAlias = Callable[[State], bool]
Until: TypeAlias = Condition | list[Condition] | tuple[Condition, ...]
Body: TypeAlias = Callable[[Any, State], Any]

_MISSING: Any = object()
_EXAMPLE = "@loop(until=waiting_for_user, limit=30)\ndef my_loop(agent, state):\n    agent.think(state)"


class Loop:
    """A body of one turn, repeated until a condition holds, a limit is reached or the State is told to stop.

    Args:
        body: Called as `body(agent, state)` for each turn; a function or any callable, sync or async.
        until: A function of the State, or a list of them; asked before every turn.
        limit: The most turns of one call, at least 1.
    Raises:
        TypeError: `until` or `limit` is missing or of a wrong kind.
        ValueError: `limit` is below 1.
    """

    body: Body
    until: tuple[Condition, ...]
    limit: int
    is_async: bool

    def __init__(self, body: Body, *, until: Until = _MISSING, limit: int = _MISSING) -> None:
        functools.update_wrapper(self, body, updated=())
        self.body = body
        self.until = _conditions(until)
        self.limit = _limit(limit)
        self.is_async = is_async_loop(body)
        _warn_of_lambdas(self.until)

    def copy(self, *, until: Until = _MISSING, limit: int = _MISSING) -> Loop:
        """A new Loop with the same body and other conditions or another limit."""
        return Loop(
            self.body,
            until=self.until if until is _MISSING else until,
            limit=self.limit if limit is _MISSING else limit,
        )

    def __call__(self, agent: Any, state: State) -> Any:
        """Run turns until the loop stops; gives `state.answer`, or a coroutine of it for an async body."""
        if self.is_async:
            return self._call_async(agent, state)
        return complete(self._turns(blocking, agent, state))

    async def _call_async(self, agent: Any, state: State) -> Any:
        token = enter_async_run()
        try:
            return await self._turns(awaiting, agent, state)
        finally:
            leave_async_run(token)

    async def _turns(self, wait: Wait, agent: Any, state: State) -> Any:
        journal = journal_of(state)
        turns = 0
        while True:
            stopped = self._reason_to_stop(state, turns)
            if stopped != journal.now.stopped:
                await wait(journal.record, journal.arecord, _stop, stopped)
            if journal.through:
                await wait(journal.commit, journal.acommit)
            if stopped is not None or _is_decided(journal.now):
                return state.answer
            self._check_returned(await wait(self.body, self.body, agent, state))
            turns += 1

    def _reason_to_stop(self, state: State, turns: int) -> Stopped | None:
        now = journal_of(state).now
        if _is_decided(now):
            return now.stopped
        if now.finished:
            return StoppedByFinish()
        for condition in self.until:
            if condition(state):
                return StoppedByUntil(_name(condition))
        return StoppedByLimit(self.limit) if turns >= self.limit else None

    def _check_returned(self, value: Any) -> None:
        if value is None or isinstance(self.body, Loop):
            return
        name = _name(self.body)
        if inspect.isawaitable(value):
            close = getattr(value, "close", None)
            if callable(close):
                close()
            raise TypeError(explain(f"the loop body {name} returned an awaitable", f"write it as async def {name}"))
        raise TypeError(
            explain(
                f"the loop body {name} returned {value!r}, and a body returns nothing",
                "call state.finish(answer) to end the run with an answer",
                "state.finish(answer)",
            )
        )

    def __repr__(self) -> str:
        return f"Loop({_name(self.body)}, until=[{', '.join([_name(c) for c in self.until])}], limit={self.limit})"


def _is_decided(now: Value) -> bool:
    """Whether the State itself says that all loops stop."""
    return isinstance(now.stopped, StoppedByFinish | StoppedByPermission)


def _stop(now: Value, stopped: Stopped | None) -> Entries:
    """The loop's own reason to stop, or to go on, unless the State has decided: a condition or another thread may."""
    return () if _is_decided(now) else rules.stop(now, stopped)


def loop(*bodies: Any, until: Until = _MISSING, limit: int = _MISSING) -> Callable[[Body], Loop]:
    """Turn a function of one turn into a Loop.

    Args:
        until: A function of the State that says when to stop, or a list of them.
        limit: The most turns of one call, at least 1.
    Raises:
        TypeError: Used without parentheses, or `until` or `limit` is missing or of a wrong kind.
        ValueError: `limit` is below 1.
    """
    if bodies:
        raise TypeError(explain("@loop needs until and limit, both by name", "use it with parentheses", _EXAMPLE))
    checked, most = _conditions(until), _limit(limit)
    return lambda body: Loop(body, until=checked, limit=most)


def _conditions(until: Any) -> tuple[Condition, ...]:
    if until is _MISSING or until is None:
        raise TypeError(
            explain("a loop needs both until and limit, and until is missing", "say when it stops", _EXAMPLE)
        )
    conditions: Sequence[Any] = cast("Sequence[Any]", until) if isinstance(until, list | tuple) else (until,)
    for condition in conditions:
        _check_condition(condition)
    return tuple(conditions)


def _check_condition(condition: Any) -> None:
    if isinstance(condition, bool):
        raise TypeError(
            explain(
                f"until takes a function, not {condition!r}: it was called",
                "pass the function without parentheses",
                "until=waiting_for_user",
            )
        )
    if not callable(condition):
        found = f"{type(condition).__name__}: {condition!r}"
        raise TypeError(explain(f"until takes a function or a list of functions, not {found}", example=_EXAMPLE))
    if inspect.iscoroutinefunction(condition):
        raise TypeError(explain(f"the until function {_name(condition)} is async", "write it as a plain def"))


def _warn_of_lambdas(until: tuple[Condition, ...]) -> None:
    for condition in until:
        if _name(condition) == "<lambda>":
            message = "a lambda in until shows as '<lambda>' in state.stopped: give the condition a name with def"
            warnings.warn(message, UserWarning, stacklevel=_depth_here())


def _depth_here() -> int:
    """How many calls up the line is that made the loop, so that a warning can show it."""
    frame, depth = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame, depth = frame.f_back, depth + 1
    return depth


def _limit(limit: Any) -> int:
    if limit is _MISSING or limit is None:
        raise TypeError(
            explain("a loop needs both until and limit, and limit is missing", "say how many turns", _EXAMPLE)
        )
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(explain(f"limit is a number of turns, not {type(limit).__name__}: {limit!r}", example=_EXAMPLE))
    if limit < 1:
        raise ValueError(explain(f"limit must be at least 1, not {limit}", "allow one turn or more", _EXAMPLE))
    return limit


def _name(function: Any) -> str:
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__


def is_async_loop(body: Any) -> bool:
    """Whether calling this loop gives something to await."""
    while isinstance(body, functools.partial):
        body = cast("functools.partial[Any]", body).func
    if isinstance(body, Loop):
        return body.is_async
    how_called: Any = type(body).__call__ if callable(body) else None
    return inspect.iscoroutinefunction(body) or inspect.iscoroutinefunction(how_called)


def waiting_for_user(state: State) -> bool:
    """Whether the conversation ends in a reply that asks for no tools."""
    now: Value = journal_of(state).now
    if now.calls or not len(now.messages):
        return False
    last = now.messages[-1]
    return last.role == "assistant" and not last.tool_calls


@loop(until=waiting_for_user, limit=50)
def default_loop(agent: Any, state: State) -> None:
    """One turn: make room if it is time to, ask the model, and run the tools it asked for."""
    compact_if_full(agent, state)
    agent.think(state)
    if state.pending_calls:
        agent.use_tools(state)


@loop(until=waiting_for_user, limit=50)
async def adefault_loop(agent: Any, state: State) -> None:
    """`default_loop` for `arun`."""
    await acompact_if_full(agent, state)
    await agent.athink(state)
    if state.pending_calls:
        await agent.ause_tools(state)
