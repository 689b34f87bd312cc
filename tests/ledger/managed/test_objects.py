"""The bytes of the copies of ledgers."""

import json
from struct import pack

import pytest
from attrs import evolve

from tests.ledger.managed.lists import metadata
from zab.ledger.entries.digests import DigestType
from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.managed.objects import (
    BLOCK_HEADER_BYTES,
    ENTRY_BYTES_MIN,
    INDEX_HEADER_BYTES,
    Block,
    BlockBuilder,
    CopyIndex,
    DamagedObjectError,
    copy_of_name,
    data_name,
    decode_index,
    directory,
    entries_of,
    index_name,
    index_of,
)
from zab.wire.checksums import crc32c

LEDGER, UID, PASSWORD = 57, "a1", b"secret"
TYPES = list(DigestType)


def entries(count, size=10):
    return [Entry(LEDGER, each, each - 1, (each + 1) * size, b"%*d" % (size, each)) for each in range(count)]


def copied(count=10, block_bytes=150, digest_type=DigestType.CRC32C, size=10):
    """Its index, its data, and what opens its envelopes."""
    of = metadata(digest_type=digest_type, password=PASSWORD).closed_at(count - 1, count * size)
    digest = Digest(digest_type, PASSWORD)
    builder = BlockBuilder(LEDGER, digest, block_bytes)
    data = b""
    for each in entries(count, size):
        data += builder.add(each) or b""
    data += builder.finish() or b""
    return index_of(LEDGER, UID, of, builder), data, digest


def read(index, data, opens):
    return [
        each
        for block in index.blocks
        for each in entries_of(block, data[block.offset : block.offset + block.size], LEDGER, opens)
    ]


@pytest.mark.parametrize("digest_type", TYPES)
@pytest.mark.parametrize("block_bytes", [1, 150, 10_000])
def test_entries_are_read_as_they_were_copied(digest_type, block_bytes):
    index, data, digest = copied(10, block_bytes, digest_type)
    assert read(index, data, digest) == entries(10)
    assert read(index, data, digest_type) == entries(10)
    assert index.data_bytes == len(data)
    assert all(each.size >= block_bytes + BLOCK_HEADER_BYTES for each in index.blocks[:-1])
    assert len(index.blocks) in {1: {10}, 150: {3, 4}, 10_000: {1}}[block_bytes]
    for entry in range(10):
        block = index.blocks[index.at(entry)]
        assert block.first <= entry <= block.last


def test_the_index_is_read_as_it_was_written_and_has_no_password():
    index, _, _ = copied()
    data = index.encode()
    assert decode_index(data, LEDGER, UID) == index
    assert PASSWORD not in data
    assert index.metadata.password == b""
    assert index.takes(PASSWORD)
    assert not index.takes(b"")


@pytest.mark.parametrize("digest_type", TYPES)
def test_every_damaged_byte_of_a_block_is_noticed(digest_type):
    index, data, _ = copied(2, 1, digest_type)
    block = index.blocks[0]
    for at in range(block.size):
        broken = bytearray(data[: block.size])
        broken[at] ^= 0x10
        with pytest.raises(DamagedObjectError):
            list(entries_of(block, bytes(broken), LEDGER, digest_type))


def test_every_damaged_byte_of_an_index_is_noticed():
    data = copied()[0].encode()
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x10
        with pytest.raises(DamagedObjectError):
            decode_index(bytes(broken), LEDGER, UID)


def test_what_is_cut_off_is_noticed():
    index, data, digest = copied(3, 1)
    block = index.blocks[1]
    for end in range(block.size):
        with pytest.raises(DamagedObjectError):
            list(entries_of(block, data[block.offset : block.offset + end], LEDGER, digest))
    encoded = index.encode()
    for end in range(len(encoded)):
        with pytest.raises(DamagedObjectError):
            decode_index(encoded[:end], LEDGER, UID)


def test_an_entry_that_was_forged_in_its_block_is_noticed_by_its_digest():
    index, _, digest = copied(1, 1, DigestType.HMAC)
    forger = BlockBuilder(LEDGER, Digest(DigestType.HMAC, b"guess"), 1)
    forged = forger.add(entries(1)[0])
    with pytest.raises(DamagedObjectError, match="digest"):
        list(entries_of(forger.blocks[0], forged, LEDGER, digest))
    assert index.blocks[0].size == forger.blocks[0].size


def test_a_block_of_another_ledger_or_place_is_noticed():
    index, data, digest = copied(3, 1)
    one, two, _ = index.blocks
    with pytest.raises(DamagedObjectError, match="another block"):
        list(entries_of(one, data[two.offset : two.offset + two.size], LEDGER, digest))
    with pytest.raises(DamagedObjectError, match="another block"):
        list(entries_of(one, data[: one.size], LEDGER + 1, digest))


