"""What may be given to `tool`: the function, and the options beside it."""

from __future__ import annotations

import difflib
import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, Union, get_args, get_origin

from alpineagents.errors import explain, shown
from alpineagents.tools.annotations import resolved_hint
from alpineagents.tools.base import Hints, Tool


class ToolOptions(TypedDict, total=False):
    """What `tool`, `FunctionTool` and `FunctionTool.copy` accept; every option may be left out."""

    name: str | None
    description: str | None
    parallel: bool
    exception_handler: Callable[[Any], str] | None
    hints_for: Callable[[dict[str, Any]], Hints | None] | None
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse an option that does not exist.

    Raises:
        TypeError: There is one.
    """
    known = ToolOptions.__annotations__
    for name in options:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            raise TypeError(
                explain(
                    f"a tool has no option {name!r}",
                    f"did you mean {close[0]}?" if close else f"the options are {', '.join(known)}",
                )
            )


def checked_function(fn: Any) -> types.FunctionType:
    """What `tool` is applied to, if it is a function.

    Raises:
        TypeError: It is not; the message says what to write instead.
    """
    if isinstance(fn, Tool):
        raise TypeError(
            explain(
                f"tool was applied twice: {shown(fn)} is a tool already",
                "remove one @tool; tool.copy(...) changes options",
                'other = find_parcel.copy(name="find_letter")',
            )
        )
    if not isinstance(fn, types.FunctionType):
        fix, example = _instead_of(fn)
        raise TypeError(
            explain(
                f"tool takes a function written with def or async def, not {type(fn).__name__}: {shown(fn)}",
                fix,
                example,
            )
        )
    if inspect.isasyncgenfunction(fn):
        raise TypeError(
            explain(
                f"{fn.__qualname__} is an async generator, which gives no result",
                "collect the items and return a list",
                f"async def {fn.__name__}(...):\n    return [item async for item in items()]",
            )
        )
    return fn


def _instead_of(thing: object) -> tuple[str, str]:
    """What to decorate instead of something that is no function: the fix and an example."""
    if isinstance(thing, staticmethod | classmethod):
        return (
            "write a method with self; a static one needs no other decorator than @tool",
            "class Depot:\n    @tool\n    def find_parcel(self, number: str) -> str: ...",
        )
    if isinstance(thing, types.MethodType):
        name = thing.__func__.__name__
        return (
            "decorate the method in its class, and give the object's own to the Agent",
            f"class Depot:\n    @tool\n    def {name}(self, number: str) -> str: ...\n\n"
            f"Agent(..., tools=[Depot().{name}])",
        )
    if isinstance(thing, type):
        return (
            "decorate its methods and give an object of it to the Agent",
            f"class {thing.__name__}:\n    @tool\n    def find_parcel(self, number: str) -> str: ...\n\n"
            f"Agent(..., tools=[{thing.__name__}()])",
        )
    if callable(thing):
        return (
            "write a function around it, with a parameter for each thing a model may give",
            "@tool\ndef find_parcel(number: str) -> str:\n    return find(number)",
        )
    return "write a function; options are given by name", "@tool\ndef find_parcel(number: str) -> str: ..."


def handled_exceptions(handler: Any) -> tuple[type[Exception], ...]:
    """The exceptions a handler takes, by the type hint of its one parameter.

    Raises:
        TypeError: It cannot be a handler.
    """
    if handler is None:
        return ()
    parameters = _signature("exception_handler", handler).parameters.values()
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(required) != 1 or required[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise TypeError(_bad_handler(handler, f"has {len(required)} required parameters instead of one positional one"))
    if required[0].annotation is inspect.Parameter.empty:
        raise TypeError(_bad_handler(handler, f"has no type hint on {required[0].name!r}"))
    hint = resolved_hint(_underlying(handler), required[0].annotation, f"exception_handler {handler!r}")
    classes = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for cls in classes:
        if not (isinstance(cls, type) and issubclass(cls, Exception)):
            raise TypeError(_bad_handler(handler, f"takes {cls!r}, which is no subclass of Exception"))
    return classes


def _bad_handler(handler: object, problem: str) -> str:
    return explain(
        f"exception_handler {handler!r} {problem}",
        "write a function of one exception; its type hint names the exception classes it takes",
        "def explain_timeout(error: TimeoutError) -> str: ...",
    )


def checked_hints_function(function: Any) -> Callable[[dict[str, Any]], object] | None:
    """The `hints_for` function, if it can be called with the arguments of a call.

    Raises:
        TypeError: It cannot.
    """
    if function is None:
        return None
    try:
        _signature("hints_for", function).bind({})
    except TypeError as error:
        raise TypeError(
            explain(
                f"hints_for {function!r} cannot be called with the arguments of a call: {error}",
                "write a function of one dict that returns Hints or None",
                'def hints(args: dict) -> Hints | None:\n    return Hints(read_only=args["command"] == "status")',
            )
        ) from error
    return function


def _signature(option: str, function: Any) -> inspect.Signature:
    """The signature of a callable given as an option: no class, nothing async."""
    if not callable(function) or isinstance(function, type):
        raise TypeError(
            explain(f"{option} must be a function, not {function!r}", "give a function, or a callable object")
        )
    underlying = _underlying(function)
    if inspect.iscoroutinefunction(underlying) or inspect.isasyncgenfunction(underlying):
        raise TypeError(explain(f"{option} {function!r} is async", "write it with def, not async def"))
    try:
        return inspect.signature(function)
    except ValueError as error:
        raise TypeError(explain(f"{option} {function!r} has no signature to read", "wrap it in a def")) from error


def _underlying(function: Any) -> Any:
    """The Python function behind a method, a partial or a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    return getattr(function, "__func__", function)
