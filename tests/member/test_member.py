"""A member as a whole: roles, digests, snapshots, clean-up, deadlines."""

from collections.abc import Sequence
from random import Random

import pytest

from datatree.log.batch import RECONFIG, SNAPSHOT, build
from datatree.log.zxid import Zxid
from datatree.opcodes import OpCode
from datatree.recovery.recover import recover
from datatree.requests import OPEN_ACL, Create, PathOnly
from datatree.tree import DataTree
from datatree.znode import STAT_AT, STAT_LAYOUT
from session.identity import NO_SESSION
from tests.member.batches import CONFIG, batch_of
from tests.rigs.direct.members import TICK_MS, WALL, Ensemble, Server
from zab.member.events import Input, MemberEffect
from zab.member.member import Member
from zab.member.requests.proposing import TIME_AHEAD_MS_MAX
from zab.member.settings.zoo_cfg import parse
from zab.member.state.digests import KEPT_COUNT, Digests
from zab.member.state.elapsed import NOTE_MS, NOTES_COUNT_MAX, PRECISION, Ages
from zab.member.storage.events import SnapshotFailed, SnapshotTaken, TreeInstalled
from zab.member.storage.snapshot_schedule import SnapshotSchedule
from zab.member.trees.cleanup import Cleanup
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.protocol.peer import Peer
from zab.protocol.states import LEADING
from zab.quorum.ids import Link
from zab.simulator.world.disk import FaultyDisk

YEAR_MS = 365 * 86_400_000


def test_every_member_has_the_same_tree_after_the_same_writes() -> None:
    ensemble = Ensemble(3)
    clients = [ensemble.session(server) for server in ensemble.servers.values()]
    for number in range(20):
        for client in clients:
            name = b"/%d-%d" % (client.connection.id, number)
            client.say(client.create(name, b"x", number % 2) + client.set(name, b"y") + client.delete(b"/missing"))
    ensemble.settle()
    ensemble.advance(TICK_MS)
    trees = [server.member.tree for server in ensemble.servers.values()]
    assert len({tree.digest for tree in trees}) == 1
    assert len({tree.applied for tree in trees}) == 1
    assert trees[0].digest == trees[0].recompute_digest()
    assert all(tree.znode_count == 64 for tree in trees)


def go_on_without(ensemble: Ensemble, gone: Server) -> list[Server]:
    """Cut off the leader; the others, when they serve again."""
    ensemble.cut = {gone.sid}
    for link in list(ensemble.links):
        ensemble.break_link(link)
    rest = ensemble.others(gone)
    for server in rest:
        server.answers.append(ev.ElectionLinkDown(gone.sid))
    ensemble.settle()
    for _ in range(100):
        if all(server.member.serving for server in rest):
            return rest
        ensemble.advance(50)
    raise AssertionError([server.traces[-3:] for server in rest])


def test_a_leader_that_is_gone_is_followed_by_one_that_has_everything() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.follower)
    ensemble.do(client, client.create(b"/a", b"1"))
    gone = ensemble.leader
    left_behind = ensemble.session(gone)
    rest = go_on_without(ensemble, gone)
    # For a moment there are two; the old one no longer confirms anything.
    assert gone.member.serving
    assert ensemble.do(left_behind, left_behind.sync(), left_behind.get(b"/a")) == []
    ensemble.advance(2 * TICK_MS)
    assert not gone.member.serving
    assert left_behind.is_closed
    late = ensemble.session(rest[0])
    assert [error for _, error, _ in ensemble.do(late, late.set(b"/a", b"2"))] == [0]
    assert [server.value(b"/a") for server in rest] == [b"2", b"2"]


def test_clients_and_sessions_stay_while_the_epoch_is_renewed() -> None:
    ensemble = Ensemble(3, counterLimit=20)
    clients = [ensemble.session(server) for server in ensemble.servers.values()]
    epoch = ensemble.leader.member.peer.epoch
    for number in range(20):
        for client in clients:
            client.say(client.create(b"/%d-%d" % (client.connection.id, number)) + client.sync())
        ensemble.settle()
    ensemble.advance(TICK_MS)
    assert ensemble.leader.member.peer.epoch >= epoch + 3
    for client in clients:
        replies = client.replies()
        assert [(xid, error) for xid, error, _ in replies] == [(xid, 0) for xid in range(1, 41)]
    assert len({server.member.tree.digest for server in ensemble.servers.values()}) == 1


