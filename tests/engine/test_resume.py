"""Going on with a saved State: what its first run compares, and what it sends."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from histories import texts
from runs import Heard, Shelf, agent, call, fake, is_at_rest, since, started, story

from alpineagents import Agent, Message, Model, ResumeWarning, SqliteStore, State, Tool, tool
from alpineagents.history import rules
from alpineagents.history.wording import RESULT_UNKNOWN, STOPPED_WAITING
from alpineagents.state import journal_of
from alpineagents.testing import FakeModel
from alpineagents.types import ToolOutcomeKind, ToolResultEntry

Act = Callable[..., Any]


@tool
def look() -> str:
    """Look around"""
    return "a house"


@tool
def find() -> str:
    """Find it"""
    return "found"


@tool
def ship() -> str:
    """Ship it"""
    return "shipped"


class Book(Tool):
    """Remembers the seats it booked."""

    def __init__(self) -> None:
        super().__init__(name="book")
        self.booked: list[str] = []

    def run(self, args: dict[str, Any], state: State) -> str:
        self.booked.append(args["seat"])
        return f"booked {args['seat']}"


def saved(act: Act, store: Any, **settings: Any) -> str:
    """The id of a State that an Agent with these settings ran and saved."""
    state = started()
    act(agent("a", store=store, **settings), "run", state)
    return state.id


def changes(act: Act, before: dict[str, Any], after: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """What the warning says when a State is run with other settings after loading."""
    store = Shelf()
    loaded = store.load(saved(act, store, **before))
    with pytest.warns(ResumeWarning) as caught:
        act(agent("b", store=store, **after), "run", loaded)
    assert len(caught) == 1
    warning = caught[0].message
    assert isinstance(warning, ResumeWarning)
    return warning.changes, str(warning)


# The comparison


def test_another_name_is_a_change(act: Act) -> None:
    found, text = changes(act, {"name": "clerk"}, {})
    assert found == {"name": ("clerk", None)}
    assert "name: clerk -> (none)" in text
    assert "goes on" in text


def test_another_model_is_a_change(act: Act) -> None:
    found, text = changes(act, {}, {"model": FakeModel(["b"], name="larger")})
    assert found == {"model": ("fake/fake", "fake/larger")}
    assert "model: fake/fake -> fake/larger" in text


def test_other_tools_are_a_change(act: Act) -> None:
    found, text = changes(act, {"tools": [look, find]}, {"tools": [ship, look]})
    assert found == {"tools": (("find", "look"), ("look", "ship"))}
    assert "tools: removed find, added ship" in text


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [([look, find], [], "tools: removed find, look"), ([], [look, find], "tools: added find, look")],
)
def test_only_what_was_removed_or_added_is_told(act: Act, before: list[Any], after: list[Any], text: str) -> None:
    told = changes(act, {"tools": before}, {"tools": after})[1]
    assert told.endswith(text)


def test_another_system_prompt_is_a_change_that_shows_neither_prompt_nor_hash(act: Act) -> None:
    one, two = [hashlib.sha256(text.encode()).hexdigest() for text in ("secret one", "secret two")]
    found, text = changes(act, {"system": "secret one"}, {"system": "secret two"})
    assert found == {"system_sha256": (one, two)}
    assert "system prompt changed" in text
    assert "secret" not in text
    assert one not in text


def test_all_changes_are_told_together(act: Act) -> None:
    found, text = changes(act, {"name": "a", "system": "s"}, {"name": "b", "tools": [look]})
    assert set(found) == {"name", "system_sha256", "tools"}
    assert text.count("; ") == 2


def test_the_warning_points_at_the_line_that_called_run() -> None:
    store = Shelf()
    state = started()
    agent("a", store=store).run(state)
    loaded, other = store.load(state.id), agent("b", name="other", store=store)
    with pytest.warns(ResumeWarning) as caught:
        other.run(loaded)
    assert (caught[0].filename, caught[0].lineno) == (__file__, here() - 1)


def test_the_warning_points_at_the_line_that_awaited_arun() -> None:
    async def main() -> int:
        await other.arun(loaded)
        return here() - 1

    store = Shelf()
    state = started()
    agent("a", store=store).run(state)
    loaded, other = store.load(state.id), agent("b", name="other", store=store)
    with pytest.warns(ResumeWarning) as caught:
        line = asyncio.run(main())
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)


def here() -> int:
    """The number of the line that calls this."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_it_warns_before_anything_is_recorded_and_under_no_lock(act: Act, monkeypatch: pytest.MonkeyPatch) -> None:
    def show(*args: Any, **kwargs: Any) -> None:
        reading = threading.Thread(target=lambda: seen.append(journal_of(loaded).record(lambda now: ())))
        reading.start()
        reading.join(5)
        seen.append(story(loaded)[-1])

    seen: list[Any] = []
    store = Shelf()
    loaded = store.load(saved(act, store))
    other = agent("b", name="other", store=store)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", show)
        act(other, "run", loaded)
    assert seen == [(), "stop: stopped by waiting_for_user"]


