"""What a member that elects hears of configurations and of histories: whom it believes, what it may begin, and who is
told."""

from __future__ import annotations

import attrs
import pytest

from datatree.log.zxid import Epoch, Zxid
from tests.protocol.alone import (
    HISTORY,
    LINEAGE,
    OTHER_LINEAGE,
    Alone,
    Leader,
    config,
    nothing_held,
    reconfiguration,
    restored,
)
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.election import RESEND_MS_MAX, RESEND_MS_MIN
from zab.protocol.peer_settings import Restored, nothing
from zab.protocol.states import BATCHES, FOLLOWING, FOUNDER, LEADING, LOOKING, NOTHING
from zab.quorum.ids import Link, ServerId

STALE = config(1 << 32 | 4, (2,))
NEW = Zxid(2 << 32 | 1)
BEYOND = {"zxid": NEW, "epoch": Epoch(2)}
EMPTY = {"zxid": Zxid(0), "epoch": Epoch(0), "lineage": b"", "holds": NOTHING, "amnesiac": True}


def voters(alone: Alone) -> set[int]:
    return set(alone.peer.quorum.voters)


def empty(sid: int = 3, *, marked: bool = False, **settings: object) -> Alone:
    """A server of three that has never lived, or lost its disk."""
    return Alone(sid, attrs.evolve(nothing(), marked=marked), 3, takes_unlisted=True, **settings)


def all_empty(alone: Alone, leader: int = 3) -> None:
    """The other voters have nothing, and vote for this leader."""
    for sid in sorted({1, 2, 3} - {alone.peer.settings.sid}):
        alone.vote(sid, leader, **EMPTY)


def unlisted(alone: Alone, sid: int, text: bytes, *, is_proven: bool, **fields: object) -> None:
    """A server of no configuration votes, and tells of one."""
    alone.vote(sid, sid, LEADING, config=text, is_proven=is_proven, **{**BEYOND, **fields})


# ----------------------------------------------------------------------------------------- who begins no lineage (B3)


def test_b3_an_empty_member_that_heard_of_a_configuration_founds_nothing_by_it() -> None:
    """Server 2 lost its disk; its file says 1, 2, 3. Once {2} was in force, and 3 knows nothing newer."""
    alone = empty(2)
    alone.vote(3, 3, config=STALE, zxid=Zxid(1 << 32 | 4))
    assert voters(alone) == {2}, "it looks for a leader by what it heard"
    assert alone.peer.leading is None
    assert not alone.did(fx.SaveEpochs)
    alone.wait(10_000)
    assert alone.peer.leading is None


def test_b3_nor_when_the_one_that_told_of_it_has_nothing_any_more() -> None:
    alone = empty(2)
    alone.vote(3, 3, config=STALE, zxid=Zxid(1 << 32 | 4))
    alone.vote(3, 3, **EMPTY)
    assert voters(alone) == {2}
    alone.tell(ev.ElectionLinkDown(ServerId(3)))
    alone.wait(10_000)
    assert alone.peer.state is LOOKING
    assert not alone.did(fx.SaveEpochs)


def test_b3_it_follows_as_soon_as_it_hears_what_is_in_force() -> None:
    alone = empty(2)
    alone.vote(3, 3, config=STALE, zxid=Zxid(1 << 32 | 4))
    for _ in range(2):
        alone.vote(4, 4, LEADING, config=config(NEW, (1, 2, 4)), is_proven=True, **BEYOND)
        alone.vote(1, 4, FOLLOWING, config=config(NEW, (1, 2, 4)), is_proven=True, **BEYOND)
    assert alone.did(fx.ConnectQuorum) == [fx.ConnectQuorum(ServerId(4))]


@pytest.mark.parametrize("teller", [1, 4])
def test_b3_all_are_empty_and_one_heard_of_a_history_beside_them(teller: int) -> None:
    """Server 4 is in no configuration that is known here; server 1 votes for somebody who has a history."""
    alone = empty()
    alone.vote(teller, 4, **{**EMPTY, "zxid": NEW} if teller == 1 else {})
    all_empty(alone, leader=4)
    if teller == 4:
        all_empty(alone)
        assert alone.peer.leading is None
    assert alone.peer.leading is None
    alone.vote(teller, 3, **EMPTY)
    all_empty(alone)
    assert alone.peer.state is LEADING, "that server has lost everything, as it says"


