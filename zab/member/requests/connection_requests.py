"""Requests that concern their own connection: its watches, identities, liveness. None leaves a transaction.

`LOCAL` requests are answered in the order of their connection, like reads, by the same kind of function (`reads`).
`PROMPT` requests overtake waiting ones: clients match their replies by their special xid.

    addWatch                always succeeds; an unknown mode is MARSHALLINGERROR
    check-, removeWatches   NOWATCHER if nothing matched; an unknown kind is MARSHALLINGERROR
    setWatches(2)           the watches of an earlier connection: what changed since is told at once, in synthetic
                            events, the rest is watched again; the last piece of a long one has the reply
    whoAmI                  the identities of the connection; for digests only the user
    ping                    only the header, always with the special xid
    auth                    the reply carries zxid 0; a refusal ends the connection
    sasl                    a token for a token, with Kerberos after a worker has checked it; a failure has a null token
                            and ends the connection
    above jute.maxbuffer    BADARGUMENTS; with a special xid the connection ends
    refused by `apart`      NOTREADONLY, EPHEMERALONLOCALSESSION; a local session's closeSession is answered here
    a write without room    QUOTAEXCEEDED, while no quorum has room on its disks
    everything else         UNIMPLEMENTED with zxid -1, and the connection ends: a check outside of a multi, a
                            deleteContainer (which has no ACL check and is for the leader), unknown opcodes

If clients have to authenticate, any other request before that is refused with SESSIONCLOSEDREQUIRESASLAUTH and ends the
connection, even a ping or a closeSession.

Not here: proofs of identity (`authentication`), and the delivery of later events (`processor`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from struct import Struct

from datatree.acl import ANY_SASL, READ
from datatree.errors import ErrorCode
from datatree.jute import NULL
from datatree.opcodes import KEEPERS, WRITES, OpCode
from datatree.request_decoding import decode, watched_paths_of
from datatree.requests import AddAuth, PathKind, PathOnly, Sasl
from datatree.slices import PATHS
from datatree.znode import Znode
from zab.jute.framing import PING_XID
from zab.jute.replies import identities_body, int_body, notification, path_body, reply, token_body
from zab.member.clients.authentication import SaslFailed, Verdict
from zab.member.clients.connection import ClientConnection, Closing
from zab.member.clients.events import LoginStepped
from zab.member.clients.long_requests import Piece
from zab.member.requests.read_state import (
    BODY_AT,
    Answer,
    ConnectionEnds,
    ReadState,
    Steps,
    begun,
    check_watch_limit,
    may,
)
from zab.member.requests.reads import READS
from zab.member.settings.config import Config
from zab.member.state.work import NAME_WORK, PROOF_WORK

UNKNOWN = 1 << 31
"""The key in `ANSWERS` for every opcode that clients may not send; no request can carry this number."""

NO_ROOM = UNKNOWN + 1
"""The key for a write that needs disk space while no quorum has any (`zab.protocol.disk_space`)."""

TOO_LARGE = UNKNOWN + 3
"""The key for a request above jute.maxbuffer that was skipped (`oversizeRequestBytes`)."""

THROTTLED = UNKNOWN + 2
"""The key for a request that has waited too long to be executed."""

NOT_READ_ONLY = UNKNOWN + 4
EPHEMERAL_REFUSED = UNKNOWN + 5
LOCAL_CLOSE = UNKNOWN + 6
"""The keys for requests of local sessions (`apart`)."""

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
    """Set watches again. The events come before the reply, as they would have without the new connection."""
    return begun(_watched_again(state, connection, xid, frame))


def _watched_again(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> Steps:
    """Set watches slice by slice: each path is looked at in its turn, and watched from then on."""
    opcode = OpCode.SET_WATCHES if _OPCODE.unpack_from(frame, 4)[0] == OpCode.SET_WATCHES else OpCode.SET_WATCHES2
    watches, tree = state.watches, state.tree

    def may_read(znode: Znode) -> bool:
        return may(state, connection, znode, READ)

    for count, _ in enumerate(watched_paths_of(opcode, frame, BODY_AT), 1):
        if not count % PATHS:
            yield  # a request that cannot be decoded to its end changes nothing
    frames: list[bytes] = []
    for count, (kind, path, zxid) in enumerate(watched_paths_of(opcode, frame, BODY_AT), 1):
        state.spent += NAME_WORK
        event = watches.set_again(connection, kind, path, zxid, tree, may_read)
        if event:
            frames.append(notification(event, path, NO_ZXID))
        if not count % PATHS:
            check_watch_limit(state, connection)
            yield
    check_watch_limit(state, connection)
    answered = b"" if type(frame) is Piece else reply(xid, state.tree.applied)
    return b"".join((*frames, answered))


def who_am_i(state: ReadState, connection: ClientConnection, xid: int, _frame: bytes) -> bytes:
    users = [
        (scheme, name.partition(b":")[0] if scheme == b"digest" else name)
        for scheme, name in connection.identities
        if scheme != ANY_SASL
    ]
    return reply(xid, state.tree.applied, 0, identities_body(users))


def sync_reply(state: ReadState, _connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """The reply to a sync, with its path. The processor decides when the sync is done."""
    body = decode(OpCode.SYNC, frame, BODY_AT)
    assert isinstance(body, PathOnly)
    return reply(xid, state.tree.applied, 0, path_body(body.path))


def unimplemented(_state: ReadState, _connection: ClientConnection, xid: int, _frame: bytes) -> bytes:
    raise ConnectionEnds(reply(xid, NO_ZXID, ErrorCode.UNIMPLEMENTED))


def no_room(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    """Refuse a write here, in its order: the log has no room for refusals either."""
    state.metrics.writes_without_room_count += 1
    return _refused_here(state, connection, xid, frame, ErrorCode.QUOTAEXCEEDED)


def not_read_only(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    return _refused_here(state, connection, xid, frame, ErrorCode.NOTREADONLY)


def ephemeral_refused(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    return _refused_here(state, connection, xid, frame, ErrorCode.EPHEMERALONLOCALSESSION)


def _refused_here(state: ReadState, connection: ClientConnection, xid: int, frame: bytes, error: ErrorCode) -> bytes:
    (opcode,) = _OPCODE.unpack_from(frame, 4)
    if state.auditor is not None and opcode in WRITES:
        state.auditor.refused_at_once(connection, opcode, frame[BODY_AT:])
    return reply(xid, state.tree.applied, error)


def local_close(state: ReadState, connection: ClientConnection, xid: int, _frame: bytes) -> bytes:
    state.local_sessions.end(connection.session)
    raise ConnectionEnds(reply(xid, state.tree.applied))


def too_large(state: ReadState, _connection: ClientConnection, xid: int, _frame: bytes) -> bytes:
    state.metrics.large_requests_rejected += 1
    return reply(xid, state.tree.applied, ErrorCode.BADARGUMENTS)


def throttled(state: ReadState, _connection: ClientConnection, xid: int, _frame: bytes) -> bytes:
    return reply(xid, state.tree.applied, ErrorCode.THROTTLEDOP)


def ping(state: ReadState, connection: ClientConnection, _xid: int, _frame: bytes) -> bytes:
    """Answer a ping. It overtakes an answer that is being made, so its zxid is not later than that answer's."""
    return reply(PING_XID, connection.answering_zxid or state.tree.applied)


