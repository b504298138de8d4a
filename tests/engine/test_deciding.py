"""Permissions in a run: who is asked in what order, what is recorded and told, and what a stop or a failure does."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import (
    AsyncStep,
    Heard,
    Nobody,
    Shelf,
    Step,
    agent,
    call,
    is_async,
    is_at_rest,
    started,
    story,
    written,
)

from alpineagents import (
    Human,
    NoHumanError,
    PermissionWarning,
    SqliteStore,
    State,
    StoppedByFinish,
    StoppedByPermission,
    ToolError,
    ToolInputError,
    ToolResultEntry,
    tool,
)
from alpineagents.permissions import (
    AllowByDefault,
    AllowByReadOnly,
    Allowed,
    AllowPermission,
    DecideByHuman,
    DecidePermission,
    Denied,
    DenyByName,
    DenyPermission,
)
from alpineagents.testing import FakeHuman
from alpineagents.types import ToolCall, ToolOutcomeKind

Act = Callable[..., Any]


@tool(read_only=True)
def look(shelf: str = "A") -> str:
    """Look."""
    return f"seen {shelf}"


@tool
def shred(box: str = "9") -> str:
    """Shred."""
    return "gone"


@tool
def label(box: str = "9") -> str:
    """Label."""
    return "labelled"


TOOLS = [look, shred, label]
T1, T2, T3, T4 = (
    call("look", "t1", shelf="A"),
    call("shred", "t2", box="9"),
    call("label", "t3", box="9"),
    call("look", "t4", shelf="B"),
)


class Says(DecidePermission):
    """Gives or raises what a test says, and keeps which calls it was asked about."""

    def __init__(self, answer: Any = None, name: str = "Says", at: str | None = None) -> None:
        self.answer, self.name, self.at = answer, name, at
        self.asked: list[str] = []

    def check(self, state: State, call: ToolCall, tool: Any) -> Any:
        self.asked.append(call.id)
        if self.at not in (None, call.id):
            return None
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer(state, call, tool) if callable(self.answer) else self.answer

    def __repr__(self) -> str:
        return f"{self.name}()"


class SaysNo(DenyPermission):
    check = Says.check
    __init__ = Says.__init__
    __repr__ = Says.__repr__


class SaysYes(AllowPermission):
    check = Says.check
    __init__ = Says.__init__
    __repr__ = Says.__repr__


def done(act: Act, calls: list[ToolCall], permissions: Any, *replies: Any, **settings: Any) -> State:
    """The State of a run in which the model asks for these calls and then says "Done"."""
    state = started()
    settings = {"tools": TOOLS, **settings}
    act(agent(calls, *(replies or ["Done"]), permissions=permissions, **settings), "run", state)
    return state


def turn(state: State) -> list[str]:
    """What was recorded behind the first reply."""
    lines = story(state)
    lines = lines[lines.index("model_reply") + 1 :]
    return lines[: lines.index("model_request")] if "model_request" in lines else lines


def outcomes(state: State) -> dict[str, str]:
    return {entry.call.id: str(entry.outcome) for entry in state.history if isinstance(entry, ToolResultEntry)}


# The setting


def test_without_permissions_every_call_runs_and_nothing_warns(act: Act) -> None:
    assert outcomes(done(act, [T1, T2], None)) == {"t1": "done", "t2": "done"}


def test_an_empty_list_denies_every_call(act: Act) -> None:
    with pytest.warns(PermissionWarning, match=r"shred.*\n*.*AllowByDefault\(\)"):
        state = done(act, [T2], [])
    [result] = [entry for entry in state.history if isinstance(entry, ToolResultEntry)]
    assert (result.outcome, result.content) == (ToolOutcomeKind.DENIED, "No permission allowed this call.")
    assert result.is_error


def test_the_list_is_shown_as_a_tuple_and_copied() -> None:
    first, second = AllowByDefault(), DenyByName(["x"])
    made = agent(permissions=iter([first, second]))
    assert made.permissions == made.copy().permissions == (first, second)
    assert made.copy(permissions=[second]).permissions == (second,)
    assert agent(permissions=[]).permissions == agent().permissions == ()


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize(("permissions", "outcome"), [(None, "done"), ([], "denied")])
@pytest.mark.filterwarnings("ignore::alpineagents.PermissionWarning")
def test_none_and_an_empty_list_stay_apart(act: Act, copied: bool, permissions: Any, outcome: str) -> None:
    made = agent([T1], "Done", tools=TOOLS, permissions=permissions)
    state = started()
    act(made.copy() if copied else made, "run", state)
    assert outcomes(state) == {"t1": outcome}


def test_permissions_can_be_turned_off_in_a_copy(act: Act) -> None:
    state = started()
    act(agent([T2], "Done", tools=TOOLS, permissions=[]).copy(permissions=None), "run", state)
    assert outcomes(state) == {"t2": "done"}


@pytest.mark.parametrize(
    ("permissions", "text"),
    [
        ("x", "a list, not str"),
        (AllowByDefault(), "a list, not AllowByDefault"),
        ([AllowByDefault], "is the class"),
        ([3], "Permission objects"),
    ],
)
def test_what_is_no_list_of_permissions_is_refused(permissions: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        agent(permissions=permissions)


# The decision


def test_denials_are_asked_first_wherever_they_stand(act: Act) -> None:
    yes = SaysYes(Allowed(), "Yes")
    state = done(act, [T1, T2], [yes, DenyByName(["shred"])])
    assert outcomes(state) == {"t1": "done", "t2": "denied"}
    assert yes.asked == ["t1"]


def test_the_first_opinion_decides_and_nobody_behind_it_is_asked(act: Act) -> None:
    no, silent, first, second = SaysNo(), Says(), Says(Denied("first")), Says(Denied("second"))
    state = done(act, [T1], [silent, first, second, no])
    assert turn(state)[0] == "look denied: first"
    assert [each.asked for each in (no, silent, first, second)] == [["t1"], ["t1"], ["t1"], []]


def test_the_first_denial_decides_alone(act: Act) -> None:
    one, other = SaysNo(Denied("one")), SaysNo(Denied("other"))
    assert turn(done(act, [T1], [one, other]))[0] == "look denied: one"
    assert other.asked == []


def test_all_calls_are_decided_in_order_before_any_tool_runs(act: Act) -> None:
    seen = list[str]()

    def decide(state: State, call: ToolCall, tool: Any) -> Any:
        seen.append(f"{call.id} pending {[each.id for each in state.pending_calls]}")
        return Denied("no") if call.id == "b" else Allowed()

    step = AsyncStep if is_async(act) else Step
    run = step(ran_async(seen) if is_async(act) else seen.append)
    done(act, [call("step", name, id=name) for name in "abc"], [Says(decide)], tools=[run])
    assert seen[:3] == ["a pending ['a', 'b', 'c']", "b pending ['a', 'b', 'c']", "c pending ['a', 'c']"]
    assert sorted(seen[3:]) == ["a", "c"]


def ran_async(seen: list[str]) -> Any:
    async def ran(id: str) -> None:
        seen.append(id)

    return ran


def test_the_check_gets_the_call_and_the_tool_that_will_run(act: Act) -> None:
    def decide(state: State, call: ToolCall, tool: Any) -> Any:
        assert (call is given, tool is made.tool_map["look"]) == (True, True)
        return Allowed()

    given = call("look", "a", shelf=3, odd=[1])
    made = agent([given], "Done", tools=TOOLS, permissions=[Says(decide)])
    state = started()
    act(made, "run", state)
    assert outcomes(state) == {"a": "input_error"}


def test_calls_that_cannot_run_are_not_decided_about(act: Act) -> None:
    says = Says(Allowed())
    state = done(act, [call("unknown", "a"), T1], [says])
    assert (outcomes(state), says.asked) == ({"a": "input_error", "t1": "done"}, ["t1"])


def test_a_denied_call_ends_without_having_begun(act: Act) -> None:
    heard = Heard()
    state = done(act, [T2, T1], [DenyByName(["shred"], reason="Keep it"), AllowByDefault()], reporter=heard)
    assert turn(state)[:2] == ["shred denied: Keep it", "look done: seen A"]
    assert (len(heard.tool_starts), len(heard.tool_ends)) == (1, 2)


class Ends(Heard):
    """Keeps the outcomes it hears of, and what the State was then."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[Any] = []

    def on_tool_end(self, state: State, call: ToolCall, result: Any, outcome: Any) -> None:
        self.ends.append((call.id, str(outcome.kind), outcome.decided_by, state.stopped, len(state.pending_calls)))


