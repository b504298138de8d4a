"""Server-sent events: what ends a line, what an event is, and that no cut changes anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alpineagents.models.sse import EventReader, ServerEvent


def read(*pieces: bytes) -> list[ServerEvent]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)] + list(reader.end())


def datas(*pieces: bytes) -> list[str]:
    return [event.data for event in read(*pieces)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_end_in_three_ways(end: bytes) -> None:
    assert datas(b"data: one" + end * 2 + b"data: two" + end * 2) == ["one", "two"]


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_nothing_else_ends_a_line(odd: str) -> None:
    assert datas(f"data: a{odd}b\n\n".encode()) == [f"a{odd}b"]


def test_a_byte_order_mark_and_comments_mean_nothing() -> None:
    assert datas(b"\xef\xbb\xbf: OPENROUTER PROCESSING\n\ndata: one\n: waiting\n\n") == ["one"]


def test_only_the_first_line_may_have_a_byte_order_mark() -> None:
    assert datas(b"data: a\n\n\xef\xbb\xbfdata: b\n\n") == ["a"]


def test_several_lines_of_data_are_joined() -> None:
    assert datas(b"data: a\ndata:b\ndata:  c\ndata\n\n") == ["a\nb\n c\n"]


def test_an_event_has_the_name_that_came_with_it() -> None:
    assert read(b"event: error\ndata: x\n\ndata: y\n\n") == [ServerEvent("error", "x"), ServerEvent("", "y")]


def test_ids_and_times_to_retry_and_unknown_fields_are_ignored() -> None:
    assert datas(b"id: 7\nretry: 10\nfoo: bar\ndata: x\n\n") == ["x"]


@pytest.mark.parametrize("empty", [b"data:\n\n", b"data: \n\n", b"event: ping\n\n", b"\n\n\n", b""])
def test_an_event_without_data_is_none(empty: bytes) -> None:
    assert read(empty) == []


def test_the_last_event_counts_without_a_blank_line() -> None:
    assert datas(b"data: one\n\ndata: two") == ["one", "two"]
    assert datas(b"data: two\n") == ["two"]


WHOLE = "\ufeff: hi\r\nevent: x\r\ndata: größer\r\ndata: \u2028🙂\r\n\r\ndata: b\n\ndata: c\r\rdata: d".encode()


def test_a_cut_anywhere_changes_nothing() -> None:
    expected = read(WHOLE)
    assert [event.data for event in expected] == ["größer\n\u2028🙂", "b", "c", "d"]
    for at in range(len(WHOLE) + 1):
        assert read(WHOLE[:at], WHOLE[at:]) == expected
    assert read(*[bytes([byte]) for byte in WHOLE]) == expected


PARTS = [b"data: a", b"\n", b"\r", b"\r\n", b": c", b"event: e", "ä".encode(), b"x"]


@given(st.lists(st.sampled_from(PARTS)), st.data())
def test_however_it_is_cut_the_events_are_the_same(parts: list[bytes], data: st.DataObject) -> None:
    body = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=5)))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert read(*pieces) == read(body)


def test_bytes_that_are_no_utf_8_are_shown_as_such() -> None:
    assert datas(b"data: a\xff\n\n") == ["a\ufffd"]
