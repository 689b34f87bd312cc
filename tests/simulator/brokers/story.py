"""Whole simulated brokers to which only happens what a test says: no random faults, and the same judges. The last
broker is the controller, unless it ends.

    story = Story(topic("t", 2))                    three brokers, and a topic with two replicas, led by the first
    story.write("a", "b"), story.write(…, acks=1)   one batch, which is acknowledged
    story.send("a")                                 the same without waiting for the answer
    story.read()                                    what a consumer is given, from the beginning
    story.cut(1, 2), story.heal()                   these two do not hear of each other
    story.hold(1, 2, FollowerAnswered)              messages of this kind wait from now on, until `release`
    story.kill(1), story.power(1), story.start(1)   its process ends, or its machine; until it is started
    story.expire(1)                                 its session ends; it gets another one
    story.until(lambda: …)                          time passes until that holds
    story.finish()                                  all is healed and started; everything is there, and equal

A record that is acknowledged is shown to the judge, as is what is read, so a story fails by the rule that is broken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.fetch import FetchPartition, FetchPartitionData, FetchRequest, FetchTopic
from zab.kafka.messages.placement import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersTopicPartitions,
    ReassignablePartition,
    ReassignableTopic,
)
from zab.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from zab.kafka.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from zab.kafka.messages.transactions import InitProducerIdRequest
from zab.kafka.primitives import ZERO_UUID
from zab.partition.controller.requests import AlterPartition
from zab.partition.controller.znodes import topic_path
from zab.partition.links.messages import Asked, FollowerAnswered
from zab.partition.records.builder import encode_batch
from zab.partition.records.record import Record
from zab.partition.replica.replica import Replica
from zab.simulator.brokers.administrator import TopicPlan
from zab.simulator.brokers.client import Client
from zab.simulator.brokers.cluster import BrokerCluster
from zab.simulator.brokers.consumer import FETCH_VERSION, Consumer
from zab.simulator.brokers.judge import Sent
from zab.simulator.brokers.process import BrokerProcess
from zab.simulator.brokers.profile import Profile
from zab.simulator.coordination.service import SERVICE
from zab.simulator.world.disk import FaultyDisk
from zab.simulator.world.schedule import MS

BROKERS = 3
PRODUCE_VERSION = 9
PATIENCE_MS = 60_000
GAPS = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
LINES = """
zookeeper.session.timeout.ms=3000
replica.lag.time.max.ms=2000
replica.fetch.wait.max.ms=100
replica.fetch.backoff.ms=100
replica.high.watermark.checkpoint.interval.ms=60000
producer.id.expiration.ms=1152921504606846976
"""


def topic(name: str, replicas: int, **settings: object) -> TopicPlan:
    """A topic with one partition."""
    known = {"retention.ms": "-1", "segment.bytes": str(1 << 30), "min.insync.replicas": "1", "flush.mode": "os"}
    given = {key.replace("_", "."): str(value) for key, value in settings.items()}
    return TopicPlan(name, 1, replicas, {**known, **given})


def alters_a_partition(message: object) -> bool:
    """Whether this is a leader's proposal of an in-sync set."""
    return isinstance(message, Asked) and isinstance(message.request, AlterPartition)


@attrs.define(eq=False)
class Pending:
    """A request, and its answer once there is one."""

    is_over: bool = False
    answer: Any = None

    def take(self, answer: Any) -> None:
        self.is_over, self.answer = True, answer

    @property
    def produced(self) -> Any:
        """What a produce is answered for its partition."""
        assert self.answer is not None
        return self.answer.responses[0].partition_responses[0]

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.produced.error_code)


@attrs.define(eq=False)
class Hold:
    """Messages that wait: each with what sends it."""

    matches: Callable[[int, int, object], bool]
    messages: list[tuple[object, Callable[..., None]]] = attrs.Factory(list)
    limit: int = 1 << 30
    """So many wait, later ones pass."""


@attrs.define(eq=False)
class Author:
    """An idempotent producer, as the batches name it."""

    producer_id: int
    epoch: int
    sequence: int = 0


