"""The demo: a real coding run, played again through the library without a key or a network.

`recording.json` is what a model said and what its tools answered when it fixed a bug in a public project;
`PROVENANCE.md` says where it comes from.
"""

from __future__ import annotations

from alpineagents.demo.scenes import play

__all__ = ["play"]
