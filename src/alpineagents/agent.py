"""Agent: settings, and what can be done with them on a State."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, cast

from alpineagents.engine.actor import Actor
from alpineagents.engine.running import Start, prepared, run, state_for
from alpineagents.engine.think import think
from alpineagents.engine.use_tools import use_tools
from alpineagents.errors import explain, shown
from alpineagents.human import Human, check_human
from alpineagents.loops import adefault_loop, default_loop, is_async_loop
from alpineagents.models.base import Model, identity
from alpineagents.reporter import Reporter, check_reporter
from alpineagents.scope import DATABASE_VARIABLE, Run, Settings, in_force
from alpineagents.state import State
from alpineagents.store.base import Store, is_async_only
from alpineagents.store.sqlite import SqliteStore
from alpineagents.terminal import default_terminal
from alpineagents.tools.base import Tool
from alpineagents.tools.collect import collect, same_tool, tool_map
from alpineagents.values.exchange import AgentInfo, ToolSpec
from alpineagents.waiting import (
    awaiting,
    blocking,
    complete,
    enter_async_run,
    leave_async_run,
    refuse_blocking,
)

Loopable = Callable[[Any, State], Any]


class _Default:
    """Stands for a setting that was not given, which differs from `None`."""

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Any = _Default()
_SETTINGS = ("model", "system", "tools", "loop", "reporter", "human", "store", "name", "description")


class Agent:
    """Settings of an agent: a model, a prompt, tools and a loop. It keeps no conversation; that is a `State`.

    Args:
        model: A `Model`.
        system: The system prompt.
        tools: `@tool` functions and methods, `Tool` objects, objects with `@tool` methods.
        loop: A function `(agent, state)`; `default_loop` when left out.
        reporter: Hears of every step; the process's `Terminal` when left out, nobody with `None`.
        human: Answers questions; the process's `Terminal` when left out, nobody with `None`.
        store: A `Store`, or the path of an SQLite file. Without one, the file named by the environment variable
            `ALPINEAGENTS_DB`, else memory only.
        name, description: What it is called in listings, and what it does.
    Raises:
        TypeError: A setting of a wrong kind.
        ValueError: Two tools with one name, or an empty path.

    Example:
        agent = Agent(model, tools=[read_file], store="runs.db")
        print(agent.run("Find the bug in main.py"))
    """

    def __init__(  # noqa: PLR0913  # an Agent is its settings
        self,
        model: Model,
        *,
        system: str | None = None,
        tools: Iterable[Any] = (),
        loop: Loopable | None = None,
        reporter: Reporter | None = DEFAULT,
        human: Human | None = DEFAULT,
        store: Store | str | os.PathLike[str] | None = None,
        name: str | None = None,
        description: str | None = None,
    ) -> None:
        self._model = _checked_model(model)
        self._system = _checked_text("system", system)
        self._name = _checked_text("name", name)
        self._description = _checked_text("description", description)
        self._given_tools = tools if isinstance(tools, Tool | str | bytes) else _once(tools)
        self._tools = tool_map(collect(self._given_tools))
        self._loop = _checked_loop(loop)
        if reporter is not DEFAULT and reporter is not None:
            check_reporter(reporter)
        if human is not DEFAULT and human is not None:
            check_human(human)
        self._reporter = reporter
        self._human = human
        self._given_store = store
        self._store = _checked_store(store)
        self._specs = tuple([tool.spec for tool in self._tools.values()])

    @property
    def model(self) -> Model:
        """The Model that answers."""
        return self._model

    @property
    def system(self) -> str | None:
        """The system prompt."""
        return self._system

    @property
    def name(self) -> str | None:
        """What it is called."""
        return self._name

    @property
    def description(self) -> str | None:
        """What it does."""
        return self._description

    @property
    def tools(self) -> tuple[Any, ...]:
        """The items of `tools=` as given."""
        return cast("tuple[Any, ...]", self._given_tools)

    @property
    def tool_map(self) -> Mapping[str, Tool]:
        """The tools by the name the model calls, read-only."""
        return MappingProxyType(self._tools)

    @property
    def loop(self) -> Loopable:
        """What a run repeats."""
        return self._loop

    @property
    def reporter(self) -> Reporter | None:
        """Who hears of this Agent's own runs."""
        return default_terminal() if self._reporter is DEFAULT else self._reporter

    @property
    def human(self) -> Human | None:
        """Who answers this Agent's own questions."""
        return default_terminal() if self._human is DEFAULT else self._human

    @property
    def store(self) -> Store | None:
        """Where this Agent's own runs are kept, if it was given a store."""
        return self._store

    def copy(self, **changes: Any) -> Agent:
        """A new Agent with some settings replaced; the names are those of the constructor.

        Raises:
            TypeError: An unknown name.
        """
        unknown = [name for name in changes if name not in _SETTINGS]
        if unknown:
            raise TypeError(
                explain(
                    f"copy takes no {', '.join(unknown)}", f"it takes {', '.join(_SETTINGS)}", "agent.copy(model=...)"
                )
            )
        given: dict[str, Any] = {
            "model": self._model,
            "system": self._system,
            "tools": self._given_tools,
            "loop": self._loop,
            "reporter": self._reporter,
            "human": self._human,
            "store": self._given_store,
            "name": self._name,
            "description": self._description,
        }
        return Agent(**{**given, **changes})

    def run(self, prompt_or_state: str | State, /) -> Any:
        """Run the loop on a new State with this prompt, or on a State you have, until it stops.

        Returns:
            What the loop returns; for `@loop` functions `state.answer`.
        Raises:
            TypeError: Neither a prompt nor a State; an async loop or store; called on the event loop of an async run.
            ValueError: A blank prompt, a finished State, one that is being run, or one kept in another store.
        """
        refuse_blocking("agent.run", "agent.arun")
        loop = self._checked_sync_loop()
        actor = _refuse_async_store("run", self._actor(starting=True))
        start = prepared(actor, self._start(actor, prompt_or_state, loop))
        return complete(run(blocking, actor, start))

    async def arun(self, prompt_or_state: str | State, /) -> Any:
        """`run` without blocking the event loop."""
        loop = self._checked_async_loop()
        actor = self._actor(starting=True)
        start = prepared(actor, self._start(actor, prompt_or_state, loop))
        token = enter_async_run()
        try:
            return await run(awaiting, actor, start)
        finally:
            leave_async_run(token)

    def think(self, state: State, tools: Iterable[Any] | None = None) -> None:
        """Send the messages to the model once, and record the request and the reply.

        Args:
            tools: The tools the model is shown this time; all of the Agent's when left out.
        Raises:
            TypeError: `state` is no State, or an item could be no tool.
            ValueError: The State is finished, waiting, has pending calls or no messages; or a tool is not the Agent's.
            CutOffError: The output limit left an empty reply, which is recorded.
        """
        refuse_blocking("agent.think", "agent.athink")
        state, actor = _checked_state("think", state), _refuse_async_store("think", self._actor())
        complete(think(blocking, actor, state, self._shown(tools)))

    async def athink(self, state: State, tools: Iterable[Any] | None = None) -> None:
        """`think` without blocking the event loop."""
        state, actor = _checked_state("athink", state), self._actor()
        await think(awaiting, actor, state, self._shown(tools))

    def use_tools(self, state: State) -> None:
        """Run every pending call and record its result; those that cannot run get one that says why.

        Raises:
            TypeError: `state` is no State.
            ValueError: The State is finished.
            BaseException: What the first failing tool raised; its call and those not started stay pending.
        """
        refuse_blocking("agent.use_tools", "agent.ause_tools")
        state, actor = _checked_state("use_tools", state), _refuse_async_store("use_tools", self._actor())
        complete(use_tools(blocking, actor, state))

    async def ause_tools(self, state: State) -> None:
        """`use_tools` without blocking the event loop."""
        state, actor = _checked_state("ause_tools", state), self._actor()
        await use_tools(awaiting, actor, state)

    def _actor(self, starting: bool = False) -> Actor:
        """What an action works with: inside a run of this Agent the settings of that run, else its own."""
        own_store = self._store
        own = Settings(self.reporter, self.human, _store_of_environment() if own_store is None else own_store)
        settings = own if starting else in_force(self, own)
        return Actor(
            self._model,
            self._system,
            self._tools,
            settings.reporter,
            settings.store,
            from_environment=own_store is None,
        )

    def _start(self, actor: Actor, prompt_or_state: object, loop: Loopable) -> Start:
        scope = Run(self, Settings(actor.reporter, self.human, actor.store))
        return Start(scope, state_for(prompt_or_state), self._info(), loop)

    def _info(self) -> AgentInfo:
        digest = (
            None if self._system is None else hashlib.sha256(self._system.encode("utf-8", "surrogatepass")).hexdigest()
        )
        return AgentInfo(
            name=self._name, model=identity(self._model), system_sha256=digest, tools=tuple(sorted(self._tools))
        )

    def _checked_sync_loop(self) -> Loopable:
        if is_async_loop(self._loop):
            raise TypeError(explain("agent.run: the loop is async", "use arun", "await agent.arun(state)"))
        return self._loop

    def _checked_async_loop(self) -> Loopable:
        if self._loop is default_loop:
            return adefault_loop
        if not is_async_loop(self._loop):
            raise TypeError(
                explain(
                    "agent.arun: the loop is not async",
                    "write it as async def, as adefault_loop is",
                    "@loop(until=waiting_for_user, limit=30)\n"
                    "async def my_loop(agent, state):\n    await agent.athink(state)",
                )
            )
        return self._loop

    def _shown(self, tools: Iterable[Any] | None) -> tuple[ToolSpec, ...]:
        if tools is None:
            return self._specs
        shown = collect(tools)
        for tool in shown:
            own = self._tools.get(tool.name)
            if own is None or not same_tool(own, tool):
                raise ValueError(
                    explain(
                        f"think: {tool!r} is not one of this Agent's tools",
                        "show tools that the Agent has",
                        "agent.think(state, tools=[agent.tool_map['read_file']])",
                    )
                )
        return tuple([tool.spec for tool in shown])

    def __repr__(self) -> str:
        name = "" if self._name is None else f"name={self._name!r}, "
        return f"Agent({name}model={identity(self._model)!r}, tools=[{', '.join(self._tools)}])"