@pytest.mark.filterwarnings("ignore::alpineagents.PermissionWarning")
def test_the_reporter_hears_who_decided(act: Act) -> None:
    ends = Ends()
    done(act, [T2, T1], [DenyByName(["shred"])], reporter=ends)
    assert [end[:3] for end in ends.ends] == [
        ("t2", "denied", "DenyByName(['shred'])"),
        ("t1", "denied", None),
    ]


def test_a_warning_that_is_an_exception_leaves_the_call_pending(act: Act) -> None:
    state = started()
    made = agent([T1, T2], tools=TOOLS, permissions=[])
    act(made, "think", state)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PermissionWarning)
        with pytest.raises(PermissionWarning) as raised:
            act(made, "use_tools", state)
    assert not hasattr(raised.value, "__notes__")
    assert state.pending_calls == (T1, T2)


@pytest.mark.parametrize(
    ("permission", "answer"),
    [(SaysNo, Allowed()), (SaysYes, Denied("x")), (Says, True), (Says, Allowed), (SaysYes, "yes")],
)
def test_a_verdict_of_another_kind_is_a_mistake(act: Act, permission: Any, answer: Any) -> None:
    state = started()
    made = agent([T1], tools=TOOLS, permissions=[permission(lambda *_: answer, "Odd")])
    act(made, "think", state)
    with pytest.raises(TypeError, match=r"Odd\(\) answered"):
        act(made, "use_tools", state)
    assert state.pending_calls == (T1,)
    assert turn(state)[0].startswith("error of look: TypeError: Odd() answered")


