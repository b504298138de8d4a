"""CompactIfFull: when it compacts, with what, and in which half."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from runs import agent, fake, for_async, is_async, started

from alpineagents import (
    Agent,
    CompactIfFull,
    ContextTooLongError,
    Message,
    State,
    acompact_if_full,
    compact_if_full,
)
from alpineagents.testing import FakeModel

Act = Callable[..., Any]


def use(act: Act, block: CompactIfFull, made: Any, state: State) -> None:
    """Call the block in the half that `act` runs."""
    asyncio.run(block.acall(made, state)) if is_async(act) else block(made, state)


def filled(tokens: int) -> State:
    """A State whose one message is estimated at this many tokens."""
    return State(messages=[Message.user("x" * 3 * (tokens - 4))])


def small(*replies: Any, window: int = 1000) -> Agent:
    return agent().copy(model=FakeModel(replies, context_window=window))


def test_a_context_above_the_part_is_compacted(act: Act) -> None:
    made, state = small("summary"), filled(601)
    use(act, CompactIfFull(), made, state)
    assert [m.text for m in state.messages][1:] == ["[notice] Summary so far:\nsummary"]


def test_a_context_at_the_part_is_left_alone(act: Act) -> None:
    made, state = small(), filled(600)
    before = state.snapshot()
    use(act, CompactIfFull(), made, state)
    assert state.snapshot() is before


@pytest.mark.parametrize(("at", "compacts"), [(0.1, True), (0.5, True), (0.9, False), (2, False)])
def test_the_part_can_be_chosen(act: Act, at: float, compacts: bool) -> None:
    made, state = small("summary"), filled(700)
    use(act, CompactIfFull(at), made, state)
    assert (len(state.messages) == 2) is compacts


def test_a_model_with_an_unknown_window_is_never_full(act: Act) -> None:
    state = filled(700)
    use(act, CompactIfFull(), small(window=0), state)
    assert len(state.history) == 1


def test_instructions_are_passed_on(act: Act) -> None:
    made = small("summary")
    use(act, CompactIfFull(0.1, "Keep the names of all files"), made, filled(500))
    assert "Keep the names of all files" in fake(made).requests[0].messages[-1].text


class Duck:
    """Stands for an Agent; keeps how it is asked to compact."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def context_used(self, state: State) -> float:
        return 0.7

    def compact(self, *args: Any, **kwargs: Any) -> None:
        self.asked.append(("compact", args, kwargs))

    async def acompact(self, *args: Any, **kwargs: Any) -> None:
        self.asked.append(("acompact", args, kwargs))


def test_it_works_on_anything_that_can_be_compacted(act: Act) -> None:
    duck, state = Duck(), started()
    use(act, CompactIfFull(0.5, "names"), duck, state)
    assert duck.asked == [("acompact" if is_async(act) else "compact", (state,), {"instructions": "names"})]


def test_the_ready_made_blocks_are_the_defaults() -> None:
    assert (compact_if_full.at, compact_if_full.instructions) == (0.6, None)
    assert isinstance(compact_if_full, CompactIfFull)
    assert acompact_if_full == compact_if_full.acall


def test_its_repr_shows_both_values() -> None:
    assert repr(CompactIfFull(0.4, "names")) == "CompactIfFull(at=0.4, instructions='names')"


def test_its_values_are_not_checked() -> None:
    assert CompactIfFull(-3).at == -3


def test_a_sync_call_in_an_async_run_is_refused_only_when_it_compacts() -> None:
    def loop(made: Any, state: State) -> Any:
        yield made, "think", state
        compact_if_full(made, state)
        state.add_message(Message.user("x" * 3000))
        compact_if_full(made, state)

    made = small("done").copy(loop=for_async(loop))
    with pytest.raises(TypeError, match="acompact_if_full"):
        asyncio.run(made.arun("Go"))


# In a loop


def test_the_default_loop_compacts_before_the_very_first_think(act: Act) -> None:
    made, state = small("summary", "done"), filled(700)
    assert act(made, "run", state) == "done"
    assert [e.kind for e in state.history][1:5] == ["run_start", "context_change", "model_request", "model_reply"]
    assert [request.tool_choice for request in fake(made).requests] == ["none", "auto"]


def test_the_default_loop_does_not_compact_a_small_context(act: Act) -> None:
    made = small("done")
    act(made, "run", filled(500))
    assert len(fake(made).requests) == 1


def test_nothing_compacts_by_itself(act: Act) -> None:
    made, state = small(), filled(1100)
    with pytest.raises(ContextTooLongError):
        act(made, "think", state)
    assert [e.kind for e in state.history] == ["context_change", "model_request", "error"]
