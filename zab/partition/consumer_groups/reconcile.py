"""How a member comes from what it owns to what the target says: it gives up first, and gets what others have given up.

    STABLE                 if it is not where the target is: the next step
    UNREVOKED_PARTITIONS   it still owns what it has to give up, or does not say what it owns: nothing. It does not: it
                           is in the next epoch, and takes the next step
    UNRELEASED_PARTITIONS  the next step: others may have given something up

The next step:

    something is to be given up    it stays in its epoch, until it says that it no longer owns this
    otherwise                      it is in the target's epoch, with what is free; if something is not,
                                   UNRELEASED_PARTITIONS, else STABLE

So a partition has one owner at any time, whatever the member does: what it was told to give up is its own until it says
that it is not, or until it is out of the group.

This is Kafka's `CurrentAssignmentBuilder`, except for one rule. Since 4.1 Kafka believes a member that says it does not
own what it is about to be told to give up. But a member that was told of a partition may be about to take it, and would
own it when another one does. So that counts only of one that joins, which has been told of nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from zab.kafka.consumer_group_records import MemberState
from zab.kafka.primitives import Uuid
from zab.partition.consumer_groups.assignors import Partitions
from zab.partition.consumer_groups.state import ConsumerMember


def reconciled(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: Callable[[Uuid, int], bool],
    *,
    was_told: bool,
) -> ConsumerMember:
    """The member after its heartbeat; itself if nothing changes. `owned`: what it says; None: as before. `was_told`:
    whether it may know what it is assigned."""
    if member.is_at(target_epoch):
        return member
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _owns_any(owned, member.revoking):
            return member
        epoch += 1
    kept: dict[Uuid, frozenset[int]] = {}
    revoking: dict[Uuid, frozenset[int]] = {}
    gets: dict[Uuid, frozenset[int]] = {}
    waits = False
    for topic in {**target, **member.assigned}:
        wanted, has = target.get(topic, frozenset()), member.assigned.get(topic, frozenset())
        free = frozenset(each for each in wanted - has if is_free(topic, each))
        waits = waits or len(free) < len(wanted - has)
        for found, partitions in ((kept, has & wanted), (revoking, has - wanted), (gets, free)):
            if partitions:
                found[topic] = partitions
    if revoking and (was_told or _owns_any(owned, revoking)):
        return attrs.evolve(
            member,
            epoch=epoch,
            previous_epoch=member.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            revoking=revoking,
        )
    assigned = {topic: kept.get(topic, frozenset()) | gets.get(topic, frozenset()) for topic in {**kept, **gets}}
    return attrs.evolve(
        member,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
        assigned=assigned,
        revoking={},
    )


def _owns_any(owned: Partitions | None, partitions: Partitions) -> bool:
    """Whether the member may still own one of these: it says so, or does not say what it owns."""
    if owned is None:
        return True
    return any(owned.get(topic, frozenset()) & each for topic, each in partitions.items())
