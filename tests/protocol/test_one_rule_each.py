"""What a peer must not do, one rule a test: a peer alone, with each event said by the test.

The rules are those that no run of an ensemble misses soon enough when they are taken out (`make mutants`): what only a
faulty peer sends, what happens in an unlucky order, and limits.
"""

from __future__ import annotations

import attrs
import pytest

from datatree.log.batch import genesis
from datatree.log.zxid import EPOCH_MAX, Epoch, Zxid, make_zxid
from tests.protocol.alone import (
    FIRST,
    HISTORY,
    LAST,
    LEADERS_LINK,
    LINEAGE,
    OTHER_LINEAGE,
    Alone,
    Follower,
    Leader,
    batch_after,
    history,
    nothing_held,
    restored,
)
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.fields import NO_VOTE
from zab.protocol.roles import Stage
from zab.protocol.states import BATCHES, BROADCAST, DISCOVERY, FOLLOWING, FOUNDER, LEADING, LOOKING, NOTHING
from zab.protocol.synchronization import PROPOSAL_BYTES_MAX
from zab.quorum.ids import Link, ServerId

NEXT = batch_after((LAST, HISTORY[1].chain), 2, 1)

# ------------------------------------------------------------------------------------ what ends a link, and the reason

FROM_A_LEADER = (
    ("accepted", msg.LeaderInfo(Epoch(2), LINEAGE), "a second LEADERINFO"),
    ("accepted", msg.Snap(LAST, bytes(16), False), "SNAP at"),
    ("synchronizing", msg.Proposal([batch_after((LAST, HISTORY[1].chain), 2, 7).raw]), "gap: "),
    ("synchronizing", msg.Proposal([batch_after((LAST, bytes(16)), 2, 1).raw]), "does not continue the chain"),
    ("synchronizing", msg.Proposal([batch_after((LAST, HISTORY[1].chain), 5, 1).raw]), "batch of epoch 5"),
    ("synchronizing", msg.Proposal([NEXT.raw + b"x"]), "bytes after a batch"),
    ("synchronizing", msg.NewLeader(Epoch(2), FIRST, False), "NEWLEADER at"),
    ("synchronizing", msg.NewLeader(Epoch(3), LAST, False), "NEWLEADER of epoch 3"),
    ("synchronizing", msg.UpToDate(LAST), "UPTODATE before ACK"),
    ("serving", msg.LeaderInfo(Epoch(2), LINEAGE), "renewal to epoch 2"),
    ("serving", msg.LeaderInfo(Epoch(EPOCH_MAX), LINEAGE), "renewal to epoch 2147483647"),
    ("serving", msg.Commit(make_zxid(2, 9)), "is not the end of a batch"),
)


@pytest.mark.parametrize(("stage", "message", "reason"), FROM_A_LEADER)
def test_a_leader_that_breaks_the_protocol_is_left(stage: str, message: msg.Message, reason: str) -> None:
    follower = Follower()
    if stage == "serving":
        follower.serve()
    else:
        follower.accept()
        if stage == "synchronizing":
            follower.from_leader(msg.Diff(LAST))
    follower.forget()
    follower.from_leader(message)
    assert follower.said(reason), follower.effects
    assert follower.has_left


@pytest.mark.parametrize(
    ("found", "message", "reason"),
    [
        (restored(accepted=3), msg.LeaderInfo(Epoch(2), LINEAGE), "it leads epoch 2, epoch 3 is accepted here"),
        (restored(), msg.LeaderInfo(Epoch(2), OTHER_LINEAGE), "it leads lineage"),
        (restored(), msg.LeaderInfo(Epoch(EPOCH_MAX), LINEAGE), "no epoch is above 2147483647"),
    ],
)
def test_a_leader_that_may_not_be_followed_is_left(found: object, message: msg.Message, reason: str) -> None:
    follower = Follower(found)  # type: ignore[arg-type]
    follower.forget()
    follower.from_leader(message)
    assert follower.said(reason)
    assert follower.has_left
    assert not follower.did(fx.SaveEpochs)


def test_a_snapshot_below_what_is_committed_here_stops_the_member() -> None:
    follower = Follower(restored(mark=LAST))
    follower.accept()
    follower.from_leader(msg.Snap(FIRST, HISTORY[0].chain, False))
    assert follower.did(fx.Halt)


