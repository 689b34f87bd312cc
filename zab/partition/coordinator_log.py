"""A coordinator and its log, an internal topic: appends, loads, and what became of them.

A partition of the topic is loaded when this broker begins to lead it in a new epoch: jobs beside the turns read it, a
part at a time, to the end that the log has then. Until that is done, and all of it is committed, what lives in the
partition is not available. When another broker leads it, it is forgotten here.

What the coordinator appends is committed when the high watermark has passed it; only then is it told so. Appends that
take longer than the topic's timeout are told as timed out, and later what became of them all the same.

Not here: what the records mean (`group_log`, `transaction_log`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs

from datatree.log.disk import Disk
from zab.kafka.coordinator_records import encode_key, encode_value
from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import ProtocolError
from zab.partition.controller.requests import CreateTopics, NewTopic
from zab.partition.coordinator.coordinator import Coordinator
from zab.partition.coordinator.effects import NO_PRODUCER, Answer, Append
from zab.partition.image.cluster_image import ClusterImage, Topic
from zab.partition.log.errors import LogError
from zab.partition.records.batch import BatchError, BatchHeader, walk
from zab.partition.records.builder import BatchBuilder
from zab.partition.replica.replica import Replica, ReplicaError
from zab.partition.requests.asking_controller import AskingController
from zab.partition.requests.replicas import Replicas
from zab.wire.file_slice import FileSlice

LOAD_BYTES: Final = 1 << 20
"""What one job of a load reads, or one batch."""
CREATE_TIMEOUT_MS: Final = 60_000
FIRST_SEQUENCE: Final = 0
NEVER: Final = 1 << 62

Reader: TypeAlias = Callable[[bytes, int, BatchHeader], Iterable[Any]]
"""What a batch at a position means to the coordinator."""
CoordinatorType = TypeVar("CoordinatorType", bound=Coordinator[Any, Any])


@attrs.frozen(kw_only=True)
class InternalTopic:
    """The topic of a coordinator."""

    name: str
    partition_count: int
    replication_factor: int
    """Fewer where there are fewer brokers."""
    config: Mapping[str, str]
    append_timeout_ms: int
    read: Reader


@attrs.frozen
class Surroundings:
    """What a log of a coordinator is given once."""

    replicas: Replicas
    controller: AskingController
    image: Callable[[], ClusterImage]
    touched: Callable[[Replica], None]


@attrs.frozen
class LoadPart:
    """A part of a load, for a job: batches of an internal topic."""

    topic: str
    number: int
    leader_epoch: int
    batches: FileSlice
    first_offset: int
    read: Reader


@attrs.frozen
class PartLoaded:
    """What the part has, and where the next one begins; `error` if it cannot be read."""

    part: LoadPart
    entries: tuple[Any, ...] = ()
    next_offset: int = 0
    error: str = ""


@attrs.define(eq=False)
class _Loading:
    replica: Replica
    leader_epoch: int
    offset: int
    """Where the next part begins."""
    end: int
    part: LoadPart | None = None
    """What a job reads now."""

    @property
    def is_reading(self) -> bool:
        """Whether a job reads a part."""
        return self.part is not None


@attrs.define(eq=False)
class _Appended:
    last_offset: int
    decided: Callable[[int | ErrorCode], None]
    """Gets the position once it is committed, or an error."""
    late_at: int
    is_late: bool = False


class CoordinatorLog(Generic[CoordinatorType]):
    """See the docstring of the module. Only the broker calls it."""

    def __init__(
        self, topic: InternalTopic, surroundings: Surroundings, coordinator: CoordinatorType, now: int, wall: int
    ) -> None:
        self.loads: list[LoadPart] = []
        """Parts to be read; the broker empties it."""
        self.notes: list[str] = []
        """Sentences for the journal; the broker empties it."""
        self.coordinator = coordinator
        self._topic = topic
        self._surroundings = surroundings
        self._now = now
        self._wall = wall
        self._is_creating = False
        self._loading: dict[int, _Loading] = {}
        self._appended: dict[int, deque[_Appended]] = {}
        self._epochs: dict[int, int] = {}
        """The leader epoch in which each partition was loaded last, or is being loaded."""

    @property
    def loading_count(self) -> int:
        """How many partitions are being loaded."""
        return len(self._loading)

    def create(self) -> None:
        """Have the topic created, unless that is under way."""
        if self._is_creating:
            return
        self._is_creating = True
        topic = self._topic
        count = min(topic.replication_factor, max(1, len(self._surroundings.image().brokers)))
        wanted = NewTopic(topic.name, topic.partition_count, count, config=dict(topic.config))

        def answered(_answer: object) -> None:
            self._is_creating = False

        self._surroundings.controller.ask(lambda token: CreateTopics(token, (wanted,), CREATE_TIMEOUT_MS), answered)

    # ------------------------------------------------------------------------------------------------- leading, loading

    def follow(self, topics: Mapping[str, Topic]) -> None:
        """Load what this broker leads now, and forget what it leads no longer."""
        name = self._topic.name
        topic = topics.get(name)
        if topic is None:
            return
        for number, state in topic.partitions.items():
            replica = self._surroundings.replicas.get(name, number)
            if replica is None or replica.leader is None:
                self._forget(number, state.leader_epoch)
                continue
            if self._epochs.get(number) != replica.leader.epoch:
                self._begin_load(number, replica, replica.leader.epoch)

    def stopped(self, topic: str, number: int) -> None:
        """The controller has stopped a replica, maybe before it says who leads, or that the topic is deleted."""
        epoch = self._epochs.get(number) if topic == self._topic.name else None
        replica = self._surroundings.replicas.get(topic, number)
        if epoch is not None and (replica is None or replica.leader is None):
            self._forget(number, epoch)

    def _forget(self, number: int, leader_epoch: int) -> None:
        self._loading.pop(number, None)
        self._appended.pop(number, None)
        self._epochs.pop(number, None)
        self.coordinator.unload(number, leader_epoch)

    def _begin_load(self, number: int, replica: Replica, epoch: int) -> None:
        self._epochs[number] = epoch
        self._appended[number] = deque()
        self.coordinator.begin_load(number, epoch)
        self._loading[number] = _Loading(replica, epoch, replica.log.log_start, replica.log.log_end)
        self._load_on(number)

    def _load_on(self, number: int) -> None:
        """Read the next part, or end."""
        loading = self._loading[number]
        log = loading.replica.log
        try:
            found = log.slice(loading.offset, loading.end, LOAD_BYTES) if loading.offset < loading.end else None
        except (OSError, BatchError, LogError) as error:
            self._give_up(number, str(error))
            return
        if found is None and log.awaits_files:
            return
        if found is not None:
            batches = FileSlice(found.path, found.position, found.length)
            loading.part = LoadPart(
                self._topic.name, number, loading.leader_epoch, batches, found.first_offset, self._topic.read
            )
            self.loads.append(loading.part)
        elif log.high_watermark >= loading.end:
            del self._loading[number]
            self.coordinator.finish_load(number, loading.leader_epoch)

    def is_reading(self, topic: str, number: int) -> bool:
        """Whether a job reads a file of this partition."""
        loading = self._loading.get(number) if topic == self._topic.name else None
        return loading is not None and loading.is_reading

    def loaded(self, done: PartLoaded) -> None:
        """A part was read."""
        number = done.part.number
        loading = self._loading.get(number)
        if loading is None or done.part is not loading.part:
            return
        if done.error:
            self._give_up(number, done.error)
            return
        self.coordinator.load(number, loading.leader_epoch, done.entries)
        loading.part = None
        loading.offset = done.next_offset
        self._load_on(number)

    def _give_up(self, number: int, reason: str) -> None:
        """What lives in this partition stays unavailable here."""
        del self._loading[number]
        self.notes.append(f"{self._topic.name}-{number} cannot be loaded, what it keeps is not available: {reason}")

    # -------------------------------------------------------------------------------------------------------- appends

    def advance(self, now: int, wall: int) -> None:
        """It is `now`: do what is due."""
        self._now, self._wall = now, wall
        self.coordinator.advance(now, wall)

    def next_deadline(self) -> int:
        """When `advance` and `settle` have something to do although nothing happens."""
        late = (each.late_at for appended in self._appended.values() for each in appended if not each.is_late)
        return min(self.coordinator.next_deadline(), min(late, default=NEVER))

    def take_answers(self) -> list[Answer]:
        """Carry out what the coordinator wants, and return its answers."""
        answers = []
        while effects := self.coordinator.take_effects():
            for effect in effects:
                if isinstance(effect, Answer):
                    answers.append(effect)
                elif isinstance(effect, Append):
                    self._append(effect)
                else:
                    self._do(effect)
        return answers

    def _do(self, effect: Any) -> None:
        """Carry out what only this coordinator wants."""
        raise AssertionError(effect)

    def _append(self, wanted: Append) -> None:
        self._append_verified(wanted, ErrorCode.NONE)

    def _append_verified(self, wanted: Append, error: ErrorCode) -> None:
        """Append it, unless the transaction of the records may not write to the partition."""
        number, append_id = wanted.partition, wanted.append_id
        replica = self._surroundings.replicas.get(self._topic.name, number)
        is_transactional = wanted.producer_id != NO_PRODUCER
        try:
            if replica is None or replica.leading().epoch != wanted.leader_epoch:
                raise ReplicaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads the partition")
            if error is not ErrorCode.NONE:
                raise ReplicaError(error, "the partition is not part of the transaction")
            builder = BatchBuilder(
                producer_id=wanted.producer_id,
                producer_epoch=wanted.producer_epoch,
                base_sequence=FIRST_SEQUENCE if is_transactional else -1,
                is_transactional=is_transactional,
            )
            for record in wanted.records:
                value = None if record.value is None else encode_value(record.value)
                builder.append(encode_key(record.key), value, self._wall)
            appended = replica.append_own(builder.build(), self._wall)
        except ProtocolError:
            self.coordinator.on_appended(number, append_id, ErrorCode.RECORD_LIST_TOO_LARGE)
            return
        except (ReplicaError, BatchError, LogError) as refusal:
            self.coordinator.on_appended(number, append_id, refusal.error)
            return
        self.watch(
            number,
            appended.last_offset,
            lambda outcome: self.coordinator.on_appended(number, append_id, outcome),
            self._now + self._topic.append_timeout_ms,
        )
        self._surroundings.touched(replica)

    def watch(
        self, number: int, last_offset: int, decided: Callable[[int | ErrorCode], None], late_at: int = NEVER
    ) -> None:
        """Tell when the log has decided about what ends there, in the order of the log."""
        appended = self._appended.get(number)
        if appended is not None:
            appended.append(_Appended(last_offset, decided, late_at))

    def settle(self) -> None:
        """Tell the coordinator what has become of its appends, and go on with loads that wait for the storage."""
        for number in [number for number, loading in self._loading.items() if not loading.is_reading]:
            self._load_on(number)
        for number, waiting in self._appended.items():
            if waiting and number not in self._loading:
                self._decide(number, waiting)

    def _decide(self, number: int, waiting: deque[_Appended]) -> None:
        replica = self._surroundings.replicas.get(self._topic.name, number)
        assert replica is not None
        while waiting and replica.log.high_watermark > waiting[0].last_offset:
            done = waiting.popleft()
            done.decided(done.last_offset)
        while waiting and replica.log.failure is not None:
            waiting.popleft().decided(ErrorCode.KAFKA_STORAGE_ERROR)
        for each in waiting:
            if not each.is_late and each.late_at <= self._now:
                each.is_late = True
                each.decided(ErrorCode.REQUEST_TIMED_OUT)


def load_part(part: LoadPart, disk: Disk) -> PartLoaded:
    """Read a part of an internal topic. For a job."""
    batches = part.batches
    entries: list[Any] = []
    next_offset = part.first_offset
    try:
        data = disk.read(batches.path, batches.position, batches.length)
        for position, header in walk(data):
            next_offset = header.last_offset + 1
            entries += part.read(data, position, header)
    except (OSError, BatchError, ProtocolError) as error:
        return PartLoaded(part, error=str(error))
    return PartLoaded(part, tuple(entries), next_offset)
