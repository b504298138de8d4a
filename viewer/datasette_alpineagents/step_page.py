"""The State as it was after its first entries: what the model would see, where it came from, and what changed last."""

from __future__ import annotations

import sqlite3
from typing import Any

from alpineagents.history.value import EMPTY
from alpineagents.values.content import Image, Message, RawBlock, TextBlock, ToolCall, ToolResultBlock
from alpineagents.values.display import result_text
from alpineagents.values.estimates import message_tokens
from datasette_alpineagents import queries
from datasette_alpineagents.folds import Difference, Folded, difference, folded
from datasette_alpineagents.frame import Missing, Page, Visit
from datasette_alpineagents.queries import Row
from datasette_alpineagents.render import call_view, json_text, result_view
from datasette_alpineagents.text import cut_text, one_line, passages, plain
from datasette_alpineagents.words import count, plural

TEXT = 500
MOST_MESSAGES = 300
NEXT = {"error": ("error",), "tool": ("tool_result",), "request": ("model_request",)}
_NEXT_SQL = "SELECT min(seq) AS seq FROM entries WHERE state_id = :id AND kind = :kind AND seq >= :after"


async def step_page(visit: Visit) -> Page:
    """`/DB/-/runs/ID/at/N`, with `?since=M` the difference from M."""
    state_id, length = visit.path["id"], int(visit.path["length"])
    since = visit.number("since")
    found = await visit.read(lambda connection: _Found(connection, visit, state_id, length, since))
    context = _context(visit, found)
    links = [(visit.links.run(state_id), "The run")]
    crumbs = [
        (visit.links.run(state_id), plain(found.state["agent"] or state_id)),
        (visit.links.at(state_id, length), f"at {length}"),
    ]
    return Page("alpineagents/step.html", f"At {length} of {found.count}", _data(found), context, crumbs, links)


class _Found:
    """What the page reads, in one look at the file."""

    def __init__(
        self, connection: sqlite3.Connection, visit: Visit, state_id: str, length: int, since: int | None
    ) -> None:
        path = str(visit.database.path)
        state = queries.first(connection, queries.STATE, {"id": state_id, "stale_before": visit.stale_before})
        if state is None:
            raise Missing(f"there is no run {state_id} in {visit.name}")
        self.state, self.length = state, length
        self.count: int = state["entry_count"]
        self.problem = ""
        self.now = self.base = Folded(0, EMPTY)
        try:
            self.now, self.base = folded(connection, path, state_id, length)
            if since is not None:
                self.base = folded(connection, path, state_id, since)[0]
        except ValueError as error:
            self.problem = str(error).partition("\n")[0]
        self.since = self.base.length
        self.entry = queries.first(connection, _ENTRY, {"id": state_id, "seq": length - 1})
        self.next = {
            word: found["seq"] + 1
            for word, (kind,) in NEXT.items()
            if (found := queries.first(connection, _NEXT_SQL, {"id": state_id, "kind": kind, "after": length}))
            and found["seq"] is not None
        }
        self.last_request = queries.first(connection, _LAST_REQUEST, {"id": state_id, "before": max(0, length - 1)})


_ENTRY = "SELECT seq, kind, turn, at, tool FROM entries WHERE state_id = :id AND seq = :seq"
_LAST_REQUEST = "SELECT max(seq) AS seq FROM entries WHERE state_id = :id AND kind = 'model_request' AND seq < :before"


def _data(found: _Found) -> Row:
    """The JSON twin, with the names of a StateSnapshot."""
    value = found.now.value
    return {
        "at": found.length,
        "messages": [_message_data(message) for message in found.now.messages],
        "pending_calls": [{"id": call.id, "name": call.name, "args": call.args} for call in value.pending_calls],
        "turn": value.turn,
        "usage": {name: getattr(value.usage, name) for name in _USAGE},
        "extra_data": dict(value.extra_data),
        "finished": value.finished,
        "answer": value.finish_answer if value.finish_answer is not None else value.reply_text,
        "stopped": None if value.stopped is None else str(value.stopped),
        "problem": found.problem or None,
    }


_USAGE = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "requests", "cost")


def _message_data(message: Message) -> Row:
    return {"role": message.role, "content": [_block_data(block) for block in message.content]}


def _block_data(block: Any) -> Row:
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ToolCall():
            return {"type": "tool_call", "id": block.id, "name": block.name, "args": block.args}
        case ToolResultBlock():
            return {"type": "tool_result", "call_id": block.call_id, "content": result_text(block.content)}
        case Image():
            return {"type": "image", "media_type": block.media_type, "sha256": block.data.hex()}
        case _:
            return {"type": "raw"}