# No warning: warnings are errors in these tests


def test_equal_settings_in_a_new_agent_do_not_warn(act: Act) -> None:
    store = Shelf()
    settings: dict[str, Any] = {"name": "clerk", "system": "s"}
    loaded = store.load(saved(act, store, tools=[look, find], **settings))
    act(agent("b", store=store, tools=[find, look], **settings), "run", loaded)


def test_a_state_that_was_never_run_does_not_warn(act: Act) -> None:
    store, state = Shelf(), started()
    store.save(state)
    act(agent("a", name="clerk", store=store), "run", store.load(state.id))


def test_a_state_that_is_not_loaded_does_not_warn(act: Act) -> None:
    store, state = Shelf(), started()
    act(agent("a", store=store), "run", state)
    other = agent(name="other", model=FakeModel([], name="larger"))
    act(other, "run", state)
    act(other, "run", store.load(state.id).fork())
    act(other, "run", State(history=state.history))


def test_later_runs_of_a_loaded_state_do_not_warn(act: Act) -> None:
    store = Shelf()
    loaded = store.load(saved(act, store))
    with pytest.warns(ResumeWarning):
        act(agent("b", name="other", store=store), "run", loaded)
    act(agent("c", name="third", store=store), "run", loaded)


def test_steps_by_hand_do_not_warn_and_the_next_run_compares(act: Act) -> None:
    store = Shelf()
    loaded = store.load(saved(act, store))
    other = agent(call("look", "c1"), "c", name="other", tools=[look], store=store)
    loaded.add_message(Message.user("And now?"))
    act(other, "think", loaded)
    act(other, "use_tools", loaded)
    with pytest.warns(ResumeWarning):
        act(other, "run", loaded)


def test_the_last_run_counts(act: Act) -> None:
    store, state = Shelf(), started()
    act(agent("a", name="first", store=store), "run", state)
    act(agent("b", name="second", store=store), "run", state)
    act(agent("c", name="second", store=store), "run", store.load(state.id))


# The warning as an exception


def test_as_an_exception_it_stops_the_run_before_anything_and_comes_again(act: Act) -> None:
    store, heard = Shelf(), Heard()
    loaded = store.load(saved(act, store))
    before, writes = loaded.snapshot(), len(store.writes)
    other = agent("b", name="other", store=store, reporter=heard)
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ResumeWarning):
                act(other, "run", loaded)
    assert loaded.snapshot() is before
    assert (heard.events, len(store.writes)) == ([], writes)
    assert is_at_rest(loaded)
    with pytest.warns(ResumeWarning):
        act(other, "run", loaded)


def test_a_run_that_is_refused_behind_the_comparison_leaves_it_to_the_next(act: Act) -> None:
    store = Shelf()
    loaded = store.load(saved(act, store))
    other = agent("b", name="other", store=store)
    journal = journal_of(loaded)
    journal.running = True  # another run has the State
    with pytest.warns(ResumeWarning), pytest.raises(ValueError, match="being run"):
        act(other, "run", loaded)
    journal.running = False
    with pytest.warns(ResumeWarning):
        act(other, "run", loaded)


