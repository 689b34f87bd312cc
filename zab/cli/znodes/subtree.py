"""Whole subtrees, in few requests: listing, deletion, ACLs.

None of this is one atomic step: znodes that appear or vanish meanwhile may be left out. A znode that vanished is no
error. A child that appeared below a znode to be deleted is NOTEMPTY.
"""

from typing import Any, Final

from zab.client import Acl, BadArgumentsError, Client, GetChildren, NoNodeError, RequestError

__all__ = ["DELETE_BATCH_COUNT", "child_path", "delete_subtree", "set_subtree_acl", "walk"]

# As many as ZooKeeper's shell deletes in one transaction.
DELETE_BATCH_COUNT: Final = 1_000
_READ_BATCH_COUNT: Final = 100
_KEPT: Final = frozenset({"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"})


def child_path(parent: str, name: str) -> str:
    return f"/{name}" if parent == "/" else f"{parent}/{name}"


async def walk(zk: Client, path: str) -> list[str]:
    """The paths of the subtree, every znode before its children, level by level. NoNodeError when there is none."""
    found, level = [path], [path]
    while level:
        below: list[str] = []
        for at in range(0, len(level), _READ_BATCH_COUNT):
            batch = level[at : at + _READ_BATCH_COUNT]
            for parent, names in zip(batch, await zk.multi_read([GetChildren(p) for p in batch]), strict=True):
                if isinstance(names, NoNodeError) and parent != path:
                    continue
                below += [child_path(parent, name) for name in _value(names, parent)]
        found += below
        level = below
    return found


def _value(result: Any, path: str) -> Any:
    if isinstance(result, RequestError):
        raise type(result)(path)
    return result


async def delete_subtree(zk: Client, path: str, batch_count: int = DELETE_BATCH_COUNT) -> int:
    """Deletes the znode and all below it, the deepest first; returns how many there were."""
    if path in _KEPT:
        raise BadArgumentsError(path, detail="this znode is in every tree and cannot be deleted")
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
            # Somebody else deleted one of them, so nothing of this batch was done: one at a time, then.
            for victim in batch:
                await _delete_if_there(zk, victim)
    return len(paths)


async def _delete_if_there(zk: Client, path: str) -> None:
    try:
        await zk.delete(path)
    except NoNodeError:
        return


async def set_subtree_acl(zk: Client, path: str, acl: tuple[Acl, ...], version: int) -> None:
    for below in await walk(zk, path):
        try:
            await zk.set_acl(below, acl, version)
        except NoNodeError:
            if below == path:
                raise
