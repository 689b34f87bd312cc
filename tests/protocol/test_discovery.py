"""Discovery, what only a peer alone shows: who may dial, who is counted, and when a prospective leader gives up."""

from __future__ import annotations

import attrs
import pytest

from datatree.log.zxid import EPOCH_MAX, Epoch, make_zxid
from tests.protocol.alone import LEADERS_LINK, LINEAGE, Alone, Follower, Leader, history, nothing_held, restored
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.discovery import DIAL_COUNT_MAX, REDIAL_MS
from zab.protocol.fields import NO_VOTE
from zab.protocol.peer_settings import nothing
from zab.protocol.roles import Stage
from zab.protocol.states import BATCHES, FOLLOWING, FOUNDER, LEADING, LOOKING, NOTHING
from zab.quorum.ids import Link, ServerId

SMALLER, LARGER = bytes(16), b"\xff" * 16
"""Lineages on both sides of the one of the tests: they have no order."""

# --------------------------------------------------------------------------------------------------------- the leader


@pytest.mark.parametrize("lineage", [SMALLER, LARGER])
def test_a_learner_of_any_other_lineage_is_refused(lineage: bytes) -> None:
    leader = Leader()
    leader.dial(1, lineage=lineage)
    assert leader.stage(1) is None


@pytest.mark.parametrize("lineage", [SMALLER, LARGER])
def test_a_record_of_another_lineage_says_nothing_about_a_leader_without_batches(lineage: bytes) -> None:
    leader = Leader(restored([], mark=0))
    leader.dial(1, lineage=lineage)
    handler = leader.leading.handler_of(ServerId(1))
    assert handler is not None
    assert handler.amnesiac


def test_a_second_followerinfo_ends_its_link() -> None:
    leader = Leader()
    leader.dial(1)
    leader.hear(10, msg.FollowerInfo(Epoch(1), LINEAGE, 3, False, False, False, False))
    assert leader.stage(1) is None


def test_a_new_leader_pings_in_half_a_tick() -> None:
    leader = Leader()
    assert leader.peer.next_deadline() == leader.now + leader.peer.settings.tick_ms // 2


def test_a_voter_that_says_that_it_is_an_observer_counts_as_one() -> None:
    leader = Leader()
    leader.dial(1, observer=True)
    leader.dial(2)
    leader.saved()
    leader.accept(1)
    assert leader.leading.acke_recv == {3}


def test_a_member_without_a_beginning_begins_no_lineage_beside_a_founder() -> None:
    """Although it is known to hold all of its own, which is nothing."""
    leader = Leader(nothing_held(NOTHING, amnesiac=False))
    leader.dial(1, holds=FOUNDER, amnesiac=True)
    leader.dial(2, holds=NOTHING, amnesiac=True)
    assert leader.leading.epoch is None


def test_nobody_holds_the_history_of_a_lineage_that_is_made_now() -> None:
    leader = Leader(nothing())
    for sid in (1, 2):
        leader.dial(sid, lineage=b"", holds=NOTHING, amnesiac=False)
    assert leader.did(fx.ResetLog)
    assert [handler.amnesiac for handler in leader.leading.handlers.values()] == [True, True]


def test_a_leader_without_a_lineage_begins_none_beside_members_that_have_one() -> None:
    """It was elected by a vote of the time before its disk was emptied, and a quorum that has the history follows."""
    leader = Leader(nothing())
    for sid in (1, 2):
        leader.dial(sid)
    assert not leader.did(fx.ResetLog)
    assert not leader.did(fx.SaveEpochs)
    assert leader.peer.state is LOOKING
    assert leader.said("this member has none")


def test_the_empty_log_of_a_member_stays_when_it_leads_its_own_lineage() -> None:
    leader = Leader(nothing_held(NOTHING, amnesiac=False))
    for sid in (1, 2):
        leader.dial(sid, holds=NOTHING)
    assert leader.leading.epoch is not None
    assert not leader.did(fx.ResetLog)


def test_an_ackepoch_before_leaderinfo_ends_its_link() -> None:
    leader = Leader()
    leader.dial(1)
    leader.accept(1)
    assert leader.stage(1) is None


@pytest.mark.parametrize("who", ["amnesiac", "observer"])
def test_who_does_not_count_is_not_ahead(who: str) -> None:
    leader = Leader(voters=5)
    leader.dial(1, **{who: True})
    for sid in (2, 4):
        leader.dial(sid)
    leader.saved()
    leader.accept(1, zxid=make_zxid(1, 3))
    assert leader.stage(1) is Stage.EPOCH_ACCEPTED


def test_an_amnesiac_on_its_way_is_no_hope() -> None:
    leader = Leader()
    leader.dial(1, amnesiac=True)
    leader.dial(2)
    leader.saved()
    leader.accept(2, epoch=NO_VOTE)
    assert leader.peer.state is not LEADING


def test_a_second_ackepoch_ends_its_link() -> None:
    leader = Leader(voters=5)
    leader.dial(1)
    leader.dial(2)
    leader.saved()
    leader.accept(1)
    leader.accept(1)
    assert leader.stage(1) is None
    assert leader.leading.acke_recv == {5}


def test_current_epoch_is_saved_once() -> None:
    leader = Leader()
    for sid in (1, 2):
        leader.dial(sid)
    leader.saved()
    leader.forget()
    for sid in (1, 2):
        leader.accept(sid)
    assert len(leader.did(fx.SaveEpochs)) == 1


