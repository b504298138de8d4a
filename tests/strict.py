"""What a provider refuses of a conversation, whatever the provider: calls and results that do not pair up.

Adapters merge messages of one role, leave out empty texts and send U+FFFD for a lone surrogate, so none of these is
refused here. It stands behind every test: `conftest.py` has each request that a `FakeModel` gets judged by `refusals`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby

from alpineagents.types import Block, Image, Message, RawBlock, Request, TextBlock, ToolCall, ToolResultBlock

ALLOWED: dict[str, tuple[type[Block], ...]] = {
    "user": (TextBlock, Image, ToolResultBlock),
    "assistant": (TextBlock, ToolCall, RawBlock),
}


def refusals(request: Request) -> list[str]:
    """Why a provider would refuse this request; nothing if it would take it."""
    problems = [] if request.messages else ["no messages"]
    turns = merged(request.messages)
    for index, (role, blocks) in enumerate(turns):
        where = f"messages[{index}]"
        problems += [f"{where}: a {role} message with a {kind}" for kind in misplaced(role, blocks)]
        before = turns[index - 1][1] if index else []
        if role == "user":
            problems += [f"{where}: {problem}" for problem in unpaired(before, blocks)]
        elif index == len(turns) - 1 and any(isinstance(block, ToolCall) for block in blocks):
            problems.append(f"{where}: calls without results")
    return problems


def merged(messages: Iterable[Message]) -> list[tuple[str, list[Block]]]:
    groups = groupby(messages, key=lambda message: message.role)
    return [(role, [block for message in group for block in message.content]) for role, group in groups]


def misplaced(role: str, blocks: list[Block]) -> list[str]:
    return [type(block).__name__ for block in blocks if not isinstance(block, ALLOWED.get(role, ()))]


def unpaired(before: list[Block], blocks: list[Block]) -> list[str]:
    """What is wrong with the results of a user message, behind the calls of the message before it."""
    called = Counter([block.id for block in before if isinstance(block, ToolCall)])
    answered = Counter([block.call_id for block in blocks if isinstance(block, ToolResultBlock)])
    problems = [f"call {id!r} has no result" for id in (called - answered).elements()]
    problems += [f"a result for {id!r}, which was not called, or a second one" for id in (answered - called).elements()]
    first_other = next((n for n, block in enumerate(blocks) if not isinstance(block, ToolResultBlock)), len(blocks))
    if any(isinstance(block, ToolResultBlock) for block in blocks[first_other:]):
        problems.append("a result behind something else")
    return problems
