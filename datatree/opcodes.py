"""The operation codes: one row for each, with what all packages need to know about it.

    NAME = number, name as ZooKeeper's tools write it, class, effect, whether it may be a part

The number is in the header of a request and, if the operation becomes a transaction, is its type in the log.

The class says what handles a request with this code:

- `WRITE` goes through the leader and becomes a transaction, an error transaction when refused;
- `READ` is answered by the serving member from its tree, in session order;
- `LOCAL` concerns the connection (watches, identities, liveness) or the order of the session (`sync`) and leaves no
  transaction;
- `NEVER` must not come from a client as a separate request: `check` only exists inside a multi, and the others are made
  by the ensemble itself (`deleteContainer` has no ACL check, so a client that sends it is refused);
- `EXTENSION` is this project's; it is answered once there is something to report, regardless of the order of other
  requests.

The effect is that of a transaction of this type; a code without one is never in a log, and a write without one is in
`LOGGED_AS`. The effect decides the layout of the record (`datatree.record`) and what is applied (`datatree.apply`), so
a new type with an effect that exists needs no row there. A part may be inside a multi, or, if it is a read, inside a
multiRead; the two are never mixed.

Numbers below 500 are ZooKeeper's, those from 500 on ClickHouse Keeper's, those from 1000 on this project's. ZooKeeper's
servers answer the latter two like any unknown opcode.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum, auto
from typing import Final, Self

__all__ = [
    "EXTENSIONS",
    "KEEPERS",
    "KEEPERS_MULTI_READS",
    "LOCAL",
    "LOGGED_AS",
    "MULTI_READS",
    "MULTI_WRITES",
    "NEVER",
    "READS",
    "TYPES",
    "WRITES",
    "Class",
    "Effect",
    "OpCode",
    "names_with",
    "types_with",
]


class Class(Enum):
    """What handles a request."""

    WRITE = auto()
    READ = auto()
    LOCAL = auto()
    NEVER = auto()
    EXTENSION = auto()


class Effect(Enum):
    """What applying a transaction does."""

    CREATE = auto()
    DELETE = auto()
    SET_DATA = auto()
    SET_ACL = auto()
    NOTHING = auto()
    """Nothing, to the znode at its path."""
    OWN = auto()
    """An effect that no other type has: of sessions, the multi, the error."""


_WRITE: Final = Class.WRITE
_READ: Final = Class.READ
_LOCAL: Final = Class.LOCAL
_NEVER: Final = Class.NEVER
_PART: Final = True


class OpCode(IntEnum):
    """One operation: its number, names, class and effect."""

    spelled: str
    class_: Class
    effect: Effect | None
    is_part: bool

    # Every row has a name and a class; the defaults are for looking up by number, which has the same signature.
    def __new__(
        cls,
        number: int,
        spelled: str = "",
        class_: Class = _NEVER,
        effect: Effect | None = None,
        is_part: bool = not _PART,
    ) -> Self:
        opcode = int.__new__(cls, number)
        opcode._value_ = number
        opcode.spelled, opcode.class_, opcode.effect, opcode.is_part = spelled, class_, effect, is_part
        return opcode

    NOTIFICATION = 0, "notification", _NEVER
    CREATE = 1, "create", _WRITE, Effect.CREATE, _PART
    DELETE = 2, "delete", _WRITE, Effect.DELETE, _PART
    EXISTS = 3, "exists", _READ
    GET_DATA = 4, "getData", _READ, None, _PART
    SET_DATA = 5, "setData", _WRITE, Effect.SET_DATA, _PART
    GET_ACL = 6, "getACL", _READ
    SET_ACL = 7, "setACL", _WRITE, Effect.SET_ACL
    GET_CHILDREN = 8, "getChildren", _READ, None, _PART
    SYNC = 9, "sync", _LOCAL
    PING = 11, "ping", _LOCAL
    GET_CHILDREN2 = 12, "getChildren2", _READ
    CHECK = 13, "check", _NEVER, Effect.NOTHING, _PART
    MULTI = 14, "multi", _WRITE, Effect.OWN
    CREATE2 = 15, "create2", _WRITE, Effect.CREATE, _PART
    RECONFIG = 16, "reconfig", _WRITE, Effect.SET_DATA
    CHECK_WATCHES = 17, "checkWatches", _LOCAL
    REMOVE_WATCHES = 18, "removeWatches", _LOCAL
    CREATE_CONTAINER = 19, "createContainer", _WRITE, Effect.CREATE, _PART
    DELETE_CONTAINER = 20, "deleteContainer", _NEVER, Effect.DELETE
    CREATE_TTL = 21, "createTTL", _WRITE, Effect.CREATE, _PART
    MULTI_READ = 22, "multiRead", _READ
    AUTH = 100, "auth", _LOCAL
    SET_WATCHES = 101, "setWatches", _LOCAL
    SASL = 102, "sasl", _LOCAL
    GET_EPHEMERALS = 103, "getEphemerals", _READ
    GET_ALL_CHILDREN_NUMBER = 104, "getAllChildrenNumber", _READ
    SET_WATCHES2 = 105, "setWatches2", _LOCAL
    ADD_WATCH = 106, "addWatch", _LOCAL
    WHO_AM_I = 107, "whoAmI", _LOCAL
    FILTERED_LIST = 500, "filteredList", _READ
    CHECK_NOT_EXISTS = 501, "checkNotExists", _NEVER, None, _PART
    CREATE_IF_NOT_EXISTS = 502, "createIfNotExists", _WRITE, None, _PART
    REMOVE_RECURSIVE = 503, "removeRecursive", _WRITE, None, _PART
    CHECK_STAT = 504, "checkStat", _NEVER, None, _PART
    TRY_REMOVE = 505, "tryRemove", _WRITE, None, _PART
    FILTERED_LIST_WITH_STATS_AND_DATA = 506, "filteredListWithStatsAndData", _READ
    LIST_RECURSIVE = 507, "listRecursive", _READ
    GET_CHANGES = 1000, "getChanges", Class.EXTENSION
    HAND_OVER = 1001, "handOver", _WRITE
    GET_CHILDREN_PAGE = 1002, "getChildrenPage", _READ
    CREATE_SESSION = -10, "createSession", _NEVER, Effect.OWN
    CLOSE_SESSION = -11, "closeSession", _WRITE, Effect.OWN
    ERROR = -1, "error", _NEVER, Effect.OWN


def _of(*classes: Class, parts: bool = False) -> frozenset[OpCode]:
    return frozenset(opcode for opcode in OpCode if opcode.class_ in classes and (opcode.is_part or not parts))


WRITES: Final = _of(Class.WRITE)
READS: Final = _of(Class.READ)
LOCAL: Final = _of(Class.LOCAL)
NEVER: Final = _of(Class.NEVER)
EXTENSIONS: Final = _of(Class.EXTENSION)

MULTI_WRITES: Final = _of(Class.WRITE, Class.NEVER, parts=True)
MULTI_READS: Final = _of(Class.READ, parts=True)

KEEPERS: Final = frozenset(
    {
        *(OpCode.FILTERED_LIST, OpCode.CHECK_NOT_EXISTS, OpCode.REMOVE_RECURSIVE, OpCode.CHECK_STAT),
        *(OpCode.TRY_REMOVE, OpCode.FILTERED_LIST_WITH_STATS_AND_DATA, OpCode.LIST_RECURSIVE),
    }
)
"""ClickHouse Keeper's operations, which are switched on or off together; createIfNotExists may be on alone."""
KEEPERS_MULTI_READS: Final = MULTI_READS | {
    *(OpCode.EXISTS, OpCode.GET_CHILDREN2, OpCode.FILTERED_LIST, OpCode.FILTERED_LIST_WITH_STATS_AND_DATA)
}
"""The reads that may be in a multiRead if ClickHouse Keeper's operations are on."""


