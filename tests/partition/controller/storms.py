"""Random runs: requests and faults of every kind, one seed each; then calm."""

from __future__ import annotations

from tests.partition.controller.cluster import Cluster, Process
from tests.partition.controller.judges import Judges, judge_calm
from zab.coordination.operations import Create, Delete, Set
from zab.partition.controller.requests import (
    AllocateProducerIds,
    AlterConfig,
    AlterPartitionReassignments,
    ControlledShutdown,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    ListPartitionReassignments,
    NewPartitions,
    NewTopic,
    Request,
)
from zab.partition.controller.znodes import (
    CONTROLLER,
    DELETE_TOPICS,
    PREFERRED_ELECTION,
    REASSIGNMENT,
    Assignment,
    TopicPartition,
    TopicZnode,
    delete_path,
    encode_partitions,
    encode_reassignment,
    topic_path,
)

TOPICS = ("a", "b", "c", "d")


class Storm:
    """steps: how many random moves. brokers: how many there are."""

    def __init__(self, seed: int, brokers: int = 3, steps: int = 600) -> None:
        self.cluster = Cluster(seed, brokers)
        self.judges = Judges(self.cluster).watch()
        self.random = self.cluster.random
        self.steps = steps
        # Each run has its own share of faults, so that some get far between two of them.
        self.fault_rate = self.random.choice((0.0, 0.005, 0.01, 0.03, 0.08))
        self.request_rate = self.random.choice((0.02, 0.05, 0.1))
        self.operator = self.cluster.tree.begin_session()

    def run(self) -> Cluster:
        cluster = self.cluster
        for broker_id in cluster.processes:
            cluster.boot(broker_id)
        if self.random.random() < 0.7:
            cluster.settle()
        for _ in range(self.steps):
            self._move()
            if self.random.random() < self.fault_rate:
                self._fault()
            if self.random.random() < self.request_rate:
                self._request()
        cluster.settle()
        judge_calm(cluster)
        return cluster

    def _process(self) -> Process:
        return self.random.choice(list(self.cluster.processes.values()))

    def _move(self) -> None:
        cluster, process = self.cluster, self._process()
        draw = self.random.random()
        if draw < 0.3:
            for _ in range(self.random.randint(1, 12)):
                cluster.apply_one(process.broker_id)
        elif draw < 0.5:
            cluster.take(process.broker_id, self.random.randint(1, 6))
        elif draw < 0.7:
            for _ in range(self.random.randint(1, 8)):
                while cluster.apply_one(process.broker_id):
                    pass
                cluster.take(process.broker_id, 6)
        elif draw < 0.9 and cluster.messages:
            key = self.random.choice(list(cluster.messages))
            for _ in range(self.random.randint(1, 6)):
                cluster.deliver(*key)
        elif draw < 0.97 and process.is_up:
            cluster.propose(process.broker_id, expand=self.random.random() < 0.5)
        else:
            cluster.now_ms += self.random.randint(1, 400)

    # ----------------------------------------------------------------------------------------------------------- faults

    def _fault(self) -> None:
        cluster, process = self.cluster, self._process()
        faults = [self._reconnect, self._crash, self._expire, self._bounce, self._shut_down, self._depose]
        fault = self.random.choice([self._lose, self._lose, *faults, self._reconnect])
        fault(process)
        cluster._deliver_watches()

    def _lose(self, process: Process) -> None:
        if process.is_up:
            self.cluster.lose_connection(process.broker_id)

    def _reconnect(self, process: Process) -> None:
        if not process.is_up:
            self.cluster.boot(process.broker_id)
        elif not process.is_connected:
            self.cluster.connect(process.broker_id)

    def _crash(self, process: Process) -> None:
        if process.is_up and sum(each.is_up for each in self.cluster.processes.values()) > 1:
            self.cluster.crash(process.broker_id)

    def _expire(self, process: Process) -> None:
        """The session of a live broker that does not know it, or one that a dead broker left."""
        sessions = sorted(self.cluster.tree.sessions - {self.operator})
        if sessions:
            self.cluster.expire(self.random.choice(sessions))

    def _bounce(self, process: Process) -> None:
        """Down and up again, before anybody looks."""
        if process.is_up:
            session = process.session
            self.cluster.crash(process.broker_id, clean=self.random.random() < 0.5)
            self.cluster.expire(session)
            self.cluster.boot(process.broker_id)

    def _shut_down(self, process: Process) -> None:
        if process.is_up and process.epoch >= 0:
            process.is_stopping = True
            request = ControlledShutdown(self.cluster.token(), process.broker_id, process.epoch)
            self.cluster.ask(process.image.controller_id if process.image.controller_id >= 0 else 0, request)

    def _depose(self, process: Process) -> None:
        """An operator deletes /controller: two brokers with living sessions each think that they are the controller."""
        self._by_operator(Delete(CONTROLLER))

    def _by_operator(self, operation: Create | Delete | Set) -> None:
        self.judges.by_operator = True
        self.cluster.tree.apply(self.operator, operation)
        self.judges.by_operator = False
        self.cluster._deliver_watches()

    # --------------------------------------------------------------------------------------------------------- requests

    def _request(self) -> None:
        cluster = self.cluster
        draw = self.random.random()
        if draw < 0.15:
            self._legacy_request()
            return
        if cluster.controllers:
            cluster.ask(self.random.choice(cluster.controllers), self._drawn())

    def _drawn(self) -> Request:
        token, topic, random = self.cluster.token(), self.random.choice(TOPICS), self.random
        partition = TopicPartition(topic, random.randint(0, 1))
        replicas = tuple(random.sample(list(self.cluster.processes), random.randint(1, len(self.cluster.processes))))
        process = self._process()
        config = {
            "min.insync.replicas": random.choice("112"),
            "unclean.leader.election.enable": random.choice(("true", "false")),
        }
        new = NewTopic(topic, random.randint(1, 2), len(replicas), config=config)
        asked: list[Request] = [
            *[CreateTopics(token, (new,), 2000)] * 5,
            DeleteTopics(token, (topic,), 2000),
            *[AlterPartitionReassignments(token, {partition: replicas}, 2000)] * 4,
            AlterPartitionReassignments(token, {partition: None}, 2000),
            ListPartitionReassignments(token),
            ElectLeaders(token, None),
            ElectLeaders(token, (partition,)),
            AllocateProducerIds(token, process.broker_id, process.epoch),
            CreatePartitions(token, (NewPartitions(topic, 2),), 2000),
            AlterConfig(token, "topics", topic, {"retention.ms": "5000"}),
        ]
        return random.choice(asked)

    def _legacy_request(self) -> None:
        topic, random = self.random.choice(TOPICS), self.random
        replicas = tuple(random.sample(list(self.cluster.processes), 2))
        partition = TopicPartition(topic, 0)
        if random.random() < 0.3:
            znode = TopicZnode(None, {0: Assignment(replicas)})
            self._by_operator(Create(topic_path(topic), znode.encode()))
        elif random.random() < 0.4:
            self._by_operator(Create(REASSIGNMENT, encode_reassignment({partition: replicas})))
        elif random.random() < 0.5:
            self._by_operator(Create(PREFERRED_ELECTION, encode_partitions([partition])))
        elif self.cluster.tree.data(DELETE_TOPICS) is not None:
            self._by_operator(Create(delete_path(topic)))


def run(seed: int, brokers: int = 3, steps: int = 600) -> Cluster:
    return Storm(seed, brokers, steps).run()
