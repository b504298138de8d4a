"""Agents at work: what their runs show, from threads, from tasks, and when the output cannot show it."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from runs import Step, agent, is_at_rest, started, step

from alpineagents import Agent, Message, Terminal, ToolError
from alpineagents.testing import FakeModel, tool_call

RUNS = 12


def worker(name: str, terminal: Terminal) -> Agent:
    """Says who it is, in a run of two turns."""
    replies = [[f"{name} begins", step(name)], f"{name} is done"]
    return agent(*replies, tools=[Step(lambda _: name)], reporter=terminal)


def lines_of(name: str) -> list[str]:
    return [
        "[turn 1] thinking",
        f"{name} begins",
        f'  tool step(id="{name}")',
        "  done 3B",
        "[turn 2] thinking",
        f"{name} is done",
        "done: stopped by waiting_for_user (2 turns)",
    ]


NAMES = [f"w{number:02}" for number in range(RUNS)]
ALL_LINES = sorted(line for name in NAMES for line in lines_of(name))


def test_one_run_shows_its_lines_in_order(act: Callable[..., Any]) -> None:
    output = io.StringIO()
    act(worker("w00", Terminal(output=output)), "run", started())
    assert output.getvalue().splitlines() == lines_of("w00")


def test_runs_in_many_threads_share_one_terminal_line_by_line() -> None:
    output = io.StringIO()
    terminal = Terminal(output=output)
    agents = [worker(name, terminal) for name in NAMES]
    threads = [threading.Thread(target=each.run, args=("Go",)) for each in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(output.getvalue().splitlines()) == ALL_LINES


def test_runs_in_many_tasks_share_one_terminal_line_by_line() -> None:
    output = io.StringIO()
    terminal = Terminal(output=output)

    async def work() -> None:
        await asyncio.gather(*[worker(name, terminal).arun("Go") for name in NAMES])

    asyncio.run(work())
    assert sorted(output.getvalue().splitlines()) == ALL_LINES


def test_a_given_output_that_fails_ends_the_run_and_leaves_a_state_that_can_run_again(
    act: Callable[..., Any],
) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "no space left")

    state = started()
    full = worker("w00", Terminal(output=Full()))
    with pytest.raises(OSError, match="no space left"):
        act(full, "run", state)
    assert is_at_rest(state)
    act(full.copy(reporter=None), "run", state)
    assert state.answer == "w00 is done"


def test_a_run_is_the_same_whatever_becomes_of_the_standard_output(
    act: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = started()
    gone = io.StringIO()
    gone.close()
    monkeypatch.setattr(sys, "stdout", gone)
    act(worker("w00", Terminal()), "run", state)
    assert state.answer == "w00 is done"


HOSTILE = {
    "escape": "\x1b[2J\x1b[1;1Hdone: all is well",
    "carriage return": "evil\rdone: fine",
    "bell and backspace": "\x07\x08\x08\x08",
    "bidi": "\u202egpj.\u202cexe\u2066x\u2069",
    "zero width": "a\u200bb\u200dc\ufeff",
    "tab": "a\tb",
    "long": "x" * 50_000,
    "emoji": "👩‍👩‍👧 日本",
    "combining": "Z\u0335\u0321\u0322\u031b",
    "half a pair": "\ud83d and \udc9b",
    "nul": "a\x00b",
    "c1": "\x9b2J\x85\x90",
}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252", "latin-1"])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_run_among_hostile_texts_shows_text_and_nothing_else(encoding: str, text: str) -> None:
    def weigh(_: str) -> str:
        raise ToolError(f"no {text}")

    raw = io.BytesIO()
    output = io.TextIOWrapper(raw, encoding, "strict", newline="\n")
    calls = [step("a"), tool_call("odd" + text, **{"key": text})]
    state = started(text)
    agent([f"I say {text}", *calls], f"So {text}", tools=[Step(weigh)], reporter=Terminal(output=output)).run(state)
    written = raw.getvalue().decode(encoding)
    assert not [c for c in written if (c < " " and c not in "\t\n") or "\x7f" <= c < "\xa0" or c in "\u202e\u2066"]
    assert written.count("\n[turn ") == 1
    assert written.endswith("\ndone: stopped by waiting_for_user (2 turns)\n")


def test_a_question_to_the_model_is_shown_like_a_turn(act: Callable[..., Any]) -> None:
    output = io.StringIO()
    asking = agent("Yes, it is.", "Answered.", reporter=Terminal(output=output))
    state = started()
    act(asking, "ask", state, "Is it?")
    assert output.getvalue() == "[turn 0] thinking\nYes, it is.\n"


def test_a_compaction_is_shown_in_the_turn_it_makes_room_for(act: Callable[..., Any]) -> None:
    output = io.StringIO()
    state = started("Go " * 6000)
    one = agent("One.", "Two.", reporter=Terminal(output=output))
    act(one, "run", state)
    state.compact("So far nothing")
    state.add_message(Message.user("And now?"))
    act(one, "run", state)
    header, change, text, end = output.getvalue().splitlines()[-4:]
    assert (header, text) == ("[turn 2] thinking", "Two.")
    assert change.startswith("  context compacted: ")
    assert change.endswith(" tokens (cache rebuilds)")
    assert end == "done: stopped by waiting_for_user (2 turns)"


CLOSED = """
import sys
from alpineagents import Agent
from alpineagents.testing import FakeModel
print(Agent(FakeModel(["Hello"])).run("Hi"), file=sys.stderr)
"""


def test_a_program_started_without_a_standard_output_runs_its_agents() -> None:
    command = ["/bin/sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, CLOSED]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, "Hello\n")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_a_program_with_another_encoding_runs_its_agents(encoding: str) -> None:
    code = "from alpineagents import Agent\nfrom alpineagents.testing import FakeModel\n"
    code += "Agent(FakeModel(['na\\xefve \\u2192 \\U0001f600'])).run('Hi')"
    environment = {"PYTHONIOENCODING": f"{encoding}:strict"}
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, timeout=20, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    text = "naïve → 😀".encode(encoding, "backslashreplace")
    assert text in done.stdout


def test_the_default_agents_of_a_program_share_the_default_terminal() -> None:
    one, two = Agent(FakeModel([])), Agent(FakeModel([]))
    assert one.reporter is two.reporter is one.human
