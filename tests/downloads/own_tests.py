"""BookKeeper's own test classes, unmodified, with a member of ours as their ZooKeeper.

python -m tests.downloads.own_tests [CLASS ...]     prints how many tests of each class passed, and what failed

`clients/bookkeeper_tests/ZooKeeperUtil.java` replaces the class of the same name in BookKeeper's test jar: it
comes first on the class path. Each class runs in a JVM of its own, and is named without `org.apache.bookkeeper.`.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

import attrs

from tests.downloads.bookkeeper import VERSION, logging_option, own_test_jars
from tests.downloads.programs import PROGRAMS
from tests.rigs.processes import GuardedProcess, ended
from tests.rigs.quick_java import QUICK

CLASS_SECONDS = 900.0
PACKAGE = "org.apache.bookkeeper."
_MEMORY = ("-Xmx640m", "-XX:MaxDirectMemorySize=512m")
_OPENED = (
    *("java.io", "java.lang", "java.lang.reflect", "java.net", "java.nio", "java.nio.channels.spi", "java.nio.file"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.stream", "java.util.zip"),
    *("java.time", "jdk.internal.loader", "sun.net.dns", "sun.nio.ch", "sun.security.jca"),
)
CLASSES = (
    "bookie.BookieDeferredSyncTest",
    "bookie.CookieTest",
    "bookie.UpdateCookieCmdTest",
    "client.BookKeeperAdminTest",
    "client.BookKeeperCloseTest",
    "client.BookKeeperTest",
    "client.BookieRecoveryTest",
    "client.BookieWriteLedgerTest",
    "client.api.ExplicitLACWithWriteHandleAPITest",
    "client.ConcurrentV2RecoveryTest",
    "client.LedgerCloseTest",
    "client.LedgerRecoveryTest",
    "client.ListLedgersTest",
    "client.ParallelLedgerRecoveryTest",
    "client.SlowBookieTest",
    "client.TestBatchedRead",
    "client.TestDisableEnsembleChange",
    "client.TestFencing",
    "client.TestLedgerChecker",
    "client.TestLedgerFragmentReplication",
    "client.TestParallelRead",
    "client.TestPendingReadLacOp",
    "client.TestPiggybackLAC",
    "client.TestReadLastConfirmedLongPoll",
    "client.TestReadLastEntry",
    "client.TestReadTimeout",
    "client.TestSequenceRead",
    "client.TestSpeculativeRead",
    "client.TestTryReadLastConfirmed",
    "client.TestWatchEnsembleChange",
    "discover.TestZkRegistrationManager",
    "meta.GcLedgersTest",
    "meta.LedgerManagerIteratorTest",
    "meta.TestLedgerManager",
    "meta.TestLongZkLedgerIdGenerator",
    "meta.TestZkLedgerIdGenerator",
    "meta.ZkLedgerLayoutTest",
    "proto.ClientSocketDisconnectTest",
    "replication.AuditorBookieTest",
    "replication.AuditorLedgerCheckerTest",
    "replication.AuditorRollingRestartTest",
    "replication.TestLedgerUnderreplicationManager",
    "replication.TestReplicationWorker",
    "test.AsyncLedgerOpsTest",
    "test.BookieJournalRollingTest",
    "test.BookieReadWriteTest",
    "test.BookieZKExpireTest",
    "test.CloseTest",
    "test.ConditionalSetTest",
    "test.LedgerCreateDeleteTest",
    "test.LedgerDeleteTest",
    "test.ReadOnlyBookieTest",
    "util.TestZkUtils",
    "zookeeper.TestZKClientBoundExpBackoffRP",
    "zookeeper.TestZooKeeperClient",
)
"""The classes that use ZooKeeper without looking inside a bookie."""


@attrs.define
class Result:
    """What became of the tests of a class. `is_whole`: all of them have run."""

    passed: list[str] = attrs.Factory(list)
    failed: dict[str, str] = attrs.Factory(dict)
    skipped: list[str] = attrs.Factory(list)
    is_whole: bool = False

    def __str__(self) -> str:
        run = len(self.passed) + len(self.failed)
        text = (
            f"{len(self.passed)} of {run} passed, {len(self.skipped)} skipped{'' if self.is_whole else ', cut short'}"
        )
        return "".join([text, *(f"\n  {name}: {why}" for name, why in self.failed.items())])


class _Run(GuardedProcess):
    """The JVM with the tests of a class."""

    def __init__(self, directory: Path, name: str, jars: Path) -> None:
        self._directory = directory
        member = "\t".join((sys.executable, "-m", "zab.server"))
        self.command = [
            *("java", *_MEMORY, *QUICK, "-Djava.net.preferIPv4Stack=true", f"-Dzab.member={member}"),
            *(word for each in _OPENED for word in ("--add-opens", f"java.base/{each}=ALL-UNNAMED")),
            logging_option(directory),
            *("-classpath", f"{directory / 'classes'}:{jars}/*", "RunTests", PACKAGE + name),
        ]

    @property
    def journal(self) -> Path:
        return self._directory / "tests.log"


def run_class(directory: Path, name: str, seconds: float = CLASS_SECONDS) -> Result:
    """Run the tests of a class. Skips the test where the jars cannot be had."""
    jars = own_test_jars(VERSION)
    directory.mkdir(parents=True, exist_ok=True)
    sources = sorted((PROGRAMS / "bookkeeper_tests").glob("*.java"))
    compiler = ["javac", "-nowarn", "-d", directory / "classes", "-classpath", f"{jars}/*", *sources]
    subprocess.run(compiler, check=True, capture_output=True, timeout=seconds)
    run = _Run(directory, name, jars)
    with ended([run]), contextlib.suppress(subprocess.TimeoutExpired):
        run.start().wait(seconds)
    return read_result(run.log_text())


def read_result(text: str) -> Result:
    """The result in what `RunTests.java` printed."""
    found = Result()
    for line in text.splitlines():
        if not line.startswith("> "):
            continue
        kind, *words = line[2:].split("\t")
        match kind:
            case "passed":
                found.passed.append(words[0])
            case "failed":
                found.failed[words[0]] = words[1]
            case "skipped":
                found.skipped.append(words[0])
            case "end":
                found.is_whole = True
    return found


def main() -> None:
    for name in sys.argv[1:] or CLASSES:
        with tempfile.TemporaryDirectory(prefix="zab-own-tests-", ignore_cleanup_errors=True) as directory:
            print(f"{name}: {run_class(Path(directory), name)}", flush=True)


if __name__ == "__main__":
    main()
