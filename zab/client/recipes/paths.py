"""The path of a recipe, checked when the recipe is made, so that no job gets a malformed one."""

from zab.client.client import Client

__all__ = ["checked"]


def checked(zk: Client, path: str) -> str:
    """The path to which a child's slash and name are appended: the root is "". Raises BadArgumentsError."""
    if not isinstance(zk, Client):
        raise TypeError(f"a recipe of zab.client.recipes takes a client that is awaited, not of {type(zk).__module__}")
    zk.operations.exists(path, None)
    return "" if path == "/" else path
