"""The list of a ledger's entries as bytes: a published one, periods, and lists that lie."""

from __future__ import annotations

from itertools import pairwise
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ledger.wire.some_messages import RUNS
from zab.ledger.entries.ids import ID_MAX
from zab.ledger.wire.availability import RUNS_MAX, decode_runs, encode_runs
from zab.ledger.wire.frames import ProtocolError


def listed(*groups: tuple[int, int, int, int], count: int | None = None, version: int = 0) -> bytes:
    head = pack(">ii56x", version, len(groups) if count is None else count)
    return head + b"".join(pack(">qqii", *group) for group in groups)


def test_the_entries_0_1_2_and_5() -> None:
    groups = "0000000000000000" * 2 + "0000000300000000" + "0000000000000005" * 2 + "0000000100000000"
    blob = bytes.fromhex("0000000000000002" + 56 * "00" + groups)
    assert encode_runs(((0, 2), (5, 5))) == blob
    assert decode_runs(blob) == ((0, 2), (5, 5))
    assert decode_runs(encode_runs(())) == ()


@given(RUNS)
def test_runs_come_back(runs: tuple[tuple[int, int], ...]) -> None:
    assert decode_runs(encode_runs(runs)) == runs


def test_a_run_that_no_group_can_count_is_several() -> None:
    runs = ((3, 3 + (1 << 32)),)
    assert decode_runs(encode_runs(runs)) == runs


def test_a_period_repeats_its_group() -> None:
    assert decode_runs(listed((2, 10, 2, 4))) == ((2, 3), (6, 7), (10, 11))
    assert decode_runs(listed((0, 6, 3, 3))) == ((0, 8),)


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        listed()[:63],
        listed(version=1),
        listed(count=1),
        listed(count=-1),
        listed((0, 0, 1, 0), count=0),
        listed((0, 0, 1, 0))[:-1],
        listed((0, 0, 0, 0)),
        listed((-1, -1, 1, 0)),
        listed((5, 0, 1, 1)),
        listed((0, 5, 1, 0)),
        listed((0, 0, 1, 5)),
        listed((0, 5, 1, -5)),
        listed((0, 5, 1, 2)),
        listed((0, 8, 4, 2)),
        listed((5, 5, 1, 0), (2, 2, 1, 0)),
        listed((5, 5, 3, 0), (7, 7, 1, 0)),
        listed((ID_MAX, ID_MAX, 2, 0)),
    ],
)
def test_lists_that_lie_are_refused(blob: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"entries"):
        decode_runs(blob)


def test_a_few_bytes_do_not_become_many_runs() -> None:
    assert len(decode_runs(listed((0, 2 * RUNS_MAX - 2, 1, 2)))) == RUNS_MAX
    with pytest.raises(ProtocolError, match=r"more than"):
        decode_runs(listed((0, 2 * RUNS_MAX, 1, 2)))
    with pytest.raises(ProtocolError, match=r"more than"):
        decode_runs(listed((0, ID_MAX - 1, 1, 2)))


@given(st.binary(max_size=64), st.lists(st.tuples(*[st.integers(-2, 9)] * 4), max_size=4))
def test_any_bytes_are_runs_or_refused(junk: bytes, groups: list[tuple[int, int, int, int]]) -> None:
    for blob in (junk, listed(*groups)):
        try:
            runs = decode_runs(blob)
        except ProtocolError:
            continue
        assert all(first <= last for first, last in runs)
        assert all(one[1] + 1 < two[0] for one, two in pairwise(runs))
