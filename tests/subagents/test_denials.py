"""Which permissions are asked about a call below another run, and that nothing gets around a denial from above."""

from __future__ import annotations

import contextvars
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from runs import Heard, call, started, written
from subagents.family import Act, Inside, children, ran, results, runs, working

from alpineagents import Agent, State, tool
from alpineagents.permissions import (
    AllowByDefault,
    AllowByName,
    Allowed,
    AllowPermission,
    DecideByHuman,
    DecidePermission,
    Denied,
    DenyByName,
    DenyPermission,
)
from alpineagents.testing import FakeHuman, FakeModel

pytestmark = pytest.mark.filterwarnings("ignore::alpineagents.PermissionWarning")

DONE: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


@tool
def burn(box: str) -> str:
    """Burn."""
    DONE.append("burn")
    return box


@tool
def shred(box: str) -> str:
    """Shred."""
    DONE.append("shred")
    return box


@tool
def file(box: str) -> str:
    """File."""
    DONE.append("file")
    return box


@tool
def read(box: str) -> str:
    """Read."""
    DONE.append("read")
    return box


TOOLS = [burn, shred, file, read]
CALLS = [call(each.name, each.name, box="9") for each in TOOLS]
NO_BURNING = DenyByName(["burn"])


def worker(permissions: Any = None, name: str = "worker", **settings: Any) -> Agent:
    """An Agent that calls every tool."""
    given = {"model": FakeModel([CALLS, "ok"]), "tools": TOOLS, "name": name, "description": "Works"}
    return Agent(**{**given, "permissions": permissions, **settings})


def leader(of: Agent, permissions: Any = None, name: str = "leader") -> Agent:
    """An Agent that calls another once."""
    assert of.name is not None
    model = FakeModel([call(of.name, "t1", prompt="Go"), "ok"])
    return Agent(model, tools=[of], permissions=permissions, name=name, description="Leads", reporter=None, human=None)


def lowest(state: State) -> State:
    while children(state):
        (state,) = children(state)
    return state


def ends(state: State) -> str:
    """Which of the four calls ran, in the order of the tools."""
    found = {entry.call.name: str(entry.outcome) for entry in results(state)}
    return "".join(["x" if found[each.name] == "done" else "-" for each in TOOLS])


LEADER = AllowByName(["worker", "leader", "work"])

# The lists of the runs from the top down, and which calls of the lowest run: burn, shred, file, read.
LEVELS: list[tuple[list[Any], str]] = [
    ([None], "xxxx"),
    ([None, None], "xxxx"),
    ([None, [AllowByName(["file"])]], "--x-"),
    ([[AllowByDefault()], None], "xxxx"),
    ([[LEADER], None], "----"),
    ([[LEADER, AllowByName(["file"])], None], "--x-"),
    ([[LEADER], [AllowByDefault()]], "xxxx"),
    ([[AllowByDefault()], []], "----"),
    ([[NO_BURNING, LEADER], []], "----"),
    ([[LEADER, NO_BURNING], [AllowByDefault()]], "-xxx"),
    ([[AllowByDefault(), NO_BURNING], None], "-xxx"),
    ([[NO_BURNING, AllowByDefault()], [DenyByName(["shred"]), LEADER, AllowByName(["file"])], None], "--x-"),
    ([[NO_BURNING, AllowByDefault()], None, [AllowByDefault()]], "-xxx"),
    ([[NO_BURNING, AllowByDefault()], [AllowByDefault()], [AllowByDefault()]], "-xxx"),
    ([[NO_BURNING, AllowByDefault()], [DenyByName(["read"]), AllowByDefault()], [AllowByDefault()]], "-xx-"),
    ([None, [NO_BURNING, AllowByDefault()], None], "-xxx"),
    ([None, [NO_BURNING, AllowByDefault()], [AllowByDefault()]], "-xxx"),
]


@pytest.mark.parametrize(("lists", "expected"), LEVELS, ids=range(len(LEVELS)))
def test_a_denial_holds_for_all_runs_below(act: Act, lists: list[Any], expected: str) -> None:
    *above, own = lists
    made = worker(own, reporter=None, human=None)
    for index, each in enumerate(reversed(above)):
        made = leader(made, each, name="leader" if index % 2 == 0 else "chief")
        if index % 2 and each is not None:
            made = made.copy(permissions=[*each, AllowByName(["leader"])])
    assert ends(lowest(ran(act, made))) == expected


class Noting(DecidePermission):
    def __init__(self, name: str, asked: list[str], allows: bool = False) -> None:
        self.name = name
        self.asked = asked
        self.allows = allows

    def check(self, state: State, call: Any, tool: Any) -> Any:
        self.asked.append(f"{self.name} {call.name}")
        return Allowed() if self.allows else None


class Denying(DenyPermission):
    def __init__(self, name: str, asked: list[str], denies: str = "") -> None:
        self.name = name
        self.asked = asked
        self.denies = denies

    def check(self, state: State, call: Any, tool: Any) -> Any:
        self.asked.append(f"{self.name} {call.name}")
        return Denied("no") if call.name == self.denies else None

    def __repr__(self) -> str:
        return f"Denying({self.name!r})"


