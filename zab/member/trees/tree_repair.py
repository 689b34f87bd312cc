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

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import Final, Protocol

import attrs

from datatree.log.batch import Batch
from datatree.log.disk import Disk
from datatree.log.transaction_log import TransactionLog
from datatree.log.zxid import Zxid
from datatree.recovery.rebuild import Rebuild
from datatree.snapshot import SnapshotHeader, install_snapshot, tree_fetch_path
from datatree.tree import DataTree
from zab.member.state.digests import Digests
from zab.member.storage.events import FetchFailed, FetchTree, SnapshotFetched
from zab.member.trees.events import KeepSnapshot, RebuildFailed, RebuildTree, TreeEffect, TreeRebuilt
from zab.member.trees.tree_check import TreeCheck
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.peer import Peer
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


class Member(Protocol):
    """What is needed of a `zab.member.member.Member`."""

    check: TreeCheck
    digests: Digests
    peer: Peer
    applied: int
    repair: Repair | None
    borrowed: SnapshotHeader | None
    asks: bool
    committed: deque[Batch]

    @property
    def tree(self) -> DataTree: ...

    def want(self, effect: TreeEffect) -> None: ...

    def send(self, link: Link, message: msg.Message) -> None: ...

    def trace(self, text: str) -> None: ...

    def tell(self, event: ev.Event) -> None: ...

    def tell_replayed(self, zxid: Zxid, digest: int | None) -> None: ...

    def halt(self, reason: str) -> None: ...

    def stop_serving(self) -> None: ...

    def deliver_rest(self) -> None: ...

    def take_tree(self, tree: DataTree, zxid: Zxid, digest: int) -> None: ...


def mend(member: Member, zxid: Zxid, digest: int) -> None:
    """This tree is wrong: a quorum has that digest there. It is made anew, and nobody is served until then."""
    member.stop_serving()
    borrowed, member.borrowed = member.borrowed, None
    repair = _begin(member, Purpose.MEND, RebuildTree(zxid, digest, Zxid(member.applied)))
    if borrowed is not None:
        repair.tried = Zxid(borrowed.zxid)


def replay(member: Member, zxid: Zxid) -> None:
    """Make the tree of that position from the own files, whatever its digest. A learner serves nobody meanwhile; a
    leader does, since whoever forwards to it would wait for ever."""
    if member.repair is not None:
        member.tell_replayed(zxid, None)
        return
    if member.peer.state != LEADING:
        member.stop_serving()
    _begin(member, Purpose.REPLAY, RebuildTree(zxid, None, Zxid(member.applied)))


def _begin(member: Member, purpose: Purpose, effect: RebuildTree) -> Repair:
    """In place of the repair that is under way, if one is: what that one has dropped is still to be read."""
    before = member.repair
    if before is None:
        member.deliver_rest()
    member.repair = repair = Repair(purpose, effect)
    if before is not None:
        repair.dropped_to = before.dropped_to
    member.want(effect)
    hold(member, member.committed)
    return repair


# --------------------------------------------------------------------------------------------------------- what waits


def hold(member: Member, batches: Iterable[Batch]) -> None:
    """These batches, which are among the committed ones, wait for the tree."""
    repair = member.repair
    assert repair is not None
    repair.held_bytes += sum(len(batch.raw) for batch in batches)
    if repair.held_bytes > HELD_BYTES_MAX and member.peer.state != LEADING:
        repair.dropped_to = member.committed[-1].zxid
        repair.held_bytes = 0
        member.committed.clear()


def has_room(member: Member) -> bool:
    """Whether a leader may propose: no more waits for its tree than may."""
    return member.repair is None or member.repair.held_bytes <= HELD_BYTES_MAX


# ------------------------------------------------------------------------------------------------------------ answers


def on_rebuilt(member: Member, event: TreeRebuilt) -> None:
    """The own files have led to a tree."""
    repair = member.repair
    if repair is None or repair.effect is not event.rebuild:
        return
    zxid = event.rebuild.zxid
    if repair.purpose is Purpose.REPLAY:
        _on_replayed(member, zxid, event)
        return
    _go_on(member, event)
    if repair.purpose is Purpose.CATCH_UP:
        return
    member.check.rebuilt()
    if isinstance(event.rebuild.start, SnapshotHeader):
        member.borrowed = event.rebuild.start
        member.check.unproven(zxid, event.digest)
        member.asks = True
        member.trace(f"the tree is made of the leader's snapshot {zxid:#x} -> ask whether a quorum has its digest")
    else:
        member.trace(f"the tree is made anew, with the digest of a quorum at {zxid:#x} -> serve clients again")
        member.tell(ev.Doubted(False, _MENDED))


