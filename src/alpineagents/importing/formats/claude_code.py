"""Sessions of Claude Code: JSON lines, one for each thing that happened.

- A reply may be split over several lines with the same `message.id`, one block each, and each of them has the usage of
  the whole. Results may stand between them.
- The lines of a subagent are marked `isSidechain`. Older versions put them into the session's own file, where a chain
  of `parentUuid` tells which subagent a line belongs to. Newer ones have a file `agent-ID.jsonl` beside it, or in the
  folder `SESSION/subagents`, and the result of the call that started it names its ID.
- Where the context was compacted, the user's next message is the summary.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from alpineagents.history.entries import (
    ContextChange,
    ContextChangeEntry,
    MessageEntry,
    ModelEventEntry,
    ModelReplyEntry,
)
from alpineagents.importing.claude_links import link_of
from alpineagents.importing.contents import (
    Part,
    arguments,
    count_of,
    fields,
    id_text,
    json_text,
    parts_of,
    records,
    result_content,
    text_or_none,
    time_of,
)
from alpineagents.importing.formats.base import Format
from alpineagents.importing.items import Begun, Ended, Found, Item, PassedOver, Remark, result_of
from alpineagents.importing.sources import Line, Source
from alpineagents.values.content import Block, Message, RawBlock, TextBlock, ToolCall
from alpineagents.values.estimates import text_tokens
from alpineagents.values.exchange import AgentInfo, ModelEvent, Reply
from alpineagents.values.outcomes import ToolOutcomeKind
from alpineagents.values.usage import Usage

PROVIDER = "anthropic"
UNKNOWN_MODEL = f"{PROVIDER}/unknown"
# Lines that are no part of a conversation: what the tool notes for itself.
BOOKKEEPING = frozenset(
    [
        *["agent-name", "agent-setting", "ai-title", "attachment", "custom-title", "file-history-snapshot"],
        *["last-prompt", "mode", "permission-mode", "pr-link", "progress", "queue-operation", "summary", "tag"],
    ]
)
REJECTED = "The user doesn't want to"
INTERRUPTED = "[Request interrupted by user"
NO_TIME = "it has no time, so it gets that of the one before"
MOST_KNOWN = 10_000
MOST_TITLES = 20
_SESSION = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_NAMES = {"id": "sessionId", "agent_id": "agentId", "version": "version", "cwd": "cwd", "git_branch": "gitBranch"}

Record: TypeAlias = dict[str, Any]


def _recognizes(source: Source) -> bool:
    return any([_is_of_session(record) for record in source.first_records])


def _is_of_session(record: Record) -> bool:
    kind = record.get("type")
    if kind in ("user", "assistant"):
        return isinstance(record.get("message"), dict) and ("sessionId" in record or "uuid" in record)
    return kind == "summary" and "leafUuid" in record


def _rank(source: Source) -> int:
    """Those of subagents first: the session they belong to counts what they used."""
    return 0 if any(["agentId" in record for record in source.first_records]) else 1


def items(source: Source) -> Iterator[Item]:
    """What is in the file of a session or of a subagent, line by line."""
    return _File(source).items()


FORMAT = Format("claude-code", "Claude Code sessions", _recognizes, items, _rank)


@dataclass
class _Reply:
    """A reply whose lines may not all have come."""

    id: str | None
    place: str
    at: datetime | None
    model: str | None
    blocks: list[Block] = field(default_factory=list[Block])
    usage: Record = field(default_factory=dict[str, Any])
    cost: float | None = None
    stop_reason: str | None = None
    size: int = 0

    def entry(self, *, counted: bool) -> ModelReplyEntry:
        counts = [count_of(self.usage.get(name)) for name in _COUNTS]
        return ModelReplyEntry(
            content=Reply(
                Message("assistant", tuple(self.blocks)),
                Usage() if counted else Usage(*counts, requests=1, cost=self.cost),
                context_tokens=sum(counts) or None,
                stop_reason=self.stop_reason,
                model=self.model,
            ),
            turn=0,
        )


@dataclass(frozen=True)
class _Started:
    """A subagent in the session's own file: its key, and the id of its State."""

    key: str
    id: str


