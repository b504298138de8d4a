"""Which databases are ours, and who may see them."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

from alpineagents.store.schema import APPLICATION_ID
from alpineagents.store.status import STALE_AFTER
from datasette_alpineagents import compat

PLUGIN = "alpineagents"
TABLES = ("states", "entries", "blobs")


async def is_ours(database: Any) -> bool:
    """Whether a database of Datasette is a file of runs."""
    if database.is_memory or not database.path:
        return False
    try:
        return await database.execute_fn(has_our_mark)
    except (sqlite3.Error, OSError):
        return False


def has_our_mark(connection: sqlite3.Connection) -> bool:
    """Whether the file says that it is ours."""
    return connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID


async def may_see(datasette: Any, actor: Any, database: str) -> bool:
    """Whether this actor may see all that our pages read."""
    if not await compat.allowed(datasette, actor, "view-instance"):
        return False
    if not await compat.allowed(datasette, actor, "view-database", database):
        return False
    for table in TABLES:
        if not await compat.allowed(datasette, actor, "view-table", database, table):
            return False
    return True


async def ours(datasette: Any, actor: Any) -> list[str]:
    """The names of the databases of runs that this actor may see."""
    return [
        name
        for name, database in datasette.databases.items()
        if await is_ours(database) and await may_see(datasette, actor, name)
    ]


def stale_limit(datasette: Any, database: str) -> timedelta:
    """How long an unfinished run may be silent before it counts as stalled: the setting `stale_minutes`."""
    settings: Any = datasette.plugin_config(PLUGIN, database=database) or {}
    minutes: Any = settings.get("stale_minutes") if isinstance(settings, dict) else None  # type: ignore[reportUnknownMemberType]
    if isinstance(minutes, int | float) and not isinstance(minutes, bool) and minutes > 0:
        return timedelta(minutes=min(float(minutes), 1e6))
    return STALE_AFTER


def has_unseen_rows(database: Any) -> bool:
    """Whether a file opened as immutable has a write-ahead log beside it, whose rows are not visible."""
    if database.is_mutable or not database.path:
        return False
    try:
        return Path(f"{database.path}-wal").stat().st_size > 0
    except OSError:
        return False
