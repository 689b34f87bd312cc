"""Snapshots in their own thread: nobody waits for one, and one that cannot be written is given up alone."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from datatree.log.transaction_log import TransactionLog
from datatree.snapshot import snapshot_files
from tests.datatree.histories import Author, fresh_log, synchronized
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.member.storage.events import SnapshotFailed, SnapshotTaken, TakeSnapshot
from zab.server.snapshotter import Snapshotter
from zab.simulator.world.disk import FaultyDisk


class Posted:
    """What became of snapshots, and in which thread that was said."""

    def __init__(self) -> None:
        self._mailbox: SimpleQueue[tuple[SnapshotTaken | SnapshotFailed, threading.Thread]] = SimpleQueue()

    def __call__(self, post: SnapshotTaken | SnapshotFailed) -> None:
        self._mailbox.put((post, threading.current_thread()))

    def next(self) -> tuple[SnapshotTaken | SnapshotFailed, threading.Thread]:
        return self._mailbox.get(timeout=PATIENCE_SECONDS)


@pytest.fixture
def posted() -> Posted:
    return Posted()


@pytest.fixture
def lived() -> tuple[FaultyDisk, Author, TransactionLog]:
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk)
    log.append(author.write(2))
    return disk, author, log


@pytest.fixture
def snapshotter(lived: tuple[FaultyDisk, Author, TransactionLog], posted: Posted) -> Iterator[Snapshotter]:
    disk, _, log = lived
    found = Snapshotter(disk, log, posted)
    found.start()
    yield found
    assert found.close(PATIENCE_SECONDS)


def of_now(author: Author) -> TakeSnapshot:
    return TakeSnapshot(author.tree.applied, author.last[1], author.tree.begin_snapshot())


def test_e4_a_snapshot_is_written_in_a_thread_of_its_own(
    lived: tuple[FaultyDisk, Author, TransactionLog], snapshotter: Snapshotter, posted: Posted
) -> None:
    disk, author, _ = lived
    snapshotter.take(of_now(author))
    post, thread = posted.next()
    assert post == SnapshotTaken(author.tree.applied)
    assert thread is not threading.current_thread()
    assert snapshot_files(disk) == [author.tree.applied]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_c4_a_snapshot_that_cannot_be_written_is_given_up_alone(
    error: int, lived: tuple[FaultyDisk, Author, TransactionLog], snapshotter: Snapshotter, posted: Posted
) -> None:
    disk, author, log = lived
    disk.fail_after(2, error)
    snapshotter.take(of_now(author))
    post, _ = posted.next()
    assert isinstance(post, SnapshotFailed)
    assert author.tree.cursor is None
    log.append(author.write(1))
    snapshotter.take(of_now(author))
    assert posted.next()[0] == SnapshotTaken(author.tree.applied)