def _once(tools: object) -> object:
    # A one-shot iterable is read here, and only here.
    return tuple(cast("Iterable[object]", tools)) if isinstance(tools, Iterable) else tools


def _checked_state(action: str, state: object) -> State:
    if not isinstance(state, State):
        found = type(state).__name__
        raise TypeError(
            explain(f"agent.{action} takes a State, not {found}", "pass the State", f"agent.{action}(state)")
        )
    return state


def _refuse_async_store(action: str, actor: Actor) -> Actor:
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


def _checked_model(model: object) -> Model:
    if isinstance(model, Model):
        return model
    if isinstance(model, type):
        problem = f"model is a Model object, and {model.__name__} is the class"
        raise TypeError(explain(problem, "make an object of it", f"Agent({model.__name__}(...))"))
    raise TypeError(
        explain(
            f"model is a Model object, not {shown(model)}",
            "pass one; models by name come with the provider adapters, which this version does not have",
            'Agent(FakeModel(["Hello"]))',
        )
    )


def _checked_text(setting: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(explain(f"{setting} is a str or None, not {type(value).__name__}: {value!r}", "give text"))
    return value


def _checked_loop(loop: Loopable | None) -> Loopable:
    if loop is None:
        return default_loop
    if not callable(loop):
        raise TypeError(explain(f"loop is a function (agent, state), not {type(loop).__name__}: {loop!r}", "pass one"))
    return loop


def _checked_store(store: object) -> Store | None:
    if store is None or isinstance(store, Store):
        return store
    if isinstance(store, str | os.PathLike):
        return SqliteStore(cast("str", store))
    what = f"the class {store.__name__}" if isinstance(store, type) else f"{type(store).__name__}: {store!r}"
    raise TypeError(
        explain(f"store is a Store or the path of a file, not {what}", "pass an object", 'Agent(..., store="runs.db")')
    )


def _store_of_environment() -> Store | None:
    path = os.environ.get(DATABASE_VARIABLE)
    return SqliteStore(path) if path else None


__all__ = ["DEFAULT", "Agent"]
