"""A recorded conversation, run again."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from contracts.model import REQUEST, ModelContract

from alpineagents.agent import Agent
from alpineagents.errors import ProviderError
from alpineagents.history import rules
from alpineagents.history.entries import ToolResultEntry
from alpineagents.models.base import Model, identity
from alpineagents.state import State, journal_of
from alpineagents.store import SqliteStore
from alpineagents.testing import FakeModel, ReplayMismatch, ReplayModel, ReplayWarning
from alpineagents.tools.decorator import tool
from alpineagents.values.content import Message, RawBlock, TextBlock, ToolCall
from alpineagents.values.exchange import AgentInfo, ModelEvent, Reply, Request
from alpineagents.values.outcomes import ToolOutcomeKind
from alpineagents.values.usage import Usage

C1 = ToolCall("count", {"table": "a"}, "c1")
RETRY, SLOW = ModelEvent("retry", "again"), ModelEvent("slow", "still waiting")
FULL = Reply(
    Message("assistant", (RawBlock("acme", {"thinking": "hm"}), TextBlock("Hel"), C1, TextBlock("lo"))),
    Usage(10, 20, 30, 40, 1, 0.5),
    100,
    "tool_use",
    "large-2026",
)


def fake(*items: Any) -> FakeModel:
    model = FakeModel(items, name="large")
    model.provider = "acme"
    return model


def think(model: Model, state: State, on_text: Any = None, events: Sequence[ModelEvent] = ()) -> Reply:
    """One request of a run, recorded as the engine does it."""
    journal = journal_of(state)
    journal.record(rules.request, identity(model))

    def on_event(event: ModelEvent) -> None:
        journal.record(rules.model_event, event)

    for event in events:
        on_event(event)
    try:
        reply = model.respond(Request("Be brief", state.messages), on_text, on_event)
    except Exception as error:
        journal.record(rules.failure, error)
        raise
    journal.record(rules.reply, reply)
    return reply


def give(state: State, call: ToolCall, content: str, **fields: Any) -> None:
    entry = ToolResultEntry(content=content, call=call, outcome=ToolOutcomeKind.DONE, turn=state.turn, **fields)
    journal_of(state).record(rules.result, entry)


def question(state: State, text: str, *more: str) -> Request:
    messages = [Message.user(text), *[(Message.assistant, Message.user)[i % 2](t) for i, t in enumerate(more)]]
    return Request("Be brief", (*state.messages, *messages), tool_choice="none")


def note_answer(state: State, text: str, answer: Any, usage: Usage | None = None) -> None:
    journal_of(state).record(rules.asked, "ask", text, answer, usage)


def note_summary(state: State, summary: str, kept: int = 0, usage: Usage | None = None) -> None:
    journal_of(state).record(rules.compact, summary, kept, usage or Usage(5, 6, requests=1))


def summary_request(state: State) -> Request:
    return Request("Be brief", state.messages, tool_choice="none")


def begun(text: str = "Count the rows") -> State:
    return State(messages=[Message.user(text)])


def counted(result: str = "12", answer: str = "12 rows", text: str = "Count the rows") -> State:
    """Two turns: a call with its result, and the answer."""
    state, model = begun(text), fake(C1, answer)
    think(model, state)
    give(state, C1, result)
    think(model, state)
    return state


def run(model: Model, result: str = "12", text: str = "Count the rows") -> State:
    """The same run again, with a tool that may count otherwise."""
    state = begun(text)
    think(model, state)
    give(state, C1, result)
    think(model, state)
    return state


def mismatch(model: ReplayModel, *messages: Message) -> ReplayMismatch:
    with pytest.raises(ReplayMismatch) as raised:
        model.respond(Request(None, messages), pytest.fail, pytest.fail)
    return raised.value


def counting(model: Model, result: str) -> Agent:
    @tool
    def count(table: str) -> str:
        """Count the rows of a table."""
        return result

    return Agent(model=model, tools=[count], reporter=None)


class TestReplayModel(ModelContract):
    @pytest.fixture
    def model(self) -> Model:
        state = State(messages=REQUEST.messages)
        think(fake(["Hel", "lo", C1]), state)
        return ReplayModel(state)


def test_a_state_and_its_snapshot_are_sources() -> None:
    state = counted()
    assert run(ReplayModel(state)).answer == run(ReplayModel(state.snapshot())).answer == "12 rows"


def test_a_store_and_an_id_are_a_source(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "runs.db") as store:
        state = counted()
        store.save(state)
        assert run(ReplayModel(store, state.id)).messages == state.messages


def test_what_the_store_raises_comes_through(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "runs.db") as store, pytest.raises(LookupError, match="nobody"):
        ReplayModel(store, "nobody")


def test_a_store_needs_an_id(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "runs.db") as store, pytest.raises(TypeError, match="needs the id"):
        ReplayModel(store)


@pytest.mark.parametrize("source", [State(), State().snapshot(), [State()], "runs.db"])
def test_an_id_needs_a_store(source: Any) -> None:
    with pytest.raises(TypeError, match="an id with a store"):
        ReplayModel(source, "bug-1")


@pytest.mark.parametrize("source", ["runs.db", None, 3, counted().history, [State(), "a"], {State()}])
def test_any_other_source_is_refused(source: Any) -> None:
    with pytest.raises(TypeError, match="ReplayModel replays States"):
        ReplayModel(source)


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(ValueError, match="empty list"):
        ReplayModel([])


def test_the_history_is_taken_at_construction() -> None:
    state = counted()
    model = ReplayModel(state)
    state.add_message(Message.user("And the columns?"))
    think(fake("3"), state)
    assert model.remaining == 2


def test_the_replay_leaves_the_source_as_it_is() -> None:
    state = counted()
    before = state.snapshot()
    run(ReplayModel(state))
    assert state.snapshot() is before


@pytest.mark.parametrize(
    ("recorded", "provider", "name"),
    [("acme/large", "acme", "large"), ("acme/large/2", "acme", "large/2"), ("large", "", "large")],
)
def test_the_name_is_that_of_the_first_recorded_request(recorded: str, provider: str, name: str) -> None:
    state = begun()
    journal_of(state).record(rules.run_start, AgentInfo(model="other/small"), None, None)
    journal_of(state).record(rules.request, recorded)
    journal_of(state).record(rules.failure, ValueError("no"))
    journal_of(state).record(rules.request, "later/model")
    model = ReplayModel(state)
    assert (model.provider, model.name) == (provider, name)
    assert repr(model) == f"ReplayModel({name!r})"


def test_without_a_request_the_name_is_that_of_the_first_run() -> None:
    state = begun()
    for name in ("other/small", "later/model"):
        journal_of(state).record(rules.run_start, AgentInfo(model=name), None, None)
    assert identity(ReplayModel(state)) == "other/small"


def test_without_a_run_it_is_called_replay() -> None:
    assert identity(ReplayModel(State())) == "replay/replay"


def test_it_has_no_price_and_the_context_window_given() -> None:
    assert ReplayModel(counted()).price is None
    assert ReplayModel(counted()).context_window == 200_000
    assert ReplayModel(counted(), context_window=50).context_window == 50


def test_requests_holds_what_was_received() -> None:
    state = counted()
    note_summary(state, "s")
    model = ReplayModel(state)
    first, summary = Request(None, begun().messages), Request(None, (), tool_choice="none")
    model.respond(first)
    for ask in (model.respond, model.compact):
        with pytest.raises(ReplayMismatch):
            ask(summary)
    assert len(model.requests) == 3
    assert model.requests[0] is first
    assert model.requests[1] is model.requests[2] is summary


def test_remaining_counts_replies_answers_and_summaries_of_a_model() -> None:
    state = counted()
    journal_of(state).record(rules.request, "acme/large")
    journal_of(state).record(rules.failure, ValueError("no reply"))
    note_answer(state, "Which?", "a")
    journal_of(state).record(rules.asked, "human", "Go on?", True)
    note_summary(state, "by the model")
    state.compact("by hand")
    assert ReplayModel(state).remaining == 2 + 1 + 1


def test_a_reply_is_the_recorded_one() -> None:
    state = begun()
    think(fake(FULL), state)
    assert ReplayModel(state).respond(Request(None, begun().messages)) is FULL


def test_a_reply_from_a_store_is_the_recorded_one(tmp_path: Path) -> None:
    state = begun()
    think(fake(FULL), state)
    with SqliteStore(tmp_path / "runs.db") as store:
        store.save(state)
        assert ReplayModel(store, state.id).respond(Request(None, begun().messages)) == FULL


def test_the_texts_of_a_reply_are_streamed_block_by_block(act: Callable[..., Any]) -> None:
    state, pieces = begun(), list[str]()
    think(fake(FULL), state)
    act(ReplayModel(state), "respond", Request(None, begun().messages), pieces.append)
    assert pieces == ["Hel", "lo"]


def test_recorded_events_are_reported_before_the_text() -> None:
    state, heard = begun(), list[Any]()
    think(fake("hello"), state, events=[RETRY, SLOW])
    ReplayModel(state).respond(Request(None, begun().messages), heard.append, heard.append)
    assert heard == [RETRY, SLOW, "hello"]


def test_a_request_that_failed_is_skipped_with_its_events() -> None:
    state, heard = begun(), list[Any]()
    with pytest.raises(ProviderError):
        think(fake(ProviderError("down")), state, events=[RETRY])
    think(fake("hello"), state, events=[SLOW])
    ReplayModel(state).respond(Request(None, begun().messages), None, heard.append)
    assert heard == [SLOW]


def test_events_of_a_question_are_not_those_of_the_next_reply() -> None:
    state, heard = begun(), list[Any]()
    journal_of(state).record(rules.model_event, RETRY)
    note_answer(state, "Which?", "a")
    think(fake("hello"), state)
    ReplayModel(state).respond(Request(None, begun().messages), None, heard.append)
    assert heard == []


def test_a_text_question_gets_the_recorded_answer(act: Callable[..., Any]) -> None:
    state, pieces = begun(), list[str]()
    note_answer(state, "Which city?", "Oslo", Usage(1, 2, requests=2, cost=0.25))
    reply = act(ReplayModel(state), "respond", question(state, "Which city?"), pieces.append)
    assert (reply.text, pieces) == ("Oslo", ["Oslo"])
    assert reply.usage == Usage(1, 2, requests=2, cost=0.25)


def test_a_question_with_format_instructions_gets_the_answer_as_json() -> None:
    state = begun()
    note_answer(state, "Which city?", {"city": "Örebro", "tags": ["a"]})
    reply = ReplayModel(state).respond(question(state, "Which city?\n\nAnswer in JSON: {}"))
    assert reply.text == '{"city": "Örebro", "tags": ["a"]}'


@pytest.mark.parametrize(("asked", "text"), [("Which?", ""), ("Which?\n\nJSON, please", "null")])
def test_no_valid_answer_is_an_empty_text_or_null(asked: str, text: str) -> None:
    state = begun()
    note_answer(state, "Which?", None)
    assert ReplayModel(state).respond(question(state, asked)).text == text


def test_an_answer_that_is_no_text_is_given_as_json() -> None:
    state = begun()
    note_answer(state, "Which?", ["a", 1])
    assert ReplayModel(state).respond(question(state, "Which?")).text == '["a", 1]'


def test_format_instructions_follow_a_blank_line() -> None:
    state = begun()
    note_answer(state, "Which?", "a")
    with pytest.raises(ReplayMismatch):
        ReplayModel(state).respond(question(state, "Which?\nJSON, please"))


def test_the_first_unused_answer_to_the_same_question_is_given() -> None:
    state = begun()
    for text, answer in (("Which?", "a"), ("Other?", "x"), ("Which?", "b")):
        note_answer(state, text, answer)
    model = ReplayModel(state)
    given = [model.respond(question(state, text)).text for text in ("Which?", "Which?", "Other?")]
    assert given == ["a", "b", "x"]
    assert model.remaining == 0


def test_a_question_without_usage_gets_an_empty_one() -> None:
    state = begun()
    note_answer(state, "Which?", "a")
    assert ReplayModel(state).respond(question(state, "Which?")).usage == Usage()


def test_another_attempt_at_a_question_gets_the_same_text_and_uses_nothing() -> None:
    state = begun()
    note_answer(state, "Which?", None, Usage(1, 2, requests=3))
    note_answer(state, "Other?", "x")
    model = ReplayModel(state)
    model.respond(question(state, "Which?\n\nJSON, please"))
    attempts = [
        model.respond(question(state, "Which?\n\nJSON, please", *more))
        for more in (["null", "Not valid"], ["null", "Not valid", "null", "Still not"])
    ]
    assert [attempt.text for attempt in attempts] == ["null", "null"]
    assert [attempt.usage for attempt in attempts] == [Usage(), Usage()]
    assert model.remaining == 1


def test_a_longer_conversation_that_begins_otherwise_is_no_other_attempt() -> None:
    state = begun()
    note_answer(state, "Which?", "a")
    model = ReplayModel(state)
    model.respond(question(state, "Which?"))
    with pytest.raises(ReplayMismatch):
        model.respond(question(begun("Count the columns"), "Which?", "a", "Not valid"))


def test_the_same_question_again_is_no_other_attempt() -> None:
    state = begun()
    note_answer(state, "Which?", "a")
    model = ReplayModel(state)
    model.respond(question(state, "Which?"))
    with pytest.raises(ReplayMismatch):
        model.respond(question(state, "Which?"))


def test_another_attempt_belongs_to_the_latest_question_it_begins_with() -> None:
    state = begun()
    note_answer(state, "Which?", "a")
    note_answer(state, "Which?", "b")
    model = ReplayModel(state)
    model.respond(question(state, "Which?"))
    model.respond(question(state, "Which?"))
    assert model.respond(question(state, "Which?", "b", "Not valid")).text == "b"


def test_a_compaction_gets_the_recorded_summary_with_its_usage(act: Callable[..., Any]) -> None:
    state = counted()
    note_summary(state, "12 rows in a", usage=Usage(7, 8, requests=1, cost=0.5))
    reply = act(ReplayModel(state), "compact", summary_request(counted()), "other instructions")
    assert (reply.text, reply.usage) == ("12 rows in a", Usage(7, 8, requests=1, cost=0.5))


def test_questions_and_summaries_end_their_turn_and_name_the_model() -> None:
    state = counted()
    note_answer(state, "Which?", "a")
    note_summary(state, "s")
    model = ReplayModel(state)
    replies = [model.respond(question(state, "Which?")), model.compact(summary_request(counted()))]
    assert [(reply.stop_reason, reply.model) for reply in replies] == [("end_turn", "large")] * 2


def test_the_three_kinds_are_separate_queues() -> None:
    state = begun()
    think(fake("hello"), state)
    note_answer(state, "Which?", "a")
    before = state.messages
    note_summary(state, "s")
    model = ReplayModel(state)
    assert model.compact(Request(None, before, tool_choice="none")).text == "s"
    assert model.respond(question(state, "Which?")).text == "a"
    assert model.respond(Request(None, begun().messages)).text == "hello"


def test_a_whole_run_is_replayed() -> None:
    recorded = counted()
    model = ReplayModel(recorded)
    state = run(model)
    assert state.history == recorded.history
    assert model.remaining == 0


def test_a_replay_is_the_same_without_blocking(act: Callable[..., Any]) -> None:
    recorded = counted()
    note_summary(recorded, "s")
    model, state = ReplayModel(recorded), counted()
    assert act(model, "respond", Request(None, begun().messages)).tool_calls == (C1,)
    assert act(model, "respond", Request(None, state.messages[:3])).text == "12 rows"
    assert act(model, "compact", summary_request(state)).text == "s"


def test_an_agent_takes_the_recorded_path(act: Callable[..., Any]) -> None:
    recorded, state = begun(), begun()
    counting(fake(C1, "12 rows"), "12").run(recorded)
    model = ReplayModel(recorded)
    assert act(counting(model, "12"), "run", state) == "12 rows"
    assert state.history == recorded.history
    assert model.remaining == 0


def test_an_agent_whose_tool_gives_another_result_leaves_the_recorded_path(act: Callable[..., Any]) -> None:
    recorded, state = begun(), begun()
    counting(fake(C1, "12 rows"), "12").run(recorded)
    model = ReplayModel(recorded)
    with pytest.raises(ReplayMismatch) as raised:
        act(counting(model, "13"), "run", state)
    assert (raised.value.index, model.remaining) == (2, 1)
    assert " ".join(entry.kind for entry in state.history) == (
        "context_change run_start model_request model_reply tool_result model_request error"
    )


def test_restores_in_the_recording_are_followed() -> None:
    def explore(model: Model) -> State:
        state = begun()
        before = state.snapshot()
        think(model, state)
        state.restore(before)
        state.add_message(Message.user("Differently"))
        think(model, state)
        return state

    model = ReplayModel(explore(fake("one", "two")))
    assert explore(model).answer == "two"


def test_compactions_in_the_recording_are_followed() -> None:
    def work(model: Model) -> State:
        state = begun()
        think(model, state)
        request = summary_request(state)
        state.add_message(Message.user("And the columns?"))  # while the summary is being written
        reply = model.compact(request)
        note_summary(state, reply.text, 1, reply.usage)
        think(model, state)
        return state

    recorded = work(fake("one", "summary", "two"))
    model = ReplayModel(recorded)
    assert work(model).answer == "two"
    assert model.remaining == 0


def test_forks_in_the_recording_are_followed() -> None:
    def branch(model: Model) -> State:
        state = run(model)
        fork = state.fork()
        fork.add_message(Message.user("And the columns?"))
        think(model, fork)
        return fork

    assert branch(ReplayModel(branch(fake(C1, "12 rows", "3")))).answer == "3"


def test_late_results_in_the_recording_are_followed() -> None:
    def interrupted(model: Model) -> State:
        state = begun()
        think(model, state)
        give(state, C1, "(interrupted by user)")
        give(state, C1, "12", late=True)
        state.add_message(Message.user("Go on"))
        think(model, state)
        return state

    assert interrupted(ReplayModel(interrupted(fake(C1, "12 rows")))).answer == "12 rows"


def test_system_prompt_and_tools_are_not_compared() -> None:
    assert ReplayModel(counted()).respond(Request("Other", begun().messages, REQUEST.tools)).tool_calls == (C1,)


def test_tokens_and_stop_reason_of_a_message_are_not_compared() -> None:
    start, call, result = counted().messages[:3]
    bare = Message(call.role, call.content, tokens=9_999, stop_reason="other")
    model = ReplayModel(counted())
    model.respond(Request(None, (start,)))
    assert model.respond(Request(None, (start, bare, result))).text == "12 rows"


def test_a_mismatch_uses_no_answer_and_streams_nothing() -> None:
    model = ReplayModel(counted())
    mismatch(model, Message.user("Count the columns"))
    assert model.remaining == 2
    assert model.respond(Request(None, begun().messages)).tool_calls == (C1,)


def test_a_compaction_with_other_messages_is_a_mismatch() -> None:
    state = counted()
    note_summary(state, "s")
    model = ReplayModel(state)
    with pytest.raises(ReplayMismatch) as raised:
        model.compact(summary_request(counted("13")))
    assert raised.value.index == 2
    assert model.remaining == 3


def test_a_mismatch_takes_the_turn_back() -> None:
    model = ReplayModel(counted())
    state = begun()
    think(model, state)
    give(state, C1, "13")
    with pytest.raises(ReplayMismatch):
        think(model, state)
    kinds = [entry.kind for entry in state.history[1:]]
    assert kinds == ["model_request", "model_reply", "tool_result", "model_request", "error"]
    assert state.turn == 1


def test_a_mismatch_is_a_test_failure_and_no_provider_error() -> None:
    assert issubclass(ReplayMismatch, AssertionError)
    assert not issubclass(ReplayMismatch, ProviderError)
    assert issubclass(ReplayWarning, UserWarning)


def test_without_strict_a_mismatch_warns_once_and_answers() -> None:
    model = ReplayModel(counted(), strict=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert run(model, "13").answer == "12 rows"
    assert [warning.category for warning in caught] == [ReplayWarning]
    assert model.remaining == 0


def test_the_warning_tells_what_the_mismatch_tells() -> None:
    received = Message.user("Count the columns")
    with pytest.warns(ReplayWarning) as caught:
        ReplayModel(counted(), strict=False).respond(Request(None, (received,)))
    warning, error = caught[0].message, mismatch(ReplayModel(counted()), received)
    assert isinstance(warning, ReplayWarning)
    assert str(warning) == str(error)
    assert (warning.index, warning.expected, warning.actual) == (error.index, error.expected, error.actual)
    assert warning.diff == error.diff


@pytest.mark.parametrize("strict", [True, False])
def test_nothing_left_is_a_mismatch_in_both_modes(strict: bool) -> None:
    model = ReplayModel(counted(), strict=strict)
    state = run(model)
    state.add_message(Message.user("And the columns?"))
    with pytest.raises(ReplayMismatch, match=r"request 3 for a reply[^\n]*has 2[^\n]*And the columns\?") as raised:
        think(model, state)
    error = raised.value
    assert (error.index, error.expected, error.actual, error.diff) == (None, None, None, "")


@pytest.mark.parametrize("strict", [True, False])
def test_a_compaction_that_was_not_recorded_is_a_mismatch_in_both_modes(strict: bool) -> None:
    with pytest.raises(ReplayMismatch, match="request 1 for a summary") as raised:
        ReplayModel(counted(), strict=strict).compact(summary_request(counted()))
    assert raised.value.index is None


@pytest.mark.parametrize("strict", [True, False])
def test_a_question_that_was_not_recorded_is_a_mismatch_in_both_modes(strict: bool) -> None:
    with pytest.raises(ReplayMismatch, match=r"Which\?") as raised:
        ReplayModel(counted(), strict=strict).respond(question(counted(), "Which?"))
    error = raised.value
    assert (error.index, error.expected, error.actual, error.diff) == (None, None, None, "")


def test_a_mismatch_tells_the_first_message_that_differs() -> None:
    model = ReplayModel(counted())
    model.respond(Request(None, begun().messages))
    recorded, received = counted().messages[:3], counted("13").messages[:3]
    error = mismatch(model, *received)
    assert error.index == 2
    assert error.expected == recorded[2]
    assert error.actual == received[2]
    assert error.diff == "- tool_result count: 12\n+ tool_result count: 13"


def test_a_mismatch_tells_which_request_it_was() -> None:
    model = ReplayModel(counted())
    model.respond(Request(None, begun().messages))
    text = str(mismatch(model, *counted("13").messages[:3]))
    assert "2nd of 2" in text
    assert "turn 2" in text
    assert "messages[2] has other content" in text
    assert "- tool_result count: 12\n+ tool_result count: 13" in text


def test_a_missing_message_has_no_actual_one() -> None:
    error = mismatch(ReplayModel(counted()))
    assert (error.index, error.expected, error.actual) == (0, begun().messages[0], None)
    assert "messages[0] is missing" in str(error)
    assert error.diff == "- role: user\n- text: Count the rows"


def test_an_extra_message_has_no_expected_one() -> None:
    extra = Message.user("Quickly")
    error = mismatch(ReplayModel(counted()), *begun().messages, extra)
    assert (error.index, error.expected, error.actual) == (1, None, extra)
    assert "messages[1] is extra" in str(error)
    assert error.diff == "+ role: user\n+ text: Quickly"


def test_another_role_is_a_mismatch() -> None:
    error = mismatch(ReplayModel(counted()), Message.assistant("Count the rows"))
    assert "messages[0] has the role 'assistant' instead of 'user'\n" in str(error)
    assert error.diff == "- role: user\n+ role: assistant"


def test_another_role_and_other_content_are_both_told() -> None:
    error = mismatch(ReplayModel(counted()), Message.assistant("Count"))
    assert "'user' and other content\n" in str(error)
    assert error.diff == "- role: user\n+ role: assistant\n- text: Count the rows\n+ text: Count"


@pytest.mark.parametrize(
    ("number", "word"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (13, "13th"), (21, "21st")]
)
def test_the_request_is_counted_in_words(number: int, word: str) -> None:
    state, model = begun(), fake(*["hello"] * number)
    for _ in range(number):
        think(model, state)
    replay, again = ReplayModel(state), begun()
    for _ in range(number - 1):
        think(replay, again)
    assert f"{word} of {number} (turn {number})" in str(mismatch(replay))


def test_each_of_several_recordings_answers_its_own_run() -> None:
    model = ReplayModel([counted("12", "12 rows", "Count a"), counted("7", "7 rows", "Count b")])
    assert model.remaining == 4
    states = [begun("Count b"), begun("Count a")]
    for state in states:
        think(model, state)
    for state, result in zip(states, ["7", "12"], strict=True):
        give(state, C1, result)
        think(model, state)
    assert [state.answer for state in states] == ["7 rows", "12 rows"]
    assert model.remaining == 0


def test_recordings_that_begin_alike_are_used_one_after_the_other() -> None:
    model = ReplayModel((counted(), counted()))
    assert [run(model).answer, run(model).answer] == ["12 rows", "12 rows"]


def test_a_request_no_recording_has_is_compared_with_the_first_that_is_not_used_up() -> None:
    model = ReplayModel([counted(text="Count a"), counted(text="Count b"), counted(text="Count c")])
    run(model, text="Count a")
    error = mismatch(model, Message.user("Count d"))
    assert error.expected == Message.user("Count b")
    assert "in recording 2 of 3" in str(error)


def test_one_recording_has_no_number() -> None:
    assert "recording 1" not in str(mismatch(ReplayModel([counted()])))


def test_several_recordings_answer_with_a_warning_too() -> None:
    model = ReplayModel([counted(text="Count a"), counted(text="Count b")], strict=False)
    with pytest.warns(ReplayWarning):
        assert model.respond(Request(None, (Message.user("Count d"),))).tool_calls == (C1,)
    assert model.remaining == 3


def test_nothing_left_in_any_recording_is_a_mismatch() -> None:
    model = ReplayModel([counted(), counted()])
    run(model)
    run(model)
    with pytest.raises(ReplayMismatch, match="request 5 for a reply"):
        run(model)


def test_questions_are_looked_up_in_every_recording() -> None:
    states = [begun(), begun()]
    note_answer(states[0], "Which?", "a")
    note_answer(states[1], "Other?", "b")
    model = ReplayModel(states)
    assert model.respond(question(begun(), "Other?")).text == "b"
    assert model.respond(question(begun(), "Which?")).text == "a"


def test_compactions_go_to_the_recording_with_their_messages() -> None:
    states = [counted(), counted("7", "7 rows")]
    for state, summary in zip(states, ["12 in all", "7 in all"], strict=True):
        note_summary(state, summary)
    assert ReplayModel(states).compact(summary_request(counted("7", "7 rows"))).text == "7 in all"


def test_the_name_comes_from_the_first_recording_that_has_one() -> None:
    assert identity(ReplayModel([State(), counted()])) == "acme/large"


def test_parallel_runs_get_each_answer_once() -> None:
    model = ReplayModel([counted("7", f"{number} rows", f"Count {number}") for number in range(40)])
    with ThreadPoolExecutor(8) as pool:
        states = list(pool.map(lambda number: run(model, "7", f"Count {number}"), range(40)))
    assert [state.answer for state in states] == [f"{number} rows" for number in range(40)]
    assert model.remaining == 0


def test_parallel_questions_get_each_answer_once() -> None:
    state = begun()
    for number in range(100):
        note_answer(state, "Which?", str(number))
    model = ReplayModel(state)
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda _: model.respond(question(state, "Which?")).text, range(100)))
    assert sorted(texts, key=int) == [str(number) for number in range(100)]


def test_a_message_that_changes_after_it_fitted_is_a_mismatch() -> None:
    model = ReplayModel(counted())
    model.respond(Request(None, begun().messages))
    error = mismatch(model, Message.user("Count the columns"), *counted().messages[1:3])
    assert error.index == 0


def test_a_conversation_that_misses_a_recorded_restore_is_a_mismatch() -> None:
    state = begun()
    before, model = state.snapshot(), fake("one", "two", "three")
    think(model, state)
    state.add_message(Message.user("Again"))
    think(model, state)
    sent = state.messages[:3]
    state.restore(before)
    state.add_message(Message.user("Differently"))
    think(model, state)
    replay = ReplayModel(state)
    replay.respond(Request(None, sent[:1]))
    replay.respond(Request(None, sent))
    assert mismatch(replay, *sent).index == 1
