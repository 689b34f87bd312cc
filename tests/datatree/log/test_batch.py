import struct
from hashlib import blake2b
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datatree.log.batch import (
    RECONFIG,
    SNAPSHOT,
    Batch,
    BatchError,
    build,
    continues,
    follows,
    genesis,
    imported,
    parse,
)

LINEAGE = bytes(range(16))
FIRST = 7 << 32 | 5


def make(previous: bytes = genesis(LINEAGE), first: int = FIRST, count: int = 3, body: bytes = b"records") -> Batch:
    return build(
        previous,
        epoch=first >> 32,
        first=first,
        count=count,
        time=1_700_000_000_123,
        flags=SNAPSHOT,
        mark=first - 1,
        applied=first - 2,
        digest=0xFEDCBA9876543210,
        body=body,
    )


def test_layout_is_the_documented_one_byte_by_byte():
    body = b"records"
    head = struct.pack(
        ">2sBBIIIQqQQQI", b"ZB", 1, 1, 7, 7, 3, FIRST, 1_700_000_000_123, FIRST - 1, FIRST - 2, 0xFEDCBA9876543210, 1
    )
    chain = blake2b(blake2b(LINEAGE, digest_size=16).digest() + head + body, digest_size=16).digest()
    head += chain + struct.pack(">I", crc32(body))
    assert make().raw == head + struct.pack(">I", crc32(head)) + body


@given(
    epoch=st.integers(1, 0xFFFFFFFF),
    counter=st.integers(1, 0xFFFFFF00),
    count=st.integers(1, 255),
    time=st.integers(-(1 << 63), (1 << 63) - 1),
    flags=st.integers(0, 3),
    lag=st.tuples(st.integers(1, 5), st.integers(0, 5)),
    digest=st.integers(0, (1 << 64) - 1),
    body=st.binary(min_size=1, max_size=300),
    before=st.binary(max_size=20),
    after=st.binary(max_size=20),
)
def test_parse_gives_back_what_was_built(epoch, counter, count, time, flags, lag, digest, body, before, after):
    first = epoch << 32 | counter
    batch = build(
        genesis(LINEAGE),
        epoch=epoch,
        first=first,
        count=count,
        time=time,
        flags=flags,
        mark=first - lag[0],
        applied=first - lag[0] - lag[1],
        digest=digest,
        body=body,
        digest_version=9,
    )
    parsed = parse(before + batch.raw + after, len(before))
    assert parsed == batch
    for name in ("epoch", "first", "count", "time", "flags", "mark", "applied", "digest", "digest_version", "chain"):
        assert getattr(parsed, name) == getattr(batch, name)
    assert parsed.body == body
    assert parsed.zxid == first + count - 1
    assert continues(genesis(LINEAGE), parsed)


def test_every_prefix_is_torn():
    raw = make().raw
    for length in range(len(raw)):
        with pytest.raises(BatchError) as error:
            parse(raw[:length])
        assert error.value.torn, length


def test_every_flipped_bit_is_damage():
    raw = make().raw
    for bit in range(len(raw) * 8):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BatchError) as error:
            parse(bytes(flipped))
        assert not error.value.torn, bit


@pytest.mark.parametrize(
    ("offset", "form", "value", "reason"),
    [
        (0, ">H", 0x5A43, "magic"),
        (2, ">B", 2, "version 2"),
        (3, ">B", 4, "flags"),
        (4, ">I", 0, "body of 0 bytes"),
        (4, ">I", 1 << 30, "body of 1073741824 bytes"),
        (8, ">I", 8, "epoch 8"),
        (12, ">I", 0, "batch of 0"),
        (12, ">I", 0xFFFFFFFF, "epoch"),
        (16, ">Q", 7 << 32, "epoch"),
        (32, ">Q", FIRST, "mark"),
        (40, ">Q", FIRST + 1, "applied"),
    ],
)
def test_impossible_header_with_good_checksum_is_refused(offset, form, value, reason):
    raw = bytearray(make().raw)
    struct.pack_into(form, raw, offset, value)
    struct.pack_into(">I", raw, 80, crc32(bytes(raw[:80])))
    with pytest.raises(BatchError, match=reason) as error:
        parse(bytes(raw))
    assert not error.value.torn


def test_limit_is_inclusive():
    raw = make(body=b"x" * 100).raw
    assert parse(raw, limit=100).body == b"x" * 100
    with pytest.raises(BatchError, match="limit 99"):
        parse(raw, limit=99)


def test_chain_separates_histories():
    first = make()
    second = make(first.chain, first.zxid + 1, body=b"more")
    assert continues(first.chain, second)
    assert not continues(genesis(LINEAGE), second)
    assert not continues(genesis(bytes(16)), first)
    assert make(genesis(bytes(16))).chain != first.chain
    assert make(body=b"recorde").chain != first.chain


def test_start_of_an_imported_history_depends_on_zxid_and_digest():
    starts = {genesis(LINEAGE), imported(LINEAGE, 5, 6), imported(LINEAGE, 6, 5), imported(LINEAGE, 5, 7)}
    assert len(starts) == 4


def test_numbers_follow_without_gap_and_epochs_begin_at_one():
    batch = make(first=7 << 32 | 5)
    assert follows(7 << 32 | 4, batch)
    assert not follows(7 << 32 | 3, batch)
    assert not follows(7 << 32 | 5, batch)
    assert not follows(6 << 32 | 4, batch)
    assert follows(6 << 32 | 4, make(first=7 << 32 | 1))
    assert follows(0, make(first=7 << 32 | 1))
    assert not follows(8 << 32 | 4, make(first=7 << 32 | 1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"epoch": 6},
        {"first": 7 << 32},
        {"count": 0},
        {"count": 0xFFFFFFFF},
        {"mark": FIRST},
        {"applied": FIRST - 1, "mark": FIRST - 2},
        {"flags": RECONFIG << 1},
        {"body": b""},
    ],
)
def test_build_asserts_what_must_be_true(wrong):
    right = {
        "epoch": 7,
        "first": FIRST,
        "count": 1,
        "time": 0,
        "flags": RECONFIG,
        "mark": FIRST - 1,
        "applied": FIRST - 1,
        "digest": 0,
        "body": b"x",
    }
    assert build(genesis(LINEAGE), **right).zxid == FIRST
    with pytest.raises(AssertionError):
        build(genesis(LINEAGE), **right | wrong)
