"""From bytes to requests: the decoders of the bodies in `datatree.requests`, by operation code.

Invariants:
- `decode(opcode, record.encode())` is the record, for every record and every opcode that has its layout.
- A decoder only reads inside the buffer and raises `JuteError` for everything that is not the layout: too short, a
  negative length, a null path, a multi that mixes reads with writes. Bytes after the record are ignored, as ZooKeeper
  does. Null paths and null watch lists have no meaning of their own: the former are refused, the latter read as empty.

The decoders of the operations that a busy client sends work with offsets instead of a `Reader`: each of those layouts
ends in a field of fixed width, so reading that field proves that everything before it lay inside the buffer. The
decoders of writes return plain tuples (`FIELDS`), from which the leader makes transactions; other decoders return
records.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from struct import error as StructError  # noqa: N812  (it is a class; the module only names it in lower case)
from typing import Any, Final, TypeAlias

from datatree.jute import JuteError, Reader
from datatree.keeper_requests import CheckStat, PathLimit, check_stat, path_limit
from datatree.listing_requests import filtered_list, filtered_list_with, get_children_page
from datatree.opcodes import MULTI_READS, MULTI_WRITES, OpCode
from datatree.paths import is_text
from datatree.requests import (
    INT,
    LONG,
    OPEN_ACL,
    OPEN_ACL_BYTES,
    PART,
    AddAuth,
    Body,
    Create,
    CreateSession,
    GetChanges,
    HandOver,
    Multi,
    NoBody,
    PathKind,
    PathOnly,
    PathVersion,
    PathWatch,
    Reconfig,
    Sasl,
    SetAcl,
    SetData,
    SetWatches,
    WireAcl,
    acl_from,
)

read_int: Final = INT.unpack_from

ACL_ENTRIES_MAX: Final = 4096
"""The most entries of a list in a request; a member accepts fewer of them (`maxAclEntries`)."""
_PART_BYTES: Final = 9
_PATHLESS: Final = (int(OpCode.RECONFIG), int(OpCode.CREATE_SESSION), int(OpCode.HAND_OVER))
"""The writes whose bodies do not begin with a path."""
_OPEN_ACL_LENGTH: Final = len(OPEN_ACL_BYTES)

# A decoder returns the record and the offset after it. It may raise JuteError, struct.error or IndexError.
Decoder: TypeAlias = Callable[[bytes, int], tuple[Body, int]]
# It returns the values of the record, in the order of its fields.
FieldsDecoder: TypeAlias = Callable[[bytes, int], tuple[tuple[Any, ...], int]]

__all__ = [
    "ACL_ENTRIES_MAX",
    "DECODERS",
    "FIELDS",
    "WATCHING",
    "decode",
    "parts_of",
    "path_asked_for",
    "watched_paths_of",
    "write_parts_of",
]


def decode(opcode: int, buffer: bytes, offset: int = 0) -> Body:
    """The request of `opcode` whose body starts at `offset`. Raises JuteError; `opcode` must be in the table above."""
    try:
        return DECODERS[opcode](buffer, offset)[0]
    except (StructError, IndexError):
        raise JuteError(f"body of operation {opcode} ends early, after {len(buffer) - offset} bytes") from None


def _text(buffer: bytes, at: int) -> tuple[bytes, int]:
    """The string at `at`, cut short if the buffer ends inside it: reading the caller's next fixed field detects
    that."""
    (length,) = read_int(buffer, at)
    if length < 0:
        raise JuteError(f"null or negative length {length} at offset {at}")
    start = at + 4
    end = start + length
    return buffer[start:end], end


def _whole_text(buffer: bytes, at: int) -> tuple[bytes, int]:
    text, end = _text(buffer, at)
    if end > len(buffer):
        raise JuteError(f"string at offset {at} ends at {end}, the buffer at {len(buffer)}")
    return text, end


def _data(buffer: bytes, at: int) -> tuple[bytes | None, int]:
    """The buffer at `at`, which may be null, cut short like `_text`."""
    (length,) = read_int(buffer, at)
    if length < 0:
        if length == -1:
            return None, at + 4
        raise JuteError(f"unreasonable length {length} at offset {at}")
    start = at + 4
    end = start + length
    return buffer[start:end], end


def _acl(buffer: bytes, at: int) -> tuple[tuple[WireAcl, ...] | None, int]:
    if buffer.startswith(OPEN_ACL_BYTES, at):
        return OPEN_ACL, at + _OPEN_ACL_LENGTH
    if at > len(buffer):
        raise JuteError(f"the buffer ends before the ACL at offset {at}")
    reader = Reader(buffer, at)
    return acl_from(reader, ACL_ENTRIES_MAX), reader.offset


def _create(buffer: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    # `_text` and `_data` inlined, as in `_set_data`.
    (path_length,) = read_int(buffer, at)
    if path_length < 0:
        raise JuteError(f"null or negative length {path_length} at offset {at}")
    start = at + 4
    path_end = start + path_length
    (data_length,) = read_int(buffer, path_end)
    data_start = path_end + 4
    if data_length < 0:
        data, end = _data(buffer, path_end)
    else:
        end = data_start + data_length
        data = buffer[data_start:end]
    if buffer.startswith(OPEN_ACL_BYTES, end):
        acl: tuple[WireAcl, ...] | None = OPEN_ACL
        end += _OPEN_ACL_LENGTH
    else:
        acl, end = _acl(buffer, end)
    (flags,) = read_int(buffer, end)
    return (buffer[start:path_end], data, acl, flags, None), end + 4


def _create_ttl(buffer: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    fields, at = _create(buffer, at)
    (ttl_ms,) = LONG.unpack_from(buffer, at)
    return (*fields[:4], ttl_ms), at + 8


def _path_watch(buffer: bytes, at: int) -> tuple[Body, int]:
    # `_text` inlined, as in `_set_data`.
    (length,) = read_int(buffer, at)
    if length < 0:
        raise JuteError(f"null or negative length {length} at offset {at}")
    start = at + 4
    end = start + length
    return PathWatch(buffer[start:end], buffer[end] != 0), end + 1


def _set_data(buffer: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    # `_text` and `_data` inlined: their calls are a third of the cost of the most frequent write.
    (path_length,) = read_int(buffer, at)
    start = at + 4
    path_end = start + path_length
    if path_length < 0:
        raise JuteError(f"null or negative length {path_length} at offset {at}")
    (data_length,) = read_int(buffer, path_end)
    data_start = path_end + 4
    if data_length < 0:
        data, end = _data(buffer, path_end)
        (version,) = read_int(buffer, end)
        return (buffer[start:path_end], data, version), end + 4
    end = data_start + data_length
    (version,) = read_int(buffer, end)
    return (buffer[start:path_end], buffer[data_start:end], version), end + 4


def _path_version(buffer: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    path, at = _text(buffer, at)
    (version,) = read_int(buffer, at)
    return (path, version), at + 4


def _path_kind(buffer: bytes, at: int) -> tuple[Body, int]:
    path, at = _text(buffer, at)
    (kind,) = read_int(buffer, at)
    return PathKind(path, kind), at + 4


def _path_only(buffer: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    path, at = _whole_text(buffer, at)
    return (path,), at


def _prefix(buffer: bytes, at: int) -> tuple[Body, int]:
    # A null prefix means every path, as an empty one does.
    reader = Reader(buffer, at)
    return PathOnly(reader.string() or b""), reader.offset


def _set_acl(buffer: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    path, at = _text(buffer, at)
    acl, at = _acl(buffer, at)
    (version,) = read_int(buffer, at)
    return (path, acl, version), at + 4


def _reconfig(buffer: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    reader = Reader(buffer, at)
    return (reader.string(), reader.string(), reader.string(), reader.long()), reader.offset


def _hand_over(buffer: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    reader = Reader(buffer, at)
    return (reader.long(),), reader.offset


def _add_auth(buffer: bytes, at: int) -> tuple[Body, int]:
    reader = Reader(buffer, at)
    reader.int()
    return AddAuth(reader.string() or b"", reader.buffer() or b""), reader.offset


def _sasl(buffer: bytes, at: int) -> tuple[Body, int]:
    reader = Reader(buffer, at)
    return Sasl(reader.buffer() or b""), reader.offset


def _watched_path(reader: Reader) -> bytes:
    path = reader.string()
    if path is None:
        raise JuteError(f"null path before offset {reader.offset}")
    return path


def watched_paths_of(opcode: int, buffer: bytes, at: int = 0) -> Iterator[tuple[str, bytes, int]]:
    """The paths in setWatches, or setWatches2, one by one: the list (a field of `SetWatches`), the path, and the last
    zxid that the client saw. Raises JuteError like `decode`; what came before is valid."""
    reader = Reader(buffer, at)
    zxid = reader.long()
    lists = ("data", "exist", "child", "persistent", "recursive")
    for name in lists if opcode == OpCode.SET_WATCHES2 else lists[:3]:
        for _ in range(reader.count() or 0):
            yield name, _watched_path(reader), zxid


def _watched_paths(reader: Reader) -> tuple[bytes, ...]:
    return tuple(reader.vector(_watched_path) or ())


def _set_watches(buffer: bytes, at: int) -> tuple[Body, int]:
    reader = Reader(buffer, at)
    zxid = reader.long()
    data, exist, child = (_watched_paths(reader) for _ in range(3))
    return SetWatches(zxid, data, exist, child), reader.offset


def _set_watches2(buffer: bytes, at: int) -> tuple[Body, int]:
    reader = Reader(buffer, at)
    zxid = reader.long()
    data, exist, child, persistent, recursive = (_watched_paths(reader) for _ in range(5))
    return SetWatches(zxid, data, exist, child, persistent, recursive), reader.offset


def _get_changes(buffer: bytes, at: int) -> tuple[Body, int]:
    reader = Reader(buffer, at)
    zxid, part, history_id = reader.long(), reader.int(), reader.buffer() or b""
    prefix = _watched_path(reader)
    return GetChanges(zxid, part, history_id, prefix, reader.int(), reader.int()), reader.offset


def _create_session(buffer: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    return read_int(buffer, at), at + 4


def _no_body(_buffer: bytes, at: int) -> tuple[Body, int]:
    return NoBody(), at


def path_asked_for(opcode: int, body: bytes) -> bytes:
    """The path in a request, or "" if it has none that can be logged. What follows it may be long, and is not decoded
    again."""
    if opcode in _PATHLESS or len(body) < INT.size:
        return b""
    end = INT.size + INT.unpack_from(body)[0]
    path = body[INT.size : end]
    return path if INT.size <= end <= len(body) and is_text(path) else b""


def parts_of(
    opcode: int, buffer: bytes, at: int = 0, reads: Container[int] = MULTI_READS
) -> Iterator[tuple[int, "Body", int]]:
    """The parts of a multi, or multiRead, one by one: opcode, body, and the offset after it. The last one has opcode 0
    and no body. Raises JuteError like `decode`; what came before is valid. `reads` are the operations allowed in a
    multiRead."""
    allowed = MULTI_WRITES if opcode == OpCode.MULTI else reads
    for kind, body, end in _decoded_parts(DECODERS, allowed, buffer, at):
        yield kind, NoBody() if body is None else body, end


def write_parts_of(buffer: bytes, at: int = 0) -> Iterator[tuple[int, tuple[Any, ...], int]]:
    """The parts of a multi from this offset on, with the fields of each body."""
    return _decoded_parts(FIELDS, MULTI_WRITES, buffer, at)


def _decoded_parts(
    decoders: Mapping[int, Callable[[bytes, int], tuple[Any, int]]],
    allowed: Container[int],
    buffer: bytes,
    at: int,
) -> Iterator[tuple[int, Any, int]]:
    try:
        while True:
            kind, rest = PART.unpack_from(buffer, at)
            at += _PART_BYTES
            if rest[0]:
                yield 0, None, at
                return
            if kind not in allowed:
                raise JuteError(f"operation {kind} is not allowed in this multi, at offset {at - _PART_BYTES}")
            body, at = decoders[kind](buffer, at)
            yield kind, body, at
    except (StructError, IndexError):
        raise JuteError(f"a multi ends early, after {len(buffer)} bytes") from None


def _parts(opcode: int, buffer: bytes, at: int) -> tuple[Body, int]:
    *parts, (_, _, end) = parts_of(opcode, buffer, at)
    return Multi(tuple([(kind, body) for kind, body, _ in parts])), end


def _multi(buffer: bytes, at: int) -> tuple[Body, int]:
    return _parts(OpCode.MULTI, buffer, at)


def _multi_read(buffer: bytes, at: int) -> tuple[Body, int]:
    return _parts(OpCode.MULTI_READ, buffer, at)


def _made(record: Callable[..., Body], fields: FieldsDecoder) -> Decoder:
    """A decoder that makes a record of the decoded fields."""

    def decoder(buffer: bytes, at: int) -> tuple[Body, int]:
        values, end = fields(buffer, at)
        return record(*values), end

    return decoder


# Operations that become transactions: the record, and the decoder of its fields.
_WRITES: Final[Mapping[OpCode, tuple[Callable[..., Body], FieldsDecoder]]] = {
    OpCode.CREATE: (Create, _create),
    OpCode.CREATE2: (Create, _create),
    OpCode.CREATE_CONTAINER: (Create, _create),
    OpCode.CREATE_TTL: (Create, _create_ttl),
    OpCode.CREATE_IF_NOT_EXISTS: (Create, _create),
    OpCode.DELETE: (PathVersion, _path_version),
    OpCode.TRY_REMOVE: (PathVersion, _path_version),
    OpCode.REMOVE_RECURSIVE: (PathLimit, path_limit),
    OpCode.CHECK_STAT: (CheckStat, check_stat),
    OpCode.CHECK_NOT_EXISTS: (PathVersion, _path_version),
    OpCode.DELETE_CONTAINER: (PathOnly, _path_only),
    OpCode.SET_DATA: (SetData, _set_data),
    OpCode.SET_ACL: (SetAcl, _set_acl),
    OpCode.CHECK: (PathVersion, _path_version),
    OpCode.RECONFIG: (Reconfig, _reconfig),
    OpCode.HAND_OVER: (HandOver, _hand_over),
    OpCode.CREATE_SESSION: (CreateSession, _create_session),
}

# Plain ints as keys: a look-up by an int then compares by identity; with an enum member it would call __eq__.
FIELDS: Final[Mapping[int, FieldsDecoder]] = {int(opcode): fields for opcode, (_, fields) in _WRITES.items()}
DECODERS: Final[Mapping[int, Decoder]] = {
    int(opcode): decoder
    for opcode, decoder in {
        **{opcode: _made(*row) for opcode, row in _WRITES.items()},
        OpCode.EXISTS: _path_watch,
        OpCode.GET_DATA: _path_watch,
        OpCode.GET_ACL: _made(PathOnly, _path_only),
        OpCode.GET_CHILDREN: _path_watch,
        OpCode.SYNC: _made(PathOnly, _path_only),
        OpCode.PING: _no_body,
        OpCode.GET_CHILDREN2: _path_watch,
        OpCode.MULTI: _multi,
        OpCode.CHECK_WATCHES: _path_kind,
        OpCode.REMOVE_WATCHES: _path_kind,
        OpCode.MULTI_READ: _multi_read,
        OpCode.AUTH: _add_auth,
        OpCode.SET_WATCHES: _set_watches,
        OpCode.SASL: _sasl,
        OpCode.GET_EPHEMERALS: _prefix,
        OpCode.GET_ALL_CHILDREN_NUMBER: _made(PathOnly, _path_only),
        OpCode.SET_WATCHES2: _set_watches2,
        OpCode.ADD_WATCH: _path_kind,
        OpCode.WHO_AM_I: _no_body,
        OpCode.FILTERED_LIST: filtered_list,
        OpCode.FILTERED_LIST_WITH_STATS_AND_DATA: filtered_list_with,
        OpCode.LIST_RECURSIVE: _made(PathLimit, path_limit),
        OpCode.GET_CHANGES: _get_changes,
        OpCode.GET_CHILDREN_PAGE: get_children_page,
        OpCode.CLOSE_SESSION: _no_body,
    }.items()
}

# The operations whose body is a path and a watch flag.
WATCHING: Final = frozenset({OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2})
