"""The znodes and sessions of one snapshot file, native or ZooKeeper's, as Arrow record batches.

    rows = open_snapshot(read, "…/version-1/snapshot.100000a3f")
    rows.znodes(arrow_schema(ZNODES), label)      batches of exactly these columns, in the order of the file
    rows.sessions(arrow_schema(SESSIONS), label)
    rows.examine()                                reads all of it: every checksum, the counts, from where it is exact

Columns are made for about a mebibyte of the file at a time, from the offsets of the znodes in it, and only those that
the schema has. A snapshot of ZooKeeper does not say how many children a znode has: if `num_children` or `cversion` is
requested, the file is read twice, and memory holds the count for each znode that has children. Otherwise memory does
not depend on the size of the file, compressed or not.

A snapshot of ZooKeeper is fuzzy (`datatree.zookeeper.snapshot`): it may hold effects of transactions above the zxid in
its name. `Examined.exact_from` is the lowest zxid at which a replay from it is exact.

Invariants: a violation of the format raises `SnapshotDamageError` with its place. Earlier batches had the right
checksums, but a snapshot is known to be whole only when reading it ends without an error. A length in a file never
makes the reader take more memory than `ZNODE_BYTES_MAX`.

Deliberately not here: where files are (`zab.pipeline.places`), which one to take, and Spark.
"""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from typing import Any, Final, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, frozen
from numpy.typing import NDArray

from datatree.log.disk import Disk
from datatree.record import AclList
from datatree.snapshot import SnapshotError, SnapshotReader
from datatree.zookeeper.files import CHUNK_BYTES, ZooKeeperFileError, parse_file_name
from datatree.zookeeper.snapshot import UNKNOWN_ACL, uncompressed
from datatree.zookeeper.snapshot import SnapshotReader as ZooKeeperReader
from zab.pipeline.decoding.acl_text import OPEN_ACL_TEXT, acl_text
from zab.pipeline.decoding.slices import Integers, nullable, parents, records, slices, text, timestamps
from zab.pipeline.decoding.version2_digest import digest_of
from zab.pipeline.decoding.znode_layouts import NATIVE_ZNODE, ZOOKEEPER_STAT

__all__ = [
    "Examined",
    "Label",
    "NativeRows",
    "ReadAt",
    "SnapshotDamageError",
    "SnapshotRows",
    "Version2Rows",
    "open_snapshot",
]

ReadAt: TypeAlias = Callable[[int, int], bytes]
"""(offset, length) to the bytes there, fewer at the end of the file."""

ZNODE_BYTES_MAX: Final = 80 << 20
"""More than any client can write: a transaction has at most 64 MiB."""
_WINDOW_BYTES: Final = 1 << 20
_READ_AHEAD_BYTES: Final = 4 << 20
_GZIP: Final = b"\x1f\x8b"
_SNAPPY: Final = b"\x82SNAPPY\x00"
_NATIVE_MAGIC: Final = b"ZSNP"
_ZOOKEEPER_MAGIC: Final = b"ZKSN"

_LENGTH: Final = np.dtype(">i4")
_HEAD: Final = struct.Struct(">BIi")
_SESSION: Final = struct.Struct(">Bqi")
_LIST: Final = struct.Struct(">BII")
_ENTRY: Final = struct.Struct(">iII")
_IS_SESSION, _IS_LIST, _IS_ZNODE = 1, 2, 3
_DIGEST_MASK: Final = (1 << 64) - 1


class SnapshotDamageError(Exception):
    """A file is no valid snapshot: `file`, `offset` in bytes (uncompressed), and `reason`."""

    def __init__(self, file: str, offset: int, reason: str) -> None:
        super().__init__(f"{file}: offset {offset}: {reason}")
        self.file = file
        self.offset = offset
        self.reason = reason


@frozen
class Label:
    """The columns that say where a row comes from; they are the same in all rows of a file."""

    ensemble: str | None
    member: str | None
    snapshot: str | None
    zxid: int


@define
class Examined:
    """The result of reading all of a snapshot."""

    zxid: int
    exact_from: int
    znode_count: int
    session_count: int


