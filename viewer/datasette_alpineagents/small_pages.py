"""Parts of a run at addresses of their own: one entry whole, an image, and what is new."""

from __future__ import annotations

from typing import Any

from datasette.utils.asgi import Response

from alpineagents.history.entries import ToolResultEntry
from alpineagents.values.display import result_text
from datasette_alpineagents import queries
from datasette_alpineagents.frame import Missing, Page, Visit, json_response
from datasette_alpineagents.rows import decoded
from datasette_alpineagents.text import pieces, raw_pieces

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_ONE_ENTRY = """SELECT seq, kind, turn, at, closes, block, data, original, length(data) AS length FROM entries
WHERE state_id = :id AND seq = :seq"""


async def blob(visit: Visit) -> Any:
    """`/DB/-/blobs/SHA256`: an image, under the type it was checked to have."""
    row = await visit.read(lambda connection: queries.first(connection, queries.BLOB, visit.path))
    if row is None or row["media_type"] not in IMAGES:
        raise Missing("there is no such image")
    headers = {
        "X-Content-Type-Options": "nosniff",
        "Content-Disposition": "inline",
        "Content-Security-Policy": "default-src 'none'",
        "Cache-Control": "private, max-age=31536000, immutable",
    }
    return Response(row["bytes"], headers=headers, content_type=row["media_type"])


async def payload(visit: Visit) -> Page:
    """`/DB/-/runs/ID/entries/SEQ`: one entry whole."""
    state_id, seq = visit.path["id"], int(visit.path["seq"])
    row = await visit.read(lambda connection: queries.first(connection, _ONE_ENTRY, {"id": state_id, "seq": seq}))
    if row is None:
        raise Missing(f"there is no entry {seq} of {state_id}")
    raw = visit.arguments.get("raw") == "1"
    text = row["data"]
    try:
        entry = decoded(state_id, row)
        if isinstance(entry, ToolResultEntry):
            text = result_text(entry.content)
    except (ValueError, TypeError, RecursionError):
        entry = None  # shown as it is in the file
    data = {name: row[name] for name in ("seq", "kind", "turn", "at", "closes", "block", "data")}
    context = {
        "state_id": state_id,
        "entry": row,
        "is_result": isinstance(entry, ToolResultEntry),
        "pieces": raw_pieces(text) if raw else pieces(text),
        "raw": raw,
    }
    crumbs = [(visit.links.run(state_id), state_id), (visit.links.entry(state_id, seq), f"e{seq}")]
    return Page("alpineagents/payload.html", f"e{seq} of {state_id}", data, context, crumbs)


async def news_of_run(visit: Visit) -> Any:
    """How many entries a page that shows a run does not have yet."""
    parameters = {"id": visit.path["id"], "after": visit.number("after", 0)}
    state = {"id": visit.path["id"], "stale_before": visit.stale_before}

    def look(connection: Any) -> tuple[Any, Any]:
        return queries.first(connection, queries.NEWS, parameters), queries.first(connection, queries.STATE, state)

    news, row = await visit.read(look)
    if row is None:
        raise Missing("there is no such run")
    return json_response({**(news or {}), "status": row["status_now"]})


async def news_of_runs(visit: Visit) -> Any:
    """The newest entry of the file."""
    return json_response(await visit.read(lambda connection: queries.first(connection, queries.NEWEST)))
