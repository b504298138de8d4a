"""What may stand in tools=[...], and what it becomes."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from alpineagents.state import State
from alpineagents.tools.base import Tool
from alpineagents.tools.collect import collect, same_tool, tool_map
from alpineagents.tools.decorator import tool


class Scale(Tool):
    def run(self, args: dict[str, Any], state: State) -> Any: ...


class Forgetful(Scale):
    def __init__(self) -> None:
        pass


class Idle(Tool):
    pass


@tool
def ping() -> str:
    return "pong"


def plain(n: int) -> int:
    return n


class Base:
    @tool
    def zip_code(self) -> str:
        return "base"

    @tool
    def weigh(self) -> str:
        return "base"

    @tool
    def address(self) -> str:
        return "base"

    @tool
    def gone(self) -> str:
        return "base"


class Depot(Base):
    gone = None  # type: ignore[assignment]

    @tool
    def post(self) -> str:
        return "depot"

    @tool
    def address(self) -> str:
        return "depot"


class Empty:
    def __init__(self) -> None:
        self.tool = ping  # on the object, not on the class


def names(*items: object) -> list[str]:
    return [made.name for made in collect(items)]


def test_tools_are_themselves_in_order() -> None:
    scale, bound = Scale(name="scale"), Depot().weigh
    assert collect([scale, ping, bound]) == (scale, ping, bound)


def test_any_iterable_is_read_once() -> None:
    assert collect(made for made in [ping]) == (ping,)
    assert collect(()) == ()


class Plain:
    @staticmethod
    @tool
    def outside(n: int) -> int:
        return n

    @tool
    def inside(n: int) -> int:  # without self it belongs to no object
        return n


def test_a_static_tool_belongs_to_the_object_too() -> None:
    outside, inside = collect([Plain()])
    assert (outside.run({"n": "1"}, State()), inside.run({"n": "2"}, State())) == (1, 2)
    assert collect([Plain.outside]) == (outside,)


def logged(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Covered:
    weigh = logged(logged(Base.weigh))
    address = Base.address


@pytest.mark.parametrize("item", [logged(ping), logged(logged(ping)), Covered()])
def test_a_tool_under_another_decorator_says_which_goes_on_top(item: object) -> None:
    with pytest.raises(TypeError, match=r"a decorator stands above @tool(?s:.*)write @tool above"):
        collect([item])


class BrokenRepr:
    def __repr__(self) -> str:
        raise ValueError("no repr")


def test_an_item_whose_repr_raises_is_refused_like_any_other() -> None:
    with pytest.raises(TypeError, match="no @tool methods"):
        collect([BrokenRepr()])
    with pytest.raises(TypeError, match="must be an iterable of tools"):
        collect(BrokenRepr())


def test_an_object_gives_its_methods_own_class_first_each_name_once() -> None:
    assert names(Depot()) == ["post", "address", "zip_code", "weigh"]


def test_methods_are_bound_to_the_object() -> None:
    depot = Depot()
    made = {found.name: found for found in collect([depot])}
    assert {found.bound_to for found in made.values()} == {depot}  # type: ignore[attr-defined]
    assert made["address"].run({}, State()) == "depot"


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (Depot.weigh, r"method without an object(?s:.*)make an object of Base"),
        (Scale, r"class(?s:.*)Scale\(\)"),
        (Depot, r"class(?s:.*)Depot\(\)"),
        (int, r"class(?s:.*)int\(\)"),
        (plain, r"not a tool(?s:.*)add @tool"),
        (Empty().__init__, r"not a tool(?s:.*)add @tool"),
        (len, r"not a tool(?s:.*)add @tool"),
        (functools.partial(plain, 1), "no @tool methods"),
        (Empty(), "no @tool methods"),
        (None, "no @tool methods"),
        ("ping", "no @tool methods"),
        (Forgetful(), r"Forgetful.__init__ did not call Tool.__init__"),
        (Idle(name="idle"), "Idle does not define run"),
    ],
)
def test_an_item_that_is_no_tool_is_a_type_error(item: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        collect([ping, item])


@pytest.mark.parametrize("items", [None, ping, Scale(name="scale"), Forgetful(), "ping", b"ping", 5, Depot()])
def test_tools_are_an_iterable(items: object) -> None:
    with pytest.raises(TypeError, match="must be an iterable of tools"):
        collect(items)


def other_ping() -> str: ...  # type: ignore[empty-body]


def test_two_tools_of_one_name_are_a_value_error_that_shows_both() -> None:
    other = tool(other_ping, name="ping")
    with pytest.raises(ValueError, match=r"name 'ping'") as refused:
        collect([ping, other])
    for part in (f"{__name__}.ping", f"{__name__}.other_ping", 'other_ping.copy(name="', "name="):
        assert part in str(refused.value)


@pytest.mark.parametrize(
    "items",
    [
        [Scale(name="scale"), Scale(name="scale")],
        [Scale(name="ping"), ping],
        [Depot(), Depot()],
        [Depot().weigh, Base()],
    ],
)
def test_names_collide_whatever_the_kinds(items: list[object]) -> None:
    with pytest.raises(ValueError, match="two tools have the name"):
        collect(items)


def test_one_tool_given_twice_is_a_value_error() -> None:
    depot = Depot()
    for items in ([ping, ping], [depot.weigh, depot.weigh], [depot, depot.weigh]):
        with pytest.raises(ValueError, match="given twice"):
            collect(items)


def test_a_copy_under_another_name_is_another_tool() -> None:
    assert names(ping, ping.copy(name="ping_2")) == ["ping", "ping_2"]


def test_other_kinds_of_items_are_somebody_elses() -> None:
    scale = Scale(name="scale")

    def adapt(item: object) -> list[Tool] | None:
        return {"scale": [scale], "server": []}.get(item) if isinstance(item, str) else None

    assert collect(["server", ping, "scale"], adapt) == (ping, scale)
    with pytest.raises(ValueError, match="'scale' is given twice"):
        collect(["scale", scale], adapt)


def test_the_map_has_each_tool_under_its_name_in_order() -> None:
    scale = Scale(name="scale")
    assert list(tool_map([scale, ping]).items()) == [("scale", scale), ("ping", ping)]


def test_the_same_tool_is_of_the_same_function_and_object() -> None:
    depot, scale = Depot(), Scale(name="scale")
    assert same_tool(ping, ping)
    assert same_tool(ping, ping.copy(parallel=False))
    assert same_tool(depot.weigh, depot.weigh)
    assert same_tool(scale, scale)
    assert not same_tool(depot.weigh, Depot().weigh)
    assert not same_tool(depot.weigh, Depot.weigh)
    assert not same_tool(ping, tool(other_ping, name="ping"))
    assert not same_tool(ping, ping.copy(name="ping_2"))
    assert not same_tool(scale, Scale(name="scale"))
    assert not same_tool(scale, ping)
