from __future__ import annotations

import base64
import hashlib
import json
import pickle
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import filled
import histories
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import MAX_INT, entries, json_values, states, texts

from alpineagents.history.codec import decode, encode
from alpineagents.history.entries import HistoryEntry, MessageEntry
from alpineagents.history.value import EMPTY
from alpineagents.state import State, journal_of
from alpineagents.store import SqliteStore, check
from alpineagents.store.info import PREVIEW, info_of
from alpineagents.store.rows import (
    ENTRY_COLUMNS,
    STATE_COLUMNS,
    Blob,
    clean,
    entry_data,
    entry_row,
    hashes,
    info_of_row,
    loads,
    state_row,
)
from alpineagents.types import Image, Message, TextBlock, Usage

FIELDS = ENTRY_COLUMNS[1:]


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    connection = filled.empty()
    connection.row_factory = sqlite3.Row
    yield connection
    connection.close()


def said(content: Any) -> MessageEntry:
    return MessageEntry(kind="user", content=content, turn=0)


def row_of(data: Mapping[str, Any]) -> dict[str, Any]:
    return dict(zip(ENTRY_COLUMNS, entry_row("s", data, []), strict=True))


def through_sql(connection: sqlite3.Connection, data: dict[str, Any]) -> dict[str, Any]:
    """An entry written and read as the store does it."""
    connection.execute("SAVEPOINT one")
    try:
        blobs: list[Blob] = []
        connection.execute("INSERT INTO states(id, entry_count) VALUES('s', 1)")
        connection.execute(filled.INSERT_ENTRY, entry_row("s", data, blobs))
        row = tuple(connection.execute(f"SELECT {', '.join(FIELDS)} FROM entries").fetchone())
        connection.execute("SELECT * FROM entries").fetchall()  # every virtual column
        connection.execute("SELECT json_extract(data, '$.content') FROM entries").fetchall()
    finally:
        connection.execute("ROLLBACK TO one")
    bytes_of = {blob.sha256: blob.data for blob in blobs}
    assert hashes([row]) >= bytes_of.keys()
    return entry_data("s", row, bytes_of)


# Entries.


@given(entries(), st.integers(0, 10**6))
def test_an_entry_comes_back_from_its_row_exactly(
    connection: sqlite3.Connection, entry: HistoryEntry, seq: int
) -> None:
    data = encode(entry, seq)
    back = through_sql(connection, data)
    assert repr(back) == repr(data)
    assert decode(back) == entry


@given(json_values() | texts(200))
def test_every_json_value_comes_back_exactly(value: Any) -> None:
    data = {"seq": 0, "kind": "extra_data", "turn": 0, "at": "x", "content": {"value": value}}
    assert repr(entry_data("s", entry_row("s", data, [])[1:], {})) == repr(data)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_comes_back_exactly(value: float) -> None:
    assert repr(loads(json.dumps(value))) == repr(value)


@pytest.mark.parametrize("value", [MAX_INT, -MAX_INT, 2**63, 2**64, -(2**63) - 1, 10**400, 1e308, 5e-324, -0.0, 0])
def test_numbers_beyond_those_of_sql_come_back_exactly(value: float) -> None:
    assert repr(loads(json.dumps(value))) == repr(value)


@given(st.text(st.characters(), max_size=30))
def test_what_is_stored_is_valid_for_sql_whatever_the_text(connection: sqlite3.Connection, text: str) -> None:
    row = row_of(encode(said(text), 0))
    row["data"].encode("utf-8")
    assert connection.execute("SELECT json_valid(?)", (row["data"],)).fetchone()[0] == 1


def test_a_lone_surrogate_is_shown_as_the_replacement_character_and_kept_beside_it() -> None:
    row = row_of(encode(said("caf\udce9"), 0))
    assert json.loads(row["data"]) == {"content": "caf\ufffd"}
    assert json.loads(row["original"]) == {"content": "caf\ue000dce9"}


@pytest.mark.parametrize("text", ["plain", "é \U0001f3d4", "\ufffd", "\\ud800", "\x00\u2028"])
def test_a_text_without_surrogates_is_stored_once(text: str) -> None:
    assert row_of(encode(said(text), 0))["original"] is None


