"""What goes wrong for brokers and members under load, one after the other, as a seed says.

    kill_leader, kill_controller, kill_broker, kill_two, kill_all     `kill -9` of brokers
    kill_member, kill_members       of one member, of a majority of them
    pause_broker, pause_member      SIGSTOP for longer than a session
    part_…, cut_off_broker          the kernel drops packets between brokers, members and clients
    fill_disk                       the disk of one broker is full for a while
    restart_in_turn                 SIGTERM of each broker, and a start
    reassign                        a partition moves to other replicas and back
    elect_preferred                 leaders go back to the first replica

After each, everything runs again. Faults of networks need machines (`rigs.namespaces`), and `fill_disk` a small disk.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import define, field

from tests.chaos.brokers.cluster import SESSION_SECONDS, ChaosBroker, Cluster
from tests.chaos.brokers.history import Partition
from tests.rigs.namespaces import Namespaces

FAILOVER_SECONDS: Final = 60.0
PROBE_SECONDS: Final = 0.02
ADMIN_MS: Final = 10_000
PREFERRED: Final = 0
ALWAYS: Final = (
    *("kill_leader", "kill_controller", "kill_broker", "kill_two", "kill_all", "kill_member", "kill_members"),
    *("pause_broker", "pause_member", "restart_in_turn", "reassign", "elect_preferred"),
)
OF_NETWORKS: Final = ("part_brokers", "cut_off_broker", "part_from_members", "part_from_clients", "part_members")


@define
class Faults:
    """See the docstring of the module. topic: what is reassigned. small_disk: that of broker 3."""

    cluster: Cluster
    random: random.Random
    topic: str
    small_disk: Path | None = None
    only: Sequence[str] = ()
    """Nothing but these; empty: everything."""
    happened: list[str] = field(factory=list)
    failovers: list[float] = field(factory=list)
    """How long partitions had no leader, as the other brokers say, in seconds."""
    begun: list[tuple[float, tuple[Partition, ...]]] = field(factory=list)
    """When the leaders of these partitions were taken away."""
    kill_count: int = 0

    @property
    def kinds(self) -> list[str]:
        if self.only:
            return [*self.only]
        networks = OF_NETWORKS if self.cluster.net is not None else ()
        return [*ALWAYS, *networks, *([] if self.small_disk is None else ["fill_disk"])]

    def run(self, seconds: float) -> None:
        """For so long; each kind once before one comes again."""
        deadline = time.monotonic() + seconds
        waiting: list[str] = []
        while time.monotonic() < deadline:
            if not waiting:
                waiting = self.kinds
                self.random.shuffle(waiting)
            time.sleep(self.random.uniform(0.5, 2.0))
            kind = waiting.pop()
            self.happened.append(kind)
            getattr(self, kind)()
            self.cluster.start_all()

    def say(self, text: str) -> None:
        self.happened[-1] += f"; {text}"

    # ----------------------------------------------------------------------------------------------------------- kills

    def kill_leader(self) -> None:
        self._kill([self.cluster.brokers[self._leader()]])

    def kill_controller(self) -> None:
        view = self.cluster.view()
        controller = -1 if view is None else view.controller
        self._kill([self.cluster.brokers.get(controller, self._any())])

    def kill_broker(self) -> None:
        self._kill([self._any()])

    def kill_two(self) -> None:
        self._kill(self.random.sample([*self.cluster.brokers.values()], 2))

    def kill_all(self) -> None:
        self._kill([*self.cluster.brokers.values()])

    def kill_member(self) -> None:
        members = self.cluster.ensemble.members
        leaders = [member for member in members if member.mode() == "leader"]
        victim = leaders[0] if leaders and self.random.random() < 0.5 else self.random.choice(members)
        self._kill_all([victim])
        self.say(f"member {victim.server_id}")

    def kill_members(self) -> None:
        victims = self.random.sample(self.cluster.ensemble.members, self.random.choice([2, 3]))
        self._kill_all(victims)
        self.say(f"members {[victim.server_id for victim in victims]}")
        time.sleep(self.random.choice([0.0, 1.0, SESSION_SECONDS + 1]))

    def _kill(self, victims: list[ChaosBroker]) -> None:
        with self._failover(*victims):
            self._kill_all(victims)
        self.say(f"brokers {[victim.broker_id for victim in victims]}")
        time.sleep(self.random.choice([0.0, 0.1, 1.0]))

    def _kill_all(self, victims: list[Any]) -> None:
        for victim in victims:
            assert victim.process is not None
            victim.process.kill()
        for victim in victims:
            victim.kill()
        self.kill_count += len(victims)

    @contextlib.contextmanager
    def _failover(self, *victims: ChaosBroker, is_final: bool = True) -> Iterator[None]:
        """Measure how long what a victim leads has no other leader; of several victims nothing is measured. Without
        `is_final` the victim may lead again after the block, and what it then still leads is not counted."""
        ids = {victim.broker_id for victim in victims}
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

    def _any(self) -> ChaosBroker:
        return self.random.choice([*self.cluster.brokers.values()])

    def _leader(self) -> int:
        view = self.cluster.view()
        leaders = [] if view is None else [each for each in view.leaders.values() if each in self.cluster.brokers]
        return self.random.choice(leaders) if leaders else self._any().broker_id

    # ---------------------------------------------------------------------------------------------------------- pauses

    def pause_broker(self) -> None:
        victim = self.cluster.brokers[self._leader()]
        self.say(f"broker {victim.broker_id}")
        self.cluster.stopped.add(victim.broker_id)
        try:
            with self._failover(victim, is_final=False), victim.paused():
                time.sleep(SESSION_SECONDS + self.random.uniform(1, 4))
        finally:
            self.cluster.stopped.discard(victim.broker_id)

    def pause_member(self) -> None:
        victim = self.random.choice(self.cluster.ensemble.members)
        self.say(f"member {victim.server_id}")
        with victim.paused():
            time.sleep(SESSION_SECONDS + self.random.uniform(1, 3))

    # -------------------------------------------------------------------------------------------------------- networks

    def part_brokers(self) -> None:
        """One does not reach another, or is not heard by it; both reach the members."""
        one, other = self.random.sample([*self.cluster.brokers.values()], 2)
        self.say(f"brokers {one.broker_id} and {other.broker_id}")
        self._parted(lambda net, cut: cut(net)(one.machine, other.machine))

    def cut_off_broker(self) -> None:
        """A leader reaches clients alone."""
        victim = self.cluster.brokers[self._leader()]
        self.say(f"broker {victim.broker_id}")
        others = [each for each in range(1, 7) if each != victim.machine]

        def part(net: Namespaces, cut: Cut) -> None:
            for other in others:
                cut(net)(victim.machine, other)

        with self._failover(victim, is_final=False):
            self._parted(part)

    def part_from_members(self) -> None:
        """A leader and its followers reach each other, and it loses its session."""
        victim = self.cluster.brokers[self._leader()]
        self.say(f"broker {victim.broker_id}")

        def part(net: Namespaces, _cut: Cut) -> None:
            for member in self.cluster.ensemble.members:
                net.part(victim.machine, member.server_id)

        self._parted(part)

    def part_from_clients(self) -> None:
        """Clients do not hear a leader, which goes on with everybody else."""
        victim = self.cluster.brokers[self._leader()]
        self.say(f"broker {victim.broker_id}")
        self._parted(lambda net, _cut: net.cut_outside(victim.machine))

    def part_members(self) -> None:
        one, other = self.random.sample(self.cluster.ensemble.members, 2)
        self.say(f"members {one.server_id} and {other.server_id}")
        self._parted(lambda net, cut: cut(net)(one.server_id, other.server_id))

    def _parted(self, part: Callable[[Namespaces, Cut], None]) -> None:
        net = self.cluster.net
        assert net is not None
        cut: Cut = (lambda net: net.part) if self.random.random() < 0.7 else (lambda net: net.cut)
        try:
            part(net, cut)
            time.sleep(self.random.choice([1.0, SESSION_SECONDS + 1, SESSION_SECONDS + 4]))
        finally:
            net.heal()

    # --------------------------------------------------------------------------------------------- disks, and operators

    def fill_disk(self) -> None:
        assert self.small_disk is not None
        filling = self.small_disk / "of somebody else"
        with filling.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                os.write(file.fileno(), bytes(1 << 16))
        time.sleep(self.random.uniform(1, 4))
        filling.unlink()
        victim = self.cluster.brokers[3]
        self.say("it had ended" if not victim.running else "it still ran")
        # A log whose disk has failed is served again after a restart.
        self._kill_all([victim])
        self.kill_count -= 1

    def restart_in_turn(self) -> None:
        brokers = [*self.cluster.brokers.values()]
        self.random.shuffle(brokers)
        for broker in brokers:
            code = broker.stop()
            self.say(f"broker {broker.broker_id} ended with {code}")
            broker.start()
            self.cluster.start_all()

    def reassign(self) -> None:
        """A partition gives up one replica, gets it back, and another order."""
        from kafka import TopicPartition

        whole = self.random.sample([*self.cluster.brokers], 3)
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


Cut = Callable[[Namespaces], Callable[[int, int], None]]
