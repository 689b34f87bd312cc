"""What a stream asks brokers: which topics there are, which offsets, and for records. The client is kafka-python.

It finds the leaders, follows them when they change, and decompresses. It comes with the extra `pipeline`, which the
workers of a cluster need anyway.

Invariants: nothing is committed for a group, and no topic is created by asking for it. An error of the client becomes a
PipelineError, whose sentence names the brokers.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from attrs import define, frozen

from zab.pipeline.errors import PipelineError

__all__ = ["Brokers", "Fetched", "KafkaBrokers", "OutOfRangeError", "Place", "Topic"]

ANSWER_MS: Final = 30_000
"""How long brokers are waited for."""
_POLL_MS: Final = 500
_POLL_RECORDS_MAX: Final = 16_384

Place = tuple[str, int]
"""Topic and partition."""


class OutOfRangeError(Exception):
    """The offset is not there: it was deleted, or is not written yet."""


@frozen
class Topic:
    """A topic, its id (empty: the brokers do not say), and its partitions."""

    name: str
    id: str
    partitions: tuple[int, ...]


@frozen
class Fetched:
    """Records of one partition, and the offset after the last one, also of those that are not shown.

    Each record is (offset, timestamp in ms, timestamp type, key, value, headers)."""

    records: Sequence[tuple[int, int, int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]]
    position: int


class Brokers(Protocol):
    """What a stream asks."""

    def topics(self) -> dict[str, Topic]:
        """All topics."""

    def bounds(self, places: Sequence[Place]) -> dict[Place, tuple[int, int]]:
        """The first offset of each partition, and the one after the last that may be read."""

    def offsets_at(self, times_ms: Mapping[Place, int]) -> dict[Place, int | None]:
        """The first offset in each partition whose record is not older; None: there is none."""

    def fetch(self, place: Place, start: int, until: int) -> Iterator[Fetched]:
        """The records with offsets in [start, until). Raises OutOfRangeError."""

    def close(self) -> None:
        """Close all connections."""


@define
class KafkaBrokers:
    """Brokers at `servers`; connections are made when they are first needed."""

    servers: str
    is_committed: bool = False
    _consumer: Any = None
    _admin: Any = None

    def topics(self) -> dict[str, Topic]:
        with self._plainly():
            listed = self._admin_client().describe_topics()
        return {
            one["name"]: Topic(
                one["name"],
                str(one["topic_id"] or ""),
                tuple(sorted(part["partition_index"] for part in one["partitions"])),
            )
            for one in listed
            if not one["error_code"]
        }

    def bounds(self, places: Sequence[Place]) -> dict[Place, tuple[int, int]]:
        with self._plainly():
            consumer = self._client()
            named = _named(places)
            if not named:
                return {}
            begins = consumer.beginning_offsets(list(named), timeout_ms=ANSWER_MS)
            ends = consumer.end_offsets(list(named), timeout_ms=ANSWER_MS)
        return {place: (begins[one], ends[one]) for one, place in named.items()}

    def offsets_at(self, times_ms: Mapping[Place, int]) -> dict[Place, int | None]:
        with self._plainly():
            named = _named(times_ms)
            asked = {one: times_ms[place] for one, place in named.items()}
            found = self._client().offsets_for_times(asked, timeout_ms=ANSWER_MS) if named else {}
        return {place: None if found[one] is None else found[one].offset for one, place in named.items()}

    def fetch(self, place: Place, start: int, until: int) -> Iterator[Fetched]:
        from kafka.errors import OffsetOutOfRangeError

        with self._plainly():
            consumer = self._client()
            ((one, _),) = _named([place]).items()
            consumer.assign([one])
            consumer.seek(one, start)
        position, waited_ms = start, 0
        while position < until:
            with self._plainly():
                try:
                    found = consumer.poll(_POLL_MS, max_records=_POLL_RECORDS_MAX).get(one, [])
                except OffsetOutOfRangeError:
                    raise OutOfRangeError(f"offset {position} of {place[0]}, partition {place[1]}") from None
                reached = consumer.position(one, timeout_ms=ANSWER_MS)
            if reached == position:
                waited_ms += _POLL_MS
                if waited_ms >= ANSWER_MS:
                    raise PipelineError(
                        f"{self.servers}: offset {position} of {place[0]}, partition {place[1]}, did not come within "
                        f"{ANSWER_MS // 1000} s"
                    )
                continue
            position, waited_ms = reached, 0
            yield Fetched(
                [
                    (one.offset, one.timestamp, one.timestamp_type, one.key, one.value, one.headers)
                    for one in found
                    if one.offset < until
                ],
                position,
            )

    def close(self) -> None:
        for one in (self._consumer, self._admin):
            if one is not None:
                one.close()
        self._consumer = self._admin = None

    def _client(self) -> Any:
        if self._consumer is None:
            from kafka import KafkaConsumer

            self._consumer = KafkaConsumer(
                bootstrap_servers=self.servers.split(","),
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="none",
                allow_auto_create_topics=False,
                isolation_level="read_committed" if self.is_committed else "read_uncommitted",
            )
        return self._consumer

    def _admin_client(self) -> Any:
        if self._admin is None:
            from kafka import KafkaAdminClient

            self._admin = KafkaAdminClient(bootstrap_servers=self.servers.split(","))
        return self._admin

    @contextlib.contextmanager
    def _plainly(self) -> Iterator[None]:
        """Raise PipelineError for what the client raises."""
        try:
            import kafka.errors
        except ImportError:
            raise PipelineError("a stream of topics needs kafka-python: pip install 'zab[pipeline]'") from None
        try:
            yield
        except kafka.errors.KafkaError as error:
            raise PipelineError(f"{self.servers}: {error}") from None


def _named(places: Iterable[Place]) -> dict[Any, Place]:
    """kafka-python's name of each partition."""
    from kafka import TopicPartition

    return {TopicPartition(*place): place for place in places}
