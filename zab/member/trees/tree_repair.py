"""Repairs the tree of a member beside its turns, while committed batches wait for it (E6 wrong trees).

    MEND        a quorum has another digest: the tree is made from the member's files, and replaces this one
    REPLAY      the leader asks for the digest by the member's files: if it differs, the new tree also replaces this one
    CATCH_UP    batches that were dropped meanwhile are read from the member's log

If the member's files do not lead to the right tree, it is made from a snapshot of the leader and the member's log:

    TREEWANTED  ->  the leader chooses a snapshot   with each ping, until there is one that was not tried
    TREEOFFERED <-  it is fetched, and the tree made from it is unproven until a quorum has its digest; then the file
                    becomes a snapshot of this member, which its next start uses

Nothing is applied until the tree is made. Batches wait in memory up to `HELD_BYTES_MAX`; beyond that a learner drops
them, since its log has them, and a leader proposes nothing, since its clients wait for applied batches.

Not here: which tree is wrong (`tree_check`, `tree_integrity`), and reading the files (`datatree.recovery.rebuild`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

import attrs

from datatree.log.batch import Batch
from datatree.log.disk import Disk
from datatree.log.transaction_log import TransactionLog
from datatree.log.zxid import Zxid
from datatree.recovery.rebuild import Rebuild
from datatree.snapshot import SnapshotHeader, install_snapshot, tree_fetch_path
from zab.member.requests.applying import Applier
from zab.member.requests.serving import Serving
from zab.member.state.outbox import Outbox
from zab.member.state.peer_driver import PeerDriver
from zab.member.storage.events import FetchFailed, FetchTree, SnapshotFetched
from zab.member.trees.events import KeepSnapshot, RebuildFailed, RebuildTree, TreeEffect, TreeRebuilt
from zab.member.trees.tree_check import TreeCheck
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol.states import LEADING
from zab.quorum.ids import Link, ServerId

HELD_BYTES_MAX: Final = 64 << 20
"""The most bytes of committed batches that wait in memory during a repair."""

_MENDED: Final = "the tree is repaired"


class Purpose(Enum):
    """Why the tree is made again."""

    MEND = "mend"
    REPLAY = "replay"
    CATCH_UP = "catch up"


@attrs.define
class Repair:
    """A repair under way."""

    purpose: Purpose
    effect: RebuildTree
    held_bytes: int = 0
    dropped_to: Zxid = Zxid(0)
    """Committed batches up to this zxid were dropped, since the log has them."""
    is_stuck: bool = False
    """Whether the member's files do not lead to the tree."""
    fetching: FetchTree | None = None
    tried: Zxid = Zxid(0)
    """Snapshots of the leader up to this zxid do not help."""