def test_a_coroutine_is_no_verdict_and_is_closed(act: Act) -> None:
    class Forgot(AllowPermission):
        async def check(self, state: State, call: Any, tool: Any) -> Any:  # type: ignore[override]
            return Allowed()

    with pytest.raises(TypeError, match=r"Forgot\(\) answered"):
        done(act, [T1], [Forgot()])


def test_a_permission_may_keep_what_it_likes(act: Act) -> None:
    class Counting(AllowPermission):
        def __init__(self) -> None:
            self.verdicts: list[Any] = []

        def check(self, state: State, call: Any, tool: Any) -> Allowed:
            return Allowed()

    assert outcomes(done(act, [T1], [Counting()])) == {"t1": "done"}


def test_only_the_permission_that_denies_has_to_say_what_it_is(act: Act) -> None:
    class Speechless(SaysYes):
        def __repr__(self) -> str:
            raise RuntimeError("no words")

    assert outcomes(done(act, [T1, T2], [Speechless(Allowed()), SaysNo()])) == {"t1": "done", "t2": "done"}


def test_a_sync_run_checks_on_its_thread_and_an_async_run_beside_its_loop(act: Act) -> None:
    threads = list[threading.Thread]()

    def decide(state: State, call: ToolCall, tool: Any) -> Any:
        threads.append(threading.current_thread())
        return Allowed()

    done(act, [T1], [Says(decide)])
    assert (threads[0] is threading.current_thread()) is not is_async(act)


# People


def test_what_a_person_approves_runs_and_their_answer_is_on_record(act: Act) -> None:
    human = FakeHuman(["yes"])
    state = done(act, [T1, T2, T3, T4], [AllowByReadOnly(), DecideByHuman(), DenyByName(["shred"])], human=human)
    assert turn(state)[:2] == ["shred denied: shred is not allowed.", "human"]
    assert sorted(turn(state)[2:5]) == ["label done: labelled", "look done: seen A", "look done: seen B"]
    assert human.questions == ['Run label(box="9")?']


