"""Agent: its settings, what it refuses, and what all its actions have in common."""

from __future__ import annotations

import asyncio
import copy
import inspect
import io
import threading
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from runs import Heard, Nobody, Shelf, agent, call, fake, started, story, written

from alpineagents import (
    Agent,
    FunctionTool,
    Human,
    Message,
    Reply,
    Reporter,
    Request,
    SqliteStore,
    State,
    Store,
    Terminal,
    Tool,
    Usage,
    adefault_loop,
    default_loop,
    tool,
)
from alpineagents.agent import DEFAULT
from alpineagents.terminal import default_terminal
from alpineagents.testing import FakeHuman, FakeModel
from alpineagents.types import TextBlock

Act = Callable[..., Any]


@tool
def find(number: str) -> str:
    """Find a parcel"""
    return number


@tool
def ship(number: str) -> str:
    """Ship a parcel"""
    return number


class Depot:
    @tool
    def weigh(self) -> str:
        """Weigh a parcel"""
        return "2 kg"

    @tool
    def seal(self) -> str:
        """Seal a parcel"""
        return "sealed"


class Crane(Tool):
    def __init__(self, name: str = "crane") -> None:
        super().__init__(name=name)

    def run(self, args: dict[str, Any], state: State) -> str:
        return "lifted"


class Nameless(Tool):
    def __init__(self) -> None:
        """Does not call Tool.__init__."""

    def run(self, args: dict[str, Any], state: State) -> str:
        return ""


class Idle(Tool):
    def __init__(self) -> None:
        super().__init__(name="idle")


