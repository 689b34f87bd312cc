"""A replica of one partition on this broker: its log, and what the broker is for it, leader or follower.

    take_state(state, now)      what the controller has decided
    append(…)                   a producer writes, at the leader
    read(…)                     a consumer or a follower reads, at the leader
    advance(now)                raises the high watermark

Reading is fenced by epochs (KIP-320): who asks names the leader epoch that it knows, and the epoch of the last batch
that it has. If the leader's history went another way after that epoch, the answer says where both still agree, and has
no data: so a follower truncates, and a consumer notices (KIP-101, KIP-279).

What consumers are given is below the high watermark. An offset between the mark and the end of the log is not out of
range, but has no data yet: after an election the mark of the new leader may lag behind what consumers have read.

Not here: waiting (`zab.partition.requests`), storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import Uuid
from zab.partition.image.partition_state import NO_EPOCH, NO_LEADER, PartitionState
from zab.partition.log.incoming import Appended
from zab.partition.log.log import Log
from zab.partition.log.transaction_index import AbortedTransaction
from zab.partition.records.batch import BatchError, BatchHeader, read_header, stamp_max_timestamp
from zab.partition.records.checks import Checked, ProduceRules, check_produced
from zab.partition.replica.leader import Leader, LogPosition
from zab.partition.replica.record_search import RecordSearch
from zab.partition.settings.broker_settings import REPLICATED_BYTES_MAX
from zab.partition.settings.topic_settings import BATCH, LOG_APPEND_TIME
from zab.wire.file_slice import FileSlice

ALL_IN_SYNC: Final = -1
"""The `acks` of a producer that waits for every replica in sync."""
UNKNOWN_EPOCH: Final = -1


class Isolation(IntEnum):
    """What a consumer reads."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ReplicaError(Exception):
    """A request that this replica refuses; nothing was changed."""

    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error


@attrs.frozen
class Reader:
    """A follower that reads: the id and the epoch of its broker, and what of it the leader notes."""

    broker_id: int
    broker_epoch: int
    log_start: int
    is_noted: bool
    """Whether this look says where the follower is: the first look of a request does."""
    now: int


@attrs.frozen
class Read:
    """What a read is answered with."""

    high_watermark: int
    last_stable_offset: int
    log_start: int
    data: FileSlice | None = None
    """Whole batches; None: there are none now."""
    aborted: Sequence[AbortedTransaction] | None = None
    """The aborted transactions of the data; None: all records are wanted."""
    diverging: tuple[int, int] | None = None
    """An epoch and the offset at which it ends here: up to there at the most, the reader has what the leader has."""


def _unreadable(error: BatchError | OSError) -> ReplicaError:
    """What somebody is told who reads where the files of a log are damaged: they may be whole elsewhere."""
    is_damaged = isinstance(error, BatchError)
    return ReplicaError(ErrorCode.CORRUPT_MESSAGE if is_damaged else ErrorCode.KAFKA_STORAGE_ERROR, str(error))


