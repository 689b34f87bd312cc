"""The transaction and its record in a batch: every write of the state, as it is sent, logged, read back and applied.

A transaction holds every value that applying it writes; preparing it computed them. A record is a CBOR byte string that
contains one CBOR array of nine, with every head written at full width, so that `struct` and arrays of numbers can read
the fixed part at fixed offsets, while any CBOR library reads the whole.

Format, big-endian, offsets from the start of the record:

    offset  bytes      field
         0  5a len4    byte string; the length counts everything from offset 5 on
         5  89         array of nine
         6  1b int8    zxid, positive
        15  1b int8    time, ms since 1970, not negative
        24  1b int8    session, signed
        33  1a int4    cxid, signed
        38  18 int1    type, signed
        40  1a int4    number, signed
        45  7a len4    path, UTF-8, from offset 50 on
         …  5a len4    data; or the single byte f6 for null
         …             rest, by type

A negative value v has its head raised by 0x20 and -1-v as payload, which is plain CBOR of the same width: in arrays of
numbers the value is `payload ^ -(head >> 5 & 1)`.

    type                        number               path       data            rest
    1, 15, 19, 21 create*       parent's cversion    path       bytes or null   [acl, owner], owner 8 bytes wide, last
    2, 20 delete                0, or count          path       null            null
    5, 16 setData, reconfig     new version (16: -1) path       bytes or null   null
    7 setACL                    new aversion         path       null            [acl]
    -10 createSession           timeout, ms          ""         null            null
    -11 closeSession            0                    ""         null            [path, …]
    -1 error                    error code           asked for  null            [opcode]
    14 multi                    0                    ""         null            [[type, number, path, data, rest], …]
    13 check                    version found        path       null or empty   null

In a multi, the last delete of a removeRecursive says how many deletes before it belong to the same request.

A check with null data is a part of a multi: a check, checkNotExists or checkStat, or a tryRemove or removeRecursive
that removed nothing (with version -1 if there is no znode). With empty data it is a createIfNotExists that found its
znode, in a multi or not, or, outside a multi, a handOver or such a removal. It changes nothing.

acl is null for world:anyone with all permissions, else [[perms, scheme, id], …] with texts; owner is the stored owner
(`datatree.znode`). The parent's cversion is the internal one, the count of children ever created, after this create.
Every part of a refused multi is [-1, error code, "", null, null]: 0 before the refused part, RUNTIMEINCONSISTENCY after
it.

In memory rest is None, or a tuple shaped like the array; paths, schemes and ids are UTF-8 bytes, an ACL is a tuple. A
transaction is a plain tuple (`Fields`), since one is made for each write; `Txn` has the same with names, for tools.

Invariants: `decode(encode(t)) == t`; a transaction has exactly one encoding, and any other one is refused. Deliberately
not here: what a type means (`datatree.apply`), and the batch around the records (`datatree.log.batch`).
"""

import struct
from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple, TypeAlias

import cbor2

from datatree.compiled import USED
from datatree.opcodes import TYPES, Effect, OpCode, types_with
from datatree.slices import DECODED_BYTES, slices_of

__all__ = [
    "Acl",
    "AclList",
    "Fields",
    "Part",
    "RecordError",
    "Txn",
    "decode",
    "decode_all",
    "decode_fields",
    "decode_in_slices",
    "encode",
    "encode_in_slices",
]

# (permission bits, scheme, id); a list of them. None stands for world:anyone with all permissions.
Acl: TypeAlias = tuple[int, bytes, bytes]
AclList: TypeAlias = tuple[Acl, ...] | None
# One part of a multi: type, number, path, data, rest.
Part: TypeAlias = tuple[int, int, bytes, bytes | None, Any]
# A transaction: zxid, time, session, cxid, type, number, path, data, rest.
Fields: TypeAlias = tuple[int, int, int, int, int, int, bytes, bytes | None, Any]

PATH_AT: Final = 50
_LENGTH_BYTES: Final = 5
"""The beginning of a record: its mark and its length."""

