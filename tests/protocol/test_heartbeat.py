"""Signs of life, what only a peer alone shows: at which moment who is given up, and who is pinged."""

from __future__ import annotations

import pytest

from datatree.log.zxid import BEFORE_ALL, Epoch, Zxid
from tests.protocol.alone import LAST, LEADERS_LINK, LINEAGE, Follower, Leader
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.roles import Overdue, Stage
from zab.protocol.states import LOOKING

PING = msg.Ping(LAST, LAST, 7, [], False)

# --------------------------------------------------------------------------------------------------------- the leader


def pinged(leader: Leader) -> list[tuple[int, ...]]:
    return [effect.links for effect in leader.did(fx.Send) if isinstance(effect.message, msg.Ping)]


def tick(leader: Leader) -> int:
    return leader.peer.settings.tick_ms


def test_learners_are_pinged_twice_a_tick() -> None:
    leader = Leader()
    leader.establish(1, 2)
    half_tick = tick(leader) // 2
    for late_ms in (0, 1):
        leader.forget()
        leader.wait(half_tick + late_ms)
        assert pinged(leader) == [(10, 20)]
    leader.forget()
    leader.wait(half_tick - 1)
    assert pinged(leader) == []


def test_a_learner_is_pinged_from_newleader_on() -> None:
    """It has to know that its leader lives while it writes what it was sent."""
    leader = Leader(voters=5)
    leader.synchronize(1, 2)
    leader.acknowledge(1)
    assert [leader.stage(1), leader.stage(2)] == [Stage.SYNCHRONIZED, Stage.NEWLEADER_SENT]
    leader.dial(3)
    leader.forget()
    leader.wait(tick(leader) // 2)
    assert pinged(leader) == [(10, 20)]


def test_what_a_ping_is_answered_is_of_interest_once_its_learner_serves() -> None:
    leader = Leader()
    leader.establish(1)
    leader.dial(2)
    leader.forget()
    leader.hear(10, PING)
    leader.hear(20, PING)
    assert [effect.sid for effect in leader.did(fx.MemberMessage)] == [1]


@pytest.mark.parametrize("late_ms", [0, 1])
def test_an_epoch_without_a_quorum_is_given_up_at_init_limit(late_ms: int) -> None:
    """Both have been sent NEWLEADER: nothing more is on its way to them."""
    leader = Leader()
    leader.synchronize(1, 2)
    settings = leader.peer.settings
    leader.wait(settings.init_ms - 1)
    assert leader.peer.state is not LOOKING
    leader.wait(1 + late_ms)
    assert leader.peer.state is LOOKING


def silent(leader: Leader, sid: int, limit_ms: int) -> None:
    """This one says nothing for so long; the others do."""
    for _ in range(limit_ms // tick(leader)):
        leader.wait(tick(leader))
        for other in range(1, leader.sid):
            if other != sid and leader.stage(other) is not None:
                leader.hear(10 * other, PING)


def test_a_synchronized_learner_is_given_up_a_tick_after_sync_limit() -> None:
    leader = Leader(voters=5)
    leader.synchronize(1, 2)
    leader.acknowledge(1)
    assert not leader.leading.established
    limit_ms = 5 * tick(leader)
    assert (leader.peer.settings.sync_ms, leader.peer.settings.init_ms) == (limit_ms, 10 * tick(leader))
    silent(leader, 9, tick(leader))
    silent(leader, 1, limit_ms)
    assert leader.stage(1) is Stage.SYNCHRONIZED
    silent(leader, 1, tick(leader))
    assert leader.stage(1) is None
    assert leader.stage(2) is not None
    assert leader.said(f"silent for {limit_ms + tick(leader)} ms")


@pytest.mark.parametrize("late_ms", [0, 1])
def test_what_should_be_durable_by_now_is_what_was_the_end_a_limit_ago(late_ms: int) -> None:
    overdue = Overdue()
    assert overdue.sample(100, Zxid(5), 50) == BEFORE_ALL
    assert overdue.sample(120, Zxid(6), 50) == BEFORE_ALL
    assert overdue.sample(149, Zxid(7), 50) == BEFORE_ALL
    assert overdue.sample(150 + late_ms, Zxid(8), 50) == 5
    assert overdue.sample(170 + late_ms, Zxid(9), 50) == 6
    assert overdue.sample(171 + late_ms, Zxid(9), 50) == 6
    assert overdue.sample(1000, Zxid(9), 50) == 9


# -------------------------------------------------------------------------------------------------------- the learner


@pytest.mark.parametrize("late_ms", [0, 1])
def test_a_leader_that_is_not_heard_is_given_up_at_its_limit(late_ms: int) -> None:
    follower = Follower()
    follower.serve()
    follower.from_leader(PING)
    follower.wait(follower.peer.settings.sync_ms - 1)
    assert not follower.has_left
    follower.wait(1 + late_ms)
    assert follower.has_left


def ping_for(follower: Follower, ms: int) -> None:
    """A ping now, and another one so much later."""
    follower.from_leader(PING)
    follower.wait(ms)
    follower.from_leader(PING)


@pytest.mark.parametrize("late_ms", [0, 1])
def test_c4_a_promise_in_a_renewal_has_sync_limit_to_become_durable(late_ms: int) -> None:
    """Its clients wait, and nobody else would end that: it is heard, and its history is durable."""
    follower = Follower()
    follower.serve()
    limit_ms = follower.peer.settings.sync_ms
    follower.from_leader(msg.LeaderInfo(Epoch(3), LINEAGE))
    ping_for(follower, limit_ms - 1)
    assert not follower.has_left
    follower.wait(1 + late_ms)
    follower.from_leader(PING)
    assert follower.has_left
    assert follower.said("own promise of epoch 3 is not durable within syncLimit")


def test_c4_each_promise_has_its_own_time_and_none_is_overdue_once_it_is_kept() -> None:
    follower = Follower()
    follower.serve()
    limit_ms = follower.peer.settings.sync_ms
    follower.from_leader(msg.LeaderInfo(Epoch(3), LINEAGE))
    ping_for(follower, limit_ms - 1)
    follower.saved()
    for _ in range(3):
        ping_for(follower, limit_ms - 1)
    follower.from_leader(msg.Diff(LAST), msg.NewLeader(Epoch(3), LAST, False))
    ping_for(follower, limit_ms - 1)
    assert not follower.has_left
    follower.saved()
    assert follower.sent(msg.Ack)
    for _ in range(3):
        ping_for(follower, limit_ms - 1)
    assert not follower.has_left


def test_c4_the_second_promise_counts_too() -> None:
    follower = Follower()
    follower.serve()
    follower.from_leader(msg.LeaderInfo(Epoch(3), LINEAGE))
    follower.from_leader(PING)
    follower.wait(1)
    follower.saved()
    follower.from_leader(msg.Diff(LAST), msg.NewLeader(Epoch(3), LAST, False))
    ping_for(follower, follower.peer.settings.sync_ms - 1)
    assert not follower.has_left
    follower.wait(1)
    follower.from_leader(PING)
    assert follower.has_left


@pytest.mark.parametrize("late_ms", [0, 1])
def test_a_leader_is_dialled_again_after_a_while(late_ms: int) -> None:
    follower = Follower()
    follower.tell(ev.QuorumLinkDown(LEADERS_LINK))
    following = follower.peer.following
    assert following is not None
    assert following.redial_at is not None
    follower.forget()
    follower.wait(following.redial_at - follower.now + late_ms)
    assert len(follower.did(fx.ConnectQuorum)) == 1