@dataclass
class _Thread:
    """A conversation: the session's own, or that of a subagent.

    Attributes:
        reply: The one that is being put together. waiting: What came between its lines.
        calls: The arguments of open calls that may start a subagent. started: Those of them that have.
        uuids: The last lines of a subagent, by which the next are known.
    """

    key: str
    reply: _Reply | None = None
    waiting: list[Found] = field(default_factory=list[Found])
    calls: dict[str, Record] = field(default_factory=dict[str, Record])
    started: dict[str, _Started] = field(default_factory=dict[str, _Started])
    uuids: OrderedDict[str, None] = field(default_factory=OrderedDict[str, None])
    before_tokens: int = 0


Told: TypeAlias = Generator[Item, None, _Thread]


class _File:
    """One file of JSON lines."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._threads: dict[str, _Thread] = {}
        self._chains: dict[str, _Thread] = {}  # those of the threads that are subagents without a file of their own
        self._chain_count = 0
        self._counted: OrderedDict[str, None] = OrderedDict()  # replies whose usage has been told
        self._titles: list[str] = []

    def items(self) -> Iterator[Item]:
        for line in self._source.lines():
            if line.data is None:
                yield Remark(line.place, "left out", line.problem or "not an object")
                continue
            if line.mended:
                yield Remark(line.place, "repaired", "it has bytes that are no UTF-8")
            yield from self._line(line, line.data)
        for thread in list(self._threads.values()):
            yield from self._ended(thread)

    def _line(self, line: Line, record: Record) -> Iterator[Item]:
        kind = record.get("type")
        if kind == "summary" and isinstance(record.get("summary"), str):
            self._titles = [*self._titles, record["summary"]][-MOST_TITLES:]
        if kind in BOOKKEEPING:
            yield PassedOver(str(kind))
            return
        problem = _problem_of(record)
        if problem is not None:
            yield Remark(line.place, "left out", problem)
            return
        thread = yield from self._thread(record)
        if kind == "system":
            yield from self._system(thread, line, record)
            return
        if time_of(record.get("timestamp")) is None:
            yield Remark(line.place, "repaired", NO_TIME)
        if kind == "assistant":
            yield from self._assistant(thread, line, record, record["message"])
        else:
            yield from self._user(thread, line, record, record["message"]["content"])

    # Which conversation a line belongs to.

    def _thread(self, record: Record) -> Told:
        session = self._session_of(record)
        agent = text_or_none(record.get("agentId"))
        if agent is not None:
            return self._threads.get(f"{session} {agent}") or (yield from self._agent(session, agent, record))
        if record.get("isSidechain") is True:
            chain = self._chain_of(record) or (yield from self._chain(session, record))
            chain.uuids[str(record.get("uuid"))] = None
            _forget(chain.uuids)
            return chain
        return self._threads.get(session) or (yield from self._session(session, record))

    def _session_of(self, record: Record) -> str:
        return text_or_none(record.get("sessionId")) or self._source.stem

    def _session_id(self, session: str) -> str:
        """A session's own id; behind it the file's, where that is another session's that began with a copy of this."""
        stem = self._source.stem
        return id_text(session, stem[:8]) if _SESSION.fullmatch(stem) and stem != session else id_text(session)

    def _session(self, session: str, record: Record) -> Told:
        agent = AgentInfo(name="claude-code", model=UNKNOWN_MODEL)
        return (yield from self._begun(session, self._session_id(session), agent, record))

    def _agent(self, session: str, agent: str, record: Record) -> Told:
        link = link_of(self._source.path, session, agent)
        info = AgentInfo(name=link.kind or "subagent", model=UNKNOWN_MODEL)
        parent = (id_text(session), link.call_id)
        return (yield from self._begun(f"{session} {agent}", id_text(session, agent), info, record, parent))

    def _chain(self, session: str, record: Record) -> Told:
        parent = self._threads.get(session) or (yield from self._session(session, record))
        call_id = _call_that_started(parent, record)
        self._chain_count += 1
        parent_id = self._session_id(session)
        started = _Started(f"{session} {self._chain_count}", id_text(parent_id, "sidechain", self._chain_count))
        kind = text_or_none(parent.calls.get(call_id or "", {}).get("subagent_type"))
        info = AgentInfo(name=kind or "subagent", model=UNKNOWN_MODEL)
        chain = yield from self._begun(started.key, started.id, info, record, (parent_id, call_id))
        self._chains[started.key] = chain
        if call_id is not None:
            parent.started[call_id] = started
        return chain

    def _chain_of(self, record: Record) -> _Thread | None:
        above = record.get("parentUuid")
        if above is None:
            return None
        known = [chain for chain in self._chains.values() if above in chain.uuids]
        return known[0] if known else next(reversed(self._chains.values()), None)

    def _begun(
        self, key: str, id: str, agent: AgentInfo, record: Record, parent: tuple[str | None, str | None] = (None, None)
    ) -> Told:
        thread = self._threads[key] = _Thread(key)
        yield Begun(
            key,
            id,
            agent,
            sha256=self._source.sha256,
            size=self._source.size,
            imported={name: record[key] for name, key in _NAMES.items() if isinstance(record.get(key), str)},
            parent_id=parent[0],
            parent_call_id=parent[1],
            grows=True,
        )
        return thread

    def _ended(self, thread: _Thread) -> Iterator[Item]:
        yield from self._flushed(thread)
        is_chain = self._chains.pop(thread.key, None) is not None
        del self._threads[thread.key]
        yield Ended(thread.key, {"summaries": self._titles} if self._titles and not is_chain else {})

    # What a line says.

    def _assistant(self, thread: _Thread, line: Line, record: Record, message: Record) -> Iterator[Item]:
        id = text_or_none(message.get("id"))
        reply = thread.reply
        if reply is None or id is None or reply.id != id:
            yield from self._flushed(thread)
            at = time_of(record.get("timestamp"))
            reply = thread.reply = _Reply(id, line.place, at, text_or_none(message.get("model")))
        reply.size += line.size
        reply.usage = fields(message.get("usage")) or reply.usage
        reply.stop_reason = text_or_none(message.get("stop_reason")) or reply.stop_reason
        reply.cost = record["costUSD"] if isinstance(record.get("costUSD"), float) else reply.cost
        content = message["content"]
        for _, item in records([content] if isinstance(content, str) else content):
            block = _block_of(item)
            if isinstance(block, str):
                yield Remark(line.place, "left out", block)
                continue
            reply.blocks.append(block)
            if isinstance(block, ToolCall) and isinstance(block.args.get("prompt"), str):
                thread.calls[block.id] = dict(block.args)

    def _user(self, thread: _Thread, line: Line, record: Record, content: Any) -> Iterator[Item]:
        blocks = [item for _, item in records([content] if isinstance(content, str) else content)]
        results = [] if isinstance(content, str) else [b for b in blocks if fields(b).get("type") == "tool_result"]
        said = [block for block in blocks if block not in results]
        mended: list[str] = []
        for block in results:
            yield from self._result(thread, line, record, block, mended)
        if said or not blocks:
            yield from self._flushed(thread)
            parts = parts_of(content if isinstance(content, str) else said, mended.append)
            entry = _said(thread, record, parts)
            yield Found(thread.key, line.place, entry, time_of(record.get("timestamp")), size=line.size)
        yield from [Remark(line.place, "repaired", text) for text in mended]

    def _result(self, thread: _Thread, line: Line, record: Record, block: Record, mended: list[str]) -> Iterator[Item]:
        id = text_or_none(block.get("tool_use_id"))
        if id is None:
            yield Remark(line.place, "left out", "a result that does not say of which call")
            return
        content = result_content(block.get("content", ""), mended.append)
        child = self._child_of(thread, record, id)
        thread.calls.pop(id, None)
        started = thread.started.pop(id, None)
        if started is not None and started.key in self._threads:
            yield from self._ended(self._threads[started.key])
        entry = result_of(id, content, _outcome_of(block), child_ids=() if child is None else (child,))
        yield from self._behind_reply(
            thread, Found(thread.key, line.place, entry, time_of(record.get("timestamp")), size=line.size)
        )

    def _child_of(self, thread: _Thread, record: Record, call_id: str) -> str | None:
        agent = text_or_none(fields(record.get("toolUseResult")).get("agentId"))
        if agent is not None:
            return id_text(self._session_of(record), agent)
        return thread.started[call_id].id if call_id in thread.started else None

    def _system(self, thread: _Thread, line: Line, record: Record) -> Iterator[Item]:
        kind = text_or_none(record.get("subtype")) or "system"
        if kind == "compact_boundary":
            thread.before_tokens = count_of(fields(record.get("compactMetadata")).get("preTokens"))
        content = record.get("content")
        text = content if isinstance(content, str) else json_text(content) if content else kind
        entry = ModelEventEntry(content=ModelEvent(kind, text), turn=0)
        yield from self._behind_reply(
            thread, Found(thread.key, line.place, entry, time_of(record.get("timestamp")), size=line.size)
        )

    def _behind_reply(self, thread: _Thread, found: Found) -> Iterator[Item]:
        """What may stand between the lines of a reply comes behind it."""
        if thread.reply is None:
            yield found
        else:
            thread.waiting.append(found)

    def _flushed(self, thread: _Thread) -> Iterator[Item]:
        """The reply, of which no more lines come, and what stood between them."""
        reply, waiting = thread.reply, thread.waiting
        thread.reply, thread.waiting = None, []
        if reply is not None:
            counted = reply.id in self._counted
            if reply.id is not None:
                self._counted[reply.id] = None
                _forget(self._counted)
            yield Found(thread.key, reply.place, reply.entry(counted=counted), reply.at, size=reply.size)
        yield from waiting