class Replica:
    """One replica. Times are monotonic ms, but where wall clock is said."""

    def __init__(self, broker_id: int, topic: str, topic_id: Uuid, index: int, log: Log, *, lag_max_ms: int) -> None:
        self.topic, self.topic_id, self.index = topic, topic_id, index
        self.log = log
        self.state: PartitionState | None = None
        self.leader: Leader | None = None
        """While this broker leads the partition."""
        self._suspended: Leader | None = None
        """The leader that it was before its session came into doubt."""
        self.is_stopped = False
        """Whether the controller has said that this replica copies nothing, until a newer state arrives."""
        self._broker_id = broker_id
        self._lag_max_ms = lag_max_ms

    @property
    def key(self) -> tuple[str, int]:
        """The topic and the partition's index."""
        return self.topic, self.index

    @property
    def stored_end(self) -> int:
        """What is below may be acknowledged: written, or synced where the topic wants that."""
        log = self.log
        return log.synced_end if log.settings.flush_mode == BATCH else log.written_end

    @property
    def position(self) -> LogPosition:
        """Where the log is."""
        log = self.log
        return LogPosition(end=log.log_end, stored_end=self.stored_end, high_watermark=log.high_watermark)

    # --------------------------------------------------------------------------------------------------------- roles

    @property
    def source(self) -> int | None:
        """The broker from which this replica is to be copied; None: from nobody now."""
        state = self.state
        if state is None or self.is_stopped or state.leader in (NO_LEADER, self._broker_id):
            return None
        return state.leader if self._broker_id in state.replicas else None

    @property
    def led(self) -> Leader | None:
        """The leader that this replica is as far as the controller has said, even while it must not act as one."""
        return self._suspended if self.leader is None else self.leader

    def stop(self) -> None:
        """Neither lead nor copy, until a newer state arrives."""
        self.abdicate()
        self.is_stopped = True

    def abdicate(self) -> None:
        """Do not lead until the controller says so once more."""
        self.leader = self._suspended = None

    def suspend(self) -> None:
        """Do not act as the leader until `resume`."""
        self._suspended, self.leader = self.led, None

    def resume(self, now: int) -> None:
        """Go on as the leader, if it was suspended as one."""
        if self._suspended is not None:
            self.leader, self._suspended = self._suspended, None
            self.leader.resumed(now)

    def take_state(self, state: PartitionState, now: int) -> bool:
        """Take what the controller has decided. False: it is not newer than what is known."""
        leads = state.leader == self._broker_id
        if self.state is not None and not state.is_newer_than(self.state, leads=leads):
            return False
        known = self.led
        if not leads:
            self.abdicate()
        elif known is not None and known.epoch == state.leader_epoch:
            if not known.changed(state, now):
                return False
        else:
            self.log.begin_epoch(state.leader_epoch)
            self._suspended = None
            self.leader = Leader(
                self._broker_id, state, epoch_start=self.log.log_end, now=now, lag_max_ms=self._lag_max_ms
            )
        self.state = state
        self.is_stopped = False
        return True

    def leading(self, current_leader_epoch: int = UNKNOWN_EPOCH) -> Leader:
        """This replica as the leader that somebody asks who knows this leader epoch. Raises ReplicaError."""
        own = NO_EPOCH if self.state is None else self.state.leader_epoch
        if current_leader_epoch != UNKNOWN_EPOCH:
            if current_leader_epoch < own:
                text = f"leader epoch {current_leader_epoch} is over, {own} has begun"
                raise ReplicaError(ErrorCode.FENCED_LEADER_EPOCH, text)
            if current_leader_epoch > own:
                raise ReplicaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"leader epoch {current_leader_epoch} is not known")
        if self.leader is None:
            raise ReplicaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads the partition")
        return self.leader

    # ------------------------------------------------------------------------------------------------------ producers

    def append(
        self, data: memoryview, produce_version: int, acks: int, wall_ms: int, *, is_verified: bool = False
    ) -> Appended:
        """Append what a producer sent for this partition. `is_verified`: the transaction coordinator says that the
        partition is part of its open transaction.

        Raises ReplicaError, BatchError, LogError; each has the `error` to answer with. Nothing was appended then."""
        leader = self.leading()
        if acks == ALL_IN_SYNC:
            self._check_in_sync(leader)
        own = bytearray(data)
        checked: Checked = check_produced(own, self._rules(), produce_version, wall_ms)
        headers: list[BatchHeader] = [header for _, header in checked.batches]
        for at, max_timestamp in checked.max_timestamps:
            header = stamp_max_timestamp(own, at, max_timestamp)
            headers = [
                header if position == at else each for each, (position, _) in zip(headers, checked.batches, strict=True)
            ]
        return self.log.append_as_leader(own, headers, leader.epoch, wall_ms, is_verified=is_verified)

    def append_own(self, batch: bytes, wall_ms: int) -> Appended:
        """Append a batch that this broker has made, to be committed by every replica in sync. If it is part of a
        transaction, that is open. Raises as `append`."""
        leader = self.leading()
        self._check_in_sync(leader)
        own = bytearray(batch)
        headers = [read_header(own)]
        return self.log.append_as_leader(own, headers, leader.epoch, wall_ms, is_verified=True, has_sequence=False)

    def _check_in_sync(self, leader: Leader) -> None:
        in_sync, wanted = len(leader.in_sync.committed), self.min_in_sync
        if in_sync < wanted:
            raise ReplicaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{in_sync} replicas are in sync, {wanted} have to be")

    def _rules(self) -> ProduceRules:
        settings = self.log.settings
        is_alone = self.state is None or len(self.state.replicas) == 1
        return ProduceRules(
            max_message_bytes=settings.max_message_bytes
            if is_alone
            else min(settings.max_message_bytes, REPLICATED_BYTES_MAX),
            is_compacted=settings.is_compacted,
            validates_records=settings.record_validation == "full",
            has_append_time=settings.message_timestamp_type == LOG_APPEND_TIME,
            timestamp_before_max_ms=settings.message_timestamp_before_max_ms,
            timestamp_after_max_ms=settings.message_timestamp_after_max_ms,
        )

    @property
    def min_in_sync(self) -> int:
        """How many replicas have to be in sync for a write that waits for all of them."""
        wanted = self.log.settings.min_insync_replicas
        return wanted if self.leader is None else self.leader.min_in_sync(wanted)

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether so many are."""
        return self.leader is not None and len(self.leader.in_sync.maximal) >= self.min_in_sync

    def advance(self, now: int) -> bool:
        """Raise the high watermark as far as it goes. True: it has risen."""
        if self.leader is None:
            return False
        before = self.log.high_watermark
        mark = self.leader.high_watermark(now, self.position, self.log.settings.min_insync_replicas)
        return mark > before and self.log.update_high_watermark(mark) > before

    # -------------------------------------------------------------------------------------------------------- readers

    def read(
        self,
        offset: int,
        max_bytes: int,
        isolation: Isolation,
        *,
        current_leader_epoch: int = UNKNOWN_EPOCH,
        last_fetched_epoch: int = UNKNOWN_EPOCH,
        is_follower: bool = False,
    ) -> Read:
        """What is there from `offset` on: whole batches, as many as fit into `max_bytes`, and at least one. With
        `max_bytes` 0 no data is looked for. Raises ReplicaError, also if its files are damaged, and LogError."""
        self.leading(current_leader_epoch)
        log = self.log
        marks = log.high_watermark, log.last_stable_offset, log.log_start
        if last_fetched_epoch != UNKNOWN_EPOCH:
            diverging = self._diverging(offset, last_fetched_epoch)
            if diverging is not None:
                return Read(*marks, diverging=diverging)
        if not log.log_start <= offset <= log.log_end:
            text = f"{offset} is not in {log.log_start} to {log.log_end}"
            raise ReplicaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        is_committed = isolation is Isolation.READ_COMMITTED and not is_follower
        bound = log.log_end if is_follower else self.bound(isolation)
        try:
            found = log.slice(offset, bound, max_bytes) if max_bytes > 0 and offset < bound else None
            aborted = log.aborted_in(offset, found, bound) if is_committed and found is not None else []
        except (BatchError, OSError) as error:
            raise _unreadable(error) from None
        data = None if found is None else FileSlice(found.path, found.position, found.length)
        return Read(*marks, data=data, aborted=aborted if is_committed else None)

    def marks(self) -> tuple[object, ...]:
        """What `read` finds depends on nothing else of this replica, where it finds no records."""
        log = self.log
        return self.leader, log.high_watermark, log.last_stable_offset, log.log_start, log.log_end

    def read_for(
        self, reader: Reader, offset: int, max_bytes: int, *, current_leader_epoch: int, last_fetched_epoch: int
    ) -> Read:
        """`read` for a follower, which also says where it is. Only what passed all checks is noted: the offset of a
        follower whose history parts from this log tells nothing. Raises as `read`."""
        leader = self.leading(current_leader_epoch)
        if reader.broker_id not in leader.followers:
            # It may know a newer assignment.
            raise ReplicaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"broker {reader.broker_id} has no replica of it")
        end = self.log.log_end
        read = self.read(
            *(offset, max_bytes, Isolation.READ_UNCOMMITTED),
            current_leader_epoch=current_leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
            is_follower=True,
        )
        if reader.is_noted and read.diverging is None:
            is_present = leader.fetched_by(
                *(reader.broker_id, reader.now),
                offset=offset,
                log_start=reader.log_start,
                leader_end=end,
                broker_epoch=reader.broker_epoch,
            )
            if not is_present:
                raise ReplicaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "a later life of that broker has fetched")
        return read

    def bound(self, isolation: Isolation) -> int:
        """What a consumer is given is below it."""
        is_committed = isolation is Isolation.READ_COMMITTED
        return self.log.last_stable_offset if is_committed else self.log.high_watermark

    @property
    def newest_timestamp(self) -> int:
        """The largest timestamp of all batches (ms since 1970); -1: there is none."""
        return max(segment.max_timestamp for segment in self.log.segments)

    def search(self, timestamp: int, bound: int) -> RecordSearch | None:
        """Where the first record below `bound` of this time or later (ms since 1970) is to be looked for; None: there
        is none. Raises ReplicaError if its files are damaged."""
        try:
            found = self.log.find_by_time(timestamp, bound)
        except (BatchError, OSError) as error:
            raise _unreadable(error) from None
        if found is None:
            return None
        batch = FileSlice(found.path, found.position, found.length)
        return RecordSearch(batch, found.first_offset, timestamp, self.log.log_start)

    def _diverging(self, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """Where the history of a reader that is at `offset` parts from this log; None: it does not. Raises
        ReplicaError."""
        epoch, end = self.log.end_offset_for(last_fetched_epoch)
        if epoch == NO_EPOCH:
            raise ReplicaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"epoch {last_fetched_epoch} is not known here")
        if offset < self.log.log_start:
            raise ReplicaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is below {self.log.log_start}")
        return (epoch, end) if epoch < last_fetched_epoch or end < offset else None
