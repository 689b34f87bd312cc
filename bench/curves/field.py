"""Where curves are measured: both ensembles, started by one rig, and rounds that alternate between them."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.cells import Cell, Result, hosts_of, run_load, warm_up
from bench.curves.figures import SIDES, ZAB, ZOOKEEPER, Curve
from bench.machine import say
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, zookeeper

HEAP_MB = 512
MEMBERS = 3
RUN_WARMUP_SECONDS = 0.3
SPARE_DESCRIPTORS = 500
LOG_LINES = 20

Both = Mapping[str, ZooKeeperEnsemble]
Limits = Mapping[str, str | int]


class WrongAnswerError(Exception):
    """Requests of a run were answered with an error: its figure says nothing."""


@dataclass(frozen=True)
class Take:
    """One value to measure, on whichever side."""

    series: str
    x: int
    of: Callable[[ZooKeeperEnsemble], float]


@contextlib.contextmanager
def started(directory: Path, size: int, heap_mb: int, limits: Limits) -> Iterator[Both]:
    """Both, serving. limits: what ZooKeeper takes as system properties and zab in zoo.cfg, by the same names."""
    with (
        zookeeper(size, directory=directory / ZOOKEEPER, heap_mb=heap_mb, properties=limits) as theirs,
        zab_servers(size, directory=directory / ZAB, configuration=limits) as ours,
    ):
        yield {ZOOKEEPER: theirs, ZAB: ours}


@dataclass(frozen=True)
class Field:
    """`size_count`: how many sizes of a curve are measured, from the smallest on; None: all of them. `descriptors`: how
    many a process may have."""

    rounds: int
    seconds: float
    warmup_seconds: float
    size_count: int | None = None
    descriptors: int = 1024
    directory: Path | None = None
    start: Callable[[Path, int, int, Limits], contextlib.AbstractContextManager[Both]] = started
    settle: Callable[[], None] = os.sync
    """Writes that the run before left to the disk must not slow down the next one."""

    def sizes(self, *sizes: int) -> tuple[int, ...]:
        return sizes[: self.size_count]

    def crowds(self, *sizes: int) -> tuple[int, ...]:
        """The same, where each is a count of sessions that the generator has to hold."""
        possible = tuple(size for size in sizes if size + SPARE_DESCRIPTORS <= self.descriptors)
        if possible != sizes:
            say(f"a process may have {self.descriptors} descriptors: {sizes[len(possible) :]} are left out")
        return self.sizes(*possible)

    @contextlib.contextmanager
    def ensembles(
        self, size: int = MEMBERS, *, heap_mb: int = HEAP_MB, limits: Limits | None = None, warm: bool = True
    ) -> Iterator[Both]:
        """Both, with a directory of their own, warmed up with load of every kind unless told otherwise."""
        with (
            tempfile.TemporaryDirectory(prefix="curves-", dir=self.directory, ignore_cleanup_errors=True) as directory,
            self.start(Path(directory), size, heap_mb, limits or {}) as both,
        ):
            try:
                if warm:
                    self.warm_up(both)
                yield both
            except BaseException:
                _say_logs(both)
                raise

    def warm_up(self, both: Both) -> None:
        """Of each side; nothing where no time is given for it."""
        for side in SIDES if self.warmup_seconds else ():
            warm_up(both[side].hosts, self.warmup_seconds)

    def measure(self, curve: Curve, both: Both, takes: Sequence[Take]) -> None:
        """Every value in every round. The side that begins changes from round to round."""
        for turn in range(self.rounds):
            for take in takes:
                values = {}
                for side in SIDES if turn % 2 == 0 else SIDES[::-1]:
                    self.settle()
                    values[side] = take.of(both[side])
                for side in SIDES:
                    curve.add(take.series, take.x, side, values[side])
                mine, theirs = values[ZAB], values[ZOOKEEPER]
                say(
                    f"{curve.name}, round {turn + 1}: {take.series} at {take.x:,}: "
                    f"{mine:,.4g} against {theirs:,.4g}, {mine / theirs:.2f}"
                )

    def rate(self, series: str, x: int, cell: Cell, options: Sequence[str] = ()) -> Take:
        """Operations a second of the load generator."""

        def measured(ensemble: ZooKeeperEnsemble) -> float:
            hosts = hosts_of(cell, ensemble)
            warmup_seconds = min(RUN_WARMUP_SECONDS, self.seconds)
            return right(
                run_load(hosts, cell, seconds=self.seconds, warmup_seconds=warmup_seconds, options=options)
            ).per_second

        return Take(series, x, measured)


def _say_logs(both: Both) -> None:
    """What the members said last: their directories are removed."""
    for side in SIDES:
        for member in both[side].members:
            for line in member.log_text().splitlines()[-LOG_LINES:]:
                say(f"{side} {member.server_id}: {line}")


def right(result: Result) -> Result:
    """The same, if no request was refused."""
    if result.errors:
        raise WrongAnswerError(f"{result.errors} requests were answered with an error")
    return result


def restart_seconds(ensemble: ZooKeeperEnsemble) -> float:
    """How long all members, killed and started again, take until the last of them answers that it serves."""
    for member in ensemble.members:
        member.kill()
    start = time.monotonic()
    for member in ensemble.members:
        member.start()
    ensemble.wait()
    return time.monotonic() - start
