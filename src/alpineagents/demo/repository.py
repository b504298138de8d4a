"""The tools of the recorded run: what each call returns is what it returned then."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from alpineagents.demo.recording import Step
from alpineagents.errors import ToolError
from alpineagents.state import State
from alpineagents.tools.decorator import tool

# Of the time a call took when it was recorded.
HASTE = 0.15


class Repository:
    """A shell and an editor in a repository.

    Args:
        steps: The recorded calls. The same call made again gets the next of its results.
        pace: 1 takes its time, so that a person can follow; 0 takes none.
        faults: Commands that end in an exception, the first time they are run.
    """

    def __init__(self, steps: Iterable[Step], pace: float, faults: Mapping[str, BaseException] | None = None) -> None:
        self._steps = list(steps)
        self._pace = pace
        self._faults = dict(faults or {})
        self._lock = threading.Lock()

    @tool
    def bash(self, command: str) -> str:
        """Run a command in the shell.

        Args:
            command: The command.
        """
        fault = self._faults.pop(command, None)
        if fault is not None:
            time.sleep(self._pace * HASTE)
            raise fault
        return self._recorded("bash", command=command)

    @tool
    def create(self, filename: str) -> str:
        """Create a file and open it.

        Args:
            filename: Its name.
        """
        return self._recorded("create", filename=filename)

    @tool(read_only=True)
    def open(self, path: str, line_number: int) -> str:
        """Open a file in the editor.

        Args:
            path: The file.
            line_number: The line to show.
        """
        return self._recorded("open", path=path, line_number=line_number)

    @tool
    def edit(self, replacement_text: str, start_line: int, end_line: int) -> str:
        """Replace lines of the open file. An edit that would be a syntax error is refused.

        Args:
            replacement_text: The new lines, with their indentation.
            start_line: The first line to replace.
            end_line: The last line to replace.
        """
        return self._recorded("edit", replacement_text=replacement_text, start_line=start_line, end_line=end_line)

    @tool(read_only=True)
    def find_file(self, file_name: str, dir: str) -> str:
        """Find files by name.

        Args:
            file_name: The name, or a pattern such as *.py.
            dir: Where to look.
        """
        return self._recorded("find_file", file_name=file_name, dir=dir)

    @tool
    def submit(self, state: State) -> str:
        """Hand in the changes. This ends the work."""
        result = self._recorded("submit")
        state.finish(result.partition("\n(Open file:")[0].replace("\r\n", "\n").strip())
        return result

    def _recorded(self, name: str, **args: Any) -> str:
        step = self._take(name, args)
        time.sleep(step.seconds * self._pace * HASTE)
        if step.failed:
            raise ToolError(step.result)
        return step.result

    def _take(self, name: str, args: dict[str, Any]) -> Step:
        with self._lock:
            for step in self._steps:
                if step.call.name == name and step.call.args == args:
                    self._steps.remove(step)
                    return step
        raise ToolError("this call is not in the recording")
