"""Replies and notifications: the server's encoders, the client's decoders.

Format, in jute's types, after the frame's length:

    reply           xid int, zxid long, error int, body; no body when the error is not 0
    notification    the same header with xid -1 and error 0, then type int, state int, path string

Bodies by operation code (Stat is 68 bytes, which `datatree.znode` makes and reads; here they pass unchanged):

     1 create, 502 createIfNotExists     path string
    15, 19, 21 create2, …                path string, Stat
     3 exists, 5 setData, 7 setACL       Stat
     4 getData, 16 reconfig              data buffer, Stat
     6 getACL                            acl vector<ACL>, Stat
     8, 12 getChildren(2)                names vector<string>; 12: Stat
   500 filteredList                      names vector<string>, Stat
   506 filteredListWithStatsAndData      names vector<string>, Stat, stats vector<Stat>, data vector<buffer>
   507 listRecursive                     paths vector<string>
     9 sync                              path string
    14, 22 multi, multiRead              (header, body)*, end
   102 sasl                              token buffer
   103 getEphemerals                     paths vector<string>
   104 getAllChildrenNumber              number int
   106 addWatch                          error int = 0
  1002 getChildrenPage                   names vector<string>, has more bool, Stat
   107 whoAmI                            identities vector<scheme string, user string>
   all others                            nothing

Each part of a multi is header = type int, 00, error int, and a body:

    operation                            type    body
    1 create, 502 createIfNotExists      1       path string
    15, 19, 21 create2, …                15      path string, Stat
    2 delete, 13 check                   same    nothing
    5 setData                            5       Stat
    3 exists (Keeper's multiRead)        3       Stat
    4 getData                            4       data buffer, Stat
    8 getChildren                        8       names vector<string>
    12 getChildren2, 500 filteredList    12      names vector<string>, Stat (Keeper's multiRead)
    506 filteredListWithStatsAndData     506     as outside a multi (Keeper's multiRead)
    refused                              -1      error int, the one of the header
    refused (Keeper's multiRead)         as if done nothing
    end                                  -1, with 01 instead of 00, error -1; no body

When one part of a multi (14) is refused, all of its parts have the form "refused": with error 0 before that part, and
RUNTIMEINCONSISTENCY after it; the error of the reply stays 0. The parts of a multiRead are independent.

Encoders of replies return whole frames, ready to be sent; encoders of bodies return only the body. The encoders of the
most frequent replies (an error or nothing, a Stat, data) fill one `Struct` and join once. Decoders take (payload,
offset).

Not here: which zxid and error a reply has (`zab.server`), and Stat's fields (`datatree.znode`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct
from typing import Any, ClassVar, Final, TypeAlias

from attrs import define

from datatree.jute import NULL, JuteError, Reader, Writer
from datatree.opcodes import KEEPERS_MULTI_READS, MULTI_WRITES, OpCode
from datatree.requests import WireAcl, acl_from, acl_to
from zab.jute.change_pages import read_page
from zab.jute.framing import NOTIFICATION_XID

__all__ = [
    "DATA_REPLY_BYTES_MIN",
    "STAT_BYTES",
    "STAT_REPLY_BYTES",
    "SYNC_CONNECTED",
    "MultiResult",
    "ReplyHeader",
    "WatcherEvent",
    "acl_body",
    "children_body",
    "children_page_body",
    "data_body",
    "data_reply",
    "decode_body",
    "failed_multi_body",
    "identities_body",
    "int_body",
    "listing_reply",
    "multi_body",
    "notification",
    "pack_data_reply",
    "pack_reply",
    "part",
    "path_body",
    "refused_part",
    "reply",
    "stat_reply",
]

STAT_BYTES: Final = 68
# The only state that a server ever sends in a notification.
SYNC_CONNECTED: Final = 3

_INT: Final = Struct(">i")
_HEADER: Final = Struct(">iqi")
_REPLY: Final = Struct(">iiqi")
_DATA_REPLY: Final = Struct(">iiqii")
_NOTIFICATION: Final = Struct(">iiqiiii")
_PART: Final = Struct(">ibi")
_REFUSED_PART: Final = Struct(">ibii")
_HEADER_BYTES: Final = 16
STAT_REPLY_BYTES: Final = _HEADER_BYTES + STAT_BYTES
# The bytes before a buffer or string that comes first in the body.
DATA_REPLY_BYTES_MIN: Final = _HEADER_BYTES + 4
_END: Final = _PART.pack(-1, 1, -1)
_PART_END: Final = -1

pack_int: Final = _INT.pack
pack_reply: Final = _REPLY.pack
pack_data_reply: Final = _DATA_REPLY.pack


# Frames, encoded by the server.


def reply(xid: int, zxid: int, error: int = 0, body: bytes = b"") -> bytes:
    """Encode any reply as a frame."""
    return pack_reply(_HEADER_BYTES + len(body), xid, zxid, error) + body


def stat_reply(xid: int, zxid: int, stat: bytes) -> bytes:
    """Encode a successful reply whose body is one Stat, as a frame."""
    assert len(stat) == STAT_BYTES
    return pack_reply(STAT_REPLY_BYTES, xid, zxid, 0) + stat


def data_reply(xid: int, zxid: int, data: bytes | None, stat: bytes) -> bytes:
    """Encode a successful getData, as a frame."""
    assert len(stat) == STAT_BYTES
    if data is None:
        return pack_data_reply(DATA_REPLY_BYTES_MIN + STAT_BYTES, xid, zxid, 0, -1) + stat
    length = len(data)
    head = pack_data_reply(DATA_REPLY_BYTES_MIN + length + STAT_BYTES, xid, zxid, 0, length)
    return b"".join((head, data, stat))


def notification(event_type: int, path: bytes, zxid: int, state: int = SYNC_CONNECTED) -> bytes:
    """Encode one watch event as a frame. It names no receiver: one frame serves every connection that gets the
    event."""
    length = _HEADER_BYTES + 12 + len(path)
    return _NOTIFICATION.pack(length, NOTIFICATION_XID, zxid, 0, event_type, state, len(path)) + path


# Bodies, encoded by the server.


def path_body(path: bytes, stat: bytes = b"") -> bytes:
    """The body of create and sync; with a Stat, of the other creates."""
    return pack_int(len(path)) + path + stat


def data_body(data: bytes | None, stat: bytes) -> bytes:
    return NULL + stat if data is None else b"".join((pack_int(len(data)), data, stat))


def children_body(names: Iterable[bytes], stat: bytes = b"") -> bytes:
    """The body of getChildren, getEphemerals, listRecursive; with a Stat, of getChildren2."""
    listed = list(names)
    pieces = [pack_int(len(listed))]
    pieces += [pack_int(len(name)) + name for name in listed]
    pieces.append(stat)
    return b"".join(pieces)


def children_page_body(names: Iterable[bytes], has_more: bool, stat: bytes) -> bytes:
    return children_body(names, (b"\x01" if has_more else b"\x00") + stat)


def listing_reply(xid: int, zxid: int, names: bytes, stat: bytes = b"") -> bytes:
    """Encode a successful getChildren, getChildren2 or getEphemerals as a frame; the names are encoded as a vector
    already."""
    return b"".join((pack_reply(_HEADER_BYTES + len(names) + len(stat), xid, zxid, 0), names, stat))


def acl_body(acl: Iterable[WireAcl], stat: bytes) -> bytes:
    writer = Writer()
    acl_to(writer, acl)
    return writer.raw(stat).getvalue()


def int_body(number: int) -> bytes:
    """The body of getAllChildrenNumber with its number, of addWatch with 0."""
    return pack_int(number)


def identities_body(identities: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The body of whoAmI: a list of (scheme, user)."""
    return Writer().vector(identities, lambda out, item: out.string(item[0]).string(item[1])).getvalue()


