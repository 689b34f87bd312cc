"""What a peer's bytes, slow disks and unlucky moments must not do: each test is named after the rule that holds.

The scenarios are legal ones, or bytes that a faulty member may send: nobody halts, dies, forgets or waits for ever.
"""

import pytest

from datatree.log.batch import build, genesis
from datatree.log.epochs import save_epochs
from datatree.log.zxid import EPOCH_MAX, Epoch, make_zxid
from tests.protocol.alone import Alone, Follower, restored
from tests.protocol.histories import established, rejoining_with_held_storage
from tests.protocol.learners import LINEAGE, SlowReader, chained, fill, followers, left_behind, two_histories, until
from tests.rigs.direct.lone_peer import transactions
from tests.rigs.direct.peers import Ensemble, histories
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol.discovery import EPOCH_JUMP_MAX
from zab.protocol.election import ROUND_JUMP_MAX
from zab.protocol.roles import Stage
from zab.protocol.states import BATCHES, BROADCAST, LOOKING, NOTHING


def link_of(ensemble: Ensemble, leader: int, sid: int) -> int:
    leading = ensemble.peer(leader).leading
    assert leading is not None
    handler = leading.handler_of(sid)
    assert handler is not None
    return handler.link


# ---------------------------------------------------------------------------------- bytes of a peer end its link only


def test_an_early_learner_of_another_lineage_is_refused_when_the_election_is_won() -> None:
    ensemble, leader = established()
    ensemble.propose(leader)
    ensemble.run(50)
    ensemble.crash(1, 2, 3)
    ensemble.start(3)
    ensemble.settle()
    ensemble.step(3, ev.QuorumLinkUp(99, 1, inbound=True))
    ensemble.step(
        3, ev.MessageReceived(99, msg.FollowerInfo(1, b"another lineage.", BATCHES, False, False, False, False))
    )
    ensemble.start(2)
    assert ensemble.elect() == 3


@pytest.mark.parametrize("epoch", [1 + EPOCH_JUMP_MAX, EPOCH_MAX - 1, EPOCH_MAX])
def test_b6_an_epoch_that_is_far_above_the_leaders_is_refused(epoch: int) -> None:
    """A member that sent it: the ensemble goes on in its own."""
    ensemble, leader = established()
    sid = followers(ensemble, leader)[0]
    ensemble.partition(leader, sid)
    ensemble.run(500)
    lineage = ensemble.peer(leader).lineage
    ensemble.step(leader, ev.QuorumLinkUp(99, sid, inbound=True))
    ensemble.step(leader, ev.MessageReceived(99, msg.FollowerInfo(epoch, lineage, BATCHES, False, False, False, False)))
    assert any(
        f"server {sid} has accepted epoch {epoch}, here it is 1: it cannot be" in line for line in ensemble.trace
    )
    ensemble.heal(leader, sid)
    ensemble.run(2000)
    for peer in map(ensemble.peer, ensemble.servers):
        assert peer.serving
        assert peer.accepted_epoch == peer.current_epoch < 5


@pytest.mark.parametrize(("by", "is_followed"), [(EPOCH_JUMP_MAX, True), (EPOCH_JUMP_MAX + 1, False)])
def test_b6_a_leader_far_above_what_was_accepted_is_not_followed(by: int, is_followed: bool) -> None:
    """Nothing of it is stored."""
    follower = Follower()
    accepted, lineage = follower.peer.accepted_epoch, follower.peer.lineage
    follower.forget()
    follower.from_leader(msg.LeaderInfo(Epoch(accepted + by), lineage))
    assert bool(follower.did(fx.SaveEpochs)) == is_followed
    assert follower.has_left != is_followed


def test_b7_a_round_far_above_the_own_one_is_none() -> None:
    alone = Alone(1, restored(), 3)
    before = alone.peer.election.round
    for sid in (2, 3):
        alone.vote(sid, 2, round=before + ROUND_JUMP_MAX + 1)
    assert alone.peer.election.round == before
    assert alone.peer.election.winner is None
    alone.vote(2, 2, round=before + ROUND_JUMP_MAX)
    assert alone.peer.election.round == before + ROUND_JUMP_MAX


