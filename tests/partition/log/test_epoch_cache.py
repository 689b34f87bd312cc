"""Leader epochs: KIP-101 with KIP-279, and what is left after a cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.partition.log.epoch_cache import EpochCache


@pytest.mark.parametrize(
    ("epoch", "end"),
    [(3, (3, 25)), (2, (1, 20)), (1, (1, 20)), (0, (0, 10)), (4, (-1, -1)), (-1, (-1, -1))],
)
def test_end_offset_for(epoch, end):
    assert EpochCache([(0, 0), (1, 10), (3, 20)]).end_offset_for(epoch, 25) == end


def test_epoch_below_all_ends_where_the_first_begins():
    assert EpochCache([(2, 5)]).end_offset_for(1, 9) == (1, 5)
    assert EpochCache().end_offset_for(0, 9) == (-1, -1)


def test_epoch_0_is_an_epoch():
    """KAFKA-10432."""
    cache = EpochCache([(0, 0)])
    assert cache.latest == 0
    assert cache.end_offset_for(0, 7) == (0, 7)
    assert cache.epoch_of(3) == 0
    assert EpochCache().epoch_of(3) == -1


def test_s15_leaders_that_never_wrote_leave_the_newest_epoch():
    """KAFKA-7415: a follower with the middle epoch, or the one before, still learns where its log parts."""
    cache = EpochCache([(4, 0)])
    assert cache.assign(5, 10)
    assert cache.assign(6, 10)
    assert cache.entries == [(4, 0), (6, 10)]
    assert cache.end_offset_for(5, 10) == (4, 10)
    assert cache.end_offset_for(4, 10) == (4, 10)
    assert cache.end_offset_for(6, 10) == (6, 10)


def test_what_contradicts_a_new_epoch_goes():
    cache = EpochCache([(1, 0), (2, 10), (4, 20)])
    assert not cache.assign(4, 30), "it began earlier"
    assert cache.assign(4, 15)
    assert cache.entries == [(1, 0), (2, 10), (4, 15)]
    assert cache.assign(3, 12)
    assert cache.entries == [(1, 0), (2, 10), (3, 12)]
    assert cache.assign(9, 5)
    assert cache.entries == [(1, 0), (9, 5)]


def test_cut_at_the_end_and_at_the_start():
    """KAFKA-10706."""
    cache = EpochCache([(1, 0), (2, 10), (4, 20)])
    assert not cache.truncate_from_end(21)
    assert cache.truncate_from_end(20)
    assert cache.entries == [(1, 0), (2, 10)]
    assert not cache.truncate_from_start(0)
    assert cache.truncate_from_start(5)
    assert cache.entries == [(1, 5), (2, 10)]
    assert cache.truncate_from_start(10)
    assert cache.entries == [(2, 10)]
    assert cache.truncate_from_start(50)
    assert cache.entries == [(2, 50)]
    cache.clear()
    assert cache.latest == -1


@given(
    st.lists(st.tuples(st.sampled_from(["append", "end", "start"]), st.integers(0, 5), st.integers(0, 40)), max_size=40)
)
def test_it_is_what_the_batches_say(steps):
    """A list with the epoch of each offset, beside it."""
    cache, epochs, start = EpochCache(), {}, 0
    end, epoch = 0, 0
    for what, number, offset in steps:
        if what == "append":
            epoch += number
            cache.assign(epoch, end)
            for _ in range(3):
                epochs[end] = epoch
                end += 1
        elif what == "end" and start <= offset < end:
            end = offset
            epochs = {at: each for at, each in epochs.items() if at < end}
            cache.truncate_from_end(end)
            epoch += 1
        elif what == "start" and start < offset < end:
            start = offset
            epochs = {at: each for at, each in epochs.items() if at >= start}
            cache.truncate_from_start(start)
        assert {at: cache.epoch_of(at) for at in epochs} == epochs
        assert cache.entries == sorted({each: at for at, each in sorted(epochs.items(), reverse=True)}.items())
        for asked in range(-1, cache.latest + 2):
            found, until = cache.end_offset_for(asked, end)
            known = {each for each in epochs.values() if each <= asked}
            if asked in (-1, cache.latest + 1):
                assert (found, until) == (-1, -1)
            elif known:
                assert (found, until) == (max(known), 1 + max(at for at, each in epochs.items() if each == max(known)))
            elif epochs:
                assert (found, until) == (asked, start)
