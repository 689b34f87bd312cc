"""ZooKeeper's transaction log, `version-2/log.<zxid>`: read and written.

Format, big-endian; types are jute's:

    header     as in `datatree.zookeeper.files`, magic "ZKLG", dbid 0
    record*    checksum long | length int | payload | 42 ("B")
    padding    zero bytes up to the size that the file was preallocated to

    checksum   Adler-32 of the payload
    payload    session long | cxid int | zxid long | time long (ms) | type int | body | digest, optional
    digest     version int, 2 | digest long: the tree's after this transaction (`datatree.zookeeper.state`)

    type                              body
    -10 createSession                 timeout int (ms)
    -11 closeSession                  paths vector<string>; absent in files of ZooKeeper before 3.6
    1, 15 create                      path string, data buffer, acl vector<ACL>, ephemeral bool, parent's cversion int;
                                      the last one absent in very old files
    19 createContainer                path, data, acl, parent's cversion int
    21 createTTL                      path, data, acl, parent's cversion int, ttl long (ms)
    2 delete, 20 deleteContainer      path string
    5 setData, 16 reconfig            path string, data buffer, new version int
    7 setACL                          path string, acl vector<ACL>, new aversion int
    13 check, only inside a multi     path string, version int
    14 multi                          vector of {type int, body buffer}
    -1 error                          error code int

A transaction is returned as `datatree.record.Txn`. What the file lacks is marked: a closeSession without its paths has
rest None, a create without the parent's cversion has number -1, an error has rest None (its opcode is lost).

A log ends at a length of zero (padding), at the physical end, or at a torn record: one that is cut off, or whose last
byte is not 42. A record that looks torn but has an intact record after it is damage, and so is a checksum that does not
match: both raise `ZooKeeperFileError`.

Invariant: what `encode_record` writes, `LogReader` reads back as the same transaction. Deliberately not here: which
files belong together and whether their zxids connect (`datatree.zookeeper.state`).
"""

import enum
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from zlib import adler32

from attrs import define

from datatree.jute import LONG, JuteError, Reader, Writer
from datatree.opcodes import OpCode
from datatree.record import Part, Txn
from datatree.znode import CONTAINER_OWNER, TTL_MS_MAX, ttl_owner
from datatree.zookeeper.files import (
    FILE_HEADER,
    LENGTH_MAX,
    LOG_MAGIC,
    VERSION,
    ByteStream,
    ZooKeeperFileError,
    read_acl,
    required_path,
    write_acl,
)

__all__ = [
    "DIGEST_VERSION",
    "LOG_HEADER",
    "LogEnd",
    "LogReader",
    "LogRecord",
    "decode_payload",
    "encode_record",
    "pack_record",
    "zxid_of",
]

LOG_HEADER: Final = FILE_HEADER.pack(LOG_MAGIC, VERSION, 0)
DIGEST_VERSION: Final = 2

_FRAME: Final = struct.Struct(">qi")
_TRAILER: Final = b"B"
_TXN_HEADER: Final = struct.Struct(">qiqqi")
_DIGEST: Final = struct.Struct(">iq")
# Where a record may begin: a checksum of 32 bits in a long, and a length below 16 MiB.
_CANDIDATE: Final = re.compile(rb"(?=\0{4}.{4}\0...)", re.DOTALL)


class LogEnd(enum.Enum):
    """Why reading a log stopped."""

    PADDING = "padding"
    END_OF_FILE = "end of file"
    TORN = "torn record"


@define
class LogRecord:
    """One transaction, the offset of its record in the file, and the tree's digest after it if one was written."""

    offset: int
    txn: Txn
    digest: int | None
    digest_version: int = DIGEST_VERSION


