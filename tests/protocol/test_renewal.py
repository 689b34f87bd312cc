"""The renewal of an epoch with learners that serve clients: what it must not do to them (F1 renewal).

That nobody elects and no client notices is shown by the scripts `renewal.txt` and `snapshot_in_a_renewal.txt`.
"""

from collections.abc import Callable

import pytest

from tests.protocol.histories import established
from tests.rigs.direct.peers import Ensemble
from zab.protocol import effects as fx
from zab.protocol import events as ev
from zab.protocol import message as msg
from zab.quorum.ids import ServerId


def follower_in_a_renewal(*, count: int) -> tuple[Ensemble, ServerId]:
    """A follower that serves clients, holds so many batches, and has acknowledged the epoch of a renewal."""
    ensemble, leader = established()
    for _ in range(count):
        ensemble.propose(leader)
    ensemble.run(50)
    follower = next(sid for sid in ensemble.servers if sid != leader)
    say(ensemble, follower, lambda epoch, lineage: msg.LeaderInfo(epoch + 1, lineage))
    while ensemble.servers[follower].to_store:
        assert ensemble.deliver_one()
    assert ensemble.peer(follower).serving
    return ensemble, follower


def say(ensemble: Ensemble, sid: ServerId, message: Callable[[int, bytes], msg.Message]) -> None:
    """Its leader says this, made of its epoch and lineage."""
    peer = ensemble.peer(sid)
    link = peer.link_to_leader
    assert link is not None
    ensemble.step(sid, ev.MessageReceived(link, message(peer.epoch, peer.lineage)))


def test_a_member_that_serves_clients_leaves_a_leader_that_sends_it_a_snapshot() -> None:
    ensemble, follower = follower_in_a_renewal(count=2)
    link, last = ensemble.peer(follower).link_to_leader, ensemble.peer(follower).history.last
    say(ensemble, follower, lambda epoch, _: msg.Snap((epoch << 32) + 99, bytes(16), False))
    assert link not in ensemble.links
    assert not any(isinstance(task, fx.FetchSnapshot) for task in ensemble.servers[follower].tasks)
    ensemble.run(2000)
    assert ensemble.servers[follower].halted is None
    assert ensemble.peer(follower).serving
    assert ensemble.peer(follower).history.last == last


@pytest.mark.parametrize("count", [0, 2], ids=["no batch yet", "batches"])
def test_a_renewal_in_another_lineage_replaces_nothing_under_clients(count: int) -> None:
    """A lineage without any batch binds nobody, but these clients have been served in it."""
    ensemble, leader = established()
    for _ in range(count):
        ensemble.propose(leader)
    ensemble.run(50)
    follower = next(sid for sid in ensemble.servers if sid != leader)
    link = ensemble.peer(follower).link_to_leader
    say(ensemble, follower, lambda epoch, _: msg.LeaderInfo(epoch + 1, b"another lineage."))
    assert link not in ensemble.links
    ensemble.run(2000)
    assert ensemble.peer(follower).lineage == ensemble.peer(leader).lineage
    assert ensemble.peer(follower).serving
