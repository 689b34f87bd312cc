"""ZooKeeper's snapshot: what is written is read, every seal counts, and older writers are understood."""

from __future__ import annotations

import gzip
import itertools
import struct
from collections.abc import Iterator
from zlib import adler32

import pytest

from datatree.zookeeper.files import (
    ACL_ENTRIES_MAX,
    FIELD_BYTES_MAX,
    SNAPSHOT_MAGIC,
    FileName,
    ZooKeeperFileError,
    file_name,
    parse_file_name,
)
from datatree.zookeeper.snapshot import UNKNOWN_ACL, SnapshotReader, SnapshotZnode, uncompressed
from datatree.zookeeper.state import ZooKeeperState
from tests.datatree.zookeeper.histories import history, states

STATE = states(history(3, 200)[0])[-1]
FILE = b"".join(STATE.snapshot())


def read(data: bytes) -> tuple[list[SnapshotZnode], SnapshotReader]:
    reader = SnapshotReader([data], "snapshot.c8")
    return list(reader), reader


def without(data: bytes, optional_parts: int) -> bytes:
    """The file as an older ZooKeeper wrote it: without the last zxid, and without the digest too."""
    return data[: -{0: 0, 1: 8 + 13, 2: 8 + 13 + 20 + 13}[optional_parts] or None]


def test_what_is_written_is_read() -> None:
    znodes, reader = read(FILE)
    assert {znode.path: znode for znode in znodes} == STATE.znodes
    assert reader.sessions == STATE.sessions
    assert (reader.digest_zxid, reader.digest, reader.last_zxid) == (STATE.zxid, STATE.digest, STATE.zxid)
    assert len(STATE.znodes) > 8
    assert len(reader.acls) == len({znode.acl for znode in znodes} - {None}) > 1


@pytest.mark.parametrize("size", [1, 5, 100])
def test_chunks_may_be_cut_anywhere(size: int) -> None:
    reader = SnapshotReader((FILE[at : at + size] for at in range(0, len(FILE), size)), "snapshot.c8")
    assert {znode.path: znode for znode in reader} == STATE.znodes


def by_stretches(data: bytes, size_bytes: int) -> tuple[list[bytes], SnapshotReader]:
    """The bytes of every znode."""
    reader = SnapshotReader([data], "snapshot.c8")
    found = []
    for offset, stretch, starts in reader.stretches(size_bytes):
        assert data.startswith(stretch, offset)
        found += [stretch[at:end] for at, end in zip(starts, [*starts[1:], len(stretch)], strict=True)]
    return found, reader


@pytest.mark.parametrize("size_bytes", [1, 9, 100, 1 << 20])
def test_stretches_are_the_same_znodes(size_bytes: int) -> None:
    found, reader = by_stretches(FILE, size_bytes)
    assert (reader.digest_zxid, reader.digest, reader.last_zxid) == (STATE.zxid, STATE.digest, STATE.zxid)
    for znode, data in zip(read(FILE)[0], found, strict=True):
        path = b"" if znode.path == b"/" else znode.path
        content = struct.pack(">i", -1) if znode.data is None else struct.pack(">i", len(znode.data)) + znode.data
        assert data.startswith(struct.pack(">i", len(path)) + path + content)
        assert data.endswith(struct.pack(">qq", znode.owner, znode.pzxid))


@pytest.mark.parametrize("size_bytes", [50, 1 << 20])
def test_stretches_see_the_damage_that_the_reader_sees(size_bytes: int) -> None:
    for at in range(len(FILE)):
        for damaged in (FILE[:at], FILE[:at] + bytes([FILE[at] ^ 0x80]) + FILE[at + 1 :]):
            refused = []
            for reading in (read, lambda data: by_stretches(data, size_bytes)):
                try:
                    reading(damaged)
                except ZooKeeperFileError:
                    refused.append(True)
                else:
                    refused.append(False)
            assert refused[0] or at in (len(without(FILE, 1)), len(without(FILE, 2)))
            assert refused[0] == refused[1]