class LogReader:
    """Iterates over the records of one log. `chunks` are its bytes, from `offset` on; at 0 is the file header.

    When the iteration is over, `end` says why and `offset` where. With `live`, for a log that is being written, what
    follows its end is not searched for records; read on later from `offset`, with a new reader. Raises
    ZooKeeperFileError, also from the constructor.
    """

    def __init__(self, chunks: Iterable[bytes], file: str, offset: int = 0, *, live: bool = False) -> None:
        self.file = file
        self.end: LogEnd | None = None
        self.dbid = 0
        self._live = live
        self._stream = ByteStream(chunks, file, offset)
        if offset == 0:
            self.dbid = self._stream.header(LOG_MAGIC)

    @property
    def offset(self) -> int:
        """Where the next record begins or will begin."""
        return self._stream.offset

    def __iter__(self) -> Iterator[LogRecord]:
        for offset, intact, payload in self.payloads():
            if not intact:
                raise ZooKeeperFileError(self.file, offset, "checksum of the transaction does not match")
            yield decode_payload(payload, self.file, offset)

    def payloads(self) -> Iterator[tuple[int, bool, bytes]]:
        """The undecoded records: offset, whether the checksum matches, payload. For tools that continue after
        damage."""
        stream = self._stream
        while self.end is None:
            offset = stream.offset
            head = stream.peek(_FRAME.size)
            if len(head) < _FRAME.size:
                self.end = self._ended_at(offset, LogEnd.TORN if head.strip(b"\0") else LogEnd.END_OF_FILE)
                return
            checksum, length = _FRAME.unpack(head)
            if length == 0:
                self.end = self._ended_at(offset, LogEnd.TORN if checksum else LogEnd.PADDING)
                return
            size = _FRAME.size + length + 1
            if not 0 < length <= LENGTH_MAX or not stream.available(size) or stream.peek(size)[-1:] != _TRAILER:
                self.end = self._ended_at(offset, LogEnd.TORN)
                return
            payload = stream.take(size, "a record")[_FRAME.size : -1]
            yield offset, adler32(payload) == checksum, payload

    def _ended_at(self, offset: int, end: LogEnd) -> LogEnd:
        """`end`, unless an intact record further on shows that the log does not end here."""
        if end is LogEnd.END_OF_FILE or self._live:
            return end
        rest = self._stream.rest().rstrip(b"\0")
        later = _intact_record(rest)
        if later is not None:
            reason = f"no record here, but an intact one at offset {offset + later}"
            raise ZooKeeperFileError(self.file, offset, reason)
        return end


def _intact_record(region: bytes) -> int | None:
    """The offset of the first intact record in `region`, but not one at its very start."""
    for found in _CANDIDATE.finditer(region, 1):
        at = found.start()
        checksum, length = _FRAME.unpack_from(region, at)
        end = at + _FRAME.size + length
        if (
            _TXN_HEADER.size <= length
            and region[end : end + 1] == _TRAILER
            and adler32(memoryview(region)[at + _FRAME.size : end]) == checksum
        ):
            return at
    return None


def decode_payload(payload: bytes, file: str, offset: int) -> LogRecord:
    """Decode the transaction in a record's payload; `file` and `offset` are for the error, ZooKeeperFileError."""
    try:
        session, cxid, zxid, time, kind = _TXN_HEADER.unpack_from(payload)
        reader = Reader(payload, _TXN_HEADER.size, length_max=LENGTH_MAX)
        number, path, data, rest = _read_body(kind, reader, session)
        txn = Txn(zxid, time, session, cxid, kind, number, path, data, rest)
        if reader.remaining == 0:
            return LogRecord(offset, txn, None)
        version = reader.int()
        # Before version 2 the digest was a text; such digests are not compared.
        return LogRecord(offset, txn, reader.long() & _UNSIGNED if version == DIGEST_VERSION else None, version)
    except struct.error:
        raise ZooKeeperFileError(file, offset, f"a transaction of {len(payload)} bytes has no header") from None
    except JuteError as error:
        raise ZooKeeperFileError(file, offset, f"undecodable transaction: {error}") from None


_UNSIGNED: Final = (1 << 64) - 1

# number, path, data, rest of a Txn.
_Body = tuple[int, bytes, bytes | None, Any]


def _read_body(kind: int, reader: Reader, session: int) -> _Body:
    codec = _CODECS.get(kind)
    if codec is None:
        raise JuteError(f"unknown transaction type {kind}")
    return codec[0](reader, session)


def _read_create(reader: Reader, session: int) -> _Body:
    path, data, acl = required_path(reader), reader.buffer(), read_acl(reader)
    owner = session if reader.bool() else 0
    return (reader.int() if reader.remaining else -1), path, data, (acl, owner)


def _read_create_container(reader: Reader, _session: int) -> _Body:
    path, data, acl = required_path(reader), reader.buffer(), read_acl(reader)
    return reader.int(), path, data, (acl, CONTAINER_OWNER)


def _read_create_ttl(reader: Reader, _session: int) -> _Body:
    path, data, acl = required_path(reader), reader.buffer(), read_acl(reader)
    number, ttl_ms = reader.int(), reader.long()
    if not 0 < ttl_ms <= TTL_MS_MAX:
        raise JuteError(f"time to live {ttl_ms} ms out of range")
    return number, path, data, (acl, ttl_owner(ttl_ms))


def _read_delete(reader: Reader, _session: int) -> _Body:
    return 0, required_path(reader), None, None


def _read_set_data(reader: Reader, _session: int) -> _Body:
    path, data = required_path(reader), reader.buffer()
    return reader.int(), path, data, None


def _read_set_acl(reader: Reader, _session: int) -> _Body:
    path, acl = required_path(reader), read_acl(reader)
    return reader.int(), path, None, (acl,)


def _read_check(reader: Reader, _session: int) -> _Body:
    path = required_path(reader)
    return reader.int(), path, None, None


def _read_number(reader: Reader, _session: int) -> _Body:
    return reader.int(), b"", None, None


