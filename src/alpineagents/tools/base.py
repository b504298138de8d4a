"""What every tool is: a name, a description and a schema for the model, hints for our own code, and `run`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from alpineagents.errors import explain
from alpineagents.state import State
from alpineagents.values.content import set_field
from alpineagents.values.exchange import ToolSpec
from alpineagents.values.frozen import check_json

HINT_NAMES = ("read_only", "destructive", "idempotent", "open_world")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_GIVEN: Any = None


def is_tool_name(name: object) -> bool:
    """Whether a model can call a tool by this name."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def check_tool_name(name: object) -> str:
    """The name, if a tool may have it.

    Raises:
        TypeError: It is not 1-64 characters of ASCII letters, digits, `_` and `-`.
    """
    if isinstance(name, str) and is_tool_name(name):
        return name
    raise TypeError(
        explain(
            f"{name!r} cannot be the name of a tool",
            "give name= 1-64 characters of letters (a-z, A-Z), digits, '_' and '-'",
            '@tool(name="find_parcel")',
        )
    )


def filled_hints(owner: str, given: Mapping[str, object]) -> dict[str, bool]:
    """All four hints: what was given, and the cautious answer for the others.

    Args:
        owner: Whose hints they are, for errors.
        given: By name; `None` means not given.
    Raises:
        TypeError: A hint is neither a bool nor `None`.
        ValueError: `read_only=True` together with `destructive=True` or `idempotent=False`.
    """
    for name in HINT_NAMES:
        if given[name] is not None and type(given[name]) is not bool:
            raise TypeError(
                explain(
                    f"{owner}: {name} must be True or False, not {given[name]!r}", f"leave {name} out if it is unknown"
                )
            )
    read_only = given["read_only"] is True
    for name, contradiction in (("destructive", True), ("idempotent", False)):
        if read_only and given[name] is contradiction:
            raise ValueError(
                explain(
                    f"{owner}: read_only=True contradicts {name}={contradiction}: a call that changes nothing "
                    + ("destroys nothing" if contradiction else "can be repeated"),
                    f"give one of the two, read_only or {name}",
                )
            )
    cautious = {"read_only": False, "destructive": not read_only, "idempotent": read_only, "open_world": True}
    return {name: cautious[name] if given[name] is None else given[name] is True for name in HINT_NAMES}


@dataclass(frozen=True, kw_only=True)
class Hints:
    """What a call does, for permissions and loops; a hint that is left out gets the cautious value.

    Attributes:
        read_only: It leaves everything around it as it was. Otherwise `False`.
        destructive: Data may be lost. Otherwise `True`, or `False` if read-only.
        idempotent: Doing it again changes nothing more. Otherwise `False`, or `True` if read-only.
        open_world: It touches what the tool does not own, such as the internet. Otherwise `True`.
    Raises:
        TypeError: A hint is not a bool.
        ValueError: `read_only=True` together with `destructive=True` or `idempotent=False`.
    Source: the tool annotations of the Model Context Protocol, which have the same names and meaning.
    """

    read_only: bool = _NOT_GIVEN
    destructive: bool = _NOT_GIVEN
    idempotent: bool = _NOT_GIVEN
    open_world: bool = _NOT_GIVEN

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in HINT_NAMES}
        for name, value in filled_hints(type(self).__name__, given).items():
            set_field(self, name, value)


class Tool:
    """The base of every tool. Subclass it for a tool whose schema is data, not a Python signature.

    Args:
        name: 1-64 characters of ASCII letters, digits, `_` and `-`.
        description: What the model reads about the tool.
        input_schema: A JSON Schema with `"type": "object"`, shown to the model as it is; without one, no arguments.
        parallel: Whether calls may run while others of the same reply do.
        read_only, destructive, idempotent, open_world: The worst case over all calls, as in `Hints`.
    Raises:
        TypeError: An argument of the wrong kind, or a name no tool may have.
        ValueError: Hints that contradict each other.
    """

    describes_itself: ClassVar[bool] = False  # whether its hints are the word of somebody else, such as a server

    def __init__(  # noqa: PLR0913 - keyword-only, each one a fact about the tool
        self,
        *,
        name: str,
        description: str = "",
        input_schema: Mapping[str, Any] | None = None,
        parallel: bool = True,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
    ) -> None:
        self.name = check_tool_name(name)
        self.description = _checked_description(name, description)
        self.input_schema = _checked_schema(name, input_schema)
        self.parallel = _checked_parallel(name, parallel)
        given = {"read_only": read_only, "destructive": destructive, "idempotent": idempotent, "open_world": open_world}
        self._hints = Hints(**filled_hints(f"tool {name!r}", given))

    def run(self, args: dict[str, Any], state: State) -> Any:
        """Do one call; `def` or `async def`, written by each subclass.

        Args:
            args: What the model wrote: a plain copy to keep or change, not checked against `input_schema`. Raise
                `ToolInputError` for arguments that do not fit.
            state: The State of the run.
        Returns:
            Text, an `Image`, a list of both, or anything that has a JSON form.
        """
        raise NotImplementedError(
            explain(
                f"{type(self).__name__} does not define run",
                "write what a call does",
                "def run(self, args, state):\n    return ...",
            )
        )

    def hints_for(self, args: Mapping[str, Any]) -> Hints:
        """The hints of one call, from its unchecked arguments. By default those of the tool."""
        return self._hints

    @property
    def read_only(self) -> bool:
        """Whether no call changes anything."""
        return self._hints.read_only

    @property
    def destructive(self) -> bool:
        """Whether a call can lose data."""
        return self._hints.destructive

    @property
    def idempotent(self) -> bool:
        """Whether repeating a call changes nothing more."""
        return self._hints.idempotent

    @property
    def open_world(self) -> bool:
        """Whether a call touches what the tool does not own."""
        return self._hints.open_world

    @property
    def spec(self) -> ToolSpec:
        """What the model is shown."""
        return ToolSpec(self.name, self.description, self.input_schema)

    @property
    def is_async(self) -> bool:
        """Whether `run` is an `async def`."""
        return inspect.iscoroutinefunction(self.run)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def is_initialised(tool: Tool) -> bool:
    """Whether the tool's class called `Tool.__init__`."""
    return "_hints" in vars(tool)


def defines_run(tool: Tool) -> bool:
    """Whether the tool's class says what a call does."""
    return type(tool).run is not Tool.run


def _checked_description(name: str, description: object) -> str:
    if isinstance(description, str):
        return description
    raise TypeError(
        explain(
            f"tool {name!r}: description must be a str, not {type(description).__name__}: {description!r}",
            "say in words what the tool does",
        )
    )


def _checked_schema(name: str, schema: object) -> dict[str, Any]:
    if schema is None:
        return {"type": "object", "properties": {}}
    if isinstance(schema, Mapping) and schema.get("type") == "object":  # pyright: ignore[reportUnknownMemberType]
        return check_json(schema, f"input_schema of tool {name!r}")
    raise TypeError(
        explain(
            f'tool {name!r}: input_schema must be a mapping with "type": "object", not {schema!r}',
            "describe the arguments as the properties of an object",
            'input_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}',
        )
    )


def _checked_parallel(name: str, parallel: object) -> bool:
    if isinstance(parallel, bool):
        return parallel
    raise TypeError(explain(f"tool {name!r}: parallel must be True or False, not {parallel!r}", "write parallel=False"))
