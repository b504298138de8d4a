"""What a Store keeps beside the entries: a small dict per State, for listings that read no entry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from alpineagents.errors import explain
from alpineagents.history.codec import FORMAT, READS, decode_stopped, encode_stopped
from alpineagents.history.codec_checks import time_text
from alpineagents.history.value import Value
from alpineagents.values.content import Message, TextBlock
from alpineagents.values.outcomes import Stopped

PREVIEW = 2_000


class Info(dict[str, Any]):
    """What `info_of` made: each value is of its column's type. It copies and pickles as a plain dict."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (dict, (dict(self),))


def info_of(
    value: Value, forked: tuple[str, int] | None = None, times: tuple[str | None, str | None] | None = None
) -> Info:
    """What is known of a State at one moment, as JSON: the columns of its row in `states`, by the same names.

    Args:
        times: `created_at` and `updated_at` as text, for who has them already.
    """
    first, usage, run, link = value.first_user, value.usage, value.run, value.link
    created_at, updated_at = times or (_time_text(value.created_at), _time_text(value.updated_at))
    info = Info(
        v=FORMAT,
        first_message=(_start_of(first) or None) if first else None,
        created_at=created_at,
        updated_at=updated_at,
        turn=value.turn,
        stop_seq=value.stop_seq,
        finished=value.finished,
        parent_id=link[0] if link else None,
        parent_call_id=link[1] if link else None,
        agent=run.name if run else None,
        model=run.model if run else None,
        status=value.status,
        answer=answer_text(value.answer),
        entry_count=len(value.history),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        requests=usage.requests,
        cost=usage.cost,
        error_count=value.error_count,
        stopped=encode_stopped(value.stopped) if value.stopped else None,
    )
    if forked is not None:
        info["forked_from"], info["forked_at"] = forked
    return info


def _time_text(at: datetime | None) -> str | None:
    return None if at is None else time_text(at)


def _start_of(message: Message) -> str:
    """The first 2,000 characters of a message, without joining all of a long one at every write."""
    start = ""
    for block in message.content:
        if isinstance(block, TextBlock):
            start += block.text[: PREVIEW - len(start)]
    return start


def answer_text(answer: Any) -> str | None:
    """An answer as text, at most 2,000 characters: a `str` as it is, anything else as JSON."""
    if answer is None or isinstance(answer, str):
        return answer and answer[:PREVIEW]
    return json.dumps(answer, ensure_ascii=False)[:PREVIEW]


@dataclass(frozen=True)
class Record:
    """What a Store has of one State: all entries in order, and the latest info."""

    entries: list[dict[str, Any]]
    info: dict[str, Any]


@dataclass(frozen=True)
class StateInfo:
    """One saved State in a listing, as of its last save.

    Attributes:
        first_message: The first 2,000 characters of the first user message; `None` without text.
        created_at, updated_at: When its first and last saved entries were recorded, UTC.
        parent_id: The State whose tool call first ran it, for a subagent.
    """

    id: str
    first_message: str | None
    created_at: datetime | None
    updated_at: datetime | None
    turn: int
    stopped: Stopped | None
    finished: bool
    parent_id: str | None = None

    @classmethod
    def from_info(cls, state_id: str, info: Mapping[str, Any]) -> StateInfo:
        """The listing of the `info` a Store was given; for those who write a Store.

        Raises:
            ValueError: The info has a version this library does not read, or lacks keys.
        """
        check_version(state_id, info)
        missing = [name for name in _LISTED if name not in info]
        if missing:
            raise ValueError(
                explain(f"the saved info of State {state_id!r} lacks {', '.join(missing)}", "store info whole")
            )
        return cls(
            id=state_id,
            first_message=info["first_message"],
            created_at=_time(info["created_at"]),
            updated_at=_time(info["updated_at"]),
            turn=info["turn"],
            stopped=None if info["stopped"] is None else decode_stopped(info["stopped"]),
            finished=info["finished"],
            parent_id=info["parent_id"],
        )


_LISTED = ("first_message", "created_at", "updated_at", "turn", "stopped", "finished", "parent_id")


def check_version(state_id: str, info: object) -> None:
    """Refuse what was saved in a form this library does not read.

    Raises:
        ValueError: It is no mapping, has no version, or has another one.
    """
    problem = f"the saved info of State {state_id!r}"
    if not isinstance(info, Mapping):
        raise ValueError(
            explain(f"{problem} is {type(info).__name__}, not a mapping", "restore the file from a backup")
        )
    version: Any = info.get("v")  # type: ignore[reportUnknownMemberType]  # it may be a mapping of anything
    if isinstance(version, bool) or not isinstance(version, int):
        raise ValueError(explain(f"{problem} has no version (v is {version!r})", "restore the file from a backup"))
    if version not in READS:
        age, fix = ("newer", "update alpineagents") if version > FORMAT else ("older", "use the version that wrote it")
        raise ValueError(
            explain(f"{problem} has version {version}, which is {age} than this library reads ({FORMAT})", fix)
        )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
