"""Handles requests, from a client's frame to its answer; read top to bottom.

    a read    receive ───────────────────────────────────> answered in the same turn
                 └─ after a write of its session ──> waits ─────────────────────┐
    a write   receive ─> waits ─────────────────────────────────────────────────┤
                 └─> intake ─> on the leader: proposals (a turn is one batch)   │
                          └──> on a learner: forward (a turn is one message)    │
                                  ┌─────────────────────────────────────────────┘
              committed batch ─> deliver: for each transaction
                                    apply ─> watch events ─> the reply ─> the reads that came after it

Invariants:
- A connection's output has, for transaction z: the watch events of z, the reply of z, the reads of that session before
  its next write; then the output of z + 1 (A1 output order). So no event precedes the reply that registered
  its watch, and a read sees every earlier write of its session and no later one.
- `sync` keeps its place like a write. It is done when this member has applied what was committed when a quorum
  confirmed the leader; or when a later write of the same connection is committed, since no quorum commits a write of a
  deposed leader.
- A refused write is also a transaction (A2 ordered refusals): every forwarded write comes back exactly once, in the
  order of its session.
- A transaction answers a connection only if it was proposed after the session moved there (`fence`), since some clients
  start with the same xid on every connection.

`intake` decides which write is next, and `proposing` makes batches on the leader. Learners decode when they apply.

Not here: how reads are answered (`reads`, `local`), who is told of watches (`watch_events`), the feed of changes, which
keeps no order (`change_feed`), handshakes and the owners of sessions (`sessions`), what a transaction says
(`datatree.prepare`) and does (`datatree.tree`), and who proposes and commits (`zab.protocol.peer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from struct import Struct
from struct import error as StructError  # noqa: N812  (it is a class; the module only names it in lower case)

from datatree.errors import ErrorCode
from datatree.log.batch import HEADER_BYTES, Batch
from datatree.opcodes import LOGGED_AS, WRITES, OpCode
from datatree.record import Fields, Txn, decode_fields, decode_in_slices
from datatree.requests import CreateSession
from datatree.slices import DELIVERED, ENTRIES_FOR_ONE, RECORD_BYTES, TOLD_FOR_ONE
from session.identity import SessionId
from zab.jute.replies import reply
from zab.member.clients.connection import ClientConnection, Hold, Stage
from zab.member.clients.long_requests import Cut
from zab.member.requests.change_feed import ChangeFeed
from zab.member.requests.connection_requests import (
    ANSWERS,
    NO_ROOM,
    PROMPT,
    TOO_LARGE,
    UNKNOWN,
    proven_first,
    switched_off_by,
)
from zab.member.requests.forwarding import Forwarded, unknown_to, writes_of
from zab.member.requests.growing_writes import needs_room
from zab.member.requests.intake import Intake
from zab.member.requests.local_session_requests import apart
from zab.member.requests.proposing import Proposing
from zab.member.requests.read_state import UNDECODABLE, ConnectionEnds, ReadState, TakesLonger
from zab.member.requests.waiting_requests import WaitingRequests
from zab.member.requests.watch_events import notify
from zab.member.requests.write_replies import multi_in_slices, reconfigured
from zab.member.sessions.sessions import Sessions
from zab.member.state.work import ANSWERED_BYTES, REQUEST_WORK, SHARES
from zab.member.storage.snapshot_schedule import SnapshotSchedule
from zab.protocol import member_message as mmsg
from zab.quorum.ids import ServerId

_HEADER = Struct(">ii")
"""xid and opcode, at the start of every request."""
_WRITES = frozenset(int(opcode) for opcode in WRITES)
_PING = int(OpCode.PING)
_SYNC = int(OpCode.SYNC)
_GET_CHANGES = int(OpCode.GET_CHANGES)
_ERROR = int(OpCode.ERROR)
_CREATE_SESSION = int(OpCode.CREATE_SESSION)
_CLOSE_SESSION = int(OpCode.CLOSE_SESSION)
_RECONFIG = int(OpCode.RECONFIG)
_MULTI = int(OpCode.MULTI)
_PERHAPS_LONG = frozenset({_MULTI, int(OpCode.REMOVE_RECURSIVE), _CLOSE_SESSION})
_SESSION_EXPIRED = int(ErrorCode.SESSIONEXPIRED)
_SESSION_MOVED = int(ErrorCode.SESSIONMOVED)


class Processor:
    """Handles the requests of this member, from their frames to the transactions that answer them."""

    def __init__(self, state: ReadState, sessions: Sessions, schedule: SnapshotSchedule, newest_time: int) -> None:
        self.state = state
        self.clients = state.clients
        self.metrics = state.metrics
        self.auditor = state.auditor
        self.sessions = sessions
        self.schedule = schedule
        self.server_id = ServerId(state.config.server_id)
        self.change_feed = ChangeFeed(state)
        switched_off = switched_off_by(state.config)
        self._answers = {opcode: answer for opcode, answer in ANSWERS.items() if opcode not in switched_off}
        self._answers_at_once = {**self._answers, _PING: PROMPT[_PING]}
        """With the answer to a ping, which goes the way of a read if no request waits before it and the turn has room.
        """
        self._writes = self._own_writes = _WRITES - switched_off
        """The opcodes that are writes for clients of this member."""
        self.intake = Intake()
        self.forwarded = Forwarded()
        self.proposing = Proposing(state, sessions, schedule, self.intake, newest_time)
        self.delivered = 0  # transactions, or equivalent work, of the last batch since its last slice
        self.waiting = WaitingRequests(state, sessions)
        self.overdue: dict[ClientConnection, None] = {}
        """Connections with held frames that are answered at once, or come after such a frame, for which the turn had no
        room."""
        self.leaving: dict[ClientConnection, None] = {}
        """Connections that are gone and still have watches."""

    def forwards_to(self, features: int) -> None:
        """Take the features of this learner's leader (`zab.protocol.features`)."""
        self._writes = self._own_writes - unknown_to(features)
        self.sessions.follow(features)

    # ----------------------------------------------------------------------------------------- frames from a client

    def receive(self, connection: ClientConnection, frames: Iterable[bytes], share: int | None = None) -> None:
        """Answer each request if nothing waits before it, else queue it. `share` is the share of a turn."""
        if connection.held:
            connection.held += frames
            return
        state, waiting, pending, out = self.state, self.waiting, connection.pending, connection.out
        share_end = ANSWERED_BYTES if share is None else state.spent + share
        session, owner, before = connection.session, self.server_id, len(out)
        refused: int | None = None
        now, writes_count = state.clock.now, 0
        # Like `WaitingRequests.own_room`, without a call for each connection.
        room = full = state.config.limits.output_limit_bytes - connection.out_bytes - connection.unsent_bytes
        answered_opcode, answered_xid, _, _, _ = connection.last_answer
        rest = frames = iter(frames)
        if state.authentication.is_required:
            frames = proven_first(state, connection, frames)
        if connection.is_local:
            frames = apart(connection, frames, self.sessions, self.metrics.op_counts, self.place)
        answers = self._answers_at_once if share is None else self._answers
        op_counts, arrived = self.metrics.op_counts, self.intake.arrived
        leads, is_short = self.proposing.prepare is not None, self.proposing.is_short
        try:
            for frame in frames:
                xid, opcode = _HEADER.unpack_from(frame)
                if opcode in op_counts:
                    op_counts[opcode] += 1
                answer = answers.get(opcode)
                if answer is None or pending or room < 0 or state.spent > ANSWERED_BYTES:
                    if opcode in self._writes and not (is_short and needs_room(opcode, frame, _HEADER.size)):
                        if refused is None:  # the same for all frames that come together
                            refused = leads and self.sessions.refusal(session, owner, is_local=connection.is_local)
                        asked = (session, xid, opcode, frame[_HEADER.size :], connection.identities)
                        arrived.append((asked, connection, owner, refused))
                        pending.append((xid, opcode, b"", now))
                        writes_count += 1
                        if self.auditor is not None:
                            self.auditor.asked(connection, xid, opcode, asked[3])
                        continue
                    if opcode in PROMPT and state.spent > share_end:
                        self._put_off(connection, opcode, [frame, *rest])
                        break
                    connection.out_bytes += full - room
                    full = room
                    size = connection.out_bytes
                    self.place(connection, xid, opcode, frame)
                    if connection.closing:
                        break
                    if connection.out_bytes != size:
                        room = full = waiting.own_room(connection)
                    continue
                try:
                    answered = answer(state, connection, xid, frame)
                except UNDECODABLE:
                    answered = reply(xid, state.tree.applied, ErrorCode.MARSHALLINGERROR)
                except TakesLonger as longer:
                    waiting.begin_long_answer(connection, (xid, opcode, frame, now), longer)
                    continue
                out.append(answered)
                answered_xid, answered_opcode = xid, opcode
                room -= len(answered)
                state.spent += len(answered) + REQUEST_WORK
        except ConnectionEnds as end:
            waiting.end(connection, end)
        except StructError:
            self.clients.close(connection)
        if writes_count:
            waiting.added_writes(writes_count)
        connection.out_bytes += full - room
        if len(out) > before:
            waiting.answered_at_once(connection, len(out) - before, answered_opcode, answered_xid)

    def _put_off(self, connection: ClientConnection, opcode: int, frames: list[bytes]) -> None:
        """Hold these frames for a later turn, since this one has no room for the first, which has this opcode."""
        if opcode in self.metrics.op_counts:
            self.metrics.op_counts[opcode] -= 1
        connection.held = frames
        self.clients.hold(connection, Hold.WORK)
        self.overdue[connection] = None

    def place(self, connection: ClientConnection, xid: int, opcode: int, frame: bytes) -> None:
        """Queue a request that is no write, or a write without room, and that may not overtake others."""
        now = self.state.clock.now
        prompt = PROMPT.get(opcode)
        if prompt is not None:
            connection.last_answer = opcode, xid, self.state.tree.applied, now, 0
            self.waiting.answer(connection, prompt, xid, frame)
            return
        if opcode == _GET_CHANGES:
            self.change_feed.ask(connection, xid, frame, now)
            return
        if opcode in self._writes:
            opcode = NO_ROOM
        elif opcode not in self._answers and opcode != _SYNC:
            opcode = TOO_LARGE if type(frame) is Cut else UNKNOWN
        self.waiting.add(connection, (xid, opcode, frame, now))

    # ----------------------------------------------------------------------------------- writes, on their way to quorum

    def submit(self, session: SessionId, cxid: int, opcode: int, body: bytes, owner: ServerId | None) -> None:
        """Submit a write that no connection here waits for: of a learner, or of the ensemble itself."""
        self.intake.arrived.append(((session, cxid, opcode, body, ()), None, owner, 0))

    def submit_forwarded(self, request: mmsg.Request, owner: ServerId) -> bool:
        """Submit the writes that a learner forwarded. False, and none is submitted: it may not send one of them."""
        writes = writes_of(request, owner, self.sessions.refusal)
        self.intake.arrived.extend(writes or ())
        return writes is not None

    def submit_new_sessions(self) -> None:
        """Submit the createSessions that the handshakes of the turn ask for."""
        for session, timeout_ms in self.sessions.wanted:
            body = CreateSession(timeout_ms).encode()
            self.submit(session, self.sessions.creation_cxid, _CREATE_SESSION, body, self.server_id)
        self.sessions.wanted.clear()

    # ------------------------------------------------------------------------------------------- committed batches

    def deliver(self, batch: Batch) -> Iterator[None]:
        """Apply and answer a committed batch, in slices. Nobody else may look at the tree between them."""
        self.delivered = 0
        apply, watches, auditor = self.state.tree.apply, self.state.watches, self.auditor
        waited: dict[int, int] = {}
        came_back_bytes = 0
        is_large = len(batch.raw) > HEADER_BYTES + RECORD_BYTES
        connections: list[ClientConnection | None] | None = None
        if self.proposing.proposed:
            own = self.proposing.take_proposed(batch)
            txns, connections = own.txns, own.connections
        elif is_large:
            txns = yield from decode_in_slices(batch.body, batch.first, batch.count)
        else:
            txns = decode_fields(batch.body, batch.first, batch.count)
        is_long = is_large and batch.count == 1
        forwarded, prepare = self.forwarded.writes, self.proposing.prepare
        by_session = self.clients.by_session
        for index, txn in enumerate(txns):
            zxid, _, session, cxid, kind, _, _, _, rest = txn
            if connections is not None:
                connection = connections[index]
            elif (connection := by_session.get(session)) is not None:  # type: ignore[call-overload]
                # One by one, since each answer changes what waits for what.
                connection = self._waiting(connection, txn)
            if forwarded and session in forwarded and forwarded[session][0][0] == cxid:
                came_back_bytes += forwarded[session].popleft()[1]
                if not forwarded[session]:
                    del forwarded[session]
            if connection is not None and connection.pending and connection.pending[0][2]:
                yield from self.waiting.answer_before_write(connection)
            answered = None
            if is_long and kind in _PERHAPS_LONG:
                applied = yield from self.state.tree.apply_in_slices(txn, watches.total_count > 0)
                if applied[3] is not None and connection is not None and connection.waits_for(_MULTI):
                    answered = yield from multi_in_slices(cxid, zxid, applied[3])
            else:
                applied = apply(txn, watches.total_count > 0)
                if kind == _RECONFIG:
                    answered = reconfigured(cxid, zxid, txn[7] or b"", applied)
            if auditor is not None:
                auditor.applied(Txn(*txn), applied[0], leads=prepare is not None, is_own=connection is not None)
            self.delivered += 1
            if rest and kind in _PERHAPS_LONG:
                self.delivered += len(rest)
            elif rest and isinstance(rest[0], tuple):
                self.delivered += len(rest[0]) // ENTRIES_FOR_ONE
            if applied[4]:
                self.delivered += (yield from notify(self.state, applied[4], zxid)) // TOLD_FOR_ONE
            if connection is not None and not connection.closing:
                waited_ms = self.waiting.answer_write(connection, txn, applied, answered)
                waited[waited_ms] = waited.get(waited_ms, 0) + 1
            if kind < 0:
                self._session_changed(Txn(*txn))
            if self.delivered >= DELIVERED and index + 1 < len(txns):
                self.delivered = 0
                yield
        if came_back_bytes:
            self.forwarded.came_back(came_back_bytes)
        for waited_ms, count in waited.items():
            self.metrics.updatelatency.add(waited_ms, count)
        if prepare is not None:
            prepare.applied(batch.zxid)
        else:
            self.proposing.delivered(batch.time)

    def _waiting(self, connection: ClientConnection, txn: Fields) -> ClientConnection | None:
        """The connection of the session, if this transaction is its oldest write under way."""
        zxid, _, _, cxid, kind, _, _, _, rest = txn
        if zxid <= connection.fence or connection.closing:
            return None
        for xid, opcode, frame, _ in connection.pending:
            if not frame:
                if xid != cxid:
                    return None
                asked = rest[0] if kind == _ERROR else kind
                return connection if opcode == asked or asked in LOGGED_AS.get(opcode, ()) else None
        return None

    def _session_changed(self, txn: Txn) -> None:
        """Handle a session that was created, refused or closed, or another refused write."""
        if txn.type == _CLOSE_SESSION:
            self.sessions.closed(SessionId(txn.session))
        elif txn.type == _CREATE_SESSION or txn.rest == (_CREATE_SESSION,):
            self.sessions.created(txn, txn.type == _ERROR, self.state.tree.sessions)

    # -------------------------------------------------------------------------------------------------------- the rest

    def resume(self) -> None:
        """At the end of a turn: go on with held frames, and with waiting requests."""
        for connection in list(islice(self.overdue, SHARES)):
            del self.overdue[connection]
            self.clients.release(connection, Hold.WORK)
            if connection.stage is Stage.SERVED and not connection.closing:
                frames, connection.held = connection.held, []
                self.receive(connection, frames, ANSWERED_BYTES // SHARES)
        self.waiting.resume()
        self.state.spent = 0

    def forget(self, connection: ClientConnection) -> None:
        """Forget a connection that is gone, with its waiting requests and its watches."""
        self.waiting.forget(connection)
        connection.held.clear()
        self.overdue.pop(connection, None)
        if self.state.watches.count(connection):
            self.leaving[connection] = None
        self.change_feed.forget(connection)

    def drop_role(self) -> None:
        """Drop what is under way: none of it goes to the next leader (G2 former roles)."""
        if self.auditor is not None:
            self.auditor.drop_role()
        self.proposing.drop_role()
        self.intake.clear()
        self.forwarded.clear()
        self.waiting.drop_role()
        self.schedule.drop_role()