def test_what_is_written_is_canonical() -> None:
    """A state with its maps in another order gives the same bytes."""
    turned = ZooKeeperState.build(
        (
            STATE.znodes[path]
            for path in sorted(STATE.znodes, key=lambda path: (path.count(b"/") * (path != b"/"), path))
        ),
        dict(reversed(STATE.sessions.items())),
        STATE.zxid,
    )
    assert b"".join(turned.snapshot()) == FILE


def test_layout_is_zookeepers() -> None:
    """One session, one list, the root and one znode, byte by byte."""
    acl = ((1, b"world", b"anyone"),)
    root = SnapshotZnode(b"/", b"", None, 0, 0, 0, 0, 0, 1, 0, 0, 9)
    znode = SnapshotZnode(b"/a", None, acl, 1, 2, 3, 4, 5, 6, 7, 8, 9)
    state = ZooKeeperState.build([root, znode], {8: 4000}, 9)
    body = b"".join(
        [
            b"ZKSN" + struct.pack(">iq", 2, -1),
            struct.pack(">iqi", 1, 8, 4000),
            struct.pack(">iqii", 1, 1, 1, 1) + b"\x00\x00\x00\x05world\x00\x00\x00\x06anyone",
            struct.pack(">iiq", 0, 0, -1) + struct.pack(">qqqqiiiqq", 0, 0, 0, 0, 0, 1, 0, 0, 9),
            b"\x00\x00\x00\x02/a\xff\xff\xff\xff" + struct.pack(">q", 1),
            struct.pack(">qqqqiiiqq", 1, 2, 3, 4, 5, 6, 7, 8, 9),
            b"\x00\x00\x00\x01/",
        ]
    )
    for part in (b"", struct.pack(">qiQ", 9, 2, state.digest), struct.pack(">q", 9)):
        body += part
        body += struct.pack(">q", adler32(body)) + b"\x00\x00\x00\x01/"
    assert b"".join(state.snapshot()) == body


def test_large_snapshot_comes_in_slices() -> None:
    znodes = [SnapshotZnode(b"/", b"", None, *[0] * 9)]
    znodes += [SnapshotZnode(b"/%04d" % number, bytes(2000), None, *[0] * 9) for number in range(1200)]
    pieces = list(ZooKeeperState.build(znodes, {}, 1).snapshot())
    assert len(pieces) > 3
    assert len(list(SnapshotReader(pieces, "snapshot.1"))) == 1201


@pytest.mark.parametrize("optional_parts", [1, 2])
def test_files_of_older_writers_are_read(optional_parts: int) -> None:
    znodes, reader = read(without(FILE, optional_parts))
    assert len(znodes) == len(STATE.znodes)
    assert reader.last_zxid is None
    assert reader.digest == (STATE.digest if optional_parts == 1 else None)


def test_every_flipped_byte_is_noticed() -> None:
    small = b"".join(states(history(3, 6)[0])[-1].snapshot())
    for at in range(len(small)):
        damaged = bytearray(small)
        damaged[at] ^= 0x20
        with pytest.raises(ZooKeeperFileError):
            read(bytes(damaged))


def test_every_cut_is_noticed_but_that_before_an_optional_part() -> None:
    small = b"".join(states(history(3, 6)[0])[-1].snapshot())
    whole = {len(without(small, parts)) for parts in (0, 1, 2)}
    for length in range(len(small)):
        if length not in whole:
            with pytest.raises(ZooKeeperFileError):
                read(small[:length])


def test_error_names_file_and_offset() -> None:
    damaged = bytearray(FILE)
    damaged[len(without(FILE, 2)) - 13] ^= 1
    with pytest.raises(ZooKeeperFileError, match="checksum of the znodes") as caught:
        read(bytes(damaged))
    assert (caught.value.file, caught.value.offset) == ("snapshot.c8", len(without(FILE, 2)) - 13)
    assert str(caught.value).startswith(f"snapshot.c8: offset {caught.value.offset}: ")


def test_bytes_after_the_last_seal_are_refused() -> None:
    with pytest.raises(ZooKeeperFileError, match="after the last seal"):
        read(FILE + b"\x00")


