"""Tokens and dollars."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """Token usage with the same meaning for every provider: the three input counts do not overlap.

    `cost` is an estimate in dollars; `None` means unknown, which is not 0.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    requests: int = 0
    cost: float | None = None

    def __add__(self, other: Usage) -> Usage:
        """All counts added. A side without requests adds no cost; otherwise an unknown cost makes the sum unknown."""
        if not isinstance(other, Usage):
            return NotImplemented
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.requests + other.requests,
            _cost_of_sum(self, other),
        )

    @property
    def cache_hit_rate(self) -> float | None:
        """The part of all input tokens that was read from the cache, 0 to 1; `None` without input."""
        total = self.input_tokens + self.cache_read_tokens + self.cache_write_tokens
        return self.cache_read_tokens / total if total else None


def _cost_of_sum(left: Usage, right: Usage) -> float | None:
    if left.requests == 0:
        return right.cost
    if right.requests == 0:
        return left.cost
    return None if left.cost is None or right.cost is None else left.cost + right.cost


@dataclass(frozen=True)
class Price:
    """Dollars per million tokens. A cache price of `None` is the input price; 0 is free."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def cost(self, usage: Usage) -> float:
        """What these tokens cost in dollars; the usage's own `cost` and `requests` do not count."""
        cache_read = self.input if self.cache_read is None else self.cache_read
        cache_write = self.input if self.cache_write is None else self.cache_write
        dollars = (
            usage.input_tokens * self.input
            + usage.output_tokens * self.output
            + usage.cache_read_tokens * cache_read
            + usage.cache_write_tokens * cache_write
        )
        return dollars / 1_000_000
