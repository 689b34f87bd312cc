"""What a member must not do, one rule a test; the rules that no other test of this room misses (`make mutants`)."""

from __future__ import annotations

from random import Random
from typing import get_args

import pytest

from datatree.digest import DIGEST_VERSION
from datatree.log.batch import SNAPSHOT, build
from datatree.log.epochs import forget_member
from datatree.log.transaction_log import TransactionLog
from datatree.opcodes import OpCode
from datatree.recovery.recover import recover
from datatree.requests import SetData
from datatree.snapshot import fetch_path, snapshot_path
from datatree.tree import DataTree
from datatree.znode import CONTAINER_OWNER, STAT_AT, STAT_LAYOUT
from session.identity import SessionId
from tests.datatree.histories import LINEAGE, Author, fresh_log, snapshot, synchronized
from tests.member.batches import CONFIG, batch_of
from tests.member.storage.storage_setup import say_nothing
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import TICK_MS, WALL, Ensemble, Server
from zab.member.member import Member
from zab.member.membership.restore import tree_of
from zab.member.storage.events import InstallSnapshot, TreeInstalled
from zab.member.storage.snapshot_schedule import SnapshotSchedule
from zab.member.storage.storage import Storage
from zab.member.trees.cleanup import Cleanup
from zab.member.wire_protocols import QUORUM_PROTOCOL
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.protocol.frame_limits import DATA_FRAME_BYTES_MAX
from zab.protocol.message import URGENT
from zab.protocol.states import LEADING
from zab.quorum.ids import ServerId
from zab.simulator.world.disk import FaultyDisk, PowerLossError

# ------------------------------------------------------------------------------------------------------ order, sessions


def test_a_write_is_answered_by_its_own_transaction_alone() -> None:
    """A1: another one of its session, which has another xid, is applied while it waits."""
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.follower)
    ensemble.do(client, client.create(b"/a"))
    session = SessionId(client.connection.session)
    ensemble.leader.member.processor.submit(session, 77, OpCode.SET_DATA, SetData(b"/a", b"1", -1).encode(), None)
    client.say(client.set(b"/a", b"2"))
    ensemble.step(client.server)
    ensemble.settle()
    ((xid, error, stat),) = client.replies()
    assert (xid, error) == (2, 0)
    assert STAT_LAYOUT.unpack(stat)[4] == 2, "the version that it made"
    assert client.server.value(b"/a") == b"2"


def test_messages_for_the_member_keep_their_place_behind_proposals() -> None:
    """H2: a verdict that overtook what was proposed before would let a session in too early. A ping says nothing that
    depends on proposals."""
    assert URGENT & set(get_args(fx.MessageForMember)) == {msg.Ping}


