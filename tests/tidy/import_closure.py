"""All that a module imports, directly or not."""

from __future__ import annotations

from functools import cache

from tests.tidy.sources import MODULES, modules_imported


@cache
def closure(module: str) -> frozenset[str]:
    """A module and everything of this project that it imports, at whatever remove."""
    found, pending = {module}, [module]
    while pending:
        new = modules_imported(MODULES[pending.pop()]) - found
        found |= new
        pending += new
    return frozenset(found)
