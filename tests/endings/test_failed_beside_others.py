"""How a run ended whose tool raised while others were still at work: what raised decides, not what ended last."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from runs import Heard, Step, agent, started, step, wait_for

from alpineagents import SqliteStore


@pytest.mark.parametrize(
    ("error", "status"),
    [(OSError("gone"), "failed"), (KeyboardInterrupt(), "interrupted"), (SystemExit(), "failed")],
)
def test_a_run_whose_tool_raised_before_the_others_ended(tmp_path: Path, error: BaseException, status: str) -> None:
    raised, recorded = threading.Event(), threading.Event()

    def work(call_id: str) -> str:
        if call_id == "c1":
            raised.set()
            raise error
        wait_for(raised)
        wait_for(recorded)
        return call_id

    class Telling(Heard):
        def on_tool_end(self, *told: Any) -> None:
            recorded.set()

    with SqliteStore(tmp_path / "runs.db") as store, pytest.raises(type(error)):
        agent([step("c1"), step("c2")], tools=[Step(work)], store=store, reporter=Telling()).run(started())
    with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
        assert connection.execute("SELECT status, how_ended FROM states JOIN runs ON id = state_id").fetchall() == [
            (status, status)
        ]
