"""Handles trees that differ between members (E6 wrong trees).

`tree_check` has the rules; this module sends its messages and acts on its verdicts; `tree_repair` repairs the tree. A
wrong tree does not mean a wrong log: the log always continues, is acknowledged, and is used to make the tree again.

A leader whose tree is wrong sends the verdict first, so that the others serve again, and then leaves its role; it is no
candidate until its tree is repaired. While nobody knows which tree is right, a leader also leaves its role if the files
of more voters give a different digest from its own, or its own lead to no tree: a joining member takes over the tree of
its leader.
"""

from __future__ import annotations

from datatree.log.zxid import Zxid
from zab.member.requests.applying import Applier
from zab.member.requests.serving import Serving
from zab.member.state.digests import Difference
from zab.member.state.handlers import Handlers, handler
from zab.member.state.metrics import Metrics
from zab.member.state.outbox import Outbox
from zab.member.state.peer_driver import PeerDriver
from zab.member.storage.events import (
    ChooseSnapshot,
    DamageFound,
    FetchFailed,
    SnapshotAsked,
    SnapshotChosen,
    SnapshotFailed,
    SnapshotFetched,
    SnapshotTaken,
)
from zab.member.storage.snapshot_schedule import SnapshotSchedule
from zab.member.trees import scrubbing
from zab.member.trees.events import RebuildFailed, TreeEffect, TreeRebuilt
from zab.member.trees.snapshots import Snapshots
from zab.member.trees.tree_check import Finding, TreeCheck
from zab.member.trees.tree_repair import TreeRepair
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.protocol.states import LEADING
from zab.quorum.ids import Link, ServerId


