"""Records to make batches of: a few by hand, and strategies for any."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

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

contents = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
times = st.integers(0, 2**62)


@st.composite
def record_lists(draw: st.DrawFn, *, consecutive: bool = False) -> list[Record]:
    """One to eight records with offsets that rise."""
    count = draw(st.integers(1, 8))
    first = draw(st.integers(0, 2**40))
    offsets = [first + index for index in range(count)]
    if not consecutive:
        steps = draw(st.lists(st.integers(1, 2**20), min_size=count, max_size=count))
        offsets = [first + sum(steps[:index]) for index in range(count)]
    return [Record(offset, draw(times), draw(contents), draw(contents), draw(headers)) for offset in offsets]
