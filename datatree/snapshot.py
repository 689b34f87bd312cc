"""Snapshot files: the tree at one zxid, byte for byte the same on every member.

    version-1/snapshot.<zxid, hex>   complete and durable; it is written as `….tmp`, synced, and renamed

Format, big-endian, version 1. A header of 64 bytes:

    offset  bytes  field
         0      4  magic "ZSNP"
         4      4  version, 1
         8     16  lineage id
        24      8  zxid, a batch end: everything up to it is in the tree, and nothing above
        32     16  chain at that zxid
        48     12  zeros
        60      4  CRC-32 of bytes 0 to 59

then chunks, each of whole entries and closed by the entry with which it has 256 KiB or more:

         0      4  length of the entries in bytes, not 0
         4      4  count of the entries
         8      4  CRC-32 of bytes 0 to 7 and the entries, begun with the checksum of the previous chunk, for the first
                   chunk with the header's: a chunk is only valid in its place
        12      …  entries

then 4 zero bytes and a trailer of 64 bytes:

         0      4  magic "ZEND"
         4      4  version of the digest
         8      8  zxid
        16     16  chain
        32      8  digest of the tree
        40      8  count of znodes
        48      8  count of sessions
        56      4  checksum of the last chunk
        60      4  CRC-32 of bytes 0 to 59

Entries: all sessions by ascending id; then the znodes by ascending path, each permission list right before the first
znode that uses it; lists are numbered 1, 2, 3, … in that order, and 0 is the open list.

    session  01 | id 8, signed | timeout 4, ms
    list     02 | number 4 | count of entries 4 | entries, each:
             permissions 4, signed | length of scheme 4 | length of id 4 | scheme | id
    znode    03 | length of path 4 | length of data 4, -1 for null | number of its list 4 | stored owner 8 |
             internal cversion 4 | stat 68 as a client sees it (`datatree.znode`) | path | data

Invariants: nothing in the file depends on the member that wrote it; nothing is compressed. Quota sums, children and
ephemerals by session are derived, so they are not in it. Not here: when a snapshot is taken, and when it may be removed
(`datatree.recovery.retention`).
"""

import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain as chained
from zlib import crc32

from attrs import define

from datatree.acl import AclList
from datatree.cursor import SnapshotCursor
from datatree.digest import DIGEST_VERSION
from datatree.log.batch import CHAIN_BYTES, LINEAGE_BYTES
from datatree.log.disk import Disk, File
from datatree.log.epochs import DIRECTORY
from datatree.log.zxid import Zxid
from datatree.snapshot_entries import IS_LIST, IS_SESSION, IS_ZNODE, SESSION, ZNODE, pack_list, parse_list
from datatree.tree import DataTree, Installed, TreeError
from datatree.znode import DATA_AT, HEAD, STAT_AT, Znode

_HEAD = struct.Struct(">4sI16sQ16s12x")
_CHUNK = struct.Struct(">II")
_CRC = struct.Struct(">I")
_TRAILER = struct.Struct(">4sIQ16sQQQI")
_NAME = re.compile(r"snapshot\.([0-9a-f]+)")

HEADER_BYTES = _HEAD.size + _CRC.size
TRAILER_BYTES = _TRAILER.size + _CRC.size
CHUNK_HEADER_BYTES = _CHUNK.size + _CRC.size
CHUNK_BYTES = 256 << 10
SYNC_BYTES = 4 << 20
"""How much is written between two syncs: a bounded piece of work for the disk, which the log shares."""


assert HEADER_BYTES == TRAILER_BYTES == 64


