"""Permissions: whether a tool call may run, decided before it does.

    agent = Agent(model, tools=tools, permissions=[DenyByName(["drop_*"]), AllowByReadOnly(), DecideByHuman()])

Every `DenyPermission` is asked first, wherever it stands in the list; then the others in order, until one has an
opinion. What nobody allows is denied.
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, Self, TypeAlias, cast

from alpineagents.errors import NoHumanError, explain, shown
from alpineagents.history import rules
from alpineagents.human import Human, aask_person, ask_person, can_ask, check_human
from alpineagents.state import State, journal_of
from alpineagents.tools.base import Tool
from alpineagents.values.content import ToolCall
from alpineagents.values.display import format_call
from alpineagents.values.frozen import answer_form
from alpineagents.waiting import Wait, awaiting, blocking, complete, in_thread

_DECLINED = "The user declined this call. Wait for their next message."


@dataclass(frozen=True)
class Allowed:
    """The call may run."""


@dataclass(frozen=True)
class Denied:
    """The call may not run.

    Args:
        reason: What the model reads in place of a result.
        stop: Whether no other call of the turn runs either, and the run ends.
    Raises:
        TypeError: `reason` is no `str`, or `stop` no `bool`.
        ValueError: `reason` is blank.
    """

    reason: str
    stop: bool = False

    def __post_init__(self) -> None:
        _check_reason("Denied", self.reason)
        if type(self.stop) is not bool:
            raise TypeError(explain(f"Denied: stop is True or False, not {shown(self.stop)}"))


Verdict: TypeAlias = Allowed | Denied | None


def _check_reason(owner: str, reason: object) -> None:
    example = f"{owner}(..., reason='Ask me first')" if owner != "Denied" else "Denied('Ask me first')"
    if not isinstance(reason, str):
        raise TypeError(explain(f"{owner}: reason is a str, not {type(reason).__name__}", "give a sentence", example))
    if not reason.strip():
        raise ValueError(explain(f"{owner}: the reason is blank, and the model has to read it", "give one", example))


class Permission:
    """The base of all permissions. Subclass one of its kinds and write `check`, `acheck` or both.

    A check gets the recorded call, whose arguments have not been looked at: any may be missing or of a wrong type. It
    answers with a verdict, or with `None` for no opinion. One that raises `ToolError` denies the call with its message;
    what else it raises ends the run.

    Raises:
        TypeError: The class is of no kind or of several, or has neither method.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        kinds = [kind.__name__ for kind in KINDS if issubclass(cls, kind)]
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none of them"
            names = ", ".join([kind.__name__ for kind in KINDS])
            problem = f"a permission is exactly one of {names}, and {cls.__name__} is {found}"
            raise TypeError(explain(problem, "subclass one", "class NoShell(DenyPermission):\n    def check(...): ..."))
        if cls.check is Permission.check and cls.acheck is Permission.acheck:
            problem = f"{cls.__name__} implements neither check nor acheck"
            raise TypeError(explain(problem, "write one", "def check(self, state, call, tool):\n    return None"))
        return super().__new__(cls)

    def check(self, state: State, call: ToolCall, tool: Tool) -> Verdict:
        """Whether the call may run.

        Raises:
            TypeError: This permission can only be asked in async code.
        """
        raise TypeError(_only_async(self))

    async def acheck(self, state: State, call: ToolCall, tool: Tool) -> Verdict:
        """`check` without blocking the event loop; by default on a worker thread."""
        return await in_thread(self.check, state, call, tool)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class DenyPermission(Permission):
    """Denies, or has no opinion. Asked before all others."""


class AllowPermission(Permission):
    """Allows, or has no opinion."""


class DecidePermission(Permission):
    """Allows, denies, or has no opinion."""


KINDS = (DenyPermission, AllowPermission, DecidePermission)


def _only_async(permission: Permission) -> str:
    return explain(
        f"{permission!r} can only be asked in async code: it implements acheck, but not check",
        "use arun() and ause_tools(), or give the class a method check",
        "await agent.arun(state)",
    )


class DenyByName(DenyPermission):
    """Denies calls by the name of the tool.

    Args:
        patterns: Shell patterns (`*`, `?`, `[...]`) that are compared with the whole name, case included.
        reason: What the model reads; `<tool name> is not allowed.` when left out.
    Raises:
        TypeError: `patterns` is not a list of texts, or `reason` no text.
        ValueError: `reason` is blank.
    """

    def __init__(self, patterns: Iterable[str], reason: str | None = None) -> None:
        self.patterns = _patterns("DenyByName", patterns)
        if reason is not None:
            _check_reason("DenyByName", reason)
        self.reason = reason

    def check(self, state: State, call: ToolCall, tool: Tool) -> Verdict:
        """Whether a pattern fits the name."""
        if not _fits(call.name, self.patterns):
            return None
        return Denied(f"{call.name} is not allowed." if self.reason is None else self.reason)

    def __repr__(self) -> str:
        reason = "" if self.reason is None else f", reason={self.reason!r}"
        return f"{type(self).__name__}({list(self.patterns)!r}{reason})"


