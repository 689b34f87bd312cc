"""Any records, as strategies of hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from zab.partition.records.record import Record

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
