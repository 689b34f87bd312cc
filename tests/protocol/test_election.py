"""Elections, what only a peer alone shows: when one ends, who is answered, and who counts."""

from __future__ import annotations

from random import Random

import pytest

from datatree.log.zxid import Epoch, Zxid
from tests.protocol.alone import (
    LAST,
    LEADERS_LINK,
    LINEAGE,
    OTHER_LINEAGE,
    Alone,
    Follower,
    Leader,
    nothing_held,
    restored,
)
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.discovery import VAIN_MS
from zab.protocol.election import FINAL_WAIT_MS_MAX, RESEND_MS_MIN
from zab.protocol.peer import Peer
from zab.protocol.peer_settings import Settings
from zab.protocol.states import BATCHES, FOLLOWING, LEADING, LOOKING, NOTHING, State
from zab.quorum.ids import Link, ServerId
from zab.quorum.quorums import Majority


def told(alone: Alone, sid: int) -> list[msg.Notification]:
    """What a server was told since `forget`."""
    return [effect.notification for effect in alone.did(fx.SendNotification) if effect.sid == sid]


# ------------------------------------------------------------------------------------------------------ the final wait


def test_the_final_wait_ends_at_its_time_and_not_before() -> None:
    """Five voters: three agree, one wants itself, and one is silent."""
    alone = Alone(1, restored(), 5)
    for sid, candidate in ((2, 5), (5, 5), (3, 3)):
        alone.vote(sid, candidate)
    deadline = alone.peer.next_deadline()
    assert deadline is not None
    assert alone.now < deadline <= alone.now + FINAL_WAIT_MS_MAX
    alone.wait(deadline - alone.now - 1)
    assert alone.peer.election.winner is None
    alone.wait(1)
    assert alone.peer.leader == 5


def test_an_amnesiac_is_not_waited_for_but_whoever_comes_after_it_is() -> None:
    alone = Alone(5, restored(), 5)
    alone.vote(1, 1, amnesiac=True)
    for sid in (2, 3):
        alone.vote(sid, 5)
    assert alone.peer.election.winner is None, "server 4 was not heard"
    alone.vote(4, 5)
    assert alone.peer.leader == 5


# ------------------------------------------------------------------------------------------ what a candidate takes back


def test_a_candidate_that_votes_for_less_than_is_said_of_it_ends_the_round() -> None:
    """It had more once, before it was given a snapshot. Those who voted for that told each other of it for ever."""
    alone = Alone(1, restored(), 5)
    more = Zxid(LAST + 3)
    alone.vote(2, 2, zxid=more)
    alone.vote(3, 2, zxid=more)
    assert alone.peer.election.proposal.leader == 2
    alone.forget()
    before = alone.peer.election.round
    alone.vote(3, 4)
    assert alone.peer.election.round == before, "it may have heard of nothing better than server 4"
    alone.vote(2, 4)
    assert alone.peer.election.round == before + 1
    assert alone.peer.election.proposal.leader == 1
    (said,) = told(alone, 3)[-1:]
    assert (said.round, said.leader, said.zxid) == (before + 1, 1, LAST)


# ------------------------------------------------------------------------------------------------------ who is answered


def test_a_server_that_can_be_reached_now_is_told_where_we_stand_if_we_elect() -> None:
    alone = Alone(1, restored(), 3)
    alone.forget()
    alone.tell(ev.ElectionLinkUp(ServerId(2), 1))
    assert len(told(alone, 2)) == 1
    follower = Follower()
    follower.forget()
    follower.tell(ev.ElectionLinkUp(ServerId(2), 1))
    assert not follower.did(fx.SendNotification)


def test_who_follows_answers_those_that_elect_and_nobody_else() -> None:
    follower = Follower()
    follower.serve()
    for state, count in ((LOOKING, 1), (FOLLOWING, 0)):
        follower.forget()
        follower.vote(2, 2, state)
        assert len(told(follower, 2)) == count
        assert follower.peer.leader == 3


def test_an_observer_is_answered_while_it_elects_and_does_not_count() -> None:
    alone = Alone(1, restored(), 3, observers=(4,))
    for state, count in ((LOOKING, 1), (FOLLOWING, 0)):
        alone.forget()
        alone.vote(4, 1, state)
        assert len(told(alone, 4)) == count
    assert 4 not in alone.peer.election.received


