"""Many clients, brokers that fail over, answers that are lost: judged at every answer, and when calm has come."""

from __future__ import annotations

from random import Random

import pytest

from tests.partition.groups.simulated_clients import Consumer, Style
from tests.partition.groups.simulated_judges import Judges
from tests.partition.groups.simulated_world import World
from zab.partition.settings.broker_settings import GroupSettings

FAULTS_MS = 90_000
CALM_MS = 100_000
SETTINGS = GroupSettings(initial_delay_ms=1000)


def style_of(random: Random, number: int, is_cooperative: bool) -> Style:
    """One of the clients that there are."""
    return Style(
        instance_id=f"i{number}" if random.random() < 0.4 else None,
        is_cooperative=is_cooperative,
        requires_member_id=random.random() < 0.8,
        may_skip_assignment=random.random() < 0.5,
        producer_id=100 + number if random.random() < 0.25 else None,
    )


def run(seed: int) -> tuple[World, Judges, list[Consumer]]:
    """Faults for a while, then calm."""
    judges = Judges()
    world = World(seed, SETTINGS, judges.watch)
    random = world.random
    is_cooperative = random.random() < 0.5
    styles = [style_of(random, number, is_cooperative) for number in range(random.randint(1, 5))]
    consumers: list[Consumer] = []

    def start(style: Style) -> None:
        consumer = Consumer(world, style)
        consumers.append(consumer)
        consumer.start()

    def restart(number: int) -> None:
        """A client crashes and comes back at once, later, or never; or comes back before it has gone."""
        style = styles[number]
        old = [each for each in consumers if each.style is style and each.is_alive]
        way = random.randrange(4)
        for each in old:
            if way == 0:
                each.is_leaving = True
            elif way < 3 or style.instance_id is None:
                each.crash()
        if random.random() < 0.8:
            world.later(random.choice([10, 2000, 15_000]), lambda: start(style))

    for style in styles:
        world.later(random.randrange(5000), lambda style=style: start(style))
    for _ in range(random.randint(0, 6)):
        world.later(random.randrange(FAULTS_MS), lambda: restart(random.randrange(len(styles))))
    for _ in range(random.randint(0, 4)):
        world.later(random.randrange(FAULTS_MS), world.elect)
    world.run(FAULTS_MS)
    world.has_faults = False
    world.run(FAULTS_MS + CALM_MS // 2)
    for each in consumers:
        # A partition that a static member was to give up when it crashed belongs to nobody, and its next process, which
        # never had it, does not join again for it. So it is with Kafka's clients, until the next rebalance.
        each.must_join |= is_cooperative
    world.run(FAULTS_MS + CALM_MS)
    return world, judges, consumers


def check(seed: int) -> dict[str, int]:
    world, judges, consumers = run(seed)
    judges.when_calm(world, consumers)
    for broker in world.brokers:
        broker.coordinator.stop()
        world.drain(broker)
        assert broker.coordinator.waiting_count == 0
        assert not broker.requests, "every request is answered"
    return judges.counts


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, *(pytest.param(start, marks=pytest.mark.longest) for start in (8, 16, 24))])
def test_seeds(start: int) -> None:
    seen: dict[str, int] = {}
    for seed in range(start, start + 8):
        for what, count in check(seed).items():
            seen[what] = seen.get(what, 0) + count
    for what in ("generations", "assignments", "commits", "fetches", "comparisons"):
        assert seen[what] > 20, seen


@pytest.mark.slow
def test_one_seed_is_one_run() -> None:
    first, second = run(3), run(3)
    assert [each.append for each in first[0].log] == [each.append for each in second[0].log]
    assert first[1].counts == second[1].counts
