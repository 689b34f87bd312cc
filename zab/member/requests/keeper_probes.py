"""Answers ClickHouse's probes for ClickHouse Keeper's operations (`zab.jute.keeper_features`).

Only features that behave as in Keeper are announced. `keeperExtensionsEnabled` shows them; each member answers for
itself.
"""

from __future__ import annotations

from typing import Final

from datatree.tree import DataTree
from zab.jute.keeper_features import (
    API_VERSION,
    API_VERSION_PATH,
    FLAGS_PATH,
    KEEPER_PATH,
    KeeperFeature,
    flags_of,
)

__all__ = ["FEATURES", "show_features"]

FEATURES: Final = frozenset(KeeperFeature) - {
    KeeperFeature.MULTI_WATCHES,
    KeeperFeature.PERSISTENT_WATCHES,
    KeeperFeature.CREATE_WITH_STATS,
}


def show_features(tree: DataTree) -> None:
    """Show the features to readers of the tree."""
    tree.tell(KEEPER_PATH, b"", children_count=2)
    tree.tell(API_VERSION_PATH, API_VERSION)
    tree.tell(FLAGS_PATH, flags_of(FEATURES))
