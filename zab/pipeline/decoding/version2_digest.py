"""The digest of znodes in columns as ZooKeeper computes it (`datatree.zookeeper.state`).

Not here: our own digest (`zab.pipeline.state.znode_entries`).
"""

from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datatree.zookeeper.state import RESERVED
from zab.pipeline.decoding.slices import pieces
from zab.pipeline.decoding.znode_layouts import DIGESTED

__all__ = ["digest_of"]


def digest_of(paths: pa.BinaryArray, contents: pa.BinaryArray, numbers: NDArray[Any]) -> int:
    """The sum of the znodes' parts, not truncated. Paths are as in the file, empty for the root; contents that are
    null are empty. `numbers` are records that have at least the fields of `DIGESTED`."""
    is_counted = pc.invert(pc.starts_with(paths, RESERVED))
    ordered = np.empty(len(numbers), DIGESTED)
    for name in DIGESTED.names or ():
        ordered[name] = numbers[name]
    values = pc.binary_join_element_wise(paths, contents, b"").filter(is_counted).to_pylist()
    stats = pieces(ordered[is_counted.to_numpy(zero_copy_only=False)])
    return sum(map(crc32, stats, map(crc32, values)))
