"""A history as text."""

from __future__ import annotations

from typing import Any

import pytest
from histories import (
    INTERRUPTED,
    PNG,
    READ,
    ask,
    end_of_run,
    entries,
    fail,
    pending,
    reply,
    request,
    result,
    run_start,
    started,
    stop,
    think,
    waiting,
)

from alpineagents.history.printed import entry_line
from alpineagents.state import State
from alpineagents.types import (
    AgentInfo,
    ContextChange,
    ContextChangeEntry,
    ErrorEntry,
    Exchange,
    ExchangeEntry,
    ExtraDataEntry,
    Message,
    MessageEntry,
    ModelEvent,
    ModelEventEntry,
    ModelReplyEntry,
    ModelRequestEntry,
    Reply,
    RunStartEntry,
    StopEntry,
    StoppedByFinish,
    StoppedByLimit,
    StoppedByPermission,
    StoppedByUntil,
    TextBlock,
    ToolCall,
    ToolOutcomeKind,
    ToolResultEntry,
    Usage,
)

LONG = "word " * 20
SHORT = "word " * 11 + "word…"  # 60 characters
SHORT_40 = "word " * 7 + "word…"


def line(entry: Any) -> str:
    """What stands behind the turn."""
    text = entry_line(entry)
    assert text.startswith("[turn 3] ")
    return text.removeprefix("[turn 3] ")


def reply_line(*blocks: Any) -> str:
    return line(ModelReplyEntry(content=Reply(Message("assistant", blocks), Usage()), turn=3))


def result_line(outcome: str, content: Any, late: bool = False) -> str:
    return line(ToolResultEntry(content=content, call=READ, outcome=ToolOutcomeKind(outcome), late=late, turn=3))


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("user", "Go", "user: Go"),
        ("notice", "[notice] Go", "notice: [notice] Go"),
        ("user", "  a\n\tb\r\n c ", "user: a b c"),
        ("user", LONG, f"user: {SHORT}"),
        ("user", "x" * 60, f"user: {'x' * 60}"),
        ("user", "x" * 61, f"user: {'x' * 59}…"),
        ("user", (TextBlock("a"), PNG, TextBlock("b")), "user: a (image/png) b"),
        ("user", (PNG,), "user: (image/png)"),
        ("user", (TextBlock("a"), TextBlock("b")), "user: ab"),
    ],
)
def test_a_message_is_its_short_text(kind: Any, content: Any, expected: str) -> None:
    assert line(MessageEntry(kind=kind, content=content, turn=3)) == expected


def test_a_request_is_its_model() -> None:
    assert line(ModelRequestEntry(content="acme/large", turn=3)) == "model_request: acme/large"
    assert line(ModelRequestEntry(content=LONG, turn=3)) == f"model_request: {SHORT}"


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ((TextBlock("hi"),), "hi"),
        ((TextBlock("h"), TextBlock("i")), "hi"),
        ((TextBlock("hi"), READ), 'hi; read(path="a.py")'),
        ((READ, ToolCall("list", {}, "c2")), 'read(path="a.py"); list()'),
        ((TextBlock(LONG), ToolCall("read", {"p": LONG}, "c1")), f'{SHORT}; read(p="{LONG[:51]}…'),
        ((TextBlock(" \n"), READ), 'read(path="a.py")'),
        ((TextBlock(" "),), "(empty reply)"),
        ((TextBlock(""),), "(empty reply)"),
        ((), "(empty reply)"),
    ],
)
def test_a_reply_is_its_text_and_its_calls(blocks: Any, expected: str) -> None:
    assert reply_line(*blocks) == f"model_reply: {expected}"


def test_an_event_is_its_kind_and_message() -> None:
    assert line(ModelEventEntry(content=ModelEvent("retry", "in\n2 s"), turn=3)) == "model_event: retry: in 2 s"


@pytest.mark.parametrize(
    ("outcome", "late", "expected"),
    [
        ("done", False, "read: 6B"),
        ("done", True, "read: 6B (late)"),
        ("denied", False, "read (denied): exit 0"),
        ("cancelled", True, "read (late) (cancelled): exit 0"),
        ("error", False, "read (error): exit 0"),
        ("error", True, "read (late) (error): exit 0"),
        ("input_error", False, "read (error): exit 0"),
        ("aborted", False, "read (error): exit 0"),
        ("interrupted", False, "read (error): exit 0"),
    ],
)
def test_a_result_is_its_size_or_what_went_wrong(outcome: str, late: bool, expected: str) -> None:
    assert result_line(outcome, "exit 0", late) == f"tool_result {expected}"


