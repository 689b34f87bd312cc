"""What ZooKeeper's `version-2` files have in common: names, file header, ACL lists, the byte stream, and the error.

    version-2/log.<zxid>              `datatree.zookeeper.log`; the zxid is that of the first transaction
    version-2/snapshot.<zxid>         `datatree.zookeeper.snapshot`; the zxid is the last one certainly contained; with
                                      .gz or .snappy after it if it is compressed

zxids in names are hexadecimal without leading zeros. Everything inside is jute (`datatree.jute`), big-endian. Every
file begins with

    offset  bytes  field
         0      4  magic, "ZKLG" or "ZKSN"
         4      4  version, 2
         8      8  dbid: 0 in logs, -1 in snapshots

Invariants: nothing here repairs or skips. A file that does not exactly match its format raises `ZooKeeperFileError`,
which names the file, the offset and the reason; the only exception is a torn record at the end of a log.

Deliberately not here: the replay of logs over a snapshot (`datatree.zookeeper.state`), and any access to files except
through a `Disk` or bytes handed in.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final
from zlib import adler32

from attrs import frozen

from datatree.jute import INT, LONG, JuteError, Reader, Writer
from datatree.log.disk import Disk
from datatree.paths import is_text
from datatree.record import Acl, AclList

__all__ = [
    "DIRECTORY",
    "ByteStream",
    "FileName",
    "ZooKeeperFileError",
    "chunks_of",
    "file_name",
    "named_files",
    "parse_file_name",
    "read_acl",
    "write_acl",
]

DIRECTORY: Final = "version-2"
VERSION: Final = 2
LOG_MAGIC: Final = 0x5A4B4C47
SNAPSHOT_MAGIC: Final = 0x5A4B534E
FILE_HEADER: Final = struct.Struct(">iiq")

# The size of one read: large enough that the calls do not matter, small enough to stay in the processor's cache.
CHUNK_BYTES: Final = 1 << 20
# ZooKeeper refuses to load more than jute.maxbuffer (1 MiB, but sites raise it); this only keeps a wrong length from
# asking for all memory.
LENGTH_MAX: Final = 1 << 30
FIELD_BYTES_MAX: Final = 64 << 20
"""The longest path or data in a snapshot, which is read into memory: far above any jute.maxbuffer. A file may be
compressed a thousandfold, so its size does not bound the memory it needs."""
ACL_ENTRIES_MAX: Final = 1 << 22
"""The most entries of all ACL lists of a snapshot together."""

_ENDLESS: Final = 1 << 62

_OPEN: Final = ((31, b"world", b"anyone"),)


class ZooKeeperFileError(Exception):
    """A file is damaged or not ZooKeeper's: `file`, `offset` in bytes (uncompressed) and `reason`. If the compression
    is damaged, the offset is in the file, or 0."""

    def __init__(self, file: str, offset: int, reason: str) -> None:
        super().__init__(f"{file}: offset {offset}: {reason}")
        self.file = file
        self.offset = offset
        self.reason = reason


@frozen
class FileName:
    """The parts of a file's name: kind is `log` or `snapshot`, compression is "", `gz` or `snappy`."""

    kind: str
    zxid: int
    compression: str = ""


def file_name(kind: str, zxid: int) -> str:
    """The name, without directory, of the log or snapshot of `zxid`."""
    assert kind in ("log", "snapshot")
    return f"{kind}.{zxid:x}"


def parse_file_name(name: str) -> FileName | None:
    """The parts of `name` (its last component counts), or None if it is not the name of a log or snapshot."""
    parts = name.rpartition("/")[2].split(".")
    if parts[0] not in ("log", "snapshot") or len(parts) not in (2, 3):
        return None
    compression = parts[2] if len(parts) == 3 else ""
    if compression not in ("", "gz", "snappy") or (compression and parts[0] == "log"):
        return None
    try:
        zxid = int(parts[1], 16)
    except ValueError:
        return None
    return FileName(parts[0], zxid, compression) if 0 <= zxid < 1 << 63 else None


def named_files(disk: Disk, directory: str, kind: str) -> list[tuple[int, str]]:
    """The logs or the snapshots in `directory` as (zxid, path), by ascending zxid."""
    found = []
    for name in disk.list(directory):
        parts = parse_file_name(name)
        if parts is not None and parts.kind == kind:
            found.append((parts.zxid, f"{directory}/{name}" if directory else name))
    return sorted(found)


