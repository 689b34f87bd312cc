"""What compaction leaves of one batch: Kafka's rules of `Cleaner.cleanInto` and `MemoryRecords.filterTo`.

A record stays if it is above what the map knows, or if it has a key, is the newest of its key, and is no tombstone
whose time is over. Offsets never change. Of a batch stay the base offset, the last offset, the producer's fields and
sequence, the epoch and the codec, whatever became of its records.

The time of a tombstone, and of a marker whose transaction has no data left, begins when compaction sees it first: it
sets bit 6 of the attributes, and `base_timestamp` becomes that time plus `delete.retention.ms`. So a consumer
that reads from the start within that time sees every delete.

A batch without records is dropped, except that an empty one stays
- of the last batch of each active producer, for its sequence and epoch,
- of the last batch that goes into a file: its end tells where the file ends, so there is no gap before the next one.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from zab.partition.log.cleaned_transactions import CleanedTransactions
from zab.partition.log.offset_map import OffsetMap
from zab.partition.records.batch import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    TimestampType,
    sealed,
)
from zab.partition.records.builder import BatchBuilder
from zab.partition.records.control import decode_marker
from zab.partition.records.record import decode_records, records_of, skim

NO_TIMESTAMP = -1
NO_DATA = -1


@attrs.frozen(kw_only=True)
class CleanRules:
    """What holds for one round. Times are ms since 1970."""

    now_ms: int
    delete_retention_ms: int
    output_bytes_max: int
    """What the records of a compressed batch may become."""
    producers: Mapping[int, tuple[int, int]]
    """The active producers: the last offset of each one's last batch, or NO_DATA, and its epoch."""


class CleanedBatches:
    """Decides batch after batch of one round, in the order of the log."""

    def __init__(self, rules: CleanRules, newest: OffsetMap) -> None:
        self.transactions = CleanedTransactions()
        self._rules = rules
        self._newest = newest

    def cleaned(self, batch: bytes, header: BatchHeader, *, is_last: bool) -> bytes:
        """What is left of it, which may be all or nothing. `is_last`: no other one follows in its file.

        Raises BatchError."""
        is_empty_retained = is_last or self._is_last_of_producer(header)
        if header.is_control:
            return self._cleaned_marker(batch, header, is_empty_retained=is_empty_retained)
        if self.transactions.is_aborted(header):
            return _emptied(header) if is_empty_retained else b""
        flags, has_tombstones = self._retained(batch, header)
        if not any(flags):
            return _emptied(header) if is_empty_retained else b""
        horizon = self._horizon(header, is_wanted=has_tombstones)
        if all(flags) and (horizon is None or header.has_delete_horizon):
            return batch
        return self._rebuilt(batch, header, flags, horizon)

    def _cleaned_marker(self, batch: bytes, header: BatchHeader, *, is_empty_retained: bool) -> bytes:
        is_of_nothing = self.transactions.is_marker_of_nothing(header, decode_marker(batch))
        is_over = header.has_delete_horizon and header.base_timestamp <= self._rules.now_ms
        if not header.record_count or (is_of_nothing and is_over):
            return _emptied(header) if is_empty_retained else b""
        if is_of_nothing and not header.has_delete_horizon:
            return self._rebuilt(batch, header, [True] * header.record_count, self._horizon(header, is_wanted=True))
        return batch

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        known = self._rules.producers.get(header.producer_id) if header.producer_id >= 0 else None
        if known is None:
            return False
        last_offset, epoch = known
        if last_offset == NO_DATA:
            return header.is_control and header.producer_epoch == epoch
        return header.last_offset == last_offset

    def _retained(self, batch: bytes, header: BatchHeader) -> tuple[list[bool], bool]:
        """Whether each record stays, and whether one that stays is a tombstone."""
        data = records_of(batch, 0, header, self._rules.output_bytes_max)
        deletes = header.has_delete_horizon and self._rules.now_ms >= header.base_timestamp
        newest = self._newest
        flags, has_tombstones = [], False
        for _, delta, key_start, key_end, value_start, *_ in skim(data, header):
            offset, is_tombstone = header.base_offset + delta, value_start < 0
            if offset > newest.latest_offset:
                stays = True
            elif key_start < 0 or (is_tombstone and deletes):
                stays = False
            else:
                stays = offset >= newest.get(data[key_start:key_end])
            flags.append(stays)
            has_tombstones |= stays and is_tombstone
        return flags, has_tombstones

    def _horizon(self, header: BatchHeader, *, is_wanted: bool) -> int | None:
        """From when on tombstones of this batch go; None: it has no such time."""
        if header.has_delete_horizon:
            return header.base_timestamp
        return self._rules.now_ms + self._rules.delete_retention_ms if is_wanted else None

    def _rebuilt(self, batch: bytes, header: BatchHeader, flags: list[bool], horizon: int | None) -> bytes:
        is_append_time = header.timestamp_type is TimestampType.LOG_APPEND
        builder = BatchBuilder(
            base_offset=header.base_offset,
            codec=header.codec,
            partition_leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            is_transactional=header.is_transactional,
            is_control=header.is_control,
            append_time_ms=header.max_timestamp if is_append_time else None,
            delete_horizon_ms=horizon,
            last_offset=header.last_offset,
        )
        for stays, record in zip(flags, decode_records(batch, 0, self._rules.output_bytes_max), strict=True):
            if stays:
                builder.append(record.key, record.value, record.timestamp_ms, record.headers, record.offset)
        return builder.build()


def _emptied(header: BatchHeader) -> bytes:
    """The batch without records."""
    attributes = header.attributes & (LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT)
    return sealed(attrs.evolve(header, attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")
