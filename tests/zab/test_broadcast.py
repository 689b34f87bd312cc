"""Broadcast, what only a peer alone shows: who may propose, and what is said twice."""

from __future__ import annotations

from tests.zab.alone import LAST, Follower, Leader
from zab import events as ev
from zab import message as msg
from zab.roles import Stage


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


def test_what_ack_of_newleader_promised_is_not_acknowledged_again() -> None:
    follower = Follower()
    follower.synchronize()
    assert len(follower.sent(msg.Ack)) == 1


def test_answers_are_passed_on_to_who_serves() -> None:
    follower = Follower()
    follower.serve()
    follower.from_leader(msg.Synced(7, LAST))
    assert [effect.message for effect in follower.did(ev.MemberMessage)] == [msg.Synced(7, LAST)]
