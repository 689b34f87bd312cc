"""Transactions as rows of a log, states as rows of snapshots: what the readers would make of them, without files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from datatree.opcodes import OpCode
from datatree.record import Txn
from datatree.znode import visible_cversion
from datatree.zookeeper.snapshot import SnapshotZnode
from zab.pipeline.decoding.acl_text import acl_text
from zab.pipeline.schema import LOG, SESSIONS, ZNODES, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CREATES = frozenset({OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL})
NAMES = {
    OpCode.CREATE: "create",
    OpCode.DELETE: "delete",
    OpCode.SET_DATA: "setData",
    OpCode.SET_ACL: "setACL",
    OpCode.CHECK: "check",
    OpCode.MULTI: "multi",
    OpCode.CREATE2: "create2",
    OpCode.RECONFIG: "reconfig",
    OpCode.CREATE_CONTAINER: "createContainer",
    OpCode.DELETE_CONTAINER: "deleteContainer",
    OpCode.CREATE_TTL: "createTTL",
    OpCode.CREATE_SESSION: "createSession",
    OpCode.CLOSE_SESSION: "closeSession",
    OpCode.ERROR: "error",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(time_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=time_ms)


def log_rows(txns: Iterable[Txn]) -> Iterator[dict[str, Any]]:
    """One for each transaction, or each part of a multi."""
    for txn in txns:
        parts: list[tuple[Any, ...]] = [(txn.type, txn.number, txn.path, txn.data, txn.rest)]
        if txn.type == OpCode.MULTI and txn.rest:
            parts = list(txn.rest)
        for number, (kind, version, path, data, rest) in enumerate(parts):
            row = dict.fromkeys(column.name for column in LOG)
            row |= {"ensemble": "e", "member": "1", "zxid": txn.zxid, "time": moment(txn.time), "session": txn.session}
            row |= {"epoch": txn.zxid >> 32, "counter": txn.zxid & 0xFFFFFFFF, "cxid": txn.cxid, "type": int(kind)}
            row |= {"operation": NAMES[OpCode(kind)], "path": path.decode() or None, "data": data, "error": 0}
            row["part"] = number if txn.type == OpCode.MULTI and txn.rest else None
            if kind in CREATES:
                row |= {"version": version, "acl": acl_text(rest[0]), "owner": rest[1]}
            elif kind == OpCode.SET_ACL:
                row |= {"version": version, "acl": acl_text(rest[0])}
            elif kind == OpCode.CREATE_SESSION:
                row["timeout"] = version
            elif kind == OpCode.CLOSE_SESSION:
                row["paths"] = [each.decode() for each in rest]
            elif kind == OpCode.ERROR:
                row["error"] = version
            else:
                row["version"] = version
            yield row


def znode_rows(znodes: Iterable[SnapshotZnode], zxid: int) -> Iterator[dict[str, Any]]:
    """The znodes of one snapshot."""
    held = list(znodes)
    counts: dict[bytes, int] = {}
    for znode in held:
        above = znode.path.rpartition(b"/")[0] or b"/"
        counts[above] = counts.get(above, 0) + (znode.path != b"/")
    for znode in held:
        count = counts.get(znode.path, 0)
        same = ("czxid", "mzxid", "pzxid", "version", "aversion", "owner", "data")
        yield {
            **{name: getattr(znode, name) for name in same},
            "ensemble": "e", "member": "1", "snapshot": f"snapshot.{zxid:x}", "zxid": zxid, "path": znode.path.decode(),
            "ctime": moment(znode.ctime), "mtime": moment(znode.mtime), "children_created": znode.cversion,
            "cversion": visible_cversion(znode.cversion, count), "num_children": count, "acl": acl_text(znode.acl),
        }  # fmt: skip


def frame(spark: SparkSession, rows: Iterable[dict[str, Any]], columns: tuple[Any, ...]) -> DataFrame:
    names = [column.name for column in columns]
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], ddl(columns))


def log_frame(spark: SparkSession, txns: Iterable[Txn]) -> DataFrame:
    return frame(spark, log_rows(txns), LOG)


def znode_frame(spark: SparkSession, znodes: Iterable[SnapshotZnode], zxid: int) -> DataFrame:
    return frame(spark, znode_rows(znodes, zxid), ZNODES)


def session_frame(spark: SparkSession, sessions: dict[int, int], zxid: int) -> DataFrame:
    rows = (
        {"ensemble": "e", "member": "1", "snapshot": None, "zxid": zxid, "session": session, "timeout": timeout}
        for session, timeout in sessions.items()
    )
    return frame(spark, rows, SESSIONS)
