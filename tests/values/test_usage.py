"""Sums of tokens and dollars, and what tokens cost."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alpineagents.values.usage import Price, Usage

COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "requests")
TOKENS = st.integers(0, 10**9)
COSTS = st.none() | st.integers(0, 2**20).map(lambda n: n / 1024)  # sums of these are exact
USAGES = st.builds(Usage, TOKENS, TOKENS, TOKENS, TOKENS, st.integers(0, 3), COSTS)


def test_an_empty_usage_counts_nothing_and_knows_no_cost() -> None:
    assert dataclasses.astuple(Usage()) == (0, 0, 0, 0, 0, None)


@given(USAGES, USAGES)
def test_a_sum_has_all_counts_added(a: Usage, b: Usage) -> None:
    assert [getattr(a + b, name) for name in COUNTS] == [getattr(a, name) + getattr(b, name) for name in COUNTS]


@pytest.mark.parametrize(
    ("a", "b", "cost"),
    [
        (Usage(requests=0, cost=9.0), Usage(requests=1, cost=0.5), 0.5),
        (Usage(requests=0, cost=9.0), Usage(requests=1, cost=None), None),
        (Usage(requests=0, cost=9.0), Usage(requests=0, cost=0.5), 0.5),
        (Usage(requests=0, cost=9.0), Usage(), None),
        (Usage(requests=1, cost=0.5), Usage(requests=0, cost=9.0), 0.5),
        (Usage(requests=1, cost=None), Usage(requests=0, cost=9.0), None),
        (Usage(requests=1, cost=None), Usage(requests=1, cost=0.5), None),
        (Usage(requests=1, cost=0.5), Usage(requests=1, cost=None), None),
        (Usage(requests=1, cost=0.5), Usage(requests=2, cost=0.25), 0.75),
        (Usage(requests=1, cost=0.0), Usage(requests=1, cost=0.0), 0.0),
    ],
    ids=repr,
)
def test_the_cost_of_a_sum(a: Usage, b: Usage, cost: float | None) -> None:
    assert (a + b).cost == cost


def test_a_side_without_requests_adds_its_tokens() -> None:
    assert Usage(output_tokens=9) + Usage(1, 1, requests=1, cost=0.2) == Usage(1, 10, requests=1, cost=0.2)


@given(USAGES.filter(lambda usage: usage.requests > 0))
def test_an_empty_usage_changes_no_sum(usage: Usage) -> None:
    assert Usage() + usage == usage == usage + Usage()


@given(st.lists(USAGES.filter(lambda usage: usage.requests > 0), max_size=5))
def test_sum_starts_from_an_empty_usage(usages: list[Usage]) -> None:
    total = sum(usages, Usage())
    assert total.requests == sum(usage.requests for usage in usages)
    costs = [usage.cost for usage in usages]
    assert total.cost == (None if None in costs or not costs else sum(cost for cost in costs if cost is not None))


def test_a_sum_is_a_new_usage() -> None:
    one, other = Usage(input_tokens=1), Usage(input_tokens=2)
    assert one + other == Usage(input_tokens=3)
    assert (one, other) == (Usage(input_tokens=1), Usage(input_tokens=2))


@pytest.mark.parametrize("other", [0, None, 1.5, {}, (0, 0, 0, 0, 0, None)], ids=repr)
def test_only_usages_can_be_added(other: Any) -> None:
    with pytest.raises(TypeError):
        Usage() + other
    with pytest.raises(TypeError):
        other + Usage()


def test_the_cache_hit_rate_is_the_part_of_all_input_that_was_read_from_the_cache() -> None:
    assert Usage(input_tokens=1, output_tokens=100, cache_read_tokens=6, cache_write_tokens=1).cache_hit_rate == 0.75
    assert Usage(cache_write_tokens=3).cache_hit_rate == 0.0


def test_there_is_no_cache_hit_rate_without_input() -> None:
    assert Usage(output_tokens=5, requests=1).cache_hit_rate is None


SPENT = Usage(1_000_000, 2_000_000, 3_000_000, 4_000_000, requests=7, cost=99.0)


@pytest.mark.parametrize(
    ("price", "dollars"),
    [
        (Price(3, 15), 3 + 30 + 9 + 12),
        (Price(3, 15, cache_read=0.5), 3 + 30 + 1.5 + 12),
        (Price(3, 15, cache_write=4), 3 + 30 + 9 + 16),
        (Price(3, 15, 0, 0), 3 + 30),
        (Price(0, 0), 0),
    ],
    ids=repr,
)
def test_tokens_cost_their_price_per_million(price: Price, dollars: float) -> None:
    assert price.cost(SPENT) == dollars


def test_a_cost_is_a_float() -> None:
    assert type(Price(0, 0).cost(Usage())) is float


@given(st.tuples(TOKENS, TOKENS, TOKENS, TOKENS))
def test_a_cost_is_exact_up_to_rounding(tokens: tuple[int, int, int, int]) -> None:
    prices = (3.0, 15.0, 0.25, 3.75)
    exact = sum(Fraction(price) * count for price, count in zip(prices, tokens, strict=True)) / 1_000_000
    assert Price(*prices).cost(Usage(*tokens)) == pytest.approx(float(exact), rel=1e-12)
