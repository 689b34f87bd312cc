"""The servers that a peer hears, remains of a former role, and messages out of place: a peer alone."""

from __future__ import annotations

import attrs
import pytest

from datatree.log.zxid import Epoch, Zxid, make_zxid
from tests.protocol.alone import (
    FIRST,
    HISTORY,
    LAST,
    LEADERS_LINK,
    LINEAGE,
    Alone,
    Follower,
    Leader,
    nothing_held,
    restored,
)
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.protocol.discovery import REDIAL_MS
from zab.protocol.roles import Stage
from zab.protocol.states import BATCHES, BEGINNING, FOLLOWING, FOUNDER, LEADING, LOOKING, NOTHING
from zab.quorum.ids import Link, ServerId

SNAPSHOT = make_zxid(1, 9)

# ----------------------------------------------------------------------------------------------------- unlisted servers


def test_a_server_outside_of_the_configuration_is_no_learner() -> None:
    leader = Leader()
    for sid in (9, leader.sid):
        leader.forget()
        leader.tell(ev.QuorumLinkUp(Link(90), ServerId(sid), inbound=True))
        assert [effect.link for effect in leader.did(fx.CloseLink)] == [90]
    assert leader.leading.handlers == {}


def test_a_server_outside_of_the_configuration_is_not_heard_in_an_election() -> None:
    """Nor what it says of a history: any unlisted server could take the marker of a first start away."""
    marked = Alone(1, nothing_held(NOTHING, marked=True), 3)
    marked.forget()
    for sid in (9, 1):
        marked.vote(sid, 3, holds=BATCHES)
    assert marked.peer.marked
    assert marked.peer.election.heard == set()
    assert not marked.did(fx.SendNotification)


def test_a_server_that_is_neither_voter_nor_observer_follows() -> None:
    """As ZooKeeper's does that is not in its own configuration: it serves, and counts nowhere."""
    alone = Alone(4, restored(), 3)
    for sid in (1, 2):
        alone.vote(sid, 3, FOLLOWING)
    alone.vote(3, 3, LEADING)
    assert alone.peer.state is FOLLOWING


@pytest.mark.parametrize("link", [LEADERS_LINK - 1, LEADERS_LINK + 1])
def test_only_the_leader_is_heard_on_a_quorum_link(link: int) -> None:
    follower = Follower()
    follower.hear(link, msg.Refused("another server says so"))
    assert not follower.has_left


def test_who_cannot_be_dialled_is_of_interest_if_it_is_the_leader() -> None:
    follower = Follower(voters=5)
    follower.tell(ev.QuorumLinkDown(LEADERS_LINK))
    following = follower.peer.following
    assert following is not None
    follower.wait(REDIAL_MS)
    assert following.redial_at is None
    for sid in (2, 5):
        follower.tell(ev.DialFailed(ServerId(sid)))
        assert following.redial_at is None
    follower.tell(ev.DialFailed(ServerId(3)))
    assert following.redial_at is not None


ANSWERS = (
    ev.LogRead(Link(77), None, []),
    ev.SnapshotOffered(Link(77), LAST, bytes(16)),
    ev.NothingToOffer(Link(77), LAST),
    ev.SnapshotWithdrawn(Link(77), LAST),
)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
@pytest.mark.parametrize("role", [Follower, Leader])
def test_what_was_read_for_a_link_that_is_gone_is_of_no_interest(role: type[Alone], answer: ev.Event) -> None:
    alone = role()
    alone.forget()
    alone.tell(answer)
    assert alone.effects == []


# --------------------------------------------------------------------------------------------- halted, and former roles


def test_a_member_that_has_halted_does_nothing_more() -> None:
    follower = Follower(restored(mark=LAST))
    follower.accept()
    follower.from_leader(msg.Snap(Zxid(LAST - 1), bytes(16), False))
    assert follower.did(fx.Halt)
    follower.forget()
    follower.wait(60_000)
    follower.vote(2, 2)
    follower.from_leader(msg.Ping(0, 0, 0, [], False))
    assert follower.effects == []
    assert follower.peer.next_deadline() is None


