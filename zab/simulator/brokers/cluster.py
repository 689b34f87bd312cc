"""The machines of simulated brokers, the coordination service beside them, and the clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from zab.kafka.coordinator_records import partition_for
from zab.partition.controller.znodes import PartitionState, TopicPartition, state_path
from zab.partition.image.cluster_image import CONSUMER_OFFSETS
from zab.partition.log.checkpoints import META_PROPERTIES, parse_meta_properties
from zab.partition.settings.broker_config import BrokerConfig, read_config
from zab.simulator.brokers.client import Client
from zab.simulator.brokers.controller_states import ControllerStates
from zab.simulator.brokers.judge import Judge
from zab.simulator.brokers.observer import Observer
from zab.simulator.brokers.process import BrokerProcess
from zab.simulator.brokers.profile import Profile
from zab.simulator.coordination.service import CoordinationService
from zab.simulator.world.cluster import Cluster, process_of
from zab.simulator.world.machine import Machine, World
from zab.simulator.world.network import Network
from zab.simulator.world.schedule import MS, Schedule
from zab.simulator.world.trace import Trace

REPAIR_TICKS = 30
"""How long a broker with a failed log is left as it is, at the most."""
PAUSE_US = 2_000 * MS
"""The longest time between the end of a process and the next one."""


class BrokerCluster(Cluster):
    """See the docstring of the module."""

    def __init__(self, profile: Profile, sink: Callable[[str], None] | None, describe: Callable[[object], str]) -> None:
        seed, schedule = profile.seed, Schedule()
        network = Network(schedule, Random(f"{seed}/network"), profile.latency_us, profile.jitter_us)
        super().__init__(
            schedule,
            network,
            Trace(schedule, sink, describe),
            tick_us=profile.tick_us,
            patience_ticks=max(1, profile.session_timeout_ms * MS // profile.tick_us),
            disk_us=profile.disk_us,
            is_merciless=profile.is_merciless,
        )
        self.profile = profile
        self.judge = Judge()
        replicas = {topic.name: topic.replicas + profile.moves for topic in profile.topics}
        self.observer = Observer(self.judge, replicas, profile.min_in_sync(min), self.process)
        self.clients: list[Client] = []
        self.service = CoordinationService(
            *(schedule, network, self.trace, Random(f"{seed}/coordination")),
            operation_us=profile.operation_us,
            count=self.count,
        )
        states = ControllerStates(self.service.tree, self.observer, profile.min_in_sync(max))
        self.service.tree.before_write = states.before_write
        world = World(schedule, network, self.trace, profile.turn_us)
        self.machines = {
            sid: Machine(
                world,
                sid,
                Random(f"{seed}/machine {sid}"),
                partial(self._boot, sid),
                disk_us=profile.disk_us,
                drift_ppm=profile.drift_ppm,
                pause_us=PAUSE_US,
            )
            for sid in range(1, profile.brokers + 1)
        }
        self.configs: dict[int, BrokerConfig] = {
            sid: read_config(f"broker.id={sid}\n{profile.lines}") for sid in self.machines
        }

    @property
    def broker_ids(self) -> Sequence[int]:
        return list(self.machines)

    def count(self, what: str, number: int = 1) -> None:
        self.judge.counts[what] += number

    def process(self, broker: int) -> BrokerProcess | None:
        """The process of a broker; None while there is none."""
        running = process_of(self.machines[broker])
        assert running is None or isinstance(running, BrokerProcess)
        return running

    @property
    def processes(self) -> list[BrokerProcess]:
        """The processes that run."""
        found = map(self.process, self.machines)
        return [process for process in found if process is not None]

    def has_topic(self, broker: int, topic: str, index: int, topic_id: bytes) -> bool:
        """Whether this broker has a replica of this very topic now."""
        process = self.process(broker)
        replica = None if process is None else process.broker.replicas.get(topic, index)
        return replica is not None and bytes(replica.topic_id) == topic_id

    def is_newest(self, topic: str, topic_id: bytes) -> bool:
        """Whether no newer topic of the name has come."""
        return self.observer.newest.get(topic) == topic_id

    def coordinates(self, broker: int, group: str) -> bool:
        """Whether the coordination service says that this broker leads the partition in which the group lives."""
        number = partition_for(group, self.configs[broker].groups.offsets_partition_count)
        where = TopicPartition(CONSUMER_OFFSETS, number)
        data = self.service.tree.data(state_path(where))
        return data is not None and PartitionState.decode(where, data, 0).leader == broker

    def _boot(self, sid: int) -> BrokerProcess:
        machine = self.machines[sid]
        self.count("starts")
        known = None
        if machine.disk.exists(META_PROPERTIES):
            known = parse_meta_properties(machine.disk.read(META_PROPERTIES))
        rng = Random(f"{self.profile.seed}/broker {sid} {machine.starts_count}")
        return BrokerProcess(
            *(machine, self.configs[sid], rng, known, self.service, self.observer),
            neighbour=self.process,
            broker_ids=self.broker_ids,
            repair_us=self.tick_us * REPAIR_TICKS,
        )