def _read_close_session(reader: Reader, _session: int) -> _Body:
    if reader.remaining == 0:
        return 0, b"", None, None
    return 0, b"", None, tuple(reader.vector(required_path) or ())


def _read_multi(reader: Reader, session: int) -> _Body:
    def read_part(part: Reader) -> Part:
        kind, body = part.int(), part.buffer()
        if kind == OpCode.MULTI or body is None:
            raise JuteError(f"part of a multi: type {kind}, {'no body' if body is None else 'nested'}")
        number, path, data, rest = _read_body(kind, Reader(body, length_max=LENGTH_MAX), session)
        return kind, number, path, data, rest

    return 0, b"", None, tuple(reader.vector(read_part, item_bytes_min=8) or ())


def encode_record(txn: Txn, digest: int | None = None) -> bytes:
    """The whole record of `txn`, checksum to trailer, with the tree's digest after it when one is given."""
    body = _write_body(txn.type, txn.number, txn.path, txn.data, txn.rest)
    payload = _TXN_HEADER.pack(txn.session, txn.cxid, txn.zxid, txn.time, txn.type) + body
    if digest is not None:
        payload += _DIGEST.pack(DIGEST_VERSION, _signed(digest))
    return pack_record(payload, adler32(payload))


def pack_record(payload: bytes, checksum: int) -> bytes:
    """A record with this payload, as in a log."""
    return b"".join((_FRAME.pack(checksum, len(payload)), payload, _TRAILER))


def zxid_of(payload: bytes, file: str, offset: int) -> int:
    """The zxid of the transaction in a record's payload; `file` and `offset` are for the error, ZooKeeperFileError."""
    if len(payload) < _TXN_HEADER.size:
        raise ZooKeeperFileError(file, offset, f"a transaction of {len(payload)} bytes has no header")
    zxid: int = _TXN_HEADER.unpack_from(payload)[2]
    return zxid


def _signed(value: int) -> int:
    signed: int = LONG.unpack((value & _UNSIGNED).to_bytes(8, "big"))[0]
    return signed


def _write_body(kind: int, number: int, path: bytes, data: bytes | None, rest: Any) -> bytes:
    writer = Writer()
    _CODECS[kind][1](writer, (number, path, data, rest))
    return writer.getvalue()


def _write_create(writer: Writer, body: _Body) -> None:
    _write_znode(writer, body)
    writer.bool(body[3][1] != 0).int(body[0])


def _write_create_container(writer: Writer, body: _Body) -> None:
    _write_znode(writer, body)
    writer.int(body[0])


def _write_create_ttl(writer: Writer, body: _Body) -> None:
    _write_znode(writer, body)
    writer.int(body[0]).long(body[3][1] & TTL_MS_MAX)


def _write_znode(writer: Writer, body: _Body) -> None:
    _, path, data, (acl, _) = body
    writer.string(path).buffer(data)
    write_acl(writer, acl)


def _write_delete(writer: Writer, body: _Body) -> None:
    writer.string(body[1])


def _write_set_data(writer: Writer, body: _Body) -> None:
    number, path, data, _ = body
    writer.string(path).buffer(data).int(number)


def _write_set_acl(writer: Writer, body: _Body) -> None:
    number, path, _, (acl,) = body
    write_acl(writer.string(path), acl)
    writer.int(number)


def _write_check(writer: Writer, body: _Body) -> None:
    writer.string(body[1]).int(body[0])


def _write_number(writer: Writer, body: _Body) -> None:
    writer.int(body[0])


def _write_close_session(writer: Writer, body: _Body) -> None:
    writer.vector(body[3] or (), Writer.string)


def _write_multi(writer: Writer, body: _Body) -> None:
    writer.vector(body[3], lambda out, part: out.int(part[0]).buffer(_write_body(*part)))


_CODECS: Final[dict[int, tuple[Callable[[Reader, int], _Body], Callable[[Writer, _Body], None]]]] = {
    OpCode.CREATE: (_read_create, _write_create),
    OpCode.CREATE2: (_read_create, _write_create),
    OpCode.CREATE_CONTAINER: (_read_create_container, _write_create_container),
    OpCode.CREATE_TTL: (_read_create_ttl, _write_create_ttl),
    OpCode.DELETE: (_read_delete, _write_delete),
    OpCode.DELETE_CONTAINER: (_read_delete, _write_delete),
    OpCode.SET_DATA: (_read_set_data, _write_set_data),
    OpCode.RECONFIG: (_read_set_data, _write_set_data),
    OpCode.SET_ACL: (_read_set_acl, _write_set_acl),
    OpCode.CHECK: (_read_check, _write_check),
    OpCode.MULTI: (_read_multi, _write_multi),
    OpCode.CREATE_SESSION: (_read_number, _write_number),
    OpCode.CLOSE_SESSION: (_read_close_session, _write_close_session),
    OpCode.ERROR: (_read_number, _write_number),
}