def test_c3_a_member_record_that_a_former_role_wrote_is_acknowledged_to_nobody() -> None:
    follower = Follower(nothing_held(FOUNDER))
    follower.from_leader(msg.LeaderInfo(Epoch(1), LINEAGE))
    follower.saved()
    follower.from_leader(msg.Diff(Zxid(0)), msg.NewLeader(Epoch(1), Zxid(0), True))
    follower.saved()
    (record,) = follower.did(fx.SaveMember)
    follower.tell(ev.QuorumLinkDown(LEADERS_LINK))
    follower.drained()
    follower.elect()
    follower.forget()
    follower.tell(ev.MemberSaved(record.generation))
    assert not follower.sent(msg.Ack)
    assert not follower.peer.amnesiac, "the fact holds"


def test_c3_a_snapshot_that_a_former_role_fetched_is_acknowledged_to_nobody() -> None:
    follower = Follower()
    follower.accept()
    follower.from_leader(msg.Snap(SNAPSHOT, bytes(16), False))
    (fetch,) = follower.did(fx.FetchSnapshot)
    follower.tell(ev.QuorumLinkDown(LEADERS_LINK))
    follower.drained()
    follower.elect()
    follower.forget()
    follower.tell(ev.SnapshotInstalled(fetch.generation, SNAPSHOT, bytes(16), recorded=True))
    assert not follower.sent(msg.Installed)
    assert follower.peer.history.last[0] == SNAPSHOT, "the fact holds"


def test_votes_that_come_while_the_log_is_drained_count_when_it_is() -> None:
    follower = Follower()
    follower.serve()
    follower.tell(ev.QuorumLinkDown(LEADERS_LINK))
    assert follower.peer.draining
    follower.vote(2, 2, round=follower.peer.election.round + 1)
    follower.drained()
    assert 2 in follower.peer.election.received


def test_a_unlisted_server_is_not_answered_for_what_it_said_while_the_log_was_drained() -> None:
    """Such votes are kept until then, and only the servers of the configuration are few."""
    follower = Follower(takes_unlisted=True)
    follower.serve()
    follower.tell(ev.QuorumLinkDown(LEADERS_LINK))
    assert follower.peer.draining
    follower.vote(9, 9)
    follower.forget()
    follower.drained()
    assert {effect.sid for effect in follower.did(fx.SendNotification)} == {2, 3}
    follower.vote(9, 9)
    assert follower.did(fx.SendNotification)[-1].sid == 9, "it is answered when it asks again"


def test_h4_who_gives_its_role_up_holds_no_snapshot_for_its_learners() -> None:
    leader = Leader(attrs.evolve(restored([HISTORY[1]], mark=LAST), base=(FIRST, HISTORY[0].chain)))
    for sid in (1, 2):
        leader.dial(sid)
    leader.saved()
    leader.accept(2)
    leader.accept(1, zxid=0)
    leader.saved()
    leader.tell(ev.LogRead(Link(10), None, []))
    assert [effect.link for effect in leader.did(fx.OfferSnapshot)] == [10]
    leader.tell(ev.Doubted(True, "its tree is wrong"))
    assert leader.peer.state is LOOKING
    assert [effect.link for effect in leader.did(fx.ReleaseSnapshot)] == [10]


# --------------------------------------------------------------------------------------------------------- out of place


def test_a_batch_that_is_no_batch_ends_the_link() -> None:
    follower = Follower()
    follower.accept()
    follower.from_leader(msg.Diff(LAST), msg.Proposal([bytes(100)]))
    assert follower.has_left
    assert follower.said("damaged batch")


@pytest.mark.parametrize(
    "message",
    [msg.Proposal([HISTORY[0].raw]), msg.NewLeader(Epoch(2), LAST, False)],
    ids=lambda message: type(message).__name__,
)
def test_nothing_comes_behind_a_snapshot_before_it_is_installed(message: msg.Message) -> None:
    follower = Follower()
    follower.accept()
    follower.from_leader(msg.Snap(SNAPSHOT, bytes(16), False))
    assert not follower.has_left
    follower.from_leader(message)
    assert follower.has_left


