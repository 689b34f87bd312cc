"""Three members and five bookies as processes, each on a machine of its own where there are namespaces.

    with Bookies.serving(directory, net) as found:      `net`: eight machines, or None
        found.nodes[1].kill()

What is done to them is in `faults`; the clients are in `clients`.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from attrs import define

from tests.chaos.nodes.cluster import SESSION_SECONDS, Cluster, Node
from tests.rigs.bookie import PROGRAM, BookieProcess, format_root, registered

SETTINGS: Final[Mapping[str, object]] = {
    "zkTimeout": int(SESSION_SECONDS * 1000),
    "gcWaitTime": 2_000,
    "journalMaxSizeMB": 4,
    "diskUsageThreshold": 0.99,
    "autoRecoveryDaemonEnabled": "true",
    "lostBookieRecoveryDelay": 5,
    "openLedgerRereplicationGracePeriod": 2_000,
}


class ChaosBookie(BookieProcess, Node):
    """One bookie, which is named after its disk."""

    disks: int = 1
    """How many disks it had; each makes another bookie of it."""

    def configure(self, hosts: str) -> Path:
        self.bookie_id = f"bookie{self.number}.{self.disks}"
        return self.write_file(hosts, {"bookieId": self.bookie_id, **SETTINGS})

    def lose_disk(self, hosts: str) -> None:
        """Another disk takes the place of its own; it must not run."""
        shutil.rmtree(self.directory / "files")
        self.disks += 1
        self.configure(hosts)


@define
class Bookies(Cluster[ChaosBookie]):
    """All of it. The machines of the bookies are 4 to 8."""

    noun = "bookie"
    count = 5
    port = 3181
    node = ChaosBookie
    program = PROGRAM

    def prepare(self) -> None:
        format_root(self.hosts)

    def is_whole(self) -> bool:
        """Whether every bookie takes entries. One that was killed is registered until its old session is over."""
        return self._wanted <= registered(self.hosts) and all(map(_listens, self.nodes.values()))

    def state(self) -> str:
        return f"of {sorted(self._wanted)} only {sorted(registered(self.hosts))} are registered"

    @property
    def _wanted(self) -> set[str]:
        return {bookie.bookie_id for bookie in self.nodes.values()}


def _listens(bookie: ChaosBookie) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((bookie.host, bookie.port), 1.0):
        return True
    return False
