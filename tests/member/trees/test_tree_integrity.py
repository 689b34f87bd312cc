"""E6 wrong trees, on whole members: who finds out, who goes on serving, and how a tree is made again."""

import pytest

from datatree.errors import ErrorCode
from datatree.log.zxid import Zxid
from datatree.tree import DataTree
from tests.member.trees.spoiled_trees import bring_back, digests, ensemble_of, said, spoil, stop, write
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import TICK_MS, Ensemble, Server
from zab.member.storage.events import TreeInstalled
from zab.member.trees import tree_repair
from zab.member.trees.events import RebuildFailed, TreeRebuilt
from zab.member.trees.tree_check import Finding, TreeCheck
from zab.member.trees.tree_integrity import TreeIntegrity
from zab.protocol import member_message as mmsg
from zab.protocol.states import LEADING
from zab.quorum.ids import ServerId
from zab.quorum.quorums import Majority


def test_wrong_tree_of_a_learner_is_made_anew_and_only_its_clients_notice() -> None:
    ensemble, client = ensemble_of(3)
    wrong, other = ensemble.others(ensemble.leader)
    at_wrong, at_other = ensemble.session(wrong), ensemble.session(other)
    spoil(wrong)
    wrong.keeps_rebuilt = True
    assert write(ensemble, client, 3) == [0, 0, 0]
    assert at_wrong.is_closed
    assert said(wrong, "ALARM: this tree is wrong")
    assert not wrong.member.serving
    assert ensemble.reattach(at_wrong, wrong).response is None
    logged = wrong.member.peer.history.last
    assert write(ensemble, client, 2) == [0, 0]
    assert wrong.member.peer.history.last > logged, "its log is good, and goes on"
    wrong.answers += wrong.rebuilt_held
    ensemble.settle()
    ensemble.advance(TICK_MS)
    assert wrong.member.serving
    assert len(digests(ensemble)) == 1
    assert wrong.value(b"/a") == other.value(b"/a") == b"1"
    assert not at_other.is_closed
    assert not client.is_closed
    assert ensemble.do(ensemble.session(wrong), client.get(b"/a")) is not None
    assert all(server.halted is None for server in ensemble.servers.values())


def test_tree_that_takes_long_to_make_is_made_once_and_said_to_be_wrong_once() -> None:
    """Pings go on meanwhile, with a digest that is known to be wrong."""
    ensemble, client = ensemble_of(3)
    leader = ensemble.leader
    wrong, other = ensemble.others(leader)
    spoil(wrong)
    wrong.keeps_rebuilt = True
    write(ensemble, client, 2)
    for _ in range(5):
        ensemble.advance(TICK_MS)
        write(ensemble, client, 1)
    (rebuilt,) = wrong.rebuilt_held
    assert sum("ALARM" in trace for trace in leader.traces) <= 1
    wrong.answers.append(rebuilt)
    wrong.keeps_rebuilt = False
    ensemble.advance(TICK_MS)
    assert wrong.member.serving
    assert not leader.member.trees.check.mending
    # Where it is wrong once more, that is seen once more.
    spoil(wrong)
    write(ensemble, client, 2)
    ensemble.advance(TICK_MS)
    assert sum("the tree is repaired" in trace for trace in wrong.traces) == 2
    assert wrong.member.serving
    assert wrong.member.tree.digest == other.member.tree.digest


@pytest.mark.parametrize("size", [3, 5])
def test_leader_with_a_wrong_tree_resigns_and_nobody_else_stops(size: int) -> None:
    ensemble, client = ensemble_of(size)
    first = ensemble.leader
    spoil(first)
    first.keeps_rebuilt = True
    write(ensemble, client, 3)
    assert said(first, "ALARM: this tree is wrong")
    assert client.is_closed
    for _ in range(200):
        ensemble.advance(50)
        if all(other.member.serving for other in ensemble.others(first)):
            break
    leader = ensemble.leader
    assert leader is not first, "who is wrong does not lead"
    assert first.member.peer.doubted
    late = ensemble.session(leader)
    assert write(ensemble, late, 2) == [0, 0]
    assert not first.member.serving
    first.answers += first.rebuilt_held
    ensemble.settle()
    ensemble.advance(2 * TICK_MS)
    assert first.member.serving
    assert not first.member.peer.doubted
    assert len(digests(ensemble)) == 1
    assert all(server.halted is None for server in ensemble.servers.values())
    assert all(server.value(b"/a") == b"1" for server in ensemble.servers.values())


