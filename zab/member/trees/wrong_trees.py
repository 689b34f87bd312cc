"""What members do about trees that differ (E6 wrong trees): functions on a `Member`, as the phases are on a peer.

`tree_check` has the picture and the rules; this sends its messages, and acts on its verdicts; `tree_repair` has the
tree made anew. A wrong tree does not make a wrong log: whatever happens here, the log goes on, is acknowledged, and is
what the tree is made from again.

A leader whose tree is wrong tells the verdict first, so that the others serve again, and then leaves its role; it is no
candidate until it has its tree. While nobody knows who is right, a leader leaves its role as well if the files of more
voters say something else than its own, or its own lead to no tree: whoever joins takes over the tree of the leader.
"""

from __future__ import annotations

from typing import Protocol

from datatree.log.zxid import Zxid
from zab.member.storage.events import ChooseSnapshot, SnapshotChosen
from zab.member.trees import snapshots, tree_repair
from zab.member.trees.tree_check import Difference, Finding
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.states import LEADING
from zab.quorum.ids import Link, ServerId


class Member(snapshots.Member, Protocol):
    """What is needed of a `zab.member.member.Member`."""

    server_id: ServerId
    compare_later: ev.MemberMessage | None
    choosing: set[Link]


def suspect(member: Member, difference: Difference) -> None:
    """A batch says another digest than this tree had. A leader asks all, a learner its leader."""
    is_known = member.check.is_doubtful
    if not member.check.suspect(difference):
        return
    member.metrics.digest_mismatches_count += 1
    if not is_known:
        member.trace(
            f"ALARM: this tree has digest {difference.own:016x} at {difference.zxid:#x}, a batch says "
            f"{difference.said:016x} -> serve no clients until a quorum says who is right"
        )
    member.stop_serving()
    ask(member)


def ask(member: Member) -> None:
    """Somebody is to find out whether this tree is right, where it is now: what differed may be further back than
    anybody remembers, or be of a tree that was replaced. Asked anew of each leader that is served."""
    if member.check.suspicion is None or not member.peer.serving:
        return
    zxid = Zxid(member.applied)
    if member.peer.state == LEADING:
        compare(member, zxid)
    elif member.peer.link_to_leader is not None:
        member.send(member.peer.link_to_leader, msg.Suspect(zxid, member.digests.at(zxid)))


# --------------------------------------------------------------------------------------------------------- the leader


def compare(member: Member, zxid: Zxid) -> None:
    """Ask every learner for its digest there; or where this tree is now, if that position is not remembered here."""
    if member.digests.find(zxid) is None:
        zxid = Zxid(member.applied)
    if member.check.compare(zxid) is None:
        return
    _ask_learners(member)
    told(member, member.server_id, zxid, member.digests.find(zxid), is_replay=False)


def _ask_learners(member: Member) -> None:
    """Whoever is served by now and was not asked yet."""
    comparison = member.check.comparison
    if comparison is None:
        return
    learners = member.peer.learners
    sids = set(learners.values())
    comparison.asked = {sid: link for sid, link in comparison.asked.items() if sid in sids}
    for link, sid in learners.items():
        if comparison.asked.get(sid) != link:
            comparison.asked[sid] = link
            member.send(link, msg.Compare(comparison.zxid, comparison.is_replay))


def on_ping(member: Member, sid: ServerId, message: msg.Ping) -> None:
    """A learner's digest, with the answer to a ping."""
    own = member.digests.find(message.applied)
    is_known = sid in member.check.mending or member.check.undecided is not None or member.check.comparison is not None
    if own == message.digest:
        member.check.mending.discard(sid)
    elif own is not None and not is_known:
        member.metrics.digest_mismatches_count += 1
        member.trace(
            f"ALARM: server {sid} has digest {message.digest:016x} at {message.applied:#x}, this one has {own:016x}"
        )
        compare(member, Zxid(message.applied))
    if member.check.undecided is not None:
        compare(member, Zxid(member.applied))  # whoever came, or was started again, may decide it
    _ask_learners(member)
    _consider(member)


def on_suspect(member: Member, _link: Link, _sid: ServerId, message: msg.Suspect) -> None:
    """A learner waits to know whether its tree is right."""
    compare(member, message.zxid)


def on_compared(member: Member, _link: Link, sid: ServerId, message: msg.Compared) -> None:
    """A learner's digest, as it was asked for. One that is known to be wrong is no evidence."""
    if message.digest and not message.known:
        member.check.mending.add(sid)
    told(member, sid, message.zxid, message.digest if message.known else None, is_replay=message.replay)


