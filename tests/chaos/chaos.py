"""A while of an ensemble's life: clients load it, members are killed with `kill -9` and come back, then it is judged.

    run(ensemble, seconds=60, seed=1) -> Report

Members are killed singly (the leader most often), in pairs and all at once; they come back after a moment, one after
the other in any order. At the end all are up, every client has to get a write through, and when nothing moves any more
the members are read through their client ports, stopped, and their trees taken from their directories: see `checker`.

Not deterministic: the processes, the disk and the scheduler are real. The seed only picks the members and requests.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.checker import Held, Kind, Operation, Replica, Violation, check
from tests.chaos.client import SHARED_PATHS, RecordingClient, Request, read_znodes
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember

CLIENTS = 6
# Who is killed, and how often in comparison.
VICTIMS = {"leader": 4, "one": 3, "two": 2, "all": 2}
# On a slow machine the killing goes on for longer.
SECONDS_A_KILL_MAX = 10.0
PROGRESS_SECONDS = 60.0
QUIET_SECONDS = 5.0
QUIET_AGAIN_SECONDS = 1.0
QUIET_PATIENCE_SECONDS = 120.0
READ_SECONDS = 60.0

# (zxid, digest) of the tree in the directory of a stopped member.
TreeOf = Callable[[ZooKeeperMember], tuple[int, int]]
# Goes wrong for so long, by this source of chance, and adds what has happened to the list. At the end all are up.
Misfortune = Callable[[ZooKeeperEnsemble, float, random.Random, list[str]], None]
# What befalls a member that was killed, before it is started again.
WhileDown = Callable[[ZooKeeperMember], None]


class ChaosError(Exception):
    """The run could not be brought to its end: the ensemble did not serve again, or did not come to rest."""


@dataclass
class Report:
    """What happened, and what was wrong with it."""

    operations: list[Operation]
    kills: list[str] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    acknowledged_count: int = 0

    def __str__(self) -> str:
        lines = [
            f"{len(self.operations)} operations, {self.acknowledged_count} acknowledged writes; {len(self.kills)} kills"
        ]
        lines += self.kills
        lines += [f"{len(self.violations)} violations", *map(str, self.violations[:20])]
        lines += [f"{len(self.complaints)} complaints", *self.complaints[:20]]
        return "\n".join(lines)


def run(
    ensemble: ZooKeeperEnsemble,
    *,
    seconds: float,
    seed: int,
    victims: Mapping[str, int] = VICTIMS,
    tree_of: TreeOf | None = None,
    while_down: WhileDown | None = None,
    misfortune: Misfortune | None = None,
) -> Report:
    """Loads and kills for so long, or what `misfortune` does, then judges. With `tree_of` the members are stopped then.

    Raises ChaosError, ZooKeeperError when members do not come back.
    """
    places = [(member.address, member.client_port) for member in ensemble.members]
    founder = RecordingClient(0, places, seed)
    founder.once(places[0], [Request(Kind.CREATE, "/chaos", "root")])
    founder.once(places[0], [Request(Kind.CREATE, path, f"first {path}") for path in SHARED_PATHS])
    clients = [RecordingClient(number, places, seed * 1000 + number) for number in range(1, CLIENTS + 1)]
    stop = threading.Event()
    threads = [threading.Thread(target=client.run, args=(stop,), name=f"client {client.number}") for client in clients]
    report = Report(founder.operations)
    for thread in threads:
        thread.start()
    try:
        if misfortune is None:
            kill_members(ensemble, seconds, random.Random(seed), victims, report.kills, while_down)
        else:
            misfortune(ensemble, seconds, random.Random(seed), report.kills)
        demand_progress(clients)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for client in clients:
        report.operations += client.operations
        report.complaints += client.complaints
    report.acknowledged_count = sum(operation.acknowledged for operation in report.operations)
    report.replicas = final_replicas(ensemble, report.operations, tree_of)
    report.violations = check(report.operations, report.replicas)
    return report


def kill_members(
    ensemble: ZooKeeperEnsemble,
    seconds: float,
    source: random.Random,
    weights: Mapping[str, int],
    kills: list[str],
    while_down: WhileDown | None = None,
) -> None:
    """Kills, waits, starts again, waits for it to serve, over and over until it was long and often enough."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or len(kills) < seconds / SECONDS_A_KILL_MAX:
        time.sleep(source.uniform(0.3, 2.0))
        victims = choose_victims(ensemble, source, weights)
        kills.append(f"server {', '.join(str(victim.server_id) for victim in victims)}")
        for victim in victims:
            assert victim.process is not None
            victim.process.kill()
        for victim in victims:
            victim.kill()
            if while_down is not None:
                while_down(victim)
        time.sleep(source.choice([0.0, 0.1, 1.0]))
        source.shuffle(victims)
        for victim in victims:
            victim.start()
            time.sleep(source.choice([0.0, 0.0, 0.5]))
        ensemble.wait()


