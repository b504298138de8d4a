"""Which tool call started which subagents, and what those have used that is not counted yet.

A call becomes a `Family` with the first run that starts inside it. The entry that closes the call counts what its
members have used since they joined, and a late one only what was added since; what is counted follows from the entries
on record, so that an interrupt between counting and recording loses nothing and counts nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple, Protocol

from alpineagents.history.entries import ToolResultEntry
from alpineagents.history.value import Value
from alpineagents.values.content import ToolCall
from alpineagents.values.usage import Usage


class Spender(Protocol):
    """What is known of a subagent here: its Journal."""

    now: Value


class Member(NamedTuple):
    """A subagent, and what it had used before it joined the call."""

    id: str
    journal: Spender
    before: Usage


class Family:
    """One execution of a tool call, with the subagents it started.

    Attributes:
        call: The call. opened: The `seq` of the reply that asked for it, because a later turn may ask for it again.
        members: The subagents in the order they joined.
        counted: The entry made last to count them, and what each had used then; it may not be on record.
    """

    __slots__ = ("call", "counted", "members", "opened")

    def __init__(self, call: ToolCall, opened: int | None) -> None:
        self.call = call
        self.opened = opened
        self.members: list[Member] = []
        self.counted: tuple[ToolResultEntry, list[Usage]] | None = None

    def join(self, families: list[Family], id: str, journal: Spender) -> None:
        """Add a subagent, whose run starts at this moment, to this family and this to the families of its State."""
        if any([member.journal is journal for member in self.members]):
            return  # it was run before in this call
        self.members.append(Member(id, journal, journal.now.usage))
        if self.members[0].journal is journal:  # of several threads only one is first
            families.append(self)

    @property
    def ids(self) -> list[str]:
        """Those of the members."""
        return [member.id for member in self.members]

    def counted_before(self, now: Value) -> tuple[ToolResultEntry | None, list[Usage]]:
        """The entry on record that counted this family, and for each member what was counted or used before."""
        usages = [member.before for member in self.members]
        if self.counted is None or not _is_on_record(now, self.counted[0], self.opened):
            return None, usages
        entry, counted = self.counted
        return entry, [*counted, *usages[len(counted) :]]


def _is_on_record(now: Value, entry: ToolResultEntry, opened: int | None) -> bool:
    history = now.history
    return any([history[index] is entry for index in range(len(history) - 1, opened or 0, -1)])


def closed(now: Value, entry: ToolResultEntry, families: Iterable[Family]) -> ToolResultEntry:
    """The entry that closes a call, with the ids of its subagents and what they used that is not counted yet."""
    found = [family for family in families if family.members]
    if not found:
        return entry
    ids: list[str] = []
    usage, counts = Usage(), list[list[Usage]]()
    for family in found:
        before, counted = family.counted_before(now)
        ids += [*(before.child_ids if before is not None else ()), *family.ids]
        usages = [member.journal.now.usage for member in family.members[: len(counted)]]
        for spent, then in zip(usages, counted, strict=True):
            usage += growth(spent, then)
        counts.append(usages)
    entry = replace(entry, child_ids=tuple(dict.fromkeys(ids)), usage=usage)
    for family, usages in zip(found, counts, strict=True):
        family.counted = (entry, usages)
    return entry


def of_call(
    families: list[Family], now: Value, call: ToolCall, others: Iterable[Family], own: Family | None = None
) -> list[Family]:
    """All executions of an open call: its own last, behind those that were given up before.

    Args:
        others: Those of other calls that are the same object, which a reply may hold twice.
    """
    for stale in [family for family in families if family.opened != now.opened]:
        families.remove(stale)
    found = [
        family
        for family in families
        if family.call is call
        and family is not own
        and not any([family is other for other in others])
        and family.counted_before(now)[0] is None
    ]
    return found if own is None else [*found, own]


def growth(now: Usage, then: Usage) -> Usage:
    """What was used between two moments of one State; the cost is `None` if that of either is unknown."""
    requests = now.requests - then.requests
    return Usage(
        now.input_tokens - then.input_tokens,
        now.output_tokens - then.output_tokens,
        now.cache_read_tokens - then.cache_read_tokens,
        now.cache_write_tokens - then.cache_write_tokens,
        requests,
        _cost_of_growth(now, then) if requests else None,
    )


def _cost_of_growth(now: Usage, then: Usage) -> float | None:
    if then.requests == 0:
        return now.cost
    return None if now.cost is None or then.cost is None else now.cost - then.cost
