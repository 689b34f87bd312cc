"""Where a recipe lives: a path that is checked when the recipe is made, so that nothing malformed reaches a chore."""

from zab.client.client import Client

__all__ = ["checked"]


def checked(zk: Client, path: str) -> str:
    """The path, as it stands before the slash of a child: the root is "". Raises BadArgumentsError."""
    zk.operations.exists(path, None)
    return "" if path == "/" else path