def auth(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    body = decode(OpCode.AUTH, frame, BODY_AT)
    assert isinstance(body, AddAuth)
    state.spent += PROOF_WORK
    verdict = state.authentication.prove(connection, body.scheme, body.auth)
    if verdict is Verdict.ACCEPTED:
        return reply(xid, AUTH_ZXID)
    # Without a colon, all of it may be a password.
    user, colon, _ = body.auth.partition(b":") if body.scheme == b"digest" else (b"", b"", b"")
    state.login_refused(connection, "auth", body.scheme, user if colon else b"")
    raise ConnectionEnds(reply(xid, AUTH_ZXID, ErrorCode.AUTHFAILED) if verdict is Verdict.REFUSED else b"")


def sasl(state: ReadState, connection: ClientConnection, xid: int, frame: bytes) -> bytes:
    body = decode(OpCode.SASL, frame, BODY_AT)
    assert isinstance(body, Sasl)
    state.spent += PROOF_WORK
    try:
        token = state.authentication.answer_token(connection, xid, body.token)
    except SaslFailed as failed:
        return _login_failed(state, connection, xid, failed)
    return b"" if token is None else reply(xid, AUTH_ZXID, 0, token_body(token))


def login_stepped(state: ReadState, event: LoginStepped) -> None:
    """Answer a token that a worker has handled, if its connection still exists."""
    connection = event.connection
    if connection.closing or not connection.is_ours:
        return
    try:
        token = state.authentication.stepped(connection, event.step)
        answered = reply(event.xid, AUTH_ZXID, 0, NULL if token is None else token_body(token))
    except SaslFailed as failed:
        try:
            answered = _login_failed(state, connection, event.xid, failed)
        except ConnectionEnds as end:
            state.clients.send(connection, end.last)
            state.clients.close(connection, Closing.FLUSHED)
            return
    state.clients.send(connection, answered)


def _login_failed(state: ReadState, connection: ClientConnection, xid: int, failed: SaslFailed) -> bytes:
    state.login_refused(connection, "sasl")
    answered = reply(xid, AUTH_ZXID, failed.error, NULL)
    if failed.error:
        raise ConnectionEnds(answered) from None
    return answered


def proven_first(state: ReadState, connection: ClientConnection, frames: Iterable[bytes]) -> Iterator[bytes]:
    """The frames of a client that has to authenticate: those that do so, and those after that. Raises ConnectionEnds at
    any other."""
    for frame in frames:
        xid, opcode = _HEADER.unpack_from(frame)
        if not state.authentication.lets_through(connection, opcode):
            state.login_refused(connection, "auth")
            raise ConnectionEnds(reply(xid, AUTH_ZXID, ErrorCode.SESSIONCLOSEDREQUIRESASLAUTH))
        yield frame


_HEADER = Struct(">ii")
_OPCODE = Struct(">i")

LOCAL: Mapping[int, Answer] = {
    int(OpCode.ADD_WATCH): add_watch,
    int(OpCode.CHECK_WATCHES): check_watches,
    int(OpCode.REMOVE_WATCHES): remove_watches,
    int(OpCode.SET_WATCHES): set_watches,
    int(OpCode.SET_WATCHES2): set_watches,
    int(OpCode.WHO_AM_I): who_am_i,
    UNKNOWN: unimplemented,
    NO_ROOM: no_room,
    NOT_READ_ONLY: not_read_only,
    EPHEMERAL_REFUSED: ephemeral_refused,
    LOCAL_CLOSE: local_close,
    THROTTLED: throttled,
    TOO_LARGE: too_large,
}

ANSWERS: Mapping[int, Answer] = {**READS, **LOCAL}
"""All requests that are answered here, in the order of their connection."""


def switched_off_by(config: Config) -> frozenset[int]:
    """The operations that this configuration switches off: clients get UNIMPLEMENTED for them."""
    if config.tree.keeper_extensions_enabled:
        return frozenset()
    create_if_not_exists = () if config.tree.create_if_not_exists_enabled else (OpCode.CREATE_IF_NOT_EXISTS,)
    return frozenset(map(int, (*KEEPERS, *create_if_not_exists)))


PROMPT: Mapping[int, Answer] = {
    int(OpCode.PING): ping,
    int(OpCode.AUTH): auth,
    int(OpCode.SASL): sasl,
}
"""Requests that are answered at once."""
