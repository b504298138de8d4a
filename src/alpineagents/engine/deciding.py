"""Whether a call may run: the permissions are asked one after the other, denials first."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from alpineagents.engine.actor import add_note
from alpineagents.errors import ToolError, explain, message_of, shown
from alpineagents.permissions import (
    Allowed,
    AllowPermission,
    Asking,
    DecidePermission,
    Denied,
    DenyPermission,
    Permission,
    Rule,
    Verdict,
    enter_check,
    leave_check,
)
from alpineagents.scope import enter_outside, leave_run
from alpineagents.state import State
from alpineagents.tools.base import Tool
from alpineagents.values.content import ToolCall
from alpineagents.values.display import format_call
from alpineagents.waiting import Wait

_VERDICTS: dict[type[Permission], tuple[type, ...]] = {
    DenyPermission: (Denied,),
    AllowPermission: (Allowed,),
    DecidePermission: (Allowed, Denied),
}


class Ruling(NamedTuple):
    """What was decided about a call: the verdict, or `None` if nobody had one.

    Attributes:
        decided_by: The `repr` of the permission that denied. error: The `ToolError` it raised.
    """

    verdict: Verdict
    decided_by: str | None = None
    error: ToolError | None = None


async def ruling(wait: Wait, rules: tuple[Rule, ...], state: State, call: ToolCall, tool: Tool) -> Ruling:
    """Ask until one has an opinion.

    Raises:
        TypeError: A permission answered what its kind may not.
        Exception: What a check raised, other than `ToolError`, with a note that says which.
    """
    for rule in sorted(rules, key=_comes_later):
        found = await _opinion(wait, rule, state, call, tool)
        if found.verdict is not None:
            return found
    return Ruling(None)


def _comes_later(rule: Rule) -> bool:
    return not isinstance(rule.permission, DenyPermission)


async def _opinion(wait: Wait, rule: Rule, state: State, call: ToolCall, tool: Tool) -> Ruling:
    permission = rule.permission
    token, outside = enter_check(Asking(rule, state)), enter_outside()
    try:
        verdict = await wait(permission.check, permission.acheck, state, call, tool)
    except ToolError as error:
        return Ruling(Denied(message_of(error)), repr(permission), error)
    except Exception as error:
        add_note(error, f"exception raised in permission {permission!r} checking {format_call(call)}")
        raise
    finally:
        leave_run(outside)
        leave_check(token)
    if verdict is None:
        return Ruling(None)
    if not isinstance(verdict, verdicts_of(permission)):
        raise TypeError(_no_verdict(permission, verdict))
    return Ruling(verdict, repr(permission) if isinstance(verdict, Denied) else None)


def verdicts_of(permission: Permission) -> tuple[type, ...]:
    """What this kind of permission may answer beside `None`."""
    return next(verdicts for kind, verdicts in _VERDICTS.items() if isinstance(permission, kind))


def _no_verdict(permission: Permission, verdict: Any) -> str:
    if inspect.iscoroutine(verdict):
        verdict.close()  # nobody will await it
    verdicts = verdicts_of(permission)
    may = ", ".join([kind.__name__ + ("(...)" if kind is Denied else "()") for kind in verdicts])
    example = "return Allowed()" if Allowed in verdicts else "return Denied('Ask me first')"
    return explain(f"{permission!r} answered {shown(verdict)}", f"return {may} or None", example)
