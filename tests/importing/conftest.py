from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alpineagents import SqliteStore, State
from alpineagents.importing import FileReport, files_in, import_sources
from alpineagents.store import check

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "runs.db", synchronous="normal")


@pytest.fixture
def take(store: SqliteStore) -> Callable[..., FileReport]:
    """Imports one file, and sees to it that what came of it is whole."""

    def take(path: Path, **options: Any) -> FileReport:
        (report,) = import_sources(store, files_in([path]), **options)
        if store.path.exists():
            assert check(store.path) == []
        return report

    return take


@pytest.fixture
def lines(tmp_path: Path) -> Callable[..., Path]:
    """A file of JSON lines; a text or bytes stand there as they are."""

    def lines(*records: Any, name: str = "session.jsonl") -> Path:
        path = tmp_path / "source" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        raw = [
            record
            if isinstance(record, bytes)
            else (record if isinstance(record, str) else json.dumps(record)).encode()
            for record in records
        ]
        path.write_bytes(b"".join([line + b"\n" for line in raw]))
        return path

    return lines


@pytest.fixture
def only(store: SqliteStore) -> Callable[[], State]:
    """The one State there is."""

    def only() -> State:
        (info,) = store.list()
        return store.load(info.id)

    return only
