"""The known formats, one module each. A module here with a `FORMAT` is one more."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from alpineagents.importing.formats.base import Format

FORMATS: tuple[Format, ...] = tuple(
    [
        import_module(f"{__name__}.{found.name}").FORMAT
        for found in pkgutil.iter_modules(__path__)
        if found.name != "base"
    ]
)

__all__ = ["FORMATS", "Format"]