def test_e5_tree_that_differs_from_the_leaders_is_not_served_and_both_digests_are_named() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.leader)
    wrong = ensemble.follower
    bystander = ensemble.session(wrong)
    ensemble.do(client, client.create(b"/a"))
    ensemble.advance(TICK_MS)
    wrong.member.tree.digest += 1
    wrong.keeps_rebuilt = True
    ensemble.do(client, client.create(b"/b"))
    assert wrong.member.serving
    zxid = wrong.member.applied
    ensemble.do(client, client.create(b"/c"))
    right = ensemble.leader.member.digests.at(zxid)
    (alarm,) = [trace for trace in wrong.traces if trace.startswith("ALARM: this tree is wrong")]
    assert f"at {zxid:#x} is {right + 1:016x}, that of a quorum {right:016x}" in alarm
    assert bystander.is_closed
    assert not wrong.member.serving
    assert wrong.halted is None


def test_e5_leader_raises_an_alarm_about_a_learner_with_another_digest() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.leader)
    wrong = ensemble.follower
    wrong.member.tree.digest += 1
    wrong.keeps_rebuilt = True
    ensemble.do(client, client.create(b"/a"))
    ensemble.advance(TICK_MS)
    alarms = [trace for trace in ensemble.leader.traces if trace.startswith("ALARM")]
    assert alarms
    assert f"server {wrong.sid} has digest {wrong.member.tree.digest:016x}" in alarms[0]
    assert ensemble.leader.member.metrics.digest_mismatches_count >= 1


def test_digests_of_the_newest_batch_ends_are_kept() -> None:
    digests = Digests()
    for zxid in range(1, KEPT_COUNT + 2):
        digests.record(zxid, zxid * 7)
    assert digests.find(1) is None
    assert digests.find(2) == 14
    assert digests.at(KEPT_COUNT + 1) == (KEPT_COUNT + 1) * 7


# Snapshots.


def test_e3_every_member_takes_the_snapshot_that_the_leader_says() -> None:
    ensemble = Ensemble(3, snapCount=10)
    client = ensemble.session(ensemble.follower)
    for number in range(25):
        ensemble.do(client, client.create(b"/%d" % number))
        for server in ensemble.servers.values():
            if server.snapshots and server.snapshots[-1].cursor._end is not None:
                ensemble.finish_snapshot(server)
    ensemble.advance(TICK_MS)
    positions = [[(each.zxid, each.chain) for each in server.snapshots] for server in ensemble.servers.values()]
    assert positions[0] == positions[1] == positions[2]
    assert len(positions[0]) == 2
    assert {server.member.metrics.snap_count for server in ensemble.servers.values()} == {2}


def test_snapshot_is_exact_and_one_at_a_time() -> None:
    ensemble = Ensemble(1, snapCount=5)
    server = ensemble.servers[1]
    client = ensemble.session()
    for number in range(20):
        ensemble.do(client, client.create(b"/%02d" % number))
    (taken,) = server.snapshots
    assert sum("is not finished" in trace for trace in server.traces) == 1
    paths = [path for piece in taken.cursor.slices() for path, _ in piece]
    assert len(paths) == taken.cursor.znode_count
    assert taken.cursor.zxid == taken.zxid
    assert b"/19" not in paths


@pytest.mark.parametrize("is_written", [True, False])
def test_snapshot_that_became_due_while_one_was_written_is_taken_when_that_one_ends(is_written: bool) -> None:
    """Once, of the tree as it is then, also when nothing is written any more; and the next one when it is due."""
    ensemble = Ensemble(1, snapCount=5)
    server = ensemble.servers[1]
    client = ensemble.session()
    for number in range(20):
        ensemble.do(client, client.create(b"/%02d" % number))
    (first,) = server.snapshots
    first.cursor.close()
    server.answers.append(SnapshotTaken(first.zxid) if is_written else SnapshotFailed(first.zxid, "disk full"))
    ensemble.settle()
    _, second = server.snapshots
    assert (second.zxid, second.chain) == server.member.peer.history.last
    assert b"/19" in [path for piece in second.cursor.slices() for path, _ in piece]
    assert server.member.metrics.snapshot_error_count == (not is_written)
    ensemble.finish_snapshot(server)
    ensemble.settle()
    assert len(server.snapshots) == 2
    for number in range(20, 30):
        ensemble.do(client, client.create(b"/%02d" % number))
        ensemble.settle()
    assert len(server.snapshots) == 3


