"""Python's garbage collector and long histories.

Loading makes many objects and frees none. The collector, which runs once so many have been made, would look at all of
them again and again and find nothing: half of the time of a long load.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """No garbage collection meanwhile, in the whole process; unless it was off before, it is on afterwards."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
