"""What is in a partition, for assertions: read from the files of its leader, between two of its turns.

By default what a consumer with `isolation.level=read_committed` is given: records below the last stable offset, without
those of aborted transactions. Markers of transactions are no records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from attrs import field, frozen

from zab.broker.service import Running
from zab.partition.log.transaction_index import AbortedTransaction
from zab.partition.records.batch import BatchHeader, walk
from zab.partition.records.record import decode_records
from zab.partition.replica.replica import Isolation

_PIECE_BYTES: Final = 1 << 20


@frozen
class TopicRecord:
    """One record. `timestamp_ms` is since 1970; `value` is None for a tombstone."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@frozen
class Contents:
    """The batches of a partition, and which of its transactions were aborted. Records below `start` are deleted."""

    start: int
    batches: Sequence[bytes] = field(repr=False)
    aborted: Sequence[AbortedTransaction]


def contents_of(running: Running, topic: str, partition: int, isolation: Isolation) -> Contents | OSError | None:
    """In the thread of the broker. None: it does not lead this partition."""
    replica = running.broker.replicas.get(topic, partition)
    if replica is None or replica.leader is None:
        return None
    log, bound = replica.log, replica.bound(isolation)
    offset, batches = log.log_start, []
    try:
        while offset < bound and (found := log.slice(offset, bound, _PIECE_BYTES)) is not None:
            batches.append(running.disk.read(found.path, found.position, found.length))
            offset = max(header.last_offset for _, header in walk(batches[-1])) + 1
        is_committed = isolation is Isolation.READ_COMMITTED
        aborted = list(log.aborted_transactions(log.log_start, bound)) if is_committed else []
    except OSError as error:
        return error
    return Contents(log.log_start, batches, aborted)


def records_of(contents: Contents, partition: int) -> Iterator[TopicRecord]:
    """All records, in their order."""
    for data in contents.batches:
        for position, header in walk(data):
            if header.is_control or _is_aborted(header, contents.aborted):
                continue
            for each in decode_records(data, position):
                if each.offset >= contents.start:
                    yield TopicRecord(partition, each.offset, each.timestamp_ms, each.key, each.value, each.headers)


def _is_aborted(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> bool:
    return header.is_transactional and any(
        each.producer_id == header.producer_id and each.first_offset <= header.base_offset < each.last_offset
        for each in aborted
    )