def test_member_that_was_wrong_may_lead_again() -> None:
    ensemble, client = ensemble_of(3)
    first = ensemble.leader
    spoil(first)
    write(ensemble, client, 3)
    ensemble.start()
    ensemble.advance(TICK_MS)
    second = ensemble.leader
    stop(ensemble, second)
    ensemble.cut.clear()
    ensemble.start()
    assert not any(server.member.peer.doubted for server in ensemble.servers.values())
    assert not any(server.member.peer.election.standing.doubted for server in ensemble.servers.values())


@pytest.mark.parametrize("leads", [False, True])
def test_without_a_quorum_of_digests_all_make_their_trees_anew(leads: bool) -> None:
    """Two of three are there: one of them is wrong, and which one, their own files say."""
    ensemble, client = ensemble_of(3)
    leader = ensemble.leader
    gone, other = ensemble.others(leader)
    stop(ensemble, gone)
    spoil(leader if leads else other)
    write(ensemble, client, 3)
    assert said(leader, "all make their trees again")
    wrong = leader if leads else other
    assert said(wrong, "this member's files give digest")
    for _ in range(200):
        ensemble.advance(50)
        if leader.member.serving and other.member.serving:
            break
    late = ensemble.session(ensemble.leader)
    assert write(ensemble, late, 2) == [0, 0]
    ensemble.advance(TICK_MS)
    assert leader.member.tree.digest == other.member.tree.digest
    assert not leader.member.trees.check.is_doubtful
    assert not other.member.trees.check.is_doubtful


@pytest.mark.parametrize("wrong_count", [1, 2])
def test_leader_leaves_its_role_if_the_files_of_more_voters_say_something_else(wrong_count: int) -> None:
    """Without a quorum for any digest. A member that joins it would take over its tree, and then be one more that has
    it."""
    ensemble, client = ensemble_of(5)
    leader = ensemble.leader
    late, gone, *others = ensemble.others(leader)
    for server in (late, gone):
        stop(ensemble, server)
    wrong = [leader, *others][:wrong_count]
    for server in wrong:
        spoil(server)
        server.keeps_rebuilt = True
    write(ensemble, client, 2)

    def replay() -> None:
        """The wrong ones have files with the same content as their memory."""
        for server in wrong:
            for rebuilt in server.rebuilt_held:
                assert isinstance(rebuilt, TreeRebuilt)
                digest = server.member.digests.at(rebuilt.rebuild.zxid)
                server.answers.append(TreeRebuilt(rebuilt.rebuild, rebuilt.tree, digest))
            server.rebuilt_held.clear()
        ensemble.settle()

    replay()
    assert said(leader, "no quorum has one digest, though all have made their trees again")
    assert leader.member.peer.yields == (wrong_count == 1)
    if wrong_count == 1:
        ensemble.advance(TICK_MS)
        assert ensemble.leader in others
        return
    # One more comes: all make their trees again once more, and it is two against two. That is not asked again.
    bring_back(ensemble, late)
    for _ in range(100):
        ensemble.advance(50)
        replay()
    asked = [trace for trace in leader.traces if "all make their trees again from" in trace]
    assert len(asked) == 2, asked
    assert f"{late.sid}: " in asked[1]
    assert leader.member.trees.check.undecided is not None
    assert ensemble.leader is leader


def test_leader_that_leaves_its_role_with_a_ping_goes_on_as_a_member() -> None:
    """A member that has not answered leaves; with the next ping it is known that nobody else is to be waited for."""
    ensemble, client = ensemble_of(5)
    leader = ensemble.leader
    gone, silent, *others = ensemble.others(leader)
    stop(ensemble, gone)
    spoil(leader)
    spoil(silent, 2)
    leader.keeps_rebuilt = silent.keeps_rebuilt = True
    write(ensemble, client, 2)
    (rebuilt,) = leader.rebuilt_held
    assert isinstance(rebuilt, TreeRebuilt)
    digest = leader.member.digests.at(rebuilt.rebuild.zxid)
    leader.answers.append(TreeRebuilt(rebuilt.rebuild, rebuilt.tree, digest))
    ensemble.settle()
    assert leader.member.trees.check.comparison is not None, "one has not answered"
    stop(ensemble, silent)
    assert ensemble.leader is leader
    ensemble.advance(TICK_MS)
    assert said(leader, "the files of more voters give a different digest")
    assert ensemble.leader in others
    assert leader.member.peer.leader == ensemble.leader.sid


