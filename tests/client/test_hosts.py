"""The connection string, and the order in which servers are tried."""

from random import Random

import pytest

from zab.client.core.hosts import Host, HostOrder, Place, parse_hosts


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("localhost", [("localhost", 2181)], ""),
        ("a:1,b:2", [("a", 1), ("b", 2)], ""),
        (" a:1 , b ", [("a", 1), ("b", 2181)], ""),
        ("a:1,b:2/app/one", [("a", 1), ("b", 2)], "/app/one"),
        ("a:1/", [("a", 1)], ""),
        ("[::1]:2182,[fe80::1]", [("::1", 2182), ("fe80::1", 2181)], ""),
    ],
)
def test_connection_string(text: str, hosts: list[tuple[str, int]], chroot: str) -> None:
    assert parse_hosts(text) == (tuple(Host(*host) for host in hosts), chroot)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no server"),
        ("/app", "no server"),
        ("a:x", "not a port"),
        ("a:0", "not a port"),
        ("a:65536", "not a port"),
        (":2181", "names no server"),
        ("a\0b:2181", "names no server"),
        ("::1", "in brackets"),
        ("[::1", "not \\[IPv6"),
        ("[::1]2181", "not \\[IPv6"),
        ("a:1/app/", "not a path"),
        ("a:1//app", "not a path"),
    ],
)
def test_malformed_connection_string(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_hosts(text)


def test_hosts_print_as_they_are_written() -> None:
    assert [str(Host("a", 1)), str(Host("::1", 2))] == ["a:1", "[::1]:2"]


def order(count: int, seed: int = 0) -> HostOrder:
    return HostOrder([Host(f"h{number}", 1) for number in range(count)], Random(seed))


def test_every_host_is_tried_once_in_each_round() -> None:
    ring = order(5)
    first = [ring.next() for _ in range(5)]
    assert len(set(first)) == 5
    assert ring.tried_all
    assert [ring.next() for _ in range(5)] == first


def test_a_round_is_complete_again_only_after_all_hosts() -> None:
    ring = order(2)
    ring.next()
    assert not ring.tried_all
    ring.next()
    assert ring.tried_all
    ring.next()
    assert not ring.tried_all


def test_settling_starts_a_new_round_behind_the_host_that_settled() -> None:
    ring = order(3)
    first = ring.next()
    ring.settle()
    assert not ring.tried_all
    assert [ring.next() for _ in range(3)][-1] == first


def test_order_depends_on_the_randomness_alone() -> None:
    def taken(seed: int) -> list[Place]:
        ring = order(6, seed)
        return [ring.next() for _ in range(6)]

    assert taken(1) == taken(1)
    assert len({tuple(taken(seed)) for seed in range(20)}) > 1


def test_preferred_host_comes_next() -> None:
    ring = order(4)
    hosts = [ring.next() for _ in range(4)]
    ring.prefer(hosts[2])
    assert ring.next() == hosts[2]


NAME = Host("name", 1)


def resolved(ring: HostOrder, *addresses: str) -> str | None:
    """The next place, after its name was resolved."""
    place = ring.next()
    return place.address if place.address is not None else ring.found(addresses).address


def test_each_address_of_a_name_is_a_server_and_names_are_resolved_in_each_round() -> None:
    for seed in range(20):
        ring = HostOrder([NAME], Random(seed))
        assert {resolved(ring, "a", "b", "c"), resolved(ring), resolved(ring)} == {"a", "b", "c"}
        assert ring.tried_all
        assert len(ring) == 3
        assert {resolved(ring, "c", "d"), resolved(ring)} == {"c", "d"}
        assert resolved(ring, "e") is None, "a name that stands for one address is that server"


def test_the_addresses_of_a_name_are_shuffled_and_the_one_that_was_lost_comes_last() -> None:
    firsts = set()
    for seed in range(20):
        ring = HostOrder([NAME], Random(seed))
        first = resolved(ring, "a", "b", "c")
        firsts.add(first)
        ring.settle()
        assert first == [resolved(ring, "a", "b", "c"), resolved(ring), resolved(ring)][-1]
    assert firsts == {"a", "b", "c"}


def test_other_names_have_their_turn_between_two_rounds_of_addresses() -> None:
    ring = HostOrder([NAME, Host("b", 1)], Random(0))
    places = []
    for _ in range(3):
        place = ring.next()
        places.append(ring.found(["1", "2"]) if place == Place(NAME) else place)
    assert {*places} == {Place(NAME, "1"), Place(NAME, "2"), Place(Host("b", 1))}
    ring.settle()
    assert ring.next().host != places[-1].host


def test_a_preferred_address_comes_next_though_its_name_is_resolved_anew() -> None:
    for seed in range(10):
        ring = HostOrder([NAME, Host("b", 1)], Random(seed))
        while ring.next().host != NAME:
            pass
        ring.found(["1", "2", "3"])
        ring.settle()
        while (other := ring.other()).address is None:
            pass
        ring.prefer(other)
        assert ring.next() == Place(NAME)
        assert ring.found(["3", "2", "1"]) == other


def test_who_is_probed_is_what_the_name_stands_for_now() -> None:
    ring = HostOrder([NAME, Host("b", 1)], Random(0))
    asked = []
    for addresses in (["1"], ["1"], ["2"], ["2", "1"], ["2", "1"], ["1", "3"], ["1", "3"], ["1", "3"]):
        while (other := ring.other()).host != NAME:
            pass
        asked.append(ring.found_other(other, addresses).address)
    assert asked == [None, None, None, "1", "2", "1", "3", "1"]
    assert len(ring) == 3
    assert ring.next().host in (NAME, Host("b", 1))


def test_a_place_says_which_address_it_is() -> None:
    assert [str(Place(NAME)), str(Place(NAME, "10.0.0.1"))] == ["name:1", "name:1 (10.0.0.1)"]
