"""Observers that follow through masters and become voters: they count, and they turn to the leader."""

from __future__ import annotations

from datatree.log.zxid import Epoch, Zxid
from tests.protocol.alone import Alone, config, restored
from tests.protocol.reconfigurations import propose_configuration
from tests.rigs.direct.peers import TICK_MS, Ensemble
from zab.member.membership.reconfiguring import READER
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import reconfiguration
from zab.protocol.roles import Attaching
from zab.protocol.states import FOLLOWING, LEADING, OBSERVING
from zab.quorum.ids import ServerId

NEW = Zxid(2 << 32 | 1)


def begin() -> tuple[Ensemble, ServerId]:
    """Voters 1 to 3, observers 4 and 5 through masters; and who leads."""
    observers = frozenset((ServerId(4), ServerId(5)))
    ensemble = Ensemble(3, observers=observers, has_observer_masters=1, reader=READER, takes_unlisted=True)
    ensemble.start()
    ensemble.elect()
    ensemble.run(20 * TICK_MS)
    leader = ensemble.leader()
    assert leader is not None
    leading = ensemble.peer(leader).leading
    assert leading is not None
    assert set(leading.attached.values()) == observers
    assert not leading.attaching
    return ensemble, leader


def test_d124_observers_behind_masters_count_for_the_quorum_of_the_new_ones_and_vote_in_it() -> None:
    ensemble, leader = begin()
    change = propose_configuration(ensemble, leader, {leader, ServerId(4), ServerId(5)}, set())
    assert change, "no NEWCONFIGNOQUORUM"
    ensemble.run(20 * TICK_MS)
    for sid in (leader, ServerId(4), ServerId(5)):
        peer = ensemble.peer(sid)
        assert peer.memberships.in_force.version == change
        assert peer.serving
        assert peer.following is None or peer.following.source == peer.following.leader


def test_d124_one_whose_confirmation_is_awaited_does_not_count_yet() -> None:
    ensemble, leader = begin()
    peer = ensemble.peer(leader)
    assert peer.leading is not None
    for route in peer.leading.attached:
        peer.leading.attaching.append(Attaching(peer.leading.confirm_round + 1, route))
    assert not propose_configuration(ensemble, leader, {leader, ServerId(4), ServerId(5)}, set())
    assert not reconfiguration.is_outstanding(peer)


def test_who_is_to_vote_has_a_tick_to_turn_to_the_leader() -> None:
    """Without them there is no quorum of the new ones: at a tick in between the leader would give up."""
    ensemble, leader = begin()
    leading = ensemble.peer(leader).leading
    assert leading is not None
    ensemble.now = leading.next_tick - 1
    assert propose_configuration(ensemble, leader, {leader, ServerId(4), ServerId(5)}, set())
    ensemble.now += 1
    ensemble.step(leader, ev.TimePassed())
    assert ensemble.peer(leader).leading is leading
    ensemble.run(20 * TICK_MS)
    assert ensemble.peer(leader).leading is leading


def observer(**settings: object) -> Alone:
    return Alone(4, restored(), 3, observers=(4,), has_observer_masters=True, takes_unlisted=True, **settings)


def elect(alone: Alone, outstanding: bytes) -> list[fx.ConnectQuorum]:
    for _ in range(2):
        alone.vote(3, 3, LEADING, outstanding=outstanding, epoch=Epoch(2))
        alone.vote(2, 3, FOLLOWING, epoch=Epoch(2))
    return alone.did(fx.ConnectQuorum)


def test_who_votes_in_what_is_outstanding_dials_the_leader() -> None:
    """Its master would wait for the leader, which waits for this vote."""
    alone = observer()
    assert elect(alone, config(NEW, (1, 2, 4))) == [fx.ConnectQuorum(ServerId(3))]
    assert alone.peer.state is OBSERVING


def test_other_observers_dial_a_master_meanwhile() -> None:
    alone = observer()
    (dialled,) = elect(alone, config(NEW, (1, 2, 5)))
    assert dialled.sid != 3
    assert dialled.as_observer
