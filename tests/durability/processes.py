"""Forked processes that write down what they did, and can be killed at any moment."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path


class Log:
    """Lines of a process, each there as soon as `write` returns, whatever becomes of the process.

    Args:
        synced: Whatever becomes of the machine, too.
    """

    def __init__(self, path: Path, synced: bool = False) -> None:
        self._path = path
        self._synced = synced
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def write(self, *words: object) -> None:
        os.write(self._file, (" ".join([str(word) for word in words]) + "\n").encode())
        if self._synced:
            os.fsync(self._file)

    def lines(self, name: str) -> list[str]:
        """What was written behind this name."""
        found = [line.partition(" ") for line in self._path.read_text().splitlines()]
        return [rest for first, _, rest in found if first == name]

    def close(self) -> None:
        os.close(self._file)


class Process:
    """A forked process. It ends when its work does, with status 0 unless that raised."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                work()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)

    def kill(self) -> None:
        """End it in the middle of what it does."""
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        assert os.WIFSIGNALED(status), f"it had ended by itself, with status {os.waitstatus_to_exitcode(status)}"

    def ended(self) -> None:
        """Wait for its good end."""
        _, status = os.waitpid(self.pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0


class Gate:
    """Keeps processes waiting until it is opened for all of them at once."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()

    def wait(self) -> None:
        """In a child."""
        os.close(self._writing)
        os.read(self._reading, 1)

    def open(self) -> None:
        """In the parent."""
        os.close(self._writing)
        os.close(self._reading)
