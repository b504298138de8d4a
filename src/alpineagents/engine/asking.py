"""ask and ask_human: a question about a State and its answer, which change nothing else in it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from alpineagents.engine.actor import Actor, save_point, save_with_note
from alpineagents.engine.answers import AnswerType, Unfit, recorded_form
from alpineagents.engine.think import event_listener, text_listener
from alpineagents.errors import NoHumanError, OutputError, explain, message_of, shown
from alpineagents.history import rules, wording
from alpineagents.history.entries import HistoryEntry
from alpineagents.history.rules import Entries
from alpineagents.history.value import Value
from alpineagents.human import Human, aask_person, ask_person, check_returns
from alpineagents.permissions import nobody
from alpineagents.state import State, journal_of
from alpineagents.values.content import Message, ToolResultBlock
from alpineagents.values.exchange import Reply, Request, ToolSpec
from alpineagents.values.usage import Usage
from alpineagents.waiting import Wait


@dataclass(frozen=True, slots=True)
class Question:
    """What a model is to be asked: how often more than once, if its answer does not fit."""

    prompt: str
    answer_type: AnswerType
    retries: int


def question(prompt: object, returns: Any, retries: object) -> Question:
    """A question that can be asked.

    Raises:
        TypeError: The prompt is not a `str`, or nobody can answer with `returns`.
        ValueError: `retries` is not an int >= 0.
    """
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ValueError(
            explain(
                f"ask: retries is how often the model may try again, not {shown(retries)}",
                "give an int, 0 or more",
                "agent.ask(state, prompt, retries=2)",
            )
        )
    return Question(_checked_prompt("ask", prompt), AnswerType(returns), retries)


def _checked_prompt(action: str, prompt: object) -> str:
    if isinstance(prompt, str):
        return prompt
    raise TypeError(
        explain(
            f"{action}: the prompt is a str, not {type(prompt).__name__}: {shown(prompt)}",
            "put the question in words",
            f'agent.{action}(state, "Is the bug fixed?")',
        )
    )


@dataclass(slots=True)
class _Exchange:
    """One question on its way: what it has cost, and what has been recorded of it."""

    state: State
    asked: Question
    usages: list[Usage] = field(default_factory=list[Usage])
    recorded: list[HistoryEntry] = field(default_factory=list[HistoryEntry])

    def record(self, now: Value, answer: Any) -> Entries:
        """The rule that records it; what it makes is kept, because an interrupt may come right behind it."""
        usage = sum(self.usages, Usage())
        self.recorded.extend(rules.asked(now, "ask", self.asked.prompt, answer, usage))
        return self.recorded


async def ask(wait: Wait, actor: Actor, state: State, asked: Question, specs: tuple[ToolSpec, ...]) -> Any:
    """Ask the model until an answer fits, and record the question with what came of it.

    A question that a model was paid for is recorded whatever happens, without an answer if there is none.
    """
    journal = journal_of(state)
    rules.refuse_finished(journal.now, "ask")
    actor = _without_save_points(actor)
    exchange = _Exchange(state, asked)
    try:
        if journal.through:
            await wait(journal.settle, journal.asettle)  # nothing is sent before what it follows from is written
        answer = await _answered(wait, actor, exchange, specs)
        await wait(journal.record, journal.arecord, exchange.record, asked.answer_type.form(answer))
    except BaseException as error:
        if exchange.usages and not exchange.recorded:
            await wait(journal.record, journal.arecord, exchange.record, None)
        await save_with_note(wait, actor, state, error)
        raise
    await save_point(wait, actor, state)
    return answer


def _without_save_points(actor: Actor) -> Actor:
    """A question saves nothing by itself; only where a State writes every change through is it written as one."""
    return replace(actor, store=None)


async def _answered(wait: Wait, actor: Actor, exchange: _Exchange, specs: tuple[ToolSpec, ...]) -> Any:
    asked, answer_type = exchange.asked, exchange.asked.answer_type
    messages = (*_context(journal_of(exchange.state).now), Message.user(answer_type.question(asked.prompt)))
    failed: Unfit | None = None
    for _ in range(asked.retries + 1):
        reply = await _tried(wait, actor, exchange, Request(actor.system, messages, specs, "none"))
        try:
            return answer_type.read(reply.text)
        except Unfit as unfit:
            failed = unfit
        messages = (*messages, *_another_try(reply.text, message_of(failed)))
    assert failed is not None
    raise OutputError(
        explain(
            f"ask: none of {asked.retries + 1} answers of the model fitted {answer_type!r}; the last one: {failed}",
            "allow more retries, say in the prompt what is wanted, or ask for a simpler type",
        )
    ) from (failed.__cause__ or failed)


def _context(now: Value) -> tuple[Message, ...]:
    """The messages, and behind them a result for every call of an open turn, because providers ask for one."""
    messages = now.messages.whole()
    if not now.calls:
        return messages
    pairs = zip(now.calls, now.results, strict=True)
    blocks = [result or ToolResultBlock(call.id, wording.NOT_RUN_YET, name=call.name) for call, result in pairs]
    return (*messages, Message("user", tuple(blocks)))


async def _tried(wait: Wait, actor: Actor, exchange: _Exchange, request: Request) -> Reply:
    state, model = exchange.state, actor.model
    request = model.mark_cache(request)
    if actor.reporter is not None:
        actor.reporter.on_think_start(state)
    on_text, on_event = text_listener(actor, state), event_listener(actor, state)
    reply = await wait(model.respond, model.arespond, request, on_text, on_event)
    rules.reply(journal_of(state).now, reply)  # not recorded, but what it says was spent has to be savable
    exchange.usages.append(reply.usage)
    if actor.reporter is not None:
        actor.reporter.on_think_end(state, reply)
    return reply


def _another_try(text: str, reason: str) -> tuple[Message, Message]:
    said = text if text.strip() else "(empty reply)"
    return (
        Message.assistant(said),
        Message.user(f"That is no answer of the form asked for: {reason}\nAnswer the question again in that form."),
    )


@dataclass(frozen=True, slots=True)
class PersonalQuestion:
    """What a person is to be asked."""

    human: Human
    prompt: str
    returns: Any


def personal_question(human: Human | None, inherited: bool, prompt: object, returns: Any) -> PersonalQuestion:
    """A question that a person can be asked.

    Args:
        inherited: Whether `human` is that of the run above.
    Raises:
        NoHumanError: There is nobody.
        TypeError: The prompt is not a `str`, or `returns` is not `str`, `bool` or `Literal[...]`.
    """
    if human is None:
        raise NoHumanError(nobody(f"ask_human: nobody is there to be asked {shown(prompt)}", inherited))
    text = _checked_prompt("ask_human", prompt)
    check_returns(returns)
    return PersonalQuestion(human, text, returns)


async def ask_human(wait: Wait, actor: Actor, state: State, asked: PersonalQuestion) -> Any:
    """Ask the person, and record question and answer."""
    journal = journal_of(state)
    answer = await wait(ask_person, aask_person, asked.human, state, asked.prompt, asked.returns)
    form = recorded_form(answer, asked.returns)
    await wait(journal.record, journal.arecord, rules.asked, "human", asked.prompt, form)
    await save_point(wait, _without_save_points(actor), state)
    return answer
