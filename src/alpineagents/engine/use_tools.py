"""use_tools: the pending calls get their results.

Calls that cannot run are answered first, then the tools that may run at the same time, then the others one by one. What
ended is recorded here, on the thread or task of the caller, in the order it ended. A tool's own exception waits until
the others of its group have ended; any other exception ends the step at once, and what still runs is abandoned.
"""

from __future__ import annotations

import asyncio
import warnings

from alpineagents.children import closed, of_call
from alpineagents.engine.actor import (
    Actor,
    add_note,
    as_raised,
    link,
    refuse_other_store,
    save_point,
    save_with_note,
)
from alpineagents.engine.calls import Ending, closing
from alpineagents.engine.deciding import Ruling, ruling
from alpineagents.engine.workers import Ended, Workers
from alpineagents.errors import PermissionWarning, explain, message_of
from alpineagents.history import rules, wording
from alpineagents.history.entries import ModelReplyEntry, ToolResultEntry
from alpineagents.history.rules import Entries
from alpineagents.history.value import Value
from alpineagents.journal import Journal
from alpineagents.permissions import Allowed, Denied, Rule
from alpineagents.scope import Calling, run_here
from alpineagents.state import State, journal_of
from alpineagents.tools.base import Tool
from alpineagents.values.content import INVALID_ARGS_KEY, TRUNCATED_ARGS_MESSAGE, ToolCall, ToolResultContent
from alpineagents.values.display import format_call
from alpineagents.values.outcomes import StoppedByFinish, StoppedByPermission, ToolOutcome, ToolOutcomeKind
from alpineagents.waiting import Wait

# Winding up is tried again when an interrupt comes meanwhile; after this many the person is believed.
_PATIENCE = 3


async def use_tools(wait: Wait, actor: Actor, state: State) -> None:
    """Run every pending call and record its result."""
    now = journal_of(state).now
    rules.refuse_finished(now, "use_tools")
    calls = now.pending_calls
    if not calls:
        return
    refuse_other_store(actor, state)
    link(actor, state)
    turn = _Turn(wait, actor, state, now.opened)
    try:
        allowed = await turn.answer_unusable(calls)
        if actor.settings.permissions is not None:
            allowed = await turn.decide(allowed, actor.settings.permissions)
        usable = [(call, actor.tools[call.name]) for call in allowed]
        await turn.run_together([(call, tool) for call, tool in usable if tool.parallel])
        await turn.run_in_order([(call, tool) for call, tool in usable if not tool.parallel])
    except BaseException as error:
        await turn.abandon(error)
        await save_with_note(wait, actor, state, error)
        raise
    await turn.finish()


def unusable(actor: Actor, call: ToolCall) -> str | None:
    """What the model is told about a call that cannot run at all, or `None`."""
    if call.name not in actor.tools:
        names = ", ".join(actor.tools) or "(none)"
        return wording.input_error(f"unknown tool {call.name!r}. Available tools: {names}")
    if len(call.args) != 1 or INVALID_ARGS_KEY not in call.args:
        return None
    raw = call.args[INVALID_ARGS_KEY]
    if raw == TRUNCATED_ARGS_MESSAGE:
        return wording.input_error(TRUNCATED_ARGS_MESSAGE)
    return wording.input_error(f"arguments are not valid JSON: {raw}")


