"""Batches on their way into a log: what is checked of them, and what is stamped into them.

Nothing is appended before all batches of a request have passed. Not here: the checks of a produce request that need no
log (`requests.produce`), and where the batches go.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from zab.partition.log.errors import UnexpectedOffsetError
from zab.partition.log.file_effects import Bytes
from zab.partition.log.producers import ProducedBatch, Producers, ProducerState, after, check
from zab.partition.records.batch import LENGTH_END, BatchHeader, check_crc, stamp, stamp_append_time
from zab.partition.records.control import EndMarker, decode_marker


@attrs.frozen
class Appended:
    """What a produce request is answered with."""

    base_offset: int
    last_offset: int
    append_time_ms: int
    """-1 unless the broker's clock gives the records their time."""
    is_duplicate: bool = False


def markers_in(data: Bytes, headers: Sequence[BatchHeader]) -> dict[int, EndMarker]:
    """The markers among the batches, by their number."""
    markers: dict[int, EndMarker] = {}
    position = 0
    for number, header in enumerate(headers):
        if header.producer_id >= 0 and header.is_control:
            marker = decode_marker(memoryview(data)[position : position + header.size_bytes])
            if marker is not None:
                markers[number] = marker
        position += LENGTH_END + header.batch_length
    return markers


def first_duplicate(
    producers: Producers,
    headers: Sequence[BatchHeader],
    markers: dict[int, EndMarker],
    *,
    is_verified: bool,
    has_sequence: bool,
) -> ProducedBatch | None:
    """Check the batches of a leader's request against what is known of their producers, one after the other. The first
    one that the log has. Raises what `producers.check` and `check_marker` raise."""
    seen: dict[int, ProducerState] = {}
    for number, header in enumerate(headers):
        if header.producer_id < 0:
            continue
        if header.is_control:
            if number in markers:
                producers.check_marker(header, markers[number])
            continue
        state = seen.get(header.producer_id) or producers.states.get(header.producer_id)
        duplicate = check(state, header, is_verified=is_verified, has_sequence=has_sequence)
        if duplicate is not None:
            return duplicate
        if len(headers) > 1:
            seen[header.producer_id] = after(state, header, None)
    return None


def stamped(
    data: bytearray | memoryview,
    headers: Sequence[BatchHeader],
    offset: int,
    leader_epoch: int,
    append_time_ms: int | None,
) -> list[BatchHeader]:
    """Write the offsets from `offset` on, the epoch and, unless it is None, the time into the batches. Their headers as
    they are now."""
    position = 0
    batches = []
    for header in headers:
        stamp(data, position, offset, leader_epoch)
        if append_time_ms is not None:
            header = stamp_append_time(data, position, append_time_ms)
        else:
            header.base_offset, header.partition_leader_epoch = offset, leader_epoch
        batches.append(header)
        position += LENGTH_END + header.batch_length
        offset += header.last_offset_delta + 1
    assert position == len(data)
    return batches


def check_copied(data: Bytes, headers: Sequence[BatchHeader], expected: int) -> None:
    """Check the batches of a leader, which a follower appends as they are: each is sound, and begins at or above the
    end of the one before, the first one at or above `expected`. Raises BatchError, UnexpectedOffsetError."""
    position = 0
    for header in headers:
        check_crc(data, position, header)
        if header.base_offset < expected or header.last_offset < header.base_offset:
            text = f"batch of {header.base_offset} to {header.last_offset}, expected {expected}"
            raise UnexpectedOffsetError(text)
        position += header.size_bytes
        expected = header.last_offset + 1
    assert position == len(data)
