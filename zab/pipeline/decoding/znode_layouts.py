"""The fixed part of a znode in snapshot files, as records of numpy, for reading and for writing."""

from typing import Final

import numpy as np

from datatree.snapshot_entries import ZNODE_BYTES
from datatree.zookeeper.snapshot import STAT_ENTRY_BYTES
from datatree.zookeeper.state import DIGESTED_BYTES

__all__ = ["DIGESTED", "NATIVE_ZNODE", "ZOOKEEPER_STAT"]

NATIVE_ZNODE: Final = np.dtype(
    [
        ("kind", "u1"), ("path_length", ">u4"), ("data_length", ">i4"), ("acl", ">u4"), ("owner", ">i8"),
        ("children_created", ">i4"),
        ("czxid", ">i8"), ("mzxid", ">i8"), ("ctime", ">i8"), ("mtime", ">i8"), ("version", ">i4"), ("cversion", ">i4"),
        ("aversion", ">i4"), ("visible_owner", ">i8"), ("length", ">i4"), ("num_children", ">i4"), ("pzxid", ">i8"),
    ]
)  # fmt: skip
"""In native files: before path and data. The last eleven fields are the stat that a client sees (`datatree.znode`)."""
ZOOKEEPER_STAT: Final = np.dtype(
    [
        ("acl", ">i8"), ("czxid", ">i8"), ("mzxid", ">i8"), ("ctime", ">i8"), ("mtime", ">i8"), ("version", ">i4"),
        ("children_created", ">i4"), ("aversion", ">i4"), ("owner", ">i8"), ("pzxid", ">i8"),
    ]
)  # fmt: skip
"""In ZooKeeper's files: after path and data."""
DIGESTED: Final = np.dtype(
    [
        ("czxid", ">i8"), ("mzxid", ">i8"), ("pzxid", ">i8"), ("ctime", ">i8"), ("mtime", ">i8"), ("version", ">i4"),
        ("children_created", ">i4"), ("aversion", ">i4"), ("owner", ">i8"),
    ]
)  # fmt: skip
"""What ZooKeeper's digest covers of a znode after path and data (`datatree.zookeeper.state`)."""

assert NATIVE_ZNODE.itemsize == ZNODE_BYTES
assert ZOOKEEPER_STAT.itemsize == STAT_ENTRY_BYTES
assert DIGESTED.itemsize == DIGESTED_BYTES
