"""State: one conversation with its record, the public face of a Journal."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NoReturn, Self, cast

from alpineagents.errors import explain, shown
from alpineagents.history import rules
from alpineagents.history.entries import ContextChangeEntry, HistoryEntry, ToolResultEntry
from alpineagents.history.printed import printed
from alpineagents.history.replay import fold
from alpineagents.history.rules import Entries
from alpineagents.history.snapshot import StateSnapshot, snapshot_of
from alpineagents.history.value import EMPTY
from alpineagents.journal import Journal, Opener
from alpineagents.values.content import Message, ToolCall
from alpineagents.values.frozen import FrozenDict, thaw
from alpineagents.values.outcomes import Stopped
from alpineagents.values.usage import Usage

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_ARGUMENTS = ("id", "messages", "extra_data", "history")
_DERIVED = ("turn", "usage", "stopped", "finished", "answer", "pending_calls")
_CHANGED_BY = {
    "id": "it is given at construction: State(id=...)",
    "messages": "use add_message, compact or restore",
    "history": "every method that changes the State adds to it",
    "pending_calls": "agent.think adds calls, agent.use_tools gives them results",
    "turn": "agent.think counts turns",
    "usage": "agent.think and agent.ask add to it",
    "extra_data": "use edit_extra_data()",
    "finished": "use finish(), or restore to undo it",
    "answer": "use finish(answer)",
    "stopped": "use finish(); loops set it",
    "created_at": "it is the time of the first entry",
    "updated_at": "it is the time of the latest entry",
    "parent_id": "a run started by a tool call sets it",
    "parent_call_id": "a run started by a tool call sets it",
}


class State:
    """One conversation: its history, and what follows from it.

    Args:
        id: The name a store keeps it under: 1-128 of `A-Z a-z 0-9 _ -`; 32 random hex digits when left out.
        messages: The messages it starts with, of either role.
        extra_data: Your own notes to start with, JSON; the model never sees them.
        history: The entries of another State to rebuild, whole; not together with `messages` or `extra_data`.
    Raises:
        TypeError: A wrong kind of argument, or a value that is not JSON.
        ValueError: An id with other characters, or a history whose entries cannot follow each other.

    Example:
        state = State(messages=[Message.user("Find the bug in main.py")])
    """

    def __new__(cls, *args: Any, **arguments: Any) -> Self:
        # Here, because Python's own message for a call that does not fit __init__ would not help.
        if cls.__init__ is State.__init__:
            _check_call(args, arguments)
        return super().__new__(cls)

    def __init__(
        self,
        *,
        id: str | None = None,
        messages: Iterable[Message] = (),
        extra_data: Mapping[str, Any] | None = None,
        history: Iterable[HistoryEntry] | None = None,
    ) -> None:
        self._id = _checked_id(id)
        start = _messages(messages)
        if history is not None:
            if start or extra_data is not None:
                raise TypeError(
                    explain(
                        "State takes history, or messages and extra_data, not both",
                        "history has everything already",
                        "State(history=other.history)",
                    )
                )
            self._journal = Journal(fold(_entries(history)))
            return
        self._journal = Journal(EMPTY)
        self._journal.record(rules.imported, start)
        if extra_data is not None and not isinstance(extra_data, Mapping):
            raise TypeError(explain(f"extra_data is a mapping, not {type(extra_data).__name__}: {shown(extra_data)}"))
        self._journal.record(rules.extra_data, extra_data or {})

    @property
    def id(self) -> str:
        """The name a store keeps this State under."""
        return self._id

    @property
    def history(self) -> tuple[HistoryEntry, ...]:
        """Everything that happened, oldest first."""
        return snapshot_of(self._journal.now).history

    @property
    def messages(self) -> tuple[Message, ...]:
        """What the model sees at the next `think`."""
        return snapshot_of(self._journal.now).messages

    @property
    def pending_calls(self) -> tuple[ToolCall, ...]:
        """Tool calls the model asked for that have no result yet, in the order asked."""
        return self._journal.now.pending_calls

    @property
    def turn(self) -> int:
        """How many model replies there were, plus one while a request waits."""
        return self._journal.now.turn

    @property
    def usage(self) -> Usage:
        """Tokens, requests and dollars of everything this State and its subagents spent."""
        return self._journal.now.usage

    @property
    def extra_data(self) -> FrozenDict[str, Any]:
        """Your own notes, read-only here: change them with `edit_extra_data()`."""
        return self._journal.now.extra_data

    @property
    def finished(self) -> bool:
        """Whether `finish` was called and not undone."""
        return self._journal.now.finished

    @property
    def answer(self) -> Any:
        """The last answer given to `finish`, else the text of the last reply that asked for no tools, else `None`."""
        return self._journal.now.answer

    @property
    def stopped(self) -> Stopped | None:
        """Why the current or last run is set to stop."""
        return self._journal.now.stopped

    @property
    def created_at(self) -> datetime | None:
        """When the first entry was recorded, UTC."""
        return self._journal.now.created_at

    @property
    def updated_at(self) -> datetime | None:
        """When the latest entry was recorded, UTC."""
        return self._journal.now.updated_at

    @property
    def parent_id(self) -> str | None:
        """The id of the State whose tool call first started a run of this one."""
        link = self._journal.now.link
        return link[0] if link else None

    @property
    def parent_call_id(self) -> str | None:
        """The id of that tool call."""
        link = self._journal.now.link
        return link[1] if link else None

    def snapshot(self) -> StateSnapshot:
        """This moment as a frozen value; the same object until the next entry is recorded."""
        return snapshot_of(self._journal.now)

    def add_message(self, message: Message) -> None:
        """Add a user message or notice. While a request or calls are open it waits and enters `messages` behind them.

        Raises:
            TypeError: `message` is not a `Message`.
            ValueError: It is an assistant message, is blank, or has other blocks than text and images.
        """
        self._journal.command(rules.message, message)

    def finish(self, answer: Any = None) -> None:
        """End the State for good: the loop stops before its next turn, and only `restore` takes it back.

        Args:
            answer: Becomes `state.answer` if it is not `None`: JSON, a dataclass or a Pydantic model.
        Raises:
            TypeError: The answer has no JSON form.
        """
        self._journal.command(rules.finish, answer)

    def compact(self, summary: str) -> None:
        """Replace `messages` by the first user message and this summary.

        Raises:
            TypeError: `summary` is not a `str`.
            ValueError: It is blank, or calls are pending.
        """
        self._change_context(rules.compact, summary)

    def clear_tool_results(self, keep_last: int = 5) -> None:
        """Blank all tool results in `messages` but the last `keep_last`; history keeps them.

        Raises:
            ValueError: `keep_last` is not an int >= 0, or calls are pending.
        """
        self._change_context(rules.clear_tool_results, keep_last)

    def restore(self, snapshot: StateSnapshot) -> None:
        """Go back to an earlier snapshot of this State. Usage and history stay; history says that it went back.

        Raises:
            TypeError: It is not a `StateSnapshot`.
            ValueError: It is of another State, or either moment is in the middle of a turn.
        """
        self._change_context(rules.restore, snapshot, lambda: self._journal.compacting)

    def _change_context(self, rule: Callable[..., Entries], *args: Any) -> None:
        journal = self._journal
        for entry in journal.command(rule, *args):
            if journal.on_change is not None:
                journal.on_change(cast("ContextChangeEntry", entry).content)

    @contextmanager
    def edit_extra_data(self) -> Generator[dict[str, Any]]:
        """Change `extra_data`: the block gets an editable copy, and its changes become one entry when it ends.

        Blocks of several threads take turns. Nothing is recorded if the block raises or changes nothing.

        Raises:
            TypeError: At the end of the block, for a value that is not JSON; the message gives its place.

        Example:
            with state.edit_extra_data() as data:
                data["seen"] = [*data.get("seen", []), "a.py"]
        """
        journal = self._journal
        with journal.edits:
            start = journal.now.extra_data
            data: dict[str, Any] = thaw(start)
            yield data
            journal.command(rules.extra_data_edit, start, data)

    def fork(self) -> State:
        """A new State with the same history and a new id, bound to no store; neither reaches the other afterwards.

        Raises:
            ValueError: The model is being waited on.
        """
        now = self._journal.now
        if now.waiting:
            raise ValueError(
                explain(
                    "fork: the model is being waited on",
                    "fork before think or after it returns, for example in Reporter.on_think_end",
                )
            )
        journal = Journal(now)
        journal.origin = self._journal
        journal.forked = (self._id, len(now.history))
        journal.children = dict(self._journal.children)
        journal.opener = self._journal.opener
        return state_of(secrets.token_hex(16), journal)

    def child(self, child_id: str) -> State:
        """The State of a subagent that one of this State's tool calls started.

        Returns:
            The very State the run used, if it ran in this process; otherwise a new one from the store, at every call.
        Raises:
            KeyError: No call of this State started it; a subagent's own subagents are opened from that one's State.
            ValueError: It is in no store.
            LookupError: It is in another store than this State.
            TypeError: The store works only asynchronously.
        """
        found = self._journal.children.get(child_id)
        return self._opener(child_id).load(child_id) if found is None else found

    async def achild(self, child_id: str) -> State:
        """`child` without blocking the event loop."""
        found = self._journal.children.get(child_id)
        return await self._opener(child_id).aload(child_id) if found is None else found

    def _opener(self, child_id: object) -> Opener:
        journal = self._journal
        known = [entry.child_ids for entry in journal.now.history if isinstance(entry, ToolResultEntry)]
        if not any([child_id in ids for ids in known]):
            raise KeyError(
                explain(
                    f"no tool call of State {self._id!r} started a State {shown(child_id)}",
                    "take an id from child_ids of a tool result; open a subagent's own subagents from its State",
                    "state.child(id).child(id_of_its_child)",
                )
            )
        if journal.opener is None:
            raise ValueError(
                explain(
                    f"the subagent {shown(child_id)} is neither in memory nor in a store",
                    "keep the runs in a store",
                    'Agent(..., store="runs.db")',
                )
            )
        return journal.opener

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            _refuse_attribute(type(self), name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if not name.startswith("_"):
            _refuse_attribute(type(self), name)
        object.__delattr__(self, name)

    def __copy__(self) -> State:
        return State(history=self.history)

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise TypeError(explain("a State cannot be deep-copied", "use state.fork(), or copy state.snapshot()"))

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            explain("a State cannot be pickled", "pickle state.history, and rebuild it", "State(history=...)")
        )

    def __repr__(self) -> str:
        now = self._journal.now
        counts = f"history={len(now.history)} messages={len(now.messages)} pending={len(now.pending_calls)}"
        return f"<State id={self._id!r} turn={now.turn} {counts}{' finished' if now.finished else ''}>"

    def __str__(self) -> str:
        return printed(self._journal.now)


def journal_of(state: State) -> Journal:
    """The one door from a State to its Journal."""
    return state._journal  # noqa: SLF001  # the door itself


def state_of(id: str, journal: Journal) -> State:
    """The State that shows this Journal under an id that is already checked."""
    state = State(id=id)
    state._journal = journal  # noqa: SLF001  # a door too
    return state


def _check_call(args: tuple[Any, ...], arguments: dict[str, Any]) -> None:
    example = 'State(messages=[Message.user("Find the bug")])'
    if args:
        raise TypeError(explain("State takes keyword arguments only", "name the argument", example))
    name = next((name for name in arguments if name not in _ARGUMENTS), None)
    if name is None:
        return
    known = f"State takes {', '.join(_ARGUMENTS)}"
    if name in _DERIVED:
        raise TypeError(explain(f"State takes no {name!r}: it is derived from history", known, example))
    raise TypeError(explain(f"State takes no argument {name!r}", known, example))


def _checked_id(id: object) -> str:
    if id is None:
        return secrets.token_hex(16)
    check_id(id)
    return cast("str", id)


def check_id(id: object) -> None:
    """Refuse what is no State id.

    Raises:
        TypeError: It is not a `str`.
        ValueError: It is not 1-128 of `A-Z a-z 0-9 _ -`.
    """
    rule = "use 1 to 128 letters, digits, _ and -"
    if not isinstance(id, str):
        problem = f"a State id is a str, not {type(id).__name__}: {shown(id)}"
        raise TypeError(explain(problem, rule, 'State(id="bug-1")'))
    if not _ID.fullmatch(id):
        raise ValueError(explain(f"{shown(id)} is not a State id", rule, 'State(id="bug-1")'))


def _messages(messages: object) -> tuple[Message, ...]:
    example = 'State(messages=[Message.user("Find the bug")])'
    if isinstance(messages, str | bytes | Message) or not isinstance(messages, Iterable):
        raise TypeError(
            explain(f"messages is a list of Message, not {type(messages).__name__}", "put it in a list", example)
        )
    items = tuple(cast("Iterable[object]", messages))
    for index, item in enumerate(items):
        if not isinstance(item, Message):
            raise TypeError(
                explain(f"messages[{index}] is not a Message but {type(item).__name__}", "make one", example)
            )
    return cast("tuple[Message, ...]", items)


def _entries(history: object) -> Iterable[HistoryEntry]:
    if not isinstance(history, Iterable) or isinstance(history, str | bytes):
        raise TypeError(
            explain(
                f"history is a list of entries, not {type(history).__name__}",
                "pass the history of a State or snapshot",
                "State(history=other.history)",
            )
        )
    return cast("Iterable[HistoryEntry]", history)


def _refuse_attribute(cls: type, name: str) -> NoReturn:
    if name in _CHANGED_BY:
        raise AttributeError(explain(f"state.{name} is read-only", _CHANGED_BY[name]))
    if callable(getattr(cls, name, None)):
        raise AttributeError(explain(f"state.{name} is a method, and methods of State cannot be overwritten"))
    raise AttributeError(
        explain(
            f"State takes no attribute {name!r}",
            "keep your own values in extra_data",
            "with state.edit_extra_data() as data:\n    data[...] = ...",
        )
    )
