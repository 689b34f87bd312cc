"""BADVERSION on the command line names the requested version, and the one that the znode has."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from zab.client import BadVersionError, Client, RequestError

__all__ = ["names_versions"]


@asynccontextmanager
async def names_versions(zk: Client, path: str, version: int, *, of_acl: bool = False) -> AsyncIterator[None]:
    """Wraps a change of `path` that requires `version`, of the data or of the ACL."""
    try:
        yield
    except BadVersionError:
        what = "version of the ACL" if of_acl else "version"
        found = await _version(zk, path, of_acl=of_acl)
        now = "" if found is None else f", and it has {found}"
        raise BadVersionError(path, detail=f"{what} {version} was asked for{now}") from None


async def _version(zk: Client, path: str, *, of_acl: bool) -> int | None:
    """The current version; None if the znode is gone, or may not be read."""
    try:
        stat = await zk.exists(path)
    except RequestError:
        return None
    if stat is None:
        return None
    return stat.aversion if of_acl else stat.version