@pytest.mark.parametrize("doubt", ["in between", "at its end"])
def test_snapshot_that_is_late_is_one_of_where_the_tree_is(doubt: str) -> None:
    """Also where batches were applied that no snapshot may be taken of: it would be given the chain of another place,
    and the next start would begin with that."""
    ensemble = Ensemble(3, snapCount=5)
    server = ensemble.follower
    client = ensemble.session(ensemble.leader)
    for number in range(20):
        ensemble.do(client, client.create(b"/%02d" % number))
    assert len(server.snapshots) == 1
    check = server.member.trees.check
    check.unproven(Zxid(server.member.applied), server.member.tree.digest)
    for number in range(20, 24):
        ensemble.do(client, client.create(b"/%02d" % number))
    if doubt == "in between":
        check.suspicion = None
    ensemble.finish_snapshot(server)
    ensemble.step(server)
    if doubt == "at its end":
        assert len(server.snapshots) == 1
        check.suspicion = None
        ensemble.do(client, client.create(b"/24"))
    _, second = server.snapshots
    assert (second.zxid, second.chain) == server.member.peer.history.last
    assert second.cursor.zxid == second.zxid == server.member.applied


def test_leader_takes_a_snapshot_for_a_learner_that_nothing_leads_on() -> None:
    """One above what the learner has, and none while one is being written."""
    ensemble = Ensemble(3)
    leader = ensemble.leader
    client = ensemble.session(leader)
    ensemble.do(client, client.create(b"/a"))
    applied = leader.member.applied

    def nothing_above(zxid: int) -> int:
        leader.answers.append(ev.NothingToOffer(Link(99), Zxid(zxid)))
        ensemble.step(leader)
        return len(leader.snapshots)

    assert nothing_above(applied) == 0, "it would not be newer"
    leader.member.trees.check.unproven(Zxid(applied), leader.member.tree.digest)
    assert nothing_above(applied - 1) == 0, "its tree may be wrong"
    leader.member.trees.check.suspicion = None
    assert nothing_above(applied - 1) == 1
    (taken,) = leader.snapshots
    assert (taken.zxid, taken.chain) == leader.member.peer.history.last
    assert b"/a" in [path for piece in taken.cursor.slices() for path, _ in piece]
    ensemble.do(client, client.create(b"/b"))
    assert nothing_above(applied) == 1, "one is being written"
    ensemble.finish_snapshot(leader)
    ensemble.settle()
    assert len(leader.snapshots) == 1, "nobody waits for another one"
    assert nothing_above(applied) == 2


def test_snapshot_schedule_counts_what_is_in_flight_and_flags_once() -> None:
    schedule = SnapshotSchedule(count_max=10, bytes_max=1 << 30)
    assert schedule.flags_of(4, 100) == 0
    assert schedule.flags_of(6, 100) == SNAPSHOT
    assert schedule.flags_of(20, 100) == 0
    assert not schedule.applied(batch_of(4))
    assert schedule.applied(batch_of(6, SNAPSHOT))
    assert schedule.count == 0
    assert schedule.flags_of(1, 1) == SNAPSHOT
    schedule.drop_role()
    assert schedule.flags_of(1, 1) == 0
    assert schedule.flags_of(9, 1) == SNAPSHOT, "the batch that was flagged may never be committed"


def test_snapshot_schedule_adds_what_is_applied_and_what_is_in_flight() -> None:
    schedule = SnapshotSchedule(count_max=10, bytes_max=1 << 30)
    assert not schedule.applied(batch_of(5))
    assert not schedule.applied(batch_of(1, RECONFIG)), "another flag"
    assert schedule.flags_of(6, 1) == SNAPSHOT
    schedule = SnapshotSchedule(count_max=10, bytes_max=1 << 30)
    assert schedule.flags_of(5, 1) == 0
    assert not schedule.applied(batch_of(3))
    assert schedule.flags_of(4, 1) == 0
    assert schedule.flags_of(1, 1) == SNAPSHOT
    batch = batch_of(1, size=300)
    size = len(batch.raw)
    for missing, flags in ((0, SNAPSHOT), (1, 0)):
        schedule = SnapshotSchedule(count_max=1 << 30, bytes_max=3 * size)
        assert schedule.flags_of(1, size) == schedule.flags_of(1, size) == 0
        assert not schedule.applied(batch)
        assert schedule.flags_of(1, size - missing) == flags


