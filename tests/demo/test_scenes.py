from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from demo_file import demo_file

from alpineagents import SqliteStore, State
from alpineagents.demo import models, play
from alpineagents.store import check
from alpineagents.types import ErrorEntry, ToolResultEntry


def rows(query: str) -> list[Any]:
    connection = sqlite3.connect(demo_file())
    found = connection.execute(query).fetchall()
    connection.close()
    return found


def state(agent: str, status: str) -> State:
    """The one run of this kind, as it was left."""
    ((id,),) = rows(f"SELECT id FROM states WHERE agent = '{agent}' AND status = '{status}'")
    return SqliteStore(demo_file()).load(id)


def test_its_runs_end_in_different_ways() -> None:
    runs = "SELECT agent, status FROM states WHERE parent_id IS NULL ORDER BY created_at, forked_at IS NOT NULL"
    assert rows(runs) == [
        ("coder", "finished"),
        ("coder", "answered"),
        ("reproducer", "answered"),
        ("tester", "failed"),
        ("tester", "interrupted"),
        ("lead", "answered"),
    ]


def test_the_first_run_took_the_recorded_path() -> None:
    fixed = state("coder", "finished")
    assert fixed.turn == 11
    assert fixed.answer.startswith("diff --git a/src/marshmallow/fields.py")
    assert "+        return int(round(" in fixed.answer


def test_the_edit_that_failed_then_fails_now() -> None:
    (failed,) = [
        entry
        for entry in state("coder", "finished").history
        if isinstance(entry, ToolResultEntry) and entry.outcome == "error"
    ]
    assert failed.call.name == "edit"
    assert "IndentationError" in str(failed.content)


def test_the_interrupted_run_was_resumed() -> None:
    resumed = state("reproducer", "answered")
    kinds = [entry.kind for entry in resumed.history]
    assert kinds.count("run_start") == 2
    assert [entry.content for entry in resumed.history if isinstance(entry, ErrorEntry)] == ["KeyboardInterrupt"]
    assert resumed.answer == "We are indeed seeing the same output as the issue."


def test_the_failed_run_says_why() -> None:
    errors = [entry.content for entry in state("tester", "failed").history if isinstance(entry, ErrorEntry)]
    assert errors == ["TimeoutError: no output for 30 s: python -m pytest tests"]


def test_one_run_stays_interrupted() -> None:
    left = state("tester", "interrupted")
    assert left.history[-1].kind == "error"
    assert left.answer is None


def test_the_fork_leaves_the_first_run_before_its_failing_edit() -> None:
    ((forked_from, forked_at),) = rows("SELECT forked_from, forked_at FROM states WHERE forked_at IS NOT NULL")
    original, fork = SqliteStore(demo_file()).load(forked_from), state("coder", "answered")
    assert original.history[:forked_at] == fork.history[:forked_at]
    assert fork.history[forked_at].content.startswith("Do not round a float.")
    assert "value // base_unit" in str(fork.messages)
    assert all(not result[0] for result in rows("SELECT is_error FROM tool_calls WHERE state_id = " + repr(fork.id)))


def test_the_lead_had_two_subagents_of_which_one_reached_its_limit() -> None:
    lead = state("lead", "answered")
    names = "SELECT agent, states.status FROM subagent_tree JOIN states ON id = state_id WHERE root_id = '{}' AND depth"
    assert sorted(rows(names.format(lead.id))) == [("reader", "limit"), ("runner", "answered")]
    assert rows(names.format(lead.id) + " > 1") == []


def test_a_person_approved_one_call_and_a_permission_denied_another() -> None:
    runner = f"SELECT id FROM states WHERE agent = 'runner' AND parent_id = '{state('lead', 'answered').id}'"
    asked = rows(f"SELECT question, answer FROM exchanges WHERE state_id = ({runner})")
    assert asked == [('Run bash(command="python reproduce.py")?', "yes")]
    calls = rows(f"SELECT tool, outcome, result FROM tool_calls WHERE state_id = ({runner}) ORDER BY seq")
    assert [(tool, outcome) for tool, outcome, _ in calls] == [("bash", "done"), ("bash", "denied")]
    assert calls[1][2] == "Files stay until the fix is merged."


def test_the_file_is_right_in_itself() -> None:
    assert check(demo_file()) == []


def test_it_adds_to_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs.db"
    for _ in range(2):
        play(path, lambda line: None, pace=0.0)
    assert len(SqliteStore(path).list()) == 16
    assert check(path) == []


def test_at_the_pace_of_a_person_it_takes_well_under_ten_seconds(tmp_path: Path) -> None:
    before = time.monotonic()
    play(tmp_path / "runs.db", lambda line: None, pace=1.0)
    assert 1 < time.monotonic() - before < 10


def test_ctrl_c_of_the_person_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def interrupt(seconds: float) -> None:
        if any("2." in line for line in said):
            raise KeyboardInterrupt

    monkeypatch.setattr(models.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        play(tmp_path / "runs.db", said.append, pace=1.0)
    assert not any("3." in line for line in said)


@pytest.mark.refused_by_providers
def test_a_text_is_heard_word_by_word_and_whole() -> None:
    heard: list[str] = []
    model = models.LiveFakeModel(["  Two words\nand more \n"], pace=0.001)
    reply = model.respond(models.Request(None, ()), heard.append)
    assert len(heard) == 5
    assert "".join(heard) == reply.text
