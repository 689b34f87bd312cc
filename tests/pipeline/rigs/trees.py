"""States that the pipeline put together in columns, as trees that can be compared with others, and the other way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from datatree.zookeeper.snapshot import SnapshotZnode
from datatree.zookeeper.state import ZooKeeperState
from zab.pipeline.decoding.acl_text import acl_text, parse_acl_text
from zab.pipeline.state import local_state as in_columns
from zab.pipeline.state.moment import Moment
from zab.pipeline.state.snapshot_output import State
from zab.pipeline.state.znode_rows import ZNODE_SCHEMA

__all__ = ["as_batches", "as_state", "as_znodes", "local_state"]

_TIMES = ("ctime", "mtime")
_BEGAN = datetime(1970, 1, 1, tzinfo=UTC)


def as_znodes(batch: pa.RecordBatch) -> Iterator[SnapshotZnode]:
    """The znodes of a batch that has at least the columns of ZNODE_SCHEMA."""
    for row in batch.select(ZNODE_SCHEMA.names).to_pylist():
        for name in _TIMES:
            row[name] = (row[name] - _BEGAN) // timedelta(milliseconds=1)
        cversion = row.pop("children_created")
        yield SnapshotZnode(
            **{**row, "path": row["path"].encode(), "acl": parse_acl_text(row["acl"]), "cversion": cversion}
        )


def as_batches(znodes: Iterable[SnapshotZnode], rows_max: int = 100) -> list[pa.RecordBatch]:
    """Rows of ZNODE_SCHEMA, in their order."""
    rows = [_row(znode) for znode in znodes]
    return [pa.RecordBatch.from_pylist(rows[at : at + rows_max], ZNODE_SCHEMA) for at in range(0, len(rows), rows_max)]


def _row(znode: SnapshotZnode) -> dict[str, Any]:
    names = ("data", "czxid", "mzxid", "version", "aversion", "owner", "pzxid")
    return {
        "path": znode.path.decode(),
        "acl": acl_text(znode.acl),
        "children_created": znode.cversion,
        **{name: getattr(znode, name) for name in names},
        **{name: _BEGAN + timedelta(milliseconds=getattr(znode, name)) for name in _TIMES},
    }


def as_state(zxid: int, sessions: dict[int, int], znodes: Iterable[SnapshotZnode], *, rows_max: int = 100) -> State:
    """A state of these znodes, which go by rising path."""
    held = as_batches(znodes, rows_max)
    return State(zxid, sessions, lambda: held)


def local_state(moment: Moment) -> ZooKeeperState:
    found = in_columns.local_state(moment)
    znodes = (znode for batch in found.batches for znode in as_znodes(batch))
    return ZooKeeperState.build(znodes, found.sessions, found.zxid)
