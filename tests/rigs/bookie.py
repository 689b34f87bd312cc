"""Runs our own bookies as processes: `python -m zab.bookie FILE`.

with bookies(directory, 3, hosts) as found:         on loopback; `hosts`: the members that keep their metadata
    found[0].kill()
"""

from __future__ import annotations

import contextlib
import re
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self

import trio

from tests.rigs.processes import GuardedProcess, ended
from zab.client import ZabError, connect, sync
from zab.ledgers import open_store
from zab.testing.kit.ports import HOST, free_ports

ROOT: Final = "/ledgers"
PROGRAM: Final = ("-m", "zab.bookie")


class BookieProcess(GuardedProcess):
    """One bookie; its files stay in its directory when it is started again."""

    serves: ClassVar[re.Pattern[str]] = re.compile(r"registered as available")
    """What it prints when it has registered."""
    _former = 0

    def __init__(self, number: int, directory: Path, address: tuple[str, int]) -> None:
        self.number = number
        self.directory = directory
        self.host, self.port = address
        self.bookie_id = f"{self.host}:{self.port}"
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def journal(self) -> Path:
        return self.directory.with_suffix(".log")

    @property
    def file(self) -> Path:
        """Its configuration, outside of its directory, which may be a small disk."""
        return self.directory.with_suffix(".conf")

    def write_file(self, hosts: str, settings: Mapping[str, object]) -> Path:
        """Write its configuration. settings: further lines; a relative path is one in its directory."""
        lines = {
            "bookiePort": self.port,
            "advertisedAddress": self.host,
            "ledgerDirectories": Path("files"),
            "metadataServiceUri": metadata_uri(hosts),
            **settings,
        }
        places = {key: self.directory / value for key, value in lines.items() if isinstance(value, Path)}
        self.file.write_text("".join(f"{key}={value}\n" for key, value in {**lines, **places}.items()))
        return self.file

    def start(self, **popen: Any) -> Self:
        self._former = self._times_served()
        return super().start(**popen)

    def serve(self) -> None:
        """Start it, and wait until it serves."""
        self.start()
        self.serve_on()

    def serve_on(self) -> None:
        """Wait until it says that it has registered."""
        self.wait_until(lambda: self._times_served() > self._former)

    def _times_served(self) -> int:
        return len(self.serves.findall(self.log_text())) if self.journal.exists() else 0


def metadata_uri(hosts: str, root: str = ROOT) -> str:
    """`metadataServiceUri` of ledgers whose znodes are there. hosts: a connection string."""
    return f"zk+hierarchical://{hosts.replace(',', ';')}{root}"


def format_root(hosts: str) -> None:
    """Make the znodes that bookies and their clients need, unless they are there."""

    async def make() -> None:
        async with connect(hosts) as zk, open_store(zk, has_root=False) as store:
            await store.format(str(uuid.uuid4()))

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
    with serving(found):
        yield found


@contextlib.contextmanager
def serving(bookies: Sequence[BookieProcess]) -> Iterator[None]:
    """They serve in the block; all are killed when it is left."""
    with ended(bookies):
        for bookie in bookies:
            bookie.start()
        for bookie in bookies:
            bookie.serve_on()
        yield
