"""Every exception at every place of a run, sync and async: what it leaves in memory and in the file, and how the same
State goes on. The table is `PLACES`; each test is one fact about all of its rows."""

from __future__ import annotations

import asyncio
import functools
import itertools
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from endings.places import CALLS, PLACES, Left, Scene, Trap
from runs import agent, is_at_rest, started, story, written

from alpineagents import ErrorEntry, Message, State, StateSnapshot, ToolResultEntry
from alpineagents.store import check

ERRORS: dict[str, type[BaseException]] = {
    "KeyError": KeyError,
    "KeyboardInterrupt": KeyboardInterrupt,
    "CancelledError": asyncio.CancelledError,
    "SystemExit": SystemExit,
}
INTERRUPTS = ("KeyboardInterrupt", "CancelledError")
HALVES = ("sync", "async")


def meaningful(place: str, name: str, half: str) -> bool:
    """An async run saves on a thread or in a task of its own: no interrupt of the run is raised in there."""
    return name == "KeyError" or half == "sync" or "sav" not in place


@dataclass(frozen=True)
class Ending:
    """A run that ran into a trap, and the one that went on from there.

    Attributes:
        at_rest: Whether nothing was open. status: What the row in the file said. loaded: What came out of the file.
        starts, ends, run_ends: What the Reporter had heard by then.
        after: Memory and file behind the next run. refused: What no provider would have taken, of either run.
        problems: What is wrong with the file.
    """

    left: Left
    error: BaseException
    raised: BaseException | None
    story: list[str]
    now: StateSnapshot
    at_rest: bool
    status: str
    loaded: StateSnapshot
    starts: Counter[str]
    ends: Counter[str]
    run_ends: list[BaseException | None]
    raised_next: BaseException | None
    after: tuple[StateSnapshot, StateSnapshot]
    refused: list[str]
    problems: list[Any]

    @property
    def closed(self) -> list[str]:
        """The calls that the exception closes."""
        return [f"c{digit}" for digit in self.left.closed]

    @property
    def closing(self) -> str:
        return "interrupted" if type(self.error).__name__ in INTERRUPTS else "aborted"

    @property
    def of_a_call(self) -> bool:
        return isinstance(self.error, Exception) or not self.left.of_the_run


def ended(place: str, name: str, half: str, path: Path) -> Ending:
    error = ERRORS[name]()
    scene = Scene(Trap(place, error), path, half == "async")
    state, listener = scene.state, scene.listener
    seen: dict[str, Any] = {"raised": scene.run(state), "now": state.snapshot(), "at_rest": is_at_rest(state)}
    seen |= {"story": story(state), "status": status(path), "loaded": scene.store.load("s").snapshot()}
    seen |= {"starts": Counter(listener.starts), "ends": Counter(listener.ends), "run_ends": [*listener.errors]}
    state.add_message(Message.user("Go on"))
    seen["raised_next"] = scene.run(state)
    after = state.snapshot(), scene.store.load("s").snapshot()
    scene.store.close()
    return Ending(PLACES[place], error, after=after, refused=scene.model.refused, problems=check(path), **seen)


def status(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT status FROM states").fetchone()[0]
    finally:
        connection.close()


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], dict[str, Ending]]:
    """The endings at a place, by the exception. Each is brought about once; the tests look at what came of it."""
    folder, numbers = tmp_path_factory.mktemp("endings"), itertools.count()

    @functools.cache
    def endings_of(place: str, half: str) -> dict[str, Ending]:
        names = [name for name in ERRORS if meaningful(place, name, half)]
        return {name: ended(place, name, half, folder / f"{next(numbers)}.db") for name in names}

    return endings_of


@pytest.fixture(params=[(place, half) for place in PLACES for half in HALVES], ids=", ".join)
def endings(request: pytest.FixtureRequest, known: Callable[[str, str], dict[str, Ending]]) -> list[Ending]:
    return [*known(*request.param).values()]


def results(now: StateSnapshot) -> list[ToolResultEntry]:
    return [entry for entry in now.history if isinstance(entry, ToolResultEntry)]


def test_the_exception_comes_out_as_the_object_it_is(endings: list[Ending]) -> None:
    for ending in endings:
        assert ending.raised is ending.error


def test_it_carries_the_note_of_what_raised_it_and_no_other(endings: list[Ending]) -> None:
    for ending in endings:
        note = ending.left.note if ending.of_a_call else None
        assert getattr(ending.error, "__notes__", []) == ([] if note is None else [note])


def test_it_is_on_record_once_with_its_call(endings: list[Ending]) -> None:
    for ending in endings:
        call = ending.left.call if ending.of_a_call else None
        found = [entry for entry in ending.now.history if isinstance(entry, ErrorEntry)]
        assert [entry.error for entry in found] == ([ending.error] if ending.left.recorded else [])
        assert [entry.call and entry.call.id for entry in found] == ([call] if ending.left.recorded else [])


def test_each_call_has_one_result_and_those_it_closes_say_why(endings: list[Ending]) -> None:
    for ending in endings:
        asked = CALLS if ending.left.replied else {}
        expected = {id: ending.closing if id in ending.closed else "done" for id in asked}
        assert sorted([(entry.call.id, str(entry.outcome)) for entry in results(ending.now)]) == [*expected.items()]


def test_the_calls_it_closes_come_last_in_request_order_with_the_exception(endings: list[Ending]) -> None:
    for ending in endings:
        last = results(ending.now)[len(results(ending.now)) - len(ending.closed) :]
        name = type(ending.error).__name__
        text = "(interrupted by user)" if name in INTERRUPTS else f"(aborted: {name})"
        assert [(entry.call.id, entry.content, entry.error) for entry in last] == [
            (id, text, ending.error) for id in ending.closed
        ]


