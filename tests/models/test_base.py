"""What a Model gets for its two methods."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from alpineagents.models import Model
from alpineagents.models.base import Relay, identity
from alpineagents.values.content import Image, Message, RawBlock, TextBlock, ToolCall, ToolResultBlock
from alpineagents.values.exchange import ModelEvent, Reply, Request, ToolSpec
from alpineagents.values.usage import Usage

LOOK = ToolSpec("look", "Look around", {"type": "object"})
REQUEST = Request("Be brief", (Message.user("Hi"),), (LOOK,))
REPLY = Reply(Message.assistant("hello"), Usage(requests=1))
EVENT = ModelEvent("retry", "again")
PNG = Image(b"\x89PNG\r\n\x1a\n" + bytes(5000))
WAIT_S = 10

Step = Callable[[Any, Any], None]


class Scripted(Model):
    """Runs a function in `respond`, with the callbacks, and notes what it was asked."""

    name = "scripted"
    context_window = 32_000

    def __init__(self, step: Step | None = None) -> None:
        self.step = step
        self.asked: list[tuple[Request, Any, Any]] = []

    def respond(self, request: Request, on_text: Any = None, on_event: Any = None) -> Reply:
        self.asked.append((request, on_text, on_event))
        if self.step is not None:
            self.step(on_text, on_event)
        return REPLY


def message(*blocks: Any, tokens: int | None = None) -> Message:
    return Message("user" if tokens is None else "assistant", blocks, tokens=tokens)


def test_a_model_needs_respond() -> None:
    class Mute(Model):
        context_window = 1000

    with pytest.raises(TypeError, match="respond"):
        Mute()


def test_a_model_needs_a_context_window() -> None:
    class Boundless(Model):
        def respond(self, request: Request, on_text: Any = None, on_event: Any = None) -> Reply:
            return REPLY

    with pytest.raises(TypeError, match="context_window"):
        Boundless()


@pytest.mark.parametrize("method", ["respond", "compact"])
def test_respond_and_a_context_window_are_enough(method: str, act: Callable[..., Any]) -> None:
    assert act(Scripted(), method, REQUEST) is REPLY


def test_a_context_window_may_be_a_property() -> None:
    class Measured(Scripted):
        @property
        def context_window(self) -> int:
            return 7

    assert Measured().context_window == 7


@pytest.mark.parametrize(
    ("setting", "default"),
    [
        ("name", ""),
        ("provider", ""),
        ("supports", frozenset()),
        ("max_tokens", None),
        ("temperature", None),
        ("timeout", None),
        ("retries", 2),
        ("price", None),
    ],
)
def test_every_setting_has_a_default_without_an_init(setting: str, default: object) -> None:
    assert getattr(Model, setting) == default


def test_its_repr_is_the_class_and_the_name() -> None:
    assert repr(Scripted()) == "Scripted('scripted')"


def test_models_compare_and_hash_by_identity() -> None:
    one, other = Scripted(), Scripted()
    assert one != other
    assert len({one, other, one}) == 2


def test_the_identity_is_provider_and_name() -> None:
    model = Scripted()
    model.provider = "acme"
    assert identity(model) == "acme/scripted"


def test_without_a_provider_the_identity_is_the_name() -> None:
    assert identity(Scripted()) == "scripted"


def test_mark_cache_gives_the_request_back() -> None:
    assert Scripted().mark_cache(REQUEST) is REQUEST


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        (TextBlock("four"), 2),
        (TextBlock(""), 0),
        (TextBlock("日本語"), 1),
        (PNG, 1600),
        (ToolCall("f", {"a": "ü"}, "c1"), (len('f{"a": "ü"}') + 2) // 3),
        (ToolResultBlock("c1", "12345"), 2),
        (ToolResultBlock("c1", (TextBlock("12"), PNG, TextBlock("345"))), 1602),
        (RawBlock("acme", {"a": 1}), (len('{"a": 1}') + 2) // 3),
    ],
)
def test_a_message_counts_four_and_its_blocks(block: Any, tokens: int) -> None:
    assert Scripted().count_tokens(Request(None, (message(block),))) == 4 + tokens


def test_system_prompt_and_tools_count_too() -> None:
    tools = (len('lookLook around{"type": "object"}') + 2) // 3
    assert Scripted().count_tokens(Request("12345", (), (LOOK, LOOK))) == 2 + 2 * tools


def test_only_what_follows_the_providers_last_count_is_estimated() -> None:
    said = [message(TextBlock("long" * 99)), message(tokens=50), message(tokens=70), message(TextBlock("new"))]
    assert Scripted().count_tokens(Request("Be brief", tuple(said), (LOOK,))) == 70 + 4 + 1


def test_nothing_before_the_providers_last_count_is_looked_at() -> None:
    class Unread(tuple[Any, ...]):
        __slots__ = ()

        def __iter__(self) -> Iterator[Any]:
            pytest.fail("looked at")

    unread = Unread([None, Message("assistant", (), tokens=70)])
    assert Scripted().count_tokens(Request("Be brief", unread, unread)) == 70


def test_compact_asks_once_for_a_summary_behind_the_conversation() -> None:
    model = Scripted()
    model.compact(REQUEST)
    [(sent, _, _)] = model.asked
    assert sent.messages[:-1] == REQUEST.messages
    assert sent.messages[-1].role == "user"
    assert "summary" in sent.messages[-1].text


def test_compact_keeps_system_prompt_and_tools_but_forbids_calls() -> None:
    model = Scripted()
    model.compact(REQUEST)
    [(sent, _, _)] = model.asked
    assert (sent.system, sent.tools, sent.tool_choice) == (REQUEST.system, REQUEST.tools, "none")
    assert "not call any tools" in sent.messages[-1].text


def test_compact_streams_no_text_and_passes_events_on() -> None:
    model, on_event = Scripted(), [].append
    model.compact(REQUEST, None, on_event)
    [(_, text, event)] = model.asked
    assert (text, event) == (None, on_event)


def summary_text(instructions: str | None) -> str:
    model = Scripted()
    model.compact(REQUEST, instructions)
    return model.asked[0][0].messages[-1].text


def test_instructions_stand_in_the_summary_request_word_for_word() -> None:
    instructions = "Keep: {all}  numbers\nand 'names'"
    assert instructions in summary_text(instructions)


def test_empty_instructions_add_nothing() -> None:
    assert summary_text("") == summary_text(None)


def test_callbacks_are_passed_by_position(act: Callable[..., Any]) -> None:
    class Renamed(Model):
        context_window = 1000

        def respond(self, question: Request, text: Any = None, event: Any = None) -> Reply:  # type: ignore[override]
            event(EVENT)
            return REPLY

    events: list[ModelEvent] = []
    act(Renamed(), "respond", REQUEST, None, events.append)
    act(Renamed(), "compact", REQUEST, None, events.append)
    assert events == [EVENT, EVENT]


def test_arespond_runs_respond_on_a_daemon_thread() -> None:
    threads: list[threading.Thread] = []
    asyncio.run(Scripted(lambda text, event: threads.append(threading.current_thread())).arespond(REQUEST))
    assert threads[0] is not threading.main_thread()
    assert threads[0].daemon


def test_respond_sees_the_context_variables_of_the_awaiter() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []

    def look(text: Any, event: Any) -> None:
        seen.append(variable.get())
        variable.set("changed")

    async def run() -> None:
        variable.set("mine")
        await Scripted(look).arespond(REQUEST)
        seen.append(variable.get())

    asyncio.run(run())
    assert seen == ["mine", "mine"]


def test_the_program_ends_while_a_cancelled_request_still_runs() -> None:
    code = """
