from __future__ import annotations

import pytest

from alpineagents import State, ToolError
from alpineagents.demo.recording import Step, read_recording
from alpineagents.demo.repository import Repository

STEPS = read_recording().steps


def ran(repository: Repository, step: Step) -> object:
    tool = {"bash": repository.bash, "create": repository.create, "edit": repository.edit}[step.call.name]
    return tool.run(step.call.args, State())


def test_a_call_gets_what_was_recorded() -> None:
    assert ran(Repository(STEPS, 0), STEPS[0]) == STEPS[0].result


def test_the_same_call_again_gets_the_next_result() -> None:
    repository = Repository(STEPS, 0)
    assert str(ran(repository, STEPS[2])).startswith("344\n")
    assert str(ran(repository, STEPS[2])).startswith("345\n")


def test_what_the_editor_refused_is_a_tool_error() -> None:
    with pytest.raises(ToolError, match="Your proposed edit has introduced new syntax error"):
        ran(Repository(STEPS, 0), STEPS[6])


def test_a_call_that_was_not_recorded_is_a_tool_error() -> None:
    with pytest.raises(ToolError, match="not in the recording"):
        Repository(STEPS, 0).bash.run({"command": "rm -rf /"}, State())


def test_a_fault_comes_once() -> None:
    repository = Repository(STEPS, 0, {"python reproduce.py": TimeoutError("too long")})
    with pytest.raises(TimeoutError, match="too long"):
        ran(repository, STEPS[2])
    assert str(ran(repository, STEPS[2])).startswith("344\n")


def test_submitting_finishes_the_state_with_the_patch() -> None:
    state = State()
    Repository(STEPS, 0).submit.run({}, state)
    assert state.answer.startswith("diff --git")
    assert state.answer.endswith("try:")
