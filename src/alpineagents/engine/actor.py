"""What one action of an Agent works with."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from alpineagents.errors import error_text, explain, message_of
from alpineagents.history import rules
from alpineagents.history.entries import ContextChange
from alpineagents.journal import Journal
from alpineagents.models.base import Model
from alpineagents.reporter import Reporter
from alpineagents.scope import DATABASE_VARIABLE, Settings, outside_calls
from alpineagents.state import State, journal_of
from alpineagents.store.base import Store
from alpineagents.store.saving import check_bound, save
from alpineagents.tools.base import Tool
from alpineagents.waiting import Wait

_SAVING_FAILED = "saving the state also failed: "
_WRAPPERS = ("coroutine raised StopIteration", "a call on a worker thread raised StopIteration")


@dataclass(frozen=True, slots=True)
class Actor:
    """An Agent's settings in force for one action.

    Attributes:
        reporter: Who hears of this action. store: Where it is saved, if it is.
        settings: All of the run that the action is part of, or of the Agent; subagents take over from these.
    """

    model: Model
    system: str | None
    tools: Mapping[str, Tool]
    reporter: Reporter | None
    store: Store | None
    settings: Settings


def link(actor: Actor, state: State) -> Journal:
    """Make this Agent's Reporter the one that hears of the State's context changes, and its Human the one it asks."""
    journal, reporter = journal_of(state), actor.reporter

    def tell(change: ContextChange) -> None:
        if reporter is not None:
            outside_calls(reporter.on_context_change, state, change)

    journal.on_change = tell
    journal.human, journal.linked = actor.settings.human, True
    return journal


def refuse_other_store(actor: Actor, state: State) -> None:
    """Refuse an action whose result could not be saved, before it records anything.

    Raises:
        ValueError: The State is kept in another store than this Agent's.
    """
    if actor.store is not None:
        check_bound(actor.store, state)


async def save_point(wait: Wait, actor: Actor, state: State) -> None:
    """Everything recorded so far is saved where this Agent saves, and where the State is kept anyway."""
    journal = journal_of(state)
    if actor.store is None:
        if journal.through:
            await wait(journal.commit, journal.acommit)
        return
    try:
        await save(wait, actor.store, state)
    except ValueError as error:
        if actor.settings.from_environment and journal.sink is None:
            raise ValueError(
                explain(f"{error}", f"or unset {DATABASE_VARIABLE}, which has this run recorded there")
            ) from error
        raise


async def fail(wait: Wait, actor: Actor, state: State, error: BaseException) -> None:
    """Record and save an exception that is on its way out of a step."""
    journal = journal_of(state)
    await wait(journal.record, journal.arecord, rules.failure, as_raised(error))
    await save_with_note(wait, actor, state, error)


def as_raised(error: BaseException) -> BaseException:
    """The exception that user code raised: no coroutine or task passes a StopIteration on, each wraps it (PEP 479)."""
    cause = error.__cause__
    wrapped = isinstance(error, RuntimeError) and message_of(error) in _WRAPPERS
    return cause if wrapped and isinstance(cause, StopIteration) else error


async def save_with_note(wait: Wait, actor: Actor, state: State, error: BaseException) -> None:
    """Save while an exception is on its way out; that saving failed too becomes a note on it, once."""
    try:
        await save_point(wait, actor, state)
    except Exception as second:
        text = error_text(second)
        noted = any([note.startswith(_SAVING_FAILED) for note in getattr(error, "__notes__", ())])
        if text != error_text(error) and not noted:
            add_note(error, _SAVING_FAILED + text)


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an exception, if it takes one: that of a frozen dataclass does not."""
    with suppress(Exception):
        error.add_note(note)