def test_the_index_of_another_copy_is_refused():
    data = copied()[0].encode()
    with pytest.raises(DamagedObjectError):
        decode_index(data, LEDGER, "b2")
    with pytest.raises(DamagedObjectError):
        decode_index(data, LEDGER + 1, UID)


def test_a_copy_that_is_not_the_whole_ledger_is_refused():
    of = metadata().closed_at(2, 30)
    for lacks in (entries(2), [*entries(2), evolve(entries(3)[2], length=29)]):
        builder = BlockBuilder(LEDGER, Digest(of.digest_type, b""), 1)
        for each in lacks:
            builder.add(each)
        with pytest.raises(DamagedObjectError):
            index_of(LEDGER, UID, of, builder)


@pytest.mark.parametrize("entry", [Entry(LEDGER, 1), Entry(LEDGER + 1, 0)])
def test_entries_are_copied_in_their_order(entry):
    with pytest.raises(DamagedObjectError):
        BlockBuilder(LEDGER, Digest(DigestType.CRC32C, b""), 1).add(entry)


@pytest.mark.parametrize(
    "blocks",
    [
        (),
        (Block(0, 0, 9, 1000, 1),),
        (Block(1, 0, 10, 1000, 1),),
        (Block(0, 1, 10, 1000, 1),),
        (Block(0, 0, 10, 40, 1),),
        (Block(0, 0, 10, 1 << 40, 1),),
        (Block(0, 0, 5, 1000, 1), Block(1001, 5, 5, 1000, 1)),
        (Block(0, 0, 5, 1000, 1), Block(1000, 6, 5, 1000, 1)),
        (Block(0, 0, 10, 1000, 1), Block(1000, 10, 0, 1000, 1)),
    ],
)
def test_blocks_that_contradict_each_other_are_refused(blocks):
    with pytest.raises(DamagedObjectError):
        evolve(copied()[0], blocks=blocks)


def test_a_block_has_no_more_entries_than_fit():
    least = BLOCK_HEADER_BYTES + 10 * ENTRY_BYTES_MIN
    assert evolve(copied()[0], blocks=(Block(0, 0, 10, least, 1),)).entries == 10
    with pytest.raises(DamagedObjectError, match="10 entries in a block of 399 bytes"):
        evolve(copied()[0], blocks=(Block(0, 0, 10, least - 1, 1),))


def test_the_copy_of_an_open_ledger_is_refused():
    with pytest.raises(DamagedObjectError):
        CopyIndex(ledger=1, uid="a", metadata=metadata(), password_digest="", blocks=())


def _index(body):
    return pack(">4sIII", b"ZOIX", 1, len(body), crc32c("ledgers")(body)) + body


@pytest.mark.parametrize(
    "change",
    [
        {"blocks": [[0, 0, 1]]},
        {"blocks": [[0, 0, -1, 9, 1]]},
        {"blocks": [[0, 0, 1.5, 9, 1]]},
        {"blocks": 5},
        {"metadata": "!"},
        {"metadata": ""},
        {"metadata": 5},
        {"ledger": None},
    ],
)
def test_an_index_with_a_right_checksum_and_wrong_members_is_refused(change):
    found = json.loads(copied()[0].encode()[INDEX_HEADER_BYTES:])
    decode_index(_index(json.dumps(found).encode()), LEDGER, UID)
    with pytest.raises(DamagedObjectError):
        decode_index(_index(json.dumps(found | change).encode()), LEDGER, UID)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"[" * 100_000, b"\xff"])
def test_an_index_that_is_no_object_is_refused(body):
    with pytest.raises(DamagedObjectError):
        decode_index(_index(body), LEDGER, UID)


def test_names_tell_whose_they_are():
    assert copy_of_name(data_name(57, "a1")) == (57, "a1")
    assert copy_of_name(index_name(57, "a1")) == (57, "a1")
    assert copy_of_name(index_name(57, "a1") + ".tmp") == (57, "a1")
    for name in ("57-a1", "57-a1.parquet", "x-a1.data", "57-a1.data.old", "57-a/1.data", "-1-a.data"):
        assert copy_of_name(name) is None


@pytest.mark.parametrize(
    ("uri", "log", "found"),
    [
        ("/archive/", "orders", "/archive/i/orders"),
        ("/a?b", "orders", "/a?b/i/orders"),
        ("s3://bucket/p/?region=eu", "orders", "s3://bucket/p/i/orders?region=eu"),
        ("s3://bucket", "../a", "s3://bucket/i/..=2Fa"),
        ("s3://bucket", "a=2Fb", "s3://bucket/i/a=3D2Fb"),
    ],
)
def test_each_log_has_a_directory(uri, log, found):
    assert directory(uri, "i", log) == found
