"""Where States are kept: the contract of every Store, and `SqliteStore`, the primary one."""

from __future__ import annotations

from alpineagents.store.base import Record, StateInfo, Store
from alpineagents.store.check import Problem, check
from alpineagents.store.sqlite import SqliteStore

__all__ = ["Problem", "Record", "SqliteStore", "StateInfo", "Store", "check"]
