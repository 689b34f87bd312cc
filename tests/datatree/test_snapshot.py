import errno
import struct
from random import Random
from zlib import crc32

import pytest

from datatree.log.transaction_log import LogContents, TransactionLog
from datatree.record import Txn
from datatree.recovery.recover import recover
from datatree.snapshot import (
    CHUNK_BYTES,
    HEADER_BYTES,
    TRAILER_BYTES,
    SnapshotError,
    SnapshotHeader,
    SnapshotLoader,
    SnapshotReader,
    SnapshotWriter,
    fetch_path,
    install_snapshot,
    load_snapshot,
    read_snapshot_header,
    snapshot_files,
    snapshot_path,
    verify_snapshot,
)
from datatree.tree import DataTree
from datatree.znode import HEAD, stat_of
from tests.datatree.full_tree import everything
from tests.datatree.histories import LINEAGE, Author, fresh_log, reopened, snapshot, synchronized
from zab.simulator.world.disk import FaultyDisk, FaultyFile, PowerLossError

CHAIN = bytes(range(16, 32))
ACL_A = ((1, b"digest", b"a:x"), (31, b"world", b"anyone"))
ACL_B = ((3, b"ip", b"10.0.0.0/8"),)


def grown(znode_count: int = 50, data_bytes: int = 30, seed: int = 0) -> DataTree:
    """A tree with sessions, lists, null data, an ephemeral, a container and a TTL znode; then some of it changed."""
    tree, rng = DataTree(), Random(seed)
    zxid = 1 << 32

    def apply(session: int, kind: int, number: int, path: bytes, data: bytes | None, rest: object) -> None:
        nonlocal zxid
        zxid += 1
        tree.apply(Txn(zxid, zxid & 0xFFFF, session, 1, kind, number, path, data, rest))

    for session in (9, 5, -7, 1 << 60):
        apply(session, -10, 4000 + session % 100, b"", None, None)
    owners = [0, 0, 0, 5, -(1 << 63), -(1 << 56) + 1000]
    for number in range(znode_count):
        acl = rng.choice([None, ACL_A, ACL_B])
        data = rng.choice([None, b"", rng.randbytes(data_bytes)])
        path = b"/%x" % crc32(b"%d" % number)
        apply(5, 1, number + 1, path, data, (acl, rng.choice(owners)))
    paths = sorted(set(tree.child_names(b"/")) - {b"zookeeper"})
    for number, name in enumerate(paths[::5]):
        apply(5, 5, number + 1, b"/" + name, b"changed", None)
    apply(5, 2, 0, b"/" + paths[1], None, None)
    return tree


@pytest.mark.parametrize("znode_count", [3, 50, 3000])
def test_loaded_tree_is_the_one_that_was_written(znode_count):
    disk, tree = FaultyDisk(), grown(znode_count)
    path = snapshot(disk, tree, CHAIN)
    header, loaded = load_snapshot(disk, path)
    assert header == SnapshotHeader(LINEAGE, tree.applied, CHAIN)
    assert everything(loaded) == everything(tree)
    assert path == snapshot_path(tree.applied)
    assert verify_snapshot(disk, path) == read_snapshot_header(disk, path) == header


@pytest.mark.parametrize("permissions", [-1, 32, (1 << 31) - 1, -(1 << 31)])
def test_permissions_that_mean_nothing_are_kept(permissions: int) -> None:
    """A client may send any 32 bits; no znode may keep the members from their snapshots."""
    disk, tree = FaultyDisk(), DataTree()
    tree.apply(Txn(1, 1, 5, 1, 1, 1, b"/a", b"", (((permissions, b"world", b"anyone"),), 0)))
    _, loaded = load_snapshot(disk, snapshot(disk, tree, CHAIN))
    assert everything(loaded) == everything(tree)