def held_back(ensemble: Ensemble, client: Client, server: Server) -> TreeRebuilt:
    """A difference is seen, and this member makes its tree again: that tree, which it does not get, nor any later."""
    server.keeps_rebuilt = True
    write(ensemble, client, 2)
    (rebuilt,) = server.rebuilt_held
    assert isinstance(rebuilt, TreeRebuilt)
    return rebuilt


def test_leader_that_left_its_role_leads_again_if_nobody_else_has_the_history() -> None:
    ensemble, client = ensemble_of(3)
    leader = ensemble.leader
    lagging, other = ensemble.others(leader)
    stop(ensemble, lagging)
    spoil(other)
    rebuilt = held_back(ensemble, client, leader)
    leader.answers.append(RebuildFailed(rebuilt.rebuild, "no snapshot can be read"))
    ensemble.settle()
    assert said(leader, "the files of more voters give a different digest")
    assert leader.member.peer.yields
    stop(ensemble, other)
    bring_back(ensemble, lagging)
    for _ in range(20):
        ensemble.advance(TICK_MS)
    assert said(leader, f"server {lagging.sid}, which is to lead, lacks history that this member has")
    assert ensemble.leader is leader
    assert not leader.member.trees.check.is_doubtful, "two of three have the digest of its tree"
    assert write(ensemble, ensemble.session(leader), 2) == [0, 0]
    assert lagging.member.tree.digest == leader.member.tree.digest


def ensemble_without_a_quorum(**lines: object) -> tuple[Ensemble, Client, Server, Server]:
    """Two of three are there, one of them is wrong, and its own files say the same as its memory. Besides the ensemble
    and a client: who is gone, and who is wrong."""
    ensemble, client = ensemble_of(3, **lines)
    gone, other = ensemble.others(ensemble.leader)
    stop(ensemble, gone)
    spoil(other)
    zxid, wrong_digest = other.member.applied, other.member.tree.digest
    rebuilt = held_back(ensemble, client, other)
    assert rebuilt.rebuild.zxid == zxid
    other.answers.append(TreeRebuilt(rebuilt.rebuild, rebuilt.tree, wrong_digest))
    ensemble.settle()
    return ensemble, client, gone, other


def alarms_of(server: Server) -> list[str]:
    return [trace for trace in server.traces if trace.startswith("ALARM")]


def test_writes_are_refused_while_nobody_knows_whose_tree_is_right() -> None:
    ensemble, client, gone, other = ensemble_without_a_quorum()
    leader = ensemble.leader
    undecided = leader.member.trees.check.undecided
    assert undecided is not None
    wrong_digest = other.member.digests.at(undecided.zxid)
    assert wrong_digest != leader.member.digests.at(undecided.zxid)
    assert said(leader, "no quorum has one digest, though all have made their trees again")
    assert said(leader, f"{other.sid}: {wrong_digest:016x}")
    before = leader.member.tree.digest
    assert write(ensemble, client, 2) == [ErrorCode.DATAINCONSISTENCY] * 2
    assert leader.member.tree.digest == before
    assert ensemble.do(client, client.get(b"/a"))[0][1] == 0
    assert not other.member.serving
    alarms = alarms_of(leader)
    ensemble.advance(3 * TICK_MS)
    assert alarms_of(leader) == alarms, "each of them is said once"
    # The third one comes back, and agrees with the leader.
    other.keeps_rebuilt = False
    bring_back(ensemble, gone)
    ensemble.start()
    assert write(ensemble, client, 2) == [0, 0]
    ensemble.advance(TICK_MS)
    assert len(digests(ensemble)) == 1


def finish_snapshots(ensemble: Ensemble, server: Server) -> int:
    """How many are under way."""
    count = 0
    while server.snapshots:
        ensemble.finish_snapshot(server)
        server.snapshots.pop()
        ensemble.settle()
        count += 1
    return count