def test_b6_a_member_that_accepted_many_epochs_is_followed_by_all() -> None:
    ensemble, leader = established()
    behind = followers(ensemble, leader)[0]
    ensemble.crash(behind)
    save_epochs(ensemble.servers[behind].disk, EPOCH_JUMP_MAX, 1)
    ensemble.start(behind)
    ensemble.run(3000)
    for peer in map(ensemble.peer, ensemble.servers):
        assert peer.serving
        assert peer.current_epoch == EPOCH_JUMP_MAX + 1


def test_an_ack_inside_of_a_batch_ends_its_link() -> None:
    ensemble, leader = established()
    for sid in followers(ensemble, leader):
        ensemble.servers[sid].held.add(fx.AppendBatches)
    last = ensemble.propose(leader, count=3)
    ensemble.settle()
    sid = followers(ensemble, leader)[0]
    link = link_of(ensemble, leader, sid)
    ensemble.step(leader, ev.MessageReceived(link, msg.Ack(1, last - 1)))
    assert link not in ensemble.links
    assert ensemble.peer(leader).committed == 0


@pytest.mark.parametrize("kind", [msg.Commit, msg.UpToDate])
def test_a_mark_inside_of_a_batch_ends_the_link(kind: type[msg.Commit] | type[msg.UpToDate]) -> None:
    if kind is msg.Commit:
        ensemble, leader = established()
        follower = followers(ensemble, leader)[0]
        for sid in followers(ensemble, leader):
            ensemble.servers[sid].held.add(fx.AppendBatches)
        last = ensemble.propose(leader, count=3)
        ensemble.settle()
    else:
        ensemble, leader, follower = rejoining_with_held_storage(fx.SaveMember)
        last = ensemble.propose(leader, count=3)
        until(ensemble, lambda: ensemble.peer(follower).following.synchronized)  # type: ignore[union-attr]
        if ensemble.peer(follower).history.last[0] < last:
            ensemble.settle()
    peer = ensemble.peer(follower)
    before = peer.committed
    link = peer.link_to_leader
    assert link is not None
    ensemble.step(follower, ev.MessageReceived(link, kind(last - 1)))
    assert peer.link_to_leader != link
    assert peer.committed == before


def test_a_batch_that_ends_inside_of_a_logged_one_ends_the_link() -> None:
    ensemble, leader = established()
    follower = followers(ensemble, leader)[0]
    ensemble.propose(leader, count=3)
    ensemble.run(20)
    peer = ensemble.peer(follower)
    link = peer.link_to_leader
    assert link is not None
    odd = build(
        peer.history.base[1], epoch=1, first=make_zxid(1, 1), count=2, time=0, flags=0, mark=0, applied=0, digest=0,
        body=b"x",
    )  # fmt: skip
    ensemble.step(follower, ev.MessageReceived(link, msg.Proposal([odd.raw])))
    assert link not in ensemble.links


def test_installed_without_a_snapshot_ends_the_link() -> None:
    ensemble = SlowReader(recent_bytes_max=1)
    ensemble.start()
    leader = ensemble.elect()
    follower = followers(ensemble, leader)[0]
    ensemble.crash(follower)
    for _ in range(4):
        ensemble.propose(leader)
        ensemble.run(20)
    ensemble.start(follower)
    until(ensemble, ensemble.reader)
    ensemble.answer_read()
    assert ensemble.reader()
    link = link_of(ensemble, leader, follower)
    handler = ensemble.peer(leader).leading.handlers[link]  # type: ignore[union-attr]
    ensemble.step(leader, ev.MessageReceived(link, msg.Installed(handler.cursor)))
    assert link not in ensemble.links


@pytest.mark.parametrize("order", [msg.Trunc(0, bytes(16), False), msg.Snap(0, bytes(16), False)])
def test_what_comes_before_ackepoch_halts_nobody(order: msg.Message) -> None:
    ensemble, leader = established()
    ensemble.propose(leader)
    ensemble.run(50)
    follower = followers(ensemble, leader)[0]
    ensemble.crash(follower)
    ensemble.start(follower)
    peer = ensemble.peer(follower)
    until(ensemble, lambda: peer.link_to_leader)
    ensemble.step(follower, ev.MessageReceived(peer.link_to_leader, order))
    assert ensemble.servers[follower].halted is None
    ensemble.run(1000)
    assert peer.serving


