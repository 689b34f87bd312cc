"""What the controller writes about partitions, looked at when it is written.

    ValidControllerIsrAndElr             ISR and ELR have nobody in common; with min.insync.replicas in the ISR there is
                                         no ELR; the leader is in the ISR; epochs do not fall
    LeaderCandidateCompletenessProperty  a running member of ISR or ELR has everything below the true high watermark
    ReplicationQuorumSupersetProperty    the leader of the epoch that is written counts every member of ISR and ELR for
                                         its high watermark, while enough are in sync

Not here: what brokers make of it (`observer`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from zab.coordination.operations import Set
from zab.kafka.primitives import Uuid
from zab.partition.controller.znodes import (
    NO_LEADER,
    PartitionState,
    TopicPartition,
    TopicZnode,
    topic_path,
    uuid_bytes,
)
from zab.partition.replica.replica import Replica
from zab.simulator.brokers.judge import Key
from zab.simulator.coordination.znode_tree import Write, ZnodeTree
from zab.simulator.world.verdict import SafetyError

_STATE: Final = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")


class Known(Protocol):
    """What is true inside of the brokers (`Observer`)."""

    def true_mark(self, key: Key) -> int: ...

    def is_lossy(self, broker: int, key: Key) -> bool: ...

    def replica(self, broker: int, key: Key) -> Replica | None:
        """A replica on a broker that runs."""


class ControllerStates:
    """See the docstring of the module. `min_in_sync`: the highest that a topic ever had, by its name."""

    def __init__(self, tree: ZnodeTree, known: Known, min_in_sync: Mapping[str, int]) -> None:
        self._tree = tree
        self._known = known
        self._min_in_sync = min_in_sync

    def before_write(self, _session: int, parts: Iterable[Write]) -> None:
        """Look at a multi that is about to be applied."""
        for part in parts:
            match = _STATE.fullmatch(part.path)
            if match is not None and isinstance(part, Set) and match[1] in self._min_in_sync:
                self._look(TopicPartition(match[1], int(match[2])), part)

    def _look(self, where: TopicPartition, part: Set) -> None:
        znode = self._tree.znodes[part.path]
        before = PartitionState.decode(where, znode.data, znode.stat.version)
        after = PartitionState.decode(where, part.data, znode.stat.version + 1)
        self._check_valid(where, before, after)
        topic_id = TopicZnode.decode(where.topic, self._tree.data(topic_path(where.topic)) or b"").topic_id
        if topic_id is None:
            return
        key = (bytes(Uuid(uuid_bytes(topic_id))), where.partition)
        mark = self._known.true_mark(key)
        for broker in (*after.isr, *after.elr):
            replica = self._known.replica(broker, key)
            if replica is None or replica.log.failure is not None or self._known.is_lossy(broker, key):
                continue
            if replica.log.log_end < mark:
                text = f"broker {broker} ends at {replica.log.log_end} of {where}, {mark} are committed: {after}"
                raise SafetyError("LeaderCandidateCompletenessProperty", text)
        self._check_superset(where, key, after)

    def _check_valid(self, where: TopicPartition, before: PartitionState, after: PartitionState) -> None:
        is_valid = not set(after.isr) & set(after.elr) and after.leader_epoch >= before.leader_epoch
        if len(after.isr) >= self._min_in_sync[where.topic]:
            is_valid = is_valid and not after.elr
        if after.leader != NO_LEADER:
            is_valid = is_valid and after.leader in after.isr
        if after.leader not in (before.leader, NO_LEADER):
            is_valid = is_valid and after.leader_epoch > before.leader_epoch
        if not is_valid:
            raise SafetyError("ValidControllerIsrAndElr", f"{where}: {after} after {before}")

    def _check_superset(self, where: TopicPartition, key: Key, after: PartitionState) -> None:
        replica = self._known.replica(after.leader, key)
        leader = None if replica is None else replica.leader
        if replica is None or leader is None or leader.epoch != after.leader_epoch:
            return
        if (
            len(leader.in_sync.committed) >= replica.min_in_sync
            and not {*after.isr, *after.elr} <= leader.in_sync.maximal
        ):
            text = f"{where}: the leader counts {sorted(leader.in_sync.maximal)}, and {after} is written"
            raise SafetyError("ReplicationQuorumSupersetProperty", text)
