"""The columns of the pipeline's rows: transactions, znodes and sessions of snapshots, damage, records of topics.

One table for each kind of row says name, type and meaning; the types for Arrow and for Spark are derived from it, and
`docs/reference/pipeline.md` shows it. All columns may be null, as Spark's Python data sources demand.
"""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
from attrs import frozen

__all__ = ["DAMAGE", "LOG", "SESSIONS", "STREAMED", "TOPIC", "ZNODES", "Column", "arrow_schema", "ddl"]

_DDL: Final = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<string>": pa.list_(pa.field("element", pa.string())),
    "array<struct<key:string,value:binary>>": pa.list_(
        pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    ),
}


@frozen
class Column:
    """A column. `type` is Spark's name for it."""

    name: str
    type: str
    meaning: str

    @property
    def arrow(self) -> pa.DataType:
        return _DDL[self.type]


LOG: Final = (
    Column("ensemble", "string", "name given with the directory, else the lineage id, else the directory's name"),
    Column("member", "string", "server id, else the directory's name"),
    Column("segment", "string", "name of the log file"),
    Column("position", "bigint", "offset of the record in the file; parts of a multi share it"),
    Column("zxid", "bigint", "epoch in the upper half, counter in the lower"),
    Column("epoch", "int", "upper half of the zxid"),
    Column("counter", "bigint", "lower half of the zxid"),
    Column("time", "timestamp", "the leader's clock when it made the transaction, to the millisecond"),
    Column("session", "bigint", "id of the session that asked"),
    Column("cxid", "int", "number of the request within its session"),
    Column("type", "int", "ZooKeeper's opcode: 1 create, 2 delete, 5 setData, ...; of the part, for parts of a multi"),
    Column("operation", "string", "the opcode's name"),
    Column("part", "int", "index within a multi, from 0; null for a plain transaction and for an empty multi"),
    Column("path", "string", "null where the operation has none"),
    Column("data", "binary", "value written by create and setData; null is not the same as empty"),
    Column("version", "int", "new version (setData, setACL), version checked (check), parent's cversion (create)"),
    Column("acl", "string", "scheme:id:permissions, comma between entries; of create and setACL"),
    Column("owner", "bigint", "of a create: 0 persistent, session of an ephemeral, container constant or TTL value"),
    Column("timeout", "int", "of createSession, ms"),
    Column("error", "int", "code of a refused write, negative, -2 of a part refused for another one; 0 otherwise"),
    Column("paths", "array<string>", "of closeSession: the ephemerals that it deleted"),
    Column("checksum", "bigint", "as stored: CRC-32 of its batch (native), Adler-32 of the entry (version-2)"),
)

ZNODES: Final = (
    Column("ensemble", "string", "as in the log"),
    Column("member", "string", "as in the log"),
    Column("snapshot", "string", "name of the snapshot file"),
    Column("zxid", "bigint", "of the snapshot: exact for native ones, where its writing began for version-2"),
    Column("path", "string", "of the znode"),
    Column("data", "binary", "null is not the same as empty"),
    Column("czxid", "bigint", "transaction that created it"),
    Column("mzxid", "bigint", "transaction that last set its data"),
    Column("pzxid", "bigint", "transaction that last created or deleted a child"),
    Column("ctime", "timestamp", "when it was created"),
    Column("mtime", "timestamp", "when its data was last set"),
    Column("version", "int", "count of changes of data"),
    Column("cversion", "int", "count of changes of children, as clients see it"),
    Column("children_created", "int", "count of children ever created: the counter of sequence numbers"),
    Column("aversion", "int", "count of changes of the ACL"),
    Column("owner", "bigint", "as stored: 0, session, container constant or TTL value"),
    Column("acl", "string", "as in the log"),
    Column("num_children", "int", "count of children"),
)

SESSIONS: Final = (
    Column("ensemble", "string", "as in the log"),
    Column("member", "string", "as in the log"),
    Column("snapshot", "string", "name of the snapshot file"),
    Column("zxid", "bigint", "of the snapshot"),
    Column("session", "bigint", "id"),
    Column("timeout", "int", "ms"),
)

DAMAGE: Final = (
    Column("ensemble", "string", "as in the log"),
    Column("member", "string", "as in the log"),
    Column("file", "string", "whole path or URI"),
    Column("offset", "bigint", "of the first bad byte"),
    Column("end", "bigint", "where reading goes on after the bad stretch; null when nothing after it can be read"),
    Column("kind", "string", "torn, damaged, gap, foreign or unreadable"),
    Column("reason", "string", "a sentence"),
)


TOPIC: Final = (
    Column("key", "binary", "null is not the same as empty"),
    Column("value", "binary", "null: a tombstone"),
    Column("topic", "string", "name of the topic"),
    Column("partition", "int", "number within the topic"),
    Column("offset", "bigint", "position within the partition"),
    Column("timestamp", "timestamp", "of the producer, or of the append, to the millisecond"),
    Column("timestampType", "int", "0: of the producer, 1: of the append"),
    Column("headers", "array<struct<key:string,value:binary>>", "in their order; empty if there are none"),
    Column("leader_epoch", "int", "of the leader that appended it"),
    Column("producer_id", "bigint", "of an idempotent or transactional producer; null of any other"),
    Column("producer_epoch", "int", "of such a producer"),
    Column("sequence", "int", "number of the record by such a producer"),
    Column("transactional", "boolean", "whether it belongs to a transaction"),
    Column("aborted", "boolean", "whether its transaction was aborted; null while that is open"),
    Column("broker", "string", "whose replica it was read from: broker id, else the log directory's name"),
    Column("segment", "string", "name of the log file"),
    Column("position", "bigint", "offset of its batch in the file"),
)
STREAMED: Final = TOPIC[:8]
"""The columns of a stream from brokers: those of Spark's own source."""

LEDGER: Final = (
    Column("ledger", "bigint", "id of the ledger"),
    Column("entry", "bigint", "number within the ledger"),
    Column("last_confirmed", "bigint", "the last entry that the writer knew to be confirmed; -1: none"),
    Column("length", "bigint", "payload bytes of the ledger up to this entry, with it"),
    Column("payload", "binary", "null if the digest type of the ledger is not known"),
    Column("digest_ok", "boolean", "whether the digest is right; null if type and password are not known"),
    Column(
        "bookie", "string", "whose copy it is: bookie id, else the directory's name; null: it is in an object store"
    ),
    Column("stored", "string", "segment or journal of a bookie, or object"),
    Column("file", "string", "whole path or URI"),
    Column("position", "bigint", "offset of the envelope in the file"),
    Column("envelope", "binary", "the entry as it is stored: header, digest, payload"),
)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The Arrow schema that Spark checks the first record batch of a data source against."""
    return pa.schema([pa.field(column.name, column.arrow) for column in columns])


def ddl(columns: Iterable[Column]) -> str:
    """The columns as Spark's `schema()` takes them."""
    return ", ".join(f"{column.name} {column.type}" for column in columns)