def test_a_snapshot_of_a_later_epoch_than_the_leaders_is_refused() -> None:
    ensemble, _, follower = rejoining_with_held_storage(fx.AppendBatches)
    ensemble.crash(follower)
    ensemble.start(follower)
    peer = ensemble.peer(follower)
    until(ensemble, lambda: peer.following and peer.following.epoch_saved)
    link = peer.link_to_leader
    assert link is not None
    ensemble.step(follower, ev.MessageReceived(link, msg.Snap(make_zxid(99, 1), bytes(16), False)))
    assert link not in ensemble.links


# --------------------------------------------------------------------------------------------- nobody waits for ever


def test_the_epoch_is_renewed_for_a_learner_with_a_higher_promise_also_when_nothing_is_written() -> None:
    ensemble, leader = established()
    follower = followers(ensemble, leader)[0]
    ensemble.crash(follower)
    ensemble.servers[follower].accept(7)
    ensemble.start(follower)
    ensemble.run(1000)
    assert ensemble.leader() == leader
    assert ensemble.peer(leader).epoch == 8
    assert ensemble.peer(leader).next_zxid() is not None
    assert ensemble.peer(follower).serving


def test_a_second_wish_for_a_higher_epoch_during_the_renewal_is_not_forgotten() -> None:
    ensemble, leader = established(5)
    one, two = followers(ensemble, leader)[:2]
    ensemble.crash(one, two)
    ensemble.servers[one].accept(7)
    ensemble.servers[two].accept(12)
    ensemble.start(one)
    until(ensemble, lambda: ensemble.peer(leader).phase != BROADCAST)
    ensemble.start(two)
    ensemble.run(2000)
    assert ensemble.peer(leader).next_zxid() is not None
    assert ensemble.peer(two).serving


def test_a_sync_is_confirmed_by_a_learner_that_comes_after_the_question() -> None:
    ensemble, leader, follower = rejoining_with_held_storage(fx.SaveEpochs)
    other = next(sid for sid in followers(ensemble, leader) if sid != follower)
    ensemble.step(leader, ev.SyncRequested(1))
    ensemble.crash(other)
    ensemble.servers[follower].held.clear()
    ensemble.settle()
    assert ensemble.leader() == leader
    assert [token for token, _ in ensemble.servers[leader].synced] == [1]


def test_an_amnesiac_counts_although_the_others_were_slower() -> None:
    ensemble, leader = established()
    ensemble.propose(leader)
    ensemble.run(50)
    ensemble.crash(1, 2, 3)
    ensemble.servers[1].wipe()
    ensemble.start(1, 2, 3)
    until(ensemble, lambda: (it := ensemble.peer(2).following) and it.newleader)
    ensemble.servers[2].held.add(fx.SaveEpochs)
    ensemble.settle()
    handler = ensemble.peer(3).leading.handler_of(1)  # type: ignore[union-attr]
    assert handler is not None
    assert handler.stage == Stage.SYNCHRONIZED
    ensemble.servers[2].held.clear()
    ensemble.settle()
    assert not handler.amnesiac
    ensemble.crash(2)
    zxid = ensemble.propose(3)
    ensemble.settle()
    assert ensemble.peer(3).committed == zxid


def with_an_amnesiac() -> tuple[Ensemble, int, int, int]:
    """A follower has lost its disk, and is started again: the ensemble, the leader, that one, the other one."""
    ensemble, leader = established()
    wiped, other = followers(ensemble, leader)
    ensemble.propose(leader)
    ensemble.run(50)
    ensemble.crash(wiped)
    ensemble.servers[wiped].wipe()
    ensemble.start(wiped)
    return ensemble, leader, wiped, other


