"""The values that the client hands out and takes: Stat, ACL, permissions, events, changes, states.

Text is `str` here and bytes below: paths and ACL ids are encoded and decoded once, at this boundary.

    Stat, 68 bytes: czxid, mzxid, ctime, mtime long; version, cversion, aversion int; ephemeralOwner long;
                    dataLength, numChildren int; pzxid long

Deliberately not here: what the server stores (`datatree`) and the bytes of requests and replies.
"""

from enum import Enum, IntEnum, IntFlag
from struct import Struct
from typing import Final, NamedTuple

from datatree.requests import WireAcl
from zab.jute.keeper_features import KeeperFeature

__all__ = [
    "ANY_STAT",
    "CREATOR_ALL_ACL",
    "OPEN_ACL",
    "READ_ACL",
    "Acl",
    "Change",
    "ChangeKind",
    "ChildKind",
    "ChildrenPage",
    "EventType",
    "Identity",
    "KeeperFeature",
    "ListedChild",
    "Listing",
    "Permission",
    "Place",
    "Stat",
    "State",
    "WatchEvent",
    "WatchKind",
    "WatchMode",
    "format_acl",
    "parse_acl",
]

STAT: Final = Struct(">qqqqiiiqiiq")
STAT_BYTES: Final = STAT.size
assert STAT_BYTES == 68


class Stat(NamedTuple):
    """What the service knows about a znode. zxids and times (ms since 1970) are ints; versions count changes from 0."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int

    @classmethod
    def from_wire(cls, encoded: bytes) -> "Stat":
        return cls._make(STAT.unpack(encoded))


class ChildrenPage(NamedTuple):
    """Some children of a znode in the order of their names: `names`, whether more of them follow, and its Stat."""

    names: list[str]
    has_more: bool
    stat: Stat


ANY_STAT: Final = Stat(*(-1,) * len(Stat._fields))
"""For `check_stat`, which compares the fields that are not -1: `ANY_STAT._replace(mzxid=…)`."""


class ChildKind(IntEnum):
    """Which children `list_children` lists."""

    ALL = 0
    PERSISTENT = 1
    EPHEMERAL = 2


class ListedChild(NamedTuple):
    """A child of a znode: its name, and its Stat and data where they were asked for."""

    name: str
    stat: Stat | None
    data: bytes | None


class Listing(NamedTuple):
    """Children of a znode in the order of their names, and its own Stat, all of one state."""

    children: list[ListedChild]
    stat: Stat


class Permission(IntFlag):
    """What an ACL entry grants; the letters are those of ZooKeeper's tools, in the order `cdrwa`."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31

    @property
    def letters(self) -> str:
        return "".join(letter for letter, permission in _LETTERS.items() if permission & self)

    @classmethod
    def from_letters(cls, letters: str) -> "Permission":
        """ValueError for a letter that means nothing."""
        unknown = sorted(set(letters) - _LETTERS.keys())
        if unknown:
            raise ValueError(f"unknown permission {unknown[0]!r} in {letters!r}: use letters of cdrwa")
        granted = cls(0)
        for letter in letters:
            granted |= _LETTERS[letter]
        return granted


_LETTERS: Final = {
    "c": Permission.CREATE,
    "d": Permission.DELETE,
    "r": Permission.READ,
    "w": Permission.WRITE,
    "a": Permission.ADMIN,
}


class Acl(NamedTuple):
    """One entry of a znode's ACL: who (`scheme`, `id`) may do what (`permissions`)."""

    permissions: Permission
    scheme: str
    id: str

    @classmethod
    def from_wire(cls, entry: WireAcl) -> "Acl":
        permissions, scheme, identity = entry
        return cls(Permission(permissions & Permission.ALL), _text(scheme), _text(identity))

    def to_wire(self) -> WireAcl:
        return int(self.permissions), self.scheme.encode(), self.id.encode()

    def __str__(self) -> str:
        return f"{self.scheme}:{self.id}:{self.permissions.letters}"


OPEN_ACL: Final = (Acl(Permission.ALL, "world", "anyone"),)
CREATOR_ALL_ACL: Final = (Acl(Permission.ALL, "auth", ""),)
READ_ACL: Final = (Acl(Permission.READ, "world", "anyone"),)


def parse_acl(text: str) -> tuple[Acl, ...]:
    """`scheme:id:letters`, several separated by commas; the id may hold colons. ValueError says what is wrong."""
    entries = []
    for part in text.split(","):
        scheme, first, rest = part.strip().partition(":")
        identity, last, letters = rest.rpartition(":")
        if not scheme or not first or not last:
            raise ValueError(f"{part!r} is not scheme:id:permissions")
        entries.append(Acl(Permission.from_letters(letters), scheme, identity))
    return tuple(entries)


def format_acl(acl: tuple[Acl, ...] | list[Acl]) -> str:
    """The inverse of `parse_acl`."""
    return ",".join(map(str, acl))


class Identity(NamedTuple):
    """An identity that the server has for a connection."""

    scheme: str
    user: str


class State(Enum):
    """The state of a session; `zab.client.core.session` has the transitions."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    CONNECTED_READ_ONLY = "connected, read-only"
    AUTH_FAILED = "authentication failed"
    EXPIRED = "expired"
    CLOSED = "closed"

    @property
    def is_connected(self) -> bool:
        return self in (State.CONNECTED, State.CONNECTED_READ_ONLY)

    @property
    def is_over(self) -> bool:
        """No further request of this session will be answered."""
        return self in (State.AUTH_FAILED, State.EXPIRED, State.CLOSED)


class EventType(IntEnum):
    """What happened. SESSION: `state` has changed. 5 to 7: this client removed the watch."""

    SESSION = -1
    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4
    DATA_WATCH_REMOVED = 5
    CHILD_WATCH_REMOVED = 6
    PERSISTENT_WATCH_REMOVED = 7


class WatchEvent(NamedTuple):
    """path: "" for SESSION. zxid: that of the transaction; -1 if the server does not send it."""

    type: EventType
    path: str
    state: State
    zxid: int = -1


class ChangeKind(IntEnum):
    """What a `Change` did."""

    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 5
    ACL_CHANGED = 7

    @property
    def has_data(self) -> bool:
        """Whether the change has the znode's data after it."""
        return self in (ChangeKind.CREATED, ChangeKind.DATA_CHANGED)


class Change(NamedTuple):
    """One znode was created, deleted or changed by the transaction `zxid`.

    part: its index in the transaction, if that is a multi or the end of a session, which deletes its ephemerals; else
    0. time: ms since 1970, by the leader's clock. session: that of the request; 0 for one of the ensemble itself. data:
    for CREATED and DATA_CHANGED, where it may be None as well. version: that of the data after the change, that of the
    ACL for ACL_CHANGED, -1 for DELETED. ephemeral_owner: the session of an ephemeral znode that was CREATED, else 0.
    """

    zxid: int
    part: int
    time: int
    session: int
    kind: ChangeKind
    path: str
    data: bytes | None
    version: int
    ephemeral_owner: int


class Place(NamedTuple):
    """A place in the order of all changes: after `part` of the transaction `zxid`, in the history with this id
    (hex)."""

    zxid: int
    part: int
    history_id: str


class WatchMode(IntEnum):
    """The modes of addWatch."""

    PERSISTENT = 0
    PERSISTENT_RECURSIVE = 1


class WatchKind(IntEnum):
    """The kinds of watches for `remove_watches` and `check_watches`."""

    CHILDREN = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    PERSISTENT_RECURSIVE = 5


def _text(encoded: bytes | None) -> str:
    return "" if encoded is None else encoded.decode("utf-8", "replace")
