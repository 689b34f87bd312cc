"""The files of a member, written as a test asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from datatree.log.transaction_log import LogContents, TransactionLog
from datatree.record import Txn
from datatree.znode import CONTAINER_OWNER, ttl_owner
from tests.datatree.histories import LINEAGE, START, Author
from zab.host.storage.disk import RealDisk

TIME = 1_763_700_000_000

ACL = ((31, b"world", b"anyone"), (1, b"digest", b"u%,}:x\n"))

# What no standalone server logs, and what is hard to print.
RARE = [
    Txn(1, TIME, 0x55, 0, -10, 30000, b"", None, None),
    Txn(2, TIME, 0x55, 1, 2, 0, "/we,i}r%d/é".encode(), None, None),
    Txn(3, TIME, 0, 0, 20, 0, b"/c", None, None),
    Txn(4, TIME, 0x55, 1, 7, 3, b"/c", None, (ACL,)),
    Txn(5, TIME, 0x55, 1, 1, -1, b"/c", b"\xed\xa0\x80x\xf0\x90y\xe2\x82\xc0\xafz\xff\xf8\xf4\x90", (ACL, 0)),
    Txn(6, TIME, -0x55, -1, 16, -1, b"/zookeeper/config", b"server.1=x\nversion=100", None),
    Txn(7, TIME, 0x55, 1, 14, 0, b"", None, ()),
    Txn(8, TIME, 0x55, 1, 5, 3, b"/c", None, None),
    Txn(9, TIME, 0x55, 1, 1, 3, b"/c", None, ((), 0)),
    Txn(10, 0, 0x55, 1, 15, 3, b"/c", b"", (ACL, 0x55)),
    Txn(11, TIME + 46_800_000, 0x55, 1, -11, 0, b"", None, (b"/a,b", b"/c")),
    Txn(12, TIME, 0x55, 1, 19, 3, b"/c", b"\x00\x1b[2J", (None, CONTAINER_OWNER)),
    Txn(13, TIME, 0x55, 1, 21, 3, b"/c", b"", (None, ttl_owner(1))),
    Txn(14, 4_102_444_800_000 * 10, 0x55, 1, -1, -110, b"", None, None),
]


class Member:
    """A member's directory with a log that is being written."""

    def __init__(self, root: Path) -> None:
        self.disk = RealDisk(str(root))
        self.log = TransactionLog(self.disk, LogContents(LINEAGE, [], START, 0))
        self.author = Author()
        self.directory = root / "version-1"

    def write(self, count: int, lag: int = 1) -> None:
        self.log.append([self.author.batch(lag=lag) for _ in range(count)])

    @property
    def path(self) -> Path:
        return sorted(self.directory.glob("log.*[0-9a-f]"))[-1]


@pytest.fixture
def member(tmp_path: Path) -> Member:
    return Member(tmp_path)


def _made(directory: Path) -> RealDisk:
    directory.mkdir()
    return RealDisk(str(directory.parent), lock=False)
