from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from alpineagents.cli import main
from alpineagents.store import SqliteStore


@pytest.fixture
def cli() -> Callable[..., Result]:
    """Runs the command as the shell does, but lets a traceback through."""

    def run(*words: object) -> Result:
        result = CliRunner().invoke(main, [str(word) for word in words], prog_name="alpineagents")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def store(path: Path) -> SqliteStore:
    return SqliteStore(path)