def token_body(token: bytes) -> bytes:
    """The body of sasl."""
    return pack_int(len(token)) + token


def part(opcode: int, body: bytes = b"") -> bytes:
    """One part of a multi or multiRead that was done; `opcode` is that of its request."""
    return _PART.pack(_CREATE2 if opcode in _STAT_CREATES else opcode, 0, 0) + body


def refused_part(error: int) -> bytes:
    """One part that was not done. In a refused multi, the error is 0 for the parts before the one at fault."""
    return _REFUSED_PART.pack(_PART_END, 0, error, error)


def keepers_refused_part(opcode: int, error: int) -> bytes:
    """One part of a multiRead that was not done, in ClickHouse Keeper's form: its type, the error, no body."""
    return _PART.pack(opcode, 0, error)


def multi_body(parts: Iterable[bytes]) -> bytes:
    """The body of a multi or multiRead made of what `part` and `refused_part` returned."""
    return b"".join([*parts, _END])


def failed_multi_body(errors: Sequence[int]) -> bytes:
    """The body of a refused multi, with one error for each of its operations."""
    return multi_body([refused_part(error) for error in errors])


# Read by the client.


@define
class ReplyHeader:
    """The first 16 bytes of a reply's payload. An `error` of 0 is success."""

    xid: int
    zxid: int
    error: int

    BYTES: ClassVar[int] = _HEADER_BYTES

    def encode(self) -> bytes:
        return _HEADER.pack(self.xid, self.zxid, self.error)

    @classmethod
    def decode(cls, payload: bytes) -> "ReplyHeader":
        """Raises JuteError."""
        if len(payload) < _HEADER_BYTES:
            raise JuteError(f"a reply of {len(payload)} bytes; its header alone takes {_HEADER_BYTES}")
        xid, zxid, error = _HEADER.unpack_from(payload)
        return cls(xid, zxid, error)


