"""alpineagents: agents whose whole memory is one SQLite file.

agent = Agent(model, tools=[read_file], store="runs.db")
state = State(messages=[Message.user("Find the bug in main.py")])
print(agent.run(state))
"""

from __future__ import annotations

from alpineagents.agent import Agent
from alpineagents.blocks import CompactIfFull, acompact_if_full, compact_if_full
from alpineagents.errors import (
    AlpineAgentsError,
    AuthError,
    ContextTooLongError,
    CutOffError,
    MCPConnectionError,
    NoHumanError,
    OutputError,
    PermissionWarning,
    ProviderError,
    RateLimitError,
    ResumeWarning,
    ToolError,
    ToolInputError,
)
from alpineagents.history.snapshot import StateSnapshot
from alpineagents.human import Human
from alpineagents.loops import Loop, adefault_loop, default_loop, loop, waiting_for_user
from alpineagents.mcp import MCP, MCPTool
from alpineagents.models.anthropic import Anthropic
from alpineagents.models.base import Model
from alpineagents.models.openai_compatible import OpenAICompatible
from alpineagents.reporter import Reporter
from alpineagents.state import State
from alpineagents.store import SqliteStore, StateInfo, Store
from alpineagents.terminal import Terminal
from alpineagents.tools.base import Hints, Tool
from alpineagents.tools.decorator import tool
from alpineagents.tools.function import FunctionTool
from alpineagents.types import (
    CUT_OFF_STOP_REASONS,
    AgentInfo,
    ContextChange,
    ContextChangeEntry,
    ErrorEntry,
    ExchangeEntry,
    ExtraDataEntry,
    HistoryEntry,
    Image,
    Message,
    MessageEntry,
    ModelEvent,
    ModelEventEntry,
    ModelReplyEntry,
    ModelRequestEntry,
    Price,
    Reply,
    Request,
    RunStartEntry,
    StopEntry,
    StoppedByFinish,
    StoppedByLimit,
    StoppedByPermission,
    StoppedByUntil,
    ToolCall,
    ToolOutcome,
    ToolOutcomeKind,
    ToolResultEntry,
    ToolSpec,
    Usage,
)

__all__ = [
    # What a run is made of
    "Agent",
    "State",
    "StateSnapshot",
    "Loop",
    "loop",
    "default_loop",
    "adefault_loop",
    "waiting_for_user",
    "CompactIfFull",
    "compact_if_full",
    "acompact_if_full",
    # Tools
    "tool",
    "Tool",
    "FunctionTool",
    "Hints",
    "ToolError",
    "ToolInputError",
    "MCP",
    "MCPTool",
    # Where runs are kept
    "Store",
    "SqliteStore",
    "StateInfo",
    # Models, people, progress
    "Model",
    "Anthropic",
    "OpenAICompatible",
    "Human",
    "Reporter",
    "Terminal",
    # Messages and requests
    "Message",
    "Image",
    "ToolCall",
    "ToolSpec",
    "Request",
    "Reply",
    "Usage",
    "Price",
    "ModelEvent",
    "CUT_OFF_STOP_REASONS",
    # History
    "HistoryEntry",
    "MessageEntry",
    "ModelRequestEntry",
    "ModelReplyEntry",
    "ModelEventEntry",
    "ToolResultEntry",
    "ExchangeEntry",
    "ContextChangeEntry",
    "RunStartEntry",
    "StopEntry",
    "ExtraDataEntry",
    "ErrorEntry",
    "ContextChange",
    "AgentInfo",
    # How things ended
    "ToolOutcome",
    "ToolOutcomeKind",
    "StoppedByUntil",
    "StoppedByLimit",
    "StoppedByFinish",
    "StoppedByPermission",
    # Errors and warnings
    "AlpineAgentsError",
    "ProviderError",
    "RateLimitError",
    "AuthError",
    "ContextTooLongError",
    "OutputError",
    "CutOffError",
    "NoHumanError",
    "MCPConnectionError",
    "ResumeWarning",
    "PermissionWarning",
]
