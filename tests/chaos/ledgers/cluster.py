"""Three members and five bookies as processes, each on a machine of its own where there are namespaces.

    with cluster(directory, net) as found:      `net`: eight machines, or None; then everything is on the loopback
        found.bookies[1].kill()

What is done to them is in `faults`; the clients are in `clients`.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from attrs import define

from tests.rigs.bookie import PROGRAM, BookieProcess, format_root, registered
from tests.rigs.namespaces import Namespaces
from tests.rigs.processes import ended
from tests.rigs.waiting import PATIENCE_SECONDS
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from zab.testing.kit.ports import free_ports

MEMBERS: Final = 3
BOOKIES: Final = 5
SESSION_SECONDS: Final = 2.0
HERE: Final = "127.0.0.1"
PORT: Final = 3181
MEMBER_LINES: Final = {"tickTime": 500, "initLimit": 40, "syncLimit": 4}
"""Two seconds of silence end a role, so that a trouble of some seconds does."""
SETTINGS: Final[Mapping[str, object]] = {
    "zkTimeout": int(SESSION_SECONDS * 1000),
    "gcWaitTime": 2_000,
    "journalMaxSizeMB": 4,
    "diskUsageThreshold": 0.99,
    "autoRecoveryDaemonEnabled": "true",
    "lostBookieRecoveryDelay": 5,
    "openLedgerRereplicationGracePeriod": 2_000,
}


class ChaosBookie(BookieProcess):
    """One bookie, and the machine that it is on."""

    machine: int = 0
    disks: int = 1
    """How many disks it had; each makes another bookie of it."""

    def configure(self, hosts: str) -> Path:
        """Name it after its disk, and write its file."""
        self.bookie_id = f"bookie{self.number}.{self.disks}"
        return self.write_file(hosts, SETTINGS)

    def lose_disk(self, hosts: str) -> None:
        """Another disk takes the place of its own; it must not run."""
        shutil.rmtree(self.directory / "files")
        self.disks += 1
        self.configure(hosts)


@define
class Cluster:
    """All of it. net: the machines of the members are 1 to 3, those of the bookies 4 to 8."""

    ensemble: ZooKeeperEnsemble
    bookies: dict[int, ChaosBookie]
    net: Namespaces | None = None

    @property
    def hosts(self) -> str:
        return self.ensemble.hosts

    def start_all(self) -> None:
        """Start whatever has ended, and wait until every bookie takes entries."""
        for process in (*self.ensemble.members, *self.bookies.values()):
            if not process.running:
                process.kill()
                process.start()
        self.ensemble.wait()
        wanted = {bookie.bookie_id for bookie in self.bookies.values()}
        deadline = time.monotonic() + PATIENCE_SECONDS
        # One that was killed is registered until its old session is over.
        while not (wanted <= registered(self.hosts) and all(map(_listens, self.bookies.values()))):
            for bookie in self.bookies.values():
                if not bookie.running:
                    # It met its old session, or a full disk.
                    bookie.kill()
                    bookie.start()
            if time.monotonic() > deadline:
                raise AssertionError(f"of {sorted(wanted)} only {sorted(registered(self.hosts))} are registered")
            time.sleep(0.2)


def _listens(bookie: ChaosBookie) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((bookie.host, bookie.port), 1.0):
        return True
    return False


@contextlib.contextmanager
def cluster(directory: Path, net: Namespaces | None, program: Sequence[str] = PROGRAM) -> Iterator[Cluster]:
    """All serve; all are killed when the block is left. `program`: what Python runs with the file of a bookie after
    it, where it is no bookie but a variant of one."""
    numbers = range(1, MEMBERS + 1)
    lines: list[dict[str, str | int]] = [{} for _ in numbers]
    if net is not None:
        servers = {f"server.{number}": f"{net.address(number)}:2888:3888" for number in numbers}
        lines = [{**servers, "clientPortAddress": net.address(number), "clientPort": 2181} for number in numbers]
        lines = [{**each, "quorum.insecure": "true"} for each in lines]
    with zab_servers(MEMBERS, directory=directory, configuration=MEMBER_LINES, each=lines, on=net) as ensemble:
        format_root(ensemble.hosts)
        bookies = {}
        for number, port in enumerate(free_ports(BOOKIES), start=1):
            machine = MEMBERS + number
            address = (HERE, port) if net is None else (net.address(machine), PORT)
            bookie = ChaosBookie(number, directory / f"bookie{number}", address)
            bookie.machine = machine
            command = [sys.executable, *program, str(bookie.configure(ensemble.hosts))]
            bookie.command = command if net is None else net.command(machine, command)
            bookies[number] = bookie
        with ended(bookies.values()):
            found = Cluster(ensemble, bookies, net)
            found.start_all()
            yield found
