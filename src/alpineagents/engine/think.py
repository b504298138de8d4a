"""think: one request to the model, one reply."""

from __future__ import annotations

from collections.abc import Callable

from alpineagents.engine.actor import Actor, fail, link, refuse_other_store, save_point
from alpineagents.errors import CutOffError, explain
from alpineagents.history import rules
from alpineagents.history.entries import HistoryEntry
from alpineagents.history.rules import Entries
from alpineagents.history.value import Value
from alpineagents.models.base import identity
from alpineagents.state import State, journal_of
from alpineagents.values.exchange import ModelEvent, Reply, Request, ToolSpec
from alpineagents.waiting import Wait


async def think(wait: Wait, actor: Actor, state: State, specs: tuple[ToolSpec, ...]) -> None:
    """Send the messages, record request and reply; a request that fails is taken back."""
    refuse_other_store(actor, state)
    journal, model = journal_of(state), identity(actor.model)
    requested: list[HistoryEntry] = []

    def request(now: Value) -> Entries:
        requested.extend(rules.request(now, model))
        return requested

    try:
        await wait(journal.record, journal.arecord, request)
        link(actor, state)
        reply = await _ask_model(wait, actor, state, specs)
        await wait(journal.record, journal.arecord, rules.reply, reply)
    except BaseException as error:
        if requested:  # an interrupt may come right behind the recording; without it the request was refused
            await fail(wait, actor, state, error)
        raise
    try:
        if actor.reporter is not None:
            actor.reporter.on_think_end(state, reply)
        _refuse_empty_cut_off(actor, reply)
    except BaseException as error:
        await fail(wait, actor, state, error)
        raise
    await save_point(wait, actor, state)


async def _ask_model(wait: Wait, actor: Actor, state: State, specs: tuple[ToolSpec, ...]) -> Reply:
    await save_point(wait, actor, state)
    messages = journal_of(state).now.messages.whole()
    request = actor.model.mark_cache(Request(actor.system, messages, specs))
    if actor.reporter is not None:
        actor.reporter.on_think_start(state)
    on_text, on_event = text_listener(actor, state), event_listener(actor, state)
    return await wait(actor.model.respond, actor.model.arespond, request, on_text, on_event)


def text_listener(actor: Actor, state: State) -> Callable[[str], None] | None:
    """What a Model calls with each piece of text; `None` when nobody listens."""
    reporter = actor.reporter
    if reporter is None:
        return None
    return lambda chunk: reporter.on_text(state, chunk)


def event_listener(actor: Actor, state: State) -> Callable[[ModelEvent], None]:
    """What a Model calls with each event: it is recorded, then reported."""

    def on_event(event: ModelEvent) -> None:
        journal_of(state).record(rules.model_event, event)
        if actor.reporter is not None:
            actor.reporter.on_model_event(state, event)

    return on_event


def _refuse_empty_cut_off(actor: Actor, reply: Reply) -> None:
    if reply.cut_off and not reply.text.strip() and not reply.tool_calls:
        tokens = reply.usage.output_tokens
        raise CutOffError(
            explain(
                f"{identity(actor.model)} reached its output limit ({reply.stop_reason}, {tokens} output tokens) with "
                "nothing said and no tool asked for",
                "give the model a higher max_tokens, or less room for thinking",
            ),
            reply,
        )
