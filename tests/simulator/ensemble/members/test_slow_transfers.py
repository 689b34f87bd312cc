"""A learner fetches a snapshot for longer than three more of them take, while clients go on writing: it comes in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random

import attrs
import pytest

from zab.member.storage.storage import Storage
from zab.protocol.events import SnapshotWithdrawn
from zab.quorum.ids import Link
from zab.simulator.ensemble import simulation
from zab.simulator.ensemble.members import fetch
from zab.simulator.ensemble.members.process import MemberProcess
from zab.simulator.ensemble.members.profile import Profile, draw
from zab.simulator.ensemble.simulation import Simulation

PIECE_BYTES = 32
LATENCY_US = 20_000
"""So little at a time that a snapshot takes as long as a large one does."""
PATIENCE_TICKS = 40


def busy(seed: int, rng: Random) -> Profile:
    """Three members without faults; snapshots follow each other quickly, and little is kept."""
    return attrs.evolve(
        draw(seed, rng),
        voters=3, observers=0, groups=(), weightless=frozenset(), markers=frozenset(), focus="",
        tick_ms=1000, init_limit=10, sync_limit=5, counter_limit=0xFFF00000,
        snap_count=6, segment_kib=1, recent_bytes=4096, batch_count_max=1, batches_in_flight_max=64,
        latency_us=LATENCY_US, jitter_us=50, disk_us=1000, turn_us=500, drift_ppm=0,
        clients=4, think_us=100_000, client_faults={}, long_data=False, outstanding_count_max=1000, session_ticks=8,
    )  # fmt: skip


class Run:
    """An ensemble in which one follower was down until it needs a snapshot, and is about to be started."""

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(seed)
        self.ensemble = self.simulation.ensemble
        for machine in self.ensemble.machines.values():
            machine.start()
        for client in self.simulation.clients:
            client.start()
        while self.ensemble.leader is None or not all(process.member.serving for process in self.ensemble.processes):
            self.tick()
        leader = self.leader
        self.machine = next(machine for sid, machine in self.ensemble.machines.items() if sid != leader.sid)
        self.machine.stays_down = True
        behind = self.process
        assert behind is not None
        self.machine.stop(with_power=False)
        while leader.tasks.storage.log.first_position[0] <= behind.durable:
            self.tick()

    @property
    def leader(self) -> MemberProcess:
        leader = self.ensemble.leader
        assert leader is not None
        return leader

    @property
    def process(self) -> MemberProcess | None:
        return self.ensemble.process(self.machine.number)

    def tick(self) -> None:
        schedule = self.simulation.schedule
        schedule.run_until(schedule.now + self.simulation.profile.tick_us)

    def comes_in(self) -> bool:
        """Whether it serves before the patience is over. The clients go on."""
        self.machine.stays_down = False
        self.machine.start()
        for _ in range(PATIENCE_TICKS):
            self.tick()
            if self.process is not None and self.process.member.serving:
                return True
        return False


@pytest.fixture(autouse=True)
def _slow_transfers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "PIECE_BYTES", PIECE_BYTES)
    monkeypatch.setattr(simulation, "draw", busy)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_h4_a_learner_comes_in_however_many_snapshots_are_taken_meanwhile(seed: int) -> None:
    run = Run(seed)
    offered_from = run.leader.tasks.storage.log.first_position[0]
    counts = run.simulation.observer.counts
    before = counts["sent Snap"], counts["snapshots written"]
    assert run.comes_in()
    assert counts["sent Snap"] == before[0] + 1, "with the first one"
    assert counts["snapshots written"] - before[1] > 3 * 2, "two members took more than three each meanwhile"
    for _ in range(5):
        run.tick()
    assert run.leader.turn.offered == {}
    assert run.leader.tasks.storage.log.first_position[0] > offered_from, "retention goes on when it is in"


@pytest.mark.slow
@pytest.mark.long
def test_h4_without_the_log_that_is_held_for_it_it_never_comes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    purge = Storage.purge

    def greedy(
        storage: Storage, offered: Mapping[Link, int], being_read: Collection[int], keep_count: int, bytes_max: int
    ) -> tuple[int, list[SnapshotWithdrawn]]:
        return purge(storage, {}, being_read, keep_count, bytes_max)

    monkeypatch.setattr(Storage, "purge", greedy)
    assert not Run(0).comes_in()


@pytest.mark.slow
@pytest.mark.long
def test_h4_beyond_its_bound_the_log_goes_and_the_learner_is_offered_a_newer_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simulation, "draw", lambda seed, rng: attrs.evolve(busy(seed, rng), pinned_log_bytes=4096))
    run = Run(0)
    assert not run.comes_in(), "the bound is too low for these transfers"
    counts = run.simulation.observer.counts
    assert counts["offered snapshots given up"] > 1
    assert counts["sent Snap"] > 2
    # Clients fall silent, so the log stands still.
    for client in run.simulation.clients:
        client.is_asking = False
    assert run.comes_in()
