"""Which kinds of znodes exist, and when they are removed."""

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
        "Whether znodes may have a time to live. Off as in ZooKeeper, since older servers cannot read them.",
    )
    create_if_not_exists_enabled: bool = setting(
        "createIfNotExistsEnabled",
        False,
        BOOLEAN,
        "true/false",
        "zab only. Whether ClickHouse Keeper's createIfNotExists (502) is executed. Off, the opcode is "
        "unknown, as in ZooKeeper.",
    )
    keeper_extensions_enabled: bool = setting(
        "keeperExtensionsEnabled",
        False,
        BOOLEAN,
        "true/false",
        "zab only. Whether ClickHouse Keeper's operations 500 to 507 are executed and announced at /keeper.",
    )
    sequence_64_enabled: bool = setting(
        "sequence64Enabled",
        False,
        BOOLEAN,
        "true/false",
        "zab only. Whether sequence numbers continue with 19 digits after 32 bits. Off, they become negative, "
        "as in ZooKeeper.",
    )
    enforce_quota: bool = setting("enforceQuota", False, BOOLEAN, "true/false", "Whether hard quotas refuse writes.")
    container_check_interval_ms: int = setting(
        "znode.container.checkIntervalMs",
        60_000,
        COUNT,
        "ms",
        "How often empty containers and expired znodes are looked for.",
    )
    container_max_per_minute: int = setting(
        "znode.container.maxPerMinute", 10_000, COUNT, "deletes a minute", "How many of them are deleted in a minute."
    )
    container_never_used_ms: int = setting(
        "znode.container.maxNeverUsedIntervalMs",
        0,
        COUNT_OR_0,
        "ms",
        "When a container that never had a child is deleted. 0: never.",
    )
