"""Broadcast, what only a peer alone shows: who may propose, and what is said twice."""

from __future__ import annotations

import pytest

from datatree.log.batch import Batch
from datatree.log.zxid import Epoch, Zxid
from tests.protocol.alone import HISTORY, LAST, LEADERS_LINK, LINEAGE, Follower, Leader, batch_after
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.protocol.roles import Stage
from zab.protocol.states import BROADCAST
from zab.quorum.ids import Link

NEXT = batch_after((LAST, HISTORY[-1].chain), 2, 1)
AFTER = batch_after((NEXT.zxid, NEXT.chain), 2, 2)


def ack(batch: Batch, epoch: int = 2) -> fx.Send:
    return fx.Send((LEADERS_LINK,), msg.Ack(Epoch(epoch), batch.zxid))


def test_only_an_established_leader_has_a_next_zxid() -> None:
    follower = Follower()
    follower.serve()
    assert follower.peer.next_zxid() is None
    leader = Leader()
    leader.synchronize(1, 2)
    assert leader.peer.next_zxid() is None
    leader.acknowledge(1)
    assert leader.peer.next_zxid() is not None


def test_as_many_bytes_under_way_as_the_limit_are_enough() -> None:
    leader = Leader()
    leader.establish(1, 2)
    leader.propose()
    size = leader.leading.outstanding_bytes
    for limit, is_full in ((size, True), (size + 1, False)):
        leader = Leader(unsynced_bytes_max=limit)
        leader.establish(1, 2)
        leader.propose()
        assert (leader.peer.next_zxid() is None) is is_full


def test_what_is_durable_here_alone_is_under_way_still() -> None:
    leader = Leader(batches_in_flight_max=1)
    leader.establish(1, 2)
    leader.durable(leader.propose())
    assert leader.peer.next_zxid() is None


def test_an_acknowledgement_may_be_repeated() -> None:
    leader = Leader(voters=5)
    leader.synchronize(1, 2)
    leader.acknowledge(1)
    leader.acknowledge(1, LAST)
    assert leader.stage(1) is Stage.SYNCHRONIZED
    leader.acknowledge(2)
    leader.acknowledge(1, LAST)
    assert leader.stage(1) is Stage.UP_TO_DATE


def test_a_commit_is_said_once() -> None:
    leader = Leader()
    leader.establish(1, 2)
    zxid = leader.propose()
    for sid in (1, 2):
        leader.acknowledge(sid, zxid)
    leader.durable(zxid)
    assert leader.sent(msg.Commit, 10) == [msg.Commit(zxid)]


def test_a3_what_is_durable_and_not_committed_is_not_delivered() -> None:
    follower = Follower()
    follower.serve()
    follower.from_leader(msg.Proposal([NEXT.raw, AFTER.raw]))
    follower.durable(AFTER.zxid)
    assert not follower.did(fx.Deliver)
    follower.from_leader(msg.Commit(NEXT.zxid))
    assert [effect.batches for effect in follower.did(fx.Deliver)] == [[NEXT]]


def test_what_ack_of_newleader_promised_is_not_acknowledged_again() -> None:
    follower = Follower()
    follower.synchronize()
    assert len(follower.sent(msg.Ack)) == 1


def test_answers_are_passed_on_to_who_serves() -> None:
    follower = Follower()
    follower.serve()
    follower.from_leader(mmsg.Synced(7, LAST))
    assert [effect.message for effect in follower.did(fx.MemberMessage)] == [mmsg.Synced(7, LAST)]


# ------------------------------------------------------------------------------------- what is said when it is durable


def test_an_acknowledgement_goes_with_what_it_acknowledges_to_the_log() -> None:
    follower = Follower()
    follower.serve()
    follower.from_leader(msg.Proposal([NEXT.raw, AFTER.raw]))
    [append] = follower.did(fx.AppendBatches)
    assert append.then == ack(AFTER)
    assert not follower.did(fx.Send)


def test_a_batch_before_ack_of_newleader_is_acknowledged_once_that_is_said() -> None:
    follower = Follower()
    follower.accept()
    follower.from_leader(msg.Diff(LAST), msg.NewLeader(Epoch(2), LAST, False), msg.Proposal([NEXT.raw]))
    [append] = follower.did(fx.AppendBatches)
    assert append.then is None
    follower.saved()
    [of_newleader] = follower.sent(msg.Ack)
    follower.durable(NEXT.zxid)
    assert follower.sent(msg.Ack) == [of_newleader, ack(NEXT).message]


