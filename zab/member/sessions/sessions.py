"""Sessions on this member: how a connection gets one, which server owns it, and when it ends.

The handshake, in the order of its checks; "close" means without an answer:

    clients are not served here                             close
    connection_throttle_tokens is set, and none is left     close
    read-only mode, and the client does not ask for it      close
    the client has seen a zxid that is not applied here     close: it must try another server; unless a restore has
                                                            removed that zxid everywhere
    no session id: a new one is wanted                      createSession; answered when it is applied. In read-only
                                                            mode, and with localSessionsEnabled: a local session
                                                            (`local_sessions`), at once
    the password fits no key of this member                 the invalid answer, then close, once a quorum has confirmed
                                                            that these are the newest keys, as below; nothing else
                                                            happens. In read-only mode: close
    read-only mode, and the session is global, or may       close: its client may get it back from a quorum, and this
    have become global                                      member cannot know whether it is over
    an older connection here has the session                that connection is closed
    on the leader                                           alive: this server owns it from now on; else invalid, once a
                                                            quorum has confirmed that this server still leads: a deposed
                                                            leader does not know newer sessions, and takes those that
                                                            moved elsewhere for silent
    on a learner                                            Revalidate to the leader, which decides in the same way;
                                                            both name the connection, since a client that left and came
                                                            back has another one (G4 named verdicts). A local session
                                                            needs the leader only to find out whether it is still local

A connection that waits for its session is not read from, and frames that came with the request are held.

Owners: the leader knows the server to which each session is attached. A write through another server is refused with
SESSIONMOVED, which ends that connection without a reply. After a new leader started, a session without an owner goes to
the first server that asks for it.

Liveness: the leader keeps the time, and touches (`touches`) postpone the end of a session. A session ends only by a
committed closeSession: of its client, or of the leader when no input of the session was processed for its whole timeout
(G1 expiry last).

Ids are made here without asking; the leader refuses an id that exists, and then another one is tried (G3 session ids).
The top byte of an id names the server, so that no server takes the answer to another server's createSession for its
own.

Not here: the clock of expiry, ids and passwords (`session`), which sessions exist (the tree).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from datatree.errors import ErrorCode
from datatree.jute import JuteError
from datatree.opcodes import OpCode
from datatree.record import Txn
from session.identity import (
    NO_SESSION,
    SessionId,
    SessionIds,
    is_of_server,
    local_key,
    negotiate,
    password,
    valid_password,
)
from session.tracker import Admission, SessionTracker
from zab.jute.handshake import ConnectRequest, ConnectResponse
from zab.member.clients.audit import Auditor
from zab.member.clients.connection import ClientConnection, Clients, Closing, Hold, Stage
from zab.member.clients.connection_throttle import ConnectionThrottle
from zab.member.sessions.local_sessions import LocalSessions
from zab.member.sessions.touches import Touches
from zab.member.settings.config import Config
from zab.member.state.metrics import Metrics
from zab.protocol import member_message as mmsg
from zab.protocol.features import LOCAL_SESSIONS, SESSION_SERVERS
from zab.quorum.ids import ServerId
from zab.wire.frames import frame

SAID_OVER_COUNT_MAX: Final = 65_536
"""How many local sessions the leader remembers as over: requests of theirs may still arrive for as long as a link may
be silent."""

_CREATE_SESSION = int(OpCode.CREATE_SESSION)
_CLOSE_SESSION = int(OpCode.CLOSE_SESSION)


class Sessions:
    """The sessions that this member knows; the leader knows those of all members."""

    def __init__(
        self,
        config: Config,
        clients: Clients,
        metrics: Metrics,
        ids: SessionIds,
        keys: Callable[[], Sequence[bytes]],
        auditor: Auditor | None = None,
        throttle: ConnectionThrottle | None = None,
    ) -> None:
        """`keys`: passwords are made with the first key, and accepted if they match any key (G5 session keys)."""
        self._config = config
        self._clients = clients
        self._metrics = metrics
        self._auditor = auditor
        self.throttle = throttle
        """None if clients may ask for sessions without limit."""
        self._ids = ids
        self._server_id = ServerId(config.server_id)
        self._keys = keys
        self.tracker: SessionTracker | None = None
        """The tracker of the leader; None on learners."""
        self.local = LocalSessions(config.timing.tick_time_ms)
        self.names_server = False
        """Whether this learner's leader wants the server id as the cxid of a createSession."""
        self.may_be_local = True
        """Whether the leader accepts writes of local sessions (`zab.protocol.features`). If not, new sessions are
        global, and local ones become global before they write."""
        self.is_read_only = False
        """Whether this member is in read-only mode (`read_only`)."""
        self.said_over: dict[SessionId, None] = {}
        """On the leader: unknown sessions that moved to a server that had not created them, and that it has declared
        over. If such a session was local, requests still on the way from its own server are refused, even the one that
        makes it global."""
        self.touches = Touches(clients, self.local)
        self._asking: dict[int, ClientConnection] = {}
        """The connections whose sessions the leader was asked about: id → connection."""
        self.wanted: list[tuple[SessionId, int]] = []
        """New sessions to be created, with id and timeout (ms). A turn takes these and the following."""
        self.revalidations: list[mmsg.Revalidate] = []
        """Questions to the leader, which are sent after all writes of older connections of these sessions."""
        self.doubted: list[ClientConnection] = []
        """Connections that ask for a session that this leader does not know to be alive."""
        self.established: list[ClientConnection] = []
        """Connections that have just got their session: their held frames are processed next."""

    def take_established(self) -> list[ClientConnection]:
        """Take the connections that have got their session since the last call."""
        established, self.established = self.established, []
        return established

    def take_doubted(self) -> list[ClientConnection]:
        """Take the doubted connections: a quorum will be asked about their sessions."""
        doubted, self.doubted = self.doubted, []
        return doubted

    def take_revalidations(self, left: Collection[SessionId | int]) -> list[mmsg.Revalidate]:
        """Take the questions that may be sent now; those about sessions that still have writes here stay."""
        asked = self.revalidations
        self.revalidations = [question for question in asked if question.session in left]
        return [question for question in asked if question.session not in left]

    # ----------------------------------------------------------------------------------------------------------- roles

    def follow(self, features: int) -> None:
        """Take the features of the leader (`zab.protocol.features`)."""
        self.may_be_local = bool(features & LOCAL_SESSIONS)
        self.names_server = not features & SESSION_SERVERS

    def read_only(self, *, is_on: bool) -> None:
        """Set whether this member is in read-only mode."""
        self.is_read_only = is_on

    def lead(self, sessions: Mapping[Any, int], now: int) -> None:
        """Serve as leader: give every session of the tree (id -> timeout in ms) its full timeout from now on."""
        self.tracker = SessionTracker(self._config.timing.tick_time_ms, now)
        self.tracker.restart(sessions, now)
        self.touches.lead(self.tracker)

    def drop_role(self) -> None:
        """Drop what is under way: none of it goes to the next leader (G2 former roles)."""
        self.tracker = None
        self.said_over.clear()
        self.touches.drop_role()
        assert not self.wanted, "taken at the end of each turn"
        self.revalidations.clear()
        self._asking.clear()
        self.established.clear()
        self.doubted.clear()

    # ------------------------------------------------------------------------------------------------------- handshake

    def connect(
        self, connection: ClientConnection, payload: bytes, applied: int, known: Mapping[int, int], now: int
    ) -> None:
        """Handle the first frame of a connection; `known` are the sessions of the tree, which has everything up to
        `applied`."""
        try:
            request = ConnectRequest.decode(payload)
        except JuteError:
            self._metrics.unsuccessful_handshake += 1
            self._clients.close(connection)
            return
        is_local = self.is_read_only or (self._config.has_local_sessions and self.may_be_local)
        if self.throttle is not None:
            if not self.throttle.admits(now, is_renewal=request.session_id != 0, is_local=is_local):
                self._metrics.connection_rejected += 1
                self._metrics.sessions_throttled += 1
                self._clients.close(connection)
                return
            self._metrics.connection_token_deficit.add(self.throttle.deficit)
        self._metrics.connection_request_count += 1
        if (self.is_read_only and not request.read_only) or request.last_zxid > applied:
            self._clients.close(connection)
            return
        connection.has_read_only_byte = request.has_read_only
        connection.timeout_ms = negotiate(
            request.timeout_ms, self._config.timing.min_session_timeout_ms, self._config.timing.max_session_timeout_ms
        )
        connection.stage = Stage.CONNECTING
        self._clients.hold(connection, Hold.CONNECTING)
        if request.session_id != 0:
            self._reattach(connection, request, known, now)
        elif is_local:
            self._attach_new(connection, known)
            self.local.begin(connection.session, connection.timeout_ms, now)
            self._accept(connection, is_local=True)
        else:
            self._create(connection, known)

    def _attach_new(self, connection: ClientConnection, known: Mapping[int, int]) -> None:
        session = self._ids.next()
        while session in known or session in self._clients.by_session or session in self.local.timeouts:
            session = self._ids.next()
        self._clients.attach(connection, session)

    def _create(self, connection: ClientConnection, known: Mapping[int, int]) -> None:
        self._attach_new(connection, known)
        self.wanted.append((connection.session, connection.timeout_ms))

    def _reattach(
        self, connection: ClientConnection, request: ConnectRequest, known: Mapping[int, int], now: int
    ) -> None:
        session, keys = SessionId(request.session_id), self._keys()
        was_local = valid_password([local_key(key) for key in keys], session, request.password)
        if not was_local and not valid_password(keys, session, request.password):
            self._doubt_password(connection, session)
            return
        # A session that began as a local one may be global by now.
        may_be_global = not was_local or (self.upgrades and session not in self.local.timeouts)
        if self.is_read_only and (session in known or may_be_global):
            self._clients.close(connection)
            return
        self._clients.attach(connection, session)
        if self.is_read_only:
            self._decide_alone(connection, now)
        elif self.tracker is None:
            self._ask_leader(connection, session)
        elif self.revalidate(session, connection.timeout_ms, self._server_id, now):
            self.local.end(session)
            self._accept(connection)
        elif session in self.local.timeouts:
            self._decide_alone(connection, now)
        else:
            self.doubted.append(connection)

    def _doubt_password(self, connection: ClientConnection, session: SessionId) -> None:
        """Refuse a password that fits none of the keys here, once a quorum has confirmed that these are the newest: a
        deposed leader and its followers do not know newer keys. No session is attached meanwhile."""
        connection.claimed = session
        if self.is_read_only:
            self._clients.close(connection)
        elif self.tracker is None:
            self._ask_leader(connection, NO_SESSION)
        else:
            self.doubted.append(connection)

    def _ask_leader(self, connection: ClientConnection, session: SessionId) -> None:
        """Ask the leader about a session; of `NO_SESSION` its answer is always that it is over."""
        self._metrics.revalidate_count += 1
        self._asking[connection.id] = connection
        self.revalidations.append(mmsg.Revalidate(connection.id, session, connection.timeout_ms))

    def _decide_alone(self, connection: ClientConnection, now: int) -> None:
        """Accept or refuse a session that no other member knows."""
        if self.local.touch(connection.session, connection.timeout_ms, now):
            self._accept(connection, is_local=True)
        else:
            self._refuse(connection)

    def refuse(self, connection: ClientConnection) -> None:
        """Refuse a connection: its session is confirmed to be over."""
        if connection.stage is Stage.CONNECTING and not connection.closing:
            self._refuse(connection)

    def revalidated(self, tag: int, valid: bool, fence: int, now: int) -> None:
        """Handle the leader's verdict on one connection. All writes of older connections of its session were proposed
        up to `fence`. The leader does not know local sessions."""
        connection = self._asking.pop(tag, None)
        if connection is None or connection.closing:
            return
        assert connection.stage is Stage.CONNECTING
        connection.fence = fence
        if valid:
            self.local.end(connection.session)
            self._accept(connection)
        else:
            self._decide_alone(connection, now)

    @property
    def creation_cxid(self) -> int:
        """The cxid of a createSession: 0, as in ZooKeeper."""
        return self._server_id if self.names_server and self.tracker is None else 0

    def created(self, txn: Txn, refused: bool, known: Mapping[int, int]) -> None:
        """Handle an applied createSession; the session ids that this server made name it."""
        session = SessionId(txn.session)
        if not is_of_server(session, self._server_id):
            return
        connection = self._clients.by_session.get(session)
        if not refused:
            # If it was local, it is global from now on.
            self.local.end(session)
        if connection is None or connection.closing:
            return
        if connection.is_local:
            self._upgraded(connection, txn.number if refused else 0)
        elif connection.stage is not Stage.CONNECTING or connection.id in self._asking:
            return  # not asked for here, or by an older connection: the leader decides about that
        elif refused:
            del self._clients.by_session[session]
            self._create(connection, known)
        elif txn.number == connection.timeout_ms:  # otherwise this server asked for it before a restart
            self._accept(connection)

    # --------------------------------------------------------------------------------------------------- local sessions

    @property
    def upgrades(self) -> bool:
        """Whether a local session may become global."""
        return self._config.sessions.local_sessions_upgrading_enabled or not self.may_be_local

    def upgrade(self, connection: ClientConnection) -> None:
        """Make the local session of a connection global; requests meanwhile are held."""
        connection.stage = Stage.CONNECTING
        connection.touched_until = 0
        self._clients.hold(connection, Hold.CONNECTING)
        self.wanted.append((connection.session, connection.timeout_ms))

    def _upgraded(self, connection: ClientConnection, refused: int) -> None:
        if refused == ErrorCode.SESSIONEXPIRED:
            self.lost(connection)
            return
        if refused:
            self._clients.close(connection)  # the client comes back, with a local session
            return
        connection.is_local = False
        connection.stage = Stage.SERVED
        self._clients.release(connection, Hold.CONNECTING)
        self.established.append(connection)

    def lost(self, connection: ClientConnection) -> None:
        """End the local session of a connection, since the leader said that it is over."""
        self.local.end(connection.session)
        self._clients.close(connection)

    def expire_local(self, now: int) -> list[SessionId]:
        """End the local sessions that were silent for their whole timeout, with their connections."""
        over = []
        for session in self.local.expired(now):
            connection = self._clients.by_session.get(session)
            if connection is not None and connection.stage is Stage.CONNECTING and not connection.closing:
                self.local.begin(session, connection.timeout_ms, now)  # the client waits for the leader
                continue
            over.append(session)
            if connection is not None:
                self._clients.close(connection, Closing.FLUSHED)
        return over

    def _accept(self, connection: ClientConnection, *, is_local: bool = False) -> None:
        connection.stage = Stage.SERVED
        connection.is_local = is_local
        key = self._keys()[0]
        answer = ConnectResponse(
            connection.timeout_ms,
            connection.session,
            password(local_key(key) if is_local else key, connection.session),
            self.is_read_only,
            connection.has_read_only_byte,
        )
        self._clients.send(connection, frame(answer.encode()))
        self._clients.release(connection, Hold.CONNECTING)
        self.established.append(connection)

    def _refuse(self, connection: ClientConnection) -> None:
        if connection.claimed:
            self._metrics.sessions_refused += 1
            if self._auditor is not None:
                self._auditor.login_refused(connection, "renewSession", session=connection.claimed)
        answer = ConnectResponse.invalid(read_only=self.is_read_only, has_read_only=connection.has_read_only_byte)
        self._clients.send(connection, frame(answer.encode()))
        self._clients.close(connection, Closing.FLUSHED)

    # ------------------------------------------------------------------------------------------------ the leader's part

    def refusal(self, session: SessionId, owner: ServerId, *, is_local: bool = False) -> int:
        """The error for a write of a session through this server: SESSIONEXPIRED, SESSIONMOVED, or 0 for none.
        `is_local`: the server says that the session is local; then it must have made the id."""
        assert self.tracker is not None
        if is_local and session not in self.tracker and self._config.has_local_sessions:
            return 0 if is_of_server(session, owner) else _REFUSALS[Admission.EXPIRED]
        admission = self.tracker.admit(session, owner)
        return 0 if admission is _ADMITTED else _REFUSALS[admission]

    def proposed(self, txn: Txn, owner: ServerId | None, now: int) -> None:
        """Note a createSession or closeSession that the leader has prepared."""
        assert self.tracker is not None
        if txn.type == _CREATE_SESSION:
            self.tracker.track(SessionId(txn.session), txn.number, now, owner)
        elif txn.type == _CLOSE_SESSION:
            self.tracker.close(SessionId(txn.session))

    def revalidate(self, session: SessionId, timeout_ms: int, owner: ServerId, now: int) -> bool:
        """Whether a session is alive whose client has come back on this server; then that server owns it."""
        assert self.tracker is not None
        if self.tracker.touch(session, timeout_ms, now):
            return self.tracker.set_owner(session, owner)
        is_unknown = self._config.has_local_sessions and session != NO_SESSION and session not in self.tracker
        if is_unknown and not is_of_server(session, owner):
            if len(self.said_over) >= SAID_OVER_COUNT_MAX:
                del self.said_over[next(iter(self.said_over))]
            self.said_over[session] = None
        return False

    def expired(self, now: int) -> list[SessionId]:
        """Take the sessions that were silent for their whole timeout; each is closing from now on (G1 expiry last)."""
        return self.tracker.expired(now) if self.tracker is not None else []

    # ------------------------------------------------------------------------------------------------- on every member

    def forget(self, connection: ClientConnection) -> None:
        """Forget a connection that is gone: a verdict on it is ignored."""
        self._asking.pop(connection.id, None)

    def closed(self, session: SessionId) -> None:
        """Handle an applied closeSession: close the connection that still has the session here."""
        if self.tracker is not None:
            self.tracker.remove(session)
        connection = self._clients.by_session.get(session)
        if connection is not None:
            self._clients.close(connection, Closing.FLUSHED)


_ADMITTED = Admission.ADMITTED
_REFUSALS = {
    Admission.EXPIRED: int(ErrorCode.SESSIONEXPIRED),
    Admission.MOVED: int(ErrorCode.SESSIONMOVED),
}
