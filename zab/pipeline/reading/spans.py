"""Reads one stretch of one log file, for Spark's tasks, the stream, `verify` and the benchmarks.

A `Span` has everything that reading needs: which file, which bytes, which zxids and times. It is sent to workers, so
all tasks of one DataFrame read what was there when it was made, whatever is appended meanwhile.

    blocks          batches (native) or records (version-2) whose checksums are right, undecoded; and Damage
    transactions    the transactions in them, decoded to columns; and Damage
    batches         `pyarrow.RecordBatch`es of chosen columns; Damage goes to a callable

Invariants: rows come in the order of the file; what is not shown is either outside of the span's limits or reported
as Damage. Memory is bounded by a window (`native_log.WINDOW_BYTES`) or the largest batch. Deliberately not here: which
spans make up a history (`planning`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from attrs import frozen

from datatree.log.batch import HEADER_BYTES
from datatree.log.segment import INDEX_HEADER_BYTES, SEGMENT_HEADER_BYTES
from datatree.zookeeper.log import LOG_HEADER
from zab.pipeline.decoding.arrays import Mask
from zab.pipeline.decoding.damage import GAP, UNREADABLE, Damage
from zab.pipeline.decoding.native_log import BatchIndex, Block, FrameScan, IndexScan, load_index
from zab.pipeline.decoding.native_rows import decode_block
from zab.pipeline.decoding.transactions import Source, Transactions, record_batches
from zab.pipeline.decoding.version2_log import RecordBlock, RecordScan
from zab.pipeline.decoding.version2_rows import decode_records
from zab.pipeline.member_files import LogFile
from zab.pipeline.places import OpenFile

__all__ = ["AnyBlock", "Span", "batches", "blocks", "read_index", "shown", "transactions", "whole_transactions"]

INDEX_ENTRY_BYTES: Final = 24
"""The size of a batch's entry in an index: offset, last zxid and time."""

AnyBlock: TypeAlias = Block | RecordBlock


@frozen
class Span:
    """A stretch of one file of one member.

    `start` is the offset of a frame (native) or record (version-2), 0 for the beginning of the file; reading stops at
    `end`, None for the end of the file. Rows have zxids in (after, until] and times from `time_min` to `time_max`, in
    ms; None is no limit. With `visible`, pairs (epoch, zxid), only what is committed is shown: up to `mark`, and in
    each of these epochs up to the zxid."""

    ensemble: str
    member: str
    file: LogFile
    start: int = 0
    end: int | None = None
    after: int = 0
    until: int | None = None
    time_min: int | None = None
    time_max: int | None = None
    mark: int = 0
    visible: tuple[tuple[int, int], ...] | None = None

    @property
    def source(self) -> Source:
        return Source(self.ensemble, self.member, self.file.name)


