"""A bookie of a local ensemble, for clients of BookKeeper: one process, its files below one directory.

    DIR/bookie-1/bk_server.conf         written at every start
    DIR/bookie-1/bookie.log             its journal, appended to
    DIR/bookie-1/data/…                 its journal of entries and the entries, which stay

BookKeeper's defaults are for disks of bookies alone. So the journal files are small, and the disk may be rather full.
"""

from __future__ import annotations

import http.client
from pathlib import Path

from zab.cli.servers.local_process import HOST, LocalProcess
from zab.configuration.properties import escaped

__all__ = ["ROOT", "LocalBookie", "metadata_service_uri"]

ROOT = "/ledgers"
PROBE_SECONDS = 1.0
JOURNAL_MIB = 64


def metadata_service_uri(hosts: str) -> str:
    """What clients of BookKeeper are given, from the connection string of the members."""
    return f"zk+hierarchical://{hosts.replace(',', ';')}{ROOT}"


class LocalBookie(LocalProcess):
    """One bookie: its number, port, directory and process."""

    def __init__(self, number: int, directory: Path, port: int, http_port: int) -> None:
        super().__init__(f"bookie {number}", "zab.bookie", "bookie run", directory, "bk_server.conf", "bookie.log")
        self.number = number
        self.port = port
        self._http_port = http_port

    @property
    def data_directory(self) -> Path:
        return self.directory / "data"

    @property
    def lock_file(self) -> str:
        """What a bookie locks in the directory of its data."""
        from zab.bookie.storage import LOCK_FILE

        return LOCK_FILE

    def write_file(self, hosts: str) -> None:
        """Write its settings, with the connection string of the members. Raises OSError."""
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = [
            "# Written by `zab ensemble` at every start; what is changed here is lost.",
            f"bookieId=bookie-{self.number}",
            f"bookiePort={self.port}",
            f"advertisedAddress={HOST}",
            f"ledgerDirectories={escaped(str(self.data_directory))}",
            f"metadataServiceUri={metadata_service_uri(hosts)}",
            f"journalMaxSizeMB={JOURNAL_MIB}",
            "diskUsageThreshold=0.99",
            "diskUsageLwmThreshold=0.98",
            "diskUsageWarnThreshold=0.98",
            "httpServerEnabled=true",
            f"httpServerPort={self._http_port}",
        ]
        self.config_path.write_text("\n".join(lines) + "\n", encoding="latin-1", errors="strict")

    def is_serving(self) -> bool:
        """Whether it is registered."""
        connection = http.client.HTTPConnection(HOST, self._http_port, timeout=PROBE_SECONDS)
        try:
            connection.request("GET", "/api/v1/bookie/is_ready")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
