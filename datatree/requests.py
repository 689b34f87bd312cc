"""The bodies of client requests: what follows the request header in a frame, as records that can be encoded.

Formats, in jute's types (`datatree.jute`), by operation code:

     1 create, 15 create2, 19 createContainer     path string, data buffer, acl vector<ACL>, flags int
   502 createIfNotExists                          the same
    21 createTTL                                  the same, then ttl long (ms)
     2 delete, 13 check (inside a multi)          path string, version int
   501 checkNotExists (the same), 505 tryRemove   the same
   503 removeRecursive, 507 listRecursive         path string, limit int, unsigned
   504 checkStat                                  path string, version int, Stat
   500 filteredList                               path string, watch bool, which byte: 0 all, 1 persistent, 2 ephemeral
   506 filteredListWithStatsAndData               the same, then stats bool, data bool
     3 exists, 4 getData, 8, 12 getChildren(2)    path string, watch bool
     5 setData                                    path string, data buffer, version int
     6 getACL, 9 sync, 104 getAllChildrenNumber   path string
     7 setACL                                     path string, acl vector<ACL>, version int
    14 multi, 22 multiRead                        (header, body)*, end; header = opcode int, 00, ff ff ff ff;
                                                  end = ff ff ff ff, 01, ff ff ff ff
    16 reconfig                                   joining string, leaving string, members string, version long
    17, 18 check/removeWatches, 106 addWatch      path string, kind int
    20 deleteContainer (made by the leader)       path string
   100 auth                                       0 int, scheme string, auth buffer
   101 setWatches                                 zxid long, data, exist, child: vector<string> each
   105 setWatches2                                the same, then persistent, recursive: vector<string> each
   102 sasl                                       token buffer
   103 getEphemerals                              prefix string
   -10 createSession (made by the server)         timeout int (ms)
    11 ping, 107 whoAmI, -11 closeSession         nothing
  1001 handOver (ours)                          server id long
  1000 getChanges (ours)                          zxid long, part int, history_id buffer, prefix string, bytes int,
                                                  wait int (ms)
  1002 getChildrenPage (ours)                     path string, after string, prefix string, count int

    ACL = perms int, scheme string, id string

Deliberately not here: decoding (`datatree.request_decoding`), the request header and the replies (`zab.jute`), and
whether the values make sense (`datatree.prepare`).
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, TypeAlias

from attrs import define

from datatree.jute import JuteError, Reader, Writer
from datatree.keeper_requests import CheckStat, PathLimit
from datatree.listing_requests import (
    FilteredList,
    GetChildrenPage,
)
from datatree.opcodes import OpCode

__all__ = [
    "OPEN_ACL",
    "REMOVE_RECURSIVE_PART",
    "AddAuth",
    "Body",
    "CheckStat",
    "Create",
    "CreateSession",
    "FilteredList",
    "GetChanges",
    "GetChildrenPage",
    "HandOver",
    "Multi",
    "NoBody",
    "PathKind",
    "PathLimit",
    "PathOnly",
    "PathVersion",
    "PathWatch",
    "Reconfig",
    "Sasl",
    "SetAcl",
    "SetData",
    "SetWatches",
    "WireAcl",
    "acl_from",
]

# One ACL as it arrives: permission bits, scheme, id. Null texts are kept, since refusing them is INVALIDACL, not a
# decoding error.
WireAcl: TypeAlias = tuple[int, bytes | None, bytes | None]

OPEN_ACL: Final[tuple[WireAcl, ...]] = ((31, b"world", b"anyone"),)

INT: Final = Struct(">i")
LONG: Final = Struct(">q")


PART: Final = Struct(">i5s")
_PART_OPEN: Final = b"\x00\xff\xff\xff\xff"
_MULTI_END: Final = b"\xff\xff\xff\xff\x01\xff\xff\xff\xff"
REMOVE_RECURSIVE_PART: Final = PART.pack(OpCode.REMOVE_RECURSIVE, _PART_OPEN)
"""What precedes a removeRecursive in a multi."""


def _acl_item(reader: Reader) -> WireAcl:
    return reader.int(), reader.string(), reader.string()


def acl_from(reader: Reader, count_max: int | None = None) -> tuple[WireAcl, ...] | None:
    """The vector<ACL> at the reader's position; None for a null vector. Raises JuteError if it has more than
    `count_max` entries."""
    count = reader.count(item_bytes_min=12)
    if count is not None and count_max is not None and count > count_max:
        raise JuteError(f"{count} entries of an ACL, more than {count_max}, before offset {reader.offset}")
    return None if count is None else tuple([_acl_item(reader) for _ in range(count)])


def acl_to(writer: Writer, acl: Iterable[WireAcl] | None) -> None:
    writer.vector(acl, lambda out, item: out.int(item[0]).string(item[1]).string(item[2]))


# Nearly every create has the open ACL, so its bytes are recognized instead of decoded.
def _encode_open_acl() -> bytes:
    writer = Writer()
    acl_to(writer, OPEN_ACL)
    return writer.getvalue()


OPEN_ACL_BYTES: Final = _encode_open_acl()


@define
class Create:
    """create, create2, createContainer, createIfNotExists; createTTL when `ttl_ms` is not None."""

    path: bytes
    data: bytes | None
    acl: tuple[WireAcl, ...] | None
    flags: int
    ttl_ms: int | None = None

    def encode(self) -> bytes:
        writer = Writer().string(self.path).buffer(self.data)
        if self.acl is OPEN_ACL:
            writer.raw(OPEN_ACL_BYTES)
        else:
            acl_to(writer, self.acl)
        writer.int(self.flags)
        if self.ttl_ms is not None:
            writer.long(self.ttl_ms)
        return writer.getvalue()


@define
class PathWatch:
    """exists, getData, getChildren, getChildren2."""

    path: bytes
    watch: bool

    def encode(self) -> bytes:
        return INT.pack(len(self.path)) + self.path + (b"\x01" if self.watch else b"\x00")


@define
class SetData:
    path: bytes
    data: bytes | None
    version: int

    def encode(self) -> bytes:
        return Writer().string(self.path).buffer(self.data).int(self.version).getvalue()


@define
class PathVersion:
    """delete; check inside a multi."""

    path: bytes
    version: int

    def encode(self) -> bytes:
        return Writer().string(self.path).int(self.version).getvalue()


@define
class PathOnly:
    """getACL, sync, getAllChildrenNumber, deleteContainer; getEphemerals, whose path is a plain prefix."""

    path: bytes

    def encode(self) -> bytes:
        return INT.pack(len(self.path)) + self.path


@define
class PathKind:
    """addWatch with its mode; checkWatches and removeWatches with the type of watcher."""

    path: bytes
    kind: int

    def encode(self) -> bytes:
        return Writer().string(self.path).int(self.kind).getvalue()


@define
class SetAcl:
    path: bytes
    acl: tuple[WireAcl, ...] | None
    version: int

    def encode(self) -> bytes:
        writer = Writer().string(self.path)
        acl_to(writer, self.acl)
        return writer.int(self.version).getvalue()


@define
class Reconfig:
    """`joining`, `leaving` and `members` are configuration texts, null where the form is not used; `version` a zxid."""

    joining: bytes | None
    leaving: bytes | None
    members: bytes | None
    version: int

    def encode(self) -> bytes:
        return Writer().string(self.joining).string(self.leaving).string(self.members).long(self.version).getvalue()


@define
class HandOver:
    """Asks that this server lead."""

    server_id: int

    def encode(self) -> bytes:
        return Writer().long(self.server_id).getvalue()


@define
class AddAuth:
    scheme: bytes
    auth: bytes

    def encode(self) -> bytes:
        return Writer().int(0).string(self.scheme).buffer(self.auth).getvalue()


@define
class Sasl:
    token: bytes

    def encode(self) -> bytes:
        return Writer().buffer(self.token).getvalue()


@define
class SetWatches:
    """setWatches when `persistent` is None, else setWatches2. `zxid` is the last one the client saw."""

    zxid: int
    data: tuple[bytes, ...]
    exist: tuple[bytes, ...]
    child: tuple[bytes, ...]
    persistent: tuple[bytes, ...] | None = None
    recursive: tuple[bytes, ...] = ()

    def encode(self) -> bytes:
        writer = Writer().long(self.zxid)
        lists = [self.data, self.exist, self.child]
        if self.persistent is not None:
            lists += [self.persistent, self.recursive]
        for paths in lists:
            writer.vector(paths, Writer.string)
        return writer.getvalue()


@define
class GetChanges:
    """Asks for what changed at the path `prefix` and below it after the position (zxid, part) of a history.

    `history_id` is empty if the caller does not know it; `bytes_max` bounds the answer, `wait_ms` how long the server
    may wait for changes before it answers.
    """

    zxid: int
    part: int
    history_id: bytes
    prefix: bytes
    bytes_max: int
    wait_ms: int

    def encode(self) -> bytes:
        writer = Writer().long(self.zxid).int(self.part).buffer(self.history_id).string(self.prefix)
        return writer.int(self.bytes_max).int(self.wait_ms).getvalue()


@define
class CreateSession:
    timeout_ms: int

    def encode(self) -> bytes:
        return INT.pack(self.timeout_ms)


@define
class NoBody:
    """ping, whoAmI, closeSession."""

    def encode(self) -> bytes:
        return b""


@define
class Multi:
    """multi and multiRead: (opcode, body) in order."""

    parts: tuple[tuple[int, "Body"], ...]

    def encode(self) -> bytes:
        encoded = [PART.pack(opcode, _PART_OPEN) + body.encode() for opcode, body in self.parts]
        return b"".join(encoded) + _MULTI_END


Body: TypeAlias = (
    Create
    | PathWatch
    | SetData
    | PathVersion
    | PathLimit
    | CheckStat
    | PathOnly
    | PathKind
    | SetAcl
    | Reconfig
    | HandOver
    | AddAuth
    | Sasl
    | SetWatches
    | CreateSession
    | FilteredList
    | GetChanges
    | GetChildrenPage
    | NoBody
    | Multi
)
