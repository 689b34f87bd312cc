"""One run: faults happen to brokers while clients work; then the faults end, and everything has to be served again.

    run(seed) -> Report         with a `Scope`, only a part of it

1. Brokers start empty, the administrator creates topics, producers write, consumers read. Faults happen for the
   profile's time. Judge and observer look at everything.
2. The faults end, and all brokers are started. Within `RECOVERY_TICKS` all topics are there, every partition has a
   leader and a full in-sync set, and every producer's next record for each partition is acknowledged. The rest of the
   workload comes to its end: groups consume what there is, and no transaction is open.
3. Producers stop. One more consumer reads every partition from its beginning to its end: what was promised is there,
   once and in order. The replicas of a partition are equal, byte for byte.

Without mercy phases 2 and 3 are left out: lasting faults are never mended, and only safety is judged.

A run raises `SafetyError`, `LivenessError`, or any exception of the code under test; a run that passed returns a
`Report`. The same seed gives the same run, bit for bit, in any process, which `Report.hash` shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Final

import attrs

from zab.simulator.brokers.administrator import Administrator
from zab.simulator.brokers.client import Client
from zab.simulator.brokers.cluster import BrokerCluster
from zab.simulator.brokers.consumer import Consumer
from zab.simulator.brokers.fault_context import BrokerFaultContext
from zab.simulator.brokers.faults import CAUSES
from zab.simulator.brokers.judge import Key
from zab.simulator.brokers.process import BrokerProcess
from zab.simulator.brokers.producer import ALL, IN_FLIGHT_MAX, Producer
from zab.simulator.brokers.profile import Profile, draw
from zab.simulator.brokers.scope import WHOLE, Scope
from zab.simulator.brokers.workload import GROUPS, Work
from zab.simulator.world import shrinking, simulation
from zab.simulator.world.faults import FaultInjector, Happened
from zab.simulator.world.schedule import MS
from zab.simulator.world.scope import Kept
from zab.simulator.world.shrinking import EVENTS_MAX, Shrunk

RECOVERY_TICKS: Final = 900
"""The time to recover after the faults: sessions of former lives have to expire first, one after the other."""
COMPARE_TICKS: Final = 10
"""The time between two comparisons of all replicas."""


@attrs.define
class Report:
    """The report of a run that passed."""

    seed: int
    hash: str
    profile: Profile
    events_count: int
    virtual_ms: int
    counts: Counter[str]


class Simulation(simulation.Simulation):
    """One run. `sink` takes the lines of its trace. For a kept part, `happened` are the faults of the whole run. The
    run may last until `end_us`, in virtual time."""

    def __init__(
        self,
        seed: int,
        sink: Callable[[str], None] | None = None,
        scope: Scope = WHOLE,
        happened: Sequence[Happened] = (),
        end_us: int | None = None,
    ) -> None:
        kept = scope.kept
        self.profile = scope.of(draw(seed, Random(f"{seed}/profile")))
        super().__init__(self.profile.fault_ticks, end_us)
        self.cluster = self.brokers = BrokerCluster(self.profile, sink, repr)
        self.judge = self.brokers.judge
        self.work = Work(self.profile.workload, self.brokers)
        clients = self._clients(seed, kept)
        self.brokers.clients = clients
        self.work.keep(clients)
        self.producers = [client for client in clients if isinstance(client, Producer)]
        self.administrator = next((client for client in clients if isinstance(client, Administrator)), None)
        planned = None if kept is None else kept.faults_of(happened)
        context = BrokerFaultContext(self.brokers, Random(f"{seed}/faults"))
        self.faults: FaultInjector[BrokerFaultContext] = FaultInjector(
            context, CAUSES, self.profile.faults, self.profile.gap_us, planned, self._written
        )

    def _clients(self, seed: int, kept: Kept | None) -> list[Client]:
        """The administrator is the first; it takes part in every run, or there would be no topics."""
        profile, found = self.profile, list[Client]()
        plain = [topic for topic in profile.topics if topic.is_plain]

        def surroundings() -> Iterator[tuple[BrokerCluster, int, Random, frozenset[int] | None]]:
            for number in range(1, 1 << 30):
                wishes = None if kept is None else frozenset(kept.requests.get(number, ()))
                yield self.brokers, -number, Random(f"{seed}/client/{number}"), wishes

        numbers = surroundings()
        found.append(Administrator(*next(numbers), topics=profile.topics, gap_us=profile.delete_gap_us))
        for _ in range(profile.producers):
            each = next(numbers)
            topic = each[2].choice(plain)
            is_idempotent = each[2].random() < 0.75
            acks = ALL if is_idempotent else each[2].choice((ALL, 1, 1, 0))
            is_promised = acks == ALL or (acks == 1 and topic.replicas == 1 and not profile.moves)
            found.append(
                Producer(
                    *each,
                    topic=topic.name,
                    is_idempotent=is_idempotent,
                    acks=acks,
                    is_promised=is_promised,
                    in_flight_max=IN_FLIGHT_MAX if is_idempotent and not topic.rolls else 1,
                    gap_us=profile.write_gap_us,
                )
            )
        read = self._topics_read
        found += [Consumer(*next(numbers), topics=read, gap_us=profile.read_gap_us) for _ in range(profile.consumers)]
        found += self.work.clients(numbers)
        return [client for client in found if kept is None or client.number == -1 or -client.number in kept.requests]

    @property
    def _topics_read(self) -> list[str]:
        """The topics that plain consumers read."""
        return [topic.name for topic in self.profile.topics if topic.is_plain or topic.use == GROUPS]

    def _written(self) -> int:
        return sum(producer.acknowledged_count for producer in self.producers)

    @property
    def requests(self) -> Mapping[int, int]:
        return {-client.number: client.wishes_count for client in self.brokers.clients}

    # ---------------------------------------------------------------------------------------------------------- phases

    def run(self) -> Report:
        """Run all phases. Raises SafetyError, LivenessError, or an exception of the code under test."""
        brokers, profile = self.brokers, self.profile
        if brokers.trace.sink is not None:
            brokers.trace.line("!", str(profile))
        for machine in brokers.machines.values():
            machine.start_after(machine.rng.randrange(profile.tick_us))
        for client in brokers.clients:
            client.start()
        self.faults.start()
        self.advance(self.fault_ticks, self._compare)
        if not profile.is_merciless:
            brokers.trace.say("!", "the faults are over")
            self.faults.end()
            self.work.calm_down()
            self._come_back()
            self._finish_work()
            self._read_whole()
        brokers.observer.compare(brokers.processes)
        schedule = brokers.schedule
        return Report(
            profile.seed, brokers.trace.digest, profile, schedule.count, schedule.now // MS, self.judge.counts
        )

    def _compare(self, ticks_done: int) -> None:
        if ticks_done % COMPARE_TICKS == 0:
            self.brokers.observer.compare(self.brokers.processes)

    def _come_back(self) -> None:
        """Phase 2."""
        if self.administrator is not None:
            self.administrator.is_stopped = True
        self.until(self._is_whole, RECOVERY_TICKS, self._state)
        goal = {producer: producer.acknowledged_count for producer in self.producers}
        for producer in self.producers:
            producer.is_stopped = True

        def all_wrote() -> bool:
            for producer in goal:
                if producer.acknowledged_count == goal[producer]:
                    producer.write_everywhere()
            is_done = all(
                producer.acknowledged_count > goal[producer] and not producer.waiting_count for producer in goal
            )
            return is_done and self._is_whole()

        self.until(all_wrote, RECOVERY_TICKS, self._state)

    @property
    def _partitions(self) -> dict[Key, tuple[str, int]]:
        """The partitions that there are, with their names."""
        topics = self.brokers.processes[0].broker.image.topics
        return {(bytes(topic.id), index): (name, index) for name, topic in topics.items() for index in topic.partitions}

    def _finish_work(self) -> None:
        """The rest of phase 2."""

        def left() -> Mapping[str, int]:
            return self.work.left(self._partitions) if self._is_whole() else {"partitions are not whole": 1}

        self.until(lambda: not left(), RECOVERY_TICKS, lambda: f"{left()}; {self._state()}")
        self.work.finish(self._partitions)

    def _read_whole(self) -> None:
        """Phase 3."""
        brokers = self.brokers
        number = -1 - max(-client.number for client in brokers.clients)
        rng, read = Random(f"{self.profile.seed}/reader"), self._topics_read
        reader = Consumer(brokers, number, rng, None, topics=read, gap_us=5 * MS, once=True)
        reader.start()
        wanted = {
            (bytes(topic.id), index)
            for process in brokers.processes
            for topic in process.broker.image.topics.values()
            for index in topic.partitions
            if topic.name in read
        }

        def has_read() -> bool:
            return reader.readings.keys() == wanted and all(each.is_at_end for each in reader.readings.values())

        self.until(has_read, RECOVERY_TICKS, lambda: f"{reader.name} has read {reader.readings}; {self._state()}")
        for key, reading in reader.readings.items():
            self.judge.whole(key, reading.found, reading.position)
        for client in [*brokers.clients, reader]:
            client.is_stopped = True
        self.until(self._is_whole, RECOVERY_TICKS, self._state)
        brokers.observer.compare(brokers.processes, whole=True)

    # ----------------------------------------------------------------------------------------------------------- state

    def _is_whole(self) -> bool:
        """Whether every broker serves, and every partition has all its replicas in sync."""
        brokers = self.brokers
        if self.administrator is None or not self.administrator.is_done:
            return False
        processes = brokers.processes
        if len(processes) < len(brokers.machines) or any(process.files.failures for process in processes):
            return False
        names = {topic.name for topic in self.profile.topics}
        return all(self._is_served(process, names) for process in processes)

    def _is_served(self, process: BrokerProcess, names: set[str]) -> bool:
        image = process.broker.image
        if set(image.brokers) != set(self.brokers.machines) or not names <= image.topics.keys():
            return False
        states = [state for name in names for state in image.topics[name].partitions.values()]
        return all(
            state.leader in image.brokers and set(state.isr) == set(state.replicas) and not state.removing
            for state in states
        )

    def _state(self) -> str:
        """The state of every broker, to see why there is no progress."""
        lines = []
        for sid in self.brokers.machines:
            process = self.brokers.process(sid)
            if process is None:
                lines.append(f"broker {sid} is down")
                continue
            broker = process.broker
            replicas = [
                f"{each.topic}-{each.index}: {each.log.high_watermark} of {each.log.log_end}"
                f"{' leads' * (each.leader is not None)}{f' {each.log.failure}' if each.log.failure else ''}"
                for each in broker.replicas
            ]
            lines.append(
                f"broker {sid}: epoch {broker.epoch}, session {process.session.id}, "
                f"sees {sorted(broker.image.brokers)}, "
                f"controller {broker.image.controller}, topics {sorted(broker.image.topics)}, {replicas}"
            )
        lines += [f"{producer.name}: {producer.waiting_count} batches wait" for producer in self.producers]
        return "; ".join(lines)


def run(seed: int, sink: Callable[[str], None] | None = None, scope: Scope = WHOLE) -> Report:
    """Run one seed, like `Simulation.run`; a kept part is run after the whole."""
    happened = () if scope.kept is None else faults_of(seed, scope.whole)
    return Simulation(seed, sink, scope, happened).run()


def faults_of(seed: int, scope: Scope) -> Sequence[Happened]:
    """The faults of a run, whether it passes or fails."""
    whole = Simulation(seed, scope=scope)
    with suppress(Exception):
        whole.run()
    return whole.faults.happened


def shrink(seed: int, scope: Scope = WHOLE, events_max: int = EVENTS_MAX) -> Shrunk | None:
    """The shortest part of this run that fails in the same way; None if the run does not fail."""
    assert scope.kept is None

    def play(kept: Kept | None, happened: Sequence[Happened], end_us: int | None) -> Simulation:
        return Simulation(seed, scope=attrs.evolve(scope, kept=kept), happened=happened, end_us=end_us)

    return shrinking.shrink(play, events_max)