def test_a_learner_of_another_lineage_is_refused() -> None:
    leader = Leader()
    leader.dial(1, lineage=OTHER_LINEAGE)
    assert leader.stage(1) is None
    assert "another ensemble" in leader.sent(msg.Refused, 10)[0].reason


@pytest.mark.parametrize("zxid", [FIRST, make_zxid(2, 9)])
def test_an_ack_outside_of_what_was_sent_ends_its_link(zxid: Zxid) -> None:
    leader = Leader()
    leader.establish(1, 2)
    leader.hear(10, msg.Ack(Epoch(2), zxid))
    assert leader.stage(1) is None
    assert leader.said("outside of")


def test_an_ack_of_a_proposal_before_that_of_newleader_ends_its_link() -> None:
    leader = Leader()
    leader.establish(1)
    leader.synchronize(2)
    leader.acknowledge(2, leader.propose())
    assert leader.said("ACK before the ACK of NEWLEADER")
    assert leader.stage(2) is None


def test_a_confirmation_of_a_round_that_was_not_begun_ends_its_link() -> None:
    leader = Leader()
    leader.establish(1, 2)
    leader.hear(10, msg.Confirmed(99))
    assert leader.stage(1) is None


def test_a_newer_link_of_a_server_takes_the_place_of_the_older_one() -> None:
    leader = Leader()
    leader.establish(1, 2)
    leader.tell(ev.QuorumLinkUp(Link(11), ServerId(1), inbound=True))
    assert [effect.link for effect in leader.did(fx.CloseLink)] == [10]
    assert [handler.link for handler in leader.leading.handlers.values() if handler.sid == 1] == [11]


# ----------------------------------------------------------------------------------------------------------- election


def test_a_vote_for_a_server_that_is_no_voter_changes_nothing() -> None:
    alone = Alone(1, restored(), 3)
    alone.vote(2, 9, epoch=Epoch(7))
    assert alone.peer.election.proposal.leader == 1
    assert 2 not in alone.peer.election.received


def test_votes_of_an_earlier_round_are_forgotten() -> None:
    alone = Alone(1, restored(), 5)
    alone.vote(2, 5)
    alone.vote(3, 5, round=7)
    assert alone.peer.election.received.keys() == {1, 3}


def test_a_lineage_without_any_batch_binds_nobody() -> None:
    """A7: it hears voters of another lineage that has some."""
    alone = Alone(1, nothing_held(NOTHING), 3)
    alone.vote(2, 3, lineage=OTHER_LINEAGE)
    assert 2 in alone.peer.election.received


def test_a_lineage_with_batches_hears_no_voter_of_another() -> None:
    alone = Alone(1, restored(), 3)
    alone.vote(2, 3, lineage=OTHER_LINEAGE)
    assert 2 not in alone.peer.election.received


def test_an_amnesiac_that_follows_names_no_leader() -> None:
    """B2: of three, one leads and an amnesiac follows it. That is no quorum of members that know of it."""
    alone = Alone(1, nothing_held(NOTHING), 3)
    alone.vote(2, 3, FOLLOWING, amnesiac=True)
    alone.vote(3, 3, LEADING)
    assert alone.peer.election.winner is None
    alone.vote(2, 3, FOLLOWING)
    assert alone.peer.election.winner == 3


def test_an_amnesiac_votes_without_its_epoch() -> None:
    """B2: what an amnesiac promised once may be forged by an older copy of its disk."""
    alone = Alone(1, nothing_held(NOTHING, current=5), 3)
    assert alone.peer.standing().vote.epoch == 0


def test_e6_a_member_with_a_wrong_tree_is_not_elected() -> None:
    alone = Alone(1, restored(), 3)
    alone.vote(2, 2)
    assert alone.peer.election.has_quorum(alone.peer.election.proposal)
    alone.vote(2, 2, doubted=True)
    assert not alone.peer.election.has_quorum(alone.peer.election.proposal)


def test_a_marker_does_not_count_beside_a_history() -> None:
    assert Alone(1, nothing_held(NOTHING, marked=True), 3).peer.marked
    assert not Alone(1, nothing_held(BATCHES, marked=True), 3).peer.marked
    assert not Alone(1, attrs.evolve(restored(), marked=True), 3).peer.marked


# ---------------------------------------------------------------------------------------------------------- discovery


