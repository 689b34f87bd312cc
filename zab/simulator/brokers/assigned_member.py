"""A member of a group whose partitions the coordinator assigns (KIP-848): one process.

    main        joins, gives up and takes what it was told, finds the committed offsets, then polls and commits
    beat        sends heartbeats, and hears what the member is to own

A process crashes, leaves (a static one for a while), joins again as if it were new, subscribes to nothing for a while,
pauses for longer than its session, is slow to give something up, or commits with an epoch that is over. After a
heartbeat without an answer it says everything, and takes nothing new until it is answered.

Not here: what has to be true (`ownership`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupTopicPartitions,
)
from zab.kafka.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from zab.kafka.primitives import Uuid
from zab.partition.consumer_groups.state import JOINS, LEAVES, LEAVES_FOR_A_WHILE
from zab.simulator.brokers.assignors import Partition
from zab.simulator.brokers.committed_offsets import Commit, GroupJudge
from zab.simulator.brokers.group_client import GroupClient
from zab.simulator.brokers.group_member import GroupMember, Style, by_topic
from zab.simulator.brokers.ownership import OwnedCommit, Owner
from zab.simulator.brokers.scripted_client import BACKOFF_US, OF_GROUP, Script, ScriptedClient, Sleep
from zab.simulator.world.schedule import MS

DESCRIBE_VERSION: Final = 1
COMMIT_VERSION: Final = 9
OFFSET_FETCH_VERSION: Final = 9
FENCED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
"""After these a member owns nothing, and joins again."""
STALE_SHARE: Final = 0.1
"""How many commits have the epoch before the present one, if there was one."""
DESCRIBE_SHARE: Final = 0.1
SLOW_SHARE: Final = 0.1
"""How often a member takes its time to give something up or to take something."""
LOSS_SHARE: Final = 0.05
"""How many answers to heartbeats are lost on their way."""


class AssignedMember(GroupMember):
    """See the docstring of the module."""

    def __init__(self, client: ScriptedClient, judge: GroupJudge, style: Style, life: str) -> None:
        super().__init__(client, judge, style)
        assert style.assigned is not None
        self.how = style.assigned
        self.life = life
        self.ownership = judge.ownership
        self.owner = self._new_owner()
        if self.how.version:
            self.member_id = life
        self._target: frozenset[Partition] = frozenset()
        """What it is to own, as it was told last."""
        self._previous = -1
        """The epoch before."""
        self._reported: frozenset[Partition] | None = None
        """What it has said that it owns; None: it has to say everything."""
        self._is_asking = False
        self._subscribes = True
        self._ids: dict[Uuid, str] = {}
        self._committing = self.owner, self.owner.epoch

    def _new_owner(self) -> Owner:
        style = self.style
        return Owner(self.life, style.group, style.session_timeout_ms * MS, style.rebalance_timeout_ms * MS)

    def _own(self) -> None:
        """Its positions have changed."""
        self.ownership.owns(self.now, self.owner, self.positions)

    def crash(self) -> None:
        super().crash()
        self._own()

    def _abandon(self) -> None:
        """It is no member any longer: it gives everything up, and has to join."""
        self.positions, self._target, self._reported = {}, frozenset(), None
        self.generation = self._previous = -1
        self.must_join = True
        self._own()
        self.owner = self._new_owner()

    # --------------------------------------------------------------------------------------------------------- scripts

    def _main(self) -> Script[None]:
        while not self.is_over:
            yield self.client.pause(BACKOFF_US)
            if not self.client.wishes():
                continue
            self.must_join = False
            if self.generation < 0:
                yield from self._heartbeat()
            if self.generation < 0:
                continue
            yield from self._follow()
            if not (yield from self.find_positions()):
                continue
            while not self.is_over and not self.must_join:
                yield from self._round()

    def _beat(self) -> Script[None]:
        while not self.is_over:
            yield Sleep(max(self.how.heartbeat_ms * MS, self._resting_until - self.now))
            describes = self.client.chance(DESCRIBE_SHARE)
            if self.generation < 0 or self.now < self._resting_until:
                continue
            yield from self._heartbeat()
            if describes and not self.is_over:
                yield from self._describe()

    def _rejoin(self) -> None:
        """As if it were new: or to subscribe to something else."""
        if self.client.chance(0.5):
            self._abandon()
        else:
            self._subscribes = not self._subscribes
            self._reported = None

    def _rest(self) -> Script[None]:
        yield from super()._rest()
        # What it still believes to own may be another one's, and it may be told so only now.
        if not self.is_over and self.generation >= 0:
            yield from self._heartbeat()

    def calm_down(self) -> None:
        """From now on it subscribes to its topics."""
        if not self._subscribes:
            self._subscribes, self._reported = True, None

    # ------------------------------------------------------------------------------------------------------ heartbeats

    def _heartbeat(self) -> Script[None]:
        """Say what is news, and hear what it is to own."""
        if self._is_asking:
            return
        owner, owned, begun_at = self.owner, frozenset(self.positions), self.now
        is_full, joins = self._reported is None, self.generation < 0
        body = self._body(owned, is_full=is_full or joins)
        known = self.ownership.known_epoch(self.style.group)
        self._is_asking = True
        coordinator = self._leading()
        answer: ConsumerGroupHeartbeatResponse | None = yield from self.ask(body, self.how.version)
        self._is_asking = False
        if self.client.chance(LOSS_SHARE):
            answer = None
        if self.is_over or owner is not self.owner:
            self._reported = None
            return
        if answer is None or answer.error_code:
            self._reported = None
            if answer is not None:
                self.take(ErrorCode(answer.error_code))
            return
        assigned = self._target
        if answer.assignment is not None:
            found = yield from self._named(answer.assignment.topic_partitions)
            if found is None or self.is_over or owner is not self.owner:
                self._reported = None
                return
            assigned = found
        counts = coordinator is not None and coordinator == self._leading()
        self.member_id = answer.member_id or self.member_id
        self.ownership.told(owner, answer.member_epoch, known if counts and joins else None)
        if counts:
            self.ownership.heard(owner, begun_at, assigned)
        if joins and self.instance is not None:
            self.judge.took(self.now, self.style.group, self.instance, begun_at)
        if answer.member_epoch != self.generation:
            self._previous, self.generation = self.generation, answer.member_epoch
        self._reported, self._target = owned, assigned
        self.must_join = self.must_join or assigned != self.positions.keys()

    def _body(self, owned: frozenset[Partition], *, is_full: bool) -> ConsumerGroupHeartbeatRequest:
        names, regex = None, None
        if is_full:
            names = self.style.topics if self._subscribes and self.how.regex is None else ()
            regex = self.how.regex if self._subscribes else ""
        return ConsumerGroupHeartbeatRequest(
            group_id=self.style.group,
            member_id=self.member_id,
            member_epoch=max(self.generation, JOINS),
            instance_id=self.style.instance_id,
            rebalance_timeout_ms=self.style.rebalance_timeout_ms if is_full else -1,
            subscribed_topic_names=names,
            subscribed_topic_regex=regex if self.how.version else None,
            server_assignor=self.how.assignor if is_full else None,
            topic_partitions=self._wire(owned) if is_full or owned != self._reported else None,
        )

    def _wire(self, owned: Iterable[Partition]) -> tuple[ConsumerGroupTopicPartitions, ...]:
        ids = {name: topic_id for topic_id, name in self._ids.items()}
        return tuple(
            ConsumerGroupTopicPartitions(topic_id=ids[topic], partitions=indexes)
            for topic, indexes in by_topic(owned).items()
        )

    def _named(self, topics: tuple[ConsumerGroupTopicPartitions, ...]) -> Script[frozenset[Partition] | None]:
        """These partitions, by the names of their topics; None: a name is not known."""
        if any(each.topic_id not in self._ids for each in topics):
            for name in self.style.topics:
                indexes = yield from self.client.partitions(name)
                for index in indexes:
                    leader = yield from self.client.leader(name, index)
                    if leader is not None:
                        self._ids[leader.topic_id] = name
        if any(each.topic_id not in self._ids for each in topics):
            return None
        return frozenset((self._ids[each.topic_id], index) for each in topics for index in each.partitions)

    def _leading(self) -> int | None:
        """The broker that would be asked now, if it leads the group's partition."""
        broker = self.client.coordinator(OF_GROUP, self.style.group)
        return broker if broker is not None and self.client.cluster.coordinates(broker, self.style.group) else None

    def _describe(self) -> Script[None]:
        known, coordinator = self.ownership.known_epoch(self.style.group), self._leading()
        body = ConsumerGroupDescribeRequest(group_ids=(self.style.group,))
        answer = yield from self.ask(body, DESCRIBE_VERSION)
        if answer is None or coordinator is None or coordinator != self._leading():
            return
        if not answer.groups[0].error_code:
            self.ownership.described(answer.groups[0], known)

    def take(self, error: ErrorCode) -> None:
        counts = self.client.cluster.judge.counts
        if error is not ErrorCode.NONE:
            counts[f"members told {error.name}"] += 1
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self.crash()
        elif error in FENCED and self.generation >= 0:
            self._abandon()

    # ------------------------------------------------------------------------------------------------------ partitions

    def _follow(self) -> Script[None]:
        """Give up and take what it was told, and say so."""
        target = self._target
        if self.positions.keys() - target:
            yield from self.commit()
            if self.client.chance(SLOW_SHARE):
                yield Sleep(int(self.style.rebalance_timeout_ms * MS * 1.5 * self.rng.random()))
        elif self.client.chance(SLOW_SHARE):
            yield self.client.pause(self.how.heartbeat_ms * MS)
        if self.is_over or target != self._target:
            self.must_join = True
            return
        self.positions = {each: at for each, at in self.positions.items() if each in target}
        if not self._is_asking and self._reported is not None:
            self.positions |= dict.fromkeys(sorted(target - self.positions.keys()), -1)
        self._own()
        self.must_join = self.must_join or self.positions.keys() != target
        if self.positions.keys() != self._reported:
            yield from self._heartbeat()

    @property
    def may_leave(self) -> bool:
        return True

    def _leave(self) -> Script[None]:
        yield from self.before_rebalance()
        if self.is_over:
            return
        self.positions, self._target = {}, frozenset()
        self._own()
        for_a_while = self.style.instance_id is not None and self.rng.random() < 0.8
        body = ConsumerGroupHeartbeatRequest(
            group_id=self.style.group,
            member_id=self.member_id,
            member_epoch=LEAVES_FOR_A_WHILE if for_a_while else LEAVES,
            instance_id=self.style.instance_id,
        )
        self._is_asking = True
        yield from self.ask(body, self.how.version)
        self.crash()

    # --------------------------------------------------------------------------------------------------------- offsets

    commit_version = COMMIT_VERSION

    def generation_of_commit(self) -> int:
        """Now and then that before the present one, as a thread has it that has heard of nothing yet."""
        return self._previous if self.client.chance(STALE_SHARE) and self._previous >= 0 else self.generation

    def commit(self) -> Script[None]:
        self._committing = self.owner, self.owner.epoch
        yield from super().commit()

    def accepted(self, partition: Partition, commit: Commit) -> None:
        owner, told = self._committing
        begun = OwnedCommit(owner, commit.generation, told, commit.begun_at)
        self.ownership.accepted(self.now, self.place(partition), commit.offset, begun)

    def fetch_offsets(self, wanted: Iterable[Partition]) -> Script[Any]:
        group = OffsetFetchRequestGroup(
            group_id=self.style.group,
            member_id=self.member_id,
            member_epoch=self.generation,
            topics=tuple(
                OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                for name, indexes in by_topic(wanted).items()
            ),
        )
        answer = yield from self.ask(OffsetFetchRequest(groups=(group,), require_stable=True), OFFSET_FETCH_VERSION)
        if answer is None:
            return None
        [found] = answer.groups
        if found.error_code:
            self.take(ErrorCode(found.error_code))
            return None
        return found.topics


class AssignedClient(GroupClient):
    """Keeps one member of a group of KIP-848 running."""

    def __init__(self, *surroundings: Any, **how: Any) -> None:
        self._lives: list[AssignedMember] = []
        super().__init__(*surroundings, **how)

    def make(self) -> GroupMember:
        self._lives.append(AssignedMember(self, self.judge, self.style, f"{self.name}-{len(self._lives) + 1}"))
        return self._lives[-1]

    def calm_down(self) -> None:
        """Also ends static members that should be over: while they send heartbeats, the next one has to wait."""
        super().calm_down()
        for each in self._lives[:-1]:
            if each.is_alive:
                each.crash()
        self._lives[-1].calm_down()
