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
  order.
- A transaction answers a connection only if it was proposed after the session came there (`fence`), since some clients
  begin with the same xid again on every connection.

The leader keeps the transactions that it proposed, with the connections they came from, until they are committed: it
neither decodes them again nor looks for whom to answer. Learners decode when they apply.

Not here: how reads are answered (`reads`, `local`), the feed of changes, which keeps no order (`change_feed`),
handshakes and the owners of sessions (`sessions`), what a transaction says (`datatree.prepare`) and does
(`datatree.tree`), and who proposes and commits (`zab.peer`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812  (it is a class; the module only names it in lower case)
from typing import Any

import attrs

from datatree.acl import READ, AclList, permits
from datatree.digest import DIGEST_VERSION
from datatree.errors import ErrorCode
from datatree.log.batch import Batch
from datatree.opcodes import LOGGED_AS, WRITES, OpCode
from datatree.outcome import Outcome, Trigger
from datatree.prepare import Prepare, WriteRequest
from datatree.record import Txn, decode_all, encode
from datatree.requests import CreateSession
from session.identity import SessionId
from zab import message as msg
from zab.events import Propose
from zab.ids import ServerId
from zab.jute.replies import notification, reply
from zab.member.change_feed import ChangeFeed
from zab.member.connection import ClientConnection, Closing, Identity
from zab.member.local import ANSWERS, PROMPT, UNKNOWN, sync_reply
from zab.member.reads import UNDECODABLE, Answer, ConnectionEnds, ReadState
from zab.member.sessions import Sessions
from zab.member.snapshot_schedule import SnapshotSchedule
from zab.member.writes import WRITTEN
from zab.message import DATA_FRAME_BYTES_MAX, WRITE_HEAD

TIME_AHEAD_MS_MAX = 600_000
"""How far the times of batches may be ahead of the leader's wall clock: they stand still until it comes, and beyond
this they go back to it."""

_HEADER = Struct(">ii")
"""xid and opcode, in front of every request."""

_WRITES = frozenset(int(opcode) for opcode in WRITES) - {int(OpCode.RECONFIG)}
_FORWARDED = frozenset(int(opcode) for opcode in WRITES) | {int(OpCode.CREATE_SESSION)}
_BODY_AT = WRITE_HEAD.size
_SYNC = int(OpCode.SYNC)
_GET_CHANGES = int(OpCode.GET_CHANGES)
_ERROR = int(OpCode.ERROR)
_CREATE_SESSION = int(OpCode.CREATE_SESSION)
_CLOSE_SESSION = int(OpCode.CLOSE_SESSION)
_OF_SESSIONS = (_CREATE_SESSION, _CLOSE_SESSION)
_DATA_INCONSISTENCY = int(ErrorCode.DATAINCONSISTENCY)
_CREATE_IF_NOT_EXISTS = int(OpCode.CREATE_IF_NOT_EXISTS)


@attrs.define(eq=False)
class Write(WriteRequest):
    """A write on its way to becoming a transaction."""

    connection: ClientConnection | None
    """Whom to answer; None: somebody else's client, or nobody."""
    owner: ServerId | None
    """The server through which it came; None: the leader itself asks, and owns every session."""
    refused: int = 0
    """The error with which the leader refuses it; 0 for none. Decided when the write arrives: while it
    waits, its session may come back to this server, which must not make valid what was left here before."""


@attrs.define(eq=False)
class Proposed:
    """A batch of this leader that is not committed yet."""

    first: int
    txns: list[Txn]
    connections: list[ClientConnection | None]


class Processor:
    """The requests of this member: those that wait, those that are on their way, and what becomes of them."""

    def __init__(self, state: ReadState, sessions: Sessions, schedule: SnapshotSchedule) -> None:
        self.state = state
        self.clients = state.clients
        self.metrics = state.metrics
        self.sessions = sessions
        self.schedule = schedule
        self.server_id = ServerId(state.config.server_id)
        self.change_feed = ChangeFeed(state)
        switched_off = frozenset() if state.config.create_if_not_exists_enabled else {_CREATE_IF_NOT_EXISTS}
        self._writes = _WRITES - switched_off
        """What is a write when a client of this member asks for it."""
        self.prepare: Prepare | None = None
        """The leader's view of the state with everything in flight; None on learners."""
        self.intake: deque[Write] = deque()
        """Writes that are neither proposed nor forwarded yet. Only a leader that may not propose leaves some in it."""
        self.proposed: deque[Proposed] = deque()
        self.outstanding_count = 0
        """Requests that wait, of all connections."""
        self.choked: dict[ClientConnection, None] = {}
        """Connections whose reads wait for room in their output."""
        self.sync_tag = 1
        """Of the syncs that arrive in this turn; those of one turn are one question to the leader."""
        self.synced_tag = 0
        """Syncs up to this tag are done."""
        self.syncing: deque[tuple[int, ClientConnection]] = deque()
        self.now = 0
        """Monotonic ms of the turn."""
        self.refuses_writes = False
        """No quorum agrees on the state, so that nobody knows what a write would be done on (E6 wrong trees)."""
        self.newest_time = 0
        """The time of the newest batch known here."""

    # ----------------------------------------------------------------------------------------- frames from a client

    def receive(self, connection: ClientConnection, frames: Iterable[bytes]) -> None:
        """Answer each request if nothing stands before it, else give it its place."""
        state, pending, out = self.state, connection.pending, connection.out
        room = full = self._room(connection)
        before = len(out)
        try:
            for frame in frames:
                xid, opcode = _HEADER.unpack_from(frame)
                answer = ANSWERS.get(opcode)
                if answer is None or pending or room < 0:
                    connection.out_bytes += full - room
                    self._place(connection, xid, opcode, frame)
                    if connection.closing:
                        break
                    room = full = self._room(connection)
                    continue
                try:
                    answered = answer(state, connection, xid, frame)
                except UNDECODABLE:
                    answered = reply(xid, state.tree.applied, ErrorCode.MARSHALLINGERROR)
                out.append(answered)
                room -= len(answered)
        except ConnectionEnds as end:
            self._end(connection, end)
        except StructError:
            self.clients.close(connection)
        connection.out_bytes += full - room
        answered_count = len(out) - before
        if answered_count:
            self.metrics.readlatency.add(0, answered_count)
            self.clients.dirty[connection] = None

    def _place(self, connection: ClientConnection, xid: int, opcode: int, frame: bytes) -> None:
        """A request that is a write, or that may not overtake what waits."""
        pending = connection.pending
        if opcode in self._writes:
            pending.append((xid, opcode, b"", self.now))
            session, owner = connection.session, self.server_id
            refused = 0 if self.prepare is None else self.sessions.refusal(session, opcode, owner)
            self.intake.append(
                Write(session, xid, opcode, frame[8:], connection.identities, connection, owner, refused)
            )
            self.outstanding_count += 1
            return
        prompt = PROMPT.get(opcode)
        if prompt is not None:
            self._answer(connection, prompt, xid, frame)
            return
        if opcode == _GET_CHANGES:
            self.change_feed.ask(connection, xid, frame, self.now)
            return
        if opcode == _SYNC:
            connection.sync_tags.append(self.sync_tag)
            self.syncing.append((self.sync_tag, connection))
        elif opcode not in ANSWERS:
            opcode = UNKNOWN
        pending.append((xid, opcode, frame, self.now))
        self.outstanding_count += 1
        if len(pending) == 1:
            self.answer_waiting(connection)

    def answer_waiting(self, connection: ClientConnection, *, before_write: bool = False) -> None:
        """Answer what waits, in order, up to the next write, or sync, that is under way, or until the output is full.

        before_write: the next write is committed and about to be applied, so the syncs before it are done, and the
        reads before it cannot wait; a connection that has no room for them at all is closed.
        """
        pending = connection.pending
        try:
            while pending and not connection.closing:
                xid, opcode, frame, since = pending[0]
                if not frame:
                    return
                if opcode == _SYNC:
                    if connection.sync_tags[0] > self.synced_tag and not before_write:
                        return
                    connection.sync_tags.popleft()
                elif (room := self._room(connection)) < 0:
                    if not before_write:
                        self.choked[connection] = None
                        return
                    if room < -self.state.config.output_limit_bytes:
                        self.clients.close(connection)
                        return
                pending.popleft()
                self.outstanding_count -= 1
                self.metrics.readlatency.add(self.now - since)
                self._answer(connection, sync_reply if opcode == _SYNC else ANSWERS[opcode], xid, frame)
        except ConnectionEnds as end:
            self._end(connection, end)

    def _answer(self, connection: ClientConnection, answer: Answer, xid: int, frame: bytes) -> None:
        try:
            answered = answer(self.state, connection, xid, frame)
        except UNDECODABLE:
            answered = reply(xid, self.state.tree.applied, ErrorCode.MARSHALLINGERROR)
        self.clients.send(connection, answered)

    def _room(self, connection: ClientConnection) -> int:
        """Bytes that its output may still take before its reads wait."""
        return self.state.config.output_limit_bytes - connection.out_bytes - connection.unsent_bytes

    def _end(self, connection: ClientConnection, end: ConnectionEnds) -> None:
        if end.last:
            self.clients.send(connection, end.last)
        self.clients.close(connection, Closing.FLUSHED)

    # ----------------------------------------------------------------------------------- writes, on their way to quorum

    def proposals(self, next_zxid: Callable[[], int | None], wall: int) -> Iterator[Propose]:
        """On the leader: the writes of the turn as transactions, in batches.

        `next_zxid` is asked before each of them, when the one before was taken; None ends it, and the rest stays.
        """
        while self.intake:
            zxid = next_zxid()
            if zxid is None:
                return
            if wall > self.newest_time or self.is_ahead_of(wall):
                self.newest_time = wall
            yield self._batch(zxid, self.newest_time)

    def is_ahead_of(self, wall: int) -> bool:
        """Whether the newest batch is of a time that this wall clock reaches so late that it is not waited for: the
        clock of some leader was wrong (A11 batch time)."""
        return self.newest_time > wall + TIME_AHEAD_MS_MAX

    def _batch(self, first: int, time: int) -> Propose:
        """As many writes as fit into one batch; one larger than a batch goes alone."""
        intake, config, tree = self.intake, self.state.config, self.state.tree
        assert self.prepare is not None
        assert self.proposed or first == tree.applied + 1 or first & 0xFFFFFFFF == 1, "the leader must have applied all"
        count_max, bytes_max = config.max_batch_count, config.max_batch_bytes
        prepare = self.prepare.prepare
        txns: list[Txn] = []
        connections: list[ClientConnection | None] = []
        records: list[bytes] = []
        size = 0
        for zxid in range(first, first + min(len(intake), count_max)):
            write = intake[0]
            if size + len(write.body) > bytes_max and txns:
                break
            intake.popleft()
            is_refused = self.refuses_writes and write.opcode not in _OF_SESSIONS
            refused = write.refused or (_DATA_INCONSISTENCY if is_refused else 0)
            if refused:
                txn = Txn(zxid, time, write.session, write.cxid, _ERROR, refused, b"", None, (write.opcode,))
            else:
                txn = prepare(write, zxid, time)
                if txn.type < _ERROR:
                    self.sessions.proposed(txn, write.owner, self.now)
            record = encode(txn)
            size += len(record)
            records.append(record)
            txns.append(txn)
            connections.append(write.connection)
        self.proposed.append(Proposed(first, txns, connections))
        self.metrics.last_proposal_size = size
        self.metrics.proposal_size.add(size)
        flags = self.schedule.flags_of(len(txns), size)
        return Propose(b"".join(records), len(txns), time, flags, tree.applied, tree.digest, DIGEST_VERSION)

    def submit(self, session: SessionId, cxid: int, opcode: int, body: bytes, owner: ServerId | None) -> None:
        """A write that no connection here waits for: a learner's, or the ensemble's own."""
        self.intake.append(Write(session, cxid, opcode, body, (), None, owner))

    def submit_forwarded(self, request: msg.Request, owner: ServerId) -> bool:
        """The writes that a learner forwarded. False, and none of them is in: one is of a kind that it may not send."""
        refusal = self.sessions.refusal
        writes: list[Write] = []
        for identities, rows in request.rows:
            proven = tuple([(scheme, name) for scheme, name in identities])
            for row in rows:
                session, cxid, opcode = WRITE_HEAD.unpack_from(row)
                if opcode not in _FORWARDED:
                    return False
                refused = refusal(session, opcode, owner)
                writes.append(Write(session, cxid, opcode, row[_BODY_AT:], proven, None, owner, refused))
        self.intake += writes
        return True

    def submit_new_sessions(self) -> None:
        """The createSessions that the handshakes of the turn ask for; their cxid tells whose they are."""
        for session, timeout_ms in self.sessions.take_wanted():
            body = CreateSession(timeout_ms).encode()
            self.submit(session, self.server_id, _CREATE_SESSION, body, self.server_id)

    def forward(self) -> Iterator[msg.Request]:
        """On a learner: the writes of the turn for the leader, in as few messages as their size allows."""
        rows: list[list[Any]] = []
        identities: tuple[Identity, ...] | None = None
        size = 0
        while self.intake:
            write = self.intake.popleft()
            row = WRITE_HEAD.pack(write.session, write.cxid, write.opcode) + write.body
            said = 0 if write.identities == identities else _size_of(write.identities)
            if rows and size + said + len(row) > DATA_FRAME_BYTES_MAX:
                yield msg.Request(rows)
                rows, identities, size = [], None, 0
            if write.identities != identities:
                identities = write.identities
                rows.append([[list(pair) for pair in identities], []])
                size += _size_of(identities)
            rows[-1][1].append(row)
            size += len(row)
        if rows:
            yield msg.Request(rows)

    # ------------------------------------------------------------------------------------------- committed batches

    def deliver(self, batch: Batch) -> None:
        """Apply and answer a committed batch, one transaction after the other."""
        apply, watches = self.state.tree.apply, self.state.watches
        waited: dict[int, int] = {}
        txns, connections = self._transactions(batch)
        for txn, connection in zip(txns, connections, strict=True):
            if connection is not None and connection.pending and connection.pending[0][2]:
                self.answer_waiting(connection, before_write=True)
            outcome = apply(txn)
            if watches.total_count and outcome.triggers:
                self._notify(outcome.triggers, txn.zxid)
            if connection is not None and not connection.closing:
                waited_ms = self._answer_write(connection, txn, outcome)
                waited[waited_ms] = waited.get(waited_ms, 0) + 1
            if txn.type < 0:
                self._session_changed(txn)
        for waited_ms, count in waited.items():
            self.metrics.updatelatency.add(waited_ms, count)
        if self.prepare is not None:
            self.prepare.applied(batch.zxid)
        else:
            self.newest_time = batch.time

    def _transactions(self, batch: Batch) -> tuple[list[Txn], Iterable[ClientConnection | None]]:
        """Its transactions, and whom each one answers; of those from other members, that is found out one by one."""
        if self.proposed:
            own = self.proposed.popleft()
            assert own.first == batch.first, (own.first, batch.first)
            assert len(own.txns) == batch.count
            return own.txns, own.connections
        txns = decode_all(batch.body, batch.first, batch.count)
        served: Callable[[Any], ClientConnection | None] = self.clients.by_session.get
        waiting = self._waiting
        # One by one, since what is answered first changes who waits for what.
        return txns, (waiting(found, txn) if (found := served(txn.session)) is not None else None for txn in txns)

    def _waiting(self, connection: ClientConnection, txn: Txn) -> ClientConnection | None:
        """The connection of the session, if its oldest write under way is this transaction."""
        if txn.zxid <= connection.fence or connection.closing:
            return None
        for xid, opcode, frame, _ in connection.pending:
            if not frame:
                if xid != txn.cxid:
                    return None
                asked = _opcode_of(txn)
                return connection if opcode == asked or asked in LOGGED_AS.get(opcode, ()) else None
        return None

    def _notify(self, triggers: Iterable[Trigger], zxid: int) -> None:
        """Tell every connection that watches, and may read, what happened."""
        for trigger in triggers:
            frame = b""
            for connection, kind, path in self.state.watches.trigger(trigger, self._may_read):
                frame = frame or notification(kind, path, zxid)
                self.clients.send(connection, frame)

    def _may_read(self, connection: ClientConnection, acl: AclList) -> bool:
        return self.state.config.skip_acl or permits(acl, READ, connection.identities)

    def _answer_write(self, connection: ClientConnection, txn: Txn, outcome: Outcome) -> int:
        """Send the reply of a write, then the reads after it. Returns how long the write has waited, in ms."""
        pending = connection.pending
        xid, opcode, frame, since = pending.popleft()
        assert not frame, "a transaction answers a write"
        assert xid == txn.cxid
        self.outstanding_count -= 1
        if not outcome.error:
            answered = WRITTEN[opcode](xid, txn.zxid, outcome)
        elif outcome.error == ErrorCode.SESSIONMOVED:
            # Somebody else serves the session now; a reply here could contradict what is answered there.
            self.clients.close(connection)
            return self.now - since
        else:
            answered = reply(xid, txn.zxid, outcome.error)
        connection.out.append(answered)
        connection.out_bytes += len(answered)
        self.clients.dirty[connection] = None
        if opcode == _CLOSE_SESSION:
            self.clients.close(connection, Closing.FLUSHED)
        elif pending:
            self.answer_waiting(connection)
        return self.now - since

    def _session_changed(self, txn: Txn) -> None:
        """A session was created, or could not be, or was closed."""
        if txn.type == _CLOSE_SESSION:
            self.sessions.closed(SessionId(txn.session))
        elif _opcode_of(txn) == _CREATE_SESSION:
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
        """Go on with the connections whose output has room again."""
        if self.choked:
            for connection in [connection for connection in self.choked if self._room(connection) >= 0]:
                self.choked.pop(connection, None)
                self.answer_waiting(connection)

    def forget(self, connection: ClientConnection) -> None:
        """A connection is gone: nothing waits on it any more, and nobody is told of its watches."""
        self.outstanding_count -= len(connection.pending)
        connection.pending.clear()
        connection.sync_tags.clear()
        connection.held.clear()
        self.choked.pop(connection, None)
        self.state.watches.close(connection)
        self.change_feed.forget(connection)

    def drop_role(self) -> None:
        """Leave what a leader or learner had under way: none of it goes to the next leader (G2 former roles)."""
        self.prepare = None
        self.intake.clear()
        self.proposed.clear()
        self.syncing.clear()
        self.schedule.drop_role()


def _opcode_of(txn: Txn) -> int:
    """The operation that was asked for, of a refused one, too."""
    opcode: int = txn.rest[0] if txn.type == _ERROR else txn.type
    return opcode


def _size_of(identities: Iterable[Identity]) -> int:
    return sum(len(scheme) + len(name) for scheme, name in identities)
