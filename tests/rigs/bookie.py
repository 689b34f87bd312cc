"""Runs our own bookies as processes: `python -m zab.bookie FILE`.

with bookies(directory, 3, hosts) as found:         on loopback; `hosts`: the members that keep their metadata
    found[0].kill()
"""

from __future__ import annotations

import contextlib
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import trio

from tests.rigs.processes import GuardedProcess, ended
from tests.rigs.waiting import until
from zab.client import ZabError, connect, sync
from zab.ledgers import open_store
from zab.testing.kit.ports import HOST, free_ports

ROOT: Final = "/ledgers"
PROGRAM: Final = ("-m", "zab.bookie")


class BookieProcess(GuardedProcess):
    """One bookie; its files stay in its directory when it is started again."""

    def __init__(self, number: int, directory: Path, address: tuple[str, int]) -> None:
        self.number = number
        self.directory = directory
        self.host, self.port = address
        self.bookie_id = f"{self.host}:{self.port}"
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def journal(self) -> Path:
        return self.directory.with_suffix(".log")

    def write_file(self, hosts: str, settings: Mapping[str, object]) -> Path:
        """Write its configuration, outside of its directory, which may be a small disk."""
        path = self.directory.with_suffix(".conf")
        lines = {
            "bookiePort": self.port,
            "advertisedAddress": self.host,
            "bookieId": self.bookie_id,
            "ledgerDirectories": self.directory / "files",
            "metadataServiceUri": f"zk+hierarchical://{hosts.replace(',', ';')}{ROOT}",
            **settings,
        }
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return path


def format_root(hosts: str) -> None:
    """Make the znodes that bookies and their clients need."""

    async def make() -> None:
        async with connect(hosts) as zk, open_store(zk, has_root=False) as store:
            assert await store.format(str(uuid.uuid4()))

    trio.run(make)


def registered(hosts: str) -> frozenset[str]:
    """The bookies that take entries, as the coordination service says; none if it does not answer."""
    with contextlib.suppress(ZabError), sync.connect(hosts) as zk:
        return frozenset(zk.get_children(f"{ROOT}/available")) - {"readonly"}
    return frozenset()


@contextlib.contextmanager
def bookies(
    directory: Path,
    count: int,
    hosts: str,
    settings: Mapping[str, object] = MappingProxyType({}),
    program: Sequence[str] = PROGRAM,
) -> Iterator[list[BookieProcess]]:
    """So many bookies that serve, on a formatted root; all are killed when the block is left."""
    format_root(hosts)
    found = []
    for number, port in enumerate(free_ports(count), start=1):
        bookie = BookieProcess(number, directory / f"bookie{number}", (HOST, port))
        bookie.command = [sys.executable, *program, str(bookie.write_file(hosts, settings))]
        found.append(bookie)
    with ended(found):
        for bookie in found:
            bookie.start()
        wanted = {bookie.bookie_id for bookie in found}
        until(lambda: wanted <= registered(hosts), "bookies that take entries")
        yield found