class AllowByName(AllowPermission):
    """Allows calls by the name of the tool; `patterns` as in `DenyByName`."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = _patterns("AllowByName", patterns)

    def check(self, state: State, call: ToolCall, tool: Tool) -> Verdict:
        """Whether a pattern fits the name."""
        return Allowed() if _fits(call.name, self.patterns) else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.patterns)!r})"


def _patterns(owner: str, patterns: object) -> tuple[str, ...]:
    example = f"{owner}(['drop_*'])"
    if isinstance(patterns, str | bytes) or not isinstance(patterns, Iterable):
        problem = f"{owner} takes a list of patterns, not {type(patterns).__name__}: {shown(patterns)}"
        raise TypeError(explain(problem, "put it into a list", example))
    items = tuple(cast("Iterable[object]", patterns))
    for item in items:
        if not isinstance(item, str):
            raise TypeError(explain(f"{owner}: a pattern is a str, not {shown(item)}", "give names", example))
    return cast("tuple[str, ...]", items)


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any([fnmatchcase(name, pattern) for pattern in patterns])


class AllowByReadOnly(AllowPermission):
    """Allows calls that change nothing, as the tool says of each.

    Args:
        trust_mcp: Whether tools that describe themselves are believed, as those of an MCP server do.
    Raises:
        TypeError: `trust_mcp` is no bool.
    """

    def __init__(self, trust_mcp: bool = False) -> None:
        if type(trust_mcp) is not bool:
            raise TypeError(explain(f"AllowByReadOnly: trust_mcp is True or False, not {shown(trust_mcp)}"))
        self.trust_mcp = trust_mcp

    def check(self, state: State, call: ToolCall, tool: Tool) -> Verdict:
        """Whether this call is read-only."""
        if tool.describes_itself and not self.trust_mcp:
            return None
        return Allowed() if tool.hints_for(call.args).read_only else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'trust_mcp=True' if self.trust_mcp else ''})"


class AllowByDefault(AllowPermission):
    """Allows every call that nothing denies."""

    def check(self, state: State, call: ToolCall, tool: Tool) -> Verdict:
        """Yes."""
        return Allowed()


class DecideByHuman(DecidePermission):
    """Asks a person, and records question and answer. What they decline ends the run, so that they can say more.

    Args:
        human: Who is asked; when left out, the person of the Agent that has this permission.
    Raises:
        TypeError: `human` cannot be asked.
    """

    def __init__(self, human: Human | None = None) -> None:
        if human is not None:
            check_human(human)
        self.human = human

    def question(self, call: ToolCall, tool: Tool) -> str:
        """What the person is asked; override it to ask otherwise."""
        return f"Run {format_call(call)}?"

    def check(self, state: State, call: ToolCall, tool: Tool) -> Verdict:
        """Whether the person says yes.

        Raises:
            NoHumanError: There is nobody.
            ValueError: Called by hand on a State that no Agent has worked on.
        """
        if is_async_only(self):
            raise TypeError(_only_async(self))
        return complete(self._decided(blocking, state, call, tool))

    async def acheck(self, state: State, call: ToolCall, tool: Tool) -> Verdict:
        """`check` without blocking the event loop."""
        cls = type(self)
        if cls.check is not DecideByHuman.check and cls.acheck is DecideByHuman.acheck:
            return await in_thread(self.check, state, call, tool)
        return await self._decided(awaiting, state, call, tool)

    async def _decided(self, wait: Wait, state: State, call: ToolCall, tool: Tool) -> Verdict:
        person, question = self._person(state), self.question(call, tool)
        if not isinstance(question, str):  # any subclass may write its own
            problem = f"{self!r}: question returned {shown(question)}, which is not a str"
            raise TypeError(explain(problem, "return the text the person reads", "return f'Run {call.name}?'"))
        answer = await wait(ask_person, aask_person, person, state, question, Literal["yes", "no"])
        journal = journal_of(state)
        await wait(journal.record, journal.arecord, rules.asked, "human", question, _recorded(answer))
        return Allowed() if answer == "yes" else Denied(_DECLINED, stop=True)

    def _person(self, state: State) -> object:
        if self.human is not None:
            return self.human
        asking, journal = _asking.get(), journal_of(state)
        rule = asking.rule if asking is not None and asking.state is state else None
        if rule is None and not journal.linked:
            problem = f"{self!r}: no Agent has worked on this State, so there is nobody to ask"
            raise ValueError(explain(problem, "give the permission a person", "DecideByHuman(human=Terminal())"))
        person = journal.human if rule is None else rule.human
        if person is None:
            raise NoHumanError(_nobody(self, rule is not None and rule.inherited))
        return person

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.human is None else f'human={_human_text(self.human)}'})"


def _recorded(answer: object) -> Any:
    """An answer as history keeps it: what anybody says is recorded, if need be as its `repr`."""
    try:
        return answer_form(answer, "answer")
    except Exception:  # besides TypeError whatever the conversion of somebody's class raises
        return shown(answer, sys.maxsize)


def _human_text(human: object) -> str:
    return f"{type(human).__name__}()" if type(human).__repr__ is object.__repr__ else repr(human)


def nobody(problem: str, inherited: bool) -> str:
    """The message of a `NoHumanError`.

    Args:
        inherited: Whether the Agent is a subagent's that was given no person itself.
    """
    who = "the Agent has human=None"
    fix = "give it one, or leave human= out to ask at the terminal"
    if inherited:
        who = "this subagent was given no human, and the run that started it has human=None"
        fix = "give a human to one of the two Agents"
    return explain(
        f"{problem}: {who}",
        f"{fix}; in a test give answers",
        'agent.copy(human=FakeHuman(["yes"]))    # from alpineagents.testing import FakeHuman',
    )


def _nobody(permission: Permission, inherited: bool) -> str:
    return nobody(f"{permission!r} has nobody to ask", inherited)


class Rule(NamedTuple):
    """A permission, and the person of the Agent that wrote it.

    Attributes:
        inherited: Whether that person is the one of the run above.
    """

    permission: Permission
    human: Human | None
    inherited: bool = False


class Asking(NamedTuple):
    """Which permission is being asked, about a call of which State: a run that a check starts is about another one."""

    rule: Rule
    state: State


# A check on a worker thread sees it too.
_asking: contextvars.ContextVar[Asking | None] = contextvars.ContextVar("asking", default=None)


def enter_check(asking: Asking) -> contextvars.Token[Asking | None]:
    """Say which permission is being asked."""
    return _asking.set(asking)


def leave_check(token: contextvars.Token[Asking | None]) -> None:
    """Take back `enter_check`."""
    _asking.reset(token)


def is_async_only(permission: Permission) -> bool:
    """Whether this permission cannot be asked without an event loop."""
    cls = type(permission)
    if isinstance(permission, DecideByHuman):
        return cls.check is DecideByHuman.check and cls.acheck is not DecideByHuman.acheck
    return cls.check is Permission.check


def refuse_unaskable(rules: tuple[Rule, ...] | None, asynchronous: bool) -> None:
    """Refuse a run before it starts, if one of its permissions could not be asked.

    Raises:
        TypeError: A sync run has a permission, or a person to ask, that works only asynchronously.
        NoHumanError: A permission asks a person, and there is nobody.
    """
    for rule in rules or ():
        if is_async_only(rule.permission) and not asynchronous:
            raise TypeError(_only_async(rule.permission))
        if isinstance(rule.permission, DecideByHuman):
            _check_person(rule.permission, rule, asynchronous)


def _check_person(permission: DecideByHuman, rule: Rule, asynchronous: bool) -> None:
    person = rule.human if permission.human is None else permission.human
    if person is None:
        raise NoHumanError(_nobody(permission, rule.inherited))
    asks_itself = type(permission).check is DecideByHuman.check
    if not asynchronous and asks_itself and not can_ask(person):
        raise TypeError(
            explain(
                f"{permission!r} asks {type(person).__name__}, who can only be asked in async code",
                "use arun, or give the class a method ask",
                "await agent.arun(state)",
            )
        )


def checked_permissions(permissions: object) -> tuple[Permission, ...] | None:
    """The permissions of an Agent; `None` means that nothing is checked.

    Raises:
        TypeError: It is no list, or an item is no permission.
    """
    if permissions is None:
        return None
    example = "Agent(model, permissions=[AllowByDefault()])"
    if isinstance(permissions, str | bytes) or not isinstance(permissions, Iterable):
        problem = f"permissions is a list, not {type(permissions).__name__}: {shown(permissions)}"
        raise TypeError(explain(problem, "put it into a list", example))
    items = tuple(cast("Iterable[object]", permissions))
    for item in items:
        if isinstance(item, type):
            problem = f"permissions takes objects, and {item.__name__} is the class"
            raise TypeError(explain(problem, "make an object of it", f"permissions=[{item.__name__}()]"))
        if not isinstance(item, Permission):
            raise TypeError(explain(f"permissions takes Permission objects, not {shown(item)}", example=example))
    return cast("tuple[Permission, ...]", items)


__all__ = [
    "AllowByDefault",
    "AllowByName",
    "AllowByReadOnly",
    "AllowPermission",
    "Allowed",
    "DecideByHuman",
    "DecidePermission",
    "Denied",
    "DenyByName",
    "DenyPermission",
    "Permission",
]