def test_an_amnesiac_that_leads_does_not_count_itself() -> None:
    leader = Leader(nothing_held(NOTHING), voters=3)
    leader.dial(1)
    assert leader.leading.epoch is None
    leader.dial(2)
    assert leader.leading.epoch is not None
    leader.saved()
    assert leader.leading.acke_recv == set()


def test_a_member_that_is_no_founder_begins_no_lineage_beside_one() -> None:
    """B3: forced recovery made a beginning elsewhere; who has nothing does not begin a lineage without it."""
    leader = Leader(nothing_held(NOTHING), voters=3)
    leader.dial(1, holds=FOUNDER, amnesiac=True)
    leader.dial(2, holds=NOTHING, amnesiac=True)
    assert leader.leading.epoch is None


def test_leaderinfo_waits_for_the_leaders_own_promise() -> None:
    leader = Leader()
    leader.dial(1)
    leader.dial(2)
    assert not leader.sent(msg.LeaderInfo)
    leader.saved()
    assert len(leader.sent(msg.LeaderInfo)) == 2


def test_a_promise_that_may_be_another_leaders_does_not_count() -> None:
    leader = Leader()
    leader.dial(1)
    leader.dial(2)
    leader.saved()
    leader.forget()
    leader.accept(1, epoch=NO_VOTE)
    assert leader.leading.acke_recv == {3}
    assert not leader.did(fx.SaveEpochs)


@pytest.mark.parametrize(("epoch", "zxid"), [(1, make_zxid(1, 3)), (2, FIRST)])
def test_a_learner_that_is_ahead_is_not_cut(epoch: int, zxid: Zxid) -> None:
    """By epoch first: in an epoch that the leader was not in, a shorter history may be committed."""
    leader = Leader()
    leader.dial(1)
    leader.dial(2)
    leader.saved()
    leader.accept(1, epoch, zxid)
    assert leader.stage(1) is None
    assert leader.said("it is ahead of the leader")
    assert leader.peer.state is LEADING


def test_f2_a_leader_that_cannot_win_without_a_learner_that_is_ahead_gives_up_at_once() -> None:
    leader = Leader()
    leader.dial(1)
    leader.saved()
    leader.accept(1, epoch=2)
    assert leader.peer.state is LOOKING


def test_b4_a_member_that_reports_less_than_it_acknowledged_is_an_amnesiac() -> None:
    leader = Leader()
    leader.establish(1, 2)
    leader.tell(ev.QuorumLinkDown(Link(10)))
    leader.dial(1)
    leader.accept(1, zxid=FIRST)
    handler = leader.leading.handler_of(ServerId(1))
    assert handler is not None
    assert handler.amnesiac


def test_b5_what_a_broken_link_promised_does_not_count_for_the_epoch() -> None:
    leader = Leader(voters=5)
    for sid in (1, 2, 4):
        leader.dial(sid)
    leader.saved()
    leader.forget()
    leader.accept(1)
    leader.tell(ev.QuorumLinkDown(Link(10)))
    leader.accept(2)
    assert not leader.did(fx.SaveEpochs), "servers 2 and 5 are no quorum of five"
    leader.accept(4)
    assert leader.did(fx.SaveEpochs)


def test_c3_epochs_that_a_former_role_had_saved_are_acknowledged_to_nobody() -> None:
    follower = Follower()
    follower.from_leader(msg.LeaderInfo(Epoch(2), LINEAGE))
    former = follower.did(fx.SaveEpochs)[-1]
    follower.tell(ev.QuorumLinkDown(LEADERS_LINK))
    follower.drained()
    follower.elect()
    follower.from_leader(msg.LeaderInfo(Epoch(2), LINEAGE))
    follower.forget()
    follower.saved(former)
    assert not follower.sent(msg.AckEpoch)


# ---------------------------------------------------------------------------------------------------- synchronization


def test_b1_a_leader_without_a_member_record_waits_for_it() -> None:
    leader = Leader(nothing_held(NOTHING), voters=3)
    for sid in (1, 2):
        leader.dial(sid, holds=NOTHING, amnesiac=True, accepted_epoch=Epoch(0))
    leader.saved()
    for sid in (1, 2):
        leader.hear(10 * sid, msg.AckEpoch(Epoch(0), Zxid(0), genesis(leader.peer.lineage)))
    leader.saved()
    for sid in (1, 2):
        leader.acknowledge(sid)
    assert leader.did(fx.SaveMember)
    assert not leader.leading.established
    leader.tell(ev.MemberSaved(leader.peer.generation))
    assert leader.leading.established


