"""Runs shown at a terminal, and the person there asked."""

from alpineagents.terminal.terminal import Terminal, default_terminal

__all__ = ["Terminal", "default_terminal"]
