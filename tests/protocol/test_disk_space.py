"""Disk space: who logs, who waits, who leads while disks are nearly full."""

from __future__ import annotations

import attrs
import pytest

from datatree.log.zxid import Epoch, Zxid
from tests.protocol.alone import FIRST, HISTORY, LAST, LEADERS_LINK, Alone, Follower, Leader, restored
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.election import RESEND_MS_MIN
from zab.protocol.roles import Stage
from zab.protocol.states import DISCOVERY, FOLLOWING, LEADING, LOOKING
from zab.quorum.ids import Link, ServerId
from zab.service.disk_space import AMPLE, EXHAUSTED, LOW, Space

PING = msg.Ping(LAST, LAST, 7, [], False)
LOW_PING = msg.Ping(LAST, LAST, 7, [], True)


def space(alone: Alone, level: Space) -> None:
    alone.tell(ev.SpaceChanged(level))


def half_tick(leader: Leader) -> None:
    leader.wait(leader.peer.settings.tick_ms // 2)


def three() -> Leader:
    """A leader and its two followers, which serve."""
    leader = Leader()
    leader.establish(1, 2)
    return leader


# --------------------------------------------------------------------------------------------------------- the leader


def test_a_follower_with_a_full_disk_is_dropped_while_others_have_room() -> None:
    leader = three()
    leader.hear(10, LOW_PING)
    assert leader.stage(1) is None
    assert leader.said("its disk is nearly full, and others have room")
    assert not leader.peer.is_short
    assert leader.peer.next_zxid() is not None


def test_it_waits_before_leaderinfo_until_it_has_room_and_is_pinged_meanwhile() -> None:
    leader = three()
    leader.hear(10, LOW_PING)
    leader.forget()
    leader.dial(1, is_low=True)
    assert leader.stage(1) is Stage.INFORMED
    half_tick(leader)
    assert not leader.sent(msg.LeaderInfo)
    assert leader.sent(msg.Ping, 10), "else it would elect after initLimit"
    leader.hear(10, LOW_PING)
    assert leader.stage(1) is Stage.INFORMED
    leader.hear(10, PING)
    assert leader.stage(1) is None
    assert leader.said("its disk has room again")
    leader.forget()
    leader.dial(1)
    assert leader.sent(msg.LeaderInfo, 10)


def renewing(leader: Leader) -> Leader:
    """The leader is about to renew its epoch: its promise is on the way to its disk."""
    for _ in range(3):
        zxid = leader.propose()
        leader.durable(zxid)
        leader.acknowledge(2, zxid)
    assert leader.peer.phase is DISCOVERY
    return leader


def test_who_has_to_wait_does_so_in_a_renewal_of_the_epoch_too() -> None:
    leader = Leader(counter_limit=3)
    leader.establish(1, 2)
    leader.hear(10, LOW_PING)
    renewing(leader)
    leader.dial(1, is_low=True)
    leader.forget()
    leader.saved(fx.SaveEpochs(leader.peer.generation, Epoch(3), Epoch(2)))
    assert leader.sent(msg.LeaderInfo, 20)
    assert not leader.sent(msg.LeaderInfo, 10)
    assert leader.stage(1) is Stage.INFORMED


def test_who_is_needed_stays_in_a_renewal_of_the_epoch() -> None:
    leader = Leader(counter_limit=3)
    leader.establish(2)
    leader.hear(20, LOW_PING)
    renewing(leader)
    half_tick(leader)
    assert leader.stage(2) is Stage.INFORMED
    leader.saved(fx.SaveEpochs(leader.peer.generation, Epoch(3), Epoch(2)))
    assert leader.sent(msg.LeaderInfo, 20)


def test_whoever_is_needed_stays_and_nobody_takes_writes_that_need_room() -> None:
    leader = Leader()
    leader.establish(1)
    leader.hear(10, LOW_PING)
    assert leader.stage(1) is Stage.UP_TO_DATE
    assert leader.peer.is_short
    half_tick(leader)
    assert [ping.is_low for ping in leader.sent(msg.Ping, 10)] == [True]


def about_to_lead() -> Leader:
    """A leader whose follower 1 is about to acknowledge NEWLEADER; the disk of that one is nearly full."""
    leader = Leader()
    leader.dial(1, is_low=True)
    leader.saved()
    leader.accept(1)
    leader.saved()
    return leader


def test_whoever_begins_to_lead_knows_before_the_first_write_that_no_quorum_has_room() -> None:
    """A ping later the reserves may be used up."""
    leader = about_to_lead()
    leader.acknowledge(1)
    assert leader.leading.established
    assert leader.peer.is_short
    assert leader.stage(1) is Stage.UP_TO_DATE


def test_a_new_leader_says_it_once_those_with_room_had_a_tick_to_come() -> None:
    """The first quorum may be one with less room than they have."""
    leader = about_to_lead()
    leader.acknowledge(1)
    half_tick(leader)
    assert leader.peer.is_short
    leader.dial(2)
    leader.accept(2, leader.leading.epoch)
    leader.acknowledge(2)
    half_tick(leader)
    half_tick(leader)
    assert leader.said("others have room"), "server 1 is not needed any more"
    assert not leader.said("quorum has room")


def test_a_leader_says_that_no_quorum_has_room_and_when_one_has_it_again() -> None:
    leader = about_to_lead()
    leader.acknowledge(1)
    half_tick(leader)
    assert not leader.said("quorum has room")
    half_tick(leader)
    assert leader.said("no quorum has room on its disks")
    leader.hear(10, PING)
    leader.forget()
    half_tick(leader)
    assert leader.said("a quorum has room on its disks again")
    leader.forget()
    half_tick(leader)
    assert not leader.said("quorum has room"), "once"


def test_a_learner_that_comes_with_room_is_weighed_when_it_is_synchronized() -> None:
    leader = about_to_lead()
    leader.acknowledge(1)
    leader.dial(2)
    leader.accept(2, leader.leading.epoch)
    assert leader.peer.is_short
    leader.acknowledge(2)
    assert not leader.peer.is_short


def test_who_waits_is_called_when_it_is_needed_after_all() -> None:
    leader = three()
    leader.hear(10, LOW_PING)
    leader.dial(1, is_low=True)
    leader.forget()
    leader.hear(20, LOW_PING)
    assert leader.peer.is_short
    assert leader.stage(1) is None
    assert leader.said("it is needed after all")
    leader.dial(1, is_low=True)
    assert leader.sent(msg.LeaderInfo, 10)


def test_with_room_again_all_writes_go_on() -> None:
    leader = Leader()
    leader.establish(1)
    leader.hear(10, LOW_PING)
    leader.hear(10, PING)
    assert not leader.peer.is_short
    half_tick(leader)
    assert [ping.is_low for ping in leader.sent(msg.Ping, 10)] == [False]


def test_a_third_that_comes_with_room_makes_the_one_without_dispensable() -> None:
    leader = Leader()
    leader.establish(1)
    leader.hear(10, LOW_PING)
    assert leader.peer.is_short
    leader.synchronize(2)
    leader.acknowledge(2)
    half_tick(leader)
    assert not leader.peer.is_short
    assert leader.stage(1) is None


def test_a_leader_with_a_full_disk_hands_over_to_those_with_room() -> None:
    leader = three()
    space(leader, LOW)
    assert leader.peer.state is LOOKING
    assert leader.said("this member's disk is nearly full, and others have room")
    leader.drained()
    assert leader.peer.election.standing.vote.zxid == 0, "any other candidate is better"
    assert not leader.peer.election.standing.doubted, "if there is none, it leads"
    for sid in (1, 2):
        leader.vote(sid, 2, zxid=LAST, epoch=leader.peer.current_epoch)
    assert leader.peer.state is FOLLOWING


def test_a_leader_without_others_that_have_room_stays() -> None:
    leader = Leader()
    leader.establish(1)
    leader.hear(10, LOW_PING)
    space(leader, LOW)
    assert leader.peer.state is LEADING
    assert leader.peer.is_short
    leader.hear(10, PING)
    assert leader.peer.is_short, "one of three with room is no quorum"


def holding_the_last_alone(voters: int = 3, observers: tuple[int, ...] = ()) -> Leader:
    """A leader that has in memory what came last; what was before is in its files, or nowhere."""
    found = attrs.evolve(restored(HISTORY[1:]), base=(FIRST, HISTORY[0].chain))
    return Leader(found, voters, observers=observers)


def come_for_what_nobody_kept(leader: Leader, sid: int, **said: bool) -> None:
    """A learner lacks what the leader's log files have no more, and no snapshot has either."""
    leader.dial(sid, **said)
    leader.hear(10 * sid, msg.AckEpoch(Epoch(1), Zxid(1), bytes(16)))
    leader.tell(ev.LogRead(Link(10 * sid), None, []))
    assert leader.did(fx.OfferSnapshot)
    leader.forget()
    leader.tell(ev.NothingToOffer(Link(10 * sid), Zxid(1)))
    assert leader.said("there is no snapshot above its 0x1 yet")


@pytest.mark.parametrize("amnesiac", [False, True])
def test_a_leader_with_a_full_disk_hands_over_to_those_who_can_help_a_learner(amnesiac: bool) -> None:
    leader = holding_the_last_alone()
    leader.establish(2)
    space(leader, LOW)
    assert leader.peer.state is LEADING
    come_for_what_nobody_kept(leader, 1, amnesiac=amnesiac)
    assert leader.peer.state is LOOKING
    assert leader.said("this member's disk is nearly full, server 1 needs a snapshot, and others have room for one")


def test_a_leader_with_room_stays_since_it_takes_that_snapshot() -> None:
    leader = holding_the_last_alone()
    leader.establish(2)
    come_for_what_nobody_kept(leader, 1)
    assert leader.peer.state is LEADING


def test_a_leader_with_a_full_disk_stays_if_the_learner_that_it_cannot_help_has_no_room() -> None:
    leader = holding_the_last_alone()
    leader.establish(2)
    space(leader, LOW)
    come_for_what_nobody_kept(leader, 1, is_low=True)
    assert leader.peer.state is LEADING


def test_a_leader_with_a_full_disk_stays_if_even_with_that_learner_too_few_have_room() -> None:
    leader = holding_the_last_alone(5)
    leader.establish(2, 3)
    leader.hear(30, LOW_PING)
    space(leader, LOW)
    come_for_what_nobody_kept(leader, 1)
    assert leader.peer.state is LEADING


def test_a_leader_with_a_full_disk_stays_if_it_is_an_observer_that_it_cannot_help() -> None:
    leader = holding_the_last_alone(observers=(9,))
    leader.establish(2)
    space(leader, LOW)
    come_for_what_nobody_kept(leader, 9)
    assert leader.peer.state is LEADING


def test_a_lone_server_with_a_full_disk_goes_on_leading() -> None:
    leader = Leader(voters=1)
    leader.saved()
    leader.saved()
    assert leader.peer.serving
    space(leader, LOW)
    assert leader.peer.state is LEADING
    assert leader.peer.is_short
    space(leader, AMPLE)
    assert not leader.peer.is_short


def test_an_observer_with_a_full_disk_is_never_needed() -> None:
    leader = Leader(observers=(9,))
    leader.establish(1)
    leader.synchronize(9)
    leader.acknowledge(9)
    half_tick(leader)
    leader.hear(90, LOW_PING)
    assert leader.stage(9) is None
    assert not leader.peer.is_short


def test_a_leader_without_a_quorum_says_nothing_of_room() -> None:
    leader = three()
    leader.tell(ev.QuorumLinkDown(10))
    leader.tell(ev.QuorumLinkDown(20))
    leader.forget()
    for _ in range(2):
        half_tick(leader)
        assert not leader.peer.is_short
        assert not leader.said("room")


def test_until_the_epoch_is_established_every_voter_counts() -> None:
    leader = Leader()
    leader.dial(1, is_low=True)
    leader.saved()
    assert leader.sent(msg.LeaderInfo, 10)


# -------------------------------------------------------------------------------------------------------- the learner


def test_a_follower_says_at_once_that_its_disk_is_full() -> None:
    follower = Follower()
    follower.serve()
    space(follower, LOW)
    assert follower.did(fx.AnswerPing), "the answer says so"
    assert follower.peer.is_low
    assert follower.peer.state is FOLLOWING


def test_a_follower_knows_from_its_leader_that_no_quorum_has_room() -> None:
    follower = Follower()
    follower.serve()
    follower.from_leader(LOW_PING)
    assert follower.peer.is_short
    follower.from_leader(PING)
    assert not follower.peer.is_short


def test_followerinfo_says_that_the_disk_is_full() -> None:
    follower = Follower()
    follower.serve()
    space(follower, LOW)
    follower.tell(ev.QuorumLinkDown(follower.peer.link_to_leader))
    follower.drained()
    follower.forget()
    follower.elect()
    assert [info.is_low for info in follower.sent(msg.FollowerInfo)] == [True]


def test_without_a_byte_a_member_takes_part_in_nothing_until_it_has_room() -> None:
    follower = Follower()
    follower.serve()
    space(follower, EXHAUSTED)
    assert follower.has_left
    follower.drained()
    follower.forget()
    follower.elect()
    follower.wait(60_000)
    assert follower.effects == [fx.CloseLink(30, "this server is not our leader any more")]
    assert follower.peer.next_deadline() is None
    follower.forget()
    space(follower, LOW)
    assert follower.did(fx.SendNotification), "it elects again"


def test_a_member_that_elects_without_a_byte_stops_to_elect() -> None:
    alone = Alone(1, restored(), 3)
    assert alone.did(fx.SendNotification)
    space(alone, EXHAUSTED)
    alone.forget()
    alone.vote(2, 2)
    alone.vote(3, 2)
    assert alone.effects == []
    space(alone, AMPLE)
    assert alone.did(fx.SendNotification)


def test_space_that_comes_back_while_the_log_is_drained_loses_nothing() -> None:
    follower = Follower()
    follower.serve()
    space(follower, EXHAUSTED)
    space(follower, LOW)
    follower.forget()
    follower.drained()
    assert follower.did(fx.SendNotification)


def test_a_full_member_leads_if_those_with_room_are_behind() -> None:
    leader = three()
    space(leader, LOW)
    leader.drained()
    leader.forget()
    for sid in (1, 2):
        leader.vote(sid, 2, zxid=LAST - 1, epoch=leader.peer.current_epoch)
    assert leader.said("lacks history that this member has")
    assert leader.peer.election.standing.vote.zxid == LAST
    for sid in (1, 2):
        leader.vote(sid, 3, zxid=LAST, epoch=leader.peer.current_epoch)
    assert leader.peer.state is LEADING


def test_a_full_member_leads_if_the_tree_of_those_with_room_is_wrong() -> None:
    follower = Follower()
    follower.serve()
    space(follower, LOW)
    follower.tell(ev.QuorumLinkDown(LEADERS_LINK))
    follower.drained()
    follower.tell(ev.ElectionLinkDown(ServerId(3)))
    follower.vote(2, 2, zxid=Zxid(0), epoch=Epoch(0), doubted=True)
    assert follower.peer.is_no_candidate
    follower.wait(RESEND_MS_MIN)
    follower.vote(2, 1, zxid=LAST, epoch=Epoch(2), doubted=True)
    assert follower.peer.state is LEADING
