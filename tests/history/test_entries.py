"""The eleven classes of history entries, the records inside them, and the texts they hold."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import itertools
import pickle
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import histories
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import images, text_blocks

from alpineagents.history import clock, rules, wording
from alpineagents.history.entries import (
    ENTRY_CLASSES,
    ContextChange,
    ContextChangeEntry,
    ErrorEntry,
    ExchangeEntry,
    ExtraDataEntry,
    HistoryEntry,
    MessageEntry,
    ModelEventEntry,
    ModelReplyEntry,
    ModelRequestEntry,
    RunStartEntry,
    StopEntry,
    ToolResultEntry,
)
from alpineagents.state import State, journal_of
from alpineagents.values.content import Image, Message, RawBlock, TextBlock, ToolCall, ToolResultBlock
from alpineagents.values.estimates import message_tokens
from alpineagents.values.exchange import AgentInfo, Exchange, ModelEvent, Reply
from alpineagents.values.frozen import FrozenDict, FrozenList
from alpineagents.values.outcomes import ToolOutcomeKind
from alpineagents.values.usage import Usage

CALL = ToolCall("lookup", {"keys": ("a", "b")}, "q1")
PICTURE = Image(b"\x89PNG\r\n\x1a\n")
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
EXTRA_FIELDS: dict[type, set[str]] = {
    MessageEntry: set(),
    ModelRequestEntry: set(),
    ModelReplyEntry: set(),
    ModelEventEntry: set(),
    ToolResultEntry: {"call", "outcome", "late", "error", "child_ids", "usage"},
    ExchangeEntry: {"usage"},
    ContextChangeEntry: set(),
    RunStartEntry: {"parent_id", "parent_call_id"},
    StopEntry: set(),
    ExtraDataEntry: {"removed"},
    ErrorEntry: {"error", "call"},
}
# What each class needs, and its kind.
SMALLEST: dict[type, tuple[dict[str, Any], str]] = {
    MessageEntry: ({"kind": "user", "content": "hi"}, "user"),
    ModelRequestEntry: ({"content": "acme/large"}, "model_request"),
    ModelReplyEntry: ({"content": Reply(Message.assistant("hi"), Usage())}, "model_reply"),
    ModelEventEntry: ({"content": ModelEvent("retry", "again")}, "model_event"),
    ToolResultEntry: ({"content": "", "call": CALL, "outcome": ToolOutcomeKind.DONE}, "tool_result"),
    ExchangeEntry: ({"kind": "ask", "content": Exchange("Sure?", None)}, "ask"),
    ContextChangeEntry: ({"content": ContextChange("import", 0, 0)}, "context_change"),
    RunStartEntry: ({"content": AgentInfo(model="acme/large")}, "run_start"),
    StopEntry: ({"content": None}, "stop"),
    ExtraDataEntry: ({"content": {}}, "extra_data"),
    ErrorEntry: ({"content": "OSError"}, "error"),
}
EVERY_CLASS = pytest.mark.parametrize("cls", SMALLEST, ids=lambda cls: cls.__name__)


@pytest.fixture
def minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock shows one minute more each time it is read."""
    passed = itertools.count()
    monkeypatch.setattr(clock, "now", lambda: NOON + timedelta(minutes=next(passed)))


def minute(entry: HistoryEntry) -> int:
    return (entry.at - NOON) // timedelta(minutes=1)


# What all entries have in common.


@EVERY_CLASS
def test_an_entry_has_the_common_fields_and_those_of_its_class(cls: type[Any]) -> None:
    assert {field.name for field in dataclasses.fields(cls)} == {"kind", "content", "turn", "at"} | EXTRA_FIELDS[cls]


@EVERY_CLASS
def test_the_fields_of_an_entry_are_given_by_name(cls: type[Any]) -> None:
    assert {parameter.kind for parameter in inspect.signature(cls).parameters.values()} == {
        inspect.Parameter.KEYWORD_ONLY
    }
    with pytest.raises(TypeError):
        cls("user", "hi", 0)


@EVERY_CLASS
def test_an_entry_needs_its_content_and_turn_and_knows_its_kind(cls: type[Any]) -> None:
    needed, kind = SMALLEST[cls]
    assert cls(**needed, turn=3).kind == kind
    for missing in [*needed, "turn"]:
        with pytest.raises(TypeError, match=missing):
            cls(**{name: value for name, value in (needed | {"turn": 3}).items() if name != missing})


