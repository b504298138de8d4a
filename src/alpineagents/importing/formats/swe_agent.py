"""Trajectories of SWE-agent (`.traj`), and those of mini-swe-agent: one JSON object for each run.

`history` has the messages as the model saw them; `trajectory` has how long each command took. There is no time of day:
the file's own stands for when the run began. Tokens and dollars are known for the whole run, and count at its last
reply.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from alpineagents.history.entries import StopEntry
from alpineagents.importing.chat import Known, entry_of, system_of
from alpineagents.importing.contents import count_of, fields, hash_of, id_text, records, text_or_none
from alpineagents.importing.formats.base import Format
from alpineagents.importing.items import Begun, Ended, Found, Item, Remark
from alpineagents.importing.sources import Source, parsed
from alpineagents.values.exchange import AgentInfo
from alpineagents.values.outcomes import StoppedByUntil
from alpineagents.values.usage import Usage

LONGEST_S = 1e6


def _recognizes(source: Source) -> bool:
    document = source.document
    if document is None:
        return False
    if "trajectory_format" in document:
        return isinstance(document.get("messages"), list)
    roles = [fields(item).get("role") for _, item in records(document.get("history"))]
    return any(roles) or ("trajectory" in document and "history" in document)


def items(source: Source) -> Iterator[Item]:
    """What is in a trajectory."""
    return _Trajectory(source).items()


FORMAT = Format("swe-agent", "SWE-agent trajectories", _recognizes, items)


class _Trajectory:
    """One file."""

    def __init__(self, source: Source) -> None:
        self._source = source
        data = source.document or {}
        self._name = "history" if isinstance(data.get("history"), list) else "messages"
        self._messages = [fields(item) for _, item in records(data.get(self._name))]
        self._info = fields(data.get("info"))
        self._config = _object(data.get("replay_config")) or fields(self._info.get("config"))
        self._seconds = [fields(step).get("execution_time") for _, step in records(data.get("trajectory"))]
        self._provider, self._model = _model_of(self._config)

    def items(self) -> Iterator[Item]:
        mended: list[str] = []
        system, start = system_of(self._messages, mended.append)
        yield self._begun(system)
        at, results = self._source.modified, 0
        last = max([number for number, it in enumerate(self._messages) if it.get("role") == "assistant"], default=-1)
        for number, message in enumerate(self._messages):
            place = f"{self._name}[{number}]"
            if number >= start:
                known = Known(self._provider, self._usage(number == last), self._model)
                entry = entry_of(message, mended.append, known)
                if message.get("role") == "tool":
                    at += self._took(results)
                    results += 1
                yield Remark(place, "left out", entry) if isinstance(entry, str) else Found("run", place, entry, at)
            yield from [Remark(place, "repaired", text) for text in mended]
            mended.clear()
        status = text_or_none(self._info.get("exit_status"))
        if status is not None:
            stop = StopEntry(content=StoppedByUntil(id_text(status) or "end"), turn=0)
            yield Found("run", "info.exit_status", stop, at)
        yield Ended("run")
        self._source.done()

    def _begun(self, system: str | None) -> Begun:
        problem = fields(self._config.get("problem_statement"))
        said = {
            "problem": problem.get("id"),
            "exit_status": self._info.get("exit_status"),
            "submission": self._info.get("submission"),
            "model_stats": self._info.get("model_stats"),
            "system": system,
        }
        return Begun(
            "run",
            id_text(self._source.stem, self._source.sha256[:8]),
            AgentInfo(
                name="swe-agent",
                model=f"{self._provider}/{self._model or 'unknown'}",
                system_sha256=hash_of(system),
            ),
            self._source.sha256,
            self._source.size,
            {name: value for name, value in said.items() if value is not None},
        )

    def _usage(self, last: bool) -> Usage:
        stats = fields(self._info.get("model_stats"))
        cost = stats.get("instance_cost")
        dollars = float(cost) if isinstance(cost, int | float) and cost > 0 else None
        if not last:
            return Usage(requests=1, cost=None if dollars is None else 0.0)
        sent, received = count_of(stats.get("tokens_sent")), count_of(stats.get("tokens_received"))
        return Usage(sent, received, requests=1, cost=dollars)

    def _took(self, number: int) -> timedelta:
        seconds = self._seconds[number] if number < len(self._seconds) else None
        if isinstance(seconds, int | float) and 0 <= seconds < LONGEST_S:
            return timedelta(seconds=seconds)
        return timedelta(0)


def _object(value: Any) -> dict[str, Any]:
    """An object, or one that stands there as JSON text."""
    if not isinstance(value, str):
        return fields(value)
    try:
        return parsed(value)
    except ValueError:
        return {}


def _model_of(config: dict[str, Any]) -> tuple[str, str | None]:
    """The provider and the model."""
    settings = fields(fields(config.get("agent")).get("model")) or fields(config.get("model"))
    name = text_or_none(settings.get("name")) or text_or_none(settings.get("model_name"))
    if name is None:
        return "unknown", None
    if "/" in name:
        provider, _, model = name.rpartition("/")
        return provider.partition("/")[0], model
    known = {"claude": "anthropic", "gpt": "openai", "o1": "openai", "o3": "openai", "gemini": "google"}
    return next((provider for start, provider in known.items() if name.startswith(start)), "unknown"), name
