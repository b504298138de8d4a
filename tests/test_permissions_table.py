"""Every kind of permission, built-in and custom, in sync and async runs: what becomes of the same four calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from runs import agent, call, is_async, started

from alpineagents import PermissionWarning, State, ToolError, ToolResultEntry, tool
from alpineagents.permissions import (
    AllowByDefault,
    AllowByName,
    AllowByReadOnly,
    Allowed,
    AllowPermission,
    DecideByHuman,
    DecidePermission,
    Denied,
    DenyByName,
    DenyPermission,
    Permission,
)
from alpineagents.testing import FakeHuman


@tool(read_only=True)
def look(shelf: str) -> str:
    """Look."""
    return shelf


@tool
def shred(box: str) -> str:
    """Shred."""
    return box


@tool
def label(box: str) -> str:
    """Label."""
    return box


CALLS = [call("look", "a", shelf="A"), call("shred", "b", box="9"), call("label", "c", box="9"), call("look", "d")]


class Custom(DecidePermission):
    def check(self, state: State, call: Any, tool: Any) -> Any:
        return {"look": Allowed(), "shred": Denied("no")}.get(call.name)


class Failing(DenyPermission):
    def check(self, state: State, call: Any, tool: Any) -> Any:
        if call.name == "shred":
            raise ToolError("The office is closed")


class OnlyAsync(AllowPermission):
    async def acheck(self, state: State, call: Any, tool: Any) -> Any:
        return Allowed() if call.name == "label" else None


class Both(DecidePermission):
    def check(self, state: State, call: Any, tool: Any) -> Any:
        return Allowed()

    async def acheck(self, state: State, call: Any, tool: Any) -> Any:
        return Allowed()


class Stopping(DenyPermission):
    def check(self, state: State, call: Any, tool: Any) -> Any:
        return Denied("enough", stop=True) if call.name == "label" else None


# One letter a call: done, Input error, denied (X), cancelled (-).
LETTERS = {"done": "d", "input_error": "I", "denied": "X", "cancelled": "-"}
TABLE: list[tuple[Callable[[], list[Permission] | None], str]] = [
    (lambda: None, "dddI"),
    (lambda: [], "XXXX"),
    (lambda: [AllowByDefault()], "dddI"),
    (lambda: [AllowByName(["l*"])], "dXdI"),
    (lambda: [AllowByReadOnly()], "dXXI"),
    (lambda: [DenyByName(["shred"])], "XXXX"),
    (lambda: [AllowByDefault(), DenyByName(["s*", "look"])], "XXdX"),
    (lambda: [DecideByHuman(FakeHuman(["yes"] * 4))], "dddI"),
    (lambda: [DecideByHuman(FakeHuman(["yes", "no"]))], "-X--"),
    (lambda: [AllowByReadOnly(), DecideByHuman(FakeHuman(["yes", "no"]))], "--X-"),
    (lambda: [Custom()], "dXXI"),
    (lambda: [Custom(), AllowByDefault()], "dXdI"),
    (lambda: [AllowByDefault(), Failing()], "dXdI"),
    (lambda: [AllowByDefault(), Custom()], "dddI"),
    (lambda: [Both()], "dddI"),
    (lambda: [AllowByDefault(), Stopping()], "--X-"),
    (lambda: [Custom(), Stopping()], "-XX-"),
    (lambda: [OnlyAsync()], "XXdX"),
]


@pytest.mark.filterwarnings("ignore::alpineagents.PermissionWarning")
@pytest.mark.parametrize(("permissions", "ends"), TABLE, ids=range(len(TABLE)))
def test_what_becomes_of_four_calls(act: Callable[..., Any], permissions: Any, ends: str) -> None:
    made = agent(CALLS, "Done", tools=[look, shred, label], permissions=permissions())
    state = started()
    if not is_async(act) and any([isinstance(each, OnlyAsync) for each in made.permissions]):
        with pytest.raises(TypeError, match="arun"):
            act(made, "run", state)
        return
    act(made, "run", state)
    kinds = {entry.call.id: str(entry.outcome) for entry in state.history if isinstance(entry, ToolResultEntry)}
    assert "".join([LETTERS[kinds[each.id]] for each in CALLS]) == ends


def test_only_a_call_nobody_decided_about_warns(act: Callable[..., Any]) -> None:
    made = agent(CALLS[1:3], "Done", tools=[shred, label], permissions=[Custom()])
    with pytest.warns(PermissionWarning) as warned:
        act(made, "run", started())
    assert ["label" in str(each.message) for each in warned] == [True]