class TreeRepair:
    """Repairs the tree of one member. Attributes without an underscore may be read."""

    def __init__(
        self,
        driver: PeerDriver,
        outbox: Outbox[TreeEffect],
        applier: Applier,
        serving: Serving,
        check: TreeCheck,
        replayed: Callable[[Zxid, int | None], None],
    ) -> None:
        """`replayed` is called with the digest of the tree that the leader asked for; None if it is not known."""
        self._driver = driver
        self._peer = driver.peer
        self._outbox = outbox
        self._trace = outbox.trace
        self._applier = applier
        self._serving = serving
        self.check = check
        self._told_replayed = replayed
        self.under_way: Repair | None = None
        """The repair under way, if any: nothing is applied meanwhile."""
        self.is_full = False
        """Whether too many batches wait for the tree: then a leader proposes nothing."""
        self._borrowed: SnapshotHeader | None = None
        """The snapshot of the leader that this tree was made from, until a quorum confirms the tree."""

    def drop(self) -> None:
        """End the repair, since the tree was replaced."""
        self._borrowed = None
        self._end()

    def _end(self) -> None:
        self.under_way = None
        self.is_full = False
        self._applier.release()

    def mend(self, zxid: Zxid, digest: int) -> None:
        """Repair this tree, since a quorum has another digest. No client is served until then."""
        self._serving.stop()
        borrowed, self._borrowed = self._borrowed, None
        repair = self._begin(Purpose.MEND, RebuildTree(zxid, digest, Zxid(self._applier.applied)))
        if borrowed is not None:
            repair.tried = Zxid(borrowed.zxid)

    def replay(self, zxid: Zxid) -> None:
        """Make the tree of that position from the member's files, with any digest. A learner serves nobody meanwhile; a
        leader does, since members that forward to it would wait for ever."""
        if self.under_way is not None:
            self._told_replayed(zxid, None)
            return
        if self._peer.state != LEADING:
            self._serving.stop()
        self._begin(Purpose.REPLAY, RebuildTree(zxid, None, Zxid(self._applier.applied)))

    def _begin(self, purpose: Purpose, effect: RebuildTree) -> Repair:
        """Begin a repair. It replaces one that is under way, whose dropped batches still have to be read."""
        before = self.under_way
        if before is None:
            self._applier.deliver_rest()
        self.under_way = repair = Repair(purpose, effect)
        self._applier.hold()
        if before is not None:
            repair.dropped_to = before.dropped_to
        self._outbox.want(effect)
        self.keep_waiting(self._applier.committed)
        return repair

    # ----------------------------------------------------------------------------------------------------- what waits

    def keep_waiting(self, batches: Iterable[Batch]) -> None:
        """Keep these committed batches until the tree is made."""
        repair = self.under_way
        assert repair is not None
        repair.held_bytes += sum(len(batch.raw) for batch in batches)
        if repair.held_bytes > HELD_BYTES_MAX and self._peer.state != LEADING:
            repair.dropped_to = self._applier.committed[-1].zxid
            repair.held_bytes = 0
            self._applier.committed.clear()
        self.is_full = repair.held_bytes > HELD_BYTES_MAX

    # -------------------------------------------------------------------------------------------------------- answers

    def on_rebuilt(self, event: TreeRebuilt) -> None:
        """Handle a tree that was made."""
        repair = self.under_way
        if repair is None or repair.effect is not event.rebuild:
            return
        zxid = event.rebuild.zxid
        if repair.purpose is Purpose.REPLAY:
            self._on_replayed(zxid, event)
            return
        self._go_on(event)
        if repair.purpose is Purpose.CATCH_UP:
            return
        self.check.rebuilt()
        if isinstance(event.rebuild.start, SnapshotHeader):
            self._borrowed = event.rebuild.start
            self.check.unproven(zxid, event.digest)
            self.check.ask_leader()
            self._trace(f"the tree is made from the leader's snapshot {zxid:#x} -> ask whether a quorum has its digest")
        else:
            self._trace(f"the tree is repaired, with the digest of a quorum at {zxid:#x} -> serve clients again")
            self._driver.tell(ev.Doubted(False, _MENDED))

    def _on_replayed(self, zxid: Zxid, event: TreeRebuilt) -> None:
        """Compare the replayed tree with this one. If they differ, this tree is wrong: the files have only what
        happened."""
        own = self._applier.digests.find(zxid)
        if own == event.digest:
            self._go_on()
        else:
            reason = f"this member's files give digest {event.digest:016x} at {zxid:#x}, its tree has {own or 0:016x}"
            self._trace(f"ALARM: {reason} -> continue with the tree of the files")
            self._driver.tell(ev.Doubted(True, reason))
            self._serving.stop()
            self._go_on(event)
            self._driver.tell(ev.Doubted(False, _MENDED))
        self._told_replayed(zxid, event.digest)

    def proven(self) -> None:
        """Note that a quorum has the digest of this tree."""
        borrowed, self._borrowed = self._borrowed, None
        if borrowed is not None:
            self._outbox.want(KeepSnapshot(borrowed))
        if self._peer.is_tree_in_doubt:
            self._driver.tell(ev.Doubted(False, "a quorum has its digest"))

    def on_rebuild_failed(self, event: RebuildFailed) -> None:
        """Handle a repair that failed: no file leads to the tree."""
        repair = self.under_way
        if repair is None or repair.effect is not event.rebuild:
            return
        if repair.purpose is Purpose.CATCH_UP:
            self._serving.halt(f"committed batches cannot be read from this member's log: {event.reason}")
        elif repair.purpose is Purpose.REPLAY:
            self._go_on()
            self._told_replayed(event.rebuild.zxid, None)
        elif isinstance(event.rebuild.start, SnapshotHeader):
            repair.is_stuck = True
            self._trace(f"the leader's snapshot {event.rebuild.zxid:#x} does not help: {event.reason}")
        else:
            repair.is_stuck = True
            self.check.ask_leader()
            self._trace(
                f"ALARM: the tree cannot be repaired from this member's files: {event.reason} -> ask the leader for it"
            )

    def _go_on(self, event: TreeRebuilt | None = None) -> None:
        """Apply batches again, with the new tree or the present one; first those that were dropped."""
        repair = self.under_way
        assert repair is not None
        if event is not None:
            self._applier.take_tree(event.tree, event.rebuild.zxid, event.digest)
        applied = Zxid(self._applier.applied)
        if repair.dropped_to > applied:
            self._begin(Purpose.CATCH_UP, RebuildTree(applied, None, repair.dropped_to, self._applier.tree))
        else:
            self._end()

    # ----------------------------------------------------------------------------------------- the tree of another one

    def ask(self) -> None:
        """Ask the leader for a snapshot, if there is no other way to the tree."""
        repair, link = self.under_way, self._peer.link_to_leader
        if repair is None or not repair.is_stuck or repair.fetching is not None:
            return
        if link is not None and self._peer.serving:
            self._outbox.send(link, mmsg.TreeWanted(repair.tried))

    def _delivered(self, repair: Repair) -> Zxid:
        """The zxid up to which this member's log is known to be committed."""
        return (
            self._applier.committed[-1].zxid
            if self._applier.committed
            else max(Zxid(self._applier.applied), repair.dropped_to)
        )

    def on_offered(self, _link: Link, sid: ServerId, message: mmsg.TreeOffered) -> None:
        """Fetch a snapshot that the leader offers."""
        repair = self.under_way
        if repair is None or not repair.is_stuck or repair.fetching is not None:
            return
        if repair.tried < message.zxid <= self._delivered(repair):
            repair.fetching = FetchTree(sid, message.zxid, message.chain, self._peer.lineage)
            self._outbox.want(repair.fetching)

    def on_fetched(self, event: SnapshotFetched) -> None:
        """Make the tree from the fetched snapshot. Batches that waited are read from the log after it."""
        repair, fetch = self.under_way, event.fetch
        if repair is None or repair.fetching is not fetch or not isinstance(fetch, FetchTree):
            return
        until = repair.dropped_to = self._delivered(repair)
        self._applier.committed.clear()
        self._begin(Purpose.MEND, RebuildTree(fetch.zxid, None, until, fetch.header)).tried = fetch.zxid

    def on_fetch_failed(self, event: FetchFailed) -> None:
        """Ask for a snapshot again."""
        repair = self.under_way
        if repair is not None and repair.fetching is event.fetch:
            repair.fetching = None
            self._trace(f"snapshot {event.fetch.zxid:#x} cannot be fetched: {event.reason}")

    def drop_role(self) -> None:
        """Give up the transfer: the next leader is asked again."""
        if self.under_way is not None:
            self.under_way.fetching = None


# ------------------------------------------------------------------------------------------------------- for the hosts


def begin(effect: RebuildTree, disk: Disk, log: TransactionLog) -> Rebuild:
    """Begin the work of `RebuildTree`, which is done a step at a time beside the turns."""
    return Rebuild(disk, log, effect.zxid, effect.digest, effect.until, effect.start)


def answer(effect: RebuildTree, rebuild: Rebuild) -> TreeRebuilt | RebuildFailed:
    """The answer to `RebuildTree`. Raises OSError if a wrong snapshot cannot be set aside."""
    rebuild.set_refused_aside()
    if rebuild.tree is None:
        return RebuildFailed(effect, "; ".join(rebuild.problems))
    assert rebuild.digest_there is not None
    return TreeRebuilt(effect, rebuild.tree, rebuild.digest_there)


def keep(effect: KeepSnapshot, disk: Disk) -> None:
    """Do the work of `KeepSnapshot`. Raises OSError or SnapshotError if it is not kept, which is harmless."""
    install_snapshot(disk, tree_fetch_path(effect.header.zxid), effect.header)