def test_a_result_is_measured_in_bytes_with_its_images() -> None:
    assert result_line("done", "é" * 1024) == "tool_result read: 2.0KB"
    assert result_line("done", (TextBlock("é"), PNG)) == "tool_result read: 10B"
    assert result_line("error", (TextBlock("é"), PNG)) == "tool_result read (error): é (image/png, 8B)"
    assert result_line("error", LONG) == f"tool_result read (error): {SHORT}"


@pytest.mark.parametrize("kind", ["ask", "human"])
def test_an_exchange_is_question_and_answer(kind: Any) -> None:
    answered = ExchangeEntry(kind=kind, content=Exchange(LONG, {"a": [1, LONG]}), turn=3)
    assert line(answered) == f"{kind}: {SHORT_40} → {{'a': [1, '{LONG[:28]}…"
    assert line(ExchangeEntry(kind=kind, content=Exchange("Why?", None), turn=3)) == f"{kind}: Why? → None"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (ContextChange("import", 0, 8, messages=(Message.user("Go"),)), "import: 1 messages"),
        (ContextChange("import", 0, 8, messages=(Message.user("Go"),) * 2), "import: 2 messages"),
        (ContextChange("restore", 9, 8, restored_to=4), "restore: back to 4 history entries"),
        (ContextChange("compact", 909, 34, summary="s"), "compact: 909 → 34 tokens"),
        (ContextChange("clear_tool_results", 9, 8), "clear_tool_results: 9 → 8 tokens"),
    ],
)
def test_a_context_change_says_what_changed(change: ContextChange, expected: str) -> None:
    assert line(ContextChangeEntry(content=change, turn=3)) == f"context_change {expected}"


def test_a_run_is_its_model_and_its_agents_name() -> None:
    assert line(RunStartEntry(content=AgentInfo(model="acme/large"), turn=3)) == "run_start: acme/large"
    named = AgentInfo(name="weather", model="acme/large")
    assert line(RunStartEntry(content=named, turn=3)) == "run_start: acme/large (weather)"


@pytest.mark.parametrize(
    ("stopped", "expected"),
    [
        (StoppedByUntil("done"), "stopped by done"),
        (StoppedByLimit(3), "stopped at limit 3"),
        (StoppedByFinish("x"), "stopped by finish"),
        (StoppedByPermission(READ, "Deny()"), "stopped by permission Deny()"),
        (None, "(cleared)"),
    ],
)
def test_a_stop_is_its_reason(stopped: Any, expected: str) -> None:
    assert line(StopEntry(content=stopped, turn=3)) == f"stop: {expected}"


@pytest.mark.parametrize(
    ("content", "removed", "expected"),
    [
        ({"a": 1, "b": 2}, (), "set a, b"),
        ({}, ("c", "d"), "removed c, d"),
        ({"a": 1}, ("c",), "set a; removed c"),
    ],
)
def test_extra_data_is_its_keys(content: Any, removed: Any, expected: str) -> None:
    assert line(ExtraDataEntry(content=content, removed=removed, turn=3)) == f"extra_data: {expected}"


def test_an_error_is_its_text_and_the_tool_it_is_about() -> None:
    assert line(ErrorEntry(content="TimeoutError: no\nreply", turn=3)) == "error: TimeoutError: no reply"
    assert line(ErrorEntry(content="OSError", call=READ, turn=3)) == "error read: OSError"


def test_an_entry_is_one_line_whatever_the_model_calls_its_tools() -> None:
    call = ToolCall("read\n[turn 9] stop: x\u2028y", {}, "c1")
    entry = ToolResultEntry(content="x", call=call, outcome=ToolOutcomeKind.INPUT_ERROR, turn=3)
    assert line(entry) == "tool_result read [turn 9] stop: x y (error): x"


def test_no_recorded_text_makes_it_raise() -> None:
    state = State(messages=[Message.user("\ud800")], extra_data={"\ud800": 10**4299})
    state.add_message(Message.user("\ud800\x00"))
    run_start(state, name="\udcff")
    think(state, "\ud800", ToolCall("\ud800", {"\ud800": ["\udcff", 10**4299]}, "c1"))
    result(state, state.pending_calls[0], "\ud800")
    ask(state, "\ud800", {"\ud800": 10**4299})
    state.finish({"\ud800": 1})
    assert len(str(state).splitlines()) == len(state.history) + 1


# The last line


@pytest.mark.parametrize(("turns", "expected"), [(0, "(0 turns)"), (1, "(1 turn)"), (2, "(2 turns)")])
def test_the_last_line_says_how_it_ended(turns: int, expected: str) -> None:
    state = started()
    for _ in range(turns):
        think(state, "hi")
    assert not str(state).splitlines()[-1].startswith("done")
    stop(state, StoppedByLimit(2))
    assert str(state).splitlines()[-1] == f"done: stopped at limit 2 {expected}"
    assert not str(state).endswith("\n")


