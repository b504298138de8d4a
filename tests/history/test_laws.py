"""What holds for every entry and every history."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Life, between_turns, entries, histories, lives, loose_histories, states

from alpineagents.history import replay as replaying
from alpineagents.history import rules
from alpineagents.history.codec import decode, encode
from alpineagents.history.entries import (
    ContextChange,
    ContextChangeEntry,
    HistoryEntry,
    MessageEntry,
    ModelReplyEntry,
    ModelRequestEntry,
    ToolResultEntry,
)
from alpineagents.history.replay import apply, fold, replay, value_at
from alpineagents.history.snapshot import value_of
from alpineagents.history.value import EMPTY, KEEP_EVERY, Closing, Value
from alpineagents.state import State, journal_of
from alpineagents.values.content import Message, ToolCall
from alpineagents.values.exchange import Reply
from alpineagents.values.log import Log
from alpineagents.values.usage import Usage

fewer = settings(max_examples=50)  # where each example is a whole life, looked at from every point of it

RESTORED = (
    "messages",
    "turn",
    "extra_data",
    "finished",
    "stopped",
    "calls",
    "results",
    "waiting",
    "held",
    "late",
    "first_user",
    "reply_text",
    "finish_answer",
)


def parts(value: Value) -> dict[str, Any]:
    """All parts of a value but the cache of earlier values."""
    found = {name: part for name, part in value.__dict__.items() if name != "kept"}
    return {name: part.whole() if isinstance(part, Log) else part for name, part in found.items()}


def told(value: Value) -> str:
    """The same as text, which tells 1 from True and shows every `at`."""
    return repr(parts(value))


def through_json(history: list[HistoryEntry], now: Value) -> list[HistoryEntry]:
    encoded = [encode(entry, seq, now.closings[seq]) for seq, entry in enumerate(history)]
    return [decode(data) for data in json.loads(json.dumps(encoded))]


def without_errors(history: list[HistoryEntry]) -> list[HistoryEntry]:
    return [replace(entry, error=None) if hasattr(entry, "error") else entry for entry in history]


@given(entries())
def test_an_entry_comes_back_as_it_was(entry: HistoryEntry) -> None:
    back = decode(json.loads(json.dumps(encode(entry, 3))))
    assert back == entry
    assert [repr(back)] == [repr(saved) for saved in without_errors([entry])]
    assert back.at == entry.at


@given(entries())
def test_an_encoded_entry_is_plain_json(entry: HistoryEntry) -> None:
    data = encode(entry, 3, Closing(2, 0))
    assert json.loads(json.dumps(data)) == data
    assert classes_in(data) <= {dict, list, str, int, float, bool, type(None)}


def classes_in(value: Any) -> set[type]:
    inner = [*value.keys(), *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return {type(value)}.union(*map(classes_in, inner))


@given(states())
def test_a_live_value_is_the_replay_of_its_history(state: State) -> None:
    live = journal_of(state).now
    assert parts(fold(state.history)) == parts(live)
    assert told(fold(state.history)) == told(live)
    assert State(history=state.history).snapshot() == state.snapshot()


@given(histories() | loose_histories())
def test_a_loaded_value_is_the_value_that_was_saved(history: list[HistoryEntry]) -> None:
    live = fold(history)
    loaded = fold(through_json(history, live))
    assert parts(loaded) == parts(live)
    assert told(loaded) == told(fold(without_errors(history)))


@fewer
@given(histories() | loose_histories())
def test_every_beginning_of_a_history_is_a_history(history: list[HistoryEntry]) -> None:
    now, whole = EMPTY, fold(history)
    for length, entry in enumerate(history):
        beginning = fold(history[:length])
        assert told(beginning) == told(now)
        assert told(value_at(whole, length)) == told(now)
        now = fold([entry], now)
    assert told(now) == told(whole)


@fewer
@given(lives())
def test_every_snapshot_of_the_past_is_still_what_its_history_gives(life: Life) -> None:
    for snapshot in life.snapshots:
        assert replay(snapshot.history) == snapshot
        assert told(fold(snapshot.history)) == told(value_of(snapshot))
        assert life.state.history[: len(snapshot.history)] == snapshot.history


@fewer
@given(histories() | loose_histories())
def test_applying_an_entry_changes_neither_the_snapshot_nor_the_entry(history: list[HistoryEntry]) -> None:
    other = MessageEntry(kind="user", content="meanwhile", turn=0)
    snapshot = replay([])
    for entry in history:
        before, entry_before = told(value_of(snapshot)), repr(entry)
        after = apply(snapshot, entry)
        after_before = told(value_of(after))
        apply(apply(snapshot, other), other)  # grows the buffers both share
        assert told(value_of(apply(snapshot, entry))) == after_before == told(value_of(after))
        assert (told(value_of(snapshot)), repr(entry)) == (before, entry_before)
        snapshot = after


@fewer
@given(lives(), st.data())
def test_restore_gives_back_the_earlier_values_and_keeps_the_rest(life: Life, data: st.DataObject) -> None:
    life.close_turn()
    targets = [snapshot for snapshot in life.snapshots if between_turns(value_of(snapshot))]
    target = data.draw(st.sampled_from(targets))
    before = journal_of(life.state).now
    life.state.restore(target)
    now = journal_of(life.state).now
    assert {name: parts(now)[name] for name in RESTORED} == {name: parts(value_of(target))[name] for name in RESTORED}
    assert now.history.whole()[:-1] == before.history.whole()
    kept = ("usage", "link", "run", "run_seq", "error_count")
    assert [getattr(now, name) for name in kept] == [getattr(before, name) for name in kept]
    assert now.created_at == before.created_at or not len(before.history)


@given(loose_histories(), st.data())
def test_a_restore_given_by_hand_reaches_every_earlier_point(history: list[HistoryEntry], data: st.DataObject) -> None:
    length = data.draw(st.integers(0, len(history)))
    change = ContextChange("restore", 0, 0, restored_to=length)
    restored = fold([*history, ContextChangeEntry(content=change, turn=0)])
    then = fold(history[:length])
    assert {name: parts(restored)[name] for name in RESTORED} == {name: parts(then)[name] for name in RESTORED}


@fewer
@given(lives())
def test_every_call_ends_exactly_once(life: Life) -> None:
    open_calls = len(journal_of(life.state).now.pending_calls)
    assert sum(count == 0 for count in endings(life.state).values()) == open_calls
    life.close_turn()
    assert set(endings(life.state).values()) <= {1}


def endings(state: State) -> dict[Closing, int]:
    """How many results that are not late each call of each reply has."""
    now = journal_of(state).now
    ends = Counter(
        closing
        for entry, closing in zip(now.history, now.closings, strict=True)
        if isinstance(entry, ToolResultEntry) and not entry.late
    )
    asked = [Closing(seq, index) for seq, index, _ in calls_of(state)]
    assert None not in ends
    assert set(ends) <= set(asked)
    return {call: ends[call] for call in asked}


def calls_of(state: State) -> list[tuple[int, int, ToolCall]]:
    return [
        (seq, index, block)
        for seq, entry in enumerate(state.history)
        if isinstance(entry, ModelReplyEntry)
        for index, block in enumerate(entry.content.message.content)
        if isinstance(block, ToolCall)
    ]


@fewer
@given(lives())
def test_every_result_names_the_call_it_ended(life: Life) -> None:
    asked = {(seq, index): call for seq, index, call in calls_of(life.state)}
    now = journal_of(life.state).now
    for entry, closing in zip(now.history, now.closings, strict=True):
        if isinstance(entry, ToolResultEntry) and closing is not None:
            assert asked[closing.seq, closing.block].id == entry.call.id


@fewer
@given(lives())
def test_every_request_is_answered_once_or_still_waits(life: Life) -> None:
    now = journal_of(life.state).now
    requests = [seq for seq, entry in enumerate(now.history) if isinstance(entry, ModelRequestEntry)]
    answered = Counter(closing.seq for closing in now.closings if closing is not None and closing.block is None)
    assert set(answered) <= set(requests)
    assert [answered[seq] for seq in requests] == [1] * (len(requests) - now.waiting) + [0] * now.waiting


@fewer
@given(lives())
def test_a_repaired_state_is_between_turns_and_a_second_repair_does_nothing(life: Life) -> None:
    life.close_turn()
    assert between_turns(journal_of(life.state).now)
    assert not journal_of(life.state).record(rules.repair)


def history_with_restores(length: int, every: int) -> list[HistoryEntry]:
    """Turns without tools, and every few of them a restore to anywhere, to points after earlier restores too."""
    chance = random.Random(length)
    history: list[HistoryEntry] = []
    between: list[int] = [0]
    while len(history) < length:
        history.append(MessageEntry(kind="user", content="go on", turn=0))
        history.append(ModelRequestEntry(content="acme/large", turn=0))
        history.append(ModelReplyEntry(content=Reply(Message.assistant("yes"), Usage(requests=1)), turn=0))
        between.append(len(history))
        if len(between) % every == 0:
            change = ContextChange("restore", 0, 0, restored_to=chance.choice(between))
            history.append(ContextChangeEntry(content=change, turn=0))
            between.append(len(history))
    return history


@pytest.mark.parametrize("every", [2, 5, 20])
def test_replay_with_many_restores_takes_steps_in_proportion_to_its_length(
    every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0
    step = replaying.step

    def counted(now: Value, entry: HistoryEntry) -> Value:
        nonlocal taken
        taken += 1
        return step(now, entry)

    monkeypatch.setattr(replaying, "step", counted)
    history = history_with_restores(3000, every)
    restores = sum(isinstance(entry, ContextChangeEntry) for entry in history)
    fold(history)
    assert taken <= len(history) + restores * KEEP_EVERY
