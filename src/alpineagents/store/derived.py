"""The generated columns of `entries`, said again in Python, so that `check` can compare what SQLite shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from alpineagents.history.codec import decode_stopped

GENERATED = ("tool", "call_id", "outcome", "late", "is_error", "model", "text")

_PREVIEW = 500


def generated(data: dict[str, Any]) -> tuple[Any, ...]:
    """The values of `GENERATED` for the JSON of an entry that can be decoded."""
    kind: str = data["kind"]
    call: dict[str, Any] = data.get("call") or {}
    outcome = data["outcome"] if kind == "tool_result" else None
    late = int(data.get("late", False)) if kind == "tool_result" else None
    is_error = int(outcome != "done") if kind == "tool_result" else 1 if kind == "error" else None
    text = _TEXTS.get(kind, _shown)(data["content"])
    return call.get("name"), call.get("id"), outcome, late, is_error, _model(kind, data["content"]), cut(text)


def cut(text: str | None) -> str | None:
    """The first 500 characters."""
    return text if text is None else text[:_PREVIEW]


def _model(kind: str, content: Any) -> str | None:
    if kind == "model_request":
        return content
    return content.get("model") if kind in ("model_reply", "run_start") else None


def _shown(content: Any) -> str:
    if isinstance(content, str):
        return content
    return next((block["text"] for block in content[:2] if "text" in block), "(image)")


def _reply(content: Any) -> str | None:
    blocks = content["message"]["content"]
    if isinstance(blocks, str):
        return blocks
    found = [block[key] for key in ("text", "name") for block in blocks[:3] if key in block]
    return found[0] if found else None


def _stop(content: Any) -> str:
    return "(cleared)" if content is None else str(decode_stopped(content))


_TEXTS: dict[str, Callable[[Any], str | None]] = {
    "model_reply": _reply,
    "ask": lambda content: content["question"],
    "human": lambda content: content["question"],
    "model_event": lambda content: content["message"],
    "context_change": lambda content: content.get("summary", content["kind"]),
    "run_start": lambda content: content.get("name", content["model"]),
    "stop": _stop,
    "extra_data": lambda content: json.dumps(content, ensure_ascii=False, separators=(",", ":")),
}
