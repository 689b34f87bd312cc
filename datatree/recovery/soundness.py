"""Whether a state from elsewhere is acceptable: checks what transactions rely on and a snapshot file does not
guarantee.

    unsound(tree)    why not, or None

Anybody can make a snapshot with valid checksums. `DataTree.finish` has checked parents and numbers of children. This
checks what every transaction since the first has preserved: without it, a later transaction, which can no longer be
refused, would find something other than what it was prepared for, and fail an assertion on each member, at each start.

Limits: `PATH_BYTES_MAX` for the paths that one transaction names.

Not here: the files (`datatree.snapshot`), and whether there is an epoch left (`datatree.recovery.restoring`).
"""

from typing import Final

from datatree.paths import RESERVED, is_valid
from datatree.quota import is_stats
from datatree.tree import DataTree
from datatree.znode import HEAD, STAT_AT, STAT_LAYOUT, is_ephemeral, visible_cversion, visible_owner

__all__ = ["PATH_BYTES_MAX", "unsound"]

PATH_BYTES_MAX: Final = 16 << 20
"""The most bytes of a znode's path, and of the paths of all ephemerals of a session, with four added to each: the end
of a session lists them all in one batch, and members accept batches of twice that."""
_SHOWN_BYTES: Final = 100


def unsound(tree: DataTree) -> str | None:
    """The first thing that no sequence of transactions could have produced."""
    return _of_sessions(tree) or _of_znodes(tree)


def _of_sessions(tree: DataTree) -> str | None:
    for session, timeout_ms in tree.sessions.items():
        if session == 0 or timeout_ms < 0:
            return f"session {session:#x} with a timeout of {timeout_ms} ms"
    for session, paths in tree.ephemerals.items():
        if session not in tree.sessions:
            return f"it has ephemerals of session {session:#x}, but not the session"
        if sum(map(len, paths)) + 4 * len(paths) > PATH_BYTES_MAX:
            return f"the paths of the ephemerals of session {session:#x} are too long for its end"
    return None


def _of_znodes(tree: DataTree) -> str | None:
    children = tree.children
    for shard in tree.shards:
        for path, znode in shard.items():
            if len(path) > PATH_BYTES_MAX or not is_valid(path):
                return f"{_shown(path)} is no path"
            _, owner, cversion, _, _ = HEAD.unpack_from(znode)
            czxid, mzxid, _, _, _, shown_cversion, _, shown_owner, length, children_count, pzxid = (
                STAT_LAYOUT.unpack_from(znode, STAT_AT)
            )
            if max(czxid, mzxid, pzxid) > tree.applied:
                return f"{_shown(path)} has a zxid after that of the snapshot"
            if owner:
                if path in RESERVED:
                    return f"{_shown(path)}, which stays, is an ephemeral, a container, or has a TTL"
                if path in children and is_ephemeral(owner):
                    return f"{_shown(path)} is an ephemeral, and has children"
            data = tree.data_of(path, znode)
            if (
                shown_owner != visible_owner(owner)
                or shown_cversion != visible_cversion(cversion, children_count)
                or (length != len(data or b"") and not is_stats(path))
            ):
                return f"the stat of {_shown(path)} is not that of the znode"
    return None


def _shown(path: bytes) -> str:
    return repr(path) if len(path) <= _SHOWN_BYTES else f"{path[:_SHOWN_BYTES]!r}…"