def chunks_of(disk: Disk, path: str, offset: int = 0, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The bytes of a file from `offset` on, piece by piece; includes what is appended meanwhile."""
    while piece := disk.read(path, offset, chunk_bytes):
        yield piece
        offset += len(piece)


class ByteStream:
    """Reads fields from chunks of any sizes, and computes the Adler-32 of everything it has read.

    Invariant: `offset` is the position of the next byte in the file, `checksum` covers exactly the bytes before it
    (from the offset at which the stream began).
    """

    __slots__ = (
        "_acl_entries",
        "_acl_entries_left",
        "_at",
        "_checksum",
        "_chunks",
        "_origin",
        "_summed",
        "_window",
        "file",
    )

    def __init__(self, chunks: Iterable[bytes], file: str, offset: int = 0) -> None:
        self.file = file
        self._chunks = iter(chunks)
        self._window = b""
        self._origin = offset
        self._at = 0
        self._summed = 0
        self._checksum = 1
        self._acl_entries: dict[Acl, Acl] = {}
        self._acl_entries_left = ACL_ENTRIES_MAX

    @property
    def offset(self) -> int:
        return self._origin + self._at

    @property
    def checksum(self) -> int:
        self._sum()
        return self._checksum

    def _sum(self) -> None:
        if self._summed < self._at:
            self._checksum = adler32(memoryview(self._window)[self._summed : self._at], self._checksum)
            self._summed = self._at

    def available(self, count: int) -> bool:
        """Whether `count` more bytes are there; fetches them."""
        missing = count - (len(self._window) - self._at)
        if missing <= 0:
            return True
        self._sum()
        pieces = [self._window[self._at :]]
        self._origin += self._at
        self._at = self._summed = 0
        for chunk in self._chunks:
            pieces.append(chunk)
            missing -= len(chunk)
            if missing <= 0:
                break
        self._window = b"".join(pieces)
        return missing <= 0

    def peek(self, count: int) -> bytes:
        """The next `count` bytes without consuming them; fewer at the end of the file."""
        self.available(count)
        return self._window[self._at : self._at + count]

    def rest(self) -> bytes:
        """Everything that is left, without consuming it."""
        self.available(_ENDLESS)
        return self._window[self._at :]

    def take(self, count: int, what: str) -> bytes:
        if not self.available(count):
            left = len(self._window) - self._at
            raise self.error(f"the file ends inside {what}: {left} of {count} bytes are there")
        at = self._at
        self._at = at + count
        return self._window[at : self._at]

    def read_int(self, what: str) -> int:
        value: int = INT.unpack(self.take(4, what))[0]
        return value

    def read_long(self, what: str) -> int:
        value: int = LONG.unpack(self.take(8, what))[0]
        return value

    def read_buffer(self, what: str) -> bytes | None:
        length = self.read_int(what)
        if length == -1:
            return None
        if not 0 <= length <= FIELD_BYTES_MAX:
            raise self.error(f"unreasonable length {length} of {what}")
        return self.take(length, what)

    def read_acl(self) -> AclList:
        """A vector of ACLs; None for a null one and for the open ACL."""
        count = self.read_int("the length of an ACL list")
        self._acl_entries_left -= max(count, 0)
        if self._acl_entries_left < 0:
            raise self.error(f"the ACL lists have more than {ACL_ENTRIES_MAX} entries")
        entries: list[Acl] = []
        for _ in range(count):
            perms = self.read_int("the permissions of an ACL")
            scheme, name = self.read_buffer("an ACL's scheme"), self.read_buffer("an ACL's id")
            entry = perms, utf8(scheme or b""), utf8(name or b"")
            entries.append(self._acl_entries.setdefault(entry, entry))
        return None if count == -1 else canonical_acl(tuple(entries))

    def header(self, magic: int) -> int:
        """The file header; returns the dbid."""
        found, version, dbid = FILE_HEADER.unpack(self.take(FILE_HEADER.size, "the file header"))
        if found != magic:
            raise ZooKeeperFileError(self.file, 0, f"magic {found & 0xFFFFFFFF:#010x} instead of {magic:#010x}")
        if version != VERSION:
            raise ZooKeeperFileError(self.file, 4, f"format version {version}, only {VERSION} is known")
        assert isinstance(dbid, int)
        return dbid

    def error(self, reason: str, offset: int | None = None) -> ZooKeeperFileError:
        return ZooKeeperFileError(self.file, self.offset if offset is None else offset, reason)


def canonical_acl(acl: tuple[Acl, ...]) -> AclList:
    """The ACL list in its one canonical form: None for world:anyone with all permissions."""
    return None if acl == _OPEN else acl


def _read_acl_item(reader: Reader) -> Acl:
    return reader.int(), utf8(reader.string() or b""), utf8(reader.string() or b"")


def read_acl(reader: Reader) -> AclList:
    """A vector of ACLs from a record."""
    entries = reader.vector(_read_acl_item, item_bytes_min=12)
    return None if entries is None else canonical_acl(tuple(entries))


def write_acl(writer: Writer, acl: AclList) -> None:
    writer.vector(_OPEN if acl is None else acl, lambda out, item: out.int(item[0]).string(item[1]).string(item[2]))


def required_path(reader: Reader) -> bytes:
    """A path from a record; neither null nor anything that is not UTF-8 is a path."""
    path = reader.string()
    if path is None or not is_text(path):
        raise JuteError(f"no path: {path!r}")
    return path


def utf8(text: bytes) -> bytes:
    """`text` as UTF-8: Java's writer encodes a character outside the basic plane as two surrogates of three bytes."""
    if is_text(text):
        return text
    try:
        units = text.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return text.decode("utf-8", "replace").encode()
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
