"""A tool made of a Python function or method: its signature is the schema, its docstring the description."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, NoReturn, Unpack, cast

from alpineagents.errors import ToolError, ToolInputError, explain, shown
from alpineagents.state import State
from alpineagents.tools.base import Hints, Tool
from alpineagents.tools.docstring import read_docstring
from alpineagents.tools.options import (
    ToolOptions,
    check_options,
    checked_function,
    checked_hints_function,
    handled_exceptions,
)
from alpineagents.tools.schema import read_parameters
from alpineagents.values.frozen import thaw


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
        function = checked_function(fn)
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
        self.__isabstractmethod__ = getattr(function, "__isabstractmethod__", False)
        self.function: Callable[..., Any] = function
        self.bound_to: Any = None
        self.is_method = parameters.is_method
        self.exception_handler = options.get("exception_handler")
        self._handled = handled_exceptions(self.exception_handler)
        self._hints_function = checked_hints_function(options.get("hints_for"))
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
        owner = (self.bound_to,) if self.is_method else ()
        if not self._handled:
            return self.function(*owner, **kwargs)
        try:
            value = self.function(*owner, **kwargs)
        except self._handled as error:
            self._handle(error)
        if inspect.isawaitable(value):
            return self._awaited(value)
        return self._iterated(cast("Generator[Any]", value)) if inspect.isgenerator(value) else value

    async def _awaited(self, value: Awaitable[Any]) -> Any:
        try:
            return await value
        except self._handled as error:
            self._handle(error)

    def _iterated(self, value: Generator[Any]) -> Generator[Any]:
        """A generator's body runs only when its items are asked for."""
        try:
            yield from value
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
                f"the exception_handler of tool {self.name!r} returned {shown(message)} for {shown(error)}",
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
                f"the hints_for function of tool {self.name!r} returned {shown(hints)}",
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


def unbound(tool: FunctionTool) -> str:
    """The message about a method tool that was used without an object."""
    owner = tool.function.__qualname__.split(".")[-2:][0]
    owner = owner if owner.isidentifier() and owner != tool.function.__name__ else "Owner"
    return explain(
        f"{tool!r} is a method without an object",
        f"make an object of {owner} first and use that, or its method",
        f"tools=[{owner}(...).{tool.function.__name__}]",
    )
