"""ZooKeeper's known bugs in election, discovery, synchronization and broadcast, by number: none of them is here.

Each test sets up the scenario of the ticket and shows the rule that it taught. Storage scenarios (1156, 1489, 2832,
3056, …) are in `tests/datatree`, those of sessions and watches in `tests/server`.
"""

import pytest

from datatree.log.batch import build, genesis
from datatree.log.zxid import make_zxid
from datatree.recovery.recover import examine
from tests.protocol.histories import established, rejoining_with_held_storage
from tests.rigs.direct.peers import Ensemble, histories
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.election import Vote, total_order
from zab.protocol.states import BATCHES, FOLLOWING, LEADING, LOOKING, NOTHING


def sent_to_leader(ensemble: Ensemble, sid: int, kind: type) -> list[msg.Message]:
    """What this learner has sent to the leader and is not delivered yet."""
    return [
        message
        for (link, receiver), wire in ensemble.wires.items()
        for message in wire
        if sid in ensemble.links[link] and receiver != sid and isinstance(message, kind)
    ]


@pytest.mark.parametrize("ticket", [3911, 4646, 3023])
def test_the_history_is_durable_before_newleader_is_acknowledged(ticket: int) -> None:
    ensemble, leader, follower = rejoining_with_held_storage(fx.AppendBatches)
    peer = ensemble.peer(follower)
    assert peer.history.last == ensemble.peer(leader).history.last
    assert peer.durable < peer.history.last[0]
    assert not peer.serving
    assert follower not in ensemble.peer(leader).learners.values()
    ensemble.servers[follower].held.clear()
    ensemble.run(50)
    assert peer.serving


def test_4643_current_epoch_is_written_after_the_history() -> None:
    ensemble, _, follower = rejoining_with_held_storage(fx.AppendBatches)
    waiting = ensemble.servers[follower].to_store
    assert fx.AppendBatches in map(type, waiting)
    assert not any(isinstance(effect, fx.SaveEpochs) and effect.current == effect.accepted for effect in waiting)


def test_4394_no_commit_is_sent_before_uptodate() -> None:
    ensemble, leader, follower = rejoining_with_held_storage(fx.SaveEpochs)
    ensemble.propose(leader)
    ensemble.settle()
    assert ensemble.peer(leader).committed == ensemble.peer(leader).history.last[0]
    link = ensemble.peer(follower).link_to_leader
    assert link is not None
    assert not any(isinstance(m, msg.Commit) for m in ensemble.wires[link, follower])
    assert not ensemble.peer(follower).serving
    ensemble.servers[follower].held.clear()
    ensemble.run(100)
    assert len(histories(ensemble)) == 1
    assert ensemble.servers[follower].applied == ensemble.servers[leader].applied


def test_4685_no_ack_of_a_proposal_leaves_before_the_ack_of_newleader() -> None:
    ensemble, leader, follower = rejoining_with_held_storage(fx.SaveEpochs)
    assert ensemble.peer(follower).following is not None
    ensemble.propose(leader)
    ensemble.settle()
    assert not sent_to_leader(ensemble, follower, msg.Ack)
    handler = ensemble.peer(leader).leading.handler_of(follower)  # type: ignore[union-attr]
    assert handler is not None
    assert handler.acked == 0


@pytest.mark.parametrize("ticket", [4925, 2846])
def test_a_batch_that_leaves_a_gap_ends_the_link(ticket: int) -> None:
    ensemble, leader = established()
    follower = next(sid for sid in ensemble.servers if sid != leader)
    peer = ensemble.peer(follower)
    gap = build(
        bytes(16), epoch=1, first=make_zxid(1, 5), count=1, time=0, flags=0, mark=0, applied=0, digest=0, body=b"x"
    )
    link = peer.link_to_leader
    assert link is not None
    ensemble.step(follower, ev.MessageReceived(link, msg.Proposal([gap.raw])))
    assert link not in ensemble.links
    assert peer.history.last[0] == 0