def test_b3_a_leader_that_hears_of_a_history_gives_the_lineage_up_that_it_begins() -> None:
    alone = empty()
    all_empty(alone)
    for sid in (1, 2):
        alone.tell(ev.QuorumLinkUp(Link(10 * sid), ServerId(sid), inbound=True))
        alone.hear(10 * sid, msg.FollowerInfo(Epoch(0), b"", NOTHING, True, False, False, False))
    assert alone.peer.leading is not None
    assert alone.peer.leading.first_start
    alone.vote(7, 7, LEADING)
    assert alone.peer.state is LOOKING
    assert alone.said("server 7 tells of a history: no lineage begins here")


def test_b3_a_follower_that_hears_of_a_history_leaves_a_leader_that_may_begin_a_lineage() -> None:
    alone = empty(1)
    all_empty(alone)
    assert alone.peer.state is FOLLOWING
    alone.vote(7, 7, LEADING)
    assert alone.peer.state is LOOKING


def test_b3_a_learner_with_a_history_keeps_a_leader_from_beginning_one() -> None:
    """A server that has no vote, and was not heard in the election."""
    alone = empty()
    all_empty(alone)
    alone.tell(ev.QuorumLinkUp(Link(70), ServerId(7), inbound=True))
    alone.hear(70, msg.FollowerInfo(Epoch(1), LINEAGE, BATCHES, False, True, False, False))
    for sid in (1, 2):
        alone.tell(ev.QuorumLinkUp(Link(10 * sid), ServerId(sid), inbound=True))
        alone.hear(10 * sid, msg.FollowerInfo(Epoch(0), b"", NOTHING, True, False, False, False))
    assert alone.peer.leading is None or not alone.peer.leading.first_start
    assert not alone.did(fx.SaveEpochs)


def test_b3_markers_count_for_nothing_beside_a_history_of_a_server_in_no_configuration() -> None:
    alone = empty(marked=True)
    assert alone.peer.marked
    alone.vote(7, 7, LEADING)
    assert not alone.peer.marked
    for sid in (1, 2):
        alone.vote(sid, 3, marked=True, leader_marked=True, **EMPTY)
    assert alone.peer.leading is None


def test_b3_markers_wait_for_an_observer_that_can_be_reached() -> None:
    """It may have the history that all voters lost."""
    alone = empty(marked=True, observers=(4,))
    for sid in (1, 2):
        alone.vote(sid, 3, marked=True, leader_marked=True, **EMPTY)
    alone.wait(10_000)
    assert alone.peer.state is LEADING, "all voters are here"
    alone = empty(marked=True, observers=(4,))
    alone.tell(ev.ElectionLinkDown(ServerId(1)))
    alone.vote(2, 3, marked=True, leader_marked=True, **EMPTY)
    alone.wait(10_000)
    assert alone.peer.leading is None
    alone.tell(ev.ElectionLinkDown(ServerId(4)))
    alone.wait(1_000)
    assert alone.peer.state is LEADING


def test_b3_what_forced_recovery_made_begins_beside_histories_that_were_given_up() -> None:
    """The operator said that there is nothing better."""
    leader = Alone(3, nothing_held(FOUNDER, amnesiac=False, current=1), 3, takes_unlisted=True)
    leader.vote(7, 7, LEADING, lineage=OTHER_LINEAGE)
    own = leader.peer.standing().vote
    for sid in (1, 2):
        leader.vote(sid, 3, **{**EMPTY, "zxid": own.zxid, "epoch": own.epoch})
    assert leader.peer.state is LEADING


def test_b3_nobody_was_heard_of_and_all_are_empty() -> None:
    alone = empty()
    all_empty(alone)
    assert alone.peer.state is LEADING


# ------------------------------------------------------------------------------- what is heard belongs to a lineage


def follow(alone: Alone, leader: int, follower: int, text: bytes = b"", **fields: object) -> None:
    """Both say who leads, and say it again to a member that elects again because of that."""
    for _ in range(2):
        alone.vote(leader, leader, LEADING, config=text, **{**BEYOND, **fields})
        alone.vote(follower, leader, FOLLOWING, config=text, **{**BEYOND, **fields})


def left_of_an_ended_lineage(alone: Alone, state: object = LOOKING) -> None:
    """Server 4 tells of a configuration whose version is above all of the lineage that goes on."""
    text = config(5 << 32 | 16, (1, 4, 5))
    alone.vote(4, 4, state, config=text, is_proven=True, **{**BEYOND, "lineage": OTHER_LINEAGE})