class SnapshotRows(Protocol):
    """One snapshot file. Every call reads it again and may raise SnapshotDamageError."""

    kind: str
    """native or version-2."""
    file: str
    zxid: int

    def znodes(self, schema: pa.Schema, label: Label) -> Iterator[pa.RecordBatch]:
        """The znodes; the schema's fields are some of `zab.pipeline.schema.ZNODES`."""
        ...

    def sessions(self, schema: pa.Schema, label: Label) -> Iterator[pa.RecordBatch]:
        """The sessions; the schema's fields are some of `zab.pipeline.schema.SESSIONS`."""
        ...

    def examine(self) -> Examined:
        """Read all of it."""
        ...


def open_snapshot(read: ReadAt, file: str) -> SnapshotRows:
    """The snapshot that `read` reads; `file` is its path or URI, and ends with its name. Raises SnapshotDamageError."""
    magic = read(0, 8)
    if magic.startswith(_NATIVE_MAGIC):
        return NativeRows(read, file)
    if magic.startswith((_ZOOKEEPER_MAGIC, _GZIP, _SNAPPY)):
        return Version2Rows(read, file)
    raise SnapshotDamageError(file, 0, f"neither a snapshot of zab nor one of ZooKeeper (it begins with {magic[:4]!r})")


_Column: TypeAlias = Callable[[], pa.Array]


def _batch(schema: pa.Schema, count: int, label: Label, columns: dict[str, _Column]) -> pa.RecordBatch:
    """A batch with the columns of the schema; those that are not in `columns` come from the label."""
    arrays = []
    for name in schema.names:
        if name in columns:
            arrays.append(columns[name]())
        else:
            arrays.append(pa.repeat(pa.scalar(getattr(label, name), schema.field(name).type), count))
    return pa.record_batch(arrays, schema=schema)


def _session_batches(schema: pa.Schema, label: Label, sessions: dict[int, int]) -> Iterator[pa.RecordBatch]:
    if sessions:
        ids, timeouts = list(sessions), list(sessions.values())
        columns: dict[str, _Column] = {
            "session": lambda: pa.array(ids, pa.int64()),
            "timeout": lambda: pa.array(timeouts, pa.int32()),
        }
        yield _batch(schema, len(ids), label, columns)


def _paths(buffer: bytes, starts: Integers, ends: Integers, file: str, offset: int) -> pa.StringArray:
    """The paths, which must be text and begin with "/" or be empty."""
    raw = slices(buffer, starts, ends)
    try:
        paths = text(raw)
    except pa.ArrowInvalid:
        for at, path in zip(starts.tolist(), raw.to_pylist(), strict=True):
            if not _is_text(path):
                raise SnapshotDamageError(file, offset + at, f"a path is not UTF-8: {path[:100]!r}") from None
        raise
    wrong = pc.and_not(pc.greater(pc.binary_length(raw), 0), pc.starts_with(paths, "/"))
    if pc.any(wrong).as_py():
        first = int(np.flatnonzero(wrong.to_numpy(zero_copy_only=False))[0])
        raise SnapshotDamageError(file, offset + int(starts[first]), f"no path: {paths[first].as_py()[:100]!r}")
    return paths


