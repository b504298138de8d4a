"""A file of runs to look at: one tree of agents with everything a page has to show, and many small runs around it."""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from alpineagents.demo.recording import read_recording
from alpineagents.history import clock, rules
from alpineagents.history.entries import ToolResultEntry
from alpineagents.state import State, journal_of
from alpineagents.store import SqliteStore
from alpineagents.values.content import Block, Image, Message, TextBlock, ToolCall
from alpineagents.values.estimates import context_tokens
from alpineagents.values.exchange import AgentInfo, ModelEvent, Reply
from alpineagents.values.outcomes import StoppedByLimit, StoppedByPermission, StoppedByUntil
from alpineagents.values.usage import Price, Usage

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000030000000180802000000339fe98b000000834944415478daedce510a01011440d1598e3449"
    "9a24499234699224499224579224499224f9be4bb610eface024252c638a15ac620d33ac63039bd8c23676b08b3dec638e032c7088231ce3"
    "04a738c3392e70892b5ce306b7b8c33d1ef088273ce305af78c33b3ef0892f7ce307bf98442842118a50842214a108452842118ad07f857e"
    "d8c4df4cc36873320000000049454e44ae426082"
)
SYSTEM = "0be7" + "5a" * 29 + "9c1a"
PRICES = {"opus-5": Price(15, 75, 1.5, 18), "sonnet-5": Price(3, 15, 0.3, 3.7), "haiku-4-5": Price(1, 5, 0.1, 1.2)}
Called = tuple[ToolCall, str, str, float]


class Teller:
    """Writes a State entry by entry, on a clock of its own."""

    def __init__(self, start: datetime, agent: str, model: str, id: str | None = None) -> None:
        self.now = start
        self.agent, self.model = agent, model
        self.messages: list[Message] = []
        self.state = State(id=id) if id else State()
        self.journal = journal_of(self.state)
        self.cached = 0

    def record(self, after_s: float, rule: Callable[..., Any], *args: Any) -> None:
        self.now += timedelta(seconds=after_s)
        with clock_at(self.now):
            self.journal.record(rule, *args)

    def user(self, text: str, *images: Image, after: float = 0.0) -> None:
        self.record(after, rules.message, Message.user(text, *images))

    def start(self, parent: tuple[str, str] | None = None, tools: Sequence[str] = ("bash", "edit", "open")) -> None:
        info = AgentInfo(name=self.agent, model=self.model, system_sha256=SYSTEM, tools=tuple(tools))
        self.record(0.004, rules.run_start, info, *(parent or (None, None)))

    def reply(self, text: str, *calls: ToolCall, took: float = 4.0, stop_reason: str | None = None) -> None:
        self.record(0.01, rules.request, self.model)
        blocks: list[Block] = [TextBlock(text)] if text else []
        message = Message("assistant", (*blocks, *calls))
        tokens = context_tokens(self.state.messages) + 900
        cached = min(self.cached, tokens)
        output = 20 + len(text) // 3 + 30 * len(calls)
        price = next((price for name, price in PRICES.items() if name in self.model), None)
        usage = Usage(tokens - cached, output, cache_read_tokens=cached, requests=1)
        cost = price.cost(usage) if price else None
        usage = Usage(tokens - cached, output, cache_read_tokens=cached, requests=1, cost=cost)
        self.cached = tokens
        reason = stop_reason or ("tool_use" if calls else "end_turn")
        self.record(took, rules.reply, Reply(message, usage, tokens + output, reason, self.model.rpartition("/")[2]))

    def result(
        self,
        call: ToolCall,
        content: Any,
        outcome: str = "done",
        took: float = 0.05,
        child: State | None = None,
    ) -> None:
        usage = None if child is None else child.usage
        ids = () if child is None else (child.id,)
        entry = ToolResultEntry(content=content, call=call, outcome=outcome, child_ids=ids, usage=usage, turn=0)  # type: ignore[arg-type]
        self.record(took, rules.result, entry)

    def turn(self, text: str, *called: Called, took: float = 4.0) -> None:
        self.reply(text, *[call for call, *_ in called], took=took)
        for call, content, outcome, seconds in called:
            self.result(call, content, outcome, seconds)

    def stop(self) -> None:
        self.record(0.001, rules.stop, StoppedByUntil("waiting_for_user"))


@contextlib.contextmanager
def clock_at(moment: datetime) -> Generator[None]:
    with mock.patch.object(clock, "now", lambda: moment):
        yield


