"""A State as it was after its first entries, and where each of its messages came from: by the library's own fold.

Folds are kept for a while, the last few of them, since a person who steps through a run asks for the next one.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from alpineagents.history.entries import ContextChangeEntry, HistoryEntry
from alpineagents.history.replay import EMPTY, step
from alpineagents.history.value import Value
from alpineagents.values.content import Message
from alpineagents.values.estimates import message_tokens
from datasette_alpineagents import queries
from datasette_alpineagents.frame import Missing
from datasette_alpineagents.rows import decoded

KEPT = 6


@dataclass(frozen=True)
class Origin:
    """Where a message came from.

    Attributes:
        seq: The entry that brought it. by: The entry that made it what it is now, if it is not as recorded.
        why: `cleared`, `summary`, `imported`, `restored` or nothing.
        before: What it was before it was altered.
    """

    seq: int
    by: int | None = None
    why: str = ""
    before: Message | None = None


@dataclass
class Folded:
    """A State after `length` entries.

    Attributes:
        origins: Of each message in `value.messages`, by identity, with the message, so that no other one gets its
            identity. States that follow each other share it, as long as messages are only added.
    """

    length: int
    value: Value
    origins: dict[int, tuple[Message, Origin]] = field(default_factory=dict[int, tuple[Message, Origin]])

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages as the model would see them."""
        return self.value.messages.whole()

    def origin(self, message: Message) -> Origin:
        """Where one of them came from."""
        return self.origins[id(message)][1]

    def advanced(self, entry: HistoryEntry) -> Folded:
        """The State one entry later."""
        value = step(self.value, entry)
        origins = self.origins
        if value.messages is not self.value.messages:
            origins = _origins(self, value, entry)
        return Folded(self.length + 1, value, origins)


def _origins(before: Folded, value: Value, entry: HistoryEntry) -> dict[int, tuple[Message, Origin]]:
    seq = before.length
    if not isinstance(entry, ContextChangeEntry):
        for message in value.messages.tail(len(before.value.messages)):
            before.origins[id(message)] = message, Origin(seq)
        return before.origins
    old, new, kind = before.messages, value.messages.whole(), entry.content.kind
    why, kept = _WHYS.get(kind, ""), {id(message) for message in old}
    found: dict[int, tuple[Message, Origin]] = {}
    for index, message in enumerate(new):
        origin = Origin(seq, None if why == "imported" else seq, why)
        if id(message) in kept:
            origin = before.origin(message)
        elif kind == "clear_tool_results" and len(old) == len(new):
            origin = replace(before.origin(old[index]), by=seq, why=why, before=old[index])
        found[id(message)] = message, origin
    return found


_WHYS = {"compact": "summary", "clear_tool_results": "cleared", "restore": "restored", "import": "imported"}


def folded(connection: sqlite3.Connection, path: str, state_id: str, length: int) -> tuple[Folded, Folded]:
    """The State after `length` entries, and after one less.

    Raises:
        Missing: There is no such State, or it has fewer entries.
        ValueError: An entry before that is damaged.
    """
    newest = queries.first(connection, queries.NEWS, {"id": state_id, "after": 0})
    count = 0 if newest is None or newest["last_seq"] is None else newest["last_seq"] + 1
    if count == 0 and queries.first(connection, queries.STATE, {"id": state_id, "stale_before": ""}) is None:
        raise Missing(f"there is no run {state_id}")
    if length > count:
        raise Missing(f"{state_id} has only {count} entries")
    start = _nearest(path, state_id, length)
    rows = queries.rows(connection, _ROWS, {"id": state_id, "first": start.length, "last": length - 1})
    before = start
    for row in rows:
        before, start = start, start.advanced(decoded(state_id, row))
    if start.length != length:
        raise ValueError(f"an entry before {length} is missing")
    if before.length == start.length and length > 0:  # what was kept is the one asked for
        return start, folded(connection, path, state_id, length - 1)[0]
    _keep(path, state_id, before)
    _keep(path, state_id, start)
    return start, before


_ROWS = """SELECT seq, kind, turn, at, closes, block, data, original FROM entries
WHERE state_id = :id AND seq >= :first AND seq <= :last ORDER BY seq"""
_cache: OrderedDict[tuple[str, str, int], Folded] = OrderedDict()


def _nearest(path: str, state_id: str, length: int) -> Folded:
    found = [
        each for (where, id, _), each in _cache.items() if where == path and id == state_id and each.length <= length
    ]
    return max(found, key=lambda each: each.length, default=Folded(0, EMPTY))


def _keep(path: str, state_id: str, fold: Folded) -> None:
    key = (path, state_id, fold.length)
    _cache[key] = fold
    _cache.move_to_end(key)
    while len(_cache) > KEPT:
        _cache.popitem(last=False)


def tokens(messages: Sequence[Message]) -> int:
    """An estimate of what messages take."""
    return sum([message_tokens(message) for message in messages])


@dataclass(frozen=True)
class Difference:
    """What lies between two States of one run.

    Attributes:
        added, removed: Messages. altered: What a message was, and is.
        before, after: Tokens, by the same estimate.
        data: Keys of `extra_data` that were set or changed. gone: Those that were removed.
    """

    added: list[Message]
    removed: list[Message]
    altered: list[tuple[Message, Message]]
    before: int
    after: int
    data: list[str]
    gone: list[str]


def difference(earlier: Folded, later: Folded) -> Difference:
    """What changed from one to the other."""
    old = {id(message): message for message in earlier.messages}
    new = {id(message): message for message in later.messages}
    by_seq = {earlier.origin(message).seq: message for key, message in old.items() if key not in new}
    altered: list[tuple[Message, Message]] = []
    added: list[Message] = []
    for key, message in new.items():
        if key in old:
            continue
        origin = later.origin(message)
        was = by_seq.pop(origin.seq, None) if origin.why == "cleared" else None
        if was is None:
            added.append(message)
        else:
            altered.append((was, message))
    changed = {id(was) for was, _ in altered}
    removed = [message for key, message in old.items() if key not in new and key not in changed]
    before, after = earlier.value.extra_data, later.value.extra_data
    return Difference(
        added,
        removed,
        altered,
        tokens(earlier.messages),
        tokens(later.messages),
        [name for name, value in after.items() if name not in before or before[name] != value],
        [name for name in before if name not in after],
    )
