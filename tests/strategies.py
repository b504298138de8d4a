"""All Hypothesis strategies: JSON values, what messages are made of, every entry, whole histories, living States."""

from __future__ import annotations

import string
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

from alpineagents.history import rules
from alpineagents.history.entries import (
    ContextChange,
    ContextChangeEntry,
    ErrorEntry,
    ExchangeEntry,
    ExtraDataEntry,
    HistoryEntry,
    MessageEntry,
    ModelEventEntry,
    ModelReplyEntry,
    ModelRequestEntry,
    RunStartEntry,
    StopEntry,
    ToolResultEntry,
)
from alpineagents.history.replay import step
from alpineagents.history.snapshot import StateSnapshot, value_of
from alpineagents.history.value import EMPTY, Value
from alpineagents.state import State, journal_of
from alpineagents.values.content import (
    IMAGE_TYPES,
    INVALID_ARGS_KEY,
    NOTICE_PREFIX,
    Image,
    Message,
    RawBlock,
    TextBlock,
    ToolCall,
    ToolResultBlock,
)
from alpineagents.values.exchange import AgentInfo, Exchange, ModelEvent, Reply
from alpineagents.values.outcomes import (
    Stopped,
    StoppedByFinish,
    StoppedByLimit,
    StoppedByPermission,
    StoppedByUntil,
    ToolOutcomeKind,
)
from alpineagents.values.usage import Usage

MAX_INT = 10**4300 - 1

# Values. Texts and keys have everything a str can hold, lone surrogates and NUL included.

ODD_TEXTS = (
    "",
    " ",
    "\x00",
    "a\x00b",
    "\ud800",
    "caf\udce9",  # a file name that os.fsdecode could not read
    "\U0001f3d4",
    "\udfd4\ud83c",
    "\u2028\u2029\x85\x1b",
    "\ufffd",
    '{"type": "image", "data": "QUJD"}',
    "\\ud800",
    "NaN",
    "null",
    NOTICE_PREFIX + "x",
)


def texts(max_size: int = 20) -> st.SearchStrategy[str]:
    return st.text(st.characters(), max_size=max_size).map(joined) | st.sampled_from(ODD_TEXTS)


