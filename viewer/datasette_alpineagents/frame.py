"""What every page of ours goes through: may it be seen, what does it read, how is it answered.

A page is an async function from a `Visit` to a `Page`. It never sees Datasette's request or response.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import resources
from typing import Any, TypeVar, cast

from datasette.utils import sqlite_timelimit, tilde_decode  # type: ignore[reportUnknownVariableType]
from datasette.utils.asgi import Forbidden, NotFound, Response

from alpineagents.history import clock
from alpineagents.store.status import stale_before
from datasette_alpineagents import access, compat, words
from datasette_alpineagents.links import Links, json_of
from datasette_alpineagents.text import plain
from datasette_alpineagents.words import moment

T = TypeVar("T")
READ_LIMIT_MS = 20_000
_timelimit: Any = cast("Any", sqlite_timelimit)
_Response: Any = cast("Any", Response)
_ASSETS = ("viewer.css", "viewer.js")


class Missing(Exception):
    """What the address names is not there: answered with 404."""


@dataclass
class Visit:
    """One request for one of our pages.

    Attributes:
        name: The database, as Datasette calls it. arguments: What stands behind the `?`.
        path: What the address holds, by name. now: The one time that everything on the page is measured by.
    """

    datasette: Any
    request: Any
    database: Any
    name: str
    links: Links
    path: Mapping[str, str]
    arguments: Mapping[str, str]
    now: datetime
    stale_before: str

    async def read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """What a function finds in the file, which stays the same for it from its first query to its last."""

        def within(connection: sqlite3.Connection) -> T:
            with _timelimit(connection, READ_LIMIT_MS):
                began = not connection.in_transaction
                if began:
                    connection.execute("BEGIN")
                try:
                    return function(connection)
                finally:
                    if began and connection.in_transaction:
                        connection.execute("ROLLBACK")

        return await self.database.execute_fn(within)

    def number(self, name: str, default: int | None = None) -> int | None:
        """A whole number from the address; what is none counts as not given."""
        text = self.arguments.get(name, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else default  # noqa: PLR2004


@dataclass
class Page:
    """What a page says.

    Attributes:
        data: The JSON twin. context: What the template needs beside it. sql: The query behind the main table.
    """

    template: str
    title: str
    data: dict[str, Any]
    context: dict[str, Any] = field(default_factory=dict[str, Any])
    crumbs: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    links: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    sql: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: int = 200


View = Callable[[Visit], Awaitable[Any]]


def route(view: View) -> Callable[..., Awaitable[Any]]:
    """The view as Datasette calls it."""

    async def answer(datasette: Any, request: Any) -> Any:
        if request.method not in ("GET", "HEAD"):
            return _Response.text("Method not allowed", status=405)
        visit = await _visit(datasette, request)
        try:
            page = await view(visit)
        except Missing as missing:
            raise NotFound(str(missing)) from missing
        if not isinstance(page, Page):
            return page
        if request.url_vars.get("format"):
            return json_response(page.data, page.status)
        return await _html(visit, page)

    return answer


async def _visit(datasette: Any, request: Any) -> Visit:
    try:
        database: Any = datasette.get_database(route=tilde_decode(request.url_vars["database"]))
    except KeyError:
        raise NotFound("no such database") from None
    name: str = database.name
    if not await access.is_ours(database):
        raise NotFound(f"{name} holds no runs of agents")
    if not await access.may_see(datasette, request.actor, name):
        raise Forbidden("this page needs view-instance, view-database, and view-table for states, entries and blobs")
    now = clock.now()
    links = Links(str(datasette.urls.database(name)))
    arguments = {key: request.args.get(key) for key in request.args}
    before = stale_before(now, access.stale_limit(datasette, name))
    return Visit(datasette, request, database, name, links, dict(request.url_vars), arguments, now, before)


def json_response(data: Any, status: int = 200) -> Any:
    """JSON that no browser takes for anything else."""
    return Response(
        json.dumps(data, default=_jsonable),
        status=status,
        content_type="application/json; charset=utf-8",
        headers={"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"},
    )


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    return list(cast("Iterable[Any]", value)) if isinstance(value, tuple | set | list) else str(value)


async def _html(visit: Visit, page: Page) -> Any:
    datasette, request = visit.datasette, visit.request
    skeleton: str = await datasette.render_template(
        "alpineagents/skeleton.html", {"database": visit.name}, request=request
    )
    address = f"{request.path}{'?' + request.query_string if request.query_string else ''}"
    context = {
        "links": visit.links,
        "words": words,
        "plain": plain,
        "is_first_page": not page.crumbs and page.template == "alpineagents/runs.html",
        "page_links": page.links,
        "now": visit.now,
        "page_title": page.title,
        "our_crumbs": page.crumbs,
        "database": visit.name,
        "database_color": color_of(visit.name),
        "json_url": json_of(address),
        "sql_url": await _sql_url(visit, page),
        "assets": {name: _asset(datasette, name) for name in _ASSETS},
        "unseen_rows": access.has_unseen_rows(visit.database),
        "data": page.data,
        **page.context,
    }
    html: str = await datasette.render_template(page.template, context, request=request)
    headers = {
        "Content-Security-Policy": policy(skeleton),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
    body = html.encode("utf-8", "replace")
    return Response(body, status=page.status, headers=headers, content_type="text/html; charset=utf-8")


async def _sql_url(visit: Visit, page: Page) -> str | None:
    if page.sql is None or not await compat.allowed(visit.datasette, visit.request.actor, "execute-sql", visit.name):
        return None
    return compat.query_url(visit.datasette, visit.name, page.sql, page.parameters)


def color_of(name: str) -> str:
    """The colour Datasette gives a database."""
    return hashlib.md5(name.encode("utf-8")).hexdigest()[:6]


_digests: dict[str, str] = {}


def _asset(datasette: Any, name: str) -> str:
    return f"{datasette.urls.static_plugins(access.PLUGIN, name)}?{asset_digest(name)}"


def asset_digest(name: str) -> str:
    """A few characters that change with the file, so that no browser keeps an old one."""
    if name not in _digests:
        content = (resources.files("datasette_alpineagents") / "static" / name).read_bytes()
        _digests[name] = hashlib.sha256(content).hexdigest()[:10]
    return _digests[name]


_INLINE = re.compile(r"<(script|style)\b([^>]*)>(.*?)</\1\s*>", re.DOTALL | re.IGNORECASE)
_ADDRESS = re.compile(r"""<(script|link)\b[^>]*\b(?:src|href)\s*=\s*["'](https?://[^/"'\s;,]+)""", re.IGNORECASE)


def policy(skeleton: str) -> str:
    """The Content-Security-Policy of a page.

    Args:
        skeleton: The same page without any of our content: whatever runs there is Datasette's or another plugin's, so
            its inline scripts are named by hash and its hosts by name. Nothing else runs.
    """
    scripts, styles = ["'self'"], ["'self'"]
    for tag, attributes, content in _INLINE.findall(skeleton):
        if "src=" not in attributes.lower():
            digest = base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")
            (scripts if tag.lower() == "script" else styles).append(f"'sha256-{digest}'")
    for tag, host in _ADDRESS.findall(skeleton):
        (scripts if tag.lower() == "script" else styles).append(host)
    rules = {
        "default-src": ["'none'"],
        "script-src": list(dict.fromkeys(scripts)),
        "style-src": list(dict.fromkeys(styles)),
        "img-src": ["'self'"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'self'"],
        "base-uri": ["'none'"],
    }
    return "; ".join([f"{name} {' '.join(values)}" for name, values in rules.items()])


def seconds_since(text: str | None, now: datetime) -> float:
    """Seconds from a time of the file until now; a time that cannot be read, or lies ahead, counts as now."""
    then = moment(text)
    return 0.0 if then is None else max(0.0, (now - then).total_seconds())
