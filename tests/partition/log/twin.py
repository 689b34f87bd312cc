"""A log as a list of batches: what the log has to be, with nothing clever in it."""

from __future__ import annotations

import attrs

from tests.partition.log.rig import Batches, headers
from zab.partition.records.batch import BatchHeader
from zab.partition.records.control import ControlType, decode_marker


@attrs.frozen
class TwinBatch:
    data: bytes
    header: BatchHeader

    @property
    def base(self) -> int:
        return self.header.base_offset

    @property
    def last(self) -> int:
        return self.header.last_offset


@attrs.define
class Twin:
    """Every batch that is in the log."""

    batches: list[TwinBatch] = attrs.Factory(list)
    start: int = 0
    end: int = 0

    def append(self, data: bytes) -> None:
        """Batches with their offsets and epochs."""
        for header in headers(data):
            self.batches.append(TwinBatch(bytes(data[: header.size_bytes]), header))
            data = data[header.size_bytes :]
            self.end = header.last_offset + 1

    def truncate(self, offset: int, floor: int) -> None:
        """`floor`: where the first segment begins."""
        if offset >= self.end:
            return
        self.batches = [batch for batch in self.batches if batch.last < offset]
        self.end = max([batch.last + 1 for batch in self.batches], default=floor)
        self.start = min(self.start, self.end)

    def restart(self, offset: int) -> None:
        self.batches.clear()
        self.start = self.end = offset

    def served(self, offset: int, bound: int, max_bytes: int) -> list[TwinBatch]:
        """At most what a slice may have: all batches from the offset on, below the bound, within the size."""
        found: list[TwinBatch] = []
        for batch in self.batches:
            if batch.last >= offset and batch.last < bound:
                if found and sum(len(each.data) for each in found) + len(batch.data) > max_bytes:
                    break
                found.append(batch)
            elif batch.last >= bound:
                break
        return found

    @property
    def content(self) -> Batches:
        return [
            (batch.base, batch.header.partition_leader_epoch, batch.data)
            for batch in self.batches
            if batch.last >= self.start
        ]

    def find_by_time(self, timestamp: int, bound: int) -> int | None:
        """The base offset of the batch."""
        for batch in self.batches:
            if self.start <= batch.last < bound and batch.header.max_timestamp >= timestamp:
                return batch.base
        return None

    @property
    def open_transactions(self) -> dict[int, int]:
        """Producer id → first offset."""
        found: dict[int, int] = {}
        for batch in self.batches:
            if batch.header.is_control:
                found.pop(batch.header.producer_id, None)
            elif batch.header.is_transactional:
                found.setdefault(batch.header.producer_id, batch.base)
        return found

    @property
    def last_sequences(self) -> dict[int, int]:
        """Producer id → sequence of its newest batch, of those that have written anything but markers."""
        return {
            batch.header.producer_id: batch.header.last_sequence
            for batch in self.batches
            if batch.header.producer_id >= 0 and not batch.header.is_control
        }

    @property
    def aborted(self) -> list[tuple[int, int, int]]:
        """(producer id, first offset, last offset) of the transactions that a marker aborted."""
        found: list[tuple[int, int, int]] = []
        opened: dict[int, int] = {}
        for batch in self.batches:
            producer_id = batch.header.producer_id
            if batch.header.is_control:
                end = decode_marker(batch.data)
                first = opened.pop(producer_id, None)
                if end is not None and end.type is ControlType.ABORT and first is not None:
                    found.append((producer_id, first, batch.last))
            elif batch.header.is_transactional:
                opened.setdefault(producer_id, batch.base)
        return found