def test_leader_takes_no_snapshot_while_nobody_knows_whose_tree_is_right() -> None:
    """Else retention would remove the files that tell, and leave those that were made of what may be wrong."""
    ensemble, _, gone, other = ensemble_without_a_quorum(snapCount=4)
    leader = ensemble.leader
    finish_snapshots(ensemble, leader)
    before = leader.member.applied
    for _ in range(12):
        ensemble.session(leader)
    assert leader.member.applied > before, "sessions are no writes that are refused"
    leader.member.trees.snapshots.take_wanted(Zxid(0))
    ensemble.step(leader)
    assert finish_snapshots(ensemble, leader) == 0
    other.keeps_rebuilt = False
    bring_back(ensemble, gone)
    ensemble.start()
    for _ in range(12):
        ensemble.session(leader)
    assert finish_snapshots(ensemble, leader) > 0


def test_suspect_serves_nobody_and_takes_no_snapshot_until_it_knows_who_is_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its leader does not hear of it at once here; the answer to the next ping tells the same."""
    monkeypatch.setattr(TreeIntegrity, "on_suspect", lambda *_: None)
    ensemble, client = ensemble_of(3, snapCount=4)
    suspect, other = ensemble.others(ensemble.leader)
    at_suspect = ensemble.session(suspect)
    spoil(suspect)
    write(ensemble, client, 2)
    assert at_suspect.is_closed
    assert len(alarms_of(suspect)) == 1
    for server in (suspect, other):
        finish_snapshots(ensemble, server)
    write(ensemble, client, 8)
    assert suspect.member.applied == other.member.applied, "it goes on applying: perhaps the leader is wrong"
    assert not suspect.member.serving
    assert other.snapshots
    assert not suspect.snapshots
    ensemble.advance(TICK_MS)
    assert said(suspect, "the tree is repaired")
    assert suspect.member.serving


def test_suspect_asks_about_the_tree_that_it_has_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the one that it had before was where it began to suspect it, it does not know any more."""
    ensemble, client = ensemble_of(3)
    suspect = ensemble.follower
    spoil(suspect)
    with monkeypatch.context() as patch:
        for server in ensemble.servers.values():
            patch.setitem(server.member.messages._on_check, mmsg.Suspect, lambda *_: None)
        write(ensemble, client, 2)
        suspicion = suspect.member.trees.check.suspicion
        assert suspicion is not None
        suspect.member.trees.repair.replay(Zxid(suspect.member.applied))
        ensemble.step(suspect)
        ensemble.settle()
    assert said(suspect, "this member's files give digest")
    assert suspect.member.digests.find(suspicion.zxid) is None
    assert not suspect.member.serving
    ensemble.advance(TICK_MS)
    assert suspect.member.serving
    assert len(digests(ensemble)) == 1


def ensemble_with_dropped_batches(patch: pytest.MonkeyPatch) -> tuple[Ensemble, Client, Server]:
    """A learner with a wrong tree that is made again for long, while more is written than may wait: `/0` to `/59`.
    Besides the ensemble and a client of its leader: that learner, whose trees are kept back."""
    patch.setattr(tree_repair, "HELD_BYTES_MAX", 2_000)
    ensemble, client = ensemble_of(3)
    wrong = ensemble.follower
    spoil(wrong)
    wrong.keeps_rebuilt = True
    write(ensemble, client, 2)
    for number in range(60):
        ensemble.do(client, client.create(b"/%d" % number))
    assert len(wrong.member.applier.committed) < 15
    assert wrong.member.trees.repair.under_way is not None
    assert wrong.member.trees.repair.under_way.dropped_to > wrong.member.applied
    return ensemble, client, wrong


def hand_over(ensemble: Ensemble, wrong: Server) -> None:
    """The trees that were kept back, and those that are made from now on."""
    wrong.keeps_rebuilt = False
    wrong.answers += wrong.rebuilt_held
    ensemble.settle()
    ensemble.advance(TICK_MS)


def test_what_waits_for_a_tree_is_bounded_and_read_from_the_log_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble, _, wrong = ensemble_with_dropped_batches(monkeypatch)
    hand_over(ensemble, wrong)
    assert wrong.member.serving
    assert len(digests(ensemble)) == 1
    assert all(wrong.value(b"/%d" % number) == b"" for number in range(60))
    assert sum("this tree is wrong" in trace for trace in wrong.traces) == 1, "none of it was lost"


