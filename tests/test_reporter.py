"""The Reporter does nothing, and anything with its events can be one."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from alpineagents.reporter import EVENTS, Reporter, check_reporter


def test_the_events_are_these_nine() -> None:
    assert set(EVENTS) == {
        "on_run_start",
        "on_think_start",
        "on_text",
        "on_model_event",
        "on_think_end",
        "on_tool_start",
        "on_tool_end",
        "on_context_change",
        "on_run_end",
    }


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_does_nothing_by_default(event: str) -> None:
    hear = getattr(Reporter(), event)
    assert hear(*[None for _ in inspect.signature(hear).parameters]) is None


def test_a_subclass_overrides_only_what_it_needs() -> None:
    class Loud(Reporter):
        def on_text(self, state: Any, chunk: str) -> None: ...

    check_reporter(Loud())


def test_a_reporter_need_not_be_a_subclass() -> None:
    class Duck:
        def __getattr__(self, name: str) -> Any:
            if name in EVENTS:
                return print
            raise AttributeError(name)

    check_reporter(Duck())


def test_missing_events_are_named() -> None:
    class Partial:
        on_text = print

    with pytest.raises(TypeError, match="on_run_end") as caught:
        check_reporter(Partial())
    assert "on_text" not in str(caught.value).splitlines()[0]


def test_an_event_that_cannot_be_called_is_missing() -> None:
    class Muted(Reporter):
        on_text = None  # type: ignore[assignment]  # the mistake this test is about

    with pytest.raises(TypeError, match="no method on_text"):
        check_reporter(Muted())


def test_a_class_is_no_reporter() -> None:
    with pytest.raises(TypeError, match=r"reporter=Reporter\(\)"):
        check_reporter(Reporter)