class _Turn:
    """The calls of one `use_tools` on their way to their results.

    Attributes:
        opened: The `seq` of the reply that asked for them. run: The run around it.
        owed: The started calls whose `on_tool_end` has not been sent.
        failure: The first call in time whose tool raised.
    """

    def __init__(self, wait: Wait, actor: Actor, state: State, opened: int | None) -> None:
        self.wait = wait
        self.actor = actor
        self.state = state
        self.journal = journal_of(state)
        self.opened = opened
        self.run = run_here()
        self.workers = Workers(late=self._record_late)
        self.owed: list[Calling] = []
        self.failure: Ended | None = None

    async def answer_unusable(self, calls: tuple[ToolCall, ...]) -> list[ToolCall]:
        """Give the calls that cannot run the result that says so; the others come back."""
        usable: list[ToolCall] = []
        for call in calls:
            text = unusable(self.actor, call)
            if text is None:
                usable.append(call)
                continue
            calling = self._calling(call)
            self._tell_start(calling)
            await self._record(Ended(calling, Ending(text, ToolOutcomeKind.INPUT_ERROR)))
        return usable

    async def decide(self, calls: list[ToolCall], permissions: tuple[Rule, ...]) -> list[ToolCall]:
        """Have each call decided about before any tool runs; those that may run come back.

        What was recorded is saved here: an approval is on record before what it approved begins.
        """
        before, allowed = len(self.journal.now.history), list[ToolCall]()
        for call in calls:
            found = await self._ruling(call, permissions)
            if isinstance(found.verdict, Allowed):
                allowed.append(call)
                continue
            await self._refuse(call, found)
            if found.verdict is not None and found.verdict.stop:
                return []
        if len(self.journal.now.history) > before:
            await save_point(self.wait, self.actor, self.state)
        return allowed

    async def _ruling(self, call: ToolCall, permissions: tuple[Rule, ...]) -> Ruling:
        try:
            return await ruling(self.wait, permissions, self.state, call, self.actor.tools[call.name])
        except Exception as error:
            await self.wait(self.journal.record, self.journal.arecord, rules.failure, as_raised(error), call)
            raise

    async def _refuse(self, call: ToolCall, found: Ruling) -> None:
        if found.verdict is None:
            warnings.warn(PermissionWarning(_undecided(call)), stacklevel=2)
        recorded = await self.wait(self.journal.record, self.journal.arecord, self._refused, call, found)
        for entry in recorded:
            if isinstance(entry, ToolResultEntry) and self.actor.reporter is not None:
                error = found.error if entry.outcome is ToolOutcomeKind.DENIED else None
                outcome = ToolOutcome(entry.outcome, error, found.decided_by)
                self.actor.reporter.on_tool_end(self.state, entry.call, entry.content, outcome)

    async def run_together(self, calls: list[tuple[ToolCall, Tool]]) -> None:
        """Run calls at the same time, and record each as it ends."""
        for call, tool in calls:
            await self._start(call, tool)
        await self._collect()

    async def run_in_order(self, calls: list[tuple[ToolCall, Tool]]) -> None:
        """Run calls one by one; none after one that raised."""
        for call, tool in calls:
            if self.failure is not None:
                return
            await self._start(call, tool)
            await self._collect()

    async def finish(self) -> None:
        """Save, and raise what the first failing tool raised."""
        failure = self.failure
        if failure is None or failure.ending.error is None:
            await save_point(self.wait, self.actor, self.state)
            return
        error = failure.ending.error
        add_note(error, f"exception raised in tool {format_call(failure.call)}")
        try:
            raise error
        except BaseException:
            await save_with_note(self.wait, self.actor, self.state, error)
            raise

    async def abandon(self, error: BaseException) -> None:
        """End the step because of an exception that no tool raised.

        An interrupt meanwhile is raised at the end, when every call that was started has had its end told.
        """
        interrupts: list[BaseException] = []
        for _ in range(_PATIENCE + len(self.owed)):
            try:
                await self._wind_up(closing(error))
                break
            except BaseException as interrupt:
                interrupts.append(interrupt)
        if interrupts:
            raise interrupts[0]

    async def _wind_up(self, ending: Ending) -> None:
        # Each part can be interrupted and done again: what is recorded or told already is not so a second time.
        self.workers.abandon()
        for done in self.workers.untaken:
            await self._record(done, quietly=True)
            self.workers.take()
        while self.owed:
            calling = self.owed[0]
            self._tell_end(calling, _closed_by(self.journal, calling.call) or ending, quietly=True)

    async def _start(self, call: ToolCall, tool: Tool) -> None:
        calling = self._calling(call)
        self._tell_start(calling)
        await self.wait(self.workers.start, self.workers.astart, calling, tool)

    def _calling(self, call: ToolCall) -> Calling:
        return Calling(self.state, call, self.opened, self.actor.settings, self.run)

    async def _collect(self) -> None:
        while self.workers.busy:
            for done in await self.wait(self.workers.next, self.workers.anext):
                await self._record(done)
                self.workers.take()
            try:
                await save_point(self.wait, self.actor, self.state)
            except Exception:
                continue  # the tools go on: the save at the end of the step catches up, or raises

    async def _record(self, done: Ended, quietly: bool = False) -> None:
        calling, ending = done.calling, done.ending
        if ending.raised and self.failure is None:
            self.failure = done
        recorded = await self.wait(self.journal.record, self.journal.arecord, self._ended, calling, ending)
        if not recorded:
            ending = _closed_by(self.journal, calling.call) or ending
        self._tell_end(calling, ending, quietly)

    def _record_late(self, done: Ended) -> None:
        """Record what ended after it was abandoned. Nobody waits here: what cannot be saved now stays queued."""
        self.journal.record(self._late_result, done.calling, done.ending)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            _flush_quietly(self.journal)
            return
        # An async tool that outlived its cancellation ends on the event loop, which must not wait for the disk.
        asyncio.get_running_loop().run_in_executor(None, _flush_quietly, self.journal)

    def _ended(self, now: Value, calling: Calling, ending: Ending) -> Entries:
        """What is recorded of a call that ended, if it is still open: its result, or what it raised."""
        if not _is_open(now, calling.call, self.opened):
            return ()
        if ending.raised and ending.error is not None:
            return rules.failure(now, ending.error, calling.call)
        return (self._with_subagents(now, _result(now, calling.call, ending, ending.content), calling),)

    def _late_result(self, now: Value, calling: Calling, ending: Ending) -> Entries:
        """The result of an abandoned call: an ordinary one if the call is still open, else a late one."""
        content = ending.content
        if ending.raised and ending.error is not None:
            content = f"(exception: {type(ending.error).__name__}: {message_of(ending.error)})"
        late = not _is_open(now, calling.call, self.opened)
        entry = _result(now, calling.call, ending, content, late)
        return (closed(now, entry, [calling]) if late else self._with_subagents(now, entry, calling),)

    def _with_subagents(self, now: Value, entry: ToolResultEntry, own: Calling | None = None) -> ToolResultEntry:
        """The entry that closes a call, with the subagents that its executions started."""
        families = self.journal.families
        return closed(now, entry, of_call(families, now, entry.call, self.owed, own)) if families else entry

    def _refused(self, now: Value, call: ToolCall, found: Ruling) -> Entries:
        """What is recorded of a call that may not run; one that was tried before has its subagents all the same."""
        if not _is_open(now, call, self.opened):
            return ()
        return [
            self._with_subagents(now, entry) if isinstance(entry, ToolResultEntry) else entry
            for entry in _refused(now, call, found)
        ]

    def _tell_start(self, calling: Calling) -> None:
        self.owed.append(calling)
        if self.actor.reporter is not None:
            self.actor.reporter.on_tool_start(self.state, calling.call)

    def _tell_end(self, calling: Calling, ending: Ending, quietly: bool = False) -> None:
        index = next((index for index, owed in enumerate(self.owed) if owed is calling), None)
        if index is None:
            return
        del self.owed[index]
        if self.actor.reporter is None:
            return
        outcome = ToolOutcome(ending.outcome, error=ending.error if ending.raised else None)
        try:
            self.actor.reporter.on_tool_end(self.state, calling.call, ending.content, outcome)
        except Exception:
            # While one exception ends the step, a Reporter that raises again must not take its place.
            if not quietly:
                raise


