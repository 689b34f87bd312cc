"""What members do about trees that differ (E6 wrong trees).

`tree_check` has the picture and the rules; this sends its messages, and acts on its verdicts; `tree_repair` has the
tree made anew. A wrong tree does not make a wrong log: whatever happens here, the log goes on, is acknowledged, and is
what the tree is made from again.

A leader whose tree is wrong tells the verdict first, so that the others serve again, and then leaves its role; it is no
candidate until it has its tree. While nobody knows who is right, a leader leaves its role as well if the files of more
voters say something else than its own, or its own lead to no tree: whoever joins takes over the tree of the leader.
"""

from __future__ import annotations

from datatree.log.zxid import Zxid
from zab.member.requests.applying import Applier
from zab.member.requests.serving import Serving
from zab.member.state.digests import Difference
from zab.member.state.metrics import Metrics
from zab.member.state.outbox import Outbox
from zab.member.state.peer_driver import PeerDriver
from zab.member.storage.events import ChooseSnapshot, SnapshotChosen
from zab.member.storage.snapshot_schedule import SnapshotSchedule
from zab.member.trees.events import TreeEffect
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
    """The tree of one member beside those of the others. Everything without an underscore may be looked at."""

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
        """The leader's question for the digest at a position that is not applied yet."""
        self._choosing: set[Link] = set()
        """Links of learners for which a snapshot is being chosen, to make a tree of."""

    # ---------------------------------------------------------------------------------------------- told by the turn

    def turn(self) -> None:
        """Ask the leader whose tree is right, should this member have to know; and for a tree, should it need one."""
        if self.check.asks:
            self.check.ask_leader(wanted=False)
            self.ask()
            self.repair.ask()

    @property
    def _digest_now(self) -> int:
        return self._applier.digests.at(self._applier.applied)

    def role_changed(self, *, serving: bool) -> None:
        """Comparisons are one leader's, and the next one is asked again."""
        if not serving:
            self.check.drop_role()
            self.repair.drop_role()
            self.compare_later = None
        self.check.ask_leader(wanted=serving)

    def replaced(self) -> None:
        """Another state has taken the place of this one."""
        self.check.replaced()
        if self._peer.is_tree_in_doubt:
            self._driver.tell(ev.Doubted(False, "another tree has taken its place"))

    def replayed(self, zxid: Zxid, digest: int | None) -> None:
        """Tell the leader what a tree that was made again has there, None if that is not known."""
        if self._peer.state == LEADING:
            self.told(self._server_id, zxid, digest, is_replay=True)
        elif self._peer.serving and self._peer.link_to_leader is not None:
            self._outbox.send(self._peer.link_to_leader, mmsg.Compared(zxid, digest or 0, digest is not None, True))

    def suspect(self, difference: Difference) -> None:
        """A batch says another digest than this tree had. A leader asks all, a learner its leader."""
        is_known = self.check.is_doubtful
        if not self.check.suspect(difference):
            return
        self._metrics.digest_mismatches_count += 1
        if not is_known:
            self._trace(
                f"ALARM: this tree has digest {difference.own:016x} at {difference.zxid:#x}, a batch says "
                f"{difference.said:016x} -> serve no clients until a quorum says who is right"
            )
        self._serving.stop()
        self.ask()

    def ask(self) -> None:
        """Somebody is to find out whether this tree is right, where it is now: what differed may be further back than
        anybody remembers, or be of a tree that was replaced. Asked anew of each leader that is served."""
        if self.check.suspicion is None or not self._peer.serving:
            return
        zxid = Zxid(self._applier.applied)
        if self._peer.state == LEADING:
            self.compare(zxid)
        elif self._peer.link_to_leader is not None:
            self._outbox.send(self._peer.link_to_leader, mmsg.Suspect(zxid, self._applier.digests.at(zxid)))

    # ----------------------------------------------------------------------------------------------------- the leader

    def compare(self, zxid: Zxid) -> None:
        """Ask every learner for its digest there; or where this tree is now, if that position is not remembered."""
        if self._applier.digests.find(zxid) is None:
            zxid = Zxid(self._applier.applied)
        if self.check.compare(zxid) is None:
            return
        self._ask_learners()
        self.told(self._server_id, zxid, self._applier.digests.find(zxid), is_replay=False)

    def _ask_learners(self) -> None:
        """Each learner that is served by now and was not asked yet."""
        comparison = self.check.comparison
        if comparison is None:
            return
        for link in comparison.ask(self._peer.learners):
            self._outbox.send(link, mmsg.Compare(comparison.zxid, comparison.is_replay))

    def on_ping(self, sid: ServerId, message: msg.Ping) -> None:
        """A learner's digest, with the answer to a ping."""
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
            self.compare(Zxid(self._applier.applied))  # whoever came, or was started again, may decide it
        self._ask_learners()
        self._consider()

    def on_suspect(self, _link: Link, _sid: ServerId, message: mmsg.Suspect) -> None:
        """A learner waits to know whether its tree is right."""
        self.compare(message.zxid)

    def on_compared(self, _link: Link, sid: ServerId, message: mmsg.Compared) -> None:
        """A learner's digest, as it was asked for. One that is known to be wrong is no evidence."""
        if message.digest and not message.known:
            self.check.mending.add(sid)
        self.told(sid, message.zxid, message.digest if message.known else None, is_replay=message.replay)

    def told(self, sid: ServerId, zxid: Zxid, digest: int | None, *, is_replay: bool) -> None:
        """A member's digest at a batch end: perhaps a quorum agrees now, or nobody is left to be asked."""
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
        """Whether nobody is left to be asked, so that a quorum will not agree."""
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
                f"ALARM: no quorum has one digest, though all have made their trees anew: {comparison} -> writes are "
                "refused; compare the members' files with `zab pipeline verify`, and stop those that are wrong"
            )
            if comparison.is_outnumbered(self._server_id, self._peer.quorum):
                self._leave_to_others()
        elif check.has_asked_all_to_replay(comparison):
            check.end_comparison()  # as before
        else:
            self._trace(f"no quorum has one digest: {comparison} -> all make their trees anew from their own files")
            zxid = check.replay().zxid
            self._ask_learners()
            self.repair.replay(zxid)

    def _leave_to_others(self) -> None:
        """Whoever joins takes over the tree of its leader: the one that is likelier to be right is to be that."""
        if not self.check.is_doubtful:
            self.check.unproven(Zxid(self._applier.applied), self._applier.digests.at(self._applier.applied))
        reason = "the files of more voters say something else than those of this leader"
        self._trace(f"ALARM: {reason} -> leave the lead to others, as long as one of them can")
        self._driver.tell(ev.LeadYielded(reason))

    def on_tree_wanted(self, link: Link, _sid: ServerId, message: mmsg.TreeWanted) -> None:
        """A learner has no file that leads to its tree. It asks again with each ping; choosing may take longer."""
        if not self.check.is_doubtful and link not in self._choosing:
            self._choosing.add(link)
            self._outbox.want(ChooseSnapshot(link, message.above))

    def on_chosen(self, event: SnapshotChosen) -> None:
        """A snapshot for a learner; or none yet, and then one is taken."""
        self._choosing.discard(event.link)
        if event.link not in self._peer.learners:
            return
        if event.position is None:
            self.snapshots.take_wanted(event.above)
        else:
            self._outbox.send(event.link, mmsg.TreeOffered(*event.position))

    # ------------------------------------------------------------------------------------------------ on every member

    def on_compare(self, link: Link, sid: ServerId, message: mmsg.Compare) -> None:
        """The leader asks for this tree's digest."""
        if self.check.wrong is not None:  # it may wait for its tree for long: the others are not to wait with it
            self._outbox.send(link, mmsg.Compared(message.zxid, self._digest_now, False, message.replay))
        elif message.zxid > self._applier.applied:
            self.compare_later = fx.MemberMessage(link, sid, message)
        elif message.replay:
            self.repair.replay(message.zxid)
        else:
            own = self._applier.digests.find(message.zxid)
            self._outbox.send(link, mmsg.Compared(message.zxid, own or 0, own is not None, False))

    def compare_now(self) -> None:
        """What the leader asked for may be applied by now."""
        question = self.compare_later
        assert question is not None
        assert isinstance(question.message, mmsg.Compare)
        if question.message.zxid <= self._applier.applied:
            self.compare_later = None
            self.on_compare(question.link, question.sid, question.message)

    def on_verdict(self, _link: Link, _sid: ServerId, message: mmsg.Verdict) -> None:
        """The leader says which digest a quorum has."""
        self.judge(message.zxid, message.digest)

    def judge(self, zxid: Zxid, digest: int) -> None:
        """A quorum of voters has this digest there."""
        was_doubtful = self.check.is_doubtful
        own = self._applier.digests.find(zxid)
        finding = self.check.judge(zxid, own, digest)
        if finding is Finding.WRONG_AGAIN:
            self._serving.halt(
                f"this tree had another digest than a quorum at {zxid:#x}, was made anew, and has one again"
            )
        elif finding is Finding.WRONG:
            reason = f"this tree is wrong: its digest at {zxid:#x} is {own:016x}, that of a quorum {digest:016x}"
            self._trace(f"ALARM: {reason} -> make it anew from the own files, serve nobody and do not lead until then")
            self._driver.tell(ev.Doubted(True, reason))
            self.repair.mend(zxid, digest)
        elif finding is Finding.RIGHT and was_doubtful and not self.check.is_doubtful:
            self._trace(f"a quorum has the digest of this tree at {zxid:#x} -> serve clients again")
            self.repair.proven()
