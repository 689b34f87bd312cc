"""The connection string, and the order in which servers are tried."""

from random import Random

import pytest

from zab.client.core.hosts import Host, HostOrder, parse_hosts


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
    def taken(seed: int) -> list[Host]:
        ring = order(6, seed)
        return [ring.next() for _ in range(6)]

    assert taken(1) == taken(1)
    assert len({tuple(taken(seed)) for seed in range(20)}) > 1


def test_preferred_host_comes_next() -> None:
    ring = order(4)
    hosts = [ring.next() for _ in range(4)]
    ring.prefer(hosts[2])
    assert ring.next() == hosts[2]
