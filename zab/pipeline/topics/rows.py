"""Rows of `schema.TOPIC` out of a range of offsets of a partition: batches, decompressed, decoded, in columns.

A range has several replicas to be read from: what is damaged in one comes from the next, from that offset on. What is
damaged in all of them raises PipelineError, with the file and the byte, unless `damaged` is "skip".

Control batches and records outside of the range are left out; with `is_committed`, so are those of transactions that
were aborted. Memory: one piece of a file, its batches decompressed until they have OUTPUT_BYTES, and their rows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from attrs import define, frozen

from zab.partition.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME_BIT,
    BatchError,
    BatchHeader,
    Codec,
    read_header,
)
from zab.partition.records.codecs import decompress
from zab.partition.records.libraries import MissingLibraryError
from zab.partition.records.record import skim
from zab.pipeline.decoding.arrays import Integers, Mask, text_or_none
from zab.pipeline.decoding.damage import DAMAGED, Damage
from zab.pipeline.decoding.slices import slices, timestamps
from zab.pipeline.decoding.topic_records import Records, RecordsDamagedError, decode
from zab.pipeline.decoding.transactions import ROWS_MAX, validity
from zab.pipeline.errors import PipelineError
from zab.pipeline.schema import TOPIC
from zab.pipeline.topics.batches import Batches, Fault, batches
from zab.pipeline.topics.replicas import Replica
from zab.pipeline.topics.transactions import ABORTED, NOT_TRANSACTIONAL, OPEN, Outcomes

__all__ = ["Piece", "piece_rows"]

OUTPUT_BYTES: Final = 16 << 20
"""Decompressed bytes that are decoded together; one batch may have more, up to `codecs.OUTPUT_BYTES_MAX`."""

_ARROW: Final = {column.name: column.arrow for column in TOPIC}


@frozen
class Piece:
    """Offsets [start, until) of one partition, from the first of these replicas, or else from the others."""

    replicas: tuple[Replica, ...]
    start: int
    until: int
    outcomes: Outcomes
    is_committed: bool = False
    skips_damage: bool = False


@define(eq=False)
class _Decoded:
    """Batches and their records; `data` are the decompressed bytes."""

    batches: Batches
    data: bytes
    records: Records


def piece_rows(piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a piece, at most ROWS_MAX at a time. Raises PipelineError."""
    at = piece.start
    problems: list[str] = []
    for replica in piece.replicas:
        for found in _decoded(replica, at, piece.until):
            if isinstance(found, Fault):
                problems.append(found.sentence)
                break
            yield from _record_batches(piece, replica, found, at, columns)
            at = int(found.batches.last_offsets[-1]) + 1
        else:
            return
    if not piece.skips_damage:
        raise PipelineError(
            f"{'; '.join(problems)}: give the log directory of another broker that has the partition, too, or the "
            "option damaged=skip, which leaves out what cannot be read"
        )
    for found in _decoded(piece.replicas[0], at, piece.until):
        if not isinstance(found, Fault):
            yield from _record_batches(piece, piece.replicas[0], found, at, columns)
            at = int(found.batches.last_offsets[-1]) + 1


def _decoded(replica: Replica, start: int, until: int) -> Iterator[_Decoded | Fault]:
    """The records of the batches in this range, and what is damaged."""
    for found in batches(replica, start, until):
        if isinstance(found, Fault):
            yield found
            continue
        data = found.only(~found.is_control & (found.headers["record_count"] > 0))
        if len(data.at) < len(found.at) and not len(data.at):
            continue
        yield from _in_groups(data)


def _in_groups(found: Batches) -> Iterator[_Decoded | Fault]:
    done = 0
    while done < len(found.at):
        regions: list[bytes] = []
        size = 0
        damage: Fault | None = None
        for number in range(done, len(found.at)):
            try:
                regions.append(_region(found, number))
            except BatchError as error:
                damage = _damaged(found, number, str(error))
                break
            size += len(regions[-1])
            if size >= OUTPUT_BYTES:
                break
        yield from _decode(_part(found, done, done + len(regions)), regions)
        done += len(regions)
        if damage is not None:
            yield damage
            done += 1