def test_a_batch_of_another_history_with_the_right_number_ends_the_link() -> None:
    ensemble, leader = established()
    follower = next(sid for sid in ensemble.servers if sid != leader)
    peer = ensemble.peer(follower)
    other = build(
        genesis(b"another lineage."), epoch=1, first=make_zxid(1, 1), count=1, time=0, flags=0, mark=0, applied=0,
        digest=0, body=b"x",
    )  # fmt: skip
    link = peer.link_to_leader
    assert link is not None
    ensemble.step(follower, ev.MessageReceived(link, msg.Proposal([other.raw])))
    assert link not in ensemble.links
    assert peer.history.last[0] == 0


def test_3642_an_interrupted_snapshot_changes_nothing_that_is_voted_with() -> None:
    ensemble, leader = established()
    follower = next(sid for sid in ensemble.servers if sid != leader)
    ensemble.crash(follower)
    for _ in range(3):
        ensemble.propose(leader)
        ensemble.run(20)
    # The leader's log begins at a snapshot now: what the follower lacks is in no log any more.
    peer = ensemble.peer(leader)
    ensemble.servers[leader].take_snapshot()
    peer.history.reset(peer.history.last)
    ensemble.servers[follower].held.add(fx.FetchSnapshot)
    ensemble.start(follower)
    ensemble.run(100)
    assert ensemble.peer(follower).following.fetching  # type: ignore[union-attr]
    ensemble.crash(follower)
    ensemble.servers[follower].held.clear()
    found = examine(ensemble.servers[follower].disk)
    assert found.empty
    assert not found.amnesiac
    ensemble.start(follower)
    ensemble.run(300)
    assert ensemble.peer(follower).history.last == peer.history.last


def test_3104_newleader_comes_after_the_history() -> None:
    ensemble, leader = established()
    follower = next(sid for sid in ensemble.servers if sid != leader)
    ensemble.crash(follower)
    for _ in range(3):
        ensemble.propose(leader)
        ensemble.run(20)
    ensemble.start(follower)
    order: list[type] = []
    proposed = False
    while not ensemble.peer(follower).serving:
        link = ensemble.peer(follower).link_to_leader
        wire = ensemble.wires[link, follower] if link is not None else ()
        order += [type(m) for m in wire if isinstance(m, msg.Proposal | msg.NewLeader) and type(m) not in order]
        if msg.NewLeader in order and not proposed:
            proposed = True
            ensemble.propose(leader)  # while it is synchronized: comes after NEWLEADER
        assert ensemble.deliver_one()
    assert order == [msg.Proposal, msg.NewLeader]
    ensemble.run(20)
    assert proposed
    assert len(histories(ensemble)) == 1


def test_2355_a_learner_claims_only_what_it_has_received() -> None:
    ensemble, leader = established()
    follower = next(sid for sid in ensemble.servers if sid != leader)
    peer = ensemble.peer(follower)
    before = peer.history.last
    link = peer.link_to_leader
    assert link is not None
    ensemble.crash(follower)
    ensemble.propose(leader)
    ensemble.run(20)
    ensemble.start(follower)
    while not any(isinstance(m, msg.Diff) for wire in ensemble.wires.values() for m in wire):
        assert ensemble.deliver_one()
    ensemble.partition(leader, follower)
    assert ensemble.peer(follower).history.last == before


@pytest.mark.parametrize("ticket", [1154, 1549, 4837, 5010])
def test_an_uncommitted_tail_of_an_old_leader_is_cut_and_was_never_applied(ticket: int) -> None:
    ensemble, old = established()
    ensemble.propose(old)
    ensemble.run(20)
    others = [sid for sid in ensemble.servers if sid != old]
    for other in others:
        ensemble.partition(old, other)
    lost = ensemble.propose(old)
    ensemble.settle()
    assert ensemble.peer(old).history.last[0] == lost
    assert lost not in [batch.zxid for batch in ensemble.servers[old].applied]
    new = next(sid for sid in others if ensemble.peer(sid).serving and ensemble.peer(sid).state == LEADING)
    ensemble.propose(new)
    ensemble.run(1000)
    for other in others:
        ensemble.heal(old, other)
    ensemble.run(2000)
    assert lost not in [batch.zxid for batch in ensemble.servers[old].applied]
    assert len(histories(ensemble)) == 1