def test_layout_is_the_documented_one_byte_by_byte():
    tree = DataTree()
    tree.apply(Txn(1 << 32 | 1, 7, 3, 0, -10, 4000, b"", None, None))
    tree.apply(Txn(1 << 32 | 2, 7, 3, 0, 1, 1, b"/a", b"hello", (ACL_B, 3)))
    disk = FaultyDisk()
    data = disk.read(snapshot(disk, tree, CHAIN))
    head = struct.pack(">4sI16sQ16s12x", b"ZSNP", 1, LINEAGE, 1 << 32 | 2, CHAIN)
    assert data[:HEADER_BYTES] == head + struct.pack(">I", crc32(head))

    def znode(path: bytes, number: int) -> bytes:
        found = tree.get(path)
        content, stat = tree.data_of(path, found), stat_of(found)
        _, owner, cversion, _, _ = HEAD.unpack_from(found)
        lengths = struct.pack(">BIiIqi", 3, len(path), len(content), number, owner, cversion)
        return lengths + stat + path + content

    def one_list(number: int, entry: tuple[int, bytes, bytes]) -> bytes:
        perms, scheme, name = entry
        return struct.pack(">BIIIII", 2, number, 1, perms, len(scheme), len(name)) + scheme + name

    entries = [
        struct.pack(">Bqi", 1, 3, 4000),
        znode(b"/", 0),
        one_list(1, ACL_B[0]),
        znode(b"/a", 1),
        znode(b"/zookeeper", 0),
        one_list(2, (1, b"world", b"anyone")),
        znode(b"/zookeeper/config", 2),
        znode(b"/zookeeper/quota", 0),
    ]
    body = b"".join(entries)
    chunk_head = struct.pack(">II", len(body), len(entries))
    checksum = crc32(chunk_head + body, crc32(head))
    trailer = struct.pack(">4sIQ16sQQQI", b"ZEND", 1, 1 << 32 | 2, CHAIN, tree.digest, 5, 1, checksum)
    chunk = chunk_head + struct.pack(">I", checksum) + body
    assert data[HEADER_BYTES:] == chunk + bytes(4) + trailer + struct.pack(">I", crc32(trailer))


def test_two_members_write_the_same_bytes():
    """E2: one applied everything, the other began from a snapshot, with other ids of lists and orders of sets."""
    author = Author()
    batches = author.write(400)
    whole, behind = FaultyDisk(), FaultyDisk()
    one = fresh_log(whole)
    one.append(batches)
    one.set_mark(author.last[0])
    early = Author()
    for batch in batches[:150]:
        early.apply(batch)
    snapshot(behind, early.tree, early.last[1])
    other = fresh_log(behind)
    other.reset(*early.last, LINEAGE)
    other.append(batches[150:])
    other.set_mark(author.last[0])
    files = []
    for disk in (whole, behind):
        recovered = recover(disk)
        assert recovered.tree.applied == author.last[0]
        files.append(disk.read(snapshot(disk, recovered.tree, recovered.last[1])))
    assert files[0] == files[1]


def test_bytes_do_not_depend_on_how_the_writer_is_sliced(monkeypatch):
    tree = grown(2000)
    disk = FaultyDisk()
    expected = disk.read(snapshot(disk, tree, CHAIN))
    monkeypatch.setattr("datatree.snapshot.SYNC_BYTES", 1000)
    original = type(tree.begin_snapshot()).slices
    tree.cursor.close()
    monkeypatch.setattr("datatree.cursor.SnapshotCursor.slices", lambda cursor, count=256: original(cursor, 256))
    assert disk.read(snapshot(disk, tree, CHAIN)) == expected


def test_writes_during_the_snapshot_are_not_in_it():
    disk, tree = FaultyDisk(), grown(1500)
    before = everything(tree)
    writer = SnapshotWriter(disk, tree.begin_snapshot(), LINEAGE, CHAIN)
    zxid, number = tree.applied, 5000
    while not writer.write_slice():
        zxid, number = zxid + 1, number + 1
        tree.apply(Txn(zxid, 1, 5, 0, 1, number, b"/new%d" % zxid, b"new", (None, 0)))
    assert everything(load_snapshot(disk, writer.path)[1]) == before
    assert tree.cursor is None


def test_what_is_written_at_once_is_bounded(monkeypatch):
    monkeypatch.setattr("datatree.snapshot.SYNC_BYTES", 1 << 20)
    disk, tree = FaultyDisk(), grown(200, data_bytes=100_000)
    assert tree.data_bytes > 4 << 20
    written = []
    original = FaultyFile.write
    monkeypatch.setattr(FaultyFile, "write", lambda file, data: (written.append(len(data)), original(file, data)))
    path = snapshot(disk, tree, CHAIN)
    assert max(written) < (1 << 20) + 2 * CHUNK_BYTES
    assert everything(load_snapshot(disk, path)[1]) == everything(tree)


def test_chunks_are_cut_by_bytes():
    disk, tree = FaultyDisk(), grown(3000, data_bytes=600)
    path = snapshot(disk, tree, CHAIN)
    sizes = [len(data) for _, _, data in SnapshotReader.open(disk, path).chunks()]
    assert len(sizes) > 2
    assert all(CHUNK_BYTES <= size < CHUNK_BYTES + 1000 for size in sizes[:-1])


