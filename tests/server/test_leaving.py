"""Real members that a change removes: they go on without a vote, with any leader, until they are ended."""

from __future__ import annotations

import pytest

from tests.rigs.growing import Growing, grown
from tests.rigs.waiting import until
from zab.client.sync import connect

pytestmark = pytest.mark.slow


def leads_next(servers: Growing, left: int) -> int:
    """The server that leads those that stay."""
    return until(lambda: next((s for s, m in servers.members.items() if s != left and m.mode() == "leader"), None))


def serves(servers: Growing, sid: int) -> None:
    until(lambda: servers.members[sid].mode(), f"server {sid} serves")
    with connect(servers.members[sid].host) as zk:
        zk.retrying().sync("/")


def test_a_leader_that_leaves_follows_the_next_one() -> None:
    with grown("zab", 3) as servers:
        left = servers.leader()
        servers.reconfig(left, leaving=str(left))
        leads_next(servers, left)
        serves(servers, left)


def test_one_that_has_left_follows_each_next_leader() -> None:
    with grown("zab", 3) as servers:
        first = servers.leader()
        left, heir = sorted({1, 2, 3} - {first})
        servers.reconfig(first, leaving=str(left))
        serves(servers, left)
        with connect(servers.members[first].host) as zk:
            zk.hand_over(heir)
        until(lambda: servers.members[heir].mode() == "leader", f"server {heir} leads")
        serves(servers, left)
