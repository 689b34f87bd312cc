"""ZooKeeper's log: each kind of record, the three ends, and everything that is damage."""

from __future__ import annotations

import struct
from zlib import adler32

import pytest

from datatree.record import Txn
from datatree.znode import CONTAINER_OWNER, ttl_owner
from datatree.zookeeper.files import ZooKeeperFileError
from datatree.zookeeper.log import LOG_HEADER, LogEnd, LogReader, LogRecord, decode_payload, encode_record
from tests.datatree.zookeeper.histories import history

TIME = 1_763_700_000_000
ACL = ((31, b"world", b"anyone"), (1, b"digest", "bøb:x".encode()))
RECORDS = [
    Txn(1, TIME, 0x55, 0, -10, 30000, b"", None, None),
    Txn(2, TIME, 0x55, 1, 1, 1, b"/a", b"data", (None, 0)),
    Txn(3, TIME, -0x55, -1, 15, 2, "/ü".encode(), None, (ACL, -0x55)),
    Txn(4, TIME, 0x55, 3, 19, 3, b"/container", b"", (None, CONTAINER_OWNER)),
    Txn(5, TIME, 0x55, 4, 21, 4, b"/ttl", b"x", ((), ttl_owner(86_400_000))),
    Txn(6, TIME, 0x55, 5, 5, -2, b"/a", b"\xff\x00", None),
    Txn(7, TIME, 0x55, 6, 7, 3, b"/a", None, (ACL,)),
    Txn(8, TIME, 0x55, 7, 2, 0, b"/a", None, None),
    Txn(9, TIME, 0, 0, 20, 0, b"/container", None, None),
    Txn(10, TIME, 0x55, 8, -1, -110, b"", None, None),
    Txn(
        11, TIME, 0x55, 9, 14, 0, b"", None,
        ((1, 5, b"/m", b"1", (None, 0x55)), (13, 3, b"/m", None, None), (2, 0, b"/m", None, None)),
    ),
    Txn(12, TIME, 0x55, 10, 14, 0, b"", None, ((-1, 0, b"", None, None), (-1, -101, b"", None, None))),
    Txn(13, TIME, 0x55, 11, 16, -1, b"/zookeeper/config", b"version=100000000", None),
    Txn(14, TIME, 0x55, 12, -11, 0, b"", None, (b"/a", "/ü".encode())),
    Txn(15, TIME, 0x55, 13, -11, 0, b"", None, ()),
]  # fmt: skip
DIGESTS = [None, 0, 1, (1 << 64) - 1, *[None] * 11]
FILE = LOG_HEADER + b"".join(map(encode_record, RECORDS, DIGESTS))


def framed(payload: bytes, checksum: int | None = None) -> bytes:
    return struct.pack(">qi", adler32(payload) if checksum is None else checksum, len(payload)) + payload + b"B"


def read(data: bytes, *, live: bool = False) -> tuple[list[LogRecord], LogReader]:
    reader = LogReader([data], "log.1", live=live)
    return list(reader), reader


def test_every_kind_of_record_is_read_as_it_was_written() -> None:
    records, reader = read(FILE)
    assert [record.txn for record in records] == RECORDS
    assert [record.digest for record in records] == DIGESTS
    assert (reader.end, reader.offset, reader.dbid) == (LogEnd.END_OF_FILE, len(FILE), 0)
    assert all(FILE[record.offset + 12 :].startswith(struct.pack(">q", record.txn.session)) for record in records)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_chunks_may_be_cut_anywhere(size: int) -> None:
    reader = LogReader((FILE[at : at + size] for at in range(0, len(FILE), size)), "log.1")
    assert [record.txn for record in reader] == RECORDS


def test_layout_is_zookeepers() -> None:
    """A create as ZooKeeper 3.9 logged it, byte by byte."""
    written = encode_record(Txn(2, 0x19F, 0x10000, 1, 1, 1, b"/a", b"D", (None, 0x10000)), 0x0102030405060708)
    payload = bytes.fromhex(
        "0000000000010000 00000001 0000000000000002 000000000000019f 00000001"
        "00000002 2f61 00000001 44 00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 01 00000001"
        "00000002 0102030405060708"
    )
    assert written == struct.pack(">qi", adler32(payload), len(payload)) + payload + b"B"
    assert b"ZKLG\x00\x00\x00\x02" + bytes(8) == LOG_HEADER


def test_a_random_history_survives() -> None:
    txns, _ = history(1, 300)
    records, _ = read(LOG_HEADER + b"".join(map(encode_record, txns)))
    for record, txn in zip(records, txns, strict=True):
        # What a refused one asked for is not in ZooKeeper's log.
        assert record.txn == (txn if txn.type != -1 else txn._replace(path=b"", rest=None))


def test_close_session_without_paths_is_that_of_old_files() -> None:
    payload = struct.pack(">qiqqi", 5, 6, 7, TIME, -11)
    assert decode_payload(payload, "log.7", 16).txn == Txn(7, TIME, 5, 6, -11, 0, b"", None, None)


def test_create_without_parent_cversion_is_that_of_very_old_files() -> None:
    payload = struct.pack(">qiqqi", 5, 6, 7, TIME, 1) + bytes.fromhex("000000022f61 ffffffff 00000000 01")
    assert decode_payload(payload, "log.7", 16).txn == Txn(7, TIME, 5, 6, 1, -1, b"/a", None, ((), 5))