def test_snapshot_schedule_counts_bytes_too() -> None:
    schedule = SnapshotSchedule(count_max=1 << 30, bytes_max=1000)
    assert not schedule.applied(batch_of(1, size=700))
    assert schedule.flags_of(1, 100) == 0
    assert schedule.flags_of(1, 300) == SNAPSHOT


def test_tree_of_a_fetched_snapshot_takes_the_place_of_the_old_one() -> None:
    member = Member(CONFIG, recover(FaultyDisk()), Random(1), 0, WALL)
    tree = DataTree()
    tree.applied = 1 << 32 | 7
    member.step(0, WALL, [TreeInstalled(tree)])
    assert member.tree is tree
    assert member.applied == tree.applied
    assert tree.get(b"/zookeeper/config") is not None


def test_log_that_is_reset_empties_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    member = Member(CONFIG, recover(FaultyDisk()), Random(1), 0, WALL)
    member.tree.install_session(5, 1_000)
    reset = fx.ResetLog(1, bytes(16))
    monkeypatch.setattr(member.peer, "step", lambda now, event: [reset])
    assert reset in member.step(0, WALL, [ev.LogDrained(0)])
    assert member.tree.sessions == {}


# Clean-up.


def test_a_refused_write_of_the_leaders_own_ends_nobody() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.leader)
    ensemble.do(client, client.create(b"/full"), client.create(b"/full/a"))
    ensemble.leader.member.processor.submit(NO_SESSION, 0, OpCode.DELETE_CONTAINER, PathOnly(b"/full").encode(), None)
    assert ensemble.do(client, client.create(b"/after"))[0][1] == 0
    assert {server.member.applied for server in ensemble.servers.values()} == {ensemble.leader.member.applied}


def test_containers_that_are_empty_again_are_deleted() -> None:
    ensemble = Ensemble(3, znode__container__checkIntervalMs=5_000)
    client = ensemble.session(timeout_ms=20_000)
    container = Create(b"/c", b"", OPEN_ACL, 4).encode()
    unused = Create(b"/unused", b"", OPEN_ACL, 4).encode()
    ensemble.do(client, client.request(OpCode.CREATE_CONTAINER, container), client.create(b"/c/x"))
    ensemble.do(client, client.request(OpCode.CREATE_CONTAINER, unused))
    ensemble.advance(6_000)
    assert ensemble.leader.value(b"/c") == b""
    ensemble.do(client, client.delete(b"/c/x"))
    ensemble.do(client, client.exists(b"/c", True))
    ensemble.advance(6_000)
    assert client.events() == [(2, b"/c")]
    assert ensemble.leader.value(b"/unused") == b""


def test_ttl_znodes_are_deleted_when_they_were_not_written_for_that_long() -> None:
    ensemble = Ensemble(1, extendedTypesEnabled="true", znode__container__checkIntervalMs=1_000)
    client = ensemble.session(timeout_ms=20_000)
    for path in (b"/idle", b"/parent", b"/written"):
        body = Create(path, b"", OPEN_ACL, 5, 4_000).encode()
        assert ensemble.do(client, client.request(OpCode.CREATE_TTL, body))[0][1] == 0
    ensemble.do(client, client.create(b"/parent/child"))
    ensemble.advance(3_000)
    ensemble.do(client, client.set(b"/written", b"1"))
    ensemble.advance(3_000)
    tree = ensemble.servers[1].member.tree
    assert [tree.get(path) is not None for path in (b"/idle", b"/parent", b"/written")] == [False, True, True]


def test_containers_that_were_never_used_go_when_the_configuration_says_so() -> None:
    ensemble = Ensemble(1, znode__container__checkIntervalMs=1_000, znode__container__maxNeverUsedIntervalMs=3_000)
    client = ensemble.session(timeout_ms=20_000)
    ensemble.do(client, client.request(OpCode.CREATE_CONTAINER, Create(b"/c", b"", OPEN_ACL, 4).encode()))
    ensemble.advance(2_500)
    assert ensemble.servers[1].member.tree.get(b"/c") is not None
    ensemble.advance(3_000)
    assert ensemble.servers[1].member.tree.get(b"/c") is None


