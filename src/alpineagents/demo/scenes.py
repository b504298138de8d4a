"""What the demo shows: six runs, each of which goes another way. All of them are ordinary runs of an Agent."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from alpineagents.agent import Agent
from alpineagents.demo.models import LiveFakeModel, LiveReplayModel
from alpineagents.demo.recording import Recording, Step, read_recording
from alpineagents.demo.repository import Repository
from alpineagents.human import Human
from alpineagents.loops import Loop, default_loop, loop, waiting_for_user
from alpineagents.models.base import Model
from alpineagents.permissions import AllowByName, AllowByReadOnly, DecideByHuman, Denied, DenyPermission
from alpineagents.state import State
from alpineagents.store import SqliteStore
from alpineagents.testing import tool_call
from alpineagents.tools.base import Tool
from alpineagents.values.content import Message, ToolCall

# Places in the recording, from 0.
REPRODUCE, LOOK_AROUND, FIND, OPEN, FAILING_EDIT, EDIT, RUN_AGAIN, REMOVE = 2, 3, 4, 5, 6, 7, 8, 9

ANOTHER_LINE = "        return value // base_unit"
READING_S = 0.3
OTHER_WAY = "Do not round a float. Divide the timedeltas themselves: that is exact."


@dataclass(frozen=True)
class Stage:
    """What all scenes need: `say` tells the person what comes, and a `pace` of 1 lets them follow."""

    recording: Recording
    store: SqliteStore
    say: Callable[[str], None]
    pace: float

    def agent(self, name: str, model: Model, tools: Repository, loop: Loop = default_loop) -> Agent:
        """An Agent that works as the recorded one did."""
        return Agent(
            model, system=self.recording.system, tools=[tools], loop=loop, name=name, store=self.store, human=None
        )

    def repository(self, *steps: Step, **faults: BaseException) -> Repository:
        """The tools, with the results of these steps."""
        return Repository(steps, self.pace, faults)

    def model(self, *replies: Any) -> Model:
        """A model that says this."""
        return LiveFakeModel(replies, self.pace)


def play(path: Path, say: Callable[[str], None], pace: float = 1.0) -> None:
    """Run the demo and leave its runs in a file, beside what is there already.

    Args:
        path: An SQLite file of ours, or a new one.
        say: Called with each line between the runs.
        pace: 1 lets a person follow; 0 is as fast as it goes.
    """
    with SqliteStore(path) as store:
        stage = Stage(read_recording(), store, say, pace)
        say("A coding agent fixes a rounding bug in marshmallow: a real run, recorded once and played again now.")
        say(f"No key, no network. Each step is in {path} before the next one begins.")
        fork = fixed(stage)
        interrupted_and_resumed(stage)
        forked(stage, fork)
        failed(stage)
        interrupted(stage)
        delegated(stage)


def fixed(stage: Stage) -> State:
    """The whole recorded run; gives a fork of it from before the edit that fails."""
    steps, forks = stage.recording.steps, list[State]()

    @loop(until=waiting_for_user, limit=50)
    def coding(agent: Agent, state: State) -> None:
        if state.turn == FAILING_EDIT:
            forks.append(state.fork())
        default_loop.body(agent, state)

    stage.say("\n1. The run as it was. In turn 7 an edit fails; the model reads why and does better.")
    model = LiveReplayModel(stage.recording.state(), stage.pace)
    state = started("fix", stage.recording.task)
    patch: str = stage.agent("coder", model, stage.repository(*steps), coding).run(state)
    stage.say("It finished with this patch:")
    stage.say("\n".join([f"  {line}" for line in patch.splitlines() if line.startswith(("-  ", "+  "))]))
    return forks[0]


def interrupted_and_resumed(stage: Stage) -> None:
    """Ctrl+C while a tool works; later the State is loaded from the file and runs on."""
    steps = stage.recording.steps
    first, run = steps[:REPRODUCE], steps[REPRODUCE]
    ctrl_c = KeyboardInterrupt()
    stage.say("\n2. Ctrl+C in the middle of a tool.")
    model = stage.model(*[step.said for step in first], run.said, run.said, seen(steps[LOOK_AROUND]))
    tools = Repository([*first, run], stage.pace, {"python reproduce.py": ctrl_c})
    agent = stage.agent("reproducer", model, tools)
    state = started("repro", "Reproduce the TimeDelta bug first: is it 344 or 345?")
    interrupt(agent, state, ctrl_c)
    stage.say(f"Loaded from the file, {state.id} goes on:")
    agent.run(stage.store.load(state.id))


def forked(stage: Stage, fork: State) -> None:
    """The first run again from before its failing edit, told to go another way."""
    edit, run = with_another_line(stage.recording.steps[EDIT]), stage.recording.steps[RUN_AGAIN]
    stage.say("\n3. A fork of the first run from before turn 7. It is told to fix the bug another way.")
    model = stage.model(
        ("A timedelta divided by a timedelta with // is an exact int, so nothing is left to round.", edit.call),
        ("The example from the issue again.", run.call),
        "345, and no float is involved: `value // base_unit` counts the units exactly.",
    )
    fork.add_message(Message.user(OTHER_WAY))
    stage.agent("coder", model, Repository([edit, run], stage.pace)).run(fork)


def failed(stage: Stage) -> None:
    """A tool raises something it did not expect: the exception leaves the run."""
    stage.say("\n4. A tool raises TimeoutError. It comes out of agent.run, and the file says where it happened.")
    command = "python -m pytest tests"
    hung = TimeoutError(f"no output for 30 s: {command}")
    model = stage.model(("The whole suite, then.", tool_call("bash", command=command)))
    tools = Repository([], stage.pace, {command: hung})
    try:
        stage.agent("tester", model, tools).run(started("suite", "Run the whole test suite with the fix"))
    except TimeoutError as error:
        if error is not hung:
            raise


def interrupted(stage: Stage) -> None:
    """Ctrl+C while the model writes; the State stays as it is."""
    look = stage.recording.steps[LOOK_AROUND]
    ctrl_c = KeyboardInterrupt()
    stage.say("\n5. Ctrl+C while the model thinks. Nobody resumes this one.")
    model = stage.model(("Where do the tests live?", look.call), ctrl_c)
    agent = stage.agent("tester", model, Repository([look], stage.pace))
    interrupt(agent, started("test", "Write a regression test for the TimeDelta rounding"), ctrl_c)


class KeepFiles(DenyPermission):
    """Nobody removes a file."""

    def check(self, state: State, call: ToolCall, tool: Tool) -> Denied | None:
        """A denial for `rm`."""
        if str(call.args.get("command", "")).startswith("rm "):
            return Denied("Files stay until the fix is merged.")
        return None

    def __repr__(self) -> str:
        return "KeepFiles()"


class Colleague(Human):
    """A person who reads the question and says yes."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def ask(self, state: State, prompt: str, returns: Any = str) -> str:
        """The answer."""
        time.sleep(self._stage.pace * READING_S)
        self._stage.say(f"{prompt} (yes/no) yes")
        return "yes"


