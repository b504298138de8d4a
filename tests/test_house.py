"""The house rules that a machine can check: who may import whom, what is private, what the engine may await.

A rule is a function from one parsed module to the places that break it. The same functions run on src/ and viewer/ and
on small samples that are wrong on purpose, so that a rule that stopped working fails too.
"""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIBRARY, VIEWER = "alpineagents", "datasette_alpineagents"

PORTS = {"store", "models", "tools", "permissions", "reporter", "human", "terminal", "mcp", "scope"}
LAYERS: list[set[str]] = [  # a module imports from its own layer and from those before it
    {"errors", "values", "waiting"},
    {"history"},
    {"children", "journal", "state"},
    PORTS,
    {"importing"},
    {"engine"},
    {"loops", "blocks"},
    {"toolbox"},
    {"agent", "agent_checks"},
    {"cli", "demo", "testing", "types", "__init__", "__main__"},
]
RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}
PORTS_IT_JOINS = {  # is both of them; names all; asks a person
    "terminal": {"reporter", "human"},
    "scope": {"reporter", "human", "permissions"},
    "permissions": {"human"},
}
TYPES_REEXPORTS = {"values", "history"}
VIEWER_READS = {"errors", "values", "history", "store"}
VIEWER_SHARES = {"export", "search"}  # with the command line

HEAVY = {"anthropic", "click", "datasette", "httpx", "httpx2", "mcp", "pydantic", "pydantic_core", "sqlite_utils"}
HEAVY_MODULES = {"importlib.metadata", "email.utils"}  # of the standard library: 20 and 5 ms
AT_HOME = {("click", "cli"), ("datasette", VIEWER)}  # loaded by whoever already pays for it
PURE = {"asyncio", "os", "pathlib", "random", "secrets", "socket", "sqlite3", "subprocess", "time", "uuid"}
BARRED = {"history": PURE, "engine": {"random", "time"}}
THE_CLOCK = f"{LIBRARY}.history.clock"

LINES = 600
NAMED_TUPLE = {"_asdict", "_fields", "_make", "_replace"}  # public in spite of their names