def test_a_finished_state_whose_reason_was_withdrawn_is_done_all_the_same() -> None:
    state = started()
    state.finish()
    stop(state, None)
    assert str(state).splitlines()[-2:] == ["[turn 0] stop: (cleared)", "done: stopped by finish (0 turns)"]


# The worked examples


def test_two_calls_with_a_message_at_each_stage() -> None:
    oslo, rome = (ToolCall("get_temp", {"city": city}, id) for city, id in (("Oslo", "t1"), ("Rome", "t2")))
    state = started("Compare Oslo and Rome")
    run_start(state, name="weather")
    request(state)
    state.add_message(Message.user("in Celsius please"))
    reply(state, "Checking.", oslo, rome)
    state.add_message(Message.notice("station 7 is offline"))
    result(state, rome, "19")
    result(state, oslo, "-3")
    think(state, "Rome is warmer.")
    stop(state, StoppedByUntil("waiting_for_user"))
    assert (
        str(state)
        == """\
[turn 0] context_change import: 1 messages
[turn 0] run_start: acme/large (weather)
[turn 1] model_request: acme/large
[turn 1] user: in Celsius please
[turn 1] model_reply: Checking.; get_temp(city="Oslo"); get_temp(city="Rome")
[turn 1] notice: [notice] station 7 is offline
[turn 1] tool_result get_temp: 2B
[turn 1] tool_result get_temp: 2B
[turn 2] model_request: acme/large
[turn 2] model_reply: Rome is warmer.
[turn 2] stop: stopped by waiting_for_user
done: stopped by waiting_for_user (2 turns)"""
    )


def test_a_failed_request_then_a_good_one() -> None:
    state = started("Plan a trip")
    request(state)
    state.add_message(Message.user("by train"))
    fail(state, TimeoutError("no reply"))
    think(state, "By train, then.")
    assert (
        str(state)
        == """\
[turn 0] context_change import: 1 messages
[turn 1] model_request: acme/large
[turn 1] user: by train
[turn 1] error: TimeoutError: no reply
[turn 1] model_request: acme/large
[turn 1] model_reply: By train, then."""
    )


def test_an_interrupt_then_a_late_result() -> None:
    make, interrupt = ToolCall("make", {"target": "all"}, "m1"), KeyboardInterrupt()
    state = pending(make)
    fail(state, interrupt)
    end_of_run(state, interrupt)
    result(state, make, "exit 0", late=True)
    assert str(state).splitlines()[3:] == [
        "[turn 1] error: KeyboardInterrupt",
        "[turn 1] tool_result make (error): (interrupted by user)",
        "[turn 1] tool_result make: 6B (late)",
    ]


def test_a_permission_stops_the_turn() -> None:
    calls = (ToolCall("ls", {}, "k1"), ToolCall("rm", {"path": "/"}, "k2"), ToolCall("df", {}, "k3"))
    denied, cancelled = ToolOutcomeKind.DENIED, ToolOutcomeKind.CANCELLED
    text = "(not run: the user stopped this turn)"
    state = pending(*calls)
    made = [(calls[1], "not on this disk", denied), (calls[0], text, cancelled), (calls[2], text, cancelled)]
    group = [ToolResultEntry(content=text, call=call, outcome=outcome, turn=1) for call, text, outcome in made]
    entries(state, *group, StopEntry(content=StoppedByPermission(calls[1], "DenyRm()"), turn=1))
    assert str(state).splitlines()[3:] == [
        "[turn 1] tool_result rm (denied): not on this disk",
        "[turn 1] tool_result ls (cancelled): (not run: the user stopped this turn)",
        "[turn 1] tool_result df (cancelled): (not run: the user stopped this turn)",
        "[turn 1] stop: stopped by permission DenyRm()",
        "done: stopped by permission DenyRm() (1 turn)",
    ]
    blocks: Any = state.messages[-1].content
    assert [(block.call_id, block.is_error) for block in blocks] == [("k1", True), ("k2", True), ("k3", True)]


def test_going_back_shows_where_to() -> None:
    state = started("Count")
    before = state.snapshot()
    think(state, "one")
    state.restore(before)
    assert str(state).splitlines()[-1] == "[turn 1] context_change restore: back to 1 history entries"


def test_a_result_of_an_interrupted_call_says_so() -> None:
    state = waiting()
    reply(state, READ)
    result(state, READ, "(interrupted by user)", INTERRUPTED)
    assert str(state).splitlines()[-1] == "[turn 1] tool_result read (error): (interrupted by user)"


def test_what_could_rewrite_the_screen_is_escaped() -> None:
    state = State(messages=[Message.user("Go")])
    with state.edit_extra_data() as data:
        data["\x1b[2Jgone\u202e"] = 1
    state.finish()
    assert str(state).splitlines()[1] == "[turn 0] extra_data: set \\x1b[2Jgone\\u202e"
