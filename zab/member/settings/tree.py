"""Which kinds of znodes there are, and what becomes of them."""

from __future__ import annotations

from attrs import frozen

from zab.configuration.fields import BOOLEAN, COUNT, COUNT_OR_0, setting


@frozen(kw_only=True)
class TreeSettings:
    """Types of znodes, quotas and containers."""

    extended_types_enabled: bool = setting(
        "extendedTypesEnabled",
        False,
        BOOLEAN,
        "true/false",
        "Znodes with a time to live, as in ZooKeeper off: older servers cannot read them.",
    )
    create_if_not_exists_enabled: bool = setting(
        "createIfNotExistsEnabled",
        False,
        BOOLEAN,
        "true/false",
        "Ours. ClickHouse Keeper's createIfNotExists (502); off, it is an unknown opcode, as ZooKeeper has it.",
    )
    keeper_extensions_enabled: bool = setting(
        "keeperExtensionsEnabled",
        False,
        BOOLEAN,
        "true/false",
        "Ours. ClickHouse Keeper's operations 500 to 507, and what it tells of them at /keeper.",
    )
    sequence_64_enabled: bool = setting(
        "sequence64Enabled",
        False,
        BOOLEAN,
        "true/false",
        "Ours. Sequence numbers go on with 19 digits when those of 32 bits have ended; off, negative, as in ZooKeeper.",
    )
    enforce_quota: bool = setting(
        "enforceQuota", False, BOOLEAN, "true/false", "Hard quotas refuse writes; without it no quota does."
    )
    container_check_interval_ms: int = setting(
        "znode.container.checkIntervalMs",
        60_000,
        COUNT,
        "ms",
        "How often empty containers and expired znodes are looked for.",
    )
    container_max_per_minute: int = setting(
        "znode.container.maxPerMinute", 10_000, COUNT, "deletes a minute", "Spreads a large clean-up."
    )
    container_never_used_ms: int = setting(
        "znode.container.maxNeverUsedIntervalMs",
        0,
        COUNT_OR_0,
        "ms",
        "Containers that never had a child go after this; 0 is never.",
    )