def test_digest_of_another_version_is_not_compared() -> None:
    payload = struct.pack(">qiqqii", 5, 6, 7, TIME, -10, 3000) + struct.pack(">iq", 3, 9)
    record = decode_payload(payload, "log.7", 16)
    assert (record.digest, record.digest_version) == (None, 3)


def test_acl_ids_of_java_become_utf8() -> None:
    """A character outside the basic plane, which Java writes as two surrogates of three bytes."""
    acl = struct.pack(">ii", 1, 31) + b"\x00\x00\x00\x06digest" + b"\x00\x00\x00\x06\xed\xa0\xbd\xed\xb0\x8e"
    payload = struct.pack(">qiqqi", 5, 6, 7, TIME, 7) + b"\x00\x00\x00\x02/a" + acl + bytes(4)
    assert decode_payload(payload, "log.7", 16).txn.rest == (((31, b"digest", "\U0001f40e".encode()),),)


def test_padding_ends_the_log() -> None:
    records, reader = read(FILE + bytes(5000))
    assert len(records) == len(RECORDS)
    assert (reader.end, reader.offset) == (LogEnd.PADDING, len(FILE))


@pytest.mark.parametrize("cut", [1, 2, 13, 40])
@pytest.mark.parametrize("padding", [0, 3000])
def test_torn_record_ends_the_log(cut: int, padding: int) -> None:
    last = len(encode_record(RECORDS[-1]))
    records, reader = read(FILE[:-cut] + bytes(padding))
    assert [record.txn for record in records] == RECORDS[:-1]
    assert reader.offset == len(FILE) - last
    assert reader.end is LogEnd.TORN


def test_every_prefix_gives_the_records_that_are_whole() -> None:
    ends = [*[record.offset for record in read(FILE)[0]][1:], len(FILE)]
    for length in range(len(LOG_HEADER), len(FILE)):
        records, _ = read(FILE[:length])
        assert len(records) == sum(end <= length for end in ends)


@pytest.mark.parametrize("length", [0, 3, 15])
def test_cut_header_is_damage(length: int) -> None:
    with pytest.raises(ZooKeeperFileError, match="ends inside the file header"):
        read(FILE[:length])


@pytest.mark.parametrize(
    ("header", "offset", "reason"),
    [
        (b"ZKSN\x00\x00\x00\x02" + bytes(8), 0, "magic"),
        (b"ZKLG\x00\x00\x00\x03" + bytes(8), 4, "format version 3"),
    ],
)
def test_other_files_are_refused(header: bytes, offset: int, reason: str) -> None:
    with pytest.raises(ZooKeeperFileError, match=reason) as caught:
        read(header)
    assert (caught.value.file, caught.value.offset) == ("log.1", offset)


def test_every_flipped_bit_of_an_inner_record_is_noticed() -> None:
    """The length and the trailer of a record are under no checksum: there the record after gives it away."""
    inner = read(FILE)[0][4]
    end = inner.offset + len(encode_record(inner.txn))
    for at in range(inner.offset, end):
        damaged = bytearray(FILE)
        damaged[at] ^= 0x10
        with pytest.raises(ZooKeeperFileError) as caught:
            read(bytes(damaged))
        assert caught.value.offset == inner.offset


def test_zeros_in_the_middle_are_damage_and_not_the_end() -> None:
    offset = read(FILE)[0][6].offset
    with pytest.raises(ZooKeeperFileError, match="an intact one at offset"):
        read(FILE[:offset] + bytes(100) + FILE[offset:] + bytes(100))


def test_live_log_is_read_on_from_where_it_ended() -> None:
    offset = read(FILE)[0][6].offset
    records, reader = read(FILE[: offset + 20] + bytes(100), live=True)
    assert (len(records), reader.offset, reader.end) == (6, offset, LogEnd.TORN)
    more = LogReader([FILE[offset:] + bytes(20)], "log.1", reader.offset, live=True)
    assert [record.txn for record in more] == RECORDS[6:]
    assert (more.offset, more.end) == (len(FILE), LogEnd.PADDING)


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        (99, b"", "unknown transaction type 99"),
        (2, b"\xff\xff\xff\xff", "no path"),
        (2, b"\x00\x00\x00\x01\xff", "no path"),
        (5, b"\x00\x00\x00\x02/a\x00\x00\x00\x09x", "undecodable"),
        (14, struct.pack(">iii", 1, 14, -1), "part of a multi"),
        (21, bytes.fromhex("000000022f61 ffffffff 00000000 00000001 0000000000000000"), "out of range"),
        (-10, b"\x00\x00\x00\x01\x02", "undecodable"),
    ],
)
def test_undecodable_record_names_its_place(kind: int, body: bytes, reason: str) -> None:
    record = framed(struct.pack(">qiqqi", 5, 6, 7, TIME, kind) + body)
    with pytest.raises(ZooKeeperFileError, match=reason) as caught:
        read(FILE + record)
    assert caught.value.offset == len(FILE)


def test_record_without_a_header_is_refused() -> None:
    with pytest.raises(ZooKeeperFileError, match="no header"):
        read(FILE + framed(b"short"))


def test_tools_read_on_behind_a_wrong_checksum() -> None:
    payload = struct.pack(">qiqqii", 5, 6, 7, TIME, -10, 3000)
    reader = LogReader([LOG_HEADER + framed(payload, 1) + framed(payload)], "log.1")
    assert [(offset, intact) for offset, intact, _ in reader.payloads()] == [(16, False), (16 + 49, True)]