def _is_text(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True


def _stat_columns(stat: NDArray[Any]) -> dict[str, _Column]:
    """The columns whose values lie in the fixed part of both formats."""
    columns: dict[str, _Column] = {}
    for name in ("czxid", "mzxid", "pzxid", "owner"):
        columns[name] = partial(_longs, stat, name)
    for name in ("version", "aversion", "children_created"):
        columns[name] = partial(_integers, stat, name)
    for name in ("ctime", "mtime"):
        columns[name] = partial(timestamps, stat[name])
    return columns


def _longs(stat: NDArray[Any], name: str) -> pa.Array:
    return pa.array(stat[name].astype(np.int64))


def _integers(stat: NDArray[Any], name: str) -> pa.Array:
    return pa.array(stat[name].astype(np.int32))


class _ReadAhead:
    """The one method of a `Disk` that the snapshot reader calls, over a `ReadAt`, a few mebibytes at a time."""

    def __init__(self, read: ReadAt, file: str) -> None:
        self._read = read
        self._file = file
        self._start = 0
        self._held = b""

    def read(self, _path: str, offset: int = 0, length: int | None = None) -> bytes:
        assert length is not None
        if length > ZNODE_BYTES_MAX:
            raise SnapshotDamageError(self._file, offset, f"unreasonable length {length} of a chunk")
        at = offset - self._start
        if at < 0 or at + length > len(self._held):
            self._held = self._read(offset, max(length, _READ_AHEAD_BYTES))
            self._start, at = offset, 0
        return self._held[at : at + length]


class NativeRows:
    """A native snapshot. Chunks are read in order; each checksum continues the one before."""

    kind: str = "native"

    def __init__(self, read: ReadAt, file: str) -> None:
        self._read = read
        self.file = file
        reader = self._reader()
        self.zxid = reader.header.zxid
        self.header = reader.header

    def _reader(self) -> SnapshotReader:
        disk = cast("Disk", _ReadAhead(self._read, self.file))
        try:
            return SnapshotReader.open(disk, self.file)
        except SnapshotError as error:
            raise SnapshotDamageError(self.file, error.offset, error.reason) from None

    def _windows(self, reader: SnapshotReader) -> Iterator[tuple[int, int, bytes]]:
        """Yield (offset, count of entries, entries) for some chunks together. The offset is that of the first chunk,
        and good enough for a message: between chunks lie 12 bytes that are not in the entries."""
        held: list[bytes] = []
        start, total, size = 0, 0, 0
        try:
            for offset, count, data in reader.chunks():
                start = start or offset
                held.append(data)
                total, size = total + count, size + len(data)
                if size >= _WINDOW_BYTES:
                    yield start, total, b"".join(held)
                    held, start, total, size = [], 0, 0, 0
        except SnapshotError as error:
            raise SnapshotDamageError(self.file, error.offset, error.reason) from None
        if held:
            yield start, total, b"".join(held)

    def znodes(self, schema: pa.Schema, label: Label) -> Iterator[pa.RecordBatch]:
        scan = _NativeScan(self.file)
        for offset, count, data in self._windows(self._reader()):
            starts = np.array(scan.entries(offset, count, data), np.int64)
            if len(starts):
                yield self._znode_batch(schema, label, data, starts, offset, scan.lists)

    def _znode_batch(
        self, schema: pa.Schema, label: Label, data: bytes, starts: Integers, offset: int, lists: list[str]
    ) -> pa.RecordBatch:
        znodes = records(data, starts, NATIVE_ZNODE)
        path_starts = starts + NATIVE_ZNODE.itemsize
        path_ends = path_starts + znodes["path_length"]
        lengths = znodes["data_length"].astype(np.int64)
        if int(znodes["acl"].max()) >= len(lists):
            raise SnapshotDamageError(self.file, offset, "a znode has an ACL list that does not precede it")
        columns = _stat_columns(znodes)
        columns["path"] = lambda: _paths(data, path_starts, path_ends, self.file, offset)
        columns["data"] = lambda: nullable(
            slices(data, path_ends, path_ends + np.maximum(lengths, 0)), np.asarray(lengths < 0)
        )
        columns["acl"] = lambda: pa.array(lists, pa.string()).take(pa.array(znodes["acl"].astype(np.int64)))
        for name in ("cversion", "num_children"):
            columns[name] = partial(_integers, znodes, name)
        return _batch(schema, len(starts), label, columns)

    def sessions(self, schema: pa.Schema, label: Label) -> Iterator[pa.RecordBatch]:
        scan = _NativeScan(self.file)
        for offset, count, data in self._windows(self._reader()):
            starts = scan.entries(offset, count, data)
            yield from _session_batches(schema, label, scan.take_sessions())
            if starts:
                return

    def examine(self) -> Examined:
        scan, reader = _NativeScan(self.file), self._reader()
        znode_count = session_count = 0
        for offset, count, data in self._windows(reader):
            znode_count += len(scan.entries(offset, count, data))
            session_count += len(scan.take_sessions())
        trailer = reader.trailer
        assert trailer is not None
        if (znode_count, session_count) != (trailer.znode_count, trailer.session_count):
            raise SnapshotDamageError(self.file, 0, "the trailer counts other znodes or sessions")
        return Examined(self.zxid, self.zxid, znode_count, session_count)


class _NativeScan:
    """Finds the entries of a native snapshot, and keeps what later ones refer to: the texts of the ACL lists."""

    def __init__(self, file: str) -> None:
        self.lists = [OPEN_ACL_TEXT]
        self._file = file
        self._sessions: dict[int, int] = {}

    def entries(self, offset: int, count: int, data: bytes) -> list[int]:
        """Find where each znode begins, and remember lists and sessions."""
        starts: list[int] = []
        at, size = 0, len(data)
        unpack, fixed = _HEAD.unpack_from, NATIVE_ZNODE.itemsize
        try:
            while at < size:
                kind = data[at]
                if kind == _IS_ZNODE:
                    _, path_length, data_length = unpack(data, at)
                    starts.append(at)
                    at += fixed + path_length + (data_length if data_length > 0 else 0)
                elif kind == _IS_SESSION:
                    _, session, timeout_ms = _SESSION.unpack_from(data, at)
                    self._sessions[session] = timeout_ms
                    at += _SESSION.size
                elif kind == _IS_LIST:
                    at = self._list(data, at)
                else:
                    raise SnapshotDamageError(self._file, offset + at, f"entry of kind {kind}")
                count -= 1
        except struct.error as error:
            raise SnapshotDamageError(self._file, offset + at, f"entry not readable: {error}") from None
        if at != size or count:
            raise SnapshotDamageError(self._file, offset, "the chunks do not end with their last entry")
        return starts

    def take_sessions(self) -> dict[int, int]:
        """The sessions found since the last call."""
        taken, self._sessions = self._sessions, {}
        return taken

    def _list(self, data: bytes, at: int) -> int:
        _, number, count = _LIST.unpack_from(data, at)
        if number != len(self.lists):
            raise SnapshotDamageError(self._file, at, f"ACL list {number} where {len(self.lists)} is due")
        at += _LIST.size
        entries = []
        for _ in range(count):
            permissions, scheme_length, id_length = _ENTRY.unpack_from(data, at)
            middle = at + _ENTRY.size + scheme_length
            entries.append((permissions, data[at + _ENTRY.size : middle], data[middle : middle + id_length]))
            at = middle + id_length
        self.lists.append(acl_text(tuple(entries)))
        return at


class Version2Rows:
    """A snapshot of ZooKeeper: compressed with gzip or snappy, or not compressed."""

    kind: str = "version-2"

    def __init__(self, read: ReadAt, file: str) -> None:
        self._read = read
        self.file = file
        name = parse_file_name(file)
        if name is None or name.kind != "snapshot":
            raise SnapshotDamageError(file, 0, "the file's name does not say the zxid of the snapshot")
        self.zxid = name.zxid

    def _reader(self) -> ZooKeeperReader:
        try:
            return ZooKeeperReader(uncompressed(self._chunks(), self.file), self.file)
        except ZooKeeperFileError as error:
            raise SnapshotDamageError(self.file, error.offset, error.reason) from None

    def _chunks(self) -> Iterator[bytes]:
        at = 0
        while piece := self._read(at, _READ_AHEAD_BYTES):
            at += len(piece)
            for start in range(0, len(piece), CHUNK_BYTES):
                yield piece[start : start + CHUNK_BYTES]

    def _windows(self, reader: ZooKeeperReader) -> Iterator["_Window"]:
        try:
            for offset, data, places in reader.stretches(_WINDOW_BYTES, ZNODE_BYTES_MAX):
                starts = np.array(places, np.int64)
                path_ends = starts + 4 + records(data, starts, _LENGTH).astype(np.int64)
                lengths = records(data, path_ends, _LENGTH).astype(np.int64)
                yield _Window(self.file, offset, data, starts, path_ends, lengths)
        except ZooKeeperFileError as error:
            raise SnapshotDamageError(self.file, error.offset, error.reason) from None

    def znodes(self, schema: pa.Schema, label: Label) -> Iterator[pa.RecordBatch]:
        is_counted = not {"num_children", "cversion"}.isdisjoint(schema.names)
        counts = self._child_counts() if is_counted else None
        reader = self._reader()
        lists = _ListTexts(reader.acls)
        for window in self._windows(reader):
            columns = self._znode_columns(window, lists, counts)
            yield _batch(schema, len(window.starts), label, columns)

    def _znode_columns(
        self, window: "_Window", lists: "_ListTexts", counts: dict[str, int] | None
    ) -> dict[str, _Column]:
        stat = window.stat()
        columns = _stat_columns(stat)
        columns["data"] = lambda: nullable(window.contents(), window.lengths < 0)
        columns["acl"] = lambda: lists.of(stat["acl"])
        paths = window.paths()
        columns["path"] = lambda: pc.if_else(pc.equal(paths, ""), "/", paths)
        if counts is not None:
            found = np.fromiter(map(counts.get, paths.to_pylist(), repeat(0)), np.int64, len(paths))
            # Numbers of 32 bits that wrap, as ZooKeeper's do.
            visible = (2 * stat["children_created"].astype(np.int64) - found).astype(np.int32)
            columns["num_children"] = lambda: pa.array(found.astype(np.int32))
            columns["cversion"] = lambda: pa.array(visible)
        return columns

    def _child_counts(self) -> dict[str, int]:
        """The count of children of each znode that has any, by its path in the file ("" for the root)."""
        counts: dict[str, int] = {}
        for window in self._windows(self._reader()):
            paths = window.paths()
            children = paths.filter(pc.not_equal(paths, ""))
            found = pc.value_counts(text(parents(children)))
            for parent, count in zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True):
                counts[parent] = counts.get(parent, 0) + count
        return counts

    def sessions(self, schema: pa.Schema, label: Label) -> Iterator[pa.RecordBatch]:
        yield from _session_batches(schema, label, self._reader().sessions)

    def examine(self) -> Examined:
        reader = self._reader()
        count = digest = latest = 0
        for window in self._windows(reader):
            stat = window.stat()
            count += len(stat)
            latest = max(latest, *(int(stat[name].max()) for name in ("czxid", "mzxid", "pzxid")))
            digest += digest_of(window.paths().cast(pa.binary()), window.contents(), stat)
        if not count:
            raise SnapshotDamageError(self.file, reader.offset, "a snapshot without a root")
        exact_from = max(self.zxid, latest)
        if reader.digest_zxid and reader.digest is not None:
            # The server applies a transaction before it notes the digest: the next one may be in the znodes already,
            # unless these have the digest that was noted.
            is_exact = digest & _DIGEST_MASK == reader.digest
            exact_from = max(self.zxid, reader.digest_zxid + (not is_exact))
        return Examined(self.zxid, exact_from, count, len(reader.sessions))


