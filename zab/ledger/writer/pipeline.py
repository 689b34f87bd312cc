"""The appends of a writer on their way: ids, slots, acknowledgements, releases.

    append(run)                    ids, envelopes, and one Send for each bookie of the write set
    take(run) -> others            acknowledgements of a turn; answers that are not OK are the writer's to judge
    release()                      the first entries that are complete are acknowledged, in order
    use(ensemble)                  another ensemble: what is not released is sent to the bookies that lack it

An entry says which one was released last when it was made, never a later one. So nobody learns of an entry before its
caller does. What is released is kept, without its bytes, until the whole write set has it, for the sake of `short`.

The loops over entries and answers run for each append, so they are plain.

Not here: what a bad answer means, when ensembles change, when to stop releasing (`writer`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from zab.ledger.entries.envelope import Digest, Entry
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.ledger.quorums.slots import Slots, SlotState
from zab.ledger.quorums.write_sets import write_sets
from zab.ledger.store.events import Answered, Completed, Send
from zab.ledger.wire.messages import Added, AddEntry
from zab.ledger.wire.status import Status
from zab.ledger.writer.events import Append, Appended
from zab.ledger.writer.peers import Peer

RELEASED_KEPT_MAX: Final = 10_000
"""It is known of so many released entries whether their whole write set has them."""


class Op:
    """One append with an id. `request` and `token` go when it is released."""

    __slots__ = ("added_ms", "entry", "length", "request", "sent_ms", "size", "slots", "token", "tries")

    def __init__(self, request: AddEntry, slots: Slots, token: Hashable, size: int, length: int, now_ms: int) -> None:
        self.entry = request.entry
        self.request: AddEntry | None = request
        self.slots = slots
        self.token = token
        self.size = size
        self.length = length
        """The payload bytes of the ledger up to this entry."""
        self.added_ms = now_ms
        self.sent_ms = now_ms
        """When it was last sent to anybody."""
        self.tries: dict[BookieId, int] | None = None
        """How often each bookie did not take it."""


class Pipeline:
    """Everything between an append and its release. `out`: where effects go."""

    def __init__(self, ledger: int, metadata: LedgerMetadata, digest: Digest, out: list[object]) -> None:
        self.ledger = ledger
        self.lap = -1
        """The last id that was given out."""
        self.lac = -1
        """The last entry that was released."""
        self.lac_told = -1
        """The largest LAC that went out."""
        self.length = 0
        self.confirmed_length = 0
        self.pending_bytes = 0
        self.ensemble: tuple[BookieId, ...] = metadata.last_fragment.ensemble
        self.peers = {bookie: Peer() for bookie in self.ensemble}
        self._ops: dict[int, Op] = {}
        self._released: deque[int] = deque()
        self._is_any_forgotten = False
        self._sets = write_sets(metadata.ensemble_size, metadata.write_quorum)
        self._write_quorum = metadata.write_quorum
        self._ack_quorum = metadata.ack_quorum
        self._digest = digest
        self._out = out

    @property
    def pending(self) -> int:
        """How many entries have an id and are not released."""
        return self.lap - self.lac

    def pending_ops(self) -> list[Op]:
        return [self._ops[entry] for entry in range(self.lac + 1, self.lap + 1)]

    def op(self, entry: int) -> Op | None:
        """An entry that somebody still has to acknowledge."""
        return self._ops.get(entry)

    # ---------------------------------------------------------------------------------------------------- each append

    def append(self, run: Iterable[Append], now_ms: int) -> None:
        """Give each the next id, and send it."""
        out, ops, peers, ensemble = self._out, self._ops, self.peers, self.ensemble
        ledger, pack, key, sets, lac = self.ledger, self._digest.pack, self._digest.master_key, self._sets, self.lac
        entry, length = self.lap, self.length
        size = len(sets)
        for each in run:
            entry += 1
            payload = each.payload
            length += len(payload)
            request = AddEntry(ledger, entry, key, pack(Entry(ledger, entry, lac, length, payload)))
            slots = Slots(sets[entry % size], ensemble)
            ops[entry] = op = Op(request, slots, each.token, len(payload), length, now_ms)
            for bookie in slots.bookies:
                peer = peers[bookie]
                if peer.is_plain:
                    if not peer.outstanding:
                        peer.since_ms = now_ms
                    peer.outstanding += 1
                    out.append(Send(bookie, request))
                else:
                    self._send(bookie, peer, op, now_ms)
        if entry > self.lap and lac > self.lac_told:
            self.lac_told = lac
        self.pending_bytes += length - self.length
        self.lap, self.length = entry, length

    def take(self, run: Iterable[Answered], now_ms: int) -> list[Answered]:
        """Count acknowledgements. Returns the answers that are none."""
        others = []
        ops, peers, whole, ok, lac = self._ops, self.peers, self._write_quorum, Status.OK, self.lac
        for each in run:
            answer = each.answer
            if type(answer) is not Added or answer.status is not ok or answer.ledger != self.ledger:
                others.append(each)
                continue
            bookie = each.bookie
            peer = peers.get(bookie)
            if peer is not None:
                peer.since_ms = now_ms
                if peer.outstanding:
                    peer.outstanding -= 1
                if peer.window is not None:
                    self._widen(bookie, peer, now_ms)
            op = ops.get(answer.entry)
            if op is not None:
                slots = op.slots
                if slots.acknowledge(bookie) and slots.acknowledged == whole and answer.entry <= lac:
                    del ops[answer.entry]
        return others

    def release(self) -> None:
        """Acknowledge, in order, what an ack quorum has. Not while an ensemble changes: the new fragment begins at the
        LAC of the moment when the change began."""
        out, ops, whole, quorum = self._out, self._ops, self._write_quorum, self._ack_quorum
        entry, released = self.lac, 0
        while (op := ops.get(entry + 1)) is not None and op.slots.acknowledged >= quorum:
            entry += 1
            released += op.size
            self.confirmed_length = op.length
            out.append(Completed(op.token, Appended(entry)))
            if op.slots.acknowledged == whole:
                del ops[entry]
            else:
                op.request, op.token = None, None
                self._released.append(entry)
        self.lac = entry
        self.pending_bytes -= released
        if len(self._released) > RELEASED_KEPT_MAX:
            self._forget()

    def _forget(self) -> None:
        """Keep only the last of those that are released."""
        while len(self._released) > RELEASED_KEPT_MAX:
            if self._ops.pop(self._released.popleft(), None) is not None:
                self._is_any_forgotten = True

    # ------------------------------------------------------------------------------------------------------- ensembles

    def use(self, ensemble: Sequence[BookieId], failing: frozenset[BookieId], now_ms: int) -> bool:
        """The metadata have this ensemble from LAC + 1 on. Those of its members that are `failing` are sent nothing.
        Returns whether released entries stay on fewer bookies than their write set has."""
        is_short = self._is_any_forgotten or any(entry in self._ops for entry in self._released)
        for entry in self._released:
            self._ops.pop(entry, None)
        self._released.clear()
        self._is_any_forgotten = False
        self.ensemble = tuple(ensemble)
        self.peers = {bookie: self.peers.get(bookie) or Peer() for bookie in self.ensemble}
        self.send_again(failing, now_ms)
        return is_short

    def send_again(self, failing: frozenset[BookieId], now_ms: int) -> None:
        """Members that failed and are not `failing` now are tried again, with all that they missed."""
        for bookie, peer in self.peers.items():
            if bookie in failing:
                peer.fail()
            elif peer.is_failing:
                peer.try_again()
        for op in self.pending_ops():
            for bookie in op.slots.repair(self.ensemble, failing):
                self._send(bookie, self.peers[bookie], op, now_ms)
                op.sent_ms = now_ms

    # -------------------------------------------------------------------------------------------------- single bookies

    def resend(self, bookie: BookieId, entry: int, now_ms: int) -> None:
        """Send it once more, if this bookie still owes it; then what waited for its window."""
        op, peer = self._ops.get(entry), self.peers.get(bookie)
        if peer is not None:
            if op is not None and op.slots.waits_for(bookie):
                self._send(bookie, peer, op, now_ms)
            self._pump(bookie, peer, now_ms)

    def _send(self, bookie: BookieId, peer: Peer, op: Op, now_ms: int) -> None:
        """Send it, or keep it for later, or note that this bookie will not acknowledge it."""
        if peer.is_failing or op.request is None:
            op.slots.fail(bookie)
        elif not peer.may_send():
            peer.waiting.append(op.entry)
        else:
            if not peer.outstanding:
                peer.since_ms = now_ms
            peer.outstanding += 1
            self._out.append(Send(bookie, op.request))

    def _widen(self, bookie: BookieId, peer: Peer, now_ms: int) -> None:
        peer.widen()
        self._pump(bookie, peer, now_ms)
        peer.rest()

    def _pump(self, bookie: BookieId, peer: Peer, now_ms: int) -> None:
        while peer.waiting and peer.may_send():
            op = self._ops.get(peer.waiting.popleft())
            if op is not None and op.slots.waits_for(bookie):
                self._send(bookie, peer, op, now_ms)

    def answered(self, bookie: BookieId, now_ms: int) -> None:
        """An answer to an add that is no acknowledgement."""
        peer = self.peers.get(bookie)
        if peer is not None:
            peer.since_ms = now_ms
            peer.outstanding = max(0, peer.outstanding - 1)

    def drop(self) -> list[Op]:
        """Nothing goes on: what was not released, in order. Its ids stay given out."""
        dropped = self.pending_ops()
        self._ops.clear()
        self._released.clear()
        self.pending_bytes = 0
        return dropped

    # ----------------------------------------------------------------------------------------------------------- times

    def _head_debtors(self) -> list[BookieId]:
        """The bookies that owe an answer to the first entry that is not released."""
        op = self._ops.get(self.lac + 1)
        if op is None:
            return []
        slots = zip(op.slots.bookies, op.slots.states, strict=True)
        return [bookie for bookie, state in slots if state == SlotState.SENT and not self.peers[bookie].is_failing]

    def overdue(self, timeout_ms: int, now_ms: int) -> list[BookieId]:
        """The bookies that have not answered in time."""
        found = [
            bookie
            for bookie, peer in self.peers.items()
            if peer.outstanding and not peer.is_failing and peer.since_ms + timeout_ms <= now_ms
        ]
        op = self._ops.get(self.lac + 1)
        if op is not None and op.sent_ms + timeout_ms <= now_ms:
            found += [bookie for bookie in self._head_debtors() if bookie not in found]
        return found

    def overdue_at(self, timeout_ms: int) -> int | None:
        """When a bookie may be overdue next."""
        times = [peer.since_ms + timeout_ms for peer in self.peers.values() if peer.outstanding and not peer.is_failing]
        if self._head_debtors():
            times.append(self._ops[self.lac + 1].sent_ms + timeout_ms)
        return min(times, default=None)

    def oldest_ms(self) -> int | None:
        """When the first entry that is not released got its id."""
        op = self._ops.get(self.lac + 1)
        return None if op is None else op.added_ms
