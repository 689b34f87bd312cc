"""E6 wrong trees: a tree that a member's files do not lead to comes from the leader, and the log stays."""

import pytest

from datatree.log.zxid import Zxid
from datatree.recovery.recover import recover
from datatree.snapshot import SnapshotWriter, load_snapshot, snapshot_files, snapshot_path
from tests.member.trees.spoiled_trees import bring_back, digests, ensemble_of, said, spoil, stop, write
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import TICK_MS, Ensemble, Server
from zab.member.storage.events import ChooseSnapshot, FetchFailed, SnapshotChosen, SnapshotTaken
from zab.protocol import events as ev
from zab.protocol import member_message as mmsg
from zab.protocol import message as msg
from zab.protocol.states import LEADING
from zab.simulator.ensemble.members.spoiled import spoil as spoil_znode


def write_snapshots(server: Server) -> None:
    """Write the due snapshots to its disk."""
    while server.snapshots:
        taken = server.snapshots.pop(0)
        SnapshotWriter(server.disk, taken.cursor, server.storage.log.lineage, taken.chain).write()
        taken.cursor.close()
        server.answers.append(SnapshotTaken(taken.zxid))


def ensemble_with_lost_files(*, leader_has: bool = True) -> tuple[Ensemble, Client, Server]:
    """A learner without snapshots and without the beginning of its log; whether the others have a snapshot. Besides
    the ensemble and a client of its leader: that learner."""
    ensemble, client = ensemble_of(3, snapCount=8)
    lost = ensemble.follower
    while not ensemble.leader.snapshots:
        write(ensemble, client)
    if leader_has:
        for server in ensemble.others(lost):
            write_snapshots(server)
    ensemble.settle()
    write(ensemble, client, 2)
    lost.forget_oldest(2)
    return ensemble, client, lost


def is_mended(ensemble: Ensemble, lost: Server) -> bool:
    return lost.member.serving and len(digests(ensemble)) == 1 and not lost.member.peer.doubted


def test_tree_is_made_of_the_leaders_snapshot_and_the_own_log() -> None:
    ensemble, client, lost = ensemble_with_lost_files()
    (chosen,) = snapshot_files(ensemble.leader.disk)
    log_before = [batch.raw for batch in lost.logged]
    spoil(lost)
    write(ensemble, client, 3)
    ensemble.advance(TICK_MS)
    assert said(lost, "ALARM: the tree cannot be repaired from this member's files")
    assert said(lost, f"the tree is made from the leader's snapshot {chosen:#x} -> ask whether a quorum has its digest")
    assert is_mended(ensemble, lost)
    assert [batch.raw for batch in lost.logged][: len(log_before)] == log_before
    assert lost.halted is None
    # It is its own snapshot now, so that the next start begins with it.
    assert snapshot_files(lost.disk) == [chosen]
    recovered = recover(lost.disk, lost.sid).tree
    assert recovered.digest == ensemble.leader.member.digests.at(recovered.applied)


def test_until_the_leader_has_a_snapshot_it_is_asked_again() -> None:
    ensemble, client, lost = ensemble_with_lost_files(leader_has=False)
    spoil(lost)
    write(ensemble, client, 2)
    for _ in range(3):
        ensemble.advance(TICK_MS)
    assert not lost.member.serving
    before = lost.member.peer.history.last
    assert write(ensemble, client, 2) == [0, 0]
    assert lost.member.peer.history.last > before, "it goes on logging"
    write_snapshots(ensemble.leader)
    for _ in range(3):
        ensemble.advance(TICK_MS)
    assert is_mended(ensemble, lost)


def test_leader_without_a_snapshot_takes_one_for_who_asks() -> None:
    """Also when nobody writes any more, so that none becomes due."""
    ensemble, client, lost = ensemble_with_lost_files()
    leader = ensemble.leader
    for zxid in snapshot_files(leader.disk):
        leader.disk.remove(snapshot_path(zxid))
    spoil(lost)
    write(ensemble, client, 2)
    ensemble.advance(2 * TICK_MS)
    assert not lost.member.serving
    (taken,) = leader.snapshots
    assert leader.member.peer.history.holds((Zxid(taken.zxid), taken.chain))
    write_snapshots(leader)
    for _ in range(3):
        ensemble.advance(TICK_MS)
    assert is_mended(ensemble, lost)
    assert snapshot_files(lost.disk)[-1] == taken.zxid


def test_snapshot_that_is_wrong_is_found_out_and_the_next_one_is_taken() -> None:
    """The digest of a snapshot is that of the tree that wrote it: only other members can say that it was wrong."""
    ensemble, client, lost = ensemble_with_lost_files()
    leader = ensemble.leader
    (first,) = snapshot_files(leader.disk)
    header, tree = load_snapshot(leader.disk, snapshot_path(first))
    spoil_znode(tree)
    leader.disk.remove(snapshot_path(first))
    SnapshotWriter(leader.disk, tree.begin_snapshot(), header.lineage, header.chain).write()
    spoil(lost)
    write(ensemble, client, 3)
    for _ in range(3):
        ensemble.advance(TICK_MS)
    assert sum("ALARM: this tree is wrong" in trace for trace in lost.traces) == 2
    assert not lost.member.serving
    assert lost.member.peer.doubted
    assert snapshot_files(lost.disk) == [], "what is not proven is not kept"
    while not leader.snapshots:
        write(ensemble, client)
    write_snapshots(leader)
    for _ in range(3):
        ensemble.advance(TICK_MS)
    assert is_mended(ensemble, lost)
    assert first not in snapshot_files(lost.disk)
    assert snapshot_files(lost.disk)