@frozen(eq=False)
class _Window:
    """Whole znodes of a file of ZooKeeper: where in `data` each begins and its path ends, and how long its data is."""

    file: str
    offset: int
    data: bytes
    starts: Integers
    path_ends: Integers
    lengths: Integers

    def paths(self) -> pa.StringArray:
        """The paths as they are in the file, "" for the root."""
        return _paths(self.data, self.starts + 4, self.path_ends, self.file, self.offset)

    def contents(self) -> pa.BinaryArray:
        """The data, empty where it is null."""
        return slices(self.data, self.path_ends + 4, self._stats())

    def stat(self) -> NDArray[Any]:
        """The fixed part after the data."""
        return records(self.data, self._stats(), ZOOKEEPER_STAT)

    def _stats(self) -> Integers:
        return self.path_ends + 4 + np.maximum(self.lengths, 0)


class _ListTexts:
    """The texts of the ACL lists of a file of ZooKeeper, by the ids that its znodes have."""

    def __init__(self, acls: dict[int, AclList]) -> None:
        self._texts = {-1: OPEN_ACL_TEXT} | {acl_id: acl_text(acl) for acl_id, acl in acls.items()}
        self._unknown = acl_text(UNKNOWN_ACL)

    def of(self, ids: NDArray[Any]) -> pa.StringArray:
        distinct, places = np.unique(ids, return_inverse=True)
        texts = [self._texts.get(acl_id, self._unknown) for acl_id in distinct.tolist()]
        return pa.array(texts, pa.string()).take(pa.array(places))
