"""The paper's properties of atomic broadcast, checked on every batch that is broadcast or delivered, in O(1).

Names and definitions are those of "Zab: High-performance broadcast for primary-backup systems", section 3, read per
batch:

    leadership              no two primaries of one epoch
    integrity               what is delivered was broadcast, by the primary of its epoch
    agreement               two processes that deliver, deliver the same: no process delivers in a place of the sequence
                            what another did not deliver there
    total_order             all processes that deliver two batches deliver them in the same order
    local_primary_order     of one primary, batches are delivered in the order in which it broadcast them, none left out
    global_primary_order    batches of an earlier primary are delivered before those of a later one
    primary_integrity       when a primary broadcasts, it holds everything that is ever delivered of earlier primaries

There is one sequence, the longest that any process has delivered so far; each process has its place in it. The first
process to deliver the next batch decides what it is; all others have to deliver the same bytes there.

Committed transactions are applied to the model (`model`) as the sequence grows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import TYPE_CHECKING

from attrs import define

from datatree.log.batch import Batch, Position, continues, follows
from datatree.log.zxid import BEFORE_ALL, Zxid, counter_of, epoch_of, make_zxid
from datatree.record import Txn, decode_all
from zab.simulator.ensemble.judges.model import Model
from zab.simulator.world.verdict import SafetyError

if TYPE_CHECKING:
    from zab.simulator.ensemble.judges.requests import Asked


@define
class Broadcast:
    """A batch as its primary made it, and what was before it in the primary's history."""

    batch: Batch
    txns: list[Txn]
    predecessor: Position


