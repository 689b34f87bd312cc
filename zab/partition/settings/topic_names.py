"""Which names a topic may have.

Metrics of Kafka turn `.` into `_`, so two names that differ only there would be one: the second one is refused.
"""

from __future__ import annotations

import re

NAME_CHARACTERS_MAX = 249
_NAME = re.compile(rf"[a-zA-Z0-9._-]{{1,{NAME_CHARACTERS_MAX}}}", re.ASCII)


def is_valid(name: str) -> bool:
    """Whether a topic may be called so."""
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


def collide(name: str, other: str) -> bool:
    """Whether metrics would take two names for one."""
    return name != other and name.replace(".", "_") == other.replace(".", "_")
