"""Which call of a Claude Code session started which subagent, where that has a file of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from alpineagents.importing.contents import fields, records, text_or_none
from alpineagents.importing.sources import line_of


@dataclass(frozen=True)
class Link:
    """The id of a call, and the kind of subagent it asked for."""

    call_id: str | None = None
    kind: str | None = None


def link_of(file: Path, session: str, agent: str) -> Link:
    """What the session's own file, beside the subagent's or two folders above it, says of this subagent."""
    for folder in (file.parent, file.parent.parent.parent):
        beside = folder / f"{session}.jsonl"
        if beside != file and beside.is_file():
            return _links_in(beside, beside.stat().st_mtime_ns).get(agent, Link())
    return Link()


@lru_cache(maxsize=8)
def _links_in(file: Path, version: int) -> dict[str, Link]:
    links: dict[str, Link] = {}
    kinds: dict[str, str | None] = {}
    with file.open("rb") as lines:
        for raw in lines:
            if b'"subagent_type"' in raw or b'"agentId"' in raw:
                _note(line_of(0, raw).data or {}, links, kinds)
    return links


def _note(record: dict[str, Any], links: dict[str, Link], kinds: dict[str, str | None]) -> None:
    agent = text_or_none(fields(record.get("toolUseResult")).get("agentId"))
    for _, item in records(fields(record.get("message")).get("content")):
        block = fields(item)
        if block.get("type") == "tool_use":
            kinds[str(block.get("id"))] = text_or_none(fields(block.get("input")).get("subagent_type"))
        elif block.get("type") == "tool_result" and agent is not None:
            id = str(block.get("tool_use_id"))
            links.setdefault(agent, Link(id, kinds.get(id)))
