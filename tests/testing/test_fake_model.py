"""The Model with prepared replies, and the calls it asks for."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from contracts.model import REQUEST, ModelContract

from alpineagents.errors import ContextTooLongError
from alpineagents.models.base import Model, identity
from alpineagents.testing import FakeModel, tool_call
from alpineagents.values.content import Message, RawBlock, TextBlock, ToolCall
from alpineagents.values.exchange import Reply, Request
from alpineagents.values.usage import Price, Usage

CALL = ToolCall("look", {"path": "a"}, "c1")
RAW = RawBlock("fake", {"thinking": "hm"})
REPLY = Reply(Message.assistant("whole"), Usage(1, 2, requests=1))


class TestFakeModel(ModelContract):
    @pytest.fixture
    def model(self) -> Model:
        return FakeModel([["Hel", "lo", CALL]], price=Price(3, 15))


def reply_to(item: Any, **options: Any) -> Reply:
    return FakeModel([item], **options).respond(REQUEST)


def test_a_tool_call_has_the_name_and_the_arguments() -> None:
    call = tool_call("read_file", path="a.txt", lines=[1, 2])
    assert (call.name, call.args) == ("read_file", {"path": "a.txt", "lines": [1, 2]})


def test_a_tool_call_has_an_id_of_twelve_hex_digits() -> None:
    assert re.fullmatch(r"call_[0-9a-f]{12}", tool_call("read_file").id)


def test_every_tool_call_has_an_id_of_its_own() -> None:
    assert tool_call("read_file").id != tool_call("read_file").id


def test_an_argument_of_a_tool_call_may_be_called_name() -> None:
    assert tool_call("greet", name="Ada").args == {"name": "Ada"}


def test_the_arguments_of_a_tool_call_are_read_only_at_every_level() -> None:
    with pytest.raises(TypeError, match="read-only"):
        tool_call("sort", by={"keys": ["a"]}).args["by"]["keys"].append("b")


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), {1: "a"}, b"x"])
def test_an_argument_that_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"args\['value'\]"):
        tool_call("sort", value=value)


def test_it_is_called_fake_unless_named() -> None:
    assert identity(FakeModel([])) == "fake/fake"
    assert identity(FakeModel([], name="small")) == "fake/small"


def test_it_supports_nothing() -> None:
    assert FakeModel([]).supports == frozenset()


def test_its_repr_shows_the_name() -> None:
    assert repr(FakeModel(["a"])) == "FakeModel('fake')"


def test_the_context_window_and_the_price_are_as_given() -> None:
    model = FakeModel([], context_window=50, price=Price(1, 2))
    assert (model.context_window, model.price) == (50, Price(1, 2))
    assert FakeModel([]).context_window == 200_000


def test_a_subclass_may_build_on_respond(act: Callable[..., Any]) -> None:
    class Loud(FakeModel):
        def respond(self, request: Request, on_text: Any = None, on_event: Any = None) -> Reply:
            return Reply(Message.assistant(super().respond(request, on_text, on_event).text.upper()), Usage())

    assert act(Loud(["hello"]), "respond", REQUEST).text == "HELLO"


def test_the_replies_may_come_from_any_iterable() -> None:
    model = FakeModel(text for text in ("a", "b"))
    assert [model.respond(REQUEST).text, model.respond(REQUEST).text] == ["a", "b"]


def test_the_replies_are_read_once_at_construction() -> None:
    replies = ["a"]
    model = FakeModel(replies)
    replies.append("b")
    assert model.remaining == 1


@pytest.mark.parametrize("replies", ["hello", 3, None])
def test_what_is_no_list_of_replies_is_refused(replies: Any) -> None:
    with pytest.raises(TypeError, match="FakeModel takes"):
        FakeModel(replies)


@pytest.mark.refused_by_providers
def test_requests_holds_the_objects_received() -> None:
    model = FakeModel(["a", "b"])
    other = Request(None, ())
    model.respond(REQUEST)
    model.respond(other)
    assert model.requests[0] is REQUEST
    assert model.requests[1] is other


def test_remaining_counts_the_items_that_are_not_used() -> None:
    model = FakeModel(["a", "b"])
    model.respond(REQUEST)
    assert model.remaining == 1


def test_remaining_is_read_only() -> None:
    with pytest.raises(AttributeError):
        FakeModel(["a"]).remaining = 3  # type: ignore[misc]


@pytest.mark.parametrize("item", [ValueError("no"), 3])
def test_a_failing_request_is_in_requests_and_its_item_is_used(item: Any) -> None:
    model = FakeModel([item])
    with pytest.raises((ValueError, TypeError)):
        model.respond(REQUEST)
    assert model.requests == [REQUEST]
    assert model.remaining == 0


def test_a_request_above_the_context_window_uses_no_item() -> None:
    model = FakeModel(["a"], context_window=10)
    with pytest.raises(ContextTooLongError):
        model.respond(REQUEST)
    assert model.requests == [REQUEST]
    assert model.remaining == 1


def test_a_request_that_just_fits_is_answered() -> None:
    tokens = FakeModel([]).count_tokens(REQUEST)
    assert FakeModel(["a"], context_window=tokens).respond(REQUEST).text == "a"


def test_the_size_is_the_models_own_count() -> None:
    class Heavy(FakeModel):
        def count_tokens(self, request: Request) -> int:
            return 7

    assert Heavy(["a"], context_window=7).respond(REQUEST).usage.input_tokens == 7
    with pytest.raises(ContextTooLongError):
        Heavy(["a"], context_window=6).respond(REQUEST)


def test_too_large_comes_before_no_reply_left() -> None:
    with pytest.raises(ContextTooLongError):
        FakeModel([], context_window=10).respond(REQUEST)


def test_without_a_reply_left_the_error_says_how_many_there_were_and_what_was_asked() -> None:
    model = FakeModel(["a", "b"])
    model.respond(REQUEST)
    model.respond(REQUEST)
    with pytest.raises(RuntimeError, match=r"2 were prepared[^\n]*'Say hello'"):
        model.respond(REQUEST)


@pytest.mark.refused_by_providers
def test_a_request_without_messages_can_find_no_reply_left_either() -> None:
    with pytest.raises(RuntimeError, match="0 were prepared"):
        FakeModel([]).respond(Request(None, ()))


@pytest.mark.parametrize(
    ("item", "content"),
    [
        ("hello", (TextBlock("hello"),)),
        (CALL, (CALL,)),
        ([], ()),
        (["Hel", CALL, RAW, TextBlock("lo")], (TextBlock("Hel"), CALL, RAW, TextBlock("lo"))),
        (("a", CALL), (TextBlock("a"), CALL)),
        (lambda request: "made", (TextBlock("made"),)),
        (lambda request: ["made", CALL], (TextBlock("made"), CALL)),
    ],
)
def test_an_item_becomes_the_blocks_of_a_reply(item: Any, content: tuple[Any, ...]) -> None:
    message = reply_to(item).message
    assert message.role == "assistant"
    assert message.content == content


@pytest.mark.parametrize("item", [REPLY, lambda request: REPLY])
def test_a_reply_is_given_as_it_is(item: Any) -> None:
    assert reply_to(item) is REPLY


def test_a_prepared_reply_is_not_streamed() -> None:
    assert FakeModel([REPLY]).respond(REQUEST, pytest.fail) is REPLY


ERROR = KeyboardInterrupt()


@pytest.mark.parametrize("item", [ERROR, lambda request: ERROR])
def test_an_exception_is_raised_as_the_same_object(item: Any) -> None:
    with pytest.raises(KeyboardInterrupt) as raised:
        reply_to(item)
    assert raised.value is ERROR


def test_a_function_gets_the_request() -> None:
    assert reply_to(lambda request: f"got {request.messages[0].text}").text == "got Say hello"


def test_what_a_function_raises_comes_out_of_respond() -> None:
    error = ValueError("no")

    def fail(request: Request) -> str:
        raise error

    with pytest.raises(ValueError) as raised:
        reply_to(fail)
    assert raised.value is error


@pytest.mark.parametrize(
    "item",
    [3, None, TextBlock("a"), RAW, Message.user("a"), ["a", 3], [["a"]], [REPLY], lambda request: lambda again: "a"],
)
def test_what_no_reply_can_be_made_of_is_refused_when_it_is_used(item: Any) -> None:
    model = FakeModel([item])
    with pytest.raises(TypeError, match="cannot make a reply"):
        model.respond(REQUEST)


@pytest.mark.parametrize(("item", "reason"), [("a", "end_turn"), ([], "end_turn"), (["a", CALL], "tool_use")])
def test_the_stop_reason_says_whether_there_are_calls(item: Any, reason: str) -> None:
    assert reply_to(item).stop_reason == reason


def test_the_reply_names_the_model() -> None:
    assert reply_to("a", name="small").model == "small"


def test_the_usage_is_the_estimate_of_request_and_texts() -> None:
    tokens = FakeModel([]).count_tokens(REQUEST)
    reply = reply_to(["1234", RAW, "1234", tool_call("read_file", path="a" * 300)])
    assert reply.usage == Usage(tokens, 4, requests=1, cost=None)
    assert reply.context_tokens == tokens + 4


def test_a_price_gives_the_cost() -> None:
    price = Price(3, 15)
    usage = reply_to("hello", price=price).usage
    assert usage.cost == price.cost(usage)


def test_each_text_is_streamed_whole_and_in_order(act: Callable[..., Any]) -> None:
    pieces: list[str] = []
    act(FakeModel([["Hel", CALL, "", "lo"]]), "respond", REQUEST, pieces.append)
    assert pieces == ["Hel", "lo"]


def test_concurrent_threads_get_distinct_items() -> None:
    model = FakeModel([str(number) for number in range(200)])
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda _: model.respond(REQUEST).text, range(200)))
    assert sorted(texts, key=int) == [str(number) for number in range(200)]
    assert len(model.requests) == 200


def test_concurrent_tasks_get_distinct_items() -> None:
    model = FakeModel([str(number) for number in range(20)])

    async def ask_all() -> list[Reply]:
        return await asyncio.gather(*[model.arespond(REQUEST) for _ in range(20)])

    assert {reply.text for reply in asyncio.run(ask_all())} == {str(number) for number in range(20)}


def test_a_function_may_use_the_model_itself() -> None:
    model = FakeModel([lambda request: model.respond(request).text + "!", "inner"])
    assert model.respond(REQUEST).text == "inner!"


def test_a_function_that_takes_long_holds_no_other_request_up() -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow(request: Request) -> str:
        started.set()
        go_on.wait(10)
        return "slow"

    model = FakeModel([slow, "fast"])
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(model.respond, REQUEST)
        assert started.wait(10)
        assert model.respond(REQUEST).text == "fast"
        go_on.set()
        assert first.result().text == "slow"


def test_a_compaction_uses_one_item_as_the_summary(act: Callable[..., Any]) -> None:
    model = FakeModel(["the summary", "b"])
    assert act(model, "compact", REQUEST).text == "the summary"
    assert model.remaining == 1
    assert model.requests[0].tool_choice == "none"
