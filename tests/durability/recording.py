"""What a process writes and syncs in one folder, event by event, and when something happened outside.

A small library (recorder.c) is preloaded into the process. Inside of it, `mark` says what left the machine, and
`kill_before` ends the process at one of its writes.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
_HEADER = struct.Struct("<IIQQ")


@dataclass(frozen=True, slots=True)
class Event:
    """One event; recorder.c says what the kinds are.

    Attributes:
        number: The offset or size in the file, or the number of a sync.
        data: The bytes written, the name, or the text of a mark.
    """

    kind: str
    inode: int
    number: int
    data: bytes


@cache
def recorder(folder: Path) -> Path:
    """The library, compiled; the test is skipped where that cannot be done."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs Linux and a C compiler")
    library = folder / "recorder.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(HERE / "recorder.c"), "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    return library


def environment(library: Path, folder: Path, log: Path) -> dict[str, str]:
    """For a process whose writes in the folder are to be recorded."""
    folders = {"RECORDER_FOLDER": str(folder.resolve()), "RECORDER_LOG": str(log.resolve())}
    paths = os.pathsep.join([path for path in (str(HERE.parent), os.environ.get("PYTHONPATH")) if path])
    return {**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": paths, **folders}


def record(library: Path, folder: Path, log: Path, *arguments: str) -> list[Event]:
    """Run `durability.subjects` with these arguments in a process of its own, and give back what it did."""
    command = [sys.executable, "-m", "durability.subjects", str(folder), *arguments]
    subprocess.run(command, check=True, env=environment(library, folder, log))
    return list(_events(log.read_bytes()))


def _events(log: bytes) -> Iterator[Event]:
    place = 0
    while place < len(log):
        kind, length, inode, number = _HEADER.unpack_from(log, place)
        place += _HEADER.size + length
        yield Event(chr(kind), inode, number, log[place - length : place])


@cache
def _recorder_here() -> ctypes.CDLL:
    return ctypes.CDLL(os.environ["LD_PRELOAD"])


def mark(**facts: Any) -> None:
    """In a recorded process: something is about to happen outside, or did."""
    _recorder_here().recorder_mark(json.dumps(facts).encode())


def kill_before(moment: int, in_the_middle: bool = False) -> None:
    """In a recorded process: be killed before so many more events, or in the middle of that write."""
    _recorder_here().recorder_kill_before(ctypes.c_long(moment), int(in_the_middle))