_MULTI: Final = int(OpCode.MULTI)
_ERROR: Final = int(OpCode.ERROR)
_CLOSE_SESSION: Final = int(OpCode.CLOSE_SESSION)
_CREATES: Final = types_with(Effect.CREATE)
_SET_ACLS: Final = types_with(Effect.SET_ACL)
# Their rest is null.
_PLAIN: Final = types_with(Effect.DELETE, Effect.SET_DATA, Effect.NOTHING) | {int(OpCode.CREATE_SESSION)}

_HEAD: Final = struct.Struct(">BIHqBqBqBiBBBiBI")
_DATA: Final = struct.Struct(">BI")
_OWNER: Final = struct.Struct(">Bq")
_INT: Final = struct.Struct(">I")

# Byte string, array of nine with the head of the zxid; 8, 4 and 1 byte wide integers, texts.
_BYTES, _ARRAY_LONG, _LONG, _INTEGER, _SHORT, _TEXT = 0x5A, 0x891B, 0x1B, 0x1A, 0x18, 0x7A
_NEGATIVE: Final = 0x20
_NULL: Final = 0xF6
_NULL_BYTE: Final = b"\xf6"
_OPEN_PAIR: Final = b"\x82\xf6"
# Refusals are as frequent as a contended lock makes them, so their rest is looked up.
_REFUSALS: Final = {(opcode,): cbor2.dumps([opcode]) for opcode in range(-24, 24)}
_REFUSED: Final = {raw: rest for rest, raw in _REFUSALS.items()}
_OWNER_BYTES: Final = 9
# The rest of a create of a persistent znode that is open to all.
_ORDINARY: Final = (None, 0)
_ORDINARY_BYTES: Final = _OPEN_PAIR + _OWNER.pack(_LONG, 0)
_ORDINARY_LENGTH: Final = len(_ORDINARY_BYTES)
_LISTS: Final = frozenset({_MULTI, _CLOSE_SESSION})
# What invalid bytes of a rest raise.
_WRONG_VALUES: Final = (
    *(cbor2.CBORError, ValueError, TypeError, KeyError, IndexError, AttributeError, struct.error, OverflowError),
)


class RecordError(Exception):
    """The bytes are not a transaction record; the text says what is wrong and at which offset."""


class Txn(NamedTuple):
    """One transaction. `rest` is None or the tuple that the module's table lists for the type."""

    zxid: int
    time: int
    session: int
    cxid: int
    type: int
    number: int
    path: bytes
    data: bytes | None
    rest: Any


def encode(txn: Fields, encoded_rest: bytes | None = None) -> bytes:
    """Encode `txn`; `encoded_rest` is its encoded rest, if known."""
    used = USED.writes
    if used is not None and encoded_rest is None:
        record = used.encode(txn)
        if record is not None:
            return record
    zxid, time, session, cxid, kind, number, path, data, rest = txn
    if encoded_rest is not None:
        end = encoded_rest
    elif rest is None:
        end = _NULL_BYTE
    elif rest == _ORDINARY and kind in _CREATES:
        end = _ORDINARY_BYTES
    else:
        end = _encode_rest(kind, rest)
    path_length = len(path)
    if data is None:
        length = PATH_AT - 5 + path_length + 1 + len(end)
        tail = _NULL_BYTE
    else:
        data_length = len(data)
        length = PATH_AT + path_length + data_length + len(end)
        tail = _DATA.pack(_BYTES, data_length)
    if session | cxid | kind | number >= 0:
        head = _HEAD.pack(
            _BYTES, length, _ARRAY_LONG, zxid, _LONG, time, _LONG, session, _INTEGER, cxid,
            _SHORT, kind, _INTEGER, number, _TEXT, path_length,
        )  # fmt: skip
    else:
        head = _HEAD.pack(
            _BYTES, length, _ARRAY_LONG, zxid, _LONG, time,
            _LONG + (session < 0) * _NEGATIVE, session ^ -(session < 0),
            _INTEGER + (cxid < 0) * _NEGATIVE, cxid ^ -(cxid < 0),
            _SHORT + (kind < 0) * _NEGATIVE, kind ^ -(kind < 0),
            _INTEGER + (number < 0) * _NEGATIVE, number ^ -(number < 0),
            _TEXT, path_length,
        )  # fmt: skip
    return b"".join((head, path, tail, data, end)) if data else b"".join((head, path, tail, end))


