"""File descriptors: how many there may be, and how many of them are not for clients.

A process that has none left accepts nobody, opens no file and dials nobody. So clients get only so many that the rest
is enough for everything else a server opens: links, the log, snapshots and their transfers, names, strangers.

Not here: who is turned away (the service).
"""

from __future__ import annotations

import resource
from typing import Final

import attrs

from zab.service.failure import CONFIG_ERROR, ServerFailedError

WANTED_MAX: Final = 1 << 20
RESERVE_MAX: Final = 512
"""How many are kept from clients; of a small limit, half."""
LIMIT_MIN: Final = 640
"""Half of a lower limit does not hold the strangers at two ports, what waits to be accepted there, and the files."""


@attrs.frozen
class ClientDescriptors:
    """How many descriptors clients may have."""

    connected_count: int
    newcomers_count: int
    """Connections whose TLS handshake is under way; 0 without TLS."""


def client_descriptors(handshakes_max: int) -> ClientDescriptors:
    """Raise the limit of this process, and share it out. `handshakes_max`: how many newcomers are wanted, 0 without
    TLS. Raises ServerFailedError where the limit is too low for a server."""
    limit = raise_limit()
    if limit < LIMIT_MIN:
        reason = f"a process may have {limit} file descriptors (RLIMIT_NOFILE), and a server needs {LIMIT_MIN}"
        raise ServerFailedError(CONFIG_ERROR, f"{reason}: raise the limit (`ulimit -n`, or LimitNOFILE= of systemd)")
    for_all = for_clients(limit)
    newcomers = min(handshakes_max, for_all // 2)
    return ClientDescriptors(for_all - newcomers, newcomers)


def raise_limit() -> int:
    """Let this process have as many descriptors as it may, up to `WANTED_MAX`, and return that number."""
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
    """How many of `limit` descriptors clients may have."""
    return limit - min(RESERVE_MAX, limit // 2)
