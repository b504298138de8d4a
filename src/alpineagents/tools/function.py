"""A tool made of a Python function or method: its signature is the schema, its docstring the description."""

from __future__ import annotations

import difflib
import functools
import inspect
import types
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn, TypedDict, Union, Unpack, get_args, get_origin

from alpineagents.errors import ToolError, ToolInputError, explain
from alpineagents.state import State
from alpineagents.tools.annotations import resolved_hint
from alpineagents.tools.base import Hints, Tool
from alpineagents.tools.docstring import read_docstring
from alpineagents.tools.schema import read_parameters
from alpineagents.values.frozen import thaw


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


class FunctionTool(Tool):
    """A tool made of a function, normally by `@tool`.

    Args:
        fn: A function or method. Its parameters need type hints; one with the hint `State` receives the State.
        name: The name the model calls; without it the function's own.
        description: What the model reads; without it the first paragraph of the docstring.
        parallel: Whether calls may run while others of the same reply do.
        exception_handler: Turns an exception of the function into the message for the model. The type hint of its
            parameter says which exceptions it takes.
        hints_for: Gives the hints of one call from its arguments, or `None` for the tool's own.
        read_only, destructive, idempotent, open_world: The worst case over all calls, as in `Hints`.
    Attributes:
        function: The original function.
        bound_to: The object a method tool belongs to, or `None`.
        exception_handler: The handler given, or `None`.
        is_method: Whether the function takes an object as `self`.
    Raises:
        TypeError: The function or an option cannot be used.
        ValueError: Hints that contradict each other.
    """

    def __init__(self, fn: Callable[..., Any], **options: Unpack[ToolOptions]) -> None:
        check_options(options)
        function = _checked_function(fn)
        docstring = read_docstring(function.__doc__)
        parameters = read_parameters(function, docstring.parameters)
        name, description = options.get("name"), options.get("description")
        super().__init__(
            name=function.__name__ if name is None else name,
            description=docstring.description if description is None else description,
            input_schema=parameters.input_schema,
            parallel=options.get("parallel", True),
            read_only=options.get("read_only"),
            destructive=options.get("destructive"),
            idempotent=options.get("idempotent"),
            open_world=options.get("open_world"),
        )
        functools.update_wrapper(self, function, updated=())
        self.function: Callable[..., Any] = function
        self.bound_to: Any = None
        self.is_method = parameters.is_method
        self.exception_handler = options.get("exception_handler")
        self._handled = _handled_exceptions(self.exception_handler)
        self._hints_function = _checked_hints_function(options.get("hints_for"))
        self._options = options
        self._parameters = parameters
        self._is_async = inspect.iscoroutinefunction(function)

    @property
    def is_async(self) -> bool:
        """Whether the function is an `async def`."""
        return self._is_async

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function as it is: no check, no conversion, no exception handler."""
        if self.bound_to is None:
            return self.function(*args, **kwargs)
        return self.function(self.bound_to, *args, **kwargs)

    def run(self, args: Mapping[str, Any], state: State) -> Any:
        """Do one call as the model's: check the arguments, fill in the State, call the function.

        Returns:
            The function's value, or a coroutine for an `async def`.
        Raises:
            ToolInputError: The arguments do not fit.
        """
        return self.invoke(self.prepare(args), state)

    def prepare(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The first half of `run`: every parameter the model sees, with its converted value or its default.

        Raises:
            ToolInputError: The arguments do not fit.
        """
        return self._parameters.prepare(args)

    def invoke(self, kwargs: Mapping[str, Any], state: State) -> Any:
        """The second half of `run`: fill in the State and `self`, call the function, apply the exception handler."""
        if self.is_method and self.bound_to is None:
            raise TypeError(unbound(self))
        if self._parameters.states:
            kwargs = {**kwargs, **dict.fromkeys(self._parameters.states, state)}
        if not self._handled:
            return self(**kwargs)
        try:
            value = self(**kwargs)
        except self._handled as error:
            self._handle(error)
        return self._awaited(value) if inspect.isawaitable(value) else value

    async def _awaited(self, value: Awaitable[Any]) -> Any:
        try:
            return await value
        except self._handled as error:
            self._handle(error)

    def _handle(self, error: Exception) -> NoReturn:
        """Raise what the exception handler makes of an exception; a message for the model is one already."""
        if self.exception_handler is None or isinstance(error, ToolError | ToolInputError):
            raise error
        message: object = self.exception_handler(error)
        if isinstance(message, str) and message.strip():
            raise ToolError(message) from error
        raise TypeError(
            explain(
                f"the exception_handler of tool {self.name!r} returned {message!r} for {error!r}",
                "return the message for the model, a str that is not blank; to stop the run, raise the exception",
                'return f"not reachable: {error}"',
            )
        ) from error

    def hints_for(self, args: Mapping[str, Any]) -> Hints:
        """The hints of one call, from its unchecked arguments.

        Raises:
            TypeError: The `hints_for` function returned something else than `Hints` or `None`.
        """
        if self._hints_function is None:
            return super().hints_for(args)
        hints: object = self._hints_function(thaw(args))
        if hints is None:
            return super().hints_for(args)
        if isinstance(hints, Hints):
            return hints
        raise TypeError(
            explain(
                f"the hints_for function of tool {self.name!r} returned {hints!r}",
                "return Hints(...), or None for the tool's own hints",
                "return Hints(read_only=True)",
            )
        )

    def copy(self, **changes: Unpack[ToolOptions]) -> FunctionTool:
        """A new tool of the same function and object with some options replaced; others stay given or not given.

        Raises:
            TypeError: An option is unknown or cannot be used.
            ValueError: Hints that contradict each other.
        """
        check_options(changes)
        made = type(self)(self.function, **{**self._options, **changes})
        made.bound_to = self.bound_to
        return made

    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool:
        """As an attribute of an object, a method tool is bound to it; each access makes a new tool."""
        if instance is None or not self.is_method or self.bound_to is not None:
            return self
        bound = object.__new__(type(self))
        vars(bound).update(vars(self))
        bound.bound_to = instance
        return bound

    def __repr__(self) -> str:
        bound = "" if self.bound_to is None else f", bound_to={self.bound_to!r}"
        return f"{type(self).__name__}({self.name!r}{bound})"


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