# Replaces the decoder of a rest: (type, buffer, where the rest begins and ends, where the record begins) -> rest.
DecodeRest: TypeAlias = Callable[[int, bytes, int, int, int], Any]


def decode(buffer: bytes, offset: int = 0) -> tuple[Txn, int]:
    """The transaction whose record starts at `offset`, and the offset after it. Raises RecordError."""
    [fields], end = _decode(buffer, offset, range(1))
    return Txn(*fields), end


def decode_all(body: bytes, first: int, count: int) -> list[Txn]:
    """The `count` transactions of a batch's body, whose zxids must be `first`, `first` + 1, … Raises RecordError."""
    return [Txn(*fields) for fields in decode_fields(body, first, count)]


def decode_fields(body: bytes, first: int, count: int) -> list[Fields]:
    """The transactions as plain tuples, to be applied."""
    txns, end = _decode_due(body, 0, range(first, first + count))
    if end != len(body):
        raise RecordError(f"{len(body) - end} bytes after the last of {count} records")
    return txns


def _decode_due(body: bytes, at: int, zxids: range) -> tuple[list[Fields], int]:
    """Like `_decode`, for zxids above 0."""
    used = USED.writes
    if used is None or zxids.start <= 0:
        return _decode(body, at, zxids)
    txns, at = used.decode(body, at, zxids.start, len(zxids))
    while len(txns) < len(zxids):
        zxid = zxids[len(txns)]
        one, at = _decode(body, at, range(zxid, zxid + 1))
        more, at = used.decode(body, at, zxid + 1, len(zxids) - len(txns) - 1)
        txns += one + more
    return txns, at


def _decode(
    buffer: bytes, offset: int, zxids: range, decode_rest: DecodeRest | None = None
) -> tuple[list[Fields], int]:
    """Decode one record for each zxid, starting at `offset`; zxid 0 accepts any. Returns also the offset after them."""
    txns: list[Fields] = []
    read_head, read_int = _HEAD.unpack_from, _INT.unpack_from
    try:
        for due in zxids:
            (
                mark, length, array, zxid, time_head, time, session_head, session, cxid_head, cxid,
                type_head, kind, number_head, number, path_head, path_length,
            ) = read_head(buffer, offset)  # fmt: skip
            if not (mark == _BYTES and array == _ARRAY_LONG and time_head == _LONG and path_head == _TEXT):
                raise RecordError(f"record at offset {offset}: wrong heads")
            if session_head != _LONG or session < 0:
                session = _negative(session_head, _LONG, session, offset)
            if cxid_head != _INTEGER or cxid < 0:
                cxid = _negative(cxid_head, _INTEGER, cxid, offset)
            if type_head != _SHORT:
                kind = _negative(type_head, _SHORT, kind, offset)
            if number_head != _INTEGER or number < 0:
                number = _negative(number_head, _INTEGER, number, offset)
            path_at = offset + PATH_AT
            at = path_at + path_length
            path = buffer[path_at:at]
            data = None
            head = buffer[at]
            at += 1
            if head == _BYTES:
                data_at = at + 4
                at = data_at + read_int(buffer, at)[0]
                data = buffer[data_at:at]
            elif head != _NULL:
                raise RecordError(f"record at offset {offset}: wrong head {head:#x} of the data")
            end = offset + 5 + length
            if at + 1 == end and buffer[at] == _NULL and kind in _PLAIN:
                rest = None
            elif kind in _CREATES and at + _ORDINARY_LENGTH == end and buffer.startswith(_ORDINARY_BYTES, at):
                rest = _ORDINARY
            else:
                rest = (decode_rest or _decode_rest)(kind, buffer, at, end, offset)
            if not path.isascii():
                _check_text(path, offset)
            if zxid <= 0 or time < 0:
                raise RecordError(f"record at offset {offset}: zxid {zxid} or time {time} out of range")
            if zxid != due and due:
                raise RecordError(f"record at offset {offset}: zxid {zxid:#x} where {due:#x} is due")
            txns.append((zxid, time, session, cxid, kind, number, path, data, rest))
            offset = end
    except (struct.error, IndexError):
        raise RecordError(f"record at offset {offset}: the buffer of {len(buffer)} bytes ends inside it") from None
    return txns, offset


