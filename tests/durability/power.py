"""A power cut: what a disk can hold of what was written to it.

What was synced is there. Of the rest any part may be: SQLite asks of a disk only that a sector is written whole or not
at all, so writes may be missing, torn, and out of order, in each file and between files. A new or removed name is sure
only once the folder was synced; of the later ones the first few may be there.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from durability.recording import Event

SECTOR = 512


class DiskFile:
    """A file: what is on the disk for sure, and what was done to it since."""

    def __init__(self, content: bytes = b"") -> None:
        self.durable = bytearray(content)
        self.unsynced: list[tuple[int, Event]] = []

    def sync(self, begun: int) -> None:
        """What was done before that moment is on the disk."""
        while self.unsynced and self.unsynced[0][0] < begun:
            apply(self.durable, self.unsynced.pop(0)[1])


def apply(content: bytearray, event: Event) -> None:
    """Do to the content what was done to the file."""
    if event.kind == "T":
        del content[event.number :]
        content.extend(bytes(event.number - len(content)))
        return
    content.extend(bytes(max(0, event.number - len(content))))
    content[event.number : event.number + len(event.data)] = event.data


class Disk:
    """A folder, followed from event to event.

    Args:
        content: What it held at first, all of it on the disk.
    """

    def __init__(self, content: Mapping[str, bytes] | None = None, inodes: Mapping[str, int] | None = None) -> None:
        self.names = {name: DiskFile(data) for name, data in (content or {}).items()}
        self._files = {inode: self.names[name] for name, inode in (inodes or {}).items() if name in self.names}
        self._unsynced_names: list[tuple[int, str, DiskFile | None]] = []
        self._begun: dict[int, int] = {}
        self._moment = 0

    def do(self, event: Event) -> None:
        """Take in the next event."""
        self._moment += 1
        match event.kind:
            case "C":
                file = self._files[event.inode] = DiskFile()
                self._unsynced_names.append((self._moment, event.data.decode(), file))
            case "U":
                self._unsynced_names.append((self._moment, event.data.decode(), None))
            case "W" | "T":
                self._files[event.inode].unsynced.append((self._moment, event))
            case "B":
                self._begun[event.number] = self._moment
            case "E":
                self._sync(event.inode, self._begun[event.number])

    def _sync(self, inode: int, begun: int) -> None:
        if inode:
            self._files[inode].sync(begun)
            return
        while self._unsynced_names and self._unsynced_names[0][0] < begun:
            self._name(self.names, *self._unsynced_names.pop(0)[1:])

    def _name(self, names: dict[str, DiskFile], name: str, file: DiskFile | None) -> None:
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file

    def unsynced(self, suffix: str) -> int:
        """How many writes to files whose name ends so are not on the disk for sure."""
        return sum([len(file.unsynced) for name, file in self._newest().items() if name.endswith(suffix)])

    def _newest(self, changes: int | None = None) -> dict[str, DiskFile]:
        names = dict(self.names)
        for _, name, file in self._unsynced_names[:changes]:
            self._name(names, name, file)
        return names

    def without_power(self, loss: Loss, chance: random.Random) -> dict[str, bytes]:
        """What the folder may hold after a cut at this moment."""
        count = len(self._unsynced_names)
        changes = count if loss is nothing else 0 if loss is everything else chance.randint(0, count)
        found: dict[str, bytes] = {}
        for name, file in self._newest(changes).items():
            content = bytearray(file.durable)
            loss(content, [event for _, event in file.unsynced], chance)
            found[name] = bytes(content)
        return found


# What becomes of the writes to one file that were not synced.
Loss = Callable[[bytearray, Sequence[Event], random.Random], None]


def nothing(content: bytearray, events: Sequence[Event], chance: random.Random) -> None:
    """All of it had reached the disk."""
    for event in events:
        apply(content, event)


def everything(content: bytearray, events: Sequence[Event], chance: random.Random) -> None:
    """None of it had."""


def all_of_some_files(content: bytearray, events: Sequence[Event], chance: random.Random) -> None:
    """Either, for each file."""
    chance.choice((nothing, everything))(content, events, chance)


def the_end(content: bytearray, events: Sequence[Event], chance: random.Random) -> None:
    """Some of the last writes, the first of them in part."""
    kept = chance.randint(0, len(events))
    nothing(content, events[:kept], chance)
    for event in events[kept : kept + 1]:
        sectors = list(_sectors(event))
        nothing(content, sectors[: chance.randint(0, len(sectors))], chance)


def some_writes(content: bytearray, events: Sequence[Event], chance: random.Random) -> None:
    """Any of the writes."""
    share = chance.random()
    nothing(content, [event for event in events if chance.random() < share], chance)


def some_sectors(content: bytearray, events: Sequence[Event], chance: random.Random) -> None:
    """Any sectors of the writes, each whole."""
    share = chance.random()
    nothing(content, [part for event in events for part in _sectors(event) if chance.random() < share], chance)


def sectors_left_as_found(content: bytearray, events: Sequence[Event], chance: random.Random) -> None:
    """The same, and where the file had grown it holds what lay on the disk there."""
    before, share = len(content), chance.random()
    parts = [part for event in events for part in _sectors(event)]
    for part in parts:
        grown = part.number + len(part.data) - max(before, len(content))
        if part.kind == "W" and grown > 0:
            content.extend(chance.randbytes(grown))
        if chance.random() < share:
            apply(content, part)


LOSSES: tuple[Loss, ...] = (
    nothing,
    everything,
    all_of_some_files,
    the_end,
    some_writes,
    some_sectors,
    sectors_left_as_found,
)


def _sectors(event: Event) -> Iterator[Event]:
    if event.kind != "W":
        yield event
        return
    start, end = event.number, event.number + len(event.data)
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        yield Event("W", event.inode, start, event.data[start - event.number : stop - event.number])
        start = stop


def put(content: Mapping[str, bytes], folder: Path) -> dict[str, int]:
    """Make a folder that holds this, and nothing else; the inode of each file."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in content.items():
        (folder / name).write_bytes(data)
    return {name: (folder / name).stat().st_ino for name in content}