def test_h2_a_large_proposal_goes_out_in_pieces() -> None:
    cut = QUORUM_PROTOCOL.cut[msg.Proposal]
    batches = [bytes(DATA_FRAME_BYTES_MAX // 2)] * 4
    assert [piece.batches for piece in cut(msg.Proposal(batches))] == [batches[:2], batches[2:]]


def order_of(ensemble: Ensemble, *kinds: type[msg.Message]) -> list[str]:
    """The first of each of these kinds, in the order in which they were sent."""
    names = [type(message).__name__ for _, message in ensemble.sent if isinstance(message, kinds)]
    return list(dict.fromkeys(names))


def test_s1_a_sync_through_a_learner_is_confirmed_before_it_is_answered() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.follower)
    ensemble.sent.clear()
    ensemble.do(client, client.sync())
    assert order_of(ensemble, mmsg.Sync, msg.Confirm, mmsg.Synced) == ["Sync", "Confirm", "Synced"]


@pytest.mark.parametrize("to", ["leader", "learner"])
def test_s1_a_sync_after_a_move_is_done_behind_the_writes_before_it(to: str) -> None:
    """They are proposed, and on no disk yet."""
    ensemble = Ensemble(3)
    here, there = ensemble.others(ensemble.leader)
    client = ensemble.session(here)
    for server in ensemble.servers.values():
        server.durable_held = True
    assert ensemble.do(client, client.create(b"/a")) == []
    moved = synced_elsewhere(ensemble, client, ensemble.leader if to == "leader" else there)
    for server in ensemble.servers.values():
        ensemble.release(server)
    assert value_after_sync(ensemble, moved, b"/a") == b""


@pytest.mark.parametrize("to", ["leader", "learner"])
def test_s1_a_sync_after_a_move_is_done_behind_writes_that_are_not_proposed(
    to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader has them, and may propose nothing now."""
    ensemble = Ensemble(3)
    here, there = ensemble.others(ensemble.leader)
    client = ensemble.session(here)
    with monkeypatch.context() as patch:
        patch.setattr(ensemble.leader.member.trees.repair, "is_full", True)
        assert ensemble.do(client, client.create(b"/a")) == []
        moved = synced_elsewhere(ensemble, client, ensemble.leader if to == "leader" else there)
    ensemble.step(ensemble.leader)
    assert value_after_sync(ensemble, moved, b"/a") == b""


def synced_elsewhere(ensemble: Ensemble, client: Client, server: Server) -> Client:
    """Its session comes to that server, perhaps not at once, and asks for a sync there, which is not answered yet."""
    moved = ensemble.reattach(client, server)
    ensemble.settle()
    if moved.response is not None:
        assert ensemble.do(moved, moved.sync()) == []
    return moved


def value_after_sync(ensemble: Ensemble, moved: Client, path: bytes) -> bytes | None:
    ensemble.settle()
    assert moved.replies() or ensemble.do(moved, moved.sync())
    return moved.server.value(path)


def test_s1_a_session_is_said_to_be_over_when_a_quorum_has_confirmed_who_says_it() -> None:
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.follower)
    ensemble.do(client, client.request(OpCode.CLOSE_SESSION))
    ensemble.sent.clear()
    back = ensemble.reattach(client, client.server)
    ensemble.settle()
    assert back.response is not None
    assert back.response.timeout_ms == 0
    assert order_of(ensemble, mmsg.Revalidate, msg.Confirm, mmsg.Revalidated) == [
        "Revalidate",
        "Confirm",
        "Revalidated",
    ]


@pytest.mark.parametrize("at", ["leader", "follower"])
def test_s1_a_password_is_said_to_be_wrong_when_a_quorum_has_confirmed_who_says_it(at: str) -> None:
    """A leader that was deposed, and its followers, do not know the keys of the next lineage or epoch."""
    ensemble = Ensemble(3)
    client = ensemble.session(ensemble.leader if at == "leader" else ensemble.follower)
    ensemble.sent.clear()
    back = ensemble.reattach(client, client.server, password=b"x" * 16)
    ensemble.settle()
    assert back.response is not None
    assert back.response.timeout_ms == 0
    asked = ["Confirm"] if at == "leader" else ["Revalidate", "Confirm", "Revalidated"]
    assert order_of(ensemble, mmsg.Revalidate, msg.Confirm, mmsg.Revalidated) == asked
    assert len(ensemble.do(client, client.get(b"/"))) == 1, "its session is left alone"


# ----------------------------------------------------------------------------------------------------- time and batches


def test_h2_who_was_paused_reads_its_links_before_it_asks_who_was_silent() -> None:
    ensemble = Ensemble(3)
    leader = ensemble.leader.member
    pings = [ev.MessageReceived(link, msg.Ping(0, 0, 0, [], False)) for link in leader.peer.learners]
    assert len(pings) == 2
    leader.step(ensemble.now + 10 * leader.peer.settings.sync_ms, WALL, pings)
    assert leader.peer.state is LEADING


def test_a11_a_new_leader_goes_on_from_the_time_of_the_one_before() -> None:
    ensemble = Ensemble(3)
    ahead_ms = 60_000
    ensemble.leader.wall_offset_ms += ahead_ms
    client = ensemble.session(ensemble.leader)
    ensemble.do(client, client.create(b"/a"))
    ensemble.advance(TICK_MS)
    before = mtime(ensemble.follower.member, b"/a")
    assert before >= WALL + ahead_ms
    heir = ensemble.follower.member
    assert heir.processor.proposing.newest_time >= before


def mtime(member: Member, path: bytes) -> int:
    znode = member.tree.get(path)
    assert znode is not None
    time: int = STAT_LAYOUT.unpack_from(znode, STAT_AT)[3]
    return time


# -------------------------------------------------------------------------------------------------- trees and snapshots


def test_e5_digests_of_a_tree_that_was_replaced_are_compared_with_nothing() -> None:
    member = Member(CONFIG, recover(FaultyDisk()), Random(1), 0, WALL)
    member.digests.record(5, 123)
    assert member.digests.find(5) == 123
    tree = DataTree()
    tree.applied = 1 << 32 | 7
    member.step(0, WALL, [TreeInstalled(tree)])
    assert member.digests.find(5) is None


@pytest.mark.parametrize(("version", "count"), [(DIGEST_VERSION, 1), (DIGEST_VERSION + 1, 0)])
def test_e5_a_digest_of_another_version_is_compared_with_nothing(version: int, count: int) -> None:
    member = Ensemble(1).servers[ServerId(1)].member
    member.applier.committed.append(
        build(
            bytes(16), epoch=9, first=9 << 32 | 1, count=1, time=1, flags=0, mark=member.applied,
            applied=member.applied, digest=member.tree.digest ^ 1, digest_version=version, body=b"x",
        )
    )  # fmt: skip
    member.applier.turn()
    assert member.metrics.digest_mismatches_count == count


def test_e3_a_snapshot_is_due_when_the_leader_says_so_and_not_before() -> None:
    schedule = SnapshotSchedule(count_max=2, bytes_max=1 << 30)
    assert not schedule.applied(batch_of(50))
    assert schedule.applied(batch_of(1, flags=SNAPSHOT))


def test_b2_what_an_amnesiac_has_on_disk_is_not_its_tree() -> None:
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk)
    log.append(author.write(3))
    log.set_mark(author.last[0])
    log.close()
    assert tree_of(recover(disk, 1)).applied == author.last[0]
    forget_member(disk)
    assert tree_of(recover(disk, 1)).applied == 0


def test_a_container_with_children_is_left_alone() -> None:
    tree = DataTree()
    stat = STAT_LAYOUT.pack(1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1)
    tree.install([(b"/full", b"", None, stat, CONTAINER_OWNER, 1)])
    tree.install([(b"/full/child", b"", None, stat, 0, 0)])
    tree.install([(b"/empty", b"", None, stat, CONTAINER_OWNER, 1)])
    due = CONFIG.tree.container_check_interval_ms
    assert Cleanup(CONFIG, 0).due(tree, due) == [b"/empty"]


# -------------------------------------------------------------------------------------------------------------- storage


def storage_of(disk: FaultyDisk) -> Storage:
    return Storage(disk, TransactionLog(disk, recover(disk, 1).log), ServerId(1), say_nothing)


@pytest.mark.parametrize("seed", range(4))
def test_b1_a_snapshot_is_installed_at_any_moment_without_damage(seed: int) -> None:
    """A member that loses its power on the way has its old history, or the new one, or does not count; never a hole."""
    for point in range(1, 80):
        disk, author = FaultyDisk(), Author()
        synchronized(disk)
        log = fresh_log(disk)
        log.append(author.write(3))
        log.set_mark(author.last[0])
        log.close()
        old = author.last
        storage = storage_of(disk)
        author.write(3)
        made = FaultyDisk()
        disk.replace(fetch_path(author.last[0]), made.read(snapshot(made, author.tree, author.last[1])))
        disk.crash_after(point)
        try:
            fetch = fx.FetchSnapshot(1, ServerId(2), *author.last, LINEAGE, False)
            storage.perform([InstallSnapshot(fetch)])
            done = True
        except PowerLossError:
            done = False
        disk.crash(Random(seed * 100 + point))
        recovered = recover(disk, 1)
        assert not recovered.damage, (point, recovered.damage)
        assert recovered.last == old or recovered.amnesiac
        if done:
            assert recovered.last == author.last
            return
    raise AssertionError("never done")


def test_h4_a_snapshot_is_offered_if_the_log_goes_on_from_it() -> None:
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk, segment_bytes=1)
    for _ in range(2):
        log.append(author.write(1))
    path = snapshot(disk, author.tree, author.last[1])
    for _ in range(4):
        log.append(author.write(1))
    log.close()
    storage = storage_of(disk)
    offer = fx.OfferSnapshot(9, 0)
    offered = storage.offer_snapshot(offer)
    assert isinstance(offered, ev.SnapshotOffered)
    assert snapshot_path(offered.zxid) == path
    oldest = [segment.path for segment in storage.log.segments[:3]]
    storage.log.release(set(oldest))
    assert storage.offer_snapshot(offer) == ev.NothingToOffer(9, 0)