def test_what_a_person_declines_stops_the_turn_and_the_run(act: Act) -> None:
    human, ends = FakeHuman(["no"]), Ends()
    permissions = [AllowByReadOnly(), DecideByHuman(), DenyByName(["shred"])]
    made = agent([T1, T2, T3, T4], "Done", tools=TOOLS, human=human, reporter=ends, permissions=permissions)
    state = started()
    assert act(made, "run", state) is None
    stopped = StoppedByPermission(T3, "DecideByHuman()")
    assert turn(state) == [
        "shred denied: shred is not allowed.",
        "human",
        "label denied: The user declined this call. Wait for their next message.",
        "look cancelled: (not run: the user stopped this turn)",
        "look cancelled: (not run: the user stopped this turn)",
        f"stop: {stopped}",
    ]
    assert (str(state.stopped), state.finished) == ("stopped by permission DecideByHuman()", False)
    assert [block.call_id for block in state.messages[-1].content] == ["t1", "t2", "t3", "t4"]  # type: ignore[union-attr]
    assert ends.ends[1:] == [
        (id, kind, "DecideByHuman()", stopped, 0)
        for id, kind in (("t3", "denied"), ("t1", "cancelled"), ("t4", "cancelled"))
    ]
    assert act(made, "run", state) == "Done"


def test_an_approval_is_saved_before_what_it_approved_runs(act: Act) -> None:
    store = Shelf()
    saved = list[Any]()

    @tool
    def post() -> str:
        """Post."""
        saved.append([kind for kinds in store.kinds for kind in kinds][-1])
        return "posted"

    done(act, [call("post", "a")], [DecideByHuman()], human=FakeHuman(["yes"]), store=store, tools=[post])
    assert saved == ["human"]


def test_when_the_approval_cannot_be_saved_nothing_runs(act: Act) -> None:
    ran = list[str]()

    @tool
    def post() -> str:
        """Post."""
        ran.append("posted")
        return "posted"

    def full(number: int, kinds: list[str]) -> None:
        if "human" in kinds:
            raise OSError("full")

    store = Shelf(full)
    with pytest.raises(OSError, match="full"):
        done(act, [call("post", "a")], [DecideByHuman()], human=FakeHuman(["yes"]), store=store, tools=[post])
    assert ran == []


class Odd(Human):
    """Answers what is no JSON."""

    def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
        return self

    def __repr__(self) -> str:
        return "<odd>"


def test_any_answer_but_yes_declines_and_is_saved(act: Act, tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "runs.db") as store:
        state = started(id="s")
        act(agent([T1], tools=TOOLS, store=store, human=Odd(), permissions=[DecideByHuman()]), "run", state)
        [asked] = [entry.content for entry in state.history if entry.kind == "human"]
        assert (asked.answer, outcomes(state)) == ("<odd>", {"t1": "denied"})
        assert store.load("s").snapshot() == state.snapshot()


def test_a_question_that_is_no_text_is_refused_before_anybody_is_asked(act: Act) -> None:
    class Numbered(DecideByHuman):
        def question(self, call: ToolCall, tool: Any) -> Any:
            return 3

    with pytest.raises(TypeError, match="question returned 3"):
        done(act, [T1], [Numbered(Nobody())])


def test_a_run_that_a_check_starts_asks_its_own_person_by_hand(act: Act) -> None:
    theirs, aside = FakeHuman(["yes"]), started("Aside")

    def decide(state: State, call: ToolCall, tool: Any) -> Any:
        agent("Hello", human=theirs).think(aside)
        return DecideByHuman().check(aside, call, tool)

    done(act, [T1], [Says(decide)], human=Nobody())
    assert theirs.questions == ['Run look(shelf="A")?']


def test_cancelling_a_run_while_a_person_thinks_closes_its_calls() -> None:
    asked = asyncio.Event()

    class Slow(Human):
        async def aask(self, state: State, prompt: str, returns: Any = str) -> Any:
            asked.set()
            await asyncio.Event().wait()

    async def cancelled() -> None:
        run = asyncio.create_task(made.arun(state))
        await asked.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await run
        assert not hasattr(raised.value, "__notes__")

    state = started()
    made = agent([T1, T2], tools=TOOLS, human=Slow(), permissions=[DecideByHuman()])
    asyncio.run(cancelled())
    assert turn(state)[0].startswith("error: CancelledError")
    assert outcomes(state) == {"t1": "interrupted", "t2": "interrupted"}