def _context(visit: Visit, found: _Found) -> Row:
    value, messages = found.now.value, found.now.messages
    changes = difference(found.base, found.now)
    changed = {id(message) for message in changes.added} | {id(new) for _, new in changes.altered}
    skipped = max(0, len(messages) - MOST_MESSAGES)
    state_id = found.state["id"]
    return {
        "state": found.state,
        "agent": plain(found.state["agent"] or state_id),
        "length": found.length,
        "count": found.count,
        "headline": _headline(found),
        "entry": found.entry,
        "problem": plain(found.problem),
        "messages": [_message_view(found, message, changed) for message in messages[skipped:]],
        "skipped": skipped,
        "total": len(messages),
        "tokens": changes.after,
        "held": len(value.held),
        "changes": changes,
        "altered": [_altered(found, was, is_) for was, is_ in changes.altered],
        "removed": [one_line(_text_of(message), 90) or message.role for message in changes.removed[:20]],
        "set": [plain(name) for name in changes.data],
        "gone": [plain(name) for name in changes.gone],
        "since": found.since,
        "bases": _bases(visit, found),
        "pending": [call_view(call) for call in value.pending_calls],
        "extra": [(plain(name), one_line(json_text(item), 200)) for name, item in value.extra_data.items()],
        "usage": value.usage,
        "turn": value.turn,
        "answer": plain(str(_data(found)["answer"] or "")[:TEXT]),
        "stopped": "" if value.stopped is None else plain(str(value.stopped)),
        "next": {word: visit.links.at(state_id, length) for word, length in found.next.items()},
        "at_url": visit.links.at(state_id, 0)[:-1],
    }


def _headline(found: _Found) -> str:
    entry = found.entry
    where = f"At {found.length} of {found.count}"
    if entry is None:
        return f"{where}: before anything" if not found.length else where
    tool = f" {plain(entry['tool'])}" if entry["tool"] else ""
    return f"{where}: after {entry['kind'].replace('_', ' ')}{tool} in turn {entry['turn']}"


def _bases(visit: Visit, found: _Found) -> list[tuple[str, str, bool]]:
    """What the State may be compared with."""
    state_id, length = found.state["id"], found.length
    bases = [(f"at {max(0, length - 1)}", visit.links.at(state_id, length), found.since == max(0, length - 1))]
    last = (found.last_request or {}).get("seq")
    if last is not None:
        bases.append(("last request", visit.links.at(state_id, length, since=last + 1), found.since == last + 1))
    bases.append(("the beginning", f"{visit.links.at(state_id, length)}?since=0", found.since == 0))
    return bases


def _message_view(found: _Found, message: Message, changed: set[int]) -> Row:
    origin = found.now.origin(message)
    text, cut = cut_text("".join([block.text for block in message.content if isinstance(block, TextBlock)]), TEXT)
    results = [block for block in message.content if isinstance(block, ToolResultBlock)]
    return {
        "role": message.role if not results else "tool result",
        "seq": origin.seq,
        "by": origin.by,
        "why": origin.why,
        "passages": passages(text),
        "cut": cut,
        "calls": [call_view(block) for block in message.content if isinstance(block, ToolCall)],
        "results": [{"name": plain(block.name or block.call_id), **result_view(block.content, 4)} for block in results],
        "images": [block.data.hex() for block in message.content if isinstance(block, Image)],
        "raw": [plain(block.provider) for block in message.content if isinstance(block, RawBlock)],
        "tokens": message_tokens(message),
        "before": None if origin.before is None else message_tokens(origin.before),
        "was": "" if origin.before is None else one_line(_text_of(origin.before), 160),
        "changed": id(message) in changed,
    }


def _altered(found: _Found, was: Message, is_: Message) -> Row:
    names = [plain(block.name or "") for block in is_.content if isinstance(block, ToolResultBlock)]
    return {
        "seq": found.now.origin(is_).seq,
        "name": ", ".join(names) or is_.role,
        "before": message_tokens(was),
        "after": message_tokens(is_),
    }


def _text_of(message: Message) -> str:
    parts = [
        result_text(block.content) if isinstance(block, ToolResultBlock) else getattr(block, "text", "")
        for block in message.content
    ]
    return " ".join([part for part in parts if part])


def difference_text(changes: Difference) -> str:
    """The numbers of a difference in one line."""
    parts = [(len(changes.added), "added"), (len(changes.removed), "removed"), (len(changes.altered), "altered")]
    return (
        ", ".join([f"{plural(number, 'message')} {word}" for number, word in parts if number])
        or f"no message changed, {count(changes.after)} tokens"
    )
