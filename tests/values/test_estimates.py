"""Estimates of tokens from characters."""

from __future__ import annotations

import dataclasses
import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import blocks, scalars, texts

from alpineagents.values.content import (
    Block,
    Image,
    Message,
    RawBlock,
    TextBlock,
    ToolCall,
    ToolResultBlock,
)
from alpineagents.values.estimates import context_tokens, message_tokens, request_overhead, text_tokens
from alpineagents.values.exchange import ToolSpec
from alpineagents.values.log import Log

SMALL, LARGE = Image(b"", "image/png"), Image(bytes(10**6), "image/png")


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abc", 1), ("abcd", 2), ("日本語", 1), ("😀" * 6, 2)])
def test_a_text_is_a_third_of_its_characters_rounded_up(text: str, tokens: int) -> None:
    assert text_tokens(text) == tokens


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        (TextBlock(""), 0),
        (TextBlock("four"), 2),
        (ToolCall("f", {}, "a long id that does not count"), 1),  # f{}
        (ToolCall("read", {"p": "é"}, "1"), 5),  # read{"p": "é"}, 14 characters with the é as one
        (ToolCall("f", {"d": date(2026, 1, 2)}, "1"), 7),  # f{"d": "2026-01-02"}
        (RawBlock("acme", {"t": [1]}), 4),  # {"t": [1]}
        (RawBlock("acme", {"d": date(2026, 1, 2)}), 7),
        (ToolResultBlock("1", "four", name="not counted"), 2),
        (ToolResultBlock("1", ""), 0),
        (ToolResultBlock("1", (TextBlock("ab"), TextBlock("cd"))), 2),  # joined first, then rounded
        (ToolResultBlock("1", (TextBlock("a"), SMALL, LARGE)), 1 + 2 * 1600),
        (ToolResultBlock("1", ()), 0),
        (SMALL, 1600),
        (LARGE, 1600),
    ],
    ids=repr,
)
def test_a_message_is_4_and_its_blocks(block: Block, tokens: int) -> None:
    assert message_tokens(Message("user", (block,))) == 4 + tokens


def test_a_message_without_blocks_is_4() -> None:
    assert message_tokens(Message("user", ())) == 4


def test_every_block_is_rounded_up_by_itself() -> None:
    assert message_tokens(Message("user", (TextBlock("a"), TextBlock("b"), SMALL))) == 4 + 1 + 1 + 1600


@given(texts(), st.dictionaries(texts(8), scalars() | st.lists(scalars(), max_size=2), max_size=3))
def test_a_call_is_its_name_and_its_arguments_as_one_text(name: str, args: dict[str, Any]) -> None:
    text = name + json.dumps(args, ensure_ascii=False)
    assert message_tokens(Message("assistant", (ToolCall(name, args, "1"),))) == 4 - (-len(text) // 3)


def counted(text: str, tokens: int | None) -> Message:
    return dataclasses.replace(Message.assistant(text), tokens=tokens)


def test_a_context_without_a_known_count_is_the_overhead_and_all_messages() -> None:
    assert context_tokens([Message.user("abc"), Message.assistant("abcd")], 100) == 100 + 5 + 6


def test_a_context_is_the_last_known_count_and_the_messages_after_it() -> None:
    known = [Message.user("x" * 999), counted("a", 50), Message.user("abc"), counted("b", 70), Message.user("abcd")]
    assert context_tokens(known, 100) == 70 + 6


def test_a_known_count_of_0_counts() -> None:
    assert context_tokens([Message.user("abc"), counted("a", 0)], 100) == 0


def test_an_empty_context_is_the_overhead() -> None:
    assert (context_tokens([]), context_tokens((), 7)) == (0, 7)


@given(st.lists(st.none() | st.integers(0, 99), max_size=4), blocks())
def test_a_context_grows_by_the_estimate_of_a_message_without_a_count(counts: list[int | None], block: Block) -> None:
    before, new = [counted("a", count) for count in counts], Message("user", (block,))
    assert context_tokens([*before, new], 100) == context_tokens(before, 100) + message_tokens(new)


def test_the_overhead_is_the_system_prompt_and_each_tool_as_one_text() -> None:
    tools = [ToolSpec("ab", "cd", {"é": 1}), ToolSpec("a", "", {})]  # abcd{"é": 1} and a{}
    assert request_overhead("four", tools) == 2 + 4 + 1
    assert request_overhead(None, ()) == request_overhead("", []) == 0


replies = st.builds(Message, st.just("assistant"), st.just((TextBlock("abcdef"),)), st.none() | st.integers(0, 99))


@given(st.lists(st.lists(replies, max_size=4), max_size=5), st.integers(0, 50))
def test_a_log_that_grows_is_estimated_as_a_whole_one_is(parts: list[list[Message]], overhead: int) -> None:
    log = Log[Message]()
    for part in parts:
        before, log = log, log.extended(part)
        assert context_tokens(log, overhead) == context_tokens(log.whole(), overhead)
        assert context_tokens(before, overhead) == context_tokens(before.whole(), overhead)


def test_of_a_log_that_grew_only_the_new_messages_are_looked_at() -> None:
    log = Log([Message.user("a")] * 1_000)
    context_tokens(log)
    longer = log.plus(Message.user("b"))
    looked_at = list[int]()

    class Watched(Log[Message]):
        def __getitem__(self, index: int) -> Message:
            looked_at.append(index)
            return super().__getitem__(index)

    watched = Watched(longer)
    watched.memo = longer.memo
    assert context_tokens(watched) == 1_001 * message_tokens(Message.user("a"))
    assert set(looked_at) == {1_000}
