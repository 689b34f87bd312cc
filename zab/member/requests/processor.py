"""The way of a request through a member, from a client's frame to its answer; read top to bottom.

    a read    receive ───────────────────────────────────> answered in the same turn
                 └─ after a write of its session ──> waits ─────────────────────┐
    a write   receive ─> waits ─────────────────────────────────────────────────┤
                 └─> intake ─> on the leader: proposals (a turn is one batch)   │
                          └──> on a learner: forward (a turn is one message)    │
                                  ┌─────────────────────────────────────────────┘
              committed batch ─> deliver: for each transaction
                                    apply ─> watch events ─> the reply ─> the reads that stood after it

Invariants:
- A connection's output has, for transaction z: the watch events of z, the reply of z, the reads of that session that
  stand before its next write; then what z + 1 causes (A1 output order). So no event precedes the reply that registered
  its watch, and a read sees every earlier write of its session and no later one.
- `sync` keeps its place as a write does. It is done when this member has applied what was committed when a quorum
  confirmed the leader; or when a later write of the same connection is committed, which no quorum grants to a leader
  that was deposed before.
- A refused write is a transaction, too (A2 ordered refusals): every write that is forwarded comes back exactly once, in
  the order of its session.
- A transaction answers a connection only if it was proposed after the session came there (`fence`), since some clients
  begin with the same xid again on every connection.

Whose turn it is says `intake`, how the leader makes batches of it `proposing`. Learners decode when they
apply.

Not here: how reads are answered (`reads`, `local`), who is told of watches (`watch_events`), the feed of changes, which
keeps no order (`change_feed`), handshakes and the owners of sessions (`sessions`), what a transaction says
(`datatree.prepare`) and does (`datatree.tree`), and who proposes and commits (`zab.protocol.peer`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from struct import Struct
from struct import error as StructError  # noqa: N812  (it is a class; the module only names it in lower case)

from datatree.errors import ErrorCode
from datatree.log.batch import HEADER_BYTES, Batch
from datatree.opcodes import LOGGED_AS, WRITES, OpCode
from datatree.outcome import Applied
from datatree.record import Fields, Txn, decode_fields, decode_in_slices
from datatree.requests import CreateSession
from datatree.slices import DELIVERED, ENTRIES_FOR_ONE, RECORD_BYTES, TOLD_FOR_ONE
from session.identity import SessionId
from zab.jute.replies import reply
from zab.member.clients.connection import ClientConnection, Closing, Hold, Stage, Waiting
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
    sync_reply,
)
from zab.member.requests.forwarding import Forwarded, unknown_to, writes_of
from zab.member.requests.growing_writes import needs_room
from zab.member.requests.intake import Intake
from zab.member.requests.local_session_requests import apart
from zab.member.requests.proposing import Proposing
from zab.member.requests.read_state import UNDECODABLE, Answer, ConnectionEnds, ReadState, Steps, TakesLonger
from zab.member.requests.watch_events import notify
from zab.member.requests.write_replies import WRITTEN, multi_in_slices, reconfigured
from zab.member.sessions.sessions import Sessions
from zab.member.state.work import ANSWERED_BYTES, REQUEST_WORK, SHARES
from zab.member.storage.snapshot_schedule import SnapshotSchedule
from zab.protocol import message as msg
from zab.protocol.features import LOCAL_SESSIONS, SESSION_SERVERS
from zab.quorum.ids import ServerId

_HEADER = Struct(">ii")
"""xid and opcode, in front of every request."""
_WRITES = frozenset(int(opcode) for opcode in WRITES)
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
    """The requests of this member: those that wait, those that are on their way, and what becomes of them."""

    def __init__(self, state: ReadState, sessions: Sessions, schedule: SnapshotSchedule) -> None:
        self.state = state
        self.clients = state.clients
        self.metrics = state.metrics
        self.auditor = state.auditor
        self.sessions = sessions
        state.local_sessions = sessions.local
        self.schedule = schedule
        self.server_id = ServerId(state.config.server_id)
        self.change_feed = ChangeFeed(state)
        switched_off = switched_off_by(state.config)
        self._answers = {opcode: answer for opcode, answer in ANSWERS.items() if opcode not in switched_off}
        self._writes = self._own_writes = _WRITES - switched_off
        """What is a write when a client of this member asks for it."""
        self.intake = Intake()
        self.forwarded = Forwarded()
        self.proposing = Proposing(state, sessions, schedule, self.intake)
        self.delivered = 0  # of the last batch, since its last slice: transactions, and what counts as one
        self.outstanding_count = 0
        """Requests that wait, of all connections."""
        self.answering: dict[ClientConnection, None] = {}
        """Connections with an answer that takes more than a slice."""
        self.choked: dict[ClientConnection, None] = {}
        """Connections whose reads wait for room in their output, or for the next turn."""
        self.overdue: dict[ClientConnection, None] = {}
        """Connections with frames of what is answered at once, or after it, for which their turn had no room."""
        self.leaving: dict[ClientConnection, None] = {}
        """Connections that are gone and have watches still."""
        self.sync_tag = 1
        """Of the syncs that arrive in this turn; those of one turn are one question to the leader."""
        self.synced_tag = 0
        """Syncs up to this tag are done."""
        self.syncing: deque[tuple[int, ClientConnection]] = deque()
        self.now = 0
        """Monotonic ms of the turn."""

    def forwards_to(self, features: int) -> None:
        """The leader of this learner has these of `zab.protocol.features`."""
        self._writes = self._own_writes - unknown_to(features)
        self.sessions.may_be_local = bool(features & LOCAL_SESSIONS)
        self.sessions.names_server = not features & SESSION_SERVERS

    # ----------------------------------------------------------------------------------------- frames from a client

    def receive(self, connection: ClientConnection, frames: Iterable[bytes], share: int | None = None) -> None:
        """Answer each request if nothing stands before it, else give it its place. `share` is that of a turn."""
        if connection.held:
            connection.held += frames
            return
        state, pending, out = self.state, connection.pending, connection.out
        share_end = ANSWERED_BYTES if share is None else state.spent + share
        session, owner, before = connection.session, self.server_id, len(out)
        refused: int | None = None
        room = full = self._own_room(connection)
        answered_opcode, answered_xid, _, _, _ = connection.last_answer
        rest = frames = iter(frames)
        if state.authentication.is_required:
            frames = proven_first(state, connection, frames)
        if connection.is_local:
            frames = apart(self, connection, frames)
        op_counts, answers, arrived = self.metrics.op_counts, self._answers, self.intake.arrived
        leads, is_short = self.proposing.prepare is not None, self.proposing.is_short
        try:
            for frame in frames:
                xid, opcode = _HEADER.unpack_from(frame)
                if opcode in op_counts:
                    op_counts[opcode] += 1
                answer = answers.get(opcode)
                if answer is None or pending or room < 0 or state.spent > ANSWERED_BYTES:
                    if opcode in self._writes and not (is_short and needs_room(opcode, frame, _HEADER.size)):
                        if refused is None:  # it is the same for all that come at once
                            refused = leads and self.sessions.refusal(session, owner, is_local=connection.is_local)
                        asked = (session, xid, opcode, frame[_HEADER.size :], connection.identities)
                        arrived.append((asked, connection, owner, refused))
                        pending.append((xid, opcode, b"", self.now))
                        self.outstanding_count += 1
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
                        room = full = self._own_room(connection)
                    continue
                try:
                    answered = answer(state, connection, xid, frame)
                except UNDECODABLE:
                    answered = reply(xid, state.tree.applied, ErrorCode.MARSHALLINGERROR)
                except TakesLonger as longer:
                    self._begin_long_answer(connection, (xid, opcode, frame, self.now), longer)
                    continue
                out.append(answered)
                answered_xid, answered_opcode = xid, opcode
                room -= len(answered)
                state.spent += len(answered) + REQUEST_WORK
        except ConnectionEnds as end:
            self._end(connection, end)
        except StructError:
            self.clients.close(connection)
        connection.out_bytes += full - room
        if len(out) > before:
            self.metrics.readlatency.add(0, len(out) - before)
            if not pending:
                connection.last_answer = answered_opcode, answered_xid, state.tree.applied, self.now, 0
            connection.answered_count += len(out) - before
            connection.waited_least_ms = 0
            self.clients.dirty[connection] = None

    def _put_off(self, connection: ClientConnection, opcode: int, frames: list[bytes]) -> None:
        """The turn has no room for the first of these, which is of this operation: all of them wait for a next one."""
        if opcode in self.metrics.op_counts:
            self.metrics.op_counts[opcode] -= 1
        connection.held = frames
        self.clients.hold(connection, Hold.WORK)
        self.overdue[connection] = None

    def place(self, connection: ClientConnection, xid: int, opcode: int, frame: bytes) -> None:
        """A request that is no write, or for which there is no room, and that may not overtake what waits."""
        pending = connection.pending
        prompt = PROMPT.get(opcode)
        if prompt is not None:
            connection.last_answer = opcode, xid, self.state.tree.applied, self.now, 0
            self._answer(connection, prompt, xid, frame)
            return
        if opcode == _GET_CHANGES:
            self.change_feed.ask(connection, xid, frame, self.now)
            return
        if opcode == _SYNC:
            connection.sync_tags.append(self.sync_tag)
            self.syncing.append((self.sync_tag, connection))
        elif opcode in self._writes:
            opcode = NO_ROOM
        elif opcode not in self._answers:
            opcode = TOO_LARGE if type(frame) is Cut else UNKNOWN
        pending.append((xid, opcode, frame, self.now))
        self.outstanding_count += 1
        if len(pending) == 1:
            self.answer_waiting(connection)

    def answer_waiting(self, connection: ClientConnection, *, before_write: bool = False) -> None:
        """Answer what waits, in order, up to the next write, or sync, that is under way, or until the output is full.

        before_write: the next write is committed and about to be applied, so the syncs before it are done, and the
        reads before it wait for another turn at most; a connection that has no room for them at all is closed.
        """
        pending, state = connection.pending, self.state
        share_end = state.spent + ANSWERED_BYTES // SHARES
        try:
            while pending and not connection.closing and connection.answering is None:
                xid, opcode, frame, since = waiting = pending[0]
                if not frame:
                    return
                if opcode == _SYNC:
                    if connection.sync_tags[0] > self.synced_tag and not before_write:
                        return
                    connection.sync_tags.popleft()
                elif self._room(connection) < 0 or (state.spent > share_end and not before_write):
                    if not before_write:
                        self.choked[connection] = None
                    elif self._own_room(connection) < -state.config.limits.output_limit_bytes:
                        self.clients.close(connection)
                    if not before_write or state.spent > ANSWERED_BYTES:
                        return
                pending.popleft()
                self.outstanding_count -= 1
                self._note_answer(connection, xid, opcode, since)
                try:
                    self._answer(connection, sync_reply if opcode == _SYNC else ANSWERS[opcode], xid, frame)
                except TakesLonger as longer:
                    self._begin_long_answer(connection, waiting, longer)
        except ConnectionEnds as end:
            self._end(connection, end)

    def _begin_long_answer(self, connection: ClientConnection, waiting: Waiting, longer: TakesLonger) -> None:
        """What comes after it on its connection waits, and nobody else."""
        connection.pending.appendleft(waiting)
        connection.answering_zxid = longer.zxid
        self.outstanding_count += 1
        self.answer_in_slices(connection, longer.steps)

    def answer_in_slices(self, connection: ClientConnection, steps: Steps) -> None:
        """Send what the steps return when they have ended; one of them has been taken."""
        connection.answering = steps
        self.answering[connection] = None

    def _go_on_answering(self) -> None:
        """One slice of one of the long answers; of each in turn."""
        connection = next(iter(self.answering))
        del self.answering[connection]
        self.answering[connection] = None
        if self._answer_slice(connection):
            self.answer_waiting(connection)

    def _answer_slice(self, connection: ClientConnection) -> bool:
        """Whether that was the last one."""
        assert connection.answering is not None
        try:
            next(connection.answering)
        except StopIteration as end:
            answered: bytes = end.value
        except UNDECODABLE:
            answered = reply(connection.pending[0][0], self.state.tree.applied, ErrorCode.MARSHALLINGERROR)
        except ConnectionEnds as end:
            self._drop_answer(connection)
            self._end(connection, end)
            return True
        else:
            return False
        self._drop_answer(connection)
        xid, opcode, _, since = connection.pending.popleft()
        self.outstanding_count -= 1
        self._note_answer(connection, xid, opcode, since)
        self.state.spent += len(answered) + REQUEST_WORK
        self.clients.send(connection, answered)
        for frame in connection.later:
            self.clients.send(connection, frame)
        connection.later.clear()
        connection.later_bytes = 0
        return True

    def _note_answer(self, connection: ClientConnection, xid: int, opcode: int, since: int) -> None:
        """A read that had to wait is answered."""
        waited_ms = self.now - since
        self.metrics.readlatency.add(waited_ms)
        connection.last_answer = opcode, xid, self.state.tree.applied, self.now, waited_ms
        connection.answered_count += 1
        connection.waited_ms += waited_ms
        connection.waited_most_ms = max(connection.waited_most_ms, waited_ms)
        connection.waited_least_ms = min(connection.waited_least_ms, waited_ms)

    def _drop_answer(self, connection: ClientConnection) -> None:
        connection.answering = None
        connection.answering_zxid = 0
        self.answering.pop(connection, None)

    def _answer_before_write(self, connection: ClientConnection) -> Iterator[None]:
        """The next write of this connection is about to be applied: first all that stands before it is answered."""
        self.answer_waiting(connection, before_write=True)
        while connection.pending and connection.pending[0][2] and not connection.closing:
            if connection.answering is None or not self._answer_slice(connection):
                yield
                self.state.spent = 0
            self.answer_waiting(connection, before_write=True)

    def _answer(self, connection: ClientConnection, answer: Answer, xid: int, frame: bytes) -> None:
        try:
            answered = answer(self.state, connection, xid, frame)
        except UNDECODABLE:
            answered = reply(xid, self.state.tree.applied, ErrorCode.MARSHALLINGERROR)
        if answered:  # else it is answered later
            self.state.spent += len(answered) + REQUEST_WORK
            self.clients.send(connection, answered)

    def _room(self, connection: ClientConnection) -> int:
        """Bytes that its output may still take in this turn before its reads wait."""
        own = self.state.config.limits.output_limit_bytes - connection.out_bytes - connection.unsent_bytes
        of_turn = ANSWERED_BYTES - self.state.spent
        return own if own < of_turn else of_turn

    def _own_room(self, connection: ClientConnection) -> int:
        return self.state.config.limits.output_limit_bytes - connection.out_bytes - connection.unsent_bytes

    def _end(self, connection: ClientConnection, end: ConnectionEnds) -> None:
        if end.last:
            self.clients.send(connection, end.last)
        self.clients.close(connection, Closing.FLUSHED)

    # ----------------------------------------------------------------------------------- writes, on their way to quorum

    def submit(self, session: SessionId, cxid: int, opcode: int, body: bytes, owner: ServerId | None) -> None:
        """A write that no connection here waits for: a learner's, or the ensemble's own."""
        self.intake.arrived.append(((session, cxid, opcode, body, ()), None, owner, 0))

    def submit_forwarded(self, request: msg.Request, owner: ServerId) -> bool:
        """The writes that a learner forwarded. False, and none of them is in: it may not send one of them."""
        writes = writes_of(request, owner, self.sessions.refusal)
        self.intake.arrived.extend(writes or ())
        return writes is not None

    def submit_new_sessions(self) -> None:
        """The createSessions that the handshakes of the turn ask for."""
        for session, timeout_ms in self.sessions.wanted:
            body = CreateSession(timeout_ms).encode()
            self.submit(session, self.sessions.creation_cxid, _CREATE_SESSION, body, self.server_id)
        self.sessions.wanted.clear()

    # ------------------------------------------------------------------------------------------- committed batches

    def deliver(self, batch: Batch) -> Iterator[None]:
        """Apply and answer a committed batch. Until all slices are done nobody else may look at the tree."""
        self.delivered = 0
        apply, watches, auditor = self.state.tree.apply, self.state.watches, self.auditor
        waited: dict[int, int] = {}
        decoded, is_large = None, len(batch.raw) > HEADER_BYTES + RECORD_BYTES
        if is_large and not self.proposing.proposed:
            decoded = yield from decode_in_slices(batch.body, batch.first, batch.count)
        txns, connections = self._transactions(batch, decoded)
        is_long = is_large and batch.count == 1
        forwarded, prepare = self.forwarded.writes, self.proposing.prepare
        by_session = self.clients.by_session
        for index, txn in enumerate(txns):
            zxid, _, session, cxid, kind, _, _, _, rest = txn
            if connections is not None:
                connection = connections[index]
            elif (connection := by_session.get(session)) is not None:  # type: ignore[call-overload]
                # One by one, since what is answered first changes who waits for what.
                connection = self._waiting(connection, txn)
            if forwarded and session in forwarded and forwarded[session][0][0] == cxid:
                self.forwarded.bytes -= forwarded[session].popleft()[1]
                if not forwarded[session]:
                    del forwarded[session]
            if connection is not None and connection.pending and connection.pending[0][2]:
                yield from self._answer_before_write(connection)
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
                waited_ms = self._answer_write(connection, txn, applied, answered)
                waited[waited_ms] = waited.get(waited_ms, 0) + 1
            if kind < 0:
                self._session_changed(Txn(*txn))
            if self.delivered >= DELIVERED and index + 1 < len(txns):
                self.delivered = 0
                yield
        for waited_ms, count in waited.items():
            self.metrics.updatelatency.add(waited_ms, count)
        if prepare is not None:
            prepare.applied(batch.zxid)
        else:
            self.proposing.newest_time = batch.time

    def _transactions(
        self, batch: Batch, decoded: list[Fields] | None = None
    ) -> tuple[list[Fields], list[ClientConnection | None] | None]:
        """Its transactions, and whom each one answers, if this leader proposed them."""
        if self.proposing.proposed:
            own = self.proposing.proposed.popleft()
            assert own.first == batch.first, (own.first, batch.first)
            assert len(own.txns) == batch.count
            return own.txns, own.connections
        return decode_fields(batch.body, batch.first, batch.count) if decoded is None else decoded, None

    def _waiting(self, connection: ClientConnection, txn: Fields) -> ClientConnection | None:
        """The connection of the session, if its oldest write under way is this transaction."""
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

    def _answer_write(self, connection: ClientConnection, txn: Fields, applied: Applied, answered: bytes | None) -> int:
        """Send the reply of a write, which may be made already, then the reads after it. Returns how long the write has
        waited, in ms."""
        pending = connection.pending
        xid, opcode, frame, since = pending.popleft()
        assert not frame, "a transaction answers a write"
        zxid, _, _, cxid, _, _, _, _, _ = txn
        assert xid == cxid
        self.outstanding_count -= 1
        error = applied[0]
        if not error:
            answered = answered or WRITTEN[opcode](xid, zxid, applied)
        elif error == _SESSION_MOVED:
            # Somebody else serves the session now; a reply here could contradict what is answered there.
            self.clients.close(connection)
            return self.now - since
        elif error == _SESSION_EXPIRED and connection.is_local:
            self.sessions.lost(connection)
            return self.now - since
        else:
            answered = reply(xid, zxid, error)
        connection.out.append(answered)
        connection.out_bytes += len(answered)
        self.clients.dirty[connection] = None
        waited_ms = self.now - since
        if self.state.spans is not None:
            self.state.spans.answered(opcode, connection.session, xid, zxid, error, since, self.now)
        connection.last_answer = opcode, xid, zxid, self.now, waited_ms
        connection.answered_count += 1
        connection.waited_ms += waited_ms
        connection.waited_most_ms = max(connection.waited_most_ms, waited_ms)
        connection.waited_least_ms = min(connection.waited_least_ms, waited_ms)
        if opcode == _CLOSE_SESSION:
            self.clients.close(connection, Closing.FLUSHED)
        elif pending and pending[0][2]:
            self.answer_waiting(connection)
        return waited_ms

    def _session_changed(self, txn: Txn) -> None:
        """A session was created, or could not be, or was closed; or another write was refused."""
        if txn.type == _CLOSE_SESSION:
            self.sessions.closed(SessionId(txn.session))
        elif txn.type == _CREATE_SESSION or txn.rest == (_CREATE_SESSION,):
            self.sessions.created(txn, txn.type == _ERROR, self.state.tree.sessions)

    # -------------------------------------------------------------------------------------------------------- syncs

    def take_sync_tag(self) -> int | None:
        """The tag of the syncs that arrived in this turn, None when there were none; later ones get another."""
        if not self.syncing or self.syncing[-1][0] < self.sync_tag:
            return None
        self.sync_tag += 1
        return self.sync_tag - 1

    def synced(self, tag: int) -> None:
        """This member has applied what the syncs up to this tag ask for."""
        assert tag >= self.synced_tag
        self.synced_tag = tag
        while self.syncing and self.syncing[0][0] <= tag:
            self.answer_waiting(self.syncing.popleft()[1])

    # -------------------------------------------------------------------------------------------------------- the rest

    def resume(self) -> None:
        """At the end of a turn: go on with the connections whose output has room again, and with one long answer. Each
        in turn has a share until the turn's work is done; who had none is first in the next one."""
        state = self.state
        for connection in list(islice(self.overdue, SHARES)):
            del self.overdue[connection]
            self.clients.release(connection, Hold.WORK)
            if connection.stage is Stage.SERVED and not connection.closing:
                frames, connection.held = connection.held, []
                self.receive(connection, frames, ANSWERED_BYTES // SHARES)
        going = deque(connection for connection in self.choked if self._own_room(connection) >= 0)
        while going and state.spent <= ANSWERED_BYTES:
            connection = going.popleft()
            self.choked.pop(connection, None)
            self.answer_waiting(connection)
            if connection in self.choked and self._own_room(connection) >= 0:
                going.append(connection)
        if self.answering:
            self._go_on_answering()
        state.spent = 0

    @property
    def is_any_unchoked(self) -> bool:
        """Whether somebody waited for this turn's end alone."""
        return bool(self.choked) and any(self._own_room(connection) >= 0 for connection in self.choked)

    def forget(self, connection: ClientConnection) -> None:
        """A connection is gone: nothing waits on it any more, and nobody is told of its watches."""
        self.outstanding_count -= len(connection.pending)
        connection.pending.clear()
        connection.sync_tags.clear()
        connection.held.clear()
        self.choked.pop(connection, None)
        self.overdue.pop(connection, None)
        self._drop_answer(connection)
        if self.state.watches.count(connection):
            self.leaving[connection] = None
        self.change_feed.forget(connection)

    def drop_role(self) -> None:
        """Leave what a leader or learner had under way: none of it goes to the next leader (G2 former roles)."""
        if self.auditor is not None:
            self.auditor.drop_role()
        self.proposing.drop_role()
        self.intake.clear()
        self.forwarded.clear()
        self.syncing.clear()
        self.schedule.drop_role()
