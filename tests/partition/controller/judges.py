"""What must hold for every write to the znodes of a cluster, and when everything is calm.

Names of safety properties are those of the TLA+ model of KIP-966 as far as it has them.
"""

from __future__ import annotations

from attrs import define, field

from tests.partition.controller.cluster import Cluster
from zab.coordination.operations import Check, Create, Set
from zab.partition.access import acl_znodes
from zab.partition.controller.state import PartitionPhase, ReplicaPhase
from zab.partition.controller.znodes import (
    BROKERS,
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    DELETE_TOPICS,
    PARENTS,
    PRODUCER_IDS,
    REASSIGNMENT,
    SEQUENCE,
    TOPICS,
    Broker,
    PartitionState,
    ProducerIdBlock,
    TopicPartition,
    TopicZnode,
    config_path,
    decode_config,
    topic_path,
)
from zab.simulator.coordination.znode_tree import Write

MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"


class JudgementError(AssertionError):
    """A write that must not be."""


@define
class Judges:
    """writers: by broker epoch which session was elected last for each controller epoch."""

    cluster: Cluster
    elected: dict[int, int] = field(factory=dict)
    """The session that won a controller epoch."""
    unclean: dict[int, int] = field(factory=dict)
    """The number of the write that registered a broker after an unclean stop, by broker; the last one."""
    joined: dict[tuple[TopicPartition, int], int] = field(factory=dict)
    """The number of the write that let a replica into the ISR."""
    blocks: set[int] = field(factory=set)
    writes: int = 0
    by_operator: bool = False

    def watch(self) -> Judges:
        self.cluster.tree.before_write = self.on_write
        return self

    def on_write(self, session: int, parts: tuple[Write, ...]) -> None:
        if self.by_operator:
            return
        self.writes += 1
        if self._is_election(session, parts) or self._is_registration(parts):
            return
        self._one_controller_writes(session, parts)
        for part in parts[1:]:
            if isinstance(part, Create | Set) and part.path.endswith("/state") and part.path.startswith(TOPICS):
                self._state(part)
            elif isinstance(part, Set) and part.path == PRODUCER_IDS:
                self._producer_ids(part)
            elif isinstance(part, Create | Set) and part.path.rpartition("/")[0] == TOPICS:
                TopicZnode.decode(part.path.rpartition("/")[2], part.data)

    def _is_election(self, session: int, parts: tuple[Write, ...]) -> bool:
        if len(parts) == 2 and isinstance(parts[0], Create) and parts[0].path == CONTROLLER:
            epoch = parts[1]
            assert isinstance(epoch, Set)
            number = int(epoch.data)
            if number in self.elected or epoch.version < 0:
                raise JudgementError(f"controller epoch {number} is given twice, or not by compare-and-set")
            self.elected[number] = session
            return True
        return False

    def _is_registration(self, parts: tuple[Write, ...]) -> bool:
        if len(parts) > 1:
            return False
        part = parts[0]
        if isinstance(part, Create) and part.path.startswith(BROKERS + "/"):
            broker = Broker.decode(int(part.path.rpartition("/")[2]), part.data, 0)
            if not part.ephemeral:
                raise JudgementError(f"{part.path} is not ephemeral")
            known = self.cluster.tree.data(f"/brokers/epochs/{broker.id}")
            if broker.previous_epoch == -1 or known is None or f":{broker.previous_epoch}}}".encode() not in known:
                self.unclean[broker.id] = self.writes
            return True
        allowed = {*PARENTS, *acl_znodes.PARENTS, CLUSTER_ID, CONTROLLER_EPOCH}
        return (isinstance(part, Create) and part.path in allowed) or (isinstance(part, Set) and part.path == SEQUENCE)

    def _one_controller_writes(self, session: int, parts: tuple[Write, ...]) -> None:
        """At most one controller epoch writes at a time: each write checks that its epoch is the last one."""
        check = parts[0]
        if not isinstance(check, Check) or check.path != CONTROLLER_EPOCH:
            raise JudgementError(f"{parts} does not check the controller epoch")
        epoch = int(self.cluster.tree.data(CONTROLLER_EPOCH) or b"0")
        if self.elected.get(epoch) != session:
            raise JudgementError(f"session {session} writes {parts[1:]} in epoch {epoch} of {self.elected.get(epoch)}")

    def _setting(self, topic: str, name: str, default: str) -> str:
        path = config_path("topics", topic)
        data = self.cluster.tree.data(path)
        return decode_config(path, data).get(name, default) if data else default

    def _state(self, part: Create | Set) -> None:
        names = part.path.split("/")
        partition = TopicPartition(names[3], int(names[5]))
        new = PartitionState.decode(partition, part.data, 0)
        topic = TopicZnode.decode(partition.topic, self.cluster.tree.data(topic_path(partition.topic)) or b"")
        replicas = topic.partitions[partition.partition].replicas
        min_isr = min(int(self._setting(partition.topic, MIN_ISR, "1")), len(replicas))
        self.valid_controller_state(partition, new, replicas)
        target = topic.partitions[partition.partition].target
        # A reassignment ends with a state for the target alone.
        self.valid_controller_isr_and_elr(
            partition, new, min(min_isr, len(target)) if new.quorum <= set(target) else min_isr
        )
        if isinstance(part, Set):
            if part.version < 0:
                raise JudgementError(f"{partition}: written without its version")
            old = PartitionState.decode(partition, self.cluster.tree.data(part.path) or b"", 0)
            self.epochs_rise(partition, old, new)
            self.leader_candidate_completeness(partition, old, new)
            self.min_isr_recovery_quorum(partition, old, new, set(replicas), min_isr)
            joined = [each for each in new.isr if each not in old.isr and self._is_admitted(each)]
            self.joined.update(((partition, each), self.writes) for each in joined)

    def _is_admitted(self, broker_id: int) -> bool:
        """Whether the controller has seen the present life of a broker; else it lets the former one in."""
        znode = self.cluster.tree.znodes.get(f"{BROKERS}/{broker_id}")
        known = self.cluster.tree.data(f"/brokers/epochs/{broker_id}") or b""
        return znode is not None and f":{znode.stat.czxid}}}".encode() in known

    # ----------------------------------------------------------------------------------------------------------- safety

    def valid_controller_state(self, partition: TopicPartition, new: PartitionState, replicas: tuple[int, ...]) -> None:
        if not new.quorum | set(new.last_known_elr) <= set(replicas):
            raise JudgementError(f"{partition}: {new} has members that are no replicas {replicas}")
        if new.leader != -1 and new.leader not in new.isr:
            raise JudgementError(f"{partition}: the leader of {new} is not in sync")
        if not new.quorum:
            raise JudgementError(f"{partition}: {new} has nobody that is complete")

    def valid_controller_isr_and_elr(self, partition: TopicPartition, new: PartitionState, min_isr: int) -> None:
        if set(new.isr) & set(new.elr) or (len(new.isr) >= min_isr and new.elr):
            raise JudgementError(f"{partition}: {new} with min ISR {min_isr}")

    def epochs_rise(self, partition: TopicPartition, old: PartitionState, new: PartitionState) -> None:
        if new.controller_epoch < old.controller_epoch or new.leader_epoch < old.leader_epoch:
            raise JudgementError(f"{partition}: {new} after {old}")
        if new.leader not in (old.leader, -1) and new.leader_epoch == old.leader_epoch:
            raise JudgementError(f"{partition}: another leader in the same epoch, {new} after {old}")

    def leader_candidate_completeness(
        self, partition: TopicPartition, old: PartitionState, new: PartitionState
    ) -> None:
        """Only who was in the ISR or ELR becomes leader, unless an unclean election is allowed."""
        allowed = self._setting(partition.topic, UNCLEAN, "false") == "true"
        if new.leader not in (-1, old.leader) and new.leader not in old.quorum and not allowed:
            raise JudgementError(f"{partition}: an incomplete leader, {new} after {old}")

    def min_isr_recovery_quorum(
        self, partition: TopicPartition, old: PartitionState, new: PartitionState, replicas: set[int], min_isr: int
    ) -> None:
        """While fewer than min ISR are in sync, nobody that is complete is forgotten, except by an unclean stop or by a
        change of replicas."""
        if len(new.isr) >= min_isr or new.recovering:
            return
        topic = TopicZnode.decode(partition.topic, self.cluster.tree.data(topic_path(partition.topic)) or b"")
        assignment = topic.partitions[partition.partition]
        leaving = set(assignment.adding) | set(assignment.removing)
        unclean = {each for each, at in self.unclean.items() if at > self.joined.get((partition, each), -1)}
        forgotten = (old.quorum - new.quorum) & replicas - unclean - leaving
        if forgotten:
            raise JudgementError(f"{partition}: {forgotten} forgotten, {new} after {old}")

    def _producer_ids(self, part: Set) -> None:
        block = ProducerIdBlock.decode(part.data)
        if block.first in self.blocks:
            raise JudgementError(f"producer ids from {block.first} are given out twice")
        self.blocks.add(block.first)