class TreeIntegrity:
    """Compares the tree of one member with those of the others. Attributes without an underscore may be read."""

    def __init__(
        self,
        driver: PeerDriver,
        outbox: Outbox[TreeEffect],
        applier: Applier,
        serving: Serving,
        schedule: SnapshotSchedule,
        metrics: Metrics,
    ) -> None:
        self._driver = driver
        self._peer = driver.peer
        self._server_id = driver.peer.settings.sid
        self._outbox = outbox
        self._trace = outbox.trace
        self._applier = applier
        self._serving = serving
        self._metrics = metrics
        self.check = TreeCheck(driver.peer.quorum)
        self.repair = TreeRepair(driver, outbox, applier, serving, self.check, self.replayed)
        self.snapshots = Snapshots(driver, outbox, applier, schedule, metrics, self.repair)
        self.compare_later: fx.MemberMessage | None = None
        """The leader's question about a position that is not applied yet."""
        self._choosing: set[Link] = set()
        """Links of learners for which a snapshot is being chosen."""

    @property
    def handlers(self) -> Handlers:
        """The handlers of what tasks and the storage answer about trees and snapshots."""
        snapshots, repair = self.snapshots, self.repair
        return dict(
            (
                handler(SnapshotTaken, snapshots.on_taken),
                handler(SnapshotFailed, snapshots.on_failed),
                handler(SnapshotAsked, snapshots.take_asked),
                handler(ev.NothingToOffer, snapshots.on_nothing_to_offer),
                handler(DamageFound, lambda event: scrubbing.on_damage_found(snapshots, self._metrics, event)),
                handler(TreeRebuilt, repair.on_rebuilt),
                handler(RebuildFailed, repair.on_rebuild_failed),
                handler(SnapshotFetched, repair.on_fetched),
                handler(FetchFailed, repair.on_fetch_failed),
                handler(SnapshotChosen, self.on_chosen),
            )
        )

    # ---------------------------------------------------------------------------------------------- told by the turn

    def turn(self) -> None:
        """Ask the leader which tree is right, and for a tree, if this member needs to."""
        if self.check.asks:
            self.check.ask_leader(wanted=False)
            self.ask()
            self.repair.ask()

    @property
    def _digest_now(self) -> int:
        return self._applier.digests.at(self._applier.applied)

    def role_changed(self, *, serving: bool) -> None:
        """Drop comparisons, which belong to one leader, and ask the next leader again."""
        if not serving:
            self.check.drop_role()
            self.repair.drop_role()
            self.compare_later = None
        self.check.ask_leader(wanted=serving)

    def replaced(self) -> None:
        """Forget what was known about the tree, since it was replaced."""
        self.check.replaced()
        if self._peer.is_tree_in_doubt:
            self._driver.tell(ev.Doubted(False, "it was replaced"))

    def replayed(self, zxid: Zxid, digest: int | None) -> None:
        """Tell the leader the digest of a replayed tree; None if it is not known."""
        if self._peer.state == LEADING:
            self.told(self._server_id, zxid, digest, is_replay=True)
        elif self._peer.serving and self._peer.link_to_leader is not None:
            self._outbox.send(self._peer.link_to_leader, mmsg.Compared(zxid, digest or 0, digest is not None, True))

    def suspect(self, difference: Difference) -> None:
        """Handle a batch with a digest that differs from this tree's. A leader asks all, a learner its leader."""
        is_known = self.check.is_doubtful
        if not self.check.suspect(difference):
            return
        self._metrics.digest_mismatches_count += 1
        if not is_known:
            self._trace(
                f"ALARM: this tree has digest {difference.own:016x} at {difference.zxid:#x}, a batch has "
                f"{difference.said:016x} -> serve no clients until a quorum says which is right"
            )
        self._serving.stop()
        self.ask()

    def ask(self) -> None:
        """Have the leader find out whether this tree is right at its current position: the difference may be further
        back than members remember, or concern a tree that was replaced. Each new leader is asked again."""
        if self.check.suspicion is None or not self._peer.serving:
            return
        zxid = Zxid(self._applier.applied)
        if self._peer.state == LEADING:
            self.compare(zxid)
        elif self._peer.link_to_leader is not None:
            self._outbox.send(self._peer.link_to_leader, mmsg.Suspect(zxid, self._applier.digests.at(zxid)))

    # ----------------------------------------------------------------------------------------------------- the leader

    def compare(self, zxid: Zxid) -> None:
        """Ask every learner for its digest there, or at this tree's current position if that one is not remembered."""
        if self._applier.digests.find(zxid) is None:
            zxid = Zxid(self._applier.applied)
        if self.check.compare(zxid) is None:
            return
        self._ask_learners()
        self.told(self._server_id, zxid, self._applier.digests.find(zxid), is_replay=False)

    def _ask_learners(self) -> None:
        """Ask each synchronized learner that was not asked yet."""
        comparison = self.check.comparison
        if comparison is None:
            return
        for link in comparison.ask(self._peer.learners):
            self._outbox.send(link, mmsg.Compare(comparison.zxid, comparison.is_replay))

    def on_ping(self, sid: ServerId, message: msg.Ping) -> None:
        """Compare the digest in a learner's answer to a ping."""
        own = self._applier.digests.find(message.applied)
        is_known = sid in self.check.mending or self.check.undecided is not None or self.check.comparison is not None
        if own == message.digest:
            self.check.mending.discard(sid)
        elif own is not None and not is_known:
            self._metrics.digest_mismatches_count += 1
            self._trace(
                f"ALARM: server {sid} has digest {message.digest:016x} at {message.applied:#x}, this one has {own:016x}"
            )
            self.compare(Zxid(message.applied))
        if self.check.undecided is not None:
            self.compare(Zxid(self._applier.applied))  # a member that joined, or restarted, may decide it
        self._ask_learners()
        self._consider()

    def on_suspect(self, _link: Link, _sid: ServerId, message: mmsg.Suspect) -> None:
        """Begin a comparison for a learner that asks whether its tree is right."""
        self.compare(message.zxid)

    def on_compared(self, _link: Link, sid: ServerId, message: mmsg.Compared) -> None:
        """Take a learner's digest. The digest of a tree that is known to be wrong is no evidence."""
        if message.digest and not message.known:
            self.check.mending.add(sid)
        self.told(sid, message.zxid, message.digest if message.known else None, is_replay=message.replay)

    def told(self, sid: ServerId, zxid: Zxid, digest: int | None, *, is_replay: bool) -> None:
        """Take a member's digest at a batch end: now a quorum may agree, or nobody may be left to ask."""
        check = self.check
        agreed = check.told(sid, zxid, digest, is_replay=is_replay)
        if agreed is not None:
            self._trace(f"a quorum has digest {agreed:016x} at {zxid:#x}")
            for link in self._peer.learners:
                self._outbox.send(link, mmsg.Verdict(zxid, agreed))
            self.judge(zxid, agreed)
        else:
            self._consider()

    def _consider(self) -> None:
        """End the comparison if all have answered and no quorum agrees."""
        comparison = self.check.comparison
        if comparison is not None and comparison.is_answered and self._server_id in comparison.told:
            self._on_no_quorum()

    def _on_no_quorum(self) -> None:
        check = self.check
        comparison = check.comparison
        assert comparison is not None
        if comparison.is_replay:
            check.give_up()
            self._trace(
                f"ALARM: no quorum has one digest, though all have made their trees again: {comparison} -> writes are "
                "refused; compare the members' files with `zab pipeline verify`, and stop those that are wrong"
            )
            if comparison.is_outnumbered(self._server_id, self._peer.quorum):
                self._leave_to_others()
        elif check.has_asked_all_to_replay(comparison):
            check.end_comparison()  # as before
        else:
            self._trace(f"no quorum has one digest: {comparison} -> all make their trees again from their own files")
            zxid = check.replay().zxid
            self._ask_learners()
            self.repair.replay(zxid)

    def _leave_to_others(self) -> None:
        """Leave the lead, so that a member whose tree is more likely to be right leads: a joining member takes over the
        tree of its leader."""
        if not self.check.is_doubtful:
            self.check.unproven(Zxid(self._applier.applied), self._applier.digests.at(self._applier.applied))
        reason = "the files of more voters give a different digest from this leader's"
        self._trace(f"ALARM: {reason} -> leave the lead to others, while one of them can take it")
        self._driver.tell(ev.LeadYielded(reason))

    def on_tree_wanted(self, link: Link, _sid: ServerId, message: mmsg.TreeWanted) -> None:
        """Choose a snapshot for a learner whose files do not lead to its tree. It asks again with each ping; choosing
        may take longer."""
        if not self.check.is_doubtful and link not in self._choosing:
            self._choosing.add(link)
            self._outbox.want(ChooseSnapshot(link, message.above))

    def on_chosen(self, event: SnapshotChosen) -> None:
        """Offer a snapshot to a learner, or take one if there is none yet."""
        self._choosing.discard(event.link)
        if event.link not in self._peer.learners:
            return
        if event.position is None:
            self.snapshots.take_wanted(event.above)
        else:
            self._outbox.send(event.link, mmsg.TreeOffered(*event.position))

    # ------------------------------------------------------------------------------------------------ on every member

    def on_compare(self, link: Link, sid: ServerId, message: mmsg.Compare) -> None:
        """Answer the leader's question for this tree's digest."""
        if self.check.wrong is not None:  # the repair may take long: the others should not wait for it
            self._outbox.send(link, mmsg.Compared(message.zxid, self._digest_now, False, message.replay))
        elif message.zxid > self._applier.applied:
            self.compare_later = fx.MemberMessage(link, sid, message)
        elif message.replay:
            self.repair.replay(message.zxid)
        else:
            own = self._applier.digests.find(message.zxid)
            self._outbox.send(link, mmsg.Compared(message.zxid, own or 0, own is not None, False))

    def compare_now(self) -> None:
        """Answer the leader's question if the position is applied now."""
        question = self.compare_later
        assert question is not None
        assert isinstance(question.message, mmsg.Compare)
        if question.message.zxid <= self._applier.applied:
            self.compare_later = None
            self.on_compare(question.link, question.sid, question.message)

    def on_verdict(self, _link: Link, _sid: ServerId, message: mmsg.Verdict) -> None:
        """Take the leader's verdict: the digest that a quorum has."""
        self.judge(message.zxid, message.digest)

    def judge(self, zxid: Zxid, digest: int) -> None:
        """Judge this tree by the digest of a quorum of voters."""
        was_doubtful = self.check.is_doubtful
        own = self._applier.digests.find(zxid)
        finding = self.check.judge(zxid, own, digest)
        if finding is Finding.WRONG_AGAIN:
            self._serving.halt(f"this tree differed from a quorum's at {zxid:#x}, was repaired, and differs again")
        elif finding is Finding.WRONG:
            reason = f"this tree is wrong: its digest at {zxid:#x} is {own:016x}, that of a quorum {digest:016x}"
            self._trace(f"ALARM: {reason} -> repair it from its files, serve nobody and do not lead until then")
            self._driver.tell(ev.Doubted(True, reason))
            self.repair.mend(zxid, digest)
        elif finding is Finding.RIGHT and was_doubtful and not self.check.is_doubtful:
            self._trace(f"a quorum has the digest of this tree at {zxid:#x} -> serve clients again")
            self.repair.proven()