def test_a_leader_whom_only_an_unconfirmed_amnesiac_follows_steps_down() -> None:
    ensemble, leader, wiped, other = with_an_amnesiac()
    until(ensemble, lambda: (it := ensemble.peer(wiped).following) and it.newleader)
    ensemble.servers[wiped].held.add(fx.SaveEpochs)
    ensemble.settle()
    ensemble.crash(other)
    ensemble.servers[wiped].held.clear()
    ensemble.settle()
    zxid = ensemble.propose(leader)
    ensemble.settle()
    assert ensemble.peer(leader).committed < zxid
    ensemble.run(2000)
    assert not ensemble.peer(leader).serving
    assert ensemble.peer(leader).committed < zxid, "one of three has lost what it had, and one is down"
    ensemble.start(other)
    ensemble.run(2000)
    assert ensemble.peer(leader).epoch == 2
    assert ensemble.peer(leader).committed == ensemble.peer(wiped).committed == zxid


def test_an_amnesiac_stays_one_until_a_quorum_without_it_has_confirmed_the_leader() -> None:
    """Else it counts after its next start, though the leader that synchronized it may have been deposed long before."""
    ensemble, leader, wiped, other = with_an_amnesiac()
    until(ensemble, lambda: ensemble.peer(wiped).following)
    ensemble.paused.add(other)
    until(ensemble, lambda: ensemble.peer(wiped).serving)
    ensemble.settle()
    assert ensemble.peer(wiped).history.last == ensemble.peer(leader).history.last
    ensemble.crash(wiped)
    ensemble.start(wiped)
    assert ensemble.peer(wiped).amnesiac
    ensemble.resume(other)
    ensemble.run(2000)
    assert not ensemble.peer(wiped).amnesiac
    ensemble.crash(wiped)
    ensemble.start(wiped)
    assert not ensemble.peer(wiped).amnesiac


@pytest.mark.parametrize("is_early", [True, False])
def test_readmission_out_of_place_costs_the_link(is_early: bool) -> None:
    """A leader that readmits before ACK-LD, and a learner that was not readmitted."""
    ensemble, leader = established()
    learner, _ = followers(ensemble, leader)
    link = ensemble.peer(learner).link_to_leader
    assert link is not None
    if is_early:
        ensemble.crash(learner)
        ensemble.servers[learner].held.add(fx.SaveEpochs)
        ensemble.start(learner)
        until(ensemble, lambda: (it := ensemble.peer(learner).following) and it.newleader)
        link = ensemble.peer(learner).link_to_leader
        assert link is not None
        ensemble.step(learner, ev.MessageReceived(link, msg.Readmit(1)))
        assert "READMIT out of place" in " ".join(ensemble.trace)
    else:
        ensemble.step(leader, ev.MessageReceived(link, msg.Readmitted(1)))
        assert "READMITTED without READMIT" in " ".join(ensemble.trace)
    assert link not in ensemble.links


def test_a_snapshot_may_take_longer_than_initlimit() -> None:
    ensemble, leader = established()
    one, two = followers(ensemble, leader)
    ensemble.crash(one)
    for _ in range(3):
        ensemble.propose(leader)
        ensemble.run(20)
    ensemble.servers[leader].take_snapshot()
    ensemble.crash(two, leader)
    ensemble.servers[one].held.add(fx.FetchSnapshot)
    ensemble.start(leader, one)
    ensemble.run(4000)
    assert ensemble.peer(one).following.fetching  # type: ignore[union-attr]
    assert ensemble.peer(leader).current_epoch == 2
    ensemble.servers[one].held.clear()
    ensemble.run(200)
    assert ensemble.leader() == leader


def test_a_prospective_leader_gives_up_when_its_elector_has_moved_on() -> None:
    ensemble, leader = established()
    one = followers(ensemble, leader)[0]
    ensemble.crash(1, 2, 3)
    ensemble.start(one, leader)
    ensemble.servers[leader].held.add(fx.SaveEpochs)
    until(ensemble, lambda: (it := ensemble.peer(leader).leading) and it.epoch)
    ensemble.crash(one)
    ensemble.servers[leader].held.clear()
    ensemble.start(one)
    ensemble.elect(800)


def test_a_learner_leaves_a_leader_that_elects_again() -> None:
    ensemble, leader = established()
    one = followers(ensemble, leader)[0]
    ensemble.crash(1, 2, 3)
    ensemble.start(one, leader)
    until(ensemble, lambda: ensemble.peer(one).state != LOOKING)
    ensemble.crash(leader)
    ensemble.start(leader)
    ensemble.elect(800)


# -------------------------------------------------------------------------------------------------- nobody is halted