def joined(text: str) -> str:
    """The text with surrogates that make a pair as the one character they are, since JSON cannot tell the two apart."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def integers() -> st.SearchStrategy[int]:
    return st.integers() | st.sampled_from([2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, MAX_INT, -MAX_INT])


def floats() -> st.SearchStrategy[float]:
    return st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
        [0.0, -0.0, 1.0, 5e-324, 1e308, 0.1 + 0.2]
    )


def scalars() -> st.SearchStrategy[Any]:
    return st.none() | st.booleans() | integers() | floats() | texts()


def deep_values() -> st.SearchStrategy[Any]:
    """Lists and dicts inside each other, up to the 199 levels that fit into a dict."""

    def nested(levels: list[bool], core: Any) -> Any:
        for is_list in levels:
            core = [core] if is_list else {"k": core}
        return core

    return st.builds(nested, st.lists(st.booleans(), min_size=150, max_size=199), scalars())


def json_values() -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(8), inner, max_size=3),
        max_leaves=8,
    )


def json_objects() -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(texts(8), json_values(), max_size=3) | st.dictionaries(
        texts(8), deep_values(), min_size=1, max_size=1
    )


def times() -> st.SearchStrategy[datetime]:
    return st.datetimes(max_value=datetime(9999, 12, 31), timezones=st.just(UTC)).map(lambda at: at.replace(fold=0))


def zoned_times() -> st.SearchStrategy[datetime]:
    zones = st.builds(timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23)))
    return st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29), timezones=zones)


# What messages are made of.


def text_blocks() -> st.SearchStrategy[TextBlock]:
    return st.builds(TextBlock, texts())


def images() -> st.SearchStrategy[Image]:
    return st.builds(Image, st.binary(max_size=40), st.sampled_from(IMAGE_TYPES))


def calls(ids: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[ToolCall]:
    unreadable = st.builds(lambda raw: {INVALID_ARGS_KEY: raw}, texts())
    return st.builds(ToolCall, texts(), json_objects() | unreadable, texts() if ids is None else ids)


def shown_blocks() -> st.SearchStrategy[tuple[Any, ...]]:
    """Text and images, as a tool gives them; a single text block is kept apart from its text."""
    return st.lists(text_blocks() | images(), max_size=3).map(tuple)


def shown() -> st.SearchStrategy[str | tuple[Any, ...]]:
    return texts() | shown_blocks()


def result_blocks() -> st.SearchStrategy[ToolResultBlock]:
    return st.builds(ToolResultBlock, texts(), shown(), texts(), st.booleans())


def raw_blocks() -> st.SearchStrategy[RawBlock]:
    return st.builds(RawBlock, texts(), json_objects())


def blocks() -> st.SearchStrategy[Any]:
    return text_blocks() | images() | calls() | result_blocks() | raw_blocks()


def counts() -> st.SearchStrategy[int]:
    return st.integers(0, 10**6) | st.sampled_from([2**63, -1])


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def messages() -> st.SearchStrategy[Message]:
    content = st.lists(blocks(), max_size=3)
    return st.builds(
        Message, st.sampled_from(["user", "assistant"]), content, tokens=maybe(counts()), stop_reason=maybe(texts())
    )


def usages() -> st.SearchStrategy[Usage]:
    cost = maybe(floats() | st.integers(0, 3) | st.just(0.0))
    numbers = st.just(0) | counts()
    return st.builds(Usage, numbers, numbers, numbers, numbers, numbers, cost) | st.just(Usage())


def replies() -> st.SearchStrategy[Reply]:
    return st.builds(Reply, messages(), usages(), maybe(counts()), maybe(texts()), maybe(texts()))


def model_events() -> st.SearchStrategy[ModelEvent]:
    return st.builds(ModelEvent, texts(), texts(), json_objects()) | st.builds(ModelEvent, texts(), texts())


def exchanges() -> st.SearchStrategy[Exchange]:
    return st.builds(Exchange, texts(), json_values() | deep_values())


def agents() -> st.SearchStrategy[AgentInfo]:
    names = st.lists(texts(), max_size=3)
    return st.builds(
        AgentInfo, name=maybe(texts()), model=texts(), system_sha256=maybe(texts()), tools=names, mcp_servers=names
    )


def context_changes() -> st.SearchStrategy[ContextChange]:
    return st.builds(
        ContextChange,
        st.sampled_from(["compact", "clear_tool_results", "import", "restore"]),
        counts(),
        counts(),
        summary=maybe(texts()),
        kept=st.just(0) | counts(),
        cleared=st.lists(texts(), max_size=3),
        messages=st.lists(messages(), max_size=2),
        restored_to=maybe(counts()),
        usage=maybe(usages()),
    )


def reasons_to_stop() -> st.SearchStrategy[Stopped]:
    return st.one_of(
        st.builds(StoppedByUntil, texts()),
        st.builds(StoppedByLimit, counts()),
        st.builds(StoppedByFinish, json_values() | deep_values()),
        st.builds(StoppedByPermission, calls(), texts()),
    )


# Entries: every class, with every combination of its fields.


def _stamped(cls: Callable[..., HistoryEntry], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[HistoryEntry]:
    return st.builds(cls, turn=st.integers(0, 10**6), at=times(), **fields)


ENTRIES: dict[type[Any], st.SearchStrategy[Any]] = {
    MessageEntry: _stamped(MessageEntry, kind=st.sampled_from(["user", "notice"]), content=shown()),
    ModelRequestEntry: _stamped(ModelRequestEntry, content=texts()),
    ModelReplyEntry: _stamped(ModelReplyEntry, content=replies()),
    ModelEventEntry: _stamped(ModelEventEntry, content=model_events()),
    ToolResultEntry: _stamped(
        ToolResultEntry,
        content=shown(),
        call=calls(),
        outcome=st.sampled_from(ToolOutcomeKind),
        late=st.booleans(),
        error=maybe(st.builds(OSError)),
        child_ids=st.lists(texts(), max_size=3),
        usage=maybe(usages()),
    ),
    ExchangeEntry: _stamped(
        ExchangeEntry, kind=st.sampled_from(["ask", "human"]), content=exchanges(), usage=maybe(usages())
    ),
    ContextChangeEntry: _stamped(ContextChangeEntry, content=context_changes()),
    RunStartEntry: _stamped(RunStartEntry, content=agents(), parent_id=maybe(texts()), parent_call_id=maybe(texts())),
    StopEntry: _stamped(StopEntry, content=maybe(reasons_to_stop())),
    ExtraDataEntry: _stamped(ExtraDataEntry, content=json_objects(), removed=st.lists(texts(), max_size=3)),
    ErrorEntry: _stamped(ErrorEntry, content=texts(), error=maybe(st.builds(OSError)), call=maybe(calls())),
}


def entries() -> st.SearchStrategy[HistoryEntry]:
    return st.one_of(list(ENTRIES.values()))


# Histories. Words and values are small here, so that examples are spent on what happens in which order.

WORDS = st.text(string.ascii_lowercase + " \ud800", min_size=1, max_size=6).map(lambda text: f"{text}.")
SMALL_VALUES = st.none() | st.booleans() | st.integers(-2, 2) | WORDS | st.lists(st.integers(0, 2), max_size=2)
SMALL_OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), SMALL_VALUES, max_size=2)
SMALL_IMAGES = st.builds(Image, st.binary(max_size=3), st.just("image/png"))
SMALL_USAGES = st.builds(
    Usage, st.integers(0, 9), st.integers(0, 9), requests=st.integers(0, 1), cost=maybe(st.sampled_from([0.0, 0.5]))
)
SMALL_CALLS = st.builds(ToolCall, st.sampled_from(["read", "book"]), SMALL_OBJECTS, st.sampled_from(["1", "2", "3"]))
SMALL_RESULTS = WORDS | st.lists(st.builds(TextBlock, WORDS) | SMALL_IMAGES, max_size=2).map(tuple)
SMALL_AGENTS = st.builds(AgentInfo, name=maybe(WORDS), model=st.sampled_from(["acme/large", "acme/small"]))
SMALL_RAW_BLOCKS = st.builds(RawBlock, st.just("acme"), SMALL_OBJECTS)
SMALL_BLOCKS = st.builds(TextBlock, WORDS) | SMALL_RAW_BLOCKS | SMALL_CALLS
SMALL_REASONS = st.one_of(
    st.builds(StoppedByUntil, WORDS),
    st.builds(StoppedByLimit, st.integers(1, 9)),
    st.builds(StoppedByPermission, SMALL_CALLS, WORDS),
)
ERRORS = st.builds(lambda cls: cls("broken"), st.sampled_from([OSError, TimeoutError, KeyboardInterrupt]))
USER_MESSAGES = st.one_of(
    st.builds(Message.user, WORDS),
    st.builds(Message.notice, WORDS),
    st.builds(lambda text, image: Message("user", (image, TextBlock(text))), WORDS, SMALL_IMAGES),
)
ANY_MESSAGES = USER_MESSAGES | st.builds(
    Message, st.just("assistant"), st.lists(SMALL_BLOCKS, max_size=2), tokens=maybe(st.integers(0, 9))
)
SMALL_REPLIES = st.builds(
    lambda blocks, usage, tokens, reason: Reply(Message("assistant", blocks), usage, tokens, reason, "large-1"),
    st.lists(SMALL_BLOCKS, max_size=4),
    SMALL_USAGES,
    maybe(st.integers(0, 99)),
    maybe(st.sampled_from(["end_turn", "tool_use", "max_tokens"])),
)


class Life:
    """A State that does, one after another, things that may happen to it."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], state: State) -> None:
        self.draw = draw
        self.state = state
        self.journal = journal_of(state)
        self.snapshots: list[StateSnapshot] = [State().snapshot(), state.snapshot()]

    @property
    def now(self) -> Value:
        return self.journal.now

    def possible(self) -> list[Callable[[], object]]:
        """What may happen now; what makes a history interesting is there more than once."""
        now, running = self.now, not self.now.finished
        steps: list[Callable[[], object]] = [self.message, self.note, self.error, self.exchange, self.event]
        steps += [self.stop, self.late_result, self.finish]
        if now.waiting:
            steps += [self.reply] * 8
        if now.calls:
            return [*steps, *[self.result] * 12, self.end_of_run]
        steps += [self.compact, self.compact_by_model, self.clear]
        if not now.waiting:
            steps += [self.restore] * (2 if running else 6)
            steps += [self.run] if running else []
            steps += [self.request] * 8 if running and len(now.messages) else [self.message]
        return steps

    def live(self, steps: int) -> None:
        for _ in range(steps):
            self.draw(st.sampled_from(self.possible()))()
            self.snapshots.append(self.state.snapshot())

    def close_turn(self) -> None:
        self.journal.record(rules.repair)

    def message(self) -> None:
        self.state.add_message(self.draw(USER_MESSAGES))

    def note(self) -> None:
        with self.state.edit_extra_data() as data:
            for key in self.draw(st.sets(st.sampled_from(["a", "b", "c"]))):
                data.pop(key, None)
            data.update(self.draw(SMALL_OBJECTS))

    def finish(self) -> None:
        self.state.finish(self.draw(SMALL_VALUES))

    def compact(self) -> None:
        self.state.compact(self.draw(WORDS))

    def compact_by_model(self) -> None:
        self.journal.record(rules.compact, self.draw(WORDS), self.draw(st.integers(0, 3)), self.draw(SMALL_USAGES))

    def clear(self) -> None:
        self.state.clear_tool_results(self.draw(st.integers(0, 2)))

    def restore(self) -> None:
        self.state.restore(self.draw(st.sampled_from([s for s in self.snapshots if between_turns(value_of(s))])))

    def run(self) -> None:
        parent = self.draw(maybe(st.just("parent")))
        self.journal.record(rules.run_start, self.draw(SMALL_AGENTS), parent, self.draw(maybe(st.just("call"))))

    def request(self) -> None:
        self.journal.record(rules.request, "acme/large")

    def reply(self) -> None:
        self.journal.record(rules.reply, self.draw(SMALL_REPLIES))

    def error(self) -> None:
        about_a_call = self.now.pending_calls and self.draw(st.booleans())
        call = self.draw(st.sampled_from(self.now.pending_calls)) if about_a_call else None
        self.journal.record(rules.failure, self.draw(ERRORS), call)

    def result(self) -> None:
        self._result(self.draw(st.sampled_from(self.now.pending_calls)), late=False)

    def late_result(self) -> None:
        closed = [entry.call for entry in self.state.history if isinstance(entry, ToolResultEntry)]
        self._result(self.draw(st.sampled_from(closed) if closed else SMALL_CALLS), late=True)

    def _result(self, call: ToolCall, late: bool) -> None:
        children = self.draw(st.lists(st.sampled_from(["child-1", "child-2"]), max_size=2))
        entry = ToolResultEntry(
            content=self.draw(SMALL_RESULTS),
            call=call,
            outcome=self.draw(st.sampled_from(ToolOutcomeKind)),
            late=late,
            child_ids=tuple(children),
            usage=self.draw(SMALL_USAGES) if children else None,
            turn=self.now.turn,
        )
        self.journal.record(rules.result, entry)

    def end_of_run(self) -> None:
        self.journal.record(rules.end_of_run, self.draw(ERRORS))

    def stop(self) -> None:
        self.journal.record(rules.stop, self.draw(maybe(SMALL_REASONS)))

    def exchange(self) -> None:
        usage = self.draw(maybe(SMALL_USAGES))
        kind = "human" if usage is None else "ask"
        self.journal.record(rules.asked, kind, self.draw(WORDS), self.draw(SMALL_VALUES), usage)

    def event(self) -> None:
        self.journal.record(rules.model_event, ModelEvent("retry", self.draw(WORDS), self.draw(SMALL_OBJECTS)))


