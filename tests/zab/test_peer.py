"""Who a peer hears, what a former role leaves behind, and what is out of place: a peer alone."""

from __future__ import annotations

import attrs
import pytest

from datatree.log.zxid import Epoch, Zxid, make_zxid
from tests.zab.alone import FIRST, HISTORY, LAST, LEADERS_LINK, LINEAGE, Alone, Follower, Leader, nothing_held, restored
from zab import events as ev
from zab import message as msg
from zab.ids import Link, ServerId
from zab.roles import Stage
from zab.states import BATCHES, FOUNDER, LOOKING, NOTHING

SNAPSHOT = make_zxid(1, 9)

# ------------------------------------------------------------------------------------------------------------ strangers


def test_a_server_outside_of_the_configuration_is_no_learner() -> None:
    leader = Leader()
    for sid in (9, leader.sid):
        leader.forget()
        leader.tell(ev.QuorumLinkUp(Link(90), ServerId(sid), inbound=True))
        assert [effect.link for effect in leader.did(ev.CloseLink)] == [90]
    assert leader.leading.handlers == {}


def test_a_server_outside_of_the_configuration_is_not_heard_in_an_election() -> None:
    """Nor what it says of a history: any stranger could take the marker of a first start away."""
    marked = Alone(1, nothing_held(NOTHING, marked=True), 3)
    marked.forget()
    for sid in (9, 1):
        marked.vote(sid, 3, holds=BATCHES)
    assert marked.peer.marked
    assert marked.peer.election.heard == set()
    assert not marked.did(ev.SendNotification)


# --------------------------------------------------------------------------------------------- halted, and former roles


def test_a_member_that_has_halted_does_nothing_more() -> None:
    follower = Follower(restored(mark=LAST))
    follower.accept()
    follower.from_leader(msg.Snap(Zxid(LAST - 1), bytes(16), False))
    assert follower.did(ev.Halt)
    follower.forget()
    follower.wait(60_000)
    follower.vote(2, 2)
    follower.from_leader(msg.Ping(0, 0, 0, []))
    assert follower.effects == []
    assert follower.peer.next_deadline() is None


def test_c3_a_member_record_that_a_former_role_wrote_is_acknowledged_to_nobody() -> None:
    follower = Follower(nothing_held(FOUNDER))
    follower.from_leader(msg.LeaderInfo(Epoch(1), LINEAGE))
    follower.saved()
    follower.from_leader(msg.Diff(Zxid(0)), msg.NewLeader(Epoch(1), Zxid(0), True))
    follower.saved()
    (record,) = follower.did(ev.SaveMember)
    follower.tell(ev.QuorumLinkDown(LEADERS_LINK))
    follower.drained()
    follower.elect()
    follower.forget()
    follower.tell(ev.MemberSaved(record.generation))
    assert not follower.sent(msg.Ack)
    assert not follower.peer.amnesiac, "the fact holds"


def test_c3_a_snapshot_that_a_former_role_fetched_is_acknowledged_to_nobody() -> None:
    follower = Follower()
    follower.accept()
    follower.from_leader(msg.Snap(SNAPSHOT, bytes(16), False))
    (fetch,) = follower.did(ev.FetchSnapshot)
    follower.tell(ev.QuorumLinkDown(LEADERS_LINK))
    follower.drained()
    follower.elect()
    follower.forget()
    follower.tell(ev.SnapshotInstalled(fetch.generation, SNAPSHOT, bytes(16), recorded=True))
    assert not follower.sent(msg.Installed)
    assert follower.peer.history.last[0] == SNAPSHOT, "the fact holds"


def test_votes_that_come_while_the_log_is_drained_count_when_it_is() -> None:
    follower = Follower()
    follower.serve()
    follower.tell(ev.QuorumLinkDown(LEADERS_LINK))
    assert follower.peer.draining
    follower.vote(2, 2, round=follower.peer.election.round + 1)
    follower.drained()
    assert 2 in follower.peer.election.received


def test_h4_who_gives_its_role_up_holds_no_snapshot_for_its_learners() -> None:
    leader = Leader(attrs.evolve(restored([HISTORY[1]], mark=LAST), base=(FIRST, HISTORY[0].chain)))
    for sid in (1, 2):
        leader.dial(sid)
    leader.saved()
    leader.accept(2)
    leader.accept(1, zxid=0)
    leader.saved()
    leader.tell(ev.LogRead(Link(10), None, []))
    assert [effect.link for effect in leader.did(ev.OfferSnapshot)] == [10]
    leader.tell(ev.Doubted(True, "its tree is wrong"))
    assert leader.peer.state is LOOKING
    assert [effect.link for effect in leader.did(ev.ReleaseSnapshot)] == [10]


# --------------------------------------------------------------------------------------------------------- out of place


def test_a_batch_that_is_no_batch_ends_the_link() -> None:
    follower = Follower()
    follower.accept()
    follower.from_leader(msg.Diff(LAST), msg.Proposal([bytes(100)]))
    assert follower.has_left
    assert follower.said("damaged batch")


@pytest.mark.parametrize(
    "message",
    [msg.Proposal([HISTORY[0].raw]), msg.NewLeader(Epoch(2), LAST, False)],
    ids=lambda message: type(message).__name__,
)
def test_nothing_comes_behind_a_snapshot_before_it_is_installed(message: msg.Message) -> None:
    follower = Follower()
    follower.accept()
    follower.from_leader(msg.Snap(SNAPSHOT, bytes(16), False))
    assert not follower.has_left
    follower.from_leader(message)
    assert follower.has_left


@pytest.mark.parametrize("acknowledged", [False, True])
def test_a_second_newleader_ends_the_link(acknowledged: bool) -> None:
    follower = Follower()
    follower.accept()
    newleader = msg.NewLeader(Epoch(2), LAST, False)
    follower.from_leader(msg.Diff(LAST), newleader)
    if acknowledged:
        follower.saved()
    assert not follower.has_left
    follower.from_leader(newleader)
    assert follower.has_left


def test_a_request_before_uptodate_ends_its_link() -> None:
    leader = Leader()
    leader.synchronize(1, 2)
    leader.hear(10, msg.Sync(7))
    assert leader.stage(1) is None
    assert leader.stage(2) is Stage.NEWLEADER_SENT
    assert not leader.did(ev.MemberMessage)


def test_an_answer_before_uptodate_ends_the_link() -> None:
    follower = Follower()
    follower.synchronize()
    follower.from_leader(msg.Synced(7, LAST))
    assert follower.has_left
    assert not follower.did(ev.MemberMessage)
