"""Clients load bookies to which faults happen, then everything is judged: see `nodes.run`.

python -m tests.chaos.ledgers.run --directory D [--seconds 600] [--seed 1]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import trio

import zab.ledgers
from tests.chaos.ledgers.checker import check
from tests.chaos.ledgers.clients import LOG, record_of
from tests.chaos.ledgers.cluster import Bookies
from tests.chaos.ledgers.faults import BookieFaults
from tests.chaos.ledgers.history import End, History, Outcome, Record
from tests.chaos.ledgers.recording import Recorded, now
from tests.chaos.nodes.run import Given, Report, main
from tests.rigs.processes import GuardedProcess, ended
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.client import connect
from zab.ledgers import LedgerError

T = TypeVar("T")
CLIENTS: Final = ("writer", "writer", "contender", "tailer", "tailer", "owner", "owner", "follower")
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


def run(found: Bookies, given: Given) -> Report:
    """Load, faults for so long, the last reading, the verdict."""
    directory = given.directory / "clients"
    directory.mkdir()
    clients = [_Client(kind, f"{kind}{number}", found.hosts, directory) for number, kind in enumerate(CLIENTS)]
    faults = given.faults(BookieFaults, found, clients=clients)
    with ended(clients):
        for client in clients:
            client.start()
        _wait_for_progress(directory)
        faults.run(given.seconds)
        _wait_for_progress(directory)
        complaints = [f"{client.command[3]} has ended" for client in clients if not client.running]
    recorded = Recorded(directory)
    finals, ends = trio.run(last_reading, found.hosts, recorded.ledgers, complaints)
    history = recorded.history(finals, ends)
    return Report(
        counts=_counts(history, len(recorded.ledgers)),
        faults=faults,
        errors=recorded.errors,
        violations=check(history),
        text_max=TEXT_MAX,
        complaints=recorded.complaints + complaints,
    )


def _counts(history: History, ledger_count: int) -> list[str]:
    ends = [append.outcome for append in history.appends]
    return [
        f"{len(ends)} appends, {ends.count(Outcome.OK)} acknowledged, {ends.count(Outcome.FAIL)} refused",
        f"{ledger_count} ledgers with {sum(map(len, history.finals.values()))} entries",
        f"{sum(len(read.records) for read in history.reads)} entries read before",
    ]


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


if __name__ == "__main__":
    sys.exit(main(Bookies, run, "tests.chaos.ledgers.faulty"))