def test_b1_a_founder_acknowledges_newleader_when_its_member_record_is_durable() -> None:
    follower = Follower(nothing_held(NOTHING))
    follower.from_leader(msg.LeaderInfo(Epoch(1), LINEAGE))
    follower.saved()
    follower.from_leader(msg.Diff(Zxid(0)), msg.NewLeader(Epoch(1), Zxid(0), True))
    follower.saved()
    assert follower.did(fx.SaveMember)
    assert not follower.sent(msg.Ack)
    follower.tell(ev.MemberSaved(follower.peer.generation))
    assert follower.sent(msg.Ack)


def test_b2_an_amnesiac_counts_when_it_has_recorded_that_it_is_readmitted() -> None:
    leader = Leader()
    leader.establish(1)
    readmit = leader.readmit(2)
    handler = leader.leading.handler_of(ServerId(2))
    assert handler is not None
    assert not leader.leading.counts(handler)
    leader.hear(20, msg.Readmitted(readmit.round))
    assert leader.leading.counts(handler)


def test_c3_what_was_to_be_written_before_a_cut_is_not_durable_after_it() -> None:
    follower = Follower()
    follower.accept()
    before = follower.peer.generation
    follower.from_leader(msg.Trunc(FIRST, HISTORY[0].chain, False))
    (cut,) = follower.did(fx.TruncateLog)
    assert cut.generation > before
    follower.from_leader(msg.Proposal([batch_after((FIRST, HISTORY[0].chain), 2, 1).raw]))
    follower.tell(ev.Durable(before, follower.peer.history.last[0]))
    assert follower.peer.durable == FIRST


