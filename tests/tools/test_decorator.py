"""The ways to write @tool."""

from __future__ import annotations

from typing import Any

import pytest

from alpineagents.state import State
from alpineagents.tools.decorator import tool
from alpineagents.tools.function import FunctionTool


def weigh(grams: int) -> int:
    """Weigh a parcel."""
    return grams


@pytest.mark.parametrize("made", [tool(weigh), tool()(weigh)])
def test_with_and_without_parentheses(made: FunctionTool) -> None:
    assert type(made) is FunctionTool
    assert (made.name, made.description, made.parallel) == ("weigh", "Weigh a parcel.", True)


def test_a_function_together_with_options() -> None:
    options: Any = {"name": "scale", "parallel": False, "read_only": True}
    for made in (tool(weigh, **options), tool(**options)(weigh)):
        assert (made.name, made.parallel, made.read_only) == ("scale", False, True)


def test_a_method_is_bound_where_it_is_used() -> None:
    class Depot:
        @tool
        def weigh(self, grams: int) -> Any:
            return self, grams

    depot = Depot()
    assert depot.weigh.run({"grams": 1}, State()) == (depot, 1)


def test_an_unknown_option_is_reported_before_there_is_a_function() -> None:
    with pytest.raises(TypeError, match="no option 'nmae'"):
        tool(nmae="x")  # type: ignore[call-overload]


@pytest.mark.parametrize("thing", [None, "scale", 5, int])
def test_what_is_no_function_is_reported_at_once(thing: Any) -> None:
    with pytest.raises(TypeError, match="takes a function"):
        tool(thing)
    with pytest.raises(TypeError, match="takes a function"):
        tool(name="x")(thing)


def test_applying_it_twice_is_reported() -> None:
    with pytest.raises(TypeError, match="applied twice"):
        tool(tool(weigh))


def test_a_mistake_in_the_function_is_reported_while_it_runs() -> None:
    with pytest.raises(TypeError, match="bytes is not supported"):

        @tool
        def send(data: bytes) -> None: ...
