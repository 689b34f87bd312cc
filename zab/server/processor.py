"""The way of a request through a member, from a client's frame to its answer; read top to bottom.

    a read    receive ───────────────────────────────────> answered in the same turn
                 └─ behind a write of its session ─> waits ─────────────────────┐
    a write   receive ─> waits ─────────────────────────────────────────────────┤
                 └─> intake ─> on the leader: proposals (a turn is one batch)   │
                          └──> on a learner: forward (a turn is one message)    │
                                  ┌─────────────────────────────────────────────┘
              committed batch ─> deliver: for each transaction
                                    apply ─> watch events ─> the reply ─> the reads that stood behind it

Invariants:
- A connection's output has, for transaction z: the watch events of z, the reply of z, the reads of that session that
  stand before its next write; then what z + 1 causes (A1). So no event precedes the reply that registered its watch, and
  a read sees every earlier write of its session and no later one.
- `sync` keeps its place as a write does. It is done when this member has applied what was committed when a quorum
  confirmed the leader; or when a later write of the same connection is committed, which no quorum grants to a leader that
  was deposed before.
- A refused write is a transaction, too (A2): every write that is forwarded comes back exactly once, in order.
- A transaction answers a connection only if it was proposed after the session came there (`fence`), since some clients
  begin with the same xid again on every connection.

The leader keeps the transactions that it proposed, with the connections they came from, until they are committed: it
neither decodes them again nor looks for whom to answer. Learners decode when they apply.

Not here: how reads are answered (`reads`, `local`), handshakes and the owners of sessions (`sessions`), what a transaction
says (`datatree.prepare`) and does (`datatree.tree`), and who proposes and commits (`zab.peer`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from struct import Struct
from struct import error as StructError  # noqa: N812  (it is a class; the module only names it in lower case)

import attrs

from datatree.acl import READ, permits
from datatree.batch import Batch
from datatree.digest import DIGEST_VERSION
from datatree.errors import ErrorCode
from datatree.opcodes import WRITES, OpCode
from datatree.outcome import Outcome, Trigger
from datatree.prepare import Prepare, Request
from datatree.record import Txn, decode_all, encode
from zab import message as msg
from zab.events import Propose
from zab.jute.replies import notification, reply
from zab.server.connection import ClientConnection, Closing
from zab.server.local import ANSWERS, PROMPT, UNKNOWN, sync_reply
from zab.server.reads import UNDECODABLE, Answer, ConnectionEnds, ReadState
from zab.server.sessions import Sessions
from zab.server.snapshot_schedule import SnapshotSchedule
from zab.server.writes import WRITTEN

_HEADER = Struct(">ii")
"""xid and opcode, in front of every request."""

_IS_WRITE = frozenset(int(opcode) for opcode in WRITES) - {int(OpCode.RECONFIG)}
_SYNC = int(OpCode.SYNC)
_ERROR = int(OpCode.ERROR)
_CREATE_SESSION = int(OpCode.CREATE_SESSION)
_CLOSE_SESSION = int(OpCode.CLOSE_SESSION)


@attrs.define(eq=False)
class Write(Request):
    """A write on its way to becoming a transaction."""

    connection: ClientConnection | None
    """Whom to answer; None: somebody else's client, or nobody."""
    owner: int | None
    """The server through which it came; None: the leader itself asks, and owns every session."""


@attrs.define(eq=False)
class Proposed:
    """A batch of this leader that is not committed yet."""

    first: int
    txns: list[Txn]
    connections: list[ClientConnection | None]


class Processor:
    """The requests of this member: those that wait, those that are on their way, and what becomes of them."""

    def __init__(self, state: ReadState, sessions: Sessions, schedule: SnapshotSchedule, server_id: int) -> None:
        self.state = state
        self.clients = state.clients
        self.metrics = state.metrics
        self.sessions = sessions
        self.schedule = schedule
        self.server_id = server_id
        self.prepare: Prepare | None = None
        """The leader's view of the state with everything in flight; None on learners."""
        self.intake: deque[Write] = deque()
        """Writes that are neither proposed nor forwarded yet. Only a leader that may not propose leaves some in it."""
        self.proposed: deque[Proposed] = deque()
        self.outstanding_count = 0
        """Requests that wait, of all connections."""
        self.choked: set[ClientConnection] = set()
        """Connections whose reads wait for room in their output."""
        self.sync_tag = 1
        """Of the syncs that arrive in this turn; those of one turn are one question to the leader."""
        self.synced_tag = 0
        """Syncs up to this tag are done."""
        self.syncing: deque[tuple[int, ClientConnection]] = deque()
        self.newest_time = 0
        """The time of the newest batch known here; the next one is not earlier (A11)."""

    # ------------------------------------------------------------------------------------------ a frame from a client

    def receive(self, connection: ClientConnection, frames: Iterable[bytes], now: int) -> None:
        """Answer each frame if nothing stands before it, else put it in its place."""
        state, pending, out = self.state, connection.pending, connection.out
        room = started = state.config.output_limit_bytes - connection.out_bytes - connection.unsent_bytes
        try:
            for frame in frames:
                xid, opcode = _HEADER.unpack_from(frame)
                answer = ANSWERS.get(opcode)
                if answer is None or pending or room < 0:
                    self._queue(connection, xid, opcode, frame, now)
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
        connection.out_bytes += started - room
        self.clients.dirty.add(connection)

    def _queue(self, connection: ClientConnection, xid: int, opcode: int, frame: bytes, now: int) -> None:
        """A write, a sync, or what has to wait; or what waits for nothing."""
        pending = connection.pending
        if opcode in _IS_WRITE:
            pending.append((xid, opcode, b"", now))
            self.intake.append(
                Write(connection.session, xid, opcode, frame[8:], connection.identities, connection, self.server_id)
            )
        elif opcode == _SYNC:
            pending.append((xid, opcode, frame, now))
            connection.sync_tags.append(self.sync_tag)
            self.syncing.append((self.sync_tag, connection))
        elif opcode in PROMPT:
            self._answer(connection, PROMPT[opcode], xid, frame)
            return
        else:
            pending.append((xid, opcode if opcode in ANSWERS else UNKNOWN, frame, now))
            if len(pending) == 1:
                self.choked.add(connection)
        self.outstanding_count += 1

    def _answer(self, connection: ClientConnection, answer: Answer, xid: int, frame: bytes) -> None:
        try:
            answered = answer(self.state, connection, xid, frame)
        except UNDECODABLE:
            answered = reply(xid, self.state.tree.applied, ErrorCode.MARSHALLINGERROR)
        self.clients.send(connection, answered)

    def _end(self, connection: ClientConnection, end: ConnectionEnds) -> None:
        self.clients.send(connection, end.last)
        self.clients.close(connection, Closing.FLUSHED)