@pytest.mark.parametrize("text", [b"", config(NEW, (1, 2, 3))])
def test_what_is_left_of_an_ended_lineage_keeps_nobody_from_the_one_that_goes_on(text: bytes) -> None:
    """Server 1 lost its disk. Servers 2 and 3 started again, and have changed nothing yet, or have."""
    alone = empty(1)
    left_of_an_ended_lineage(alone)
    assert voters(alone) == {1, 4, 5}
    alone.forget()
    alone.wait(10_000)
    assert {effect.sid for effect in alone.did(fx.SendNotification)} >= {2, 3}, "those of its file are asked, too"
    follow(alone, 2, 3, text)
    assert alone.did(fx.ConnectQuorum) == [fx.ConnectQuorum(ServerId(2))]
    assert voters(alone) == {1, 2, 3}


def test_who_has_no_leader_tells_an_empty_member_of_no_second_lineage() -> None:
    alone = empty(1)
    alone.vote(2, 2, config=config(NEW, (1, 2)), **BEYOND)
    left_of_an_ended_lineage(alone)
    assert voters(alone) == {1, 2}


def test_who_has_a_leader_and_holds_nothing_does_neither() -> None:
    """It follows one that is about to begin."""
    alone = empty(1)
    left_of_an_ended_lineage(alone)
    alone.vote(2, 3, FOLLOWING, **{**EMPTY, "lineage": LINEAGE})
    assert voters(alone) == {1, 4, 5}


def test_where_two_lineages_live_an_empty_member_stays_with_one_for_a_tick() -> None:
    alone = empty(1)
    left_of_an_ended_lineage(alone, LEADING)
    alone.vote(2, 2, LEADING, **BEYOND)
    assert voters(alone) == {1, 2, 3}
    left_of_an_ended_lineage(alone, LEADING)
    assert voters(alone) == {1, 2, 3}
    alone.wait(alone.peer.settings.tick_ms)
    left_of_an_ended_lineage(alone, LEADING)
    assert voters(alone) == {1, 4, 5}


def test_b3_who_turned_from_one_lineage_to_another_founds_none() -> None:
    alone = empty(1)
    left_of_an_ended_lineage(alone)
    alone.vote(2, 2, LEADING, **BEYOND)
    alone.vote(4, 4, is_proven=True, **EMPTY)
    all_empty(alone, leader=3)
    alone.wait(10_000)
    assert alone.peer.state is LOOKING
    assert not alone.did(fx.SaveEpochs)


def test_what_was_heard_of_another_lineage_is_forgotten_with_a_lineage() -> None:
    alone = empty(1)
    alone.vote(2, 2, config=config(5 << 32 | 16, (1, 2)), lineage=OTHER_LINEAGE)
    assert voters(alone) == {1, 2}
    alone.peer.adopt_lineage(LINEAGE)
    assert alone.peer.memberships.heard is None
    assert set(alone.peer.memberships.quorum.voters) == {1, 2, 3}


def test_what_was_heard_of_the_same_lineage_stays() -> None:
    alone = empty(1)
    alone.vote(2, 2, config=config(5 << 32 | 16, (1, 2)), lineage=LINEAGE)
    alone.peer.adopt_lineage(LINEAGE)
    assert set(alone.peer.memberships.quorum.voters) == {1, 2}


def test_a_follower_forgets_it_with_the_leaders_lineage() -> None:
    """It takes the lineage on and sets nothing aside, since there is nothing. Its leader has just started again."""
    alone = empty(1)
    alone.vote(2, 2, config=config(5 << 32 | 16, (2, 3)), lineage=OTHER_LINEAGE)
    follow(alone, 3, 2, lineage=OTHER_LINEAGE)
    assert alone.peer.state is FOLLOWING
    alone.tell(ev.QuorumLinkUp(Link(30), ServerId(3), inbound=False))
    alone.hear(30, msg.LeaderInfo(Epoch(3), LINEAGE))
    assert alone.peer.memberships.heard is None
    assert voters(alone) == {1, 2, 3}
    assert alone.did(fx.MembershipsChanged)[-1].heard == ()


