"""Markers: how a transaction ends in the partitions that this broker leads.

A marker is a control batch, appended by the leader and committed as a write with acks -1 is. In `__consumer_offsets`
the group coordinator learns of it when it is committed, before the coordinator of the transaction does.

A partition that another broker leads is for `elsewhere`, which is given the same, and calls `done` as well. While there
is no link to it the answer is BROKER_NOT_AVAILABLE, and the coordinator tries again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs

from zab.kafka.errors import ErrorCode
from zab.partition.group_log import GroupLog
from zab.partition.image.cluster_image import CONSUMER_OFFSETS, ClusterImage
from zab.partition.log.errors import LogError
from zab.partition.records.batch import BatchError
from zab.partition.records.control import ControlType, EndMarker, encode_marker
from zab.partition.replica.replica import Replica, ReplicaError
from zab.partition.requests.replicas import Replicas
from zab.partition.transactions.marker import Marker, MarkerDone

Elsewhere: TypeAlias = Callable[[int, Marker, MarkerDone], None]
"""Have this broker, which leads the partition, write the marker."""


def nobody(_broker_id: int, _marker: Marker, done: MarkerDone) -> None:
    """There is no way to other brokers."""
    done(ErrorCode.BROKER_NOT_AVAILABLE)


@attrs.define(eq=False)
class _Written:
    replica: Replica
    epoch: int
    last_offset: int
    done: MarkerDone

    def error(self) -> ErrorCode | None:
        """NONE: it is committed. None: not yet."""
        leader = self.replica.leader
        if self.replica.log.failure is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if leader is None or leader.epoch != self.epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE if self.replica.log.high_watermark > self.last_offset else None


class MarkerWriter:
    """See the docstring of the module. Only the broker calls it."""

    def __init__(
        self,
        replicas: Replicas,
        image: Callable[[], ClusterImage],
        group_log: GroupLog,
        touched: Callable[[Replica], None],
        wall_ms: Callable[[], int],
    ) -> None:
        self.elsewhere: Elsewhere = nobody
        self._replicas = replicas
        self._image = image
        self._group_log = group_log
        self._touched = touched
        self._wall_ms = wall_ms
        self._waiting: list[_Written] = []

    def write(self, marker: Marker, done: MarkerDone) -> None:
        """Write it where the partition is led; `done` gets NONE once it is committed, or the leader's error. A
        partition that does not exist has nothing to end: UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self._image().topics.get(marker.topic)
        state = None if topic is None else topic.partitions.get(marker.index)
        replica = self._replicas.get(marker.topic, marker.index)
        if state is None:
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif (replica is None or replica.leader is None) and state.leader in self._image().brokers:
            self.elsewhere(state.leader, marker, done)
        else:
            self.write_here(marker, done)

    def write_here(self, marker: Marker, done: MarkerDone) -> None:
        """Write it as the leader of the partition."""
        try:
            replica = self._replicas.asked(marker.topic, marker.index)
            leader = replica.leading()
            end = EndMarker(ControlType.COMMIT if marker.commits else ControlType.ABORT, marker.coordinator_epoch)
            batch = encode_marker(
                end,
                offset=0,
                leader_epoch=leader.epoch,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                timestamp_ms=self._wall_ms(),
            )
            appended = replica.append_own(batch, self._wall_ms())
        except (ReplicaError, BatchError, LogError) as error:
            done(error.error)
            return
        self._touched(replica)
        if marker.topic == CONSUMER_OFFSETS:
            self._group_log.marker_appended(marker.index, appended.last_offset, marker.producer_id, marker.commits)
        self._waiting.append(_Written(replica, leader.epoch, appended.last_offset, done))

    def settle(self) -> None:
        """Tell what is decided."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            error = each.error()
            if error is None:
                self._waiting.append(each)
            else:
                each.done(error)