def one_call(permissions: Any, name: str = "worker") -> Agent:
    return worker(permissions, name, model=FakeModel([call("file", "f1", box="9"), "ok"]))


def test_denials_are_asked_first_from_the_top_down_in_the_order_of_each_list(act: Act) -> None:
    asked: list[str] = []
    top = [Noting("allow", asked, True), Denying("a", asked), Denying("b", asked)]
    middle = [Denying("c", asked), Noting("allow", asked, True)]
    own = [Noting("d", asked, True), Denying("e", asked)]
    ran(act, leader(leader(one_call(own), middle), top, "top"))
    assert [each for each in asked if each.endswith("file")] == ["a file", "b file", "c file", "e file", "d file"]


def test_a_permission_that_came_down_with_the_whole_list_is_asked_once(act: Act) -> None:
    asked: list[str] = []
    ran(act, leader(leader(one_call(None), None), [Denying("a", asked), Noting("b", asked, True)], "top"))
    assert [each for each in asked if each.endswith("file")] == ["a file", "b file"]


def test_no_decision_below_a_denial_warns_but_a_denial_does_not(act: Act) -> None:
    with pytest.warns(match="file"):
        ran(act, leader(one_call([]), [AllowByDefault()]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ran(act, leader(one_call([]), [DenyByName(["file"]), AllowByDefault()]))


def test_each_permission_asks_the_person_of_the_agent_that_wrote_it(act: Act) -> None:
    above, own = FakeHuman(["yes", "yes"]), FakeHuman([])
    made = leader(one_call(None).copy(human=own), [DecideByHuman()]).copy(human=above)
    assert results(lowest(ran(act, made)))[0].outcome == "done"


def test_the_denial_is_in_the_history_of_the_one_whose_call_it_was(act: Act) -> None:
    state = ran(act, leader(one_call([AllowByDefault()]), [DenyByName(["file"]), AllowByDefault()]))
    assert [entry.outcome for entry in results(state)] == ["done"]
    assert [(entry.outcome, entry.content) for entry in results(lowest(state))] == [("denied", "file is not allowed.")]


def test_a_stop_by_a_denial_of_the_run_above_stops_only_the_subagent_and_is_named(act: Act) -> None:
    class Stop(DenyPermission):
        def check(self, state: State, call: Any, tool: Any) -> Any:
            return Denied("enough", stop=True) if call.name == "file" else None

        def __repr__(self) -> str:
            return "Stop()"

    state = ran(act, leader(one_call([AllowByDefault()]), [Stop(), AllowByDefault()]))
    assert (str(lowest(state).stopped), str(state.stopped)) == (
        "stopped by permission Stop()",
        "stopped by waiting_for_user",
    )


# No way around a denial

TRICKS: dict[str, Callable[[Act], Agent]] = {}


def trick(build: Callable[[Act], Agent]) -> Callable[[Act], Agent]:
    TRICKS[build.__name__] = build
    return build


@trick
def a_list_of_its_own(act: Act) -> Agent:
    return worker([AllowByDefault()])


@trick
def an_empty_list(act: Act) -> Agent:
    return worker([])


@trick
def no_list(act: Act) -> Agent:
    return worker(None)


@trick
def a_decision_for_it(act: Act) -> Agent:
    class Yes(DecidePermission):
        def check(self, state: State, call: Any, tool: Any) -> Any:
            return Allowed()

    return worker([Yes()])


@trick
def an_allowance_for_it(act: Act) -> Agent:
    class Yes(AllowPermission):
        def check(self, state: State, call: Any, tool: Any) -> Any:
            return Allowed()

    return worker([Yes()])


@trick
def a_person_who_says_yes(act: Act) -> Agent:
    return worker([DecideByHuman(FakeHuman(["yes"] * 4))])


def in_loop(act: Act, other: Agent, *steps: str) -> Agent:
    """A subagent in whose loop another Agent acts on a State of its own, or on that of the run."""

    def body(agent: Any, state: State) -> Any:
        aside = started()
        for step in steps:
            yield other, step, aside
        return "ok"

    return worker(None, loop=written(act, body))


@trick
def another_agent_in_its_loop(act: Act) -> Agent:
    return in_loop(act, worker(None, "other"), "think", "use_tools")


@trick
def another_agent_with_a_list_in_its_loop(act: Act) -> Agent:
    return in_loop(act, worker([AllowByDefault()], "other"), "think", "use_tools")


@trick
def a_run_of_another_agent_in_its_loop(act: Act) -> Agent:
    return in_loop(act, worker(None, "other"), "run")


@trick
def a_run_of_another_agent_with_a_list_in_its_loop(act: Act) -> Agent:
    return in_loop(act, worker([AllowByDefault()], "other"), "run")


@trick
def a_subagent_of_another_agent_in_its_loop(act: Act) -> Agent:
    return in_loop(act, leader(worker([AllowByDefault()], "third"), None, "other"), "run")


@trick
def a_third_agent_in_the_loop_of_another(act: Act) -> Agent:
    return in_loop(act, in_loop(act, worker(None, "third"), "think", "use_tools"), "run")


@trick
def a_run_inside_its_tool(act: Act) -> Agent:
    inner = worker([AllowByDefault()], "inner")
    return worker(None, model=FakeModel([call("work", "w1"), "ok"]), tools=[runs(act, inner, "Go")])


@trick
def a_step_of_another_agent_inside_its_tool(act: Act) -> Agent:
    other = worker(None, "other")

    def body(agent: Any, state: State) -> Any:
        aside = started()
        yield other, "think", aside
        yield other, "use_tools", aside

    return worker(None, model=FakeModel([call("work", "w1"), "ok"]), tools=[working(act, body)])


def with_context(made: Agent) -> None:
    """Run an Agent on a thread that is given the context, as `asyncio.to_thread` does."""
    thread = threading.Thread(target=contextvars.copy_context().run, args=(made.run, "Go"))
    thread.start()
    thread.join()


@trick
def a_thread_with_the_context(act: Act) -> Agent:
    inner = worker([AllowByDefault()], "inner")

    def body(given: Any, state: State) -> Any:
        with_context(inner)

    return worker(None, model=FakeModel([call("work", "w1"), "ok"]), tools=[Inside(body)])


@trick
def a_copy_without_permissions_in_its_loop(act: Act) -> Agent:
    def body(agent: Any, state: State) -> Any:
        aside = started()
        bare = agent.copy(permissions=None)
        yield bare, "think", aside
        yield bare, "use_tools", aside
        return "ok"

    return worker(None, loop=written(act, body))


@trick
def a_reporter_of_its_own_that_runs_an_agent(act: Act) -> Agent:
    inner = worker(None, "inner")

    class Running(Heard):
        def on_run_end(self, state: State, error: BaseException | None) -> None:
            with_context(inner)

    return worker(None, model=FakeModel(["ok"]), reporter=Running())


@trick
def a_check_of_its_own_that_runs_an_agent(act: Act) -> Agent:
    inner = worker(None, "inner")

    class Running(DecidePermission):
        def check(self, state: State, call: Any, tool: Any) -> Any:
            inner.run("Go")
            return Allowed()

    return worker([Running()], model=FakeModel([call("file", "f1", box="1"), "ok"]))


@pytest.mark.parametrize("name", TRICKS)
@pytest.mark.parametrize("levels", [1, 2])
def test_there_is_no_way_around_a_denial(act: Act, name: str, levels: int) -> None:
    made = TRICKS[name](act)
    for level in range(levels - 1):
        made = leader(made, [AllowByDefault()], f"middle{level}")
    ran(act, leader(made, [NO_BURNING, AllowByDefault()], "top"))
    assert "burn" not in DONE
    if name != "an_empty_list":
        assert "file" in DONE


@pytest.mark.parametrize("name", TRICKS)
def test_without_the_denial_each_of_them_does_it(act: Act, name: str) -> None:
    ran(act, leader(TRICKS[name](act), None, "top"))
    assert ("burn" in DONE) == (name != "an_empty_list")


def stepping(act: Act, other: Agent) -> Any:
    """A loop in which another Agent asks its model and carries out the calls."""

    def body(agent: Any, state: State) -> Any:
        aside = started()
        yield other, "think", aside
        yield other, "use_tools", aside
        return "ok"

    return written(act, body)


# Another Agent in a run: only what the runs above deny holds for it


def test_the_denials_of_the_run_itself_do_not_bind_another_agent_in_it(act: Act) -> None:
    loop = stepping(act, worker(None, "other"))
    made = worker([DenyByName(["shred"]), AllowByDefault()], loop=loop)
    ran(act, leader(made, [NO_BURNING, AllowByName(["worker"])]))
    assert sorted(DONE) == ["file", "read", "shred"]


def test_at_a_top_run_another_agent_has_its_own_list_only(act: Act) -> None:
    loop = stepping(act, worker(None, "other"))
    ran(act, worker([NO_BURNING], loop=loop, reporter=None, human=None))
    assert sorted(DONE) == ["burn", "file", "read", "shred"]


def test_allowing_permissions_of_runs_above_are_not_asked_about_another_agents_calls(act: Act) -> None:
    asked: list[str] = []
    loop = stepping(act, worker([AllowByName(["file"])], "other"))
    made = worker([Denying("own", asked), Noting("own", asked, True)], loop=loop)
    ran(act, leader(made, [Denying("above", asked, "read"), Noting("above", asked, True)]))
    assert DONE == ["file"]
    assert {each for each in asked if not each.endswith("worker")} == {
        "above burn",
        "above shred",
        "above file",
        "above read",
    }
    assert len([each for each in asked if each == "above file"]) == 1