def read_index(log: LogFile) -> BatchIndex | None:
    """The sidecar index of a native file; None if there is none that fits. Raises OSError."""
    if not log.has_index or log.previous is None:
        return None
    # An index with more entries than the file can hold is invalid, and must not be read as a whole.
    most = INDEX_HEADER_BYTES + INDEX_ENTRY_BYTES * (log.size // HEADER_BYTES + 1)
    return load_index(log.index.read(0, most), log.header_crc, log.size)


def _scan(span: Span, file: OpenFile, use_index: bool) -> "FrameScan | IndexScan | RecordScan":
    log = span.file
    end = file.size if span.end is None else min(span.end, file.size)
    at_start = span.start == 0
    if log.kind == "version-2":
        previous = log.first - 1 if at_start else None
        return RecordScan(file, end, previous, span.start or len(LOG_HEADER))
    previous = log.previous[0] if log.previous is not None and at_start else None
    if use_index and at_start and span.end is None:
        index = read_index(log)
        if index is not None:
            until = span.until if log.cutoff is None else min(log.cutoff, span.until or log.cutoff)
            return IndexScan(file, index, previous, span.after, until, span.time_min, span.time_max)
    return FrameScan(file, log.first, end, previous, log.is_newest, span.start or SEGMENT_HEADER_BYTES)


def blocks(span: Span, *, use_index: bool = True) -> Iterator[AnyBlock | Damage]:
    """Yield the blocks of the file between `after` and `until` (those at the edges have more), and its damage. With
    `use_index`, files with an index are read without their frame headers. A file that cannot be opened or read is
    Damage, too."""
    log = span.file
    if log.problem is not None:
        yield log.problem
    if not log.is_usable:
        return
    try:
        with log.place.open() as file:
            scan = _scan(span, file, use_index)
            for found in scan:
                if isinstance(found, Damage):
                    yield found
                    continue
                block, is_last = _within(span, found)
                if len(block):
                    yield block
                if is_last:
                    return
            if span.end is None and not isinstance(scan, IndexScan):
                yield from _end(log, scan)
    except OSError as error:
        yield Damage(0, None, UNREADABLE, f"the file cannot be read: {error.strerror or error}")


def _end(log: LogFile, scan: FrameScan | RecordScan) -> Iterator[Damage]:
    """Yield a gap if something is missing between the end of this file and the beginning of the next one."""
    last, following = scan.last, log.following
    if last is None or following is None or last >= following:
        return
    # In ZooKeeper's log, the first zxid of an epoch does not say what the last one of the epoch before was.
    is_new_epoch = log.kind == "version-2" and following & 0xFFFF_FFFF == 0
    if not is_new_epoch:
        reason = f"the next file goes on after zxid {following:#x}, this one ends with {last:#x}"
        yield Damage(scan.stop, scan.stop, GAP, reason)


def _within(span: Span, block: AnyBlock) -> tuple[AnyBlock, bool]:
    """The batches or records with zxids of the span, and whether all later ones are beyond it."""
    last = block.last
    first = block.first if isinstance(block, Block) else last
    keep = last > span.after
    limits = [limit for limit in (span.until, span.file.cutoff) if limit is not None]
    if limits:
        keep &= first <= min(limits)
    return block.only(keep), bool(limits) and bool(first[-1] > min(limits))


def transactions(span: Span, *, use_index: bool = True) -> Iterator[Transactions | Damage]:
    """Yield exactly the transactions of the span, and the damage in the file."""
    for found in whole_transactions(span, use_index=use_index):
        rows = found if isinstance(found, Damage) else shown(span, found)
        if isinstance(rows, Damage) or len(rows):
            yield rows


def whole_transactions(span: Span, *, use_index: bool = True) -> Iterator[Transactions | Damage]:
    """Yield the transactions with zxids of the span, whatever their times and `visible`, and the damage in the file.
    So if a zxid is missing between two rows, the log does not have it."""
    for found in blocks(span, use_index=use_index):
        if isinstance(found, Damage):
            yield found
            continue
        if isinstance(found, Block):
            rows, damage = decode_block(found)
        else:
            rows, damage = decode_records(found)
        yield from damage
        keep = rows.zxid > span.after
        for limit in (span.until, span.file.cutoff):
            if limit is not None:
                keep &= rows.zxid <= limit
        if keep.any():
            yield rows.only(keep)


def shown(span: Span, rows: Transactions) -> Transactions:
    """The rows that the span's times and `visible` select."""
    keep: Mask = np.ones(len(rows), dtype=np.bool_)
    if span.time_min is not None:
        keep &= rows.time_ms >= span.time_min
    if span.time_max is not None:
        keep &= rows.time_ms <= span.time_max
    if span.visible is not None:
        last = np.full(len(rows), span.mark, dtype=np.int64)
        for epoch, zxid in span.visible:
            last[rows.zxid >> 32 == epoch] = max(zxid, span.mark)
        keep &= rows.zxid <= last
    return rows.only(keep)


def batches(
    span: Span,
    columns: Sequence[str],
    *,
    on_damage: Callable[[Damage], None] | None = None,
    use_index: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the span with these columns of `schema.LOG`, at most some 16,384 rows at a time.

    `on_damage` is called with each damage in the file, before the rows after it; it may raise."""
    for found in transactions(span, use_index=use_index):
        if isinstance(found, Damage):
            if on_damage is not None:
                on_damage(found)
        else:
            yield from record_batches(found, span.source, columns)
