"""What every Model does, whatever stands behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from alpineagents.models import Model
from alpineagents.values.content import Message
from alpineagents.values.exchange import Reply, Request, ToolSpec

TOOL = ToolSpec("look", "Look around", {"type": "object", "properties": {}})
REQUEST = Request("Be brief", (Message.user("Say hello"),), (TOOL,))

Act = Callable[..., Any]


class ModelContract:
    """Subclass it as `Test...` with the fixture `model`: a Model about to answer `REQUEST`, with some text in it."""

    @pytest.fixture
    def model(self) -> Model:
        raise NotImplementedError

    def test_the_reply_holds_a_message_of_the_assistant(self, model: Model, act: Act) -> None:
        reply = act(model, "respond", REQUEST)
        assert isinstance(reply, Reply)
        assert reply.message.role == "assistant"

    def test_the_pieces_of_text_make_up_the_text_of_the_reply(self, model: Model, act: Act) -> None:
        pieces: list[str] = []
        reply = act(model, "respond", REQUEST, pieces.append)
        assert "".join(pieces) == reply.text
        assert all(pieces)

    def test_one_reply_is_one_request(self, model: Model, act: Act) -> None:
        assert act(model, "respond", REQUEST).usage.requests == 1

    def test_the_context_has_at_least_what_was_sent_and_said(self, model: Model, act: Act) -> None:
        reply = act(model, "respond", REQUEST)
        usage = reply.usage
        counted = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens + usage.output_tokens
        assert reply.context_tokens is None or reply.context_tokens >= counted

    def test_a_price_gives_the_cost(self, model: Model, act: Act) -> None:
        usage = act(model, "respond", REQUEST).usage
        assert model.price is None or usage.cost == model.price.cost(usage)

    def test_the_reply_names_the_model_that_answered(self, model: Model, act: Act) -> None:
        assert act(model, "respond", REQUEST).model

    def test_the_reply_says_why_it_ended(self, model: Model, act: Act) -> None:
        assert act(model, "respond", REQUEST).stop_reason

    @pytest.mark.parametrize("kind", [ValueError, TypeError, TimeoutError, OSError, KeyboardInterrupt])
    def test_what_on_text_raises_comes_out_as_the_same_object(
        self, model: Model, act: Act, kind: type[BaseException]
    ) -> None:
        error = kind("no paper left")

        def refuse(text: str) -> None:
            raise error

        with pytest.raises(kind) as raised:
            act(model, "respond", REQUEST, refuse)
        assert raised.value is error
        assert error.__cause__ is None

    def test_its_repr_is_the_class_and_the_name(self, model: Model) -> None:
        assert repr(model) == f"{type(model).__name__}({model.name!r})"

    def test_its_context_window_is_a_number_of_tokens(self, model: Model) -> None:
        assert type(model.context_window) is int
        assert model.context_window > 0

    def test_what_it_supports_is_a_frozenset(self, model: Model) -> None:
        assert isinstance(model.supports, frozenset)

    def test_it_counts_the_tokens_of_a_request(self, model: Model) -> None:
        assert model.count_tokens(REQUEST) > 0

    def test_marking_the_cache_leaves_what_is_asked_as_it_is(self, model: Model) -> None:
        marked = model.mark_cache(REQUEST)
        assert (marked.messages, marked.tool_choice) == (REQUEST.messages, REQUEST.tool_choice)