def test_the_data_repeats_no_column() -> None:
    data = {"seq": 3, "kind": "user", "turn": 1, "at": "x", "closes": 1, "block": 2, "content": "c"}
    row = row_of(data)
    assert json.loads(row["data"]) == {"content": "c"}
    assert [row[name] for name in ("seq", "kind", "turn", "at", "closes", "block")] == [3, "user", 1, "x", 1, 2]


def test_making_a_row_leaves_the_entry_as_it_was() -> None:
    data = encode(said((TextBlock("see"), histories.PNG)), 0)
    before = json.dumps(data)
    row_of(data)
    assert json.dumps(data) == before


# Images.


def test_an_image_is_stored_as_bytes_and_named_by_its_hash() -> None:
    blobs: list[Blob] = []
    row = dict(zip(ENTRY_COLUMNS, entry_row("s", encode(said((histories.PNG,)), 0), blobs), strict=True))
    digest = hashlib.sha256(histories.PNG.data).hexdigest()
    assert json.loads(row["data"]) == {"content": [{"type": "image", "media_type": "image/png", "sha256": digest}]}
    assert blobs == [Blob(digest, "image/png", histories.PNG.data)]


def test_an_image_keeps_its_media_type_also_when_the_bytes_are_known_under_another() -> None:
    data = encode(said((Image(b"x", "image/png"), Image(b"x", "image/webp"))), 0)
    digest = hashlib.sha256(b"x").hexdigest()
    assert entry_data("s", entry_row("s", data, [])[1:], {digest: b"x"}) == data


def test_what_only_looks_like_an_image_is_left_alone() -> None:
    fake = {"type": "image", "media_type": "image/png", "data": base64.b64encode(b"x").decode()}
    data = {"seq": 0, "kind": "extra_data", "turn": 0, "at": "x", "content": {"fake": fake, "sha256": "0" * 64}}
    blobs: list[Blob] = []
    assert entry_data("s", entry_row("s", data, blobs)[1:], {}) == data
    assert blobs == []


def test_an_image_whose_bytes_are_missing_is_damage() -> None:
    row = entry_row("s", encode(said((histories.PNG,)), 7), [])[1:]
    with pytest.raises(ValueError, match=r"'s'.*entry 7.*not in the file"):
        entry_data("s", row, {})


# Damage.


@pytest.mark.parametrize(
    "data", ["", "{", "[]", '"x"', "null", "5", "\x00", '{"a":1}x', "[" * 100_000, '{"a":' * 100_000]
)
def test_data_that_is_no_json_object_is_damage(data: str) -> None:
    row = (3, "user", 0, "x", None, None, data, None)
    with pytest.raises(ValueError, match=r"'s'.*entry 3 is damaged"):
        entry_data("s", row, {})


@pytest.mark.parametrize("sha256", ["5", "[]", "{}", "true", '"short"', "1.5"])
def test_a_damaged_hash_is_damage(sha256: str) -> None:
    data = f'{{"content":[{{"type":"image","media_type":"image/png","sha256":{sha256}}}]}}'
    with pytest.raises(ValueError, match="entry 3"):
        entry_data("s", (3, "user", 0, "x", None, None, data, None), {})


# The row of a State.


def info_through_sql(connection: sqlite3.Connection, info: dict[str, Any], count: int) -> dict[str, Any]:
    connection.execute("SAVEPOINT one")
    try:
        connection.execute(filled.INSERT_STATE, ("s", None, None, *state_row(info, count)))
        return info_of_row(connection.execute("SELECT * FROM states").fetchone())
    finally:
        connection.execute("ROLLBACK TO one")


@settings(max_examples=50)
@given(states())
def test_the_info_of_a_state_comes_back_from_its_row(connection: sqlite3.Connection, state: State) -> None:
    now = journal_of(state).now
    info = info_of(now)
    back = info_through_sql(connection, info, len(now.history))
    assert back == json.loads(clean(json.dumps(info, ensure_ascii=False)))


