"""The replicas of this broker, and what a request may ask of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import ZERO_UUID, Uuid
from zab.partition.image.cluster_image import ClusterImage
from zab.partition.replica.replica import Replica, ReplicaError


class Replicas:
    """By topic and index. Only the broker adds and removes them."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image
        self._replicas: dict[tuple[str, int], Replica] = {}

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._replicas.values())

    def __len__(self) -> int:
        return len(self._replicas)

    def get(self, topic: str, index: int) -> Replica | None:
        """The replica, if this broker has it."""
        return self._replicas.get((topic, index))

    def add(self, replica: Replica) -> None:
        """A replica that this broker has from now on."""
        assert replica.key not in self._replicas
        self._replicas[replica.key] = replica

    def remove(self, topic: str, index: int) -> Replica:
        """This broker has it no longer."""
        return self._replicas.pop((topic, index))

    def asked(self, topic: str, index: int, topic_id: Uuid = ZERO_UUID) -> Replica:
        """The replica that a client asks for. Raises ReplicaError, with the code that says why this broker has not got
        it: there is no such partition, it is another broker's, or another topic of its name is meant."""
        replica = self._replicas.get((topic, index))
        if replica is None:
            found = self._image().topics.get(topic)
            if found is None or index not in found.partitions:
                raise ReplicaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {index} of {topic!r}")
            raise ReplicaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker has no replica of it")
        if topic_id not in (ZERO_UUID, replica.topic_id):
            raise ReplicaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{topic} has another id here")
        return replica
