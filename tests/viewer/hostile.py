"""Runs with hostile texts in every field that a run can have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs import agent, call, started, written

from alpineagents import SqliteStore, State, tool
from alpineagents.permissions import DecideByHuman
from alpineagents.testing import FakeHuman, FakeModel

TEXTS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'-alert(1)-'",
    "</script><svg onload=alert(1)>",
    "[click](javascript:alert(1))",
    "{{ 7 * 7 }}{% raw %}",
    "<!-- ]]> </textarea></title></style>",
    "\u202e\u2066txt.exe\u200b",
    "\x1b]0;title\x07\x1b[2J\x1b[31mred",
]
EVIL = " ".join(TEXTS)
IDS = ("evil", "evil-failed")


def write_hostile(path: Path) -> Path:
    """A file with an answered run and a failed one."""

    @tool
    def look(at: str) -> str:
        """Look."""
        if at == "fail":
            raise RuntimeError(EVIL)
        return EVIL

    def asking(of: Any, state: State) -> Any:
        with state.edit_extra_data() as data:
            data[EVIL] = {EVIL: EVIL}
        yield of, "think", state
        yield of, "use_tools", state
        yield of, "ask", state, EVIL
        yield of, "think", state
        return EVIL

    settings: dict[str, Any] = {"tools": [look], "system": EVIL, "name": EVIL, "description": EVIL}
    with SqliteStore(path) as store:
        replies = [[EVIL, call(EVIL, EVIL, **{EVIL: EVIL}), call("look", "c2", at=EVIL)], EVIL, EVIL]
        made = agent(model=FakeModel(replies, name=EVIL), store=store, **settings)
        made.copy(
            loop=written(lambda target, method, *args: getattr(target, method)(*args), asking),
            human=FakeHuman(["yes"]),
            permissions=[DecideByHuman()],
        ).run(started(EVIL, id=IDS[0]))
        failing = agent(model=FakeModel([call("look", "c1", at="fail")], name=EVIL), store=store, **settings)
        with pytest.raises(RuntimeError):
            failing.run(started(EVIL, id=IDS[1]))
    return path
