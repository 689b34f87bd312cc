"""What a seed decides before a run begins: brokers, topics and their settings, clients, delays, and faults.

A run has some of the faults, often, and not all of them (swarm testing): so some of them get far without the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Final

import attrs

from zab.simulator.brokers import workload
from zab.simulator.brokers.administrator import TopicPlan
from zab.simulator.world.schedule import MS

TICK_US: Final = 100 * MS
BROKERS_MAX: Final = 5
BROKERS: Final[Mapping[int, int]] = {1: 5, 3: 12, 5: 3}
"""How many brokers runs have, by their weights."""

FAULTS: Final[Mapping[str, int]] = {
    "kill": 4,
    "power": 4,
    "blackout": 1,
    "outage": 2,
    "kill_at_effect": 4,
    "pause": 3,
    "pause_leader": 2,
    "clean_stop": 2,
    "rolling_restart": 1,
    "replace_disk": 1,
    "partition_brokers": 2,
    "isolate": 2,
    "wall_jump": 2,
    "power_at_operation": 4,
    "disk_error": 3,
    "slow_disk": 3,
    "partition": 2,
    "one_way": 2,
    "slow_link": 2,
    "cut_client": 3,
    "expire": 3,
    "lose_answers": 4,
    "service_outage": 1,
    "reassign": 3,
    "elect_leaders": 2,
    "change_settings": 2,
    "delete_topic": 1,
}
"""All faults, by their weights."""

ADMINISTRATION: Final = ("reassign", "elect_leaders", "change_settings", "delete_topic")
"""What operators do to several brokers."""

LOSES_POWER: Final = frozenset({"power", "blackout", "power_at_operation"})
"""Faults that lose what was not synced. With them, most topics with several replicas sync everything before
it counts."""


@attrs.frozen(kw_only=True)
class Profile:
    """The kind of one run. Times that end in `_us` are microseconds of virtual time."""

    seed: int
    brokers: int
    topics: tuple[TopicPlan, ...]
    producers: int
    consumers: int
    fault_ticks: int
    faults: Mapping[str, int]
    """The faults of the run, by their weights."""
    gap_us: int
    """The average time between two faults."""
    write_gap_us: int
    read_gap_us: int
    delete_gap_us: int
    latency_us: int
    jitter_us: int
    disk_us: int
    turn_us: int
    operation_us: int
    """How long an operation of the coordination service takes."""
    drift_ppm: int
    session_timeout_ms: int
    lines: str
    """The settings of every broker, as lines of its file."""
    is_merciless: bool = False
    workload: workload.Workload = workload.Workload()
    """What clients do besides."""

    @property
    def tick_us(self) -> int:
        return TICK_US

    def min_in_sync(self, which: Callable[[Iterable[int]], int]) -> dict[str, int]:
        """The lowest or the highest min.insync.replicas that each topic has in the run."""
        changes = "change_settings" in self.faults
        return {topic.name: which(topic.min_in_sync_of(changes=changes)) for topic in self.topics}

    @property
    def moves(self) -> bool:
        """Whether partitions are reassigned, so that one with one replica has two now and then."""
        return "reassign" in self.faults


def draw(seed: int, rng: Random) -> Profile:
    """The profile of a seed: one broker, three, or now and then five."""
    (brokers,) = rng.choices(list(BROKERS), list(BROKERS.values()))
    return _drawn(seed, rng, brokers)


def with_brokers(profile: Profile, brokers: int) -> Profile:
    """The profile of the same seed for so many brokers."""
    return _drawn(profile.seed, Random(f"{profile.seed}/profile/{brokers}"), brokers)


def with_workload(profile: Profile, focus: str) -> Profile:
    """This profile with groups, transactions and keys, as its seed says; with a focus only this, and nothing plain."""
    rng, protocols = (Random(f"{profile.seed}/{what}/{profile.brokers}") for what in ("workload", "protocols"))
    work = workload.draw(rng, protocols, profile.brokers, focus)
    lines = profile.lines + "".join(f"{name}={value}\n" for name, value in work.lines.items())
    topics = (*profile.topics, *work.topics)
    # What groups, transactions and keys promise they promise while the logs are there: their judges know of no losses.
    faults = {name: weight for name, weight in profile.faults.items() if name != "replace_disk" or not work.topics}
    profile = attrs.evolve(profile, workload=work, lines=lines, topics=topics, faults=faults or {"kill": 1})
    return attrs.evolve(profile, topics=work.topics, producers=0, consumers=0) if focus else profile


def _drawn(seed: int, rng: Random, brokers: int) -> Profile:
    topics = tuple(_topic(rng, f"t{number}", brokers) for number in range(rng.randint(1, 3)))
    share = rng.choice((0.2, 0.4, 0.7))
    faults = {name: weight for name, weight in FAULTS.items() if name not in ADMINISTRATION and rng.random() < share}
    if LOSES_POWER & faults.keys():
        topics = tuple(topic if rng.random() < 0.3 else _synced(topic) for topic in topics)
    session_timeout_ms = rng.choice((1_500, 3_000, 6_000))
    lines: dict[str, int | str] = {
        "zookeeper.session.timeout.ms": session_timeout_ms,
        "log.flush.offset.checkpoint.interval.ms": rng.choice((500, 5_000, 60_000)),
        "replica.high.watermark.checkpoint.interval.ms": rng.choice((200, 5_000)),
        "log.retention.check.interval.ms": rng.choice((1_000, 300_000)),
        # By the wall clock, which may jump by years.
        "producer.id.expiration.ms": 1 << 60,
        "log.segment.delete.delay.ms": rng.choice((0, 1_000, 60_000)),
    }
    if brokers > 1:
        lines |= _of_replication(rng)
        operators = Random(f"{seed}/operators/{brokers}")
        faults |= {name: FAULTS[name] for name in ADMINISTRATION if operators.random() < share}
    is_small = brokers == 1
    return Profile(
        seed=seed,
        brokers=brokers,
        topics=topics,
        producers=rng.randint(1, 4),
        consumers=rng.randint(1, 2),
        fault_ticks=rng.choice((100, 150, 250) if is_small else (60, 100, 150)),
        faults=faults or {"kill": 1},
        gap_us=int(TICK_US * rng.choice((4, 10, 25))),
        write_gap_us=rng.choice((20, 60, 200) if is_small else (60, 200)) * MS,
        read_gap_us=rng.choice((20, 100) if is_small else (100, 200)) * MS,
        delete_gap_us=rng.choice((3_000, 10_000, 60_000)) * MS,
        latency_us=rng.choice((100, 500, 3_000)),
        jitter_us=rng.choice((50, 500, 5_000)),
        disk_us=rng.choice((200, 2_000, 10_000)),
        turn_us=rng.choice((50, 300)),
        operation_us=rng.choice((100, 1_000, 5_000)),
        drift_ppm=rng.choice((0, 200)),
        session_timeout_ms=session_timeout_ms,
        lines="".join(f"{name}={value}\n" for name, value in lines.items()),
    )


def _of_replication(rng: Random) -> dict[str, int | str]:
    """The settings that decide how quickly followers copy, and leave the set of those in sync."""
    return {
        "replica.lag.time.max.ms": rng.choice((1_000, 3_000, 10_000)),
        "replica.fetch.wait.max.ms": rng.choice((100, 500)),
        "replica.fetch.backoff.ms": rng.choice((100, 1_000)),
        "replica.socket.timeout.ms": rng.choice((2_000, 10_000)),
        "replica.fetch.max.bytes": rng.choice((1_000, 10_000, 1 << 20)),
        "unclean.leader.election.enable": "false",
    }


def _topic(rng: Random, name: str, brokers: int) -> TopicPlan:
    replicas = min(brokers, rng.choice((1, 2, 3, 3, 3, 3, 3, 3, 3, 5)))
    settings = {
        "retention.ms": "-1",
        "flush.mode": rng.choice(("batch", "batch", "os")),
        "segment.bytes": str(rng.choice((8_000, 30_000, 1 << 30))),
        "index.interval.bytes": str(rng.choice((0, 500, 4096))),
        "min.insync.replicas": str(min(replicas, rng.choice((1, 2, 2)))),
    }
    if rng.random() < 0.3:
        settings["flush.messages"] = str(rng.choice((1, 10)))
    return TopicPlan(name, rng.randint(1, 3), replicas, settings)


def _synced(topic: TopicPlan) -> TopicPlan:
    return topic if topic.replicas == 1 else attrs.evolve(topic, settings={**topic.settings, "flush.mode": "batch"})