def _undecided(call: ToolCall) -> str:
    return explain(
        f"no permission decided about {format_call(call)}, so it was denied",
        f"allow {call.name} by a permission, or everything that nothing denies by AllowByDefault() at the end",
        "permissions=[..., AllowByDefault()]",
    )


def _refused(now: Value, call: ToolCall, found: Ruling) -> Entries:
    """The end of a call that may not run; a stop closes the other calls of the turn and ends the run."""
    reason = wording.NOBODY_ALLOWED if not isinstance(found.verdict, Denied) else found.verdict.reason
    denied = ToolResultEntry(
        content=reason, call=call, outcome=ToolOutcomeKind.DENIED, error=found.error, turn=now.turn
    )
    if not isinstance(found.verdict, Denied) or not found.verdict.stop:
        return (denied,)
    others = list(now.pending_calls)
    mine = [index for index, other in enumerate(others) if other is call] or [others.index(call)]
    del others[mine[0]]  # one of them: a reply can hold the same call object twice
    cancelled = [
        ToolResultEntry(content=wording.TURN_STOPPED, call=other, outcome=ToolOutcomeKind.CANCELLED, turn=now.turn)
        for other in others
    ]
    stopped = StoppedByPermission(call, found.decided_by or "")
    finished = isinstance(now.stopped, StoppedByFinish)  # what was decided before
    return [denied, *cancelled, *([] if finished else rules.stop(now, stopped))]


def _result(
    now: Value, call: ToolCall, ending: Ending, content: ToolResultContent, late: bool = False
) -> ToolResultEntry:
    return ToolResultEntry(
        content=content, call=call, outcome=ending.outcome, late=late, error=ending.error, turn=now.turn
    )


def _is_open(now: Value, call: ToolCall, opened: int | None) -> bool:
    # By turn and identity, because a later call may use the id again, or be the same object.
    return (
        now.opened == opened
        and any([asked is call for asked in now.calls])
        and any([c.id == call.id for c in now.pending_calls])
    )


def _closed_by(journal: Journal, call: ToolCall) -> Ending | None:
    """How a call was closed, if it was, back to the reply that asked for it."""
    history = journal.now.history
    for index in range(len(history) - 1, -1, -1):
        entry = history[index]
        if isinstance(entry, ToolResultEntry) and entry.call is call and not entry.late:
            return Ending(entry.content, entry.outcome, entry.error)
        if isinstance(entry, ModelReplyEntry) and any([asked is call for asked in entry.content.tool_calls]):
            break
    return None


def _flush_quietly(journal: Journal) -> None:
    try:
        journal.flush()
    except Exception:
        return