def test_a_state_in_another_store_is_refused_before_the_comparison(act: Act) -> None:
    store = Shelf()
    loaded = store.load(saved(act, store))
    with pytest.raises(ValueError, match="kept in"):
        act(agent("b", name="other", store=Shelf()), "run", loaded)


# What a resumed run sends


def killed(store: Any, state: State) -> State:
    """The State as it is loaded after its process died now."""
    store.save(state)
    return store.load(state.id)


def test_killed_while_the_model_works(act: Act) -> None:
    store, state = Shelf(), started("Find the bug")
    journal_of(state).record(rules.request, "fake/fake")
    state.add_message(Message.user("hurry"))
    loaded = killed(store, state)
    assert story(loaded)[-1] == f"error: {STOPPED_WAITING}"
    assert (loaded.turn, texts(loaded)) == (0, ["Find the bug", "hurry"])
    made = agent("found", store=store)
    assert act(made, "run", loaded) == "found"
    assert [m.text for m in fake(made).requests[0].messages] == ["Find the bug", "hurry"]


def test_killed_while_tools_run(act: Act, tmp_path: Path) -> None:
    store, state, book = SqliteStore(tmp_path / "runs.db"), started("Book two"), Book()
    first = agent([call("book", "c1", seat="1A"), call("book", "c2", seat="9F")], store=store, tools=[book])
    act(first, "think", state)
    journal_of(state).record(rules.result, result_of(state, "booked 1A"))
    state.add_message(Message.user("aisle please"))
    loaded = killed(store, state)
    assert since(loaded) == ["book done: booked 1A", "user", f"book aborted: {RESULT_UNKNOWN}"]
    made = agent("done", store=store, tools=[book])
    assert act(made, "run", loaded) == "done"
    assert book.booked == []
    blocks: Any = fake(made).requests[0].messages[2].content
    assert [block.content for block in blocks] == ["booked 1A", RESULT_UNKNOWN]
    assert fake(made).requests[0].messages[3].text == "aisle please"
    again = store.load(state.id)
    assert again.history == loaded.history
    store.close()


def result_of(state: State, content: str) -> Any:
    return ToolResultEntry(content=content, call=state.pending_calls[0], outcome=ToolOutcomeKind.DONE, turn=state.turn)


def test_a_finished_state_loads_finished_and_cannot_be_run(act: Act) -> None:
    store, state = Shelf(), started()
    state.finish("done")
    store.save(state)
    with pytest.raises(ValueError, match="finished"):
        act(agent("a", store=store), "run", store.load(state.id))


def test_a_stop_that_was_loaded_does_not_stop_the_next_run(act: Act) -> None:
    store = Shelf()
    loaded = store.load(saved(act, store))
    assert loaded.stopped is not None
    loaded.add_message(Message.user("And now?"))
    assert act(agent("b", store=store), "run", loaded) == "b"


def test_a_run_of_a_loaded_state_sends_what_the_original_would_have_sent(act: Act) -> None:
    store, state = Shelf(), started()
    first = agent(["Looking.", call("look", "c1")], "seen", tools=[look], store=store)
    act(first, "run", state)
    loaded = store.load(state.id)
    requests = []
    for one in (state.fork(), loaded):
        one.add_message(Message.user("And now?"))
        made = agent("b", tools=[look])
        act(made, "run", one)
        requests.append(fake(made).requests[0])
    assert requests[0] == requests[1]


def test_a_model_of_another_class_is_the_same_by_its_name(
    act: Act,
) -> None:
    class Same(Model):
        name, provider, context_window = "fake", "fake", 1000

        def respond(self, request: Any, on_text: Any = None, on_event: Any = None) -> Any:
            return FakeModel(["b"]).respond(request)

    store = Shelf()
    loaded = store.load(saved(act, store))
    act(Agent(Same(), reporter=None, human=None, store=store), "run", loaded)