def delegated(stage: Stage) -> None:
    """A lead with two subagents at once: one reaches its limit, one needs a yes and is denied something."""
    steps = stage.recording.steps
    stage.say("\n6. A lead and two subagents at once. What they may do, the lead's permissions say.")
    find, show, run, remove = steps[FIND], steps[OPEN], steps[REPRODUCE], steps[REMOVE]

    @loop(until=waiting_for_user, limit=2)
    def two_turns(agent: Agent, state: State) -> None:
        default_loop.body(agent, state)

    reader = Agent(
        stage.model(find.said, show.said),
        tools=[stage.repository(find, show)],
        loop=two_turns,
        name="reader",
        description="Reads code and says where something happens.",
    )
    runner = Agent(
        stage.model(
            run.said,
            ("344. Now the script can go.", remove.call),
            "It prints 344. I could not remove the script: files stay until the merge.",
        ),
        tools=[stage.repository(run, remove)],
        name="runner",
        description="Runs commands and says what they print.",
    )
    lead = Agent(
        stage.model(
            (
                "Both at once.",
                tool_call("reader", prompt="Find the line in marshmallow that serializes TimeDelta."),
                tool_call("runner", prompt="Run reproduce.py, say what it prints, and remove it."),
            ),
            "The bug is there: 344, not 345. fields.py is open near line 1474; reproduce.py is still in its place.",
        ),
        tools=[reader, runner],
        name="lead",
        store=stage.store,
        human=Colleague(stage),
        permissions=[KeepFiles(), AllowByName(["reader", "runner"]), AllowByReadOnly(), DecideByHuman()],
    )
    lead.run(started("team", "Is the TimeDelta bug still there, and where? Leave nothing behind."))


def started(name: str, message: str) -> State:
    """A new State with an id that tells what it is about and is free."""
    return State(id=f"{name}-{secrets.token_hex(3)}", messages=[Message.user(message)])


def interrupt(agent: Agent, state: State, ctrl_c: KeyboardInterrupt) -> None:
    """Run until this Ctrl+C comes; one of the person's own ends the demo."""
    try:
        agent.run(state)
    except KeyboardInterrupt as error:
        if error is not ctrl_c:
            raise


def seen(step: Step) -> str:
    """What the model said first when it had seen the result before this step."""
    return step.text.partition(". ")[0] + "."


def with_another_line(step: Step) -> Step:
    """The recorded edit, with another line in its place."""
    line = step.call.args["replacement_text"]
    call = ToolCall("edit", {**step.call.args, "replacement_text": ANOTHER_LINE}, tool_call("edit").id)
    return replace(step, call=call, result=step.result.replace(line, ANOTHER_LINE))
