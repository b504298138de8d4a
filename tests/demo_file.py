"""The file the demo leaves, made once for all tests that only read it."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from alpineagents.cli.demo import QUERY
from alpineagents.demo import play

__all__ = ["QUERY", "demo_file"]


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="alpineagents-demo-")


@functools.cache
def demo_file() -> Path:
    """A file with the runs of one demo."""
    path = Path(_folder().name) / "runs.db"
    play(path, lambda line: None, pace=0.0)
    return path