def call(name: str, id: str, /, **args: Any) -> ToolCall:
    return ToolCall(name, args, id)


def coder(start: datetime, parent: tuple[str, str] | None) -> Teller:
    """The recorded bug fix, with a person asked, a call denied and old results cleared."""
    recording = read_recording()
    told = Teller(start, "coder", "anthropic/claude-sonnet-5", "coder-7c2e" if parent else None)
    told.user(recording.task)
    with clock_at(told.now):
        told.journal.record(rules.extra_data, {"issue": "marshmallow#1357", "branch": "fix/timedelta-round"})
    told.start(parent)
    for step in recording.steps[:9]:
        outcome = "error" if step.failed else "done"
        told.turn(step.text, (step.call, step.result, outcome, step.seconds / 10), took=2 + len(step.text) / 90)
    last = recording.steps[9]
    push = call("bash", "call_push", command="git push origin HEAD")
    told.reply(last.text, last.call, push, took=4.6)
    told.record(112, rules.asked, "human", 'Allow bash(command="rm reproduce.py")?', "yes")
    told.result(push, "Pushing is for people. Leave the branch local and say so in your answer.", "denied", 0.01)
    told.result(last.call, "", "done", 0.021)
    told.record(0.01, rules.clear_tool_results, 2)
    told.turn("", (recording.steps[10].call, recording.steps[10].result, "done", 0.14), took=1.8)
    told.reply(
        "TimeDelta now rounds to the nearest unit before it converts to `int`, so 345 ms serializes as 345. The change"
        " is one line in `fields.py` (1475). I removed `reproduce.py` again; pushing was denied, so the branch is"
        " local.",
        took=6.2,
    )
    told.stop()
    return told


def tester(start: datetime, parent: tuple[str, str]) -> Teller:
    told = Teller(start, "tester", "anthropic/claude-haiku-4-5", "tester-51aa")
    told.user("Try negative values, weeks and every precision.")
    told.start(parent, ("bash",))
    for number in range(6):
        pytest = call("bash", f"call_t{number}", command=f"pytest -q -k 'TimeDelta and case{number}'")
        told.turn("", (pytest, f".{number}  [100%]\n{number + 1} passed", "done", 5.1), took=1.1)
    told.record(0.001, rules.stop, StoppedByLimit(6))
    return told


def reviewer(start: datetime, parent: tuple[str, str], keep: Callable[[State], None]) -> Teller:
    told = Teller(start, "reviewer", "anthropic/claude-sonnet-5", "reviewer-0d11")
    told.user("Review the diff on fix/timedelta-round: negative values, weeks, types.")
    told.start(parent, ("git_diff", "read_file", "tester"))
    told.turn("I read the diff first.", (call("git_diff", "call_r1", base="dev"), DIFF, "done", 0.09), took=5)
    test = call("tester", "call_r2", task="Try negative values, weeks and every precision.")
    told.reply("Numbers say more than reading.", test, took=6)
    below = tester(told.now, ("reviewer-0d11", "call_r2"))
    keep(below.state)
    told.result(
        test, "stopped at limit 6: all passed so far", "done", (below.now - told.now).total_seconds(), below.state
    )
    told.reply(
        "Correct for all seven precisions. round() goes half to even: 0.5 units go to the even neighbour; worth a line"
        " in the changelog. 11 TimeDelta tests pass.",
        took=11,
    )
    told.stop()
    return told


DIFF = """diff --git a/src/marshmallow/fields.py b/src/marshmallow/fields.py
@@ -1472,7 +1472,7 @@ class TimeDelta(Field):
-        return int(value.total_seconds() / base_unit.total_seconds())
+        return int(round(value.total_seconds() / base_unit.total_seconds()))
"""
ANSI = (
    "\x1b[31mFAILED\x1b[0m tests/test_a.py\r\n10%\r50%\r100% done\n\x1b[1;32m3 passed\x1b[0m in 0.5s \u202etxt\u200b."
)


