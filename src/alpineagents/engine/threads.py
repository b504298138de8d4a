"""Daemon threads for tool calls, used again when idle: starting a thread costs more than a small tool.

Daemon threads never keep the process alive, so it can exit while an abandoned tool still runs.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable


class _Thread:
    """One thread that does one piece of work at a time."""

    def __init__(self) -> None:
        self.inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="alpineagents-tool", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self.inbox.get()()
            _idle.append(self)


_idle: deque[_Thread] = deque()


def on_thread(work: Callable[[], None]) -> None:
    """Do the work, which raises nothing, on a thread that does nothing else meanwhile."""
    try:
        thread = _idle.pop()
    except IndexError:
        thread = _Thread()
    thread.inbox.put(work)


def _forget() -> None:
    _idle.clear()  # the threads of the parent are not in a forked child


os.register_at_fork(after_in_child=_forget)
