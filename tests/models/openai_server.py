"""What a Chat Completions server says, as it is on the wire."""

from __future__ import annotations

import json
from typing import Any

from models.model_server import Answer

DONE = b"data: [DONE]\n\n"


def refusal(status: int, message: str, headers: dict[str, str] | None = None, **error: Any) -> Answer:
    body = json.dumps({"error": {"message": message, **error}}).encode()
    return Answer([body], status, "application/json", headers or {})


def chunk(finish: str | None = None, **delta: Any) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return f"data: {json.dumps({'model': 'large-1', 'choices': choices})}\n\n".encode()


def counts(prompt: int = 10, completion: int = 5) -> bytes:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    return f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n".encode()


def call(name: str, arguments: str, id: str = "c1") -> bytes:
    return chunk(tool_calls=[{"index": 0, "id": id, "function": {"name": name, "arguments": arguments}}])


def told(*pieces: bytes, finish: str = "stop") -> Answer:
    """A whole answer."""
    return Answer([*pieces, chunk(finish), counts(), DONE])
