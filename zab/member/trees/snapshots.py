"""When a member takes a snapshot of its tree: functions on a `Member`.

    the log has grown       with the batch that the leader marked: all members take the same ones (E3 same snapshots)
    a learner needs one     no file of this leader helps it
    the operator asks       of the tree as it is then
    one is late             it was due while the one before was being written: of the tree as it is then

None is taken of a tree that is disputed, since recovery would begin with it, and none between two states.

Not here: how many transactions or bytes make one due (`snapshot_schedule`), and writing it.
"""

from __future__ import annotations

from typing import Protocol

from datatree.log.batch import Position
from datatree.log.zxid import Zxid
from zab.member.requests.processor import Processor
from zab.member.state.metrics import Metrics
from zab.member.storage.events import SnapshotAsked, SnapshotFailed, SnapshotTaken, TakeSnapshot
from zab.member.trees import tree_repair
from zab.protocol import events as ev


class Member(tree_repair.Member, Protocol):
    """What is needed of a `zab.member.member.Member`."""

    metrics: Metrics
    processor: Processor

    @property
    def is_between_states(self) -> bool: ...


def take_wanted(member: Member, above: Zxid) -> None:
    """A learner can be helped by no file of this leader, only by a snapshot above that zxid."""
    is_writing = member.processor.schedule.writing is not None
    if member.applied > above and not is_writing and member.repair is None:
        member.trace(f"a learner needs a snapshot above {above:#x}; the tree is at {member.applied:#x}")
        take_here(member)


def take_asked(member: Member, _event: SnapshotAsked) -> None:
    """The operator asks for one. Where one is being written, or the tree is between two states, he asks again."""
    if member.processor.schedule.writing is None and member.repair is None:
        take_here(member)


def take(member: Member, position: Position) -> None:
    """Take it now; or, of the tree as it is then, when the one that is being written ends (E3 same snapshots)."""
    if member.check.is_disputed:
        return  # it may be wrong, and recovery would begin with it
    if member.peer.is_low:
        member.trace(f"no snapshot is taken at {position[0]:#x}: the disk is nearly full")
        return
    schedule = member.processor.schedule
    was_late = schedule.is_late
    if schedule.begin(position[0]):
        cursor = member.tree.begin_snapshot()
        assert cursor.zxid == position[0]
        member.want(TakeSnapshot(*position, cursor))
    elif not was_late:
        member.trace(f"the snapshot due at {position[0]:#x} waits: the one at {schedule.writing:#x} is not finished")


def on_taken(member: Member, event: SnapshotTaken) -> None:
    member.metrics.snap_count += 1
    _ended(member)


def on_failed(member: Member, event: SnapshotFailed) -> None:
    member.metrics.snapshot_error_count += 1
    member.trace(f"snapshot at {event.zxid:#x} was given up: {event.reason}")
    _ended(member)


def on_nothing_to_offer(member: Member, event: ev.NothingToOffer) -> None:
    member.tell(event)
    take_wanted(member, event.above)


def _ended(member: Member) -> None:
    if member.processor.schedule.ended():
        take_here(member)


def take_here(member: Member) -> None:
    """Where the tree is now. Between two states the end of the batch takes it, if one is late; a learner asks again.
    Once a batch is left to the log files, its chain is not known any more: then the next one tells it."""
    chain = member.peer.history.chain_at(Zxid(member.applied))
    if chain is not None and not member.is_between_states:
        take(member, (Zxid(member.applied), chain))