class Story:
    """See the docstring of the module."""

    def __init__(self, plan: TopicPlan, brokers: int = BROKERS, lines: str = "", seed: int = 0) -> None:
        self.plan = plan
        self.cluster = BrokerCluster(_profile(plan, brokers, LINES + lines, seed), None, repr)
        self.schedule, self.observer, self.judge = self.cluster.schedule, self.cluster.observer, self.cluster.judge
        self.holds: list[Hold] = []
        self.sent: list[tuple[int, int, object, Callable[..., None]]] = []
        """Every message between brokers, with its sender, its receiver, and what sends it once more."""
        self.client = Client(self.cluster, -1, Random(seed), None)
        self.numbers: Counter[str] = Counter()
        self._readers = 1
        self.start(brokers)
        self.until(lambda: self.process(brokers).broker.image.controller == brokers)
        for sid in self.cluster.machines:
            self.start(sid)
        self.until(lambda: self._all_see(set(self.cluster.machines)))

    # ------------------------------------------------------------------------------------------------------------ time

    def until(self, holds: Callable[[], bool], ms: int = PATIENCE_MS) -> None:
        """Let time pass until this holds."""
        end = self.schedule.now + ms * MS
        while not holds():
            assert self.schedule.run_next(end), f"still not after {ms} ms"

    def pass_time(self, ms: int) -> None:
        self.schedule.run_until(self.schedule.now + ms * MS)

    def compare(self) -> None:
        """Compare the replicas below their marks."""
        self.observer.compare(self.cluster.processes)

    # --------------------------------------------------------------------------------------------------------- brokers

    def process(self, broker: int) -> BrokerProcess:
        found = self.cluster.process(broker)
        assert found is not None
        return found

    def replica(self, broker: int) -> Replica:
        found = _of(self.process(broker), self.plan.name)
        assert found is not None
        return found

    def has_replica(self, broker: int) -> bool:
        return _of(self.process(broker), self.plan.name) is not None

    def end(self, broker: int) -> int:
        """Where its log ends."""
        return self.replica(broker).log.log_end

    def mark(self, broker: int) -> int:
        return self.replica(broker).log.high_watermark

    def leads(self, broker: int) -> bool:
        """Whether it leads, and nobody does in a later epoch."""
        if self.cluster.process(broker) is None:
            return False
        replica = _of(self.process(broker), self.plan.name)
        return replica is not None and replica.leader is not None and replica.leader.epoch == self.epoch

    @property
    def epoch(self) -> int:
        """The newest leader epoch that any broker knows."""
        replicas = [_of(each, self.plan.name) for each in self.cluster.processes]
        return max(each.state.leader_epoch for each in replicas if each is not None and each.state is not None)

    @property
    def leader(self) -> int:
        [found] = [sid for sid in self.cluster.machines if self.leads(sid)]
        return found

    @property
    def in_sync(self) -> set[int]:
        """The in-sync set that the leader knows."""
        leader = self.replica(self.leader).leader
        assert leader is not None
        return set(leader.in_sync.committed)

    @property
    def controller(self) -> int:
        [found] = {each.broker.image.controller for each in self.cluster.processes if each.broker.image.controller >= 0}
        return found

    @property
    def alive(self) -> set[int]:
        """The brokers that the controller knows."""
        return set(self.process(self.controller).broker.image.brokers)

    def start(self, broker: int) -> None:
        """Start it, if it does not run."""
        machine = self.cluster.machines[broker]
        machine.stays_down = True
        if machine.running is None:
            machine.start()
            process = self.process(broker)
            process.links.send = partial(self._send, process, process.links.send)  # type: ignore[method-assign]

    def kill(self, broker: int) -> None:
        self.cluster.machines[broker].stop(with_power=False)

    def power(self, broker: int) -> None:
        self.cluster.machines[broker].stop(with_power=True)

    def replace_disk(self, broker: int) -> None:
        self.power(broker)
        self.cluster.machines[broker].disk = FaultyDisk()
        self.observer.losses.wiped(broker)

    def stop_cleanly(self, broker: int) -> None:
        process = self.process(broker)
        process.stop_cleanly()
        self.until(lambda: process.dead)

    def expire(self, broker: int) -> None:
        self.cluster.service.expire(self.process(broker).session.id)

    def lose_session(self, broker: int) -> None:
        """Cut it off from the coordination service until its session is over."""
        session = self.process(broker).session.id
        self.cut(broker, SERVICE)
        self.until(lambda: session not in self.cluster.service.session_ids)

    # ---------------------------------------------------------------------------------------------------------- network

    def cut(self, one: int, other: int) -> None:
        for pair in ((one, other), (other, one)):
            self.cluster.network.block(*pair)

    def reconnect(self, one: int, other: int) -> None:
        for pair in ((one, other), (other, one)):
            self.cluster.network.unblock(*pair)

    def hold(self, sender: int, receiver: int, kind: type | Callable[[object], bool], limit: int = 1 << 30) -> Hold:
        """Messages of a kind wait from now on; 0 is any broker."""

        def matches(one: int, other: int, message: object) -> bool:
            is_kind = isinstance(message, kind) if isinstance(kind, type) else kind(message)
            return sender in (0, one) and receiver in (0, other) and is_kind

        self.holds.append(Hold(matches, limit=limit))
        return self.holds[-1]

    def release(self, hold: Hold) -> None:
        """Send what waits, and let later ones pass."""
        self.holds.remove(hold)
        for _, send in hold.messages:
            send()

    def forget(self, hold: Hold) -> None:
        """Lose what waits, and let later ones pass."""
        self.holds.remove(hold)

    def spoil(self, hold: Hold, old: bytes, new: bytes) -> None:
        """Send what waits with other bytes, and let later messages pass."""
        self.holds.remove(hold)
        for message, send in hold.messages:
            assert isinstance(message, FollowerAnswered)
            pieces = [piece.replace(old, new) if isinstance(piece, bytes) else piece for piece in message.pieces]
            send(FollowerAnswered(tuple(pieces)))

    def _send(self, process: BrokerProcess, send: Callable[..., None], links: Sequence[int], message: object) -> None:
        for link in links:
            end = process.links.ends.get(link)
            if end is None:
                continue

            def now(changed: object = message, link: int = link) -> None:
                if not process.dead:
                    send((link,), changed)
                    process.links.flush()

            self.sent.append((process.sid, end.sid, message, now))
            for hold in self.holds:
                if len(hold.messages) < hold.limit and hold.matches(process.sid, end.sid, message):
                    hold.messages.append((message, now))
                    break
            else:
                send((link,), message)

    # --------------------------------------------------------------------------------------------------------- clients

    def ask(self, broker: int, body: object, version: int, timeout_ms: int = 30_000) -> Pending:
        pending = Pending()
        self.client.ask(broker, body, version, pending.take, timeout_ms * MS)
        return pending

    def answer(self, broker: int, body: object, version: int) -> Any:
        pending = self.ask(broker, body, version)
        self.until(lambda: pending.is_over)
        return pending.answer

    def create(self, *replicas: int) -> None:
        """Create the topic, led by the first of these."""
        plan = self.plan
        body = CreateTopicsRequest(
            topics=(
                CreatableTopic(
                    name=plan.name,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=(CreatableReplicaAssignment(partition_index=0, broker_ids=replicas),),
                    configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in plan.settings.items()),
                ),
            ),
            timeout_ms=10_000,
        )
        [created] = self.answer(self.controller, body, 7).topics
        assert not created.error_code, created
        self.until(lambda: self.leads(replicas[0]) and all(self._knows_leader(each) for each in replicas))

    def delete(self) -> None:
        """Delete the topic; `create` makes another one of the name."""
        wanted = (DeleteTopicState(name=self.plan.name, topic_id=ZERO_UUID),)
        body = DeleteTopicsRequest(topics=wanted, timeout_ms=10_000)
        [deleted] = self.answer(self.controller, body, 6).responses
        assert not deleted.error_code, deleted
        path = topic_path(self.plan.name)
        self.until(lambda: self.cluster.service.tree.data(path) is None)

    def _knows_leader(self, broker: int) -> bool:
        replica = _of(self.process(broker), self.plan.name)
        return replica is not None and replica.state is not None

    def move_to(self, *replicas: int) -> None:
        """The first of these, which all have the partition, leads; the in-sync set stays as it is."""
        self.reassign(*replicas)
        self.elect_preferred(replicas[0])

    def elect_preferred(self, broker: int) -> None:
        """The first replica, which this is, leads."""
        wanted = (ElectLeadersTopicPartitions(topic=self.plan.name, partitions=(0,)),)
        self.ask(self.controller, ElectLeadersRequest(election_type=0, topic_partitions=wanted, timeout_ms=5000), 2)
        self.until(lambda: self.leads(broker))

    def reassign(self, *replicas: int) -> None:
        partition = ReassignablePartition(partition_index=0, replicas=replicas)
        body = AlterPartitionReassignmentsRequest(
            timeout_ms=5000, topics=(ReassignableTopic(name=self.plan.name, partitions=(partition,)),)
        )
        answer = self.answer(self.controller, body, 0)
        assert not answer.responses[0].partitions[0].error_code, answer

    def fetch(
        self,
        offset: int,
        max_wait_ms: int = 0,
        at: int | None = None,
        last_epoch: int = -1,
        epoch: int | None = None,
        session_epoch: int = -1,
        *,
        is_committed: bool = False,
    ) -> Pending:
        """Fetch as a consumer does that knows the newest leader epoch, or this one. `session_epoch` 0 begins a
        session."""
        broker = self.leader if at is None else at
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=self.epoch if epoch is None else epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            partition_max_bytes=1 << 20,
        )
        topic_id = next(replica.topic_id for each in self.cluster.processes if (replica := _of(each, self.plan.name)))
        wanted = (FetchTopic(topic_id=topic_id, partitions=(partition,)),)
        body = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=wanted, session_epoch=session_epoch)
        body.isolation_level = int(is_committed)
        return self.ask(broker, body, FETCH_VERSION)

    def fetched(self, offset: int, **how: Any) -> FetchPartitionData:
        """What such a fetch is answered for the partition."""
        pending = self.fetch(offset, **how)
        self.until(lambda: pending.is_over)
        self._session = pending.answer.session_id
        found: FetchPartitionData = pending.answer.responses[0].partitions[0]
        return found

    def news(self) -> Any:
        """What the session that was begun last tells next."""
        body = FetchRequest(max_wait_ms=0, min_bytes=0, topics=(), session_id=self._session, session_epoch=1)
        return self.answer(self.leader, body, FETCH_VERSION).responses

    def author(self, broker: int) -> Author:
        """Another idempotent producer."""
        answer = self.answer(broker, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
        assert not answer.error_code
        return Author(answer.producer_id, answer.producer_epoch)

    def send(
        self,
        *values: str,
        acks: int = -1,
        at: int | None = None,
        timeout_ms: int = 20_000,
        by: Author | None = None,
        sequence: int | None = None,
        key: bytes | None = None,
        size_bytes: int = 0,
        transactional_id: str | None = None,
    ) -> Pending:
        """Send a batch to the leader, or to another broker. With `sequence` it is sent once more. All its records have
        this key, and values that are made longer by `size_bytes`."""
        broker = self.leader if at is None else at
        topic_id = self.replica(broker).topic_id
        data = []
        for value in values:
            name = f"{value} ".encode() + bytes(size_bytes)
            data.append(name)
            if name not in self.judge.sent:
                self.numbers["x"] += 1
                of = Sent(self.plan.name, 0, "x", self.numbers["x"], is_idempotent=by is not None)
                self.judge.sends(name, of)
        numbers: dict[str, int] = {}
        if by is not None:
            first = by.sequence if sequence is None else sequence
            numbers = {"producer_id": by.producer_id, "producer_epoch": by.epoch, "base_sequence": first}
            by.sequence = max(by.sequence, first + len(values))
        records = [Record(at, self.client.wall_ms, key, value) for at, value in enumerate(data)]
        batch = encode_batch(records, is_transactional=transactional_id is not None, **numbers)
        body = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=(
                TopicProduceData(name=self.plan.name, partition_data=(PartitionProduceData(index=0, records=batch),)),
            ),
        )
        pending = Pending()

        def taken(answer: Any) -> None:
            pending.take(answer)
            if answer is None:
                return
            key = (bytes(topic_id), 0)
            if pending.error is ErrorCode.NONE:
                self.judge.acknowledged(key, pending.produced.base_offset, data, is_promise=acks == -1)
            elif by is not None and pending.error in GAPS:
                self.judge.gap(key, data[0], pending.error.name)

        self.client.ask(broker, body, PRODUCE_VERSION, taken, 2 * timeout_ms * MS)
        return pending

    def write(self, *values: str, **how: Any) -> int:
        """Send a batch, and wait until it is acknowledged. Its first offset."""
        pending = self.send(*values, **how)
        self.until(lambda: pending.is_over)
        assert pending.error is ErrorCode.NONE, pending.error
        return int(pending.produced.base_offset)

    def read(self) -> Mapping[int, bytes]:
        """What a consumer is given, from the beginning to the high watermark."""
        self._readers += 1
        reader = Consumer(
            self.cluster, -self._readers, Random(0), None, topics=[self.plan.name], gap_us=5 * MS, once=True
        )
        reader.start()
        self.until(lambda: bool(reader.readings) and all(each.is_at_end for each in reader.readings.values()))
        reader.is_stopped = True
        [(key, reading)] = reader.readings.items()
        self._last = (key, reading.found, reading.position)
        return reading.found

    # ------------------------------------------------------------------------------------------------------------- end

    def heal(self) -> None:
        """Everybody hears of everybody, and nothing waits."""
        for hold in list(self.holds):
            self.release(hold)
        self.cluster.network.heal()

    def finish(self) -> Mapping[int, bytes]:
        """Heal and start everything; wait for full in-sync sets. The records that are there, by their offsets."""
        self.heal()
        for sid in self.cluster.machines:
            self.start(sid)
        self.until(self._is_whole)
        self.compare()
        found = dict(self.read())
        self.judge.whole(*self._last)
        self.until(self._is_whole)
        self.observer.compare(self.cluster.processes, whole=True)
        return found

    def _is_whole(self) -> bool:
        if not self._all_see(set(self.cluster.machines)):
            return False
        replicas = [_of(each, self.plan.name) for each in self.cluster.processes]
        found = [each for each in replicas if each is not None]
        states = [each.state for each in found if each.state is not None]
        ends = {each.log.log_end for each in found if each.log.log_end == each.log.written_end}
        return (
            any(each.leader is not None for each in found)
            and len(states) == len(found) == len(states[0].replicas)
            and all(set(each.isr) == set(each.replicas) for each in states)
            and len({each.leader_epoch for each in states}) == 1
            and len(ends) == 1
        )

    def _all_see(self, brokers: set[int]) -> bool:
        processes = self.cluster.processes
        return len(processes) == len(self.cluster.machines) and all(
            set(each.broker.image.brokers) == brokers for each in processes
        )


def _of(process: BrokerProcess, name: str) -> Replica | None:
    return process.broker.replicas.get(name, 0)


def _profile(plan: TopicPlan, brokers: int, lines: str, seed: int) -> Profile:
    return Profile(
        seed=seed,
        brokers=brokers,
        topics=(plan,),
        producers=0,
        consumers=0,
        fault_ticks=0,
        faults={"kill": 1},
        gap_us=MS,
        write_gap_us=MS,
        read_gap_us=MS,
        delete_gap_us=MS,
        latency_us=200,
        jitter_us=0,
        disk_us=500,
        turn_us=50,
        operation_us=200,
        drift_ppm=0,
        session_timeout_ms=3000,
        lines=lines,
    )


__all__ = ["Author", "Hold", "Pending", "Story", "alters_a_partition", "topic"]