class Alone(Human):
    async def aask(self, state: State, prompt: str, returns: Any = str) -> Any:
        return "yes"


class AsyncOnly(AllowPermission):
    async def acheck(self, state: State, call: Any, tool: Any) -> Allowed:
        return Allowed()


class NeverAsks(DecideByHuman):
    def check(self, state: State, call: Any, tool: Any) -> Any:
        return Allowed()


@pytest.mark.parametrize(
    ("permission", "human", "sync", "asynchronous"),
    [
        (AsyncOnly(), None, TypeError, None),
        (DecideByHuman(), None, NoHumanError, NoHumanError),
        (DecideByHuman(), Alone(), TypeError, None),
        (DecideByHuman(Alone()), None, TypeError, None),
        (NeverAsks(), Alone(), None, None),
        (NeverAsks(), None, NoHumanError, NoHumanError),
        (DecideByHuman(Nobody()), None, RuntimeError, RuntimeError),
    ],
)
def test_what_could_not_be_asked_is_refused_before_the_run(
    act: Act, permission: Any, human: Any, sync: Any, asynchronous: Any
) -> None:
    state = started()
    before = state.snapshot()
    made = agent([T2], "Done", tools=TOOLS, human=human, permissions=[permission])
    error = asynchronous if is_async(act) else sync
    if error is None:
        act(made, "run", state)
        assert outcomes(state) == {"t2": "done"}
    elif error is RuntimeError:
        with pytest.raises(Exception):  # noqa: B017  # whatever this person raises when asked
            act(made, "run", state)
    else:
        with pytest.raises(error):
            act(made, "run", state)
        assert state.snapshot() is before


def test_it_is_refused_before_the_prompt_is_looked_at(act: Act) -> None:
    with pytest.raises(NoHumanError, match="FakeHuman"):
        act(agent(permissions=[DecideByHuman()]), "run", "")


def test_by_hand_it_is_refused_when_the_call_is_checked(act: Act) -> None:
    state = started()
    made = agent([T2], tools=TOOLS, permissions=[DecideByHuman()])
    act(made, "think", state)
    with pytest.raises(NoHumanError):
        act(made, "use_tools", state)
    assert state.pending_calls == (T2,)


# Stops


@pytest.mark.parametrize("permission", [SaysNo, Says])
def test_a_denial_can_stop_the_turn(act: Act, permission: Any) -> None:
    says = permission(Denied("enough", stop=True), "Enough", "t2")
    later = Says(Allowed(), "Later")
    state = done(act, [T1, T2, T3], [says, later])
    assert outcomes(state) == {"t1": "cancelled", "t2": "denied", "t3": "cancelled"}
    assert state.stopped == StoppedByPermission(T2, "Enough()")
    assert later.asked == ["t1"]


def test_what_was_closed_before_a_stop_keeps_its_result(act: Act) -> None:
    says = SaysNo(lambda state, call, tool: Denied("x", stop=call.id == "t2"), "Says")
    state = done(act, [call("unknown", "a"), T1, T2, T3], [says])
    assert outcomes(state) == {"a": "input_error", "t1": "denied", "t2": "denied", "t3": "cancelled"}


def test_a_finish_in_a_check_is_what_stopped_the_run(act: Act) -> None:
    def decide(state: State, call: ToolCall, tool: Any) -> Any:
        state.finish("enough")
        return Denied("no", stop=True)

    state = done(act, [T1, T2], [Says(decide)])
    assert isinstance(state.stopped, StoppedByFinish)
    assert [line for line in story(state) if line.startswith("stop")] == ["stop: stopped by finish"]
    assert outcomes(state) == {"t1": "denied", "t2": "cancelled"}


def test_a_finish_after_a_stop_takes_its_place(act: Act) -> None:
    def body(made: Any, state: State) -> Any:
        yield made, "think", state
        yield made, "use_tools", state
        state.finish("enough")

    state = started()
    act(agent([T1], tools=TOOLS, permissions=[Says(Denied("no", stop=True))], loop=written(act, body)), "run", state)
    assert state.stopped == StoppedByFinish("enough")