def test_2845_the_vote_names_the_end_of_the_log_committed_or_not() -> None:
    ensemble, leader = established()
    others = [sid for sid in ensemble.servers if sid != leader]
    ensemble.servers[leader].held.add(fx.AppendBatches)
    zxid = ensemble.propose(leader)
    ensemble.servers[others[1]].held.add(fx.AppendBatches)
    ensemble.settle()
    assert ensemble.peer(others[0]).committed < zxid
    ensemble.crash(leader)
    ensemble.settle()
    assert ensemble.peer(others[0]).election.standing.vote.zxid == zxid


@pytest.mark.parametrize("ticket", [4712, 4541])
def test_no_election_begins_before_the_log_is_drained(ticket: int) -> None:
    ensemble, leader = established()
    follower = next(sid for sid in ensemble.servers if sid != leader)
    ensemble.servers[follower].held.add(fx.DrainLog)
    ensemble.crash(leader)
    ensemble.run(500)
    assert ensemble.peer(follower).election.next_deadline() is None or ensemble.peer(follower).draining
    assert ensemble.leader() is None
    ensemble.servers[follower].held.clear()
    ensemble.elect()


def test_4352_a_learner_without_any_history_gets_all_of_it() -> None:
    ensemble, leader = established()
    ensemble.propose(leader)
    ensemble.run(20)
    follower = next(sid for sid in ensemble.servers if sid != leader)
    ensemble.crash(follower)
    ensemble.servers[follower].wipe()
    ensemble.start(follower)
    ensemble.run(500)
    assert ensemble.servers[follower].applied == ensemble.servers[leader].applied


def test_1551_an_observer_gets_what_was_proposed_while_it_was_synchronized() -> None:
    ensemble = Ensemble(3, observers=frozenset({9}))
    ensemble.start(1, 2, 3)
    leader = ensemble.elect()
    ensemble.servers[9].held.add(fx.SaveEpochs)
    ensemble.start(9)
    ensemble.run(300)
    ensemble.propose(leader)
    ensemble.settle()
    ensemble.servers[9].held.clear()
    ensemble.propose(leader)
    ensemble.run(500)
    assert ensemble.peer(9).serving
    assert ensemble.servers[9].applied == ensemble.servers[leader].applied


@pytest.mark.parametrize("ticket", [335, 1081, 1082])
def test_votes_are_ordered_by_epoch_before_history(ticket: int) -> None:
    assert total_order(Vote(1, 5, 3)) > total_order(Vote(2, 99, 2))
    assert total_order(Vote(1, 6, 3)) > total_order(Vote(2, 5, 3))
    assert total_order(Vote(2, 5, 3)) > total_order(Vote(1, 5, 3))


@pytest.mark.parametrize("ticket", [1282, 1291])
def test_accepted_at_leaderinfo_current_at_newleader(ticket: int) -> None:
    ensemble = Ensemble(3)
    ensemble.start()
    order = []
    while ensemble.deliver_one():
        for sid in (1, 2):
            entry = (sid, *ensemble.servers[sid].epochs)
            if entry not in order:
                order.append(entry)
    for sid in (1, 2):
        steps = [entry[1:] for entry in order if entry[0] == sid]
        assert steps == [(0, 0), (1, 0), (1, 1)]


def test_1192_the_epoch_needs_a_quorum_that_has_accepted_it_not_only_one_that_is_connected() -> None:
    ensemble = Ensemble(3)
    for sid in (1, 2):
        ensemble.servers[sid].held.add(fx.SaveEpochs)
    ensemble.start()
    ensemble.run(300)
    leader = next(sid for sid in ensemble.up() if ensemble.peer(sid).state == LEADING)
    assert ensemble.peer(leader).leading.epoch == 1  # type: ignore[union-attr]
    assert ensemble.peer(leader).current_epoch == 0
    assert ensemble.leader() is None


@pytest.mark.parametrize("ticket", [1277, 4883])
def test_the_counter_never_runs_into_the_epoch(ticket: int) -> None:
    ensemble, leader = established(counter_limit=4)
    clients_lost = []
    for _ in range(10):
        ensemble.propose(leader)
        ensemble.run(20)
        clients_lost += [sid for sid in ensemble.up() if not ensemble.peer(sid).serving]
        assert ensemble.leader() == leader
    assert not clients_lost
    assert ensemble.peer(leader).epoch == 3
    assert [batch.zxid for batch in ensemble.servers[1].applied][3:5] == [make_zxid(1, 4), make_zxid(2, 1)]


