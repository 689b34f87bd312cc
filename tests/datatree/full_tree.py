"""A tree that has everything that a snapshot can hold."""

from datatree.tree import DataTree
from datatree.znode import ACL_ID


def everything(tree: DataTree) -> dict[bytes, object]:
    """All state of a tree, with lists in the place of their ids."""
    znodes = {path: (tree.acl(znode), znode[ACL_ID.size :]) for shard in tree.shards for path, znode in shard.items()}
    return {
        "znodes": znodes,
        "large": tree.large,
        "sessions": tree.sessions,
        "children": {path: set(tree.child_names(path)) for path in znodes},
        "ephemerals": tree.ephemerals,
        "containers": tree.containers,
        "ttls": tree.ttls,
        "counts": (tree.applied, tree.digest, tree.znode_count, tree.data_bytes, tree.path_bytes, len(tree.acls)),
    }