def test_unknown_acl_id_grants_nothing() -> None:
    acl = ((1, b"world", b"anyone"),)
    state = ZooKeeperState.build([SnapshotZnode(b"/", b"", acl, *[0] * 9)], {}, 1)
    head = b"".join(state.snapshot())
    listed = struct.pack(">iqii", 1, 1, 1, 1) + b"\x00\x00\x00\x05world\x00\x00\x00\x06anyone"
    assert listed in head
    body = head[: head.index(b"\x00\x00\x00\x01/")].replace(listed, bytes(4)) + b"\x00\x00\x00\x01/"
    (root,) = read(body + struct.pack(">q", adler32(body)) + b"\x00\x00\x00\x01/")[0]
    assert root.acl == UNKNOWN_ACL


def test_gzip_is_read_whatever_the_name() -> None:
    packed = gzip.compress(FILE)
    chunks = uncompressed((packed[at : at + 11] for at in range(0, len(packed), 11)), "snapshot.c8.gz")
    assert b"".join(chunks) == FILE
    assert b"".join(uncompressed([FILE[:99], FILE[99:]], "snapshot.c8")) == FILE


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damaged_gzip_is_noticed(damage: str) -> None:
    packed = bytearray(gzip.compress(FILE))
    if damage == "cut":
        del packed[-9:]
    else:
        packed[len(packed) // 2] ^= 0xFF
    with pytest.raises(ZooKeeperFileError, match="gzip"):
        list(SnapshotReader(uncompressed([bytes(packed)], "snapshot.c8.gz"), "snapshot.c8.gz"))


def test_a_gzip_that_holds_much_comes_in_slices() -> None:
    packed = gzip.compress(bytes(50 << 20))
    pieces = [len(piece) for piece in uncompressed([packed], "snapshot.c8.gz")]
    assert sum(pieces) == 50 << 20
    assert max(pieces) <= 1 << 20


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("log.100000001", FileName("log", 0x100000001)),
        ("version-2/snapshot.ff", FileName("snapshot", 0xFF)),
        ("snapshot.0.gz", FileName("snapshot", 0, "gz")),
        ("snapshot.a.snappy", FileName("snapshot", 10, "snappy")),
        ("log.1.gz", None),
        ("snapshot.1.tmp", None),
        ("snapshot.xyz", None),
        ("snapshot.-1", None),
        ("acceptedEpoch", None),
        ("log", None),
    ],
)
def test_file_names(name: str, parts: FileName | None) -> None:
    assert parse_file_name(name) == parts
    if parts is not None and not parts.compression:
        assert name.endswith(file_name(parts.kind, parts.zxid))


def test_what_a_compressed_file_asks_for_is_bounded_before_it_is_there() -> None:
    """A megabyte of gzip holds a gigabyte of zeros: no length and no count of it takes that much memory."""
    header, zeros = struct.pack(">iiq", SNAPSHOT_MAGIC, 2, -1), itertools.repeat(bytes(1 << 16))

    def chunks(*fields: bytes) -> Iterator[bytes]:
        yield header + b"".join(fields)
        for taken, chunk in enumerate(zeros, 1):
            assert taken <= 32, "two slices, whatever it asks for"
            yield chunk

    number, longest = struct.Struct(">i").pack, (1 << 31) - 1
    for fields, reason in (
        ((number(longest),), "session 0x0 is in it twice"),
        ((number(0), number(longest)), "ACL list 0 is in it twice"),
        ((number(0), number(1), bytes(8), number(longest)), f"the ACL lists have more than {ACL_ENTRIES_MAX} entries"),
        ((number(0), number(0), number(FIELD_BYTES_MAX + 1)), f"unreasonable length {FIELD_BYTES_MAX + 1}"),
        ((number(0), number(0), number(0), number(FIELD_BYTES_MAX + 1)), f"unreasonable length {FIELD_BYTES_MAX + 1}"),
    ):
        with pytest.raises(ZooKeeperFileError, match=reason):
            list(SnapshotReader(chunks(*fields), "snapshot.1"))
        with pytest.raises(ZooKeeperFileError, match=reason):
            list(SnapshotReader(chunks(*fields), "snapshot.1").stretches())
