"""The keys of what clients may make a member hold, as fields that every `Config` has.

Not here: what happens at each of them (`limits`, `reads`); the rules between them (`config`).
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from zab.configuration.fields import BYTES, COUNT, setting

_MIB: Final = 1024 * 1024


@frozen(kw_only=True)
class LimitSettings:
    """See the module."""

    max_watches_per_connection: int = setting(
        "maxWatchesPerConnection",
        200_000,
        COUNT,
        "watches",
        "Ours. A recursive cache of 100,000 znodes needs two each; beyond, the connection is closed.",
    )
    watch_limit_bytes: int = setting(
        "watchLimitBytes",
        128 * _MIB,
        BYTES,
        "bytes",
        "Ours. Watches of one connection, 400 each and their paths; beyond, it is closed.",
    )
    total_watch_limit_bytes: int = setting(
        "totalWatchLimitBytes",
        2048 * _MIB,
        BYTES,
        "bytes",
        "Ours. Watches of all connections; beyond, those with most are closed.",
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