@EVERY_CLASS
def test_the_fields_of_a_class_have_their_defaults(cls: type[Any]) -> None:
    defaults = {"late": False, "child_ids": (), "removed": ()}
    entry = cls(**SMALLEST[cls][0], turn=3)
    for name in EXTRA_FIELDS[cls] - set(SMALLEST[cls][0]):
        assert getattr(entry, name) == defaults.get(name)


def test_every_kind_has_its_class() -> None:
    kinds = {kind: cls for cls, (_, kind) in SMALLEST.items()}
    assert kinds | {"notice": MessageEntry, "human": ExchangeEntry} == ENTRY_CLASSES


@EVERY_CLASS
def test_an_entry_is_stamped_with_the_time_it_is_made_in_utc(cls: type[Any]) -> None:
    before = datetime.now(UTC)
    at = cls(**SMALLEST[cls][0], turn=0).at
    assert before <= at <= datetime.now(UTC)
    assert at.tzinfo is UTC


@EVERY_CLASS
def test_the_clock_is_looked_up_for_each_stamp(cls: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOON)
    assert cls(**SMALLEST[cls][0], turn=0).at is NOON


@EVERY_CLASS
def test_entries_that_differ_in_time_only_are_equal(cls: type[Any]) -> None:
    needed, _ = SMALLEST[cls]
    assert cls(**needed, turn=0, at=NOON) == cls(**needed, turn=0)
    assert cls(**needed, turn=0) != cls(**needed, turn=1)


@EVERY_CLASS
def test_a_pickled_entry_keeps_its_time(cls: type[Any]) -> None:
    entry = cls(**SMALLEST[cls][0], turn=0, at=NOON)
    assert [pickle.loads(pickle.dumps(entry, protocol)).at for protocol in (0, 5)] == [NOON, NOON]


# As a State records them.


def test_an_entry_has_the_turn_of_its_state_and_a_request_the_turn_it_opens() -> None:
    state = histories.started()
    histories.run_start(state)
    histories.think(state, "Looking", histories.READ)
    state.add_message(Message.user("hurry"))
    histories.result(state, histories.READ)
    histories.request(state)
    histories.fail(state, OSError("disk"))
    histories.think(state, "Done")
    state.finish()
    assert [(entry.kind, entry.turn) for entry in state.history] == [
        ("context_change", 0),
        ("run_start", 0),
        ("model_request", 1),
        ("model_reply", 1),
        ("user", 1),
        ("tool_result", 1),
        ("model_request", 2),
        ("error", 2),
        ("model_request", 2),
        ("model_reply", 2),
        ("stop", 2),
    ]


@pytest.mark.usefixtures("minutes")
def test_a_message_is_stamped_when_it_was_added_even_if_it_enters_the_context_later() -> None:
    state = histories.waiting()
    state.add_message(Message.user("hurry"))
    asked, added = state.history[-2:]
    assert [message.text for message in state.messages] == ["Go"]
    histories.reply(state, "Hi")
    assert [message.text for message in state.messages] == ["Go", "Hi", "hurry"]
    assert minute(asked) < minute(added) < minute(state.history[-1])


@pytest.mark.usefixtures("minutes")
def test_a_fact_is_stamped_when_it_is_recorded_not_when_its_entry_was_made() -> None:
    state = histories.pending()
    entry = ToolResultEntry(content="ok", call=histories.READ, outcome=ToolOutcomeKind.DONE, turn=1)
    state.add_message(Message.user("meanwhile"))
    journal_of(state).record(rules.result, entry)
    message, result = state.history[-2:]
    assert minute(entry) < minute(message) < minute(result)