def _on_replayed(member: Member, zxid: Zxid, event: TreeRebuilt) -> None:
    """If the own files say something else than this tree, the tree is wrong: they only hold what happened."""
    own = member.digests.find(zxid)
    if own == event.digest:
        _go_on(member)
    else:
        reason = f"the own files give digest {event.digest:016x} at {zxid:#x}, this tree has {own or 0:016x}"
        member.trace(f"ALARM: {reason} -> go on with the tree of the files")
        member.tell(ev.Doubted(True, reason))
        member.stop_serving()
        _go_on(member, event)
        member.tell(ev.Doubted(False, _MENDED))
    member.tell_replayed(zxid, event.digest)


def proven(member: Member) -> None:
    """A quorum has the digest of this tree."""
    borrowed, member.borrowed = member.borrowed, None
    if borrowed is not None:
        member.want(KeepSnapshot(borrowed))
    if member.peer.is_tree_in_doubt:
        member.tell(ev.Doubted(False, "a quorum has its digest"))


def on_rebuild_failed(member: Member, event: RebuildFailed) -> None:
    """No own file leads there."""
    repair = member.repair
    if repair is None or repair.effect is not event.rebuild:
        return
    if repair.purpose is Purpose.CATCH_UP:
        member.halt(f"committed batches cannot be read from the own log: {event.reason}")
    elif repair.purpose is Purpose.REPLAY:
        _go_on(member)
        member.tell_replayed(event.rebuild.zxid, None)
    elif isinstance(event.rebuild.start, SnapshotHeader):
        repair.is_stuck = True
        member.trace(f"the leader's snapshot {event.rebuild.zxid:#x} is of no use: {event.reason}")
    else:
        repair.is_stuck = member.asks = True
        member.trace(f"ALARM: the tree cannot be made anew from the own files: {event.reason} -> ask the leader for it")


def _go_on(member: Member, event: TreeRebuilt | None = None) -> None:
    """With the tree that was made, or the present one; with what was dropped first."""
    repair = member.repair
    assert repair is not None
    if event is not None:
        member.take_tree(event.tree, event.rebuild.zxid, event.digest)
    applied = Zxid(member.applied)
    if repair.dropped_to > applied:
        _begin(member, Purpose.CATCH_UP, RebuildTree(applied, None, repair.dropped_to, member.tree))
    else:
        member.repair = None


# --------------------------------------------------------------------------------------------- the tree of another one


def ask(member: Member) -> None:
    """The leader for a snapshot, if there is no other way to the tree."""
    repair, link = member.repair, member.peer.link_to_leader
    if repair is None or not repair.is_stuck or repair.fetching is not None:
        return
    if link is not None and member.peer.serving:
        member.send(link, msg.TreeWanted(repair.tried))


def _delivered(member: Member, repair: Repair) -> Zxid:
    """Up to where the own log is known to be committed."""
    return member.committed[-1].zxid if member.committed else max(Zxid(member.applied), repair.dropped_to)


def on_offered(member: Member, _link: Link, sid: ServerId, message: msg.TreeOffered) -> None:
    """The leader has a snapshot."""
    repair = member.repair
    if repair is None or not repair.is_stuck or repair.fetching is not None:
        return
    if repair.tried < message.zxid <= _delivered(member, repair):
        repair.fetching = FetchTree(sid, message.zxid, message.chain, member.peer.lineage)
        member.want(repair.fetching)


def on_fetched(member: Member, event: SnapshotFetched) -> None:
    """It is here. All that waited is read from the log behind it."""
    repair, fetch = member.repair, event.fetch
    if repair is None or repair.fetching is not fetch or not isinstance(fetch, FetchTree):
        return
    until = repair.dropped_to = _delivered(member, repair)
    member.committed.clear()
    _begin(member, Purpose.MEND, RebuildTree(fetch.zxid, None, until, fetch.header)).tried = fetch.zxid


def on_fetch_failed(member: Member, event: FetchFailed) -> None:
    """It is asked for again."""
    repair = member.repair
    if repair is not None and repair.fetching is event.fetch:
        repair.fetching = None
        member.trace(f"snapshot {event.fetch.zxid:#x} cannot be fetched: {event.reason}")


def drop_role(member: Member) -> None:
    """Whoever leads next is asked anew."""
    if member.repair is not None:
        member.repair.fetching = None


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
