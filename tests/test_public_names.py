"""The public names: a new one comes with documentation, a test and a line in the changelog.

Those of `alpineagents.types`, and which of them the package exports too, are in `test_types.py`.
"""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

import alpineagents
from alpineagents import errors

PACKAGE = """
    Agent State StateSnapshot Loop loop default_loop adefault_loop waiting_for_user
    CompactIfFull compact_if_full acompact_if_full
    tool Tool FunctionTool Hints ToolError ToolInputError MCP MCPTool
    Store SqliteStore StateInfo
    Model Anthropic OpenAICompatible Human Reporter Terminal
    Message Image ToolCall ToolSpec Request Reply Usage Price ModelEvent CUT_OFF_STOP_REASONS
    HistoryEntry MessageEntry ModelRequestEntry ModelReplyEntry ModelEventEntry ToolResultEntry ExchangeEntry
    ContextChangeEntry RunStartEntry StopEntry ExtraDataEntry ErrorEntry ContextChange AgentInfo
    ToolOutcome ToolOutcomeKind StoppedByUntil StoppedByLimit StoppedByFinish StoppedByPermission
    AlpineAgentsError ProviderError RateLimitError AuthError ContextTooLongError OutputError CutOffError NoHumanError
    MCPConnectionError ResumeWarning PermissionWarning
"""
SUBMODULES = {
    "models": "Anthropic Model OpenAICompatible resolve_model",
    "store": "Problem Record SqliteStore StateInfo Store check",
    "human": "Human check_returns describe_choices parse_answer",
    "terminal": "Terminal default_terminal",
    "testing": "FakeHuman FakeModel ReplayMismatch ReplayModel ReplayWarning tool_call",
}
INTERNAL_ERRORS = {"MovedOnError"}


def test_the_public_names_of_the_package_are_these() -> None:
    assert sorted(alpineagents.__all__) == sorted(PACKAGE.split())


@pytest.mark.parametrize("name", SUBMODULES)
def test_the_public_names_of_a_submodule_are_these(name: str) -> None:
    module = importlib.import_module(f"alpineagents.{name}")
    assert sorted(module.__all__) == sorted(SUBMODULES[name].split())


@pytest.mark.parametrize("name", ["alpineagents", *[f"alpineagents.{name}" for name in ("types", *SUBMODULES)]])
def test_every_public_name_is_there_and_is_no_module(name: str) -> None:
    module = importlib.import_module(name)
    for public in module.__all__:
        assert not isinstance(getattr(module, public), ModuleType)


def test_every_exception_class_is_exported_but_the_internal_one() -> None:
    ours = {name for name, value in vars(errors).items() if getattr(value, "__module__", "") == errors.__name__}
    classes = {name for name in ours if isinstance(getattr(errors, name), type)}
    assert classes - set(alpineagents.__all__) == INTERNAL_ERRORS


def test_the_doubles_for_tests_are_no_names_of_the_package() -> None:
    for name in SUBMODULES["testing"].split():
        assert not hasattr(alpineagents, name)


def test_a_class_is_the_same_object_in_the_package_and_its_submodule() -> None:
    for name in SUBMODULES:
        module = importlib.import_module(f"alpineagents.{name}")
        for public in set(module.__all__) & set(alpineagents.__all__):
            assert getattr(module, public) is getattr(alpineagents, public)
