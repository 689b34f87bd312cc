"""Groups of KIP-848 on the bench: topics, and members that do what they are told."""

from __future__ import annotations

from typing import Any

from attrs import define, field, frozen

from tests.partition.groups.bench import GROUP, Bench
from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import Uuid
from zab.partition.consumer_groups.assignors import Partitions
from zab.partition.consumer_groups.heartbeat import MemberHeartbeat
from zab.partition.coordinator.effects import Token
from zab.partition.groups.context import Surroundings
from zab.partition.groups.coordinator import GroupCoordinator
from zab.partition.groups.requests import ConsumerHeartbeat
from zab.partition.groups.results import ConsumerHeartbeatResult

NONE = ErrorCode.NONE


@frozen
class Topic:
    id: Uuid
    partitions: dict[int, None]


def a_topic(number: int, count: int) -> Topic:
    return Topic(Uuid(bytes([number] * 16)), dict.fromkeys(range(count)))


T = a_topic(1, 4)
U = a_topic(2, 2)


@define
class ConsumerBench(Bench):
    """`has` can be replaced, as the topics of an image are."""

    has: dict[str, Topic] = field(factory=lambda: {"t": T, "u": U})

    def _made(self) -> GroupCoordinator:
        surroundings = Surroundings(
            self.settings, self.partition_for, self._unique, self._has_partition, lambda: self.has
        )
        return GroupCoordinator(surroundings, self.now, 1_700_000_000_000 + self.now)

    def reloaded(self) -> ConsumerBench:
        other = ConsumerBench(self.settings, self.partition_for, self.topics, now=self.now, has=self.has)
        other._ids = self._ids + 100
        other.coordinator.unload(0, 2)
        other.log, other.end = list(self.log), self.end
        other.lead(0, 3)
        return other

    def heartbeat(self, member_id: str, epoch: int, group_id: str = GROUP, **said: Any) -> Token:
        asked = MemberHeartbeat(member_id=member_id, epoch=epoch, client_id="c", client_host="/h", **said)
        return self.ask(ConsumerHeartbeat(group_id=group_id, heartbeat=asked))

    def beats(self, member_id: str, epoch: int, **said: Any) -> ConsumerHeartbeatResult:
        """The answer, which has to be there."""
        return self.result(self.heartbeat(member_id, epoch, **said))

    def result(self, token: Token) -> ConsumerHeartbeatResult:
        found = self.answers[token]
        assert isinstance(found, ConsumerHeartbeatResult)
        return found

    def join(self, member_id: str = "", *topics: str, **said: Any) -> Token:  # type: ignore[override]
        fields: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "owned": {}}
        if "topic_regex" not in said:
            fields["topic_names"] = topics or ("t",)
        return self.heartbeat(member_id, 0, **(fields | said))

    def member(self, member_id: str, *topics: str, **said: Any) -> Consumer:  # type: ignore[override]
        """One that has joined."""
        return Consumer(self, member_id).told(self.result(self.join(member_id, *topics, **said)))

    @property
    def group_state(self) -> str:
        side = self.group().consumer
        return "" if side is None else side.group.state


@define
class Consumer:
    """A member as a client is: it owns what it was told last, once it has said so."""

    bench: ConsumerBench
    member_id: str
    epoch: int = 0
    owned: Partitions = field(factory=dict)
    assigned: Partitions = field(factory=dict)

    def told(self, result: ConsumerHeartbeatResult) -> Consumer:
        assert result.error is NONE, (result.error, result.message)
        assert result.member_id == self.member_id
        self.epoch = result.epoch
        if result.assigned is not None:
            self.assigned = result.assigned
        return self

    def beat(self, **said: Any) -> Consumer:
        """Take over what it was told, and say so."""
        self.owned = self.assigned
        return self.told(self.bench.beats(self.member_id, self.epoch, owned=self.owned, **said))

    def is_idle(self) -> Consumer:
        """It says that it is alive, and does not touch what it was told."""
        return self.told(self.bench.beats(self.member_id, self.epoch))

    @property
    def indexes(self) -> list[int]:
        """Its partitions of `t`."""
        return sorted(self.assigned.get(T.id, ()))


def settle(*members: Consumer) -> None:
    """All do what they are told, until nothing changes."""
    for _ in range(6):
        for member in members:
            member.beat()