class SnapshotError(Exception):
    """A snapshot file cannot be used; no part of it was."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path} at offset {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


@define
class SnapshotHeader:
    """Which history a snapshot belongs to, and its position there."""

    lineage: bytes
    zxid: int
    chain: bytes

    def pack(self) -> bytes:
        assert len(self.lineage) == LINEAGE_BYTES
        assert len(self.chain) == CHAIN_BYTES
        head = _HEAD.pack(b"ZSNP", 1, self.lineage, self.zxid, self.chain)
        return head + _CRC.pack(crc32(head))


@define
class SnapshotTrailer:
    """What a complete snapshot must add up to."""

    digest_version: int
    digest: int
    znode_count: int
    session_count: int


def snapshot_path(zxid: int, directory: str = DIRECTORY) -> str:
    """The path of the snapshot at this zxid."""
    return f"{directory}/snapshot.{zxid:x}"


FETCH = ".fetch"
"""The ending of the name of a file that is being fetched."""


def fetch_path(zxid: int) -> str:
    """The path of a snapshot while it is fetched from another member."""
    return f"{snapshot_path(zxid)}{FETCH}"


def tree_fetch_path(zxid: int) -> str:
    """The path of a snapshot while it is fetched from another member only to rebuild the tree, while the log stays."""
    return f"{snapshot_path(zxid)}.tree{FETCH}"


def snapshot_files(disk: Disk, directory: str = DIRECTORY) -> list[Zxid]:
    """The zxids of the existing snapshot files, ascending; they may be invalid."""
    return sorted(Zxid(int(match[1], 16)) for name in disk.list(directory) if (match := _NAME.fullmatch(name)))


class SnapshotWriter:
    """Writes one snapshot, a slice at a time; `path` exists, durably, once `write_slice` has returned True.

    An OSError leaves the writer unusable: `abandon` it, and the tree is not affected. A thread other than the one that
    applies may write the slices.
    """

    def __init__(
        self,
        disk: Disk,
        cursor: SnapshotCursor,
        lineage: bytes,
        chain: bytes,
        directory: str = DIRECTORY,
        entries: Iterator[Iterable[bytes]] | None = None,
    ) -> None:
        """`directory`: where the file gets its final name. Until then it is in the member's directory, under a
        different name than a snapshot of the same zxid that the member writes. `entries`: the packed entries of znodes
        and lists, slice by slice; None takes them from the cursor."""
        self.path = snapshot_path(cursor.zxid, directory)
        self.header = SnapshotHeader(lineage, cursor.zxid, chain)
        self._temporary = f"{snapshot_path(cursor.zxid)}{'' if directory == DIRECTORY else '.aside'}.tmp"
        self._disk = disk
        self._cursor = cursor
        self._file: File | None = None
        packed = map(self._znodes, cursor.slices()) if entries is None else map(iter, entries)
        self._slices: Iterator[Iterator[bytes]] = chained([self._sessions()], packed)
        self._slice: Iterator[bytes] = iter(())
        self._numbers: dict[int, int] = {}
        self._entries: list[bytes] = []
        self._entries_bytes = 0
        self._ready: list[bytes] = []
        self._ready_bytes = 0
        self._checksum = 0
        self._znode_count = 0 if entries is None else cursor.znode_count

    def write_slice(self) -> bool:
        """Do a little more (some thousand znodes or SYNC_BYTES); True once the snapshot is complete and durable."""
        if self._file is None:
            self._file = self._create()
        for entry in self._slice:
            self._entries.append(entry)
            self._entries_bytes += len(entry)
            if self._entries_bytes >= CHUNK_BYTES:
                self._end_chunk()
                if self._ready_bytes >= SYNC_BYTES:
                    self._write()
                    return False
        entries = next(self._slices, None)
        if entries is None:
            self._finish()
            return True
        self._slice = entries
        return False

    def write(self) -> None:
        """Write all of it."""
        while not self.write_slice():
            pass

    def abandon(self) -> None:
        """Give up: release the tree and remove what was written, as far as the disk allows."""
        self._cursor.close()
        with suppress(OSError):
            if self._file is not None:
                self._file.close()
        self._file = None
        with suppress(OSError):
            self._disk.remove(self._temporary)

    def _create(self) -> File:
        if self._disk.exists(self._temporary):
            self._disk.remove(self._temporary)
        header = self.header.pack()
        self._ready.append(header)
        self._checksum = _CRC.unpack_from(header, _HEAD.size)[0]
        return self._disk.open_append(self._temporary, create=True)

    def _sessions(self) -> Iterator[bytes]:
        for session in sorted(self._cursor.sessions.items()):
            yield SESSION.pack(IS_SESSION, *session)

    def _znodes(self, items: list[tuple[bytes, Znode]]) -> Iterator[bytes]:
        data_of = self._cursor.data_of
        for path, znode in items:
            acl_id, owner, cversion, _, _ = HEAD.unpack_from(znode)
            number = 0
            if acl_id >= 0:
                number = self._numbers.get(acl_id, 0)
                if not number:
                    number = self._numbers[acl_id] = len(self._numbers) + 1
                    yield pack_list(number, self._cursor.acls[acl_id])
            data = data_of(path, znode)
            length = -1 if data is None else len(data)
            head = ZNODE.pack(IS_ZNODE, len(path), length, number, owner, cversion, znode[STAT_AT:DATA_AT])
            yield b"".join((head, path, data)) if data else head + path
        self._znode_count += len(items)

    def _end_chunk(self) -> None:
        if not self._entries:
            return
        head = _CHUNK.pack(self._entries_bytes, len(self._entries))
        data = b"".join(self._entries)
        self._checksum = crc32(data, crc32(head, self._checksum))
        self._ready += head, _CRC.pack(self._checksum), data
        self._ready_bytes += CHUNK_HEADER_BYTES + len(data)
        self._entries.clear()
        self._entries_bytes = 0

    def _write(self) -> None:
        assert self._file is not None
        self._file.write(b"".join(self._ready))
        self._file.sync()
        self._ready.clear()
        self._ready_bytes = 0

    def _finish(self) -> None:
        assert self._file is not None
        cursor = self._cursor
        assert self._znode_count == cursor.znode_count
        self._end_chunk()
        trailer = _TRAILER.pack(
            b"ZEND",
            cursor.digest_version,
            cursor.zxid,
            self.header.chain,
            cursor.digest,
            self._znode_count,
            len(cursor.sessions),
            self._checksum,
        )
        self._ready += bytes(4), trailer, _CRC.pack(crc32(trailer))
        cursor.close()
        self._write()
        self._file.close()
        self._disk.rename(self._temporary, self.path)
        # If these are two directories: sync the new name first, then the absence of the old one.
        for directory in dict.fromkeys((self.path.rpartition("/")[0], DIRECTORY)):
            self._disk.sync_directory(directory)


def read_snapshot_header(disk: Disk, path: str) -> SnapshotHeader | None:
    """The header of a snapshot file, or None if it is not readable. The rest of the file is not examined."""
    try:
        return _parse_header(path, disk.read(path, 0, HEADER_BYTES))
    except SnapshotError:
        return None


def parse_snapshot_header(data: bytes, path: str) -> SnapshotHeader:
    """The header in the first HEADER_BYTES of a file; `path` is for the error. Raises SnapshotError."""
    if len(data) < HEADER_BYTES or crc32(data[: _HEAD.size]) != _CRC.unpack_from(data, _HEAD.size)[0]:
        raise SnapshotError(path, 0, "checksum of the header does not match")
    magic, version, lineage, zxid, chain = _HEAD.unpack_from(data)
    if magic != b"ZSNP" or version != 1:
        raise SnapshotError(path, 0, f"no snapshot of version 1: magic {magic!r}, version {version}")
    return SnapshotHeader(lineage, zxid, chain)


def _parse_header(path: str, data: bytes) -> SnapshotHeader:
    header = parse_snapshot_header(data, path)
    if not f"{path.rpartition('/')[2]}.".startswith(f"snapshot.{header.zxid:x}."):
        raise SnapshotError(path, 0, f"the name does not say zxid {header.zxid:x}")
    return header


@define
class SnapshotReader:
    """Reads a snapshot chunk by chunk; `header` is there from the start, `trailer` after the last chunk."""

    disk: Disk
    path: str
    header: SnapshotHeader
    trailer: SnapshotTrailer | None = None

    @classmethod
    def open(cls, disk: Disk, path: str) -> "SnapshotReader":
        """Open a snapshot file. Raises SnapshotError."""
        return cls(disk, path, _parse_header(path, disk.read(path, 0, HEADER_BYTES)))

    def chunks(self) -> Iterator[tuple[int, int, bytes]]:
        """(offset in the file, count of entries, entries) of every chunk, with its checksum verified. Raises
        SnapshotError.

        Only when it has ended is the snapshot known to be complete.
        """
        at = HEADER_BYTES
        checksum = _CRC.unpack(self.disk.read(self.path, _HEAD.size, _CRC.size))[0]
        while True:
            head = self.disk.read(self.path, at, CHUNK_HEADER_BYTES)
            if len(head) < CHUNK_HEADER_BYTES:
                raise SnapshotError(self.path, at, "the file ends without a trailer")
            length, count = _CHUNK.unpack_from(head)
            if length == 0:
                self.trailer = self._read_trailer(at + _CRC.size, checksum)
                return
            data = self.disk.read(self.path, at + CHUNK_HEADER_BYTES, length)
            checksum = crc32(data, crc32(head[: _CHUNK.size], checksum))
            if len(data) < length or checksum != _CRC.unpack_from(head, _CHUNK.size)[0]:
                raise SnapshotError(self.path, at, "checksum of the chunk does not match")
            yield at + CHUNK_HEADER_BYTES, count, data
            at += CHUNK_HEADER_BYTES + length

    def _read_trailer(self, at: int, checksum: int) -> SnapshotTrailer:
        data = self.disk.read(self.path, at, TRAILER_BYTES + 1)
        if len(data) != TRAILER_BYTES or crc32(data[: _TRAILER.size]) != _CRC.unpack_from(data, _TRAILER.size)[0]:
            raise SnapshotError(self.path, at, "checksum of the trailer does not match")
        magic, version, zxid, chain, digest, znode_count, session_count, last = _TRAILER.unpack_from(data)
        if magic != b"ZEND" or last != checksum or (zxid, chain) != (self.header.zxid, self.header.chain):
            raise SnapshotError(self.path, at, "the trailer belongs to another snapshot")
        return SnapshotTrailer(version, digest, znode_count, session_count)


def verify_snapshot(disk: Disk, path: str) -> SnapshotHeader:
    """Verify every checksum of a snapshot, without building the tree. Raises SnapshotError."""
    reader = SnapshotReader.open(disk, path)
    for _ in reader.chunks():
        pass
    return reader.header


def guarded_znodes(disk: Disk, path: str) -> Iterator[list[tuple[bytes, AclList]]]:
    """(path, list) of the znodes in a snapshot that are not open to all, a chunk at a time. Raises SnapshotError."""
    lists: list[AclList] = [None]
    for offset, _, data in SnapshotReader.open(disk, path).chunks():
        found: list[tuple[bytes, AclList]] = []
        at = 0
        try:
            while at < len(data):
                kind = data[at]
                if kind == IS_ZNODE:
                    _, path_length, data_length, number, _, _, _ = ZNODE.unpack_from(data, at)
                    start = at + ZNODE.size
                    if number:
                        found.append((data[start : start + path_length], lists[number]))
                    at = start + path_length + max(data_length, 0)
                elif kind == IS_LIST:
                    _, acl, at = parse_list(data, at)
                    lists.append(acl)
                elif kind == IS_SESSION:
                    at += SESSION.size
                else:
                    raise ValueError(f"entry of kind {kind}")
        except (ValueError, IndexError, struct.error) as error:
            raise SnapshotError(path, offset + at, f"entry not readable: {error}") from None
        yield found


class SnapshotLoader:
    """Builds the tree of a snapshot, a chunk at a time; `tree` is complete once `load_chunk` has returned True.

    Raises SnapshotError if the file is not as this module describes it, including the order of the entries.
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self.reader = SnapshotReader.open(disk, path)
        self.header = self.reader.header
        self.tree = DataTree.bare()
        self._chunks = self.reader.chunks()
        self._lists: list[AclList] = [None]
        self._path = b""
        self._session: int | None = None
        self._at = 0
        """How much of the chunk was read, in bytes, and how many of its entries."""
        self._count = 0

    def load_chunk(self) -> bool:
        """Load one more chunk; True when the tree is complete."""
        chunk = next(self._chunks, None)
        if chunk is None:
            self._finish()
            return True
        offset, count, data = chunk
        self._at = self._count = 0
        try:
            self.tree.install(self._znodes(data))
        except (ValueError, IndexError, struct.error, TreeError) as error:
            raise SnapshotError(self.reader.path, offset + self._at, f"entry not readable: {error}") from None
        if self._at != len(data) or self._count != count:
            raise SnapshotError(self.reader.path, offset + self._at, "the chunk does not end with its last entry")
        return False

    def _znodes(self, data: bytes) -> Iterator[Installed]:
        """The znodes of a chunk; loads the sessions and lists between them on the way."""
        unpack, size, lists = ZNODE.unpack_from, ZNODE.size, self._lists
        while self._at < len(data):
            at = self._at
            if data[at] == IS_ZNODE:
                _, path_length, data_length, number, owner, cversion, stat = unpack(data, at)
                middle = at + size + path_length
                path = data[at + size : middle]
                if path <= self._path:
                    raise ValueError(f"path {path!r} after {self._path!r}")
                end = middle + data_length if data_length > 0 else middle
                yield path, data[middle:end] if data_length >= 0 else None, lists[number], stat, owner, cversion
                self._path = path
            elif data[at] == IS_SESSION:
                end = self._load_session(data, at)
            elif data[at] == IS_LIST:
                end = self._load_list(data, at)
            else:
                raise ValueError(f"entry of kind {data[at]}")
            self._at = end
            self._count += 1

    def _load_session(self, data: bytes, at: int) -> int:
        _, session, timeout_ms = SESSION.unpack_from(data, at)
        if self._path or (self._session is not None and session <= self._session):
            raise ValueError(f"session {session:#x} out of order")
        self._session = session
        self.tree.install_session(session, timeout_ms)
        return at + SESSION.size

    def _load_list(self, data: bytes, at: int) -> int:
        number, acl, end = parse_list(data, at)
        if number != len(self._lists):
            raise ValueError(f"list {number} where {len(self._lists)} is due")
        self._lists.append(acl)
        return end

    def _finish(self) -> None:
        trailer, tree = self.reader.trailer, self.tree
        assert trailer is not None
        try:
            tree.finish(self.header.zxid)
        except TreeError as error:
            raise SnapshotError(self.reader.path, HEADER_BYTES, str(error)) from None
        if (trailer.znode_count, trailer.session_count) != (tree.znode_count, len(tree.sessions)):
            raise SnapshotError(self.reader.path, HEADER_BYTES, "the trailer counts other znodes or sessions")
        if trailer.digest_version == DIGEST_VERSION and trailer.digest != tree.digest:
            raise SnapshotError(self.reader.path, HEADER_BYTES, "the tree does not have the digest of the trailer")


def load_snapshot(disk: Disk, path: str) -> tuple[SnapshotHeader, DataTree]:
    """Load a whole snapshot. Raises SnapshotError."""
    loader = SnapshotLoader(disk, path)
    while not loader.load_chunk():
        pass
    return loader.header, loader.tree


def install_snapshot(disk: Disk, fetched: str, expected: SnapshotHeader) -> str:
    """Give the snapshot that was fetched and synced at the path `fetched` its final name, durably, and return that
    path.

    Raises SnapshotError if it is not complete, or not the expected one; the file then stays where it is. Afterwards the
    log must be reset to it, unless it has this position.
    """
    if verify_snapshot(disk, fetched) != expected:
        raise SnapshotError(fetched, 0, f"not the snapshot of {expected.zxid:x} that was asked for")
    path = snapshot_path(expected.zxid)
    disk.rename(fetched, path)
    disk.sync_directory(DIRECTORY)
    return path
