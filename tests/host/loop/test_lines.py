"""Lines without sockets: a client is a letter, for its address, and a number."""

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zab.host.loop.lines import Line


class Client(NamedTuple):
    host: str
    number: int


def clients(*names):
    return [Client(name[0], int(name[1:])) for name in names]


def line_of(*names):
    line = Line()
    for client in clients(*names):
        line.add(client)
    return line


def taken(line):
    return [f"{client.host}{client.number}" for client in line.take_first(1000)]


def test_addresses_are_served_in_turn():
    line = line_of("a1", "a2", "a3", "a4", "b1", "c1", "c2")
    assert taken(line) == ["a1", "b1", "c1", "a2", "c2", "a3", "a4"]
    assert not line.waiting
    with pytest.raises(KeyError):
        line.take()


def test_clients_of_an_address_are_served_as_they_came():
    assert taken(line_of("a3", "a1", "a2")) == ["a3", "a1", "a2"]


def test_newcomer_waits_for_one_of_each_address():
    line = line_of("a1", "a2", "a3", "b1", "b2")
    assert line.take() == Client("a", 1)
    line.add(Client("c", 1))
    assert taken(line) == ["b1", "a2", "c1", "b2", "a3"]


def test_who_was_served_goes_to_the_end_of_its_address():
    line = line_of("a1", "a2", "b1")
    line.add(line.take())
    assert taken(line) == ["b1", "a2", "a1"]


def test_who_waits_keeps_its_place():
    line = line_of("a1", "a2", "b1")
    line.add(Client("a", 1))
    assert taken(line) == ["a1", "b1", "a2"]


def test_who_leaves_is_not_served():
    line = line_of("a1", "b1", "b2")
    a1, b1, stranger = clients("a1", "b1", "c1")
    assert line.remove(a1)
    assert not line.remove(a1)
    assert not line.remove(stranger)
    assert line.remove(b1)
    assert taken(line) == ["b2"]


def test_so_many_are_taken_and_the_others_stay():
    line = line_of("a1", "a2", "b1")
    assert list(line.take_first(2)) == clients("a1", "b1")
    assert taken(line) == ["a2"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4), st.booleans()), max_size=60))
def test_each_is_served_once_and_nobody_waits_for_two_of_another_address(steps):
    """Clients come and leave. Between two of one address, at most one of each other address is served."""
    line, waiting = Line(), {}
    for host, number, comes in steps:
        client = Client(host, number)
        if comes:
            line.add(client)
            waiting[client] = None
        else:
            assert line.remove(client) == (client in waiting)
            waiting.pop(client, None)
    served = list(line.take_first(1000))
    assert sorted(served) == sorted(waiting)
    for address in {client.host for client in served}:
        places = [place for place, client in enumerate(served) if client.host == address]
        for first, second in pairwise(places):
            between = [client.host for client in served[first + 1 : second]]
            assert len(between) == len(set(between))
