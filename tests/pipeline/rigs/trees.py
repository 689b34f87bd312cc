"""States that the pipeline put together in columns, as trees that can be compared with others."""

from __future__ import annotations

from datatree.zookeeper.state import ZooKeeperState
from zab.pipeline.state import local_state as in_columns
from zab.pipeline.state.moment import Moment
from zab.pipeline.state.znode_rows import as_znodes

__all__ = ["local_state"]


def local_state(moment: Moment) -> ZooKeeperState:
    found = in_columns.local_state(moment)
    znodes = (znode for batch in found.batches for znode in as_znodes(batch))
    return ZooKeeperState.build(znodes, found.sessions, found.zxid)