def test_a_leader_gives_up_when_the_only_learner_has_accepted_the_epoch_before() -> None:
    leader = Leader()
    leader.dial(1)
    leader.saved()
    leader.accept(1, epoch=NO_VOTE)
    assert leader.peer.state is not LEADING


def test_an_elector_that_elects_again_is_missed_only_where_a_quorum_needs_it() -> None:
    leader = Leader(voters=5)
    for sid in (1, 2):
        leader.vote(sid, sid, round=leader.peer.election.round + 1)
        assert leader.peer.state is LEADING
    leader.vote(4, 4, round=leader.peer.election.round + 1)
    assert leader.peer.state is not LEADING


def test_who_voted_for_somebody_else_is_no_elector() -> None:
    """Five voters: 1 and 2 elect 5; 3 votes for itself, 4 is silent. Without 1 that is no quorum."""
    leader = Alone(5, restored(), 5)
    for sid, candidate in ((1, 5), (2, 5), (3, 3)):
        leader.vote(sid, candidate)
    leader.wait(200)
    assert leader.peer.state is LEADING
    leader.vote(1, 1, round=leader.peer.election.round + 1)
    assert leader.peer.state is not LEADING


# -------------------------------------------------------------------------------------------------------- the learner


@pytest.mark.parametrize("sid", [2, 3, 4])
def test_only_the_first_link_to_the_elected_leader_is_used(sid: int) -> None:
    """Also a second one to the leader itself is too many."""
    follower = Follower(voters=5)
    follower.forget()
    follower.tell(ev.QuorumLinkUp(Link(99), ServerId(sid), inbound=False))
    assert [effect.link for effect in follower.did(fx.CloseLink)] == [99]
    assert not follower.sent(msg.FollowerInfo, 99)
    assert follower.peer.link_to_leader == LEADERS_LINK


@pytest.mark.parametrize("sid", [2, 4])
def test_a_link_to_another_server_than_the_elected_one_is_closed(sid: int) -> None:
    follower = Follower(voters=5)
    follower.tell(ev.QuorumLinkDown(LEADERS_LINK))
    follower.forget()
    follower.tell(ev.QuorumLinkUp(Link(99), ServerId(sid), inbound=False))
    assert [effect.link for effect in follower.did(fx.CloseLink)] == [99]
    assert follower.peer.link_to_leader is None


def test_a_link_that_comes_when_the_leader_is_given_up_is_closed() -> None:
    electing = Alone(1, restored(), 3)
    electing.tell(ev.QuorumLinkUp(Link(99), ServerId(3), inbound=False))
    assert [effect.link for effect in electing.did(fx.CloseLink)] == [99]


def test_who_dialled_a_server_that_follows_is_told_to_go() -> None:
    alone = Alone(1, restored(), 3)
    alone.tell(ev.QuorumLinkUp(Link(20), ServerId(2), inbound=True))
    assert not alone.did(fx.CloseLink)
    alone.vote(2, 3, FOLLOWING)
    alone.vote(3, 3, LEADING)
    assert alone.peer.leader == 3
    assert [effect.link for effect in alone.did(fx.CloseLink)] == [20]


def test_a_leader_that_cannot_be_reached_is_dialled_so_often_and_then_left() -> None:
    follower = Follower()
    follower.tell(ev.QuorumLinkDown(LEADERS_LINK))
    for _ in range(DIAL_COUNT_MAX - 1):
        assert not follower.has_left
        dials = len(follower.did(fx.ConnectQuorum))
        follower.wait(REDIAL_MS - 1)
        assert len(follower.did(fx.ConnectQuorum)) == dials
        follower.wait(1)
        follower.tell(ev.DialFailed(ServerId(3)))
    assert follower.has_left
    assert len(follower.did(fx.ConnectQuorum)) == DIAL_COUNT_MAX


def test_no_learner_follows_into_the_last_epoch() -> None:
    follower = Follower()
    follower.from_leader(msg.LeaderInfo(EPOCH_MAX, LINEAGE))  # type: ignore[arg-type]
    assert follower.has_left
    assert not follower.did(fx.SaveEpochs)


@pytest.mark.parametrize("lineage", [SMALLER, LARGER])
def test_a_learner_with_batches_follows_into_no_other_lineage(lineage: bytes) -> None:
    follower = Follower(restored(history((1, 1))))
    follower.from_leader(msg.LeaderInfo(Epoch(2), lineage))
    assert follower.has_left


def test_an_amnesiac_with_batches_on_its_disk_follows_into_no_other_lineage() -> None:
    follower = Follower(nothing_held(BATCHES))
    follower.from_leader(msg.LeaderInfo(Epoch(2), LARGER))
    assert follower.has_left
    assert follower.peer.lineage == LINEAGE


def test_an_amnesiac_whose_files_do_not_say_their_lineage_follows_into_that_of_a_quorum() -> None:
    follower = Follower(attrs.evolve(nothing_held(BATCHES), lineage=b""))
    follower.from_leader(msg.LeaderInfo(Epoch(2), LARGER))
    assert not follower.has_left
    assert follower.peer.lineage == LARGER
    assert follower.peer.amnesiac


@pytest.mark.parametrize("lineage", [SMALLER, LARGER])
def test_a_learner_without_batches_takes_any_lineage_and_is_an_amnesiac_in_it(lineage: bytes) -> None:
    follower = Follower(nothing_held(NOTHING, amnesiac=False))
    follower.from_leader(msg.LeaderInfo(Epoch(2), lineage))
    assert follower.peer.lineage == lineage
    assert follower.peer.amnesiac
