"""The version of this package. The build reads it here, and members report it after ZooKeeper's version.

    3.9.5-zab-0.2.0, built on 2026-01-01 00:00 UTC
    |         |                |
    |         VERSION          a constant, because programs that parse ZooKeeper's answers expect a date
    the version of ZooKeeper whose protocol this is; tools compare this number

ZooKeeper has a qualifier and the commit where this has the name and the version. So clients that read the leading
digits, and tools that cut at the comma, work unchanged.
"""

from __future__ import annotations

from typing import Final

VERSION = "0.2.0"
"""Without an annotation, because the build looks for this form."""

ZOOKEEPER: Final = "3.9.5"


def shown(version: str = VERSION) -> str:
    """What a member of that version reports in `srvr`, `mntr`, `envi` and in the admin server."""
    return f"{ZOOKEEPER}-zab-{version}, built on 2026-01-01 00:00 UTC"
