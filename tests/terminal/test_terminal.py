"""Whole runs, runs below runs, and changes of the context as a person sees them."""

from __future__ import annotations

import gc
import threading

import pytest
from seen import DONE, REPLY, SEAL, WAITING, WEIGH, Seen, child, run_start, top, turns

from alpineagents.history.entries import (
    ContextChange,
    ContextChangeKind,
    StopEntry,
)
from alpineagents.human import Human
from alpineagents.reporter import Reporter, check_reporter
from alpineagents.state import State
from alpineagents.terminal import Terminal, default_terminal
from alpineagents.values.content import ToolCall
from alpineagents.values.exchange import ModelEvent
from alpineagents.values.outcomes import (
    ToolOutcome,
    ToolOutcomeKind,
)
from alpineagents.values.usage import Usage


def test_a_terminal_is_a_reporter_and_a_human() -> None:
    terminal = Terminal()
    assert isinstance(terminal, Reporter)
    assert isinstance(terminal, Human)
    check_reporter(terminal)


def test_a_subagent_announces_itself(seen: Seen) -> None:
    seen.terminal.on_run_start(top())
    seen.terminal.on_run_start(child())
    assert seen.text == "    clerk started\n"


@pytest.mark.parametrize("name", [None, ""])
def test_a_subagent_without_a_name_has_its_lines_without_one(seen: Seen, name: str | None) -> None:
    state = child(1, name=name)
    seen.terminal.on_run_start(top())
    seen.terminal.on_run_start(state)
    seen.terminal.on_context_change(state, ContextChange("restore", 10, 5))
    seen.terminal.on_think_start(state)
    seen.terminal.on_run_end(state, None)
    assert seen.text == (
        "    started\n"
        "    [turn 1] thinking\n"
        "      context restored: 10 → 5 tokens\n"
        "    done: (1 turn)\n"
    )  # fmt: skip


def test_a_subagents_lines_are_indented_and_carry_its_name(below: Seen) -> None:
    below.terminal.on_think_start(child(2))
    below.terminal.on_tool_start(child(2), WEIGH)
    below.terminal.on_tool_end(child(2), WEIGH, "2 kg", DONE)
    below.terminal.on_model_event(child(2), ModelEvent("retry", "again"))
    below.terminal.on_run_end(child(2), None)
    assert below.text == (
        "    [clerk turn 2] thinking\n"
        '      tool weigh(parcel="A")\n'
        "      done 4B\n"
        "      model: again\n"
        "    clerk done: (2 turns)\n"
    )


def test_a_subagents_text_is_never_shown(below: Seen) -> None:
    below.terminal.on_text(child(), "psst")
    below.terminal.on_think_end(child(), REPLY)
    assert below.text == ""


def test_each_generation_is_indented_by_four_spaces(below: Seen) -> None:
    grandchild = State(id="grandchild", history=[run_start("scribe", "child"), *turns(1)])
    below.terminal.on_run_start(grandchild)
    below.terminal.on_tool_start(grandchild, WEIGH)
    assert below.text == '        scribe started\n          tool weigh(parcel="A")\n'


def test_a_subagent_whose_parent_reports_elsewhere_is_one_generation_below(seen: Seen) -> None:
    seen.terminal.on_run_start(child())
    assert seen.text == "    clerk started\n"


def test_a_state_that_once_ran_as_a_subagent_is_top_level_in_its_own_run(seen: Seen) -> None:
    again = child(1, run_start("clerk"))
    seen.terminal.on_run_start(again)
    seen.terminal.on_think_start(again)
    seen.terminal.on_text(again, "Hello")
    assert seen.text == "[turn 1] thinking\nHello"


def test_after_its_run_a_subagents_state_is_top_level(below: Seen) -> None:
    below.terminal.on_run_end(child(), None)
    below.terminal.on_run_end(top(), None)
    below.terminal.on_think_start(child())
    assert below.text.endswith("\n[turn 1] thinking\n")


def test_a_fork_of_a_running_subagent_is_shown_like_it(below: Seen) -> None:
    fork = child(id="fork")
    below.terminal.on_think_start(fork)
    below.terminal.on_text(fork, "psst")
    assert below.text == "    [clerk turn 1] thinking\n"


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("compact", "context compacted: 121k → 3k tokens (cache rebuilds)"),
        ("clear_tool_results", "tool results cleared: 121k → 3k tokens"),
        ("restore", "context restored: 121k → 3k tokens"),
        ("import", "context imported: 121k → 3k tokens"),
    ],
)
def test_a_context_change_is_shown_below_the_next_header(seen: Seen, kind: ContextChangeKind, line: str) -> None:
    state = top()
    seen.terminal.on_context_change(state, ContextChange(kind, 120_600, 2_600))
    assert seen.text == ""
    seen.terminal.on_think_start(state)
    assert seen.text == f"[turn 1] thinking\n  {line}\n"


