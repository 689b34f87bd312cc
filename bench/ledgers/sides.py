"""Both kinds of bookies on this machine: three of BookKeeper, and three of ours.

Each side has a member of zab for its metadata. BookKeeper's bookies have their default storage (`SortedLedgerStorage`)
with little memory for caches; both sides sync what they acknowledge.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.downloads.bookies import java_bookies
from tests.rigs.bookie import bookies, format_root
from tests.rigs.processes import GuardedProcess
from tests.rigs.zab_server import zab_servers

COUNT = 3
SESSION_MS = 6_000


@dataclass(frozen=True)
class Side:
    """Bookies that take entries, and where their metadata is."""

    name: str
    hosts: str
    bookies: Sequence[GuardedProcess]


@contextlib.contextmanager
def sides(directory: Path) -> Iterator[list[Side]]:
    """BookKeeper's and ours; all are killed when the block is left."""
    with contextlib.ExitStack() as stack:
        theirs = stack.enter_context(zab_servers(1, directory=directory / "theirs")).hosts
        format_root(theirs)
        real = stack.enter_context(java_bookies(directory / "java", COUNT, theirs))
        hosts = stack.enter_context(zab_servers(1, directory=directory / "ours")).hosts
        ours = stack.enter_context(bookies(directory / "zab", COUNT, hosts, {"zkTimeout": SESSION_MS}))
        yield [Side("BookKeeper", theirs, real), Side("zab", hosts, ours)]
