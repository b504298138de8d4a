"""Between the JSON form and the rows of the file: entries, images, the row of a State."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from json import encoder as json_encoder
from operator import itemgetter
from typing import Any, cast

from alpineagents.errors import explain
from alpineagents.history.codec import decode_stopped, image_blocks
from alpineagents.store.info import PREVIEW, Info

ENTRY_COLUMNS = ("state_id", "seq", "kind", "turn", "at", "closes", "block", "data", "original")
_OWN_COLUMNS = frozenset({"seq", "kind", "turn", "at", "closes", "block"})
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONE = "\ufffd"
# In `original` a surrogate is this mark and its four hex digits, and so is the mark itself: as escapes of JSON, the two
# halves of a pair that stood apart would come back as one character.
_MARK = "\ue000"
_TO_MARK = re.compile("[\ud800-\udfff\ue000]")
_MARKED = re.compile("\ue000([0-9a-f]{4})")


def _encoder(ensure_ascii: bool) -> Callable[[Any], str]:
    encoder = json.JSONEncoder(ensure_ascii=ensure_ascii, check_circular=False, allow_nan=False, separators=(",", ":"))
    c_make_encoder: Any = getattr(json_encoder, "c_make_encoder", None)
    if c_make_encoder is None:  # not CPython
        return encoder.encode
    # What `encode` makes anew at each call, which for a small entry takes as long as the rest.
    text = json_encoder.encode_basestring_ascii if ensure_ascii else json_encoder.encode_basestring
    make: Any = c_make_encoder(None, encoder.default, text, None, ":", ",", False, False, False)
    return lambda value: "".join(make(value, 0))


_compact, _ascii = _encoder(ensure_ascii=False), _encoder(ensure_ascii=True)

# The columns of `states` that hold the info as it is, with what they take, in the order of `STATE_COLUMNS`.
_PLAIN: dict[str, type] = {
    "v": int,
    "first_message": str,
    "created_at": str,
    "updated_at": str,
    "turn": int,
    "stop_seq": int,
    "finished": bool,
    "parent_id": str,
    "parent_call_id": str,
    "agent": str,
    "model": str,
    "status": str,
    "answer": str,
    "entry_count": int,
    "input_tokens": int,
    "output_tokens": int,
    "cache_read_tokens": int,
    "cache_write_tokens": int,
    "requests": int,
    "cost": float,
    "error_count": int,
}
STATE_COLUMNS = (*_PLAIN, "stopped", "stop", "more")
_INFO_KEYS = {*_PLAIN, "stopped"}
_FORK_KEYS = {"forked_from", "forked_at"}
_AS_MADE = (
    (*_PLAIN, "stopped"),
    (*_PLAIN, "stopped", "forked_from", "forked_at"),
)  # the keys of `info_of`, in its order
_PICK_COUNTS = itemgetter(
    *[index for index, (name, kind) in enumerate(_PLAIN.items()) if kind is int and name != "stop_seq"]
)


@dataclass(frozen=True)
class Blob:
    """The bytes of an image, kept once under their hash."""

    sha256: str
    media_type: str
    data: bytes


def entry_row(state_id: str, entry: Mapping[str, Any], blobs: list[Blob]) -> tuple[Any, ...]:
    """The row of an entry; its images go to `blobs`."""
    data = {key: value for key, value in entry.items() if key not in _OWN_COLUMNS}
    may_have_images = not isinstance(entry.get("content"), str) and entry["kind"] in _WITH_IMAGES
    if may_have_images and next(iter(image_blocks(entry)), None) is not None:
        data = copy.deepcopy(data)
        for block in image_blocks({**data, "kind": entry["kind"]}):
            blobs.append(_blob(block))
    text, original = _compact(data), None
    if not text.isascii() and _SURROGATE.search(text):
        text, original = _SURROGATE.sub(_LONE, text), _ascii(_in_texts(data, _marked))
    columns = (entry["kind"], entry["turn"], entry["at"], entry.get("closes"), entry.get("block"))
    return (state_id, entry["seq"], *columns, text, original)


_WITH_IMAGES = frozenset({"user", "notice", "tool_result", "model_reply", "context_change"})


def _blob(block: dict[str, Any]) -> Blob:
    """Take the bytes out of an image block, which refers to them by hash from then on."""
    data = base64.b64decode(block.pop("data"))
    sha256 = hashlib.sha256(data).hexdigest()
    block["sha256"] = sha256
    return Blob(sha256, block["media_type"], data)


def entry_data(state_id: str, row: Sequence[Any], bytes_of: Mapping[str, bytes]) -> dict[str, Any]:
    """The JSON form of an entry from its row (`ENTRY_COLUMNS` without `state_id`).

    Raises:
        ValueError: The row is damaged: no JSON, or an image whose bytes are not in the file.
    """
    seq, kind, turn, at, closes, block, text, original = row
    fields = loads(text) if original is None else original_fields(original)
    if not isinstance(fields, dict):
        raise ValueError(
            explain(f"State {state_id!r}: entry {seq} is damaged, its data is not a JSON object", "restore a backup")
        )
    own: dict[str, Any] = {"seq": seq, "kind": kind, "turn": turn, "at": at}
    if closes is not None:
        own["closes"] = closes
    if block is not None:
        own["block"] = block
    # Again behind the fields, so that a damaged `data` cannot pass for another entry.
    data: dict[str, Any] = {**own, **fields, **own}
    if kind in _WITH_IMAGES and '"sha256"' in text:
        for image in image_blocks(data):
            _put_back(state_id, seq, image, bytes_of)
    return data


def original_fields(original: str) -> Any:
    """What a row really holds whose `data` could not hold it, or `None` if it is damaged."""
    return _in_texts(loads(original), _unmarked)


def _marked(text: str) -> str:
    return _TO_MARK.sub(lambda found: f"{_MARK}{ord(found[0]):04x}", text)


def _unmarked(text: str) -> str:
    return _MARKED.sub(lambda found: chr(int(found[1], 16)), text)


def _in_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The JSON value with every text in it changed, those of keys too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _in_texts(item, change) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_in_texts(item, change) for item in cast("list[Any]", value)]
    return value


def _put_back(state_id: str, seq: int, image: dict[str, Any], bytes_of: Mapping[str, bytes]) -> None:
    sha256 = image.pop("sha256", None)
    if sha256 is None:
        return
    data = bytes_of.get(sha256) if isinstance(sha256, str) else None
    if data is None:
        raise ValueError(explain(f"State {state_id!r}: entry {seq} has an image {sha256} that is not in the file"))
    image["data"] = base64.b64encode(data).decode("ascii")


def hashes(rows: Iterable[Sequence[Any]]) -> set[str]:
    """The hashes of all images that entry rows (`ENTRY_COLUMNS` without `state_id`) may refer to."""
    found: set[str] = set()
    for row in rows:
        if row[1] in _WITH_IMAGES and '"sha256"' in row[6]:
            found.update(re.findall(r'"sha256":"([0-9a-f]{64})"', row[6]))
    return found


def loads(text: str) -> Any:
    """The JSON of a row, or `None` if it is damaged."""
    from pydantic_core import from_json

    try:
        return from_json(text)
    except ValueError:
        pass
    # pydantic_core is the faster one, but refuses escaped lone surrogates and deep nesting.
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def state_row(info: Mapping[str, Any], entry_count: int) -> tuple[Any, ...]:
    """The values of `STATE_COLUMNS` for an info. One that these columns cannot give back is kept whole in `more`."""
    row, fits = _plain_row(info, entry_count)
    stopped = info.get("stopped")
    text = _stopped_text(stopped)
    stop = None if stopped is None else clean(_compact(stopped))
    if stop is not None and len(stop) > PREVIEW and info.get("stop_seq") is not None:
        stop = None
    more = None if fits else clean(_compact(dict(info)))
    return (*row, text, stop, more)


def _plain_row(info: Mapping[str, Any], entry_count: int) -> tuple[list[Any], bool]:
    """The values of the plain columns, and whether they can give the info back."""
    if type(info) is Info and tuple(info) in _AS_MADE and info["entry_count"] == entry_count:
        row = [clean(value) if type(value) is str else value for value in info.values()][: len(_PLAIN)]
        counts = _PICK_COUNTS(row)
        if type(info["cost"]) is not int and max(counts) < _BEYOND_SQL and min(counts) >= -_BEYOND_SQL:
            return row, True
    row = [_storable(info.get(name), kind) for name, kind in _PLAIN.items()]
    fits = info.keys() - _FORK_KEYS == _INFO_KEYS and info["entry_count"] == entry_count
    fits = fits and not any([kept is None and info[name] is not None for name, kept in zip(_PLAIN, row, strict=True)])
    row[_COUNT] = entry_count
    return row, fits


_COUNT = list(_PLAIN).index("entry_count")


def _storable(value: Any, kind: type) -> Any:
    """The value as a column of this kind takes it, or `None`: SQL has no integer beyond 64 bits."""
    if kind is str and isinstance(value, str):
        return clean(value)
    if kind is float and type(value) is int and abs(value) < _EXACT_AS_FLOAT:
        return float(value)
    if type(value) is not kind or (kind is int and not -_BEYOND_SQL <= value < _BEYOND_SQL):
        return None
    return value


_EXACT_AS_FLOAT = 2**53
_BEYOND_SQL = 2**63


def clean(text: str) -> str:
    """A text that SQLite takes: a lone surrogate becomes U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub(_LONE, text)


def _stopped_text(stopped: Any) -> str | None:
    if stopped is None:
        return None
    try:
        return clean(str(decode_stopped(stopped)))[:PREVIEW]
    except ValueError:
        return None


def info_of_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """The info that a row of `states` was made of; `row["stop"]` is the whole stop reason."""
    if row["more"] is not None:
        info: dict[str, Any] = {k: v for k, v in json.loads(row["more"]).items() if k not in _FORK_KEYS}
    else:
        info = {name: row[name] for name in _PLAIN}
        info["finished"] = None if info["finished"] is None else bool(info["finished"])
        info["stopped"] = None if row["stop"] is None else json.loads(row["stop"])
    if row["forked_from"] is not None:
        info["forked_from"], info["forked_at"] = row["forked_from"], row["forked_at"]
    return info
