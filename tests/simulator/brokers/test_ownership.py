"""The judge of groups of KIP-848: what it allows, and what it finds."""

from __future__ import annotations

from collections import Counter

import pytest

from zab.kafka.messages.consumer_groups import (
    ConsumerGroupMember,
    ConsumerGroupMemberPartitions,
    ConsumerGroupPartitionsByName,
    DescribedConsumerGroup,
)
from zab.kafka.primitives import Uuid
from zab.simulator.brokers.ownership import DRIFT_US, OwnedCommit, Owner, Ownership
from zab.simulator.world.schedule import MS
from zab.simulator.world.verdict import SafetyError

SESSION_US, REBALANCE_US = 4_000 * MS, 3_000 * MS
P = ("g", 0)
PLACE = ("group", *P)


def an_owner(name: str) -> Owner:
    return Owner(name, "group", SESSION_US, REBALANCE_US)


@pytest.fixture
def judge() -> Ownership:
    return Ownership(Counter())


def takes(judge: Ownership, owner: Owner, now: int) -> Owner:
    """It is told at this time that the partition is its own, and takes it."""
    judge.heard(owner, now, [P])
    judge.owns(now, owner, [P])
    return owner


def test_a_partition_is_taken_when_it_is_given_up(judge: Ownership) -> None:
    one, two = takes(judge, an_owner("one"), 0), an_owner("two")
    assert judge.unowned("group", [P]) == 0
    judge.owns(1, one, [])
    assert judge.unowned("group", [P]) == 1
    takes(judge, two, 2)
    assert judge.unowned("group", [P]) == 0


@pytest.mark.parametrize(("heard_at", "out_after"), [(0, REBALANCE_US), (-2_000 * MS, SESSION_US - 2_000 * MS)])
def test_a_partition_is_taken_of_a_member_that_is_silent_or_slow(
    judge: Ownership, heard_at: int, out_after: int
) -> None:
    one, two = an_owner("one"), an_owner("two")
    judge.heard(one, heard_at, [])
    one.assured_at[P] = 0
    judge.owns(0, one, [P])
    judge.heard(two, 0, [])
    with pytest.raises(SafetyError, match="NoDoubleClientAssignment: two takes"):
        judge.owns(out_after - DRIFT_US - 1, two, [P])
    judge.owns(0, two, [])
    judge.owns(out_after - DRIFT_US, two, [P])
    assert judge.unowned("group", [P]) == 1, "two believe that they own it"


def test_an_answer_that_does_not_count_accuses_nobody(judge: Ownership) -> None:
    takes(judge, an_owner("one"), 0)
    judge.owns(1, an_owner("two"), [P])
    assert judge.counts["members that are out"] == 0


def test_a_member_that_is_out_commits_nothing(judge: Ownership) -> None:
    one = takes(judge, an_owner("one"), 0)
    takes(judge, an_owner("two"), SESSION_US)
    judge.accepted(SESSION_US + 1, PLACE, 5, OwnedCommit(one, 1, 1, begun_at=SESSION_US))
    with pytest.raises(SafetyError, match="members that are out"):
        judge.accepted(SESSION_US + 2, PLACE, 5, OwnedCommit(one, 1, 1, begun_at=SESSION_US + 1))


def test_a_stale_member_commits_nothing(judge: Ownership) -> None:
    one = takes(judge, an_owner("one"), 0)
    judge.accepted(1, PLACE, 5, OwnedCommit(one, 2, 2, begun_at=0))
    with pytest.raises(SafetyError, match="stale members"):
        judge.accepted(1, PLACE, 5, OwnedCommit(one, 1, 2, begun_at=0))


def test_offsets_never_go_back(judge: Ownership) -> None:
    one = takes(judge, an_owner("one"), 0)
    judge.accepted(10, PLACE, 5, OwnedCommit(one, 1, 1, begun_at=0))
    judge.accepted(11, PLACE, 4, OwnedCommit(one, 1, 1, begun_at=10))
    with pytest.raises(SafetyError, match="offsets never go back"):
        judge.accepted(12, PLACE, 4, OwnedCommit(one, 1, 1, begun_at=11))


def test_epochs_rise(judge: Ownership) -> None:
    one = an_owner("one")
    judge.told(one, 3, known=judge.known_epoch("group"))
    judge.told(an_owner("two"), 2, known=None)
    with pytest.raises(SafetyError, match="the group's epoch rises: two joins"):
        judge.told(an_owner("two"), 2, known=judge.known_epoch("group"))
    with pytest.raises(SafetyError, match="ValidPartitionEpoch: one is in epoch 2, after 3"):
        judge.told(one, 2, known=None)


def described(epoch: int, target: int, *members: tuple[int, tuple[int, ...]]) -> DescribedConsumerGroup:
    """A group with members: their epochs, and what they own of g."""
    return DescribedConsumerGroup(
        error_code=0,
        group_id="group",
        group_state="Stable",
        assignor_name="uniform",
        group_epoch=epoch,
        assignment_epoch=target,
        members=tuple(
            ConsumerGroupMember(
                member_id=str(number),
                member_epoch=member_epoch,
                client_id="",
                client_host="",
                subscribed_topic_names=(),
                target_assignment=ConsumerGroupMemberPartitions(topic_partitions=()),
                assignment=ConsumerGroupMemberPartitions(
                    topic_partitions=(
                        ConsumerGroupPartitionsByName(topic_id=Uuid(bytes(16)), topic_name="g", partitions=indexes),
                    )
                ),
            )
            for number, (member_epoch, indexes) in enumerate(members)
        ),
    )


def test_a_description_is_looked_at(judge: Ownership) -> None:
    judge.described(described(3, 3, (3, (0,)), (2, (1,))), known=3)
    for found, rule in (
        (described(3, 3), "the group's epoch rises"),
        (described(4, 5), "ValidPartitionEpoch"),
        (described(4, 4, (5, ())), "ValidPartitionEpoch"),
        (described(4, 4, (4, (0,)), (4, (0,))), "NoDoubleClientAssignment"),
    ):
        with pytest.raises(SafetyError, match=rule):
            judge.described(found, known=4)
