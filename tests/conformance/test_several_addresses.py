"""Servers with several addresses, which reconfigurations add and take away: ours and the real ZooKeeper's.

Scenarios of ZooKeeper's QuorumPeerMainMultiAddressTest (docs/contributing/zookeeper-tests.md). What is asserted is so
of both.
"""

from __future__ import annotations

import pytest

from tests.rigs.growing import Growing, growing, grown
from zab.client.core.exceptions import BadArgumentsError
from zab.testing.kit.ports import free_ports

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.parametrize("kind", ["zab", pytest.param("zookeeper", marks=pytest.mark.longest)]),
]

NOBODY = "nobody.invalid"
"""A host that has no address (RFC 6761)."""


def at(servers: Growing, sid: int, *others: str) -> str:
    """The line of a server with these addresses besides its first."""
    return servers.line(sid).replace(":participant", "".join(f"|{other}" for other in others) + ":participant")


def another(host: str = "127.0.0.1") -> str:
    quorum, election = free_ports(2)
    return f"{host}:{quorum}:{election}"


def test_addresses_come_and_go_and_one_that_is_nobodys_does_no_harm(kind: str) -> None:
    lines_of_ours = {"quorum.insecure": "true"} if kind == "zab" else {}
    with growing(kind, {"multiAddress.enabled": "true"}, **lines_of_ours) as servers:
        second = {sid: another() for sid in (1, 2, 3)}
        lines = [at(servers, 1, second[1]), at(servers, 2, second[2]), at(servers, 3, another(NOBODY))]
        for sid in (1, 2, 3):
            servers.start(sid, *lines)
        servers.wait(1, 2, 3)
        servers.work(1, 2, 3)

        lines = [at(servers, 1, second[1], another()), at(servers, 2), at(servers, 3, second[3])]
        servers.reconfig(1, joining=",".join(lines))
        assert servers.show(lines, 1, 2, 3)
        servers.work(1, 2, 3)
        leader = servers.leader()
        servers.kill(leader)
        servers.work(*({1, 2, 3} - {leader}))
        servers.members[leader].start()
        servers.has_mode(leader, "follower")

        lines = [at(servers, 1, another()), at(servers, 2, another(), another()), at(servers, 3)]
        servers.reconfig(2, members=",".join(lines))
        servers.show(lines, 1, 2, 3)
        leader = servers.leader()
        servers.kill(leader)
        servers.work(*({1, 2, 3} - {leader}))


def test_where_it_is_off_a_line_with_two_is_refused(kind: str) -> None:
    with grown(kind, 3) as servers:
        with pytest.raises(BadArgumentsError):
            servers.reconfig(1, joining=at(servers, 1, another()))
        servers.show([servers.line(sid) for sid in (1, 2, 3)], 1, 2, 3)
        servers.work(1, 2, 3)
