"""Targets that give the same bytes to the native parts and to the Python beside them: both have to come to the same.

    native_records      records of transactions: decoded, encoded again, and applied
    native_requests     requests: prepared, encoded, and applied at two members

Coverage is that of Python, which sees all that the native parts leave to it. Where nothing is compiled, or it is
switched off, the fuzzers leave these targets out (`IS_COMPILED`).
"""

from __future__ import annotations

import struct
from typing import Any

from datatree.opcodes import OpCode
from datatree.record import Fields, RecordError, encode, encode_in_slices
from datatree.requests import OPEN_ACL, Create, Multi, NoBody, PathVersion, SetAcl, SetData
from tests.datatree.example_txns import TXNS
from tests.datatree.native_worlds import BOBS, OTHER, SESSION, Both, World, decodings, everything, whole
from tests.fuzz.target import target

NATIVE = ("native_records", "native_requests")
RECORDS_MAX = 4
REQUESTS_MAX = 32
APPLIED_FROM = 100
"""A zxid above those of `Both`."""


def _records() -> list[bytes]:
    """How many, and the records. Those of a batch follow each other, with a znode that is there in both worlds."""
    parts = ((5, 2, b"/a", b"y", None), (1, 2, b"/a/c", b"", (None, SESSION)), (2, 0, b"/a/b", None, None))
    batch = [
        (1, 1, b"/a/b", b"x", (None, 0)),
        (5, 1, b"/a/b", b"some data", None),
        (14, 0, b"", None, parts),
        (2, 0, b"/a/c", None, None),
    ]
    fields: list[Fields] = [(50 + at, 5, SESSION, -1 - at, *item) for at, item in enumerate(batch)]
    repeated = b"\2" + 2 * encode(fields[0])
    return [b"\4" + b"".join(map(encode, fields)), repeated, *(b"\1" + encode(txn) for txn in TXNS.values())]


@target(_records, RecordError)
def native_records(data: bytes) -> None:
    count, body = (data[0] % (RECORDS_MAX + 1), data[1:]) if data else (0, data)
    first = int.from_bytes(body[7:15], "big") if len(body) >= 15 else 1
    worlds = Both()
    [txns, _] = worlds.same(decodings(body, first, count))
    if type(txns) is tuple:
        raise txns[0]
    for at, txn in enumerate(txns):
        worlds.same(lambda world, txn=txn: (world(encode, txn), world(lambda: whole(encode_in_slices(txn)))))  # type: ignore[misc]
        due = (APPLIED_FROM + at, *txn[1:])
        result = worlds.same(lambda world, due=due: world.tree.apply(due, is_watched=True))  # type: ignore[misc]
        if isinstance(result[0], type):
            break
    worlds.same(lambda world: everything(world.tree))


_REQUEST = struct.Struct(">BBH")
"""How it is asked, the operation, and the length of the body, which follows."""
SESSIONS = (SESSION, SESSION, OTHER, 99)
IN_SLICES, DELIVERED, WATCHED, SNAPSHOT = 4, 8, 32, 64
"""Beside the index of the session: how many are delivered then, in units of `DELIVERED`, and whether a snapshot begins
or ends before."""
ASKED = (
    *(OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL, OpCode.SET_DATA, OpCode.DELETE),
    *(OpCode.CHECK, OpCode.MULTI, OpCode.SET_ACL, OpCode.CLOSE_SESSION, OpCode.TRY_REMOVE, OpCode.CHECK_NOT_EXISTS),
)
LONG = (OpCode.MULTI, OpCode.CLOSE_SESSION)


def _requests() -> list[bytes]:
    asked: list[tuple[int, int, Any]] = [
        (0, OpCode.CREATE, Create(b"/a/b", b"x", OPEN_ACL, 0)),
        (DELIVERED, OpCode.SET_DATA, SetData(b"/a/b", b"some data", 0)),
        (SNAPSHOT, OpCode.CREATE2, Create(b"/e/a", b"", OPEN_ACL, 3)),
        (DELIVERED + WATCHED, OpCode.SET_DATA, SetData(b"/bobs", b"", -1)),
        (0, OpCode.DELETE, PathVersion(b"/a/b", 7)),
        (2 * DELIVERED + SNAPSHOT, OpCode.DELETE, PathVersion(b"/a/b", 1)),
        (0, OpCode.SET_ACL, SetAcl(b"/a", BOBS, -1)),
        (3 * DELIVERED + 2, OpCode.CREATE, Create(b"/b", b"", BOBS, 1)),
        (0, OpCode.CLOSE_SESSION, NoBody()),
    ]
    plain = (OpCode.CREATE, Create(b"/a/c", b"", OPEN_ACL, 0)), (OpCode.SET_DATA, SetData(b"/a/c", b"y", 0))
    for last in (PathVersion(b"/a/c", 1), PathVersion(b"/none", -1)):
        multi = Multi((*plain, (OpCode.CHECK, PathVersion(b"/a", 0)), (OpCode.DELETE, last)))
        asked += [(how, OpCode.MULTI, multi) for how in (0, IN_SLICES + DELIVERED + WATCHED)]
    each = []
    for how, opcode, body in asked:
        raw = body.encode()
        each.append(_REQUEST.pack(how, ASKED.index(opcode), len(raw)) + raw)
    return [b"".join(each), *each]


@target(_requests, struct.error)
def native_requests(data: bytes) -> None:
    worlds = Both()
    at = 0
    for _ in range(REQUESTS_MAX):
        how, number, length = _REQUEST.unpack_from(data, at)
        opcode, body = ASKED[number % len(ASKED)], data[at + _REQUEST.size : at + _REQUEST.size + length]
        if how & SNAPSHOT:
            worlds.same(World.snapshot)
        worlds.ask(opcode, body, SESSIONS[how & 3], in_slices=opcode in LONG and bool(how & IN_SLICES))
        if delivered := how // DELIVERED & 3:
            worlds.deliver(delivered, is_watched=bool(how & WATCHED))
        at += _REQUEST.size + length
        if at >= len(data):
            break
    worlds.finish()
