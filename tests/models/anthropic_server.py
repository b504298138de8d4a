"""What the Anthropic API says, as it is on the wire."""

from __future__ import annotations

import json
from typing import Any

from models.model_server import Answer


def refusal(status: int, message: str, kind: str = "some_error", **headers: str) -> Answer:
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer([json.dumps(body).encode()], status, "application/json", named)


def stream(*events: dict[str, Any]) -> bytes:
    """The events as they are on the wire."""
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n".encode() for event in events
    )


def start(model: str | None = "claude-opus-5-20260101", **usage: Any) -> dict[str, Any]:
    counts = {"input_tokens": 10, "output_tokens": 1, **usage}
    return {"type": "message_start", "message": {"id": "m", "role": "assistant", "model": model, "usage": counts}}


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": ""}, *deltas)


def call(
    index: int, *pieces: str, kind: str = "tool_use", name: str = "look", start: Any = None
) -> list[dict[str, Any]]:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    begun = {"type": kind, "id": f"toolu_{index}", "name": name, "input": {} if start is None else start}
    return block(index, begun, *deltas)


def stop(reason: str | None = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    counts = {"output_tokens": 5, **usage}
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": counts},
        {"type": "message_stop"},
    ]


def told(*parts: list[dict[str, Any]], stop_reason: str | None = "end_turn") -> Answer:
    """A whole answer made of blocks."""
    events = [start(), *(event for part in parts for event in part), *stop(stop_reason)]
    return Answer([stream(*events)])
