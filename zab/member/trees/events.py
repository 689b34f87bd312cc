"""Effects that give a member the right tree, and their answers."""

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
    """`RebuildTree` is done: the tree at its end, and its digest at the requested position."""

    rebuild: RebuildTree
    tree: DataTree
    digest: int


@attrs.define
class RebuildFailed:
    """No file leads to the requested tree; the reason for each."""

    rebuild: RebuildTree
    reason: str


@attrs.define
class RebuildTree:
    """Make the tree at `until` again, from `start`, or from this member's own files, so that it had this digest at
    `zxid`; None: any digest (`datatree.recovery.rebuild`). Answer with `TreeRebuilt` or `RebuildFailed`.

    Snapshots that lead to another digest are set aside.
    """

    zxid: Zxid
    digest: int | None
    until: Zxid
    start: Start | None = None


@attrs.define
class KeepSnapshot:
    """Keep the file of `FetchTree` as a snapshot of this member, since it leads to the right tree. Has no answer."""

    header: SnapshotHeader


TreeEffect: TypeAlias = RebuildTree | KeepSnapshot | FetchTree | ChooseSnapshot | TakeSnapshot
"""All effects for trees."""
