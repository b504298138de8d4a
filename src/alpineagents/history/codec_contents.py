"""The JSON form of the records that are the whole content of one kind of entry."""

from __future__ import annotations

from typing import Any

from alpineagents.history.codec_checks import (
    MISSING,
    JsonDict,
    frozen_object,
    frozen_value,
    inside,
    items,
    json_object,
    json_value,
    optional,
    record,
    text,
    text_tuple,
    texts,
    unexpected,
    whole,
)
from alpineagents.history.codec_parts import message_data, message_of, optional_usage, usage_data, usage_of
from alpineagents.history.entries import ContextChange
from alpineagents.values.content import Message
from alpineagents.values.exchange import AgentInfo, Exchange, ModelEvent, Reply

_CHANGES = ("compact", "clear_tool_results", "import", "restore")


def reply_data(reply: Any) -> JsonDict:
    """A reply as JSON."""
    if not isinstance(reply, Reply):
        raise unexpected(reply, "a Reply")
    message, usage = inside("message", message_data, reply.message), inside("usage", usage_data, reply.usage)
    data: JsonDict = {"message": message, "usage": usage}
    if reply.context_tokens is not None:
        data["context_tokens"] = whole(reply.context_tokens, "context_tokens")
    if reply.stop_reason is not None:
        data["stop_reason"] = text(reply.stop_reason, "stop_reason")
    if reply.model is not None:
        data["model"] = text(reply.model, "model")
    return data


def reply_of(value: Any) -> Reply:
    """The reply of its JSON."""
    data = record(value)
    return Reply(
        inside("message", message_of, data.get("message", MISSING)),
        inside("usage", usage_of, data.get("usage", MISSING)),
        optional(data, "context_tokens", whole),
        optional(data, "stop_reason", text),
        optional(data, "model", text),
    )


def event_data(event: Any) -> JsonDict:
    """A model event as JSON."""
    if not isinstance(event, ModelEvent):
        raise unexpected(event, "a ModelEvent")
    data: JsonDict = {"kind": text(event.kind, "kind"), "message": text(event.message, "message")}
    if event.data != {}:
        data["data"] = json_object(event.data, "data")
    return data


def event_of(value: Any) -> ModelEvent:
    """The model event of its JSON."""
    data = record(value)
    kind, message = text(data.get("kind", MISSING), "kind"), text(data.get("message", MISSING), "message")
    return ModelEvent(kind, message, frozen_object(data.get("data", {}), "data"))


def exchange_data(exchange: Any) -> JsonDict:
    """A question and its answer as JSON."""
    if not isinstance(exchange, Exchange):
        raise unexpected(exchange, "an Exchange")
    return {"question": text(exchange.question, "question"), "answer": json_value(exchange.answer, "answer")}


def exchange_of(value: Any) -> Exchange:
    """The question and answer of its JSON."""
    data = record(value)
    return Exchange(
        text(data.get("question", MISSING), "question"), frozen_value(data.get("answer", MISSING), "answer")
    )


def change_data(change: Any) -> JsonDict:
    """A context change as JSON."""
    if not isinstance(change, ContextChange):
        raise unexpected(change, "a ContextChange")
    data: JsonDict = {
        "kind": inside("kind", _change_kind, change.kind),
        "before_tokens": whole(change.before_tokens, "before_tokens"),
        "after_tokens": whole(change.after_tokens, "after_tokens"),
    }
    if change.summary is not None:
        data["summary"] = text(change.summary, "summary")
    if change.kept != 0 or type(change.kept) is not int:
        data["kept"] = whole(change.kept, "kept")
    if change.cleared:
        data["cleared"] = texts(change.cleared, "cleared")
    if change.messages:
        data["messages"] = inside("messages", _messages_data, change.messages)
    if change.restored_to is not None:
        data["restored_to"] = whole(change.restored_to, "restored_to")
    if change.usage is not None:
        data["usage"] = inside("usage", usage_data, change.usage)
    return data


def change_of(value: Any) -> ContextChange:
    """The context change of its JSON."""
    data = record(value)
    return ContextChange(
        inside("kind", _change_kind, data.get("kind", MISSING)),
        whole(data.get("before_tokens", MISSING), "before_tokens"),
        whole(data.get("after_tokens", MISSING), "after_tokens"),
        optional(data, "summary", text),
        whole(data.get("kept", 0), "kept"),
        text_tuple(data, "cleared"),
        inside("messages", _messages_of, data.get("messages", [])),
        optional(data, "restored_to", whole),
        optional_usage(data),
    )


def _change_kind(value: Any) -> Any:
    if isinstance(value, str) and value in _CHANGES:
        return str.__str__(value)
    raise unexpected(value, f"one of {', '.join(_CHANGES)}")


def _messages_data(messages: tuple[Any, ...]) -> list[JsonDict]:
    return [inside(index, message_data, message) for index, message in enumerate(messages)]


def _messages_of(values: Any) -> tuple[Message, ...]:
    return tuple([inside(index, message_of, value) for index, value in enumerate(items(values))])


def agent_data(agent: Any) -> JsonDict:
    """What an Agent was as JSON."""
    if not isinstance(agent, AgentInfo):
        raise unexpected(agent, "an AgentInfo")
    data: JsonDict = {}
    if agent.name is not None:
        data["name"] = text(agent.name, "name")
    data["model"] = text(agent.model, "model")
    if agent.system_sha256 is not None:
        data["system_sha256"] = text(agent.system_sha256, "system_sha256")
    if agent.tools:
        data["tools"] = texts(agent.tools, "tools")
    if agent.mcp_servers:
        data["mcp_servers"] = texts(agent.mcp_servers, "mcp_servers")
    return data


def agent_of(value: Any) -> AgentInfo:
    """What an Agent was, of its JSON."""
    data = record(value)
    return AgentInfo(
        name=optional(data, "name", text),
        model=text(data.get("model", MISSING), "model"),
        system_sha256=optional(data, "system_sha256", text),
        tools=text_tuple(data, "tools"),
        mcp_servers=text_tuple(data, "mcp_servers"),
    )
