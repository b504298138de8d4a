"""How a call ended, and why a run is set to stop."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import pytest

from alpineagents.values.content import ToolCall
from alpineagents.values.frozen import FrozenDict, FrozenList
from alpineagents.values.outcomes import (
    Stopped,
    StoppedByFinish,
    StoppedByLimit,
    StoppedByPermission,
    StoppedByUntil,
    ToolOutcome,
    ToolOutcomeKind,
)

CALL = ToolCall("book", {"seats": [1]}, "b1")
MEMBERS = {
    "DONE": "done",
    "ERROR": "error",
    "INPUT_ERROR": "input_error",
    "ABORTED": "aborted",
    "INTERRUPTED": "interrupted",
    "DENIED": "denied",
    "CANCELLED": "cancelled",
}


def test_the_ways_a_call_ends_are_these_seven_in_order() -> None:
    assert issubclass(ToolOutcomeKind, enum.StrEnum)
    assert [(kind.name, kind.value) for kind in ToolOutcomeKind] == list(MEMBERS.items())


@pytest.mark.parametrize(("name", "value"), MEMBERS.items())
def test_a_kind_equals_and_formats_as_its_value(name: str, value: str) -> None:
    kind = ToolOutcomeKind[name]
    assert kind == value
    assert kind in (value, "other")
    assert (f"{kind}", str(kind), f"{kind:>12}") == (value, value, value.rjust(12))
    assert ToolOutcomeKind(value) is kind


MAKERS: list[Callable[[Any], Any]] = [ToolOutcomeKind, ToolOutcome]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("kind", ["DENIED", "refused", "", "x" * 100_000, None, 3], ids=lambda kind: repr(kind)[:20])
def test_an_unknown_kind_is_refused_and_the_known_ones_listed(make: Callable[[Any], Any], kind: Any) -> None:
    with pytest.raises(ValueError, match="is no way a tool call ends") as raised:
        make(kind)
    message = str(raised.value)
    assert message.startswith(repr(kind)[:50])
    assert all(known in message for known in MEMBERS.values())
    assert len(message) < 400


def test_the_kind_of_an_outcome_given_as_text_becomes_the_member() -> None:
    kind: Any = "denied"
    assert ToolOutcome(kind).kind is ToolOutcomeKind.DENIED
    assert ToolOutcome(kind) == ToolOutcome(ToolOutcomeKind.DENIED)


def test_an_outcome_has_no_error_and_nobody_who_decided_by_default() -> None:
    assert (ToolOutcome(ToolOutcomeKind.DONE).error, ToolOutcome(ToolOutcomeKind.DONE).decided_by) == (None, None)


def test_outcomes_are_compared_by_the_very_error() -> None:
    error = OSError("a")
    assert ToolOutcome(ToolOutcomeKind.ABORTED, error) == ToolOutcome(ToolOutcomeKind.ABORTED, error)
    assert ToolOutcome(ToolOutcomeKind.ABORTED, error) != ToolOutcome(ToolOutcomeKind.ABORTED, OSError("a"))


def test_outcomes_are_compared_by_who_decided() -> None:
    denied = ToolOutcomeKind.DENIED
    assert ToolOutcome(denied, decided_by="AllowReads()") != ToolOutcome(denied, decided_by="DecideByHuman()")


@pytest.mark.parametrize(
    ("stopped", "text"),
    [
        (StoppedByUntil("waiting_for_user"), "stopped by waiting_for_user"),
        (StoppedByUntil("<lambda>"), "stopped by <lambda>"),
        (StoppedByLimit(30), "stopped at limit 30"),
        (StoppedByFinish(), "stopped by finish"),
        (StoppedByFinish({"secret": 1}), "stopped by finish"),
        (StoppedByPermission(CALL, "DecideByHuman()"), "stopped by permission DecideByHuman()"),
    ],
    ids=repr,
)
def test_a_reason_to_stop_as_text(stopped: Stopped, text: str) -> None:
    assert (str(stopped), f"{stopped}") == (text, text)


def test_reasons_to_stop_are_compared_by_class_and_value() -> None:
    reasons: list[Stopped] = [
        StoppedByUntil("finish"),
        StoppedByUntil("other"),
        StoppedByLimit(3),
        StoppedByLimit(4),
        StoppedByFinish(),
        StoppedByFinish("finish"),
        StoppedByPermission(CALL, "finish"),
        StoppedByPermission(CALL, "other"),
    ]
    for index, reason in enumerate(reasons):
        assert [other == reason for other in reasons] == [place == index for place in range(len(reasons))]


def test_the_answer_of_finish_is_frozen() -> None:
    answer = {"files": ("a.py",)}
    stopped = StoppedByFinish(answer)
    assert stopped.answer == {"files": ["a.py"]}
    assert (type(stopped.answer), type(stopped.answer["files"])) == (FrozenDict, FrozenList)