# ------------------------------------------------------------------------------------------------------------- liveness


def judge_calm(cluster: Cluster) -> None:
    """All brokers are up, and nothing waits for anything."""
    controller = cluster.active()
    state, tree = controller.state, cluster.tree
    assert all(process.is_up for process in cluster.processes.values())
    assert controller.is_idle
    assert set(state.brokers) == set(cluster.processes)
    for topic in tree.children(TOPICS):
        znode = TopicZnode.decode(topic, tree.data(topic_path(topic)) or b"")
        for number, assignment in znode.partitions.items():
            partition = TopicPartition(topic, number)
            found = tree.znodes.get(f"{topic_path(topic)}/partitions/{number}/state")
            assert found is not None, f"EventuallyRuns: {partition} has no state"
            current = PartitionState.decode(partition, found.data, found.stat.version)
            assert current.leader in cluster.processes, f"EventuallyRuns: {partition} has no leader: {current}"
            assert not assignment.is_reassigned, f"EventuallyReassignmentCompletes: {partition} {assignment}"
            assert set(current.isr) == set(assignment.replicas), f"{partition}: {current} of {assignment}"
            assert not current.elr
            assert not current.recovering
            assert state.partitions[partition] == current, "the controller believes what is not written"
            assert state.phase(partition) is PartitionPhase.ONLINE
            for process in cluster.processes.values():
                update = process.image.partitions.get((znode.topic_id or "", number))
                assert update is not None, f"EventuallyMetadataConverges: {process.broker_id} lacks {partition}"
                assert (update.state, update.assignment) == (current, assignment), "EventuallyMetadataConverges"
    assert set(state.topics) == set(tree.children(TOPICS))
    assert tree.children(DELETE_TOPICS) == [], "topics are deleted"
    assert tree.data(REASSIGNMENT) is None
    assert set(state.replica_phases.values()) <= {ReplicaPhase.ONLINE}, state.replica_phases
    for process in cluster.processes.values():
        assert set(process.image.topics.values()) == set(state.topics)
        assert set(process.image.live) == set(cluster.processes)
        bugs = [each for each in process.reports if "cannot become" in each or "refuses" in each]
        assert not bugs, bugs