def _part(found: Batches, start: int, end: int) -> Batches:
    return Batches(found.segment, found.position, found.data, found.at[start:end], found.headers[start:end])


def _region(found: Batches, number: int) -> bytes:
    """The records of one batch, decompressed. Raises BatchError, PipelineError."""
    at, header = int(found.at[number]), found.headers[number]
    end = at + LENGTH_END + int(header["batch_length"])
    try:
        return decompress(Codec(int(header["attributes"]) & CODEC_MASK), found.data[at + HEADER_BYTES : end])
    except MissingLibraryError as error:
        raise PipelineError(str(error)) from None


def _damaged(found: Batches, number: int, reason: str) -> Fault:
    offset = found.position + int(found.at[number])
    end = offset + LENGTH_END + int(found.headers["batch_length"][number])
    return Fault(found.segment, Damage(offset, end, DAMAGED, reason))


def _decode(found: Batches, regions: list[bytes]) -> Iterator[_Decoded | Fault]:
    while regions:
        data = regions[0] if len(regions) == 1 else b"".join(regions)
        ends = np.cumsum([len(one) for one in regions], dtype=np.int64)
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
        counts = found.headers["record_count"].astype(np.int64)
        try:
            records = decode(data, starts, ends, counts, found.headers["last_offset_delta"].astype(np.int64))
        except RecordsDamagedError as error:
            bad = error.batch
            if bad:
                yield from _decode(_part(found, 0, bad), regions[:bad])
            yield _damaged(found, bad, _why(found, bad, regions[bad]))
            found, regions = _part(found, bad + 1, len(found.at)), regions[bad + 1 :]
        else:
            yield _Decoded(found, data, records)
            return


def _why(found: Batches, number: int, region: bytes) -> str:
    header: BatchHeader = read_header(found.data, int(found.at[number]))
    try:
        for _ in skim(region, header):
            pass
    except BatchError as error:
        return str(error)
    raise AssertionError("skim reads what decode refused")


# Columns.


@define(eq=False)
class _Rows:
    """The rows of one record batch: those at `at` of the decoded ones."""

    replica: Replica
    found: _Decoded
    at: Integers
    outcome: Any

    def per_batch(self, name: str) -> Any:
        """A field of the header of each row's batch."""
        return self.found.batches.headers[name][self.batch]

    @property
    def batch(self) -> Integers:
        return self.found.records.batch[self.at]

    @property
    def offsets(self) -> Integers:
        found: Integers = self.per_batch("base_offset") + self.found.records.offset_delta[self.at]
        return found

    @property
    def times_ms(self) -> Integers:
        own = self.per_batch("base_timestamp") + self.found.records.timestamp_delta[self.at]
        is_append = (self.per_batch("attributes") & LOG_APPEND_TIME_BIT) != 0
        found: Integers = np.where(is_append, self.per_batch("max_timestamp"), own)
        return found


