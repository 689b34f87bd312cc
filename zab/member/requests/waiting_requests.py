"""Requests of clients that wait for the write before them, for room in the output of their connection, or for a turn
with room for their answer; and how they are answered.

    pending     for each connection, its requests in order, starting with the oldest write (or sync) under way:
                a write is answered when its transaction is applied, then the reads after it, up to the next write
    choked      connections whose reads wait for room in their output, or for the next turn
    answering   connections with an answer that takes more than a slice
    syncing     connections with a sync that no quorum has confirmed yet

Not here: which requests wait (`processor`), and held frames (`Processor.overdue`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.outcome import Applied
from datatree.record import Fields
from zab.jute.replies import reply
from zab.member.clients.connection import ClientConnection, Closing, Waiting
from zab.member.requests.connection_requests import (
    ANSWERS,
    sync_reply,
)
from zab.member.requests.read_state import UNDECODABLE, Answer, ConnectionEnds, ReadState, Steps, TakesLonger
from zab.member.requests.write_replies import WRITTEN
from zab.member.sessions.sessions import Sessions
from zab.member.state.work import ANSWERED_BYTES, REQUEST_WORK, SHARES
from zab.service.spans import Span

_SYNC = int(OpCode.SYNC)
_CLOSE_SESSION = int(OpCode.CLOSE_SESSION)
_SESSION_EXPIRED = int(ErrorCode.SESSIONEXPIRED)
_SESSION_MOVED = int(ErrorCode.SESSIONMOVED)


class WaitingRequests:
    """The waiting requests of all connections. Attributes without an underscore may be read."""

    def __init__(self, state: ReadState, sessions: Sessions) -> None:
        self._state = state
        self._clients = state.clients
        self._metrics = state.metrics
        self._clock = state.clock
        self._sessions = sessions
        self.outstanding_count = 0
        """How many requests wait, on all connections."""
        self.answering: dict[ClientConnection, None] = {}
        """Connections with an answer that takes more than a slice."""
        self.choked: dict[ClientConnection, None] = {}
        """Connections whose reads wait for room in their output, or for the next turn."""
        self.sync_tag = 1
        """The tag of the syncs that arrive in this turn; all syncs of a turn are one question to the leader."""
        self.synced_tag = 0
        """Syncs up to this tag are done."""
        self.syncing: deque[tuple[int, ClientConnection]] = deque()

    def add(self, connection: ClientConnection, waiting: Waiting) -> None:
        """Add a request after the others of its connection; a sync also waits for the next confirmation."""
        if waiting[1] == _SYNC:
            connection.sync_tags.append(self.sync_tag)
            self.syncing.append((self.sync_tag, connection))
        connection.pending.append(waiting)
        self.outstanding_count += 1
        if len(connection.pending) == 1:
            self.answer_waiting(connection)

    def added_writes(self, count: int) -> None:
        """Count writes that were appended to `pending` of their connections."""
        self.outstanding_count += count

    def answer_waiting(self, connection: ClientConnection, *, before_write: bool = False) -> None:
        """Answer waiting requests in order, up to the next write or sync under way, or until the output is full.

        before_write: the next write is committed and about to be applied, so the syncs before it are done, and the
        reads before it wait for another turn at most; a connection that has no room for them at all is closed.
        """
        pending, state = connection.pending, self._state
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
                    elif self.own_room(connection) < -state.config.limits.output_limit_bytes:
                        self._clients.close(connection)
                    if not before_write or state.spent > ANSWERED_BYTES:
                        return
                pending.popleft()
                self.outstanding_count -= 1
                self._note_answer(connection, xid, opcode, since)
                try:
                    self.answer(connection, sync_reply if opcode == _SYNC else ANSWERS[opcode], xid, frame)
                except TakesLonger as longer:
                    self.begin_long_answer(connection, waiting, longer)
        except ConnectionEnds as end:
            self.end(connection, end)

    def answer(self, connection: ClientConnection, answer: Answer, xid: int, frame: bytes) -> None:
        try:
            answered = answer(self._state, connection, xid, frame)
        except UNDECODABLE:
            answered = reply(xid, self._state.tree.applied, ErrorCode.MARSHALLINGERROR)
        if answered:  # otherwise it is answered later
            self._state.spent += len(answered) + REQUEST_WORK
            self._clients.send(connection, answered)

    def begin_long_answer(self, connection: ClientConnection, waiting: Waiting, longer: TakesLonger) -> None:
        """Begin an answer in slices. Only later requests of the same connection wait for it."""
        connection.pending.appendleft(waiting)
        connection.answering_zxid = longer.zxid
        self.outstanding_count += 1
        self.answer_in_slices(connection, longer.steps)

    def answer_in_slices(self, connection: ClientConnection, steps: Steps) -> None:
        """Send the result of the steps when they have ended; the first step has been taken."""
        connection.answering = steps
        self.answering[connection] = None

    def _go_on_answering(self) -> None:
        """Take one slice of one long answer; each has its turn."""
        connection = next(iter(self.answering))
        del self.answering[connection]
        self.answering[connection] = None
        if self._answer_slice(connection):
            self.answer_waiting(connection)

    def _answer_slice(self, connection: ClientConnection) -> bool:
        """Take one slice of an answer. True: it was the last one."""
        assert connection.answering is not None
        try:
            next(connection.answering)
        except StopIteration as end:
            answered: bytes = end.value
        except UNDECODABLE:
            answered = reply(connection.pending[0][0], self._state.tree.applied, ErrorCode.MARSHALLINGERROR)
        except ConnectionEnds as end:
            self._drop_answer(connection)
            self.end(connection, end)
            return True
        else:
            return False
        self._drop_answer(connection)
        xid, opcode, _, since = connection.pending.popleft()
        self.outstanding_count -= 1
        self._note_answer(connection, xid, opcode, since)
        self._state.spent += len(answered) + REQUEST_WORK
        self._clients.send(connection, answered)
        for frame in connection.later:
            self._clients.send(connection, frame)
        connection.later.clear()
        connection.later_bytes = 0
        return True

    def answered_at_once(self, connection: ClientConnection, count: int, opcode: int, xid: int) -> None:
        """Count reads that were answered without waiting. The last of them has this opcode and xid."""
        self._metrics.readlatency.add(0, count)
        if not connection.pending:
            connection.last_answer = opcode, xid, self._state.tree.applied, self._clock.now, 0
        connection.answered_count += count
        connection.waited_least_ms = 0
        self._clients.dirty[connection] = None

    def _note_answer(self, connection: ClientConnection, xid: int, opcode: int, since: int) -> None:
        """Count a read that had to wait."""
        waited_ms = self._clock.now - since
        self._metrics.readlatency.add(waited_ms)
        connection.last_answer = opcode, xid, self._state.tree.applied, self._clock.now, waited_ms
        connection.answered_count += 1
        connection.waited_ms += waited_ms
        connection.waited_most_ms = max(connection.waited_most_ms, waited_ms)
        connection.waited_least_ms = min(connection.waited_least_ms, waited_ms)

    def _drop_answer(self, connection: ClientConnection) -> None:
        connection.answering = None
        connection.answering_zxid = 0
        self.answering.pop(connection, None)

    def answer_before_write(self, connection: ClientConnection) -> Iterator[None]:
        """Answer everything before the next write of this connection, which is about to be applied."""
        self.answer_waiting(connection, before_write=True)
        while connection.pending and connection.pending[0][2] and not connection.closing:
            if connection.answering is None or not self._answer_slice(connection):
                yield
                self._state.spent = 0
            self.answer_waiting(connection, before_write=True)

    def answer_write(self, connection: ClientConnection, txn: Fields, applied: Applied, answered: bytes | None) -> int:
        """Send the reply of a write, `answered` if it is encoded already, then the reads after it. Returns how long the
        write has waited, in ms."""
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
            # Another server has the session now: a reply here could contradict its replies.
            self._clients.close(connection)
            return self._clock.now - since
        elif error == _SESSION_EXPIRED and connection.is_local:
            self._sessions.lost(connection)
            return self._clock.now - since
        else:
            answered = reply(xid, zxid, error)
        connection.out.append(answered)
        connection.out_bytes += len(answered)
        self._clients.dirty[connection] = None
        waited_ms = self._clock.now - since
        spans = self._state.spans
        if spans is not None and spans.samples_next():
            spans.add(_span_of(opcode, connection, xid, zxid, error, since, self._clock.now))
        connection.last_answer = opcode, xid, zxid, self._clock.now, waited_ms
        connection.answered_count += 1
        connection.waited_ms += waited_ms
        connection.waited_most_ms = max(connection.waited_most_ms, waited_ms)
        connection.waited_least_ms = min(connection.waited_least_ms, waited_ms)
        if opcode == _CLOSE_SESSION:
            self._clients.close(connection, Closing.FLUSHED)
        elif pending and pending[0][2]:
            self.answer_waiting(connection)
        return waited_ms

    def end(self, connection: ClientConnection, end: ConnectionEnds) -> None:
        if end.last:
            self._clients.send(connection, end.last)
        self._clients.close(connection, Closing.FLUSHED)

    def _room(self, connection: ClientConnection) -> int:
        """Bytes that the output may still take in this turn before reads wait."""
        own = self._state.config.limits.output_limit_bytes - connection.out_bytes - connection.unsent_bytes
        of_turn = ANSWERED_BYTES - self._state.spent
        return own if own < of_turn else of_turn

    def own_room(self, connection: ClientConnection) -> int:
        return self._state.config.limits.output_limit_bytes - connection.out_bytes - connection.unsent_bytes

    def take_sync_tag(self) -> int | None:
        """The tag of the syncs that arrived in this turn; None if there were none. Later syncs get another tag."""
        if not self.syncing or self.syncing[-1][0] < self.sync_tag:
            return None
        self.sync_tag += 1
        return self.sync_tag - 1

    def synced(self, tag: int) -> None:
        """Finish the syncs up to this tag, since this member has applied what they ask for."""
        assert tag >= self.synced_tag
        self.synced_tag = tag
        while self.syncing and self.syncing[0][0] <= tag:
            self.answer_waiting(self.syncing.popleft()[1])

    @property
    def is_any_unchoked(self) -> bool:
        """Whether a connection waits only for the end of this turn."""
        return bool(self.choked) and any(self.own_room(connection) >= 0 for connection in self.choked)

    def resume(self) -> None:
        """Go on with the connections whose output has room again, and with one long answer. Each in turn gets a share
        until the turn's work is done; those that got none are first in the next turn."""
        state = self._state
        going = deque(connection for connection in self.choked if self.own_room(connection) >= 0)
        while going and state.spent <= ANSWERED_BYTES:
            connection = going.popleft()
            self.choked.pop(connection, None)
            self.answer_waiting(connection)
            if connection in self.choked and self.own_room(connection) >= 0:
                going.append(connection)
        if self.answering:
            self._go_on_answering()

    def drop_role(self) -> None:
        """Drop the syncs of this role: they will not be confirmed (G2 former roles)."""
        self.syncing.clear()

    def forget(self, connection: ClientConnection) -> None:
        """Forget the waiting requests of a connection that is gone."""
        self.outstanding_count -= len(connection.pending)
        connection.pending.clear()
        connection.sync_tags.clear()
        self.choked.pop(connection, None)
        self._drop_answer(connection)


def _span_of(
    opcode: int, connection: ClientConnection, xid: int, zxid: int, error: int, began: int, ended: int
) -> Span:
    """The span of a write. A write that was answered is committed, and applied here."""
    attributes: dict[str, str | int] = {
        "zookeeper.session": f"{connection.session:#x}",
        "zookeeper.xid": xid,
        "zookeeper.zxid": f"{zxid:#x}",
    }
    return Span(OpCode(opcode).spelled, attributes, ErrorCode(error).name if error else "", began, ended)
