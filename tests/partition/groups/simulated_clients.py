"""Consumers as librdkafka and the Java client are: they join, sync, send heartbeats, commit, leave, crash and restart.

A consumer is two scripts: one goes through rebalances and commits, the other sends heartbeats. Where clients differ, a
`Style` says it.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from attrs import Factory, define, frozen

from tests.partition.groups.bench import GROUP, a_join, a_sync
from tests.partition.groups.simulated_world import PARTITION_COUNT, TOPIC, Call, Process, Script, Sleep, World
from zab.kafka.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from zab.kafka.errors import ErrorCode
from zab.partition.groups.requests import (
    Heartbeat,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
    Protocol,
    TxnOffsetCommit,
)
from zab.partition.groups.results import JoinedMember, JoinResult

SESSION_MS = 10_000
REBALANCE_MS = 20_000
START_AGAIN = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}


@frozen
class Style:
    """How a client behaves."""

    instance_id: str | None = None
    is_cooperative: bool = False
    requires_member_id: bool = True
    """Version 4 of JoinGroup, or later."""
    may_skip_assignment: bool = True
    """Version 9."""
    producer_id: int | None = None
    """It commits in transactions."""
    leaves: bool = True
    """Neither client leaves for a static member."""


def owned_in(data: bytes) -> tuple[int, set[int]]:
    """The generation of a subscription, and what its member owned in it."""
    subscription = decode_subscription(data)
    owned = {index for each in subscription.owned_partitions for index in each.partitions}
    return subscription.generation_id, owned


def partitions_in(data: bytes) -> set[int]:
    """The partitions of an assignment."""
    return (
        {index for each in decode_assignment(data).assigned_partitions for index in each.partitions} if data else set()
    )


def assigned_eagerly(members: tuple[JoinedMember, ...]) -> dict[str, set[int]]:
    """One after the other, as RangeAssignor and RoundRobinAssignor do."""
    ids = sorted(each.member_id for each in members)
    return {member_id: set(range(at, PARTITION_COUNT, len(ids))) for at, member_id in enumerate(ids)}


def assigned_cooperatively(members: tuple[JoinedMember, ...]) -> dict[str, set[int]]:
    """As CooperativeStickyAssignor: members keep what they own, up to their share; and what another one owns is given
    to nobody until it has given it up."""
    claims = {each.member_id: owned_in(each.metadata) for each in members}
    owner: dict[int, str] = {}
    for member_id, (generation, owned) in sorted(claims.items()):
        for index in owned:
            if index not in owner or claims[owner[index]][0] < generation:
                owner[index] = member_id
    share = -(-PARTITION_COUNT // len(members))
    target: dict[str, set[int]] = {member_id: set() for member_id in sorted(claims)}
    free = []
    for index in range(PARTITION_COUNT):
        if index in owner and len(target[owner[index]]) < share:
            target[owner[index]].add(index)
        else:
            free.append(index)
    for index in free:
        least = min(target, key=lambda each: (len(target[each]), each))
        if owner.get(index, least) == least:
            target[least].add(index)
        # Else its owner loses it now, and joins again without it.
    return target


@define(eq=False)
class Consumer:
    """One process of a client."""

    world: World
    style: Style
    member_id: str = ""
    generation: int = -1
    owned: set[int] = Factory(set)
    must_join: bool = False
    is_alive: bool = True
    is_leaving: bool = False
    _processes: list[Process] = Factory(list)

    def start(self) -> None:
        self._processes = [self.world.start(self.main()), self.world.start(self.beat())]

    def crash(self) -> None:
        self.is_alive = False
        self.owned = set()
        for each in self._processes:
            each.is_alive = False

    @property
    def random(self) -> Random:
        return self.world.random

    # --------------------------------------------------------------------------------------------------------- scripts

    def main(self) -> Script:
        while self.is_alive:
            joined = yield from self._join()
            if joined is None or not (yield from self._sync(joined)):
                yield Sleep(self.random.randrange(20, 200))
                continue
            yield from self._fetch()
            while self.is_alive and not self.must_join and not self.is_leaving:
                yield Sleep(self.random.randrange(300, 2500))
                if not self.must_join and self.random.random() < 0.5:
                    yield from self._commit()
                if self.world.chance(0.01):
                    self.must_join = True  # its subscription has changed, or topics have
            if self.is_leaving:
                yield from self._leave()
                return
            if not self.style.is_cooperative:
                yield from self._commit()
                self.owned = set()

    def beat(self) -> Script:
        while self.is_alive:
            yield Sleep(3000)
            if self.generation < 0:
                continue
            member_id, generation = self.member_id, self.generation
            request = Heartbeat(
                group_id=GROUP,
                generation=generation,
                member_id=member_id,
                group_instance_id=self.style.instance_id,
            )
            result = yield Call(request)
            if result is not None and (member_id, generation) == (self.member_id, self.generation):
                self._take(result.error)

    def _take(self, error: ErrorCode) -> None:
        """What an error means for the membership."""
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self.crash()
        elif error in START_AGAIN:
            self.generation, self.owned, self.must_join = -1, set(), True
            if error is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        elif error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.must_join = True

    # ----------------------------------------------------------------------------------------------------- rebalances

    def _metadata(self) -> bytes:
        topic = TopicPartitions(topic=TOPIC, partitions=tuple(sorted(self.owned)))
        owned = (topic,) if self.style.is_cooperative and self.owned else ()
        generation = self.generation if self.style.is_cooperative else -1
        return encode_subscription(Subscription(topics=(TOPIC,), owned_partitions=owned, generation_id=generation))

    def _join(self) -> Iterator[Any]:  # yields what a script yields; returns JoinResult | None
        request = a_join(
            self.member_id,
            group_instance_id=self.style.instance_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocols=(Protocol("cooperative-sticky" if self.style.is_cooperative else "range", self._metadata()),),
            requires_member_id=self.style.requires_member_id,
            may_skip_assignment=self.style.may_skip_assignment,
        )
        result = yield Call(request, REBALANCE_MS + 5000)
        if result is None:
            return None
        if result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
            return None
        if result.error is not ErrorCode.NONE:
            self._take(result.error)
            return None
        self.member_id, self.generation = result.member_id, result.generation
        self.must_join = False  # heartbeats that said so were sent before
        return result

    def _sync(self, joined: JoinResult) -> Iterator[Any]:  # returns whether it has an assignment
        assignments: tuple[tuple[str, bytes], ...] = ()
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assign = assigned_cooperatively if self.style.is_cooperative else assigned_eagerly
            found = assign(joined.members)
            assignments = tuple((member_id, self._encoded(indexes)) for member_id, indexes in found.items())
        request = a_sync(
            self.member_id, self.generation, group_instance_id=self.style.instance_id, assignments=assignments
        )
        result = yield Call(request, REBALANCE_MS)
        if result is None:
            return False
        if result.error is not ErrorCode.NONE:
            self._take(result.error)
            return False
        assigned = partitions_in(result.assignment)
        if self.style.is_cooperative and self.owned - assigned:
            self.must_join = True  # what it gave up is for others
        self.owned = assigned
        return True

    def _encoded(self, indexes: set[int]) -> bytes:
        topic = TopicPartitions(topic=TOPIC, partitions=tuple(sorted(indexes)))
        return encode_assignment(Assignment(assigned_partitions=(topic,)))

    def _leave(self) -> Iterator[Any]:
        self.owned = set()
        if self.style.leaves and self.style.instance_id is None:
            request = LeaveGroup(group_id=GROUP, members=(LeavingMember(self.member_id),))
            yield Call(request)
        self.crash()

    # --------------------------------------------------------------------------------------------------------- offsets

    def _fetch(self) -> Iterator[Any]:
        wanted = tuple((TOPIC, each) for each in sorted(self.owned))
        stable = self.random.random() < 0.5
        for _ in range(5):
            result = yield Call(OffsetFetch(group_id=GROUP, partitions=wanted, require_stable=stable))
            if result is not None and result.error is ErrorCode.NONE:
                return
            yield Sleep(300)

    def _commit(self) -> Iterator[Any]:
        if not self.owned:
            return
        offsets = tuple(
            OffsetToCommit(topic=TOPIC, partition=each, offset=self.random.randrange(1 << 40))
            for each in sorted(self.owned)
        )
        member: dict[str, Any] = {
            "group_id": GROUP,
            "generation": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.style.instance_id,
            "offsets": offsets,
        }
        if self.style.producer_id is None:
            result = yield Call(OffsetCommit(**member))
        else:
            request = TxnOffsetCommit(producer_id=self.style.producer_id, producer_epoch=0, **member)
            result = yield Call(request)
            while not self.world.mark(
                self.style.producer_id, commits=result is not None and self.random.random() < 0.8
            ):
                yield Sleep(200)
        if result is not None:
            for each in result.partitions:
                self._take(each.error)
