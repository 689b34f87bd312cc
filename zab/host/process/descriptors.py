"""File descriptors: the limit of the process, and how many of them clients may use.

A process without free descriptors cannot accept connections, open files or dial. So clients get only so many that the
rest is enough for everything else that a server opens: links, the log, snapshots and their transfers, name lookups,
connections before their handshake.

Not here: refusing clients (the service).
"""

from __future__ import annotations

import resource
from typing import Final

import attrs

from zab.service.failure import CONFIG_ERROR, ServerFailedError

WANTED_MAX: Final = 1 << 20
RESERVE_MAX: Final = 512
"""How many descriptors are reserved; half of them if the limit is small."""
LIMIT_MIN: Final = 640
"""Half of a lower limit would not be enough for pending handshakes at two ports, connections waiting to be accepted,
and files."""


@attrs.frozen
class ClientDescriptors:
    """How many descriptors clients may have."""

    connected_count: int
    newcomers_count: int
    """How many TLS handshakes may be under way; 0 without TLS."""


def client_descriptors(handshakes_max: int) -> ClientDescriptors:
    """Raise the limit of this process, and divide it. `handshakes_max`: the wanted number of TLS handshakes, 0 without
    TLS. Raises ServerFailedError if the limit is too low for a server."""
    limit = raise_limit()
    if limit < LIMIT_MIN:
        reason = f"a process may have {limit} file descriptors (RLIMIT_NOFILE), and a server needs {LIMIT_MIN}"
        raise ServerFailedError(CONFIG_ERROR, f"{reason}: raise the limit (`ulimit -n`, or LimitNOFILE= of systemd)")
    for_all = for_clients(limit)
    newcomers = min(handshakes_max, for_all // 2)
    return ClientDescriptors(for_all - newcomers, newcomers)


def raise_limit() -> int:
    """Raise the limit of this process as far as allowed, up to `WANTED_MAX`, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_MAX if hard == resource.RLIM_INFINITY else min(hard, WANTED_MAX)
    if soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft  # Some systems report a limit that they do not grant.
    return wanted


def for_clients(limit: int) -> int:
    """How many of `limit` descriptors clients may have."""
    return limit - min(RESERVE_MAX, limit // 2)
