"""When a run saves, what is on disk then, and what a failing save costs: only the save."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from histories import texts
from runs import (
    SECONDS,
    Heard,
    Shelf,
    agent,
    call,
    fake,
    interrupt,
    is_async,
    is_at_rest,
    next_late,
    since,
    started,
    story,
    wait_for,
    written,
)

from alpineagents import Message, SqliteStore, State, Store, Tool, loop
from alpineagents.store import Record

Act = Callable[..., Any]


class Step(Tool):
    def __init__(self, step: Callable[[], Any], name: str = "step", *, parallel: bool = True) -> None:
        super().__init__(name=name, parallel=parallel)
        self.step = step

    def run(self, args: dict[str, Any], state: State) -> Any:
        return self.step()


class Through(SqliteStore):
    """An SQLite store whose writes are seen, and fail when the test says so."""

    def __init__(self, path: Path, failing: Callable[[list[str]], None] | None = None) -> None:
        super().__init__(path, synchronous="normal")
        self.failing = failing
        self.writes: list[list[str]] = []
        self.told = threading.Event()  # set when a write is over

    def write(
        self, state_id: str, entries: Sequence[dict[str, Any]], info: Mapping[str, Any], *, create: bool = False
    ) -> None:
        kinds = [entry["kind"] for entry in entries]
        if self.failing is not None:
            self.failing(kinds)
        super().write(state_id, entries, info, create=create)
        self.writes.append(kinds)
        self.told.set()


class AsyncShelf(Store):
    """Has only the async methods of a Shelf."""

    def __init__(self) -> None:
        self.shelf = Shelf()

    async def awrite(self, state_id: str, entries: Any, info: Any, *, create: bool = False) -> None:
        await asyncio.sleep(0)
        self.shelf.write(state_id, entries, info, create=create)

    async def aread(self, state_id: str) -> Record | None:
        return self.shelf.read(state_id)


@pytest.fixture
def through(tmp_path: Path) -> Through:
    return Through(tmp_path / "runs.db")


def thinking(agent: Any, state: State) -> Any:
    yield agent, "think", state


def fails_at(*kinds: str, error: BaseException | None = None, times: int = 1) -> Callable[[Any, list[str]], None]:
    """Makes writes with an entry of one of these kinds fail, so many times."""
    left = [times]

    def failing(attempt: int, written: list[str]) -> None:
        if left[0] and set(kinds) & set(written):
            left[0] -= 1
            raise error or OSError("full")

    return failing


# When


def test_what_one_run_writes(act: Act) -> None:
    def weighed() -> str:
        on_disk.append(store.kinds[-1])
        return "2 kg"

    def sealed() -> str:
        on_disk.append(store.kinds[-1])
        return "sealed"

    on_disk: list[list[str]] = []
    store, state = Shelf(), started()
    tools = [Step(weighed, "weigh"), Step(sealed, "seal", parallel=False)]
    made = agent([call("seal", "c1"), call("ghost", "c2"), call("weigh", "c3")], "on", tools=tools, store=store)
    act(made, "run", state)
    assert store.writes == [
        (True, ["context_change", "run_start"]),
        (False, ["model_request"]),
        (False, ["model_reply"]),
        (False, ["tool_result", "tool_result"]),
        (False, ["tool_result"]),
        (False, ["model_request"]),
        (False, ["model_reply"]),
        (False, ["stop"]),
    ]
    assert on_disk == [["model_reply"], ["tool_result", "tool_result"]]


def test_the_first_save_comes_before_the_reporter_hears_of_the_start(act: Act) -> None:
    class Looking(Heard):
        def on_run_start(self, state: State) -> None:
            seen.append(list(store.kinds))

        def on_run_end(self, state: State, error: BaseException | None) -> None:
            seen.append(list(store.kinds))

    seen: list[Any] = []
    store = Shelf()
    act(agent("a", store=store, reporter=Looking()), "run", "Go")
    assert seen[0] == [["context_change", "run_start"]]
    assert seen[1][-1] == ["stop"]


def test_the_request_is_on_disk_while_the_model_works(act: Act) -> None:
    def look(request: Any) -> str:
        seen.extend(store.kinds)
        return "a"

    seen: list[Any] = []
    store = Shelf()
    act(agent(look, store=store), "run", "Go")
    assert seen[-1] == ["model_request"]


def test_a_failure_is_saved(act: Act) -> None:
    store = Shelf()
    with pytest.raises(KeyError):
        act(agent(KeyError("x"), store=store), "run", "Go")
    assert store.kinds == [["context_change", "run_start"], ["model_request"], ["error"]]


def test_a_failure_behind_the_reply_is_saved_with_it(act: Act) -> None:
    store = Shelf()
    with pytest.raises(KeyError):
        act(agent("a", store=store, reporter=Heard(think_end=KeyError("x"))), "run", "Go")
    assert store.kinds[-1] == ["model_reply", "error"]


def test_the_end_of_a_failing_run_is_one_write(act: Act) -> None:
    def fail(agent: Any, state: State) -> Any:
        yield agent, "think", state
        raise KeyError("x")

    store = Shelf()
    calls = [call("step", "c1"), call("step", "c2")]
    with pytest.raises(KeyError):
        act(agent(calls, store=store, loop=written(act, fail)), "run", "Go")
    assert store.kinds[-1] == ["error", "tool_result", "tool_result"]


def test_a_tools_exception_is_saved_before_the_run_ends(act: Act) -> None:
    def fail() -> str:
        raise KeyError("x")

    store = Shelf()
    with pytest.raises(KeyError):
        act(agent(call("step", "c1"), tools=[Step(fail)], store=store), "run", "Go")
    assert store.kinds[-2:] == [["error"], ["tool_result"]]


def test_steps_by_hand_have_the_same_save_points(act: Act) -> None:
    store, state = Shelf(), started()
    made = agent(call("step", "c1"), tools=[Step(lambda: "ok")], store=store)
    act(made, "think", state)
    act(made, "use_tools", state)
    assert store.writes == [
        (True, ["context_change", "model_request"]),
        (False, ["model_reply"]),
        (False, ["tool_result"]),
    ]


def test_state_commands_are_no_save_points_of_a_plain_store(act: Act) -> None:
    store, state = Shelf(), started()
    made = agent("a", "b", store=store)
    act(made, "run", state)
    before = len(store.writes)
    state.add_message(Message.user("And now?"))
    with state.edit_extra_data() as data:
        data["x"] = 1
    assert len(store.writes) == before
    act(made, "run", state)
    assert store.kinds[before] == ["user", "extra_data", "run_start"]


def test_without_a_store_nothing_is_written_anywhere(act: Act, tmp_path: Path) -> None:
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        act(agent("a"), "run", "Go")
    finally:
        os.chdir(before)
    assert list(tmp_path.iterdir()) == []


def test_a_loaded_state_is_the_one_that_was_run(act: Act, through: Through) -> None:
    state = started()
    act(agent(call("step", "c1"), "on", tools=[Step(lambda: "ok")], store=through), "run", state)
    loaded = through.load(state.id)
    assert loaded.snapshot() == state.snapshot()
    assert [e.at for e in loaded.history] == [e.at for e in state.history]


# Which store


class Empty(Shelf):
    """A store that counts as false, as one with `__len__` does while it is empty."""

    def __len__(self) -> int:
        return len(self.shelf)


def test_a_store_that_is_empty_is_a_store(act: Act) -> None:
    store = Empty()
    act(agent("a", store=store), "run", "Go")
    assert len(store) == 1


def test_a_state_kept_elsewhere_is_refused_before_anything_is_recorded(act: Act) -> None:
    one, other, heard, state = Shelf(), Shelf(), Heard(), started()
    one.save(state)
    before = state.snapshot()
    made = agent("a", store=other, reporter=heard)
    for action in ("run", "think"):
        with pytest.raises(ValueError, match="kept in") as refused:
            act(made, action, state)
        assert repr(one) in str(refused.value)
        assert repr(other) in str(refused.value)
    assert state.snapshot() is before
    assert other.writes == []
    assert heard.events == []
    assert act(made, "run", state.fork()) == "a"


def test_an_agent_without_a_store_leaves_a_plain_store_to_save(act: Act) -> None:
    store, state = Shelf(), started()
    store.save(state)
    act(agent("a"), "run", state)
    assert len(store.writes) == 1
    store.save(state)
    assert store.kinds[1] == ["run_start", "model_request", "model_reply", "stop"]


def test_a_bound_state_writes_through_whoever_works_on_it(act: Act, through: Through) -> None:
    state = started()
    through.save(state)
    act(agent("a"), "run", state)
    assert [kind for kinds in through.writes for kind in kinds] == [entry.kind for entry in state.history]
    assert through.load(state.id).history == state.history


def test_a_sync_action_refuses_a_store_that_is_only_async() -> None:
    store, heard, state = AsyncShelf(), Heard(), started()
    before = state.snapshot()
    made = agent("a", store=store, reporter=heard)
    for action in ("run", "think", "use_tools"):
        with pytest.raises(TypeError, match=f"a{action}"):
            getattr(made, action)(state)
    assert state.snapshot() is before
    assert heard.events == []
    assert asyncio.run(made.arun(state)) == "a"
    assert store.shelf.kinds[0] == ["context_change", "run_start"]


def test_another_agents_steps_inside_a_run_are_saved_in_its_own_store(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        yield other, "think", aside

    mine, theirs, aside = Shelf(), Shelf(), started("Aside")
    other = agent("b", store=theirs)
    act(agent("a", store=mine, loop=written(act, body)), "run", "Go")
    assert aside.id in theirs.shelf
    assert len(mine.shelf) == 1


def test_steps_of_the_agent_on_other_states_inside_its_run_are_saved_in_its_store(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        forks.append(state.fork())
        yield agent, "think", forks[0]

    forks: list[State] = []
    store = Shelf()
    act(agent("a", "b", store=store, loop=written(act, body)), "run", "Go")
    assert forks[0].id in store.shelf


# The environment variable


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    path = tmp_path / "environment.db"
    monkeypatch.setenv("ALPINEAGENTS_DB", str(path))
    with SqliteStore(path) as store:
        yield store


def test_the_environment_names_a_file_for_agents_without_a_store(act: Act, recorded: SqliteStore) -> None:
    state = started()
    made = agent("a", "b")
    act(made, "run", state)
    assert recorded.load(state.id).history == state.history
    assert made.store is None
    by_hand = started()
    act(made, "think", by_hand)
    assert recorded.load(by_hand.id).history == by_hand.history


def test_a_store_of_its_own_comes_before_the_environment(act: Act, recorded: SqliteStore) -> None:
    store = Shelf()
    act(agent("a", store=store), "run", "Go")
    assert recorded.list() == []
    assert len(store.shelf) == 1


def test_an_empty_variable_names_nothing(act: Act, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ALPINEAGENTS_DB", "")
    monkeypatch.chdir(tmp_path)
    act(agent("a"), "run", "Go")
    assert list(tmp_path.iterdir()) == []


def test_an_id_that_is_taken_is_refused_and_the_variable_is_named(act: Act, recorded: SqliteStore) -> None:
    act(agent("a"), "run", started(id="bug-7"))
    again = started(id="bug-7")
    with pytest.raises(ValueError, match="ALPINEAGENTS_DB") as refused:
        act(agent("b"), "run", again)
    assert "bug-7" in str(refused.value)
    assert len(recorded.load("bug-7").history) == 5
    assert is_at_rest(again)


def test_an_id_that_is_taken_in_an_agents_own_store_says_nothing_of_the_variable(act: Act, through: Through) -> None:
    act(agent("a", store=through), "run", started(id="bug-7"))
    with pytest.raises(ValueError, match="bug-7") as refused:
        act(agent("b", store=through), "run", started(id="bug-7"))
    assert "ALPINEAGENTS_DB" not in str(refused.value)


def test_the_store_of_a_run_stays_although_the_variable_changes(
    act: Act, recorded: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def body(agent: Any, state: State) -> Any:
        monkeypatch.setenv("ALPINEAGENTS_DB", str(tmp_path / "another.db"))
        yield agent, "think", state

    state = started()
    act(agent("a", loop=written(act, body)), "run", state)
    assert recorded.load(state.id).history == state.history
    assert not (tmp_path / "another.db").exists()


def test_a_variable_that_is_set_during_a_run_does_not_concern_it(
    act: Act, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def body(agent: Any, state: State) -> Any:
        monkeypatch.setenv("ALPINEAGENTS_DB", str(tmp_path / "late.db"))
        yield agent, "think", state

    act(agent("a", loop=written(act, body)), "run", "Go")
    assert not (tmp_path / "late.db").exists()


# When saving fails


def test_a_failed_first_save_starts_nothing(act: Act) -> None:
    store, heard, state = Shelf(fails_at("run_start")), Heard(), started()
    made = agent("a", store=store, reporter=heard)
    with pytest.raises(OSError, match="full"):
        act(made, "run", state)
    assert story(state)[1:] == ["run_start"]
    assert (heard.events, fake(made).requests) == ([], [])
    assert act(made, "run", state) == "a"
    assert store.writes[0] == (True, ["context_change", "run_start", "run_start"])


def test_a_failed_save_before_the_model_is_called_takes_the_request_back(act: Act) -> None:
    error = OSError("full")
    store, heard, state = Shelf(fails_at("model_request", error=error)), Heard(), started()
    made = agent("a", store=store, reporter=heard)
    with pytest.raises(OSError, match="full") as raised:
        act(made, "run", state)
    assert raised.value is error
    assert story(state)[1:] == ["run_start", "model_request", "error: OSError: full"]
    assert state.turn == 0
    assert fake(made).requests == []
    assert heard.events == ["run_start", "run_end OSError"]
    assert store.kinds[-1] == ["model_request", "error"]


def test_a_failed_save_behind_the_reply_leaves_the_reply(act: Act) -> None:
    store, state = Shelf(fails_at("model_reply")), started()
    made = agent(call("step", "c1"), "on", tools=[Step(lambda: ran.append(1))], store=store)
    ran: list[int] = []
    with pytest.raises(OSError, match="full"):
        act(made, "think", state)
    assert story(state)[1:] == ["model_request", "model_reply"]
    assert len(state.pending_calls) == 1
    act(made, "use_tools", state)
    assert store.kinds[-1] == ["model_reply", "tool_result"]


def test_a_disk_that_was_full_for_a_moment_ends_the_run_and_costs_nothing(act: Act) -> None:
    ran: list[int] = []
    store, state = Shelf(fails_at("model_reply")), started()
    made = agent(call("step", "c1"), "on", tools=[Step(lambda: ran.append(1))], store=store)
    with pytest.raises(OSError, match="full"):
        act(made, "run", state)
    assert since(state) == ["error: OSError: full", "step aborted: (aborted: OSError)"]
    assert ran == []
    assert store.kinds[-1] == ["model_reply", "error", "tool_result"]
    assert act(made, "run", state) == "on"
    assert len(fake(made).requests) == 2


def test_a_failed_save_of_a_batch_raises_nothing_and_the_last_save_catches_up(act: Act) -> None:
    store, state = Shelf(fails_at("tool_result")), started()
    tools = [Step(lambda: "one"), Step(lambda: "two", "alone", parallel=False)]
    made = agent([call("step", "c1"), call("alone", "c2")], "on", tools=tools, store=store)
    assert act(made, "run", state) == "on"
    assert store.kinds[3] == ["tool_result", "tool_result"]


def test_a_failed_save_at_the_end_of_use_tools_raises_and_the_results_stay(act: Act) -> None:
    store, state = Shelf(fails_at("tool_result", times=2)), started()
    ran: list[int] = []
    made = agent(call("step", "c1"), "on", tools=[Step(lambda: ran.append(1))], store=store)
    with pytest.raises(OSError, match="full"):
        act(made, "run", state)
    assert since(state) == ["step done: (done)", "error: OSError: full"]
    assert act(made, "run", state) == "on"
    assert ran == [1]


def test_a_failed_save_at_the_end_of_a_run_raises_and_the_answer_stays(act: Act) -> None:
    store, heard, state = Shelf(fails_at("stop")), Heard(), started()
    with pytest.raises(OSError, match="full"):
        act(agent("a", store=store, reporter=heard), "run", state)
    assert since(state) == ["stop: stopped by waiting_for_user", "error: OSError: full", "stop: None"]
    assert (state.answer, state.stopped) == ("a", None)
    assert heard.events[-1] == "run_end OSError"
    assert store.kinds[-1] == ["stop", "error", "stop"]


def test_a_failed_save_behind_an_exception_is_a_note_on_it(act: Act) -> None:
    def fail() -> str:
        raise error

    error = KeyError("x")
    store, state = Shelf(fails_at("error", times=99)), started()
    with pytest.raises(KeyError) as raised:
        act(agent(call("step", "c1"), tools=[Step(fail)], store=store), "run", state)
    assert raised.value is error
    assert error.__notes__ == ["exception raised in tool step()", "saving the state also failed: OSError: full"]
    assert since(state) == ["error of step: KeyError: 'x'", "step aborted: (aborted: KeyError)"]
    store.failing = None
    store.save(state)
    assert store.load(state.id).history == state.history


@pytest.mark.parametrize("kind", ["run_start", "model_request", "model_reply", "tool_result", "stop"])
@pytest.mark.parametrize("error", [OSError("full"), ValueError("odd"), LookupError("gone")])
def test_the_exception_of_a_store_comes_out_as_it_is(act: Act, kind: str, error: Exception) -> None:
    store, state = Shelf(fails_at(kind, error=error, times=2)), started()
    made = agent(call("step", "c1"), "on", tools=[Step(lambda: "ok")], store=store)
    with pytest.raises(type(error)) as raised:
        act(made, "run", state)
    assert raised.value is error
    assert is_at_rest(state)


def test_every_write_may_fail_and_the_next_run_saves_everything(act: Act) -> None:
    def run(failing: Callable[[int, list[str]], None] | None) -> int:
        store, state = Shelf(failing), started()
        tools = [Step(lambda: "one"), Step(lambda: "two", "alone", parallel=False)]
        made = agent([call("step", "c1"), call("alone", "c2")], *["on"] * 3, tools=tools, store=store)
        try:
            act(made, "run", state)
        except OSError:
            assert is_at_rest(state)
            assert state.stopped is None
        attempts = store.attempts
        store.failing = None
        state.add_message(Message.user("Go on"))
        act(made, "run", state)
        assert store.load(state.id).history == state.history
        return attempts

    def failing_from(first: int, last: int) -> Callable[[int, list[str]], None]:
        def failing(attempt: int, kinds: list[str]) -> None:
            if first <= attempt < last:
                raise OSError(f"full {attempt}")

        return failing

    attempts = run(None)
    for first in range(attempts):
        for length in (1, 2, 99):
            run(failing_from(first, first + length))


# Write-through


def rows(store: Store, state: State) -> int:
    """How many entries of the State the store has, without those that loading adds."""
    record = store.read(state.id)
    return 0 if record is None else len(record.entries)


def test_every_entry_is_in_the_file_before_anything_follows_from_it(act: Act, through: Through) -> None:
    class Looking(Heard):
        def hear(self, name: str, state: State, text: str = "") -> None:
            seen.append((name, len(state.history) - rows(through, state)))

    seen: list[tuple[str, int]] = []
    state = started()
    calls = [call("step", "c1"), call("step", "c2")]
    tools = [Step(lambda: rows(through, state), parallel=False)]
    act(agent(calls, "on", tools=tools, store=through, reporter=Looking()), "run", state)
    for acting in ("run_start", "think_start", "tool_start", "run_end"):
        assert {lacking for name, lacking in seen if name == acting} == {0}
    assert since(state, "run_start")[2:4] == ["step done: 4", "step done: 5"]
    assert rows(through, state) == len(state.history)


def test_commands_in_a_run_are_written_at_once(act: Act, through: Through) -> None:
    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        state.add_message(Message.user("hurry"))
        assert [e.kind for e in through.load(state.id).history][-1] == "user"

    act(agent("a", store=through, loop=written(act, body)), "run", "Go")


def test_a_command_the_store_refuses_changes_nothing_and_the_run_may_go_on(act: Act, through: Through) -> None:
    def refuse(kinds: list[str]) -> None:
        if "user" in kinds:
            raise OSError("full")

    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        with pytest.raises(OSError, match="full"):
            state.add_message(Message.user("hurry"))

    through.failing = refuse
    state = started()
    act(agent("a", store=through, loop=written(act, body)), "run", state)
    assert texts(state) == ["Go", "a"]
    assert through.load(state.id).history == state.history


def test_a_stop_of_a_loop_called_by_hand_is_written(through: Through) -> None:
    state = started()
    through.save(state)
    loop(until=[], limit=1)(lambda agent, state: None)(None, state)
    assert through.load(state.id).stopped == state.stopped
    assert state.stopped is not None


def test_facts_that_could_not_be_written_go_out_with_the_next_write(act: Act, through: Through) -> None:
    def full(kinds: list[str]) -> None:
        if "model_reply" in kinds:
            through.failing = None
            raise OSError("full")

    state = started()
    through.save(state)
    through.failing = full
    with pytest.raises(OSError, match="full"):
        act(agent("a"), "think", state)
    state.add_message(Message.user("And now?"))
    assert through.writes[-2:] == [["model_reply"], ["user"]]
    assert through.load(state.id).history == state.history


@pytest.mark.parametrize("writes_through", [True, False])
def test_a_late_result_is_written_at_once_or_by_the_next_save(act: Act, through: Through, writes_through: bool) -> None:
    def slow() -> str:
        interrupt()
        wait_for(go)
        return "late"

    go, state = threading.Event(), started()
    store = through if writes_through else Shelf()
    with pytest.raises(KeyboardInterrupt):
        act(agent(call("step", "c1"), tools=[Step(slow)], store=store), "run", state)
    late = next_late(state)
    through.told.clear()
    go.set()
    wait_for(late)
    if writes_through:
        wait_for(through.told)
    assert len(state.history) - rows(store, state) == (0 if writes_through else 1)
    store.save(state)
    assert store.load(state.id).history == state.history


def test_a_state_that_another_process_moved_on_cannot_go_on(act: Act, through: Through) -> None:
    state = started()
    through.save(state)
    other = through.load(state.id)
    other.add_message(Message.user("from elsewhere"))
    with pytest.raises(ValueError, match="writer"):
        act(agent("a", store=through), "run", state)
    with pytest.raises(ValueError, match="load"):
        state.add_message(Message.user("more"))
    assert texts(through.load(state.id)) == ["Go", "from elsewhere"]


# Context


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


class Noting(Shelf):
    write_through: ClassVar[bool] = True

    def write(self, *args: Any, **arguments: Any) -> None:
        self.seen = VARIABLE.get()
        super().write(*args, **arguments)


def test_a_store_on_a_worker_thread_sees_the_callers_context(act: Act) -> None:
    token = VARIABLE.set("caller")
    store = Noting()
    try:
        act(agent("a", store=store), "run", "Go")
    finally:
        VARIABLE.reset(token)
    assert store.seen == "caller"


def test_a_store_may_write_slowly_while_the_event_loop_goes_on() -> None:
    ticked = threading.Event()

    class Waiting(Shelf):
        def write(self, *args: Any, **arguments: Any) -> None:
            assert ticked.wait(SECONDS)
            super().write(*args, **arguments)

    async def main() -> Any:
        run = asyncio.create_task(agent("a", store=Waiting()).arun("Go"))
        await asyncio.sleep(0)
        ticked.set()
        return await run

    assert asyncio.run(main()) == "a"


def test_the_halves_of_these_tests_differ(act: Act) -> None:
    threads: list[threading.Thread] = []

    class Where(Shelf):
        def write(self, *args: Any, **arguments: Any) -> None:
            threads.append(threading.current_thread())
            super().write(*args, **arguments)

    act(agent("a", store=Where()), "run", "Go")
    assert (threads[0] is threading.current_thread()) is not is_async(act)
