"""Servers that leave, come back, move and change their roles, as processes: ours and the real ZooKeeper's.

Scenarios of ZooKeeper's ReconfigTest, ReconfigFailureCasesTest and StandaloneDisabledTest
(docs/contributing/zookeeper-tests.md). What is asserted is so of both, unless it is said.
"""

from __future__ import annotations

import contextlib
import socket

import pytest

from tests.rigs.growing import CLIENT, ELECTION, QUORUM, SESSION_MS, Growing, growing, grown
from tests.rigs.waiting import until
from zab.client.core.exceptions import BadArgumentsError, NewConfigNoQuorumError
from zab.client.sync import connect

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.parametrize("kind", ["zab", pytest.param("zookeeper", marks=pytest.mark.longest)]),
    pytest.mark.long,
]


def joined(*lines: str) -> str:
    return ",".join(lines)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def forget(servers: Growing, leader: int, followers: int) -> None:
    """Until the leader knows that no more than these follow it."""
    until(lambda: servers.figure(leader, "synced_followers") == str(followers), "the leader knows who is gone")


@pytest.mark.long
def test_five_become_three_and_five_again_and_groups_decide(kind: str) -> None:
    """Two leave while they are down, the leader among them. They come back, one as an observer, and hear of it by
    themselves. Then groups decide, and a majority again."""
    with grown(kind, 5) as servers:
        leader = servers.leader()
        other, one, two, three = sorted({1, 2, 3, 4, 5} - {leader})
        servers.kill(leader, other)
        servers.reconfig(one, leaving=f"{leader},{other}")
        remaining = [servers.line(sid) for sid in (one, two, three)]
        servers.show(remaining, one, two, three)

        # Of five, two would decide nothing.
        led = servers.leader()
        gone = next(sid for sid in (one, two, three) if sid != led)
        servers.kill(gone)
        up = [sid for sid in (one, two, three) if sid != gone]
        servers.show(remaining, *up)
        servers.work(*up)
        forget(servers, led, 1)
        back = joined(servers.line(leader), servers.line(other, "observer"))
        with pytest.raises(NewConfigNoQuorumError):
            servers.reconfig(up[0], joining=back)
        servers.show(remaining, *up)
        servers.members[gone].start()
        servers.wait(gone)
        servers.reconfig(up[0], joining=back)
        lines = [*remaining, servers.line(leader), servers.line(other, "observer")]
        servers.show(lines, one, two, three)

        for sid, mode in ((other, "observer"), (leader, "follower")):
            servers.members[sid].start()
            servers.has_mode(sid, mode)
        servers.work(gone, other, leader)
        servers.show(lines, 1, 2, 3, 4, 5)
        weighty_ones_decide(servers, led)


def weighty_ones_decide(servers: Growing, led: int) -> None:
    """Three weigh something, among them the leader; two of these go on alone. From groups one goes to a majority, and
    not step by step."""
    light = sorted({1, 2, 3, 4, 5} - {led})[:2]
    heavy = sorted({1, 2, 3, 4, 5} - {*light})
    groups = [
        f"group.1={':'.join(map(str, heavy))}",
        f"group.2={':'.join(map(str, light))}",
        *(f"weight.{sid}={int(sid in heavy)}" for sid in range(1, 6)),
    ]
    members = [servers.line(sid) for sid in range(1, 6)]
    servers.reconfig(led, members=joined(*groups, *members))
    servers.show([*members, *groups], 1, 2, 3, 4, 5)
    with pytest.raises(BadArgumentsError):
        servers.reconfig(led, leaving=str(heavy[0]))
    left = [sid for sid in heavy if sid != led]
    servers.kill(led, *light)
    servers.work(*left)
    for sid in (led, light[0]):
        servers.members[sid].start()
        servers.wait(sid)
    three = sorted({led, light[0], left[0]})
    servers.reconfig(light[0], members=joined(*(servers.line(sid) for sid in three)))
    servers.show([servers.line(sid) for sid in three], led, light[0])
    servers.kill(*left)
    servers.work(led, light[0])


def test_servers_move_to_other_ports(kind: str) -> None:
    """A client port, then a quorum port of the leader, then all election ports; and the leader ends."""
    with grown(kind, 3) as servers:
        leader = servers.leader()
        follower, other = sorted({1, 2, 3} - {leader})
        old_port = servers.ports(follower)[CLIENT]
        with connect(servers.members[follower].host, session_timeout_ms=SESSION_MS) as zk:
            zk.ensure_path("/test")
            session = zk.session_id
            servers.move(follower, CLIENT)
            zk.reconfig(joining=servers.line(follower))
            servers.members[follower].client_port = servers.ports(follower)[CLIENT]
            servers.wait(follower)
            until(lambda: not is_open(old_port), "the old port is closed")
            zk.set("/test", b"still connected")
            assert zk.session_id == session
        servers.work(follower, leader)

        servers.move(leader, QUORUM)
        servers.reconfig(leader, joining=servers.line(leader))
        until(lambda: is_open(servers.ports(leader)[QUORUM]) or servers.leader() != leader, "it listens there")
        servers.wait(1, 2, 3)
        servers.work(1, 2, 3)

        for sid in (1, 2, 3):
            servers.move(sid, ELECTION)
        servers.reconfig(other, joining=joined(*(servers.line(sid) for sid in (1, 2, 3))))
        lines = [servers.line(sid) for sid in (1, 2, 3)]
        servers.show(lines, 1, 2, 3)
        leader = servers.leader()
        servers.kill(leader)
        left = sorted({1, 2, 3} - {leader})
        servers.work(*left)
        servers.show(lines, *left)
        servers.members[leader].start()
        servers.has_mode(leader, "follower")
        servers.work(1, 2, 3)


