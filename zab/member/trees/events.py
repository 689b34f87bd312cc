"""What a member wants done so that it has the right tree, and the answers."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from datatree.log.zxid import Zxid
from datatree.recovery.rebuild import Start
from datatree.snapshot import SnapshotHeader
from datatree.tree import DataTree
from zab.member.storage.events import ChooseSnapshot, FetchTree, TakeSnapshot


@attrs.define
class TreeRebuilt:
    """`RebuildTree` is done: the tree at its end, and the digest that it had at the position asked for."""

    rebuild: RebuildTree
    tree: DataTree
    digest: int


@attrs.define
class RebuildFailed:
    """No file leads to such a tree; why each one does not."""

    rebuild: RebuildTree
    reason: str


@attrs.define
class RebuildTree:
    """Make the tree at `until` anew, from `start`, or from this member's own files, so that it had this digest at
    `zxid`; None: whatever it had (`datatree.recovery.rebuild`). Answer with `TreeRebuilt` or `RebuildFailed`.

    Snapshots that lead to another digest are set aside.
    """

    zxid: Zxid
    digest: int | None
    until: Zxid
    start: Start | None = None


@attrs.define
class KeepSnapshot:
    """What `FetchTree` brought leads to the right tree: it is a snapshot of this member's now. Has no answer."""

    header: SnapshotHeader


TreeEffect: TypeAlias = RebuildTree | KeepSnapshot | FetchTree | ChooseSnapshot | TakeSnapshot
"""All that is wanted for trees."""