def test_a_context_change_is_shown_once(seen: Seen) -> None:
    state = top()
    seen.terminal.on_context_change(state, ContextChange("restore", 2, 1))
    seen.terminal.on_think_start(state)
    seen.terminal.on_think_start(state)
    assert seen.text.count("restored") == 1


def test_a_context_change_without_another_turn_is_shown_before_the_last_line(seen: Seen) -> None:
    state = top()
    seen.terminal.on_context_change(state, ContextChange("clear_tool_results", 999, 0))
    seen.terminal.on_run_end(state, None)
    assert seen.text == "  tool results cleared: 999 → 0 tokens\ndone: (1 turn)\n"


def test_a_subagents_context_change_carries_its_name(below: Seen) -> None:
    state = child()
    below.terminal.on_context_change(state, ContextChange("compact", 5, 4))
    below.terminal.on_think_start(state)
    assert below.text == ("    [clerk turn 1] thinking\n      clerk context compacted: 5 → 4 tokens (cache rebuilds)\n")


def test_context_changes_of_two_states_do_not_mix(seen: Seen) -> None:
    one, other = State(), State()
    seen.terminal.on_context_change(one, ContextChange("restore", 2, 1))
    seen.terminal.on_think_start(other)
    assert seen.text == "[turn 0] thinking\n"
    seen.terminal.on_think_start(one)
    assert seen.text == "[turn 0] thinking\n[turn 0] thinking\n  context restored: 2 → 1 tokens\n"


def test_a_context_change_of_a_forgotten_state_is_not_kept(seen: Seen) -> None:
    seen.terminal.on_context_change(State(), ContextChange("restore", 2, 1))
    gc.collect()
    assert len(seen.terminal._changes) == 0


def test_a_run_that_ended_is_not_kept(below: Seen) -> None:
    below.terminal.on_run_end(child(), None)
    below.terminal.on_run_end(top(), None)
    assert not below.terminal._runs


def test_a_whole_run_with_a_subagent(seen: Seen) -> None:
    show = seen.terminal
    clerk = ToolCall("clerk", {"prompt": "Weigh A"}, "c3")
    free = Usage(requests=1, cost=0.0)
    show.on_run_start(top(0))
    show.on_think_start(top(1))
    show.on_text(top(1), "Asking the ")
    show.on_text(top(1), "clerk.")
    show.on_think_end(top(1), REPLY)
    show.on_tool_start(top(1), ToolCall("stamp", {}, "c1"))
    show.on_tool_end(top(1), SEAL, "(input error: unknown tool 'stamp')", ToolOutcome(ToolOutcomeKind.INPUT_ERROR))
    show.on_tool_end(top(1), SEAL, "Sealing is for humans", ToolOutcome(ToolOutcomeKind.DENIED))
    show.on_tool_start(top(1), clerk)
    show.on_run_start(child(0))
    show.on_think_start(child(1))
    show.on_text(child(1), "hidden")
    show.on_think_end(child(1), REPLY)
    show.on_tool_start(child(1), WEIGH)
    show.on_tool_end(child(1), WEIGH, "2 kg", DONE)
    show.on_think_start(child(2))
    show.on_think_end(child(2), REPLY)
    show.on_run_end(child(2, StopEntry(content=WAITING, turn=2)), None)
    show.on_tool_end(top(1), clerk, "Parcel A: 2 kg", DONE)
    show.on_think_start(top(2))
    show.on_text(top(2), "Parcel A: 2 kg\n")
    show.on_think_end(top(2), REPLY)
    show.on_run_end(top(2, StopEntry(content=WAITING, turn=2), usage=free), None)
    assert seen.text == (
        "[turn 1] thinking\n"
        "Asking the clerk.\n"
        "  tool stamp()\n"
        "  (input error: unknown tool 'stamp')\n"
        "  denied seal: Sealing is for humans\n"
        '  tool clerk(prompt="Weigh A")\n'
        "    clerk started\n"
        "    [clerk turn 1] thinking\n"
        '      tool weigh(parcel="A")\n'
        "      done 4B\n"
        "    [clerk turn 2] thinking\n"
        "    clerk done: stopped by waiting_for_user (2 turns)\n"
        "  done 14B\n"
        "[turn 2] thinking\n"
        "Parcel A: 2 kg\n"
        "done: stopped by waiting_for_user (2 turns, ~$0.00)\n"
    )


def test_there_is_one_default_terminal() -> None:
    barrier, found = threading.Barrier(8), list[Terminal]()

    def look() -> None:
        barrier.wait()
        found.append(default_terminal())

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
