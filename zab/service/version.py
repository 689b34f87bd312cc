"""The version of this package, in its one place: the build reads it here, and members say it behind ZooKeeper's.

    3.9.5-zab-0.2.0, built on 2026-01-01 00:00 UTC
    |         |                |
    |         VERSION          a constant: what parses ZooKeeper's answers expects a date
    the ZooKeeper whose protocol this is; tools compare this number

ZooKeeper has a qualifier and the commit where the name and the version stand here. So clients that read the digits at
the beginning, and tools that cut at the comma, find what they look for.
"""

from __future__ import annotations

from typing import Final

VERSION = "0.2.0"
"""Without an annotation: that is how the build finds it."""

ZOOKEEPER: Final = "3.9.5"


def shown(version: str = VERSION) -> str:
    """What a member of that version says of it: `srvr`, `mntr`, `envi`, the admin server."""
    return f"{ZOOKEEPER}-zab-{version}, built on 2026-01-01 00:00 UTC"