def test_a_learner_for_which_no_snapshot_is_new_enough_comes_again() -> None:
    ensemble, leader, follower = left_behind(after=2)
    ensemble.start(follower)
    until(ensemble, ensemble.reader)
    effect = ensemble.take_read()
    held = ensemble.peer(follower).history.last[0]
    ensemble.step(leader, ev.LogRead(effect.link, None, []))  # the file is damaged
    offer = ensemble.servers[leader].tasks.popleft()
    assert offer == fx.OfferSnapshot(effect.link, held)
    ensemble.do(ensemble.servers[leader], offer)
    ensemble.settle()
    assert ensemble.servers[follower].halted is None
    assert effect.link not in ensemble.links
    assert ensemble.servers[leader].offered == {}
    told = f"leader {leader} refused: there is no snapshot above its {held:#x} yet"
    assert any(told in line for line in ensemble.trace if line.startswith(f"{follower}:"))
    ensemble.servers[leader].take_snapshot()
    until(ensemble, ensemble.reader)
    for server in ensemble.servers.values():
        server.held.clear()
    ensemble.step(leader, ev.LogRead(ensemble.take_read().link, None, []))
    ensemble.run(500)
    assert ensemble.peer(follower).serving
    assert ensemble.peer(follower).history.base[0] > held


def test_a_log_that_cannot_be_read_on_ends_the_link() -> None:
    ensemble = SlowReader(recent_bytes_max=1)
    ensemble.start()
    leader = ensemble.elect()
    follower = followers(ensemble, leader)[0]
    ensemble.crash(follower)
    for _ in range(5):
        ensemble.propose(leader)
        ensemble.run(20)
    ensemble.start(follower)
    until(ensemble, ensemble.reader)
    ensemble.answer_read()
    effect = ensemble.take_read()
    ensemble.step(leader, ev.LogRead(effect.link, None, []))
    assert effect.link not in ensemble.links


# ----------------------------------------------------------------------------------------------- nothing is forgotten


def test_a_tail_is_cut_where_the_histories_part_not_where_the_mark_is() -> None:
    ensemble = two_histories()
    ensemble.servers[1].held.add(fx.AppendBatches)
    ensemble.start()
    ensemble.elect()
    ensemble.run(300)
    assert [batch.zxid for batch in ensemble.servers[1].logged] == [make_zxid(1, 1), make_zxid(1, 2)]
    ensemble.servers[1].held.clear()
    ensemble.run(1000)
    assert ensemble.servers[1].applied == ensemble.servers[3].applied


def test_a_doubt_about_the_tail_ends_with_the_tail() -> None:
    ensemble = two_histories()
    ensemble.start()
    until(ensemble, lambda: any("1: position" in line for line in ensemble.trace))
    leader = ensemble.elect()
    ensemble.run(1000)
    ensemble.servers[1].held.add(fx.SaveEpochs)
    ensemble.propose(leader)
    ensemble.settle()
    assert ensemble.peer(1).position() == ensemble.peer(1).history.last


def parted(first_of_one: int, mark_of_one: int, length_of_one: int = 1) -> Ensemble:
    """Servers 2 and 3 have 1:1, 1:2 and 1:3; from some counter on server 1 has other bytes with the same numbers."""
    ensemble = Ensemble()
    shared = chained((1, 1), (1, 2), (1, 3))
    own = shared[: first_of_one - 1]
    chain = own[-1].chain if own else genesis(LINEAGE)
    for counter in range(first_of_one, first_of_one + length_of_one):
        first = make_zxid(1, counter)
        own.append(
            build(
                chain, epoch=1, first=first, count=1, time=0, flags=0, mark=0, applied=0, digest=0,
                body=transactions(first, 1, b"y"), digest_version=0,
            )
        )  # fmt: skip
        chain = own[-1].chain
    fill(ensemble.servers[1], (1, 1), own, mark=make_zxid(1, mark_of_one) if mark_of_one else 0)
    for sid in (2, 3):
        fill(ensemble.servers[sid], (1, 1), shared)
    return ensemble


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("first", [1, 2, 3])
def test_other_bytes_at_the_same_zxid_are_set_aside_with_an_alarm(first: int, length: int) -> None:
    """A5: no legal run makes two batches of one zxid; so what is cut then is evidence, and not only cut."""
    ensemble = parted(first, mark_of_one=first - 1, length_of_one=length)
    own = ensemble.servers[1].logged[first - 1 :]
    ensemble.start(2, 3)
    ensemble.elect()
    ensemble.start(1)
    ensemble.run(3000)
    assert [batch.raw for batch in ensemble.servers[1].conflicts] == [batch.raw for batch in own]
    assert len(histories(ensemble)) == 1
    assert ensemble.peer(1).serving
    assert any(line.startswith("1: ALARM: leader") for line in ensemble.trace)
    assert not ensemble.peer(1).conflict


