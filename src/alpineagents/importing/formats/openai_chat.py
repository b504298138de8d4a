"""Conversations in the chat format of OpenAI: JSON lines, each with one list of `messages`.

It is the form of training data and of many logs. It has no times; what else a line says is kept in `extra_data`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from alpineagents.importing.chat import Known, entry_of, system_of
from alpineagents.importing.contents import count_of, fields, hash_of, id_text, records, text_or_none, time_of
from alpineagents.importing.formats.base import Format
from alpineagents.importing.items import Begun, Ended, Found, Item, Remark
from alpineagents.importing.sources import Line, Source
from alpineagents.values.exchange import AgentInfo
from alpineagents.values.usage import Usage

PROVIDER = "openai"


def _recognizes(source: Source) -> bool:
    document = source.document if not source.first_records else None
    return any([_is_chat(record) for record in [*source.first_records, *([document] if document else [])]])


def _is_chat(record: dict[str, Any]) -> bool:
    roles = [fields(item).get("role") for _, item in records(record.get("messages"))]
    return bool(roles) and all([isinstance(role, str) for role in roles]) and "trajectory_format" not in record


def items(source: Source) -> Iterator[Item]:
    """What is in a file: one conversation a line."""
    if not source.first_records and source.document is not None:
        raw = source.path.read_bytes()
        yield from _conversation(source, Line(1, len(raw), source.document, raw=raw))
        source.done()
        return
    for line in source.lines():
        if line.data is None:
            yield Remark(line.place, "left out", line.problem or "not an object")
        elif not isinstance(line.data.get("messages"), list):
            yield Remark(line.place, "left out", "it has no list of messages")
        else:
            yield from _conversation(source, line)


FORMAT = Format("openai-chat", "OpenAI chat JSON lines", _recognizes, items)


def _conversation(source: Source, line: Line) -> Iterator[Item]:
    record = line.data or {}
    mended: list[str] = []
    messages: Any = record["messages"]
    system, start = system_of(messages, mended.append)
    sha256 = hashlib.sha256(line.raw.strip()).hexdigest()
    key = str(line.number)
    model = text_or_none(record.get("model"))
    imported = {name: value for name, value in record.items() if name not in ("messages", "tools", "functions")}
    yield Begun(
        key,
        id_text(source.stem, line.number, sha256[:8]),
        AgentInfo(
            model=f"{PROVIDER}/{model or 'unknown'}",
            system_sha256=hash_of(system),
            tools=tuple(_tools_of(record)),
        ),
        sha256,
        line.size,
        {"line": line.number, **({"system": system} if system else {}), **({"fields": imported} if imported else {})},
    )
    yield from _remarks(line.place, mended)
    if line.mended:
        yield Remark(line.place, "repaired", "it has bytes that are no UTF-8")
    at = time_of(record.get("created")) or source.modified
    last = max([number for number, item in records(messages) if fields(item).get("role") == "assistant"], default=-1)
    for number, item in list(records(messages))[start:]:
        place = f"{line.place}, messages[{number}]"
        mended = []
        usage = _usage_of(record) if number == last else Usage(requests=1)
        entry = entry_of(fields(item), mended.append, Known(PROVIDER, usage, model))
        if isinstance(entry, str):
            yield Remark(place, "left out", entry)
            continue
        yield Found(key, place, entry, at, size=line.size // (len(messages) or 1))
        yield from _remarks(place, mended)
    yield Ended(key)


def _remarks(place: str, mended: list[str]) -> Iterator[Item]:
    yield from [Remark(place, "repaired", text) for text in mended]


def _tools_of(record: dict[str, Any]) -> Iterator[str]:
    for _, item in [*records(record.get("tools")), *records(record.get("functions"))]:
        name = fields(fields(item).get("function")).get("name") or fields(item).get("name")
        if isinstance(name, str):
            yield name


def _usage_of(record: dict[str, Any]) -> Usage:
    """What the line says the last reply used, as the API gives it."""
    usage = fields(record.get("usage"))
    cached = count_of(fields(usage.get("prompt_tokens_details")).get("cached_tokens"))
    prompt = count_of(usage.get("prompt_tokens"))
    return Usage(
        input_tokens=max(0, prompt - cached),
        output_tokens=count_of(usage.get("completion_tokens")),
        cache_read_tokens=min(cached, prompt),
        requests=1,
    )
