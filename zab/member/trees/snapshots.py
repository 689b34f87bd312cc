"""When a member takes a snapshot of its tree.

    the log has grown       at the batch that the leader flagged: all members take the same ones (E3 same snapshots)
    a learner needs one     no file of this leader can synchronize it
    the operator asks       with the tree at that time
    one is late             it was due while another one was being written: with the tree at that time

No snapshot is taken of a disputed tree, since recovery would begin with it, nor between two states.

Not here: when a snapshot is due (`snapshot_schedule`), and writing it.
"""

from __future__ import annotations

from datatree.log.batch import Position
from datatree.log.zxid import Zxid
from zab.member.requests.applying import Applier
from zab.member.state.metrics import Metrics
from zab.member.state.outbox import Outbox
from zab.member.state.peer_driver import PeerDriver
from zab.member.storage.events import SnapshotAsked, SnapshotFailed, SnapshotTaken, TakeSnapshot
from zab.member.storage.snapshot_schedule import SnapshotSchedule
from zab.member.trees.tree_repair import TreeRepair
from zab.protocol import events as ev


class Snapshots:
    """Takes the snapshots of one member."""

    def __init__(
        self,
        driver: PeerDriver,
        outbox: Outbox[TakeSnapshot],
        applier: Applier,
        schedule: SnapshotSchedule,
        metrics: Metrics,
        repair: TreeRepair,
    ) -> None:
        self._driver = driver
        self._peer = driver.peer
        self._outbox = outbox
        self._trace = outbox.trace
        self._applier = applier
        self.schedule = schedule
        self._metrics = metrics
        self._repair = repair
        self.check = repair.check

    def take_wanted(self, above: Zxid) -> None:
        """Take a snapshot above that zxid, which a learner needs since no file of this leader can synchronize it."""
        is_writing = self.schedule.writing is not None
        if self._applier.applied > above and not is_writing and self._repair.under_way is None:
            self._trace(f"a learner needs a snapshot above {above:#x}; the tree is at {self._applier.applied:#x}")
            self.take_here()

    def take_of_damaged(self, needed: Zxid) -> None:
        """Take a snapshot since files up to that zxid are damaged (`scrubbing`)."""
        is_writing = self.schedule.writing is not None
        if self._applier.applied >= needed and not is_writing and self._repair.under_way is None:
            self._trace(f"damaged files up to {needed:#x} -> a snapshot of the tree at {self._applier.applied:#x}")
            self.take_here()

    def take_asked(self, _event: SnapshotAsked) -> None:
        """Take a snapshot that the operator asked for, unless one is being written, or the tree is between two
        states."""
        if self.schedule.writing is None and self._repair.under_way is None:
            self.take_here()

    def take(self, position: Position) -> None:
        """Take a snapshot now, or, if one is being written, after it (E3 same snapshots)."""
        if self.check.is_disputed:
            return  # the tree may be wrong, and recovery would begin with it
        if self._peer.is_low:
            self._trace(f"no snapshot is taken at {position[0]:#x}: the disk is nearly full")
            return
        schedule = self.schedule
        was_late = schedule.is_late
        if schedule.begin(position[0]):
            cursor = self._applier.tree.begin_snapshot()
            assert cursor.zxid == position[0]
            self._outbox.want(TakeSnapshot(*position, cursor))
        elif not was_late:
            self._trace(f"the snapshot due at {position[0]:#x} waits: the one at {schedule.writing:#x} is not finished")

    def on_taken(self, event: SnapshotTaken) -> None:
        self._metrics.snap_count += 1
        self._ended()

    def on_failed(self, event: SnapshotFailed) -> None:
        self._metrics.snapshot_error_count += 1
        self._trace(f"snapshot at {event.zxid:#x} was given up: {event.reason}")
        self._ended()

    def on_nothing_to_offer(self, event: ev.NothingToOffer) -> None:
        self._driver.tell(event)
        self.take_wanted(event.above)

    def _ended(self) -> None:
        if self.schedule.ended():
            self.take_here()

    def take_here(self) -> None:
        """Take a snapshot of the current tree. Between two states, the end of the batch takes it if one is late, and
        learners ask again. The chain of a batch is known only while it is in memory: otherwise the next batch takes
        it."""
        chain = self._peer.history.chain_at(Zxid(self._applier.applied))
        if chain is not None and not self._applier.is_between_states:
            self.take((Zxid(self._applier.applied), chain))
