"""An immutable sequence that grows by one in constant time.

Many `Log`s share one buffer; each knows how much of it is its own. `plus` appends to the buffer when this Log ends
where the buffer does, and copies its own part first when another Log has grown past it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_new: Any = object.__new__


class Log(Generic[T]):
    """`length` items of a shared, append-only buffer.

    Attributes:
        memo: A dict for what somebody works out from the items and would not work out anew for one item more. The Logs
            of one buffer share it; what is in it may be of a longer or shorter one.
    """

    __slots__ = ("_buffer", "_length", "memo")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._buffer = list(items)
        self._length = len(self._buffer)
        self.memo: dict[str, Any] = {}

    def plus(self, item: T) -> Log[T]:
        """This Log with one more item at the end."""
        buffer, end, memo = self._buffer, self._length, self.memo
        if end == 0:
            buffer, memo = [item], {}
        elif len(buffer) == end:
            buffer.append(item)
        # Another thread may have appended first: the place behind our end is ours only if our item stands there.
        if buffer[end] is not item:
            buffer, memo = [*buffer[:end], item], {}
        grown: Log[T] = _new(Log)
        grown._buffer, grown._length, grown.memo = buffer, end + 1, memo
        return grown

    def extended(self, items: Iterable[T]) -> Log[T]:
        """This Log with more items at the end."""
        grown: Log[T] = self
        for item in items:
            grown = grown.plus(item)
        return grown

    def tail(self, start: int) -> list[T]:
        """The items from `start` on."""
        return self._buffer[start : self._length]

    def whole(self) -> tuple[T, ...]:
        """All items."""
        items = tuple(self._buffer)
        return items if len(items) == self._length else items[: self._length]

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> T:
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(index)
        return self._buffer[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self._buffer[: self._length])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Log) and self.tail(0) == other.tail(0)

    __hash__ = None  # type: ignore[assignment]  # compared by value, like a list

    def __reduce__(self) -> tuple[type[Log[T]], tuple[list[T]]]:
        return (Log, (self.tail(0),))

    def __repr__(self) -> str:
        return f"Log({self.tail(0)!r})"