def test_transfer_that_fails_is_begun_again() -> None:
    ensemble, client, lost = ensemble_with_lost_files()
    (chosen,) = snapshot_files(ensemble.leader.disk)
    failed: list[str] = []
    fetch = lost.fetch

    def fails_once(effect: object) -> None:
        if failed:
            fetch(effect)  # type: ignore[arg-type]
        else:
            failed.append("once")
            lost.answers.append(FetchFailed(effect, "the connection broke"))  # type: ignore[arg-type]

    lost.fetch = fails_once  # type: ignore[method-assign]
    spoil(lost)
    write(ensemble, client, 2)
    ensemble.advance(2 * TICK_MS)
    assert said(lost, f"snapshot {chosen:#x} cannot be fetched: the connection broke")
    assert is_mended(ensemble, lost)


def test_leader_that_comes_next_is_asked_when_the_first_one_goes() -> None:
    ensemble, client, lost = ensemble_with_lost_files()
    first = ensemble.leader
    lost.fetch = lambda effect: None  # type: ignore[method-assign]
    spoil(lost)
    write(ensemble, client, 2)
    assert lost.member.trees.repair.under_way is not None
    assert lost.member.trees.repair.under_way.fetching is not None
    del lost.fetch
    stop(ensemble, first)
    for _ in range(200):
        ensemble.advance(50)
        if lost.member.serving:
            break
    assert ensemble.leader is not lost, "who is wrong does not lead"
    assert ensemble.leader.member.peer.state == LEADING
    assert lost.member.serving
    assert lost.member.tree.digest == ensemble.leader.member.tree.digest


def test_one_snapshot_is_chosen_at_a_time_for_who_asks_again() -> None:
    """Choosing reads whole files."""
    ensemble, _, lost = ensemble_with_lost_files()
    leader, link = ensemble.leader, lost.member.peer.link_to_leader
    assert link is not None
    asked = ev.MessageReceived(link, mmsg.TreeWanted(Zxid(0)))
    chosen: list[ChooseSnapshot] = []
    leader.choose_snapshot = chosen.append  # type: ignore[method-assign]
    leader.answers += [asked, asked]
    ensemble.step(leader)
    leader.answers.append(asked)
    ensemble.step(leader)
    assert chosen == [ChooseSnapshot(link, Zxid(0))]
    leader.answers += [SnapshotChosen(link, Zxid(0), None), asked]
    ensemble.step(leader)
    assert len(chosen) == 2


def test_leader_that_is_in_doubt_itself_offers_nothing() -> None:
    ensemble, client, lost = ensemble_with_lost_files(leader_has=False)
    spoil(lost)
    write(ensemble, client, 2)
    leader = ensemble.leader
    write_snapshots(leader)
    ensemble.settle()

    def ask() -> list[type[msg.Message]]:
        ensemble.sent.clear()
        lost.member.trees.check.asks = True
        ensemble.step(lost)
        ensemble.settle()
        kinds = [type(message) for _, message in ensemble.sent]
        return [kind for kind in kinds if kind in (mmsg.TreeWanted, mmsg.TreeOffered)]

    leader.member.trees.check.unproven(Zxid(leader.member.applied), leader.member.tree.digest)
    assert ask() == [mmsg.TreeWanted]
    leader.member.trees.check.suspicion = None
    assert ask() == [mmsg.TreeWanted, mmsg.TreeOffered]


@pytest.mark.parametrize("is_wrong", [True, False])
def test_leader_whose_own_files_lead_to_no_tree_leaves_its_role_to_one_whose_files_do(is_wrong: bool) -> None:
    """Otherwise nobody could join: it has no file to send, and takes no snapshot of a tree that is in doubt."""
    ensemble, client = ensemble_of(3)
    first = ensemble.leader
    gone, second = ensemble.others(first)
    stop(ensemble, gone)
    first.forget_oldest(2)
    spoil(first if is_wrong else second)
    write(ensemble, client, 3)
    advance_until_all_serve(ensemble, [second])
    assert said(first, "the files of more voters give a different digest from this leader's")
    assert ensemble.leader is second
    assert first.member.peer.yields == is_wrong, "as long as no quorum has its digest"
    # The third one comes back: there is a quorum for a digest again.
    bring_back(ensemble, gone)
    advance_until_all_serve(ensemble, list(ensemble.servers.values()))
    assert write(ensemble, ensemble.session(second), 2) == [0, 0]
    ensemble.advance(TICK_MS)
    assert all(is_mended(ensemble, server) for server in ensemble.servers.values())
    assert not any(server.member.trees.check.is_doubtful for server in ensemble.servers.values())


def advance_until_all_serve(ensemble: Ensemble, servers: list[Server]) -> None:
    """Snapshots that are due are written meanwhile."""
    for _ in range(200):
        for server in ensemble.servers.values():
            write_snapshots(server)
        ensemble.advance(50)
        if all(server.member.serving for server in servers):
            return
