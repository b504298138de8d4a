"""What applies here: in a run its settings, in a tool call what a run started there becomes.

A context variable says where this code is, so that it follows into the tasks and worker threads that are given the
context: in a run, or in a tool call. A run that starts in a tool call is a subagent, and takes over from the run above
what its Agent was not given. Actions of an Agent inside its own run use the settings of the run; another Agent there
uses its own, but may not do what the runs above deny.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from alpineagents.children import Family
from alpineagents.human import Human
from alpineagents.permissions import AllowByDefault, DenyPermission, Rule
from alpineagents.reporter import EVENTS, Reporter
from alpineagents.state import State
from alpineagents.store.base import Store
from alpineagents.values.content import ToolCall

DATABASE_VARIABLE = "ALPINEAGENTS_DB"


@dataclass(frozen=True, slots=True)
class Settings:
    """Who hears of a run, who is asked, where it is kept, and who is asked before its calls.

    Attributes:
        bounds: What the runs above deny: another Agent at work in this run may not do it either.
        human_inherited: Whether `human` is that of the run above.
        from_environment: Whether `store` was named by the environment variable rather than by an Agent.
    """

    reporter: Reporter | None
    human: Human | None
    store: Store | None
    permissions: tuple[Rule, ...] | None = None
    bounds: tuple[Rule, ...] = ()
    human_inherited: bool = False
    from_environment: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """The run going on here: whose it is, and with what settings."""

    agent: object
    settings: Settings


class Calling(Family):
    """A tool call being carried out here.

    Attributes:
        state: The State that asked for it. settings: Those of the Agent that carries it out.
        run: The run around it, if there is one.
    """

    __slots__ = ("run", "settings", "state")

    def __init__(self, state: State, call: ToolCall, opened: int | None, settings: Settings, run: Run | None) -> None:
        self.call = call
        self.opened = opened
        self.members = []
        self.counted = None
        self.state = state
        self.settings = settings
        self.run = run


Place: TypeAlias = Run | Calling | None


def combined(above: tuple[Rule, ...] | None, own: tuple[Rule, ...] | None) -> tuple[Rule, ...] | None:
    """The permissions of a subagent's run.

    Args:
        above: Those of the run whose tool call started it.
        own: Those of the subagent's Agent; `None` takes over all of `above`.
    """
    return above if own is None else (*denials(above), *own)


def bounded(above: tuple[Rule, ...] | None, own: tuple[Rule, ...] | None) -> tuple[Rule, ...] | None:
    """The permissions of another Agent at work inside a subagent's run: what the runs above deny, it may not either.

    Args:
        above: Those of the run above that subagent.
        own: Those of the other Agent; with `None` it may do whatever nothing denies.
    """
    denying = denials(above)
    if not denying:
        return own
    return (*denying, *((Rule(AllowByDefault(), None),) if own is None else own))


def denials(rules: tuple[Rule, ...] | None) -> tuple[Rule, ...]:
    """Those that nobody further down can get around."""
    return tuple([rule for rule in rules or () if isinstance(rule.permission, DenyPermission)])


_here: contextvars.ContextVar[Place] = contextvars.ContextVar("here", default=None)


def run_here() -> Run | None:
    """The run going on here, also around a tool call."""
    place = _here.get()
    return place.run if isinstance(place, Calling) else place


def calling_here() -> Calling | None:
    """The tool call being carried out here, if no run has started in it."""
    place = _here.get()
    return place if isinstance(place, Calling) else None


def in_force(agent: object) -> Settings | None:
    """The settings of this Agent's run, if this is one; otherwise an action uses the Agent's own."""
    run = run_here()
    return run.settings if run is not None and run.agent is agent else None


def bounds_here() -> tuple[Rule, ...]:
    """What the runs above this one deny."""
    run = run_here()
    return () if run is None else run.settings.bounds


def enter_run(run: Run) -> contextvars.Token[Place]:
    """Say that this run is the one going on here."""
    return _here.set(run)


def leave_run(token: contextvars.Token[Place]) -> None:
    """Take back `enter_run`, and `leave_call`."""
    _here.reset(token)


def enter_call(calling: Calling) -> None:
    """Say that this call is carried out in this context, to its end."""
    _here.set(calling)


def outside_calls(function: Callable[..., Any], /, *args: Any) -> Any:
    """Call a function that is no part of the tool call here, such as a Reporter's: a run it starts is no subagent."""
    if calling_here() is None:
        return function(*args)
    token = enter_outside()
    try:
        return function(*args)
    finally:
        leave_run(token)


def enter_outside() -> contextvars.Token[Place]:
    """Say that what follows is no part of the tool call here; `leave_run` takes it back."""
    return _here.set(run_here())


def heard_outside(reporter: Reporter | None) -> Reporter | None:
    """The Reporter, for what an Agent does inside a tool call."""
    return reporter if reporter is None or calling_here() is None else _OutsideReporter(reporter)


class _OutsideReporter(Reporter):
    """Tells another Reporter everything, outside of the tool call here."""

    def __init__(self, reporter: Reporter) -> None:
        for event in EVENTS:
            setattr(self, event, _outside(getattr(reporter, event)))


def _outside(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: outside_calls(method, *args)
