"""The operation codes of the client protocol, and which of them change the state.

Every code is in exactly one of `WRITES`, `READS`, `LOCAL`, `NEVER` and `EXTENSIONS`:

- `WRITES` go through the leader and become a transaction, an error transaction when refused;
- `READS` are answered by the serving member from its tree, in the order of their session;
- `LOCAL` concern the connection (watches, identities, liveness) or the order of the session (`sync`) and leave no
  transaction;
- `NEVER` may not come from a client as a request of its own: `check` exists only inside a multi, and the others are
  made by the ensemble itself (`deleteContainer` has no ACL check, so a client that sends it is refused);
- `EXTENSIONS` are ours, with numbers far from ZooKeeper's; a server of ZooKeeper answers them as any unknown opcode.
"""

from enum import IntEnum
from typing import Final

__all__ = ["EXTENSIONS", "LOCAL", "MULTI_READS", "MULTI_WRITES", "NEVER", "READS", "WRITES", "OpCode"]


class OpCode(IntEnum):
    """ZooKeeper's numbers, as they stand in the request header and in the log, and our own from 1000 on."""

    NOTIFICATION = 0
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    GET_CHANGES = 1000
    CREATE_SESSION = -10
    CLOSE_SESSION = -11
    ERROR = -1


WRITES: Final = frozenset(
    {
        OpCode.CREATE,
        OpCode.DELETE,
        OpCode.SET_DATA,
        OpCode.SET_ACL,
        OpCode.MULTI,
        OpCode.CREATE2,
        OpCode.RECONFIG,
        OpCode.CREATE_CONTAINER,
        OpCode.CREATE_TTL,
        OpCode.CLOSE_SESSION,
    }
)

READS: Final = frozenset(
    {
        OpCode.EXISTS,
        OpCode.GET_DATA,
        OpCode.GET_ACL,
        OpCode.GET_CHILDREN,
        OpCode.GET_CHILDREN2,
        OpCode.MULTI_READ,
        OpCode.GET_EPHEMERALS,
        OpCode.GET_ALL_CHILDREN_NUMBER,
    }
)

LOCAL: Final = frozenset(
    {
        OpCode.SYNC,
        OpCode.PING,
        OpCode.CHECK_WATCHES,
        OpCode.REMOVE_WATCHES,
        OpCode.AUTH,
        OpCode.SET_WATCHES,
        OpCode.SASL,
        OpCode.SET_WATCHES2,
        OpCode.ADD_WATCH,
        OpCode.WHO_AM_I,
    }
)

NEVER: Final = frozenset(
    {
        OpCode.NOTIFICATION,
        OpCode.CHECK,
        OpCode.DELETE_CONTAINER,
        OpCode.CREATE_SESSION,
        OpCode.ERROR,
    }
)

# Answered when there is something to tell, out of the order of the other requests.
EXTENSIONS: Final = frozenset({OpCode.GET_CHANGES})

# What may stand inside a multi and inside a multiRead; the two are never mixed.
MULTI_WRITES: Final = frozenset(
    {
        OpCode.CREATE,
        OpCode.DELETE,
        OpCode.SET_DATA,
        OpCode.CHECK,
        OpCode.CREATE2,
        OpCode.CREATE_CONTAINER,
        OpCode.CREATE_TTL,
    }
)
MULTI_READS: Final = frozenset({OpCode.GET_DATA, OpCode.GET_CHILDREN})
