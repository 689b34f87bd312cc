"""File descriptors: how many there may be, and how many of them are not for clients.

A process that has none left accepts nobody, opens no file and dials nobody. So clients get only so many that the rest
is enough for whatever else a server opens: links, the log, snapshots and their transfers, names, strangers.

Not here: who is turned away (the service).
"""

from __future__ import annotations

import resource
from typing import Final

WANTED_MAX: Final = 1 << 20
RESERVE_MAX: Final = 512
"""What is kept from clients; of a small limit, half."""
LIMIT_MIN: Final = 640
"""Of a lower limit, half does not hold the strangers at two ports, what waits to be accepted there, and the files."""


def raise_limit() -> int:
    """Let this process have as many descriptors as it may, up to `WANTED_MAX`. How many these are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_MAX if hard == resource.RLIM_INFINITY else min(hard, WANTED_MAX)
    if soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft  # Some systems name a limit that they do not give.
    return wanted


def for_clients(limit: int) -> int:
    """How many of so many descriptors clients may have."""
    return limit - min(RESERVE_MAX, limit // 2)


def for_newcomers(of_clients: int, wanted: int) -> int:
    """How many of the clients' descriptors those may have whose handshake is not done."""
    return min(wanted, of_clients // 2)
