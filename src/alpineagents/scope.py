"""What applies to the run going on here.

A run notes its Agent and the settings it uses in a context variable, so that they follow into the tasks and worker
threads that the run starts. Actions of that Agent inside the run use them; another Agent uses its own.
"""

from __future__ import annotations

import contextvars
from dataclasses import dataclass

from alpineagents.human import Human
from alpineagents.permissions import Rule
from alpineagents.reporter import Reporter
from alpineagents.store.base import Store

DATABASE_VARIABLE = "ALPINEAGENTS_DB"


@dataclass(frozen=True, slots=True)
class Settings:
    """Who hears of a run, who is asked, where it is kept, and who is asked before its calls."""

    reporter: Reporter | None
    human: Human | None
    store: Store | None
    permissions: tuple[Rule, ...] | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """The run going on here: whose it is, and with what settings."""

    agent: object
    settings: Settings


_here: contextvars.ContextVar[Run | None] = contextvars.ContextVar("run", default=None)


def in_force(agent: object) -> Settings | None:
    """The settings of this Agent's run, if this is one; otherwise an action uses the Agent's own."""
    run = _here.get()
    return run.settings if run is not None and run.agent is agent else None


def enter_run(run: Run) -> contextvars.Token[Run | None]:
    """Say that this run is the one going on here."""
    return _here.set(run)


def leave_run(token: contextvars.Token[Run | None]) -> None:
    """Take back `enter_run`."""
    _here.reset(token)