def between_turns(value: Value) -> bool:
    return not value.waiting and not value.calls


@st.composite
def lives(draw: Any, max_steps: int = 40) -> Life:
    """A State with the snapshots of its past, wherever it has got to, the middle of a turn included."""
    start = draw(st.lists(ANY_MESSAGES, max_size=3))
    life = Life(draw, State(messages=start, extra_data=draw(maybe(SMALL_OBJECTS))))
    life.live(draw(st.integers(0, max_steps)))
    return life


def states(max_steps: int = 40) -> st.SearchStrategy[State]:
    """States that only did what a live State can do."""
    return lives(max_steps).map(lambda life: life.state)


def histories(max_steps: int = 40) -> st.SearchStrategy[list[HistoryEntry]]:
    """Histories that a live State can have."""
    return states(max_steps).map(lambda state: list(state.history))


SMALL_TURNS = st.integers(0, 3)
SMALL_IMPORTS = st.lists(ANY_MESSAGES, max_size=2)
LOOSE_CHANGES = st.one_of(
    st.builds(ContextChange, st.just("import"), st.just(0), st.just(0), messages=SMALL_IMPORTS),
    st.builds(ContextChange, st.just("compact"), st.just(0), st.just(0), summary=WORDS, kept=st.integers(0, 2)),
    st.builds(
        ContextChange, st.just("clear_tool_results"), st.just(0), st.just(0), cleared=st.sets(st.sampled_from("123"))
    ),
)
LOOSE_ENTRIES: list[st.SearchStrategy[HistoryEntry]] = [
    st.builds(MessageEntry.from_message, USER_MESSAGES, turn=SMALL_TURNS),
    st.builds(ExchangeEntry, kind=st.just("ask"), content=st.builds(Exchange, WORDS, SMALL_VALUES), turn=SMALL_TURNS),
    st.builds(ContextChangeEntry, content=LOOSE_CHANGES, turn=SMALL_TURNS),
    st.builds(RunStartEntry, content=SMALL_AGENTS, parent_id=maybe(WORDS), turn=SMALL_TURNS),
    st.builds(StopEntry, content=maybe(SMALL_REASONS | st.builds(StoppedByFinish, SMALL_VALUES)), turn=SMALL_TURNS),
    st.builds(ExtraDataEntry, content=SMALL_OBJECTS, removed=st.lists(st.sampled_from("abc")), turn=SMALL_TURNS),
    st.builds(ErrorEntry, content=WORDS, call=maybe(SMALL_CALLS), turn=SMALL_TURNS),
]
LOOSE_REQUESTS = st.builds(ModelRequestEntry, content=WORDS, turn=SMALL_TURNS)
LOOSE_REPLIES = st.builds(ModelReplyEntry, content=SMALL_REPLIES, turn=SMALL_TURNS)
LOOSE_RESULTS = st.builds(
    ToolResultEntry,
    content=SMALL_RESULTS,
    call=SMALL_CALLS,
    outcome=st.sampled_from(ToolOutcomeKind),
    late=st.just(True),
    usage=maybe(SMALL_USAGES),
    turn=SMALL_TURNS,
)
LOOSE_RESTORES = st.builds(
    ContextChangeEntry,
    content=st.builds(ContextChange, st.just("restore"), st.just(0), st.just(0), restored_to=st.integers(0, 2**16)),
    turn=SMALL_TURNS,
)
ANYTHING = st.one_of([*LOOSE_ENTRIES, LOOSE_RESTORES, LOOSE_RESULTS])


@st.composite
def loose_histories(draw: Any, max_size: int = 30) -> list[HistoryEntry]:
    """Histories that replay accepts, also what no live State records, such as a restore into the middle of a turn."""
    now = EMPTY
    for _ in range(draw(st.integers(0, max_size))):
        with suppress(ValueError):
            now = step(now, fitting(now, draw(next_of(now) if draw(st.booleans()) else ANYTHING)))
    return list(now.history)


def next_of(now: Value) -> st.SearchStrategy[HistoryEntry]:
    """What a turn goes on with."""
    if now.waiting:
        return LOOSE_REPLIES
    return LOOSE_RESULTS if now.calls else LOOSE_REQUESTS


def fitting(now: Value, entry: HistoryEntry) -> HistoryEntry:
    """The entry with what only the history can tell: which call may end, which points can be restored."""
    if isinstance(entry, ToolResultEntry) and now.calls:
        pending = now.pending_calls
        return replace(entry, call=pending[entry.turn % len(pending)], late=False)
    if isinstance(entry, ContextChangeEntry) and entry.content.restored_to is not None:
        point = entry.content.restored_to % (len(now.history) + 1)
        return replace(entry, content=replace(entry.content, restored_to=point))
    return entry
