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
        "How many connections one address may have. More are closed at once. 0: no limit.",
    )
    max_connections: int = setting(
        "maxCnxns",
        0,
        integer(-INT_MAX, INT_MAX),
        "connections",
        "How many connections there may be. More are closed at once. 0: as many as file descriptors "
        "(RLIMIT_NOFILE) allow, less a reserve.",
    )
    output_limit_bytes: int = setting(
        "outputLimitBytes",
        16 * _MIB,
        BYTES,
        "bytes",
        "zab only. A connection with more unsent output is not read from; at twice as much it is closed.",
    )
    total_output_limit_bytes: int = setting(
        "totalOutputLimitBytes",
        128 * _MIB,
        BYTES,
        "bytes",
        "zab only. The limit on unsent output of all connections. Beyond it, the connections that use the most are "
        "closed. At half of it, apply waits until watch events are sent.",
    )
    total_input_limit_bytes: int = setting(
        "totalInputLimitBytes",
        256 * _MIB,
        BYTES,
        "bytes",
        "zab only. The limit on requests of all connections that are incomplete or wait. Beyond it, the connections "
        "that use the most are closed. At half of it, large requests wait for each other.",
    )
