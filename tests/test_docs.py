"""What the documentation shows works: Python blocks run, what they print is what stands behind them, queries answer.

A Python block runs by itself, in a folder of its own; a text block behind it is what it prints. An HTML comment right
before a Python block can say otherwise:

    <!-- continues -->   it goes on where the Python block before it ended
    <!-- fragment -->    it is only part of something, and need only be Python
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sqlite3
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from demo_file import demo_file

import alpineagents
from alpineagents import Agent, Message, State, tool, types
from alpineagents import testing as doubles
from alpineagents.testing import FakeModel

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FRAGMENTS = 3  # so few may stay untested

FENCE = re.compile(
    r"(?:^<!-- *(?P<mark>[a-z]+) *-->\n)?^```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
EXAMPLE = re.compile(r"^Example:\n((?: .*\n|\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    code: str
    mark: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found["language"], found["code"], found["mark"])
        for found in FENCE.finditer(text)
    ]


ALL = [block for page in PAGES for block in blocks(page)]
PYTHON = [block for block in ALL if block.language == "python"]
QUERIES = [block for block in ALL if block.language == "sql" and re.match(r"\s*(SELECT|WITH)\b", block.code)]


def chains() -> Iterator[list[Block]]:
    """Python blocks that run together, each with the text block behind it that shows what it prints."""
    chain: list[Block] = []
    for block in ALL:
        goes_on = block.language == "text" or block.mark == "continues"
        if block.language not in ("python", "text") or block.mark == "fragment":
            continue
        if not goes_on and chain:
            yield chain
            chain = []
        if chain or block.language == "python":
            chain.append(block)
    if chain:
        yield chain


@pytest.mark.parametrize("chain", list(chains()), ids=lambda chain: str(chain[0]))
def test_the_blocks_of_a_page_run_and_print_what_they_say(
    chain: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for block in chain:
        if block.language == "text":
            assert printed == block.code, f"{block} is not what the block before it prints"
            continue
        run(block.code, str(block), names)
        printed = capsys.readouterr().out


def run(code: str, place: str, names: dict[str, Any]) -> None:
    exec(compile(code, place, "exec", dont_inherit=True), names)


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_every_block_is_python(block: Block) -> None:
    ast.parse(block.code)


def test_few_blocks_stay_untested() -> None:
    assert len([block for block in PYTHON if block.mark == "fragment"]) <= FRAGMENTS


def test_every_mark_is_known() -> None:
    assert {block.mark for block in ALL} <= {None, "continues", "fragment"}


@pytest.mark.parametrize("block", QUERIES, ids=str)
def test_a_query_runs_and_that_of_the_readme_has_an_answer(block: Block) -> None:
    connection = sqlite3.connect(f"file:{demo_file()}?mode=ro", uri=True)
    try:
        rows = connection.execute(block.code).fetchall()
    finally:
        connection.close()
    assert rows or block.page.name != "README.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()]
    assert not missing


def test_the_readme_begins_with_the_two_commands() -> None:
    first = blocks(ROOT / "README.md")[0]
    assert first.line < 12
    assert [line.partition("#")[0].strip() for line in first.code.splitlines()] == ["make demo", "make test"]


def modules() -> Iterator[ModuleType]:
    """Those of the library; the examples of the command line are commands."""
    yield alpineagents
    for found in pkgutil.walk_packages(alpineagents.__path__, "alpineagents."):
        if not found.name.startswith(("alpineagents.cli", "alpineagents.__main__")):
            yield importlib.import_module(found.name)


def examples() -> Iterator[Any]:
    """The examples in docstrings, by the name of what they are about."""
    for module in modules():
        for name, documented in vars(module).items():
            if inspect.isclass(documented) and documented.__module__ == module.__name__:
                for member, part in [("", documented), *vars(documented).items()]:
                    yield from examples_of(f"{module.__name__}.{name}{'.' * bool(member)}{member}", part)
            elif inspect.isfunction(documented) and documented.__module__ == module.__name__:
                yield from examples_of(f"{module.__name__}.{name}", documented)


def examples_of(name: str, documented: object) -> Iterator[Any]:
    docstring = documented.__doc__ if inspect.isclass(documented) or inspect.isroutine(documented) else None
    for code in EXAMPLE.findall(inspect.cleandoc(docstring or "") + "\n"):
        yield pytest.param(textwrap.dedent(code), id=name)


def prepared() -> dict[str, Any]:
    """What an example takes for granted: the public names, an agent, and something it has done."""

    @tool
    def read_file(path: str) -> str:
        """Read a file."""
        return f"The content of {path}"

    public = {name: getattr(module, name) for module in (types, doubles, alpineagents) for name in module.__all__}
    model = FakeModel(["The bug is in line 3."] * 3)
    agent = Agent(model, tools=[read_file], reporter=None)
    recorded = State(messages=[Message.user("Find the bug in main.py")])
    agent.run(recorded)
    state = State(messages=[Message.user("Find the bug in main.py")])
    return {**public, "read_file": read_file, "model": model, "agent": agent, "recorded": recorded, "state": state}


@pytest.mark.parametrize("code", list(examples()))
def test_an_example_in_a_docstring_runs(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run(code, "docstring", prepared())


def test_the_example_of_the_package_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _, _, example = (alpineagents.__doc__ or "").partition("\n\n")
    run(textwrap.dedent(example), "alpineagents", prepared())
    assert capsys.readouterr().out.endswith("The bug is in line 3.\n")
