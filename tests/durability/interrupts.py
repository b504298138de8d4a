"""Ctrl+C at every moment at which Python can deliver it, one after another.

Python looks for signals after a call, at the start of a function and when it jumps back in a loop. A trace function
counts these moments in the package and, at the one that is wanted, leaves a signal behind as it returns: the weak
reference to an object that dies with its frame calls into C, so that no line of Python comes between. The signal is
then delivered by the interpreter itself, in the traced code. Raising from the trace function would be simpler, and also
interrupt where no signal ever can, such as between the end of a `with` block and the release of its lock.
"""

from __future__ import annotations

import ctypes
import dis
import gc
import signal
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import alpineagents

PACKAGE = str(Path(alpineagents.__file__).parent)
_CHECKS = ("CALL", "RESUME", "JUMP_BACKWARD", "POP_JUMP_BACKWARD")

_trip: Any = ctypes.PyDLL(None).PyErr_SetInterrupt
_trip.argtypes = [ctypes.py_object]  # a weak reference calls it with itself, which it does not look at
_trip.restype = None


class _Mortal:
    pass


class Interrupt:
    """Runs something and interrupts it at one of its moments, and again so many moments later.

    Attributes:
        places: Where it was interrupted: file, line and opcode. Fewer than asked for, if it ended before.
    """

    def __init__(self, moments: tuple[int, ...], names: tuple[str, ...]) -> None:
        self.places: list[str] = []
        self._left = [*moments]
        self._working = True  # one trace function cannot be installed while another one is being taken away
        self._names = names
        self._references: list[Any] = []

    def during(self, work: Callable[[], object]) -> BaseException | None:
        """What it raised."""
        before = signal.signal(signal.SIGINT, self._deliver)
        gc.disable()  # somebody's callback on a collection could swallow it
        try:
            sys.settrace(self._enter)
            try:
                work()
            finally:
                self._working = False
                sys.settrace(None)
            for _ in range(3):
                pass  # one that came at the very end is delivered here
        except BaseException as error:
            return error
        finally:
            gc.enable()
            signal.signal(signal.SIGINT, before)
        return None

    def _deliver(self, number: int, frame: FrameType | None) -> None:
        if self._left and self._working:
            sys.settrace(self._enter)
        raise KeyboardInterrupt

    def _enter(self, frame: FrameType, event: str, arg: object) -> Any:
        name = frame.f_code.co_filename
        if not self._left or not name.startswith(PACKAGE) or (self._names and not name.endswith(self._names)):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame: FrameType, event: str, arg: object) -> Any:
        opcode = dis.opname[frame.f_code.co_code[frame.f_lasti]] if event == "opcode" else ""
        if self._left and opcode.startswith(_CHECKS):
            self._left[0] -= 1
            if self._left[0] == -1:
                del self._left[0]
                self.places.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {opcode}")
                sys.settrace(None)  # or it would be delivered in this function, at the next step
                mortal = _Mortal()
                self._references.append(weakref.ref(mortal, _trip))
        return self._step


def interrupts(*names: str, then: tuple[int, ...] = ()) -> Iterator[Interrupt]:
    """One for each moment in the files with these endings, until one finds that its work was over before.

    Args:
        then: Interrupt again, so many moments after the one before.
    """
    moment = 0
    while True:
        interrupt = Interrupt((moment, *then), names)
        yield interrupt
        if not interrupt.places:
            return
        moment += 1