@pytest.mark.parametrize("jump_ms", [-10 * YEAR_MS, 10 * YEAR_MS])
def test_wall_clock_that_jumps_ends_no_ttl_znode_early_and_keeps_none(jump_ms: int) -> None:
    ensemble = Ensemble(1, extendedTypesEnabled="true", znode__container__checkIntervalMs=1_000)
    server = ensemble.servers[1]
    client = ensemble.session(timeout_ms=20_000)
    ttl = Create(b"/t", b"", OPEN_ACL, 5, 8_000).encode()
    ensemble.do(client, client.request(OpCode.CREATE_TTL, ttl))
    server.wall_offset_ms += jump_ms
    ensemble.do(client, client.create(b"/x"))
    ensemble.advance(5_000)
    assert server.value(b"/t") == b""
    server.wall_offset_ms -= jump_ms
    ensemble.do(client, client.set(b"/x", b"1"))
    ensemble.advance(6_000)
    assert server.value(b"/t") is None


def test_ages_are_never_too_high_and_known_closely_for_what_is_young() -> None:
    rng = Random(1)
    ages, written, now = Ages(), {}, 0
    for zxid in range(1, 60_000):
        now += rng.choice((0, 1, 300, 2_500))
        written[zxid] = now
        ages.note(zxid, now)
    real = {zxid: now - at for zxid, at in written.items()}
    known = {zxid: ages.age_ms(zxid, now) for zxid in written}
    assert all(known[zxid] <= real[zxid] for zxid in written)
    assert all(known[zxid] >= real[zxid] * (1 - 1 / PRECISION) - NOTE_MS - 2_500 for zxid in written)
    assert 1_000 < len(ages._zxids) < NOTES_COUNT_MAX
    assert ages.age_ms(60_000, now) == 0


def test_clean_up_is_bounded_by_turn_and_by_minute() -> None:
    config = parse(
        "dataDir=/x\nclientPort=1\nznode.container.maxPerMinute=1500\nznode.container.checkIntervalMs=1000", "zoo.cfg"
    )
    tree = DataTree()
    stat = STAT_LAYOUT.pack(1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1)
    for number in range(2_000):
        tree.install([(b"/%04d" % number, b"", None, stat, -(1 << 63), 1)])
    cleanup = Cleanup(config, 0)
    assert cleanup.due(tree, 999) == []
    counts = [len(cleanup.due(tree, 1_000)) for _ in range(5)]
    assert counts == [1_000, 500, 0, 0, 0]
    assert cleanup.next_deadline == 60_000
    assert len(cleanup.due(tree, 60_000)) == 500


# Time and turns.


def test_a11_time_of_a_batch_never_falls() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    member = ensemble.servers[1].member

    def mtime(path: bytes, wall: int) -> int:
        client.say(client.create(path))
        ensemble.servers[1].wall_offset_ms = wall - ensemble.now
        ensemble.settle()
        znode = member.tree.get(path)
        assert znode is not None
        time: int = STAT_LAYOUT.unpack_from(znode, STAT_AT)[3]
        return time

    later = WALL + ensemble.now + 5_000
    assert mtime(b"/a", later) == later
    assert mtime(b"/b", later - 3_000) == later
    assert mtime(b"/c", later + 1) == later + 1
    assert mtime(b"/d", later + 1 - TIME_AHEAD_MS_MAX) == later + 1


def test_a11_times_of_batches_go_back_to_the_clock_where_a_clock_was_years_ahead() -> None:
    """On the leader whose clock it was, and on the next one, whose clock was right all the time."""
    ensemble = Ensemble(3)
    first = ensemble.leader
    client = ensemble.session(ensemble.follower)
    first.wall_offset_ms += 10 * YEAR_MS
    ensemble.do(client, client.create(b"/ahead"))
    first.wall_offset_ms -= 10 * YEAR_MS
    ensemble.do(client, client.create(b"/right"))
    assert mtime_of(first, b"/ahead") > mtime_of(first, b"/right") == first.wall_ms()
    first.wall_offset_ms += 10 * YEAR_MS
    ensemble.do(client, client.create(b"/ahead again"))
    leader = next(server for server in go_on_without(ensemble, first) if server.member.peer.state == LEADING)
    client = ensemble.session(leader)
    ensemble.do(client, client.create(b"/of the next one"))
    assert mtime_of(leader, b"/of the next one") == leader.wall_ms()
    assert any("the times of batches go back to the clock" in trace for trace in leader.traces)


