"""The runs on the page about the terminal are what a person sees, character for character.

`python tests/test_terminal_docs.py` writes them anew after the wording of a line has changed.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from screens import played, visible

PAGE = Path(__file__).parent.parent / "docs" / "terminal.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUNS: dict[str, list[tuple[str, str]]] = {  # in the order of the page, and what is typed behind which text
    "answered": [],
    "in_parallel": [],
    "asked": [("nowhere) ", "test\n"), ("nowhere) ", "staging\n")],
    "interrupted": [('tool run_tests(path="tests")', "\x03")],
    "delegated": [],
    "limited": [],
}


def seen(run: str, columns: int = 80) -> str:
    program = f"from terminal_runs import {run}\n{run}()"
    return visible(played(program, RUNS[run], columns=columns, environment={"NO_COLOR": "1"}))


@pytest.mark.parametrize("run", RUNS)
def test_a_run_on_the_page_is_what_a_person_sees(run: str) -> None:
    shown = BLOCK.findall(PAGE.read_text("utf-8"))
    assert len(shown) == len(RUNS)
    assert seen(run) == shown[list(RUNS).index(run)]


def test_nothing_is_wrapped_in_a_narrow_window() -> None:
    assert seen("in_parallel", columns=20) == seen("in_parallel", columns=40) == seen("in_parallel")


if __name__ == "__main__":
    fresh = iter([f"```console\n{seen(run)}```" for run in RUNS])
    PAGE.write_text(BLOCK.sub(lambda _: next(fresh), PAGE.read_text("utf-8")), "utf-8")
