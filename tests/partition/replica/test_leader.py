"""The leader of a partition: the high watermark, and who is in sync."""

import pytest

from tests.partition.replica.states import a_state
from zab.kafka.errors import ErrorCode
from zab.partition.image.partition_state import NO_LEADER
from zab.partition.replica.in_sync_set import Fate, Proposal
from zab.partition.replica.leader import Leader, LogPosition

LAG_MS = 30_000


def a_leader(state=None, *, epoch_start=0, now=0):
    return Leader(1, state or a_state(), epoch_start=epoch_start, now=now, lag_max_ms=LAG_MS)


def own(end, stored_end=None, mark=0):
    return LogPosition(end=end, stored_end=end if stored_end is None else stored_end, high_watermark=mark)


def fetch(leader, replica, offset, *, now=1, leader_end=10, epoch=None):
    epoch = 100 + replica if epoch is None else epoch
    return leader.fetched_by(replica, now, offset=offset, log_start=0, leader_end=leader_end, broker_epoch=epoch)


# ------------------------------------------------------------------------------------------------------- high watermark


def test_the_mark_is_what_every_member_of_the_set_has():
    leader = a_leader()
    assert leader.high_watermark(1, own(10), 1) == 0, "nobody has said where it is"
    fetch(leader, 2, 8)
    assert leader.high_watermark(1, own(10), 1) == 0
    fetch(leader, 3, 6)
    assert leader.high_watermark(1, own(10), 1) == 6
    fetch(leader, 3, 9)
    assert leader.high_watermark(1, own(10), 1) == 8


def test_the_leader_itself_counts_with_what_it_has_stored():
    leader = a_leader(a_state((1,), replicas=(1,)))
    assert leader.high_watermark(1, own(10, 0), 1) == 0
    assert leader.high_watermark(1, own(10, 4), 1) == 4


def test_the_mark_never_falls():
    leader = a_leader()
    for replica in (2, 3):
        fetch(leader, replica, 5)
    assert leader.high_watermark(1, own(10, mark=7), 1) == 7


def test_below_the_minimum_the_mark_stands_still():
    """KIP-966: each replica that left a set that was large enough has all that was acknowledged."""
    leader = a_leader(a_state((1,)))
    assert leader.high_watermark(1, own(10), 2) == 0
    assert leader.high_watermark(1, own(10), 1) == 10


def test_the_minimum_is_not_more_than_there_are_replicas():
    leader = a_leader(a_state((1,), replicas=(1,)))
    assert leader.high_watermark(1, own(10), 2) == 10


def test_one_that_keeps_up_outside_of_the_set_holds_the_mark_back():
    leader = a_leader(a_state((1, 2)))
    fetch(leader, 2, 10)
    fetch(leader, 3, 9)
    assert leader.high_watermark(1, own(10), 1) == 10, "it was never level"
    fetch(leader, 3, 10, now=2, leader_end=10)
    fetch(leader, 2, 20, now=3, leader_end=20)
    fetch(leader, 3, 15, now=3, leader_end=20)
    assert leader.high_watermark(3, own(20), 1) == 15
    assert leader.high_watermark(4 + LAG_MS, own(20), 1) == 20, "it does not keep up any longer"


# ---------------------------------------------------------------------------------------------------------- in-sync set


def test_a_follower_that_is_level_joins():
    leader = a_leader(a_state((1, 2)))
    fetch(leader, 3, 7)
    assert leader.proposal(1, own(10, mark=8), looks_for_lag=False) is None
    fetch(leader, 3, 8)
    assert leader.proposal(1, own(10, mark=8), looks_for_lag=False) == Proposal(5, 7, (1, 2, 3), (101, -1, 103))


def test_nobody_joins_below_the_start_of_the_epoch():
    """KAFKA-7128: the mark of a new leader lags behind what was acknowledged."""
    leader = a_leader(a_state((1, 2)), epoch_start=10)
    fetch(leader, 3, 7)
    assert leader.proposal(1, own(10), looks_for_lag=False) is None
    fetch(leader, 3, 10)
    assert leader.proposal(1, own(10), looks_for_lag=False) is not None


@pytest.mark.parametrize("changes", [{"broker_epochs": {1: 101, 2: 102}}, {"removing": (3,)}])
def test_nobody_joins_who_is_dead_or_leaves(changes):
    leader = a_leader(a_state((1, 2), **changes))
    fetch(leader, 3, 10)
    assert leader.proposal(1, own(10), looks_for_lag=False) is None


def test_nobody_joins_by_what_its_broker_had_in_a_former_life():
    """It may have come back with an empty disk."""
    leader = a_leader(a_state((1, 2)))
    assert fetch(leader, 3, 10)
    assert fetch(leader, 3, 0, epoch=200)
    assert leader.followers[3].log_end == 0
    assert not fetch(leader, 3, 10, epoch=103)
    assert leader.proposal(1, own(10), looks_for_lag=False) is None
    fetch(leader, 3, 10, epoch=200)
    assert leader.proposal(1, own(10), looks_for_lag=False) is None, "the controller knows the former life"


def test_a_replica_that_left_and_came_back_is_known_from_nothing():
    """Its disk may be another one (KAFKA-14139)."""
    leader = a_leader(a_state((1, 2)))
    fetch(leader, 3, 10)
    assert leader.changed(a_state((1, 2), replicas=(1, 2), partition_epoch=8), 2)
    assert leader.changed(a_state((1, 2), partition_epoch=9), 3)
    assert leader.proposal(3, own(10), looks_for_lag=False) is None


