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
    a write without room    QUOTAEXCEEDED, while no quorum has room on its disks
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
from datatree.requests import AddAuth, PathKind, PathOnly, decode, watched_paths_of
from datatree.slices import PATHS
from zab.jute.framing import PING_XID
from zab.jute.replies import identities_body, int_body, notification, path_body, reply
from zab.member.connection import ClientConnection
from zab.member.reads import BODY_AT, READS, Answer, ConnectionEnds, ReadState, Steps, begun, check_watch_limit

UNKNOWN = 1 << 31
"""Stands in `ANSWERS` for every opcode that clients may not send; no request can carry this number."""

NO_ROOM = UNKNOWN + 1
"""Stands there for a write that needs room on the disks, of which no quorum has any (`zab.disk_space`)."""

THROTTLED = UNKNOWN + 2
"""Stands there for every request that has waited too long to be done."""

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
    return begun(_watched_again(state, connection, xid, frame))


def _watched_again(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> Steps:
    """Slice by slice: each path is looked at when it is its turn, and watched from then on."""
    opcode = OpCode.SET_WATCHES if _OPCODE.unpack_from(frame, 4)[0] == OpCode.SET_WATCHES else OpCode.SET_WATCHES2
    watches, tree = state.watches, state.tree
    for count, _ in enumerate(watched_paths_of(opcode, frame, BODY_AT), 1):
        if not count % PATHS:
            yield  # what cannot be read to its end changes nothing
    frames: list[bytes] = []
    for count, (kind, path, zxid) in enumerate(watched_paths_of(opcode, frame, BODY_AT), 1):
        event = watches.set_again(connection, kind, path, zxid, tree)
        if event:
            frames.append(notification(event, path, NO_ZXID))
        if not count % PATHS:
            check_watch_limit(state, connection)
            yield
    check_watch_limit(state, connection)
    return b"".join((*frames, reply(xid, state.tree.applied)))


def who_am_i(state: ReadState, connection: ClientConnection, xid: int, _frame: bytes) -> bytes:
    users = [
        (scheme, name.partition(b":")[0] if scheme == b"digest" else name) for scheme, name in connection.identities
    ]
    return reply(xid, state.tree.applied, 0, identities_body(users))


def reconfig_disabled(state: ReadState, connection: ClientConnection, xid: int, _frame: bytes) -> bytes:
    if state.auditor is not None:
        state.auditor.refused_at_once(connection, OpCode.RECONFIG)
    return reply(xid, state.tree.applied, ErrorCode.RECONFIGDISABLED)


def sync_reply(state: ReadState, _connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """The reply carries the path. The processor decides when the sync is done."""
    body = decode(OpCode.SYNC, frame, BODY_AT)
    assert isinstance(body, PathOnly)
    return reply(xid, state.tree.applied, 0, path_body(body.path))


def unimplemented(_state: ReadState, _connection: ClientConnection, xid: int, _frame: bytes) -> bytes:
    raise ConnectionEnds(reply(xid, NO_ZXID, ErrorCode.UNIMPLEMENTED))


def no_room(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """Refused here, in its place: the log has no room for refusals either."""
    state.metrics.writes_without_room_count += 1
    if state.auditor is not None:
        state.auditor.refused_at_once(connection, _OPCODE.unpack_from(frame, 4)[0], frame[BODY_AT:])
    return reply(xid, state.tree.applied, ErrorCode.QUOTAEXCEEDED)


def throttled(state: ReadState, _connection: ClientConnection, xid: int, _frame: bytes) -> bytes:
    return reply(xid, state.tree.applied, ErrorCode.THROTTLEDOP)


def ping(state: ReadState, connection: ClientConnection, _xid: int, _frame: bytes) -> bytes:
    """It overtakes an answer that is being made, and tells nothing of later."""
    return reply(PING_XID, connection.answering_zxid or state.tree.applied)


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
        # Without a colon it may all be a password.
        user, colon, _ = body.auth.partition(b":") if body.scheme == b"digest" else (b"", b"", b"")
        state.login_refused(connection, "auth", body.scheme, user if colon else b"")
        raise ConnectionEnds(reply(xid, AUTH_ZXID, ErrorCode.AUTHFAILED))
    return reply(xid, AUTH_ZXID)


def sasl(state: ReadState, connection: ClientConnection, xid: int, _frame: bytes) -> bytes:
    state.login_refused(connection, "sasl")
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
    NO_ROOM: no_room,
    THROTTLED: throttled,
}

ANSWERS: Mapping[int, Answer] = {**READS, **LOCAL}
"""Everything that is answered here, in the order of its connection."""

PROMPT: Mapping[int, Answer] = {
    int(OpCode.PING): ping,
    int(OpCode.AUTH): auth,
    int(OpCode.SASL): sasl,
}
"""What is answered at once."""
