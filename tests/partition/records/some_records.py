"""Some records to make batches of."""

from __future__ import annotations

from typing import Final

from zab.partition.records.record import Record

NOW_MS: Final = 1_700_000_000_000

MIXED: Final = [
    Record(0, NOW_MS, b"k", b"hello", (("h", b"hv"),)),
    Record(1, NOW_MS - 5, None, b"", ()),
    Record(2, NOW_MS + 100_000, b"", None, (("", None), ("grün", b""), ("h", b"\xff" * 70))),
    Record(3, NOW_MS, b"k" * 200, b"v" * 20_000, ()),
]
"""Null and empty keys and values, headers, times that go back, lengths whose varints have one to three bytes."""

TWO: Final = [Record(0, NOW_MS, b"key", b"value", (("h", b"v"), ("n", None))), Record(1, NOW_MS + 1, None, None, ())]
