"""Variants of a member that break a promise."""

from __future__ import annotations

from typing import Any

import pytest

from datatree.tree import DataTree
from zab.protocol import confirmation

Patch = pytest.MonkeyPatch


def sync_without_asking_the_quorum(patch: Patch) -> None:
    patch.setattr(confirmation, "is_confirmed", lambda peer, leading, number: True)


def apply_twice(patch: Patch) -> None:
    """What was applied before a restart is applied again: versions grow once more."""
    apply = DataTree.apply

    def again(tree: DataTree, txn: Any, *how: bool) -> Any:
        outcome = apply(tree, txn, *how)
        zxid, time, session, cxid, kind, number, path, data, rest = txn
        if kind == 5 and zxid % 16 == 0:
            tree.applied -= 1
            outcome = apply(tree, (zxid, time, session, cxid, kind, number + 1, path, data, rest), *how)
        return outcome

    patch.setattr(DataTree, "apply", again)