def _forget(known: OrderedDict[str, None]) -> None:
    if len(known) > MOST_KNOWN:
        known.popitem(last=False)


def _problem_of(record: Record) -> str | None:
    """Why a line is no part of a conversation, if so."""
    kind = record.get("type")
    if kind == "system":
        return None
    if kind not in ("user", "assistant"):
        return f"a line of the unknown kind {kind!r}"
    message = record.get("message")
    if not isinstance(message, dict):
        return f"its message is no object but {type(message).__name__}"
    return None if "content" in message else "its message has no content"


def _call_that_started(parent: _Thread, record: Record) -> str | None:
    """The call whose prompt a subagent's first message is, or the only one that can have started it."""
    prompt = _text_of(fields(record.get("message")).get("content"))
    free = [id for id in parent.calls if id not in parent.started]
    same = [id for id in free if parent.calls[id].get("prompt") == prompt]
    return same[0] if same else free[0] if len(free) == 1 else None


def _said(thread: _Thread, record: Record, parts: tuple[Part, ...]) -> MessageEntry | ContextChangeEntry:
    summary = "".join([part.text for part in parts if isinstance(part, TextBlock)])
    if record.get("isCompactSummary") is not True or not summary.strip():
        return MessageEntry(kind="user", content=parts, turn=0)
    before, thread.before_tokens = thread.before_tokens, 0
    return ContextChangeEntry(content=ContextChange("compact", before, text_tokens(summary), summary=summary), turn=0)


def _block_of(item: Any) -> Block | str:
    """A block of a reply, or what is wrong with it."""
    if isinstance(item, str):
        return TextBlock(item)
    block = fields(item)
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        return TextBlock(block["text"])
    if block.get("type") == "tool_use":
        name, id = block.get("name"), block.get("id")
        if isinstance(name, str) and isinstance(id, str):
            return ToolCall(name, arguments(block.get("input")), id)
        return "a call without a name or an id"
    return RawBlock(PROVIDER, block) if block else f"a block that is no object but {type(item).__name__}"


def _outcome_of(block: Record) -> ToolOutcomeKind:
    if block.get("is_error") is not True:
        return ToolOutcomeKind.DONE
    text = _text_of(block.get("content"))
    if text.startswith(REJECTED):
        return ToolOutcomeKind.DENIED
    return ToolOutcomeKind.INTERRUPTED if text.startswith(INTERRUPTED) else ToolOutcomeKind.ERROR


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = [fields(item).get("text") for _, item in records(content)]
    return "".join([text for text in texts if isinstance(text, str)])
