"""What ClickHouse asks a server before it uses ClickHouse Keeper's operations: two znodes that no tree holds.

    /keeper/api_version     "3": the oldest clients take that for FILTERED_LIST, MULTI_READ and CHECK_NOT_EXISTS
    /keeper/feature_flags   a bit for each feature; the first one is the highest of the first byte

Only what is done as Keeper does it has its bit. `keeperExtensionsEnabled` shows them; each member tells of itself.
"""

from __future__ import annotations

from typing import Final

from datatree.tree import DataTree

__all__ = ["FEATURES", "show_features"]

PATH: Final = b"/keeper"
API_VERSION: Final = b"3"
FEATURES: Final = {
    "FILTERED_LIST": 0,
    "MULTI_READ": 1,
    "CHECK_NOT_EXISTS": 2,
    "CREATE_IF_NOT_EXISTS": 3,
    "REMOVE_RECURSIVE": 4,
    "CHECK_STAT": 6,
    "TRY_REMOVE": 9,
    "LIST_WITH_STAT_AND_DATA": 10,
}
"""The number of each. Not there: MULTI_WATCHES 5, PERSISTENT_WATCHES 7,
CREATE_WITH_STATS 8."""
_BYTES: Final = 2


def show_features(tree: DataTree) -> None:
    """Readers of the tree find them there."""
    bits = sum(1 << (8 * _BYTES - 1 - number) for number in FEATURES.values())
    tree.tell(PATH, b"", children_count=2)
    tree.tell(PATH + b"/api_version", API_VERSION)
    tree.tell(PATH + b"/feature_flags", bits.to_bytes(_BYTES, "big"))
