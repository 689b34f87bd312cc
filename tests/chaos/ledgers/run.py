"""A while of bookies' lives: clients load them, faults happen, then everything is judged.

    python -m tests.chaos.ledgers.run --directory D [--seconds 600] [--seed 1]

The same faults in the same order for a seed; the processes, the disks and the scheduler are real, so a run is not
repeated exactly. Under `rigs.namespaces.IN_A_NAMESPACE`, with `--machines`, each process has a machine of its own, and
networks fail, too. Prints counts; exit code 1 if anything that clients were told does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import trio
from attrs import frozen

import zab.ledgers
from tests.chaos.checker import Violation
from tests.chaos.faults import can_mount, small_disk
from tests.chaos.ledgers.checker import check
from tests.chaos.ledgers.clients import LOG, record_of
from tests.chaos.ledgers.cluster import BOOKIES, MEMBERS, Cluster, cluster
from tests.chaos.ledgers.faults import Faults
from tests.chaos.ledgers.history import End, History, Outcome, Record
from tests.chaos.ledgers.recording import Recorded, now
from tests.rigs.namespaces import Namespaces, namespaces
from tests.rigs.processes import GuardedProcess, ended
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.client import connect
from zab.ledgers import LedgerError

T = TypeVar("T")
CLIENTS: Final = ("writer", "writer", "contender", "tailer", "tailer", "owner", "owner", "follower")
DISK_MIB: Final = 256
SHOWN: Final = 5
"""Violations of one rule that are told."""
TEXT_MAX: Final = 300
PROGRESS: Final = 50
"""So many more entries have to be acknowledged, and to be read, after everything runs again."""


class _Client(GuardedProcess):
    def __init__(self, kind: str, name: str, hosts: str, directory: Path) -> None:
        self._log = directory / f"{name}.log"
        program = (sys.executable, "-m", "tests.chaos.ledgers.clients")
        self.command = [*program, kind, name, "--hosts", hosts, "--directory", str(directory)]

    @property
    def journal(self) -> Path:
        return self._log


@frozen(kw_only=True)
class Report:
    """What happened, and what was wrong with it."""

    history: History
    violations: list[Violation]
    complaints: list[str]
    errors: dict[str, int]
    happened: list[str]
    kill_count: int
    ledger_count: int

    @property
    def is_good(self) -> bool:
        return not self.violations and not self.complaints

    def __str__(self) -> str:
        ends = [append.outcome for append in self.history.appends]
        by_rule: dict[str, list[str]] = defaultdict(list)
        for violation in self.violations:
            by_rule[violation.rule].append(str(violation))
        lines = [
            f"{len(ends)} appends, {ends.count(Outcome.OK)} acknowledged, {ends.count(Outcome.FAIL)} refused",
            f"{self.ledger_count} ledgers with {sum(map(len, self.history.finals.values()))} entries",
            f"{sum(len(read.records) for read in self.history.reads)} entries read before",
            f"{len(self.happened)} faults, {self.kill_count} kills",
            *self.happened,
            *(f"{count} times {error}" for error, count in sorted(self.errors.items())),
            f"{len(self.violations)} violations",
            *(text[:TEXT_MAX] for rule in sorted(by_rule) for text in by_rule[rule][:SHOWN]),
            f"{len(self.complaints)} complaints",
            *self.complaints,
        ]
        return "\n".join(lines)


def run(
    found: Cluster, directory: Path, *, seconds: float, seed: int, disk: Path | None, only: Sequence[str]
) -> Report:
    """Load, faults for so long, the last reading, the verdict."""
    directory.mkdir()
    clients = [_Client(kind, f"{kind}{number}", found.hosts, directory) for number, kind in enumerate(CLIENTS)]
    faults = Faults(found, clients, random.Random(seed), disk, only)
    with ended(clients):
        for client in clients:
            client.start()
        _wait_for_progress(directory)
        faults.run(seconds)
        _wait_for_progress(directory)
        complaints = [f"{client.command[3]} has ended" for client in clients if not client.running]
    recorded = Recorded(directory)
    finals, ends = trio.run(last_reading, found.hosts, recorded.ledgers, complaints)
    history = recorded.history(finals, ends)
    return Report(
        history=history,
        violations=check(history),
        complaints=recorded.complaints + complaints,
        errors=recorded.errors,
        happened=faults.happened,
        kill_count=faults.kill_count,
        ledger_count=len(recorded.ledgers),
    )


def _wait_for_progress(directory: Path) -> None:
    _wait_for(directory, lambda recorded: recorded.acknowledged_count, "acknowledged")
    _wait_for(directory, lambda recorded: recorded.read_count, "read")


def _wait_for(directory: Path, count: Callable[[Recorded], int], what: str) -> None:
    first = count(Recorded(directory))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while count(Recorded(directory)) < first + PROGRESS:
        assert time.monotonic() < deadline, f"clients stand still: no entries are {what}"
        time.sleep(0.5)


async def last_reading(
    hosts: str, ledgers: Sequence[int], complaints: list[str]
) -> tuple[dict[str, tuple[Record, ...]], list[End]]:
    """Recover and read every ledger, and the managed one: what is in them, and where they end."""
    finals: dict[str, tuple[Record, ...]] = {}
    ends = []
    async with connect(hosts) as zk, zab.ledgers.open_store(zk) as store:
        for number, ledger in enumerate(ledgers):
            start = now()
            last = await _patiently(lambda ledger=ledger: _end_of(store, ledger))
            given = {"stream": str(ledger), "ledger": ledger, "last": last}
            ends.append(End(client="last", number=number, start=start, end=now(), **given))
            finals[str(ledger)] = await _patiently(lambda ledger=ledger: _whole(store, ledger, complaints))
        async with store.open_log(LOG, create=True) as log:
            finals[LOG] = await _patiently(lambda: _read_whole(log.read(), complaints))
    return finals, ends


async def _end_of(store: zab.ledgers.LedgerStore, ledger: int) -> int:
    """Its last entry."""
    async with await store.open(ledger) as reader:
        return reader.last_confirmed


async def _whole(store: zab.ledgers.LedgerStore, ledger: int, complaints: list[str]) -> tuple[Record, ...]:
    """What is in a ledger."""
    async with await store.open(ledger) as reader:
        return await _read_whole(reader.entries(), complaints)


async def _read_whole(
    entries: zab.ledgers.Entries | zab.ledgers.LogEntries, complaints: list[str]
) -> tuple[Record, ...]:
    """What can be read, up to an entry that is lost. Raises ReadUnavailableError."""
    records = []
    try:
        async for entry in entries:
            records.append(record_of(entry))
    except zab.ledgers.ReadUnavailableError:
        raise
    except LedgerError as error:
        complaints.append(f"read at the end: {error}")
    return tuple(records)


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask again as long as the answer is that this may help: everything runs."""
    with trio.fail_after(PATIENCE_SECONDS):
        while True:
            try:
                return await ask()
            except (zab.ledgers.RecoveryAbortedError, zab.ledgers.ReadUnavailableError):
                await trio.sleep(0.2)


