"""The provider behind the tests refuses what a real one refuses."""

from __future__ import annotations

from typing import Any

import pytest
from strict import refusals

from alpineagents import Message
from alpineagents.types import Request, TextBlock, ToolCall, ToolResultBlock

A, B = ToolCall("look", {}, "a"), ToolCall("look", {}, "b")
DONE_A, DONE_B = ToolResultBlock("a", "x"), ToolResultBlock("b", "x")


def said(*blocks: Any) -> Message:
    return Message("assistant", blocks)


def given(*blocks: Any) -> Message:
    return Message("user", blocks)


GO = Message.user("Go")
REFUSED: dict[str, list[Message]] = {
    "no messages": [],
    "calls without results": [GO, said(A)],
    "call 'b' has no result": [GO, said(A, B), given(DONE_A)],
    "call 'a' has no result": [GO, said(A), GO],
    "a result for 'a'": [GO, given(DONE_A)],
    "a result for 'b'": [GO, said(A), given(DONE_A, DONE_B)],
    "or a second one": [GO, said(A), given(DONE_A, DONE_A)],
    "behind something else": [GO, said(A), given(TextBlock("x"), DONE_A)],
    "assistant message with a ToolResultBlock": [GO, said(A, DONE_A), given(DONE_A)],
    "user message with a ToolCall": [given(A)],
}


@pytest.mark.parametrize("problem", REFUSED)
def test_it_refuses(problem: str) -> None:
    assert any(problem in found for found in refusals(Request(None, tuple(REFUSED[problem]))))


@pytest.mark.parametrize(
    "messages",
    [
        [GO],
        [GO, GO, said(TextBlock("x")), said(A), given(DONE_A), Message.notice("late"), said(TextBlock(""))],
        [GO, said(A, B), given(DONE_B), given(DONE_A), GO],
        [GO, said(A), given(DONE_A), said(A), given(DONE_A)],
        [GO, said(A, A), given(DONE_A, DONE_A)],
    ],
)
def test_it_takes(messages: list[Message]) -> None:
    assert refusals(Request(None, tuple(messages))) == []
