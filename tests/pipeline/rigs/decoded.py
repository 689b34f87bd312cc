"""Transactions in columns, as the readers of either kind of log make them, without files."""

from __future__ import annotations

from collections.abc import Sequence

from datatree.record import Txn
from tests.pipeline.rigs.log_builder import Bytes, NativeFile, in_batches, version2_bytes
from zab.pipeline.decoding.native_log import Block, FrameScan
from zab.pipeline.decoding.native_rows import decode_block
from zab.pipeline.decoding.transactions import Transactions
from zab.pipeline.decoding.version2_log import RecordBlock, RecordScan
from zab.pipeline.decoding.version2_rows import decode_records

__all__ = ["transactions"]

_WINDOW_BYTES = 4096


def transactions(txns: Sequence[Txn], *, is_native: bool = True, with_lists: bool = True) -> list[Transactions]:
    """Window by window. with_lists: closeSessions say what they deleted."""
    if not txns:
        return []
    found = list(_native(txns) if is_native else _version2(txns))
    assert sum(map(len, found)) == len(txns)
    if not with_lists:
        for rows in found:
            rows.closed = dict.fromkeys(rows.closed)
    return found


def _native(txns: Sequence[Txn]) -> list[Transactions]:
    data = NativeFile.build(in_batches(txns, 3, 1, 5)).data
    scan = FrameScan(Bytes(data), txns[0].zxid, len(data), is_newest=True, window_bytes=_WINDOW_BYTES)
    blocks = list(scan)
    return [decode_block(block)[0] for block in blocks if isinstance(block, Block)]


def _version2(txns: Sequence[Txn]) -> list[Transactions]:
    data = version2_bytes(txns)
    blocks = list(RecordScan(Bytes(data), len(data), None, window_bytes=_WINDOW_BYTES))
    return [decode_records(block)[0] for block in blocks if isinstance(block, RecordBlock)]