def lead(start: datetime, keep: Callable[[State], None]) -> Teller:
    """A lead with two subagents, one of which has one of its own."""
    told = Teller(start, "lead", "anthropic/claude-opus-5", "fix-timedelta-7c2e")
    told.user(
        "TimeDelta serialization precision: 345 ms comes out as 344. Fix it, have it reviewed, do not change the API."
    )
    told.start(None, ("coder", "reviewer", "git_diff", "ask"))
    task = "Reproduce marshmallow#1357, fix TimeDelta._serialize, re-run the reproduction, remove it"
    fix = call("coder", "call_c1", task=task)
    told.reply(
        "The issue has a reproduction. I give it to coder with the file and line, and ask for the smallest change that"
        " keeps the indentation and the types.",
        fix,
        took=8.9,
    )
    below = coder(told.now, ("fix-timedelta-7c2e", "call_c1"))
    keep(below.state)
    told.result(fix, str(below.state.answer), "done", (below.now - told.now).total_seconds(), below.state)
    review = call("reviewer", "call_c2", task="Review the diff on fix/timedelta-round: negative values, weeks, types")
    told.reply("One line, as hoped. Before I answer I want a second pair of eyes.", review, took=6.1)
    second = reviewer(told.now, ("fix-timedelta-7c2e", "call_c2"), keep)
    keep(second.state)
    told.result(review, str(second.state.answer), "done", (second.now - told.now).total_seconds(), second.state)
    told.turn("", (call("git_diff", "call_c3", base="dev"), DIFF, "done", 0.2), took=5)
    told.reply(
        "TimeDelta now rounds to the nearest unit before it converts to `int`, so 345 ms serializes as 345. One line"
        " changed, reviewed, all 11 TimeDelta tests pass. The branch is local: pushing is for people.",
        took=14.6,
    )
    told.stop()
    return told


def stalled(start: datetime) -> Teller:
    told = Teller(start, "triage", "anthropic/claude-sonnet-5", "triage-b91f")
    told.user("Why does Schema(many=True) drop context in nested fields?", Image(PNG))
    told.start(None, ("bash", "fetch"))
    for number, seconds in enumerate((29.0, 17.0, 90.0)):
        run = call("bash", f"call_s{number}", command=f"pytest -q tests/test_context.py::test_{number}")
        told.record(0.0, rules.model_event, ModelEvent("retry", "overloaded; trying again in 2 s", {"attempt": 1}))
        told.turn(f"Step {number}.", (run, ANSI, "done", seconds), took=10)
    told.reply(
        "",
        call("bash", "call_s8", command="pytest -q tests/test_context.py"),
        call("fetch", "call_s9", url="https://example.org/issues/2214"),
        took=9,
    )
    return told


def running(start: datetime) -> Teller:
    told = Teller(start, "lead", "anthropic/claude-opus-5", "bump-httpx-5b0c")
    told.user("Bump the httpx floor to 0.28 and fix what breaks in the test suite")
    told.start()
    run = call("bash", "call_1", command="pytest -x -q")
    told.turn("The suite first.", (run, "E   TypeError: unexpected keyword 'proxies'", "error", 31.0), took=6)
    told.reply("One caller is left.", call("bash", "call_2", command="pytest -x -q"), took=5)
    return told


def failed(start: datetime) -> Teller:
    told = Teller(start, "lead", "anthropic/claude-opus-5", "msgpack-9e13")
    told.user("Add Decimal support to the msgpack codec")
    told.start()
    bad = call("edit", "call_1", path="codec.py", old="x", new="y")
    told.turn("I look first.", (bad, "edit: 'x' occurs 3 times", "input_error", 0.01), took=5)
    told.record(0.01, rules.compact, "The codec lives in codec.py; Decimal goes through ext type 7.", 1)
    told.record(0.01, rules.request, told.model)
    told.record(600, rules.failure, TimeoutError("no reply from anthropic within 600 s"))
    return told


def permission(start: datetime) -> Teller:
    told = Teller(start, "release", "anthropic/claude-opus-5", "release-322")
    told.user("Release 3.22: tag, changelog, upload")
    told.start()
    push, tag = call("git_push", "call_1", remote="origin", tags=True), call("git_tag", "call_2", name="3.22")
    told.reply("I push the tag.", push, tag, took=5)
    told.record(40, rules.asked, "human", 'Allow git_push(remote="origin", tags=true)?', "Not today")
    told.result(push, "Not today", "denied", 0.01)
    told.result(tag, "(not run: the user stopped this turn)", "cancelled", 0.01)
    told.record(0.01, rules.stop, StoppedByPermission(push, "DecideByHuman()"))
    return told


def idle(start: datetime) -> Teller:
    told = Teller(start, "lead", "anthropic/claude-opus-5", "guide-4")
    told.user("Draft an upgrade guide from 3.21 to 4.0")
    return told


