"""The token estimates that context changes are recorded with.

4 for a message, a third of the characters of each block, 1600 for an image; a count of the provider stands for what is
before it.
"""

from __future__ import annotations

from typing import Any

import pytest
from histories import (
    PNG,
    READ,
    change_of,
    result,
    started,
    think,
)

from alpineagents.state import State
from alpineagents.types import (
    ContextChange,
    Message,
    RawBlock,
    TextBlock,
    ToolCall,
    ToolResultBlock,
)


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ((), 4),
        ((TextBlock(""),), 4),
        ((TextBlock("a"),), 5),
        ((TextBlock("abc"),), 5),
        ((TextBlock("abcd"),), 6),
        ((TextBlock("🏔é" * 2),), 6),
        ((TextBlock("a"), TextBlock("b")), 6),
        ((PNG,), 1604),
        ((TextBlock("a"), PNG, PNG), 3205),
        ((ToolCall("read", {}, "a long id"),), 6),
        ((ToolCall("read", {"p": "é"}, "c1"),), 9),
        ((RawBlock("acme", {"a": [1]}),), 4 + 4),
        ((ToolResultBlock("c1", "abcd", name="long name"),), 6),
        ((ToolResultBlock("c1", (TextBlock("ab"), TextBlock("cd"), PNG)),), 1606),
    ],
)
def test_the_estimate_of_a_message(content: Any, tokens: int) -> None:
    assert change_of(State(messages=[Message("user", content)])) == ContextChange(
        "import", 0, tokens, messages=(Message("user", content),)
    )


def test_a_count_of_the_provider_stands_for_everything_before_it() -> None:
    messages = [
        Message("user", (TextBlock("x" * 300),)),
        Message("assistant", (), tokens=10),
        Message("assistant", (), tokens=20),
        Message.user("abc"),
    ]
    assert change_of(State(messages=messages)).after_tokens == 20 + 5


def test_a_count_of_zero_is_a_count() -> None:
    assert change_of(State(messages=[Message.user("abc"), Message("assistant", (), tokens=0)])).after_tokens == 0


def test_changes_have_the_estimates_right_before_and_right_after() -> None:
    state = started("Audit repo")
    before = state.snapshot()
    think(state, READ, tokens=900)
    result(state, READ, "x" * 300)
    state.clear_tool_results(0)
    change = change_of(state)
    # 4 + 4 for the task, 4 + 7 for the call, 4 + 9 for the placeholder of 25 characters
    assert (change.before_tokens, change.after_tokens) == (900 + 4 + 100, 8 + 11 + 13)
    state.restore(before)
    change = change_of(state)
    assert (change.before_tokens, change.after_tokens, change.restored_to) == (32, 8, 1)
    state.compact("abc")
    change = change_of(state)
    # "[notice] Summary so far:" and a line break are 25 characters
    assert (change.before_tokens, change.after_tokens) == (8, 8 + 4 + 10)
