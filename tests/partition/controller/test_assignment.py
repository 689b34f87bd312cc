"""Which brokers get the replicas of new partitions."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.partition.controller.assignment import alternating, assign
from zab.partition.controller.znodes import Broker


class Fixed:
    """A random source whose numbers are known: start and shift."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def randrange(self, stop):
        return self.numbers.pop(0) % stop


def brokers(count, racks=None):
    return [Broker(each, ("PLAINTEXT://h:1",), rack=racks[each] if racks else None) for each in range(count)]


def test_the_example_of_kafkas_documentation():
    """AdminUtils: five brokers, ten partitions, three replicas."""
    found = assign(brokers(5), 10, 3, Fixed(0, 0))
    assert found == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
        7: (2, 4, 0),
        8: (3, 0, 1),
        9: (4, 1, 2),
    }


def test_the_example_with_racks():
    """AdminUtils: brokers 0 … 5 in three racks become the order 0, 3, 1, 5, 4, 2."""
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert alternating(racks) == [0, 3, 1, 5, 4, 2]
    found = assign(brokers(6, racks), 7, 3, Fixed(0, 0))
    assert found == {
        0: (0, 3, 1),
        1: (3, 1, 5),
        2: (1, 5, 4),
        3: (5, 4, 2),
        4: (4, 2, 0),
        5: (2, 0, 3),
        6: (0, 4, 2),
    }


def test_the_numbers_of_added_partitions_go_on():
    assert set(assign(brokers(3), 2, 2, Fixed(0, 0), 4)) == {4, 5}


@pytest.mark.parametrize("factor", [0, 4])
def test_there_are_not_more_replicas_than_brokers(factor):
    with pytest.raises(ValueError, match="replicas"):
        assign(brokers(3), 1, factor, Random(1))


def test_racks_are_ignored_where_some_brokers_have_none():
    some = brokers(3, {0: "a", 1: "b", 2: None})
    assert assign(some, 3, 2, Fixed(0, 0)) == assign(brokers(3), 3, 2, Fixed(0, 0))


@given(st.integers(1, 7), st.integers(1, 30), st.data())
def test_replicas_are_different_brokers_and_leaders_are_spread(count, partitions, data):
    factor = data.draw(st.integers(1, count))
    names = data.draw(st.none() | st.lists(st.sampled_from("abc"), min_size=count, max_size=count))
    found = assign(brokers(count, names), partitions, factor, Random(data.draw(st.integers())))
    assert sorted(found) == list(range(partitions))
    for replicas in found.values():
        assert len(set(replicas)) == len(replicas) == factor
        if names:
            racks = Counter(names[each] for each in replicas)
            assert len(racks) == min(factor, len(set(names))), "all racks have one before one has two"
    leads = Counter(replicas[0] for replicas in found.values())
    assert max(leads.values()) - min(leads.get(each, 0) for each in range(count)) <= 1
