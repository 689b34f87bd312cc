"""Whole subtrees, in few requests: listing, deletion, ACLs.

None of this is atomic: znodes that are created or deleted meanwhile may be left out. A znode that was deleted is no
error. A child created below a znode that is to be deleted is NOTEMPTY.

One request lists many znodes, as long as the answer is not larger than a server allows.
"""

from collections.abc import Callable, Sequence
from typing import Final

from datatree.paths import RESERVED
from zab.client import Acl, BadArgumentsError, Client, GetChildren, NoAuthError, NoNodeError, RequestError

__all__ = ["DELETE_BATCH_COUNT", "child_path", "delete_subtree", "set_subtree_acl", "walk"]

# As many as ZooKeeper's shell deletes in one transaction.
DELETE_BATCH_COUNT: Final = 1_000
_READ_BATCH_COUNT: Final = 100


def child_path(parent: str, name: str) -> str:
    return f"/{name}" if parent == "/" else f"{parent}/{name}"


async def walk(zk: Client, path: str, unreadable: list[NoAuthError] | None = None) -> list[str]:
    """The paths of the subtree, every znode before its children, level by level. NoNodeError when there is none.

    unreadable: gets the errors of znodes below `path` whose children may not be listed. Without it the first is raised.
    """
    found, level = [path], [path]
    while level:
        below: list[str] = []
        for at in range(0, len(level), _READ_BATCH_COUNT):
            batch = level[at : at + _READ_BATCH_COUNT]
            for parent, names in zip(batch, await _list(zk, batch), strict=True):
                if not isinstance(names, RequestError):
                    below += [child_path(parent, name) for name in names]
                elif isinstance(names, NoAuthError) and parent != path and unreadable is not None:
                    unreadable.append(names)
                elif not isinstance(names, NoNodeError) or parent == path:
                    raise names
        found += below
        level = below
    return found


async def _list(zk: Client, paths: Sequence[str]) -> list[list[str] | RequestError]:
    """The names of the children of each znode."""
    try:
        if len(paths) == 1:
            return [await zk.get_children(paths[0])]
        listed: list[list[str] | RequestError] = await zk.multi_read([GetChildren(path) for path in paths])
    except BadArgumentsError:
        # More than fits in one answer.
        if len(paths) == 1:
            raise
        half = len(paths) // 2
        return await _list(zk, paths[:half]) + await _list(zk, paths[half:])
    except (NoNodeError, NoAuthError) as error:
        return [error]
    for each in listed:
        if isinstance(each, RequestError):
            # Which part of our request failed does not matter to the caller.
            each.index = None
    return listed


async def delete_subtree(
    zk: Client, path: str, batch_count: int = DELETE_BATCH_COUNT, tell: Callable[[int], None] = lambda _: None
) -> int:
    """Deletes the znode and its descendants, the deepest first; returns how many there were. tell: called with how many
    are deleted, after each batch."""
    if path.encode() in RESERVED:
        raise BadArgumentsError(path, detail="it is reserved: it is in every tree and cannot be deleted")
    paths = await walk(zk, path)
    paths.reverse()
    for at in range(0, len(paths), batch_count):
        batch = paths[at : at + batch_count]
        transaction = zk.transaction()
        for victim in batch:
            transaction.delete(victim)
        try:
            await transaction.commit()
        except NoNodeError:
            # Another client deleted one of them, so the whole batch was refused: delete one at a time.
            for victim in batch:
                await _delete_if_there(zk, victim)
        tell(len(batch))
    return len(paths)


async def _delete_if_there(zk: Client, path: str) -> None:
    try:
        await zk.delete(path)
    except NoNodeError:
        return


async def set_subtree_acl(zk: Client, path: str, acl: tuple[Acl, ...], version: int) -> int:
    """Sets the ACL of all; returns how many znodes have it now."""
    count = 0
    for below in await walk(zk, path):
        try:
            await zk.set_acl(below, acl, version)
            count += 1
        except NoNodeError:
            if below == path:
                raise
    return count
