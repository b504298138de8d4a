"""compact: the model writes a summary, and the messages give way to it."""

from __future__ import annotations

from typing import cast

from alpineagents.engine.actor import Actor, link, refuse_other_store, save_point, save_with_note
from alpineagents.engine.think import event_listener
from alpineagents.errors import OutputError, explain, shown
from alpineagents.history import rules
from alpineagents.history.entries import ContextChangeEntry
from alpineagents.history.replay import value_at
from alpineagents.history.rules import Entries
from alpineagents.history.value import EMPTY, Value
from alpineagents.journal import Journal
from alpineagents.models.base import identity
from alpineagents.state import State, journal_of
from alpineagents.values.exchange import Reply, Request, ToolSpec
from alpineagents.waiting import Wait


class _Compaction:
    """One compaction, from the moment the model is shown the messages to the moment they give way.

    The State is marked under its lock, so that there is one at a time; the mark is taken back only by who set it.
    """

    def __init__(self, journal: Journal) -> None:
        self.seen = EMPTY  # what the model is shown
        self.begun = False
        self._journal = journal
        self._under_way = False

    def begin(self, now: Value) -> Entries:
        """The rule that starts it; there is nothing to record yet."""
        rules.refuse_pending(now, "compact")
        if self._journal.compacting:
            raise ValueError(
                explain("compact: a model is writing a summary of this State already", "wait for it to end")
            )
        self._journal.compacting = self._under_way = self.begun = True
        self.seen = now
        return ()

    def end(self, now: Value, summary: str, reply: Reply) -> Entries:
        """The rule that records the summary; the messages that the model did not see stay behind it."""
        entries = rules.compact(now, summary, self._unseen(now), reply.usage)
        self.over()
        return entries

    def over(self) -> None:
        """Another may begin."""
        if self._under_way:
            self._journal.compacting = self._under_way = False

    def _unseen(self, now: Value) -> int:
        """How many messages came since the model was shown them, or since a compaction by hand in between."""
        seen = self.seen
        for length in range(len(now.history), len(seen.history), -1):
            entry = now.history[length - 1]
            if isinstance(entry, ContextChangeEntry) and entry.content.kind == "compact":
                seen = value_at(now, length)
                break
        return len(now.messages) - len(seen.messages)


async def compact(wait: Wait, actor: Actor, state: State, instructions: object, specs: tuple[ToolSpec, ...]) -> None:
    """Ask the model for a summary, and make the change."""
    kept = _checked_instructions(instructions)
    refuse_other_store(actor, state)
    journal = journal_of(state)
    compaction = _Compaction(journal)
    try:
        await wait(journal.record, journal.arecord, compaction.begin)
        link(actor, state)
        request = Request(actor.system, compaction.seen.messages.whole(), specs, "none")
        reply = await _summary(wait, actor, state, request, kept)
        entries = await wait(journal.record, journal.arecord, compaction.end, reply.text.strip(), reply)
        if journal.on_change is not None:
            journal.on_change(cast("ContextChangeEntry", entries[0]).content)
    except BaseException as error:
        compaction.over()
        if compaction.begun:
            await save_with_note(wait, actor, state, error)
        raise
    await save_point(wait, actor, state)


def _checked_instructions(instructions: object) -> str | None:
    if instructions is None or isinstance(instructions, str):
        return instructions
    raise TypeError(
        explain(
            f"compact: instructions are a str or None, not {type(instructions).__name__}: {shown(instructions)}",
            "say in words what the summary must keep",
            'agent.compact(state, "Keep the names of the files")',
        )
    )


async def _summary(wait: Wait, actor: Actor, state: State, request: Request, instructions: str | None) -> Reply:
    model, journal = actor.model, journal_of(state)
    if journal.through:
        await wait(journal.settle, journal.asettle)  # nothing is sent before what it follows from is written
    request = model.mark_cache(request)
    reply = await wait(model.compact, model.acompact, request, instructions, event_listener(actor, state))
    rules.reply(journal.now, reply)  # not recorded, but what it says was spent has to be savable
    if not reply.text.strip():
        raise OutputError(
            explain(
                f"compact: {identity(model)} wrote an empty summary",
                "try again, with another model, or give a summary yourself",
                'state.compact("What happened so far")',
            )
        )
    return reply
