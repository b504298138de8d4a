from __future__ import annotations

import importlib.util
import json
from importlib import resources
from pathlib import Path
from types import ModuleType

import pytest

from alpineagents.demo.recording import Recording, read_recording
from alpineagents.testing import ReplayModel

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture
def script() -> ModuleType:
    """The script that makes the recording."""
    spec = importlib.util.spec_from_file_location("make_demo_recording", FIXTURES / "make_demo_recording.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def recording() -> Recording:
    return read_recording()


def packaged(name: str) -> str:
    return resources.files("alpineagents.demo").joinpath(name).read_text("utf-8")


def test_the_packaged_recording_is_made_of_the_fixture(script: ModuleType) -> None:
    trajectory = json.loads((FIXTURES / "runs" / "swe-agent-marshmallow.traj").read_text("utf-8"))
    assert packaged("recording.json") == script.text_of(script.recording_of(trajectory))


def test_the_package_says_where_the_recording_comes_from() -> None:
    licence = (FIXTURES / "licenses" / "SWE-agent.txt").read_text("utf-8")
    assert licence.strip() in packaged("PROVENANCE.md")


def test_the_recording_has_every_call_of_the_run(recording: Recording) -> None:
    assert [step.call.name for step in recording.steps] == [
        "create",
        "edit",
        "bash",
        "bash",
        "find_file",
        "open",
        "edit",
        "edit",
        "bash",
        "bash",
        "submit",
    ]
    assert [step.failed for step in recording.steps].index(True) == 6


def test_the_first_message_is_the_issue(recording: Recording) -> None:
    assert recording.task.startswith("TimeDelta serialization precision\n")
    assert "Your terminal session has started" in recording.system


def test_a_replay_model_has_every_reply(recording: Recording) -> None:
    model = ReplayModel(recording.state())
    assert (model.provider, model.name, model.remaining) == ("openai", "gpt-4o", 11)
