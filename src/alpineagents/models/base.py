"""The contract of every Model: one request in, one reply out.

A subclass writes `respond` and `context_window`. The other methods are made of these two here; the async ones call
their sync half on a worker thread, and `Relay` brings the callbacks back to the event loop's thread.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Self, TypeAlias, TypeVar

from alpineagents.values.content import Message
from alpineagents.values.estimates import context_tokens, request_overhead
from alpineagents.values.exchange import ModelEvent, Reply, Request
from alpineagents.values.usage import Price
from alpineagents.waiting import in_thread

T = TypeVar("T")
OnText: TypeAlias = Callable[[str], None]
OnEvent: TypeAlias = Callable[[ModelEvent], None]

_SUMMARY = (
    "Stop here and write a summary of this conversation. It will stand in for everything above: the work goes on from "
    "it alone. Say what the goal is, what has been done, what was found out (with exact names, paths, numbers and "
    "wordings that are still needed), what was decided and why, and what is still open. Do not call any tools; answer "
    "with the summary only."
)


class Model(ABC):
    """Turns one `Request` into one `Reply`. Subclass it with `respond` and `context_window`.

    Models compare by identity; one object may serve any number of Agents and threads, so `respond` keeps nothing
    between calls and changes no State.

    Attributes:
        name, provider: What history records as `provider/name`.
        supports: Features this Model declares, such as `"vision"`.
        max_tokens: The output limit of one reply. timeout: Seconds. retries: Attempts after the first.
        price: What `usage.cost` is computed from; `None` leaves the cost unknown.

    Example:
        class Echo(Model):
            name, context_window = "echo", 8_000

            def respond(self, request, on_text=None, on_event=None):
                return Reply(Message.assistant(request.messages[-1].text), Usage(requests=1))
    """

    name: str = ""
    provider: str = ""
    supports: frozenset[str] = frozenset()
    max_tokens: int | None = None
    temperature: float | None = None
    timeout: float | None = None
    retries: int = 2
    price: Price | None = None

    @property
    @abstractmethod
    def context_window(self) -> int:
        """How many tokens a request and its reply may have; a plain class attribute will do."""

    @abstractmethod
    def respond(self, request: Request, on_text: OnText | None = None, on_event: OnEvent | None = None) -> Reply:
        """The reply to one request.

        Args:
            on_text: Gets each non-empty piece of text as it arrives; joined, the pieces are `reply.text`.
            on_event: Gets what the Model goes through meanwhile. What either raises leaves `respond` as it is.
        Raises:
            ProviderError: The request finally failed; the original exception is its cause.
        """

    def count_tokens(self, request: Request) -> int:
        """An estimate of the request's size. The framework does not call it."""
        # A provider's own count, where a message has one, includes what goes beside the messages.
        counted = any(message.tokens is not None for message in reversed(request.messages))
        return context_tokens(request.messages, 0 if counted else request_overhead(request.system, request.tools))

    def mark_cache(self, request: Request) -> Request:
        """The request to send, with the provider's cache marks if it wants any; called once before each request."""
        return request

    def compact(self, request: Request, instructions: str | None = None, on_event: OnEvent | None = None) -> Reply:
        """A reply whose text is a summary the work can go on from.

        Args:
            instructions: What must be kept, in the caller's own words.
        """
        return self.respond(_summary_request(request, instructions), None, on_event)

    async def arespond(self, request: Request, on_text: OnText | None = None, on_event: OnEvent | None = None) -> Reply:
        """`respond` without blocking the event loop; by default on a worker thread.

        The callbacks run on the event loop's thread. When this is cancelled the reply is dropped, and the worker's next
        callback raises `CancelledError` in it.
        """
        with Relay() as relay:
            return await in_thread(self.respond, request, relay.to_loop(on_text), relay.to_loop(on_event))

    async def acompact(
        self, request: Request, instructions: str | None = None, on_event: OnEvent | None = None
    ) -> Reply:
        """`compact` without blocking the event loop: through `arespond`, or with a `compact` of its own on a thread."""
        if type(self).compact is Model.compact:
            return await self.arespond(_summary_request(request, instructions), None, on_event)
        with Relay() as relay:
            return await in_thread(self.compact, request, instructions, relay.to_loop(on_event))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def identity(model: Model) -> str:
    """What history records of a Model: `provider/name`, or the name alone."""
    return f"{model.provider}/{model.name}" if model.provider else model.name


def _summary_request(request: Request, instructions: str | None) -> Request:
    text = f"{_SUMMARY}\n\nThe summary must keep this:\n{instructions}" if instructions else _SUMMARY
    return Request(request.system, (*request.messages, Message.user(text)), request.tools, "none")


class Relay:
    """Runs callbacks on the event loop's thread for a call that runs on a worker thread.

    The worker waits for each callback, so they run one at a time and in order, and what one raises is raised in the
    worker. From the cancellation of the awaiting task on, or the end of the `with` block, none runs any more: the
    worker gets `CancelledError` instead, also for a callback that it waits for already.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._cancels = self._cancel_count()
        self._lock = threading.Lock()
        self._waiting: set[Future[None]] = set()
        self._over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._over = True
            dropped, self._waiting = self._waiting, set()
        for ran in dropped:
            ran.set_exception(asyncio.CancelledError())

    def to_loop(self, callback: Callable[[T], None] | None) -> Callable[[T], None] | None:
        """The same callback, to be called on another thread."""
        if callback is None:
            return None

        def relayed(value: T) -> None:
            ran: Future[None] = Future()
            with self._lock:
                if self._over:
                    raise asyncio.CancelledError
                self._waiting.add(ran)
            try:
                self._loop.call_soon_threadsafe(self._run, ran, callback, value)
            except RuntimeError:  # the loop is closed: nobody awaits the call
                raise asyncio.CancelledError from None
            ran.result()  # without a timeout, so that a TimeoutError can only be the callback's own

        return relayed

    def _run(self, ran: Future[None], callback: Callable[[T], None], value: T) -> None:
        with self._lock:
            if ran not in self._waiting:
                return
            self._waiting.remove(ran)
        if self._cancel_count() > self._cancels:
            ran.set_exception(asyncio.CancelledError())
            return
        try:
            callback(value)
        except BaseException as error:
            ran.set_exception(error)
        else:
            ran.set_result(None)

    def _cancel_count(self) -> int:
        # Asked for, rather than arrived: the task learns of it only after what is queued on the loop already.
        return 0 if self._task is None else self._task.cancelling()