import asyncio, threading
from alpineagents.models import Model

class Stuck(Model):
    context_window = 1000
    def respond(self, request, on_text=None, on_event=None):
        on_text("started")
        threading.Event().wait()

async def main():
    started = asyncio.Event()
    task = asyncio.create_task(Stuck().arespond(None, lambda text: started.set()))
    await started.wait()
    task.cancel()

asyncio.run(main())
print("over")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "over\n"


def speak(on_text: Any, on_event: Any) -> None:
    on_text("a")
    on_event(EVENT)
    on_text("b")


def test_callbacks_run_on_the_loops_thread() -> None:
    threads: list[threading.Thread] = []

    def note(value: Any) -> None:
        threads.append(threading.current_thread())

    asyncio.run(Scripted(speak).arespond(REQUEST, note, note))
    assert threads == [threading.main_thread()] * 3


def test_callbacks_run_in_order() -> None:
    got: list[Any] = []
    asyncio.run(Scripted(speak).arespond(REQUEST, got.append, got.append))
    assert got == ["a", EVENT, "b"]


def test_the_worker_waits_for_each_callback() -> None:
    steps: list[str] = []

    def respond(on_text: Any, on_event: Any) -> None:
        for text in ("a", "b"):
            on_text(text)
            steps.append(f"said {text}")

    asyncio.run(Scripted(respond).arespond(REQUEST, lambda text: steps.append(f"heard {text}")))
    assert steps == ["heard a", "said a", "heard b", "said b"]