@pytest.mark.usefixtures("minutes")
def test_times_never_decrease_along_a_history_whatever_thread_records() -> None:
    state, together = histories.started(), threading.Barrier(4)

    def record(name: int) -> None:
        together.wait()
        for number in range(50):
            state.add_message(Message.user(f"{name} {number}"))

    threads = [threading.Thread(target=record, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times = [entry.at for entry in state.history]
    assert len(times) == 201
    assert times == sorted(times)


def test_a_state_rebuilt_from_its_history_keeps_the_times() -> None:
    state = histories.pending()
    rebuilt = State(history=state.history)
    assert [entry.at for entry in rebuilt.history] == [entry.at for entry in state.history]
    assert (rebuilt.created_at, rebuilt.updated_at) == (state.created_at, state.updated_at)


# Messages.


@pytest.mark.parametrize(
    ("given", "content"),
    [
        ("go", "go"),
        ("", ""),
        ([TextBlock("go")], "go"),
        ((TextBlock(""),), ""),
        ([TextBlock("a"), TextBlock("b")], (TextBlock("a"), TextBlock("b"))),
        ([PICTURE], (PICTURE,)),
        ([TextBlock("a"), PICTURE], (TextBlock("a"), PICTURE)),
        ([], ()),
    ],
    ids=repr,
)
def test_the_content_of_a_message_entry_has_one_form(given: Any, content: Any) -> None:
    assert MessageEntry(kind="user", content=given, turn=0).content == content


@pytest.mark.parametrize("kind", ["user", "notice"])
def test_the_message_of_an_entry_is_a_user_message_whatever_its_kind(kind: Any) -> None:
    assert MessageEntry(kind=kind, content="go", turn=0).message == Message("user", (TextBlock("go"),))
    assert MessageEntry(kind=kind, content=(PICTURE,), turn=0).message == Message("user", (PICTURE,))
    assert MessageEntry(kind=kind, content=(), turn=0).message == Message("user", ())


@pytest.mark.parametrize(
    ("message", "kind"),
    [(Message.user("go"), "user"), (Message.notice("disk full"), "notice"), (Message.user("[notice] a"), "notice")],
)
def test_an_entry_of_a_message_is_a_notice_if_the_message_is_one(message: Message, kind: str) -> None:
    entry = MessageEntry.from_message(message, turn=4)
    assert (entry.kind, entry.content, entry.turn) == (kind, message.text, 4)


@given(st.lists(text_blocks() | images(), max_size=4))
def test_a_message_comes_back_from_its_entry(blocks: list[Any]) -> None:
    message = Message("user", tuple(blocks))
    assert MessageEntry.from_message(message, turn=0).message == message


def test_a_message_entry_does_not_keep_tokens_and_stop_reason() -> None:
    message = Message("user", (TextBlock("a"),), 5, "end_turn")
    assert MessageEntry.from_message(message, turn=0).message == Message.user("a")


@pytest.mark.parametrize("role", ["assistant", "system"])
def test_only_user_messages_have_an_entry(role: Any) -> None:
    with pytest.raises(ValueError, match=f"not one with role '{role}'\nFix: "):
        MessageEntry.from_message(Message(role, (TextBlock("a"),)), turn=0)


@pytest.mark.parametrize("block", [CALL, ToolResultBlock("q1", "a"), RawBlock("acme", {}), "text"], ids=repr)
def test_only_texts_and_images_have_an_entry(block: Any) -> None:
    with pytest.raises(ValueError, match=f"not a {type(block).__name__}\nFix: "):
        MessageEntry.from_message(Message("user", (TextBlock("a"), block)), turn=0)


def test_a_message_given_at_the_start_has_no_entry_of_its_own() -> None:
    (entry,) = State(messages=[Message.user("a"), Message.notice("b")]).history
    assert (entry.kind, entry.content.messages) == ("context_change", (Message.user("a"), Message.notice("b")))  # type: ignore[union-attr]


# Requests, replies and events.


def test_only_think_records_a_request_and_its_content_is_the_model_asked() -> None:
    state = histories.started()
    histories.ask(state, "Sure?", "yes")
    histories.compact_by_model(state, "short", 0, Usage(requests=1))
    assert histories.kinds(state) == ["context_change", "ask", "context_change"]
    histories.request(state)
    assert (state.history[-1].kind, state.history[-1].content) == ("model_request", "acme/large")


def test_a_reply_is_the_object_the_model_returned() -> None:
    state, reply = histories.waiting(), Reply(Message.assistant("hi"), Usage(requests=1))
    journal_of(state).record(rules.reply, reply)
    assert state.history[-1].content is reply


def test_an_event_stays_in_the_history_when_its_request_fails() -> None:
    state, event = histories.waiting(), ModelEvent("retry", "again")
    journal_of(state).record(rules.model_event, event)
    histories.fail(state, TimeoutError())
    assert [(entry.kind, entry.content) for entry in state.history[-2:]] == [
        ("model_event", event),
        ("error", "TimeoutError"),
    ]


# Results of tools.


def result(**fields: Any) -> ToolResultEntry:
    return ToolResultEntry(**({"content": "ok", "call": CALL, "outcome": ToolOutcomeKind.DONE, "turn": 3} | fields))


def test_the_example_of_a_result() -> None:
    entry = result(content="(aborted: OSError)", outcome="aborted")
    assert entry.call.args == {"keys": ["a", "b"]}
    assert (entry.outcome is ToolOutcomeKind.ABORTED, entry.is_error) == (True, True)
    assert entry == result(content="(aborted: OSError)", outcome="aborted", error=OSError())


@pytest.mark.parametrize("kind", ToolOutcomeKind)
def test_an_outcome_given_as_text_becomes_the_member(kind: ToolOutcomeKind) -> None:
    assert result(outcome=str(kind.value)).outcome is kind


@pytest.mark.parametrize("outcome", ["DONE", "", "failed", None], ids=repr)
def test_an_unknown_outcome_is_refused_and_the_known_ones_listed(outcome: Any) -> None:
    with pytest.raises(
        ValueError, match="use one of done, error, input_error, aborted, interrupted, denied, cancelled"
    ):
        result(outcome=outcome)


@pytest.mark.parametrize("kind", ToolOutcomeKind)
def test_every_outcome_but_done_is_an_error(kind: ToolOutcomeKind) -> None:
    assert result(outcome=kind).is_error is (kind != "done")


@pytest.mark.parametrize("child_ids", ["c1", "", b"c1"], ids=repr)
def test_one_child_id_in_place_of_several_is_refused(child_ids: Any) -> None:
    with pytest.raises(TypeError) as raised:
        result(child_ids=child_ids)
    assert str(raised.value) == (
        f"child_ids takes a list of ids, not one {type(child_ids).__name__}: {child_ids!r}\n"
        f"Fix: put the id into a list\nExample:\n    child_ids=[{child_ids!r}]"
    )


def test_one_text_block_stays_apart_from_its_text() -> None:
    assert result(content=[TextBlock("ok")]).content == (TextBlock("ok"),)
    assert result(content=[TextBlock("ok")]) != result(content="ok")


def test_a_call_that_started_no_subagent_has_no_usage() -> None:
    assert (result().child_ids, result().usage) == ((), None)
    assert result(usage=Usage()) != result()


def test_each_pending_call_closes_with_exactly_one_entry_that_is_not_late() -> None:
    state = histories.pending()
    histories.result(state, histories.READ)
    histories.end_of_run(state, KeyboardInterrupt())
    histories.result(state, histories.LIST, late=True)
    closing = [entry.call for entry in state.history if isinstance(entry, ToolResultEntry) and not entry.late]
    assert closing == [histories.READ, histories.LIST]


# The other classes.


def test_an_exchange_never_enters_the_context() -> None:
    state = histories.started()
    before = state.messages
    histories.ask(state, "Sure?", {"sure": ["yes"]}, Usage(requests=2))
    entry: Any = state.history[-1]
    assert state.messages == before
    assert (entry.content.question, entry.content.answer, entry.usage) == (
        "Sure?",
        {"sure": ["yes"]},
        Usage(requests=2),
    )
    assert (type(entry.content.answer), type(entry.content.answer["sure"])) == (FrozenDict, FrozenList)


def test_a_person_is_asked_without_usage() -> None:
    assert ExchangeEntry(kind="human", content=Exchange("Sure?", "yes"), turn=0).usage is None


def test_a_context_change_needs_its_kind_and_sizes_only() -> None:
    change = ContextChange("import", 0, 5)
    assert dataclasses.astuple(change) == ("import", 0, 5, None, 0, (), (), None, None)


def test_the_fields_of_a_context_change_are_set_by_its_kind() -> None:
    state = histories.started()
    moment = state.snapshot()
    histories.think(state, "Looking", histories.READ)
    histories.result(state, histories.READ)
    state.clear_tool_results(keep_last=0)
    histories.compact_by_model(state, "short", 1, Usage(requests=1, cost=0.1))
    state.compact("shorter")
    state.restore(moment)
    changes = [entry.content for entry in state.history if isinstance(entry, ContextChangeEntry)]
    set_fields = [
        {
            field.name: value
            for field in dataclasses.fields(change)
            if (value := getattr(change, field.name)) != field.default
        }
        for change in changes
    ]
    for fields in set_fields:
        fields.pop("before_tokens"), fields.pop("after_tokens")
    assert set_fields == [
        {"kind": "import", "messages": (Message.user("Go"),)},
        {"kind": "clear_tool_results", "cleared": ("c1",)},
        {"kind": "compact", "summary": "short", "kept": 1, "usage": Usage(requests=1, cost=0.1)},
        {"kind": "compact", "summary": "shorter"},
        {"kind": "restore", "restored_to": 1},
    ]


def test_the_sizes_of_a_change_are_estimates_of_the_messages_alone() -> None:
    state = State(messages=[Message.user("Go"), Message.user("on")])
    state.compact("short")
    sizes = [(entry.content.before_tokens, entry.content.after_tokens) for entry in state.history]  # type: ignore[union-attr]
    assert sizes == [(0, 5 + 5), (5 + 5, sum(message_tokens(message) for message in state.messages))]


def test_the_recorded_sizes_of_a_change_are_not_computed_again() -> None:
    change = ContextChange("import", 111, 222, messages=(Message.user("Go"),))
    state = State(history=[ContextChangeEntry(content=change, turn=0)])
    assert state.history[0].content == change


def test_a_context_change_of_an_unknown_kind_is_refused_by_replay_only() -> None:
    kind: Any = "shrink"
    entry = ContextChangeEntry(content=ContextChange(kind, 0, 0), turn=0)
    with pytest.raises(ValueError, match="shrink"):
        State(history=[entry])


def test_a_run_started_by_a_tool_call_names_the_state_and_the_call() -> None:
    state = histories.started()
    histories.run_start(state, "writer", "p1", "c1")
    histories.run_start(state)
    runs: list[Any] = list(state.history[1:])
    assert [(run.content.name, run.parent_id, run.parent_call_id) for run in runs] == [
        ("writer", "p1", "c1"),
        (None, None, None),
    ]


def test_a_stop_without_content_withdraws_the_reason() -> None:
    state = histories.started()
    state.finish("yes")
    assert str(state.stopped) == "stopped by finish"
    histories.stop(state, None)
    assert (state.history[-1].content, state.stopped) == (None, None)


def test_extra_data_is_recorded_by_top_level_key_with_whole_frozen_values() -> None:
    state = State(extra_data={"keep": 1, "change": {"a": 1, "b": [2]}, "drop": 0})
    with state.edit_extra_data() as data:
        data["change"]["a"] = 9
        del data["drop"]
    entry: Any = state.history[-1]
    assert (entry.content, entry.removed) == ({"change": {"a": 9, "b": [2]}}, ("drop",))
    assert (type(entry.content), type(entry.content["change"]["b"])) == (FrozenDict, FrozenList)


@pytest.mark.parametrize(
    ("error", "content"),
    [
        (TimeoutError("no reply"), "TimeoutError: no reply"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (ValueError(""), "ValueError"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
    ids=repr,
)
def test_an_error_is_recorded_as_its_class_and_message_and_the_object_itself(
    error: BaseException, content: str
) -> None:
    state = histories.pending()
    histories.fail(state, error, histories.READ)
    entry: Any = state.history[-1]
    assert (entry.kind, entry.content, entry.call) == ("error", content, histories.READ)
    assert entry.error is error


# The texts that results have.


def test_the_fixed_texts_of_results() -> None:
    assert wording.DONE == "(done)"
    assert wording.INTERRUPTED == "(interrupted by user)"
    assert wording.TURN_STOPPED == "(not run: the user stopped this turn)"
    assert wording.NOT_RUN_YET == "(not run yet)"
    assert wording.CLEARED == "(cleared: kept in history)"
    assert wording.input_error("no tool 'x'") == "(input error: no tool 'x')"
    assert wording.aborted(TimeoutError("no reply")) == "(aborted: TimeoutError)"


class Aborted(KeyboardInterrupt):
    pass


@pytest.mark.parametrize(
    ("error", "content", "outcome"),
    [
        (KeyboardInterrupt(), "(interrupted by user)", "interrupted"),
        (Aborted(), "(interrupted by user)", "interrupted"),
        (asyncio.CancelledError(), "(interrupted by user)", "interrupted"),
        (TimeoutError("no reply"), "(aborted: TimeoutError)", "aborted"),
        (SystemExit(3), "(aborted: SystemExit)", "aborted"),
    ],
    ids=repr,
)
def test_a_call_closed_by_an_exception_has_a_fixed_text(error: BaseException, content: str, outcome: str) -> None:
    state = histories.pending(CALL)
    histories.end_of_run(state, error)
    closed = [entry for entry in state.history if isinstance(entry, ToolResultEntry)]
    assert [(entry.content, entry.outcome, entry.error) for entry in closed] == [(content, outcome, error)]


def test_cleared_results_have_a_fixed_text() -> None:
    state = histories.pending(CALL)
    histories.result(state, CALL, "long text")
    state.clear_tool_results(keep_last=0)
    block: Any = state.messages[-1].content[0]
    assert block.content == "(cleared: kept in history)"
