"""What a transaction changed, znode by znode: the rows of the change feed.

    transaction                             changes
    create, create2, createContainer, -TTL  CREATED, with its data
    delete, deleteContainer                 DELETED
    setData, reconfig                       DATA_CHANGED, with its data
    setACL                                  ACL_CHANGED, without the list
    multi                                   those of its parts; none if it was refused
    closeSession                            DELETED for each ephemeral
    createSession, check, error             none

`part` is the index of the part in a multi, of the path in a closeSession, and 0 otherwise; so (zxid, part) is a
position in the order of all changes, and `WHOLE` is the position after the last part of a transaction.

Invariant: the changes of a transaction are the znodes that it names; changes of their parents (cversion, pzxid) follow
from them.

Deliberately not here: who may see a change (`zab.member.requests.change_feed`), and its bytes
(`zab.jute.change_pages`).
"""

from typing import Any, Final, TypeAlias

from datatree.opcodes import Effect, OpCode
from datatree.record import Txn
from datatree.znode import visible_owner

__all__ = ["ACL_CHANGED", "CREATED", "DATA_CHANGED", "DELETED", "WHOLE", "Change", "changes_of"]

CREATED: Final = 1
DELETED: Final = 2
DATA_CHANGED: Final = 5
ACL_CHANGED: Final = 7

WHOLE: Final = (1 << 31) - 1

# kind, part, path, data, version, ephemeral owner. The version is the data's, for ACL_CHANGED the list's, for DELETED
# -1. The owner is the session of an ephemeral znode that was CREATED, and 0 otherwise.
Change: TypeAlias = tuple[int, int, bytes, bytes | None, int, int]

_BY_EFFECT: Final = {
    Effect.CREATE: CREATED,
    Effect.DELETE: DELETED,
    Effect.SET_DATA: DATA_CHANGED,
    Effect.SET_ACL: ACL_CHANGED,
}
_KINDS: Final = {int(opcode): _BY_EFFECT[opcode.effect] for opcode in OpCode if opcode.effect in _BY_EFFECT}
_MULTI: Final = int(OpCode.MULTI)
_CLOSE_SESSION: Final = int(OpCode.CLOSE_SESSION)


def changes_of(txn: Txn) -> list[Change]:
    """The changes of a transaction, in order."""
    kind = _KINDS.get(txn.type)
    if kind is not None:
        return [_change(kind, 0, txn.number, txn.path, txn.data, txn.rest)]
    if txn.type == _MULTI:
        return [
            _change(_KINDS[part_type], part, number, path, data, rest)
            for part, (part_type, number, path, data, rest) in enumerate(txn.rest)
            if part_type in _KINDS
        ]
    if txn.type == _CLOSE_SESSION:
        return [(DELETED, part, path, None, -1, 0) for part, path in enumerate(txn.rest)]
    return []


def _change(kind: int, part: int, number: int, path: bytes, data: bytes | None, rest: Any) -> Change:
    if kind == CREATED:
        return kind, part, path, data, 0, visible_owner(rest[1])
    return kind, part, path, data, -1 if kind == DELETED else number, 0