@define
class WatcherEvent:
    type: int
    state: int
    path: bytes

    def encode(self) -> bytes:
        return Writer().int(self.type).int(self.state).string(self.path).getvalue()

    @classmethod
    def decode(cls, payload: bytes, offset: int = _HEADER_BYTES) -> "WatcherEvent":
        """Raises JuteError."""
        reader = Reader(payload, offset)
        event_type, state, path = reader.int(), reader.int(), reader.string()
        if path is None:
            raise JuteError("a notification without a path")
        return cls(event_type, state, path)


@define
class MultiResult:
    """One part of the answer to a multi: `value` is what the body of `opcode` decodes to, None when `error` is not 0.

    A refused part has opcode -1. In a refused multi, error 0 means that the part itself was valid; it was undone.
    """

    opcode: int
    error: int
    value: Any = None


Decode: TypeAlias = Callable[[Reader], Any]


def decode_body(opcode: int, payload: bytes, offset: int = _HEADER_BYTES) -> Any:
    """Decode the body of a successful reply to `opcode`, by the table above; a Stat stays its 68 bytes. Raises
    JuteError."""
    # The limit was checked when the frame was cut; a client may have chosen a larger one than the reader's default.
    reader = Reader(payload, offset, length_max=len(payload))
    return _DECODERS.get(opcode, _nothing)(reader)


def _nothing(_reader: Reader) -> None:
    return None


def _text(reader: Reader) -> bytes:
    text = reader.string()
    if text is None:
        raise JuteError(f"null text before offset {reader.offset}")
    return text


def _stat(reader: Reader) -> bytes:
    return reader.raw(STAT_BYTES)


def _text_and_stat(reader: Reader) -> tuple[bytes, bytes]:
    return _text(reader), _stat(reader)


def _data_and_stat(reader: Reader) -> tuple[bytes | None, bytes]:
    return reader.buffer(), _stat(reader)


def _texts(reader: Reader) -> list[bytes]:
    return reader.vector(_text) or []


def _identity(reader: Reader) -> tuple[bytes, bytes]:
    return _text(reader), _text(reader)


def _multi(reader: Reader) -> list[MultiResult]:
    results: list[MultiResult] = []
    while True:
        opcode, is_end, error = reader.int(), reader.bool(), reader.int()
        if is_end:
            return results
        if opcode == _PART_END:
            results.append(MultiResult(opcode, reader.int()))
        elif error and opcode in _PART_TYPES:
            results.append(MultiResult(opcode, error))
        elif opcode in _PART_TYPES:
            results.append(MultiResult(opcode, error, _DECODERS.get(opcode, _nothing)(reader)))
        else:
            raise JuteError(f"a part of type {opcode} in the answer to a multi, before offset {reader.offset}")


_DECODERS: Final[Mapping[int, Decode]] = {
    int(OpCode.CREATE): _text,
    int(OpCode.CREATE2): _text_and_stat,
    int(OpCode.CREATE_CONTAINER): _text_and_stat,
    int(OpCode.CREATE_TTL): _text_and_stat,
    int(OpCode.CREATE_IF_NOT_EXISTS): _text,
    int(OpCode.SET_DATA): _stat,
    int(OpCode.SET_ACL): _stat,
    int(OpCode.RECONFIG): _data_and_stat,
    int(OpCode.EXISTS): _stat,
    int(OpCode.GET_DATA): _data_and_stat,
    int(OpCode.GET_ACL): lambda reader: (acl_from(reader) or (), _stat(reader)),
    int(OpCode.GET_CHILDREN): _texts,
    int(OpCode.GET_CHILDREN2): lambda reader: (_texts(reader), _stat(reader)),
    int(OpCode.SYNC): _text,
    int(OpCode.MULTI): _multi,
    int(OpCode.MULTI_READ): _multi,
    int(OpCode.SASL): Reader.buffer,
    int(OpCode.GET_EPHEMERALS): _texts,
    int(OpCode.GET_ALL_CHILDREN_NUMBER): Reader.int,
    int(OpCode.ADD_WATCH): Reader.int,
    int(OpCode.WHO_AM_I): lambda reader: reader.vector(_identity, item_bytes_min=8) or [],
    int(OpCode.FILTERED_LIST): lambda reader: (_texts(reader), _stat(reader)),
    int(OpCode.FILTERED_LIST_WITH_STATS_AND_DATA): lambda reader: (
        *(_texts(reader), _stat(reader)),
        *(reader.vector(_stat) or [], reader.vector(Reader.buffer) or []),
    ),
    int(OpCode.LIST_RECURSIVE): _texts,
    int(OpCode.GET_CHANGES): read_page,
    int(OpCode.GET_CHILDREN_PAGE): lambda reader: (_texts(reader), reader.bool(), _stat(reader)),
}

_CREATE2: Final = int(OpCode.CREATE2)
# In a multi, the results of these have the type of a create2: their bodies have a Stat, that of a create has none.
_STAT_CREATES: Final = frozenset(opcode for opcode, decoder in _DECODERS.items() if decoder is _text_and_stat)
_PART_TYPES: Final = frozenset(map(int, MULTI_WRITES | KEEPERS_MULTI_READS)) - _STAT_CREATES | {_CREATE2}