def member_of_an_empty_lineage_that_heard_of_another_one() -> Alone:
    """Nothing is written yet. Somebody left over from another ensemble says that 1 alone decides."""
    alone = Alone(1, nothing_held(NOTHING, amnesiac=False, current=1), 3, takes_unlisted=True)
    unlisted(alone, 4, config(5 << 32 | 16, (1,)), is_proven=True, lineage=OTHER_LINEAGE)
    alone.wait(1_000)
    return alone


def test_nobody_leads_by_what_another_lineage_decided() -> None:
    alone = member_of_an_empty_lineage_that_heard_of_another_one()
    assert alone.peer.state is LEADING, "for that election it has a quorum"
    assert voters(alone) == {1, 2, 3}
    assert alone.did(fx.SaveEpochs) == []


def test_a_follower_of_the_own_lineage_forgets_what_another_one_decided() -> None:
    alone = Alone(1, nothing_held(NOTHING, amnesiac=False, current=1), 3, takes_unlisted=True)
    unlisted(alone, 4, config(5 << 32 | 16, (2, 3)), is_proven=True, lineage=OTHER_LINEAGE)
    for sid in (2, 3):
        alone.vote(sid, 3, **BEYOND)
    alone.wait(1_000)
    assert alone.peer.state is FOLLOWING
    assert voters(alone) == {2, 3}, "nobody had a leader yet, so it elected by what it heard"
    alone.tell(ev.QuorumLinkUp(Link(30), ServerId(3), inbound=False))
    alone.hear(30, msg.LeaderInfo(Epoch(3), LINEAGE))
    assert voters(alone) == {1, 2, 3}


# ------------------------------------------------------------------------------------ whom a returning member believes


def test_a_proven_server_of_no_configuration_may_say_what_is_in_force() -> None:
    """{1, 2, 3} has become {3, 4, 5} while server 3 was down, and nobody of its file is left."""
    alone = Alone(3, restored(), 3, takes_unlisted=True)
    alone.forget()
    unlisted(alone, 4, config(NEW, (3, 4, 5)), is_proven=True)
    assert voters(alone) == {3, 4, 5}
    assert {effect.sid for effect in alone.did(fx.SendNotification)} >= {4, 5}, "it asks them now"
    unlisted(alone, 4, config(NEW, (3, 4, 5)), is_proven=True)
    alone.vote(5, 4, FOLLOWING, **BEYOND)
    assert alone.did(fx.ConnectQuorum) == [fx.ConnectQuorum(ServerId(4))]


def test_two_of_them_elect_when_the_third_ends() -> None:
    alone = Alone(3, restored(), 3, takes_unlisted=True)
    alone.vote(4, 4, config=config(NEW, (3, 4, 5)), is_proven=True, **BEYOND)
    alone.tell(ev.ElectionLinkDown(ServerId(5)))
    alone.vote(4, 4, config=config(NEW, (3, 4, 5)), is_proven=True, **BEYOND)
    assert alone.peer.state is FOLLOWING


@pytest.mark.parametrize(
    ("is_proven", "lineage", "takes_unlisted"),
    [(False, LINEAGE, True), (True, OTHER_LINEAGE, True), (True, LINEAGE, False)],
)
def test_no_other_unlisted_server_says_who_decides(is_proven: bool, lineage: bytes, takes_unlisted: bool) -> None:
    """Not without proof, not of another ensemble, and not where there are no reconfigurations."""
    alone = Alone(3, restored(), 3, takes_unlisted=takes_unlisted)
    unlisted(alone, 4, config(NEW, (3, 4, 5)), is_proven=is_proven, lineage=lineage)
    assert voters(alone) == {1, 2, 3}
    assert not alone.did(fx.MembershipsChanged)


def test_an_unproven_unlisted_server_plants_nothing_in_an_empty_member() -> None:
    alone = empty(1)
    unlisted(alone, 4, config(NEW, (4, 5)), is_proven=False)
    assert voters(alone) == {1, 2, 3}