def _record_batches(
    piece: Piece, replica: Replica, found: _Decoded, start: int, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    outcome = piece.outcomes.of(found.batches)
    records = found.records
    offsets = found.batches.headers["base_offset"][records.batch] + records.offset_delta
    keep = (offsets >= start) & (offsets < piece.until)
    if piece.is_committed:
        keep &= outcome[records.batch] != ABORTED
    rows = np.flatnonzero(keep)
    schema = pa.schema([pa.field(name, _ARROW[name]) for name in columns])
    for begin in range(0, len(rows), ROWS_MAX):
        part = _Rows(replica, found, rows[begin : begin + ROWS_MAX], outcome)
        if columns:
            arrays = [_MAKERS[name](part) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        else:
            yield pa.RecordBatch.from_struct_array(pa.array([{}] * len(part.at), pa.struct([])))


def _plain(values: Any, name: str, mask: Mask | None = None) -> pa.Array:
    kind = _ARROW[name]
    found = np.ascontiguousarray(values, dtype=kind.to_pandas_dtype())
    return pa.array(found, kind, mask=None if mask is None else ~mask)


def _bytes(rows: _Rows, span: tuple[Integers, Integers], has: Mask) -> pa.Array:
    array = slices(rows.found.data, span[0][rows.at], span[1][rows.at])
    bitmap = validity(has[rows.at])
    if bitmap is None:
        return array
    return pa.Array.from_buffers(array.type, len(array), [bitmap, *array.buffers()[1:]])


def _headers(rows: _Rows) -> pa.Array:
    kind = _ARROW["headers"]
    records = rows.found.records
    counts = records.header_counts
    if not counts.any():
        bounds = pa.py_buffer(np.zeros(len(rows.at) + 1, np.int32))
        return pa.Array.from_buffers(kind, len(rows.at), [None, bounds], children=[pa.array([], kind.value_type)])
    firsts = np.cumsum(counts) - counts
    chosen = counts[rows.at]
    bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(chosen)))
    at = np.repeat(firsts[rows.at] - bounds[:-1], chosen) + np.arange(int(bounds[-1]))
    name_starts, name_ends = records.header_name[0][at], records.header_name[1][at]
    names = slices(rows.found.data, name_starts, name_ends)
    texts = text_or_none(names) if len(names) else pa.array([], pa.string())
    if texts is None:
        texts = pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())
    values = slices(rows.found.data, records.header_value[0][at], records.header_value[1][at])
    bitmap = validity(records.header_has_value[at])
    if bitmap is not None and len(values):
        values = pa.Array.from_buffers(values.type, len(values), [bitmap, *values.buffers()[1:]])
    structs = pa.StructArray.from_arrays([texts, values], fields=list(kind.value_type))
    return pa.Array.from_buffers(kind, len(rows.at), [None, pa.py_buffer(bounds.astype(np.int32))], children=[structs])


def _aborted(rows: _Rows) -> pa.Array:
    outcome = rows.outcome[rows.batch]
    return pa.array(outcome == ABORTED, pa.bool_(), mask=outcome == OPEN)


def _sequence(rows: _Rows) -> pa.Array:
    base = rows.per_batch("base_sequence").astype(np.int64)
    return _plain((base + rows.found.records.offset_delta[rows.at]) & 0x7FFF_FFFF, "sequence", base >= 0)


def _of_producer(name: str) -> Callable[[_Rows], pa.Array]:
    return lambda rows: _plain(rows.per_batch(name), name, rows.per_batch("producer_id") >= 0)


def _repeated(rows: _Rows, value: str | int, name: str) -> pa.Array:
    return pa.repeat(pa.scalar(value, _ARROW[name]), len(rows.at))


def _positions(rows: _Rows) -> pa.Array:
    return _plain(rows.found.batches.at[rows.batch] + rows.found.batches.position, "position")


_MAKERS: Final[dict[str, Callable[[_Rows], pa.Array]]] = {
    "key": lambda rows: _bytes(rows, rows.found.records.key, rows.found.records.has_key),
    "value": lambda rows: _bytes(rows, rows.found.records.value, rows.found.records.has_value),
    "topic": lambda rows: _repeated(rows, rows.replica.topic, "topic"),
    "partition": lambda rows: _repeated(rows, rows.replica.partition, "partition"),
    "offset": lambda rows: _plain(rows.offsets, "offset"),
    "timestamp": lambda rows: timestamps(rows.times_ms),
    "timestampType": lambda rows: _plain((rows.per_batch("attributes") & LOG_APPEND_TIME_BIT) != 0, "timestampType"),
    "headers": _headers,
    "leader_epoch": lambda rows: _plain(rows.per_batch("leader_epoch"), "leader_epoch"),
    "producer_id": _of_producer("producer_id"),
    "producer_epoch": _of_producer("producer_epoch"),
    "sequence": _sequence,
    "transactional": lambda rows: pa.array(rows.outcome[rows.batch] != NOT_TRANSACTIONAL, pa.bool_()),
    "aborted": _aborted,
    "broker": lambda rows: _repeated(rows, rows.replica.broker, "broker"),
    "segment": lambda rows: _repeated(rows, rows.found.batches.segment.place.name, "segment"),
    "position": _positions,
}
assert [*_MAKERS] == [*_ARROW]
