"""Logs of Inspect: one evaluation, as JSON or as a ZIP file (`.eval`) with one JSON file for each sample.

Each sample is one conversation. Its `events` tell when the model was asked and what a reply used; long texts and images
may stand apart, under `attachments`.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from typing import Any, cast

from alpineagents.history.entries import ErrorEntry
from alpineagents.importing.chat import Known, entry_of, system_of
from alpineagents.importing.contents import (
    count_of,
    fields,
    hash_of,
    id_text,
    records,
    short_hash,
    text_of,
    text_or_none,
    time_of,
)
from alpineagents.importing.formats.base import Format
from alpineagents.importing.items import Begun, Ended, Found, Item, Remark
from alpineagents.importing.sources import Source, parsed
from alpineagents.values.exchange import AgentInfo
from alpineagents.values.outcomes import ToolOutcomeKind
from alpineagents.values.usage import Usage

ZIP = b"PK\x03\x04"
LARGEST_PART = 2**31
_OUTCOMES = {
    "parsing": ToolOutcomeKind.INPUT_ERROR,
    "permission": ToolOutcomeKind.ERROR,
    "approval": ToolOutcomeKind.DENIED,
}
_ATTACHED = ("attachment://", "tc://")


def _recognizes(source: Source) -> bool:
    if source.head.startswith(ZIP):
        return _is_eval(source)
    document = source.document
    return document is not None and isinstance(document.get("eval"), dict) and "version" in document


def _is_eval(source: Source) -> bool:
    try:
        with zipfile.ZipFile(source.path) as log:
            names = set(log.namelist())
    except (zipfile.BadZipFile, OSError):
        return False
    return bool({"header.json", "_journal/start.json"} & names)


def items(source: Source) -> Iterator[Item]:
    """What is in a log, sample by sample."""
    if source.head.startswith(ZIP):
        yield from _items_of_zip(source)
    else:
        log = source.document or {}
        for number, sample in records(log.get("samples")):
            yield from _Sample(source, log, fields(sample), f"samples[{number}]").items()
    source.done()


FORMAT = Format("inspect", "Inspect logs", _recognizes, items)


def _items_of_zip(source: Source) -> Iterator[Item]:
    try:
        with zipfile.ZipFile(source.path) as log:
            names = log.namelist()
            start = "header.json" if "header.json" in names else "_journal/start.json"
            head = parsed(log.read(start).decode("utf-8", "replace"))
            for name in [name for name in names if name.startswith("samples/") and name.endswith(".json")]:
                yield from _part(source, log, name, head)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise ValueError(f"the ZIP file cannot be read: {error}") from error


def _part(source: Source, log: zipfile.ZipFile, name: str, head: dict[str, Any]) -> Iterator[Item]:
    if log.getinfo(name).file_size > LARGEST_PART:
        yield Remark(name, "left out", "it is larger than 2 GB")
        return
    try:
        sample = parsed(log.read(name).decode("utf-8", "replace"))
    except (ValueError, zipfile.BadZipFile) as error:
        yield Remark(name, "left out", f"not JSON ({error})")
        return
    yield from _Sample(source, head, sample, name).items()


class _Sample:
    """One sample of a log."""

    def __init__(self, source: Source, log: dict[str, Any], sample: dict[str, Any], place: str) -> None:
        self.source = source
        self.evaluation = fields(log.get("eval"))
        self.sample = sample
        self.place = place
        transcript = fields(sample.get("transcript"))
        attached = {**fields(transcript.get("content")), **fields(sample.get("attachments"))}
        self.messages = _resolved(sample.get("messages"), attached)
        self.events = [fields(event) for _, event in records(sample.get("events") or transcript.get("events"))]
        self.model = text_or_none(self.evaluation.get("model")) or "unknown"

    def items(self) -> Iterator[Item]:
        mended: list[str] = []
        system, start = system_of(self.messages, mended.append)
        yield self._begun(system)
        yield from [Remark(self.place, "repaired", text) for text in mended]
        at = self._started
        for number, item in list(records(self.messages))[start:]:
            place, message, mended = f"{self.place}.messages[{number}]", fields(item), []
            entry = entry_of(message, mended.append, self._known(number, message))
            if isinstance(entry, str):
                yield Remark(place, "left out", entry)
                continue
            asked_at, ended_at = self._times(message)
            at = max(at, ended_at or at)
            yield Found(self.place, place, entry, at, asked_at)
            yield from [Remark(place, "repaired", text) for text in mended]
        error = fields(self.sample.get("error"))
        if error:
            text = text_of(error.get("message") or error)
            yield Found(self.place, f"{self.place}.error", ErrorEntry(content=text, turn=0))
        yield Ended(self.place)

    def _begun(self, system: str | None) -> Begun:
        sample, evaluation = self.sample, self.evaluation
        task = text_or_none(evaluation.get("task")) or self.source.stem
        of_run = [evaluation.get(name) for name in ("eval_id", "run_id", "task_id", "created", "model")]
        kept = {
            name: sample[name] for name in ("id", "epoch", "uuid", "target", "limit", "metadata") if sample.get(name)
        }
        scores = {name: _score(score) for name, score in fields(sample.get("scores")).items()}
        names = {"task": task, "eval_id": evaluation.get("eval_id"), "run_id": evaluation.get("run_id")}
        return Begun(
            self.place,
            id_text(task, sample.get("id"), sample.get("epoch"), short_hash(text_of(of_run))),
            AgentInfo(
                name=task if set(task) != {"."} else "inspect",
                model=self.model if "/" in self.model else f"unknown/{self.model}",
                system_sha256=hash_of(system),
            ),
            self.source.sha256,
            self.source.size,
            {
                **{key: value for key, value in names.items() if value},
                **kept,
                **({"scores": scores} if scores else {}),
                **({"system": system} if system else {}),
            },
        )

    @property
    def _started(self) -> datetime:
        times = [time_of(event.get("timestamp")) for event in self.events[:1]]
        return next((at for at in times if at), None) or time_of(self.evaluation.get("created")) or self.source.modified

    @cached_property
    def _asked(self) -> dict[str, dict[str, Any]]:
        """What the model was asked, by the ids of the replies."""
        found: dict[str, dict[str, Any]] = {}
        for event in self.events:
            if event.get("event") == "model":
                for message in _choices(event):
                    found[_key_of(message)] = event
        return found

    @cached_property
    def _ran(self) -> dict[str, dict[str, Any]]:
        """The tools that ran, by the ids of their calls."""
        return {str(event.get("id")): event for event in self.events if event.get("event") == "tool"}

    def _known(self, number: int, message: dict[str, Any]) -> Known:
        failed = fields(message.get("error"))
        kind = str(failed.get("type"))
        outcome = _OUTCOMES.get(kind, ToolOutcomeKind.ERROR) if failed else ToolOutcomeKind.DONE
        asked = self._asked.get(_key_of(message), {})
        output = fields(asked.get("output"))
        if not output and message.get("role") == "assistant" and number == self._last_reply:
            output = fields(self.sample.get("output"))
        stop_reason = next((fields(choice).get("stop_reason") for _, choice in records(output.get("choices"))), None)
        model = text_or_none(message.get("model")) or text_or_none(output.get("model"))
        provider = self.model.partition("/")[0]
        return Known(
            provider, _usage_of(fields(output.get("usage"))), model, text_or_none(stop_reason), outcome=outcome
        )

    @cached_property
    def _last_reply(self) -> int:
        replies = [number for number, item in records(self.messages) if fields(item).get("role") == "assistant"]
        return replies[-1] if replies else -1

    def _times(self, message: dict[str, Any]) -> tuple[datetime | None, datetime | None]:
        """When a reply was asked for, or a tool began, and when it ended."""
        if message.get("role") == "tool":
            event = self._ran.get(str(message.get("tool_call_id")), {})
        else:
            event = self._asked.get(_key_of(message), {})
        began = time_of(event.get("timestamp"))
        return began, time_of(event.get("completed")) or began


def _choices(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for _, choice in records(fields(event.get("output")).get("choices")):
        yield fields(fields(choice).get("message"))


def _key_of(message: dict[str, Any]) -> str:
    """By which a reply is known: its id, else what it says."""
    return text_or_none(message.get("id")) or text_of([message.get("content"), message.get("tool_calls")])


def _usage_of(usage: dict[str, Any]) -> Usage:
    return Usage(
        count_of(usage.get("input_tokens")),
        count_of(usage.get("output_tokens")),
        count_of(usage.get("input_tokens_cache_read")),
        count_of(usage.get("input_tokens_cache_write")),
        requests=1,
    )


def _score(score: Any) -> dict[str, Any]:
    return {name: value for name, value in fields(score).items() if name in ("value", "answer", "explanation")}


def _resolved(value: Any, attached: dict[str, Any]) -> Any:
    """The value with what stands apart put where it is referred to."""
    if isinstance(value, str):
        for prefix in _ATTACHED:
            if value.startswith(prefix):
                return attached.get(value.removeprefix(prefix), value)
        return value
    if isinstance(value, dict):
        return {key: _resolved(item, attached) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_resolved(item, attached) for item in cast("list[Any]", value)]
    return value
