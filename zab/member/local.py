"""Requests that concern their own connection: its watches, identities, liveness. None leaves a transaction.

`LOCAL` are answered in the order of their connection, as reads are, through the same kind of function (`reads`).
`PROMPT` are answered when they are read, whatever waits: clients match those replies by their special xid.

    addWatch                always succeeds; an unknown mode is MARSHALLINGERROR
    check-, removeWatches   NOWATCHER if nothing matched; an unknown kind is MARSHALLINGERROR
    setWatches(2)           the watches of an earlier connection: what changed since is told at once, in made-up
                            events, the rest is watched again
    whoAmI                  the identities of the connection, of digest ones the user only
    reconfig                RECONFIGDISABLED: the ensemble is the one of the configuration file
    ping                    nothing but the header, always with the special xid
    auth                    the reply carries zxid 0; a refusal ends the connection
    sasl                    is not offered: AUTHFAILED, and the connection ends
    everything else         UNIMPLEMENTED with zxid -1, and the connection ends: a check outside of a multi, a
                            deleteContainer (which has no ACL check and is the leader's own), unknown opcodes

Not here: who may be super (`Config.super_digest`), and how events are delivered later (`processor`).
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

from datatree.acl import SUPER, digest_identity
from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.paths import is_text
from datatree.requests import AddAuth, PathKind, PathOnly, SetWatches, decode
from zab.jute.framing import PING_XID
from zab.jute.replies import identities_body, int_body, notification, path_body, reply
from zab.member.connection import ClientConnection
from zab.member.reads import BODY_AT, READS, Answer, ConnectionEnds, ReadState, check_watch_limit

UNKNOWN = 1 << 31
"""Stands in `ANSWERS` for every opcode that clients may not send; no request can carry this number."""

NO_ZXID = -1
AUTH_ZXID = 0


def add_watch(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    body = decode(OpCode.ADD_WATCH, frame, BODY_AT)
    assert isinstance(body, PathKind)
    if not state.watches.add_mode(connection, body.path, body.kind):
        return reply(xid, state.tree.applied, ErrorCode.MARSHALLINGERROR)
    check_watch_limit(state, connection)
    return reply(xid, state.tree.applied, 0, int_body(0))


def check_watches(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    body = decode(OpCode.CHECK_WATCHES, frame, BODY_AT)
    assert isinstance(body, PathKind)
    return reply(xid, state.tree.applied, state.watches.check(connection, body.path, body.kind))


def remove_watches(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    body = decode(OpCode.REMOVE_WATCHES, frame, BODY_AT)
    assert isinstance(body, PathKind)
    return reply(xid, state.tree.applied, state.watches.remove(connection, body.path, body.kind))


def set_watches(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """The events come before the reply, as they would have without the new connection."""
    opcode = OpCode.SET_WATCHES if _OPCODE.unpack_from(frame, 4)[0] == OpCode.SET_WATCHES else OpCode.SET_WATCHES2
    body = decode(opcode, frame, BODY_AT)
    assert isinstance(body, SetWatches)
    events = state.watches.set_watches(connection, body, state.tree)
    check_watch_limit(state, connection)
    frames = [notification(kind, path, NO_ZXID) for kind, path in events]
    return b"".join((*frames, reply(xid, state.tree.applied)))


def who_am_i(state: ReadState, connection: ClientConnection, xid: int, _frame: bytes) -> bytes:
    users = [
        (scheme, name.partition(b":")[0] if scheme == b"digest" else name) for scheme, name in connection.identities
    ]
    return reply(xid, state.tree.applied, 0, identities_body(users))


def reconfig_disabled(state: ReadState, _connection: ClientConnection, xid: int, _frame: bytes) -> bytes:
    return reply(xid, state.tree.applied, ErrorCode.RECONFIGDISABLED)


def sync_reply(state: ReadState, _connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """The reply carries the path. The processor decides when the sync is done."""
    body = decode(OpCode.SYNC, frame, BODY_AT)
    assert isinstance(body, PathOnly)
    return reply(xid, state.tree.applied, 0, path_body(body.path))


def unimplemented(_state: ReadState, _connection: ClientConnection, xid: int, _frame: bytes) -> bytes:
    raise ConnectionEnds(reply(xid, NO_ZXID, ErrorCode.UNIMPLEMENTED))


def ping(state: ReadState, _connection: ClientConnection, _xid: int, _frame: bytes) -> bytes:
    return reply(PING_XID, state.tree.applied)


def auth(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """digest proves an identity; ip is the one that the connection has anyway; there are no other schemes."""
    body = decode(OpCode.AUTH, frame, BODY_AT)
    assert isinstance(body, AddAuth)
    accepted = body.scheme == b"ip"
    if body.scheme == b"digest" and state.config.digest_enabled and is_text(body.auth):
        identity = digest_identity(body.auth)
        accepted = connection.identify(identity)
        if state.config.super_digest is not None and identity[1] == state.config.super_digest.encode():
            accepted = accepted and connection.identify(SUPER)
    if not accepted:
        state.metrics.auth_failed_count += 1
        raise ConnectionEnds(reply(xid, AUTH_ZXID, ErrorCode.AUTHFAILED))
    return reply(xid, AUTH_ZXID)


def sasl(_state: ReadState, _connection: ClientConnection, xid: int, _frame: bytes) -> bytes:
    raise ConnectionEnds(reply(xid, AUTH_ZXID, ErrorCode.AUTHFAILED))


_OPCODE = Struct(">i")

LOCAL: Mapping[int, Answer] = {
    int(OpCode.ADD_WATCH): add_watch,
    int(OpCode.CHECK_WATCHES): check_watches,
    int(OpCode.REMOVE_WATCHES): remove_watches,
    int(OpCode.SET_WATCHES): set_watches,
    int(OpCode.SET_WATCHES2): set_watches,
    int(OpCode.WHO_AM_I): who_am_i,
    int(OpCode.RECONFIG): reconfig_disabled,
    UNKNOWN: unimplemented,
}

ANSWERS: Mapping[int, Answer] = {**READS, **LOCAL}
"""Everything that is answered here, in the order of its connection."""

PROMPT: Mapping[int, Answer] = {
    int(OpCode.PING): ping,
    int(OpCode.AUTH): auth,
    int(OpCode.SASL): sasl,
}
"""What is answered at once."""