def test_who_lags_leaves_but_only_when_it_is_looked_for():
    leader = a_leader(now=0)
    fetch(leader, 2, 10, now=LAG_MS + 1)
    late = LAG_MS + 1
    assert leader.proposal(late, own(10), looks_for_lag=False) is None
    assert leader.proposal(LAG_MS, own(10), looks_for_lag=True) is None, "not yet"
    assert leader.proposal(late, own(10), looks_for_lag=True) == Proposal(5, 7, (1, 2), (101, 102))


def test_who_has_everything_does_not_lag_however_long_it_is_silent():
    leader = a_leader(a_state((1, 2), replicas=(1, 2)))
    fetch(leader, 2, 10, now=1)
    assert leader.proposal(10 * LAG_MS, own(10), looks_for_lag=True) is None


def test_who_had_at_each_fetch_what_there_was_at_the_fetch_before_keeps_up():
    leader = a_leader(a_state((1, 2), replicas=(1, 2)))
    for now in range(0, 4 * LAG_MS, LAG_MS // 2):
        fetch(leader, 2, now, now=now, leader_end=now + LAG_MS // 2)
    assert leader.proposal(4 * LAG_MS, own(10 * LAG_MS), looks_for_lag=True) is None


def test_an_addition_counts_when_it_is_proposed_and_a_removal_when_it_is_confirmed():
    leader = a_leader(a_state((1, 2)))
    fetch(leader, 2, 10)
    fetch(leader, 3, 10)
    assert leader.proposal(1, own(10), looks_for_lag=False) is not None
    assert leader.in_sync.maximal == {1, 2, 3}
    assert leader.changed(a_state((1, 2, 3), partition_epoch=8), 1)
    late = 3 * LAG_MS
    fetch(leader, 2, 20, now=late, leader_end=20)
    shrink = leader.proposal(late, own(20), looks_for_lag=True)
    assert shrink is not None
    assert shrink.isr == (1, 2)
    assert leader.in_sync.maximal == {1, 2, 3}
    assert leader.high_watermark(late, own(20), 1) == 10
    assert leader.changed(a_state((1, 2), partition_epoch=9), late)
    assert leader.high_watermark(late, own(20), 1) == 20


def test_one_change_is_under_way_at_a_time():
    leader = a_leader(a_state((1, 2)))
    fetch(leader, 3, 10)
    assert leader.proposal(1, own(10), looks_for_lag=False) is not None
    assert leader.proposal(10 * LAG_MS, own(10), looks_for_lag=True) is None


def test_the_same_state_once_more_says_nothing_about_a_change_under_way():
    leader = a_leader(a_state((1, 2)))
    fetch(leader, 3, 10)
    proposal = leader.proposal(1, own(10), looks_for_lag=False)
    assert leader.changed(a_state((1, 2)), 1)
    assert leader.in_sync.proposal is proposal
    assert leader.in_sync.maximal == {1, 2, 3}
    assert not leader.changed(a_state((1,), partition_epoch=6), 1), "older"
    assert leader.in_sync.committed == {1, 2}


@pytest.mark.parametrize(
    ("error", "fate", "maximal"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, Fate.UNDONE, {1, 2}),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, Fate.UNDONE, {1, 2}),
        (ErrorCode.INVALID_UPDATE_VERSION, Fate.WAITS_FOR_STATE, {1, 2, 3}),
        (ErrorCode.FENCED_LEADER_EPOCH, Fate.WAITS_FOR_STATE, {1, 2, 3}),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Fate.WAITS_FOR_STATE, {1, 2, 3}),
        (ErrorCode.NOT_CONTROLLER, Fate.SEND_AGAIN, {1, 2, 3}),
        (ErrorCode.STALE_BROKER_EPOCH, Fate.SEND_AGAIN, {1, 2, 3}),
    ],
)
def test_only_an_error_that_proves_it_undoes_a_change(error, fate, maximal):
    leader = a_leader(a_state((1, 2)))
    fetch(leader, 3, 10)
    proposal = leader.proposal(1, own(10), looks_for_lag=False)
    assert leader.refused(proposal, error) is fate
    assert leader.in_sync.maximal == maximal
    if fate is Fate.UNDONE:
        assert leader.refused(proposal, error) is None


def test_strangers_move_nothing():
    leader = a_leader(a_state((1, 2), replicas=(1, 2)))
    assert not fetch(leader, 4, 10)
    assert leader.proposal(1, own(10), looks_for_lag=False) is None


def test_what_every_live_replica_keeps():
    leader = a_leader(a_state(broker_epochs={1: 101, 2: 102}))
    leader.fetched_by(2, 1, offset=9, log_start=4, leader_end=10, broker_epoch=102)
    leader.fetched_by(3, 1, offset=9, log_start=2, leader_end=10, broker_epoch=103)
    assert leader.low_watermark(6) == 4, "the dead one keeps nobody waiting"


# --------------------------------------------------------------------------------------------------------------- states


def test_which_of_two_states_is_newer():
    state = a_state()
    assert a_state(leader_epoch=6, partition_epoch=0).is_newer_than(state, leads=False)
    assert not a_state(leader_epoch=4, partition_epoch=9, leader=NO_LEADER).is_newer_than(state, leads=True)
    assert a_state(partition_epoch=8).is_newer_than(state, leads=False)
    assert not a_state().is_newer_than(state, leads=False)
    assert a_state().is_newer_than(state, leads=True)
