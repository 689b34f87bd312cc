"""Tables of handlers: which function takes which kind of input, or of effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

Handlers: TypeAlias = dict[type[object], Callable[[Any], None]]
K = TypeVar("K")


def handler(kind: type[K], take: Callable[[K], None]) -> tuple[type[object], Callable[[Any], None]]:
    """A row of a table. The type checker verifies that the function takes this kind."""
    return kind, take
