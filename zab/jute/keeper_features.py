"""ClickHouse Keeper's features, as servers publish them and clients read them, in two virtual znodes that are in no
tree.

    /keeper/api_version     "3": the oldest clients take that for FILTERED_LIST, MULTI_READ and CHECK_NOT_EXISTS
    /keeper/feature_flags   a bit for each feature, by its number; the first one is the highest of the first byte

A server without the znode has none of the features. Missing bytes are zeros; unknown bits are ignored.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

__all__ = [
    "API_VERSION",
    "API_VERSION_PATH",
    "FLAGS_PATH",
    "KEEPER_PATH",
    "TOLD_PATHS",
    "KeeperFeature",
    "features_of",
    "flags_of",
]

KEEPER_PATH: Final = b"/keeper"
API_VERSION_PATH: Final = KEEPER_PATH + b"/api_version"
FLAGS_PATH: Final = KEEPER_PATH + b"/feature_flags"
TOLD_PATHS: Final = (FLAGS_PATH, API_VERSION_PATH)
"""ClickHouse reads one of them on each new connection, before its first request: old clients only read the version."""
API_VERSION: Final = b"3"


class KeeperFeature(IntEnum):
    """What a server may support beyond ZooKeeper's operations."""

    FILTERED_LIST = 0
    MULTI_READ = 1
    CHECK_NOT_EXISTS = 2
    CREATE_IF_NOT_EXISTS = 3
    REMOVE_RECURSIVE = 4
    MULTI_WATCHES = 5
    CHECK_STAT = 6
    PERSISTENT_WATCHES = 7
    CREATE_WITH_STATS = 8
    TRY_REMOVE = 9
    LIST_WITH_STAT_AND_DATA = 10


_BYTES: Final = max(KeeperFeature) // 8 + 1


def flags_of(features: Iterable[KeeperFeature]) -> bytes:
    """What a server with these features publishes."""
    bits = sum(1 << (8 * _BYTES - 1 - feature) for feature in features)
    return bits.to_bytes(_BYTES, "big")


def features_of(flags: bytes) -> frozenset[KeeperFeature]:
    """The features of a server that publishes this."""
    return frozenset(
        feature
        for feature in KeeperFeature
        if feature // 8 < len(flags) and flags[feature // 8] & (0x80 >> feature % 8)
    )
