"""Batches into rows, all records at once, against `datatree.record`, one by one: what one refuses the other refuses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest

from datatree.log.batch import HEADER_BYTES, Batch
from datatree.record import RecordError, Txn, decode, decode_all, encode
from tests.pipeline.rigs.expected_rows import COLUMNS, expected, parts_of
from tests.pipeline.rigs.log_builder import (
    FIRST,
    SESSION,
    START,
    TIME,
    Bytes,
    NativeFile,
    as_batch,
    cut_anywhere,
    in_batches,
    random_txns,
)
from zab.pipeline.decoding.damage import Damage
from zab.pipeline.decoding.native_log import Block, FrameScan
from zab.pipeline.decoding.native_rows import decode_block
from zab.pipeline.decoding.transactions import ROWS_MAX, Source, record_batches
from zab.pipeline.schema import LOG, arrow_schema

SOURCE = Source("e", "1", "log.1")
LAST_TIME = 253_402_300_799_999


def blocks(file: NativeFile, window: int = 1 << 20) -> list[Block]:
    found = list(FrameScan(Bytes(file.data), FIRST, len(file.data), 0, window_bytes=window))
    assert all(isinstance(one, Block) for one in found), found
    return [one for one in found if isinstance(one, Block)]


def read(file: NativeFile, columns: Sequence[str] = COLUMNS) -> tuple[list[dict[str, Any]], list[Damage]]:
    rows: list[dict[str, Any]] = []
    damage: list[Damage] = []
    for block in FrameScan(Bytes(file.data), FIRST, len(file.data), None):
        if isinstance(block, Damage):
            damage.append(block)
            continue
        found, bad = decode_block(block)
        damage += bad
        for batch in record_batches(found, SOURCE, columns):
            batch.validate(full=True)
            rows += batch.to_pylist()
    return rows, damage


def rows_of(file: NativeFile, batches: Sequence[Batch] | None = None) -> list[dict[str, Any]]:
    """The expected rows, one by one."""
    rows: list[dict[str, Any]] = []
    for batch, offset in zip(file.batches, file.offsets, strict=True):
        if batches is not None and batch not in batches:
            continue
        at = offset + HEADER_BYTES
        for txn in decode_all(batch.body, batch.first, batch.count):
            for part in parts_of(txn):
                row = expected(txn, part)
                row |= {"ensemble": "e", "member": "1", "segment": "log.1", "position": at}
                row["checksum"] = crc32(batch.body)
                rows.append(row)
            at += len(encode(txn))
    return rows


@pytest.mark.parametrize(("seed", "most"), [(1, 1), (2, 5), (3, 60), (4, 400)])
def test_every_column_of_every_kind_of_transaction(seed: int, most: int) -> None:
    rng = random.Random(seed)
    file = NativeFile.build(cut_anywhere(rng, random_txns(rng, 400), most))
    rows, damage = read(file)
    assert damage == []
    assert rows == rows_of(file)


def test_what_a_create_if_not_exists_found_is_a_row_that_changes_nothing() -> None:
    multi = ((13, 2, b"/a", b"", None), (1, 1, b"/a/b", b"x", (None, 0)), (13, 0, b"/a", None, None))
    txns = [
        Txn(FIRST, TIME, SESSION, 1, 13, 2, b"/a", b"", None),
        Txn(FIRST + 1, TIME, SESSION, 2, 14, 0, b"", None, multi),
        Txn(FIRST + 2, TIME, SESSION, 3, -1, -101, b"/missing/a", None, (502,)),
    ]
    file = NativeFile.build(in_batches(txns, 3))
    rows, damage = read(file)
    assert damage == []
    assert rows == rows_of(file)
    assert [(row["operation"], row["part"], row["data"]) for row in rows] == [
        ("check", None, b""),
        ("check", 0, b""),
        ("create", 1, b"x"),
        ("check", 2, None),
        ("error", None, None),
    ]


def test_schema_and_order_of_columns_are_those_asked_for() -> None:
    file = NativeFile.build(in_batches(random_txns(random.Random(5), 60), 7))
    everything, _ = read(file)
    rng = random.Random(6)
    for count in (0, 1, 4, 8):
        names = rng.sample(COLUMNS, count)
        (block,) = blocks(file)
        (batch,) = record_batches(decode_block(block)[0], SOURCE, names)
        assert batch.schema.equals(arrow_schema([next(one for one in LOG if one.name == name) for name in names]))
        assert batch.to_pylist() == [{name: row[name] for name in names} for row in everything]


def test_record_batches_are_small_and_cut_no_multi() -> None:
    parts = tuple((5, 1, b"/a", b"x", None) for _ in range(7))
    txns = [Txn(FIRST + number, TIME, SESSION, 0, 14, 0, b"", None, parts) for number in range(9000)]
    huge = tuple((2, 0, b"/a", None, None) for _ in range(ROWS_MAX + 10))
    txns.append(Txn(FIRST + len(txns), TIME, SESSION, 0, 14, 0, b"", None, huge))
    file = NativeFile.build(in_batches(txns, 500))
    seen: set[int] = set()
    for block in blocks(file, 8 << 20):
        for batch in record_batches(decode_block(block)[0], SOURCE, ["zxid", "part"]):
            zxids = set(batch["zxid"].to_pylist())
            assert batch.num_rows <= ROWS_MAX or len(zxids) == 1
            assert not zxids & seen
            seen |= zxids
    assert len(seen) == len(txns)


def with_bodies(bodies: Sequence[tuple[bytes, Sequence[Txn]]]) -> NativeFile:
    """Batches with other bodies than their transactions make; all checksums are right."""
    made, position = [], START
    for body, txns in bodies:
        batch = as_batch(position, txns)
        raw = bytearray(batch.raw[:HEADER_BYTES])
        raw[4:8] = len(body).to_bytes(4, "big")
        raw[76:80] = crc32(body).to_bytes(4, "big")
        raw[80:84] = crc32(raw[:80]).to_bytes(4, "big")
        batch.raw = bytes(raw) + body
        made.append(batch)
        position = batch.zxid, batch.chain
    return NativeFile.of(NativeFile.build([bodies[0][1]]).header, made)


def mutated(rng: random.Random, body: bytes) -> bytes:
    data = bytearray(body)
    at = rng.randrange(len(data))
    match rng.randrange(5):
        case 0:
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            data[at] = rng.choice((0, 0x1B, 0x3B, 0x5A, 0x7A, 0x7F, 0x80, 0x89, 0xF6, 0xFF))
        case 2:
            del data[at : at + rng.randint(1, 9)]
        case 3:
            data[at:at] = rng.randbytes(rng.randint(1, 5))
        case 4:
            data[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4)))
    return bytes(data) or b"\0"


def is_fine(batch: Batch) -> bool:
    try:
        txns = decode_all(batch.body, batch.first, batch.count)
    except RecordError:
        return False
    return all(txn.time <= LAST_TIME for txn in txns)


@pytest.mark.parametrize("seed", range(60))
def test_a_malformed_record_takes_its_batch_and_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    batches = list(cut_anywhere(rng, random_txns(rng, 60), 4))
    bodies = []
    for txns in batches:
        body = b"".join(map(encode, txns))
        bodies.append((mutated(rng, body) if rng.random() < 0.3 else body, txns))
    file = with_bodies(bodies)
    fine = [batch for batch in file.batches if is_fine(batch)]
    rows, damage = read(file)
    assert [row["zxid"] for row in rows] == [row["zxid"] for row in rows_of_raw(file, fine)]
    assert rows == rows_of_raw(file, fine)
    bad = [offset for batch, offset in zip(file.batches, file.offsets, strict=True) if batch not in fine]
    assert sorted(one.offset for one in damage if one.kind == "damaged") == bad


def rows_of_raw(file: NativeFile, fine: Sequence[Batch]) -> list[dict[str, Any]]:
    """As `rows_of`, with the positions that the bytes have."""
    rows: list[dict[str, Any]] = []
    for batch, offset in zip(file.batches, file.offsets, strict=True):
        if batch not in fine:
            continue
        at = 0
        for _ in range(batch.count):
            txn, end = decode(batch.body, at)
            for part in parts_of(txn):
                row = expected(txn, part)
                row |= {"ensemble": "e", "member": "1", "segment": "log.1", "position": offset + HEADER_BYTES + at}
                row["checksum"] = crc32(batch.body)
                rows.append(row)
            at = end
    return rows


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda raw: raw.replace(b"/app", b"/a\xff\xff"), "not UTF-8"),
        (lambda raw: raw[:16] + b"\x7f" + raw[17:], "beyond the year 9999"),
        (lambda raw: raw[:-9] + b"\x1a" + raw[-8:], "wrong rest"),
        (lambda raw: raw[:45] + b"\x7a\xff\xff\xff\xff" + raw[50:], "ends inside it"),
        (lambda raw: raw[:6] + b"\x1b" + bytes(7) + b"\x01" + raw[15:], "is due"),
    ],
)
def test_damage_says_what_is_wrong(change: Any, reason: str) -> None:
    txns = [Txn(FIRST + number, TIME, SESSION, 0, 1, 1, b"/app", b"x", (None, 0)) for number in range(3)]
    bodies = [(encode(txn), [txn]) for txn in txns]
    bodies[1] = (change(bodies[1][0]), [txns[1]])
    file = with_bodies(bodies)
    rows, (damage,) = read(file)
    assert [row["zxid"] for row in rows] == [FIRST, FIRST + 2]
    assert (damage.offset, damage.end) == (file.offsets[1], file.offsets[1] + HEADER_BYTES + len(bodies[1][0]))
    assert reason in damage.reason


@pytest.mark.parametrize("rest", [b"\x01", b"\x80", b"\xf6\xf6"])
def test_what_stands_in_the_place_of_a_null_is_malformed(rest: bytes) -> None:
    txn = Txn(FIRST, TIME, SESSION, 0, 5, 1, b"/a", b"x", None)
    raw = encode(txn)[:-1] + rest
    raw = raw[:1] + (len(raw) - 5).to_bytes(4, "big") + raw[5:]
    rows, damage = read(with_bodies([(raw, [txn])]))
    assert (rows, [one.kind for one in damage]) == ([], ["damaged"])


def test_a_block_of_nothing_but_malformed_batches_has_no_rows() -> None:
    txn = Txn(FIRST, TIME, SESSION, 0, 5, 1, b"/a", b"x", None)
    rows, damage = read(with_bodies([(b"\x5a\0\0\0\x01\x89", [txn])]))
    assert (rows, len(damage)) == ([], 1)


def test_times_are_utc_to_the_millisecond() -> None:
    (row,), _ = read(NativeFile.build([[Txn(FIRST, 1_234_567_890_123, 1, 0, 2, 0, b"/a", None, None)]]))
    assert row["time"] == datetime(2009, 2, 13, 23, 31, 30, 123_000, UTC)


def test_distinct_acls_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    acls = [((31, b"digest", str(number).encode()),) for number in range(3)]
    txns = [Txn(FIRST + n, TIME, SESSION, n, 1, n, b"/a%d" % n, b"x", (acls[n % 3], 0)) for n in range(3000)]
    file = NativeFile.build(in_batches(txns, 100))
    calls = 0

    def counted(buffer: bytes, offset: int = 0) -> tuple[Txn, int]:
        nonlocal calls
        calls += 1
        return decode(buffer, offset)

    monkeypatch.setattr("zab.pipeline.decoding.native_rows.decode", counted)
    rows, _ = read(file, ["acl"])
    assert rows[:4] == [{"acl": f"digest:{number}:cdrwa"} for number in (0, 1, 2, 0)]
    assert calls == 3


def test_rows_where_a_mask_is_set() -> None:
    rng = random.Random(9)
    file = NativeFile.build(in_batches(random_txns(rng, 300), 9))
    everything, _ = read(file)
    (block,) = blocks(file)
    found, _ = decode_block(block)
    keep = np.array([rng.random() < 0.5 for _ in range(len(found))])
    table = pa.Table.from_batches(record_batches(found.only(keep), SOURCE, COLUMNS))
    kept = set(found.zxid[keep].tolist())
    assert table.to_pylist() == [row for row in everything if row["zxid"] in kept]


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_record_that_ends_in_the_middle_of_a_field_is_malformed(cut: int) -> None:
    """At the very end of the buffer, too, where the bytes after it are not there to be read."""
    txn = Txn(FIRST, TIME, SESSION, 0, 5, 1, b"/a", b"xyz", None)
    raw = encode(txn)[:-cut]
    body = raw[:1] + (len(raw) - 5).to_bytes(4, "big") + raw[5:]
    rows, (damage,) = read(with_bodies([(body, [txn])]))
    assert (rows, damage.kind) == ([], "damaged")
