"""Which names a topic may have.

Metrics of Kafka turn `.` into `_`, so two names that differ only there would be one: the second one is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

NAME_CHARACTERS_MAX = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)


def is_valid(name: str) -> bool:
    """Whether a topic may be called so."""
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


def colliding(name: str, others: Iterable[str]) -> str | None:
    """The other name that this one would be taken for."""
    flat = name.replace(".", "_")
    return next((other for other in others if other != name and other.replace(".", "_") == flat), None)
