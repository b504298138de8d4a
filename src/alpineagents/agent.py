"""Agent: settings, and what can be done with them on a State."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Mapping
from typing import Any, Self, cast

from alpineagents.agent_checks import (
    Loopable,
    check_call,
    check_names,
    checked_loop,
    checked_state,
    checked_store,
    checked_text,
    read_once,
    refuse_async_store,
)
from alpineagents.engine.actor import Actor
from alpineagents.engine.asking import PersonalQuestion, ask, ask_human, personal_question, question
from alpineagents.engine.compacting import compact
from alpineagents.engine.running import Start, prepared, run, state_for
from alpineagents.engine.subagents import AgentTool, Runner
from alpineagents.engine.think import think
from alpineagents.engine.use_tools import use_tools
from alpineagents.errors import explain
from alpineagents.human import Human, check_human
from alpineagents.loops import adefault_loop, default_loop, is_async_loop
from alpineagents.models.base import Model, identity
from alpineagents.models.resolve import resolve_model
from alpineagents.permissions import Permission, Rule, checked_permissions, refuse_unaskable
from alpineagents.reporter import Reporter, check_reporter
from alpineagents.scope import (
    DATABASE_VARIABLE,
    Calling,
    Run,
    Settings,
    bounded,
    bounds_here,
    calling_here,
    combined,
    denials,
    heard_outside,
    in_force,
)
from alpineagents.state import State, journal_of
from alpineagents.store.base import Store
from alpineagents.store.sqlite import SqliteStore
from alpineagents.terminal import default_terminal
from alpineagents.toolbox import Toolbox
from alpineagents.tools.base import Tool
from alpineagents.values.estimates import context_tokens, request_overhead
from alpineagents.values.exchange import AgentInfo, ToolSpec
from alpineagents.waiting import (
    awaiting,
    blocking,
    complete,
    enter_async_run,
    leave_async_run,
    refuse_blocking,
)


class _Default:
    """Stands for a setting that was not given, which differs from `None`."""

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Any = _Default()


class Agent:
    """Settings of an agent: a model, a prompt, tools and a loop. It keeps no conversation; that is a `State`.

    Args:
        model: A `Model`, or the name of one, as `resolve_model` reads it: `"anthropic/claude-opus-5"`.
        system: The system prompt.
        tools: `@tool` functions and methods, `Tool` objects, objects with `@tool` methods; Agents, as subagents; `MCP`
            servers, or picks of their tools.
        loop: A function `(agent, state)`; `default_loop` when left out.
        reporter: Hears of every step; the process's `Terminal` when left out, nobody with `None`.
        human: Answers questions; the process's `Terminal` when left out, nobody with `None`.
        store: A `Store`, or the path of an SQLite file. Without one, the file named by the environment variable
            `ALPINEAGENTS_DB`, else memory only.
        permissions: Who is asked before a tool call runs; what nobody allows is denied. With `None` every call runs.
        name, description: What it is called in listings, and what it does; for a subagent, what the model reads of it.
    Raises:
        TypeError: A setting of a wrong kind.
        ValueError: Two tools with one name, an empty path, or an Agent in `tools` without a name or description.

    Example:
        agent = Agent(model, tools=[read_file], store="runs.db")
        print(agent.run("Find the bug in main.py"))
    """

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        # Here, because Python's own message for a call that does not fit __init__ would not help.
        if cls.__init__ is Agent.__init__:
            check_call(args, settings)
        return super().__new__(cls)

    def __init__(  # noqa: PLR0913  # an Agent is its settings
        self,
        model: Model | str,
        *,
        system: str | None = None,
        tools: Iterable[Any] = (),
        loop: Loopable | None = None,
        reporter: Reporter | None = DEFAULT,
        human: Human | None = DEFAULT,
        store: Store | str | os.PathLike[str] | None = None,
        permissions: Iterable[Permission] | None = None,
        name: str | None = None,
        description: str | None = None,
    ) -> None:
        self._model = resolve_model(model)
        self._system = checked_text("system", system)
        self._name = checked_text("name", name)
        self._description = checked_text("description", description)
        self._given_tools = read_once(tools)
        self._toolbox = Toolbox(self._given_tools, _subagents)
        self._blocks: list[object] = []  # of `with agent:`, those that are open
        self._known_overhead: tuple[tuple[ToolSpec, ...], int] | None = None
        self._loop = checked_loop(loop)
        if reporter is not DEFAULT and reporter is not None:
            check_reporter(reporter)
        if human is not DEFAULT and human is not None:
            check_human(human)
        self._reporter = reporter
        self._human = human
        self._given_store = store
        self._store = checked_store(store)
        self._permissions = checked_permissions(permissions)

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
        """The tools by the name the model calls, read-only; those of MCP servers only while they are connected."""
        return self._toolbox.view

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

    def __enter__(self) -> Self:
        """Connect the MCP servers, and keep them connected until the block ends; several may be open at once.

        Raises:
            MCPConnectionError: A server could not be connected.
            ValueError: A pick that its server does not have, or a name that cannot be used.
        """
        if self._toolbox.servers:
            refuse_blocking("with agent", "async with agent")
            self._blocks.append(complete(self._toolbox.connect(blocking)))
        return self

    def __exit__(self, *error: object) -> None:
        """Disconnect them, unless something else still needs them."""
        if self._toolbox.servers:
            complete(self._toolbox.disconnect(blocking, self._blocks.pop()))

    async def __aenter__(self) -> Self:
        """`with agent:` in async code."""
        if self._toolbox.servers:
            self._blocks.append(await self._toolbox.connect(awaiting))
        return self

    async def __aexit__(self, *error: object) -> None:
        """`with agent:` in async code."""
        if self._toolbox.servers:
            await self._toolbox.disconnect(awaiting, self._blocks.pop())

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """Who is asked before this Agent's own calls run; `()` also when nothing is checked."""
        return self._permissions or ()

    def copy(self, **changes: Any) -> Agent:
        """A new Agent with some settings replaced; the names are those of the constructor.

        Raises:
            TypeError: An unknown name.
        """
        check_names("copy", changes)
        given: dict[str, Any] = {
            "model": self._model,
            "system": self._system,
            "tools": self._given_tools,
            "loop": self._loop,
            "reporter": self._reporter,
            "human": self._human,
            "store": self._given_store,
            "permissions": self._permissions,
            "name": self._name,
            "description": self._description,
        }
        return Agent(**{**given, **changes})

    def run(self, prompt_or_state: str | State, /) -> Any:
        """Run the loop on a new State with this prompt, or on a State you have, until it stops.

        Returns:
            What the loop returns; for `@loop` functions `state.answer`.
        Raises:
            TypeError: Neither a prompt nor a State; an async loop, store or permission; called on the event loop of an
                async run.
            NoHumanError: A permission asks a person, and there is nobody.
            ValueError: A blank prompt, a finished State, one that is being run, or one kept in another store.
        """
        refuse_blocking("agent.run", "agent.arun")
        loop = self._checked_sync_loop()
        calling = calling_here()
        actor = refuse_async_store("run", self._actor_of_run(calling))
        refuse_unaskable(actor.settings.permissions, asynchronous=False)
        start = prepared(actor, self._start(actor, prompt_or_state, loop, calling))
        return complete(run(blocking, actor, start))

    async def arun(self, prompt_or_state: str | State, /) -> Any:
        """`run` without blocking the event loop."""
        loop = self._checked_async_loop()
        calling = calling_here()
        actor = self._actor_of_run(calling)
        refuse_unaskable(actor.settings.permissions, asynchronous=True)
        start = prepared(actor, self._start(actor, prompt_or_state, loop, calling))
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
        state, actor = checked_state("think", state), refuse_async_store("think", self._equipped())
        complete(think(blocking, actor, state, self._shown(tools)))

    async def athink(self, state: State, tools: Iterable[Any] | None = None) -> None:
        """`think` without blocking the event loop."""
        state, actor = checked_state("athink", state), await self._aequipped()
        await think(awaiting, actor, state, self._shown(tools))

    def use_tools(self, state: State) -> None:
        """Run every pending call and record its result; those that cannot run get one that says why.

        Raises:
            TypeError: `state` is no State.
            ValueError: The State is finished.
            BaseException: What the first failing tool raised; its call and those not started stay pending.
        """
        refuse_blocking("agent.use_tools", "agent.ause_tools")
        state, actor = checked_state("use_tools", state), refuse_async_store("use_tools", self._equipped())
        complete(use_tools(blocking, actor, state))

    async def ause_tools(self, state: State) -> None:
        """`use_tools` without blocking the event loop."""
        state, actor = checked_state("ause_tools", state), await self._aequipped()
        await use_tools(awaiting, actor, state)

    def ask(self, state: State, prompt: str, returns: Any = str, *, retries: int = 2) -> Any:
        """Ask the model about the State, and record the question and its answer; nothing else in the State changes.

        Args:
            returns: The type of the answer: `str`, a dataclass, a Pydantic model, or another type with a JSON Schema.
            retries: How often the model may try again when its answer does not fit.
        Returns:
            The answer as `returns`; the history keeps its JSON form.
        Raises:
            TypeError: `state` is no State, `prompt` no `str`, or `returns` no such type.
            ValueError: The State is finished, or `retries` is not an int >= 0.
            OutputError: No answer fitted.
        """
        refuse_blocking("agent.ask", "agent.aask")
        state, asked = checked_state("ask", state), question(prompt, returns, retries)
        return complete(ask(blocking, self._equipped(), state, asked, self._toolbox.specs))

    async def aask(self, state: State, prompt: str, returns: Any = str, *, retries: int = 2) -> Any:
        """`ask` without blocking the event loop."""
        state, asked = checked_state("aask", state), question(prompt, returns, retries)
        return await ask(awaiting, await self._aequipped(), state, asked, self._toolbox.specs)

    def ask_human(self, state: State, prompt: str, returns: Any = str) -> Any:
        """Ask the person, and record the question and the answer; nothing else in the State changes.

        Args:
            returns: `str`, `bool` or `Literal[...]`.
        Raises:
            TypeError: Nobody can be asked for `returns`, or the person only in async code.
            NoHumanError: The Agent has `human=None`.
        """
        refuse_blocking("agent.ask_human", "agent.aask_human")
        state, asked = checked_state("ask_human", state), self._personal_question(prompt, returns)
        return complete(ask_human(blocking, self._actor(), state, asked))

    async def aask_human(self, state: State, prompt: str, returns: Any = str) -> Any:
        """`ask_human` without blocking the event loop."""
        state, asked = checked_state("aask_human", state), self._personal_question(prompt, returns)
        return await ask_human(awaiting, self._actor(), state, asked)

    def compact(self, state: State, instructions: str | None = None) -> None:
        """Have the model write a summary, and replace the messages by the first user message and this summary.

        Messages added while it writes stay behind the summary.

        Args:
            instructions: What the summary must keep.
        Raises:
            TypeError: `state` is no State, or `instructions` is no text.
            ValueError: Calls are pending, or the State is being compacted already.
            OutputError: The summary is empty.
        """
        refuse_blocking("agent.compact", "agent.acompact", ", or acompact_if_full(agent, state) in place of its twin")
        state, actor = checked_state("compact", state), refuse_async_store("compact", self._equipped())
        complete(compact(blocking, actor, state, instructions, self._toolbox.specs))

    async def acompact(self, state: State, instructions: str | None = None) -> None:
        """`compact` without blocking the event loop."""
        state, actor = checked_state("acompact", state), await self._aequipped()
        await compact(awaiting, actor, state, instructions, self._toolbox.specs)

    def context_tokens(self, state: State) -> int:
        """An estimate of the next request: system prompt, tools and messages, in tokens."""
        return self._tokens(checked_state("context_tokens", state))

    def context_used(self, state: State) -> float:
        """`context_tokens` as a part of the model's context window, which may exceed 1; 0.0 if that is unknown."""
        tokens, window = self._tokens(checked_state("context_used", state)), self._model.context_window
        return tokens / window if window and window > 0 else 0.0

    def _tokens(self, state: State) -> int:
        return context_tokens(journal_of(state).now.messages, self._overhead(self._toolbox.specs))

    @functools.cached_property
    def _as_tool(self) -> AgentTool:
        """The tool that this Agent is for others, always the same object."""
        is_default = self._loop is default_loop
        is_async = is_async_loop(self._loop)
        runner = Runner(self.run, self.arun, sync=not is_async, asynchronous=is_async or is_default)
        return AgentTool(self._name, self._description, runner)

    def _overhead(self, specs: tuple[ToolSpec, ...]) -> int:
        if self._known_overhead is None or self._known_overhead[0] is not specs:
            self._known_overhead = specs, request_overhead(self._system, specs)
        return self._known_overhead[1]

    def _personal_question(self, prompt: object, returns: Any) -> PersonalQuestion:
        settings = in_force(self)
        if settings is None:
            return personal_question(self.human, False, prompt, returns)
        return personal_question(settings.human, settings.human_inherited, prompt, returns)

    def _equipped(self) -> Actor:
        """The same for actions with tools: MCP servers that nothing has connected stay so until the process ends."""
        if self._toolbox.servers:
            complete(self._toolbox.servers.connect_once(blocking))
        return self._actor()

    async def _aequipped(self) -> Actor:
        if self._toolbox.servers:
            await self._toolbox.servers.connect_once(awaiting)
        return self._actor()

    def _actor(self) -> Actor:
        """What an action works with: inside a run of this Agent the settings of that run, else its own."""
        settings = in_force(self)
        if settings is None:
            settings = self._settings(bounds_here())
        return self._acting(settings, heard_outside(settings.reporter))

    def _actor_of_run(self, calling: Calling | None) -> Actor:
        """What a run works with; one in a tool call takes over from the run above."""
        settings = self._settings(bounds_here()) if calling is None else self._settings_below(calling.settings)
        return self._acting(settings, settings.reporter)

    def _acting(self, settings: Settings, reporter: Reporter | None) -> Actor:
        return Actor(self._model, self._system, self._toolbox.tools, reporter, settings.store, settings)

    def _settings(self, bounds: tuple[Rule, ...]) -> Settings:
        human, given = self.human, self._store is not None
        store = self._store if given else _store_of_environment()
        permissions = bounded(bounds, self._rules(human))
        return Settings(self.reporter, human, store, permissions, bounds, from_environment=not given)

    def _settings_below(self, above: Settings) -> Settings:
        inherited = self._human is DEFAULT
        human = above.human if inherited else self._human
        return Settings(
            above.reporter if self._reporter is DEFAULT else self._reporter,
            human,
            above.store if self._store is None else self._store,
            combined(above.permissions, self._rules(human, inherited)),
            denials(above.permissions),
            human_inherited=inherited,
            from_environment=above.from_environment and self._store is None,
        )

    def _rules(self, human: Human | None, inherited: bool = False) -> tuple[Rule, ...] | None:
        if self._permissions is None:
            return None
        return tuple([Rule(each, human, inherited) for each in self._permissions])

    def _start(self, actor: Actor, prompt_or_state: object, loop: Loopable, calling: Calling | None) -> Start:
        connections = self._toolbox if self._toolbox.servers else None
        return Start(Run(self, actor.settings), state_for(prompt_or_state), self._info(), loop, calling, connections)

    def _info(self) -> AgentInfo:
        digest = (
            None if self._system is None else hashlib.sha256(self._system.encode("utf-8", "surrogatepass")).hexdigest()
        )
        return AgentInfo(
            name=self._name,
            model=identity(self._model),
            system_sha256=digest,
            tools=tuple(sorted(self._toolbox.own)),
            mcp_servers=self._toolbox.servers.names,
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
        return self._toolbox.specs if tools is None else self._toolbox.chosen(tools)

    def __repr__(self) -> str:
        name = "" if self._name is None else f"name={self._name!r}, "
        return f"Agent({name}model={identity(self._model)!r}, tools=[{', '.join(self._toolbox.shown)}])"


def _subagents(item: object) -> list[Tool] | None:
    """The tool of an item of `tools=` that is an Agent."""
    return [item._as_tool] if isinstance(item, Agent) else None  # noqa: SLF001  # that of the class above


def _store_of_environment() -> Store | None:
    path = os.environ.get(DATABASE_VARIABLE)
    return SqliteStore(path) if path else None


__all__ = ["DEFAULT", "Agent"]
