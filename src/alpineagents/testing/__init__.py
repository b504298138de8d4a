"""What a test needs to run an Agent without a network, a key or a person, and to run a recorded conversation again."""

from __future__ import annotations

from alpineagents.testing.fake_human import FakeHuman
from alpineagents.testing.fake_model import FakeModel, tool_call
from alpineagents.testing.replay_diff import ReplayMismatch, ReplayWarning
from alpineagents.testing.replay_model import ReplayModel

__all__ = ["FakeHuman", "FakeModel", "ReplayMismatch", "ReplayModel", "ReplayWarning", "tool_call"]
