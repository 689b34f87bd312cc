"""Reconfiguration: who decides when, what is known after a cut, a restart or a snapshot, and who leads after it."""

from __future__ import annotations

import attrs
import pytest

from datatree.log.batch import genesis
from datatree.log.zxid import Epoch, Zxid
from tests.protocol.alone import (
    HISTORY,
    LAST,
    LEADERS_LINK,
    LINEAGE,
    Alone,
    Follower,
    Leader,
    batch_after,
    config,
    nothing_held,
    reconfiguration,
    restored,
)
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.protocol import reconfiguration as rules
from zab.protocol.membership import Membership
from zab.protocol.states import BROADCAST, FOLLOWING, LEADING, LOOKING, NOTHING, OBSERVING, SYNCHRONIZATION
from zab.quorum.ids import Link, ServerId
from zab.quorum.quorums import Joint, Majority

END = HISTORY[-1].zxid, HISTORY[-1].chain


def three(*unlisted: int) -> Leader:
    """Server 3 leads 1 and 2; unlisted servers follow."""
    leader = Leader(takes_unlisted=True)
    leader.establish(1, 2)
    for sid in unlisted:
        leader.dial(sid)
        leader.accept(sid)
        leader.acknowledge(sid)
    leader.forget()
    return leader


def membership(*voters: int) -> Membership:
    deciding = frozenset(map(ServerId, voters))
    return Membership(Zxid(9 << 32), Majority(deciding), deciding)


