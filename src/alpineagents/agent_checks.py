"""What the settings of an Agent and the arguments of its actions may be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

from alpineagents.engine.actor import Actor
from alpineagents.errors import explain, shown
from alpineagents.loops import default_loop
from alpineagents.state import State
from alpineagents.store.base import Store, is_async_only
from alpineagents.store.sqlite import SqliteStore
from alpineagents.tools.base import Tool

Loopable: TypeAlias = Callable[[Any, State], Any]

SETTINGS = ("model", "system", "tools", "loop", "reporter", "human", "store", "permissions", "name", "description")


def check_call(args: tuple[Any, ...], settings: Mapping[str, Any]) -> None:
    """`TypeError` unless a new Agent is given its model first and the other settings by name."""
    if len(args) > 1:
        raise TypeError(
            explain(
                f"Agent takes only the model by position, and was given {len(args)} values",
                f"give the others by name: {', '.join(SETTINGS[1:])}",
                'Agent(model, system="Be brief", tools=[read_file])',
            )
        )
    check_names("Agent", settings)


def check_names(taker: str, settings: Mapping[str, Any]) -> None:
    """`TypeError` for names that are no setting of an Agent."""
    unknown = [name for name in settings if name not in SETTINGS]
    if unknown:
        raise TypeError(
            explain(
                f"{taker} takes no {', '.join(unknown)}",
                f"it takes {', '.join(SETTINGS)}",
                "agent.copy(model=...)" if taker == "copy" else 'Agent(model, system="Be brief")',
            )
        )


def read_once(tools: object) -> object:
    """The items of `tools=`, read here and only here; what is no list of tools stays as it is, to be refused."""
    if isinstance(tools, Tool | str | bytes):
        return tools
    return tuple(cast("Iterable[object]", tools)) if isinstance(tools, Iterable) else tools


def checked_state(action: str, state: object) -> State:
    """The State an action is to work on."""
    if not isinstance(state, State):
        found = type(state).__name__
        raise TypeError(
            explain(f"agent.{action} takes a State, not {found}", "pass the State", f"agent.{action}(state)")
        )
    return state


def refuse_async_store(action: str, actor: Actor) -> Actor:
    """The actor, if what a sync action records can be saved."""
    if actor.store is not None and is_async_only(actor.store):
        raise TypeError(
            explain(
                f"agent.{action}: {actor.store!r} works only asynchronously",
                f"use a{action}",
                f"await agent.a{action}(state)",
            )
        )
    return actor


def checked_text(setting: str, value: object) -> str | None:
    """A text, which may be empty, or none."""
    if value is not None and not isinstance(value, str):
        raise TypeError(explain(f"{setting} is a str or None, not {type(value).__name__}: {shown(value)}", "give text"))
    return value


def checked_loop(loop: Loopable | None) -> Loopable:
    """The loop of a run."""
    if loop is None:
        return default_loop
    if not callable(loop):
        raise TypeError(
            explain(f"loop is a function (agent, state), not {type(loop).__name__}: {shown(loop)}", "pass one")
        )
    return loop


def checked_store(store: object) -> Store | None:
    """The Store, also of a path."""
    if store is None or isinstance(store, Store):
        return store
    if isinstance(store, str | os.PathLike):
        return SqliteStore(cast("str", store))
    what = f"the class {store.__name__}" if isinstance(store, type) else f"{type(store).__name__}: {shown(store)}"
    raise TypeError(
        explain(f"store is a Store or the path of a file, not {what}", "pass an object", 'Agent(..., store="runs.db")')
    )
