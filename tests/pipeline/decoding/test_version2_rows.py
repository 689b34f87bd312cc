"""ZooKeeper's records into rows, all at once, against `datatree.zookeeper.log`, one by one."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Any
from zlib import adler32

import pytest

from datatree.record import Txn
from datatree.zookeeper.files import ZooKeeperFileError
from datatree.zookeeper.log import LOG_HEADER, decode_payload, encode_record
from tests.pipeline.rigs.expected_rows import COLUMNS, expected, parts_of
from tests.pipeline.rigs.log_builder import FIRST, SESSION, TIME, Bytes, random_txns
from zab.pipeline.decoding.damage import Damage
from zab.pipeline.decoding.transactions import Source, record_batches
from zab.pipeline.decoding.version2_log import RecordBlock, RecordScan
from zab.pipeline.decoding.version2_rows import decode_records

SOURCE = Source("e", "1", "log.1")
LAST_TIME = 253_402_300_799_999


def framed(payload: bytes) -> bytes:
    return struct.pack(">qi", adler32(payload), len(payload)) + payload + b"B"


def payload_of(txn: Txn, digest: int | None = None) -> bytes:
    return encode_record(txn, digest)[12:-1]


def read(payloads: Sequence[bytes]) -> tuple[list[dict[str, Any]], list[Damage]]:
    data = LOG_HEADER + b"".join(map(framed, payloads))
    rows: list[dict[str, Any]] = []
    damage: list[Damage] = []
    for block in RecordScan(Bytes(data), len(data), None):
        if not isinstance(block, RecordBlock):
            continue
        found, bad = decode_records(block)
        damage += bad
        for batch in record_batches(found, SOURCE, COLUMNS):
            batch.validate(full=True)
            rows += batch.to_pylist()
    return rows, damage


def one_by_one(payloads: Sequence[bytes]) -> tuple[list[dict[str, Any]], list[int]]:
    """The rows, and the offsets of what holds no transaction."""
    rows, bad, at = [], [], len(LOG_HEADER)
    last = 0
    for payload in payloads:
        offset, at = at, at + len(payload) + 13
        (zxid,) = struct.unpack_from(">q", payload, 12)
        if zxid <= last:
            continue
        last = zxid
        try:
            txn = decode_payload(payload, "", 0).txn
        except ZooKeeperFileError:
            bad.append(offset)
            continue
        if not 0 <= txn.time <= LAST_TIME:
            bad.append(offset)
            continue
        for part in parts_of(txn):
            row = expected_row(txn, part)
            row |= {"ensemble": "e", "member": "1", "segment": "log.1", "position": offset}
            row["checksum"] = adler32(payload)
            rows.append(row)
    return rows, bad


def expected_row(txn: Txn, part: int | None) -> dict[str, Any]:
    if txn.type == -11 and txn.rest is None:
        return expected(txn._replace(rest=()), part) | {"paths": None}
    return expected(txn, part)


@pytest.mark.parametrize("digests", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_every_column_of_every_kind_of_transaction(seed: int, digests: bool) -> None:
    txns = random_txns(random.Random(seed), 400, native=False)
    payloads = [payload_of(txn, txn.zxid if digests else None) for txn in txns]
    rows, damage = read(payloads)
    assert damage == []
    assert rows == one_by_one(payloads)[0]


def test_a_close_session_of_old_files_does_not_say_its_paths() -> None:
    plain = struct.pack(">qiqqi", SESSION, 0, FIRST, TIME, -11)
    (row,), damage = read([plain])
    assert (row["operation"], row["paths"], damage) == ("closeSession", None, [])
    (row,), _ = read([plain + struct.pack(">i", 0)])
    assert row["paths"] == []


def test_a_create_of_very_old_files_has_no_parents_cversion() -> None:
    payload = payload_of(Txn(FIRST, TIME, SESSION, 1, 1, 4, b"/a", b"x", (None, SESSION)))
    (row,), damage = read([payload[:-4]])
    assert (row["version"], row["owner"], row["path"], row["data"], damage) == (-1, SESSION, "/a", b"x", [])


def test_digests_of_other_versions_are_read_over() -> None:
    payload = payload_of(Txn(FIRST, TIME, SESSION, 1, 5, 4, b"/a", b"x", None))
    for rest in (struct.pack(">iq", 1, 5), struct.pack(">i", 1) + b"\0\0\0\x03abc"):
        (row,), damage = read([payload + rest])
        assert (row["path"], row["data"], row["version"], damage) == ("/a", b"x", 4, [])


def test_an_acl_longer_than_any_is_read_by_itself() -> None:
    acl = tuple((1, b"ip", b"10.0.0.%d" % number) for number in range(200))
    txns = [
        Txn(FIRST, TIME, SESSION, 1, 1, 4, b"/a", b"x", (acl, 0)),
        Txn(FIRST + 1, TIME, 1, 1, 2, 0, b"/a", None, None),
    ]
    payloads = [payload_of(txn) for txn in txns]
    assert read(payloads)[0] == one_by_one(payloads)[0]


def mutated(rng: random.Random, payload: bytes) -> bytes:
    data = bytearray(payload)
    at = rng.randrange(12, len(data))
    match rng.randrange(4):
        case 0:
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            data[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4), b"\xff\xff\xff\xfe"))
        case 2:
            del data[max(at, 32) : max(at, 32) + rng.randint(1, 9)]
        case 3:
            data += rng.randbytes(rng.randint(1, 13))
    return bytes(data)


@pytest.mark.parametrize("seed", range(60))
def test_what_one_reader_refuses_the_other_refuses(seed: int) -> None:
    rng = random.Random(seed)
    payloads = [payload_of(txn, 5) for txn in random_txns(rng, 60, native=False)]
    payloads = [mutated(rng, payload) if rng.random() < 0.3 else payload for payload in payloads]
    rows, bad = one_by_one(payloads)
    found, damage = read(payloads)
    assert [one.offset for one in sorted(damage, key=lambda one: one.offset)] == bad
    assert found == rows


def test_damage_says_what_is_wrong() -> None:
    path = payload_of(Txn(FIRST, TIME, SESSION, 1, 2, 0, b"/\xff", None, None))
    kind = struct.pack(">qiqqi", SESSION, 0, FIRST + 1, TIME, 99)
    late = payload_of(Txn(FIRST + 2, 1 << 60, SESSION, 1, 2, 0, b"/a", None, None))
    rows, damage = read([path, kind, late])
    assert rows == []
    reasons = [one.reason for one in sorted(damage, key=lambda one: one.offset)]
    assert "no path" in reasons[0]
    assert "unknown transaction type 99" in reasons[1]
    assert reasons[2] == "a zxid or time out of range"
