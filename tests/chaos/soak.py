"""Three real members under a steady load of clients that come and go, for hours: what they hold has to stay level.

    python -m tests.chaos.soak --seconds 7200        `make soak`; exit code 1 where something grows

Judged are open descriptors, threads, resident memory, the bytes of logs and snapshots, and the znodes: `level`.
The load leaves nothing: a client makes znodes, ephemerals and watches, reads, writes, syncs, deletes what it has made,
and goes; one in ten disconnects without notice, so that its session expires. Logs roll and are purged all the time.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from tests.chaos.level import RESOURCES, Sample, Trend, course, judge
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember
from zab.client import ConnectionLossError, RequestError, connect

VISITORS = 12
VISIT_OPERATIONS = 40
PAUSE_SECONDS = 0.02
SAMPLES = 400
SESSION_TIMEOUT_MS = 3000
CONFIGURATION = {"tickTime": 500, "snapCount": 2000, "preAllocSize": 256, "maxRecentBytes": 1 << 20}
"""What is kept of the newest batches fills up before anything is judged: by default it takes 8 MiB, and ten minutes."""


class SoakError(Exception):
    """The run says nothing: there was no load."""


@dataclass
class Soaked:
    """What a run has found."""

    seconds: float
    samples: list[Sample] = field(default_factory=list)
    trends: list[Trend] = field(default_factory=list)
    visits: int = 0
    operations: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def grown(self) -> list[Trend]:
        return [trend for trend in self.trends if not trend.is_level]

    def __str__(self) -> str:
        rate = self.operations / self.seconds
        done = f"{self.visits} visits, {self.operations} operations ({rate:.0f} a second)"
        lines = [
            f"{self.seconds:.0f} s, {done}, {len(self.failures)} failures, {len(self.samples)} samples",
            *map(str, self.trends),
            *(course(self.samples, resource) for resource in RESOURCES),
            *self.failures[:20],
            f"{len(self.grown)} grow" if self.grown else "all is level",
        ]
        return "\n".join(lines)


def soak(seconds: float, *, directory: Path, seed: int, programs: Sequence[Sequence[str]] = ()) -> Soaked:
    """`programs`: what each member is, where it is not the server itself."""
    found = Soaked(seconds)
    with zab_servers(3, directory=directory, configuration=CONFIGURATION, wait=not programs) as ensemble:
        for member, program in zip(ensemble.members, programs, strict=False):
            member.kill()
            member.command = [sys.executable, *program, member.command[-1]]
            member.start()
        ensemble.wait()
        over = threading.Event()
        load = threading.Thread(target=trio.run, args=(_load, ensemble.hosts, found, over, seed))
        load.start()
        try:
            _watch(ensemble, found, seconds, load)
        finally:
            over.set()
            load.join()
    found.trends = judge(found.samples)
    return found


# ------------------------------------------------------------------------------------------------------------- sampling


def _watch(ensemble: ZooKeeperEnsemble, found: Soaked, seconds: float, load: threading.Thread) -> None:
    began = time.monotonic()
    while (now := time.monotonic() - began) < seconds:
        if not load.is_alive():
            raise SoakError("the load has ended; what it has run into is said above")
        for member in ensemble.members:
            found.samples.append(Sample(member.server_id, now, figures_of(member)))
        time.sleep(max(seconds / SAMPLES, 0.2))


def figures_of(member: ZooKeeperMember) -> dict[str, float]:
    """By the names of `level.RESOURCES`."""
    proc = Path("/proc", str(member.pid))
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    words = dict(line.split("\t", 1) for line in member.word("mntr").splitlines())
    return {
        "descriptors": sum(1 for _ in (proc / "fd").iterdir()),
        "threads": int(status["Threads"]),
        "memory": int(status["VmRSS"].split()[0]) * 1024,
        "files": bytes_of_history(member.data_directory / "version-1"),
        "znodes": float(words["zk_znode_count"]),
    }


def bytes_of_history(directory: Path) -> int:
    """The size of logs and snapshots."""
    total = 0
    for path in (*directory.glob("log.*"), *directory.glob("snapshot.*")):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue  # it was purged
    return total


# ------------------------------------------------------------------------------------------------------------- the load


async def _load(hosts: str, found: Soaked, over: threading.Event, seed: int) -> None:
    async with connect(hosts) as zk:
        await zk.ensure_path("/soak")
    async with trio.open_nursery() as nursery:
        for number in range(VISITORS):
            nursery.start_soon(_visit_again_and_again, hosts, found, over, number, random.Random(seed * 100 + number))


async def _visit_again_and_again(
    hosts: str, found: Soaked, over: threading.Event, number: int, source: random.Random
) -> None:
    while not over.is_set():
        try:
            if source.random() < 0.1:
                with trio.move_on_after(source.uniform(0.1, 1.0)):
                    await _visit(hosts, found, number, source, leaves=False)
            else:
                await _visit(hosts, found, number, source, leaves=True)
        except (RequestError, ConnectionLossError) as error:
            found.failures.append(f"{type(error).__name__}: {error}")
        found.visits += 1


async def _visit(hosts: str, found: Soaked, number: int, source: random.Random, *, leaves: bool) -> None:
    """`leaves`: it deletes what it has made; else that is the work of the next one."""
    own = f"/soak/of-{number}"
    async with connect(hosts, session_timeout_ms=SESSION_TIMEOUT_MS) as zk:
        if await zk.exists(own) is None:
            await zk.create(own, b"x" * 100)
        await zk.create(f"{own}/e-", ephemeral=True, sequence=True)
        watcher = zk.watcher()
        for _ in range(VISIT_OPERATIONS):
            match source.randrange(5):
                case 0:
                    await zk.set(own, source.randbytes(source.randint(1, 2000)))
                case 1:
                    await zk.get(own, watch=watcher)
                case 2:
                    await zk.get_children("/soak", watch=watcher)
                case 3:
                    await zk.delete(await zk.create(f"{own}/s-", b"data", sequence=True))
                case 4:
                    await zk.sync("/soak")
            found.operations += 1
            await trio.sleep(PAUSE_SECONDS)
        if leaves:
            await zk.delete_all(own)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak")
    parser.add_argument("--seconds", type=float, default=7200.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="zab-soak-", ignore_cleanup_errors=True) as directory:
        found = soak(options.seconds, directory=Path(directory), seed=options.seed)
    print(found)
    return 1 if found.grown or found.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
