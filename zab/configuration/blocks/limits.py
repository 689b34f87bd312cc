"""What connections may hold."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.configuration.fields import BYTES, INT_MAX, integer, setting

_MIB: Final = 1024 * 1024


@frozen(kw_only=True)
class LimitSettings:
    """How many connections there may be, and how many bytes they may hold."""

    max_connections_per_address: int = setting(
        "maxClientCnxns",
        60,
        integer(-INT_MAX, INT_MAX),
        "connections per address",
        "One client in a loop cannot take them all; further ones are closed at once; 0 is off.",
    )
    max_connections: int = setting(
        "maxCnxns",
        0,
        integer(-INT_MAX, INT_MAX),
        "connections",
        "In total; further ones are closed at once; 0: as many as descriptors (RLIMIT_NOFILE) allow, less a reserve.",
    )
    output_limit_bytes: int = setting(
        "outputLimitBytes",
        16 * _MIB,
        BYTES,
        "bytes",
        "Ours. Unsent output beyond which a connection is not read from; at twice that it is closed.",
    )
    total_output_limit_bytes: int = setting(
        "totalOutputLimitBytes",
        128 * _MIB,
        BYTES,
        "bytes",
        "Ours. Unsent output of all connections; beyond, those with most of it are closed. Half as much in watch "
        "events may wait to be sent before apply waits for them.",
    )
    total_input_limit_bytes: int = setting(
        "totalInputLimitBytes",
        256 * _MIB,
        BYTES,
        "bytes",
        "Ours. Unfinished and waiting requests of all connections; beyond, those with most are closed. "
        "Large ones wait for each other at half of it.",
    )
