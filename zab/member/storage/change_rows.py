"""Makes the rows of a page of changes from batches, in the loop or in the worker that reads the log.

A place is (zxid, part), as in `datatree.txn_changes`; rows are in the order of their places. A row has the path, by
which `change_feed` decides whether a client may see it, and its bytes ready to be sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from datatree.log.batch import Batch
from datatree.paths import ROOT
from datatree.record import decode_all
from datatree.txn_changes import WHOLE, changes_of
from zab.jute.change_pages import change_bytes

Place: TypeAlias = tuple[int, int]
Row: TypeAlias = tuple[int, int, bytes, bytes]
"""zxid, part, path, and the bytes of the change."""


def rows_of(batch: Batch, prefix: bytes = ROOT) -> list[Row]:
    """The changes of a batch at the path `prefix` and below it. Raises RecordError."""
    return [
        (txn.zxid, change[1], change[2], change_bytes(txn.zxid, txn.time, txn.session, change))
        for txn in decode_all(batch.body, batch.first, batch.count)
        for change in changes_of(txn)
        if is_within(change[2], prefix)
    ]


def is_within(path: bytes, prefix: bytes) -> bool:
    """Whether `path` is `prefix` or below it."""
    return prefix == ROOT or (path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in (b"", b"/"))


def gather(
    found: Iterable[tuple[int, list[Row]]], after: Place, prefix: bytes, bytes_max: int
) -> tuple[list[Row], Place]:
    """The rows within `prefix` and after the place `after`, at least one if there is any, then up to `bytes_max`; and
    the place up to which there are no others. `found` has the last zxid and the rows of each batch."""
    rows: list[Row] = []
    size, place = 0, after
    for zxid, candidates in found:
        for row in candidates:
            if row[:2] > after and is_within(row[2], prefix):
                size += len(row[3])
                if rows and size > bytes_max:
                    return rows, rows[-1][:2]
                rows.append(row)
        place = zxid, WHOLE
    return rows, place


def start_of(place: Place) -> int:
    """The zxid after which to read to get what follows a place. For a place within a transaction, the transaction is
    read again."""
    zxid, part = place
    return zxid if part == WHOLE else zxid - 1


def is_known(place: Place, floor: int, batches: Sequence[Batch]) -> bool:
    """Whether a history has the zxid of a place: `floor` is its batch end at or below `start_of`; `batches` follow."""
    zxid = place[0]
    return zxid == floor or bool(batches and batches[0].first <= zxid)