def test_a_voter_answers_a_vote_of_an_earlier_round_and_an_observer_does_not() -> None:
    alone, observer = Alone(1, restored(), 3), Alone(4, restored(), 3, observers=(4,))
    for elector, count in ((alone, 1), (observer, 0)):
        elector.vote(2, 2, round=elector.peer.election.round + 3)
        elector.forget()
        elector.vote(3, 3, round=elector.peer.election.round - 1)
        assert len(told(elector, 3)) == count


# ---------------------------------------------------------------------------------------------------------- who counts


def test_an_observers_candidacy_stands_for_nobody() -> None:
    """It takes over any vote of a voter, even one for a shorter history than its own."""
    observer = Alone(4, restored(), 3, observers=(4,))
    observer.vote(2, 1, zxid=0, epoch=Epoch(0))
    assert observer.peer.election.proposal.leader == 1


def test_nobody_elects_before_its_log_is_drained() -> None:
    voters = frozenset({ServerId(1)})
    peer = Peer(Settings(ServerId(1), Majority(voters), voters), restored(), Random(1))
    assert peer.election.next_deadline() is None
    peer.step(0, ev.TimePassed())
    assert peer.election.next_deadline() is None
    assert peer.state is LOOKING
    peer.step(RESEND_MS_MIN, ev.LogDrained(peer.generation))
    assert peer.state is LEADING


@pytest.mark.parametrize("back", [1, -1])
def test_a_voter_that_elects_in_another_round_has_left(back: int) -> None:
    follower = Follower()
    assert follower.peer.following is not None
    follower.vote(3, 3, LOOKING, round=follower.peer.election.round + back)
    assert follower.has_left


def test_a_voter_that_follows_has_not_left() -> None:
    follower = Follower()
    for ahead in (0, 1):
        follower.vote(3, 3, LEADING, round=follower.peer.election.round + ahead)
        assert not follower.has_left
    assert follower.peer.link_to_leader == LEADERS_LINK


def test_a_vote_of_the_present_round_that_is_no_worse_is_no_new_election() -> None:
    follower = Follower()
    follower.vote(3, 3, LOOKING, zxid=LAST)
    assert not follower.has_left


def test_who_counts_on_voters_that_found_a_better_one_elects_again_soon() -> None:
    """Server 2 of three has won with its own vote and that of 1, and then 3 comes, which is better."""
    winner = Alone(2, restored(), 3)
    winner.tell(ev.ElectionLinkDown(ServerId(3)))
    winner.vote(1, 2)
    assert winner.peer.leading is not None
    winner.vote(3, 3)
    assert winner.peer.leading is not None, "it did not count on 3"
    winner.vote(1, 2)
    assert winner.peer.leading is not None, "1 says the same again"
    winner.vote(1, 3)
    assert winner.peer.leading is not None, "not at once"
    assert winner.said("server 1 votes for another one, and without it there is no quorum")
    winner.wait(VAIN_MS - 1)
    assert winner.peer.leading is not None
    winner.wait(1)
    assert winner.peer.state is LOOKING


def test_voter_that_turned_and_comes_all_the_same_is_waited_for() -> None:
    winner = Alone(2, restored(), 3)
    winner.tell(ev.ElectionLinkDown(ServerId(3)))
    winner.vote(1, 2)
    winner.vote(1, 3)
    winner.tell(ev.QuorumLinkUp(Link(10), ServerId(1), inbound=True))
    winner.hear(10, msg.FollowerInfo(Epoch(1), LINEAGE, BATCHES, False, False, False, False))
    winner.wait(VAIN_MS)
    assert winner.peer.leading is not None


def test_who_counts_on_a_quorum_goes_on_without_one_voter() -> None:
    winner = Alone(3, restored(), 5)
    for sid in (4, 5):
        winner.tell(ev.ElectionLinkDown(ServerId(sid)))
    for sid in (1, 2):
        winner.vote(sid, 3)
    assert winner.peer.leading is not None
    winner.tell(ev.QuorumLinkUp(Link(10), ServerId(1), inbound=True))
    winner.hear(10, msg.FollowerInfo(Epoch(1), LINEAGE, BATCHES, False, False, False, False))
    winner.vote(1, 5)
    assert winner.peer.leading is not None, "1 has dialled: its vote is what it said before"
    winner.vote(2, 5)
    winner.wait(VAIN_MS)
    assert winner.peer.state is LOOKING