def test_batches_of_two_epochs_are_acknowledged_in_their_own() -> None:
    follower = Follower()
    follower.serve()
    follower.from_leader(msg.Proposal([NEXT.raw]), msg.LeaderInfo(Epoch(3), LINEAGE))
    follower.durable(NEXT.zxid)
    assert follower.sent(msg.Ack) == [ack(NEXT).message]
    follower.saved()
    follower.from_leader(msg.Diff(NEXT.zxid), msg.NewLeader(Epoch(3), NEXT.zxid, False))
    follower.saved()
    follower.from_leader(msg.UpToDate(NEXT.zxid))
    renewed = batch_after((NEXT.zxid, NEXT.chain), 3, 1)
    follower.forget()
    follower.from_leader(msg.Proposal([renewed.raw]))
    assert [append.then for append in follower.did(fx.AppendBatches)] == [ack(renewed, epoch=3)]


# ----------------------------------------------------------------------------------------------- who waits for the disk


def test_a_learner_waits_for_its_disk_only_when_something_committed_does() -> None:
    follower = Follower()
    follower.serve()
    follower.from_leader(msg.Proposal([NEXT.raw]))
    assert not follower.peer.awaits_durable
    follower.from_leader(msg.Commit(NEXT.zxid))
    assert follower.peer.awaits_durable
    follower.durable(NEXT.zxid)
    follower.from_leader(msg.Proposal([AFTER.raw]))
    assert not follower.peer.awaits_durable
    follower.durable(AFTER.zxid)
    follower.from_leader(msg.Commit(AFTER.zxid))
    assert not follower.peer.awaits_durable


def test_a_learner_waits_for_its_disk_in_every_other_phase() -> None:
    follower = Follower()
    assert follower.peer.awaits_durable
    follower.synchronize()
    assert follower.peer.awaits_durable
    follower.from_leader(msg.Proposal([NEXT.raw]))
    assert follower.peer.awaits_durable
    follower.from_leader(msg.UpToDate(LAST), msg.Commit(LAST))
    assert not follower.peer.awaits_durable
    follower.from_leader(msg.LeaderInfo(Epoch(3), LINEAGE))
    assert follower.peer.awaits_durable


def test_a_learner_waits_for_its_disk_as_long_as_a_batch_was_not_to_be_acknowledged_by_it() -> None:
    follower = Follower()
    follower.accept()
    follower.from_leader(msg.Diff(LAST), msg.NewLeader(Epoch(2), LAST, False), msg.Proposal([NEXT.raw]))
    follower.saved()
    follower.from_leader(msg.UpToDate(LAST), msg.Commit(LAST))
    assert follower.peer.phase is BROADCAST
    assert follower.peer.awaits_durable
    follower.durable(NEXT.zxid)
    follower.from_leader(msg.Proposal([AFTER.raw]))
    assert not follower.peer.awaits_durable


@pytest.mark.parametrize("is_own_first", [True, False])
def test_a_leader_waits_for_its_disk_only_when_others_have_what_it_has_not(is_own_first: bool) -> None:
    leader = Leader()
    leader.establish(1, 2)
    zxid = leader.propose()
    leader.acknowledge(1, LAST)
    leader.durable(zxid)
    leader.acknowledge(1, zxid)
    assert not leader.peer.awaits_durable
    zxid = leader.propose()
    assert not leader.peer.awaits_durable
    if is_own_first:
        leader.durable(zxid)
        assert not leader.peer.awaits_durable
    leader.acknowledge(1, zxid)
    assert leader.peer.awaits_durable is not is_own_first
    leader.acknowledge(2, zxid)
    assert leader.peer.committed == zxid
    assert leader.peer.awaits_durable is not is_own_first
    if not is_own_first:
        leader.durable(zxid)
    assert not leader.peer.awaits_durable
    assert leader.peer.delivered == zxid


def test_a_leader_that_has_committed_in_part_waits_for_the_rest() -> None:
    leader = Leader()
    leader.establish(1, 2)
    first, second = leader.propose(), leader.propose()
    leader.acknowledge(1, second)
    leader.durable(first)
    assert leader.peer.committed == first
    assert leader.peer.awaits_durable


def test_a_leader_alone_waits_for_its_disk() -> None:
    leader = Leader(voters=1)
    leader.establish()
    leader.durable(leader.propose())
    assert leader.peer.awaits_durable


def test_whoever_leaves_a_role_waits_for_its_disk() -> None:
    leader = Leader()
    leader.establish(1, 2)
    zxid = leader.propose()
    leader.durable(zxid)
    leader.acknowledge(1, zxid)
    assert not leader.peer.awaits_durable
    for link in (10, 20):
        leader.tell(ev.QuorumLinkDown(Link(link)))
    leader.wait(60_000)
    assert leader.peer.awaits_durable
    assert leader.peer.durable == Zxid(zxid)