def types_with(*effects: Effect) -> frozenset[int]:
    """The types of transactions that have one of these effects.

    They are plain ints, like all keys of tables used for each transaction: a look-up then compares by identity.
    """
    return frozenset(int(opcode) for opcode in OpCode if opcode.effect in effects)


def names_with(*effects: Effect) -> tuple[str, ...]:
    """The names of these types."""
    return tuple(opcode.spelled for opcode in OpCode if opcode.effect in effects)


TYPES: Final = types_with(*Effect)
"""All types of transactions."""

LOGGED_AS: Final[Mapping[int, frozenset[int]]] = {
    int(OpCode.CREATE_IF_NOT_EXISTS): frozenset({int(OpCode.CREATE), int(OpCode.CHECK)}),
    int(OpCode.HAND_OVER): frozenset({int(OpCode.CHECK)}),
    int(OpCode.CHECK_NOT_EXISTS): frozenset({int(OpCode.CHECK)}),
    int(OpCode.CHECK_STAT): frozenset({int(OpCode.CHECK)}),
    int(OpCode.TRY_REMOVE): frozenset({int(OpCode.DELETE), int(OpCode.CHECK)}),
    int(OpCode.REMOVE_RECURSIVE): frozenset({int(OpCode.MULTI), int(OpCode.DELETE), int(OpCode.CHECK)}),
}
"""The writes that become transactions of another type, and that type."""