class Listener:
    """Hears everything, and is no Reporter."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return lambda *args: None
        raise AttributeError(name)


class Half:
    def on_run_start(self, state: State) -> None: ...


class Asked:
    def ask(self, state: State, prompt: str, returns: Any = str) -> Any: ...


class AsyncAsked:
    async def aask(self, state: State, prompt: str, returns: Any = str) -> Any: ...


def plain_loop(agent: Any, state: State) -> str:
    return "looped"


# Creating an Agent


def test_only_the_model_may_be_given_by_position() -> None:
    model = FakeModel([])
    assert Agent(model).model is model
    with pytest.raises(TypeError, match="by position") as refused:
        Agent(model, "a system prompt")  # type: ignore[misc]
    assert "\nFix: " in str(refused.value)


@pytest.mark.parametrize("name", ["tool", "permission", "max_turns"])
def test_an_unknown_setting_is_a_type_error_that_lists_what_there_is(name: str) -> None:
    with pytest.raises(TypeError, match=name) as refused:
        Agent(FakeModel([]), colour="red", **{name: None})
    for part in ("colour", *SETTINGS):
        assert part in str(refused.value)


def test_a_subclass_has_settings_of_its_own() -> None:
    class Clerk(Agent):
        def __init__(self, desk: int) -> None:
            super().__init__(FakeModel([]), name=f"clerk {desk}")

    assert Clerk(desk=7).name == "clerk 7"


def test_an_agent_can_be_copied_by_python() -> None:
    made = agent(name="clerk")
    assert copy.copy(made).name == "clerk"


def test_settings_are_as_given() -> None:
    model, reporter, human, store = FakeModel([]), Heard(), Nobody(), Shelf()
    made = Agent(
        model,
        system="Be brief",
        tools=[find],
        loop=plain_loop,
        reporter=reporter,
        human=human,
        store=store,
        name="clerk",
        description="Finds parcels",
    )
    assert made.model is model
    assert (made.system, made.name, made.description) == ("Be brief", "clerk", "Finds parcels")
    assert made.tools == (find,)
    assert made.loop is plain_loop
    assert made.reporter is reporter
    assert made.human is human
    assert made.store is store


def test_settings_that_are_left_out_have_defaults() -> None:
    made = Agent(FakeModel([]))
    assert (made.system, made.name, made.description) == (None, None, None)
    assert made.tools == ()
    assert dict(made.tool_map) == {}
    assert made.loop is default_loop
    assert made.store is None


def test_no_loop_means_the_default_loop() -> None:
    assert Agent(FakeModel([]), loop=None).loop is default_loop


@pytest.mark.parametrize("setting", ["system", "name", "description"])
@pytest.mark.parametrize("value", [None, "", "text", "two\nlines"])
def test_texts_may_be_none_or_empty(setting: str, value: str | None) -> None:
    assert getattr(Agent(FakeModel([]), **{setting: value}), setting) == value


def not_settings() -> list[tuple[str, Any]]:
    texts = [(setting, value) for setting in ("system", "name", "description") for value in (3, b"x", ["x"])]
    tools = [("tools", value) for value in (None, find, Crane(), "find", b"find", 3)]
    items = [
        ("tools", [value])
        for value in (
            plain_loop,
            object(),
            Depot.weigh,
            Depot,
            Crane,
            Nameless(),
            Idle(),
            "find",
            None,
            3,
            Depot.__init__,
        )
    ]
    loops = [("loop", value) for value in (3, "default_loop", [plain_loop])]
    reporters = [("reporter", value) for value in (object(), Half(), Reporter, Heard, print, "terminal")]
    humans = [("human", value) for value in (object(), Human, Nobody, Asked, print, True)]
    stores = [("store", value) for value in (b"runs.db", Store, SqliteStore, object(), 3, {})]
    return [*texts, *tools, *items, *loops, *reporters, *humans, *stores]


@pytest.mark.parametrize(("setting", "value"), not_settings())
def test_a_setting_of_a_wrong_kind_is_a_type_error(setting: str, value: Any) -> None:
    with pytest.raises(TypeError):
        Agent(FakeModel([]), **{setting: value})


@pytest.mark.parametrize("model", [None, 3, b"x", FakeModel, object(), ["fake"]])
def test_a_model_of_a_wrong_kind_is_a_type_error(model: Any) -> None:
    with pytest.raises(TypeError):
        Agent(model)


def test_the_class_of_a_model_is_refused_as_the_class_it_is() -> None:
    with pytest.raises(TypeError, match="FakeModel is the class"):
        Agent(FakeModel)  # type: ignore[arg-type]


def test_an_incomplete_reporter_is_refused_with_the_names_it_lacks() -> None:
    with pytest.raises(TypeError) as refused:
        Agent(FakeModel([]), reporter=Half())  # type: ignore[arg-type]
    assert "on_run_end" in str(refused.value)
    assert "on_tool_start" in str(refused.value)
    assert "on_run_start" not in str(refused.value).partition("Fix:")[0]


def test_a_reporter_and_a_human_need_not_be_subclasses() -> None:
    listener, asked, asked_async = Listener(), Asked(), AsyncAsked()
    made: Any = Agent(FakeModel([]), reporter=listener, human=asked)  # type: ignore[arg-type]
    assert made.reporter is listener
    assert made.human is asked
    assert Agent(FakeModel([]), human=asked_async).human is asked_async  # type: ignore[arg-type,comparison-overlap]


def test_a_path_means_the_sqlite_store_at_it(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    for given in (path, str(path)):
        made = Agent(FakeModel([]), store=given)
        assert made.store == SqliteStore(path)
        assert isinstance(made.store, SqliteStore)
    assert not path.exists()


def test_an_empty_path_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="path"):
        Agent(FakeModel([]), store="")


@pytest.mark.parametrize("value", [None, DEFAULT, Nobody()])
def test_no_human_the_default_and_any_human_are_accepted(value: Any) -> None:
    Agent(FakeModel([]), human=value)


def test_the_default_marker_is_one_object_that_shows_its_name() -> None:
    assert repr(DEFAULT) == "DEFAULT"
    assert DEFAULT is not None
    given: Any = Agent(FakeModel([]), reporter=DEFAULT, human=DEFAULT)
    assert given.reporter is given.human is default_terminal()


def test_items_of_tools_become_tools_in_order() -> None:
    depot = Depot()
    made = agent(tools=[ship, depot, Crane(), find])
    assert list(made.tool_map) == ["ship", "weigh", "seal", "crane", "find"]
    assert made.tools[1] is depot
    weigh = made.tool_map["weigh"]
    assert isinstance(weigh, FunctionTool)
    assert weigh.bound_to is depot


def test_a_bound_method_is_a_tool() -> None:
    depot = Depot()
    assert list(agent(tools=[depot.seal]).tool_map) == ["seal"]


def test_a_generator_of_tools_is_read_once() -> None:
    items = [find, ship]
    made = agent(tools=(item for item in items))
    assert made.tools == (find, ship)
    assert list(made.copy().tool_map) == ["find", "ship"]


@pytest.mark.parametrize("tools", [[find, find], [find, Crane("find")], [Depot(), Depot()], [Depot(), Depot().seal]])
def test_two_tools_of_one_name_are_a_value_error(tools: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"find|weigh|seal"):
        agent(tools=tools)


def test_creating_an_agent_asks_no_model() -> None:
    made = agent("never asked", tools=[find], store=Shelf())
    assert fake(made).requests == []


# Reading an Agent


@pytest.mark.parametrize(
    "name", ["model", "system", "tools", "tool_map", "loop", "reporter", "human", "store", "name", "description"]
)
def test_settings_cannot_be_assigned(name: str) -> None:
    made = agent()
    with pytest.raises(AttributeError):
        setattr(made, name, None)
    with pytest.raises(AttributeError):
        delattr(made, name)


def test_agents_compare_and_hash_by_identity() -> None:
    model = FakeModel([])
    one, other = Agent(model), Agent(model)
    assert one != other
    assert one == one  # noqa: PLR0124  # this is the claim
    assert len({one, other}) == 2


def test_without_reporter_and_human_all_agents_have_the_one_terminal() -> None:
    one, other = Agent(FakeModel([])), Agent(FakeModel([]))
    assert one.reporter is one.human is other.reporter
    assert isinstance(one.reporter, Terminal)


def test_none_is_nobody() -> None:
    made = Agent(FakeModel([]), reporter=None, human=None)
    assert made.reporter is None
    assert made.human is None


def test_the_repr_is_one_line_with_name_model_and_tools() -> None:
    text = repr(agent(name="clerk\n2", tools=[find, Crane()]))
    assert text.startswith("Agent(")
    assert "\n" not in text
    for part in ("clerk", "fake/fake", "find", "crane"):
        assert part in text


def test_the_repr_without_a_name_is_fine() -> None:
    assert repr(agent()).startswith("Agent(model=")


def test_the_tool_map_is_read_only() -> None:
    tools: Any = agent(tools=[find]).tool_map
    assert isinstance(tools, Mapping)
    with pytest.raises(TypeError):
        tools["ship"] = ship
    with pytest.raises(TypeError):
        del tools["find"]


def test_the_tool_map_has_no_other_names() -> None:
    tools = agent(tools=[find]).tool_map
    assert tools["find"] is find
    assert tools.get("ship") is None
    assert "ship" not in tools
    with pytest.raises(KeyError, match="ship"):
        tools["ship"]


# copy


def test_a_copy_without_changes_has_equal_settings_and_is_another_object() -> None:
    made = agent("a", system="s", tools=[find], loop=plain_loop, store=Shelf(), name="n", description="d")
    copied = made.copy()
    assert copied is not made
    for name in ("model", "system", "tools", "loop", "reporter", "human", "store", "name", "description"):
        assert getattr(copied, name) is getattr(made, name) or getattr(copied, name) == getattr(made, name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", FakeModel(["other"])),
        ("system", None),
        ("tools", (ship,)),
        ("loop", adefault_loop),
        ("reporter", Heard()),
        ("human", FakeHuman([])),
        ("store", None),
        ("name", "other"),
        ("description", ""),
    ],
)
def test_a_copy_changes_what_it_is_told_and_nothing_else(name: str, value: Any) -> None:
    made = agent(system="s", tools=[find], loop=plain_loop, store=Shelf(), name="n", description="d")
    before = {setting: getattr(made, setting) for setting in SETTINGS}
    copied = made.copy(**{name: value})
    assert getattr(copied, name) == value
    assert {setting: getattr(made, setting) for setting in SETTINGS} == before
    assert [s for s in SETTINGS if getattr(copied, s) != before[s]] == [name]


SETTINGS = ["model", "system", "tools", "loop", "reporter", "human", "store", "name", "description"]


def test_a_copy_with_unknown_names_lists_all_of_them_and_what_it_takes() -> None:
    with pytest.raises(TypeError) as refused:
        agent().copy(colour="red", size=3)
    for name in ("colour", "size", *SETTINGS):
        assert name in str(refused.value)


@pytest.mark.parametrize("changes", [{"tools": None}, {"tools": [print]}, {"model": None}, {"loop": 3}, {"store": 3}])
def test_a_copy_is_checked_like_a_new_agent(changes: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        agent().copy(**changes)


def test_what_was_not_given_stays_not_given_in_a_copy() -> None:
    copied: Any = Agent(FakeModel([])).copy(name="clerk").copy(system="s")
    assert copied.reporter is copied.human is default_terminal()


def test_a_copy_of_an_agent_with_a_path_has_an_equal_store(tmp_path: Path) -> None:
    made = agent(store=tmp_path / "runs.db")
    assert made.copy(name="n").store == made.store
    assert made.copy(store=None).store is None


def test_a_copy_continues_a_state_that_another_model_began(act: Act) -> None:
    made = agent("one", name="clerk")
    state = started()
    act(made, "run", state)
    state.add_message(Message.user("And now?"))
    assert act(made.copy(model=FakeModel(["two"], name="larger")), "run", state) == "two"
    assert [e.content for e in state.history if e.kind == "model_request"] == ["fake/fake", "fake/larger"]


# What all actions have in common


@pytest.mark.parametrize("action", ["run", "think", "use_tools", "ask", "ask_human", "compact"])
def test_a_twin_takes_the_same_arguments(action: str) -> None:
    sync, asynchronous = getattr(Agent, action), getattr(Agent, f"a{action}")
    assert inspect.iscoroutinefunction(asynchronous)
    assert inspect.signature(sync) == inspect.signature(asynchronous)


WAITING = [("think",), ("use_tools",), ("ask", "Which?"), ("ask_human", "Which?"), ("compact",)]


@pytest.mark.parametrize(("action", "arguments"), [(name, rest) for name, *rest in WAITING])
@pytest.mark.parametrize("value", [None, "Go", started().snapshot(), object(), State])
def test_an_action_needs_a_state_and_names_itself(act: Act, action: str, arguments: list[Any], value: Any) -> None:
    with pytest.raises(TypeError, match=action):
        act(agent("x"), action, value, *arguments)


@pytest.mark.parametrize("action", ["context_tokens", "context_used"])
@pytest.mark.parametrize("value", [None, "Go", started().snapshot(), object(), State])
def test_a_question_about_the_context_needs_a_state_and_names_itself(action: str, value: Any) -> None:
    with pytest.raises(TypeError, match=action):
        getattr(agent(), action)(value)


@pytest.mark.parametrize(("action", "arguments"), [(name, rest) for name, *rest in WAITING])
def test_a_sync_action_in_an_async_run_is_refused_and_names_its_twin(action: str, arguments: list[Any]) -> None:
    async def loop(made: Any, state: State) -> None:
        with pytest.raises(TypeError, match=f"agent.a{action}"):
            getattr(agent("x", human=Nobody()), action)(aside, *arguments)

    aside = started()
    asyncio.run(agent(loop=loop).arun("Go"))
    assert len(aside.history) == 1


@pytest.mark.parametrize(("action", "arguments"), [(name, rest) for name, *rest in WAITING])
def test_a_sync_action_is_allowed_where_only_an_event_loop_runs(action: str, arguments: list[Any]) -> None:
    async def cell() -> None:
        getattr(agent("x", human=FakeHuman(["a"])), action)(started(), *arguments)

    asyncio.run(cell())


def test_compact_in_an_async_run_names_the_block_too() -> None:
    async def loop(made: Any, state: State) -> None:
        made.compact(state)

    with pytest.raises(TypeError, match="acompact_if_full"):
        asyncio.run(agent(loop=loop).arun("Go"))


def test_actions_of_another_agent_in_a_run_use_its_own_human_and_reporter(act: Act) -> None:
    def loop(made: Any, state: State) -> Any:
        yield other, "ask", state, "Which?"
        return (yield other, "ask_human", state, "Which?")

    heard, mine = Heard(), Heard()
    other = agent("Oslo", human=FakeHuman(["other"]), reporter=heard)
    made = agent(human=Nobody(), reporter=mine, loop=written(act, loop))
    assert act(made, "run", "Go") == "other"
    assert heard.events == ["think_start", "text Oslo", "think_end"]
    assert mine.events == ["run_start", "run_end"]


def test_questions_of_one_state_may_overlap_in_threads() -> None:
    both = threading.Barrier(2, timeout=20)

    def together(request: Any) -> str:
        both.wait()
        return "Oslo"

    made, state = agent(together, together), started()
    threads = [threading.Thread(target=made.ask, args=(state, f"Which {n}?")) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(e.content.question for e in state.history if e.kind == "ask") == ["Which 0?", "Which 1?"]


def test_questions_and_steps_of_one_state_may_overlap_in_tasks() -> None:
    async def main() -> None:
        await asyncio.gather(made.athink(state), made.aask(state, "Which?"), made.aask_human(state, "Who?"))

    made, state = agent("a", "b", human=FakeHuman(["me"])), started()
    asyncio.run(main())
    assert sorted(e.kind for e in state.history) == ["ask", "context_change", "human", "model_reply", "model_request"]


# The size of the context


def test_the_context_is_system_prompt_tools_and_messages() -> None:
    made, state = agent(system="Be brief", tools=[find, ship]), started("Find parcel 7")
    request = Request("Be brief", state.messages, tuple(t.spec for t in made.tool_map.values()))
    assert made.context_tokens(state) == made.model.count_tokens(request)


def test_an_agent_without_anything_has_an_empty_context() -> None:
    assert agent().context_tokens(State()) == 0


def test_behind_a_reply_only_what_came_since_is_estimated(act: Act) -> None:
    made = agent(Reply(Message.assistant("done"), Usage(requests=1), 900), system="Be brief", tools=[find])
    state = started()
    act(made, "think", state)
    assert made.context_tokens(state) == 900
    state.add_message(Message.user("xxxxxx"))
    assert made.context_tokens(state) == 900 + 4 + 2


def test_clearing_tool_results_drops_the_known_count(act: Act) -> None:
    made, state = agent(call("find", "c1", number="7" * 30), "done", tools=[find]), started()
    act(made, "run", state)
    known = made.context_tokens(state)
    state.clear_tool_results(keep_last=0)
    assert made.context_tokens(state) == made.model.count_tokens(
        Request(None, state.messages, tuple(t.spec for t in made.tool_map.values()))
    )
    assert made.context_tokens(state) != known


def test_tools_that_a_think_hid_count_too(act: Act) -> None:
    made, state = agent(Reply(Message.assistant("done"), Usage(requests=1)), tools=[find]), started()
    before = made.context_tokens(state)
    act(made, "think", state, [])
    assert made.context_tokens(state) > before


@pytest.mark.parametrize(("window", "used"), [(100, 0.05), (5, 1.0), (2, 2.5), (0, 0.0), (-1, 0.0), (None, 0.0)])
def test_the_used_part_of_the_window_may_exceed_one_and_is_zero_without_one(window: Any, used: float) -> None:
    made = agent().copy(model=FakeModel([], context_window=window))
    assert made.context_used(started("Go")) == used


def test_asking_for_the_size_changes_nothing() -> None:
    state = started()
    before = state.snapshot()
    agent().context_used(state)
    assert state.snapshot() is before


def test_the_size_is_known_in_an_async_run() -> None:
    async def loop(made: Any, state: State) -> float:
        return made.context_used(state)

    assert asyncio.run(agent(loop=loop).arun("Go")) > 0


def test_the_size_of_a_long_state_takes_no_longer(act: Act) -> None:
    class Counted(Message):
        """Counts how often its size is looked at."""

        looked = 0

        def __getattribute__(self, name: str) -> Any:
            if name in ("content", "tokens"):
                Counted.looked += 1
            return super().__getattribute__(name)

    state = State(messages=[Counted("user", (TextBlock(str(n)),)) for n in range(1000)])
    made = agent("done")
    made.context_used(state)
    assert Counted.looked >= 1000
    act(made, "think", state)
    state.add_message(Message.user("Go on"))
    Counted.looked = 0
    made.context_used(state)
    assert Counted.looked == 0


# with agent


def test_a_with_block_gives_the_agent_and_runs_go_on_inside_and_behind_it() -> None:
    made = agent("a", "b", "c")
    with made as inside, made as again:
        assert inside is made is again
        assert made.run("Go") == "a"
    assert made.run("Go") == "b"
    with made:
        assert made.run("Go") == "c"


def test_an_async_with_block_gives_the_agent_and_runs_go_on_inside_and_behind_it() -> None:
    async def main() -> None:
        made = agent("a", "b")
        async with made as inside, made as again:
            assert inside is made is again
            assert await made.arun("Go") == "a"
        assert await made.arun("Go") == "b"

    asyncio.run(main())


def test_a_with_block_hides_no_exception() -> None:
    async def main() -> None:
        async with agent():
            raise OSError("torn")

    with pytest.raises(OSError, match="torn"), agent():
        raise OSError("torn")
    with pytest.raises(OSError, match="torn"):
        asyncio.run(main())


@pytest.mark.parametrize("value", [None, 3, b"Go", started().snapshot(), State, [Message.user("Go")]])
def test_a_run_needs_a_prompt_or_a_state(act: Act, value: Any) -> None:
    made = agent("x")
    with pytest.raises(TypeError, match="run"):
        act(made, "run", value)
    assert fake(made).requests == []


def test_the_argument_of_run_has_no_name() -> None:
    with pytest.raises(TypeError):
        agent("x").run(prompt_or_state="Go")  # type: ignore[call-arg]


def test_with_nobody_to_tell_or_ask_a_run_is_silent(act: Act, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(prompt: str = "") -> str:
        raise AssertionError(prompt)

    monkeypatch.setattr("builtins.input", never)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        act(agent([call("find", "c1", number="7"), "text"], "done", tools=[find]), "run", "Go")
    assert (out.getvalue(), err.getvalue()) == ("", "")


def test_by_default_a_run_shows_at_the_terminal(act: Act, capsys: pytest.CaptureFixture[str]) -> None:
    act(Agent(FakeModel(["Hello"])), "run", "Go")
    assert capsys.readouterr().out == "[turn 1] thinking\nHello\ndone: stopped by waiting_for_user (1 turn)\n"


def test_an_agent_keeps_no_conversation(act: Act) -> None:
    made = agent("one", "two")
    act(made, "run", "First")
    act(made, "run", "Second")
    assert [m.text for m in fake(made).requests[1].messages] == ["Second"]


def test_any_agent_may_act_on_any_state(act: Act) -> None:
    state = started()
    act(agent(call("find", "c1", number="7")), "think", state)
    act(agent(tools=[find]), "use_tools", state)
    act(agent("done"), "think", state)
    assert state.answer == "done"
    assert story(state)[-1] == "model_reply"


def test_a_misuse_says_what_is_wrong_how_to_fix_it_and_shows_code() -> None:
    with pytest.raises(TypeError) as refused:
        agent().think("Go")  # type: ignore[arg-type]
    assert "think" in str(refused.value)
    assert "\nFix: " in str(refused.value)
    assert "\nExample:\n    " in str(refused.value)