@given(st.dictionaries(st.sampled_from([*STATE_COLUMNS, "own", "v"]), json_values(), max_size=4))
def test_an_info_of_anything_comes_back(connection: sqlite3.Connection, odd: dict[str, Any]) -> None:
    for info in (odd, {**info_of(EMPTY), **odd}):
        back = info_through_sql(connection, info, 3)
        assert repr(back) == repr(json.loads(clean(json.dumps(info, ensure_ascii=False))))


@pytest.mark.parametrize("name", [*info_of(EMPTY)])
def test_a_value_that_is_not_known_comes_back_as_none(connection: sqlite3.Connection, name: str) -> None:
    info = {**info_of(EMPTY), name: None}
    assert info_through_sql(connection, info, 0) == info


@pytest.mark.parametrize("count", [2**63, -(2**63) - 1, 10**30])
def test_a_count_beyond_64_bits_has_no_column_but_comes_back(connection: sqlite3.Connection, count: int) -> None:
    info = {**info_of(EMPTY), "input_tokens": count}
    assert state_row(info, 0)[list(STATE_COLUMNS).index("input_tokens")] is None
    assert info_through_sql(connection, info, 0)["input_tokens"] == count


def test_an_info_like_ours_needs_no_json_column() -> None:
    now = journal_of(histories.pending()).now
    assert state_row(info_of(now), len(now.history))[-1] is None


def test_a_fork_needs_no_json_column() -> None:
    assert state_row(info_of(EMPTY, ("origin", 3)), 0)[-1] is None


def test_a_long_reason_to_stop_is_left_to_its_entry() -> None:
    state = histories.started()
    state.finish("x" * PREVIEW)
    info = info_of(journal_of(state).now)
    columns = dict(zip(STATE_COLUMNS, state_row(info, 2), strict=True))
    assert columns["stop"] is None
    assert columns["stop_seq"] == 1
    assert len(columns["stopped"]) <= PREVIEW


def test_a_cost_of_zero_and_an_unknown_one_are_kept_apart(connection: sqlite3.Connection) -> None:
    for cost in (0.0, None, 0.25):
        state = histories.started()
        histories.think(state, "x", usage=Usage(requests=1, cost=cost))
        assert info_through_sql(connection, info_of(journal_of(state).now), 3)["cost"] == cost


def test_texts_of_a_listing_have_at_most_2000_characters() -> None:
    state = State(messages=[Message.user("x" * 5_000)])
    state.finish(["y" * 5_000])
    info = info_of(journal_of(state).now)
    assert len(info["first_message"]) == len(info["answer"]) == PREVIEW


@pytest.mark.parametrize(
    "text", ["\ud83d\ude00", "\ude00\ud83d", "\ue000\ud83d", "\ue000dce9 \ud800", "\U0001f600\udfff"]
)
def test_halves_of_a_pair_and_the_mark_itself_come_back_as_they_were(tmp_path: Path, text: str) -> None:
    with SqliteStore(tmp_path / "runs.db") as store:
        state = State(id="odd", messages=[Message.user(text)], extra_data={text: [text]})
        store.save(state)
        loaded = store.load("odd")
    assert loaded.history == state.history
    assert loaded.messages[0].text == text
    assert check(tmp_path / "runs.db") == []


@pytest.mark.parametrize("usage", [Usage(input_tokens=-(2**70)), Usage(cost=-(2**70)), Usage(cost=2**60 + 1)])
def test_a_count_that_no_column_can_hold_is_kept_all_the_same(tmp_path: Path, usage: Usage) -> None:
    made = info_of(EMPTY.changed(usage=usage))
    with SqliteStore(tmp_path / "runs.db") as store:
        store.write("a", [], made, create=True)
        assert store.read("a").info == dict(made)  # type: ignore[union-attr]


def test_a_key_that_a_subclass_adds_to_an_info_comes_back(tmp_path: Path) -> None:
    made = info_of(EMPTY)
    made["team"] = "x"
    with SqliteStore(tmp_path / "runs.db") as store:
        store.write("a", [], made, create=True)
        assert store.read("a").info["team"] == "x"  # type: ignore[union-attr]
    assert type(pickle.loads(pickle.dumps(made))) is dict