@pytest.mark.refused_by_providers
def test_a_stop_closes_each_of_two_calls_that_are_one_object(act: Act) -> None:
    state = done(act, [T1, T1], [SaysNo(Denied("no", stop=True))])
    assert turn(state)[:2] == ["look denied: no", "look cancelled: (not run: the user stopped this turn)"]
    assert state.pending_calls == ()


def test_an_exception_after_a_stop_withdraws_it(act: Act) -> None:
    def body(made: Any, state: State) -> Any:
        yield made, "think", state
        yield made, "use_tools", state
        assert isinstance(state.stopped, StoppedByPermission)
        raise ValueError("x")

    state = started()
    made = agent([T1], tools=TOOLS, permissions=[Says(Denied("no", stop=True))], loop=written(act, body))
    with pytest.raises(ValueError, match="x"):
        act(made, "run", state)
    assert state.stopped is None


# Failing checks


def test_a_tool_error_denies_the_call_with_its_message(act: Act) -> None:
    error, later, ends = ToolError("The office is closed"), Says(Allowed()), Ends()
    state = done(act, [T1], [Says(error, "Office"), later], reporter=ends)
    [result] = [entry for entry in state.history if isinstance(entry, ToolResultEntry)]
    assert (result.outcome, result.content, result.error) == (ToolOutcomeKind.DENIED, "The office is closed", error)
    assert (later.asked, ends.ends[0][2]) == ([], "Office()")


@pytest.mark.parametrize("error", [ValueError("x"), ToolInputError("x")])
def test_another_exception_ends_the_run_with_a_note(act: Act, error: Exception) -> None:
    state = started()
    says = SaysNo(error, "Broken", at="t2")
    made = agent([T1, T2, T3], tools=TOOLS, permissions=[DenyByName(["look"]), says, AllowByDefault()])
    with pytest.raises(type(error)) as raised:
        act(made, "run", state)
    assert raised.value is error
    assert error.__notes__ == ['exception raised in permission Broken() checking shred(box="9")']
    del error.__notes__
    name = type(error).__name__
    assert turn(state) == [
        "look denied: look is not allowed.",
        f"error of shred: {name}: x",
        f"shred aborted: (aborted: {name})",
        f"label aborted: (aborted: {name})",
    ]
    assert is_at_rest(state)


def test_a_stop_iteration_in_a_check_is_recorded_once_as_what_it_is(act: Act) -> None:
    state = started()
    with pytest.raises((StopIteration, RuntimeError)):
        act(agent([T1], tools=TOOLS, permissions=[Says(StopIteration("over"))]), "run", state)
    assert turn(state) == ["error of look: StopIteration: over", "look aborted: (aborted: StopIteration)"]


def test_ctrl_c_in_a_check_closes_the_calls_as_interrupted(act: Act) -> None:
    state = started()
    made = agent([T1, T2], tools=TOOLS, permissions=[Says(KeyboardInterrupt())])
    with pytest.raises(KeyboardInterrupt) as raised:
        act(made, "run", state)
    assert not hasattr(raised.value, "__notes__")
    assert outcomes(state) == {"t1": "interrupted", "t2": "interrupted"}
    assert turn(state)[0].startswith("error: KeyboardInterrupt")


# In the file


def test_a_loaded_state_is_the_same_and_its_stop_does_not_stop_the_next_run(act: Act, tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "runs.db") as store:
        made = agent([T1, T2], "Done", tools=TOOLS, store=store, human=FakeHuman(["no"]), permissions=[DecideByHuman()])
        state = started(id="s")
        act(made, "run", state)
        loaded = store.load("s")
        assert loaded.snapshot() == state.snapshot()
        assert (loaded.stopped, loaded.pending_calls) == (StoppedByPermission(T1, "DecideByHuman()"), ())
        assert act(made, "run", loaded) == "Done"


# Other Agents


def test_another_agent_in_the_run_uses_its_own_list(act: Act) -> None:
    other = agent(tools=TOOLS, permissions=[AllowByDefault()])

    def body(made: Any, state: State) -> Any:
        yield made, "think", state
        yield other, "use_tools", state

    state = started()
    act(agent([T2], tools=TOOLS, permissions=[DenyByName(["*"])], loop=written(act, body)), "run", state)
    assert outcomes(state) == {"t2": "done"}
