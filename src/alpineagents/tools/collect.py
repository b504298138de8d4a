"""From what a person puts into `tools=[...]` to the tools themselves, in order, each name once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, cast

from alpineagents.errors import explain, shown
from alpineagents.tools.base import Tool, defines_run, is_initialised
from alpineagents.tools.function import FunctionTool, unbound

Adapt = Callable[[object], Iterable[Tool] | None]


def collect(items: object, adapt: Adapt | None = None) -> tuple[Tool, ...]:
    """The tools that the items of `tools=` stand for.

    Args:
        items: Any iterable but text.
        adapt: Asked first about each item: its tools, or `None` for an item that is a tool, or holds some, by itself.
    Raises:
        TypeError: Not an iterable of tools; the message names the item.
        ValueError: Two tools have one name.
    """
    tools = [tool for item in _iterated(items) for tool in _tools_of(item, adapt)]
    return tuple(tool_map(tools).values())


def tool_map(tools: Iterable[Tool]) -> dict[str, Tool]:
    """The tools by name.

    Raises:
        ValueError: Two of them have one name.
    """
    named: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in named:
            raise ValueError(_collision(named[tool.name], tool))
        named[tool.name] = tool
    return named


def same_tool(one: Tool, other: Tool) -> bool:
    """Whether two objects are one tool to the model: for functions, of the same function and the same object."""
    if isinstance(one, FunctionTool) and isinstance(other, FunctionTool):
        return one.name == other.name and one.function is other.function and one.bound_to is other.bound_to
    return one is other


def _iterated(items: object) -> Iterable[object]:
    if not isinstance(items, Tool | str | bytes) and isinstance(items, Iterable):
        return cast("Iterable[object]", items)
    given = f"a {type(items).__name__}" if isinstance(items, Tool) else shown(items)
    raise TypeError(
        explain(
            f"tools must be an iterable of tools, not {given}", "give a list, also for one tool", "tools=[read_file]"
        )
    )


def _tools_of(item: object, adapt: Adapt | None) -> Iterable[Tool]:
    adapted = None if adapt is None else adapt(item)
    if adapted is not None:
        return adapted
    if isinstance(item, type):
        raise TypeError(_is_class(item))
    if isinstance(item, Tool):
        return [_checked(item)]
    if inspect.isroutine(item):
        raise TypeError(_is_function(item))
    return _methods_of(item)


def _checked(tool: Tool) -> Tool:
    """The tool, if it can be called."""
    cls = type(tool).__name__
    if not is_initialised(tool):
        raise TypeError(
            explain(
                f"a {cls} object has no name: {cls}.__init__ did not call Tool.__init__",
                "call it first",
                f'class {cls}(Tool):\n    def __init__(self):\n        super().__init__(name="find_parcel")',
            )
        )
    if not defines_run(tool):
        raise TypeError(
            explain(
                f"{tool!r} cannot be called: {cls} does not define run",
                "write what a call does",
                "def run(self, args, state): ...",
            )
        )
    if isinstance(tool, FunctionTool) and tool.is_method and tool.bound_to is None:
        raise TypeError(unbound(tool))
    return tool


def _methods_of(item: object) -> list[Tool]:
    """The tools on the object's class and its bases, as Python finds an attribute: the first definition counts."""
    looked_up: dict[str, Any] = {}
    for cls in type(item).__mro__:
        for name, attribute in vars(cls).items():
            looked_up.setdefault(name, attribute.__func__ if isinstance(attribute, staticmethod) else attribute)
    for attribute in looked_up.values():
        if inspect.isfunction(attribute) and _covers_a_tool(attribute):
            raise TypeError(_is_function(attribute))
    tools: list[Tool] = [a.__get__(item, type(item)) for a in looked_up.values() if isinstance(a, FunctionTool)]
    if not tools:
        raise TypeError(
            explain(
                f"{shown(item)} is no tool, and {type(item).__name__} has no @tool methods",
                "pass a @tool function, a Tool object, or an object whose class has @tool methods",
                "class Depot:\n    @tool\n    def find(self, number: str) -> str: ...\n\nAgent(..., tools=[Depot()])",
            )
        )
    return tools


def _is_class(cls: type) -> str:
    return explain(
        f"{cls.__name__} is a class, and tools are objects", "make an object of it", f"tools=[{cls.__name__}()]"
    )


def _is_function(function: Any) -> str:
    if _covers_a_tool(function):
        return explain(
            f"{shown(function)} is a function around a tool: a decorator stands above @tool",
            "write @tool above the other decorators",
            "@tool\n@retried\ndef find_parcel(number: str) -> str: ...",
        )
    return explain(
        f"{shown(function)} is a function, not a tool",
        "add @tool to it",
        "@tool\ndef find_parcel(number: str) -> str: ...",
    )


def _covers_a_tool(function: Any) -> bool:
    """Whether functools.wraps made it of a tool."""
    while (function := getattr(function, "__wrapped__", None)) is not None:
        if isinstance(function, Tool):
            return True
    return False


def _collision(first: Tool, second: Tool) -> str:
    if same_tool(first, second):
        return explain(f"the tool {first.name!r} is given twice: {_source(first)}", "leave one of them out")
    made = [tool.function.__name__ for tool in (second, first) if isinstance(tool, FunctionTool)]
    return explain(
        f"two tools have the name {first.name!r}: {_source(first)} and {_source(second)}",
        "give one of them another name=; a tool made by @tool has copy for that",
        f'{made[0]}.copy(name="another_name")' if made else None,
    )


def _source(tool: Tool) -> str:
    """Which tool it is, for a person: functions of one name come from different places."""
    if isinstance(tool, FunctionTool):
        return f"{tool!r} of {tool.function.__module__}.{tool.function.__qualname__}"
    return repr(tool)