def choose_victims(
    ensemble: ZooKeeperEnsemble, source: random.Random, weights: Mapping[str, int]
) -> list[ZooKeeperMember]:
    """The members to kill at once."""
    kind = source.choices(list(weights), weights=list(weights.values()), k=1)[0]
    leaders = [member for member in ensemble.members if member.mode() == "leader"]
    if kind == "leader" and leaders:
        return leaders[:1]
    return source.sample(ensemble.members, {"leader": 1, "one": 1, "two": 2, "all": len(ensemble.members)}[kind])


def demand_progress(clients: Sequence[RecordingClient]) -> None:
    """Every client gets another write acknowledged, now that nobody is killed any more."""
    before = [client.acknowledged_count for client in clients]
    deadline = time.monotonic() + PROGRESS_SECONDS
    while waiting := [c.number for c, count in zip(clients, before, strict=True) if c.acknowledged_count == count]:
        if time.monotonic() > deadline:
            raise ChaosError(f"clients {waiting} got no write through within {PROGRESS_SECONDS} s after the last kill")
        time.sleep(0.05)


def final_replicas(
    ensemble: ZooKeeperEnsemble, operations: Sequence[Operation], tree_of: TreeOf | None
) -> list[Replica]:
    """What each member holds when nothing moves any more (sessions whose client is gone have expired by then)."""
    paths = sorted({operation.path for operation in operations if operation.writes})
    # A request whose client has given up may still be on its way: it must not arrive between two of the reads.
    wait_for_rest(ensemble, QUIET_SECONDS)
    znodes = {member.server_id: read_patiently(member, paths) for member in ensemble.members}
    zxid = wait_for_rest(ensemble, QUIET_AGAIN_SECONDS)
    trees = {member.server_id: (zxid, 0) for member in ensemble.members}
    if tree_of is not None:
        for member in ensemble.members:
            assert member.process is not None
            member.process.terminate()
        for member in ensemble.members:
            member.stop()
        trees = {member.server_id: tree_of(member) for member in ensemble.members}
    return [Replica(f"server {server_id}", *trees[server_id], znodes[server_id]) for server_id in sorted(znodes)]


def read_patiently(member: ZooKeeperMember, paths: Sequence[str]) -> dict[str, Held]:
    """The znodes, in pieces that fit a pipeline; a member may still be settling."""
    deadline = time.monotonic() + READ_SECONDS
    while True:
        try:
            found: dict[str, Held] = {}
            for start in range(0, len(paths), 500):
                found.update(read_znodes((member.address, member.client_port), paths[start : start + 500]))
            return found
        except OSError as error:
            if time.monotonic() > deadline:
                raise ChaosError(f"the member at {member.host} cannot be read: {error}") from error
            time.sleep(0.1)


def wait_for_rest(ensemble: ZooKeeperEnsemble, quiet_seconds: float) -> int:
    """The zxid at which all members stand, once it has not changed for a while."""
    deadline = time.monotonic() + QUIET_PATIENCE_SECONDS
    last, since = "", time.monotonic()
    while time.monotonic() < deadline:
        zxids = {zxid_of(member) for member in ensemble.members}
        now = zxids.pop() if len(zxids) == 1 else ""
        if now != last:
            last, since = now, time.monotonic()
        if last and time.monotonic() - since > quiet_seconds:
            return int(last, 16)
        time.sleep(0.1)
    raise ChaosError(f"members do not come to rest: {[zxid_of(member) for member in ensemble.members]}")


def zxid_of(member: ZooKeeperMember) -> str:
    """As `srvr` says it; empty while the member does not serve."""
    for line in member.word("srvr").splitlines():
        if line.startswith("Zxid: "):
            return line.removeprefix("Zxid: ")
    return ""
