"""Writing record batches: for coordinators, compaction, tools and tests. What producers send is stored as it comes."""

from collections.abc import Iterable

from attrs import define, field

from zab.partition.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    sealed,
)
from zab.partition.records.codecs import compress
from zab.partition.records.record import Headers, Record
from zab.partition.records.varints import append_varlong

__all__ = ["BatchBuilder", "encode_batch"]


@define
class BatchBuilder:
    """Builds one batch. `append_time_ms` makes it one with LogAppendTime; -1 stands for no epoch and no producer.

    `delete_horizon_ms` and `last_offset` are for what compaction leaves of a batch: from when on its tombstones may go,
    and where it ended."""

    base_offset: int = 0
    codec: Codec = Codec.NONE
    partition_leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False
    append_time_ms: int | None = None
    delete_horizon_ms: int | None = None
    last_offset: int | None = None
    count: int = field(default=0, init=False)
    _last_offset_delta: int = field(default=-1, init=False)
    _base_timestamp_ms: int = field(default=-1, init=False)
    _max_timestamp_ms: int = field(default=-1, init=False)
    _records: bytearray = field(factory=bytearray, init=False)

    @property
    def size_bytes(self) -> int:
        """The size in bytes of the batch with the records so far, before compression."""
        return HEADER_BYTES + len(self._records)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers = (),
        offset: int | None = None,
    ) -> int:
        """Add a record; returns its offset, which is the next one unless a higher one is given."""
        delta = self._last_offset_delta + 1 if offset is None else offset - self.base_offset
        assert self._last_offset_delta < delta < 2**31 - 1, (self._last_offset_delta, delta)
        if not self.count:
            self._base_timestamp_ms = timestamp_ms if self.delete_horizon_ms is None else self.delete_horizon_ms
        body = bytearray(b"\0")
        append_varlong(body, timestamp_ms - self._base_timestamp_ms)
        append_varlong(body, delta)
        _append_bytes(body, key)
        _append_bytes(body, value)
        append_varlong(body, len(headers))
        for name, content in headers:
            _append_bytes(body, name.encode(errors="surrogateescape"))
            _append_bytes(body, content)
        append_varlong(self._records, len(body))
        self._records += body
        self._last_offset_delta = delta
        self._max_timestamp_ms = max(self._max_timestamp_ms, timestamp_ms)
        self.count += 1
        return self.base_offset + delta

    def build(self) -> bytes:
        """The whole batch, with its checksum. At least one record has to be in it."""
        assert self.count, "a batch has at least one record"
        attributes = self.codec | (TRANSACTIONAL_BIT if self.is_transactional else 0)
        attributes |= CONTROL_BIT if self.is_control else 0
        attributes |= 0 if self.delete_horizon_ms is None else DELETE_HORIZON_BIT
        max_timestamp_ms = self._max_timestamp_ms
        if self.append_time_ms is not None:
            attributes |= LOG_APPEND_TIME_BIT
            max_timestamp_ms = self.append_time_ms
        header = BatchHeader(
            base_offset=self.base_offset,
            batch_length=0,
            partition_leader_epoch=self.partition_leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=attributes,
            last_offset_delta=self._last_offset_delta
            if self.last_offset is None
            else self.last_offset - self.base_offset,
            base_timestamp=self._base_timestamp_ms,
            max_timestamp=max_timestamp_ms,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            record_count=self.count,
        )
        return sealed(header, compress(self.codec, bytes(self._records)))


def encode_batch(
    records: Iterable[Record],
    codec: Codec = Codec.NONE,
    *,
    base_offset: int | None = None,
    partition_leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    append_time_ms: int | None = None,
) -> bytes:
    """One batch of these records, whose offsets rise; it begins at the offset of the first unless another is given."""
    listed = list(records)
    builder = BatchBuilder(
        base_offset=listed[0].offset if base_offset is None else base_offset,
        codec=codec,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        append_time_ms=append_time_ms,
    )
    for record in listed:
        builder.append(record.key, record.value, record.timestamp_ms, record.headers, record.offset)
    return builder.build()


def _append_bytes(out: bytearray, content: bytes | None) -> None:
    if content is None:
        out.append(1)
    else:
        append_varlong(out, len(content))
        out += content
