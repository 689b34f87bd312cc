"""ZooKeeper's snapshot, `version-2/snapshot.<zxid>`: read and written.

Format, big-endian; types are jute's:

    header      as in `datatree.zookeeper.files`, magic "ZKSN", dbid -1
    sessions    count int | count x (id long, timeout int in ms)
    ACL lists   count int | count x (acl id long, vector<ACL>)
    znode*      path string | data buffer | acl id long | stat, 60 bytes
    end         string "/"
    seal        Adler-32 long | string "/"
    digest      zxid long | version int, 2 | digest long | seal      absent in files of ZooKeeper before 3.6
    last zxid   long | seal                                          absent in files of ZooKeeper before 3.9

    stat        czxid, mzxid, ctime, mtime long | version, cversion, aversion int | ephemeralOwner, pzxid long

A parent precedes its children, the root first, with "" as its path. Acl id -1 is the open ACL; cversion is the internal
one, the count of children ever created. A seal's checksum covers every byte of the file before it (the uncompressed
ones), earlier seals included. The two optional parts are at the end: a file that ends before one of them is not
damaged.

ZooKeeper writes a snapshot while transactions continue (it is *fuzzy*): it has all of them up to the zxid in its name,
and some effects of those up to the zxid beside its digest. `datatree.zookeeper.state` makes it exact. For the same
reason an acl id may be in no list (ZOOKEEPER-3306): such a znode gets UNKNOWN_ACL, which grants nothing, until the
replay replaces it by the right one.

Invariants: every seal is checked; no part of a file counts before its last seal was reached. What is written is exact
and canonical: znodes by path, ACL lists numbered by first use, all three seals.

A file may be compressed as a whole, with gzip or with snappy (`datatree.zookeeper.snappy`).
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final
from zlib import adler32

from attrs import define

from datatree.cursor import SnapshotCursor
from datatree.jute import Writer
from datatree.paths import is_text
from datatree.record import AclList
from datatree.znode import HEAD, STAT_AT, STAT_LAYOUT
from datatree.zookeeper.files import (
    FIELD_BYTES_MAX,
    FILE_HEADER,
    SNAPSHOT_MAGIC,
    VERSION,
    ByteStream,
    ZooKeeperFileError,
    write_acl,
)
from datatree.zookeeper.snappy import MAGIC as SNAPPY_MAGIC
from datatree.zookeeper.snappy import unsnapped

__all__ = [
    "UNKNOWN_ACL",
    "SnapshotReader",
    "SnapshotZnode",
    "cursor_znodes",
    "uncompressed",
    "write_entries",
    "write_snapshot",
]

OPEN_ACL_ID: Final = -1
UNKNOWN_ACL: Final[AclList] = ((0, b"world", b"anyone"),)
DIGEST_VERSION: Final = 2

_ACL_AND_STAT: Final = struct.Struct(">qqqqqiiiqq")
STAT_ENTRY_BYTES: Final = _ACL_AND_STAT.size
"""The size of the list's number and the stat, at the end of a znode's entry."""
_LENGTH: Final = struct.Struct(">i").unpack_from
_END: Final = b"\x00\x00\x00\x01/"
_GZIP: Final = b"\x1f\x8b"
_SLICE_BYTES: Final = 1 << 20


@define
class SnapshotZnode:
    """One znode; the root has the path "/" here. Times in ms, cversion the internal one, owner the stored one."""

    path: bytes
    data: bytes | None
    acl: AclList
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    owner: int
    pzxid: int


class SnapshotReader:
    """Reads one snapshot from its uncompressed bytes: first `sessions` and `acls`, then, iterating, the znodes.

    `stretches` returns the same znodes in their encoded form, many at a time, for callers that make arrays of them.
    After either, `digest_zxid`, `digest` and `last_zxid` are set, None if the file has none. Raises ZooKeeperFileError,
    also from the constructor.
    """

    def __init__(self, chunks: Iterable[bytes], file: str) -> None:
        self.file = file
        self.digest_zxid: int | None = None
        self.digest: int | None = None
        self.digest_version: int | None = None
        self.last_zxid: int | None = None
        self._stream = stream = ByteStream(chunks, file)
        self.dbid = stream.header(SNAPSHOT_MAGIC)
        self.sessions: dict[int, int] = {}
        for _ in range(self._count("sessions")):
            session = stream.read_long("a session's id")
            if session in self.sessions:
                raise stream.error(f"session {session & (1 << 64) - 1:#x} is in it twice", self.offset - 8)
            self.sessions[session] = stream.read_int("a session's timeout")
        self.acls: dict[int, AclList] = {}
        for _ in range(self._count("ACL lists")):
            acl_id = stream.read_long("an acl id")
            if acl_id in self.acls:
                raise stream.error(f"ACL list {acl_id} is in it twice", self.offset - 8)
            self.acls[acl_id] = stream.read_acl()

    @property
    def offset(self) -> int:
        """How much of the file was read, in uncompressed bytes."""
        return self._stream.offset

    def _count(self, what: str) -> int:
        count = self._stream.read_int(f"the number of {what}")
        if count < 0:
            raise self._stream.error(f"negative number of {what}: {count}", self.offset - 4)
        return count

    def __iter__(self) -> Iterator[SnapshotZnode]:
        stream = self._stream
        unpack, size = _ACL_AND_STAT.unpack, _ACL_AND_STAT.size
        acls = {OPEN_ACL_ID: None, **self.acls}
        while (path := stream.read_buffer("a path")) != b"/":
            if path is None or (path and not path.startswith(b"/")) or not is_text(path):
                raise stream.error(f"no path where a znode is due: {path!r}")
            data = stream.read_buffer("data")
            acl_id, *stat = unpack(stream.take(size, "a stat"))
            yield SnapshotZnode(path or b"/", data, acls.get(acl_id, UNKNOWN_ACL), *stat)
        self._end()

    def stretches(
        self, size_bytes: int = _SLICE_BYTES, length_max: int = FIELD_BYTES_MAX
    ) -> Iterator[tuple[int, bytes, list[int]]]:
        """(offset in the file, bytes, where each znode begins in them) of about `size_bytes`, each with whole znodes.

        Lengths are checked, so that every field lies inside, and are at most `length_max`; whether paths are text is
        not checked.
        """
        stream = self._stream
        at_end = False
        while not at_end:
            offset, window, starts = stream.offset, stream.peek(size_bytes), list[int]()
            at, missing, at_end = self._scan(window, starts, length_max)
            if starts:
                yield offset, window[:at], starts
            stream.take(at, "znodes")
            if missing and not starts and not stream.available(missing):
                raise stream.error("the file ends inside a znode")
            size_bytes = max(size_bytes, missing)
        stream.take(len(_END), "the end mark")
        self._end()

    def _scan(self, window: bytes, starts: list[int], length_max: int) -> tuple[int, int, bool]:
        """Append where the whole znodes begin; return where they end, how much of the next one is needed to continue,
        and whether the end mark follows."""
        at, size = 0, len(window)
        while at + 4 <= size:
            (path_length,) = _LENGTH(window, at)
            if path_length == 1 and window[at + 4 : at + 5] == b"/":
                return at, 0, True
            if not 0 <= path_length <= length_max:
                raise self._stream.error(f"unreasonable length {path_length} of a path", self.offset + at)
            data_at = at + 4 + path_length
            if data_at + 4 > size:
                return at, data_at + 4 - at, False
            (data_length,) = _LENGTH(window, data_at)
            if not -1 <= data_length <= length_max:
                raise self._stream.error(f"unreasonable length {data_length} of data", self.offset + data_at)
            end = data_at + 4 + max(data_length, 0) + _ACL_AND_STAT.size
            if end > size:
                return at, end - at, False
            starts.append(at)
            at = end
        return at, 5, False

    def _end(self) -> None:
        stream = self._stream
        self._seal("znodes")
        if stream.available(1):
            self._read_digest()
        if stream.available(1):
            self.last_zxid = stream.read_long("the last zxid")
            self._seal("last zxid")
        if stream.available(1):
            raise stream.error("bytes after the last seal")

    def _read_digest(self) -> None:
        stream = self._stream
        self.digest_zxid = stream.read_long("the digest's zxid")
        self.digest_version = stream.read_int("the digest's version")
        if self.digest_version < DIGEST_VERSION:
            stream.read_buffer("a digest of the old kind")
        else:
            self.digest = stream.read_long("the digest") & (1 << 64) - 1
        self._seal("digest")

    def _seal(self, what: str) -> None:
        stream = self._stream
        expected, offset = stream.checksum, stream.offset
        found = stream.read_long(f"the checksum of the {what}")
        if found != expected:
            reason = f"checksum of the {what} does not match: {found:#x} in the file, {expected:#x} computed"
            raise stream.error(reason, offset)
        if stream.take(len(_END), f"the end of the {what}") != _END:
            raise stream.error(f"no end mark after the {what}", offset + 8)


def uncompressed(chunks: Iterable[bytes], file: str) -> Iterator[bytes]:
    """The bytes of a snapshot, without the gzip or snappy around it. The first bytes tell the compression, not the
    name. Raises ZooKeeperFileError, also if there is no library for snappy."""
    source = iter(chunks)
    first = next(source, b"")
    whole = chain([first], source)
    if first.startswith(SNAPPY_MAGIC):
        yield from unsnapped(whole, file)
    elif first.startswith(_GZIP):
        yield from _gunzipped(whole, file)
    else:
        yield from whole


def _gunzipped(chunks: Iterable[bytes], file: str) -> Iterator[bytes]:
    """However much a chunk contains, only about _SLICE_BYTES of it are in memory."""
    inflater = zlib.decompressobj(wbits=31)
    try:
        for chunk in chunks:
            rest = chunk
            while rest:
                yield inflater.decompress(rest, _SLICE_BYTES)
                rest = inflater.unconsumed_tail
        yield inflater.flush()
    except zlib.error as error:
        raise ZooKeeperFileError(file, 0, f"damaged gzip stream: {error}") from None
    if not inflater.eof:
        raise ZooKeeperFileError(file, 0, "the gzip stream is cut off")


def cursor_znodes(cursor: SnapshotCursor) -> Iterator[SnapshotZnode]:
    """The znodes of a cursor in the form of ZooKeeper's files, by path."""
    for part in cursor.slices():
        for path, znode in part:
            acl_id, owner, cversion, _, _ = HEAD.unpack_from(znode)
            czxid, mzxid, ctime, mtime, version, _, aversion, _, _, _, pzxid = STAT_LAYOUT.unpack_from(znode, STAT_AT)
            yield SnapshotZnode(
                path=path,
                data=cursor.data_of(path, znode),
                acl=cursor.acls[acl_id],
                czxid=czxid,
                mzxid=mzxid,
                ctime=ctime,
                mtime=mtime,
                version=version,
                cversion=cversion,
                aversion=aversion,
                owner=owner,
                pzxid=pzxid,
            )