def mtime_of(server: Server, path: bytes) -> int:
    znode = server.member.tree.get(path)
    assert znode is not None
    time: int = STAT_LAYOUT.unpack_from(znode, STAT_AT)[3]
    return time


def test_next_deadline_is_the_earliest_of_everything_that_waits() -> None:
    ensemble = Ensemble(1, znode__container__checkIntervalMs=60_000)
    member = ensemble.servers[1].member
    tracker, cleanup = member.sessions.tracker, member._turn_end.cleanup
    assert tracker is not None
    assert cleanup is not None
    peer_deadline = member.peer.next_deadline()
    assert peer_deadline is not None
    assert member.next_deadline() == min(
        peer_deadline, tracker.next_deadline, cleanup.next_deadline, member.limits.next_deadline
    )


def test_many_committed_batches_are_applied_over_several_turns_before_clients_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zab.member.requests.applying.APPLIED_COUNT_MAX", 1)
    ensemble = Ensemble(3)
    follower = ensemble.follower
    client = ensemble.session(ensemble.leader)
    ensemble.cut = {follower.sid}
    for link in [link for link, ends in ensemble.links.items() if follower.sid in ends]:
        ensemble.break_link(link)
    for number in range(10):
        ensemble.do(client, client.create(b"/%d" % number))
    ensemble.cut = set()
    seen: list[tuple[bool, int]] = []
    step = follower.member.step

    def watched(now: int, wall: int, inputs: Sequence[Input]) -> list[MemberEffect]:
        effects = step(now, wall, inputs)
        seen.append((follower.member.serving, len(follower.member.applier.committed)))
        return effects

    monkeypatch.setattr(follower.member, "step", watched)
    while not follower.member.serving:
        ensemble.advance(1)
        assert ensemble.now < 1_100_000
    assert follower.value(b"/9") == b""
    assert (False, 3) in seen
    assert not any(serving and left for serving, left in seen)


def test_messages_that_come_before_the_leader_has_caught_up_are_not_lost() -> None:
    ensemble = Ensemble(3)
    leader, follower = ensemble.leader, ensemble.follower
    link = follower.member.peer.link_to_leader
    assert link is not None
    leader.member.service.is_on = False
    held = fx.MemberMessage(link, follower.sid, mmsg.Sync(77))
    leader.member.messages.take(held)
    assert leader.member.messages.early == [held]


def test_peer_is_told_of_time_once_a_step_whatever_the_host_says(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[ev.Event] = []
    step = Peer.step

    def watching(peer: Peer, now: int, event: ev.Event) -> list[fx.Effect]:
        told.append(event)
        return step(peer, now, event)

    monkeypatch.setattr(Peer, "step", watching)
    member = Member(CONFIG, recover(FaultyDisk()), Random(1), 0, WALL)
    member.step(0, WALL, [ev.TimePassed(), ev.TimePassed()])
    assert told == [ev.TimePassed()]


def test_same_inputs_give_the_same_effects_in_every_run() -> None:
    def run() -> list[str]:
        ensemble = Ensemble(3)
        clients = [ensemble.session(server) for server in ensemble.servers.values()]
        for client in clients:
            ensemble.do(client, client.create(b"/%d" % client.connection.id), client.get(b"/", True), client.sync())
        ensemble.advance(3_000)
        return [repr(item) for item in ensemble.sent] + [client.raw.hex() for client in clients]

    assert run() == run()


def test_a_committed_batch_that_holds_no_transactions_stops_the_member_with_a_word() -> None:
    ensemble = Ensemble(3)
    follower = ensemble.follower
    ensemble.session(follower)
    peer = follower.member.peer
    link = peer.link_to_leader
    assert link is not None
    zxid, chain = peer.history.last
    batch = build(
        chain, epoch=peer.current_epoch, first=Zxid(zxid + 1), count=1, time=0, flags=0, mark=peer.committed, applied=0,
        digest=0, digest_version=0, body=b"no transaction",
    )  # fmt: skip
    for message in (msg.Proposal([batch.raw]), msg.Commit(batch.zxid)):
        follower.answers.append(ev.MessageReceived(link, message))
        ensemble.step(follower)
    ensemble.step(follower)
    assert follower.halted is not None
    assert f"{batch.zxid:#x}, which is committed, holds no transactions" in follower.halted
    assert follower.logged[-1].raw == batch.raw, "its files are kept as they are"
