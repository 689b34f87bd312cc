"""The hand-over of the lead: when it happens, when not, and who leads then."""

from __future__ import annotations

import pytest

from datatree.log.zxid import Epoch, Zxid
from tests.protocol.alone import LAST, Alone, Follower, Leader
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.election import RESEND_MS_MIN
from zab.protocol.states import DISCOVERY, FOLLOWING, LEADING, LOOKING
from zab.quorum.ids import Link, ServerId

LOW_PING = msg.Ping(LAST, LAST, 7, [], True)


def three() -> Leader:
    """A leader and its two followers, which serve."""
    leader = Leader()
    leader.establish(1, 2)
    return leader


def hand_over(leader: Leader, heir: int) -> None:
    leader.tell(ev.HandOver(ServerId(heir)))


def failed(leader: Alone) -> list[str]:
    """Why it was not done, each time."""
    return [effect.text.partition(": ")[2] for effect in leader.did(fx.Trace) if "is not handed over" in effect.text]


def half_tick(leader: Leader) -> None:
    leader.wait(leader.peer.settings.tick_ms // 2)


# --------------------------------------------------------------------------------------------------------- the leader


@pytest.mark.parametrize("heir", [1, 2])
def test_an_heir_that_has_everything_gets_the_lead_at_once(heir: int) -> None:
    leader = three()
    hand_over(leader, heir)
    (sent,) = [effect for effect in leader.did(fx.Send) if isinstance(effect.message, msg.HandOver)]
    assert sent.message == msg.HandOver(ServerId(heir))
    assert sorted(sent.links) == [10, 20]
    assert leader.peer.state is LOOKING
    assert not failed(leader)
    leader.drained()
    assert leader.peer.is_no_candidate
    assert leader.peer.election.proposal.zxid == 0, "any other candidate is better"


def test_it_waits_until_all_is_committed_and_the_heir_has_it() -> None:
    leader = three()
    zxid = leader.propose()
    hand_over(leader, 1)
    assert leader.peer.next_zxid() is None, "nothing more is proposed"
    leader.durable(zxid)
    leader.acknowledge(2, zxid)
    assert leader.peer.committed == zxid
    assert leader.peer.state is LEADING, "the heir lacks it"
    leader.acknowledge(1, zxid)
    assert leader.peer.state is LOOKING
    assert leader.sent(msg.HandOver, 20)


def test_what_the_heir_alone_has_is_not_handed_over() -> None:
    """It would lead with what nobody else has yet: safe, but its clients would wait for the others."""
    leader = three()
    zxid = leader.propose()
    hand_over(leader, 1)
    leader.acknowledge(1, zxid)
    assert leader.peer.committed < zxid
    assert leader.peer.state is LEADING
    leader.durable(zxid)
    assert leader.peer.state is LOOKING


def test_an_heir_that_takes_too_long_is_given_up_and_the_leader_goes_on() -> None:
    leader = three()
    zxid = leader.propose()
    hand_over(leader, 1)
    half_tick(leader)
    assert not failed(leader)
    half_tick(leader)
    assert failed(leader) == ["it did not have everything within a tick"]
    assert leader.peer.state is LEADING
    assert leader.peer.next_zxid() == zxid + 1
    leader.durable(zxid)
    leader.acknowledge(1, zxid)
    assert leader.peer.state is LEADING
    hand_over(leader, 1)
    assert leader.peer.state is LOOKING, "it may be asked for again"


def test_an_heir_that_is_gone_is_given_up() -> None:
    leader = three()
    leader.propose()
    hand_over(leader, 1)
    leader.tell(ev.QuorumLinkDown(Link(10)))
    half_tick(leader)
    assert failed(leader) == ["it is not synchronized any more"]
    assert leader.peer.next_zxid() is not None


def test_a_renewal_takes_its_place() -> None:
    """A learner that can only follow a higher epoch comes while the heir is waited for."""
    leader = three()
    zxid = leader.propose()
    hand_over(leader, 1)
    leader.tell(ev.QuorumLinkDown(Link(20)))
    leader.dial(2, accepted_epoch=Epoch(9))
    leader.durable(zxid)
    assert leader.peer.state is LEADING
    leader.acknowledge(1, zxid)
    assert leader.peer.phase is DISCOVERY
    half_tick(leader)
    assert failed(leader) == ["it is not synchronized any more"]


def test_why_it_cannot_be_done() -> None:
    leader = three()
    for heir, reason in ((3, "it leads already"), (4, "it is no voter")):
        hand_over(leader, heir)
        assert failed(leader)[-1] == reason
    leader.tell(ev.QuorumLinkDown(Link(20)))
    hand_over(leader, 2)
    assert failed(leader)[-1] == "it is not synchronized"
    leader.synchronize(2)
    hand_over(leader, 2)
    assert failed(leader)[-1] == "it is not synchronized"
    leader.acknowledge(2)
    leader.propose()
    hand_over(leader, 2)
    hand_over(leader, 1)
    assert failed(leader)[-1] == "the lead is being handed over to server 2"
    assert len(failed(leader)) == 5


def test_who_does_not_lead_hands_nothing_over() -> None:
    follower = Follower()
    follower.serve()
    follower.tell(ev.HandOver(ServerId(2)))
    assert failed(follower) == ["this server does not lead"]
    assert follower.peer.state is FOLLOWING


def test_a_leader_that_is_not_established_hands_nothing_over() -> None:
    leader = Leader()
    leader.synchronize(1, 2)
    hand_over(leader, 1)
    assert failed(leader) == ["this leader is not established, or about to renew its epoch"]


def test_an_heir_without_room_gets_no_lead() -> None:
    leader = three()
    leader.tell(ev.QuorumLinkDown(Link(20)))
    # Without it there is no quorum, so it stays.
    leader.hear(10, LOW_PING)
    hand_over(leader, 1)
    assert failed(leader) == ["its disk is nearly full"]


def test_an_amnesiac_is_no_heir() -> None:
    leader = three()
    leader.tell(ev.QuorumLinkDown(Link(20)))
    leader.dial(2, amnesiac=True)
    leader.accept(2)
    leader.acknowledge(2)
    hand_over(leader, 2)
    assert failed(leader) == ["it is not synchronized"]


# -------------------------------------------------------------------------------------------------------- the learner


@pytest.mark.parametrize("heir", [1, 2])
def test_who_is_not_the_heir_leaves_the_lead_to_it(heir: int) -> None:
    follower = Follower()
    follower.serve()
    follower.from_leader(msg.HandOver(ServerId(heir)))
    assert follower.has_left
    follower.drained()
    assert follower.peer.is_no_candidate == (heir != 1)
    assert (follower.peer.election.proposal.zxid == LAST) == (heir == 1)


def test_who_made_way_is_a_candidate_again_once_it_serves() -> None:
    follower = Follower()
    follower.serve()
    follower.from_leader(msg.HandOver(ServerId(2)))
    follower.drained()
    follower.vote(2, 2, FOLLOWING, epoch=Epoch(2))
    follower.vote(3, 3, LEADING, epoch=Epoch(3))
    follower.vote(2, 3, FOLLOWING, epoch=Epoch(3))
    assert follower.peer.state is FOLLOWING
    assert follower.peer.is_no_candidate
    follower.tell(ev.QuorumLinkUp(Link(30), ServerId(3), inbound=False))
    follower.accept(3)
    follower.from_leader(msg.Diff(LAST), msg.NewLeader(Epoch(3), LAST, False))
    follower.saved()
    assert follower.peer.is_no_candidate
    follower.from_leader(msg.UpToDate(LAST))
    assert not follower.peer.is_no_candidate


def test_without_the_heir_who_made_way_leads() -> None:
    """The heir is gone, and nobody else wants to lead."""
    leader = three()
    hand_over(leader, 2)
    leader.drained()
    leader.tell(ev.ElectionLinkDown(ServerId(2)))
    leader.vote(1, 3, zxid=Zxid(0), epoch=Epoch(0))
    assert not leader.peer.makes_way
    assert leader.peer.state is LOOKING
    leader.vote(1, 3, zxid=LAST, epoch=Epoch(2))
    assert leader.peer.state is LEADING


def test_who_made_way_is_a_candidate_again_where_only_wrong_trees_are_left() -> None:
    """Server 2 is the heir, and its tree is wrong: a quorum of both is left, and would never elect."""
    follower = Follower()
    follower.serve()
    follower.from_leader(msg.HandOver(ServerId(2)))
    follower.drained()
    follower.tell(ev.ElectionLinkDown(ServerId(3)))
    follower.vote(2, 2, zxid=Zxid(0), epoch=Epoch(0), doubted=True)
    follower.wait(1)
    assert follower.peer.is_no_candidate, "somebody better may be about to vote"
    follower.wait(RESEND_MS_MIN)
    assert follower.said("the tree of server 2, the best that is left, is wrong -> be a candidate again")
    follower.vote(2, 1, zxid=LAST, epoch=Epoch(2), doubted=True)
    assert follower.peer.state is LEADING


def test_who_made_way_waits_where_nobody_has_answered() -> None:
    follower = Follower()
    follower.serve()
    follower.from_leader(msg.HandOver(ServerId(2)))
    follower.drained()
    follower.wait(RESEND_MS_MIN)
    assert follower.peer.is_no_candidate


def test_e6_whose_own_tree_may_be_wrong_is_no_candidate_beside_wrong_trees() -> None:
    leader = three()
    leader.tell(ev.LeadYielded("more voters have another tree"))
    leader.drained()
    leader.tell(ev.ElectionLinkDown(ServerId(1)))
    leader.vote(2, 2, zxid=Zxid(0), epoch=Epoch(0), doubted=True)
    leader.wait(RESEND_MS_MIN)
    assert leader.peer.is_no_candidate
