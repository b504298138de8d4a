"""The Datasette plugin of alpineagents: pages about runs, in any database that is one of our files."""

from __future__ import annotations

from typing import Any

from datasette import hookimpl

from datasette_alpineagents import access, pages
from datasette_alpineagents.links import Links

_hook: Any = hookimpl


@_hook
def register_routes() -> list[tuple[str, Any]]:
    """The addresses of our pages."""
    return pages.routes()


@_hook
def menu_links(datasette: Any, actor: Any) -> Any:
    """`Agent runs` in Datasette's menu, for each database of runs that this actor may see."""

    async def found() -> list[dict[str, str]]:
        names = await access.ours(datasette, actor)
        return [
            {"href": Links(str(datasette.urls.database(name))).runs(), "label": _label(name, names)} for name in names
        ]

    return found


@_hook
def database_actions(datasette: Any, actor: Any, database: str) -> Any:
    """`Agent runs` and `Tools` on the page of a database of runs."""

    async def found() -> list[dict[str, str]]:
        if database not in await access.ours(datasette, actor):
            return []
        links = Links(str(datasette.urls.database(database)))
        return [{"href": links.runs(), "label": "Agent runs"}, {"href": links.tools(), "label": "Tools by outcome"}]

    return found


def _label(name: str, names: list[str]) -> str:
    return "Agent runs" if len(names) == 1 else f"Agent runs in {name}"
