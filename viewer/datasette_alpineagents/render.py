"""What a page shows of entries: words, previews and turns. Pure: rows go in, plain values come out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from alpineagents.history.entries import (
    ContextChangeEntry,
    ErrorEntry,
    ExchangeEntry,
    ExtraDataEntry,
    MessageEntry,
    ModelEventEntry,
    ModelReplyEntry,
    ModelRequestEntry,
    RunStartEntry,
    StopEntry,
    ToolResultEntry,
)
from alpineagents.values.content import Image, RawBlock, TextBlock, ToolCall, ToolResultContent
from alpineagents.values.display import result_size, result_text
from datasette_alpineagents.queries import FAILED, Row
from datasette_alpineagents.rows import Shown, start_of_text
from datasette_alpineagents.text import cut_text, one_line, passages, plain, preview
from datasette_alpineagents.words import exact, offset, seconds_between

LONG_TEXT = 1_400
ARGS = 240
QUIET_LINES, LOUD_LINES = 4, 8
_LOUD_KINDS = ("error", "human", "ask", "context_change", "stop", "model_event")


class Renderer:
    """Makes entries of one run ready for a page.

    Args:
        started: When the run began, as the file has it.
        at: When each entry was written, for those that a later one answers.
        children: The States that the run started, by id.
    """

    def __init__(self, started: str | None, at: Mapping[int, str], children: Mapping[str, Row]) -> None:
        self._started = started
        self._at = at
        self._children = children

    def entry(self, shown: Shown) -> Row:
        """One entry: always its number, kind and times, and what is fit for its kind."""
        view: Row = {
            "seq": shown.seq,
            "kind": shown.kind,
            "turn": shown.turn,
            "at": exact(shown.at),
            "offset": offset(seconds_between(self._started, shown.at)),
            "closes": shown.closes,
            "took_s": self._took(shown),
            "loud": shown.kind in _LOUD_KINDS or shown.problem is not None,
        }
        if shown.problem is not None:
            return {**view, "form": "damaged", "problem": plain(shown.problem), "start": plain(shown.start[:600])}
        if shown.entry is None:
            start = preview(start_of_text(shown.start), QUIET_LINES, size=shown.size)
            return {**view, "form": "large", "preview": start, "size": shown.size}
        return {**view, **_FORMS[type(shown.entry)](self, shown.entry)}

    def _took(self, shown: Shown) -> float | None:
        if shown.closes is None or shown.kind not in ("model_reply", "tool_result"):
            return None
        return seconds_between(self._at.get(shown.closes), shown.at)

    def _message(self, entry: MessageEntry) -> Row:
        return {"form": "message", **_blocks(entry.message.content)}

    def _reply(self, entry: ModelReplyEntry) -> Row:
        reply = entry.content
        usage = reply.usage
        return {
            "form": "reply",
            **_blocks(reply.message.content),
            "calls": [call_view(call) for call in reply.tool_calls],
            "input": usage.input_tokens,
            "cached": usage.cache_read_tokens + usage.cache_write_tokens,
            "output": usage.output_tokens,
            "cost": usage.cost,
            "model": plain(reply.model or ""),
            "cut_off": reply.cut_off,
            "stop_reason": plain(reply.stop_reason or ""),
            "loud": reply.cut_off,
        }

    def _result(self, entry: ToolResultEntry) -> Row:
        outcome = str(entry.outcome)
        return {
            "form": "result",
            "call": call_view(entry.call),
            "outcome": outcome,
            "failed": outcome in FAILED,
            "late": entry.late,
            **result_view(entry.content, QUIET_LINES if outcome == "done" else LOUD_LINES),
            "children": [self._child(id) for id in entry.child_ids],
            "loud": outcome != "done" or entry.late or bool(entry.child_ids),
        }

    def _child(self, id: str) -> Row:
        row = self._children.get(id)
        return {"id": id, "there": row is not None, **(row or {})}

    def _error(self, entry: ErrorEntry) -> Row:
        call = None if entry.call is None else call_view(entry.call)
        return {"form": "error", "text": plain(entry.content[:LONG_TEXT]), "call": call}

    def _exchange(self, entry: ExchangeEntry) -> Row:
        asked, answer = entry.content.question, entry.content.answer
        said = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=repr)
        return {"form": "exchange", "question": plain(asked[:LONG_TEXT]), "answer": plain(str(said)[:LONG_TEXT])}

    def _change(self, entry: ContextChangeEntry) -> Row:
        change = entry.content
        return {
            "form": "change",
            "change": change.kind,
            "before": change.before_tokens,
            "after": change.after_tokens,
            "restored_to": change.restored_to,
            "count": len(change.messages),
            "loud": change.kind != "import",
        }

    def _extra(self, entry: ExtraDataEntry) -> Row:
        set_ = [(plain(name), one_line(json_text(value), 120)) for name, value in entry.content.items()]
        return {"form": "extra", "set": set_, "removed": [plain(name) for name in entry.removed]}

    def _start(self, entry: RunStartEntry) -> Row:
        info = entry.content
        return {
            "form": "start",
            "model": plain(info.model),
            "agent": plain(info.name or ""),
            "tools": [plain(name) for name in info.tools],
            "servers": [plain(name) for name in info.mcp_servers],
            "system": info.system_sha256 or "",
        }

    def _stop(self, entry: StopEntry) -> Row:
        return {"form": "stop", "text": "withdrawn" if entry.content is None else plain(str(entry.content))}

    def _event(self, entry: ModelEventEntry) -> Row:
        return {"form": "event", "event": plain(entry.content.kind), "text": plain(entry.content.message[:LONG_TEXT])}

    def _request(self, entry: ModelRequestEntry) -> Row:
        return {"form": "request", "model": plain(entry.content)}


_FORMS: dict[type[Any], Callable[[Renderer, Any], Row]] = {
    MessageEntry: Renderer._message,  # noqa: SLF001  # the methods of the class above
    ModelReplyEntry: Renderer._reply,  # noqa: SLF001
    ToolResultEntry: Renderer._result,  # noqa: SLF001
    ErrorEntry: Renderer._error,  # noqa: SLF001
    ExchangeEntry: Renderer._exchange,  # noqa: SLF001
    ContextChangeEntry: Renderer._change,  # noqa: SLF001
    ExtraDataEntry: Renderer._extra,  # noqa: SLF001
    RunStartEntry: Renderer._start,  # noqa: SLF001
    StopEntry: Renderer._stop,  # noqa: SLF001
    ModelEventEntry: Renderer._event,  # noqa: SLF001
    ModelRequestEntry: Renderer._request,  # noqa: SLF001
}


def call_view(call: ToolCall) -> Row:
    """A call: its name, and its arguments as a person reads them."""
    args = ", ".join([f"{name}={json_text(value)}" for name, value in call.args.items()])
    shown, cut = cut_text(args, ARGS)
    return {"name": plain(call.name), "args": one_line(shown, ARGS), "cut": cut, "id": plain(call.id)}


def result_view(content: ToolResultContent, lines: int) -> Row:
    """What a tool returned: the start of its text, its size, its images."""
    return {
        "preview": preview(result_text(content), lines),
        "size": result_size(content),
        "images": [image.data.hex() for image in content if isinstance(image, Image)]
        if isinstance(content, tuple)
        else [],
    }


def json_text(value: Any) -> str:
    """A value as JSON in one line."""
    return json.dumps(value, ensure_ascii=False, default=_plain_value)


def _plain_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    return list(cast("Sequence[Any]", value)) if isinstance(value, Sequence) else repr(value)


def _blocks(content: Sequence[Any]) -> Row:
    text = "".join([block.text for block in content if isinstance(block, TextBlock)])
    start, cut = cut_text(text, LONG_TEXT)
    return {
        "passages": passages(start),
        "cut": cut,
        "size": len(text.encode("utf-8", "surrogatepass")),
        "images": [block.data.hex() for block in content if isinstance(block, Image)],
        "raw": [plain(block.provider) for block in content if isinstance(block, RawBlock)],
    }


def turns(entries: Sequence[Row], last_turn: int | None) -> list[Row]:
    """The entries by turn, in order. What stands before the first request is turn 0."""
    found: list[Row] = []
    for entry in entries:
        if not found or found[-1]["number"] != entry["turn"]:
            found.append({"number": entry["turn"], "entries": []})
        found[-1]["entries"].append(entry)
    for index, turn in enumerate(found):
        edge = turn["number"] == 0 or index == 0 or turn["number"] == last_turn
        turn["quiet"] = not edge and not any([entry["loud"] for entry in turn["entries"]])
        turn["offset"] = turn["entries"][0]["offset"]
        turn["reply"] = next((entry for entry in turn["entries"] if entry.get("form") == "reply"), None)
        turn["results"] = [entry for entry in turn["entries"] if entry.get("form") == "result"]
        turn["request"] = next((entry["seq"] for entry in turn["entries"] if entry["kind"] == "model_request"), None)
    return found


def worth_a_look(entries: Sequence[Row]) -> list[tuple[Row, str, str]]:
    """The entries that stand out, each with the word for its colour and a sentence."""
    found: list[tuple[Row, str, str]] = []
    for entry in entries:
        word, text = _notable(entry)
        if text:
            found.append((entry, word, text))
    return found


def _notable(entry: Row) -> tuple[str, str]:  # noqa: PLR0911  # one for each kind of thing
    match entry.get("form"):
        case "error":
            return "failed", f"{entry['call']['name'] + ': ' if entry['call'] else ''}{one_line(entry['text'], 90)}"
        case "result" if entry["outcome"] != "done":
            return entry["outcome"], f"{entry['call']['name']} {entry['outcome']}"
        case "result" if entry["late"]:
            return "interrupted", f"{entry['call']['name']} came late"
        case "exchange" if entry["kind"] == "human":
            return "", f"a person said {one_line(entry['answer'], 60)}"
        case "change" if entry["change"] != "import":
            return "", change_text(entry)
        case "damaged":
            return "failed", "this row is damaged"
        case "reply" if entry["cut_off"]:
            return "limit", "the reply was cut off"
        case _:
            return "", ""


def change_text(entry: Row) -> str:
    """A change of the context in words."""
    if entry["change"] == "restore":
        return f"restored to the first {entry['restored_to']} entries"
    return f"{entry['change'].replace('_', ' ')}: {entry['before']:,} → {entry['after']:,} tokens"