@pytest.mark.parametrize("ticket", [1514, 3537])
def test_a_leader_that_others_follow_must_say_that_it_leads(ticket: int) -> None:
    ensemble, leader = established()
    follower, other = (sid for sid in ensemble.servers if sid != leader)
    ensemble.crash(follower)
    ensemble.start(follower)
    peer = ensemble.peer(follower)
    ensemble.settle()
    assert peer.leader == leader
    ensemble, leader = established(5)
    sid = next(sid for sid in ensemble.servers if sid != leader)
    ensemble.crash(sid)
    for one in ensemble.servers:
        if one != sid:
            ensemble.partition(sid, one)
    ensemble.start(sid)
    ensemble.settle()
    peer = ensemble.peer(sid)
    following = msg.Notification(FOLLOWING, leader, 0, 1, 77, peer.lineage, False, BATCHES, False, False, False)
    for other in [other for other in ensemble.servers if other not in (sid, leader)]:
        ensemble.step(sid, ev.NotificationReceived(other, following))
    assert peer.leader is None
    leading = msg.Notification(LEADING, leader, 0, 1, 77, peer.lineage, False, BATCHES, False, False, False)
    ensemble.step(sid, ev.NotificationReceived(leader, leading))
    assert peer.leader == leader


@pytest.mark.parametrize("ticket", [1732, 1818])
def test_a_member_that_returns_joins_although_the_votes_of_the_others_differ(ticket: int) -> None:
    ensemble, leader = established()
    follower, other = (sid for sid in ensemble.servers if sid != leader)
    for sid in (other, follower, other, follower):
        ensemble.crash(sid)
        ensemble.propose(leader)
        ensemble.run(50)
        ensemble.start(sid)
        ensemble.run(500)
        assert ensemble.leader() == leader
        assert ensemble.peer(sid).serving


def test_3769_a_vote_of_nonsense_is_ignored() -> None:
    ensemble, leader = established()
    follower = next(sid for sid in ensemble.servers if sid != leader)
    ensemble.crash(leader)
    peer = ensemble.peer(follower)
    for nonsense in (
        msg.Notification(LOOKING, 77, make_zxid(9, 9), 9, 1 << 40, peer.lineage, False, BATCHES, False, False, False),
        msg.Notification(3, leader, 0, 0, 0, b"", False, NOTHING, False, False, False),
        msg.Notification(LEADING, 77, 0, 0, 0, b"", True, NOTHING, False, False, False),
    ):
        ensemble.step(follower, ev.NotificationReceived(leader, nonsense))
        ensemble.step(follower, ev.NotificationReceived(55, nonsense))
    ensemble.run(500)
    assert ensemble.elect() != leader


def test_specification_issue_1_a_proposal_goes_to_learners_that_have_not_acknowledged_newleader_yet() -> None:
    ensemble, leader, follower = rejoining_with_held_storage(fx.SaveEpochs)
    zxid = ensemble.propose(leader)
    ensemble.settle()
    assert ensemble.peer(leader).committed == zxid
    assert ensemble.peer(follower).history.last[0] == zxid
    assert not ensemble.peer(follower).serving


def test_specification_issue_2_a_repeated_proposal_is_dropped() -> None:
    ensemble, leader = established()
    ensemble.propose(leader)
    ensemble.run(20)
    follower = next(sid for sid in ensemble.servers if sid != leader)
    peer = ensemble.peer(follower)
    batch = ensemble.servers[follower].applied[-1]
    link = peer.link_to_leader
    assert link is not None
    ensemble.step(follower, ev.MessageReceived(link, msg.Proposal([batch.raw])))
    assert link in ensemble.links
    assert not ensemble.servers[follower].to_store
    assert [b.zxid for b in ensemble.servers[follower].applied].count(batch.zxid) == 1


def test_specification_issue_3_uptodate_carries_the_mark_of_now() -> None:
    ensemble, leader, follower = rejoining_with_held_storage(fx.SaveEpochs)
    for _ in range(3):
        zxid = ensemble.propose(leader)
        ensemble.settle()
    ensemble.servers[follower].held.clear()
    ensemble.settle()
    assert ensemble.peer(follower).serving
    assert ensemble.peer(follower).committed == zxid
    assert ensemble.servers[follower].applied[-1].zxid == zxid
