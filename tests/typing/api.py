"""What people write, as a type checker sees it. It is checked, not run."""

from __future__ import annotations

from typing import Any, Literal

from alpineagents import (
    Agent,
    CompactIfFull,
    Hints,
    Message,
    Model,
    Reply,
    Request,
    SqliteStore,
    State,
    StateInfo,
    StateSnapshot,
    Tool,
    ToolResultEntry,
    Usage,
    acompact_if_full,
    compact_if_full,
    loop,
    tool,
    waiting_for_user,
)
from alpineagents.permissions import AllowByDefault, Allowed, DecidePermission, Denied, DenyByName
from alpineagents.testing import FakeModel, tool_call
from alpineagents.types import ToolCall


class Echo(Model):
    """A model of one's own."""

    name = "echo"

    @property
    def context_window(self) -> int:
        return 8_000

    def respond(self, request: Request, on_text: Any = None, on_event: Any = None) -> Reply:
        return Reply(Message.assistant(request.messages[-1].text), Usage(requests=1))


@tool
def stock(item: str, state: State) -> int:
    """How many of an item are left."""
    return len(item) + state.turn


@tool(parallel=False, read_only=True, hints_for=lambda args: Hints(read_only="dry" in args))
async def order(item: str) -> str:
    """Order more of it."""
    return item


@loop(until=waiting_for_user, limit=3)
def careful(agent: Agent, state: State) -> None:
    compact_if_full(agent, state)
    agent.think(state, tools=[stock])
    if state.pending_calls:
        agent.use_tools(state)


def use(store: SqliteStore) -> tuple[str, StateSnapshot, list[StateInfo]]:
    agent = Agent(FakeModel([tool_call("stock", item="bolts"), "12"]), tools=[stock, order], loop=careful, store=store)
    state = State(id="bolts", messages=[Message.user("How many bolts are left?")])
    agent.copy(model=Echo()).run(state)
    with state.edit_extra_data() as data:
        data["seen"] = True
    for entry in state.history:
        if isinstance(entry, ToolResultEntry):
            print(entry.call.args["item"], entry.outcome)
    return store.load("bolts").id, state.snapshot(), store.list()


@loop(until=waiting_for_user, limit=3)
async def patient(agent: Agent, state: State) -> None:
    async with agent:
        await acompact_if_full(agent, state)
        await CompactIfFull(at=0.4, instructions="Keep the counts").acall(agent, state)
        await agent.athink(state)


def ask(agent: Agent, state: State) -> tuple[int, str]:
    with agent as connected:
        if connected.context_used(state) > 0.5 or connected.context_tokens(state) > 1000:
            connected.compact(state, "Keep the counts")
        counts: list[int] = connected.ask(state, "How many of each?", list[int], retries=1)
        choice: str = connected.ask_human(state, "Order more?", Literal["now", "later"])
    return sum(counts), choice


async def aask(agent: Agent, state: State) -> str:
    await agent.acompact(state)
    if await agent.aask_human(state, "Go on?", bool):
        return await agent.aask(state, "What is left to do?")
    return ""


class OnlySmall(DecidePermission):
    def check(self, state: State, call: ToolCall, tool: Tool) -> Allowed | Denied | None:
        return Allowed() if call.args.get("grams") == 1 else Denied("Too heavy", stop=True)


Agent(Echo(), permissions=[OnlySmall(), DenyByName(["drop_*"]), AllowByDefault()])
Agent(Echo(), permissions=["drop_*"])  # type: ignore[list-item]
