"""The lines of a run, byte for byte, and what hostile text looks like in them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seen import PNG, SEAL, WAITING, WEIGH, Seen, child, top

from alpineagents.history.entries import (
    StopEntry,
)
from alpineagents.state import State
from alpineagents.terminal import Terminal
from alpineagents.terminal.text import RunLines, first_line, on_one_line, shown, token_count
from alpineagents.values.content import TextBlock, ToolCall, ToolResultContent
from alpineagents.values.exchange import ModelEvent
from alpineagents.values.outcomes import (
    Stopped,
    StoppedByFinish,
    StoppedByLimit,
    StoppedByPermission,
    ToolOutcome,
    ToolOutcomeKind,
)
from alpineagents.values.usage import Usage


def test_the_start_of_a_top_level_run_is_not_shown(seen: Seen) -> None:
    seen.terminal.on_run_start(top())
    assert seen.text == ""


def test_a_turn_has_a_header_without_the_name_of_the_agent(seen: Seen) -> None:
    seen.terminal.on_run_start(top())
    seen.terminal.on_think_start(top(3))
    assert seen.text == "[turn 3] thinking\n"


def test_a_question_to_the_model_before_the_first_turn_is_turn_0(seen: Seen) -> None:
    seen.terminal.on_think_start(State())
    assert seen.text == "[turn 0] thinking\n"


def test_a_tool_line_shows_the_call_as_code(seen: Seen) -> None:
    seen.terminal.on_tool_start(top(), WEIGH)
    assert seen.text == '  tool weigh(parcel="A")\n'


@pytest.mark.parametrize(
    ("kind", "result", "line"),
    [
        (ToolOutcomeKind.DONE, "2 kg", "done 4B"),
        (ToolOutcomeKind.DONE, "(aborted: nothing to do)", "done 24B"),
        (ToolOutcomeKind.DONE, "", "done 0B"),
        (ToolOutcomeKind.DONE, "é" * 512, "done 1.0KB"),
        (ToolOutcomeKind.DONE, "x" * 1023, "done 1023B"),
        (ToolOutcomeKind.DONE, "x" * 1024**2 * 3, "done 3.0MB"),
        (ToolOutcomeKind.DONE, (PNG,), "done 1.0KB (1 image)"),
        (ToolOutcomeKind.DONE, (TextBlock("two"), PNG, PNG), "done 2.0KB (2 images)"),
        (ToolOutcomeKind.DONE, (TextBlock("none"),), "done 4B"),
        (ToolOutcomeKind.ERROR, "no such parcel\nask again", "error weigh: no such parcel"),
        (ToolOutcomeKind.ERROR, " \n ", "error weigh: "),
        (ToolOutcomeKind.INPUT_ERROR, "(input error: no\nsuch tool)", "(input error: no\nsuch tool)"),
        (ToolOutcomeKind.ABORTED, "(aborted: OSError)", "aborted weigh: (aborted: OSError)"),
        (ToolOutcomeKind.INTERRUPTED, "(interrupted by user)", "aborted weigh: (interrupted by user)"),
        (ToolOutcomeKind.DENIED, "Weighing is\nfor humans", "denied weigh: Weighing is\nfor humans"),
        (ToolOutcomeKind.CANCELLED, "(not run)", "cancelled weigh: (not run)"),
    ],
)
def test_the_end_of_a_call(seen: Seen, kind: ToolOutcomeKind, result: ToolResultContent, line: str) -> None:
    assert seen.end_of_call(kind, result) == f"  {line}\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("\n\n  boom  \nmore", "boom"),
        ("boom\r\nmore", "boom"),
        ("x" * 100, "x" * 100),
        ("x" * 101, "x" * 99 + "…"),
        ("\x1b" * 30, "\\x1b" * 24 + "\\x1…"),
    ],
)
def test_an_error_is_shown_by_its_first_line(text: str, line: str) -> None:
    assert first_line(text) == line


def test_a_model_event_is_a_line(seen: Seen) -> None:
    seen.terminal.on_model_event(top(), ModelEvent("retry", "rate limited, again in 2s"))
    assert seen.text == "  model: rate limited, again in 2s\n"


@pytest.mark.parametrize(
    ("tokens", "text"),
    [(0, "0"), (999, "999"), (1000, "1k"), (1500, "2k"), (2500, "2k"), (121_400, "121k"), (1_200_000, "1200k")],
)
def test_tokens_are_counted_in_thousands(tokens: int, text: str) -> None:
    assert token_count(tokens) == text


@pytest.mark.parametrize(
    ("stopped", "line"),
    [
        (None, "done: (1 turn)"),
        (WAITING, "done: stopped by waiting_for_user (1 turn)"),
        (StoppedByFinish("42"), "done: stopped by finish (1 turn)"),
        (StoppedByPermission(SEAL, "DecideByHuman()"), "done: stopped by permission DecideByHuman() (1 turn)"),
        (StoppedByLimit(30), "done: reached limit(30), the task may be unfinished (1 turn)"),
    ],
)
def test_the_last_line_says_why_the_run_stopped(seen: Seen, stopped: Stopped | None, line: str) -> None:
    assert seen.end_of_run(top(1, StopEntry(content=stopped, turn=1))) == f"{line}\n"


@pytest.mark.parametrize(("turn", "text"), [(0, "0 turns"), (1, "1 turn"), (2, "2 turns")])
def test_the_last_line_counts_turns(seen: Seen, turn: int, text: str) -> None:
    assert seen.end_of_run(top(turn)) == f"done: ({text})\n"


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (Usage(requests=1), "1 turn"),
        (Usage(requests=1, cost=0.0), "1 turn, ~$0.00"),
        (Usage(requests=1, cost=1.239), "1 turn, ~$1.24"),
        (Usage(requests=1, input_tokens=100), "1 turn"),
        (Usage(requests=1, input_tokens=999, cache_read_tokens=1), "1 turn"),
        (Usage(requests=1, input_tokens=1, cache_read_tokens=2), "1 turn, cache hit 67%"),
        (Usage(requests=1, cache_read_tokens=2, cost=0.5), "1 turn, ~$0.50, cache hit 100%"),
    ],
)
def test_the_last_line_sums_up_what_was_spent(seen: Seen, usage: Usage, text: str) -> None:
    assert seen.end_of_run(top(1, usage=usage)) == f"done: ({text})\n"


def test_a_limit_and_an_error_leave_out_what_was_spent(seen: Seen) -> None:
    spent = Usage(requests=1, cost=1.0)
    seen.end_of_run(top(1, StopEntry(content=StoppedByLimit(1), turn=1), usage=spent))
    seen.end_of_run(top(1, usage=spent), ValueError("no"))
    assert (
        seen.text
        == "done: reached limit(1), the task may be unfinished (1 turn)\ndone: error ValueError: no (1 turn)\n"
    )


class Impatient(KeyboardInterrupt):
    pass


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (KeyboardInterrupt(), "done: interrupted by user (1 turn)"),
        (Impatient(), "done: interrupted by user (1 turn)"),
        (asyncio.CancelledError(), "done: interrupted by user (1 turn)"),
        (OSError("scale offline"), "done: error OSError: scale offline (1 turn)"),
        (ValueError(), "done: error ValueError:  (1 turn)"),
        (ValueError("one\ntwo "), "done: error ValueError: one\ntwo  (1 turn)"),
        (SystemExit(3), "done: error SystemExit: 3 (1 turn)"),
    ],
)
def test_the_last_line_says_what_ended_the_run(seen: Seen, error: BaseException, line: str) -> None:
    assert seen.end_of_run(top(), error) == f"{line}\n"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("\x9b2J\x7f\x00\x08", r"\x9b2J\x7f\x00\x08"),
        ("100%\rdone 5B", r"100%\rdone 5B"),
        ("ends in\r", r"ends in\r"),
        ("a\x0bb\x0cc\x85d", r"a\x0bb\x0cc\x85d"),
        ("\u202egnp.exe\u202c \u2066x\u2069", r"\u202egnp.exe\u202c \u2066x\u2069"),
        ("one\r\n\ttwo\n", "one\r\n\ttwo\n"),
        ("naïve → 日本 🏳\ufe0f\u200d🌈 \u200fשמח", "naïve → 日本 🏳\ufe0f\u200d🌈 \u200fשמח"),
        (r"C:\x1b", r"C:\x1b"),
    ],
)
def test_what_could_rewrite_the_screen_is_shown_as_an_escape(text: str, safe: str) -> None:
    assert shown(text) == safe


@given(st.text())
def test_showing_text_twice_changes_nothing_more(text: str) -> None:
    assert shown(shown(text)) == shown(text)


EVIL = "\x1b[2J"


EVIL_CALL = ToolCall(EVIL, {EVIL: "\u202e"}, "c1")


@pytest.mark.parametrize(
    "event",
    [
        lambda show: show.on_text(top(), EVIL),
        lambda show: show.on_run_start(child(0, name=EVIL)),
        lambda show: show.on_tool_start(top(), EVIL_CALL),
        lambda show: show.on_tool_end(top(), EVIL_CALL, EVIL, ToolOutcome(ToolOutcomeKind.ERROR)),
        lambda show: show.on_tool_end(top(), EVIL_CALL, EVIL, ToolOutcome(ToolOutcomeKind.DENIED)),
        lambda show: show.on_model_event(top(), ModelEvent("retry", EVIL)),
        lambda show: show.on_run_end(top(), ValueError(EVIL)),
    ],
)
def test_no_event_writes_control_characters(seen: Seen, event: Callable[[Terminal], None]) -> None:
    event(seen.terminal)
    assert r"\x1b[2J" in seen.text
    assert not {"\x1b", "\u202e"} & set(seen.text)


def test_a_call_with_line_breaks_in_its_name_stays_on_one_line() -> None:
    forged = ToolCall("f()\n  done 9B\nAll is well.", {}, "c")
    assert RunLines().tool_started(forged).text == "  tool f()\\n  done 9B\\nAll is well.()"
    ended = RunLines().tool_ended(forged, "no", ToolOutcome(ToolOutcomeKind.ERROR))
    assert "\n" not in ended.text


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize("name", ["{}", "f{}", "{}f", "f{}{}"])
def test_no_line_break_of_a_name_is_left_in_a_line(name: str, line_break: str) -> None:
    call = ToolCall(name.format(line_break, line_break), {}, "c")
    lines = [RunLines().tool_started(call), RunLines(1, call.name).started(), RunLines(1, call.name).thinking(1)]
    lines += [RunLines().tool_ended(call, "no", ToolOutcome(kind)) for kind in ToolOutcomeKind]
    assert [line.text.splitlines() for line in lines] == [[line.text] for line in lines]


@pytest.mark.parametrize("text", ["", "f", "read_file", "日本 naïve", "a\tb", r"a\nb"])
def test_a_name_without_line_breaks_is_unchanged(text: str) -> None:
    assert on_one_line(text) == text


EVENTS_WITH_TEXT: list[Callable[[Terminal, str], None]] = [
    lambda show, text: show.on_text(top(), text),
    lambda show, text: show.on_run_start(child(0, name=text)),
    lambda show, text: show.on_tool_start(top(), ToolCall(text or "f", {text: text}, "c")),
    *[
        lambda show, text, kind=kind: show.on_tool_end(top(), ToolCall(text or "f", {}, "c"), text, ToolOutcome(kind))
        for kind in ToolOutcomeKind
    ],
    lambda show, text: show.on_model_event(top(), ModelEvent("retry", text or "again")),
    lambda show, text: show.on_run_end(top(), ValueError(text)),
]


@given(st.text(st.characters(exclude_categories=())))
def test_no_event_writes_what_could_rewrite_the_screen(text: str) -> None:
    for event in EVENTS_WITH_TEXT:
        seen = Seen()
        event(seen.terminal, text)
        assert shown(seen.text) == seen.text
        seen.text.encode("utf-8")