@dataclass(frozen=True)
class Module:
    path: str
    source: str

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source, self.path)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Its dotted name in parts, without the folder it is built from and without `__init__`."""
        parts = Path(self.path).with_suffix("").parts[1:]
        return parts[:-1] if parts[-1] == "__init__" else parts

    @property
    def part(self) -> str:
        """What the layers call it: the first name inside the library."""
        return VIEWER if self.names[0] == VIEWER else (*self.names, "__init__")[1]

    def at(self, node: ast.AST, problem: str) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {problem}"

    @functools.cached_property
    def imports(self) -> list[Import]:
        late, for_types = set[ast.AST](), set[ast.AST]()
        for node in ast.walk(self.tree):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    late.update(ast.walk(node))
                case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), body=body):
                    for_types.update(inner for statement in body for inner in ast.walk(statement))
                case _:
                    pass
        return [
            Import(node, name, node in late, node in for_types)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in self._imported(node)
        ]

    def _imported(self, node: ast.Import | ast.ImportFrom) -> list[str]:
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        package = self.names if self.path.endswith("__init__.py") else self.names[:-1]
        base = [*package[: len(package) - node.level + 1]] if node.level else []
        base += node.module.split(".") if node.module else []
        return [".".join([*base, alias.name]) for alias in node.names]


@dataclass(frozen=True)
class Import:
    node: ast.Import | ast.ImportFrom
    name: str  # absolute, down to what is imported: `alpineagents.errors.explain`
    late: bool  # inside a function
    for_types: bool  # under `if TYPE_CHECKING`

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]

    @property
    def path(self) -> tuple[str, ...]:
        """The name inside the library; what the package itself exports belongs to `__init__`."""
        parts = tuple(self.name.split("."))[1:]
        return parts if parts and parts[0] in RANK else ("__init__", *parts)


def layers(module: Module) -> Iterator[str]:
    """Imports go leftwards; between ports only to a base or to scope."""
    if module.part != VIEWER and module.part not in RANK:
        yield module.at(module.tree, f"{module.part} is in no layer: give it its place in LAYERS")
        return
    for found in module.imports:
        if found.package == VIEWER and module.part != VIEWER:
            yield module.at(found.node, "the library knows nothing of the viewer")
        elif found.package == LIBRARY and not may_import(module.part, found.path):
            yield module.at(found.node, f"{module.part} may not import {found.name}")


def may_import(part: str, path: tuple[str, ...]) -> bool:
    target = path[0]
    if part == VIEWER:
        return target in VIEWER_READS or bool(VIEWER_SHARES & set(path))
    if part == "types":
        return target in TYPES_REEXPORTS
    if part in PORTS and target in PORTS - {part}:
        return target == "scope" or path[1:2] == ("base",) or target in PORTS_IT_JOINS.get(part, ())
    return RANK[target] <= RANK[part]


def places(module: Module) -> Iterator[str]:
    """A heavy package is imported in a function, at first use; everything else at the top of the file."""
    for found in module.imports:
        heavy = is_heavy(found) and (found.package, module.part) not in AT_HOME
        if heavy and not found.late and not found.for_types:
            yield module.at(found.node, f"import {found.package} inside the one function that needs it")
        if found.late and not is_heavy(found):
            yield module.at(found.node, f"import {found.name} at the top of the file")


def is_heavy(found: Import) -> bool:
    return found.package in HEAVY or any(f"{found.name}.".startswith(f"{name}.") for name in HEAVY_MODULES)


def purity(module: Module) -> Iterator[str]:
    """History has no clock, no I/O and no randomness; the engine reads no clock."""
    for found in module.imports:
        if found.package in BARRED.get(module.part, ()) and ".".join(module.names) != THE_CLOCK:
            yield module.at(found.node, f"{module.part} does without {found.package}")


def privacy(module: Module) -> Iterator[str]:
    """A `_name` is used in no file but the one that defines it."""
    own = set(defined(module.tree)) | NAMED_TUPLE
    for found in module.imports:
        if any(is_private(name) for name in found.name.split(".")[1:]):
            yield module.at(found.node, f"{found.name} is private to another file")
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            yield module.at(node, f"{ast.unparse(node)} is private to another file")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("_")


def defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield name
            case ast.Call(
                args=[ast.Name(id="self"), ast.Constant(value=str(name)), *_]
            ):  # object.__setattr__ and its like
                yield name
            case ast.Assign(targets=[ast.Name(id="__slots__")], value=value):
                yield from (part.value for part in ast.walk(value) if isinstance(part, ast.Constant))
            case _:
                pass


def awaits(module: Module) -> Iterator[str]:
    """In the engine nothing is awaited but `wait(...)` and other steps."""
    if module.part != "engine":
        return
    steps = {node.name for node in ast.walk(module.tree) if isinstance(node, ast.AsyncFunctionDef)}
    steps |= {found.name.split(".")[-1] for found in module.imports if found.name.startswith(f"{LIBRARY}.engine.")}
    for node in outside(halves(module.tree), module.tree):
        if isinstance(node, ast.Await) and not is_step(node.value, steps):
            yield module.at(node, f"`{ast.unparse(node)}`: await only wait(...) and steps")
        elif isinstance(node, ast.AsyncFor | ast.AsyncWith) or (isinstance(node, ast.comprehension) and node.is_async):
            yield module.at(getattr(node, "target", node), "`async for` and `async with` await without wait(...)")


def halves(tree: ast.Module) -> set[str]:
    """The functions that a `wait` chooses from, by name: what waits for the outside world in their place.

    Those handed to `wait(...)` here, and of each pair of methods, `next` and `anext`, the async one.
    """
    handed = {
        ast.unparse(half).split(".")[-1]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and is_wait(node.func)
        for half in node.args[:2]
    }
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return handed | {f"a{name}" for name in defined}


def outside(names: set[str], node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those inside the functions of these names, and coroutines that a plain function runs itself."""
    yield node
    for child in ast.iter_child_nodes(node):
        driven = isinstance(node, ast.FunctionDef) and isinstance(child, ast.AsyncFunctionDef)
        if not driven and not (isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name in names):
            yield from outside(names, child)


def is_step(awaited: ast.expr, steps: set[str]) -> bool:
    match awaited:
        case ast.Call(func=called) if is_wait(called):
            return True
        case ast.Call(args=[first, *_]) if is_wait(first):  # only steps are given `wait`
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(value=ast.Name(), attr=name)):
            return name in steps
        case _:
            return False


def is_wait(node: ast.expr) -> bool:
    return ast.unparse(node) in ("wait", "self.wait", "self._wait", "awaiting")


