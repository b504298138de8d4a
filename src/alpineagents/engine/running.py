"""run: a loop over a State, from `run_start` to its end, whichever way it ends."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

from alpineagents.children import Family, closed, of_call
from alpineagents.engine.actor import Actor, as_raised, link, refuse_other_store, save_point, save_with_note
from alpineagents.errors import ResumeWarning, explain
from alpineagents.history import rules
from alpineagents.history.entries import ToolResultEntry
from alpineagents.history.replay import fold
from alpineagents.history.rules import Entries
from alpineagents.history.value import Value
from alpineagents.journal import Journal
from alpineagents.scope import Calling, Run, enter_run, leave_run
from alpineagents.state import State, journal_of
from alpineagents.values.content import Message
from alpineagents.values.exchange import AgentInfo
from alpineagents.waiting import Wait


def state_for(prompt_or_state: object) -> State:
    """The State to run: the one given, or a new one with a prompt.

    Raises:
        TypeError: It is neither a `str` nor a State.
        ValueError: The prompt is blank.
    """
    if isinstance(prompt_or_state, State):
        return prompt_or_state
    example = 'agent.run("Find the bug in main.py")'
    if not isinstance(prompt_or_state, str):
        found = type(prompt_or_state).__name__
        raise TypeError(explain(f"run takes a prompt or a State, not {found}", "pass one of the two", example))
    if not prompt_or_state.strip():
        raise ValueError(explain(f"run: the prompt is empty: {prompt_or_state!r}", "say what to do", example))
    return State(messages=[Message.user(prompt_or_state)])


class Connections(Protocol):
    """What has to be connected for a run."""

    async def connect(self, wait: Wait) -> object:
        """Gives what `disconnect` needs."""
        ...

    async def disconnect(self, wait: Wait, user: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Start:
    """A run that may begin: whose, on what State, as what, with what loop, in which tool call, connected to what."""

    scope: Run
    state: State
    info: AgentInfo
    loop: Callable[..., Any]
    calling: Calling | None = None
    connections: Connections | None = None


def prepared(actor: Actor, start: Start) -> Start:
    """The start, if nothing refuses the run; nothing is recorded yet.

    The public method calls this itself, because the warning names the line that called that method.

    Raises:
        ValueError: The State is finished, kept in another store, or the one whose tool call this is.
        ResumeWarning: A filter made it an exception.
    """
    journal = journal_of(start.state)
    rules.refuse_finished(journal.now, "run")
    refuse_other_store(actor, start.state)
    if start.calling is not None and start.calling.state is start.state and not journal.running:
        problem = "a tool call of this State is being carried out, and a State does one thing at a time"
        raise ValueError(explain(problem, "run another State", 'agent.run("Find the bug in main.py")'))
    if journal.loaded_run is not None:
        _compare(journal.loaded_run, start.info)
    return start


def _compare(saved: AgentInfo, current: AgentInfo) -> None:
    changes: dict[str, tuple[Any, Any]] = {}
    for name in ("name", "model", "system_sha256"):
        before, after = getattr(saved, name), getattr(current, name)
        if before != after:
            changes[name] = (before, after)
    for name in ("tools", "mcp_servers"):  # their order is no difference
        before, after = getattr(saved, name), getattr(current, name)
        if set(before) != set(after):
            changes[name] = (before, after)
    if changes:
        texts = "; ".join([_change_text(name, before, after) for name, (before, after) in changes.items()])
        message = f"this State was last run by another Agent, and the run goes on: {texts}"
        warnings.warn(ResumeWarning(message, changes), stacklevel=4)


def _change_text(name: str, before: Any, after: Any) -> str:
    if name == "system_sha256":
        return "system prompt changed"
    if not isinstance(before, tuple):
        return f"{name}: {_or_none(before)} -> {_or_none(after)}"
    old, new = set(cast("tuple[str, ...]", before)), set(cast("tuple[str, ...]", after))
    removed, added = sorted(old - new), sorted(new - old)
    parts = [f"removed {', '.join(removed)}"] if removed else []
    if added:
        parts.append(f"added {', '.join(added)}")
    return f"{name}: {', '.join(parts)}"


def _or_none(text: str | None) -> str:
    return "(none)" if text is None else text


async def run(wait: Wait, actor: Actor, start: Start) -> Any:
    """Run the loop on a State that `prepared` let pass."""
    state = start.state
    journal = journal_of(state)
    try:
        await wait(journal.start_run, journal.astart_run, _begun, start)
        journal.loaded_run = None
        return await _marked(wait, actor, start)
    finally:
        # By the run on record, because an interrupt may come between the mark and here, or the mark be another run's.
        if journal.now.run is start.info:
            journal.running = False


def _begun(now: Value, start: Start) -> Entries:
    """What a run records first. A subagent joins its call in the same step: what it uses from now on counts there."""
    calling = start.calling
    if calling is None:
        return rules.run_start(now, start.info, None, None)
    entries, above = rules.run_start(now, start.info, calling.state.id, calling.call.id), journal_of(calling.state)
    above.children[start.state.id] = start.state
    calling.join(above.families, start.state.id, journal_of(start.state))
    return entries


async def _marked(wait: Wait, actor: Actor, start: Start) -> Any:
    token = enter_run(start.scope)
    try:
        link(actor, start.state)
        await save_point(wait, actor, start.state)
        answer = await _looped(wait, actor, start)
        _tell_end(actor, start.state, None)
        return answer
    finally:
        leave_run(token)


async def _looped(wait: Wait, actor: Actor, start: Start) -> Any:
    state = start.state
    try:
        if actor.reporter is not None:
            actor.reporter.on_run_start(state)
        answer = await _connected(wait, start)
        await save_point(wait, actor, state)
        if journal_of(state).through:  # a plain loop may end on a tool's result
            await wait(journal_of(state).settle, journal_of(state).asettle)
    except BaseException as error:
        await _end(wait, actor, state, error)
        raise
    return answer


async def _connected(wait: Wait, start: Start) -> Any:
    """What the loop returns."""
    if start.connections is None:
        return await wait(start.loop, start.loop, start.scope.agent, start.state)
    user = await start.connections.connect(wait)
    try:
        return await wait(start.loop, start.loop, start.scope.agent, start.state)
    finally:
        await start.connections.disconnect(wait, user)


async def _end(wait: Wait, actor: Actor, state: State, error: BaseException) -> None:
    """End a run that an exception leaves; what interrupts this is raised in its place, with the run ended all the same.

    Both parts can be done twice: what is recorded already is not recorded again.
    """
    journal = journal_of(state)
    try:
        await wait(journal.record, journal.arecord, _failed, journal, as_raised(error))
        await save_with_note(wait, actor, state, error)
    except BaseException as interrupt:
        await wait(journal.record, journal.arecord, _failed, journal, as_raised(error))
        _tell_end(actor, state, interrupt)
        raise
    _tell_end(actor, state, error)


def _tell_end(actor: Actor, state: State, error: BaseException | None) -> None:
    if actor.reporter is not None:
        actor.reporter.on_run_end(state, error)


def _failed(now: Value, journal: Journal, error: BaseException) -> Entries:
    """All that an exception leaving a run records, as one group."""
    failure = rules.failure(now, error)
    ended = rules.end_of_run(fold(failure, now), error)
    return [*failure, *(_with_subagents(journal, now, ended) if journal.families else ended)]


def _with_subagents(journal: Journal, now: Value, ended: Entries) -> Entries:
    entries, taken = list(ended), list[Family]()
    for index, entry in enumerate(entries):
        if isinstance(entry, ToolResultEntry):
            families = of_call(journal.families, now, entry.call, taken)
            entries[index] = closed(now, entry, families)
            taken += families
    return entries