@pytest.mark.parametrize("kind", [ValueError, TimeoutError, KeyboardInterrupt, asyncio.CancelledError])
def test_what_a_callback_raises_is_raised_where_it_was_called(kind: type[BaseException]) -> None:
    error = kind("enough")
    caught: list[BaseException] = []

    def respond(on_text: Any, on_event: Any) -> None:
        try:
            on_text("a")
        except BaseException as raised:
            caught.append(raised)

    def refuse(text: str) -> None:
        raise error

    assert asyncio.run(Scripted(respond).arespond(REQUEST, refuse)) is REPLY
    assert caught == [error]


def test_none_stays_none_for_callbacks() -> None:
    model = Scripted()
    asyncio.run(model.arespond(REQUEST))
    assert model.asked == [(REQUEST, None, None)]


class Held:
    """A step of `respond` that waits until it may go on, then reports what its next callback raises."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.over = threading.Event()
        self.raised: BaseException | None = None

    def __call__(self, on_text: Any, on_event: Any) -> None:
        on_text("started")
        self.go_on.wait(WAIT_S)
        try:
            on_text("next")
        except BaseException as error:
            self.raised = error
            raise
        finally:
            self.over.set()


async def cancelled(step: Step) -> list[str]:
    """Cancel a request once it has started; what it said."""
    started, said = asyncio.Event(), list[str]()

    def hear(text: str) -> None:
        said.append(text)
        started.set()

    task = asyncio.create_task(Scripted(step).arespond(REQUEST, hear))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return said


def test_cancelling_does_not_wait_for_the_worker() -> None:
    held = Held()
    asyncio.run(cancelled(held))
    assert not held.over.is_set()
    held.go_on.set()


def test_the_next_callback_after_a_cancel_raises_in_the_worker() -> None:
    held = Held()
    said = asyncio.run(cancelled(held))
    held.go_on.set()
    assert held.over.wait(WAIT_S)
    assert isinstance(held.raised, asyncio.CancelledError)
    assert said == ["started"]


def test_a_callback_that_was_queued_before_the_cancel_does_not_run() -> None:
    queued, over, said, raised = threading.Event(), threading.Event(), list[str](), list[BaseException]()

    def respond(on_text: Any, on_event: Any) -> None:
        try:
            on_text("a")
        except BaseException as error:
            raised.append(error)
            raise
        finally:
            over.set()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        call_soon_threadsafe = loop.call_soon_threadsafe

        def queue(*args: Any) -> Any:
            handle = call_soon_threadsafe(*args)
            queued.set()
            return handle

        loop.call_soon_threadsafe = queue  # type: ignore[method-assign]
        task = asyncio.create_task(Scripted(respond).arespond(REQUEST, said.append))
        await asyncio.sleep(0)
        assert queued.wait(WAIT_S)  # the loop stands still meanwhile, so the callback cannot have run
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert over.wait(WAIT_S)
    assert said == []
    assert isinstance(raised[0], asyncio.CancelledError)


def test_a_cancel_that_is_over_stops_no_later_request() -> None:
    said: list[Any] = []

    async def run() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await Scripted(speak).arespond(REQUEST, said.append, said.append)

    async def main() -> None:
        task = asyncio.create_task(run())
        await asyncio.sleep(0)
        task.cancel()
        await task

    asyncio.run(main())
    assert said == ["a", EVENT, "b"]


def calling(callback: Callable[[str], None], raised: list[BaseException]) -> threading.Thread:
    def call() -> None:
        try:
            callback("a")
        except BaseException as error:
            raised.append(error)

    return threading.Thread(target=call)


def test_a_worker_that_waits_for_a_callback_is_woken_when_nobody_awaits_it_any_more() -> None:
    raised, problems, ran = list[BaseException](), list[Any](), list[str]()

    async def run() -> None:
        queued = threading.Event()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, problem: problems.append(problem))
        call_soon_threadsafe = loop.call_soon_threadsafe

        def queue(*args: Any) -> None:
            call_soon_threadsafe(*args)
            queued.set()

        loop.call_soon_threadsafe = queue  # type: ignore[assignment,method-assign]
        with Relay() as relay:
            callback = relay.to_loop(ran.append)
            assert callback is not None
            worker = calling(callback, raised)
            worker.start()
            assert queued.wait(WAIT_S)
        worker.join(WAIT_S)  # before the loop comes to what is queued
        await asyncio.sleep(0)

    asyncio.run(run())
    assert [type(error) for error in raised] == [asyncio.CancelledError]
    assert (ran, problems) == ([], [])


def test_a_request_that_ran_into_a_timeout_hears_nothing_more() -> None:
    held, said = Held(), list[str]()

    async def run() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as deadline:

                def hear(text: str) -> None:
                    said.append(text)
                    deadline.reschedule(0)

                await Scripted(held).arespond(REQUEST, hear)
        held.go_on.set()  # the task goes on, so its count of cancellations is what it was before
        assert await asyncio.to_thread(held.over.wait, WAIT_S)

    asyncio.run(run())
    assert said == ["started"]
    assert isinstance(held.raised, asyncio.CancelledError)


def test_a_callback_on_a_closed_loop_raises_in_the_worker() -> None:
    async def relay() -> Any:
        return Relay().to_loop(pytest.fail)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(relay())("a")


def test_acompact_sends_the_summary_request_through_arespond() -> None:
    class Native(Scripted):
        async def arespond(self, request: Request, on_text: Any = None, on_event: Any = None) -> Reply:
            self.asked.append((request, on_text, on_event))
            return REPLY

    native, plain, on_event = Native(), Scripted(), [].append
    asyncio.run(native.acompact(REQUEST, "numbers", on_event))
    plain.compact(REQUEST, "numbers", on_event)
    assert native.asked == plain.asked


class Summarizing(Scripted):
    def compact(self, request: Request, instructions: str | None = None, on_event: Any = None) -> Reply:
        on_event(EVENT)
        self.asked.append((request, instructions, threading.current_thread()))
        return REPLY


def test_a_compact_of_its_own_is_what_acompact_runs_on_a_worker_thread() -> None:
    model = Summarizing()
    assert asyncio.run(model.acompact(REQUEST, "numbers", lambda event: None)) is REPLY
    [(request, instructions, thread)] = model.asked
    assert (request, instructions) == (REQUEST, "numbers")
    assert thread is not threading.main_thread()


def test_events_of_a_compact_on_a_worker_thread_reach_the_loops_thread() -> None:
    heard: list[Any] = []
    asyncio.run(Summarizing().acompact(REQUEST, None, lambda event: heard.append((event, threading.current_thread()))))
    assert heard == [(EVENT, threading.main_thread())]


def test_an_acompact_of_its_own_wins() -> None:
    class Both(Summarizing):
        async def acompact(self, request: Request, instructions: str | None = None, on_event: Any = None) -> Reply:
            return REPLY

    model = Both()
    assert asyncio.run(model.acompact(REQUEST)) is REPLY
    assert model.asked == []