@pytest.mark.parametrize("acknowledged", [False, True])
def test_a_second_newleader_ends_the_link(acknowledged: bool) -> None:
    follower = Follower()
    follower.accept()
    newleader = msg.NewLeader(Epoch(2), LAST, False)
    follower.from_leader(msg.Diff(LAST), newleader)
    if acknowledged:
        follower.saved()
    assert not follower.has_left
    follower.from_leader(newleader)
    assert follower.has_left


def test_a_request_before_uptodate_ends_its_link() -> None:
    leader = Leader()
    leader.synchronize(1, 2)
    leader.hear(10, mmsg.Sync(7))
    assert leader.stage(1) is None
    assert leader.stage(2) is Stage.NEWLEADER_SENT
    assert not leader.did(fx.MemberMessage)


def test_an_answer_before_uptodate_ends_the_link() -> None:
    follower = Follower()
    follower.synchronize()
    follower.from_leader(mmsg.Synced(7, LAST))
    assert follower.has_left
    assert not follower.did(fx.MemberMessage)


# ---------------------------------------------------------------------------------------------------- roles and doubts


def test_only_learners_that_serve_are_the_members() -> None:
    leader = Leader()
    leader.establish(1)
    leader.dial(2)
    assert leader.peer.learners == {10: 1}
    assert Follower().peer.learners == {}


def test_a_link_that_broke_is_not_closed_besides_and_the_member_is_told_of_those_that_served() -> None:
    leader = Leader()
    leader.establish(1)
    leader.dial(2)
    for link in (10, 20):
        leader.tell(ev.QuorumLinkDown(Link(link)))
    assert leader.leading.handlers == {}
    assert not leader.did(fx.CloseLink)
    assert [effect.link for effect in leader.did(fx.LearnerDropped)] == [10]


def test_whoever_is_a_quorum_by_itself_leads_at_once() -> None:
    alone = Alone(1, restored(), 1)
    assert alone.peer.state is LEADING
    assert alone.did(fx.SaveEpochs)


def test_a_doubt_ends_a_leaders_role_and_no_other() -> None:
    leader, follower = Leader(), Follower()
    follower.serve()
    leader.tell(ev.Doubted(False, "it is right"))
    assert leader.peer.state is LEADING
    for doubted in (True, False):
        follower.forget()
        follower.tell(ev.Doubted(doubted, "of its tree"))
        assert follower.effects == []
        assert follower.peer.election.state is FOLLOWING
    leader.tell(ev.Doubted(True, "it is wrong"))
    assert leader.peer.state is LOOKING
    assert leader.peer.draining
    leader.forget()
    leader.tell(ev.Doubted(False, "it was made again"))
    assert leader.effects == [], "the election begins when the log is drained"


def yielding() -> Leader:
    """A leader that has left the lead to others, and elects with them."""
    leader = Leader(restored())
    leader.establish(1)
    leader.tell(ev.LeadYielded("more voters have another tree"))
    assert leader.peer.state is LOOKING
    leader.drained()
    assert is_no_candidate(leader)
    leader.forget()
    return leader


def is_no_candidate(alone: Alone) -> bool:
    standing = alone.peer.election.standing
    assert standing.doubted == (standing.vote.zxid == 0)
    return standing.doubted


@pytest.mark.parametrize(("zxid", "epoch"), [(LAST, 1), (FIRST, 2), (LAST - 1, 2)])
def test_e6_who_yields_takes_the_lead_again_only_from_one_that_is_behind(zxid: int, epoch: int) -> None:
    leader = yielding()
    assert leader.peer.current_epoch == 2
    round_ = leader.peer.election.round
    for sid in (1, 2):
        leader.vote(sid, 2, zxid=Zxid(zxid), epoch=Epoch(epoch))
    assert leader.said("server 2, which is to lead, lacks history that this member has")
    assert leader.peer.state is LOOKING
    assert not is_no_candidate(leader)
    assert leader.peer.election.round == round_ + 1
    leader.vote(1, 3, zxid=LAST, epoch=Epoch(2))
    leader.vote(2, 3, zxid=LAST, epoch=Epoch(2))
    assert leader.peer.state is LEADING


