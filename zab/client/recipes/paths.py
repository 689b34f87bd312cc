"""Where a recipe lives: a path that is checked when the recipe is made, so that nothing malformed reaches a job."""

from zab.client.client import Client

__all__ = ["checked"]


def checked(zk: Client, path: str) -> str:
    """The path, as it stands before the slash of a child: the root is "". Raises BadArgumentsError."""
    if not isinstance(zk, Client):
        raise TypeError(f"a recipe of zab.client.recipes takes a client that is awaited, not of {type(zk).__module__}")
    zk.operations.exists(path, None)
    return "" if path == "/" else path