def test_every_flipped_byte_and_every_cut_is_noticed():
    disk, tree = FaultyDisk(), grown(8)
    path = snapshot(disk, tree, CHAIN)
    data = disk.read(path)
    for at in range(len(data)):
        disk.flip(path, 8 * at + at % 8)
        with pytest.raises(SnapshotError) as error:
            load_snapshot(disk, path)
        assert error.value.path == path
        assert error.value.offset <= at, at
        with pytest.raises(SnapshotError):
            verify_snapshot(disk, path)
        disk.flip(path, 8 * at + at % 8)
    for length in range(len(data)):
        disk.replace(path, data[:length])
        with pytest.raises(SnapshotError):
            load_snapshot(disk, path)
    disk.replace(path, data + b"\0")
    with pytest.raises(SnapshotError, match="trailer"):
        load_snapshot(disk, path)


def test_chunk_of_another_place_is_noticed():
    """Two chunks swapped, each with its own checksum right."""
    disk, tree = FaultyDisk(), grown(3000, data_bytes=600)
    path = snapshot(disk, tree, CHAIN)
    data = bytearray(disk.read(path))
    chunks = [(at - 12, len(entries) + 12) for at, _, entries in SnapshotReader.open(disk, path).chunks()]
    (one, one_bytes), (two, two_bytes) = chunks[:2]
    swapped = data[:one] + data[two : two + two_bytes] + data[one : one + one_bytes] + data[two + two_bytes :]
    disk.replace(path, bytes(swapped))
    with pytest.raises(SnapshotError, match="checksum of the chunk"):
        verify_snapshot(disk, path)


def rebuilt(data: bytes, entries: bytes, count: int) -> bytes:
    """A snapshot of one chunk with other entries and all checksums right."""
    head = struct.pack(">II", len(entries), count)
    checksum = crc32(head + entries, crc32(data[: HEADER_BYTES - 4]))
    trailer = data[-TRAILER_BYTES:-8] + struct.pack(">I", checksum)
    chunk = head + struct.pack(">I", checksum) + entries
    return data[:HEADER_BYTES] + chunk + bytes(4) + trailer + struct.pack(">I", crc32(trailer))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda entries: [*entries, entries[-1]], "path .* after"),
        (lambda entries: entries[::-1], "out of order|path .* after"),
        (lambda entries: entries[1:], "sessions"),
        (lambda entries: entries[:-1], "number of children"),
        (lambda entries: [*entries, b"\x09"], "entry of kind 9"),
        (lambda entries: [*entries[:-1], entries[-1][:-1]], "entry"),
        (lambda entries: [entries[0], entries[0], *entries[1:]], "out of order"),
        (lambda entries: [struct.pack(">Bqi", 1, 9, 1), *entries[1:]], "digest"),
        (lambda entries: [struct.pack(">BII", 2, 7, 0), *entries], "list 7 where 1 is due"),
    ],
)
def test_impossible_content_with_good_checksums_is_refused(change, reason):
    disk, tree = FaultyDisk(), DataTree()
    tree.apply(Txn(1 << 32 | 1, 7, 3, 0, -10, 4000, b"", None, None))
    tree.apply(Txn(1 << 32 | 2, 7, 3, 0, 1, 1, b"/zz", b"hello", (None, 0)))
    path = snapshot(disk, tree, CHAIN)
    data = disk.read(path)
    ((_, _, body),) = SnapshotReader.open(disk, path).chunks()
    entries, at = [], 0
    for size in (13, 93 + 1, 93 + 10):
        entries.append(body[at : at + size])
        at += size
    config = body.index(b"/zookeeper/config") + 17
    quota = body.index(b"/zookeeper/quota") + 16
    entries += [body[at:config], body[config:quota], body[quota:]]
    assert entries[-1].endswith(b"/zzhello")
    count = 7
    disk.replace(path, rebuilt(data, b"".join(entries), count))
    assert load_snapshot(disk, path)[1].digest == tree.digest
    changed = change(entries)
    disk.replace(path, rebuilt(data, b"".join(changed), count + len(changed) - len(entries)))
    with pytest.raises(SnapshotError, match=reason):
        load_snapshot(disk, path)


def test_wrong_name_is_refused():
    disk, tree = FaultyDisk(), grown(3)
    path = snapshot(disk, tree, CHAIN)
    disk.rename(path, snapshot_path(5))
    assert read_snapshot_header(disk, snapshot_path(5)) is None
    with pytest.raises(SnapshotError, match="name"):
        load_snapshot(disk, snapshot_path(5))


