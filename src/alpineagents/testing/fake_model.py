"""A Model whose replies are prepared, and the tool calls it can ask for."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterable
from typing import Any, cast

from alpineagents.errors import ContextTooLongError, explain, shown
from alpineagents.models.base import Model, OnEvent, OnText
from alpineagents.values.content import Block, Message, RawBlock, TextBlock, ToolCall, frozen_tuple
from alpineagents.values.estimates import text_tokens
from alpineagents.values.exchange import Reply, Request
from alpineagents.values.frozen import check_json
from alpineagents.values.usage import Price, Usage

_EXAMPLE = 'FakeModel([tool_call("read_file", path="main.py"), "The bug is in line 3."])'


def tool_call(name: str, /, **args: Any) -> ToolCall:
    """A call for a prepared reply, with a new id.

    Raises:
        TypeError: An argument is not JSON.
    """
    return ToolCall(name, check_json(args, "args"), f"call_{secrets.token_hex(6)}")


class FakeModel(Model):
    """Gives prepared replies, one per request of any kind.

    Args:
        replies: Each is the text of a reply, a call, a list of both (`RawBlock` and `TextBlock` too), a `Reply`, an
            exception to raise, or a function that gets the `Request` and returns one of these.
        context_window: Tokens; a request estimated above it raises `ContextTooLongError`.
    Attributes:
        requests: Every request received.
    Raises:
        TypeError: `replies` is no iterable, or one `str`.

    Example:
        model = FakeModel([tool_call("read_file", path="main.py"), "The bug is in line 3."])
    """

    provider = "fake"

    def __init__(
        self,
        replies: Iterable[Any],
        *,
        name: str = "fake",
        context_window: int = 200_000,
        price: Price | None = None,
    ) -> None:
        if isinstance(replies, str):
            raise TypeError(
                explain(
                    f"FakeModel takes a list of replies, not one str: {shown(replies)}", "put it into a list", _EXAMPLE
                )
            )
        self.name = name
        self.price = price
        self.requests: list[Request] = []
        self._context_window = context_window
        self._items = deque(frozen_tuple("FakeModel", replies))  # popleft is safe between threads
        self._prepared = len(self._items)

    @property
    def context_window(self) -> int:
        """As given."""
        return self._context_window

    @property
    def remaining(self) -> int:
        """How many items are not used yet."""
        return len(self._items)

    def respond(self, request: Request, on_text: OnText | None = None, on_event: OnEvent | None = None) -> Reply:
        """The reply of the next item; `on_text` gets each of its texts whole.

        Raises:
            ContextTooLongError: The request is estimated above the context window. No item is used.
            RuntimeError: No item is left.
            TypeError: The item is nothing a reply can be made of.
        """
        self.requests.append(request)
        tokens = self.count_tokens(request)
        if tokens > self._context_window:
            raise ContextTooLongError(
                f"{self!r}: the request has about {tokens} tokens, and the context window {self._context_window}"
            )
        item = self._next_item(request)
        if callable(item):
            item = item(request)
        if isinstance(item, BaseException):
            raise item
        if isinstance(item, Reply):
            return item
        return self._said(_blocks(item), tokens, on_text)

    def _next_item(self, request: Request) -> Any:
        try:
            return self._items.popleft()
        except IndexError:
            pass
        last = request.messages[-1].text if request.messages else ""
        raise RuntimeError(
            explain(
                f"{self!r} has no reply left: {self._prepared} were prepared, and one more request came, whose last "
                f"message is {shown(last, 200)}",
                "prepare one more reply, or find out why the run goes on",
                _EXAMPLE,
            )
        )

    def _said(self, blocks: tuple[Block, ...], tokens: int, on_text: OnText | None) -> Reply:
        texts = [block.text for block in blocks if isinstance(block, TextBlock)]
        calls = any([isinstance(block, ToolCall) for block in blocks])
        output = sum([text_tokens(text) for text in texts])
        cost = None if self.price is None else self.price.cost(Usage(tokens, output))
        usage = Usage(tokens, output, requests=1, cost=cost)
        stop_reason = "tool_use" if calls else "end_turn"
        reply = Reply(Message("assistant", blocks), usage, tokens + output, stop_reason, self.name)
        stream(reply, on_text)
        return reply


def stream(reply: Reply, on_text: OnText | None) -> None:
    """Give a reply's texts to `on_text`, block by block."""
    if on_text is None:
        return
    for block in reply.message.content:
        if isinstance(block, TextBlock) and block.text:
            on_text(block.text)


def _blocks(item: Any) -> tuple[Block, ...]:
    if isinstance(item, str | ToolCall):
        return (_block(item),)
    if isinstance(item, list | tuple):
        return tuple([_block(part) for part in cast("list[Any]", item)])
    raise TypeError(_no_reply(item))


def _block(part: Any) -> Block:
    if isinstance(part, str):
        return TextBlock(part)
    if isinstance(part, ToolCall | RawBlock | TextBlock):
        return part
    raise TypeError(_no_reply(part))


def _no_reply(item: object) -> str:
    return explain(
        f"FakeModel cannot make a reply of this {type(item).__name__}: {shown(item)}",
        "prepare a str, a ToolCall, a list of both, a Reply, an exception, or a function that returns one of these",
        _EXAMPLE,
    )
