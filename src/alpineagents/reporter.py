"""Being told what a run does: the `Reporter`, an observer of steps."""

from __future__ import annotations

from alpineagents.errors import explain
from alpineagents.history.entries import ContextChange
from alpineagents.state import State
from alpineagents.values.content import ToolCall, ToolResultContent
from alpineagents.values.exchange import ModelEvent, Reply
from alpineagents.values.outcomes import ToolOutcome


class Reporter:
    """Hears every step of a run. All methods do nothing: override the ones you need.

    A Reporter only observes: it must leave the State alone. What it raises reaches the caller of the run. In an async
    run it is called on the event loop's thread; several runs in several threads may share one.
    """

    def on_run_start(self, state: State) -> None:
        """A run started and its start is saved."""

    def on_think_start(self, state: State) -> None:
        """A request is about to be sent; in `think`, `state.turn` is the new turn already."""

    def on_text(self, state: State, chunk: str) -> None:
        """A piece of the model's text arrived."""

    def on_model_event(self, state: State, event: ModelEvent) -> None:
        """The Model reported something, such as a retry; it is in the history already."""

    def on_think_end(self, state: State, reply: Reply) -> None:
        """The reply is complete. A request that failed has no such event."""

    def on_tool_start(self, state: State, call: ToolCall) -> None:
        """A tool is about to run, or its arguments are about to be refused."""

    def on_tool_end(self, state: State, call: ToolCall, result: ToolResultContent, outcome: ToolOutcome) -> None:
        """A call ended; `result` is what the model gets. A call a permission refused has this event only."""

    def on_context_change(self, state: State, change: ContextChange) -> None:
        """The context was compacted, thinned out or taken back."""

    def on_run_end(self, state: State, error: BaseException | None) -> None:
        """A run ended, by `error` if there is one. It comes after every `on_run_start`, also one that raised."""


EVENTS = tuple(name for name in vars(Reporter) if name.startswith("on_"))


def check_reporter(reporter: object) -> None:
    """`TypeError` unless this is an object with every event of `Reporter` as a method."""
    if isinstance(reporter, type):
        raise TypeError(
            explain(
                f"reporter takes an object, not the class {reporter.__name__}",
                "create one",
                f"Agent(..., reporter={reporter.__name__}())",
            )
        )
    missing = [name for name in EVENTS if not callable(getattr(reporter, name, None))]
    if missing:
        raise TypeError(
            explain(
                f"{reporter!r} is no reporter: it has no method {', '.join(missing)}",
                "make it a subclass of Reporter, whose methods do nothing until you override them",
                "class Progress(Reporter):\n    def on_think_start(self, state):\n        print(state.turn)",
            )
        )