class History:
    """The judge of broadcast. A process is named by (server id, number of its starts)."""

    def __init__(self) -> None:
        self.model = Model()
        self.primaries: dict[int, tuple[int, int]] = {}
        """Epoch → the process that leads it."""
        self.broadcasts: dict[int, Broadcast] = {}
        """Last zxid of a batch → the batch."""
        self.zxids: list[Zxid] = []
        """The sequence: last zxids of the delivered batches."""
        self.chains: list[bytes] = []
        self.txns: dict[int, Txn] = {}
        """Every committed transaction."""
        self._synced: dict[int, tuple[int, int]] = {}
        """For each session: the number of its last answered sync, and its zxid."""
        self._place_of: dict[int, int] = {0: 0}
        """Batch end → how many batches are delivered up to it."""
        self._places: dict[int, int] = {}
        """Server → how many batches its process has delivered."""
        self._initial: dict[int, int] = {}
        """Epoch → the end of its primary's history at its first broadcast."""
        self.beginning = BEFORE_ALL
        """The zxid at which the lineage began."""
        self.told = 0
        """The highest zxid that any client was told of."""
        self._asked: dict[tuple[int, int], list[Asked]] = {}
        """Every write that a client sent, by session and xid, in order; each connection starts again with the same
        xids."""
        self.requested: dict[int, Asked] = {}
        """The transactions that carried out a request: zxid → the request."""
        self.ending: set[int] = set()
        """Sessions whose end some leader has proposed."""
        self._last_number: dict[int, int] = {}
        """Session → the number of its newest write in the sequence."""

    def next(self, txns: Iterable[Txn], position: Position, *, keeps_epochs: bool) -> History:
        """The judge of the next lineage, which begins at this position with the state that these transactions make.
        `keeps_epochs`: no epoch is led again, and no zxid is used twice."""
        other = type(self)()
        for txn in txns:
            other.txns[txn.zxid] = txn
            other.model.apply(txn)
        zxid, chain = position
        other.model.zxid = other.beginning = zxid
        other.zxids, other.chains, other._place_of[zxid] = [zxid], [chain], 1
        if keeps_epochs:
            other.primaries, other.broadcasts = self.primaries, self.broadcasts
        return other

    def has_reached(self, position: tuple[int, bytes]) -> bool:
        """Whether a delivered batch ends there."""
        place = self._place_of.get(position[0], 0)
        return place > 0 and self.chains[place - 1] == position[1]

    @property
    def end(self) -> Zxid:
        """The last zxid that any process has delivered."""
        return self.zxids[-1] if self.zxids else BEFORE_ALL

    @property
    def end_txn(self) -> int:
        """The last transaction of the model."""
        return self.model.zxid

    def ask(self, asked: Asked) -> None:
        """Note a write that a client sends."""
        self._asked.setdefault((asked.session, asked.xid), []).append(asked)

    def refused_by_a_member(self, asked: Asked) -> None:
        """Note that a member refused a write by itself: it must never be done."""
        if asked in self.requested.values():
            raise SafetyError("refused writes never reappear", f"{asked} is refused by a member alone, and was done")
        self._asked[asked.session, asked.xid].remove(asked)

    def may_be_over(self, session: int) -> bool:
        """Whether a client may be told that its session is over: its end is delivered, or was proposed."""
        return session not in self.model.sessions or session in self.ending

    # --------------------------------------------------------------------------------------------------------- leading

    def leads(self, process: tuple[int, int], epoch: int) -> None:
        """Note the primary of an epoch."""
        other = self.primaries.setdefault(epoch, process)
        if other != process:
            raise SafetyError("leadership", f"epoch {epoch} is led by {other} and by {process}")

    def broadcast(self, process: tuple[int, int], batch: Batch, predecessor: Position) -> list[Txn]:
        """A primary broadcasts a batch on top of a history that ends at `predecessor`; its transactions."""
        self.leads(process, batch.epoch)
        if batch.zxid in self.broadcasts:
            raise SafetyError("local_primary_order", f"{batch.zxid:#x} is broadcast twice")
        txns = decode_all(batch.body, batch.first, batch.count)
        self.broadcasts[batch.zxid] = Broadcast(batch, txns, predecessor)
        if batch.epoch not in self._initial:
            self._initial[batch.epoch] = predecessor[0]
            # A deposed primary may not know it yet: it need not know what later primaries have done.
            earlier = bisect_left(self.zxids, make_zxid(batch.epoch, 0))
            if earlier and self.zxids[earlier - 1] > predecessor[0]:
                delivered = self.zxids[earlier - 1]
                reason = f"{process} begins epoch {batch.epoch} at {predecessor[0]:#x}, {delivered:#x} is delivered"
                raise SafetyError("primary_integrity", reason)
        return txns

    # ------------------------------------------------------------------------------------------------------ delivering

    def starts_at(self, sid: int, zxid: int, chain: bytes, recent: list[Batch]) -> None:
        """Note that a process begins with a tree at this position: it has delivered everything up to there.

        `recent` has the newest batches on its disk; those that were not delivered before count as delivered now."""
        for batch in recent:
            if self.end < batch.zxid <= zxid:
                self._extend(f"server {sid}", batch)
        place = self._place_of.get(zxid)
        if place is None:
            raise SafetyError("agreement", f"server {sid} begins at {zxid:#x}, where no delivered batch ends")
        if place and self.chains[place - 1] != chain:
            raise SafetyError("agreement", f"server {sid} begins at {zxid:#x} with a history that was not delivered")
        self._places[sid] = place

    def deliver(self, sid: int, batch: Batch) -> None:
        """Note that a process delivers its next batch."""
        place = self._places[sid]
        if place == len(self.zxids):
            self._extend(f"server {sid}", batch)
        elif (self.zxids[place], self.chains[place]) != (batch.zxid, batch.chain):
            known = self._place_of.get(batch.zxid)
            rule = "agreement" if known is None or self.chains[known - 1] != batch.chain else "total_order"
            reason = f"server {sid} delivers {batch.first:#x}+{batch.count} where {self.zxids[place]:#x} was delivered"
            raise SafetyError(rule, reason)
        self._places[sid] = place + 1

    def _extend(self, who: str, batch: Batch) -> None:
        """Check a batch that is delivered for the first time."""
        known = self.broadcasts.get(batch.zxid)
        if known is None or known.batch.raw != batch.raw:
            raise SafetyError("integrity", f"{who} delivers {batch.first:#x}+{batch.count}, which nobody broadcast")
        end = self.end
        if not follows(end, batch):
            rule = "local_primary_order" if epoch_of(end) == batch.epoch else "global_primary_order"
            raise SafetyError(rule, f"{who} delivers {batch.first:#x}+{batch.count} after {end:#x}")
        if self.chains and not continues(self.chains[-1], batch):
            raise SafetyError("agreement", f"the chain of {batch.first:#x} does not continue that of {end:#x}")
        self._primary_integrity(who, batch)
        self.zxids.append(batch.zxid)
        self.chains.append(batch.chain)
        self._place_of[batch.zxid] = len(self.zxids)
        for txn in known.txns:
            self._requested(txn)
            self.txns[txn.zxid] = txn
            self.model.apply(txn)

    def _requested(self, txn: Txn) -> None:
        """Check that a write in the sequence was requested, is there once, and in the order of its client."""
        opcode = txn.rest[0] if txn.type == -1 else txn.type
        if opcode == -10 or not txn.session or not txn.cxid:
            return
        asked = self._asked.get((txn.session, txn.cxid), [])
        possible = [one for one in asked if one.may_be(txn)]
        if not possible:
            raise SafetyError("integrity", f"{txn} is what nobody asked for; {txn.session:#x} asked {asked}")
        if txn.type == -1:
            return  # a late write of an older connection is refused with SESSIONMOVED
        newest = self._last_number.get(txn.session, 0)
        # The first possible request: later transactions find theirs if there is any assignment at all.
        left = [one for one in possible if one.number > newest]
        meant = next((one for one in left if not self._is_behind_its_sync(one, txn.zxid)), None)
        if meant is None and left:
            raise SafetyError("sync", f"{txn} is done behind a sync that was asked for after it: {left[0]}")
        if meant is None:
            reason = f"{txn} of {txn.session:#x} at {txn.zxid:#x}, after its request number {newest}: {possible}"
            raise SafetyError("order", reason)
        self._last_number[txn.session] = meant.number
        self.requested[txn.zxid] = meant

    def synced(self, sync: Asked, zxid: int) -> None:
        """Note that a sync of a client is done at this zxid: none of its earlier requests may be done later."""
        self._synced[sync.session] = sync.number, zxid
        later = []
        for done_at in reversed(self.requested):
            if self.requested[done_at].session != sync.session:
                continue
            if done_at <= zxid:
                newest = self.requested[done_at].number
                break
            later.append(done_at)
        else:
            newest = 0
        if any(self._is_behind_its_sync(self.requested[done_at], done_at) for done_at in later):
            # Equal requests may have been confused.
            self._last_number[sync.session] = newest
            for done_at in reversed(later):
                self._requested(self.txns[done_at])

    def _is_behind_its_sync(self, asked: Asked, zxid: int) -> bool:
        number, synced_zxid = self._synced.get(asked.session, (0, zxid))
        return asked.number < number and zxid > synced_zxid

    def _primary_integrity(self, who: str, batch: Batch) -> None:
        """Check that no later primary began without this batch."""
        if counter_of(batch.first) == 1 or not self._initial:
            self._initial = {epoch: zxid for epoch, zxid in self._initial.items() if epoch >= batch.epoch}
        for epoch, zxid in self._initial.items():
            if epoch > batch.epoch and zxid < batch.zxid:
                reason = f"{who} delivers {batch.zxid:#x}; the primary of epoch {epoch} began at {zxid:#x}"
                raise SafetyError("primary_integrity", reason)