@pytest.mark.parametrize(("zxid", "epoch"), [(LAST, 2), (LAST + 1, 2), (FIRST, 3)])
def test_e6_who_yields_follows_whoever_has_its_history(zxid: int, epoch: int) -> None:
    leader = yielding()
    for sid in (1, 2):
        leader.vote(sid, 2, zxid=Zxid(zxid), epoch=Epoch(epoch))
    assert leader.peer.state is FOLLOWING
    assert leader.peer.yields
    leader.tell(ev.Doubted(False, "a quorum has its digest"))
    assert not leader.peer.yields


def test_e6_only_a_leader_yields() -> None:
    follower = Follower()
    follower.serve()
    follower.tell(ev.LeadYielded("more voters have another tree"))
    assert follower.effects == []
    assert not follower.peer.yields


def test_e6_who_yields_follows_whoever_leads_a_quorum_already() -> None:
    leader = yielding()
    leader.vote(1, 2, FOLLOWING, zxid=FIRST)
    leader.vote(2, 2, LEADING, zxid=FIRST)
    assert leader.peer.state is FOLLOWING


def test_e6_whose_tree_is_wrong_takes_no_lead() -> None:
    leader = yielding()
    leader.tell(ev.Doubted(True, "its tree is wrong"))
    for sid in (1, 2):
        leader.vote(sid, 2, zxid=FIRST, epoch=Epoch(1))
    assert leader.peer.state is FOLLOWING
    assert leader.peer.yields


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("begins", [True, False])
def test_a_snapshot_replaces_the_history_and_perhaps_the_record(begins: bool, recorded: bool) -> None:
    follower = Follower()
    follower.accept()
    follower.from_leader(msg.Snap(SNAPSHOT, bytes(16), False))
    (fetch,) = follower.did(fx.FetchSnapshot)
    follower.tell(ev.SnapshotInstalled(fetch.generation, SNAPSHOT, bytes(16), begins, recorded))
    peer = follower.peer
    assert peer.history.last == (SNAPSHOT, bytes(16))
    assert peer.beginning == (SNAPSHOT if begins else 0)
    assert peer.recorded_lineage == (LINEAGE if recorded else b"")
    assert peer.needs_member_record() == (not recorded)
    assert peer.holds is (BEGINNING if begins else BATCHES)


def test_a_mark_that_is_reached_again_is_no_news() -> None:
    follower = Follower()
    follower.serve()
    assert follower.peer.committed == LAST
    follower.peer.set_committed(LAST)
    assert not follower.peer.effects


def test_who_has_batches_says_so() -> None:
    alone = Alone(1, restored(), 3)
    assert alone.peer.holds is BATCHES
    assert {effect.notification.holds for effect in alone.did(fx.SendNotification)} == {BATCHES}


def test_who_hears_of_a_history_leaves_the_role_that_its_marker_gave_it() -> None:
    """A server that tells of it is not heard again in that role."""
    marked = Alone(3, nothing_held(NOTHING, marked=True), 3)
    for sid in (1, 2):
        empty = {"zxid": Zxid(0), "epoch": Epoch(0), "holds": NOTHING, "lineage": b"", "amnesiac": True}
        marked.vote(sid, 3, marked=True, leader_marked=True, **empty)
    assert marked.peer.state is LEADING
    marked.tell(ev.QuorumLinkUp(Link(10), ServerId(1), inbound=True))
    marked.forget()
    marked.hear(10, msg.FollowerInfo(Epoch(1), LINEAGE, BATCHES, False, False, False, False))
    assert marked.peer.state is LOOKING
    assert marked.said("server 1 tells of a history")
    assert not marked.did(fx.SaveEpochs)
    assert not marked.peer.hear_of_history(marked.now, ServerId(2), tells=True), "it is not marked any more"
