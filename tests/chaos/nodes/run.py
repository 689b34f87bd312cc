"""A while of nodes' lives: clients load them, faults happen, then everything is judged.

    python -m tests.chaos.brokers.run --directory D [--seconds 600] [--seed 1]
    python -m tests.chaos.ledgers.run --directory D [--seconds 600] [--seed 1]

The same faults in the same order for a seed; the processes, the disks and the scheduler are real, so a run is not
repeated exactly. Under `rigs.namespaces.IN_A_NAMESPACE`, with `--machines`, each process has a machine of its own, and
networks fail, too. Prints counts; exit code 1 if anything that clients were told does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from attrs import frozen

from tests.chaos.checker import Violation
from tests.chaos.faults import can_mount, small_disk
from tests.chaos.nodes.cluster import MEMBERS, Cluster
from tests.chaos.nodes.faults import Faults
from tests.rigs.namespaces import Namespaces, namespaces

DISK_MIB: Final = 256
SHOWN: Final = 5
"""Violations of one rule that are told."""
F = TypeVar("F", bound=Faults[Any])


@frozen(kw_only=True)
class Report:
    """What happened, and what was wrong with it. counts: of what clients did. measured: what faults cost."""

    counts: Sequence[str]
    faults: Faults[Any]
    measured: Sequence[str] = ()
    errors: dict[str, int]
    violations: list[Violation]
    text_max: int | None = None
    """Characters of a violation."""
    complaints: list[str]

    @property
    def is_good(self) -> bool:
        return not self.violations and not self.complaints

    def __str__(self) -> str:
        by_rule: dict[str, list[str]] = defaultdict(list)
        for violation in self.violations:
            by_rule[violation.rule].append(str(violation))
        happened = self.faults.happened
        lines = [
            *self.counts,
            f"{len(happened)} faults, {self.faults.kill_count} kills",
            *self.measured,
            *happened,
            *(f"{count} times {error}" for error, count in sorted(self.errors.items())),
            f"{len(self.violations)} violations",
            *(text[: self.text_max] for rule in sorted(by_rule) for text in by_rule[rule][:SHOWN]),
            f"{len(self.complaints)} complaints",
            *self.complaints,
        ]
        return "\n".join(lines)


@frozen
class Given:
    """What a run is given: the directory that is its own, how long faults happen, and which."""

    directory: Path
    seconds: float
    seed: int
    disk: Path | None
    only: Sequence[str]

    def faults(self, kind: type[F], cluster: Cluster[Any], **more: Any) -> F:
        """Faults in the order that the seed gives; `more`: what this kind of faults needs."""
        return kind(cluster=cluster, random=random.Random(self.seed), small_disk=self.disk, only=self.only, **more)


Run: TypeAlias = Callable[[Any, Given], Report]
"""Load on a cluster, faults, the last reading, the verdict."""


@contextlib.contextmanager
def _surroundings(
    cluster: type[Cluster[Any]], directory: Path, *, has_machines: bool
) -> Iterator[tuple[Namespaces | None, Path | None]]:
    """The network, and the small disk of the last node, where they can be had."""
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(namespaces(MEMBERS + cluster.count)) if has_machines else None
        place = directory / f"{cluster.noun}{cluster.count}"
        disk = place if can_mount(place) else None
        if disk is not None:
            stack.enter_context(small_disk(disk, DISK_MIB))
        yield net, disk


def main(cluster: type[Cluster[Any]], run: Run, faulty: str) -> int:
    """The program. faulty: the module of nodes with a fault."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0, help="0: any")
    parser.add_argument("--machines", action="store_true", help="each process has one of its own (`rigs.namespaces`)")
    parser.add_argument("--only", nargs="*", default=[], help="these faults alone (`faults`)")
    parser.add_argument("--faulty", help=f"{cluster.noun}s with this fault (`faulty`)")
    given = parser.parse_args()
    seed = given.seed or random.SystemRandom().randrange(1, 1_000_000)
    program = () if given.faulty is None else ("-m", faulty, given.faulty)
    print(f"seed {seed}", flush=True)
    given.directory.mkdir(parents=True, exist_ok=True)
    with (
        _surroundings(cluster, given.directory, has_machines=given.machines) as (net, disk),
        cluster.serving(given.directory, net, program) as found,
    ):
        report = run(found, Given(given.directory, given.seconds, seed, disk, given.only))
    print(report)
    return 0 if report.is_good else 1
