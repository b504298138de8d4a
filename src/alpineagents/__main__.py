"""`python -m alpineagents` is the command `alpineagents`."""

from __future__ import annotations

from alpineagents.cli import main

if __name__ == "__main__":
    main(prog_name="python -m alpineagents")
