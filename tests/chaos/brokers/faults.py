"""What goes wrong for brokers and members under load, one after the other, as a seed says.

    kill_leader, kill_controller, kill_broker     `kill -9`
    pause_broker                    SIGSTOP for longer than a session
    part_…, cut_off_broker          the kernel drops packets between brokers, members and clients
    restart_in_turn                 SIGTERM of each broker, and a start
    reassign                        a partition moves to other replicas and back
    elect_preferred                 leaders go back to the first replica

And what goes wrong for every kind of node: `nodes.faults`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

from attrs import define, field

from tests.chaos.brokers.cluster import SIZE, Brokers, ChaosBroker
from tests.chaos.brokers.history import Partition
from tests.chaos.nodes.cluster import MEMBERS
from tests.chaos.nodes.faults import Faults

FAILOVER_SECONDS: Final = 60.0
PROBE_SECONDS: Final = 0.02
ADMIN_MS: Final = 10_000
PREFERRED: Final = 0


@define(kw_only=True)
class BrokerFaults(Faults[ChaosBroker]):
    """See the docstring of the module. topic: what is reassigned."""

    always = (
        *("kill_leader", "kill_controller", "kill_broker", "kill_two", "kill_all", "kill_member", "kill_members"),
        *("pause_broker", "pause_member", "restart_in_turn", "reassign", "elect_preferred"),
    )
    of_networks = ("part_brokers", "cut_off_broker", "part_from_members", "part_from_clients", "part_members")
    gaps = (0.0, 0.1, 1.0)

    cluster: Brokers
    topic: str
    failovers: list[float] = field(factory=list)
    """How long partitions had no leader, as the other brokers say, in seconds."""
    begun: list[tuple[float, tuple[Partition, ...]]] = field(factory=list)
    """When the leaders of these partitions were taken away."""

    # ----------------------------------------------------------------------------------------------------------- kills

    def kill_leader(self) -> None:
        self.kill_nodes([self._leader()])

    def kill_controller(self) -> None:
        view = self.cluster.view()
        controller = -1 if view is None else view.controller
        self.kill_nodes([self.cluster.nodes.get(controller, self.any())])

    def kill_broker(self) -> None:
        self.kill_nodes([self.any()])

    @contextlib.contextmanager
    def watched(self, *victims: ChaosBroker, is_final: bool = True) -> Iterator[None]:
        """Measure how long what a victim leads has no other leader; of several victims nothing is measured. Without
        `is_final` the victim may lead again after the block, and what it then still leads is not counted."""
        ids = {victim.number for victim in victims}
        view = self.cluster.view()
        led = () if view is None else tuple(where for where, leader in view.leaders.items() if leader in ids)
        begin = time.monotonic()
        self.begun.append((begin, led))
        if len(ids) > 1:
            yield
            return
        is_over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(*ids, set(led), begin, is_over))
        watch.start()
        try:
            yield
            if is_final:
                watch.join(FAILOVER_SECONDS)
        finally:
            is_over.set()
            watch.join()

    def _watch(self, victim: int, waiting: set[Partition], begin: float, is_over: threading.Event) -> None:
        while waiting and not is_over.is_set():
            view = self.cluster.view(without=victim)
            if view is not None:
                for where in [each for each in waiting if view.leaders.get(each, -1) not in (-1, victim)]:
                    waiting.discard(where)
                    self.failovers.append(time.monotonic() - begin)
            is_over.wait(PROBE_SECONDS)

    def _leader(self) -> ChaosBroker:
        view, nodes = self.cluster.view(), self.cluster.nodes
        leaders = [] if view is None else [nodes[each] for each in view.leaders.values() if each in nodes]
        return self.random.choice(leaders) if leaders else self.any()

    # ---------------------------------------------------------------------------------------------------------- pauses

    def pause_broker(self) -> None:
        victim = self.chosen(self._leader())
        self.cluster.stopped.add(victim.number)
        try:
            with self.watched(victim, is_final=False):
                self.pause(victim)
        finally:
            self.cluster.stopped.discard(victim.number)

    # -------------------------------------------------------------------------------------------------------- networks

    def part_brokers(self) -> None:
        """One does not reach another, or is not heard by it; both reach the members."""
        one, other = self.random.sample(self.nodes, 2)
        self.say(f"brokers {one.number} and {other.number}")
        self.parted(lambda _net, part: part(one.machine, other.machine))

    def cut_off_broker(self) -> None:
        """A leader reaches clients alone."""
        victim = self.chosen(self._leader())
        others = [each for each in range(1, MEMBERS + SIZE + 1) if each != victim.machine]

        with self.watched(victim, is_final=False):
            self.parted(lambda _net, part: [part(victim.machine, other) for other in others])

    def part_from_members(self) -> None:
        """A leader and its followers reach each other, and it loses its session."""
        victim = self.chosen(self._leader())
        members = range(1, MEMBERS + 1)
        self.parted(lambda net, _part: [net.part(victim.machine, member) for member in members])

    def part_from_clients(self) -> None:
        """Clients do not hear a leader, which goes on with everybody else."""
        victim = self.chosen(self._leader())
        self.parted(lambda net, _part: net.cut_outside(victim.machine))

    # --------------------------------------------------------------------------------------------- disks, and operators

    def fill_disk(self) -> None:
        super().fill_disk()
        victim = self.cluster.nodes[SIZE]
        self.say("it had ended" if not victim.running else "it still ran")
        # A log whose disk has failed is served again after a restart.
        self.kill([victim])
        self.kill_count -= 1

    def restart_in_turn(self) -> None:
        brokers = self.nodes
        self.random.shuffle(brokers)
        for broker in brokers:
            code = broker.stop()
            self.say(f"broker {broker.number} ended with {code}")
            broker.start()
            self.cluster.start_all()

    def reassign(self) -> None:
        """A partition gives up one replica, gets it back, and another order."""
        from kafka import TopicPartition

        whole = self.random.sample([*self.cluster.nodes], 3)
        part = whole[:2]
        self.random.shuffle(whole)
        for replicas in (part, whole):
            with self._admin() as admin:
                answer = admin.alter_partition_reassignments({TopicPartition(self.topic, 0): replicas})
                self.say(f"to {replicas} {[str(error) for error in answer.values() if error is not None] or ''}")
            deadline = time.monotonic() + FAILOVER_SECONDS
            while time.monotonic() < deadline:
                view = self.cluster.view()
                if view is not None and set(view.replicas.get((self.topic, 0), ())) == set(replicas):
                    break
                time.sleep(PROBE_SECONDS)
            else:
                self.say(f"not moved after {FAILOVER_SECONDS} s")

    def elect_preferred(self) -> None:
        with self._admin() as admin:
            admin.elect_leaders(PREFERRED, None, raise_errors=False)

    @contextlib.contextmanager
    def _admin(self) -> Iterator[Any]:
        from kafka import KafkaAdminClient
        from kafka.errors import KafkaError

        admin = KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap.split(","), request_timeout_ms=ADMIN_MS)
        try:
            yield admin
        except KafkaError as error:
            self.say(f"refused: {error}")
        finally:
            admin.close()