# Writing and the disk.


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_failed_write_abandons_that_snapshot_only(error, monkeypatch):
    monkeypatch.setattr("datatree.snapshot.SYNC_BYTES", 10_000)
    tree = grown(300)
    total = FaultyDisk()
    snapshot(total, tree, CHAIN)
    for point in range(1, total.operations + 1):
        disk = FaultyDisk()
        writer = SnapshotWriter(disk, tree.begin_snapshot(), LINEAGE, CHAIN)
        disk.fail_after(point, error)
        with pytest.raises(OSError) as raised:
            writer.write()
        assert raised.value.errno == error
        writer.abandon()
        assert tree.cursor is None
        assert not [name for name in disk.list("version-1") if name.endswith(".tmp")]


def test_full_disk_leaves_the_older_snapshot_and_the_log():
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk)
    log.append(author.write(30))
    log.set_mark(author.last[0])
    older = snapshot(disk, author.tree, author.last[1])
    log.append(author.write(30))
    log.set_mark(author.last[0])
    disk.capacity_bytes -= disk.free_bytes() - 1000
    writer = SnapshotWriter(disk, author.tree.begin_snapshot(), LINEAGE, author.last[1])
    with pytest.raises(OSError, match="No space left"):
        writer.write()
    writer.abandon()
    log.append(author.write(1, data_bytes=1))
    assert disk.exists(older)
    disk.capacity_bytes = 1 << 40
    assert recover(disk).last == author.last


def test_power_cut_anywhere_leaves_a_whole_snapshot_or_none(monkeypatch):
    monkeypatch.setattr("datatree.snapshot.SYNC_BYTES", 10_000)
    tree = grown(300)
    done = False
    for point in range(1, 100):
        disk = FaultyDisk()
        disk.crash_after(point)
        try:
            snapshot(disk, tree, CHAIN)
            done = True
        except PowerLossError:
            if tree.cursor is not None:
                tree.cursor.close()
        disk.crash(Random(point))
        if done:
            break
        for zxid in snapshot_files(disk):
            assert load_snapshot(disk, snapshot_path(zxid))[1].digest == tree.digest
    assert done
    assert snapshot_files(disk) == [tree.applied], "its name is durable when it is done"


# From another member.


def fetched(disk: FaultyDisk, source: FaultyDisk, path: str, zxid: int) -> str:
    """Put a copy of a snapshot where a transfer leaves it."""
    target = fetch_path(zxid)
    file = disk.open_append(target, create=True)
    file.write(source.read(path))
    file.sync()
    file.close()
    return target


def test_fetched_snapshot_is_installed_and_the_log_goes_on_behind_it():
    source, disk = FaultyDisk(), FaultyDisk()
    author = Author()
    author.write(40)
    path = snapshot(source, author.tree, author.last[1])
    old = Author(seed=5)
    log = fresh_log(disk)
    log.append(old.write(5))
    target = fetched(disk, source, path, author.last[0])
    loader = SnapshotLoader(disk, target)
    while not loader.load_chunk():
        pass
    assert loader.tree.digest == author.tree.digest
    assert install_snapshot(disk, target, loader.header) == path
    log.reset(*author.last, LINEAGE)
    log.append(author.write(2))
    disk.crash(Random(2))
    recovered, again = reopened(disk)
    assert recovered.last == author.last
    assert again.first_position == (recovered.snapshot_zxid, author.batches[-3].chain)
    assert not recovered.problems


def test_fetched_snapshot_that_is_not_the_expected_one_is_refused():
    source, disk = FaultyDisk(), FaultyDisk()
    tree = grown(5)
    path = snapshot(source, tree, CHAIN)
    target = fetched(disk, source, path, tree.applied)
    with pytest.raises(SnapshotError, match="asked for"):
        install_snapshot(disk, target, SnapshotHeader(LINEAGE, tree.applied, bytes(16)))
    disk.truncate(target, disk.size(target) - 1)
    with pytest.raises(SnapshotError):
        install_snapshot(disk, target, SnapshotHeader(LINEAGE, tree.applied, CHAIN))
    assert snapshot_files(disk) == []


def test_log_that_was_reset_behind_a_lost_snapshot_does_not_fall_back():
    """The older snapshot is valid, but the history is known to have been further."""
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    author.write(5)
    snapshot(disk, author.tree, author.last[1])
    author.write(5)
    newer = snapshot(disk, author.tree, author.last[1])
    log = TransactionLog(disk, LogContents(LINEAGE))
    log.reset(*author.last, LINEAGE)
    disk.flip(newer, 8 * 80)
    assert recover(disk).damage