# A multi, or the end of a session, may be long: encode and decode it in slices of its parts, or of its ephemerals.


def encode_in_slices(txn: Fields) -> Generator[None, None, bytes]:
    """Like `encode`, for a transaction whose rest may be long."""
    kind, rest = txn[4], txn[8]
    if rest is None or kind not in _LISTS:
        return encode(txn)
    values: list[object] = []
    used = USED.writes
    encoded = used.encode_parts(rest) if used is not None and kind == _MULTI else None
    for items in slices_of(rest):
        if encoded is None:
            values += [_item_value(kind, item) for item in items]
        yield
    return encode(txn, cbor2.dumps(values) if encoded is None else encoded)


def decode_in_slices(body: bytes, first: int, count: int = 1) -> Generator[None, None, list[Fields]]:
    """Like `decode_fields`: a long transaction part by part, and short ones about `DECODED_BYTES` at a time."""
    if count == 1:
        return (yield from _decode_long(body, first))
    txns: list[Fields] = []
    at = 0
    while len(txns) < count:
        end, zxid = at, first + len(txns)
        last = zxid
        while last < first + count and end - at < DECODED_BYTES and end + _LENGTH_BYTES <= len(body):
            end += _LENGTH_BYTES + int.from_bytes(body[end + 1 : end + _LENGTH_BYTES])
            last += 1
        more, at = _decode_due(body, at, range(zxid, max(last, zxid + 1)))
        txns += more
        if len(txns) < count:
            yield
    if at != len(body):
        raise RecordError(f"{len(body) - at} bytes after the last of {count} records")
    return txns


def _decode_long(body: bytes, first: int) -> Generator[None, None, list[Fields]]:
    found: list[tuple[int, int, int]] = []

    def note(kind: int, _buffer: bytes, at: int, end: int, _offset: int) -> Any:
        found.append((kind, at, end))

    [txn], after = _decode(body, 0, range(1), note)
    if txn[0] != first or after != len(body) or (found and found[0][0] not in _LISTS):
        return decode_fields(body, first, 1)
    if not found:
        return [txn]
    [(kind, at, end)] = found
    used = USED.writes
    parts = used.decode_parts(body[at:end]) if used is not None and kind == _MULTI else None
    if parts is not None:
        yield
        for _ in slices_of(parts):
            yield
        return [(*txn[:8], parts)]
    try:
        values = cbor2.loads(body[at:end])
        yield
        if cbor2.dumps(_array(values)) == body[at:end]:
            read = _ITEM_READERS[kind]
            items: list[Any] = []
            for some in slices_of(values):
                yield
                items += map(read, some)
            return [(*txn[:8], tuple(items))]
    except _WRONG_VALUES:
        pass
    raise RecordError(f"wrong rest for type {kind}")


def _negative(head: int, positive: int, payload: int, offset: int) -> int:
    if head != positive + _NEGATIVE or payload < 0:
        raise RecordError(f"record at offset {offset}: wrong head {head:#x}")
    return ~payload


def _check_text(path: bytes, offset: int) -> None:
    try:
        path.decode()
    except UnicodeDecodeError:
        raise RecordError(f"record at offset {offset}: the path is not UTF-8") from None


# Everything below is the rest of a record: short, rare or both, so CBOR does it.


def _acl_value(acl: AclList) -> list[list[object]] | None:
    return None if acl is None else [[perms, scheme.decode(), name.decode()] for perms, scheme, name in acl]


def _rest_value(kind: int, rest: Any) -> object:
    """The CBOR value of `rest`, for a record or a part of a multi."""
    if rest is None:
        return None
    if kind in _CREATES:
        return [_acl_value(rest[0]), rest[1]]
    if kind in _SET_ACLS:
        return [_acl_value(rest[0])]
    if kind in _LISTS:
        return [_item_value(kind, item) for item in rest]
    return list(rest)


def _item_value(kind: int, item: Any) -> object:
    """The rest of a delete in a multi, or of an ephemeral that a closed session deletes."""
    if kind == _CLOSE_SESSION:
        return item.decode()
    part_kind, number, path, data, rest = item
    return [part_kind, number, path.decode(), data, _rest_value(part_kind, rest)]


