"""What people write, as a type checker sees it. It is checked, not run."""

from __future__ import annotations

from typing import Any

from alpineagents import (
    Agent,
    Hints,
    Message,
    Model,
    Reply,
    Request,
    SqliteStore,
    State,
    StateInfo,
    StateSnapshot,
    ToolResultEntry,
    Usage,
    loop,
    tool,
    waiting_for_user,
)
from alpineagents.testing import FakeModel, tool_call


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
