"""The files of a member that has lived for a while, and damage in them."""

from __future__ import annotations

from pathlib import Path

from datatree.log.epochs import (
    MemberRecord,
    save_epochs,
    save_mark,
    save_member,
)
from datatree.log.transaction_log import LogContents, TransactionLog
from tests.datatree.histories import LINEAGE, START, Author
from zab.host.storage.disk import RealDisk

TXNS = 5
"""Batches of the history; the last is after the known high-water mark."""


def lived(directory: Path, log_directory: Path | None = None, *, clean: bool = True) -> Author:
    """The directory of member 3, which has stopped."""
    disk, author = RealDisk(str(directory), str(log_directory or directory)), Author(epoch=2)
    save_epochs(disk, 4, 2)
    save_member(disk, MemberRecord(LINEAGE, 3))
    log = TransactionLog(disk, LogContents(LINEAGE, [], START, 0))
    for batch in author.write(TXNS):
        log.append([batch])
    if clean:
        log.close()
    disk.close()
    (directory / "myid").write_text("3\n")
    return author


def below(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def damaged(directory: Path) -> None:
    author = lived(directory)
    file = directory / "version-1" / f"log.{author.batches[0].first:x}"
    data = bytearray(file.read_bytes())
    data[200] ^= 1
    file.write_bytes(data)


def cut_short(directory: Path) -> None:
    author = lived(directory)
    disk = RealDisk(str(directory))
    save_mark(disk, LINEAGE, author.last[0] + 1)
    disk.close()
