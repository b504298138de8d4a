"""Loop and @loop: what they accept, when they stop, and how they nest."""

from __future__ import annotations

import asyncio
import functools
import gc
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from histories import LIST, READ, pending, waiting
from runs import Heard, agent, call, fake, for_async, for_sync, is_async, started, story, written

from alpineagents import (
    Agent,
    Loop,
    Message,
    State,
    StoppedByFinish,
    StoppedByLimit,
    StoppedByPermission,
    StoppedByUntil,
    adefault_loop,
    default_loop,
    loop,
    tool,
    waiting_for_user,
)
from alpineagents.history import rules
from alpineagents.state import journal_of
from alpineagents.testing import FakeModel
from alpineagents.types import Reply, StopEntry, TextBlock, ToolCall, Usage

Act = Callable[..., Any]


def never(state: State) -> bool:
    return False


def always(state: State) -> bool:
    return True


def thinking(agent: Any, state: State) -> Any:
    yield agent, "think", state


def does_nothing(agent: Any, state: State) -> None:
    """Does nothing"""


async def adoes_nothing(agent: Any, state: State) -> None:
    """Does nothing"""


class Turn:
    def __call__(self, agent: Any, state: State) -> None:
        agent.think(state)


class AsyncTurn:
    async def __call__(self, agent: Any, state: State) -> None:
        await agent.athink(state)


class Packed:
    def __call__(self, state: State) -> bool:
        return True

    def is_packed(self, state: State) -> bool:
        return True


def stops(state: State) -> list[Any]:
    return [entry.content for entry in state.history if isinstance(entry, StopEntry)]


# Making a Loop


