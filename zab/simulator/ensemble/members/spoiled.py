"""A tree that is made wrong on purpose, as by a bit flip in memory: consistent in itself, with a different digest.

The change is in a time of a stat that no client asks for, so that no client gets a wrong answer before the digests are
compared, which is the only way to notice.
"""

from __future__ import annotations

from functools import partial
from typing import Final
from zlib import crc32

from datatree.digest import MASK, part
from datatree.snapshot import SnapshotError, load_snapshot, snapshot_files, snapshot_path
from datatree.tree import DataTree
from datatree.znode import DATA_AT, HEAD, HEAD_AND_STAT, NULL, STAT_AT, STAT_LAYOUT
from zab.simulator.world.disk import FaultyDisk

PATH: Final = b"/zookeeper"
_MTIME: Final = 3
_WRONG: Final = 1


def spoil(tree: DataTree) -> int:
    """Make the tree wrong; returns the difference of its digest, modulo 2**64. No cursor may be open."""
    assert tree.cursor is None
    assert not is_spoiled(tree)
    shard = tree.shards[crc32(PATH) & 4095]
    before: int
    znode = shard[PATH]
    acl_id, owner, cversion, before, kind = HEAD.unpack_from(znode)
    fields = list(STAT_LAYOUT.unpack_from(znode, STAT_AT))
    fields[_MTIME] = _WRONG
    wrong = STAT_LAYOUT.pack(*fields)
    after = part(before >> 32, wrong, owner, tree.acls.checksums[acl_id], kind == NULL)
    shard[PATH] = HEAD_AND_STAT.pack(acl_id, owner, cversion, after, kind, wrong) + znode[DATA_AT:]
    tree.digest = (tree.digest + after - before) & MASK
    return (after - before) & MASK


def is_spoiled(tree: DataTree) -> bool:
    """Whether this tree is spoiled, or was made from a spoiled one."""
    znode = tree.get(PATH)
    return znode is not None and STAT_LAYOUT.unpack_from(znode, STAT_AT)[_MTIME] == _WRONG


def is_spoiled_on_disk(disk: FaultyDisk) -> bool:
    """Whether a snapshot on this disk has a spoiled tree. Reads a copy, so the disk is not affected."""
    copied = FaultyDisk()
    copied.restore(disk.image())
    return any(map(partial(_is_spoiled_snapshot, copied), snapshot_files(copied)))


def _is_spoiled_snapshot(disk: FaultyDisk, zxid: int) -> bool:
    try:
        return is_spoiled(load_snapshot(disk, snapshot_path(zxid))[1])
    except SnapshotError:
        return False
