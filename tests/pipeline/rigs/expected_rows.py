"""What the rows of a log have to be, made one by one from the transactions that datatree reads at the same places."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.record import Txn, decode
from datatree.zookeeper.log import decode_payload
from tests.pipeline.rigs.ensembles import NATIVE, Directories
from tests.pipeline.rigs.native_files import NativeLog
from zab.pipeline.decoding.acl_text import acl_text
from zab.pipeline.decoding.damage import Damage
from zab.pipeline.decoding.transactions import record_batches
from zab.pipeline.inventory import inventory
from zab.pipeline.reading.planning import Members, Range, plan, read_task
from zab.pipeline.schema import LOG

COLUMNS = tuple(column.name for column in LOG)
CREATES = frozenset({OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL})
VERSIONED = CREATES | {OpCode.SET_DATA, OpCode.SET_ACL, OpCode.CHECK, OpCode.RECONFIG}

Row = dict[str, Any]


class Fault(NamedTuple):
    """One row of damage."""

    member: str
    file: str
    offset: int
    kind: str
    reason: str


def read_rows(dirs: Iterable[Path], *, members: Members = "all", uncommitted: bool = False, **bounds: int) -> list[Row]:
    """What the pipeline reads, with all columns, without Spark; damage must be nowhere."""
    damage: list[object] = []
    found: list[Row] = []
    wanted = Range.of(**{name: bounds.get(name) for name in ("zxid_min", "zxid_max", "time_min", "time_max")})
    for task in plan(inventory([str(path) for path in dirs]), wanted, members=members, uncommitted=uncommitted):
        for span, rows in read_task(task):
            if isinstance(rows, Damage):
                damage.append((span, rows))
                continue
            for batch in record_batches(rows, span.source, COLUMNS):
                found += batch.to_pylist()
    assert damage == []
    return found


@functools.cache
def whole_rows(dirs: tuple[Path, ...]) -> list[Row]:
    """The rows of directories that nobody changes; the rows must not be changed, either."""
    return read_rows(dirs)


def read_faults(dirs: Iterable[Path]) -> list[Fault]:
    """(member, file, offset, kind) of everything that reading these logs as a whole finds wrong, without Spark."""
    found = []
    for task in plan(inventory([str(path) for path in dirs]), Range(), whole_files=True):
        for span, rows in read_task(task, use_index=False):
            if isinstance(rows, Damage):
                found.append(Fault(span.member, str(span.file.place), rows.offset, rows.kind, rows.reason))
    return found


def transaction_at(directories: Directories, content: bytes, row: Row) -> Txn:
    """The transaction at the place that a row names, its checksum right."""
    at = row["position"]
    if directories.kind == NATIVE:
        return decode(content, at)[0]
    checksum, length = struct.unpack_from(">qi", content, at)
    assert checksum == row["checksum"]
    return decode_payload(content[at + 12 : at + 12 + length], row["segment"], at).txn


def batch_checksums(path: Path) -> dict[int, int]:
    """The CRC-32 of its batch's body, for each zxid of a native file."""
    found = {}
    for batch in NativeLog.read(path).batches():
        (checksum,) = struct.unpack_from(">I", batch.raw, 76)
        found.update(dict.fromkeys(range(batch.first, batch.zxid + 1), checksum))
    return found


def expected(txn: Txn, part: int | None) -> Row:
    """The columns that follow from the transaction alone."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=txn.time)
    row: Row = dict.fromkeys(set(COLUMNS) - {"ensemble", "member", "segment", "position", "checksum"})
    row |= {"zxid": txn.zxid, "epoch": txn.zxid >> 32, "counter": txn.zxid & 0xFFFFFFFF, "time": moment}
    row |= {"session": txn.session, "cxid": txn.cxid, "part": part, "error": 0}
    if part is None:
        return row | _of(txn.type, txn.number, txn.path, txn.data, txn.rest)
    kind, number, path, data, rest = txn.rest[part]
    if any(one[0] == OpCode.ERROR for one in txn.rest):
        # Nothing of it was done, whatever ZooKeeper logs of the parts before the refused one.
        # A positive one is none: ZooKeeper may log the part before as an error whose body is still that of the part.
        code = number if kind == OpCode.ERROR and number < 0 else int(ErrorCode.RUNTIMEINCONSISTENCY)
        return row | _of(OpCode.ERROR, code, path, None, None)
    return row | _of(kind, number, path, data, rest)


def _of(kind: int, number: int, path: bytes, data: bytes | None, rest: Any) -> Row:
    row: Row = {"type": int(kind), "operation": operation(kind), "path": path.decode() or None, "data": data}
    if kind in VERSIONED:
        row["version"] = number
    if kind in CREATES:
        row |= {"acl": acl_text(rest[0]), "owner": rest[1]}
    elif kind == OpCode.SET_ACL:
        row["acl"] = acl_text(rest[0])
    elif kind == OpCode.CREATE_SESSION:
        row["timeout"] = number
    elif kind == OpCode.ERROR:
        row["error"] = number
    elif kind == OpCode.CLOSE_SESSION:
        row["paths"] = [each.decode() for each in rest]
    return row


def operation(kind: int) -> str:
    """SET_ACL -> setACL, CREATE_TTL -> createTTL, CREATE2 -> create2."""
    first, *others = OpCode(kind).name.split("_")
    return first.lower() + "".join(word if word in ("ACL", "TTL") else word.capitalize() for word in others)


def parts_of(txn: Txn) -> Iterator[int | None]:
    """The values of `part` that its rows have."""
    if txn.type == OpCode.MULTI and txn.rest:
        yield from range(len(txn.rest))
    else:
        yield None
