"""How a run stands: its word, the sentence on top of its page, and the reason in the list. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from alpineagents.history import wording
from alpineagents.values.display import format_call
from datasette_alpineagents.in_flight import InFlight
from datasette_alpineagents.queries import Row
from datasette_alpineagents.text import one_line
from datasette_alpineagents.words import age, plural

# In the order of worry.
STATUSES = ("running", "stalled", "failed", "limit", "permission", "interrupted", "idle", "answered", "finished")
LIVE = ("running", "stalled")
OUTCOMES = ("error", "input_error", "aborted", "interrupted", "denied", "cancelled", "done")
_LONG = 110


def reason(run: Row, error: Row | None, waiting: Sequence[InFlight], silent_s: float) -> str:
    """The second line of a run in the list: why it stands as it does, or how its answer begins."""
    status = run["status"]
    if status == "stalled":
        return f"No entry for {age(silent_s)}. In flight: {_names(waiting)}. May or may not have run."
    if status == "running":
        return f"In {_first(waiting)} for {age(silent_s)}" if waiting else "Between two steps"
    if status in ("failed", "interrupted") and error is not None:
        return f"Turn {error['turn']}: {_error_text(error['text'])}"
    if status == "idle":
        return f"{plural(run['entry_count'], 'entry', 'entries')}, never run" if not run["turn"] else "Not running"
    if status in ("limit", "permission"):
        return _capital(one_line(run["stopped"] or status))
    return one_line(run["answer"] or run["stopped"] or "")


def _error_text(text: Any) -> str:
    line = one_line(text or "no text")
    if line == "KeyboardInterrupt":
        return "Ctrl+C"
    if line == wording.STOPPED_WAITING:
        return "the process stopped while waiting for the model"
    return line


def _first(waiting: Sequence[InFlight]) -> str:
    call = waiting[0].call
    more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
    return (
        one_line(format_call(call), 60) if call else f"a request to {one_line(waiting[0].model or 'the model')}"
    ) + more


def _names(waiting: Sequence[InFlight]) -> str:
    names = [one_line(item.call.name, 40) if item.call else "the model" for item in waiting[:4]]
    where = f" of e{waiting[0].seq}" if waiting else ""
    return (", ".join(names) or "nothing") + ("…" if len(waiting) > len(names) else "") + where


def headline(run: Row, error: Row | None, waiting: Sequence[InFlight], silent_s: float) -> str:
    """The sentence that says how a run stands."""
    status = run["status_now"]
    if status == "running":
        return _running(waiting)
    if status == "stalled":
        return f"Stalled: nothing recorded for {age(silent_s)}"
    if status in ("failed", "interrupted"):
        word = _capital(status)
        return f"{word} in turn {error['turn']}: {_cut(_error_text(error['text']))}" if error else word
    if status == "idle":
        return "Idle: no run is under way" if run["turn"] else "Idle: there are messages, but no run yet"
    return _stopped(status, one_line(run["stopped"] or ""))


def _running(waiting: Sequence[InFlight]) -> str:
    if not waiting:
        return "Running: between two steps"
    if waiting[0].call is None:
        return f"Running: waiting for {one_line(waiting[0].model or 'the model', 60)}"
    names = ", ".join([one_line(item.call.name, 40) for item in waiting[:3] if item.call])
    return f"Running: in {names}" + (f" and {len(waiting) - 3} more" if len(waiting) > 3 else "")  # noqa: PLR2004


def _stopped(status: str, stopped: str) -> str:
    if status == "answered":
        if stopped in ("stopped by waiting_for_user", ""):
            return "Stopped: the model answered and waits for you"
        return f"Stopped: {stopped.removeprefix('stopped ')}"
    if status == "finished":
        return "Finished: the work is done"
    if status == "limit":
        return f"Stopped at the limit of {stopped.rpartition(' ')[2]} turns"
    if status == "permission":
        return f"Stopped: {_cut(stopped.removeprefix('stopped by permission '))} denied a call"
    return _capital(status or "unknown")


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