def test_other_bytes_at_the_same_zxid_at_or_below_the_mark_stop_the_learner() -> None:
    """A5: what it knows to be committed is not given up, whichever side is right."""
    ensemble = parted(2, mark_of_one=2)
    ensemble.start(2, 3)
    ensemble.elect()
    ensemble.start(1)
    ensemble.run(1000)
    assert "is committed up to 0x100000002" in (ensemble.servers[1].halted or "")
    assert [batch.zxid for batch in ensemble.servers[1].logged] == [make_zxid(1, 1), make_zxid(1, 2)]
    assert any("ALARM: server 1 has other bytes" in line for line in ensemble.trace)


def test_a_tail_that_nobody_else_has_numbered_is_no_conflict() -> None:
    ensemble, leader = established()
    ensemble.crash(*followers(ensemble, leader))
    ensemble.propose(leader)
    ensemble.settle()
    ensemble.crash(leader)
    ensemble.start(*followers(ensemble, leader))
    ensemble.propose(ensemble.elect())
    ensemble.start(leader)
    ensemble.run(1000)
    assert len(histories(ensemble)) == 1
    assert ensemble.servers[leader].conflicts == []
    assert not any("ALARM" in line for line in ensemble.trace)


def test_other_bytes_are_set_aside_too_where_a_snapshot_takes_their_place() -> None:
    ensemble, leader = established()
    follower = followers(ensemble, leader)[0]
    ensemble.crash(follower)
    for _ in range(3):
        ensemble.propose(leader)
    ensemble.run(50)
    ensemble.servers[leader].take_snapshot()
    server = ensemble.servers[follower]
    other = build(
        genesis(server.lineage), epoch=1, first=make_zxid(1, 1), count=1, time=0, flags=0, mark=0, applied=0, digest=0,
        body=transactions(make_zxid(1, 1), 1, b"other"), digest_version=0,
    )  # fmt: skip
    fill(server, (1, 1), [other], lineage=server.lineage)
    ensemble.start(follower)
    peer = ensemble.peer(follower)
    until(ensemble, lambda: peer.following and peer.following.epoch_saved)
    snapshot = msg.Snap(*ensemble.peer(leader).history.last, True)
    ensemble.step(follower, ev.MessageReceived(peer.link_to_leader, snapshot))  # type: ignore[arg-type]
    ensemble.settle()
    assert [batch.zxid for batch in server.conflicts] == [make_zxid(1, 1)]
    assert not peer.conflict


def test_a_leader_that_has_only_heard_of_its_lineage_begins_its_log_with_it() -> None:
    """The leader before told it the lineage, and failed before it sent anything."""
    ensemble = Ensemble()
    for server in ensemble.servers.values():
        server.leave_marker()
    for sid in (1, 2):
        ensemble.servers[sid].held.add(fx.SaveEpochs)
    ensemble.start()
    until(ensemble, lambda: ensemble.peer(2).lineage)
    ensemble.crash(3)
    for sid in (1, 2):
        ensemble.servers[sid].held.clear()
    assert ensemble.elect() == 2
    ensemble.propose(2)
    ensemble.run(50)
    assert ensemble.servers[2].lineage == ensemble.peer(2).lineage != b""
    assert ensemble.peer(1).committed > 0


