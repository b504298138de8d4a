"""Small file systems that can be full or read-only, for root as well."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

KILOBYTE = 1024


def _mount(*arguments: str) -> bool:
    try:
        return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@contextmanager
def small_disk(folder: Path, size: str) -> Generator[Path]:
    """A file system of that size; the test is skipped where none can be mounted."""
    folder.mkdir()
    if os.geteuid() != 0 or not _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)):
        pytest.skip("only root can mount a small file system here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Generator[None]:
    """Inside the block nobody can write into what `small_disk` mounted there."""
    assert _mount("-o", "remount,ro", str(folder))
    try:
        yield
    finally:
        assert _mount("-o", "remount,rw", str(folder))


class Disk:
    """A small file system with a database, and a file that takes up the room."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "runs.db"
        self._ballast = folder / "ballast"

    def fill(self, leave: int = 0) -> None:
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(256 * KILOBYTE))  # the last one in part
            except OSError:
                pass
            if leave:
                file.truncate(max(0, file.tell() - leave))

    def make_room(self) -> None:
        self._ballast.unlink()