def made_wrongly() -> list[Callable[[], Any]]:
    no_limit: dict[str, Any] = {"until": never}
    no_until: dict[str, Any] = {"limit": 3}
    neither: Any = loop
    return [
        lambda: neither(does_nothing),
        neither,
        lambda: loop(**no_limit),
        lambda: loop(**no_until),
        lambda: loop(until=None, **no_until),
        lambda: loop(limit=None, **no_limit),
        lambda: Loop(does_nothing, **no_limit),
        lambda: Loop(does_nothing, **no_until),
        lambda: Loop(does_nothing, **{}),
        lambda: Loop(does_nothing, until=None, limit=3),  # type: ignore[arg-type]
        lambda: Loop(does_nothing, until=never, limit=None),  # type: ignore[arg-type]
        lambda: default_loop.copy(until=None),  # type: ignore[arg-type]
        lambda: default_loop.copy(limit=None),  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize("make", made_wrongly())
def test_until_and_limit_are_both_needed(make: Callable[[], Any]) -> None:
    with pytest.raises(TypeError) as refused:
        make()
    assert "until" in str(refused.value)
    assert "limit" in str(refused.value)


def test_until_and_limit_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        loop(never, 3)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Loop(does_nothing, never, 3)  # type: ignore[misc]


@pytest.mark.parametrize("until", [3, "never", {never}, (f for f in [never]), [never, 3], [[never]], object()])
def test_until_is_a_function_or_a_list_of_functions(until: Any) -> None:
    with pytest.raises(TypeError, match="until"):
        loop(until=until, limit=3)


@pytest.mark.parametrize("until", [True, False, [never, True]])
def test_a_condition_that_was_called_gets_its_own_message(until: Any) -> None:
    with pytest.raises(TypeError, match="without parentheses"):
        loop(until=until, limit=3)


def test_a_condition_cannot_be_async() -> None:
    async def done(state: State) -> bool:
        return True

    with pytest.raises(TypeError, match="async"):
        loop(until=done, limit=3)


@pytest.mark.parametrize("until", [[], ()])
def test_no_conditions_are_accepted(act: Act, until: Any) -> None:
    repeated = loop(until=until, limit=2)(written(act, thinking))
    state = started()
    act(agent("a", "b", loop=repeated), "run", state)
    assert repeated.until == ()
    assert state.stopped == StoppedByLimit(2)


@pytest.mark.parametrize("limit", ["3", 3.0, True, False, [3]])
def test_a_limit_is_an_int(limit: Any) -> None:
    with pytest.raises(TypeError, match="limit"):
        loop(until=never, limit=limit)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_is_at_least_one(limit: int) -> None:
    with pytest.raises(ValueError, match="limit"):
        loop(until=never, limit=limit)
    with pytest.raises(ValueError, match="limit"):
        default_loop.copy(limit=limit)


def lambda_makers() -> list[Callable[[], Loop]]:
    named = loop(until=never, limit=3)(does_nothing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unnamed = loop(until=lambda state: True, limit=3)(does_nothing)
    return [
        lambda: loop(until=lambda state: True, limit=3)(does_nothing),
        lambda: Loop(does_nothing, until=[never, lambda state: True], limit=3),
        lambda: named.copy(until=lambda state: True),
        lambda: unnamed.copy(limit=4),
    ]


@pytest.mark.parametrize("make", lambda_makers())
def test_a_lambda_in_until_gives_one_warning_at_the_line_that_makes_the_loop(make: Callable[[], Loop]) -> None:
    with pytest.warns(UserWarning, match="lambda") as caught:
        make()
    assert [warning.filename for warning in caught] == [__file__]


def test_a_lambda_works_all_the_same() -> None:
    with pytest.warns(UserWarning, match="lambda"):
        repeated = loop(until=lambda state: True, limit=3)(does_nothing)
    state = started()
    repeated(None, state)
    assert state.stopped == StoppedByUntil("<lambda>")


@pytest.mark.parametrize(
    ("condition", "name"),
    [
        (always, "always"),
        (Packed(), "Packed"),
        (Packed().is_packed, "is_packed"),
        (functools.partial(always), "partial"),
    ],
)
def test_a_condition_has_the_name_of_its_function_or_class(condition: Any, name: str) -> None:
    state = started()
    loop(until=condition, limit=3)(does_nothing)(None, state)
    assert state.stopped == StoppedByUntil(name)


def test_a_condition_called_finish_is_no_finish() -> None:
    def finish(state: State) -> bool:
        return True

    state = started()
    loop(until=finish, limit=3)(does_nothing)(None, state)
    assert state.stopped == StoppedByUntil("finish")
    assert not state.finished


def test_a_loop_shows_its_parts() -> None:
    repeated = loop(until=[never, always], limit=7)(does_nothing)
    assert isinstance(repeated, Loop)
    assert repeated.body is does_nothing
    assert repeated.until == (never, always)
    assert repeated.limit == 7
    assert repeated.is_async is False
    assert repeated.__wrapped__ is does_nothing  # type: ignore[attr-defined]
    assert repeated.__name__ == "does_nothing"  # type: ignore[attr-defined]
    assert repeated.__doc__ == "Does nothing"
    assert repr(repeated) == "Loop(does_nothing, until=[never, always], limit=7)"


def test_attributes_of_the_body_do_not_override_those_of_the_loop() -> None:
    def body(agent: Any, state: State) -> None: ...

    vars(body).update(body=1, until=2, limit=3, is_async=4)
    repeated = loop(until=never, limit=7)(body)
    assert (repeated.body, repeated.until, repeated.limit, repeated.is_async) == (body, (never,), 7, False)


async_bodies: list[Any] = [
    adoes_nothing,
    functools.partial(adoes_nothing),
    functools.partial(functools.partial(adoes_nothing)),
    AsyncTurn(),
    AsyncTurn().__call__,
    loop(until=never, limit=1)(adoes_nothing),
    functools.partial(loop(until=never, limit=1)(adoes_nothing)),
    adefault_loop,
]
sync_bodies: list[Any] = [
    does_nothing,
    functools.partial(does_nothing),
    Turn(),
    Turn().__call__,
    loop(until=never, limit=1)(does_nothing),
    default_loop,
]


@pytest.mark.parametrize("body", async_bodies)
def test_a_loop_of_an_async_body_is_async(body: Any) -> None:
    assert loop(until=never, limit=1)(body).is_async


@pytest.mark.parametrize("body", sync_bodies)
def test_a_loop_of_another_body_is_not(body: Any) -> None:
    assert not loop(until=never, limit=1)(body).is_async


def test_calling_an_async_loop_gives_a_coroutine() -> None:
    state = started()
    turns = loop(until=always, limit=1)(adoes_nothing)(None, state)
    assert asyncio.iscoroutine(turns)
    assert state.stopped is None
    asyncio.run(turns)
    assert state.stopped == StoppedByUntil("always")


def test_a_copy_keeps_the_body_and_what_it_is_not_told() -> None:
    repeated = loop(until=[never], limit=7)(does_nothing)
    copied = repeated.copy(until=always)
    assert (copied.body, copied.until, copied.limit) == (does_nothing, (always,), 7)
    copied = repeated.copy(limit=8)
    assert (copied.body, copied.until, copied.limit) == (does_nothing, (never,), 8)
    assert (repeated.until, repeated.limit) == ((never,), 7)
    assert repeated.copy() is not repeated


def test_a_body_may_be_an_object() -> None:
    state = started()
    loop(until=never, limit=2)(Turn())(agent("a", "b"), state)
    assert state.answer == "b"


# What a body returns


def test_a_body_that_returns_something_is_a_type_error_that_keeps_the_turn(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        return "done"

    state = started()
    with pytest.raises(TypeError, match=r"state\.finish\(answer\)"):
        act(agent("a", "b", loop=loop(until=never, limit=3)(written(act, body))), "run", state)
    assert story(state)[2:4] == ["model_request", "model_reply"]
    assert state.turn == 1


def test_a_sync_body_that_returns_an_awaitable_is_told_to_be_async() -> None:
    def body(agent: Any, state: State) -> Any:
        return adoes_nothing(agent, state)

    with pytest.raises(TypeError, match="async def"):
        loop(until=never, limit=3)(body)(None, started())
    gc.collect()  # a coroutine that was never awaited would warn here


# When a loop stops


@tool
def look() -> str:
    """Look around"""
    return "a house"


def test_the_loop_stops_when_its_condition_holds(act: Act) -> None:
    state = started()
    answer = act(agent(call("look", "c1"), "seen", tools=[look]), "run", state)
    assert answer == "seen"
    assert state.stopped == StoppedByUntil("waiting_for_user")
    assert story(state)[-1] == "stop: stopped by waiting_for_user"
    assert state.history[-1].turn == state.turn == 2


def test_conditions_are_asked_in_order_and_the_first_true_one_counts() -> None:
    asked: list[str] = []

    def one(state: State) -> bool:
        asked.append("one")
        return False

    def two(state: State) -> bool:
        asked.append("two")
        return True

    def three(state: State) -> bool:
        asked.append("three")
        return True

    state = started()
    loop(until=[one, two, three], limit=5)(does_nothing)(None, state)
    assert state.stopped == StoppedByUntil("two")
    assert asked == ["one", "two"]


@pytest.mark.parametrize("value", [1, "yes", [0], object()])
def test_a_true_value_need_not_be_true(value: Any) -> None:
    def done(state: State) -> Any:
        return value

    state = started()
    loop(until=done, limit=5)(does_nothing)(None, state)
    assert state.stopped == StoppedByUntil("done")


@pytest.mark.parametrize("value", [None, 0, "", []])
def test_a_false_value_need_not_be_false(value: Any) -> None:
    def done(state: State) -> Any:
        return value

    state = started()
    loop(until=done, limit=5)(does_nothing)(None, state)
    assert state.stopped == StoppedByLimit(5)


def test_a_loop_stops_at_its_limit_and_raises_nothing(act: Act) -> None:
    state = started()
    assert act(agent("a", "b", loop=loop(until=never, limit=2)(written(act, thinking))), "run", state) == "b"
    assert state.turn == 2
    assert stops(state) == [StoppedByLimit(2)]


def test_a_condition_that_becomes_true_in_the_last_turn_wins_over_the_limit(act: Act) -> None:
    def twice(state: State) -> bool:
        return state.turn == 2

    state = started()
    act(agent("a", "b", loop=loop(until=twice, limit=2)(written(act, thinking))), "run", state)
    assert stops(state) == [StoppedByUntil("twice")]


def test_conditions_see_the_state_after_the_previous_turn(act: Act) -> None:
    seen: list[int] = []

    def look_at(state: State) -> bool:
        seen.append(state.turn)
        return False

    act(agent("a", "b", loop=loop(until=look_at, limit=2)(written(act, thinking))), "run", "Go")
    assert seen == [0, 1, 2]


def test_a_stop_that_stands_already_is_not_recorded_again() -> None:
    state = started()
    repeated = loop(until=always, limit=2)(does_nothing)
    repeated(None, state)
    repeated(None, state)
    assert stops(state) == [StoppedByUntil("always")]


def test_each_call_counts_its_turns_from_zero(act: Act) -> None:
    made = agent("a", "b", "c", "d", loop=loop(until=never, limit=2)(written(act, thinking)))
    state = started()
    act(made, "run", state)
    act(made, "run", state)
    assert state.turn == 4
    assert stops(state) == [StoppedByLimit(2), StoppedByLimit(2)]


def test_finish_stops_the_loop_before_its_next_turn(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        state.finish("half")
        assert state.stopped == StoppedByFinish("half")
        yield agent, "use_tools", State(messages=[Message.user("another")])

    state = started()
    assert act(agent(loop=loop(until=never, limit=5)(written(act, body))), "run", state) == "half"
    assert stops(state) == [StoppedByFinish("half")]


def test_conditions_are_not_asked_of_a_finished_state() -> None:
    def fail(state: State) -> bool:
        raise AssertionError

    state = started()
    state.finish("done")
    assert loop(until=fail, limit=5)(does_nothing)(None, state) == "done"
    assert stops(state) == [StoppedByFinish("done")]


def test_a_finished_state_whose_stop_was_withdrawn_stops_with_finish_and_keeps_its_answer() -> None:
    state = started()
    state.finish("done")
    journal_of(state).record(rules.stop, None)
    assert loop(until=always, limit=5)(does_nothing)(None, state) == "done"
    assert stops(state) == [StoppedByFinish("done"), None, StoppedByFinish()]
    assert state.answer == "done"


def test_a_stop_by_a_permission_stops_the_loop_and_records_nothing() -> None:
    state = started()
    stopped = StoppedByPermission(ToolCall("rm", {}, "c1"), "DenyRm()")
    journal_of(state).record(rules.stop, stopped)
    assert loop(until=always, limit=5)(does_nothing)(None, state) is None
    assert stops(state) == [stopped]


def test_a_body_that_thinks_after_finish_gets_the_error(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        state.finish("half")
        yield agent, "think", state

    with pytest.raises(ValueError, match="finished"):
        act(agent("a", loop=loop(until=never, limit=5)(written(act, body))), "run", "Go")


def test_finish_in_a_condition_stops_the_loop_too(act: Act) -> None:
    def gives_up(state: State) -> bool:
        if state.turn == 1:
            state.finish("enough")
        return False

    state = started()
    answer = act(agent("a", "b", loop=loop(until=gives_up, limit=5)(written(act, thinking))), "run", state)
    assert answer == "enough"
    assert stops(state) == [StoppedByFinish("enough")]


def test_finish_by_another_thread_while_conditions_are_asked_stops_the_loop() -> None:
    def slow(state: State) -> bool:
        finishing = threading.Thread(target=state.finish, args=("from outside",))
        finishing.start()
        finishing.join()
        return state.turn > 0

    state = started()
    assert loop(until=slow, limit=5)(Turn())(agent("a"), state) == "from outside"
    assert stops(state) == [StoppedByFinish("from outside")]


@pytest.mark.parametrize("error", [KeyError("x"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_a_condition_raises_passes_as_it_is(act: Act, error: BaseException) -> None:
    def broken(state: State) -> bool:
        raise error

    state = started()
    with pytest.raises(type(error)) as raised:
        act(agent("a", loop=loop(until=broken, limit=5)(written(act, thinking))), "run", state)
    assert raised.value is error
    assert fakes_asked(state) == 0


def fakes_asked(state: State) -> int:
    return len([entry for entry in state.history if entry.kind == "model_request"])


@pytest.mark.parametrize("error", [KeyError("x"), KeyboardInterrupt(), SystemExit(3)])
def test_what_a_body_raises_passes_as_it_is(act: Act, error: BaseException) -> None:
    def broken(agent: Any, state: State) -> Any:
        yield agent, "think", state
        raise error

    state = started()
    with pytest.raises(type(error)) as raised:
        act(agent("a", loop=loop(until=never, limit=5)(written(act, broken))), "run", state)
    assert raised.value is error
    assert fakes_asked(state) == 1


def test_a_loop_can_be_called_outside_a_run(act: Act) -> None:
    made, state = agent("a", "b"), started()
    repeated = loop(until=never, limit=2)(written(act, thinking))
    answer = asyncio.run(repeated(made, state)) if is_async(act) else repeated(made, state)
    assert answer == "b"
    assert [entry.kind for entry in state.history].count("run_start") == 0


def test_a_loop_called_by_hand_sees_the_stop_that_is_recorded() -> None:
    state = started()
    loop(until=always, limit=5)(does_nothing)(None, state)
    loop(until=never, limit=1)(does_nothing)(None, state)
    assert stops(state) == [StoppedByUntil("always"), None, StoppedByLimit(1)]


def test_a_stop_of_an_earlier_run_does_not_stop_the_next(act: Act) -> None:
    made, state = agent("a", "b"), started()
    act(made, "run", state)
    state.add_message(Message.user("And now?"))
    assert act(made, "run", state) == "b"


def test_a_loop_without_the_decorator_is_not_checked_and_its_value_is_returned(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state
        return {"any": ["object"]}

    state = started()
    assert act(agent("a", loop=written(act, body)), "run", state) == {"any": ["object"]}
    assert state.stopped is None
    assert stops(state) == []


# Nested loops


def packed(state: State) -> bool:
    return state.turn >= 3


def test_a_loop_inside_a_loop_with_a_notice_between(act: Act) -> None:
    sort_parcels = loop(until=never, limit=2)(written(act, thinking))

    class Sorting:
        """What `yield` needs of a step: a method and its async twin."""

        def sort(self, agent: Any, state: State) -> Any:
            return sort_parcels(agent, state)

        asort = sort

    def day(agent: Any, state: State) -> Any:
        yield Sorting(), "sort", agent, state
        if state.turn == 2:
            state.add_message(Message.notice("the van is late"))

    state = started()
    made = agent("box A", "box B", "box C", "box D", loop=loop(until=packed, limit=9)(written(act, day)))
    assert act(made, "run", state) == "box D"
    assert [(entry.turn, line) for entry, line in zip(state.history, story(state), strict=True)] == [
        (0, "context_change"),
        (0, "run_start"),
        (1, "model_request"),
        (1, "model_reply"),
        (2, "model_request"),
        (2, "model_reply"),
        (2, "stop: stopped at limit 2"),
        (2, "notice"),
        (2, "stop: None"),
        (3, "model_request"),
        (3, "model_reply"),
        (4, "model_request"),
        (4, "model_reply"),
        (4, "stop: stopped at limit 2"),
        (4, "stop: stopped by packed"),
    ]
    assert State(history=state.history).stopped == StoppedByUntil("packed")


def test_every_body_starts_with_no_stop() -> None:
    seen: list[Any] = []
    inner = loop(until=always, limit=1)(does_nothing)

    def body(agent: Any, state: State) -> None:
        seen.append(state.stopped)
        inner(agent, state)

    loop(until=never, limit=3)(body)(None, started())
    assert seen == [None, None, None]


def test_finish_ends_all_loops_around_it(act: Act) -> None:
    def finishing(agent: Any, state: State) -> Any:
        state.finish("done")
        yield agent, "use_tools", started()

    inner = loop(until=never, limit=3)(written(act, finishing))
    state = started()
    outer = loop(until=never, limit=3)(loop(until=never, limit=3)(inner))
    assert act(agent(loop=outer), "run", state) == "done"
    assert stops(state) == [StoppedByFinish("done")]


def test_a_stop_by_a_permission_ends_all_loops_around_it() -> None:
    stopped = StoppedByPermission(ToolCall("rm", {}, "c1"), "DenyRm()")

    def body(agent: Any, state: State) -> None:
        journal_of(state).record(rules.stop, stopped)

    state = started()
    loop(until=never, limit=3)(loop(until=never, limit=3)(body))(None, state)
    assert stops(state) == [stopped]


def test_a_plain_loop_around_a_loop_clears_nothing(act: Act) -> None:
    def body(agent: Any, state: State) -> Any:
        yield agent, "think", state

    inner = loop(until=never, limit=1)(written(act, body))
    state = started()
    if is_async(act):

        async def aplain(agent: Any, state: State) -> Any:
            await inner(agent, state)
            assert state.stopped == StoppedByLimit(1)
            await inner(agent, state)

        act(agent("a", "b", loop=aplain), "run", state)
    else:

        def plain(agent: Any, state: State) -> Any:
            inner(agent, state)
            assert state.stopped == StoppedByLimit(1)
            inner(agent, state)

        act(agent("a", "b", loop=plain), "run", state)
    assert state.stopped == StoppedByLimit(1)
    assert stops(state) == [StoppedByLimit(1), None, StoppedByLimit(1)]


def test_a_loop_may_be_the_body_of_another(act: Act) -> None:
    inner = loop(until=waiting_for_user, limit=1)(written(act, thinking))
    outer = loop(until=never, limit=3)(inner)
    assert (outer.until, outer.limit, outer.body) == ((never,), 3, inner)
    state = started()
    act(agent("a", "b", "c", loop=outer), "run", state)
    assert state.turn == 1  # the answer is there: the inner loop stops at once in the second and third turn
    assert state.stopped == StoppedByLimit(3)


# The loops that come with the package


def imported(*messages: Message) -> State:
    return State(messages=messages)


def held_behind_a_reply() -> State:
    state = imported(Message.user("Go"), Message.assistant("Done"))
    state.add_message(Message.user("And now?"))
    return state


def empty_reply() -> State:
    state = started()
    journal_of(state).record(rules.request, "m")
    journal_of(state).record(rules.reply, Reply(Message("assistant", ()), Usage(), stop_reason="max_tokens"))
    return state


@pytest.mark.parametrize(
    ("state", "answered"),
    [
        (State(), False),
        (started(), False),
        (imported(Message.user("Go"), Message.assistant("Done")), True),
        (imported(Message.assistant("Done")), True),
        (held_behind_a_reply(), False),
        (empty_reply(), True),
        (pending(READ, LIST), False),
        (waiting(), False),
        (imported(Message("assistant", (TextBlock("a"), READ))), False),
    ],
)
def test_the_model_waits_for_the_user_behind_a_reply_without_calls(state: State, answered: bool) -> None:
    assert waiting_for_user(state) is answered


@pytest.mark.parametrize(("shipped", "name"), [(default_loop, "default_loop"), (adefault_loop, "adefault_loop")])
def test_the_default_loops_run_until_the_model_waits_or_50_turns(shipped: Loop, name: str) -> None:
    assert isinstance(shipped, Loop)
    assert shipped.until == (waiting_for_user,)
    assert shipped.limit == 50
    assert shipped.__name__ == name  # type: ignore[attr-defined]
    assert shipped.is_async is (name == "adefault_loop")


def test_the_default_loop_on_an_answered_state_records_one_stop_and_asks_no_model(act: Act) -> None:
    made, state = agent(), imported(Message.user("Go"), Message.assistant("Done"))
    assert act(made, "run", state) is None
    assert fake(made).requests == []
    assert story(state)[1:] == ["run_start", "stop: stopped by waiting_for_user"]


def test_the_default_loop_stops_at_50_turns(act: Act) -> None:
    state = started()
    act(agent(*[call("look", f"c{n}") for n in range(51)], tools=[look]), "run", state)
    assert state.turn == 50
    assert state.stopped == StoppedByLimit(50)


def test_the_default_loop_hears_what_was_said_meanwhile(act: Act) -> None:
    def interrupts(request: Any) -> str:
        if len(made_requests) == 1:
            state.add_message(Message.user("hurry"))
        return f"answer {len(made_requests)}"

    model = FakeModel([interrupts, interrupts])
    made_requests, state = model.requests, started()
    assert act(Agent(model, reporter=None, human=None), "run", state) == "answer 2"
    assert [m.text for m in state.messages] == ["Go", "answer 1", "hurry", "answer 2"]


def test_an_async_loop_waits_without_blocking_others() -> None:
    both = threading.Barrier(2, timeout=20)

    @tool
    async def meet() -> str:
        """Meet the other run"""
        await asyncio.to_thread(both.wait)
        return "met"

    async def meet_twice() -> list[Any]:
        made = agent(call("meet", "c1"), call("meet", "c2"), "a", "b", tools=[meet])
        return await asyncio.gather(made.arun("one"), made.arun("two"))

    assert sorted(asyncio.run(meet_twice())) == ["a", "b"]


def test_the_drivers_of_these_tests_raise_into_the_body() -> None:
    def body(agent: Any, state: State) -> Any:
        try:
            yield agent, "think", state
        except ValueError:
            return "caught"

    assert for_sync(body)(agent("a"), State()) == "caught"
    assert asyncio.run(for_async(body)(agent("a"), State())) == "caught"


def test_a_loop_reports_nothing_by_itself(act: Act) -> None:
    heard = Heard()
    act(agent("a", reporter=heard, loop=loop(until=never, limit=1)(written(act, thinking))), "run", "Go")
    assert heard.events == ["run_start", "think_start", "text a", "think_end", "run_end"]
