"""A tree that is made anew beside a member's turns, and the committed batches that wait for it (E6 wrong trees).

    MEND        a quorum has another digest: the tree is made from the own files, and takes the place of this one
    REPLAY      the leader asks what the own files say: if they say something else than this tree, the same
    CATCH_UP    what was dropped meanwhile is read from the own log

A tree that the own files do not lead to is made from a snapshot of the leader's and the own log, which stays as it is:

    TREEWANTED  ->  the leader chooses one        with each ping, until there is one that was not tried
    TREEOFFERED <-  it is fetched, and the tree made of it is unproven, until a quorum has its digest; then the file is
                    this member's own snapshot, so that it begins with it after its next start

Nothing is applied until the tree is there. Batches wait in memory up to `HELD_BYTES_MAX`; beyond that a learner drops
them, since its log has them, and a leader proposes nothing, since its clients wait for what is applied.

Not here: whose tree is wrong (`tree_check`, `wrong_trees`), and reading the files (`datatree.recovery.rebuild`).
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
"""Committed batches that wait in memory while a tree is made anew."""

_MENDED: Final = "the tree is made anew"


class Purpose(Enum):
    """See the module."""

    MEND = "mend"
    REPLAY = "replay"
    CATCH_UP = "catch up"


@attrs.define
class Repair:
    """What is made, and what waits for it."""

    purpose: Purpose
    effect: RebuildTree
    held_bytes: int = 0
    dropped_to: Zxid = Zxid(0)
    """Committed batches up to here were dropped: the log has them."""
    is_stuck: bool = False
    """The own files do not lead to the tree."""
    fetching: FetchTree | None = None
    tried: Zxid = Zxid(0)
    """Snapshots of other members up to this one are of no use."""


class TreeRepair:
    """Makes the tree of one member again. Everything without an underscore may be looked at."""

    def __init__(
        self,
        driver: PeerDriver,
        outbox: Outbox[TreeEffect],
        applier: Applier,
        serving: Serving,
        check: TreeCheck,
        replayed: Callable[[Zxid, int | None], None],
    ) -> None:
        """`replayed`: what the tree that the leader asked for has there; None if that is not known."""
        self._driver = driver
        self._peer = driver.peer
        self._outbox = outbox
        self._trace = outbox.trace
        self._applier = applier
        self._serving = serving
        self.check = check
        self._told_replayed = replayed
        self.under_way: Repair | None = None
        """The tree is being made again: nothing is applied meanwhile."""
        self.is_full = False
        """More waits for the tree than may: a leader proposes nothing."""
        self._borrowed: SnapshotHeader | None = None
        """The snapshot of another member that this tree was made of, until a quorum says that it is right."""

    def drop(self) -> None:
        """Another tree takes the place of this one: there is nothing to repair."""
        self._borrowed = None
        self._end()

    def _end(self) -> None:
        self.under_way = None
        self.is_full = False
        self._applier.release()

    def mend(self, zxid: Zxid, digest: int) -> None:
        """This tree is wrong: a quorum has that digest there. It is made anew, and nobody is served until then."""
        self._serving.stop()
        borrowed, self._borrowed = self._borrowed, None
        repair = self._begin(Purpose.MEND, RebuildTree(zxid, digest, Zxid(self._applier.applied)))
        if borrowed is not None:
            repair.tried = Zxid(borrowed.zxid)

    def replay(self, zxid: Zxid) -> None:
        """Make the tree of that position from the own files, whatever its digest. A learner serves nobody meanwhile; a
        leader does, since whoever forwards to it would wait for ever."""
        if self.under_way is not None:
            self._told_replayed(zxid, None)
            return
        if self._peer.state != LEADING:
            self._serving.stop()
        self._begin(Purpose.REPLAY, RebuildTree(zxid, None, Zxid(self._applier.applied)))

    def _begin(self, purpose: Purpose, effect: RebuildTree) -> Repair:
        """In place of the repair that is under way, if one is: what that one has dropped is still to be read."""
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
        """These batches, which are among the committed ones, wait for the tree."""
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
        """The own files have led to a tree."""
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
            self._trace(f"the tree is made of the leader's snapshot {zxid:#x} -> ask whether a quorum has its digest")
        else:
            self._trace(f"the tree is made anew, with the digest of a quorum at {zxid:#x} -> serve clients again")
            self._driver.tell(ev.Doubted(False, _MENDED))

    def _on_replayed(self, zxid: Zxid, event: TreeRebuilt) -> None:
        """If the own files say something else than this tree, the tree is wrong: they only hold what happened."""
        own = self._applier.digests.find(zxid)
        if own == event.digest:
            self._go_on()
        else:
            reason = f"the own files give digest {event.digest:016x} at {zxid:#x}, this tree has {own or 0:016x}"
            self._trace(f"ALARM: {reason} -> go on with the tree of the files")
            self._driver.tell(ev.Doubted(True, reason))
            self._serving.stop()
            self._go_on(event)
            self._driver.tell(ev.Doubted(False, _MENDED))
        self._told_replayed(zxid, event.digest)

    def proven(self) -> None:
        """A quorum has the digest of this tree."""
        borrowed, self._borrowed = self._borrowed, None
        if borrowed is not None:
            self._outbox.want(KeepSnapshot(borrowed))
        if self._peer.is_tree_in_doubt:
            self._driver.tell(ev.Doubted(False, "a quorum has its digest"))

    def on_rebuild_failed(self, event: RebuildFailed) -> None:
        """No own file leads there."""
        repair = self.under_way
        if repair is None or repair.effect is not event.rebuild:
            return
        if repair.purpose is Purpose.CATCH_UP:
            self._serving.halt(f"committed batches cannot be read from the own log: {event.reason}")
        elif repair.purpose is Purpose.REPLAY:
            self._go_on()
            self._told_replayed(event.rebuild.zxid, None)
        elif isinstance(event.rebuild.start, SnapshotHeader):
            repair.is_stuck = True
            self._trace(f"the leader's snapshot {event.rebuild.zxid:#x} is of no use: {event.reason}")
        else:
            repair.is_stuck = True
            self.check.ask_leader()
            self._trace(
                f"ALARM: the tree cannot be made anew from the own files: {event.reason} -> ask the leader for it"
            )

    def _go_on(self, event: TreeRebuilt | None = None) -> None:
        """With the tree that was made, or the present one; with what was dropped first."""
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
        """The leader for a snapshot, if there is no other way to the tree."""
        repair, link = self.under_way, self._peer.link_to_leader
        if repair is None or not repair.is_stuck or repair.fetching is not None:
            return
        if link is not None and self._peer.serving:
            self._outbox.send(link, mmsg.TreeWanted(repair.tried))

    def _delivered(self, repair: Repair) -> Zxid:
        """Up to where the own log is known to be committed."""
        return (
            self._applier.committed[-1].zxid
            if self._applier.committed
            else max(Zxid(self._applier.applied), repair.dropped_to)
        )

    def on_offered(self, _link: Link, sid: ServerId, message: mmsg.TreeOffered) -> None:
        """The leader has a snapshot."""
        repair = self.under_way
        if repair is None or not repair.is_stuck or repair.fetching is not None:
            return
        if repair.tried < message.zxid <= self._delivered(repair):
            repair.fetching = FetchTree(sid, message.zxid, message.chain, self._peer.lineage)
            self._outbox.want(repair.fetching)

    def on_fetched(self, event: SnapshotFetched) -> None:
        """It is here. All that waited is read from the log behind it."""
        repair, fetch = self.under_way, event.fetch
        if repair is None or repair.fetching is not fetch or not isinstance(fetch, FetchTree):
            return
        until = repair.dropped_to = self._delivered(repair)
        self._applier.committed.clear()
        self._begin(Purpose.MEND, RebuildTree(fetch.zxid, None, until, fetch.header)).tried = fetch.zxid

    def on_fetch_failed(self, event: FetchFailed) -> None:
        """It is asked for again."""
        repair = self.under_way
        if repair is not None and repair.fetching is event.fetch:
            repair.fetching = None
            self._trace(f"snapshot {event.fetch.zxid:#x} cannot be fetched: {event.reason}")

    def drop_role(self) -> None:
        """The next leader is asked again."""
        if self.under_way is not None:
            self.under_way.fetching = None


# ------------------------------------------------------------------------------------------------------- for the hosts


def begin(effect: RebuildTree, disk: Disk, log: TransactionLog) -> Rebuild:
    """The work of `RebuildTree`, to be done a step at a time beside the turns."""
    return Rebuild(disk, log, effect.zxid, effect.digest, effect.until, effect.start)


def answer(effect: RebuildTree, rebuild: Rebuild) -> TreeRebuilt | RebuildFailed:
    """What it has come to. Raises OSError when a wrong snapshot cannot be set aside."""
    rebuild.set_refused_aside()
    if rebuild.tree is None:
        return RebuildFailed(effect, "; ".join(rebuild.problems))
    assert rebuild.digest_there is not None
    return TreeRebuilt(effect, rebuild.tree, rebuild.digest_there)


def keep(effect: KeepSnapshot, disk: Disk) -> None:
    """The work of `KeepSnapshot`. Raises OSError or SnapshotError: it is not kept, which harms nobody."""
    install_snapshot(disk, tree_fetch_path(effect.header.zxid), effect.header)