def half_tick(leader: Leader) -> None:
    leader.wait(leader.peer.settings.tick_ms // 2)


def voters(peer: Alone) -> set[int]:
    return set(peer.peer.quorum.voters)


# ------------------------------------------------------------------------------------------------------- who decides


def test_meanwhile_a_quorum_of_each_decides() -> None:
    leader = three(4, 5)
    zxid = leader.reconfigure(3, 4, 5)
    leader.durable(zxid)
    leader.acknowledge(4, zxid)
    assert leader.peer.committed == LAST, "3 and 4 are no quorum of 1, 2, 3"
    leader.acknowledge(1, zxid)
    assert leader.peer.committed == zxid
    assert voters(leader) == {3, 4, 5}
    assert not isinstance(leader.peer.quorum, Joint)


@pytest.mark.parametrize("acknowledging", [(1, 2), (4, 5), (4, 1), (1, 4, 5)])
def test_no_quorum_of_one_alone_commits_it(acknowledging: tuple[int, ...]) -> None:
    leader = three(4, 5)
    zxid = leader.reconfigure(1, 4, 5)
    for sid in acknowledging:
        leader.acknowledge(sid, zxid)
    olds, news = {1, 2, 3} & set(acknowledging), {1, 4, 5} & set(acknowledging)
    assert (leader.peer.committed == zxid) == (len(olds) >= 2 and len(news) >= 2)


def test_what_was_proposed_before_and_after_waits_for_both() -> None:
    leader = three(4, 5)
    before = leader.propose()
    change = leader.reconfigure(3, 4, 5)
    after = leader.propose()
    leader.durable(after)
    leader.acknowledge(4, after)
    assert leader.peer.committed == LAST, "3 and 4 alone would commit it with the new one"
    leader.acknowledge(2, before)
    assert leader.peer.committed == before
    leader.acknowledge(2, change)
    assert leader.peer.committed == after, "from there on the new one decides"


def test_the_old_ones_decide_nothing_any_more() -> None:
    leader = three(4, 5)
    zxid = leader.reconfigure(3, 4, 5)
    for sid in (1, 2, 4):
        leader.acknowledge(sid, zxid)
    leader.durable(zxid)
    later = leader.propose()
    leader.durable(later)
    leader.acknowledge(1, later)
    leader.acknowledge(2, later)
    assert leader.peer.committed == zxid
    leader.acknowledge(5, later)
    assert leader.peer.committed == later
    last = leader.propose()
    leader.durable(last)
    leader.acknowledge(5, last)
    assert leader.peer.committed == last, "of the old ones 3 alone has it"


def test_a_unlisted_server_follows_without_a_vote() -> None:
    leader = three(4)
    zxid = leader.propose()
    leader.durable(zxid)
    leader.acknowledge(4, zxid)
    assert leader.peer.committed == LAST
    leader.acknowledge(1, zxid)
    assert leader.peer.committed == zxid
    assert leader.stage(4) is not None


def test_unlisted_servers_are_refused_where_they_are_not_wanted() -> None:
    leader = Leader()
    leader.establish(1, 2)
    leader.tell(ev.QuorumLinkUp(Link(40), ServerId(4), inbound=True))
    assert leader.did(fx.CloseLink) == [fx.CloseLink(Link(40), "server 4 is not in the configuration")]


def test_whoever_is_removed_stays_without_a_vote() -> None:
    leader = three()
    zxid = leader.reconfigure(2, 3)
    leader.durable(zxid)
    leader.acknowledge(2, zxid)
    assert voters(leader) == {2, 3}
    later = leader.propose()
    leader.durable(later)
    leader.acknowledge(1, later)
    assert leader.peer.committed == zxid
    assert leader.stage(1) is not None


def test_an_amnesiac_is_no_part_of_the_new_quorum() -> None:
    leader = three(4)
    assert rules.has_quorum_of(leader.peer, membership(3, 4))
    assert not rules.has_quorum_of(leader.peer, membership(3, 5))
    assert not rules.has_quorum_of(leader.peer, membership(1, 4, 5, 6))
    leader.dial(5, amnesiac=True)
    leader.accept(5)
    leader.acknowledge(5)
    assert not rules.has_quorum_of(leader.peer, membership(3, 5)), "it is not readmitted yet"
    leader.hear(10, msg.Confirmed(leader.leading.confirm_round))
    leader.hear(50, msg.Readmitted(leader.leading.confirm_round))
    assert rules.has_quorum_of(leader.peer, membership(3, 5))


def test_one_alone_takes_in_a_second() -> None:
    leader = Leader(voters=1, takes_unlisted=True)
    leader.saved()
    leader.saved()
    leader.dial(2)
    leader.accept(2)
    leader.acknowledge(2)
    zxid = leader.reconfigure(1, 2)
    leader.durable(zxid)
    assert leader.peer.committed == LAST
    leader.acknowledge(2, zxid)
    assert leader.peer.committed == zxid
    later = leader.propose()
    leader.durable(later)
    assert leader.peer.committed == zxid, "it is not alone any more"


# -------------------------------------------------------------------------------------------------------- the learner


def test_a_learner_knows_it_before_it_is_committed_and_after() -> None:
    follower = Follower()
    follower.serve()
    change = reconfiguration(END, 2, 1, 1, 3, 4)
    follower.from_leader(msg.Proposal([change.raw]))
    assert isinstance(follower.peer.quorum, Joint)
    assert voters(follower) == {1, 2, 3, 4}
    (changed,) = follower.did(fx.MembershipsChanged)
    assert (changed.in_force.version, changed.outstanding and changed.outstanding.version) == (0, change.zxid)
    follower.from_leader(msg.Commit(change.zxid))
    assert voters(follower) == {1, 3, 4}
    assert follower.did(fx.MembershipsChanged)[-1].in_force.text == config(change.zxid, (1, 3, 4))


def test_what_is_proposed_and_committed_while_a_learner_synchronizes_is_in_force_when_it_is_done() -> None:
    """ZOOKEEPER-2172: between NEWLEADER and UPTODATE."""
    follower = Follower()
    follower.synchronize()
    change = reconfiguration(END, 2, 1, 1, 3, 4)
    follower.from_leader(msg.Proposal([change.raw]))
    assert voters(follower) == {1, 2, 3, 4}
    follower.from_leader(msg.UpToDate(change.zxid))
    assert voters(follower) == {1, 3, 4}
    assert follower.did(fx.MembershipsChanged)[-1].in_force.version == change.zxid


def test_a_learner_that_synchronizes_meanwhile_counts_when_it_has_it() -> None:
    leader = three()
    leader.synchronize(4)
    leader.forget()
    zxid = leader.reconfigure(1, 2, 3, 4)
    assert leader.sent(msg.Proposal, Link(40))
    leader.durable(zxid)
    leader.acknowledge(1, zxid)
    assert leader.peer.committed == LAST, "1 and 3 are no quorum of four"
    leader.acknowledge(4)
    leader.acknowledge(4, zxid)
    assert leader.peer.committed == zxid


def test_what_is_cut_away_decides_nothing() -> None:
    follower = Follower(restored([*HISTORY, reconfiguration(END, 1, 3, 1, 4, 5)]))
    assert voters(follower) == {1, 2, 3, 4, 5}
    assert follower.peer.state is FOLLOWING, "2 and 3 went on without it"
    follower.accept()
    follower.from_leader(msg.Trunc(LAST, HISTORY[-1].chain, False))
    assert voters(follower) == {1, 2, 3}
    assert follower.did(fx.MembershipsChanged)[-1].outstanding is None


def test_what_the_disk_says_decides_after_a_restart() -> None:
    change = reconfiguration(END, 1, 3, 1, 4, 5)
    outstanding = Alone(1, restored([*HISTORY, change]), 3)
    assert isinstance(outstanding.peer.quorum, Joint)
    said = config(change.zxid, (1, 4, 5))
    committed = Alone(1, attrs.evolve(restored([*HISTORY, change], mark=change.zxid), config=said), 3)
    assert voters(committed) == {1, 4, 5}


def test_a_snapshot_says_who_decides() -> None:
    follower = Follower()
    follower.accept()
    at = Zxid(2 << 32 | 7)
    follower.from_leader(msg.Snap(at, b"c" * 16, False))
    (fetch,) = follower.did(fx.FetchSnapshot)
    said = config(2 << 32 | 5, (1, 3, 7))
    follower.tell(ev.SnapshotInstalled(fetch.generation, at, b"c" * 16, config=said))
    assert voters(follower) == {1, 3, 7}


@pytest.mark.parametrize(
    "raw",
    [
        reconfiguration(END, 2, 1, 1, 3).raw,
        batch_after(END, 2, 1).raw,
    ],
)
def test_a_leader_that_breaks_the_rules_is_left(raw: bytes) -> None:
    """A second one while one is outstanding; and one that is no configuration."""
    follower = Follower()
    follower.serve()
    first = reconfiguration(END, 2, 1, 1, 3, 4)
    second = reconfiguration((first.zxid, first.chain), 2, 2, 1, 3, 5, mark=LAST)
    follower.from_leader(msg.Proposal([first.raw, second.raw]))
    assert follower.has_left
    assert follower.said("a reconfiguration while that at 0x200000001 is outstanding")


def test_a_second_one_follows_the_first_in_one_message() -> None:
    """The mark that comes with it says that the first is committed."""
    follower = Follower()
    follower.serve()
    first = reconfiguration(END, 2, 1, 1, 3, 4)
    second = reconfiguration((first.zxid, first.chain), 2, 2, 1, 3, 5, mark=first.zxid)
    follower.from_leader(msg.Proposal([first.raw, second.raw]))
    assert not follower.has_left
    assert voters(follower) == {1, 3, 4, 5}


def test_text_that_is_no_configuration_ends_the_link() -> None:
    follower = Follower()
    follower.serve()
    change = reconfiguration(END, 2, 1, 1, 3, 4)
    moved = reconfiguration(END, 2, 2, 1, 3, 4)
    wrong = change.raw[: -len(moved.body)] + moved.body
    follower.from_leader(msg.Proposal([wrong]))
    assert follower.has_left


@pytest.mark.parametrize(("deciding", "role"), [((2, 3), OBSERVING), ((1, 2, 3), FOLLOWING)])
def test_roles_change_without_an_election(deciding: tuple[int, ...], role: object) -> None:
    follower = Follower()
    follower.serve()
    body = config(2 << 32 | 1, deciding, {1} - set(deciding))
    change = attrs.evolve(reconfiguration(END, 2, 1, *deciding))
    leader = Leader()
    leader.establish(1, 2)
    zxid = leader.reconfigure(*deciding, observers=tuple({1} - set(deciding)))
    assert leader.peer.history.batches[zxid].body == body
    follower.from_leader(msg.Proposal([leader.peer.history.batches[zxid].raw]))
    follower.from_leader(msg.Commit(zxid))
    assert follower.peer.state is role
    assert follower.peer.serving
    assert change.zxid == zxid


# ------------------------------------------------------------------------------------------------------- the lead


def test_a_leader_that_leaves_hands_over_to_the_one_that_has_most() -> None:
    leader = three()
    zxid = leader.reconfigure(1, 2)
    leader.durable(zxid)
    leader.acknowledge(1, zxid)
    assert leader.peer.state is LEADING, "no quorum of the new one has it"
    leader.acknowledge(2, zxid)
    assert leader.peer.committed == zxid
    assert not leader.sent(msg.HandOver), "the client that asked for it is answered first"
    half_tick(leader)
    assert leader.sent(msg.HandOver) == [msg.HandOver(ServerId(2))]
    assert leader.peer.state is LOOKING


def test_whoever_is_removed_too_is_no_heir() -> None:
    leader = three()
    zxid = leader.reconfigure(1)
    leader.acknowledge(2, zxid)
    leader.durable(zxid)
    leader.acknowledge(1, zxid)
    half_tick(leader)
    assert leader.sent(msg.HandOver) == [msg.HandOver(ServerId(1))]


def test_a_leader_that_leaves_goes_on_until_somebody_can_take_over() -> None:
    leader = three(4)
    zxid = leader.reconfigure(1, 4)
    leader.durable(zxid)
    leader.hear(10, msg.Ping(LAST, LAST, 7, [], True))
    leader.hear(40, msg.Ping(LAST, LAST, 7, [], True))
    leader.acknowledge(1, zxid)
    leader.acknowledge(4, zxid)
    assert leader.peer.committed == zxid
    half_tick(leader)
    assert leader.peer.state is LEADING, "their disks are nearly full"
    assert leader.peer.next_zxid() is not None
    leader.hear(40, msg.Ping(zxid, zxid, 7, [], False))
    half_tick(leader)
    assert leader.sent(msg.HandOver) == [msg.HandOver(ServerId(4))]


def test_a_leader_that_leaves_takes_no_heir_without_room() -> None:
    """If two have the same history, the one with the greater id would take over."""
    leader = three(4)
    zxid = leader.reconfigure(1, 4)
    leader.durable(zxid)
    leader.hear(40, msg.Ping(LAST, LAST, 7, [], True))
    leader.acknowledge(1, zxid)
    leader.acknowledge(4, zxid)
    half_tick(leader)
    assert leader.sent(msg.HandOver) == [msg.HandOver(ServerId(1))]


def test_nothing_is_handed_over_while_one_is_outstanding() -> None:
    leader = three()
    leader.reconfigure(1, 2)
    leader.tell(ev.HandOver(ServerId(1)))
    assert leader.said("not handed over to server 1: a reconfiguration is outstanding")


# ------------------------------------------------------------------------------------------------------ in elections


def electing(**settings: object) -> Alone:
    return Alone(1, restored(), 3, **settings)


def tell(peer: Alone, text: bytes, lineage: bytes = LINEAGE) -> None:
    peer.vote(2, 2, config=text, lineage=lineage)


def test_whoever_missed_it_hears_of_it_and_elects_by_it() -> None:
    peer = electing()
    peer.forget()
    tell(peer, config(2 << 32 | 1, (1, 7, 8)))
    assert voters(peer) == {1, 7, 8}
    assert {effect.sid for effect in peer.did(fx.SendNotification)} == {2, 7, 8}
    peer.vote(7, 7, LEADING, zxid=Zxid(2 << 32 | 1), epoch=Epoch(2))
    peer.vote(8, 7, FOLLOWING, zxid=Zxid(2 << 32 | 1), epoch=Epoch(2))
    assert peer.peer.state is FOLLOWING
    assert peer.did(fx.ConnectQuorum) == [fx.ConnectQuorum(ServerId(7))]


def test_what_is_outstanding_here_and_committed_elsewhere_is_in_force() -> None:
    change = reconfiguration(END, 1, 3, 1, 4, 5)
    peer = Alone(1, restored([*HISTORY, change]), 3)
    assert isinstance(peer.peer.quorum, Joint)
    tell(peer, config(change.zxid, (1, 4, 5)))
    assert voters(peer) == {1, 4, 5}


@pytest.mark.parametrize(
    ("text", "lineage"),
    [
        (config(2 << 32 | 1, (1, 7, 8)), b"another lineage."),
        (config(0, (1, 7, 8)), LINEAGE),
        (b"0x1 what", LINEAGE),
    ],
)
def test_nobody_is_believed_who_tells_something_else(text: bytes, lineage: bytes) -> None:
    peer = electing()
    tell(peer, text, lineage)
    assert voters(peer) == {1, 2, 3}


def test_one_that_has_nothing_believes_every_lineage() -> None:
    peer = Alone(1, nothing_held(NOTHING), 3)
    tell(peer, config(2 << 32 | 1, (7, 8)), b"another lineage.")
    assert voters(peer) == {7, 8}


def test_every_vote_says_what_is_in_force() -> None:
    leader = three(4)
    leader.vote(1, 1)
    assert [effect.in_force for effect in leader.did(fx.SendNotification)] == [b""], "there was none"
    zxid = leader.reconfigure(3, 4)
    leader.durable(zxid)
    for sid in (1, 4):
        leader.acknowledge(sid, zxid)
    leader.forget()
    leader.vote(1, 1)
    leader.vote(9, 9)
    told = [(effect.sid, effect.in_force) for effect in leader.did(fx.SendNotification)]
    assert told == [(1, config(zxid, (3, 4))), (9, config(zxid, (3, 4)))], "an unlisted server is answered"


def test_a_learner_that_heard_of_it_follows_until_it_has_it() -> None:
    peer = electing()
    tell(peer, config(2 << 32 | 1, (1, 7, 8)))
    for sid in (8, 7):
        peer.vote(sid, 7, LEADING if sid == 7 else FOLLOWING, zxid=Zxid(2 << 32 | 1), epoch=Epoch(2))
    peer.tell(ev.QuorumLinkUp(LEADERS_LINK, ServerId(7), inbound=False))
    peer.hear(LEADERS_LINK, msg.LeaderInfo(Epoch(3), LINEAGE))
    peer.saved()
    change = reconfiguration(END, 2, 1, 1, 7, 8, mark=LAST)
    peer.hear(LEADERS_LINK, msg.Diff(LAST), msg.Proposal([change.raw]))
    assert voters(peer) == {1, 7, 8}, "it is outstanding here, and was heard to be committed"
    assert peer.peer.phase is SYNCHRONIZATION
    peer.durable(change.zxid)
    peer.hear(LEADERS_LINK, msg.NewLeader(Epoch(3), change.zxid, False))
    peer.saved()
    peer.hear(LEADERS_LINK, msg.UpToDate(change.zxid))
    assert peer.peer.phase is BROADCAST
    assert peer.peer.memberships.heard is None
    assert peer.peer.memberships.in_force.version == change.zxid
    assert genesis(LINEAGE)
