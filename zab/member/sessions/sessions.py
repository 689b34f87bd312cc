"""Sessions on this member: how a connection gets one, who owns it, and when it ends.

The handshake, in the order of its checks; "close" is without an answer:

    clients are not served here                             close
    too many ask, and connection_throttle_tokens is set     close
    read-only mode, and the client does not ask for it      close
    the client has seen a zxid that is not applied here     close: it must try another server; unless that is gone,
                                                            everywhere, since a restore
    no session id: a new one is wanted                      createSession; answered when it is applied. Of read-only
                                                            mode, and with localSessionsEnabled: one of this member
                                                            alone (`local_sessions`), at once
    the password is wrong                                   the invalid answer, then close; nothing else happens
    read-only mode, and the session is the ensemble's, or   close: its client may have it again from a quorum, and
    may be by now                                           nobody here can say that it is over
    an older connection here has the session                that one is closed
    on the leader                                           it is alive: this server owns it from now on; else invalid,
                                                            once a quorum has confirmed that this server still leads: a
                                                            leader that was deposed knows nothing of newer sessions, and
                                                            takes those that moved elsewhere for silent
    on a learner                                            Revalidate to the leader, which decides in the same way;
                                                            both name the connection, since a client that left and
                                                            came back has another one (G4 named verdicts). A local
                                                            session needs no leader, but to know where it stands

While a connection waits for its session it is not read from, and the frames that came with the request are held.

Owners: the leader knows, for each session, the server through which it is attached. A write that comes through another
one is refused with SESSIONMOVED, which ends that connection without a reply. A session that nobody owns, after a new
leader started, becomes the first asker's.

Liveness: everything that comes on a connection touches its session, once a turn. The leader keeps the time; a learner
tells it in its answer to each ping, and with the next turns, if there are too many for one. A session ends only by
a closeSession that is committed: its client's, or the leader's when the session was silent for its whole timeout of
input that was processed (G1 expiry last).

Ids: made here, without asking; the leader refuses one that exists, and then another is tried (G3 session ids). The
top byte of an id names the server, so that no server takes the answer to another server's createSession for its own.

Not here: the clock of expiry, ids and passwords (`session`), which sessions exist (the tree).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from datatree.errors import ErrorCode
from datatree.jute import JuteError
from datatree.opcodes import OpCode
from datatree.record import Txn
from session.identity import SessionId, SessionIds, is_of_server, local_key, negotiate, password, valid_password
from session.tracker import Admission, SessionTracker, TouchTable
from zab.jute.handshake import ConnectRequest, ConnectResponse
from zab.member.clients.audit import Auditor
from zab.member.clients.connection import ClientConnection, Clients, Closing, Hold, Stage
from zab.member.clients.connection_throttle import ConnectionThrottle
from zab.member.sessions.local_sessions import LocalSessions
from zab.member.settings.config import Config
from zab.member.state.metrics import Metrics
from zab.protocol import member_message as mmsg
from zab.protocol.features import LOCAL_SESSIONS, SESSION_SERVERS
from zab.quorum.ids import ServerId
from zab.wire.frames import frame

SAID_OVER_COUNT_MAX: Final = 65_536
"""Local sessions that the leader remembers as over, the latest ones: what their server still sends is on its way for
as long as a link may be silent."""
TOUCHED_COUNT_MAX: Final = 4096
"""Sessions of which one message tells the leader, and a turn: so many are read in a few milliseconds."""

_CREATE_SESSION = int(OpCode.CREATE_SESSION)
_CLOSE_SESSION = int(OpCode.CLOSE_SESSION)


class Sessions:
    """Which session is where, as this member knows it; the leader knows it of all."""

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
        """`keys`: passwords are made with the first of them, and those of all are accepted (G5 session keys)."""
        self._config = config
        self._clients = clients
        self._metrics = metrics
        self._auditor = auditor
        self.throttle = throttle
        """None: everybody may ask for a session at any time."""
        self._ids = ids
        self._server_id = ServerId(config.server_id)
        self._keys = keys
        self.tracker: SessionTracker | None = None
        """The leader's; None on learners."""
        self.local = LocalSessions(config.timing.tick_time_ms)
        self.names_server = False
        """Whether the leader of this learner wants the id of its server as the cxid of a createSession."""
        self.may_be_local = True
        """The leader takes writes of local sessions (`zab.protocol.features`). One that does not gets none: new
        sessions are of the ensemble, and those that are local become so before they write."""
        self.is_read_only = False
        """There is no quorum, and this member serves those who asked for that (`read_only`)."""
        self.said_over: dict[SessionId, None] = {}
        """On the leader: sessions that it does not know, and that came to a server which had not given them out: it
        says that they are over. If one was local, nothing is done that is still on its way from its own server, not
        even its beginning as one of the ensemble."""
        self._touches = TouchTable()
        self.has_untold = False
        """Of a learner that has answered a ping: it tells the leader of more sessions with each of the next turns."""
        self._asking: dict[int, ClientConnection] = {}
        """The connections whose sessions the leader was asked about: id → connection."""
        self.wanted: list[tuple[SessionId, int]] = []
        """New sessions, id and timeout in ms, that are to be created. A turn takes these and the following."""
        self.revalidations: list[mmsg.Revalidate] = []
        """Questions to the leader; they are sent after all writes of older connections of these sessions."""
        self.doubted: list[ClientConnection] = []
        """Connections that ask for a session which is not alive, as far as this leader knows."""
        self.established: list[ClientConnection] = []
        """Connections that have just got their session: what they held back is processed next."""

    def take_established(self) -> list[ClientConnection]:
        """Those that have got their session since this was asked last."""
        established, self.established = self.established, []
        return established

    def take_doubted(self) -> list[ClientConnection]:
        """Those about whose sessions a quorum is asked from now on."""
        doubted, self.doubted = self.doubted, []
        return doubted

    def take_revalidations(self, left: Collection[SessionId | int]) -> list[mmsg.Revalidate]:
        """Questions that may be sent now; those about sessions with writes that are left stay."""
        asked = self.revalidations
        self.revalidations = [question for question in asked if question.session in left]
        return [question for question in asked if question.session not in left]

    # ----------------------------------------------------------------------------------------------------------- roles

    def follow(self, features: int) -> None:
        """The leader has these of `zab.protocol.features`."""
        self.may_be_local = bool(features & LOCAL_SESSIONS)
        self.names_server = not features & SESSION_SERVERS

    def read_only(self, *, is_on: bool) -> None:
        """Whether this member serves those who only read, without a quorum."""
        self.is_read_only = is_on

    def lead(self, sessions: Mapping[Any, int], now: int) -> None:
        """Serve as leader: every session of the tree (id -> timeout in ms) has its full timeout from now on."""
        self.tracker = SessionTracker(self._config.timing.tick_time_ms, now)
        self.tracker.restart(sessions, now)

    def drop_role(self) -> None:
        """Nothing that was under way goes to the next leader (G2 former roles)."""
        self.tracker = None
        self.said_over.clear()
        self._touches = TouchTable()
        self.has_untold = False
        assert not self.wanted, "taken at the end of each turn"
        self.revalidations.clear()
        self._asking.clear()
        self.established.clear()
        self.doubted.clear()

    # ------------------------------------------------------------------------------------------------------- handshake

    def connect(
        self, connection: ClientConnection, payload: bytes, applied: int, known: Mapping[int, int], now: int
    ) -> None:
        """The first frame of a connection; `known` are the sessions of the tree, which has everything up to
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
            self._metrics.sessions_refused += 1
            if self._auditor is not None:
                self._auditor.login_refused(connection, "renewSession", session=session)
            if not self.is_read_only:
                self._refuse(connection)
        # One that began as a local one may be of the ensemble by now.
        may_be_global = not was_local or (self.upgrades and session not in self.local.timeouts)
        if self.is_read_only and (session in known or may_be_global):
            self._clients.close(connection)
        if connection.closing:
            return
        self._clients.attach(connection, session)
        if self.is_read_only:
            self._decide_alone(connection, now)
        elif self.tracker is None:
            self._metrics.revalidate_count += 1
            self._asking[connection.id] = connection
            self.revalidations.append(mmsg.Revalidate(connection.id, session, connection.timeout_ms))
        elif self.revalidate(session, connection.timeout_ms, self._server_id, now):
            self.local.end(session)
            self._accept(connection)
        elif session in self.local.timeouts:
            self._decide_alone(connection, now)
        else:
            self.doubted.append(connection)

    def _decide_alone(self, connection: ClientConnection, now: int) -> None:
        """No other member knows the session."""
        if self.local.touch(connection.session, connection.timeout_ms, now):
            self._accept(connection, is_local=True)
        else:
            self._refuse(connection)

    def refuse(self, connection: ClientConnection) -> None:
        """It is confirmed that the session it asks for is over."""
        if connection.stage is Stage.CONNECTING and not connection.closing:
            self._refuse(connection)

    def revalidated(self, tag: int, valid: bool, fence: int, now: int) -> None:
        """The leader's verdict on one connection. All that came through older connections of its session was proposed
        up to `fence`. It knows no local session."""
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
        """A createSession is applied; the ids of this server's own name it."""
        session = SessionId(txn.session)
        if not is_of_server(session, self._server_id):
            return
        connection = self._clients.by_session.get(session)
        if not refused:
            # If it was local, it is one of the ensemble from now on.
            self.local.end(session)
        if connection is None or connection.closing:
            return
        if connection.is_local:
            self._upgraded(connection, txn.number if refused else 0)
        elif connection.stage is not Stage.CONNECTING or connection.id in self._asking:
            return  # not asked for here, or by an older connection: the leader says where that stands
        elif refused:
            del self._clients.by_session[session]
            self._create(connection, known)
        elif txn.number == connection.timeout_ms:  # else this server asked for it before it was restarted
            self._accept(connection)

    # --------------------------------------------------------------------------------------------------- local sessions

    @property
    def upgrades(self) -> bool:
        """Whether a local session may become one of the ensemble."""
        return self._config.sessions.local_sessions_upgrading_enabled or not self.may_be_local

    def upgrade(self, connection: ClientConnection) -> None:
        """Have the ensemble begin the session of a connection, which is local; what comes meanwhile is held."""
        connection.stage = Stage.CONNECTING
        self._clients.hold(connection, Hold.CONNECTING)
        self.wanted.append((connection.session, connection.timeout_ms))

    def _upgraded(self, connection: ClientConnection, refused: int) -> None:
        if refused == ErrorCode.SESSIONEXPIRED:
            self.lost(connection)
            return
        if refused:
            self._clients.close(connection)  # it comes back, with a local session
            return
        connection.is_local = False
        connection.stage = Stage.SERVED
        self._clients.release(connection, Hold.CONNECTING)
        self.established.append(connection)

    def lost(self, connection: ClientConnection) -> None:
        """The leader said that the session of a connection, which is local, is over."""
        self.local.end(connection.session)
        self._clients.close(connection)

    def expire_local(self, now: int) -> list[SessionId]:
        """Local sessions that were silent for their whole timeout: they are over, and so are their connections."""
        over = []
        for session in self.local.expired(now):
            connection = self._clients.by_session.get(session)
            if connection is not None and connection.stage is Stage.CONNECTING and not connection.closing:
                self.local.begin(session, connection.timeout_ms, now)  # its client waits for the leader
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
        answer = ConnectResponse.invalid(read_only=self.is_read_only, has_read_only=connection.has_read_only_byte)
        self._clients.send(connection, frame(answer.encode()))
        self._clients.close(connection, Closing.FLUSHED)

    # ------------------------------------------------------------------------------------------------ the leader's part

    def refusal(self, session: SessionId, owner: ServerId, *, is_local: bool = False) -> int:
        """Why a write of a session may not come through this server: SESSIONEXPIRED, SESSIONMOVED, or 0 for none.
        `is_local`: that server says that it alone knows the session, whose id it must have made."""
        assert self.tracker is not None
        if is_local and session not in self.tracker and self._config.has_local_sessions:
            return 0 if is_of_server(session, owner) else _REFUSALS[Admission.EXPIRED]
        admission = self.tracker.admit(session, owner)
        return 0 if admission is _ADMITTED else _REFUSALS[admission]

    def proposed(self, txn: Txn, owner: ServerId | None, now: int) -> None:
        """The leader has made a createSession or closeSession."""
        assert self.tracker is not None
        if txn.type == _CREATE_SESSION:
            self.tracker.track(SessionId(txn.session), txn.number, now, owner)
        elif txn.type == _CLOSE_SESSION:
            self.tracker.close(SessionId(txn.session))

    def revalidate(self, session: SessionId, timeout_ms: int, owner: ServerId, now: int) -> bool:
        """A client is back with its session, on this server: whether it is alive; then that server owns it."""
        assert self.tracker is not None
        if self.tracker.touch(session, timeout_ms, now):
            return self.tracker.set_owner(session, owner)
        is_unknown = self._config.has_local_sessions and session not in self.tracker
        if is_unknown and not is_of_server(session, owner):
            if len(self.said_over) >= SAID_OVER_COUNT_MAX:
                del self.said_over[next(iter(self.said_over))]
            self.said_over[session] = None
        return False

    def expired(self, now: int) -> list[SessionId]:
        """Sessions that were silent for their whole timeout; each is closing from now on (G1 expiry last)."""
        return self.tracker.expired(now) if self.tracker is not None else []

    def learner_touched(self, rows: list[list[Any]], now: int) -> None:
        """What a learner heard of its sessions: rows of session and timeout (ms), as they came."""
        assert self.tracker is not None
        for session, timeout_ms in rows:
            self.tracker.touch(session, max(0, timeout_ms), now)

    # ------------------------------------------------------------------------------------------------- on every member

    def touch(self, connection: ClientConnection, now: int) -> None:
        """Something came on a connection."""
        if connection.is_local:
            self.local.touch(connection.session, connection.timeout_ms, now)
        elif self.tracker is not None:
            self.tracker.touch(connection.session, connection.timeout_ms, now)
        else:
            self._touches.touch(connection.session, connection.timeout_ms)

    def touched_elsewhere(self, rows: list[list[Any]]) -> None:
        """What an observer of this master heard of its sessions: the leader is told of it with the rest."""
        for session, timeout_ms in rows:
            self._touches.touch(session, max(0, timeout_ms))

    def touch_all(self, now: int) -> None:
        """Nobody was read from for a while: no session is silent because of that."""
        served = [
            connection
            for connection in self._clients.by_session.values()
            if connection.stage is _SERVED and not connection.closing
        ]
        if self.tracker is None:
            self._touches.touch_all({each.session: each.timeout_ms for each in served if not each.is_local})
            served = [connection for connection in served if connection.is_local]
        for connection in served:
            self.touch(connection, now)

    def take_touches(self) -> list[list[int]]:
        """Rows of session and timeout (ms) for the leader, of one message."""
        rows = list(map(list, self._touches.drain(TOUCHED_COUNT_MAX).items()))
        self.has_untold = bool(self._touches)
        return rows

    def drop_untold(self) -> None:
        """There is no leader to be told."""
        self.has_untold = False

    def forget(self, connection: ClientConnection) -> None:
        """A connection is gone: a verdict on it concerns nobody."""
        self._asking.pop(connection.id, None)

    def closed(self, session: SessionId) -> None:
        """A closeSession is applied: whoever still serves the session here stops."""
        if self.tracker is not None:
            self.tracker.remove(session)
        connection = self._clients.by_session.get(session)
        if connection is not None:
            self._clients.close(connection, Closing.FLUSHED)


_SERVED = Stage.SERVED
_ADMITTED = Admission.ADMITTED
_REFUSALS = {
    Admission.EXPIRED: int(ErrorCode.SESSIONEXPIRED),
    Admission.MOVED: int(ErrorCode.SESSIONMOVED),
}
