"""Peers with histories of their own."""

from tests.rigs.direct.peers import Ensemble


def established(size: int = 3, **settings: int) -> tuple[Ensemble, int]:
    ensemble = Ensemble(size, **settings)
    ensemble.start()
    return ensemble, ensemble.elect()


def rejoining_with_held_storage(kind: type) -> tuple[Ensemble, int, int]:
    """A follower comes back, lacks a batch, and its storage stands still at effects of this kind."""
    ensemble, leader = established()
    follower = next(sid for sid in ensemble.servers if sid != leader)
    ensemble.crash(follower)
    ensemble.propose(leader)
    ensemble.run(20)
    ensemble.servers[follower].held.add(kind)
    ensemble.start(follower)
    ensemble.run(100)
    return ensemble, leader, follower