def _checked_function(fn: Any) -> types.FunctionType:
    if isinstance(fn, Tool):
        raise TypeError(
            explain(
                f"tool was applied twice: {fn!r} is a tool already", "remove one @tool; tool.copy(...) changes options"
            )
        )
    if not isinstance(fn, types.FunctionType):
        raise TypeError(
            explain(
                f"tool takes a function written with def or async def, not {type(fn).__name__}: {fn!r}",
                "write a function around it; options are given by name",
                "@tool\ndef find_parcel(number: str) -> str: ...",
            )
        )
    if inspect.isasyncgenfunction(fn):
        raise TypeError(
            explain(
                f"{fn.__qualname__} is an async generator, which gives no result", "collect the items and return a list"
            )
        )
    return fn


def unbound(tool: FunctionTool) -> str:
    """The message about a method tool that was used without an object."""
    owner = tool.function.__qualname__.split(".")[-2:][0]
    owner = owner if owner.isidentifier() and owner != tool.function.__name__ else "Owner"
    return explain(
        f"{tool!r} is a method without an object",
        f"make an object of {owner} first and use that, or its method",
        f"tools=[{owner}(...).{tool.function.__name__}]",
    )


def _handled_exceptions(handler: Any) -> tuple[type[Exception], ...]:
    """The exceptions a handler takes, by the type hint of its one parameter."""
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


def _checked_hints_function(function: Any) -> Callable[[dict[str, Any]], object] | None:
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