@pytest.mark.long
def test_all_move_at_once_while_some_are_down(kind: str) -> None:
    """Five become three participants and an observer, on other ports; one who stays and one who leaves are down. Who
    stays finds the others where they are now, when its file is current."""
    with grown(kind, 5) as servers:
        leader = servers.leader()
        one, observer, down, leaving = sorted({1, 2, 3, 4, 5} - {leader})
        servers.kill(down, leaving)
        for sid in (leader, one, observer, down):
            servers.move(sid, QUORUM, ELECTION)
        lines = [servers.line(sid) for sid in (leader, one, down)] + [servers.line(observer, "observer")]
        servers.reconfig(one, members=joined(*lines))
        servers.show(lines, leader, one, observer)
        servers.has_mode(observer, "observer")
        servers.work(leader, one, observer)
        servers.kill(observer)
        servers.work(leader, one)
        servers.start(down, *lines)
        servers.has_mode(down, "follower")
        servers.show(lines, down)
        servers.work(leader, one, down)


def test_roles_change_there_and_back(kind: str) -> None:
    """The port of a follower, then of the former leader."""
    with grown(kind, 3) as servers:
        for _ in range(2):
            leader = servers.leader()
            changing = leader if _ else next(sid for sid in (1, 2, 3) if sid != leader)
            client = next(sid for sid in (1, 2, 3) if sid not in (changing, leader))
            servers.reconfig(client, joining=servers.line(changing, "observer"))
            servers.has_mode(changing, "observer")
            servers.work(changing, client)
            servers.reconfig(changing, joining=servers.line(changing))
            servers.has_mode(changing, "follower")
            servers.work(1, 2, 3)


def test_an_observer_becomes_a_participant_whose_vote_is_needed_at_once(kind: str) -> None:
    """One of three participants is down. ZooKeeper does not count an observer, so it has to leave first (D124)."""
    with growing(kind) as servers:
        own = [servers.line(sid) for sid in (1, 2, 3)]
        lines = [*own, servers.line(4, "observer")]
        for sid in (2, 3, 4):
            servers.start(sid, *lines)
        if kind == "zab":
            servers.start(1, *lines)
            servers.wait(1)
        servers.wait(2, 3, 4)
        servers.kill(*({1} & servers.members.keys()))
        servers.has_mode(4, "observer")
        wanted = [*own, servers.line(4)]
        try:
            servers.reconfig(2, members=joined(*wanted))
            refused = False
        except NewConfigNoQuorumError:
            refused = True
        assert refused == (kind == "zookeeper")


def test_one_server_alone_grows_and_shrinks_to_one_again(kind: str) -> None:
    with growing(kind, standaloneEnabled="false") as servers:
        servers.start(1, servers.line(1))
        servers.wait(1)
        servers.has_mode(1, "leader")
        for sid in (2, 3):
            servers.start(sid, *(servers.line(each) for each in (1, 2, 3)))
        servers.wait(2, 3)
        servers.reconfig(1, joining=joined(servers.line(2), servers.line(3)))
        servers.show([servers.line(sid) for sid in (1, 2, 3)], 1, 2, 3)
        servers.work(1, 2, 3)

        servers.kill(1)
        servers.work(2, 3)
        forget(servers, servers.leader(), 1)
        with pytest.raises(NewConfigNoQuorumError):
            servers.reconfig(2, leaving="3")
        servers.reconfig(3, leaving="1,2")
        servers.show([servers.line(3)], 3)
        servers.kill(2)
        servers.has_mode(3, "leader")
        with pytest.raises(BadArgumentsError):
            servers.reconfig(3, leaving="3")

        for sid in (4, 5):
            servers.start(sid, servers.line(3), servers.line(sid))
        servers.wait(4, 5)
        servers.reconfig(3, joining=joined(servers.line(4), servers.line(5)))
        servers.work(3, 4, 5)
        observers = [servers.line(sid, "observer") for sid in (4, 5)]
        servers.reconfig(3, joining=joined(*observers))
        servers.show([servers.line(3), *observers], 3, 4, 5)
        servers.work(3, 4, 5)


def test_an_observer_alone_does_not_start(kind: str) -> None:
    with growing(kind, standaloneEnabled="false") as servers:
        member = servers.start(4, servers.line(4, "observer"))
        until(lambda: not member.running, "it ends")
        with contextlib.suppress(OSError):
            assert not is_open(member.client_port)