def test_h2_a_learner_that_lacks_much_gets_it_in_pieces() -> None:
    long = history(*((1, counter) for counter in range(1, 5)), size=PROPOSAL_BYTES_MAX // 2 - 100)
    leader = Leader(restored(long, mark=long[-1].zxid), recent_bytes_max=1 << 30)
    leader.dial(1)
    leader.dial(2)
    leader.saved()
    for sid in (1, 2):
        leader.hear(10 * sid, msg.AckEpoch(Epoch(1), Zxid(0), genesis(LINEAGE)))
    leader.saved()
    pieces = leader.sent(msg.Proposal, 10)
    assert sum(len(piece.batches) for piece in pieces) == 4
    assert max(sum(map(len, piece.batches)) for piece in pieces) <= PROPOSAL_BYTES_MAX


# ---------------------------------------------------------------------------------------------------------- broadcast


def test_a_learner_acknowledges_what_is_durable_and_not_what_is_under_way() -> None:
    """Before ACK of NEWLEADER, too: what is logged then is not acknowledged by the log."""
    later = batch_after((NEXT.zxid, NEXT.chain), 2, 2)
    proposals = [msg.Proposal([batch.raw]) for batch in (NEXT, later)]
    follower = Follower()
    follower.serve()
    follower.from_leader(*proposals)
    assert not follower.sent(msg.Ack)
    follower.durable(NEXT.zxid)
    assert [ack.zxid for ack in follower.sent(msg.Ack)] == [NEXT.zxid]
    follower = Follower()
    follower.accept()
    follower.from_leader(msg.Diff(LAST), msg.NewLeader(Epoch(2), LAST, False), *proposals)
    follower.saved()
    follower.forget()
    follower.durable(NEXT.zxid)
    assert [ack.zxid for ack in follower.sent(msg.Ack)] == [NEXT.zxid]


def test_c3_a_write_of_a_former_role_is_no_news_to_this_one() -> None:
    leader = Leader()
    leader.establish(1, 2)
    zxid = leader.propose()
    before = leader.peer.generation
    for link in (10, 20):
        leader.tell(ev.QuorumLinkDown(Link(link)))
    leader.wait(60_000)
    assert leader.peer.state is LOOKING
    leader.tell(ev.Durable(before, zxid))
    assert leader.peer.durable < zxid


def test_c3_an_answer_to_an_earlier_drain_begins_no_election() -> None:
    follower = Follower()
    former = follower.peer.generation
    follower.serve()
    follower.tell(ev.QuorumLinkDown(LEADERS_LINK))
    follower.forget()
    follower.tell(ev.LogDrained(former))
    assert follower.peer.draining
    assert not follower.did(fx.SendNotification)


@pytest.mark.parametrize("limit", [{"batches_in_flight_max": 1}, {"unsynced_bytes_max": 1}])
def test_nothing_more_is_proposed_while_too_much_is_under_way(limit: dict[str, int]) -> None:
    leader = Leader(**limit)
    leader.establish(1, 2)
    zxid = leader.propose()
    assert leader.peer.next_zxid() is None
    leader.durable(zxid)
    leader.acknowledge(1, zxid)
    assert leader.peer.next_zxid() is not None


def test_f1_the_epoch_is_renewed_when_everything_is_committed_and_nothing_is_proposed_until_then() -> None:
    leader = Leader(counter_limit=2)
    leader.establish(1, 2)
    leader.propose()
    zxid = leader.propose()
    assert leader.peer.phase is BROADCAST
    assert leader.peer.next_zxid() is None
    leader.durable(zxid)
    leader.acknowledge(1, zxid)
    assert leader.peer.phase is not BROADCAST
    assert leader.leading.acke_recv == set(), "who has accepted the epoch before has not accepted this one"


def renewing(voters: int = 3) -> Leader:
    """A leader whose counter has run out: it has begun to renew its epoch, and its learners do not know it yet."""
    leader = Leader(voters=voters, counter_limit=1)
    learners = range(1, voters)
    leader.establish(*learners)
    leader.now = 15_000
    zxid = leader.propose()
    leader.durable(zxid)
    leader.forget()
    for sid in learners:
        leader.hear(10 * sid, msg.Ack(Epoch(2), zxid))
    assert leader.peer.phase is DISCOVERY
    return leader


def renew(leader: Leader, *sids: int) -> None:
    """These learners walk through the renewal to its end."""
    last = leader.peer.history.last[0]
    for sid in sids:
        leader.accept(sid, 2, last)
    leader.saved()
    for sid in sids:
        leader.acknowledge(sid)


@pytest.mark.parametrize("late_ms", [0, 1])
def test_f1_a_renewal_that_gets_no_quorum_is_given_up_at_initlimit(late_ms: int) -> None:
    leader = renewing()
    leader.saved()
    settings = leader.peer.settings
    for left in reversed(range(settings.init_limit)):
        assert leader.peer.state is LEADING
        leader.wait(settings.tick_ms if left else settings.tick_ms + late_ms)
        for sid in (1, 2):
            leader.hear(10 * sid, msg.Ping(0, 0, 0, [], False))
    assert leader.peer.state is LOOKING
    assert leader.said("is not renewed within initLimit")


def test_f1_a_wish_for_a_higher_epoch_during_a_renewal_waits_for_its_end() -> None:
    leader = renewing(5)
    leader.saved()
    leader.tell(ev.QuorumLinkDown(Link(40)))
    leader.dial(4, accepted_epoch=Epoch(12))
    assert leader.stage(4) is None
    assert leader.peer.phase is DISCOVERY
    assert leader.leading.epoch == 3
    renew(leader, 1, 2)
    assert leader.leading.epoch == 13


def test_f1_a_learner_that_has_not_walked_through_the_last_renewal_is_dropped_by_the_next() -> None:
    leader = renewing()
    leader.saved()
    renew(leader, 2)
    assert leader.peer.phase is BROADCAST
    handler = leader.leading.handler_of(ServerId(1))
    assert handler is not None
    assert handler.served
    zxid = leader.propose()
    leader.durable(zxid)
    leader.acknowledge(2, zxid)
    assert leader.peer.phase is DISCOVERY
    assert leader.stage(1) is None
    assert leader.stage(2) is Stage.INFORMED


# -------------------------------------------------------------------------------------------------------------- syncs


def rounds(leader: Leader) -> list[int]:
    return [message.round for message in leader.sent(msg.Confirm)]


def answered(leader: Leader) -> list[int]:
    return [effect.token for effect in leader.did(fx.SyncConfirmed)]


def test_s1_a_question_is_answered_by_a_round_that_began_after_it() -> None:
    leader = Leader()
    leader.establish(1, 2)
    leader.tell(ev.SyncRequested(1))
    leader.tell(ev.SyncRequested(2))
    assert rounds(leader) == [1, 2]
    leader.hear(10, msg.Confirmed(1))
    assert answered(leader) == [1]
    leader.hear(10, msg.Confirmed(2))
    assert answered(leader) == [1, 2]


def test_s1_the_answer_is_what_was_committed_and_not_what_was_applied() -> None:
    """The followers have it, and what is committed is not durable at the leader yet."""
    leader = Leader()
    leader.establish(1, 2)
    zxid = leader.propose()
    leader.acknowledge(1, zxid)
    leader.acknowledge(2, zxid)
    assert leader.peer.delivered < leader.peer.committed == zxid
    leader.tell(ev.SyncRequested(1))
    leader.hear(10, msg.Confirmed(1))
    assert leader.did(fx.SyncConfirmed) == [fx.SyncConfirmed(1, zxid)]


def test_s1_learners_are_asked_while_the_epoch_is_renewed() -> None:
    leader = renewing()
    leader.tell(ev.SyncRequested(1))
    assert [len(leader.sent(msg.Confirm, link)) for link in (10, 20)] == [1, 1]
    leader.hear(10, msg.Confirmed(1))
    assert answered(leader) == [1]


def test_b2_learners_that_are_not_served_yet_confirm_for_an_amnesiac() -> None:
    """Five voters; one has acknowledged NEWLEADER when an amnesiac does: it is asked at once."""
    leader = Leader(voters=5)
    for sid, is_amnesiac in ((1, False), (2, False), (4, True)):
        leader.dial(sid, amnesiac=is_amnesiac)
    leader.saved()
    for sid in (1, 2, 4):
        leader.accept(sid)
    leader.saved()
    leader.acknowledge(1)
    leader.forget()
    leader.acknowledge(4)
    assert leader.sent(msg.Confirm, 10)


def test_s1_nobody_is_asked_before_the_epoch_is_established() -> None:
    leader = Leader()
    leader.synchronize(1, 2)
    leader.tell(ev.SyncRequested(1))
    assert not leader.leading.questions
    assert not leader.sent(msg.Confirm)


# -------------------------------------------------------------------------------------------------------------- limits


def test_c4_a_learner_that_is_silent_is_dropped_and_one_that_pings_is_not() -> None:
    leader = Leader()
    leader.establish(1, 2)
    settings = leader.peer.settings
    for _ in range(2 * settings.sync_limit):
        leader.wait(settings.tick_ms)
        leader.hear(20, msg.Ping(0, 0, 0, [], False))
    assert leader.stage(1) is None
    assert leader.stage(2) is Stage.UP_TO_DATE


def test_c4_a_learner_whose_log_stands_still_is_dropped() -> None:
    leader = Leader()
    leader.establish(1, 2)
    zxid = leader.propose()
    leader.durable(zxid)
    leader.acknowledge(2, zxid)
    settings = leader.peer.settings
    for _ in range(2 * settings.sync_limit):
        leader.wait(settings.tick_ms)
        for sid in (1, 2):
            leader.hear(10 * sid, msg.Ping(0, 0, 0, [], False))
    assert leader.stage(1) is None
    assert leader.stage(2) is Stage.UP_TO_DATE
    assert leader.peer.state is LEADING


def test_c4_a_leader_whose_own_log_stands_still_gives_up() -> None:
    leader = Leader()
    leader.establish(1, 2)
    zxid = leader.propose()
    settings = leader.peer.settings
    for sid in (1, 2):
        leader.acknowledge(sid, zxid)
    for _ in range(2 * settings.sync_limit):
        leader.wait(settings.tick_ms)
        for sid in (1, 2):
            leader.hear(10 * sid, msg.Ping(0, 0, 0, [], False))
    assert leader.peer.state is LOOKING
    assert leader.said("own log is not durable")


def test_c4_a_follower_whose_own_log_stands_still_leaves() -> None:
    follower = Follower()
    follower.serve()
    follower.from_leader(msg.Proposal([NEXT.raw]))
    settings = follower.peer.settings
    for _ in range(2 * settings.sync_limit):
        follower.wait(settings.tick_ms)
        follower.from_leader(msg.Ping(0, 0, 0, [], False))
    assert follower.has_left
    assert follower.said("own log is not durable")


def test_a_leader_that_is_not_heard_is_left() -> None:
    follower = Follower()
    follower.serve()
    follower.from_leader(msg.Ping(0, 0, 0, [], False))
    follower.wait(follower.peer.settings.sync_ms - 1)
    assert not follower.has_left
    follower.wait(1)
    assert follower.has_left