def test_verdict_on_a_tree_that_catches_up_loses_nothing_of_what_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble, _, wrong = ensemble_with_dropped_batches(monkeypatch)
    wrong.answers.append(wrong.rebuilt_held.pop())
    ensemble.settle()
    assert wrong.member.trees.repair.under_way is not None
    assert wrong.member.trees.repair.under_way.purpose is tree_repair.Purpose.CATCH_UP
    wrong.rebuilt_held.clear()
    zxid = Zxid(wrong.member.applied)
    right = wrong.member.digests.at(zxid)
    wrong.member.digests._by_zxid[zxid] ^= 1
    wrong.member.trees.judge(zxid, right)
    ensemble.step(wrong)
    assert wrong.member.trees.repair.under_way.purpose is tree_repair.Purpose.MEND
    hand_over(ensemble, wrong)
    assert wrong.halted is None
    assert wrong.member.serving
    assert len(digests(ensemble)) == 1
    assert all(wrong.value(b"/%d" % number) == b"" for number in range(60))
    assert sum("this tree is wrong" in trace for trace in wrong.traces) == 2


def test_leader_that_makes_its_tree_anew_proposes_no_more_than_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the comparison for which it does so has an end."""
    monkeypatch.setattr(tree_repair, "HELD_BYTES_MAX", 2_000)
    ensemble, client = ensemble_of(3)
    leader = ensemble.leader
    gone, other = ensemble.others(leader)
    stop(ensemble, gone)
    spoil(other)
    leader.keeps_rebuilt = True
    answered = write(ensemble, client, 2)
    for number in range(60):
        ensemble.do(client, client.create(b"/%d" % number))
    assert not client.is_closed, "its clients wait"
    assert 0 < len(leader.member.applier.committed) < 15
    assert not client.replies()
    leader.answers += leader.rebuilt_held
    ensemble.settle()
    assert [error for _, error, _ in client.replies()] == [0] * (62 - len(answered))
    assert leader.member.trees.check.comparison is None
    ensemble.advance(TICK_MS)
    assert other.member.serving
    assert leader.member.tree.digest == other.member.tree.digest


def test_what_was_dropped_is_of_no_interest_to_another_lineage(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble, _, wrong = ensemble_with_dropped_batches(monkeypatch)
    wrong.answers.append(TreeInstalled(DataTree()))
    wrong.answers += wrong.rebuilt_held
    ensemble.settle()
    assert wrong.member.applied == 0, "the tree that was made belongs to the old one"
    wrong.member.trees.repair.replay(Zxid(0))
    ensemble.step(wrong)
    wrong.answers += wrong.rebuilt_held[1:]
    ensemble.step(wrong)
    assert wrong.member.trees.repair.under_way is None
    assert wrong.halted is None


def test_one_repair_for_a_zxid_and_one_at_a_time() -> None:
    check = TreeCheck(Majority(frozenset({ServerId(1)})))
    assert check.judge(Zxid(5), 1, 2) is Finding.WRONG
    assert check.judge(Zxid(6), 3, 4) is Finding.UNKNOWN, "it is being made again"
    check.rebuilt()
    assert check.judge(Zxid(6), 4, 4) is Finding.RIGHT
    assert check.judge(Zxid(5), 1, 2) is Finding.WRONG_AGAIN


def test_nobody_decides_for_good_that_nobody_can_decide() -> None:
    """The leader asks again: a member that was mended or started again has another digest now."""
    ensemble, client, _, other = ensemble_without_a_quorum()
    leader = ensemble.leader
    assert leader.member.trees.check.undecided is not None
    tree = other.member.tree
    tree.digest = tree.recompute_digest()  # as after a start
    other.member.digests.clear()
    other.member.digests.record(tree.applied, tree.digest)
    ensemble.advance(TICK_MS)
    write(ensemble, client, 2)
    ensemble.advance(TICK_MS)
    assert leader.member.trees.check.undecided is None
    assert write(ensemble, client, 2) == [0, 0]
    assert other.member.serving


def test_whoever_comes_decides_though_nobody_asks() -> None:
    """The one that is wrong was started again, and does not suspect itself; the new one does not know it."""
    ensemble, client, gone, other = ensemble_without_a_quorum()
    leader = ensemble.leader
    other.member.trees.check.suspicion = None
    bring_back(ensemble, gone)
    ensemble.advance(3 * TICK_MS)
    assert ensemble.leader is leader
    assert gone.member.serving
    assert leader.member.trees.check.undecided is None
    assert write(ensemble, client, 2) == [0, 0]


def test_who_cannot_make_its_tree_anew_keeps_nobody_from_being_mended() -> None:
    ensemble, client = ensemble_of(3)
    lost, wrong = ensemble.others(ensemble.leader)
    spoil(lost)
    rebuilt = held_back(ensemble, client, lost)
    lost.answers.append(RebuildFailed(rebuilt.rebuild, "no snapshot can be read"))
    write(ensemble, client, 2)
    assert said(lost, "ALARM: the tree cannot be repaired from this member's files: no snapshot can be read")
    spoil(wrong)
    write(ensemble, client, 2)
    ensemble.advance(TICK_MS)
    assert said(wrong, "this member's files give digest")
    assert wrong.member.serving
    assert not lost.member.serving
    assert lost.member.peer.history.last == wrong.member.peer.history.last, "it goes on logging"
    assert lost.halted is None


@pytest.mark.parametrize("is_replay", [False, True])
def test_who_is_known_to_be_wrong_is_no_evidence(monkeypatch: pytest.MonkeyPatch, is_replay: bool) -> None:
    """By itself it may be a quorum of the servers that decide now: a reconfiguration may have made it one."""
    ensemble, client = ensemble_of(3)
    leader = ensemble.leader
    wrong, _ = ensemble.others(leader)
    spoil(wrong)
    wrong.keeps_rebuilt = True
    write(ensemble, client, 2)
    assert wrong.member.trees.check.wrong is not None
    link, zxid = wrong.member.peer.link_to_leader, Zxid(wrong.member.applied)
    assert link is not None
    answers: list[object] = []
    monkeypatch.setattr(wrong.member._outbox, "send", lambda _link, message: answers.append(message))
    wrong.member.trees.on_compare(link, leader.sid, mmsg.Compare(zxid, is_replay))
    assert answers == [mmsg.Compared(zxid, wrong.member.digests.at(zxid), known=False, replay=is_replay)]
    # Another leader learns it so: it does not ask at each ping.
    check = leader.member.trees.check
    check.mending.clear()
    comparison = check.compare(zxid)
    assert comparison is not None
    leader.member.trees.on_compared(link, wrong.sid, mmsg.Compared(zxid, 0, known=False, replay=False))
    assert not check.mending, "that one does not remember"
    leader.member.trees.on_compared(link, wrong.sid, mmsg.Compared(zxid, 5, known=False, replay=False))
    assert check.mending == {wrong.sid}
    assert comparison.told == {wrong.sid: None}


def test_who_comes_over_another_link_is_asked_again() -> None:
    """The question went with the link, also where the leader heard of no end of it before there was a new one."""
    ensemble, client = ensemble_of(5)
    leader = ensemble.leader
    wrong, late, down, _ = ensemble.others(leader)
    stop(ensemble, down)
    ensemble.late.add(late.sid)
    spoil(wrong)
    write(ensemble, client, 2)
    assert not wrong.member.serving
    link = late.member.peer.link_to_leader
    assert link is not None
    ensemble.late.clear()
    ensemble.break_link(link)
    ensemble.settle()
    for _ in range(3):
        ensemble.advance(TICK_MS)
    assert late.member.peer.link_to_leader != link
    assert wrong.member.serving
    assert leader.member.trees.check.comparison is None


def test_wrong_digest_in_the_log_does_not_stop_who_reads_it_later() -> None:
    """The batches of a leader whose tree was wrong say so for ever."""
    ensemble, client = ensemble_of(3)
    first = ensemble.leader
    late, _ = ensemble.others(first)
    ensemble.late.add(late.sid)
    spoil(first)
    write(ensemble, client, 3)
    ensemble.late.clear()
    ensemble.settle()
    for _ in range(400):
        ensemble.advance(50)
        if all(server.member.serving for server in ensemble.servers.values()):
            break
    assert all(server.halted is None for server in ensemble.servers.values())
    assert all(server.member.serving for server in ensemble.servers.values())
    assert ensemble.leader.member.peer.state == LEADING
    assert len(digests(ensemble)) == 1