def size(module: Module) -> Iterator[str]:
    """A module that long holds two things."""
    if (lines := len(module.source.splitlines())) > LINES:
        yield f"{module.path}: {lines} lines, at most {LINES}: find the cut"


def docstrings(module: Module) -> Iterator[str]:
    """A file says first why it exists."""
    if ast.get_docstring(module.tree) is None and (module.tree.body or not module.path.endswith("__init__.py")):
        yield module.at(module.tree, "the file has no docstring")


RULES = [layers, places, purity, privacy, awaits, size, docstrings]


def house() -> list[Module]:
    paths = [path for folder in ("src", "viewer") for path in sorted((ROOT / folder).rglob("*.py"))]
    return [Module(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_module_keeps_the_rule(rule: Callable[[Module], Iterator[str]]) -> None:
    problems = [problem for module in house() for problem in rule(module)]
    assert not problems, "\n".join([str(rule.__doc__), *problems])


def test_the_house_is_not_empty() -> None:
    assert {"alpineagents", "datasette_alpineagents"} <= {module.names[0] for module in house()}


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import alpineagents, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "alpineagents" in loaded
    assert not HEAVY & set(loaded)


def test_the_changelog_knows_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines() if line.startswith("## ")]
    assert version in headings[0]


@pytest.mark.parametrize("address", [("192.0.2.1", 9), ("2001:db8::1", 9, 0, 0), ("provider.example", 443)])
def test_no_test_reaches_the_network(address: tuple[object, ...]) -> None:
    with pytest.raises(pytest.fail.Exception, match="blocked"):
        sys.audit("socket.connect", None, address)  # what a socket says before it connects; nothing is sent


@pytest.mark.parametrize("address", [("127.0.0.1", 9), ("::1", 9, 0, 0), ("localhost", 9), "/run/some.socket"])
def test_a_test_may_talk_to_its_own_machine(address: object) -> None:
    sys.audit("socket.connect", None, address)


def sample(path: str, code: str) -> Module:
    folder = "viewer" if path.startswith(VIEWER) else f"src/{LIBRARY}"
    return Module(f"{folder}/{path}", f'"""Sample."""\n{code}\n')


WRONG = [
    (layers, "values/content.py", "from alpineagents.history.entries import UserEntry"),
    (layers, "values/content.py", "from ..history import entries"),
    (layers, "values/content.py", "from .. import history"),
    (layers, "history/replay.py", "import alpineagents.journal"),
    (layers, "state.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .agent import Agent"),
    (layers, "state.py", "def save(self):\n    from .store.base import Store"),
    (layers, "errors.py", "from alpineagents import State"),
    (layers, "loops.py", "import alpineagents"),
    (layers, "tools/base.py", "from alpineagents.engine.think import think"),
    (layers, "tools/function.py", "from alpineagents.models.resolve import model"),
    (layers, "tools/function.py", "from alpineagents.models import Model"),
    (layers, "permissions/ask.py", "from ..reporter import Reporter"),
    (layers, "human.py", "from .terminal import Terminal"),
    (layers, "engine/run.py", "from alpineagents.loops import loop"),
    (layers, "agent.py", "from alpineagents.testing import FakeModel"),
    (layers, "types.py", "from alpineagents.errors import ToolError"),
    (layers, "utils.py", ""),
    (layers, "cli/view.py", "import datasette_alpineagents"),
    (layers, "datasette_alpineagents/routes.py", "from alpineagents import Agent"),
    (layers, "datasette_alpineagents/routes.py", "from alpineagents.engine import run"),
    (places, "store/sqlite.py", "import sqlite_utils"),
    (places, "models/openai/model.py", "from httpx import Client"),
    (places, "tools/schema.py", "try:\n    import pydantic.fields\nexcept ImportError:\n    pass"),
    (places, "store/rows.py", "class Row:\n    from pydantic_core import from_json"),
    (places, "store/rows.py", "from typing import TYPE_CHECKING\nif not TYPE_CHECKING:\n    import pydantic"),
    (places, "testing/models.py", "import click"),
    (places, "cli/view.py", "import datasette"),
    (places, "agent.py", "def run(self):\n    import json"),
    (places, "agent.py", "async def run(self):\n    from .errors import explain"),
    (purity, "history/replay.py", "import time"),
    (purity, "history/rules.py", "from random import choice"),
    (purity, "engine/run.py", "from time import monotonic"),
    (privacy, "state.py", "from .journal import _sink"),
    (privacy, "state.py", "from ._journal import sink"),
    (privacy, "models/base.py", "from pydantic._internal import fields"),
    (privacy, "state.py", "def fork(self):\n    return self.journal._snapshot"),
    (privacy, "state.py", "def fork(self):\n    self.journal._snapshot = 1"),
    (privacy, "state.py", "from . import journal\njournal._sink()"),
    (awaits, "engine/think.py", "async def think(wait, model, request):\n    await model.arespond(request)"),
    (awaits, "engine/think.py", "import asyncio\nasync def pause(wait):\n    await asyncio.sleep(1)"),
    (awaits, "engine/think.py", "import asyncio\nasync def pause(wait):\n    await asyncio.wait([])"),
    (awaits, "engine/think.py", "async def think(wait, reply):\n    await reply"),
    (awaits, "engine/think.py", "async def think(wait, lock):\n    async with lock:\n        pass"),
    (awaits, "engine/think.py", "async def think(wait, words):\n    async for word in words:\n        pass"),
    (awaits, "engine/think.py", "async def think(wait, words):\n    return [word async for word in words]"),
    (size, "agent.py", "\n" * LINES),
]

RIGHT = [
    ("errors.py", "from alpineagents.values.frozen import FrozenDict"),
    ("history/rules.py", "from datetime import datetime\nfrom ..values.content import Message"),
    ("history/clock.py", "import time"),
    ("scope.py", "from .human import Human\nfrom .reporter import Reporter\nfrom .store.base import Store"),
    ("tools/function.py", "from . import docstring\nfrom .base import Tool\nfrom ..scope import current"),
    ("terminal.py", "from alpineagents.human import Human\nfrom alpineagents.reporter import Reporter"),
    ("engine/run.py", "from alpineagents.models.base import Model\nfrom alpineagents.tools.collect import tool_map"),
    ("types.py", "from alpineagents.values.usage import Usage\nfrom alpineagents.history.entries import StopEntry"),
    ("__init__.py", "from .agent import Agent\nfrom .state import State"),
    ("cli/tail.py", "import click\nfrom alpineagents import Agent\nfrom alpineagents.testing import replay"),
    ("models/openai/model.py", "def client():\n    import httpx\n    return httpx.Client()"),
    ("models/openai/model.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import httpx"),
    ("datasette_alpineagents/__init__.py", "from datasette import hookimpl"),
    ("datasette_alpineagents/routes.py", "from alpineagents.history.replay import replay\nfrom . import queries"),
    ("datasette_alpineagents/routes.py", "from alpineagents.store import SqliteStore"),
    ("datasette_alpineagents/routes.py", "from alpineagents.cli.export import html"),
    ("state.py", "class State:\n    _journal: int\ndef journal_of(state):\n    return state._journal"),
    (
        "state.py",
        "class State:\n    __slots__ = ('_at',)\n    def __lt__(self, other):\n        return self._at < other._at",
    ),
    ("values/usage.py", "def total(self):\n    object.__setattr__(self, '_sum', 1)\n    return self._sum"),
    ("values/usage.py", "def moved(point):\n    return point._replace(x=1)"),
    ("engine/run.py", "async def run(wait, loop):\n    await wait(loop.call, loop.acall)\n    await run(wait, loop)"),
    (
        "engine/run.py",
        "from .think import think\nasync def run(wait, step):\n    await think(wait)\n    await step(wait)",
    ),
    (
        "engine/run.py",
        "class Run:\n    async def turn(self):\n        await self.wait(f, g)\n        await self.turn()",
    ),
]


@pytest.mark.parametrize(("rule", "path", "code"), WRONG)
def test_what_breaks_a_rule_is_found(rule: Callable[[Module], Iterator[str]], path: str, code: str) -> None:
    assert list(rule(sample(path, code)))


def test_a_file_without_a_docstring_is_found() -> None:
    assert list(docstrings(Module("src/alpineagents/agent.py", "")))
    assert list(docstrings(Module("src/alpineagents/__init__.py", "x = 1")))
    assert not list(docstrings(Module("src/alpineagents/__init__.py", "")))


@pytest.mark.parametrize(("path", "code"), RIGHT)
def test_what_keeps_the_rules_passes(path: str, code: str) -> None:
    assert not [problem for rule in RULES for problem in rule(sample(path, code))]
