"""Bookies of the real BookKeeper and of ours as processes on loopback, whose metadata is on an ensemble of ours.

with java_bookies(directory, 3, ensemble.hosts) as bookies:
    bookies[0].kill()
    bookies[0].serve()
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from tests.downloads.bookkeeper import ALL, VERSION, java, server_jars
from tests.rigs.bookie import BookieProcess, bookies, serving
from zab.testing.kit.ports import HOST, free_ports

SORTED: Final = "org.apache.bookkeeper.bookie.SortedLedgerStorage"
ROCKS: Final = "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage"
SETTINGS: Final = {
    "allowLoopback": "true",
    "zkTimeout": 4_000,
    "journalDirectories": Path("journal"),
    "diskUsageThreshold": 0.999,
    "diskUsageWarnThreshold": 0.99,
    "gcWaitTime": 1000,
    "journalMaxSizeMB": 16,
    "skipListSizeLimit": 4194304,
    "minUsableSizeForHighPriorityWrites": 1048576,
}
"""What both kinds have. Loopback is for the shell, which reads the file, too."""
JAVA_SETTINGS: Final = {
    "listeningInterface": "lo",
    "logSizeLimit": 16777216,
    "journalPreAllocSizeMB": 1,
    "journalFlushWhenQueueEmpty": "true",
    "minUsableSizeForIndexFileCreation": 1048576,
    "minUsableSizeForEntryLogCreation": 1048576,
    "minorCompactionInterval": 0,
    "majorCompactionInterval": 0,
    "numAddWorkerThreads": 1,
    "numReadWorkerThreads": 2,
    "numHighPriorityWorkerThreads": 2,
    "serverNumIOThreads": 1,
    "allocatorPoolingPolicy": "UnpooledHeap",
    "dbStorage_writeCacheMaxSizeMb": 4,
    "dbStorage_readAheadCacheMaxSizeMb": 4,
    "dbStorage_rocksDB_blockCacheSize": 4194304,
    "nettyMaxFrameSizeBytes": 5253120,
}
"""Settings with which a bookie in Java needs little memory and disk."""


class JavaBookie(BookieProcess):
    """One of BookKeeper's."""

    serves = re.compile(r"Started component.*bookie-server")

    def __init__(
        self, number: int, directory: Path, hosts: str, *, version: str, storage: str, with_recovery: bool
    ) -> None:
        """hosts: connection string of its ensemble. with_recovery: auditor and worker run in the process, too."""
        [port] = free_ports(1)
        super().__init__(number, directory, (HOST, port))
        self.write_file(hosts, {**SETTINGS, **JAVA_SETTINGS, "ledgerStorageClass": storage})
        main = ["org.apache.bookkeeper.server.Main", "-c", str(self.file)]
        if with_recovery:
            main.append("--withAutoRecovery")
        self.command = java(directory, server_jars(version), *main, told=ALL)


@contextlib.contextmanager
def java_bookies(
    directory: Path,
    count: int,
    hosts: str,
    *,
    version: str = VERSION,
    storage: str = SORTED,
    with_recovery: bool = False,
) -> Iterator[list[JavaBookie]]:
    """So many bookies that serve; all are killed when the block is left."""
    given = {"version": version, "storage": storage, "with_recovery": with_recovery}
    found = [JavaBookie(number, directory / f"java-{number}", hosts, **given) for number in range(1, count + 1)]
    with serving(found):
        yield found


def zab_bookies(directory: Path, count: int, hosts: str) -> AbstractContextManager[list[BookieProcess]]:
    """So many bookies of ours that serve; all are killed when the block is left."""
    return bookies(directory, count, hosts, SETTINGS)
