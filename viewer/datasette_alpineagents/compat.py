"""What differs between the two lines of Datasette, 0.65 and 1.0: asked here, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any
from urllib.parse import urlencode

import datasette.version

IS_1: bool = not str(datasette.version.__version__).startswith("0.")  # type: ignore[reportUnknownMemberType]


async def allowed(
    datasette: Any, actor: Any, action: str, database: str | None = None, table: str | None = None
) -> bool:
    """Whether this actor may do this."""
    if not IS_1:
        resource: Any = None if database is None else database if table is None else (database, table)
        return bool(await datasette.permission_allowed(actor, action, resource=resource, default=True))
    return bool(await datasette.allowed(action=action, actor=actor, resource=_resource(database, table)))


def _resource(database: str | None, table: str | None) -> Any:
    if database is None:
        return None
    found: Any = import_module("datasette.resources")  # there from 1.0
    return found.DatabaseResource(database) if table is None else found.TableResource(database, table)


def query_url(datasette: Any, database: str, sql: str, parameters: Mapping[str, Any]) -> str:
    """Where Datasette shows the rows of a query."""
    path = str(datasette.urls.database(database)) + ("/-/query" if IS_1 else "")
    values = {name: value for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode({'sql': sql, **values})}"


async def describe(datasette: Any, database: str, sentences: Mapping[str, tuple[str, Mapping[str, str]]]) -> None:
    """Say what each table and column is, where the person has not; on 0.65 the `get_metadata` hook does it."""
    if not IS_1:
        return
    for table, (sentence, columns) in sentences.items():
        there = await datasette.get_resource_metadata(database, table)
        if "description" not in there:
            await datasette.set_resource_metadata(database, table, "description", sentence)
        for column, text in columns.items():
            if not await datasette.get_column_metadata(database, table, column):
                await datasette.set_column_metadata(database, table, column, "description", text)


async def add_queries(datasette: Any, database: str, queries: Mapping[str, Mapping[str, str]]) -> None:
    """Add canned queries; on 0.65 the `canned_queries` hook does it."""
    if not IS_1:
        return
    for name, query in queries.items():
        if await datasette.get_query(database, name) is None:
            await datasette.add_query(
                database,
                name,
                query["sql"],
                title=query["title"],
                description=query["description"],
                source="alpineagents",
            )