@pytest.mark.parametrize("leader_state", [LEADING, LOOKING, FOLLOWING])
def test_a_first_start_is_joined_by_who_missed_its_end(leader_state: State) -> None:
    """All are empty; 2 and 3 had the votes of all and are done, and server 1 knows of neither's last vote."""
    alone = Alone(1, nothing_held(NOTHING), 3)
    said = {"zxid": Zxid(0), "epoch": Epoch(0), "lineage": b"", "amnesiac": True, "holds": NOTHING}
    alone.vote(2, 3, FOLLOWING, **said)
    assert alone.peer.state is LOOKING
    alone.vote(3, 3, leader_state, **said)
    if leader_state is FOLLOWING:
        assert alone.peer.state is LOOKING, "nobody says that it leads"
    else:
        assert (alone.peer.state, alone.peer.leader) == (FOLLOWING, 3), "elected with it, or after it"


def test_a_first_start_with_one_who_has_a_history_is_none() -> None:
    alone = Alone(1, nothing_held(NOTHING), 3)
    said = {"zxid": Zxid(0), "epoch": Epoch(0), "lineage": b"", "amnesiac": True, "holds": NOTHING}
    alone.vote(2, 3, FOLLOWING, **{**said, "holds": BATCHES})
    alone.vote(3, 3, LEADING, **said)
    assert alone.peer.state is LOOKING


def test_only_who_says_so_is_marked_or_doubted() -> None:
    alone = Alone(1, nothing_held(NOTHING), 3)
    standing = alone.peer.election.standing
    assert (standing.marked, standing.doubted, standing.vote.marked) == (False, False, False)
    for candidate in (restored(), nothing_held(BATCHES)):
        notification = told(Alone(1, candidate, 3), 2)[0]
        assert (notification.marked, notification.doubted, notification.leader_marked) == (False, False, False)


def test_nobody_takes_from_others_what_it_says_of_itself() -> None:
    """A vote of the time before its disk was emptied names the history that it had then."""
    wiped = Alone(3, nothing_held(NOTHING), 5)
    wiped.vote(1, 1)
    wiped.vote(4, 3, round=wiped.peer.election.round + 1)
    assert wiped.peer.election.proposal == wiped.peer.standing().vote
    wiped.vote(1, 1, round=wiped.peer.election.round)
    assert wiped.peer.election.proposal.leader == 1


def test_a_settled_vote_is_marked_by_nobody() -> None:
    follower = Follower()
    follower.serve()
    follower.vote(2, 2)
    assert [notification.leader_marked for notification in told(follower, 2)] == [False]


def test_what_waits_behind_the_vote_that_ends_an_election_does_not_begin_it_again() -> None:
    follower = Follower(voters=5)
    follower.serve()
    follower.tell(ev.QuorumLinkDown(LEADERS_LINK))
    for sid in (2, 4):
        follower.vote(sid, 3, FOLLOWING)
    follower.vote(3, 3, LEADING)
    follower.vote(5, 5, round=follower.peer.election.round + 1)
    follower.forget()
    follower.drained()
    assert follower.peer.leader == 3
    assert len(told(follower, 2)) == 1


def test_the_election_ends_when_the_last_server_that_was_waited_for_is_unreachable() -> None:
    alone = Alone(2, restored(), 3)
    alone.vote(1, 2)
    assert alone.peer.election.winner is None
    alone.tell(ev.ElectionLinkDown(ServerId(3)))
    assert alone.peer.leader == 2


def test_electors_that_follow_have_not_left_although_their_votes_name_another_end() -> None:
    leader = Leader()
    for sid in (1, 2):
        leader.vote(sid, 3, FOLLOWING, zxid=0, epoch=Epoch(0))
    assert leader.peer.state is LEADING


def test_a_voter_of_another_lineage_without_batches_is_heard_while_it_elects() -> None:
    """A server that follows in it has taken a lineage that this member cannot take."""
    for state, is_heard in ((LOOKING, True), (FOLLOWING, False)):
        alone = Alone(1, restored(), 3)
        alone.vote(2, 2, state, lineage=OTHER_LINEAGE, holds=NOTHING)
        assert (2 in alone.peer.election.received) is is_heard


def test_members_of_different_rounds_that_follow_one_leader_are_counted_together() -> None:
    alone = Alone(1, restored(), 3)
    alone.vote(2, 3, FOLLOWING, round=alone.peer.election.round + 1)
    alone.vote(3, 3, LEADING)
    assert alone.peer.leader == 3
