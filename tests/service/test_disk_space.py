"""Room on disks: the levels and the reserve, and what members do with little of it, from disk to client."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from datatree.errors import ErrorCode
from datatree.log.transaction_log import RESERVE
from datatree.opcodes import OpCode
from datatree.requests import OPEN_ACL, Create, Multi, PathVersion, SetData
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import TICK_MS, Ensemble, Server
from zab.member.requests.growing_writes import PARTS_MAX, needs_room
from zab.member.state.waiting import why_not_serving
from zab.member.words.figures import figures
from zab.protocol.states import LEADING, LOOKING
from zab.service.disk_space import AMPLE, EXHAUSTED, LOW, DiskSpace, Space, make_room, room_bytes
from zab.simulator.world.disk import FaultyDisk

LOW_BYTES = 50_000
RESERVE_BYTES = 20_000
LINES = {"diskLowBytes": LOW_BYTES, "diskReserveBytes": RESERVE_BYTES, "preAllocSize": 0}


def leave(disk: FaultyDisk, room: int) -> None:
    """So much is free on the disk from now on."""
    disk.capacity_bytes -= disk.free_bytes() - room


def space_of(room: int) -> tuple[FaultyDisk, DiskSpace]:
    disk = FaultyDisk()
    leave(disk, room)
    return disk, DiskSpace(disk, LOW_BYTES, RESERVE_BYTES)


# ----------------------------------------------------------------------------------------------- levels and the reserve


def test_a_disk_with_room_gets_a_reserve() -> None:
    disk, space = space_of(LOW_BYTES + RESERVE_BYTES)
    assert space.look() is None
    assert disk.size(RESERVE) == RESERVE_BYTES
    assert space.level is AMPLE


def test_a_disk_without_room_for_a_reserve_is_low_from_the_start() -> None:
    disk, space = space_of(LOW_BYTES + RESERVE_BYTES - 1)
    assert space.look() is LOW
    assert not disk.exists(RESERVE)


def test_the_reserve_is_given_up_when_less_than_the_limit_is_free() -> None:
    disk, space = space_of(1 << 20)
    space.look()
    leave(disk, LOW_BYTES)
    assert space.look() is None
    leave(disk, LOW_BYTES - 1)
    assert space.look() is LOW
    assert disk.free_bytes() == LOW_BYTES - 1 + RESERVE_BYTES


def test_each_level_is_left_with_more_than_it_is_entered_with() -> None:
    disk, space = space_of(RESERVE_BYTES // 4)
    seen: list[Space | None] = []
    for room in (
        *(RESERVE_BYTES // 4, RESERVE_BYTES // 4 - 1, RESERVE_BYTES // 2 - 1, RESERVE_BYTES // 2),
        *(2 * LOW_BYTES + RESERVE_BYTES - 1, 2 * LOW_BYTES + RESERVE_BYTES),
    ):
        leave(disk, room)
        seen.append(space.look())
    assert seen == [LOW, EXHAUSTED, None, LOW, None, AMPLE]
    assert disk.size(RESERVE) == RESERVE_BYTES


def test_one_look_may_pass_a_level() -> None:
    disk, space = space_of(0)
    assert space.look() is EXHAUSTED
    leave(disk, 1 << 20)
    assert space.look() is AMPLE


def test_somebody_else_may_be_faster_to_fill_the_disk() -> None:
    disk, space = space_of(1 << 20)
    disk.fail_after(1, errno.ENOSPC)
    assert space.look() is LOW
    assert not disk.exists(RESERVE)


def test_another_error_of_the_disk_is_no_want_of_room() -> None:
    disk, space = space_of(1 << 20)
    disk.fail_after(1, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        space.look()


def test_much_that_was_written_is_a_reason_to_look() -> None:
    _, space = space_of(1 << 20)
    assert [space.wrote(RESERVE_BYTES // 8) for _ in range(2)] == [False, True]
    space.look()
    assert not space.wrote(1)


def test_without_a_limit_there_is_always_room_and_no_reserve() -> None:
    disk = FaultyDisk()
    leave(disk, 0)
    space = DiskSpace(disk, 0, RESERVE_BYTES)
    assert not space.wrote(1 << 30)
    assert space.look() is None
    assert room_bytes(0, RESERVE_BYTES) == 0


def test_a_start_on_a_full_disk_gives_up_the_reserve_first() -> None:
    disk, space = space_of(1 << 20)
    space.look()
    make_room(disk, LOW_BYTES)
    assert disk.exists(RESERVE)
    leave(disk, 0)
    make_room(disk, LOW_BYTES)
    assert disk.free_bytes() == RESERVE_BYTES


# ----------------------------------------------------------------------------------------------- which writes need room

CREATE = Create(b"/a", b"", OPEN_ACL, 0)
DELETE = PathVersion(b"/a", -1)
SET = SetData(b"/a", b"", -1)


def needs(opcode: OpCode, body: Any) -> bool:
    return needs_room(int(opcode), b"12345678" + body.encode(), 8)


def test_what_makes_the_state_larger_needs_room() -> None:
    assert needs(OpCode.CREATE, CREATE)
    assert needs(OpCode.SET_DATA, SET)
    assert not needs(OpCode.DELETE, DELETE)
    assert not needs_room(int(OpCode.CLOSE_SESSION), b"")
    assert not needs_room(int(OpCode.CREATE_SESSION), b"")


def test_a_multi_needs_room_if_one_of_its_parts_does() -> None:
    deletes = ((OpCode.DELETE, DELETE), (OpCode.CHECK, DELETE))
    assert not needs(OpCode.MULTI, Multi(deletes))
    assert needs(OpCode.MULTI, Multi((*deletes, (OpCode.SET_DATA, SET))))
    assert not needs(OpCode.MULTI, Multi(deletes * (PARTS_MAX // 2)))
    assert needs(OpCode.MULTI, Multi((*deletes * (PARTS_MAX // 2), deletes[0]))), "it is not looked through"
    assert not needs_room(int(OpCode.MULTI), b"\x00\x00"), "it is refused for what it is"


# ------------------------------------------------------------------------------------------------------------ ensembles


def look(ensemble: Ensemble) -> None:
    """A tick: every member checks its disk, and reports the level."""
    ensemble.advance(2 * TICK_MS)


def create(client: Client, path: bytes) -> bytes:
    return client.request(OpCode.CREATE, Create(path, b"x", OPEN_ACL, 0).encode())


def delete(client: Client, path: bytes) -> bytes:
    return client.request(OpCode.DELETE, PathVersion(path, -1).encode())


def errors(ensemble: Ensemble, client: Client, *requests: bytes) -> list[int]:
    return [error for _, error, _ in ensemble.do(client, *requests)]


def fill(server: Server) -> None:
    """A little less than it wants is free on its disk."""
    leave(server.disk, LOW_BYTES - 1)


def test_ensemble_goes_on_without_a_follower_whose_disk_is_full() -> None:
    ensemble = Ensemble(3, **LINES)
    follower, leader = ensemble.follower, ensemble.leader
    client = ensemble.session(leader)
    fill(follower)
    look(ensemble)
    assert errors(ensemble, client, create(client, b"/a")) == [0]
    assert not follower.member.serving
    assert any("the disk is nearly full" in trace for trace in follower.traces)
    logged = follower.storage.log.last
    look(ensemble)
    assert errors(ensemble, client, create(client, b"/b")) == [0]
    assert follower.storage.log.last == logged, "it logs nothing that is not needed"
    leave(follower.disk, 1 << 20)
    look(ensemble)
    look(ensemble)
    assert follower.member.serving
    assert follower.value(b"/b") == b"x"


def test_leader_with_a_full_disk_hands_over_and_every_write_goes_on() -> None:
    ensemble = Ensemble(3, **LINES)
    before = ensemble.leader
    fill(before)
    look(ensemble)
    look(ensemble)
    after = ensemble.leader
    assert after is not before
    client = ensemble.session(after)
    assert errors(ensemble, client, create(client, b"/a")) == [0]
    assert before.member.peer.state is not LEADING


def short() -> tuple[Ensemble, Client, Client]:
    """All disks are nearly full, one after the other: a client of the leader and one of a follower; /a and /b are
    there."""
    ensemble = Ensemble(3, **LINES)
    leader = ensemble.leader
    client = ensemble.session(leader)
    assert errors(ensemble, client, create(client, b"/a"), create(client, b"/b")) == [0, 0]
    for server in (*ensemble.others(leader), leader):
        fill(server)
        look(ensemble)
    ensemble.start()
    assert ensemble.leader is leader
    return ensemble, client, ensemble.session(ensemble.follower)


def test_without_a_quorum_with_room_writes_are_refused_and_the_rest_goes_on() -> None:
    ensemble, *clients = short()
    logged = ensemble.leader.storage.log.last
    for client in clients:
        multi = client.request(OpCode.MULTI, Multi(((1, Create(b"/m", b"", OPEN_ACL, 0)),)).encode())
        asked = (create(client, b"/c"), multi, client.get(b"/a"))
        assert errors(ensemble, client, *asked) == [ErrorCode.QUOTAEXCEEDED, ErrorCode.QUOTAEXCEEDED, 0]
    assert ensemble.leader.storage.log.last == logged, "refusals take no room"
    for client, path in zip(clients, (b"/a", b"/b"), strict=True):
        assert errors(ensemble, client, delete(client, path)) == [0]
    newcomer = ensemble.session(ensemble.follower)
    close = newcomer.request(OpCode.CLOSE_SESSION, b"")
    assert errors(ensemble, newcomer, close) == [0]
    assert ensemble.leader.member.metrics.writes_without_room_count == 2


def gauges(server: Server) -> dict[str, object]:
    names = ("disk_space", "disk_reserve_given_up", "writes_refused_for_room", "members_without_room")
    return {figure.name: figure.value for figure in figures(server.member.view) if figure.name in names}


def test_room_is_seen_in_the_numbers_of_a_member() -> None:
    ensemble = Ensemble(3, **LINES)
    leader, follower = ensemble.leader, ensemble.follower
    roomy = {"disk_space": 2, "disk_reserve_given_up": 0, "writes_refused_for_room": 0}
    assert gauges(follower) == roomy
    assert gauges(leader) == {**roomy, "members_without_room": 0}
    fill(follower)
    look(ensemble)
    look(ensemble)
    assert not follower.member.serving
    assert gauges(leader) == {**roomy, "members_without_room": 1}, "seen before any write is refused"
    ensemble, *_ = short()
    refusing = {"disk_space": 1, "disk_reserve_given_up": 1, "writes_refused_for_room": 1}
    assert gauges(ensemble.follower) == refusing
    assert gauges(ensemble.leader) == {**refusing, "members_without_room": 3}
    for server in ensemble.servers.values():
        leave(server.disk, 1 << 20)
    look(ensemble)
    look(ensemble)
    assert gauges(ensemble.leader) == {**roomy, "members_without_room": 0}


def test_a_member_that_its_disk_keeps_from_serving_says_so_in_place_of_what_the_election_lacks() -> None:
    ensemble = Ensemble(3, **LINES)
    follower = ensemble.follower
    fill(follower)
    look(ensemble)
    look(ensemble)
    assert why_not_serving(follower.member.peer) == (
        "no service: this member's disk is nearly full, and it waits while others have room; it is not synchronized "
        f"with server {ensemble.leader.sid} yet, which is to lead"
    )
    leave(follower.disk, 0)
    look(ensemble)
    full = "this member's disk is full, and it takes part in nothing until there is room"
    assert why_not_serving(follower.member.peer) == f"no service: {full}"
    assert [figure.value for figure in figures(follower.member.view) if figure.name == "waits_for"] == [full]
    leave(follower.disk, 1 << 20)
    look(ensemble)
    ensemble.start()
    assert not [figure for figure in figures(follower.member.view) if figure.name == "waits_for"]


def test_when_all_disks_fill_at_once_somebody_leads_all_the_same() -> None:
    ensemble = Ensemble(3, **LINES)
    client = ensemble.session(ensemble.leader)
    assert errors(ensemble, client, create(client, b"/a")) == [0]
    for server in ensemble.servers.values():
        fill(server)
    look(ensemble)
    ensemble.start()
    for server in ensemble.servers.values():
        client = ensemble.session(server)
        assert errors(ensemble, client, create(client, b"/b"), client.get(b"/a")) == [ErrorCode.QUOTAEXCEEDED, 0]


def test_the_first_write_after_an_election_finds_out_that_no_disk_has_room() -> None:
    ensemble = Ensemble(3, start=False, **LINES)
    for server in ensemble.servers.values():
        fill(server)
    clients: list[Client] = []
    step = ensemble.step

    def at_once(server: Server) -> None:
        step(server)
        if server.member.serving and server.member.peer.state is LEADING and not clients:
            clients.append(ensemble.client(server))
            clients[0].say(clients[0].connect_request() + create(clients[0], b"/a"))

    ensemble.step = at_once  # type: ignore[method-assign]
    ensemble.start()
    [client] = clients
    assert [error for _, error, _ in client.replies()] == [ErrorCode.QUOTAEXCEEDED]


def test_refusals_for_want_of_room_are_audited() -> None:
    ensemble = Ensemble(1, audit__enable="true", **LINES)
    client = ensemble.session()
    fill(ensemble.leader)
    look(ensemble)
    change = client.request(OpCode.SET_DATA, SetData(b"/zookeeper", b"x" * 1000, -1).encode())
    assert errors(ensemble, client, create(client, b"/a"), change) == [ErrorCode.QUOTAEXCEEDED] * 2
    said = [line.split("\t")[3:] for line in ensemble.leader.audit.take_lines()]
    assert said == [
        ["operation=create", "znode=/a", "znode_type=persistent", "result=failure"],
        ["operation=setData", "znode=/zookeeper", "result=failure"],
    ]


def test_a_refused_write_keeps_its_place_behind_an_earlier_one() -> None:
    ensemble, _, client = short()
    asked = (delete(client, b"/a"), create(client, b"/c"), client.get(b"/a"))
    assert errors(ensemble, client, *asked) == [0, ErrorCode.QUOTAEXCEEDED, ErrorCode.NONODE]


def test_who_has_not_heard_of_it_yet_is_refused_by_the_leader() -> None:
    ensemble, _, client = short()
    follower = next(server for server in ensemble.servers.values() if client.connection in server.member.clients.all)
    assert follower.member.peer.following is not None
    follower.member.peer.is_short = False
    asked = (create(client, b"/c"), delete(client, b"/a"))
    assert errors(ensemble, client, *asked) == [ErrorCode.QUOTAEXCEEDED, 0]


def test_the_alarm_ends_by_itself() -> None:
    ensemble, client, _ = short()
    for server in ensemble.servers.values():
        leave(server.disk, 1 << 20)
    look(ensemble)
    assert errors(ensemble, client, create(client, b"/c")) == [0]
    for server in ensemble.servers.values():
        assert server.disk.size(RESERVE) == RESERVE_BYTES
        assert "the disk has room again" in server.traces


def test_no_snapshot_is_taken_on_a_disk_that_is_nearly_full() -> None:
    ensemble = Ensemble(1, snapCount=2, **LINES)
    server = ensemble.leader
    client = ensemble.session(server)
    fill(server)
    look(ensemble)
    count = len(server.snapshots)
    for _ in range(3):
        assert errors(ensemble, client, delete(client, b"/none")) == [ErrorCode.NONODE]
    assert len(server.snapshots) == count
    assert any("no snapshot is taken" in trace for trace in server.traces)


def test_a_standalone_server_refuses_writes_while_its_disk_is_full() -> None:
    ensemble = Ensemble(1, **LINES)
    client = ensemble.session()
    fill(ensemble.leader)
    look(ensemble)
    assert errors(ensemble, client, create(client, b"/a"), client.get(b"/")) == [ErrorCode.QUOTAEXCEEDED, 0]
    leave(ensemble.leader.disk, 1 << 20)
    look(ensemble)
    assert errors(ensemble, client, create(client, b"/a")) == [0]


def test_with_the_reserve_used_up_a_member_leaves_until_there_is_room() -> None:
    ensemble = Ensemble(3, **LINES)
    follower = ensemble.follower
    follower.disk.capacity_bytes -= follower.disk.free_bytes()
    leave(follower.disk, 0)
    look(ensemble)
    follower.disk.capacity_bytes -= follower.disk.free_bytes() - RESERVE_BYTES // 8
    look(ensemble)
    assert follower.member.peer.state == LOOKING
    assert follower.member.peer.sits_out
    leave(follower.disk, 1 << 20)
    look(ensemble)
    look(ensemble)
    assert follower.member.serving
