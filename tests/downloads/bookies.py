"""Bookies of the real BookKeeper and of ours as processes on loopback, whose metadata is on an ensemble of ours.

with java_bookies(directory, 3, ensemble.hosts) as bookies:
    bookies[0].kill()
    bookies[0].serve()
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from tests.downloads.bookkeeper import ALL, VERSION, java, server_jars
from tests.rigs.processes import GuardedProcess, ended
from zab.testing.kit.ports import HOST, free_ports

ROOT = "/ledgers"
"""Where the znodes of the tests' ledgers are."""
SESSION_MS = 4_000
SORTED = "org.apache.bookkeeper.bookie.SortedLedgerStorage"
ROCKS = "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage"
LINES = (
    "allowLoopback=true",
    "listeningInterface=lo",
    "logSizeLimit=16777216",
    "journalPreAllocSizeMB=1",
    "journalFlushWhenQueueEmpty=true",
    "minUsableSizeForIndexFileCreation=1048576",
    "minUsableSizeForEntryLogCreation=1048576",
    "minUsableSizeForHighPriorityWrites=1048576",
    "minorCompactionInterval=0",
    "majorCompactionInterval=0",
    "numAddWorkerThreads=1",
    "numReadWorkerThreads=2",
    "numHighPriorityWorkerThreads=2",
    "serverNumIOThreads=1",
    "allocatorPoolingPolicy=UnpooledHeap",
    "dbStorage_writeCacheMaxSizeMb=4",
    "dbStorage_readAheadCacheMaxSizeMb=4",
    "dbStorage_rocksDB_blockCacheSize=4194304",
    "nettyMaxFrameSizeBytes=5253120",
)
"""Settings with which a bookie in Java needs little memory and disk."""
ZAB_LINES = ("allowLoopback=true", "minUsableSizeForHighPriorityWrites=1048576")
"""The first one for the shell, which reads the file, too."""


def metadata_uri(hosts: str, root: str = ROOT) -> str:
    """`metadataServiceUri` of ledgers whose znodes are there. hosts: a connection string."""
    return f"zk+hierarchical://{hosts.replace(',', ';')}{root}"


class RealBookie(GuardedProcess):
    """One bookie; its files stay when it is started again. `name`: its id, which is its address."""

    serves: re.Pattern[str]
    """What it prints when it has registered."""
    _former = 0

    def __init__(self, directory: Path, lines: Sequence[str]) -> None:
        """lines: further ones of its file."""
        directory.mkdir(parents=True)
        self._directory = directory
        [self.port] = free_ports(1)
        self.name = f"{HOST}:{self.port}"
        self.file = directory / "bookie.conf"
        own = (
            f"bookiePort={self.port}",
            f"advertisedAddress={HOST}",
            f"zkTimeout={SESSION_MS}",
            f"journalDirectories={directory / 'journal'}",
            f"ledgerDirectories={directory / 'ledgers'}",
            "diskUsageThreshold=0.999",
            "diskUsageWarnThreshold=0.99",
            "gcWaitTime=1000",
            "journalMaxSizeMB=16",
            "skipListSizeLimit=4194304",
        )
        self.file.write_text("".join(f"{line}\n" for line in (*own, *lines)))

    @property
    def journal(self) -> Path:
        return self._directory / "server.log"

    @property
    def data(self) -> tuple[Path, Path]:
        """Directories of its journal and of its entries."""
        return self._directory / "journal", self._directory / "ledgers"

    def serve(self) -> None:
        """Start it, and wait until it serves."""
        self.start()
        self.serve_on()

    def serve_on(self) -> None:
        """Wait until it says that it has registered."""
        self.wait_until(lambda: self._times_served() > self._former)

    def start(self, **popen: Any) -> Self:
        self._former = self._times_served()
        return super().start(**popen)

    def _times_served(self) -> int:
        return len(self.serves.findall(self.log_text())) if self.journal.exists() else 0


class JavaBookie(RealBookie):
    """One of BookKeeper's."""

    serves = re.compile(r"Started component.*bookie-server")

    def __init__(
        self,
        directory: Path,
        hosts: str,
        *,
        settings: Sequence[str] = (),
        version: str = VERSION,
        storage: str = SORTED,
        with_recovery: bool = False,
    ) -> None:
        """hosts: connection string of its ensemble. settings: further lines of its file. with_recovery: auditor and
        worker run in the process, too."""
        uri = f"metadataServiceUri={metadata_uri(hosts)}"
        super().__init__(directory, (uri, f"ledgerStorageClass={storage}", *LINES, *settings))
        main = ["org.apache.bookkeeper.server.Main", "-c", str(self.file)]
        if with_recovery:
            main.append("--withAutoRecovery")
        self.command = java(directory, server_jars(version), *main, told=ALL)


class ZabBookie(RealBookie):
    """One of ours."""

    serves = re.compile(r"registered as available")

    def __init__(self, directory: Path, hosts: str, *, settings: Sequence[str] = ()) -> None:
        """settings: further lines of its file."""
        super().__init__(directory, (f"metadataServiceUri={metadata_uri(hosts)}", *ZAB_LINES, *settings))
        self.command = [sys.executable, "-m", "zab.bookie", str(self.file)]


@contextlib.contextmanager
def java_bookies(
    directory: Path,
    count: int,
    hosts: str,
    *,
    settings: Sequence[str] = (),
    version: str = VERSION,
    storage: str = SORTED,
    with_recovery: bool = False,
) -> Iterator[list[JavaBookie]]:
    """So many bookies that serve; all are killed when the block is left."""
    bookies = [
        JavaBookie(
            directory / f"java-{number}",
            hosts,
            settings=settings,
            version=version,
            storage=storage,
            with_recovery=with_recovery,
        )
        for number in range(1, count + 1)
    ]
    with ended(bookies):
        for bookie in bookies:
            bookie.start()
        for bookie in bookies:
            bookie.serve_on()
        yield bookies


@contextlib.contextmanager
def zab_bookies(directory: Path, count: int, hosts: str, *, settings: Sequence[str] = ()) -> Iterator[list[ZabBookie]]:
    """So many bookies of ours that serve; all are killed when the block is left."""
    bookies = [ZabBookie(directory / f"zab-{number}", hosts, settings=settings) for number in range(1, count + 1)]
    with ended(bookies):
        for bookie in bookies:
            bookie.start()
        for bookie in bookies:
            bookie.serve_on()
        yield bookies