@contextlib.contextmanager
def _surroundings(directory: Path, *, has_machines: bool) -> Iterator[tuple[Namespaces | None, Path | None]]:
    """The network, and the small disk of the last bookie, where they can be had."""
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(namespaces(MEMBERS + BOOKIES)) if has_machines else None
        place = directory / f"bookie{BOOKIES}"
        disk = place if can_mount(place) else None
        if disk is not None:
            stack.enter_context(small_disk(disk, DISK_MIB))
        yield net, disk


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0, help="0: any")
    parser.add_argument("--machines", action="store_true", help="each process has one of its own (`rigs.namespaces`)")
    parser.add_argument("--only", nargs="*", default=[], help="these faults alone (`faults`)")
    parser.add_argument("--faulty", help="bookies with this fault (`faulty`)")
    given = parser.parse_args()
    seed = given.seed or random.SystemRandom().randrange(1, 1_000_000)
    program = ("-m", "zab.bookie") if given.faulty is None else ("-m", "tests.chaos.ledgers.faulty", given.faulty)
    print(f"seed {seed}", flush=True)
    given.directory.mkdir(parents=True, exist_ok=True)
    with (
        _surroundings(given.directory, has_machines=given.machines) as (net, disk),
        cluster(given.directory, net, program) as found,
    ):
        where = given.directory / "clients"
        report = run(found, where, seconds=given.seconds, seed=seed, disk=disk, only=given.only)
    print(report)
    return 0 if report.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