def _encode_rest(kind: int, rest: Any) -> bytes:
    if kind in _CREATES:
        acl, owner = rest
        pair = _OPEN_PAIR if acl is None else b"\x82" + cbor2.dumps(_acl_value(acl))
        return pair + (_OWNER.pack(_LONG, owner) if owner >= 0 else _OWNER.pack(_LONG + _NEGATIVE, ~owner))
    if kind == _ERROR and rest in _REFUSALS:
        return _REFUSALS[rest]
    if kind == _MULTI and (used := USED.writes) is not None and (parts := used.encode_parts(rest)) is not None:
        return parts
    return cbor2.dumps(_rest_value(kind, rest))


def _decode_rest(kind: int, buffer: bytes, at: int, end: int, offset: int) -> Any:
    """Decode the rest between `at` and `end` of the record at `offset`; it must be the one encoding of its value."""
    if end > len(buffer) or at >= end:
        raise RecordError(f"record at offset {offset}: its end {end} lies before its rest, or past the buffer")
    if kind in _CREATES and at + 2 + _OWNER_BYTES == end and buffer.startswith(_OPEN_PAIR, at):
        head, owner = _OWNER.unpack_from(buffer, at + 2)
        if head == _LONG and owner >= 0:
            return (None, owner)
    raw = buffer[at:end]
    if kind == _MULTI and (used := USED.writes) is not None and (parts := used.decode_parts(raw)) is not None:
        return parts
    if kind == _ERROR and raw in _REFUSED:
        return _REFUSED[raw]
    try:
        value = cbor2.loads(raw)
        rest = _read_rest(kind, value)
        if rest is not None and (_encode_rest(kind, rest) if kind in _CREATES else cbor2.dumps(value)) == raw:
            return rest
    except _WRONG_VALUES:
        pass
    raise RecordError(f"record at offset {offset}: wrong rest for type {kind}")


# What follows checks the exact types of arrays, integers and texts, so that a value has only one encoding.


def _array(value: object) -> list[Any]:
    if type(value) is not list:
        raise TypeError(value)
    return value


def _integer(value: object) -> int:
    if type(value) is not int:
        raise TypeError(value)
    return value


def _text(value: object) -> bytes:
    if type(value) is not str:
        raise TypeError(value)
    return value.encode()


def _read_acl(value: Any) -> AclList:
    if value is None:
        return None
    return tuple([(_integer(perms), _text(scheme), _text(name)) for perms, scheme, name in map(_array, _array(value))])


def _read_create(value: Any) -> tuple[AclList, int]:
    acl, owner = _array(value)
    return _read_acl(acl), _integer(owner)


def _read_set_acl(value: Any) -> tuple[AclList]:
    (acl,) = _array(value)
    return (_read_acl(acl),)


def _read_error(value: Any) -> tuple[int]:
    (opcode,) = _array(value)
    return (_integer(opcode),)


def _read_part(value: Any) -> Part:
    kind, number, path, data, rest = _array(value)
    if type(kind) is not int or kind == _MULTI or kind not in TYPES or not (data is None or type(data) is bytes):
        raise ValueError(kind)
    if kind in _PLAIN or kind == _ERROR:
        if rest is not None:
            raise ValueError(rest)
    else:
        rest = _read_rest(kind, rest)
    return kind, _integer(number), _text(path), data, rest


_ITEM_READERS: Final[dict[int, Callable[[Any], Any]]] = {_CLOSE_SESSION: _text, _MULTI: _read_part}


def _read_list(kind: int, value: Any) -> tuple[Any, ...]:
    return tuple(map(_ITEM_READERS[kind], _array(value)))


_READERS: Final[dict[int, Callable[[Any], Any]]] = {
    **dict.fromkeys(_CREATES, _read_create),
    **dict.fromkeys(_SET_ACLS, _read_set_acl),
    _ERROR: _read_error,
}


def _read_rest(kind: int, value: Any) -> Any:
    return _read_list(kind, value) if kind in _LISTS else _READERS[kind](value)
