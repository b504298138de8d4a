"""A sequence that counts all its items and keeps only the last of them."""

from __future__ import annotations

from typing import Any


class Recent:
    """Stands in for a `Log` while a long history is folded: whoever looks far back finds `None`."""

    __slots__ = ("_forgotten", "_items")

    def __init__(self, forgotten: int, items: tuple[Any, ...]) -> None:
        self._forgotten = forgotten
        self._items = items

    @classmethod
    def of(cls, items: Any, kept: int) -> Recent:
        """The last items of a `Log`, or of another `Recent`."""
        length = len(items)
        start = max(0, length - kept)
        return cls(start, tuple([items[index] for index in range(start, length)]))

    def plus(self, item: Any) -> Recent:
        """With one more at the end."""
        return Recent(self._forgotten, (*self._items, item))

    def __len__(self) -> int:
        return self._forgotten + len(self._items)

    def __getitem__(self, index: int) -> Any:
        index += len(self) if index < 0 else 0
        if not 0 <= index < len(self):
            raise IndexError(index)
        return None if index < self._forgotten else self._items[index - self._forgotten]
