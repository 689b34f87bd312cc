"""Producers, zombies, coordinators that fail over, answers that are lost: judged by what consumers see."""

from __future__ import annotations

import pytest

from tests.partition.transactions.simulated_clients import Producer
from tests.partition.transactions.simulated_judge import Judge
from tests.partition.transactions.simulated_world import Process, World
from zab.partition.settings.broker_settings import TransactionSettings

FAULTS_MS = 30_000
CALM_MS = 40_000
LOOK_MS = 1000
SETTINGS = TransactionSettings(abort_check_ms=1000)


def run(seed: int) -> tuple[World, Judge]:
    """Faults for a while, then calm."""
    world, judge = World(seed, SETTINGS), Judge()
    random = world.random

    running: dict[str, list[Process]] = {}

    def start(name: str) -> None:
        """A process, which may find another one with its transactional id."""
        running.setdefault(name, []).append(world.start(Producer(world, judge, name).run()))

    def keep_up() -> None:
        """When the last one of an id has ended, mostly the next one begins."""
        for name, processes in running.items():
            if not any(each.is_alive for each in processes) and random.random() < 0.8:
                start(name)
        if world.has_faults:
            world.later(random.choice([10, 1000]), keep_up)

    def look() -> None:
        judge.look(world)
        world.later(LOOK_MS, look)

    for number in range(random.randint(1, 3)):
        for at in [0, *(random.randrange(FAULTS_MS) for _ in range(random.randint(0, 3)))]:
            world.later(at, lambda name=f"id{number}": start(name))
    for _ in range(random.randint(0, 5)):
        world.later(random.randrange(FAULTS_MS), world.elect)
    look()
    keep_up()
    world.run(FAULTS_MS)
    world.has_faults = False
    world.run(FAULTS_MS + CALM_MS)
    return world, judge


def check(seed: int) -> dict[str, int]:
    world, judge = run(seed)
    judge.when_calm(world)
    for broker in world.brokers:
        broker.coordinator.stop()
        world.drain(broker)
        assert broker.coordinator.waiting_count == 0
        assert not broker.requests, "every request is answered"
    return world.counts


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 12, 3))
def test_seeds(start: int) -> None:
    seen: dict[str, int] = {}
    for seed in range(start, start + 3):
        for what, count in check(seed).items():
            seen[what] = seen.get(what, 0) + count
    for what in ("commits", "aborts", "fenced producers", "producers that died", "elections", "looks"):
        assert seen[what] > 2, seen


@pytest.mark.slow
def test_one_seed_is_one_run() -> None:
    first, second = run(3), run(3)
    assert first[0].log == second[0].log
    assert first[0].counts == second[0].counts
