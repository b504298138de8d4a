"""The permissions themselves: verdicts, kinds, the built-in ones, and what they say of themselves."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from runs import Nobody, call, started

from alpineagents import Agent, Hints, Human, NoHumanError, State, Tool, permissions, tool
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
from alpineagents.state import journal_of
from alpineagents.testing import FakeHuman, FakeModel


@tool(read_only=True)
def look() -> str:
    """Look."""
    return "seen"


@tool
def shred() -> str:
    """Shred."""
    return "gone"


LOOK, SHRED = call("look", "a"), call("shred", "b")
STATE = State()


def test_the_module_has_these_names_and_no_others() -> None:
    kinds = ["AllowPermission", "DecidePermission", "DenyPermission", "Permission"]
    built_in = ["AllowByDefault", "AllowByName", "AllowByReadOnly", "DecideByHuman", "DenyByName"]
    assert sorted(permissions.__all__) == sorted([*kinds, *built_in, "Allowed", "Denied"])


def test_verdicts_are_frozen_and_compare_by_value() -> None:
    assert (Allowed(), Denied("x"), Denied("x", stop=True)) == (Allowed(), Denied("x", False), Denied("x", True))
    assert len({Allowed(), Allowed(), Denied("x"), Denied("x")}) == 2
    assert [repr(Allowed()), repr(Denied("x"))] == ["Allowed()", "Denied(reason='x', stop=False)"]
    with pytest.raises(FrozenInstanceError):
        Denied("x").reason = "y"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Denied(3), TypeError),  # type: ignore[arg-type]
        (lambda: Denied(" \n"), ValueError),
        (lambda: Denied("x", stop=1), TypeError),  # type: ignore[arg-type]
        (lambda: DenyByName("drop_*"), TypeError),
        (lambda: DenyByName(3), TypeError),  # type: ignore[arg-type]
        (lambda: DenyByName(["a", 3]), TypeError),  # type: ignore[list-item]
        (lambda: DenyByName(["a"], reason=3), TypeError),  # type: ignore[arg-type]
        (lambda: DenyByName(["a"], reason=" "), ValueError),
        (lambda: AllowByName(b"a"), TypeError),  # type: ignore[arg-type]
        (lambda: AllowByReadOnly(trust_mcp=1), TypeError),  # type: ignore[arg-type]
        (lambda: DecideByHuman(FakeHuman), TypeError),  # type: ignore[arg-type]
        (lambda: DecideByHuman("me"), TypeError),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_made(make: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"Denied|ByName|ByReadOnly|human|cannot be asked"):
        make()


def test_a_blank_reason_of_deny_by_name_is_told_as_its_own() -> None:
    with pytest.raises(ValueError, match="DenyByName"):
        DenyByName(["a"], reason="")


def no_opinion(self: Any, *args: Any) -> None:
    return None


@pytest.mark.parametrize("bases", [(Permission,), (DenyPermission, AllowPermission), (AllowPermission, DenyPermission)])
def test_a_permission_is_of_exactly_one_kind(bases: Any) -> None:
    cls = type("Odd", bases, {"check": no_opinion})
    with pytest.raises(TypeError, match="exactly one of DenyPermission, AllowPermission, DecidePermission"):
        cls()


@pytest.mark.parametrize("kind", [DenyPermission, AllowPermission, DecidePermission])
def test_a_permission_has_a_check(kind: Any) -> None:
    with pytest.raises(TypeError, match="neither check nor acheck"):
        kind()
    middle = type("Middle", (kind,), {})
    assert repr(type("Leaf", (middle,), {"check": no_opinion})()) == "Leaf()"


def test_its_constructor_is_its_own() -> None:
    class Mine(DenyPermission):
        def __init__(self, word: str) -> None:
            self.word = word

        def check(self, state: State, call: Any, tool: Tool) -> Denied | None:
            return None

    assert Mine("x").word == "x"


class OnlyAsync(AllowPermission):
    async def acheck(self, state: State, call: Any, tool: Tool) -> Allowed:
        return Allowed()


def test_one_that_is_only_async_says_so() -> None:
    with pytest.raises(TypeError, match="arun"):
        OnlyAsync().check(STATE, LOOK, look)


def test_acheck_asks_check_on_another_thread() -> None:
    threads = list[int]()

    class Where(AllowPermission):
        def check(self, state: State, call: Any, tool: Tool) -> Allowed:
            threads.append(threading.get_ident())
            return Allowed()

    assert asyncio.run(Where().acheck(STATE, LOOK, look)) == Allowed()
    assert threads != [threading.get_ident()]


@pytest.mark.parametrize(
    ("patterns", "name", "fits"),
    [
        (["drop_*"], "drop_table", True),
        (["drop_*"], "Drop_table", False),
        (["drop_*"], "no_drop_table", False),
        (["maps__*"], "maps__route", True),
        (["a", "l[op]ok"], "look", True),
        (["loo?"], "look", True),
        ([], "look", False),
    ],
)
def test_names_are_compared_whole_with_shell_patterns(patterns: list[str], name: str, fits: bool) -> None:
    named = call(name, "a")
    assert AllowByName(patterns).check(STATE, named, look) == (Allowed() if fits else None)
    assert DenyByName(patterns).check(STATE, named, look) == (Denied(f"{name} is not allowed.") if fits else None)
    assert DenyByName(patterns, "No!").check(STATE, named, look) == (Denied("No!") if fits else None)


def test_patterns_of_any_iterable_are_kept() -> None:
    assert DenyByName(iter(["a", "b"])).patterns == AllowByName({"a": 1, "b": 2}).patterns == ("a", "b")


def test_read_only_is_what_this_call_does() -> None:
    class Either(Tool):
        def hints_for(self, args: Any) -> Hints:
            return Hints(read_only=args.get("dry", False))

        def run(self, args: Any, state: State) -> str:
            return ""

    either = Either(name="either")
    ask = AllowByReadOnly().check
    assert [ask(STATE, call("either", "a", dry=dry), either) for dry in (True, False)] == [Allowed(), None]
    assert (ask(STATE, LOOK, look), ask(STATE, SHRED, shred)) == (Allowed(), None)


def test_a_tool_that_describes_itself_is_believed_only_when_told_to() -> None:
    class Theirs(Tool):
        describes_itself = True

        def run(self, args: Any, state: State) -> str:
            return ""

    theirs = Theirs(name="look", read_only=True)
    assert AllowByReadOnly().check(STATE, LOOK, theirs) is None
    assert AllowByReadOnly(trust_mcp=True).check(STATE, LOOK, theirs) == Allowed()


class Shown(Nobody):
    def __repr__(self) -> str:
        return "Shown('x')"


@pytest.mark.parametrize(
    ("permission", "text"),
    [
        (DenyByName(["drop_*"]), "DenyByName(['drop_*'])"),
        (DenyByName(["drop_*"], reason="Keep it"), "DenyByName(['drop_*'], reason='Keep it')"),
        (AllowByName(["read_*"]), "AllowByName(['read_*'])"),
        (AllowByReadOnly(), "AllowByReadOnly()"),
        (AllowByReadOnly(trust_mcp=True), "AllowByReadOnly(trust_mcp=True)"),
        (AllowByDefault(), "AllowByDefault()"),
        (DecideByHuman(), "DecideByHuman()"),
        (DecideByHuman(Nobody()), "DecideByHuman(human=Nobody())"),
        (DecideByHuman(Shown()), "DecideByHuman(human=Shown('x'))"),
        (type("DenyShell", (DenyByName,), {})(["bash"], reason="No"), "DenyShell(['bash'], reason='No')"),
    ],
)
def test_a_permission_says_what_it_is(permission: Permission, text: str) -> None:
    assert repr(permission) == text


# Asking a person by hand


def test_the_persons_own_permission_asks_them_and_records_it() -> None:
    human, state = FakeHuman(["maybe", "yes", "no"]), started()
    permission = DecideByHuman(human)
    shown = call("label", "a", box="9")
    assert permission.check(state, shown, look) == Allowed()
    declined = Denied("The user declined this call. Wait for their next message.", stop=True)
    assert asyncio.run(permission.acheck(state, shown, look)) == declined
    asked: list[Any] = [entry.content for entry in state.history[-2:]]
    assert [(entry.question, entry.answer) for entry in asked] == [
        ('Run label(box="9")?', "yes"),
        ('Run label(box="9")?', "no"),
    ]


def test_a_subclass_asks_its_own_question_with_the_choices_yes_and_no() -> None:
    class Polite(DecideByHuman):
        def question(self, call: Any, tool: Tool) -> str:
            return f"May I {call.name}?"

    asked = list[Any]()

    class Person(Human):
        def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
            asked.append((prompt, returns.__args__))
            return "yes"

    Polite(Person()).check(started(), LOOK, look)
    assert asked == [("May I look?", ("yes", "no"))]


def test_without_an_agent_there_is_nobody_to_ask() -> None:
    with pytest.raises(ValueError, match="no Agent has worked on this State"):
        DecideByHuman().check(started(), LOOK, look)


def test_by_hand_the_person_of_the_agent_that_worked_last_is_asked() -> None:
    state, first, second = started(), FakeHuman(["yes"]), FakeHuman(["no"])
    for human in (first, second):
        Agent(FakeModel(["Hello"]), reporter=None, human=human).think(state)
    assert isinstance(DecideByHuman().check(state, LOOK, look), Denied)
    Agent(FakeModel(["Hello"]), reporter=None, human=None).think(state)
    with pytest.raises(NoHumanError):
        DecideByHuman().check(state, LOOK, look)
    assert journal_of(state).human is None


def test_what_the_person_raises_comes_out_and_nothing_is_recorded() -> None:
    class Gone(Human):
        def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
            raise EOFError("no more input")

    state = started()
    before = state.snapshot()
    with pytest.raises(EOFError, match="no more input"):
        DecideByHuman(Gone()).check(state, LOOK, look)
    assert state.snapshot() is before


def test_a_subclass_with_its_own_check_decides_with_it_in_async_code_too() -> None:
    class Mine(DecideByHuman):
        def check(self, state: State, call: Any, tool: Tool) -> Any:
            return Allowed() if call.name == "look" else super().check(state, call, tool)

    human = FakeHuman(["yes"])
    assert asyncio.run(Mine(human).acheck(started(), LOOK, look)) == Allowed()
    assert human.questions == []
    assert asyncio.run(Mine(human).acheck(started(), SHRED, shred)) == Allowed()
    assert human.questions == ["Run shred()?"]


def test_a_subclass_with_only_its_own_acheck_is_only_async() -> None:
    class Mine(DecideByHuman):
        async def acheck(self, state: State, call: Any, tool: Tool) -> Any:
            return await super().acheck(state, call, tool)

    human = FakeHuman(["yes"])
    with pytest.raises(TypeError, match="async"):
        Mine(human).check(started(), LOOK, look)
    assert human.questions == []
    assert asyncio.run(Mine(human).acheck(started(), LOOK, look)) == Allowed()
