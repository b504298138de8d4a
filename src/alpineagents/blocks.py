"""Blocks: steps that loops are put together from, each a callable `(agent, state)` that returns nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alpineagents.state import State
from alpineagents.waiting import Wait, awaiting, blocking, complete


@dataclass(frozen=True)
class CompactIfFull:
    """Compacts the context when it fills more than a part of the model's context window.

    Args:
        at: That part; 0.6 leaves room for the turn and its tool results.
        instructions: What every summary must keep, in your own words.

    Example:
        careful = CompactIfFull(at=0.4, instructions="Keep the names of all files")
    """

    at: float = 0.6
    instructions: str | None = None

    def __call__(self, agent: Any, state: State) -> None:
        """Compact if it is time to."""
        complete(self._step(blocking, agent, state))

    async def acall(self, agent: Any, state: State) -> None:
        """The same in an async loop."""
        await self._step(awaiting, agent, state)

    async def _step(self, wait: Wait, agent: Any, state: State) -> None:
        if agent.context_used(state) > self.at:
            await wait(agent.compact, agent.acompact, state, instructions=self.instructions)


compact_if_full = CompactIfFull()
acompact_if_full = compact_if_full.acall