def test_a_member_with_a_history_does_not_run_after_a_leader_of_another_lineage_that_has_none() -> None:
    """It was elected over and over again, as fast as messages go."""
    ensemble, leader = established()
    ensemble.propose(leader)
    ensemble.run(50)
    ensemble.crash(1, 2, 3)
    for sid in (1, 2):
        ensemble.servers[sid].wipe()
        ensemble.servers[sid].leave_marker()
    ensemble.start(1, 2)
    assert ensemble.elect() == 2
    said = len(ensemble.trace)
    ensemble.start(3)
    ensemble.run(5000)
    assert len(ensemble.trace) - said < 5
    ensemble.propose(2)
    ensemble.run(5000)
    assert not ensemble.peer(3).serving
    assert ensemble.servers[3].logged


def test_the_first_start_is_over_when_the_epoch_is_established() -> None:
    ensemble, leader = established()
    assert not ensemble.peer(leader).leading.first_start  # type: ignore[union-attr]


def test_an_early_learner_with_a_history_ends_the_role_of_a_marked_leader_with_all_its_links() -> None:
    """Another learner, which had dialled early too, met a role that was over."""
    ensemble = Ensemble(observers=frozenset({4, 5}))
    for server in ensemble.servers.values():
        server.leave_marker()
    ensemble.start(1, 2, 3)
    peer = ensemble.peer(3)
    for link, info in (
        (1004, msg.FollowerInfo(0, bytes(16), BATCHES, False, True, False, False)),
        (1005, msg.FollowerInfo(0, b"", NOTHING, True, True, False, False)),
    ):
        ensemble.step(3, ev.QuorumLinkUp(link, link - 1000, inbound=True))
        ensemble.step(3, ev.MessageReceived(link, info))
    assert len(peer.early) == 2
    until(ensemble, lambda: not peer.early)
    assert peer.state == LOOKING
    assert not peer.marked
    assert ensemble.trace[-1] == "3: server 4 tells of a history: the file initialize does not count -> elect"


def test_an_ack_before_there_is_an_epoch_closes_its_link_alone() -> None:
    ensemble = Ensemble()
    ensemble.start()
    until(ensemble, lambda: ensemble.peer(3).leading)
    leading = ensemble.peer(3).leading
    assert leading is not None
    assert leading.epoch is None
    ensemble.step(3, ev.QuorumLinkUp(1000, 1, inbound=True))
    ensemble.step(3, ev.MessageReceived(1000, msg.Ack(1, 1)))
    assert ensemble.peer(3).leading is leading
    assert 1000 not in leading.handlers


def test_a_dial_of_another_leader_that_failed_is_not_that_of_the_present_one() -> None:
    ensemble = Ensemble()
    ensemble.start()
    until(ensemble, lambda: ensemble.peer(1).following)
    following = ensemble.peer(1).following
    assert following is not None
    following.link = None
    ensemble.step(1, ev.DialFailed(2))
    assert following.redial_at is None
    ensemble.step(1, ev.DialFailed(following.leader))
    assert following.redial_at is not None


def test_a_member_record_of_another_lineage_is_none() -> None:
    ensemble, _ = established()
    ensemble.crash(2)
    ensemble.propose(3)
    ensemble.run(50)
    ensemble.crash(1, 3)
    fill(ensemble.servers[1], (1, 1), [], lineage=b"another lineage.")
    ensemble.start(1, 2)
    ensemble.run(3000)
    assert ensemble.leader() is None
    ensemble.start(3)
    ensemble.run(3000)
    assert ensemble.servers[1].applied == ensemble.servers[3].applied != []


def test_while_the_log_is_drained_no_vote_leaves() -> None:
    ensemble, leader = established()
    one, two = followers(ensemble, leader)
    ensemble.propose(leader)
    ensemble.run(50)
    ensemble.servers[one].held.add(fx.DrainLog)
    ensemble.crash(leader)
    ensemble.votes.clear()
    ensemble.step(one, ev.ElectionLinkUp(two, 1))
    assert not ensemble.votes.get((one, two))


def test_what_ack_of_newleader_promised_is_remembered() -> None:
    ensemble, leader = established()
    follower = followers(ensemble, leader)[0]
    ensemble.crash(follower)
    zxid = ensemble.propose(leader)
    ensemble.run(20)
    server = ensemble.servers[follower]
    fill(server, server.epochs, [], lineage=server.lineage)
    ensemble.start(follower)
    ensemble.run(300)
    assert ensemble.peer(leader).leading.acknowledged[follower] == zxid  # type: ignore[union-attr]
