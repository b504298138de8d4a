"""The exception classes, and the texts that errors are made of."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import alpineagents
from alpineagents import errors
from alpineagents.errors import (
    AlpineAgentsError,
    AuthError,
    ContextTooLongError,
    CutOffError,
    MCPConnectionError,
    MovedOnError,
    NoHumanError,
    OutputError,
    PermissionWarning,
    ProviderError,
    RateLimitError,
    ResumeWarning,
    ToolError,
    ToolInputError,
    error_text,
    explain,
    message_of,
    shown,
)
from alpineagents.values.content import Message
from alpineagents.values.exchange import Reply
from alpineagents.values.usage import Usage

REPLY = Reply(Message.assistant("half a sen"), Usage(requests=1), stop_reason="max_tokens")
CHANGES = {"model": ("acme/large", "acme/small"), "tools": (("read",), ())}
BASES = {
    AlpineAgentsError: Exception,
    ProviderError: AlpineAgentsError,
    RateLimitError: ProviderError,
    AuthError: ProviderError,
    ContextTooLongError: ProviderError,
    OutputError: AlpineAgentsError,
    CutOffError: AlpineAgentsError,
    NoHumanError: AlpineAgentsError,
    MCPConnectionError: AlpineAgentsError,
    ToolError: Exception,
    ToolInputError: Exception,
    MovedOnError: ValueError,
    ResumeWarning: UserWarning,
    PermissionWarning: UserWarning,
}


@pytest.mark.parametrize(("cls", "base"), BASES.items(), ids=lambda cls: cls.__name__)
def test_every_exception_class_has_its_base(cls: type, base: type) -> None:
    assert cls.__bases__ == (base,)


@pytest.mark.parametrize("cls", [cls for cls in BASES if cls is not MovedOnError], ids=lambda cls: cls.__name__)
def test_every_exception_class_but_the_internal_one_is_exported(cls: type) -> None:
    assert cls.__name__ in alpineagents.__all__
    assert getattr(alpineagents, cls.__name__) is cls


def test_these_are_all_exceptions_there_are_and_the_docstring_draws_each() -> None:
    there = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, BaseException)}
    assert there == set(BASES)
    assert all(cls.__name__ in str(errors.__doc__) for cls in BASES)


# What errors are made of.


def test_an_explanation_has_the_problem_the_fix_and_an_indented_example() -> None:
    assert explain("no State 'bug-7'", "list what is saved", "for info in store.list():\n    print(info.id)") == (
        "no State 'bug-7'\nFix: list what is saved\nExample:\n    for info in store.list():\n        print(info.id)"
    )


@pytest.mark.parametrize(
    ("fix", "example", "text"), [(None, None, "a"), ("b", None, "a\nFix: b"), (None, "c", "a\nExample:\n    c")]
)
def test_an_explanation_leaves_out_what_is_not_given(fix: str | None, example: str | None, text: str) -> None:
    assert explain("a", fix, example) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TimeoutError("no reply"), "TimeoutError: no reply"),
        (TimeoutError(), "TimeoutError"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (KeyError("a"), "KeyError: 'a'"),
        (ProviderError("503\nbusy"), "ProviderError: 503\nbusy"),
        (CutOffError("cut off", REPLY), "CutOffError: cut off"),
        (OSError(2, "gone"), "FileNotFoundError: [Errno 2] gone"),
    ],
    ids=repr,
)
def test_the_text_of_an_exception_is_its_bare_class_and_its_message_if_any(error: BaseException, text: str) -> None:
    assert error_text(error) == text


class Broken(Exception):
    def __str__(self) -> str:
        raise OSError

    __repr__ = __str__


def test_an_exception_that_cannot_say_its_message_still_has_a_text() -> None:
    assert message_of(Broken()) == "(no message: str() raised OSError)"
    assert error_text(Broken()) == "Broken: (no message: str() raised OSError)"


def test_a_value_is_shown_by_its_repr() -> None:
    assert (shown("a\n"), shown(None), shown("x" * 98)) == (r"'a\n'", "None", f"'{'x' * 98}'")


def test_a_long_value_is_cut_when_shown() -> None:
    assert (shown("x" * 99), shown("x" * 99, 10)) == (f"'{'x' * 98}…", "'xxxxxxxx…")


def test_a_value_whose_repr_raises_is_shown_all_the_same() -> None:
    assert shown(Broken()) == "(its repr raised OSError)"
    assert shown(10**5000) == "(its repr raised ValueError)"


# Errors of tools.


@pytest.mark.parametrize("message", [None, 3, b"x", ["x"], OSError("x")], ids=repr)
def test_a_tool_error_takes_only_text(message: Any) -> None:
    with pytest.raises(TypeError, match="ToolError takes its message as a str, not ") as raised:
        ToolError(message)
    assert f"not {type(message).__name__}: {message!r}\nFix: " in str(raised.value)
    assert "\nExample:\n    raise ToolError(" in str(raised.value)


@pytest.mark.parametrize("message", ["", " ", "\n\t "], ids=repr)
def test_a_tool_error_takes_no_blank_text(message: str) -> None:
    with pytest.raises(ValueError, match="needs a message the model can read") as raised:
        ToolError(message)
    assert repr(message) in str(raised.value)
    assert "\nFix: " in str(raised.value)
    assert "\nExample:\n    raise ToolError(" in str(raised.value)


def test_a_tool_error_says_its_message() -> None:
    assert (str(ToolError("no such file")), ToolError(" a ").args) == ("no such file", (" a ",))


@pytest.mark.parametrize("arguments", [(), ("",), (" ",), (3,), (None,), ("a", "b")], ids=repr)
def test_a_tool_input_error_takes_any_message(arguments: tuple[Any, ...]) -> None:
    assert ToolInputError(*arguments).args == arguments


# Errors with attributes.


def test_a_cut_off_error_has_its_reply() -> None:
    error = CutOffError("cut off", REPLY)
    assert (str(error), error.reply) == ("cut off", REPLY)


def test_the_arguments_of_exceptions_may_be_given_by_name() -> None:
    cut_off, changed = CutOffError(message="cut off", reply=REPLY), ResumeWarning(message="changed", changes=CHANGES)
    assert (str(cut_off), cut_off.reply) == ("cut off", REPLY)
    assert (str(changed), changed.changes) == ("changed", CHANGES)
    assert str(ToolError(message="no such file")) == "no such file"


def test_a_resume_warning_has_its_changes_and_warns_with_its_message() -> None:
    with pytest.warns(ResumeWarning, match="^model: acme/large -> acme/small$") as record:
        warnings.warn(ResumeWarning("model: acme/large -> acme/small", CHANGES), stacklevel=1)
    warning: Any = record[0].message
    assert warning.changes == CHANGES


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{
        f"pickle {n}": lambda value, n=n: pickle.loads(pickle.dumps(value, n))
        for n in range(pickle.HIGHEST_PROTOCOL + 1)
    },
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize(
    "error",
    [
        CutOffError("cut off", REPLY),
        ResumeWarning("changed", CHANGES),
        ToolError("no such file"),
        *[cls("a") for cls in BASES if cls not in (CutOffError, ResumeWarning, ToolError)],
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_copy_of_an_exception_has_the_same_message_and_attributes(how: str, error: BaseException) -> None:
    error.add_note("a note")
    copied = COPIES[how](error)
    assert type(copied) is type(error)
    assert (str(copied), vars(copied)) == (str(error), vars(error))
