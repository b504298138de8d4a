"""A process that is killed at any write, sync or removal of a file leaves nothing behind that stands in the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from durability.recording import environment, recorder

# How many moments to go on from kill to kill, and how many kills there are at least.
QUICK = [("creation", 30, 3), ("own_checkpoint", 900, 3)]
WHOLE = [("creation", 1, 100), ("closing_checkpoint", 1, 12), ("own_checkpoint", 9, 300), ("other_checkpoint", 1, 30)]


def kills(tmp_path: Path, work: str, step: int) -> int:
    folder, log = tmp_path / "folder", tmp_path / "log"
    folder.mkdir()
    command = [sys.executable, "-m", "durability.mortals", str(folder), work, str(step)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=environment(recorder(tmp_path), folder, log)
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize(("work", "step", "least"), QUICK)
def test_a_kill_in_the_middle_of_the_files_own_work_loses_nothing(
    tmp_path: Path, work: str, step: int, least: int
) -> None:
    assert kills(tmp_path, work, step) >= least


@pytest.mark.soak
@pytest.mark.parametrize(("work", "step", "least"), WHOLE)
def test_a_kill_at_every_moment_of_the_files_own_work_loses_nothing(
    tmp_path: Path, work: str, step: int, least: int
) -> None:
    number = kills(tmp_path, work, step)
    assert number >= least
    print(f"{work}: {number} kills")