_TASKS = ("Which fields accept allow_none but never test it?", "Flake hunt over the last 200 CI runs",
          "Rewrite the quickstart for async validators", "Summarise issue 1357 and its duplicates for the changelog",
          "Does pre_load run before unknown= is checked?", "Generate type stubs for marshmallow.fields")  # fmt: skip
_ERRORS = ("line 17 is outside the open file (1997 lines total)", "No file open. Use the open command first.",
           "E999 IndentationError: unexpected indent", "exit 2: 14 failed, 1021 passed")  # fmt: skip


def small(start: datetime, dice: random.Random) -> Teller:
    """One of many: a few turns, and an end."""
    model = dice.choice(["anthropic/claude-opus-5", "anthropic/claude-sonnet-5", "local/qwen3-32b"])
    told = Teller(start, dice.choice(["lead", "triage", "nightly"]), model, f"run-{dice.getrandbits(40):010x}")
    told.user(dice.choice(_TASKS))
    told.start()
    for number in range(dice.randint(1, 6)):
        tool = dice.choice(["bash", "edit", "open", "mcp.pyright.check"])
        fails = dice.random() < (0.3 if tool == "edit" else 0.1)
        text = dice.choice(_ERRORS).replace("17", str(dice.randint(10, 99))) if fails else "ok\n" * dice.randint(1, 9)
        done = call(tool, f"call_{number}", command=f"step {number}")
        told.turn("Next.", (done, text, "error" if fails else "done", dice.uniform(0.1, 20)), took=dice.uniform(2, 9))
    if dice.random() < 0.12:
        told.record(0.01, rules.request, told.model)
        told.record(2, rules.failure, dice.choice([KeyboardInterrupt(), TimeoutError("no reply within 600 s")]))
    elif dice.random() < 0.2:
        told.reply("Done.")
        told.record(0.01, rules.finish, {"flaky": 3, "shared": "clock fixture"})
    else:
        told.reply("Four: Url, Email, IP and Enum. Each accepts None but no test passes it.")
        told.stop()
    return told


def write_examples(path: Path, now: datetime | None = None, *, small_runs: int = 60) -> Path:
    """A file of runs that were all recorded a while before `now`."""
    now = now or datetime.now(UTC)
    with SqliteStore(path) as store:

        def keep(state: State) -> None:
            store.save(state)

        dice = random.Random(7)
        for number in range(small_runs):
            keep(small(now - timedelta(days=30 * (1 - number / small_runs), hours=4), dice).state)
        for hours, made in ((20, idle), (5, permission), (3, failed)):
            keep(made(now - timedelta(hours=hours)).state)
        told = lead(now - timedelta(hours=2), keep)
        keep(told.state)
        first = coder(now - timedelta(hours=1, minutes=30), None)
        keep(first.state)
        keep(fork_of(first, now - timedelta(hours=1)).state)
        keep(stalled(now - timedelta(minutes=31)).state)
        keep(running(now - timedelta(seconds=64)).state)
    return path


def fork_of(first: Teller, start: datetime) -> Teller:
    """The first run again from before turn 7, with another model."""
    told = Teller(start, "coder", "anthropic/claude-opus-5")
    told.state = _forked(first.state, 21)
    told.journal = journal_of(told.state)
    told.start()
    fixed = call(
        "edit",
        "call_f1",
        replacement_text="        return int(round(value / base_unit))",
        start_line=1475,
        end_line=1475,
    )
    updated = "File updated. Please review the changes and make sure they are correct.\n" + "\n" * 3 + DIFF
    told.turn("Line 1475 truncates. Dividing timedeltas and rounding keeps whole units.", (fixed, updated, "done", 0.2))
    told.turn("Now the script.", (call("bash", "call_f2", command="python reproduce.py"), "345", "done", 0.6))
    told.reply("TimeDelta rounds to the nearest unit: 345 ms serializes as 345. Not pushed.")
    told.record(0.01, rules.finish, "TimeDelta rounds to the nearest unit. Not pushed.")
    return told


def _forked(state: State, count: int) -> State:
    """A fork of the first `count` entries, as `restore` and `fork` make one."""
    fork = State(history=state.history[:count])
    journal_of(fork).origin, journal_of(fork).forked = journal_of(state), (state.id, count)
    return fork


if __name__ == "__main__":
    import sys

    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "runs.db"
    print(write_examples(target))
