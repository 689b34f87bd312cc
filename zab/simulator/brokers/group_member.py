"""A member of a consumer group (classic protocol): one process, which reads what it is assigned and commits.

    main        joins, syncs, fetches the committed offsets, then polls and commits until it has to join again
    beat        sends heartbeats

What it does with records is for `GroupMember.work`; here it only notes that it was given them. A process crashes,
leaves, or pauses for longer than its session: then it goes on as if nothing had been, commits, and learns what has
become of it.

Not here: how the leader assigns (`assignors`), what has to be true (`committed_offsets`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

from zab.kafka.consumer_protocol import PROTOCOL_TYPE
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.fetch import FetchPartition, FetchPartitionData, FetchRequest, FetchTopic
from zab.kafka.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from zab.kafka.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupMember,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from zab.partition.records.batch import check_crc, walk
from zab.partition.records.record import Record, decode_records
from zab.simulator.brokers import assignors
from zab.simulator.brokers.assignors import Partition
from zab.simulator.brokers.committed_offsets import Commit, GroupJudge, Instance
from zab.simulator.brokers.consumer import FETCH_VERSION, READ_COMMITTED, whole_batches
from zab.simulator.brokers.scripted_client import BACKOFF_US, OF_GROUP, Ask, Running, Script, ScriptedClient, Sleep
from zab.simulator.world.schedule import MS
from zab.simulator.world.verdict import SafetyError

SYNC_VERSION: Final = 5
HEARTBEAT_VERSION: Final = 4
LEAVE_VERSION: Final = 4
COMMIT_VERSION: Final = 8
OFFSET_FETCH_VERSION: Final = 7
MAX_WAIT_MS: Final = 100
START_AGAIN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
COMMIT_SHARE: Final = 0.4
"""How many polls are followed by a commit."""
CRASH_SHARE, LEAVE_SHARE, PAUSE_SHARE, REJOIN_SHARE = 0.01, 0.01, 0.01, 0.01


@attrs.frozen(kw_only=True)
class AssignedStyle:
    """How a member of KIP-848's protocol behaves (`assigned_member`)."""

    version: int
    """The version of its heartbeats; from 1 on it names itself."""
    heartbeat_ms: int
    regex: str | None
    """None: it subscribes by names. Else from version 1 on only."""
    assignor: str | None