def test_a_leader_tells_at_every_tick_those_that_its_configuration_names_and_that_do_not_follow() -> None:
    leader = Leader(takes_unlisted=True)
    leader.establish(1, 2)
    tick = leader.peer.settings.tick_ms

    def told() -> list[tuple[int, bytes]]:
        leader.forget()
        for _ in range(2):
            leader.wait(tick // 2)
            for sid in (1, 2):
                mark = leader.peer.committed
                leader.hear(10 * sid, msg.Ping(mark, mark, 7, [], False))
        return [(effect.sid, effect.in_force) for effect in leader.did(fx.SendNotification)]

    assert told() == [], "where there was no reconfiguration the files say it"
    change = leader.reconfigure(1, 2, 3, 4, observers=(6,))
    leader.durable(change)
    for sid in (1, 2):
        leader.acknowledge(sid, change)
    assert told() == [(4, config(change, (1, 2, 3, 4), (6,))), (6, config(change, (1, 2, 3, 4), (6,)))]
    leader.tell(ev.ElectionLinkDown(ServerId(6)))
    assert [sid for sid, _ in told()] == [4], "there is no link to the other one"
    leader.dial(4)
    assert told() == []


# --------------------------------------------------------------------------------------------------- who passes it on


def told(alone: Alone) -> set[bytes]:
    """What it says to be in force, with the next vote."""
    alone.forget()
    alone.wait(10_000)
    return {effect.in_force for effect in alone.did(fx.SendNotification)}


def test_who_holds_a_history_passes_on_what_it_heard() -> None:
    """{1, 2, 3} has become {3, 4}. Server 3 has heard so; all that told it are gone, and server 4 was down."""
    third = Alone(3, restored(), 3, takes_unlisted=True)
    assert told(third) == {b""}
    unlisted(third, 5, config(NEW, (3, 4)), is_proven=True)
    assert told(third) == {config(NEW, (3, 4))}
    fourth = Alone(4, restored(), 3, takes_unlisted=True)
    fourth.vote(3, 3, config=config(NEW, (3, 4)))
    fourth.vote(3, 4, config=config(NEW, (3, 4)))
    assert fourth.peer.state is LEADING


def test_b3_who_holds_nothing_passes_nothing_on() -> None:
    """Two empty servers would keep each other from beginning, no matter who told the first of them is gone."""
    alone = empty(2)
    unlisted(alone, 4, config(NEW, (2, 3)), is_proven=True)
    assert voters(alone) == {2, 3}
    assert told(alone) == {b""}


def test_nothing_of_another_lineage_is_passed_on() -> None:
    """Its lineage has no configuration yet, so it elects by what it heard of any."""
    alone = Alone(2, nothing_held(NOTHING, amnesiac=False), 3, takes_unlisted=True)
    unlisted(alone, 4, config(NEW, (2, 3)), is_proven=True, lineage=OTHER_LINEAGE)
    assert voters(alone) == {2, 3}
    assert told(alone) == {b""}


# ------------------------------------------------------------------------------------------------ stale candidates


def electing_with(outstanding: bytes, found: Restored | None = None) -> Alone:
    """Server 1; at server 2 this is outstanding."""
    alone = Alone(1, restored() if found is None else found, 3)
    alone.vote(2, 2, outstanding=outstanding)
    return alone


@pytest.mark.parametrize("is_any_outstanding_here", [False, True])
def test_candidates_of_what_is_over_may_lead_no_more(is_any_outstanding_here: bool) -> None:
    """Another one came into force; also where one is outstanding here, above that."""
    end = HISTORY[-1].zxid, HISTORY[-1].chain
    change = reconfiguration(end, 4, 1, 1, 4, 5)
    alone = electing_with(
        config(2 << 32 | 1, (1, 2, 9)), restored([*HISTORY, change], accepted=4) if is_any_outstanding_here else None
    )
    own = {1, 4, 5} if is_any_outstanding_here else set()
    assert alone.peer.election.candidates == {1, 2, 3, 9} | own
    alone.vote(3, 3, config=config(3 << 32 | 1, (1, 7, 8)))
    assert alone.peer.election.candidates == {1, 7, 8} | own
    assert not alone.peer.memberships.outstanding_at


def test_candidates_of_what_is_not_outstanding_any_more_may_lead_no_more() -> None:
    """Server 2 has cut it away, while this one votes for a server that it would have taken in."""
    alone = electing_with(config(2 << 32 | 1, (1, 2, 9)))
    alone.vote(2, 9, outstanding=config(2 << 32 | 1, (1, 2, 9)), zxid=NEW, epoch=Epoch(2))
    assert alone.peer.election.proposal.leader == 9
    alone.vote(2, 2)
    assert alone.peer.election.candidates == {1, 2, 3}
    assert alone.peer.election.proposal.leader in (1, 2, 3)


@pytest.mark.parametrize("lineage", [b"", OTHER_LINEAGE])
def test_candidates_of_who_lost_its_disk_may_lead_no_more(lineage: bytes) -> None:
    """What was outstanding there went with the disk. The others were not told of it, and do not vote for 9."""
    alone = electing_with(config(2 << 32 | 1, (1, 2, 9)))
    alone.vote(2, 9, outstanding=config(2 << 32 | 1, (1, 2, 9)), zxid=NEW, epoch=Epoch(2))
    assert alone.peer.election.proposal.leader == 9
    alone.vote(2, 2, **{**EMPTY, "lineage": lineage})
    assert alone.peer.election.candidates == {1, 2, 3}
    assert alone.peer.election.proposal.leader == 1
    alone.vote(3, 3)
    alone.wait(1_000)
    assert alone.peer.state is FOLLOWING


def test_candidates_of_who_cannot_be_reached_may_lead_no_more() -> None:
    alone = electing_with(config(2 << 32 | 1, (1, 2, 9)))
    alone.vote(2, 9, outstanding=config(2 << 32 | 1, (1, 2, 9)), zxid=NEW, epoch=Epoch(2))
    alone.tell(ev.ElectionLinkDown(ServerId(2)))
    assert alone.peer.election.candidates == {1, 2, 3}
    alone.vote(3, 3)
    alone.wait(1_000)
    assert alone.peer.state is FOLLOWING


def test_a_vote_for_such_a_candidate_is_taken_back_whatever_it_was_said_with() -> None:
    alone = electing_with(config(2 << 32 | 1, (1, 2, 9)))
    alone.vote(2, 9, outstanding=config(2 << 32 | 1, (1, 2, 9)), zxid=NEW, epoch=Epoch(2))
    alone.vote(2, 2, round=0)
    assert alone.peer.election.proposal.leader == 1


def test_candidates_of_an_earlier_election_may_lead_no_more() -> None:
    alone = electing_with(config(2 << 32 | 1, (1, 2, 9)))
    alone.vote(3, 3, LEADING, **BEYOND)
    alone.vote(2, 3, FOLLOWING, outstanding=config(2 << 32 | 1, (1, 2, 9)), **BEYOND)
    assert alone.peer.state is FOLLOWING
    alone.tell(ev.QuorumLinkUp(Link(30), ServerId(3), inbound=False))
    alone.hear(30, msg.Refused("over"))
    assert alone.peer.state is LOOKING
    assert alone.peer.election.candidates == {1, 2, 3}


def five_of_which_one_stands_still() -> Alone:
    """Server 2 told server 1 alone of what is outstanding, and stands still then, with its link up; 5 is gone."""
    alone = Alone(1, restored(), 5)
    alone.tell(ev.ElectionLinkDown(ServerId(5)))
    alone.vote(2, 9, outstanding=config(2 << 32 | 1, (1, 2, 9)), zxid=NEW, epoch=Epoch(2))
    assert alone.peer.election.proposal.leader == 9
    return alone


def test_candidates_of_who_stands_still_may_lead_no_more() -> None:
    """Servers 1, 3 and 4 are a quorum. The last two were not told of 9, and vote for 4."""
    alone = five_of_which_one_stands_still()
    for _ in range(8):
        for sid in (3, 4):
            alone.vote(sid, 4)
        alone.wait(RESEND_MS_MAX)
    assert alone.peer.election.candidates == {1, 2, 3, 4, 5}
    assert alone.did(fx.ConnectQuorum) == [fx.ConnectQuorum(ServerId(4))]


def test_candidates_of_who_goes_on_telling_of_them_may_lead() -> None:
    alone = five_of_which_one_stands_still()
    for _ in range(8):
        alone.vote(2, 9, outstanding=config(2 << 32 | 1, (1, 2, 9)), zxid=NEW, epoch=Epoch(2))
        alone.wait(RESEND_MS_MAX)
        assert alone.peer.election.candidates == {1, 2, 3, 4, 5, 9}


def test_who_is_slow_to_answer_does_not_stand_still() -> None:
    """It was asked a moment ago, for the first time."""
    alone = five_of_which_one_stands_still()
    alone.wait(RESEND_MS_MIN)
    alone.wait(2 * RESEND_MS_MIN)
    assert 9 in alone.peer.election.candidates
