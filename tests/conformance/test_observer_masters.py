"""An observer of a follower, its master, as processes: ours and the real ZooKeeper's.

Scenarios of ZooKeeper's ObserverMasterTest (docs/contributing/zookeeper-tests.md). What is asserted is so of both.
"""

from __future__ import annotations

import threading

import pytest

from tests.conformance.reattaching import EPHEMERAL, reattached
from tests.conformance.wire import Wire, create
from tests.rigs.growing import SESSION_MS, Growing, growing
from tests.rigs.waiting import until
from zab.client import State
from zab.client.sync import connect
from zab.testing.kit.ports import free_ports

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.parametrize("kind", ["zab", pytest.param("zookeeper", marks=pytest.mark.longest)]),
]

OBSERVER = 3
WRITES = 300


def written(servers: Growing, sid: int, path: str, seen: list[int]) -> None:
    """Write by way of this server, and note the zxids."""
    with connect(servers.members[sid].host, session_timeout_ms=SESSION_MS) as zk:
        for number in range(WRITES):
            _, stat = zk.create2(f"{path}/{number}")
            seen.append(stat.czxid)


@pytest.mark.long
def test_an_observer_serves_through_its_master_and_has_no_vote(kind: str) -> None:
    """Two participants: one leads, so the other one is the master."""
    [port] = free_ports(1)
    with growing(kind, observerMasterPort=port) as servers:
        # Each on an address of its own: all have the same port for observers.
        lines = [
            servers.line(sid, "observer" if sid == OBSERVER else "participant", host=f"127.0.0.{sid}")
            for sid in (1, 2, 3)
        ]
        for sid in (1, 2):
            servers.start(sid, *lines)
        servers.wait(1, 2)
        leader = servers.leader()
        master = 3 - leader
        # ZooKeeper's would follow a leader that is alone, and stay there.
        servers.start(OBSERVER, *lines)
        servers.has_mode(OBSERVER, "observer")
        until(lambda: servers.figure(OBSERVER, "observer_master_id") == str(master), "it follows its master")
        assert servers.figure(master, "synced_observers") == "1"
        assert servers.figure(leader, "synced_observers") == "0"

        hosts = [servers.members[sid].host for sid in (leader, OBSERVER)]
        with connect(hosts[0], session_timeout_ms=SESSION_MS) as at_leader, connect(hosts[1]) as zk:
            at_leader.create("/leader")
            zk.create("/observer")
            zk.set("/observer", b"through a master")
            zk.sync("/observer")
            assert zk.get("/observer")[0] == b"through a master"
            assert at_leader.get("/observer")[0] == b"through a master"

        # Many at once by both ways: each sees its own in order.
        seen: dict[str, list[int]] = {"/observer": [], "/leader": []}
        ways = {"/observer": OBSERVER, "/leader": leader}
        writers = [threading.Thread(target=written, args=(servers, ways[path], path, seen[path])) for path in seen]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        for path, zxids in seen.items():
            assert len(zxids) == WRITES, path
            assert zxids == sorted(set(zxids))
        assert not {*seen["/observer"]} & {*seen["/leader"]}
        with connect(hosts[1]) as zk:
            zk.sync("/leader")
            assert all(len(zk.get_children(path)) == WRITES for path in seen)

        # A session moves from the leader to the observer, which asks through its master whether it is there.
        with Wire(servers.members[leader].client_port) as wire:
            assert wire.ask(*create("/moved", flags=EPHEMERAL)).error == 0
            timeout_ms, is_same = reattached(servers.members[OBSERVER], wire)
            assert timeout_ms
            assert is_same

        with connect(",".join(hosts), session_timeout_ms=SESSION_MS) as zk:
            zk.create("/mine", ephemeral=True)
            session = zk.session_id
            servers.kill(master)
            until(lambda: zk.state is not State.CONNECTED, "nobody serves: the observer has no vote")
            for sid in (leader, OBSERVER):
                until(lambda sid=sid: servers.members[sid].mode() == "", "it serves nobody")  # type: ignore[misc]
            servers.members[master].start()
            servers.wait(leader, master, OBSERVER)
            assert zk.retrying().get("/mine")[1].ephemeral_owner == session
            assert zk.session_id == session
        servers.work(1, 2, 3)
