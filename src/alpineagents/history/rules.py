"""What may happen next: each rule looks at the current value and makes the entries to record, or raises.

A rule is called by `Journal.record` or `Journal.command` under the Journal's lock, so that the check, the entry's time
and its effect belong to one moment. Returning no entry means that there is nothing to record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from alpineagents.errors import error_text, explain, shown
from alpineagents.history import clock, wording
from alpineagents.history.codec import encode
from alpineagents.history.entries import (
    ContextChange,
    ContextChangeEntry,
    ErrorEntry,
    ExchangeEntry,
    ExtraDataEntry,
    HistoryEntry,
    MessageEntry,
    ModelEventEntry,
    ModelReplyEntry,
    ModelRequestEntry,
    RunStartEntry,
    StopEntry,
    ToolResultEntry,
)
from alpineagents.history.replay import messages_after, value_at
from alpineagents.history.snapshot import StateSnapshot, value_of
from alpineagents.history.value import Value
from alpineagents.values.content import NOTICE_PREFIX, Image, Message, TextBlock, ToolCall, ToolResultBlock
from alpineagents.values.display import format_call
from alpineagents.values.estimates import context_tokens
from alpineagents.values.exchange import AgentInfo, Exchange, ModelEvent, Reply
from alpineagents.values.frozen import answer_form, check_json
from alpineagents.values.outcomes import Stopped, StoppedByFinish, ToolOutcomeKind
from alpineagents.values.usage import Usage

Entries: TypeAlias = Sequence[HistoryEntry]
Stamped = TypeVar("Stamped", ToolResultEntry, ExchangeEntry)

_CANCELLED = "asyncio.exceptions.CancelledError"  # by name, because history imports no event loop


def imported(now: Value, messages: tuple[Message, ...]) -> Entries:
    """The messages a State starts with."""
    if not messages:
        return ()
    change = ContextChange("import", 0, 0, messages=messages)
    _writable(now, ContextChangeEntry(content=change, turn=now.turn))  # first, because an estimate needs JSON too
    change = ContextChange("import", 0, context_tokens(messages), messages=messages)
    return (ContextChangeEntry(content=change, turn=now.turn),)


def message(now: Value, added: Message) -> Entries:
    """A message of the person, or a notice."""
    if not isinstance(added, Message):
        raise TypeError(
            explain(
                f"add_message takes a Message, not {type(added).__name__}: {shown(added)}",
                "make one of the text",
                'state.add_message(Message.user("Find the bug"))',
            )
        )
    if added.role != "user":
        raise ValueError(
            explain(
                f"add_message takes user messages and notices, not one with role {added.role!r}",
                "start a State with a conversation that has replies",
                "State(messages=[...])",
            )
        )
    entry = MessageEntry.from_message(added, turn=now.turn)
    if not _says_something(entry.content):
        raise ValueError(
            explain(f"add_message needs a text or an image, not a blank message: {shown(added)}", "say something in it")
        )
    return (entry,)


def _says_something(content: str | tuple[TextBlock | Image, ...]) -> bool:
    if isinstance(content, str):
        return bool(content.removeprefix(NOTICE_PREFIX).strip())
    if any([isinstance(block, Image) for block in content]):
        return True
    text = "".join([block.text for block in content if isinstance(block, TextBlock)])
    return bool(text.removeprefix(NOTICE_PREFIX).strip())


def finish(now: Value, answer: Any) -> Entries:
    """The State ends, with an answer or without."""
    return (StopEntry(content=StoppedByFinish(answer_form(answer, "finish(answer)")), turn=now.turn),)


def compact(now: Value, summary: str, kept: int = 0, usage: Usage | None = None) -> Entries:
    """The messages give way to a summary."""
    if not isinstance(summary, str):
        raise TypeError(
            explain(
                f"compact takes the summary as a str, not {type(summary).__name__}: {shown(summary)}",
                "give the text, or let the model write it",
                "agent.compact(state)",
            )
        )
    if not summary.strip():
        raise ValueError(explain(f"compact needs a summary, not {shown(summary)}", "say what happened so far"))
    refuse_pending(now, "compact")
    return _measured(now, ContextChange("compact", 0, 0, summary=summary, kept=kept, usage=usage))


def clear_tool_results(now: Value, keep_last: int) -> Entries:
    """Old tool results give way to a placeholder."""
    if isinstance(keep_last, bool) or not isinstance(keep_last, int) or keep_last < 0:
        raise ValueError(
            explain(
                f"clear_tool_results keeps a number of results, 0 or more, not {shown(keep_last)}",
                "give an int",
                "state.clear_tool_results(keep_last=5)",
            )
        )
    refuse_pending(now, "clear_tool_results")
    results = [block for message in now.messages for block in message.content if isinstance(block, ToolResultBlock)]
    old = results[: max(0, len(results) - keep_last)]
    cleared = tuple(dict.fromkeys([block.call_id for block in old if block.content != wording.CLEARED]))
    return _measured(now, ContextChange("clear_tool_results", 0, 0, cleared=cleared)) if cleared else ()


def restore(now: Value, snapshot: StateSnapshot, compacting: Callable[[], bool]) -> Entries:
    """The State goes back to an earlier snapshot of itself."""
    if not isinstance(snapshot, StateSnapshot):
        raise TypeError(
            explain(
                f"restore takes a StateSnapshot, not {type(snapshot).__name__}",
                "keep one before the part you may want to undo",
                "before = state.snapshot()\nstate.restore(before)",
            )
        )
    then = value_of(snapshot)
    if not _is_prefix(then, now):
        raise ValueError(
            explain(
                "restore takes an earlier snapshot of this State, and this one is of another",
                "build a State of it",
                "State(history=snapshot.history)",
            )
        )
    refuse_pending(now, "restore")
    summarizing = compacting()
    if now.waiting or summarizing:
        what = "a model is writing a summary" if summarizing else "the model is being waited on"
        raise ValueError(explain(f"restore is not possible while {what}", "restore between turns"))
    length = len(then.history)
    _refuse_open_target(value_at(now, length))  # not `then`: its history counts, and it may have been built by hand
    return _measured(now, ContextChange("restore", 0, 0, restored_to=length))


def _is_prefix(then: Value, now: Value) -> bool:
    mine, theirs = now.history, then.history
    if len(theirs) > len(mine):
        return False
    return all([mine[i] is theirs[i] or mine[i] == theirs[i] for i in range(_shared(then, now), len(theirs))])


def _shared(then: Value, now: Value) -> int:
    """How many entries both have from one earlier value, so that a snapshot is not compared from the beginning."""
    index = len(then.kept) - 1
    if 0 <= index < len(now.kept) and now.kept[index] is then.kept[index]:
        return then.kept[index][0]
    return 0


def _refuse_open_target(then: Value) -> None:
    if then.waiting:
        raise ValueError(
            explain(
                "restore cannot go back to a snapshot taken while the model was being waited on",
                "take it between turns",
            )
        )
    if then.calls:
        raise ValueError(
            explain(
                "restore cannot go back to a snapshot taken while calls were pending: they would run a second time",
                "build a new State of it if that is what you want",
                "State(history=snapshot.history)",
            )
        )


def _measured(now: Value, change: ContextChange) -> Entries:
    """The change with its token estimates, which only its effect can tell."""
    after = messages_after(now, change)
    before_tokens, after_tokens = context_tokens(now.messages.whole()), context_tokens(after.whole())
    measured = replace(change, before_tokens=before_tokens, after_tokens=after_tokens)
    return (ContextChangeEntry(content=measured, turn=now.turn),)


def extra_data(now: Value, data: Mapping[str, Any]) -> Entries:
    """The notes a State starts with."""
    return (ExtraDataEntry(content=check_json(data, "extra_data"), turn=now.turn),) if data else ()


def extra_data_edit(now: Value, start: Mapping[str, Any], data: Mapping[str, Any]) -> Entries:
    """What one `edit_extra_data` block changed."""
    edited: dict[str, Any] = check_json(data, "state.extra_data")
    changed = {key: value for key, value in edited.items() if key not in start or not _same(start[key], value)}
    removed = tuple([key for key in start if key not in edited])
    return (ExtraDataEntry(content=changed, removed=removed, turn=now.turn),) if changed or removed else ()


def _same(old: Any, new: Any) -> bool:
    # As JSON text, because 1 == 1.0 == True in Python.
    return json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)


def run_start(now: Value, agent: AgentInfo, parent_id: str | None, parent_call_id: str | None) -> Entries:
    """A run starts."""
    refuse_finished(now, "run")
    return (RunStartEntry(content=agent, parent_id=parent_id, parent_call_id=parent_call_id, turn=now.turn),)


def request(now: Value, model: str) -> Entries:
    """`think` is about to ask the model."""
    refuse_finished(now, "think")
    refuse_pending(now, "think")
    if now.waiting:
        raise ValueError(
            explain("think: this State is already waiting on a model", "wait for the other think to return")
        )
    if not len(now.messages):
        raise ValueError(
            explain(
                "think: this State has no messages to send",
                "give it one first",
                'state.add_message(Message.user("Find the bug"))',
            )
        )
    return (ModelRequestEntry(content=model, turn=now.turn + 1),)


def reply(now: Value, replied: Reply) -> Entries:
    """The model answered."""
    if not isinstance(replied, Reply):
        raise TypeError(
            explain(
                f"a Model's respond must return a Reply, not {type(replied).__name__}: {shown(replied)}",
                "return Reply(message, usage)",
                'Reply(Message.assistant("done"), Usage(requests=1))',
            )
        )
    return _writable(now, ModelReplyEntry(content=replied, turn=now.turn))


def _writable(now: Value, entry: HistoryEntry) -> Entries:
    """An entry made of what came from outside, if it can be saved: nothing that cannot ever waits to be.

    Raises:
        TypeError: It cannot; the message says what in it is not JSON.
    """
    encode(entry, len(now.history))
    return (entry,)


def model_event(now: Value, event: ModelEvent) -> Entries:
    """The Model reported something."""
    if not isinstance(event, ModelEvent):
        raise TypeError(
            explain(
                f"on_event takes a ModelEvent, not {type(event).__name__}: {shown(event)}",
                "report one",
                'on_event(ModelEvent("retry", "asking again in 2 s"))',
            )
        )
    return _writable(now, ModelEventEntry(content=event, turn=now.turn))


def failure(now: Value, error: BaseException, call: ToolCall | None = None) -> Entries:
    """An exception was raised. One object is recorded once, but a waiting request is always taken back."""
    takes_back = now.waiting and call is None
    if not takes_back and _is_on_record(now, error):
        return ()
    return (ErrorEntry(content=error_text(error), error=error, call=call, turn=now.turn),)


def _is_on_record(now: Value, error: BaseException) -> bool:
    # Back to the latest request or run, which is a few entries, or as many as one turn has.
    for index in range(len(now.history) - 1, -1, -1):
        entry = now.history[index]
        if isinstance(entry, ErrorEntry) and entry.error is error:
            return True
        if isinstance(entry, ModelRequestEntry | RunStartEntry):
            return False
    return False


def result(now: Value, entry: ToolResultEntry) -> Entries:
    """A pending call got its result."""
    return (_stamped(now, entry),)


def _stamped(now: Value, entry: Stamped) -> Stamped:
    """The entry as of now: another thread may have recorded since it was made."""
    return replace(entry, turn=now.turn, at=clock.now())


def end_of_run(now: Value, error: BaseException) -> Entries:
    """An exception left the run: every pending call is closed, and a reason to stop is withdrawn."""
    interrupted = is_interrupt(error)
    outcome = ToolOutcomeKind.INTERRUPTED if interrupted else ToolOutcomeKind.ABORTED
    text = wording.INTERRUPTED if interrupted else wording.aborted(error)
    closed: list[HistoryEntry] = [
        ToolResultEntry(content=text, call=call, outcome=outcome, error=error, turn=now.turn)
        for call in now.pending_calls
    ]
    return [*closed, StopEntry(content=None, turn=now.turn)] if now.stopped is not None else closed


def is_interrupt(error: BaseException) -> bool:
    """Whether an exception means that the person or the program wants the work to end."""
    return isinstance(error, KeyboardInterrupt) or any([_name(c) == _CANCELLED for c in type(error).__mro__])


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def stop(now: Value, stopped: Stopped | None) -> Entries:
    """A loop stops, or goes on after an inner loop stopped. What is so already is not recorded again."""
    return () if now.stopped == stopped else (StopEntry(content=stopped, turn=now.turn),)


def asked(now: Value, kind: Any, question: str, answer: Any, usage: Usage | None = None) -> Entries:
    """A question and its answer, already in JSON form."""
    return (ExchangeEntry(kind=kind, content=Exchange(question, answer), usage=usage, turn=now.turn),)


def repair(now: Value) -> Entries:
    """What closes a turn that the end of a process left open."""
    if now.waiting:
        return (ErrorEntry(content=wording.STOPPED_WAITING, turn=now.turn),)
    return [
        ToolResultEntry(content=wording.RESULT_UNKNOWN, call=call, outcome=ToolOutcomeKind.ABORTED, turn=now.turn)
        for call in now.pending_calls
    ]


def refuse_finished(now: Value, action: str) -> None:
    """`ValueError` if the State is finished."""
    if now.finished:
        raise ValueError(
            explain(
                f"{action}: this State is finished (state.finish was called), and a fork of it is finished too",
                "start a new State from its messages, or restore an earlier snapshot",
                "state = State(messages=state.messages)",
            )
        )


def refuse_pending(now: Value, action: str) -> None:
    """`ValueError` if calls are pending."""
    if now.calls:
        calls = ", ".join([format_call(call) for call in now.pending_calls])
        raise ValueError(
            explain(
                f"{action}: {len(now.pending_calls)} tool calls have no result yet: {calls}",
                "give them their results first",
                "agent.use_tools(state)",
            )
        )
