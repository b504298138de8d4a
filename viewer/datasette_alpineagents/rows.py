"""Rows of `entries` as history entries, by the library's own codec. A row that it refuses stays what it is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, cast

from alpineagents.history.codec import decode
from alpineagents.history.entries import HistoryEntry
from alpineagents.store.rows import entry_data, loads
from alpineagents.values.content import ToolCall
from datasette_alpineagents.queries import Row

_HASH = re.compile(r"[0-9a-f]{64}")


class HashesForBytes(dict[str, bytes]):
    """Stands for the bytes of every image: its hash. A page shows an image by its address, and needs no more."""

    def get(self, key: str, default: Any = None) -> Any:  # type: ignore[override]  # it has every hash
        return bytes.fromhex(key) if _HASH.fullmatch(key) else default


HASHES = HashesForBytes()


@dataclass(frozen=True)
class Shown:
    """An entry on a page.

    Attributes:
        entry: What it is; `None` when it is too large to read for a page, or damaged.
        start: The first characters of its JSON. size: All of its JSON, in characters.
        problem: Why it cannot be read, if it is damaged.
    """

    id: int
    seq: int
    kind: str
    turn: int
    at: str
    closes: int | None
    block: int | None
    size: int
    entry: HistoryEntry | None
    start: str
    problem: str | None = None

    @property
    def large(self) -> bool:
        """Whether only its start was read."""
        return self.entry is None and self.problem is None


def shown(state_id: str, row: Row) -> Shown:
    """The entry of a row of `queries.ENTRIES`."""
    entry, problem = None, None
    if row["data"] is not None:
        try:
            entry = decoded(state_id, row)
        except (ValueError, TypeError, RecursionError) as error:
            problem = str(error).partition("\n")[0]
    parts = {name: row[name] for name in ("id", "seq", "kind", "turn", "at", "closes", "block", "start")}
    return Shown(size=row["length"], entry=entry, problem=problem, **parts)


def decoded(state_id: str, row: Row) -> HistoryEntry:
    """The history entry of a whole row.

    Raises:
        ValueError: It is damaged.
    """
    names = ("seq", "kind", "turn", "at", "closes", "block", "data", "original")
    return decode(entry_data(state_id, [row[name] for name in names], HASHES))


def decoded_calls(seq: int, data: str | None) -> list[tuple[int, ToolCall]]:
    """The calls in the JSON of a reply, each with the index of its block. What cannot be read has none."""
    value: Any = None if data is None else loads(data)
    try:
        blocks: Any = value["content"]["message"]["content"]
    except (TypeError, KeyError):
        return []
    found: list[tuple[int, ToolCall]] = []
    for index, block in enumerate(cast("list[Any]", blocks) if isinstance(blocks, list) else []):
        if isinstance(block, dict) and cast("Row", block).get("type") == "tool_call":
            fields = cast("Row", block)
            name, args = fields.get("name"), fields.get("args")
            call = ToolCall(str(name), cast("Row", args) if isinstance(args, dict) else {}, str(fields.get("id")))
            found.append((index, call))
    return found


_STRING = re.compile(r'\{"content":"((?:[^"\\]|\\.)*)')


def start_of_text(start: str) -> str:
    """The beginning of a text whose JSON was cut off, as far as it is whole; the JSON itself if it is no text."""
    found = _STRING.match(start)
    if found is None:
        return start
    body = re.sub(r"\\(?:u[0-9a-fA-F]{0,3})?\Z", "", found[1])
    try:
        return json.loads(f'"{body}"', strict=False)
    except ValueError:
        return start
