from __future__ import annotations

from pathlib import Path

import pytest
from contracts.store import StoreContract

from alpineagents.store import SqliteStore, Store


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return SqliteStore(tmp_path / "runs.db")
