"""Whole members with observers that follow through masters, under all faults; and rules of it that are off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TypeAlias

import attrs
import pytest

from tests.rigs.known_seed import check_known
from tests.simulator.ensemble.hunting import notices
from zab.protocol import message as msg
from zab.protocol import observer_master, synchronization
from zab.protocol.peer_state import PeerState
from zab.protocol.roles import UP_TO_DATE, Following, LearnerHandler, Mastering
from zab.simulator.ensemble import simulation
from zab.simulator.ensemble.members.profile import Profile, changing, draw, with_observer_masters
from zab.simulator.ensemble.simulation import Simulation

Patch: TypeAlias = pytest.MonkeyPatch
Variant: TypeAlias = Callable[[Patch], None]

SEEDS = 200


def observing(seed: int, rng: Random) -> Profile:
    """What a seed draws, with observers that use masters."""
    profile = attrs.evolve(draw(seed, rng), groups=(), weightless=frozenset())
    return profile if dict(profile.further).get("observerMasterPort") else with_observer_masters(profile)


@pytest.fixture(autouse=True)
def _observing(monkeypatch: Patch) -> None:
    monkeypatch.setattr(simulation, "draw", observing)


@pytest.mark.slow
@pytest.mark.long
def test_runs_with_observer_masters_keep_every_promise_and_use_them() -> None:
    counts: Counter[str] = Counter()
    for seed in range(25):
        counts.update(Simulation(seed).run().counts)
    assert counts["sent Attached"] > 50
    assert counts["sent Relayed"] > 200
    assert counts["proposals sent on"] > 500
    assert counts["epochs renewed"] > 5
    assert counts["snapshots installed"] > 3


@pytest.mark.slow
@pytest.mark.long
def test_an_ensemble_with_observer_masters_changes(monkeypatch: Patch) -> None:
    monkeypatch.setattr(simulation, "draw", lambda seed, rng: changing(observing(seed, rng)))
    counts: Counter[str] = Counter()
    for seed in range(12):
        counts.update(Simulation(seed).run().counts)
    assert counts["configurations"] > 20
    assert counts["sent Attached"] > 20


def send_what_is_not_committed(patch: Patch) -> None:
    """A master brings observers to the end of its own log."""
    patch.setattr(PeerState, "supplied", property(lambda peer: peer.history.last[0]))
    patch.setattr(observer_master, "_admit", _admitted)


def _admitted(peer: PeerState, handler: LearnerHandler) -> None:
    handler.stage = UP_TO_DATE
    handler.served = True
    peer.send(handler.link, msg.UpToDate(peer.committed))


def cut_what_is_not_known_here(patch: Patch) -> None:
    """A master does not wait until it knows as much as its observer."""

    def hasty(peer: PeerState, mastering: Mastering, handler: LearnerHandler) -> None:
        synchronization.leader_sync_learner(peer, mastering, handler)

    patch.setattr(observer_master, "_try_to_synchronize", hasty)


def serve_before_the_leader_knows(patch: Patch) -> None:
    """An observer serves clients as soon as it is synchronized, no matter who the leader hears it through."""
    on_ack = observer_master._on_ack

    def hasty(
        peer: PeerState, following: Following, mastering: Mastering, handler: LearnerHandler, message: msg.Ack
    ) -> None:
        handler.is_attached = True
        on_ack(peer, following, mastering, handler, message)

    patch.setitem(observer_master.FROM_OBSERVERS, msg.Ack, hasty)


def forget_the_renewal(patch: Patch) -> None:
    """A master whose leader has renewed its epoch does not tell its observers."""
    patch.setattr(observer_master, "_renew", lambda _peer, following, mastering: None)


VARIANTS: dict[Variant, int] = {
    send_what_is_not_committed: 10,
    cut_what_is_not_known_here: 189,
    serve_before_the_leader_knows: 23,
    forget_the_renewal: 6,
}
"""Each with a seed that notices."""


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
@pytest.mark.long
def test_a_seed_finds_the_rule_that_is_off(variant: Variant, monkeypatch: Patch) -> None:
    variant(monkeypatch)
    check_known(lambda seed: notices(lambda: Simulation(seed).run()), VARIANTS[variant], SEEDS)