def write_snapshot(
    znodes: Iterable[SnapshotZnode], acls: Iterable[AclList], sessions: dict[int, int], zxid: int, digest: int
) -> Iterator[bytes]:
    """The bytes of an exact snapshot at `zxid`, in slices of about 1 MiB.

    znodes: by ascending path, "/" first. acls: their lists, in the order of first use (a repeated list counts once).
    sessions: id to timeout in ms. digest: of the tree (`datatree.zookeeper.state`).
    """
    acls = list(acls)
    return write_entries(_entries(znodes, _acl_ids(acls)), acls, sessions, zxid, digest)


def write_entries(
    entries: Iterable[bytes], acls: Iterable[AclList], sessions: dict[int, int], zxid: int, digest: int
) -> Iterator[bytes]:
    """Like `write_snapshot`, with znodes that are packed already; their lists have the numbers 1, 2, 3, …, and
    OPEN_ACL_ID."""
    writer = Writer().raw(FILE_HEADER.pack(SNAPSHOT_MAGIC, VERSION, -1)).int(len(sessions))
    for session in sorted(sessions):
        writer.long(session).int(sessions[session])
    ids = _acl_ids(acls)
    writer.int(len(ids) - 1)
    for acl, acl_id in ids.items():
        if acl is not None:
            write_acl(writer.long(acl_id), acl)
    held = [writer.getvalue()]
    checksum, size = 1, 0
    for entry in entries:
        held.append(entry)
        size += len(entry)
        if size >= _SLICE_BYTES:
            piece, held, size = b"".join(held), [], 0
            checksum = adler32(piece, checksum)
            yield piece
    piece = b"".join((*held, _END))
    digested = Writer().long(zxid).int(DIGEST_VERSION).long(digest - ((digest >> 63) << 64)).getvalue()
    for part in (piece, digested, Writer().long(zxid).getvalue()):
        checksum = adler32(part, checksum)
        seal = Writer().long(checksum).raw(_END).getvalue()
        checksum = adler32(seal, checksum)
        yield part + seal


def _acl_ids(acls: Iterable[AclList]) -> dict[AclList, int]:
    ids: dict[AclList, int] = {None: OPEN_ACL_ID}
    for acl in acls:
        ids.setdefault(acl, len(ids))
    return ids


def _entries(znodes: Iterable[SnapshotZnode], ids: dict[AclList, int]) -> Iterator[bytes]:
    previous = b""
    for znode in znodes:
        assert (znode.path == b"/") == (not previous), "the root comes first"
        assert previous < znode.path
        previous = znode.path
        yield (
            Writer()
            .string(znode.path if znode.path != b"/" else b"")
            .buffer(znode.data)
            .raw(
                _ACL_AND_STAT.pack(
                    ids[znode.acl],
                    *(znode.czxid, znode.mzxid, znode.ctime, znode.mtime),
                    *(znode.version, znode.cversion, znode.aversion, znode.owner, znode.pzxid),
                )
            )
            .getvalue()
        )