def test_a_stop_that_stood_already_is_withdrawn_last(endings: list[Ending]) -> None:
    for ending in endings:
        stops = [line for line in ending.story if line.startswith("stop: ")]
        assert stops in ([], ["stop: stopped by waiting"]) or ending.story[-1] == "stop: None"
        assert (ending.now.stopped is None) == ending.left.recorded


def test_nothing_is_left_open(endings: list[Ending]) -> None:
    for ending in endings:
        assert ending.at_rest


def test_a_request_without_its_reply_is_taken_back(endings: list[Ending]) -> None:
    for ending in endings:
        assert ending.now.turn == ending.story.count("model_reply")


def test_the_usage_of_every_reply_that_came_counts(endings: list[Ending]) -> None:
    for ending in endings:
        kinds = [entry.kind for entry in ending.now.history]
        compactions = kinds.count("context_change") - 1  # the first is the import
        assert ending.now.usage.requests == kinds.count("model_reply") + kinds.count("ask") + compactions


def test_each_start_that_was_told_has_its_end_told_once(endings: list[Ending]) -> None:
    for ending in endings:
        assert ending.starts == ending.ends
        assert ending.run_ends == [ending.error if ending.left.recorded else None]


def test_file_and_memory_are_equal(endings: list[Ending]) -> None:
    for ending in endings:
        assert ending.loaded == ending.now


def test_the_row_in_the_file_says_how_the_run_ended(endings: list[Ending]) -> None:
    for ending in endings:
        failed = "interrupted" if ending.closing == "interrupted" else "failed"
        assert ending.status == (failed if ending.left.recorded else "answered")


def test_the_next_run_of_the_same_state_goes_on_to_its_answer(endings: list[Ending]) -> None:
    for ending in endings:
        now, loaded = ending.after
        assert ending.raised_next is None
        assert now.answer == "Done"
        assert {entry.call.id for entry in results(now)} == set(CALLS)
        assert now == loaded
        assert ending.problems == []


def test_no_provider_would_refuse_what_was_sent(endings: list[Ending]) -> None:
    for ending in endings:
        assert ending.refused == []


@pytest.mark.parametrize("place", PLACES)
def test_sync_and_async_runs_leave_the_same(place: str, known: Callable[[str, str], dict[str, Ending]]) -> None:
    sync = known(place, "sync")
    for name, ending in known(place, "async").items():
        assert sorted(ending.story) == sorted(sync[name].story)  # calls end in any order


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("place", [place for place in PLACES if PLACES[place].recorded])
def test_a_disk_that_is_full_from_then_on_costs_only_the_saves(place: str, half: str, tmp_path: Path) -> None:
    for name in ("KeyError", "KeyboardInterrupt"):
        if meaningful(place, name, half):
            fill_disk(Trap(place, ERRORS[name](), full=True), tmp_path / f"{name}.db", half == "async")


def fill_disk(trap: Trap, path: Path, asynchronous: bool) -> None:
    left, error = PLACES[trap.place], trap.error
    scene = Scene(trap, path, asynchronous)
    assert scene.run(scene.state) is error
    noted = left.note is not None and (isinstance(error, Exception) or not left.of_the_run)
    assert error.__notes__ == [*([left.note] if noted else []), "saving the state also failed: OSError: full"]
    assert is_at_rest(scene.state)
    trap.full = False
    scene.state.add_message(Message.user("Go on"))
    assert scene.run(scene.state) is None
    assert scene.store.load("s").snapshot() == scene.state.snapshot()
    assert scene.model.refused == check(path) == []
    scene.store.close()


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", ERRORS)
def test_a_first_save_that_fails_tells_nobody_and_the_next_run_saves_all(name: str, half: str, tmp_path: Path) -> None:
    error = ERRORS["KeyError" if half == "async" else name]()
    scene = Scene(Trap("the first save", error), tmp_path / "runs.db", half == "async")
    assert scene.run(scene.state) is error
    assert story(scene.state) == ["context_change", "run_start"]
    assert is_at_rest(scene.state)
    assert scene.listener.runs == len(scene.listener.errors) == 0
    assert scene.run(scene.state) is None
    assert scene.store.load("s").snapshot() == scene.state.snapshot()


OF_STEPS = [place for place in PLACES if not place.startswith(("the body", "the condition", "saving stop", "on_run_"))]


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("place", OF_STEPS)
def test_a_loop_that_catches_it_goes_on_and_every_call_gets_its_own_result(
    place: str, half: str, tmp_path: Path
) -> None:
    for name, kind in ERRORS.items():
        if meaningful(place, name, half):
            catch(Trap(place, kind()), tmp_path / f"{name}.db", half == "async")


def catch(trap: Trap, path: Path, asynchronous: bool) -> None:
    scene = Scene(trap, path, asynchronous, catching=True)
    assert scene.run(scene.state) is None
    now = scene.state.snapshot()
    assert sorted([(entry.call.id, entry.outcome, entry.late) for entry in results(now)]) == [
        (id, "done", False) for id in CALLS
    ]
    assert (now.answer, status(path)) == ("Done", "answered")
    assert Counter(scene.listener.starts) == Counter(scene.listener.ends)
    assert scene.store.load("s").snapshot() == now
    assert scene.model.refused == check(path) == []
    scene.store.close()


def test_an_equal_exception_that_is_another_object_is_on_record_too(act: Callable[..., Any]) -> None:
    def body(agent: Any, state: State) -> Any:
        try:
            yield agent, "think", state
        except OSError:
            raise OSError("down") from None

    state = started()
    with pytest.raises(OSError, match="down"):
        act(agent(OSError("down"), loop=written(act, body)), "run", state)
    assert story(state)[-2:] == ["error: OSError: down"] * 2