@attrs.frozen(kw_only=True)
class Style:
    """How the members of one client behave."""

    group: str
    topics: tuple[str, ...]
    instance_id: str | None
    """None: a dynamic member."""
    is_cooperative: bool
    join_version: int
    """From 9 on a static leader may be told to skip the assignment."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    poll_gap_us: int
    assigned: AssignedStyle | None = None
    """Not None: the coordinator assigns."""

    @property
    def protocol(self) -> str:
        return "cooperative-sticky" if self.is_cooperative else "range"


class GroupMember:
    """See the docstring of the module. One process; `client` has its connections."""

    def __init__(self, client: ScriptedClient, judge: GroupJudge, style: Style) -> None:
        self.client = client
        self.judge = judge
        self.style = style
        self.rng = client.rng
        self.member_id = ""
        self.generation = -1
        self.positions: dict[Partition, int] = {}
        """What it owns, and where it is in it."""
        self.is_alive = True
        self.must_join = False
        self._is_joining = False
        self._joins_since = 0
        """When it asked to join last."""
        self._resting_until = 0
        self._scripts: list[Running] = []

    @property
    def now(self) -> int:
        return self.client.cluster.schedule.now

    @property
    def is_over(self) -> bool:
        return not self.is_alive or self.client.is_stopped

    @property
    def instance(self) -> Instance | None:
        """What it is as a static member."""
        instance_id = self.style.instance_id
        return None if instance_id is None else Instance(instance_id, self.member_id)

    def start(self) -> None:
        self._scripts = [self.client.perform(self._main()), self.client.perform(self._beat())]

    def crash(self) -> None:
        """It ends, and tells nobody."""
        self.is_alive = False
        self.positions = {}
        for each in self._scripts:
            each.end()

    # --------------------------------------------------------------------------------------------------------- scripts

    def _main(self) -> Script[None]:
        while not self.is_over:
            yield self.client.pause(BACKOFF_US)
            if not self.client.wishes():
                continue
            self._is_joining = True
            joined = yield from self._join()
            has_assignment = joined is not None and (yield from self._sync(joined))
            self._is_joining = False
            if not has_assignment or not (yield from self.find_positions()):
                continue
            while not self.is_over and not self.must_join:
                yield from self._round()
            if not self.style.is_cooperative and not self.is_over:
                yield from self.before_rebalance()
                self.positions = {}

    def _round(self) -> Script[None]:
        """Read a little, and do what members do now and then."""
        yield self.client.pause(self.style.poll_gap_us)
        chance = self.client.chance
        crashes, leaves, rests, joins = map(chance, (CRASH_SHARE, LEAVE_SHARE, PAUSE_SHARE, REJOIN_SHARE))
        if not self.client.wishes() or self.must_join:
            return
        if crashes:
            self.crash()
        elif leaves and self.may_leave:
            yield from self._leave()
        elif rests:
            yield from self._rest()
        else:
            if joins:
                self._rejoin()
            yield from self.work()

    @property
    def may_leave(self) -> bool:
        """Whether it may tell the group that it goes; static members of the classic protocol do not."""
        return self.style.instance_id is None

    def _rest(self) -> Script[None]:
        """Do nothing for a while, and then what it was about to do."""
        self._resting_until = self.now + int(self.style.session_timeout_ms * MS * (0.5 + 2 * self.rng.random()))
        yield Sleep(self._resting_until - self.now)
        yield from self.commit()

    def _rejoin(self) -> None:
        """Join again, for no reason that others know."""
        self.must_join = True

    def _beat(self) -> Script[None]:
        while not self.is_over:
            yield Sleep(max(self.style.session_timeout_ms * MS // 4, self._resting_until - self.now))
            if self.generation < 0 or self._is_joining or self.now < self._resting_until:
                continue
            who = (self.member_id, self.generation)
            body = HeartbeatRequest(
                group_id=self.style.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.style.instance_id,
            )
            answer = yield from self.ask(body, HEARTBEAT_VERSION)
            if answer is not None and who == (self.member_id, self.generation):
                self.take(ErrorCode(answer.error_code))

    def ask(self, body: object, version: int, timeout_ms: int = 3_000) -> Script[Any]:
        """Ask the coordinator of the group; None: there is no answer."""
        return (yield from self.client.call(OF_GROUP, self.style.group, body, version, timeout_ms * MS))

    def take(self, error: ErrorCode) -> None:
        """What an error means for the membership."""
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self.client.cluster.judge.counts["static members fenced"] += 1
            self.crash()
        elif error in START_AGAIN:
            self.generation, self.positions, self.must_join = -1, {}, True
            if error is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        elif error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.must_join = True

    # ------------------------------------------------------------------------------------------------------ rebalances

    def _join(self) -> Script[JoinGroupResponse | None]:
        style, is_cooperative = self.style, self.style.is_cooperative
        owned = set(self.positions) if is_cooperative else set()
        metadata = assignors.subscription_of(style.topics, owned, self.generation if is_cooperative else -1)
        body = JoinGroupRequest(
            group_id=style.group,
            session_timeout_ms=style.session_timeout_ms,
            rebalance_timeout_ms=style.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=style.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=(JoinGroupRequestProtocol(name=style.protocol, metadata=metadata),),
        )
        self._joins_since = self.now
        answer: JoinGroupResponse | None = yield from self.ask(
            body, style.join_version, style.rebalance_timeout_ms + 5_000
        )
        if answer is None:
            return None
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return None
        if answer.error_code:
            self.take(ErrorCode(answer.error_code))
            return None
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.must_join = False
        return answer

    def _sync(self, joined: JoinGroupResponse) -> Script[bool]:
        """Whether it has an assignment now."""
        style = self.style
        assignments: dict[str, set[Partition]] = {}
        misses_topics = False
        if joined.leader == joined.member_id and not joined.skip_assignment:
            partitions: list[Partition] = []
            for topic in style.topics:
                indexes = yield from self.client.partitions(topic)
                misses_topics |= not indexes
                partitions += [(topic, index) for index in indexes]
            assign = assignors.cooperative if style.is_cooperative else assignors.eager
            assignments = assign(joined.members, partitions)
        body = SyncGroupRequest(
            group_id=style.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=style.instance_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignors.encoded(each))
                for member_id, each in assignments.items()
            ),
        )
        answer = yield from self.ask(body, SYNC_VERSION, style.rebalance_timeout_ms)
        if answer is None:
            return False
        if answer.error_code:
            self.take(ErrorCode(answer.error_code))
            return False
        assigned = assignors.decoded(answer.assignment)
        owner = style.instance_id or self.member_id
        self.judge.assigned(self.now, style.group, self.generation, owner, sorted(assigned))
        if self.instance is not None:
            self.judge.took(self.now, style.group, self.instance, self._joins_since)
        # A static leader that comes back to a stable group gets what it had, maybe from before the topic was there.
        is_outdated = bool(assignments) and assigned != assignments.get(self.member_id)
        if misses_topics or is_outdated or (style.is_cooperative and self.positions.keys() - assigned):
            # What it gives up is for others.
            self.must_join = True
        self.positions = {each: self.positions.get(each, -1) for each in sorted(assigned)}
        return True

    def _leave(self) -> Script[None]:
        yield from self.before_rebalance()
        if not self.is_alive:
            return
        self.positions = {}
        body = LeaveGroupRequest(group_id=self.style.group, members=(LeaveGroupMember(member_id=self.member_id),))
        yield from self.ask(body, LEAVE_VERSION)
        self.crash()

    # -------------------------------------------------------------------------------------------------------- offsets

    def find_positions(self) -> Script[bool]:
        """Where to begin in what is new; whether it knows."""
        while not self.is_over:
            wanted = [each for each, position in self.positions.items() if position < 0]
            if not wanted:
                return True
            if self.must_join and self.generation < 0:
                return False
            expected = {each: self.judge.expectation(self.place(each)) for each in wanted}
            topics = yield from self.fetch_offsets(wanted)
            if topics is None:
                yield self.client.pause(BACKOFF_US)
                continue
            for topic in topics:
                for each in topic.partitions:
                    partition = (topic.name, each.partition_index)
                    if each.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                        self.client.cluster.judge.counts["unstable offsets"] += 1
                    elif not each.error_code:
                        place = self.place(partition)
                        self.judge.fetched(place, expected[partition], each.committed_offset, each.metadata)
                        if partition in self.positions:
                            self.positions[partition] = max(each.committed_offset, 0)
            if -1 in self.positions.values():
                yield self.client.pause(BACKOFF_US)
        return False

    def fetch_offsets(self, wanted: Iterable[Partition]) -> Script[Any]:
        """Ask what is committed for these partitions: the topics of the answer; None: there is none."""
        body = OffsetFetchRequest(
            group_id=self.style.group,
            topics=tuple(
                OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(wanted).items()
            ),
            require_stable=True,
        )
        answer = yield from self.ask(body, OFFSET_FETCH_VERSION)
        return None if answer is None or answer.error_code else answer.topics

    def place(self, partition: Partition) -> tuple[str, str, int]:
        return self.style.group, *partition

    def before_rebalance(self) -> Script[None]:
        """What it does before it gives partitions up."""
        yield from self.commit()

    def commit(self) -> Script[None]:
        """Commit all its positions."""
        offsets = {each: position for each, position in self.positions.items() if position >= 0}
        if not offsets or self.generation < 0:
            return
        generation = self.generation_of_commit()
        commits = {
            each: self.judge.commits_now(self.now, self.place(each), position, generation, self.instance)
            for each, position in offsets.items()
        }
        topics = sorted({topic for topic, _ in offsets})
        body = OffsetCommitRequest(
            group_id=self.style.group,
            generation_id_or_member_epoch=generation,
            member_id=self.member_id,
            group_instance_id=self.style.instance_id,
            topics=tuple(OffsetCommitRequestTopic(name=name, partitions=_of(name, commits)) for name in topics),
        )
        answer = yield from self.ask(body, self.commit_version)
        for topic in () if answer is None else answer.topics:
            for each in topic.partitions:
                partition = (topic.name, each.partition_index)
                error = ErrorCode(each.error_code)
                if error is ErrorCode.NONE:
                    self.accepted(partition, commits[partition])
                self.judge.answered(self.now, self.place(partition), commits[partition], error)
                self.take(error)

    commit_version = COMMIT_VERSION

    def generation_of_commit(self) -> int:
        """The generation that it names."""
        return self.generation

    def accepted(self, partition: Partition, commit: Commit) -> None:
        """The coordinator has taken the commit."""

    # --------------------------------------------------------------------------------------------------------- records

    def work(self) -> Script[None]:
        """One round of its work: read from one partition, and sometimes commit."""
        commits = self.rng.random() < COMMIT_SHARE
        found = yield from self.poll()
        if found is not None:
            partition, records = found
            self.judge.processed(self.style.group, *partition, (each.offset for each in records))
        if commits and not self.must_join:
            yield from self.commit()

    def poll(self) -> Script[tuple[Partition, list[Record]] | None]:
        """The next records of one partition; its position is after them then. None: there were none."""
        owned = [each for each, position in self.positions.items() if position >= 0]
        if not owned:
            return None
        partition = self.rng.choice(owned)
        leader = yield from self.client.leader(*partition)
        if leader is None or partition not in self.positions:
            return None
        position = self.positions[partition]
        wanted = FetchPartition(
            partition=partition[1],
            current_leader_epoch=leader.epoch,
            fetch_offset=position,
            partition_max_bytes=self.rng.choice((1, 1_000, 10_000)),
        )
        body = FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            topics=(FetchTopic(topic_id=leader.topic_id, partitions=(wanted,)),),
            isolation_level=READ_COMMITTED,
        )
        answer = yield Ask(leader.broker, body, FETCH_VERSION)
        if answer is None or not answer.responses or answer.responses[0].partitions[0].error_code:
            self.client.forget_leader(*partition)
            return None
        if self.positions.get(partition) != position:
            return None
        records = self._records(partition, position, answer.responses[0].partitions[0])
        if not records:
            return None
        self.positions[partition] = records[-1].offset + 1
        return partition, records

    def _records(self, partition: Partition, position: int, data: FetchPartitionData) -> list[Record]:
        content, found = bytes(data.records or b""), list[Record]()
        for at, header in walk(whole_batches(content)):
            check_crc(content, at, header)
            if header.base_offset > position:
                text = f"{self.client.name}: after {position} of {partition} comes {header.base_offset}"
                raise SafetyError("nothing below the high watermark is left out", text)
            if header.last_offset >= position:
                found += [each for each in decode_records(content, at) if each.offset >= position]
                position = header.last_offset + 1
        return found


def by_topic(partitions: Iterable[Partition]) -> dict[str, tuple[int, ...]]:
    """The partitions of each topic, sorted."""
    found: dict[str, tuple[int, ...]] = {}
    for topic, index in sorted(partitions):
        found[topic] = (*found.get(topic, ()), index)
    return found


def _of(topic: str, commits: dict[Partition, Commit]) -> tuple[OffsetCommitRequestPartition, ...]:
    return tuple(
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=commit.offset, committed_metadata=str(commit.number)
        )
        for (name, index), commit in commits.items()
        if name == topic
    )
