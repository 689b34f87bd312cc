"""What members of groups of KIP-848 were told, and whether it is right: names are those of the TLA+ model.

    NoDoubleClientAssignment   a partition is taken by a member only after the one before has given it up, or has been
                               silent for its session, or slow to give it up for its rebalance timeout: that one is out
                               from then on. Nor does the coordinator describe two owners
    ValidPartitionEpoch        no member is above the target's epoch, nor the target above the group's; the epoch of a
                               member does not fall while it is one
    the group's epoch rises    what was answered before is not above what is answered later, on any broker
    stale members              a commit is refused that has an older epoch than its member was told before
    members that are out       a commit is refused of a member whose partition another one has taken meanwhile
    offsets never go back      no commit is below one that was acknowledged before it began

A broker that coordinates no longer, and has not heard of it, still answers those whose state does not change. So an
answer counts only if its broker leads the group's partition when it is asked and when it has answered; members that
have no other answers may be taken for silent.

Not here: what was committed, and whether it is remembered (`committed_offsets`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import attrs

from zab.kafka.messages.consumer_groups import DescribedConsumerGroup
from zab.simulator.world.schedule import MS
from zab.simulator.world.verdict import SafetyError

NEVER: Final = 1 << 62
DRIFT_US: Final = 10 * MS
"""Clocks of brokers are a little faster than others; timers have a resolution."""

Partition: TypeAlias = tuple[str, int]
"""A topic and a partition."""


@attrs.define(eq=False)
class Owner:
    """One process of a member, from when it joins until it gives everything up. Times are microseconds."""

    name: str
    group: str
    session_us: int
    rebalance_us: int
    epoch: int = -1
    """What it was told last."""
    heard_at: int = -NEVER
    """The last request that counts was sent then."""
    assured_at: dict[Partition, int] = attrs.Factory(dict)
    """When the last such request was sent by whose answer the member still owned this partition."""
    owned: frozenset[Partition] = frozenset()
    """What it may act on."""
    out_at: int = NEVER
    """Another one has taken what was its own: it is no member any longer."""

    def out_after(self, partition: Partition) -> int:
        """Before this time nobody else may take the partition."""
        slow_at = self.assured_at.get(partition, -NEVER) + self.rebalance_us
        return min(self.heard_at + self.session_us, slow_at) - DRIFT_US


@attrs.frozen
class OwnedCommit:
    """A commit: its member, its epoch, and when it was sent."""

    owner: Owner
    epoch: int
    told: int
    """The epoch that the member was told before."""
    begun_at: int


@attrs.define(eq=False)
class _Group:
    epoch: int = -1
    """The highest that was told."""
    owners: dict[Partition, set[Owner]] = attrs.Factory(dict)


@attrs.define(eq=False)
class Ownership:
    """See the docstring of the module."""

    counts: Counter[str]
    _groups: dict[str, _Group] = attrs.Factory(dict)
    _committed: dict[tuple[str, str, int], list[tuple[int, int]]] = attrs.Factory(dict)
    """When commits were acknowledged, with the highest offset until then."""

    def _of(self, group: str) -> _Group:
        return self._groups.setdefault(group, _Group())

    # ---------------------------------------------------------------------------------------------------------- epochs

    def known_epoch(self, group: str) -> int:
        """To be taken before a request is sent: the group had this epoch."""
        return self._of(group).epoch

    def told(self, owner: Owner, epoch: int, known: int | None) -> None:
        """A heartbeat is answered with an epoch. `known`: that of the group before a member that joins has asked; None:
        it does not join, or the answer does not count."""
        if epoch < owner.epoch:
            raise SafetyError("ValidPartitionEpoch", f"{owner.name} is in epoch {epoch}, after {owner.epoch}")
        if known is not None and epoch < known:
            text = f"{owner.name} joins {owner.group} in epoch {epoch}, after {known}"
            raise SafetyError("the group's epoch rises", text)
        owner.epoch = epoch
        group = self._of(owner.group)
        group.epoch = max(group.epoch, epoch)
        self.counts["heartbeats of groups answered"] += 1

    def heard(self, owner: Owner, begun_at: int, assigned: Iterable[Partition]) -> None:
        """The coordinator has heard of this member, at this time or later, and then it owned this."""
        owner.heard_at = max(owner.heard_at, begun_at)
        owner.assured_at.update(dict.fromkeys(assigned, begun_at))

    def described(self, found: DescribedConsumerGroup, known: int) -> None:
        """A coordinator describes a group; `known`: its epoch before it was asked."""
        group = found.group_id
        if found.group_epoch < known:
            text = f"{group} is described in epoch {found.group_epoch}, after {known}"
            raise SafetyError("the group's epoch rises", text)
        highest = max((each.member_epoch for each in found.members), default=0)
        if not highest <= found.assignment_epoch <= found.group_epoch:
            text = f"{group}: members in {highest}, target {found.assignment_epoch}, group {found.group_epoch}"
            raise SafetyError("ValidPartitionEpoch", text)
        owners: dict[Partition, str] = {}
        for member in found.members:
            for topic in member.assignment.topic_partitions:
                for index in topic.partitions:
                    before = owners.setdefault((topic.topic_name, index), member.member_id)
                    if before != member.member_id:
                        text = f"{group} describes {topic.topic_name}-{index} of {before} and of {member.member_id}"
                        raise SafetyError("NoDoubleClientAssignment", text)
        self.counts["groups described"] += 1

    # ------------------------------------------------------------------------------------------------------ partitions

    def owns(self, now: int, owner: Owner, partitions: Iterable[Partition]) -> None:
        """The member may act on this from now on, and on nothing else."""
        group, before, owner.owned = self._of(owner.group), owner.owned, frozenset(partitions)
        for each in before - owner.owned:
            group.owners[each].discard(owner)
        for each in sorted(owner.owned - before):
            for other in sorted(group.owners.get(each, ()), key=lambda one: one.name):
                self._takes(now, owner, other, each)
            group.owners.setdefault(each, set()).add(owner)
            self.counts["partitions taken"] += 1

    def _takes(self, now: int, owner: Owner, other: Owner, partition: Partition) -> None:
        if owner.heard_at == -NEVER:
            # Nobody has told it who counts.
            return
        if now < other.out_after(partition):
            text = f"{owner.name} takes {partition} of {owner.group}, which {other.name} has not given up"
            raise SafetyError("NoDoubleClientAssignment", text)
        other.out_at = min(other.out_at, now)
        self.counts["members that are out"] += 1

    # --------------------------------------------------------------------------------------------------------- commits

    def accepted(self, now: int, place: tuple[str, str, int], offset: int, commit: OwnedCommit) -> None:
        """A commit is acknowledged."""
        owner = commit.owner
        if commit.epoch < commit.told:
            text = f"{owner.name} commits with epoch {commit.epoch}, and was told {commit.told}"
            raise SafetyError("stale members", text)
        if owner.out_at < commit.begun_at:
            text = f"{owner.name} commits with epoch {commit.epoch}, and others have taken what it had"
            raise SafetyError("members that are out", text)
        known = self._committed.setdefault(place, [])
        before = max((best for ended_at, best in known if ended_at < commit.begun_at), default=-1)
        if offset < before:
            text = f"{owner.name} commits {offset} of {place}, after {before} is acknowledged"
            raise SafetyError("offsets never go back", text)
        known.append((now, max(offset, known[-1][1] if known else -1)))

    def unowned(self, group: str, partitions: Iterable[Partition]) -> int:
        """How many of these partitions have no owner, or several."""
        owners: Mapping[Partition, set[Owner]] = self._of(group).owners
        return sum(len(owners.get(each, ())) != 1 for each in partitions)