def told(member: Member, sid: ServerId, zxid: Zxid, digest: int | None, *, is_replay: bool) -> None:
    """A member's digest at a batch end: perhaps a quorum agrees now, or nobody is left to be asked."""
    check = member.check
    agreed = check.told(sid, zxid, digest, is_replay=is_replay)
    if agreed is not None:
        member.trace(f"a quorum has digest {agreed:016x} at {zxid:#x}")
        for link in member.peer.learners:
            member.send(link, msg.Verdict(zxid, agreed))
        judge(member, zxid, agreed)
    else:
        _consider(member)


def _consider(member: Member) -> None:
    """Whether nobody is left to be asked, so that a quorum will not agree."""
    comparison = member.check.comparison
    if comparison is not None and comparison.is_answered and member.server_id in comparison.told:
        _on_no_quorum(member)


def _on_no_quorum(member: Member) -> None:
    check = member.check
    comparison = check.comparison
    assert comparison is not None
    if comparison.is_replay:
        check.give_up()
        member.trace(
            f"ALARM: no quorum has one digest, though all have made their trees anew: {comparison} -> writes are "
            "refused; compare the members' files with `zab pipeline verify`, and stop those that are wrong"
        )
        if comparison.is_outnumbered(member.server_id, member.peer.quorum):
            _leave_to_others(member)
    elif check.has_asked_all_to_replay(comparison):
        check.comparison = None  # as before
    else:
        member.trace(f"no quorum has one digest: {comparison} -> all make their trees anew from their own files")
        zxid = check.replay().zxid
        _ask_learners(member)
        tree_repair.replay(member, zxid)


def _leave_to_others(member: Member) -> None:
    """Whoever joins takes over the tree of its leader: the one that is likelier to be right is to be that."""
    if not member.check.is_doubtful:
        member.check.unproven(Zxid(member.applied), member.digests.at(member.applied))
    reason = "the files of more voters say something else than those of this leader"
    member.trace(f"ALARM: {reason} -> leave the lead to others, as long as one of them can")
    member.tell(ev.LeadYielded(reason))


def on_tree_wanted(member: Member, link: Link, _sid: ServerId, message: msg.TreeWanted) -> None:
    """A learner has no file that leads to its tree. It asks again with each ping; choosing may take longer."""
    if not member.check.is_doubtful and link not in member.choosing:
        member.choosing.add(link)
        member.want(ChooseSnapshot(link, message.above))


def on_chosen(member: Member, event: SnapshotChosen) -> None:
    """A snapshot for a learner; or none yet, and then one is taken."""
    member.choosing.discard(event.link)
    if event.link not in member.peer.learners:
        return
    if event.position is None:
        snapshots.take_wanted(member, event.above)
    else:
        member.send(event.link, msg.TreeOffered(*event.position))


# ---------------------------------------------------------------------------------------------------- on every member


def on_compare(member: Member, link: Link, sid: ServerId, message: msg.Compare) -> None:
    """The leader asks for this tree's digest."""
    if member.check.wrong is not None:  # it may wait for its tree for long: the others are not to wait with it
        member.send(link, msg.Compared(message.zxid, member.digests.at(member.applied), False, message.replay))
    elif message.zxid > member.applied:
        member.compare_later = ev.MemberMessage(link, sid, message)
    elif message.replay:
        tree_repair.replay(member, message.zxid)
    else:
        own = member.digests.find(message.zxid)
        member.send(link, msg.Compared(message.zxid, own or 0, own is not None, False))


def compare_now(member: Member) -> None:
    """What the leader asked for may be applied by now."""
    question = member.compare_later
    assert question is not None
    assert isinstance(question.message, msg.Compare)
    if question.message.zxid <= member.applied:
        member.compare_later = None
        on_compare(member, question.link, question.sid, question.message)


def on_verdict(member: Member, _link: Link, _sid: ServerId, message: msg.Verdict) -> None:
    """The leader says which digest a quorum has."""
    judge(member, message.zxid, message.digest)


def judge(member: Member, zxid: Zxid, digest: int) -> None:
    """A quorum of voters has this digest there."""
    was_doubtful = member.check.is_doubtful
    own = member.digests.find(zxid)
    finding = member.check.judge(zxid, own, digest)
    if finding is Finding.WRONG_AGAIN:
        member.halt(f"this tree had another digest than a quorum at {zxid:#x}, was made anew, and has one again")
    elif finding is Finding.WRONG:
        reason = f"this tree is wrong: its digest at {zxid:#x} is {own:016x}, that of a quorum {digest:016x}"
        member.trace(f"ALARM: {reason} -> make it anew from the own files, serve nobody and do not lead until then")
        member.tell(ev.Doubted(True, reason))
        tree_repair.mend(member, zxid, digest)
    elif finding is Finding.RIGHT and was_doubtful and not member.check.is_doubtful:
        member.trace(f"a quorum has the digest of this tree at {zxid:#x} -> serve clients again")
        tree_repair.proven(member)
