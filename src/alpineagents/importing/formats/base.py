"""What a format has to say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from alpineagents.importing.items import Item
from alpineagents.importing.sources import Source


def _in_any_order(source: Source) -> int:
    return 0


@dataclass(frozen=True)
class Format:
    """A form in which runs are recorded somewhere.

    Attributes:
        name: The word for it in `extra_data`.
        title: What a person calls a source of it.
        recognizes: Whether a source is of it, by its content.
        items: What is in such a source, entry by entry.
        rank: Sources with a lower one come first, because others refer to them.
    """

    name: str
    title: str
    recognizes: Callable[[Source], bool]
    items: Callable[[Source], Iterator[Item]]
    rank: Callable[[Source], int] = _in_any_order
